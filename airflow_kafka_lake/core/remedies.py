"""Remedies: the commands that messages and reasons of holds name; no other module knows how they are written. A cause
is a reason for programs: the kind of an error, and its remedies."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial

from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.offsets import Slice

PROGRAM = "kafka-lake"
REASON = ("--reason", "TEXT")
"""The reason that a person puts in."""
ACKNOWLEDGE_ORDER = "acknowledge_order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy(Document):
    """One command that helps: `str()` is its line, as a person types it.

    `subject` is the pipeline, wave, range or plan that it is about; without one the line names the command alone.
    `switches` are the options that it sets, by the names of their arguments: `acknowledge_order`.
    """

    command: str
    subject: str | None = None
    slice: Slice | None = None
    names_topic_id: bool = False
    """Whether the generation of the slice's topic must be named: it is not the one that there is now."""
    switches: tuple[str, ...] = ()
    asks_reason: bool = False

    def __str__(self) -> str:
        flags = {name: f"--{name.replace('_', '-')}" for name in self.switches}
        last = flags.pop(ACKNOWLEDGE_ORDER, None)
        words = (self.subject, self._where(), *flags.values(), *(REASON if self.asks_reason else ()), last)
        return " ".join((PROGRAM, self.command, *filter(None, words)))

    def _where(self) -> str | None:
        """Return the words for the slice; with `=` before a topic's id, because it may begin with a dash."""
        if self.slice is None:
            return None
        (topic, topic_id, partition), offsets = self.slice.stream, self.slice.range
        generation = f" --topic-id={topic_id}" if self.names_topic_id else ""
        return f"--topic {topic}{generation} --partition {partition} --from {offsets.start} --to {offsets.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause(Document):
    """The cause of a hold, for programs: the name of an error, None where there is none, and the commands that help."""

    kind: str | None
    remedies: tuple[Remedy, ...] = ()


def _of(command: str, subject: str | None = None) -> Remedy:
    return Remedy(command=command, subject=subject)


plan = partial(_of, "plan")
"""Plan, or see the plan."""
run = partial(_of, "run")
"""Plan, and finish the plan."""
status = partial(_of, "status")
"""See the progress of a pipeline, and its blockers."""
wave = partial(_of, "wave")
"""See the ranges and attempts of a wave."""
ingest = partial(_of, "ingest")
"""Bring one wave into the lake."""
recover = partial(_of, "recover")
"""Ask the lake about open waves."""
advance = partial(_of, "advance")
"""Move the watermarks."""
release = partial(_of, "release")
"""Take a wave or a range off hold."""
resume = partial(_of, "resume")
"""Let a paused pipeline or plan go on."""
audit = partial(_of, "audit")
"""Compare ledger and lake."""


def run_below_origin(pipeline: str, item: Slice) -> Remedy:
    """Read a slice that later segments do not wait for."""
    return Remedy(command="run", subject=pipeline, slice=item, switches=(ACKNOWLEDGE_ORDER,))


def worker() -> Remedy:
    """Bring into the lake the waves that tasks ask for."""
    return Remedy(command="worker")


def cancel(wave_id: str, *, drop_staged: bool = False) -> Remedy:
    """Put a wave on hold, and take it from its holder."""
    switches = ("drop_staged",) if drop_staged else ()
    return Remedy(command="cancel", subject=wave_id, switches=switches, asks_reason=True)


def skip(
    pipeline: str, item: Slice | None = None, *, name_topic_id: bool = False, acknowledge_order: bool = False
) -> Remedy:
    """Pass a slice unread; without one, the command alone."""
    if item is None:
        return Remedy(command="skip", subject=pipeline)
    return Remedy(
        command="skip",
        subject=pipeline,
        slice=item,
        names_topic_id=name_topic_id,
        switches=(ACKNOWLEDGE_ORDER,) if acknowledge_order else (),
        asks_reason=True,
    )


def reopen(pipeline: str, item: Slice, *, switches: tuple[str, ...] = ()) -> Remedy:
    """Read a committed slice again."""
    return Remedy(command="reopen", subject=pipeline, slice=item, switches=switches, asks_reason=True)


def accept_deletes(pipeline: str, item: Slice | None = None) -> Remedy:
    """Record that rows were deleted on purpose."""
    return Remedy(command="accept-deletes", subject=pipeline, slice=item, asks_reason=True)


def rebuild(pipeline: str | None = None, *, accept_rollback: bool = False) -> Remedy:
    """Make the ledger agree with the lake."""
    return Remedy(command="rebuild", subject=pipeline, switches=("accept_rollback",) if accept_rollback else ())


def upgrade_ledger() -> Remedy:
    """Bring the ledger's schema up to date."""
    return Remedy(command="db", subject="upgrade")


_ACTIONS = {
    "ReadTopic": "ReadData",
    "ReadGroup": "AlterGroup",
    "DescribeConfigsTopic": "DescribeTopicDynamicConfiguration",
}
"""The rights that AWS calls by another name than that of operation and resource."""


def grant(operation: str, kind: str, *names: str, by_aws: bool = False) -> str:
    """Return the sentence that says how an administrator gives a right on resources of Kafka, or of AWS's."""
    if by_aws:
        usual = f"{operation}{kind.title()}"
        resource = kind if kind == "cluster" else f"{kind} {', '.join(names)}"
        return f"Allow kafka-cluster:{_ACTIONS.get(usual, usual)} on the {resource} in the IAM policy of this AWS key."
    resource = "--cluster" if kind == "cluster" else " ".join(f"--{kind} {shlex.quote(name)}" for name in names)
    given = f"--add --allow-principal User:NAME --operation {operation} {resource}"
    return f"Grant it: kafka-acls.sh --bootstrap-server HOST:PORT {given}"


def fetch_jars(for_store: str | None = None) -> Remedy:
    """Fetch and verify the jars, also those for a store or a login of that name."""
    return Remedy(command="jars", subject=f"fetch --for {for_store}" if for_store else "fetch")
