"""Files stay whole where several processes run the tests."""

from __future__ import annotations

from tests.lanes import DIVIDED, TESTS, TOGETHER, lane_of


def test_files_that_are_named_for_lanes_exist() -> None:
    """A file that was renamed takes its lane with it."""
    assert all((TESTS / name).exists() for name in [*DIVIDED, *TOGETHER, *TOGETHER.values()])


def test_what_shares_nothing_is_divided() -> None:
    """A large file of independent tests has several lanes, others one."""
    (divided, parts), *_ = DIVIDED.items()
    assert {lane_of(f"tests/{divided}::test_it[{n}]") for n in range(100)} == {f"{divided}-{n}" for n in range(parts)}
    assert {lane_of(f"tests/unit/test_lanes.py::test_it[{n}]") for n in range(9)} == {"unit/test_lanes.py"}
