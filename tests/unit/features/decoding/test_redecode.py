"""When a decoding job moves main, and what it leaves, with a session that a test scripts: no Spark is started."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_kafka_lake.core.decoding import Decoder, Format
from airflow_kafka_lake.core.errors import ConcurrentError, RefusedError
from airflow_kafka_lake.features.decoding.job import redecode as module
from airflow_kafka_lake.features.decoding.job.redecoding import Redecoded, RedecodeJob

pytestmark = pytest.mark.unit

JOB = RedecodeJob(
    id="0" * 16,
    pipeline="orders",
    table="raw.orders",
    decoders=(Decoder(format=Format.JSON, topics=("orders",), name="JSON (a INT)", schema="a INT"),),
    only_failed=False,
)
BASE = 7


class Rows:
    """A data frame that counts so many rows, and so does what is derived from it; `answer` is its only line."""

    columns = ("value", "a")

    def __init__(self, count: int = 3, answer: tuple[int, ...] = ()) -> None:
        self._count, self._answer = count, answer

    def select(self, *_: str) -> Rows:
        return self

    def selectExpr(self, *_: str) -> Rows:  # noqa: N802 - Spark's name
        return self

    def join(self, _: Rows, *, on: list[str], how: str) -> Rows:
        assert (tuple(on), how) == (module.ROW, "left")
        return self

    def createOrReplaceTempView(self, _: str) -> None:  # noqa: N802 - Spark's name
        return None

    def count(self) -> int:
        return self._count

    def collect(self) -> list[tuple[int, ...]]:
        return [self._answer]


class Session:
    """A table with a head; `main` are the heads that a look finds, `stands` whether main can be moved forward, and
    `branch` how many rows there are on the job's."""

    def __init__(self, *, main: tuple[int, ...] = (BASE,), stands: bool = True, branch: int = 3) -> None:
        self.said: list[str] = []
        self.conf = SimpleNamespace(set=lambda *_: None)
        self._main, self._stands, self._branch = list(main), stands, branch

    @property
    def moved(self) -> bool:
        """Whether main was to be moved."""
        return any("fast_forward" in text for text in self.said)

    @property
    def tidy(self) -> bool:
        """Whether the job's branch was dropped last of all."""
        return "DROP BRANCH" in [text for text in self.said if "refs" not in text][-1]

    def sql(self, text: str) -> Rows:
        self.said.append(text)
        if "refs" in text:
            return Rows(answer=(self._main.pop(0) if len(self._main) > 1 else self._main[0],))
        if "fast_forward" in text and not self._stands:
            raise ValueError("main is no ancestor")
        if "count(*)" in text:
            return Rows(answer=(3,))
        return Rows(self._branch if f"'{JOB.branch}'" in text else 3)


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark alone can do is done elsewhere: the rows of the job are three, and decode."""
    monkeypatch.setattr(module, "_rows", lambda *_: Rows(3, (3, 3, 1)))
    monkeypatch.setattr(module, "with_decoded", lambda _, rows, *__: rows)


def redecoded(session: Session) -> Redecoded:
    return module.redecode(session, JOB)  # type: ignore[arg-type]


def test_main_is_moved_to_rows_that_are_the_same() -> None:
    """And the branch goes, whose id nobody else has."""
    session = Session()
    assert redecoded(session) == Redecoded(rows=3, failed=1)
    assert (session.moved, session.tidy) == (True, True)


@pytest.mark.parametrize(("same", "kept", "branch"), [(2, 3, 3), (3, 2, 3), (3, 3, 4)])
def test_main_stays_where_the_branch_has_other_rows(
    monkeypatch: pytest.MonkeyPatch, same: int, kept: int, branch: int
) -> None:
    """One that is changed, gone, or there twice: main is not moved, and the branch goes."""
    monkeypatch.setattr(module, "_rows", lambda *_: Rows(3, (kept, same, 0)))
    session = Session(branch=branch)
    with pytest.raises(RefusedError, match=r"Main was not moved"):
        redecoded(session)
    assert (session.moved, session.tidy) == (False, True)


def test_main_that_moved_meanwhile_is_left_alone() -> None:
    """A wave that was published in between is not lost: the person repeats it."""
    session = Session(main=(BASE, BASE + 1), stands=False)
    with pytest.raises(ConcurrentError, match="another writer committed"):
        redecoded(session)
    assert session.tidy
    with pytest.raises(ValueError, match="no ancestor"):
        redecoded(Session(stands=False))


def test_table_without_such_rows_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No commit is made that changes nothing."""
    monkeypatch.setattr(module, "_rows", lambda *_: Rows(0, (0, 0, 0)))
    session = Session()
    assert redecoded(session) == Redecoded(rows=0, failed=0)
    assert (session.moved, session.tidy) == (False, True)
