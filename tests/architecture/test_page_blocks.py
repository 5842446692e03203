"""A page's blocks are run and compared as `tests/page_blocks.py` says, so that a stale page is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import page_blocks
from tests.architecture.test_documents import ROOT

pytestmark = pytest.mark.architecture

PAGE = """
Ask, at NAME:

```
echo asked NAME
```

<!-- not run: it would fail -->
```
false
```

`asked.toml`:

```toml
[asked]
```

```sh
cat asked.toml; for i in 1 2 3; do echo "line $i"; done
```

```text
asked here
[asked]
line …
…
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with one block of each kind."""
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    return tmp_path / "page.md"


def test_blocks_run_in_one_shell_and_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """Files are written, names replaced, and what is not to be run is left out."""
    assert page_blocks.run(page, tmp_path, {}, {"NAME": "here"}, 20) == []


def test_stale_output_is_told(page: Path, tmp_path: Path) -> None:
    """Both sides are shown."""
    page.write_text(PAGE.replace("[asked]\nline", "[other]\nline"), encoding="utf-8")
    (told, _) = page_blocks.run(page, tmp_path, {}, {"NAME": "here"}, 20)
    assert "[other]" in told
    assert "line 3" in told


@pytest.mark.parametrize(
    ("said", "printed", "like"),
    [
        ("a … c\n", "a b c\n", True),
        ("a … c\n", "a b d\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\nd\n", "a\nb\nd\n", False),
        ("a.\n", "ab\n", False),
        ("title\n", "title   \n", True),
    ],
)
def test_dots_stand_for_anything_and_nothing_else_does(said: str, printed: str, like: bool) -> None:
    """Alone on a line they stand for lines."""
    assert page_blocks.is_like(said, printed) is like


def test_tutorial_shows_what_its_commands_print() -> None:
    """Its blocks are run in the nightly; each output stands below commands."""
    found = page_blocks.blocks(ROOT / "docs" / "tutorial" / "first-pipeline.md")
    assert sum(block.runs for block in found) >= 12
    assert sum(block.language == "text" for block in found) >= 6
