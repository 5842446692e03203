"""Hours are closed once, in order, when all of them is in the lake; a record that comes later is told as late, once.

What runs is `services.advance` over Kafka, lake and ledger in memory. The model knows only the list of the records that
were written, when each was, and whether its transaction has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.ledger.changes import NotifiedRow
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.wire import milliseconds
from airflow_kafka_lake.services.advance import advance, close_periods, end_delivery
from airflow_kafka_lake.services.planning import plan
from airflow_kafka_lake.services.staging import ingest
from tests.world import World

pytestmark = pytest.mark.properties

HOUR, QUARTER = timedelta(hours=1), timedelta(minutes=15)
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 2


@dataclass(kw_only=True)
class Written:
    """A record as the model knows it; `seen` says whether a reader may see it: None while its transaction is open."""

    partition: int
    offset: int
    at: datetime
    seen: bool | None = True
    landed: bool = False
    told: int = 0

    @property
    def hour(self) -> int:
        """How many hours after the begin its timestamp is."""
        return (self.at - BEGUN) // HOUR


@dataclass
class Story:
    """A pipeline that runs and closes hours, its model, and Airflow, which accepts a task's events or none."""

    lateness: timedelta = timedelta(0)
    records: list[Written] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    accepted: set[tuple[str, int]] = field(default_factory=set)
    tries: int = 0
    plans: int = 0
    at_work: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.world = World(partitions=PARTITIONS)
        self.first = (BEGUN - datetime(1970, 1, 1, tzinfo=UTC)) // HOUR

    def has_ended(self, holder: str) -> bool:
        """Say of every try but the present one that it is over."""
        return holder not in {f"try-{self.tries}", *self.at_work}

    def has_accepted(self, delivery: NotifiedRow) -> bool:
        """Say which events were accepted."""
        return (delivery.pipeline, delivery.through or 0) in self.accepted

    def write(self, partition: int, age: timedelta, transaction: str | None) -> None:
        """Write a record with a timestamp that is so old."""
        at = max(BEGUN, self.world.clock.now() - age)
        given = {"transaction": transaction, "timestamp_ms": milliseconds(at)}
        (offset,) = self.world.kafka.produce("orders", partition, b"v", **given)  # type: ignore[arg-type]
        open_ = None if transaction else True
        self.records.append(Written(partition=partition, offset=offset, at=at, seen=open_))

    def end(self, partition: int, *, commit: bool) -> None:
        """End the transaction of a partition: by a marker, which Kafka finds by its time as it does a record."""
        self.world.kafka.end(f"t{partition}", commit=commit)
        if open_ := [item for item in self.records if item.partition == partition and item.seen is None]:
            marker, now = self.world.kafka.log("orders", partition).high_watermark - 1, self.world.clock.now()
            self.records.append(Written(partition=partition, offset=marker, at=now, seen=False))
        for item in open_:
            item.seen = commit

    def run(self) -> None:
        """Bring all that can be read into the lake, and move the watermarks."""
        ports = self.world.worker()
        self.plans += 1
        for wave in plan(ports, self.world.spec, Bounds(), plan_id=f"p{self.plans}").plan.waves:
            landed(ingest(ports, wave.id))
        advance(ports, "orders")
        marks = {stream.key.partition: stream.watermark for stream in self.world.ledger.streams("orders")}
        for item in self.records:
            item.landed = item.landed or (bool(item.seen) and item.offset < marks.get(item.partition, 0))

    def look(self, ends: str) -> None:
        """Close hours in a task that succeeds, or is killed before or after Airflow has accepted its events."""
        self.tries += 1
        since = self.first
        if self.world.ledger.pipeline("orders") is None:
            return
        holder = f"try-{self.tries}"
        now, newest, late = close_periods(
            self.world.worker(),
            self.world.spec,
            "hour",
            lateness=self.lateness,
            first=since,
            holder=holder,
            receiver=self,
        )
        if ends == "killed before":
            return
        events = {"orders/hour": now.stop - 1} if now else {}
        events |= {"orders/hour/late": newest} if late else {}
        self.accepted |= set(events.items())
        expected = Counter(item.hour for item in self.records if item.landed and not item.told and self.is_closed(item))
        assert {hour - since: rows for hour, rows in late.items()} == expected
        for item in self.records:
            # In time, or told just now: it is not told again.
            item.told += item.landed and not item.told and (self.is_closed(item) or item.hour + since in now)
        self.closed += [hour - since for hour in now]
        assert self.closed == list(range(len(self.closed))), "each hour once, in order"
        self.check(now)
        for subject, through in events.items() if ends == "accepted" else ():
            assert end_delivery(self.world.ledger, NotifiedRow(pipeline=subject, through=through, holder=holder), self)

    def look_as(self, holder: str) -> tuple[range, Mapping[int, int]]:
        """Close hours in a task of that name, whose events Airflow accepts; until then it goes on."""
        self.at_work.add(holder)
        given_ = {"lateness": self.lateness, "first": self.first, "holder": holder, "receiver": self}
        closed, newest, late = close_periods(self.world.worker(), self.world.spec, "hour", **given_)  # type: ignore[arg-type]
        events = {"orders/hour": closed.stop - 1} if closed else {}
        events |= {"orders/hour/late": newest} if late else {}
        self.accepted |= set(events.items())
        for subject, through in events.items():
            assert end_delivery(self.world.ledger, NotifiedRow(pipeline=subject, through=through, holder=holder), self)
        self.at_work.remove(holder)
        return closed, late

    def is_closed(self, item: Written) -> bool:
        """Return whether a record's hour was closed before."""
        return item.hour < len(self.closed)

    def check(self, now: range) -> None:
        """Nothing of an hour that is closed waits for the lake, but behind the first record of a later time."""
        for hour in now:
            end = BEGUN + (hour - self.first + 1) * HOUR + self.lateness
            assert end <= self.world.clock.now(), "it goes on"
            for partition in range(PARTITIONS):
                for item in (item for item in self.records if item.partition == partition):
                    if item.at >= end:
                        break
                    assert item.landed or item.seen is False, f"{item} was in time"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, PARTITIONS - 1), st.integers(0, 8), st.booleans()),
        st.tuples(st.just("end"), st.integers(0, PARTITIONS - 1), st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, 6)),
        st.tuples(st.just("run")),
        st.tuples(
            st.sampled_from(["look", "run and look"]), st.sampled_from(["accepted", "killed before", "killed after"])
        ),
    ),
    min_size=5,
    max_size=40,
)


def play(story: Story, made: list[tuple], *, in_order: bool) -> None:
    """Play steps; at the end everything is written, read and looked at."""
    for name, *given_ in [*made, ("end", 0, True), ("end", 1, True), ("wait", 8), ("run",), ("look", "accepted")]:
        match name:
            case "write":
                partition, age, in_transaction = given_
                story.write(
                    partition, timedelta(0) if in_order else age * QUARTER, f"t{partition}" if in_transaction else None
                )
            case "end":
                story.end(given_[0], commit=given_[1])
            case "wait":
                story.world.clock.advance(given_[0] * QUARTER)
            case "run":
                story.run()
            case "look":
                story.look(given_[0])
            case "run and look":
                story.run()
                story.look(given_[0])


@given(steps, st.integers(0, 3))
def test_hours_are_closed_once_and_late_records_are_told_once(made: list[tuple], lateness: int) -> None:
    """Whatever producers write and whenever tasks die; in the end every hour that is over is closed."""
    story = Story(lateness=lateness * QUARTER)
    play(story, made, in_order=False)
    over = (story.world.clock.now() - story.lateness - BEGUN) // HOUR
    assert len(story.closed) == over
    assert all(item.told for item in story.records if item.seen and item.hour < over)


@given(steps)
def test_no_record_is_late_where_times_are_of_the_writing(made: list[tuple]) -> None:
    """As with LogAppendTime: a closed hour is complete for ever, also behind open transactions."""
    story = Story()
    play(story, made, in_order=True)
    assert [event for event in story.accepted if event[0].endswith("late")] == []


def test_late_record_is_told_though_two_tasks_look_at_once() -> None:
    """One has seen that an hour is over; before it closes it, a record of that hour lands, and another task looks."""
    story = Story()
    story.write(0, timedelta(0), None)
    story.run()
    story.world.clock.advance(HOUR)
    asked, source = story.world.kafka.offsets_at, story.world.kafka

    def meanwhile(*given_: object) -> object:
        source.offsets_at, answers = asked, asked(*given_)  # type: ignore[method-assign, arg-type]
        story.write(0, HOUR, None)
        story.run()
        story.write(1, HOUR, None)  # so that the other task closes no hour
        with suppress(ConcurrentError):
            story.look_as("other")
        return answers

    source.offsets_at = meanwhile  # type: ignore[method-assign, assignment]
    closed, _ = story.look_as("first")
    assert len(closed) == 1
    story.run()
    _, late = story.look_as("third")
    assert sum(late.values()) == 2
