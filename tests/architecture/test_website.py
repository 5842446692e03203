"""The site of the documents: its pages are those that the index lists, and it builds without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.test_documents import ROOT
from tests.docs_scripts import script

pytestmark = pytest.mark.architecture

LISTED = re.compile(r"```\{toctree\}\n:hidden:\n\n(?P<names>.*?)```", re.DOTALL)
INLINE = re.compile(r"\]\((?P<target>[^)\s#]+)")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The pages as the generator gets them."""
    script("website").stage(tmp_path / "source")
    return tmp_path / "source"


def _pages(source: Path) -> dict[str, str]:
    return {page.relative_to(source).as_posix(): page.read_text(encoding="utf-8") for page in source.rglob("*.md")}


def test_every_page_is_in_the_navigation_once(source: Path) -> None:
    """A page that the index does not list is not found by readers of the site."""
    pages = _pages(source)
    listed = [
        (Path(name).parent / item).as_posix() + ".md" if name == "decisions/index.md" else f"{item}.md"
        for name, text in pages.items()
        for found in LISTED.finditer(text)
        for item in found["names"].split()
    ]
    assert sorted(listed) == sorted(set(pages) - {"index.md"})


def test_no_link_leaves_the_site_but_to_another(source: Path) -> None:
    """A file of the repository is named; a page of it that the site has is linked."""
    pages = _pages(source)
    dead = [
        f"{name}: {target}"
        for name, text in pages.items()
        for target in INLINE.findall(text)
        if "://" not in target and not (source / name).parent.joinpath(target).is_file()
    ]
    assert dead == []
    assert "(`bench/arms/loader_program.py`)" in pages["explanation/comparison.md"]
    assert "](CONTRIBUTING.md)" in pages["index.md"]


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_site_builds_without_a_warning_and_a_dead_link_ends_it(tmp_path: Path) -> None:
    """`make docs` is the whole installation; it ends with an error for a link or a heading that is not there."""
    site = tmp_path / "site"
    made = subprocess.run(["make", "docs", f"SITE={site}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    assert len(list(site.rglob("*.html"))) > len(list((ROOT / "docs").rglob("*.md")))
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "docs", copy / "docs")
    for beside in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        shutil.copy(ROOT / beside, copy)
    page = copy / "docs" / "glossary.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[gone](explanation/run.md#not-there)\n", encoding="utf-8")
    program = [ROOT / "build" / "docs" / "bin" / "python", "docs/website.py", str(tmp_path / "other")]
    broken = subprocess.run(program, cwd=copy, capture_output=True, text=True, check=False)
    assert broken.returncode == 1
    assert broken.stderr.count("WARNING") == 1
    assert "not-there" in broken.stderr
