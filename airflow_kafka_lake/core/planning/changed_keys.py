"""The effects of a changed pipeline file on a pipeline that is on record, key by key: a plan names them before it acts.

No key takes back committed rows, and each has its effect, or none, from a moment on that a person cannot guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import IdentityError
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.planning.decision import PlanFacts
from airflow_kafka_lake.core.planning.plan import Elsewhere, Plan, PlanBlock
from airflow_kafka_lake.core.spec import PipelineSpec

_FROM_NOW_ON = "it counts from now on"
_PLANNED = "it holds for what is planned from now on; waves that are planned already keep what they were planned with"

EFFECTS: Mapping[str, tuple[str, str]] = {
    "kafka_connection": (
        "[source] connection",
        "Kafka is reached by it from now on; it must lead to the cluster that the topics were planned from",
    ),
    "topics": (
        "[source] topics",
        "what is committed of a topic that is not named any more stays, and no more is planned",
    ),
    "topic_pattern": (
        "[source] topic_pattern",
        "what is committed of a topic that it does not match any more stays, and no more is planned",
    ),
    "isolation": (
        "[source] isolation",
        "what is planned from now on is read so; what is committed stays as it was read, until it is reopened",
    ),
    "start": (
        "[source] start",
        "it sets where new partitions begin, others keep their origins; what lies below is read with --from and --to",
    ),
    "end": ("[source] end", "plans end there from now on; what is committed beyond it stays"),
    "ordering": ("[source] ordering", _PLANNED),
    "partitioner": ("[source] partitioner", "it decides about expansions that are seen from now on"),
    "leader_wait": ("[source] leader_wait", _FROM_NOW_ON),
    "stable_wait": ("[source] stable_wait", _FROM_NOW_ON),
    "layout_grace": ("[source] layout_grace", "it counts for expansions and seals that are seen from now on"),
    "sync_group": (
        "[source] sync_group",
        "watermarks are committed to it from now on; a group that had them before keeps what it has",
    ),
    "lake_connection": (
        "[lake] connection",
        "the tables are looked for there from now on; what is in a lake is not moved to another",
    ),
    "table": ("[lake] table", "what is planned from now on lands there; what is committed stays where it is"),
    "partition_by": ("[lake] partition_by", "it is for a table that does not exist yet; one that does keeps its own"),
    "decoding": (
        "[decode]",
        "what is staged from now on is decoded so; rows in the lake stay as they are, until they are decoded again",
    ),
    "spark_connection": ("[spark] connection", "jobs run there from now on"),
    "target_range_bytes": ("[sizes] target_range_bytes", _PLANNED),
    "max_wave_bytes": ("[sizes] max_wave_bytes", _PLANNED),
    "audit_rate": ("[sizes] audit_rate", _FROM_NOW_ON),
    "waves_at_once": ("[limits] waves_at_once", "it counts for every wave that is claimed from now on"),
    "bytes_per_second": ("[limits] bytes_per_second", "it counts for every wave that is claimed from now on"),
}
"""Field of the configuration → its place in the file, and the effect of a change. Not in it: `name`, whose change makes
another pipeline."""


def elsewhere(spec: PipelineSpec, ranges: Sequence[RangeRecord], tables: Mapping[str, str]) -> tuple[Elsewhere, ...]:
    """Return the committed ranges in other tables, sorted; `tables` has the table of each wave."""
    found: dict[tuple[str, str], int] = {}
    for item in ranges:
        table = tables.get(item.wave, "")
        if item.state is RangeState.COMMITTED and table and table != spec.table_for(item.stream.topic):
            found[item.stream.topic, table] = found.get((item.stream.topic, table), 0) + item.range.span
    return tuple(Elsewhere(topic=topic, table=table, offsets=n) for (topic, table), n in sorted(found.items()))


def refuse_another_cluster(facts: PlanFacts) -> None:
    """Refuse topics that another connection leads to and that are not those on record: all of their records would land
    beside the rows of the old ones, which are perhaps the same."""
    before = facts.before
    if before is None or before.spec.kafka_connection == facts.spec.kafka_connection:
        return
    older = _older(facts)
    for item in facts.seen.selected:
        if known := older.get((item.stream.topic, item.stream.topic_id)):
            raise IdentityError(
                f"[source] connection was {before.spec.kafka_connection!r} and is {facts.spec.kafka_connection!r}, and "
                f"topic {item.stream.topic} is another one there: its id is {item.stream.topic_id}, pipeline "
                f"{facts.spec.name} has read {known}. Nothing was planned. To read it too, give the file another "
                "pipeline name; if the topic was only created anew, plan once with the connection before",
                topic=item.stream.topic,
            )


def _older(facts: PlanFacts) -> Mapping[tuple[str, str], str]:
    """Return the id on record of each topic, with its id now, that has another one now."""
    now = {item.stream.topic: item.stream.topic_id for item in facts.seen.selected}
    known = ((key.topic, key.topic_id) for key in facts.seen.known)
    return {(topic, now[topic]): id_ for topic, id_ in known if now.get(topic, id_) != id_}


def nothing_lands(facts: PlanFacts, plan: Plan) -> tuple[PlanBlock, ...]:
    """Return the topics whose rows are in another table than the one that is named now, which has nothing of the
    pipeline, nor would have after this plan: to call that done would be to say that it has them."""
    written = {*(facts.before.tables if facts.before else ()), *(wave.table for wave in plan.waves)}
    return tuple(
        PlanBlock(
            topic=item.topic,
            partition=None,
            reason=f"nothing of it is in table {table}, and nothing is planned to land there: what is committed, "
            f"{count(item.offsets, 'offset')}, is in {item.table} and stays there; only new records land in {table}. "
            f"For a second copy give the file another pipeline name; else set [lake] table to {item.table} again",
        )
        for item in facts.elsewhere
        if (table := facts.spec.table_for(item.topic)) not in written
    )


def notes(facts: PlanFacts, plan: Plan) -> tuple[str, ...]:
    """Return the notes for a person after a change of the file: where rows are that are not in its tables, and the
    effect of each key that has changed since the pipeline was last planned."""
    return (*_created_anew(plan, facts), *_in_other_tables(facts), *_changed(facts))


def _created_anew(plan: Plan, facts: PlanFacts) -> Iterator[str]:
    new = {(i.snapshot.stream.topic, i.snapshot.stream.topic_id) for i in plan.streams if i.version is None}
    older = _older(facts)
    for topic, topic_id in sorted(new & older.keys()):
        yield (
            f"topic {topic} is another one than before (id {topic_id}, before {older[topic, topic_id]}): it was "
            "created anew, or Kafka is another cluster. All that it has lands beside the rows of the old one"
        )


def _in_other_tables(facts: PlanFacts) -> Iterator[str]:
    for item in facts.elsewhere:
        yield (
            f"{count(item.offsets, 'committed offset')} of {item.topic} {'is' if item.offsets == 1 else 'are'} in "
            f"{item.table}, not in {facts.spec.table_for(item.topic)}, and not read again: a second copy needs "
            "another pipeline name"
        )


def _changed(facts: PlanFacts) -> Iterator[str]:
    if facts.before is None or not facts.seen.known:
        return
    for name, (place, effect) in EFFECTS.items():
        before, now = (_value(spec, name) for spec in (facts.before.spec, facts.spec))
        if before != now:
            yield f"{place} was changed since the last plan: {effect}"


def _value(spec: PipelineSpec, name: str) -> Any:
    return getattr(spec, name)
