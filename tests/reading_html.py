"""What a page says, read by a parser: elements in order, with their text; a page that is not well formed fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Element:
    """One element with what is in it."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    parts: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """Give all elements in it, at any depth."""
        for part in self.parts:
            if isinstance(part, Element):
                yield part
                yield from part

    @property
    def text(self) -> str:
        """All text in it, with single spaces."""
        return " ".join("".join(self._words()).split())

    def _words(self) -> Iterator[str]:
        for part in self.parts:
            yield part if isinstance(part, str) else f" {part.text} "

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Return elements of a tag whose attributes have these words; `data_key` is `data-key`."""
        return [item for item in self if item.tag == tag and item.has(**attributes)]

    def one(self, tag: str, **attributes: str) -> Element:
        """Return the only such element."""
        (found,) = self.all(tag, **attributes)
        return found

    def has(self, **attributes: str) -> bool:
        """Return whether the attributes are, or have among their words, these."""
        given = (
            (self.attributes.get(name.rstrip("_").replace("_", "-")) or "", value) for name, value in attributes.items()
        )
        return all(have == value or value in have.split() for have, value in given)


class _Parser(HTMLParser):
    VOID = frozenset({"meta", "link", "input", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("#document")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        element = Element(tag, dict(attrs))
        self.open[-1].parts.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].parts.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def read(html: str) -> Element:
    """Return a page as elements."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    assert parser.open == [parser.root]
    return parser.root


def handlers(page: Element) -> set[str]:
    """Return the attributes that run or load something."""
    return {name for item in page for name in item.attributes if name.startswith("on") or name in {"style", "srcdoc"}}


def ids(page: Element) -> list[str]:
    """Return all ids."""
    return [str(item.attributes["id"]) for item in page if "id" in item.attributes]
