"""Status, segments and waves: the progress of a pipeline, and its blockers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import KafkaLakeError, UnknownTopicError
from airflow_kafka_lake.core.kafka.losses import believed, not_cut
from airflow_kafka_lake.core.kafka.snapshots import (
    LEFT_OUT,
    Age,
    PartitionSnapshot,
    Snapshot,
    TopicDescription,
    Unread,
    searches,
    waiting_for_stable,
)
from airflow_kafka_lake.core.ledger.guards import pause_of
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import (
    DECODE,
    OVER,
    TROUBLE,
    UNFINISHED,
    UNRESOLVED,
    AttemptOutcome,
    RangeState,
)
from airflow_kafka_lake.core.offsets import SliceSet, grouped, merged
from airflow_kafka_lake.core.ordering.segments import Graph, SegmentOrder
from airflow_kafka_lake.core.planning.selection import EVERYTHING, StreamScope
from airflow_kafka_lake.core.reports.status import Overview, PipelineReport, WaveReport
from airflow_kafka_lake.core.reports.streams import (
    KafkaState,
    LedgerState,
    PipelineFacts,
    StreamStatus,
    UnknownState,
    first_unread,
    new_partitions,
)
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.ports import Clock, LedgerReader, OffsetSource, Ports
from airflow_kafka_lake.services.identity import existing_topics
from airflow_kafka_lake.services.planning import open_transactions


def status(
    ports: Ports,
    spec: PipelineSpec,
    *,
    topic: str | None = None,
    partitions: Sequence[int] | None = None,
    show: Callable[[StreamStatus], bool] = lambda _: True,
    most: int | None = None,
) -> PipelineReport:
    """Return how far a pipeline is; an unreachable broker makes the bounds unknown and nothing else.

    `show` narrows the streams that are listed, by their state, and `most` how many are, the worst first. Raises
    UnknownSubjectError for a topic or a partition of which the pipeline has no stream.
    """
    own = _without_dead(ports, recorded(ports.ledger, spec))
    chosen = StreamScope(topic=topic, partitions=None if partitions is None else frozenset(partitions))
    chosen.require(spec.name, own.streams)
    seen = look(ports.source, ports.clock, [own], own.spec.end.group or own.spec.start.group, chosen=chosen)
    facts = PipelineFacts(at=ports.clock.now(), recorded=own, seen=seen, chosen=chosen)
    return PipelineReport.of(facts, show=show, most=most)


def _without_dead(ports: Ports, own: LedgerState) -> LedgerState:
    """Count waves of dead processes of this host as interrupted: the ledger knows it when their leases end."""
    dead = [wave.lease_live and wave.holder and ports.processes.dead(wave.holder) for wave in own.waves]
    waves = (replace(wave, lease_live=False) if gone else wave for wave, gone in zip(own.waves, dead, strict=True))
    return replace(own, waves=tuple(waves)) if any(dead) else own


def overview(
    ledger: LedgerReader,
    clock: Clock,
    source_of: Callable[[PipelineSpec], OffsetSource | str],
    *,
    names: Collection[str] | None = None,
) -> Overview:
    """Return how far all pipelines are that the ledger knows, or those of `names`, worst first.

    `source_of` gives the Kafka of a pipeline, or why there is none; pipelines of one connection are observed together,
    and connections side by side, so that one that does not answer keeps no other waiting.
    """
    asked = ledger.pipelines() if names is None else names
    known = [recorded(ledger, record.spec) for name in asked if (record := ledger.pipeline(name))]
    by_connection = grouped((own.spec.kafka_connection, own) for own in known)
    sources = {name: source_of(several[0].spec) for name, several in by_connection.items()}
    with ThreadPoolExecutor(max_workers=max(1, len(sources))) as pool:
        found = pool.map(lambda name: look(sources[name], clock, by_connection[name], None), by_connection)
        seen = dict(zip(by_connection, found, strict=True))
    at = clock.now()
    facts = (PipelineFacts(at=at, recorded=own, seen=seen[own.spec.kafka_connection]) for own in known)
    return Overview.of(at, map(PipelineReport.of, facts))


def recorded(ledger: LedgerReader, spec: PipelineSpec) -> LedgerState:
    """Return the ledger's state of a pipeline at one moment, in a fixed number of statements.

    One of them reads all waves there ever were, each with its rows: their counts, the rows that have landed and the
    newest of them are made of these (0.2 s of a processor for 10,000 waves of 20 ranges).
    """
    return ledger.at_once(partial(_recorded, spec=spec))


def _recorded(ledger: LedgerReader, spec: PipelineSpec) -> LedgerState:
    waves, record = ledger.waves(spec.name), ledger.pipeline(spec.name)
    tables = record.tables.keys() if record else ()
    told = ledger.events(spec.name, kind=DECODE, limit=3, newest=True)[::-1]
    trouble = ledger.events(spec.name, kind=TROUBLE, limit=1, newest=True)
    repaired = next((number for number, line in enumerate(told) if line.subject in tables), len(told))
    return LedgerState(
        spec=spec,
        tables=tables,
        pauses=record.pauses if record else (),
        streams=ledger.streams(spec.name),
        unresolved=ledger.ranges(pipeline=spec.name, states=UNRESOLVED),
        skipped=ledger.ranges(pipeline=spec.name, states=(RangeState.SKIPPED,)),
        waves=waves,
        attempts=ledger.attempts(pipeline=spec.name) if any(w.state in UNFINISHED and w.fence for w in waves) else (),
        segments=ledger.segments(spec.name),
        requests=ledger.requests() if any(wave.state in UNFINISHED for wave in waves) else (),
        trouble=trouble[0] if trouble and trouble[0].subject != OVER else None,
        decoding=told[: repaired + 1],  # decoding the rows again has its own line, of what is there now
    )


def segments(ledger: LedgerReader, spec: PipelineSpec) -> SegmentOrder:
    """Return every segment with its parents and its blockers, at one moment."""
    return ledger.at_once(partial(order_of, pipeline=spec.name))


def order_of(ledger: LedgerReader, pipeline: str) -> SegmentOrder:
    """Return the same, read by read."""
    unresolved = ledger.ranges(pipeline=pipeline, states=UNRESOLVED)
    return SegmentOrder(pipeline, Graph(ledger.segments(pipeline)), ledger.streams(pipeline), unresolved)


def look(
    source: OffsetSource | str,
    clock: Clock,
    pipelines: Sequence[LedgerState],
    group: str | None,
    *,
    chosen: StreamScope = EVERYTHING,
) -> KafkaState:
    """Return Kafka's state of the topics of some pipelines, also of topics that no plan has seen, the transactions that
    they wait for, and the age of their unread records."""
    if isinstance(source, str):
        return KafkaState(snapshot=source, ages_state=UnknownState(source))
    try:
        asked = {topic for own in pipelines for topic in _topics(source, own) if chosen.topic in (None, topic)}
    except KafkaLakeError as error:
        return KafkaState(snapshot=error.message, ages_state=UnknownState(error.message))
    kafka = observe(source, sorted(asked), group)
    if isinstance(kafka.snapshot, str):
        return replace(kafka, ages_state=UnknownState(kafka.snapshot))
    known = [item for own in pipelines for item in own.streams]  # each may have planned at another time
    epochs = merged(max, ((item.key, item.leader_epoch or 0) for item in known))
    ends = merged(max, ((item.key, item.end_seen) for item in known))
    kafka = replace(kafka, snapshot=not_cut(believed(kafka.snapshot, epochs), ends))
    bounds = kafka.partitions
    unread: dict[Unread, int] = {}
    held_up: dict[PartitionSnapshot, None] = {}
    for own in pipelines:
        isolation = own.spec.isolation
        heads = {item.key: first_unread(item, bounds.get(item.key), isolation) for item in own.streams}
        heads |= {item.key: item.first_unread for item in new_partitions(own, kafka)}
        mine = [(bounds[key], first) for key, first in heads.items() if key in chosen and key in bounds]
        held_up |= dict.fromkeys(waiting_for_stable((item for item, _ in mine), isolation))
        unread |= {
            (item.stream.place, first): item.readable_end(isolation) - first
            for item, first in mine
            if first is not None
        }
    transactions, told = open_transactions(source, held_up)
    ages, state = _ages(source, unread, clock.now())
    return replace(kafka, transactions=transactions, transactions_state=told, ages=ages, ages_state=state)


def _topics(source: OffsetSource, own: LedgerState) -> set[str]:
    """Return the topics that a pipeline has read, and the ones that its next plan will read."""
    pattern = own.spec.topic_pattern
    found = own.spec.topics if pattern is None else source.topics((), pattern)
    return {*found, *(item.key.topic for item in own.streams)}


def _ages(source: OffsetSource, unread: Mapping[Unread, int], now: datetime) -> tuple[dict[Unread, Age], str]:
    """Ask how old the first unread records are, and say of how many that is known."""
    found: dict[Unread, Age] = {}
    asked = 0
    try:
        for search in searches(unread, now):
            while questions := search.questions():
                search = search.after(source.offsets_at(sorted(questions), questions))  # noqa: PLW2901
            found |= search.ages()
            asked += len(search.heads)
    except KafkaLakeError as error:
        return {}, UnknownState(error.message)
    if ahead := asked - len(found):
        some = count(ahead, "partition has a record", "partitions have records")
        return found, UnknownState(f"{some} of a clock that is ahead of this one")
    some = f"observed on the {asked:,} of {len(unread):,} partitions that lag most"
    return found, some if asked < len(unread) else "observed"


def observe(source: OffsetSource, topics: Sequence[str], group: str | None) -> KafkaState:
    """Return Kafka's state of the topics, without ages and transactions; its snapshot is of the existing ones."""
    found: dict[str, TopicDescription] = {}
    missing: set[str] = set()
    try:
        found, problems = existing_topics(source, topics)
        missing = {name for name, error in problems.items() if isinstance(error, UnknownTopicError)}
        silent = {name: error.message for name, error in problems.items() if name not in missing}
        snapshot: Snapshot | str = next(iter(silent.values()), "no topic of the pipeline exists")
        if found:
            seen = source.snapshot(sorted(found), group)
            snapshot = replace(seen, silent=silent | dict.fromkeys(found.keys() - seen.topics, LEFT_OUT))
    except KafkaLakeError as error:
        snapshot = error.message
    return KafkaState(snapshot=snapshot, topics=tuple(found.values()), missing=missing)


def describe_landed(ledger: LedgerReader, record: WaveRecord) -> str:
    """Return since when a COMMITTED wave is in the lake, and the command that has its offsets read again."""
    ended = [item.ended_at for item in ledger.attempts(record.id) if item.outcome is AttemptOutcome.COMMITTED]
    since = timestamp(max((at for at in ended if at), default=None))
    committed = ledger.ranges(wave=record.id, states=(RangeState.COMMITTED,))
    slices = tuple(SliceSet(item.slice for item in committed))
    here = f"wave {record.id} is in the lake{f' since {since}' if since else ''}: {count(record.rows or 0, 'row')}"
    if not slices:
        return f"{here}. All of it was reopened, and is read again in other waves"
    more = f"; {count(len(slices) - 1, 'more slice')} of it: {remedies.wave(record.id)}" if len(slices) > 1 else ""
    return (
        f"{here}, and there is nothing to do. Have it read again with: "
        f"{remedies.reopen(record.pipeline, slices[0])}, then {remedies.run(record.pipeline)}{more}"
    )


def wave(ledger: LedgerReader, wave_id: str) -> WaveReport:
    """Return a wave with its ranges and attempts, of one moment."""
    return ledger.at_once(partial(_wave, wave_id=wave_id))


def _wave(ledger: LedgerReader, wave_id: str) -> WaveReport:
    record = ledger.wave(wave_id)
    pipeline = ledger.pipeline(record.pipeline)
    paused = pause_of(pipeline.pauses, record.plan) if pipeline and record.state in UNFINISHED else None
    ranges, attempts = ledger.ranges(wave=wave_id), ledger.attempts(wave_id)
    landed = [item.attempt for item in attempts if item.outcome is AttemptOutcome.COMMITTED]
    lines = [line.detail for its in landed for line in ledger.events(record.pipeline, kind=DECODE, actor=its)]
    told = lines[0] if lines else None
    return WaveReport(record=record, ranges=tuple(ranges), attempts=tuple(attempts), paused=paused, decoding=told)
