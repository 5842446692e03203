"""How the values of a wave are decoded, and when too many of them are not."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_lake.core.decoding import Decoder, Decoding, plain_decoder, registered_decoder
from airflow_kafka_lake.core.kafka.losses import undecoded
from airflow_kafka_lake.core.ledger.holds import hold
from airflow_kafka_lake.core.ledger.records import Claim, Staged, Verdict
from airflow_kafka_lake.ports import Ports, SchemaRegistry


def decoding_of(ports: Ports, pipeline: str) -> Decoding | None:
    """Return what the pipeline asks for now: not at the plan, so that a corrected schema helps what is held."""
    record = ports.ledger.pipeline(pipeline)
    return record.spec.decoding if record else None


def decoders(ports: Ports, asked: Decoding | None, topics: Iterable[str]) -> tuple[Decoder, ...]:
    """Return how the values of some topics are decoded, with the schemas that are registered now.

    Raises what `SchemaRegistry.versions` raises, and SchemaMismatchError for a subject of another kind.
    """
    if asked is None:
        return ()
    if not asked.format.is_registered:
        return (plain_decoder(asked, topics),)
    registry: SchemaRegistry = ports.added["schemas"]
    return tuple(
        registered_decoder(asked, topic, registry.versions(asked.subject_for(topic))) for topic in sorted(topics)
    )


def refuse_undecoded(asked: Decoding | None, claim: Claim, staged: Staged) -> tuple[Verdict, ...]:
    """Hold the ranges with values that do not decode when they are more, over the wave, than the pipeline allows."""
    if asked is None or asked.limit is None:
        return ()
    failed = sum(item.offsets.span for item in staged.undecoded)
    rows = sum(item.offsets.span for item in staged.streams)
    if not asked.limit.is_exceeded(failed, rows):
        return ()
    by_stream = {item.stream: item for item in staged.undecoded}
    verdicts = []
    for item in claim.ranges:
        found = by_stream.get(item.stream)
        if found and (here := found.offsets.within(item.range)):
            reason = undecoded(item, here, found.reason, failed=failed, rows=rows, limit=asked.limit)
            verdicts.append(hold(item.id, reason, here))
    return tuple(verdicts)
