"""Try every part of a pipeline before its first run: connections, rights, versions, tables, schemas and Spark.

Each check is the one that a plan, a run or Airflow's connections page makes. Here none of them stops the others, and
nothing of them stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache, partial
from typing import Any

from airflow_kafka_lake.core.amounts import FEW, count, some, span
from airflow_kafka_lake.core.errors import (
    GroupOffsetError,
    HeldError,
    KafkaLakeError,
    UnavailableError,
    UnknownSubjectError,
    expected,
    worst,
)
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, hanging_error
from airflow_kafka_lake.core.ledger.guards import refuse_paused
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.claims import new_id
from airflow_kafka_lake.services.identity import check_table, existing_topics
from airflow_kafka_lake.services.planning import plan, topics_of, unfit_columns
from airflow_kafka_lake.services.reading import decoders

Answer = str | tuple[str, str]
"""What a check has found; with a remedy it is a warning."""

ConnectionTests = Mapping[str, tuple[str, Callable[[], Answer]]]
"""The test of each connection by its part (LEDGER, KAFKA, LAKE, …), with the connection's id."""

LEDGER, KAFKA, LAKE, REGISTRY, SPARK = "ledger", "kafka", "lake", "registry", "spark"
_SOON = timedelta(hours=1)


class CheckOutcome(StrEnum):
    """The outcome of one check; SKIPPED needs a part that failed."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartResult:
    """The result of trying one part; `subject` is its name: a connection, a topic, a table."""

    part: str
    subject: str
    outcome: CheckOutcome
    found: str
    remedy: str = ""
    error: KafkaLakeError | None = None

    @property
    def name(self) -> str:
        """The part with its subject, as other parts name it that need it."""
        return f"{self.part} {self.subject}"

    @property
    def sentence(self) -> str:
        """What was found, and the remedy."""
        by = "." if self.remedy[:1].isupper() else ":"
        return f"{self.found.removesuffix('.')}{by} {self.remedy}" if self.remedy else self.found

    def to_json(self) -> dict[str, Any]:
        """Return an entry of `check --json`."""
        own = {"part": self.part, "subject": self.subject, "outcome": self.outcome.value, "found": self.found}
        return own | {"remedy": self.remedy or None, "error": self.error and self.error.to_json()}


class PipelineCheck:
    """The results of all parts, in the order in which they were tried."""

    def __init__(self, subject: str, progress: Callable[[str], None]) -> None:
        self.subject = subject
        self.results: list[PartResult] = []
        self._progress = progress
        self._good: set[str] = set()

    @property
    def problems(self) -> list[KafkaLakeError]:
        """The errors of the parts that failed, those that a person has to mend first."""
        found = [result.error for result in self.results if result.error is not None]
        return sorted(found, key=lambda error: error.exit_code != worst({item.exit_code for item in found}))

    @property
    def exit_code(self) -> int:
        """0 when no part failed, else the code of the worst error."""
        return worst({error.exit_code for error in self.problems})

    @property
    def sentence(self) -> str:
        """The results in one sentence."""
        counts = Counter(result.outcome for result in self.results)
        told = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in CheckOutcome if counts[outcome])
        return f"{count(len(self.results), 'part')} of {self.subject}: {told}"

    def to_json(self) -> dict[str, Any]:
        """Return `check --json`."""
        return {"pipeline": self.subject, "checks": [result.to_json() for result in self.results]}

    def try_part(self, part: str, subject: str, ask: Callable[[], Answer], *needs: str) -> None:
        """Try a part, unless one that it needs has failed or was skipped; whatever it raises is its result."""
        outcome, remedy, error, name = CheckOutcome.OK, "", None, f"{part} {subject}"
        if lacking := [need for need in needs if need not in self._good]:
            outcome, found = CheckOutcome.SKIPPED, f"needs {', '.join(lacking)}"
        else:
            self._progress(f"trying {name}")
            try:
                answer = ask()
            except Exception as problem:  # noqa: BLE001  # whatever it is, it is the result of this part alone
                error = expected(problem, f"trying {name}")
                outcome, found, remedy = CheckOutcome.FAILED, error.fault, error.remedy
            else:
                self._good.add(name)
                found, remedy = (answer, "") if isinstance(answer, str) else answer
                outcome = CheckOutcome.WARNING if remedy else CheckOutcome.OK
        self.results.append(
            PartResult(part=part, subject=subject, outcome=outcome, found=found, remedy=remedy, error=error)
        )


def check_pipeline(
    subject: str,
    *,
    read: Callable[[], PipelineSpec],
    tests: Callable[[PipelineSpec], ConnectionTests],
    opened: Callable[[PipelineSpec], AbstractContextManager[Ports]],
    progress: Callable[[str], None],
) -> PipelineCheck:
    """Read a pipeline and try all of its parts; an error of a part is its result and never raised."""
    done, specs = PipelineCheck(subject, progress), list[PipelineSpec]()

    def pipeline() -> str:
        specs.append(read())
        decoded = f"; values are decoded as {specs[0].decoding}" if specs[0].decoding else ""
        return f"it is valid, and lands in {specs[0].table}{decoded}"

    done.try_part("pipeline", subject, pipeline)
    for spec in specs:
        with opened(spec) as ports:
            _Parts(done, ports, spec, tests(spec)).try_all()
    return done


class _Parts:
    """The parts of one pipeline, of which later ones need earlier ones."""

    def __init__(self, done: PipelineCheck, ports: Ports, spec: PipelineSpec, tests: ConnectionTests) -> None:
        self.done, self.ports, self.spec, self.tests = done, ports, spec, tests
        self.needs = {part: f"{part} {conn_id}" for part, (conn_id, _) in tests.items()}
        self.described = cache(lambda: existing_topics(ports.source, self.topics))
        self.snapshot = cache(lambda group: ports.source.snapshot(sorted(self.described()[0]), group))
        self.topics: tuple[str, ...] = spec.topics
        self.proven: dict[str, bool] = {}

    def try_all(self) -> None:
        """Try connections, then the parts behind them, then the plan of a run."""
        spec, needs, try_part = self.spec, self.needs, self.done.try_part
        ledger, kafka, lake = needs[LEDGER], needs[KAFKA], needs[LAKE]
        for part, (conn_id, test) in self.tests.items():
            try_part(part, conn_id, test, *((kafka, lake) if part == SPARK else ()))  # they say what jars a job needs
        if spec.topic_pattern is not None:
            try_part("topics", spec.topic_pattern, self._matching, kafka, ledger)
        for topic in self.topics:
            try_part("topic", topic, partial(self._topic, topic), kafka)
            try_part("records", topic, partial(self._records, topic), f"topic {topic}")
            if REGISTRY in needs:
                try_part("schema", topic, partial(self._schema, topic), needs[REGISTRY])
        for group in sorted(filter(None, {spec.start.group, spec.end.group, spec.sync_group})):
            try_part("group", group, partial(self._group, group), kafka, ledger)
        tables = {
            table: [t for t in self.topics if spec.table_for(t) == table] for table in map(spec.table_for, self.topics)
        }
        for table, topics in sorted(tables.items()):
            try_part("table", table, partial(self._table, table, topics), lake, ledger, *(f"topic {t}" for t in topics))
        first = min(tables, default=spec.table_for("topic"))  # its place stands for those of all of them
        try_part("store", first, partial(self._store, first), lake)
        leads = (*(f"records {topic}" for topic in self.topics), *(f"table {table}" for table in tables))
        try_part("plan", spec.name, self._plan, ledger, kafka, f"store {first}", *leads)

    def _matching(self) -> Answer:
        self.topics, problems = topics_of(self.ports, self.spec, Bounds())
        self.topics = tuple(sorted({*self.topics, *problems}))
        return f"{count(len(self.topics), 'topic matches', 'topics match')}"

    def _topic(self, topic: str) -> Answer:
        found, problems = self.described()
        if topic in problems:
            raise problems[topic]
        item = found[topic]
        kept = "for ever" if item.retention_ms is None else f"for {span(item.retention_ms / 1000)}"
        return f"id {item.topic_id}, {count(item.partitions, 'partition')}, kept {kept} ({item.cleanup_policy})"

    def _records(self, topic: str) -> Answer:
        """Fetch one batch, as an audit does: a plan needs no right to read."""
        mine = [item for item in self.snapshot(None).partitions if item.stream.topic == topic]
        if not mine:
            raise UnavailableError(f"No partition of {topic} can be observed.").mended_by(
                "See that it has leaders; repeat."
            )
        item = max(mine, key=lambda item: item.last_stable - item.log_start)
        offset = max(item.log_start, item.last_stable - 1)
        self.ports.batches.held([(item.stream, offset)])
        has = f"was read at offset {offset}" if item.last_stable > item.log_start else "may be read, and has no record"
        return f"{topic}/{item.stream.partition} {has}"

    def _group(self, group: str) -> Answer:
        partitions, planned = self.snapshot(group).partitions, self.ports.ledger.streams(self.spec.name)
        states = [item.group_offset_state for item in partitions]
        if GroupOffsetState.UNKNOWN in states:
            error = UnavailableError(f"Kafka does not say what group {group} has committed.")
            raise error.mended_by("Give the connection's user the operation Describe on the group, or repeat.")
        has = f"has committed offsets in {states.count(GroupOffsetState.KNOWN)} of {count(len(states), 'partition')}"
        lack = [item.stream for item in partitions if item.group_offset_state is GroupOffsetState.NONE]
        new = [stream for stream in lack if stream[:2] not in {item.key[:2] for item in planned}]
        for key, policy, lacking in (("start", self.spec.start, new), ("end", self.spec.end, lack)):
            if lacking and policy.group == group:
                lack_it = GroupOffsetError(f"It {has}, and [source] {key} needs one in each: {lacking[0]} lacks it.")
                raise lack_it.mended_by(f"Let the group commit first, or write another [source] {key}.")
        return f"it {has}"

    def _table(self, table: str, topics: list[str]) -> Answer:
        ids = [self.described()[0][topic].topic_id for topic in topics]
        check_table(self.ports, self.spec.name, table, ids)
        try:
            self.proven[table] = self.ports.lake.table(table).head().is_proven
        except UnknownSubjectError:
            return "the first plan creates it"
        if why := unfit_columns(self.ports, self.spec, table):
            return f"values of {', '.join(topics)} would land as bytes alone", why
        return "it is there, fits, and no other pipeline owns it"

    def _store(self, table: str) -> Answer:
        if self.proven.get(table):
            return f"a file was written in {self.ports.lake.look(table)}"
        place, left = self.ports.lake.rehearse(table, self.spec.partition_by)
        found = f"a table was made beside it, as the first plan makes one, with a file in {place}"
        return (found, left) if left else f"{found}; all of it is gone"

    def _schema(self, topic: str) -> Answer:
        (decoder,) = decoders(self.ports, self.spec.decoding, [topic])
        lands = f"values of {topic} would land as bytes alone"
        return (lands, decoder.refused) if decoder.refused else f"values are decoded by {decoder.name}"

    def _plan(self) -> Answer:
        if known := self.ports.ledger.pipeline(self.spec.name):
            refuse_paused(known.pauses)
        made = plan(self.ports, self.spec, Bounds(), plan_id=new_id(), dry_run=True).plan
        if made.hanging:
            raise hanging_error(made.hanging, made.observed_at)
        if made.blocked:
            parts = some((f"{item.where}: {item.reason}" for item in made.blocked), FEW, by="; ")
            raise HeldError(f"a run would leave out {parts}")
        offsets = sum(item.range.span for item in made.ranges)
        found = f"a run would read {count(offsets, 'offset')} in {count(len(made.waves), 'wave')}"
        found = "; ".join((found, *made.notes))
        until, needed = made.forecast.retention_deadline, timedelta(seconds=made.forecast.seconds or 0)
        if until is None or until - made.observed_at > needed + _SOON:
            return found
        found += f"; retention takes records of {made.forecast.retention_stream} from {timestamp(until)} on"
        return found, "Run it now, or raise the topic's retention.ms until it has caught up."
