"""A fresh small world for every test."""

from __future__ import annotations

import pytest

from tests.world import World


@pytest.fixture
def world() -> World:
    """Topic `orders` with one empty partition, and a pipeline that was never planned."""
    return World()
