"""The count of the house counts what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.count import count, replaced_words

pytestmark = pytest.mark.architecture

MODULE = '''"""A module."""

from __future__ import annotations


class Strip:
    """A class."""

    def long(self, first: int, second: int, third: int, fourth: int, fifth: int) -> bool:
        """Compare."""
        # Why, for people.
        return first > second and third > fourth  # noqa: X


def short(first: int, second: int, *, third: int) -> int:
    return first + second + third
'''


def test_a_module_is_counted(tmp_path: Path) -> None:
    """Docstrings are no code, and a word to a linter is no comment."""
    path = tmp_path / "band.py"
    path.write_text(MODULE)
    found = count(path, frozenset({"strip", "band", "cut"}))
    assert (found.modules, found.lines, found.code, found.comments) == (1, 16, 6, 1)
    assert (found.classes, found.functions, found.long_functions, found.by_keyword) == (1, 2, 2, 1)
    assert (found.positional, found.complex) == (1, 0)
    assert (found.old_words, found.words) == (2, {"strip", "band"})


def test_the_glossary_names_the_words_that_are_replaced() -> None:
    """They are single words, in the form in which a name has them."""
    words = replaced_words()
    assert len(words) > 40
    assert all(word.isalpha() and word.islower() for word in words)
