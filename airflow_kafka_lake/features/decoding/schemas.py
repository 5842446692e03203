"""How the values of a wave are decoded, and when too many of them are not."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.decoding import Decoder, Decoding, Limit
from airflow_kafka_lake.core.errors import DecodeLimitError, SchemaMismatchError, UnknownSubjectError
from airflow_kafka_lake.core.ledger.holds import hold
from airflow_kafka_lake.core.ledger.records import Claim, RangeRecord, Staged, Verdict
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.features.decoding.decoders import plain_decoder, refused_decoder, registered_decoder
from airflow_kafka_lake.features.decoding.port import PORT, SchemaRegistry
from airflow_kafka_lake.ports import Ports


def decoders(ports: Ports, asked: Decoding, topics: Iterable[str]) -> tuple[Decoder, ...]:
    """Return how the values of some topics are decoded, with the schemas that are registered now.

    A topic without a schema that can be used is no reason to leave its bytes out of the lake: its decoder says why.
    Raises UnavailableError when the registry does not answer, ConnectionSettingsError when it refuses the credentials.
    """
    if not asked.format.is_registered:
        return (plain_decoder(asked, topics),)
    registry: SchemaRegistry = ports.added[PORT]
    found = []
    for topic in sorted(topics):
        try:
            decoder = registered_decoder(asked, topic, registry.versions(asked.subject_for(topic)))
        except (SchemaMismatchError, UnknownSubjectError) as error:
            ports.progress(f"values of {topic} land as bytes alone, they are not decoded: {error.message}")
            decoder = refused_decoder(asked, topic, error.message)
        found.append(decoder)
    return tuple(found)


def refuse_undecoded(asked: Decoding, claim: Claim, staged: Staged) -> tuple[Verdict, ...]:
    """Hold the ranges with values that do not decode when they are more, over the wave, than the pipeline allows."""
    if asked.limit is None:
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
            reason = _refusal(item, here, found.reason, failed=failed, rows=rows, limit=asked.limit)
            verdicts.append(hold(item.id, reason, here))
    return tuple(verdicts)


def _refusal(item: RangeRecord, here: RangeSet, reason: str, *, failed: int, rows: int, limit: Limit) -> str:
    """Return the refusal: too many values of a wave do not decode, which of them are a range's, and the remedy."""
    return DecodeLimitError(
        f"{failed:,} of the wave's {count(rows, 'value')} do not decode, the limit is {limit}; {here.span:,} "
        f"of them are in this range, the first at offset {here.ranges[0].start}. The first of the partition: {reason}. "
        "Nothing of the range is visible. Correct [decode] in the pipeline file, or its limit, and plan once, so that "
        f"it is recorded; then: {remedies.release(item.id)}"
    ).named
