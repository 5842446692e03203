"""Make the decoders of a job from the pipeline's [decode] section and the registered schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_kafka_lake.core.decoding import Decoder, Decoding, Format, RegisteredSchema
from airflow_kafka_lake.core.errors import SchemaMismatchError


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
    """Return the decoder of a topic from all versions of its subject, of which the newest is what values are read as.

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
