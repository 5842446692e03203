# noqa: INP001  (a script beside the documents, not a package)
"""Build the documents as a site: `make docs`, or `python docs/website.py FOLDER`.

The pages are written to be read as plain files. For the site they are copied; the sections of `index.md` become its
navigation, and a link to a file outside of the documents becomes that page, or the file's name. Every warning is an
error: a dead link, a missing heading, a page that no section lists.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
SECTION = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
OUTSIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
"""Pages beside the README that are pages of the site too, where they are there."""
TUTORIAL = {"Tutorial": "- [First pipeline](tutorial/first-pipeline.md): from an empty folder to rows in a table\n"}
"""The one kind of which the index has no section."""
SETTINGS = {
    "project": "airflow-kafka-lake",
    "html_title": "airflow-kafka-lake",
    "extensions": ["myst_parser"],
    "myst_heading_anchors": 4,
    "html_theme": "pydata_sphinx_theme",
    "html_theme_options.secondary_sidebar_items": "page-toc",
    "html_theme_options.footer_start": "",
    "html_theme_options.footer_end": "",
    "html_show_sourcelink": False,
    "smartquotes": False,  # a reader copies `--json` with its two dashes
    "html_copy_source": False,
}


def main(folder: Path) -> int:
    """Build the site into a folder; returns 1 where anything is wrong."""
    from sphinx.application import Sphinx

    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        stage(source)
        parsed = Path(place) / "parsed"
        site = Sphinx(source, None, folder, parsed, "html", SETTINGS, status=None, warningiserror=True)
        site.build(force_all=True)
    return int(site.statuscode)


def stage(source: Path) -> None:
    """Copy the documents, with the pages that the site alone has."""
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    _, *parts = SECTION.split(index)
    texts = TUTORIAL | dict(zip(parts[::2], parts[1::2], strict=True))
    records = sorted((DOCS / "decisions").glob("*.md"))
    lines = [f"- [{_title(path)}]({path.name})" for path in records]
    pages = {"decisions/index.md": _section("Decision records", "\n".join(lines))}
    pages |= {f"{_slug(title)}.md": _section(title, text) for title, text in texts.items()}
    pages["index.md"] = index + _toctree(_slug(title) for title in texts)
    pages |= {name: (ROOT / name).read_text(encoding="utf-8") for name in OUTSIDE if (ROOT / name).exists()}
    for name, text in pages.items():
        (source / name).write_text(text, encoding="utf-8")
    there = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    for page in source.rglob("*.md"):
        name = page.relative_to(source).as_posix()
        page.write_text(_pointed(page.read_text(encoding="utf-8"), name, there), encoding="utf-8")


def _section(title: str, text: str) -> str:
    """Return the page of a section: its text, and its pages as navigation."""
    names = (posixpath.normpath(match["target"].removeprefix("../")) for match in LINK.finditer(text))
    listed = dict.fromkeys("decisions/index" if name == "decisions" else name.removesuffix(".md") for name in names)
    return f"# {title}\n{text}\n{_toctree(listed)}"


def _toctree(names: Iterable[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", "", *names, "```", ""])


def _pointed(text: str, place: str, there: set[str]) -> str:
    """Return a page with every link at a page of the site; one that leaves it names the file instead."""
    folder = "" if place in OUTSIDE else posixpath.join("docs", posixpath.dirname(place))

    def pointed(match: re.Match[str]) -> str:
        if "://" in match["target"]:
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, match["target"]))
        inside = path if path in OUTSIDE else path.removeprefix("docs/") if path.startswith("docs/") else ""
        for found in (inside, f"{inside}/index.md"):
            if found in there:
                target = posixpath.relpath(found, posixpath.dirname(place) or ".")
                return f"{match['text']}({target}{match['anchor'] or ''})"
        named = match["text"].strip("![]")
        return named if path in named else f"{named} (`{path}`)"

    return LINK.sub(pointed, text)


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def _slug(title: str) -> str:
    return f"section-{re.sub(r'[^a-z]+', '-', title.lower()).strip('-')}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
