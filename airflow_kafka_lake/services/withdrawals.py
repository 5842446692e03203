"""A person's decision that what was planned shall not be read, as far as no attempt has begun to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import StateError, UnknownSubjectError
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED
from airflow_kafka_lake.core.ledger.withdrawing import Kept, Withdraw, Withdrawal, withdrawal
from airflow_kafka_lake.core.planning.selection import Selection
from airflow_kafka_lake.ports import LedgerReader, Ports
from airflow_kafka_lake.services.decisions import needed_reason
from airflow_kafka_lake.services.stream_choice import refuse_gone, slices


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was withdrawn, or would be, and what of the scope stays planned and why."""

    what: Withdrawal
    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a person names, the pipeline that it is of, and its ranges that are not resolved."""

    name: str
    pipeline: str
    ranges: tuple[RangeRecord, ...]


def named(ledger: LedgerReader, name: str) -> Subject:
    """Return a pipeline, a plan, a wave or a range by its name or id; UnknownSubjectError for none of these."""
    if ledger.pipeline(name) is not None:
        return Subject(name=name, pipeline=name, ranges=ledger.ranges(pipeline=name, states=UNRESOLVED))
    for found in (ledger.ranges(plan=name), ledger.ranges(wave=name)):
        if found:
            open_ = tuple(item for item in found if item.state in UNRESOLVED)
            return Subject(name=name, pipeline=found[0].pipeline, ranges=open_)
    try:
        item = ledger.range(name)
    except UnknownSubjectError:
        known = ", ".join(ledger.pipelines()) or "none yet"
        raise UnknownSubjectError(
            f"the ledger knows no pipeline, plan, wave or range {name!r} with anything planned: take one from "
            f"{remedies.status('PIPELINE')} (pipelines that it knows: {known})",
            subject=name,
        ) from None
    return Subject(name=name, pipeline=item.pipeline, ranges=(item,) if item.state in UNRESOLVED else ())


def withdraw(ports: Ports, subject: Subject, selection: Selection, *, reason: str, dry_run: bool = False) -> Done:
    """Take ranges off the plan, as far as they are selected and their waves were never claimed.

    Raises StateError when nothing of it can be withdrawn, naming the first that stays; ConcurrentError when another
    has claimed or decided about any of it meanwhile (nothing is withdrawn); RangeExpiredError for a period by time that
    may begin among what is planned and gone.
    """
    reason = needed_reason(reason)
    streams = {stream.key: stream for stream in ports.ledger.streams(subject.pipeline)}
    selection.require(subject.pipeline, streams.values())
    found = [item for item in subject.ranges if selection.has(item.stream)]
    touched = [streams[key] for key in sorted({item.stream for item in found})]
    asked = slices(ports, touched, selection)
    if isinstance(selection.start, datetime) and touched:
        seen = ports.source.snapshot(sorted({item.key.topic for item in touched}), None).partitions
        low = {
            item.stream: item
            for item in seen
            if any(i.stream == item.stream and i.range.start < item.log_start for i in found)
        }
        refuse_gone(ports, selection.start, touched, low)
    wanted = [(i, asked[i.stream]) for i in found if i.stream in asked and i.range.overlaps(asked[i.stream])]
    waves = ports.ledger.waves(subject.pipeline) if wanted else ()
    what, kept = withdrawal(subject.pipeline, subject.name, reason, streams.values(), waves, wanted)
    if not what.ranges:
        stays = [f"{item.record.stream} {item.record.range}: {item.reason}" for item in kept]
        why = stays[0] if stays else f"nothing is planned there that is not read yet (see {remedies.status()})"
        raise StateError(f"nothing was withdrawn of {subject.name}: {why}", subject=subject.name)
    if not dry_run:
        ports.ledger.commit(Withdraw(what=what, actor=ports.actor))
    return Done(what=what, kept=kept)
