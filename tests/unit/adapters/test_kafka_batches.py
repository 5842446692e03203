"""Reading Fetch answers, and scanning gaps, without a broker: real bytes, a scripted partition."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_kafka_lake.adapters.kafka_batches import (
    FetchAnswer,
    GapScan,
    KafkaBatchReader,
    Throughput,
    end_of,
    facts,
    opened,
)
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.accounting import Explanation, Fate
from airflow_kafka_lake.core.kafka.batches import (
    EARLIEST_MS,
    SPARK_EARLIEST_MS,
    SPARK_LATEST_MS,
    AbortedTransaction,
    Batch,
    Control,
)
from airflow_kafka_lake.core.offsets import RangeSet, Stream
from airflow_kafka_lake.core.spec import Isolation
from tests.kafka_bytes import marker, stamped, written

EVERYTHING = RangeSet.between(0, 10**6)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def read(data: bytes, wanted: RangeSet = EVERYTHING) -> list[Batch]:
    return [*facts(opened(data), wanted)]


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_offsets_of_every_codec_are_found(codec: int) -> None:
    """A batch that the cleaner has thinned out tells which offsets are left, however it is compressed."""
    (batch,) = read(written(100, [100, 103, 107], codec=codec))
    assert (batch.base_offset, batch.last_offset) == (100, 107)
    assert batch.present == RangeSet.of((100, 101), (103, 104), (107, 108))
    assert batch.producer_id is None


@pytest.mark.parametrize(("kind", "control"), [(0, Control.ABORT), (1, Control.COMMIT), (2, Control.OTHER)])
def test_kind_of_a_marker_is_told(kind: int, control: Control) -> None:
    """Control batches are read for what they end, wanted or not."""
    for wanted in (EVERYTHING, RangeSet()):
        (batch,) = read(marker(5, 9, kind), wanted)
        assert (batch.control, batch.producer_id, batch.is_transactional) == (control, 9, True)


@pytest.mark.parametrize("codec", range(4), ids=CODECS[:4])
def test_formats_before_transactions_are_read(codec: int) -> None:
    """A compressed message of format 1 carries its last offset outside and relative ones inside."""
    (batch,) = opened(written(40, [40, 41, 42] if codec else [40], codec=codec, magic=1))
    assert end_of(batch) == (43 if codec else 41)
    (found,) = facts([batch], EVERYTHING)
    assert found.present == RangeSet.between(40, 43 if codec else 41)
    assert (found.base_offset, found.producer_id, found.control) == (40, None, None)


def test_last_batch_that_was_cut_off_is_left_out() -> None:
    """Brokers cut the answer at its size, not between batches."""
    both = written(0, [0, 1]) + written(2, [2, 3])
    assert [batch.last_offset for batch in read(both[:-1])] == [1]
    assert read(both[:30]) == []


def test_batches_outside_the_question_are_not_decoded() -> None:
    """Only the header of an unwanted batch is believed, so that its body costs nothing, not even when damaged."""
    data = written(0, [0, 5], codec=1) + written(6, [6, 8], codec=1)
    data[70] ^= 0xFF
    first, second = read(data, RangeSet.between(7, 8))
    assert first.present == RangeSet.between(0, 6)
    assert second.present == RangeSet.of((6, 7), (8, 9))


@pytest.mark.parametrize("position", [30, 58, 75, 90])
def test_damaged_batch_is_no_evidence(position: int) -> None:
    """A wrong byte anywhere is found, and nothing is concluded from it but that no job can read the batch."""
    data = written(0, range(0, 40, 2), codec=4)
    data[position] ^= 0x55
    assert [batch.damage for batch in read(data)] == ["wrong checksum"]


def test_unknown_codec_is_damage() -> None:
    """Its checksum is right, and no reader can read its records."""
    data = written(0, range(4))
    data[22] |= 5
    assert [batch.damage for batch in read(stamped(data))] == ["unknown codec 5"]


def test_body_that_its_codec_cannot_read_is_damage() -> None:
    """The checksum of the producer is right: it compressed nonsense."""
    data = written(0, [0, 5], codec=1)
    data[75] ^= 0xFF
    (batch,) = read(stamped(data))
    assert batch.damage.startswith("its records cannot be decoded (")


def test_batch_without_a_hole_is_told_by_its_header() -> None:
    """Its header says that every offset has a record: the body is checked and not decoded, for an aborted transaction
    may have thousands of such batches."""
    data = written(0, range(4), codec=1)
    data[75] ^= 0xFF
    (batch,) = read(stamped(data))
    assert (batch.present, batch.damage) == (RangeSet.between(0, 4), "")


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_records_whose_time_no_job_can_read_are_named(codec: int) -> None:
    """A batch is opened for it only when its header says that there is one."""
    times = {3: 1_700_000_000_000_000_000, 4: 1_700_000_000_000_000, 5: SPARK_LATEST_MS + 1}
    (batch,) = read(written(0, range(8), codec=codec, times=times))
    assert batch.overflowing == RangeSet.of((3, 4), (5, 6))
    assert batch.latest_ms == times[3]
    early = {0: SPARK_EARLIEST_MS - 1, 1: -1, 2: SPARK_EARLIEST_MS, 3: EARLIEST_MS}
    (batch,) = read(written(0, range(5), codec=codec, times=early))
    assert batch.overflowing == RangeSet.of((0, 1), (3, 4))


@dataclass
class ScriptedSession:
    """A partition as a broker would answer for it."""

    batches: list[bytearray]
    aborted: tuple[AbortedTransaction, ...] = ()
    log_start: int = 0
    last_stable: int = 10**6
    high_watermark: int = 10**6
    mute: bool = False
    asked: list[tuple[int, int, int]] = field(default_factory=list)
    slept: float = 0.0

    async def fetch(self, _stream: object, offset: int, *, isolation: int, max_bytes: int) -> FetchAnswer | None:
        self.asked.append((offset, isolation, max_bytes))
        assert len(self.asked) < 10_000, "it asks for ever"
        if not self.log_start <= offset <= self.high_watermark:
            return None
        data = bytearray()
        for batch in () if self.mute and isolation == 1 else self.batches:
            (opened_batch,) = opened(batch)
            if isolation == 1 and opened_batch.base_offset >= self.last_stable:
                break
            if end_of(opened_batch) > offset:
                data += batch
        first = len(next(iter(opened(data)))._buffer) if data else 0
        return FetchAnswer(
            records=bytes(data[: max(max_bytes, first)]),
            aborted=self.aborted if isolation == 1 else (),
            log_start=self.log_start,
            last_stable=self.last_stable,
            high_watermark=self.high_watermark,
        )

    async def first_offset(self, _stream: object) -> int:
        return self.log_start

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


def scanned(
    session: Any, asked: RangeSet, isolation: Isolation = Isolation.READ_COMMITTED, rate: float | None = None
) -> list[Explanation]:
    scan = GapScan(session, Stream("orders", "id", 0), asked, isolation=isolation, throughput=Throughput(rate))
    asyncio.run(scan.run())
    return scan.found


def fates(found: list[Explanation]) -> list[tuple[str, Fate]]:
    return [(str(item.range), item.fate) for item in found]


def test_isolated_gap_is_probed_with_one_batch() -> None:
    """One offset costs one small read, and a gap far ahead another."""
    large = [written(10 * at, range(10 * at, 10 * at + 9), size=10_000) for at in range(60)]
    session = ScriptedSession([item for at, data in enumerate(large) for item in (data, marker(10 * at + 9, 1, 1))])
    found = scanned(session, RangeSet.of((9, 10), (599, 600)))
    assert fates(found) == [("9-10", Fate.CONTROL), ("599-600", Fate.CONTROL)]
    assert session.asked == [(9, 1, 1), (599, 1, 1)]


def test_what_an_offset_costs_is_measured_anywhere_in_a_log() -> None:
    """Between two gaps lie 90 offsets of 10 kB each: another small read is cheaper, also behind a million offsets."""
    begin = 10**6
    large = [written(begin + 10 * at, range(begin + 10 * at, begin + 10 * at + 10), size=10_000) for at in range(10)]
    session = ScriptedSession(large, last_stable=2 * begin, high_watermark=2 * begin)
    scanned(session, RangeSet.of((begin + 9, begin + 10), (begin + 99, begin + 100)))
    assert session.asked == [(begin + 9, 1, 1), (begin + 99, 1, 1)]


def test_every_answer_is_a_sign_of_life() -> None:
    """The way through many batches may be longer than a lease; an error of the one who is told ends it."""
    session = ScriptedSession([written(at, [at]) for at in range(4)])
    beats: list[int] = []
    asked = RangeSet.of((0, 1), (2, 4))
    scan = GapScan(
        session,
        Stream("orders", "id", 0),
        asked,
        isolation=Isolation.READ_COMMITTED,
        throughput=Throughput(None),
        heartbeat=beats.append,
    )
    asyncio.run(scan.run())
    assert len(beats) == len(session.asked) + 1 > 1
    assert sum(beats) == asked.span, "and it says how many offsets are explained"


def test_dense_gaps_are_streamed() -> None:
    """A gap every other offset is read in growing pieces, not with one read each."""
    batches = [data for at in range(0, 4000, 2) for data in (written(at, [at], producer=1), marker(at + 1, 1, 1))]
    session = ScriptedSession(batches)
    asked = RangeSet.of(*((at, at + 1) for at in range(1, 4000, 2)))
    found = scanned(session, asked)
    assert {item.fate for item in found} == {Fate.CONTROL}
    assert RangeSet(item.range for item in found) == asked
    assert len(session.asked) < 8


def test_long_gap_is_streamed() -> None:
    """A slice of many batches without a row, too."""
    session = ScriptedSession(
        [written(at, [at], producer=1) for at in range(3000)] + [marker(3000, 1, 0)],
        aborted=(AbortedTransaction(producer_id=1, first_offset=0),),
    )
    found = scanned(session, RangeSet.between(0, 3001))
    assert fates(found) == [("0-3000", Fate.ABORTED), ("3000-3001", Fate.CONTROL)]
    assert len(session.asked) < 8


def test_hole_up_to_an_open_transaction_is_bounded_by_it() -> None:
    """At isolation 1 nothing comes back below the last stable offset: one look at isolation 0 shows what bounds it."""
    session = ScriptedSession([written(0, [0]), written(5, [5], producer=1)], last_stable=5, high_watermark=6)
    assert fates(scanned(session, RangeSet.between(1, 5))) == [("1-5", Fate.COMPACTED)]


def test_silence_is_no_evidence() -> None:
    """An empty log where records should be, asked several times, explains nothing; it does not hang either."""
    for isolation in Isolation:
        session = ScriptedSession([], last_stable=5, high_watermark=6)
        assert fates(scanned(session, RangeSet.between(1, 5), isolation)) == [("1-5", Fate.UNEXPLAINED)]
        assert len(session.asked) >= 3


@pytest.mark.parametrize("start", [0, 1], ids=["at the batch's begin", "inside it"])
def test_contradiction_is_no_evidence(start: int) -> None:
    """A record at isolation 0 where isolation 1 gave nothing bounds no hole, and is not asked about for ever."""
    session = ScriptedSession([written(0, [0, 1, 2])], mute=True, last_stable=3, high_watermark=3)
    assert fates(scanned(session, RangeSet.between(start, 3))) == [(f"{start}-3", Fate.UNEXPLAINED)]


def test_offsets_beyond_the_last_stable_one_are_unexplained() -> None:
    """What an open transaction may still change is not told at isolation 1."""
    session = ScriptedSession([written(0, [0]), written(1, [1], producer=1)], last_stable=1, high_watermark=2)
    (found,) = scanned(session, RangeSet.between(1, 2))
    assert (found.fate, "readable end at 1" in found.seen) == (Fate.UNEXPLAINED, True)


def test_offsets_out_of_range_are_unexplained() -> None:
    """Below the log start and beyond the end nothing can be said; what lies between is told."""
    session = ScriptedSession([marker(at, 1, 1) for at in range(3, 6)], log_start=3, high_watermark=6, last_stable=6)
    found = scanned(session, RangeSet.of((0, 5), (8, 9)))
    assert fates(found) == [("0-3", Fate.UNEXPLAINED), ("3-5", Fate.CONTROL), ("8-9", Fate.UNEXPLAINED)]


def test_pace_is_kept() -> None:
    """At no question has more been read than the bound allows for the time until then, nor is more asked for at once
    than a second pays for; the wait for a large batch gives signs of life."""

    class Clocked(ScriptedSession):
        read, paid = 0, True

        async def fetch(self, stream: object, offset: int, *, isolation: int, max_bytes: int) -> FetchAnswer | None:
            assert self.read <= rate * self.slept + 1
            answer = await super().fetch(stream, offset, isolation=isolation, max_bytes=max_bytes)
            assert answer is not None
            self.read += len(answer.records)
            return answer

    rate, beats = 100_000, 0

    def beat(_: int) -> None:
        nonlocal beats
        beats += 1

    batches = [data for at in range(0, 2000, 2) for data in (written(at, [at], size=900), marker(at + 1, 1, 1))]
    session = Clocked([*batches, written(2000, [2000, 2002], size=3_000_000)])
    throughput = Throughput(rate, now=lambda: session.slept)
    asked = RangeSet.of(*((at + 1, at + 2) for at in range(0, 2000, 2)), (2001, 2002))
    scan = GapScan(
        session,
        Stream("orders", "id", 0),
        asked,
        isolation=Isolation.READ_COMMITTED,
        throughput=throughput,
        heartbeat=beat,
    )  # type: ignore[arg-type]
    asyncio.run(scan.run())
    assert session.slept == pytest.approx(session.read / rate)
    assert max(size for _, _, size in session.asked) == rate
    assert beats > len(session.asked) + session.read / rate / 10 - 2


def test_nothing_asked_opens_nothing() -> None:
    """No gap, no connection."""
    assert (
        KafkaBatchReader(KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"})).explain(
            [], Isolation.READ_COMMITTED
        )
        == {}
    )
