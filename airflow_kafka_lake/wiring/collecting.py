"""How often Python looks for garbage while a command runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 20_000
"""After so many more objects the youngest are gone through; after ten times as many the older ones too."""


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Look for cycles of garbage rarely: each look goes through values that live as long as the command, and the more
    partitions there are the longer it takes. Our values have no cycles, and go as soon as nothing refers to them."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)
