"""The soak itself: its rounds can be played again, its checks can fail, and a short one holds."""

from __future__ import annotations

import errno
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from tests.soak.acknowledged import Acknowledged, Record
from tests.soak.checking import Seen, Verdict, compare, unfinished
from tests.soak.faults import FAULTS
from tests.soak.faults.machine import FullDisk
from tests.soak.place import ROOMY, WAREHOUSE_TYPE

if TYPE_CHECKING:
    from tests.soak.faults.strike import Scene

pytestmark = pytest.mark.nightly  # what it is about is a tool of the tests

NAMES = tuple(FAULTS)
STREAM = ("plain", "id", 0)


@pytest.fixture
def acknowledged(tmp_path: Path) -> Iterator[Acknowledged]:
    """Ten visible records and an aborted one, with digests 100 to 109."""
    made = Acknowledged(tmp_path)
    made.note(*(_record(offset) for offset in range(10)))
    made.note_aborted(_record(10))
    yield made
    made.close()


def _record(offset: int) -> Record:
    return Record(topic="plain", topic_id="id", partition=0, offset=offset, digest=100 + offset, key=0)


def _compare(acknowledged: Acknowledged, *offsets: int, below: int | None = None, **other: int) -> Verdict:
    digests = [other.get(f"at_{offset}", 100 + offset) for offset in offsets]
    seen = {STREAM: Seen(offsets=np.array(offsets, dtype=np.int64), digests=np.array(digests, dtype=np.int64))}
    marks = None if below is None else {STREAM: below}
    return compare(seen, acknowledged, {}, below=marks, contents=below is None)


def test_what_is_exact_is_no_problem(acknowledged: Acknowledged) -> None:
    """Every record once, the aborted one not."""
    assert _compare(acknowledged, *range(10)).problems == []


@pytest.mark.parametrize(
    ("offsets", "number"),
    [
        ((0, 1, 2, 3, 4, 5, 6, 7, 8), "lost"),
        ((0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9), "double"),
        ((*range(10), 10), "aborted_visible"),
        ((*range(10), 11), "unexplained"),
    ],
)
def test_each_kind_of_damage_is_found(acknowledged: Acknowledged, offsets: tuple[int, ...], number: str) -> None:
    """One record that is lost, double, aborted or of no producer shows in its number and in words."""
    verdict = _compare(acknowledged, *offsets)
    assert getattr(verdict, number) == 1
    assert len(verdict.problems) == 1


def test_beside_running_producers_only_what_is_below_the_watermark_must_be_there(acknowledged: Acknowledged) -> None:
    """What is not committed yet is not missing; what is committed and gone is."""
    assert _compare(acknowledged, *range(5), below=5).problems == []
    assert _compare(acknowledged, *range(4), below=5).lost == 1


def test_another_content_is_found(acknowledged: Acknowledged) -> None:
    """The right offset with wrong bytes is no record of ours."""
    assert _compare(acknowledged, *range(10), at_4=7).different == 1


def test_skipped_offsets_are_counted_and_not_missed(acknowledged: Acknowledged) -> None:
    """A person decided so."""
    rows = Seen(offsets=np.arange(7, dtype=np.int64), digests=np.arange(100, 107, dtype=np.int64))
    verdict = compare({STREAM: rows}, acknowledged, {STREAM: [(7, 10)]}, below=None, contents=True)
    assert (verdict.problems, verdict.skipped) == ([], 3)


def test_a_transaction_without_an_answer_is_there_as_a_whole_or_not_at_all(acknowledged: Acknowledged) -> None:
    """Half of it is a problem."""
    acknowledged.note_uncertain(_record(12), _record(13))
    assert _compare(acknowledged, *range(10)).problems == []
    assert _compare(acknowledged, *range(10), 12, 13).problems == []
    assert len(_compare(acknowledged, *range(10), 12).problems) == 1


def test_a_stream_that_stays_behind_is_stuck() -> None:
    """After healing every watermark is at the end of what is stable."""
    stream = {"topic": "plain", "partition": 0, "bounds_state": "observed", "last_stable": 9, "hold": None}
    more = {"watermark": 9, "blocked_by": []}
    assert unfinished({"stream": {"streams": [stream | more]}}) == []
    assert len(unfinished({"stream": {"streams": [stream | more | {"watermark": 8}]}})) == 1
    assert len(unfinished({"stream": {"streams": [stream | more | {"hold": 9}]}})) == 1


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Path]:
    """An empty file system of its own."""
    (tmp_path / "warehouse").mkdir()
    words = ["mount", "-t", WAREHOUSE_TYPE, "-o", f"size={ROOMY}", "kafka-lake-test", str(tmp_path / "warehouse")]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this process may not mount a file system")
    yield tmp_path / "warehouse"
    subprocess.run(["umount", "--lazy", str(tmp_path / "warehouse")], check=True)


def test_a_full_disk_is_full_and_has_room_again(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that nothing was written to yet, and again and again."""
    place = SimpleNamespace(mounted=True, home=warehouse.parent)
    fault = FullDisk(cast("Scene", SimpleNamespace(place=place)), random.Random(1))
    full = []

    def write(_: float) -> None:
        with pytest.raises(OSError, match="No space left") as refused:
            (warehouse / "more").write_bytes(bytes(100_000))
        full.append(refused.value.errno)

    monkeypatch.setattr(fault, "pause", write)
    for _ in range(3):
        (warehouse / "more").unlink(missing_ok=True)
        assert fault.strike()
        fault.heal()
        (warehouse / f"file{len(full)}").write_bytes(bytes(200_000))
    assert full == [errno.ENOSPC] * 3


@pytest.mark.timeout(840)
def test_a_short_soak_holds(service: None, spark_jars: list[Path], tmp_path: Path) -> None:
    """Half a minute of three faults and some thousand records, the way `make soak` runs them."""
    report = tmp_path / "report.json"
    script = Path(__file__).with_name("soak.py")
    words = ["--minutes", "0.4", "--records", "2000", "--seed", "1", "--faults", "worker-kill,catalog-cut,driver-kill"]
    done = subprocess.run(
        [sys.executable, str(script), *words, "--report", str(report)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    numbers = json.loads(report.read_text())["numbers"]
    assert numbers["records"] >= 2000
    assert [numbers[name] for name in ("lost", "double", "different", "unexplained", "stuck")] == [0] * 5
