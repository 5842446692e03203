"""The command table: names, words and which function answers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.cli import actions, decisions, deletes, ordering
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.cli.subjects import (
    free_text,
    offset_number,
    partition_number,
    subject_id,
    topic_id,
    topic_name,
)


class Argument:
    """One argument of a command, as argparse takes it."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command; `run` returns the exit code or raises a KafkaLakeError."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    run: Callable[[argparse.Namespace, Output], int]


PIPELINE = Argument("pipeline", metavar="PIPELINE", help="pipeline file (*.toml), or a name that the ledger knows")
WAVE = Argument("wave", metavar="WAVE", type=subject_id, help="wave id")
SUBJECT = Argument("subject", metavar="WAVE|RANGE", type=subject_id, help="wave or range id")
TOPIC = Argument("--topic", metavar="T", type=topic_name, help="only this topic")
PARTITION = Argument(
    "--partition", metavar="P", type=partition_number, nargs="*", action="extend", help="only these partitions"
)
PERIOD = (
    TOPIC,
    PARTITION,
    Argument("--from", dest="from_", metavar="X", help="begin of a period: an offset, or a time with its zone"),
    Argument("--to", metavar="X", help="end of the period, exclusive: an offset, or a time with its zone"),
    Argument(
        "--acknowledge-order",
        action="store_true",
        help="read below an origin though later segments may be in the lake already",
    ),
)
THE_STREAM = (
    Argument("--topic", metavar="T", type=topic_name, required=True, help="topic"),
    Argument("--topic-id", metavar="ID", type=topic_id, help="generation of a re-created topic"),
    Argument("--partition", metavar="P", type=partition_number, required=True, help="partition"),
)
THE_PERIOD = (
    Argument("--topic", metavar="T", type=topic_name, required=True, help="topic"),
    Argument("--topic-id", metavar="ID", type=topic_id, help="generation of a re-created topic"),
    Argument(
        "--partition",
        metavar="P",
        type=partition_number,
        nargs="*",
        action="extend",
        help="only these partitions; otherwise all of the topic",
    ),
    Argument("--from", dest="from_", metavar="X", required=True, help="begin: an offset, or a time with its zone"),
    Argument("--to", metavar="X", required=True, help="end, exclusive: an offset, or a time with its zone"),
)
SELECTION = (
    TOPIC,
    Argument("--topic-id", metavar="ID", type=topic_id, help="only this generation of a re-created topic"),
    PARTITION,
    Argument("--from", dest="from_", metavar="X", help="begin of a period: an offset, or a time with its zone"),
    Argument("--to", metavar="X", help="end of the period, exclusive: an offset, or a time with its zone"),
)
DRY_RUN = Argument("--dry-run", action="store_true", help="show what would happen, change nothing")
DROP_STAGED = Argument(
    "--drop-staged", action="store_true", help="also if what is staged and would go is the only copy of records"
)
REASON = Argument("--reason", metavar="TEXT", type=free_text, required=True, help="why, for those who read it later")

COMMANDS: tuple[Command, ...] = (
    Command(
        name="plan",
        help="observe Kafka and record what is read next, or only show it",
        arguments=(PIPELINE, Argument("--dry-run", action="store_true", help="show, record nothing"), *PERIOD),
        run=actions.plan,
    ),
    Command(
        name="run",
        help="plan, bring every wave into the lake, advance; without bounds also what earlier runs left",
        arguments=(
            PIPELINE,
            *PERIOD,
            Argument("--all", action="store_true", help="with bounds, too: finish everything that earlier runs left"),
        ),
        run=actions.run,
    ),
    Command(
        name="status",
        help="how far, and what blocks",
        arguments=(PIPELINE, TOPIC, PARTITION),
        run=actions.status,
    ),
    Command(name="wave", help="one wave: ranges, attempts, accounting", arguments=(WAVE,), run=actions.wave),
    Command(
        name="ingest", help="bring one wave into the lake; does not advance", arguments=(WAVE,), run=actions.ingest
    ),
    Command(
        name="settle",
        help="ask the lake about waves that were left open",
        arguments=(PIPELINE,),
        run=actions.settle,
    ),
    Command(
        name="advance",
        help="move watermarks to the end of what is settled",
        arguments=(PIPELINE,),
        run=actions.advance,
    ),
    Command(
        name="cancel",
        help="put a wave or a range on hold",
        arguments=(SUBJECT, REASON, DROP_STAGED),
        run=actions.cancel,
    ),
    Command(
        name="release",
        help="take a wave or a range off hold",
        arguments=(SUBJECT, Argument("--reason", metavar="TEXT", type=free_text, help="why")),
        run=actions.release,
    ),
    Command(
        name="skip",
        help="pass offsets unread, by your decision",
        arguments=(
            PIPELINE,
            *THE_PERIOD,
            REASON,
            DRY_RUN,
            Argument("--acknowledge-order", action="store_true", help="later segments may start over it"),
            DROP_STAGED,
        ),
        run=decisions.skip,
    ),
    Command(
        name="reopen",
        help="read a settled or skipped stretch again; the new rows take the place of the old ones in one commit",
        arguments=(
            PIPELINE,
            *THE_PERIOD,
            REASON,
            DRY_RUN,
            Argument("--accept-fewer", action="store_true", help="also if it has fewer rows than the lake has now"),
            DROP_STAGED,
        ),
        run=decisions.reopen,
    ),
    Command(
        name="withdraw",
        help="take off the plan what nobody has begun to read; a later plan takes it again",
        arguments=(
            Argument("subject", metavar="PIPELINE|PLAN|WAVE|RANGE", type=subject_id, help="what was planned"),
            *SELECTION,
            REASON,
            DRY_RUN,
        ),
        run=decisions.withdraw,
    ),
    Command(
        name="decode",
        help="decode once more what is in the lake, from its raw bytes",
        arguments=(
            PIPELINE,
            TOPIC,
            Argument("--failed", action="store_true", help="only rows that did not decode"),
        ),
        run=actions.decode,
    ),
    Command(
        name="segments",
        help="which stretch of which partition must be finished before which",
        arguments=(PIPELINE, Argument("--svg", metavar="FILE", help="draw the graph into this file")),
        run=ordering.segments,
    ),
    Command(
        name="seal",
        help="declare where a partition's log ends for good",
        arguments=(
            PIPELINE,
            *THE_STREAM,
            Argument("--at", metavar="O", type=offset_number, required=True, help="end, exclusive"),
        ),
        run=ordering.seal,
    ),
    Command(
        name="migrate",
        help="declare that one topic continues another",
        arguments=(
            PIPELINE,
            Argument("--from-topic", metavar="A", type=topic_name, required=True, help="the topic that ends"),
            Argument("--to-topic", metavar="B", type=topic_name, required=True, help="the topic that continues it"),
            Argument(
                "--seal",
                metavar="FILE.json",
                required=True,
                help='where each partition of A ends: {"A": {"0": 120}}',
            ),
        ),
        run=ordering.migrate,
    ),
    Command(
        name="audit",
        help="compare ledger and lake: nothing missing, twice or unexplained",
        arguments=(
            PIPELINE,
            Argument("--deep", action="store_true", help="read Kafka again, in Spark, and compare every byte"),
            Argument("--deep-rate", metavar="SIZE", help='with --deep: how much to read a second, such as "20 MiB"'),
            Argument("--report", metavar="FILE", help="write a page for a browser, with a strip for every partition"),
            Argument("--seam", metavar="TABLE", help="also judge the seam with the table that a live stream writes to"),
            Argument(
                "--seam-columns",
                metavar="topic=C,partition=C,offset=C",
                help="columns of that table; otherwise kafka_topic, kafka_partition, kafka_offset",
            ),
            TOPIC,
            PARTITION,
        ),
        run=actions.audit,
    ),
    Command(
        name="accept-deletes",
        help="record that rows were deleted from the lake on purpose: they are not missing then",
        arguments=(
            PIPELINE,
            TOPIC,
            PARTITION,
            Argument("--from", dest="from_", metavar="O", type=offset_number, help="only from this offset on"),
            Argument("--to", metavar="O", type=offset_number, help="only up to this offset, exclusive"),
            REASON,
            Argument("--dry-run", action="store_true", help="show, record nothing"),
        ),
        run=deletes.accept_deletes,
    ),
    Command(
        name="rebuild",
        help="make a lost or older ledger agree with the lake",
        arguments=(
            PIPELINE,
            Argument(
                "--accept-rollback",
                action="store_true",
                help="the lake was rolled back or re-created: plan again exactly what vanished from it",
            ),
            DROP_STAGED,
        ),
        run=actions.rebuild,
    ),
    Command(
        name="db",
        help="the ledger's schema",
        arguments=(Argument("act", choices=("upgrade", "check"), help="bring it up to date, or only look"),),
        run=actions.db,
    ),
    Command(
        name="jars",
        help="the Spark jars of this package",
        arguments=(Argument("act", choices=("fetch",), help="fetch and verify"),),
        run=actions.jars,
    ),
    Command(
        name="demo",
        help="a real Kafka, Spark, Iceberg and Airflow on this machine, and the proof",
        arguments=(
            Argument("--exit", action="store_true", dest="exit_", help="stop everything at the end"),
            Argument("--report", metavar="FILE", help="write the result as JSON"),
        ),
        run=actions.demo,
    ),
)
