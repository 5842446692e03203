"""What a person does with whatever is stuck: exactly what the messages say."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta

from airflow_kafka_lake.core.errors import GateClosedError, KafkaLakeError, LedgerBehindError, OnlyCopyError
from airflow_kafka_lake.core.ledger.records import RangeRecord, SkipResult, StreamRecord
from airflow_kafka_lake.core.ledger.waves import UNFINISHED, UNRESOLVED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, Stream
from airflow_kafka_lake.core.ordering.segments import Graph, is_drained
from airflow_kafka_lake.core.planning.plan import Plan, PlanBlock
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import decisions
from tests.world import World

ROUNDS = 12
NAMED_RANGE = re.compile(r"--from (\d+) --to (\d+)")
PROPOSED_SKIP = re.compile(r"^skip (\d+)-(\d+):")
OUT_OF_ORDER = re.compile(r"--topic (\S+) --topic-id=(\S+) --partition (\d+) --from (\d+) --to (\d+) .*--acknowledge")
GIVEN_UP = re.compile(r"kafka-lake cancel (\S+) --drop-staged")
OLD_GENERATION = re.compile(r"--topic-id[ =](\S+) --partition (\d+)")


def lead_out(world: World, look: Callable[[], None], rebuild: Callable[[], None]) -> None:
    """Run, and do what messages say, until nothing is left to do; then hold everything against the truth."""
    stuck: object = "a rebuild in every round"
    for number in range(ROUNDS):
        world.lease_ends()
        try:
            done = world.run()
        except LedgerBehindError:
            rebuild()
            continue
        look()
        _check_nothing_waits_in_vain(world, done.problems)
        if not (done.exit_code or world.ledger.ranges(pipeline=world.spec.name, states=UNRESOLVED)):
            break
        stuck = (done.held, done.problems, done.plan and done.plan.layout_change.in_grace)
        _wait_for_layouts(world, done.plan)
        _decide(world, done.plan.blocked if done.plan else (), release=number % 2 == 0)
        _acknowledge(world, [problem.message for problem in done.problems])
        _give_up(world, [problem.message for problem in done.problems])
        look()
    else:
        raise AssertionError(f"no way out: {stuck}")
    world.check()
    streams = world.ledger.streams(world.spec.name)
    there = {(i.topic, i.topic_id, p) for i in world.kafka.describe(world.spec.topics) for p in range(i.partitions)}
    assert there <= {stream.key for stream in streams}, f"never planned: {there - {stream.key for stream in streams}}"
    for stream in streams:
        if stream.key.topic_id == world.topic_ids[stream.key.topic]:
            end = world.kafka.log(stream.key.topic, stream.key.partition).last_stable
            assert stream.watermark == end, f"{stream.key}: the watermark is {stream.watermark}, the log ends at {end}"


def _check_nothing_waits_in_vain(world: World, problems: Sequence[KafkaLakeError]) -> None:
    """After a run that nothing disturbed, what is left of a wave waits for an ancestor that is not drained.

    A range of the same wave that is on hold is no ancestor here, and must keep no other one waiting.
    """
    graph = Graph(world.ledger.segments(world.spec.name))
    known = {stream.key: stream for stream in world.ledger.streams(world.spec.name)}
    refused = {error.facts.get("wave") for error in problems if not isinstance(error, GateClosedError)}
    for wave in world.ledger.waves(world.spec.name, UNFINISHED):
        left = [item for item in world.ledger.ranges(wave=wave.id) if item.state is RangeState.PLANNED]
        segments = {segment for item in left if (segment := graph.at(item.stream, item.range.start))}
        waits = [key for found in segments for key in graph.ancestors(found.key) if not is_drained(graph[key], known)]
        assert waits or not left or wave.id in refused, f"wave {wave.id} waits for nothing: {left}"


def pass_unread(ports: Ports, stream: StreamRecord, slice_: OffsetRange) -> SkipResult:
    """Skip a slice of a stream, and give up what is staged beside it where that is asked."""

    def skip(*, drop_staged: bool) -> SkipResult:
        return decisions.skip(
            ports, "orders", stream, slice_, reason="gone", acknowledge_order=False, drop_staged=drop_staged
        )

    try:
        return skip(drop_staged=False)
    except OnlyCopyError:
        return skip(drop_staged=True)


def _wait_for_layouts(world: World, plan: Plan | None) -> None:
    for item in plan.layout_change.in_grace if plan else ():
        world.clock.advance(max(item.until - world.clock.now(), timedelta()))


def _decide(world: World, blocked: Sequence[PlanBlock], *, release: bool) -> None:
    """Try everything once more; what is held again is passed as its reason proposes, and the rest tried once more."""
    ports = world.worker()
    streams = {stream.key: stream for stream in world.ledger.streams(world.spec.name)}
    stuck = (RangeState.HELD, RangeState.CANCELLED)
    for item in world.ledger.ranges(pipeline=world.spec.name, states=stuck):
        if release or item.state is RangeState.CANCELLED:
            decisions.release(ports, item.id, None)
        else:
            pass_unread(ports, streams[item.stream], _proposed(item))
    for place in blocked:
        if found := NAMED_RANGE.search(place.reason):
            old = OLD_GENERATION.search(place.reason)
            topic_id, partition = (old[1], int(old[2])) if old else (world.topic_ids[place.topic], place.partition)
            assert partition is not None
            key = Stream(place.topic, topic_id, partition)
            pass_unread(ports, streams[key], OffsetRange(int(found[1]), int(found[2])))


def _acknowledge(world: World, messages: Sequence[str]) -> None:
    """Let order continue over what was passed unread, where a wave that waits for its turn says so."""
    for found in filter(None, map(OUT_OF_ORDER.search, messages)):
        key, slice_ = Stream(found[1], found[2], int(found[3])), OffsetRange(int(found[4]), int(found[5]))
        stream = next(item for item in world.ledger.streams(world.spec.name) if item.key == key)
        decisions.skip(world.worker(), "orders", stream, slice_, reason="gone", acknowledge_order=True)


def _give_up(world: World, messages: Sequence[str]) -> None:
    """Give up what is staged, exists nowhere else, and cannot be published; unless all of it was skipped just now."""
    for found in filter(None, map(GIVEN_UP.search, messages)):
        if any(item.state is RangeState.PLANNED for item in world.ledger.ranges(wave=found[1])):
            decisions.cancel(world.worker(), found[1], "given up", drop_staged=True)


def _proposed(item: RangeRecord) -> OffsetRange:
    """Return the slice that a hold names, else all of the range: its topic is gone."""
    found = PROPOSED_SKIP.match(item.reason or "")
    return OffsetRange(int(found[1]), int(found[2])) if found else item.range
