"""From what a person types to what a service takes: pipelines, bounds, streams."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.core.errors import UnknownSubjectError, UsageError
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.plan import StreamRecord
from airflow_kafka_lake.core.policies import Bounds
from airflow_kafka_lake.core.spec import PIPELINE_NAME, TOPIC_NAME, PipelineSpec
from airflow_kafka_lake.hooks.assembly import open_ledger, open_ports
from airflow_kafka_lake.pipeline import Pipeline, parse_bound
from airflow_kafka_lake.ports import LedgerReader, Ports
from airflow_kafka_lake.services.reporting import known_spec


def actor() -> str:
    """Name the person or service that decides, for the ledger's history."""
    return os.environ.get("KAFKA_LAKE_ACTOR") or getpass.getuser()


def is_file(subject: str) -> bool:
    """Say whether PIPELINE is meant as a file: it ends in `.toml` or has a path separator."""
    return subject.endswith(".toml") or os.sep in subject


def spec_of(subject: str, ledger_connection: str) -> PipelineSpec:
    """Read PIPELINE: a file, or a name that the ledger knows."""
    if is_file(subject):
        return Pipeline.from_toml(Path(subject)).spec
    if not PIPELINE_NAME.fullmatch(subject):
        raise UsageError(f"{subject!r} is neither a pipeline file (*.toml) nor a legal pipeline name")
    with open_ledger(ledger_connection) as ledger:
        return known_spec(ledger, subject)


@contextmanager
def ports_of(
    arguments: argparse.Namespace, output: Output, spec: PipelineSpec, *, need_spark: bool = False
) -> Iterator[Ports]:
    """Open the world of a pipeline; `need_spark` makes sure first that a job could start."""
    with open_ports(
        spec, ledger_connection=arguments.ledger, actor=actor(), say=output.say, need_kafka=True, need_spark=need_spark
    ) as ports:
        yield ports


def spec_of_subject(ledger: LedgerReader, subject: str) -> PipelineSpec:
    """Return the pipeline of a wave or a range."""
    if not subject.isprintable() or " " in subject:
        raise UsageError(f"{subject!r} is not a wave or range id: take one from kafka-lake status")
    try:
        return known_spec(ledger, ledger.wave(subject).pipeline)
    except UnknownSubjectError:
        return known_spec(ledger, ledger.range(subject).pipeline)


def bounds_of(arguments: argparse.Namespace) -> Bounds:
    """Read `--topic --partition --from --to`."""
    topic = arguments.topic
    if topic is not None and not TOPIC_NAME.fullmatch(topic):
        raise UsageError(f"{topic!r} is not a legal topic name")
    partitions = tuple(sorted(set(arguments.partition))) if arguments.partition is not None else None
    return Bounds(
        topic=topic,
        partitions=partitions,
        start=None if arguments.from_ is None else parse_bound(arguments.from_),
        end=None if arguments.to is None else parse_bound(arguments.to),
    )


def partition_number(text: str) -> int:
    """Read one `--partition`."""
    if not text.isdecimal() or not text.isascii() or len(text) > 10:
        raise argparse.ArgumentTypeError(f"{text!r} is not a partition number")
    return int(text)


def offset_number(text: str) -> int:
    """Read one offset."""
    if not text.isdecimal() or not text.isascii() or len(text) > 19:
        raise argparse.ArgumentTypeError(f"{text!r} is not an offset")
    return int(text)


def stretch_of(arguments: argparse.Namespace) -> OffsetRange:
    """Read `--from --to` as offsets."""
    if arguments.from_ >= arguments.to:
        raise UsageError(f"from {arguments.from_} is not before to {arguments.to}: a range is [from, to)")
    return OffsetRange(arguments.from_, arguments.to)


def stream_of(ledger: LedgerReader, pipeline: str, arguments: argparse.Namespace) -> StreamRecord:
    """Find the stream of `--topic --partition`, and `--topic-id` where both generations are known."""
    found = [
        stream
        for stream in ledger.streams(pipeline, topic=arguments.topic, partitions=[arguments.partition])
        if arguments.topic_id in (None, stream.topic_id)
    ]
    if not found:
        raise UnknownSubjectError(
            f"pipeline {pipeline} has no stream {arguments.topic}/{arguments.partition}: see kafka-lake status "
            f"{pipeline}",
            topic=arguments.topic,
            partition=arguments.partition,
        )
    if len(found) > 1:
        ids = ", ".join(stream.topic_id for stream in found)
        raise UsageError(f"topic {arguments.topic} was re-created: choose a generation with --topic-id, one of {ids}")
    return found[0]
