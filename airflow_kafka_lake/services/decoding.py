"""Decoding while staging: registered schemas become the decoders of a job, and too many undecoded values a hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.decoding import Decoder, Decoding, Format, Limit, RegisteredSchema
from airflow_kafka_lake.core.errors import DecodeLimitError, SchemaMismatchError, UnknownSubjectError
from airflow_kafka_lake.core.ledger.records import Claim, RangeDecision, RangeRecord, StagedContent, held_by
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.ports import Ports

# Make the decoders of a job from the pipeline's [decode] section and the registered schemas.


def plain_decoder(asked: Decoding, topics: Iterable[str]) -> Decoder:
    """Return the decoder of a format that needs no registry."""
    name = "the schema of the pipeline file" if asked.format is Format.JSON else "UTF-8"
    column = asked.column if asked.format is Format.STRING else ""
    return Decoder(
        format=asked.format,
        topics=tuple(sorted(topics)),
        name=name,
        schema=asked.schema or "",
        column=column,
        asked=asked.digest,
    )


def registered_decoder(asked: Decoding, topic: str, versions: Sequence[RegisteredSchema]) -> Decoder:
    """Return the decoder of a topic from all versions of its subject, of which the newest is the reader's schema.

    Values of a version that cannot be used, or is of another kind, do not decode. Raises SchemaMismatchError for a
    subject of another kind, or without the message.
    """
    subject = asked.subject_for(topic)
    newest = max(versions, key=lambda item: item.version)
    if newest.format is not asked.format:
        raise SchemaMismatchError(
            f"subject {subject} has {newest.format} schemas, and the pipeline decodes {asked.format.value}. "
            "Correct [decode] format or subject",
            subject=subject,
        )
    ordered = sorted(versions, key=lambda item: item.version)
    message = _message(asked, subject, newest) if asked.format is Format.PROTOBUF else ""
    return Decoder(
        format=asked.format,
        topics=(topic,),
        name=f"{subject} version {newest.version} (id {newest.id})",
        subject=subject,
        schema=newest.text,
        writers=tuple((item.id, item.text) for item in ordered if item.format is asked.format and not item.refused),
        unusable=tuple((item.id, item.refused) for item in ordered if item.refused),
        message=message,
        asked=asked.digest,
    )


def refused_decoder(asked: Decoding, topic: str, reason: str) -> Decoder:
    """Return the decoder of a topic none of whose values can be decoded: they land with the reason."""
    subject = asked.subject_for(topic)
    return Decoder(
        format=asked.format, topics=(topic,), name=subject, subject=subject, asked=asked.digest, refused=reason
    )


def _message(asked: Decoding, subject: str, newest: RegisteredSchema) -> str:
    known = newest.messages or {}
    message = asked.message or next(iter(known), "")
    if message not in known:
        raise SchemaMismatchError(
            f"subject {subject} version {newest.version} has no message {message!r}, it has: {', '.join(known)}. "
            "Correct [decode] message",
            subject=subject,
        )
    return message


# How the values of a wave are decoded, and when too many of them are not.


def decoders(ports: Ports, asked: Decoding | None, topics: Iterable[str]) -> tuple[Decoder, ...]:
    """Return how the values of some topics are decoded, with the schemas that are registered now; none if not asked.

    A topic without a schema that can be used is no reason to leave its bytes out of the lake: its decoder says why.
    Raises UnavailableError when the registry does not answer, ConnectionSettingsError when it refuses the credentials.
    """
    if asked is None:
        return ()
    if not asked.format.is_registered:
        return (plain_decoder(asked, topics),)
    found = []
    for topic in sorted(topics):
        try:
            decoder = registered_decoder(asked, topic, ports.schemas.versions(asked.subject_for(topic)))
        except (SchemaMismatchError, UnknownSubjectError) as error:
            ports.progress(f"values of {topic} land as bytes alone, they are not decoded: {error.message}")
            decoder = refused_decoder(asked, topic, error.message)
        found.append(decoder)
    return tuple(found)


def refuse_undecoded(asked: Decoding | None, claim: Claim, staged: StagedContent) -> tuple[RangeDecision, ...]:
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
            error = _refusal(item, here, found.reason, failed=failed, rows=rows, limit=asked.limit)
            verdicts.append(held_by(item.id, error, here))
    return tuple(verdicts)


def _refusal(
    item: RangeRecord, here: RangeSet, reason: str, *, failed: int, rows: int, limit: Limit
) -> DecodeLimitError:
    """Return the refusal: too many values of a wave do not decode, which of them are a range's, and the remedy."""
    return DecodeLimitError(
        f"{failed:,} of the wave's {count(rows, 'value')} do not decode, the limit is {limit}; {here.span:,} "
        f"of them are in this range, the first at offset {here.ranges[0].start}. The first of the partition: {reason}. "
        "Nothing of the range is visible. Correct [decode] in the pipeline file, or its limit, and plan once, so that "
        f"it is recorded; then: {remedies.release(item.id)}"
    ).ended_by(remedies.release(item.id))
