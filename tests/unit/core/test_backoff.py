"""One timer per wait: slower and slower, anew on progress (law L15)."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.triggers import Wait


def checks(until: float, progress: tuple[float, ...] = ()) -> list[float]:
    """Return when a wait that begins at 0 checks, with progress at some moments."""
    wait, found, news = Wait.begin(0.0), [], list(progress)
    while min([wait.due, *news]) <= until:
        if news and news[0] < wait.due:
            wait = wait.progressed(news.pop(0))
        else:
            found.append(wait.due)
            wait = wait.checked(wait.due)
    return found


@pytest.mark.parametrize(
    ("until", "progress", "expected"),
    [
        (2000, (), [2, 6, 14, 30, 62, 126, 254, 510, 1022, 1922]),
        (1110, (1100,), [2, 6, 14, 30, 62, 126, 254, 510, 1022, 1102, 1106]),
        (20, (1, 2.5, 4), [2, 4.5, 8.5, 16.5]),
        (4000, (), [2, 6, 14, 30, 62, 126, 254, 510, 1022, 1922, 2822, 3722]),
    ],
)
def test_checks_come_when_the_law_says(until: float, progress: tuple[float, ...], expected: list[float]) -> None:
    """Pauses double from 2 s to 15 min; progress begins anew, and makes no check later."""
    assert checks(until, progress) == expected


def test_wait_is_due_at_its_moment_and_not_before() -> None:
    """The edge belongs to the check."""
    assert not Wait.begin(10.0).is_due(11.999)
    assert Wait.begin(10.0).is_due(12.0)
