"""What a decoding job returns, and what it leaves, with a session that a test scripts: no Spark is started."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_kafka_lake.core.decoding import Decoder, Format
from airflow_kafka_lake.core.errors import RefusedError
from airflow_kafka_lake.jobs import driver
from airflow_kafka_lake.jobs.decoding import decode as decoding
from airflow_kafka_lake.jobs.decoding import redecode as module
from airflow_kafka_lake.jobs.decoding.redecode import RedecodeJob, RedecodeResult

pytestmark = pytest.mark.unit

JOB = RedecodeJob(
    id="0" * 16,
    pipeline="orders",
    table="raw.orders",
    decoders=(Decoder(format=Format.JSON, topics=("orders",), name="JSON (a INT)", schema="a INT"),),
    only_failed=False,
)
BASE, STAGED = 7, 8
REFUSED: dict[str, str] = {}


class Rows:
    """A data frame that counts so many rows, and so does what is derived from it; `answer` is its only line."""

    columns = ("value", "a")
    schema = SimpleNamespace(json=lambda: '{"fields": [{"name": "a", "type": "integer"}]}')

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


class NoRows(Rows):
    """A data frame without a line."""

    def collect(self) -> list[tuple[int, ...]]:
        return []


class Session:
    """A table with a head, but for an `empty` one; on the job's branch are `branch` rows."""

    def __init__(self, *, branch: int = 3, empty: bool = False) -> None:
        self._empty = empty
        self.said: list[str] = []
        self.conf = SimpleNamespace(set=lambda *_: None, get=lambda _, usual: usual)
        self._branch = branch

    @property
    def leaves_a_branch(self) -> bool:
        """Whether the job's branch was made and not dropped."""
        told = [text for text in self.said if "BRANCH" in text]
        return bool(told) and "DROP BRANCH" not in told[-1]

    def sql(self, text: str) -> Rows:
        self.said.append(text)
        if "refs" in text and self._empty:
            return NoRows()
        if "refs" in text:
            return Rows(answer=(BASE if "'main'" in text else STAGED,))
        if "count(*)" in text:
            return Rows(answer=(3,))
        return Rows(self._branch if f"'{JOB.branch}'" in text else 3)


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark alone can do is done elsewhere: the rows of the job are three, and decode."""
    monkeypatch.setattr(module, "_rows", lambda *_: Rows(3, (3, 3, 1, 0, 3, 2)))
    monkeypatch.setattr(
        decoding, "decode", lambda _, rows, *__: SimpleNamespace(refused=REFUSED, fitted=lambda _: rows)
    )


def redecoded(session: Session) -> RedecodeResult:
    return module.redecode(session, JOB)  # type: ignore[arg-type]


def test_branch_with_the_same_rows_is_returned() -> None:
    """With the snapshot of main that it was made from: the job does not move main."""
    session = Session()
    assert redecoded(session) == RedecodeResult(rows=3, failed=1, filled={"value": 3, "a": 2}, base=BASE, staged=STAGED)
    assert session.leaves_a_branch
    assert not [text for text in session.said if "CALL" in text or "INTO lake.raw.orders " in text]


@pytest.mark.parametrize(("same", "kept", "branch"), [(2, 3, 3), (3, 2, 3), (3, 3, 4)])
def test_branch_with_other_rows_is_dropped(monkeypatch: pytest.MonkeyPatch, same: int, kept: int, branch: int) -> None:
    """One that is changed, gone, or there twice: nothing is returned that could be published."""
    monkeypatch.setattr(module, "_rows", lambda *_: Rows(3, (kept, same, 0, 0)))
    session = Session(branch=branch)
    with pytest.raises(RefusedError, match=r"Main was not moved"):
        redecoded(session)
    assert not session.leaves_a_branch


def test_table_without_such_rows_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to publish, and no branch stays."""
    monkeypatch.setattr(module, "_rows", lambda *_: Rows(0, (0, 0, 0, 0, 0, 0)))
    session = Session()
    assert redecoded(session) == RedecodeResult(rows=0, failed=0, filled={"value": 0, "a": 0})
    assert not session.leaves_a_branch


def test_schema_that_the_table_cannot_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are there with their bytes: nothing is gained by making nulls of what may be decoded. The worker reads
    the reason as a value."""
    monkeypatch.setitem(REFUSED, "orders", "column a is string in the table")
    session = Session()
    why = r"values of orders cannot be decoded: column a is string in the table"
    with pytest.raises(RefusedError, match=why) as refused:
        module.work(session, {"job": JOB.to_json()}, lambda _: None)
    assert getattr(refused.value, driver._LEFT) == {driver.REFUSED: refused.value.message}
    assert not session.leaves_a_branch


def test_table_without_a_commit_is_left_alone() -> None:
    """It has no snapshot to read, and no branch can be made of it."""
    session = Session(empty=True)
    assert redecoded(session) == RedecodeResult(rows=0, failed=0)
    assert len(session.said) == 1, "it asks where main is, and nothing else"
