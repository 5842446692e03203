"""HTML from parts, in which text cannot become markup: names and reasons come from strangers."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is HTML already; everything else is escaped before it becomes a part of some."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return a value as HTML text; characters that a reader cannot see are shown by their codes."""
    if isinstance(value, Markup):
        return value
    return Markup(escape("".join(map(_visible, str(value))), quote=True))


def tag(name: str, *parts: object, **attributes: object) -> Markup:
    """Return an element; attributes that are None are left out, `class_` stands for `class`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{joined(*parts)}</{name}>")


def joined(*parts: object) -> Markup:
    """Return parts one after the other."""
    return Markup("".join(map(text, parts)))


def _visible(character: str) -> str:
    return character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
