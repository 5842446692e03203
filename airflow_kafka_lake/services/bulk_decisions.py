"""Decisions about many partitions at once, or what they would do; each answers with the document of its command.

The command line, Dags and the pages in Airflow ask the same here, and meet the same refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.errors import ConcurrentError, StateError, TerminalError, UsageError
from airflow_kafka_lake.core.ledger.decisions import Withdraw
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import SelectedSlice, Selection
from airflow_kafka_lake.core.reports.decisions import (
    digest,
    nothing_withdrawn,
    of_streams,
    where,
    withdrawn_document,
)
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import decisions, reopening
from airflow_kafka_lake.services.planning import check_bounds
from airflow_kafka_lake.services.stream_choice import all_or_nothing, choose, one_by_one

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What a person has approved: the digest of the offsets that were shown, None where none were; and the slices of
    them that are on record already, from an earlier call that did not come to its end."""

    shown: str | None = None
    recorded: frozenset[Slice] = frozenset()

    def require(self, streams: Iterable[Mapping[str, Any]]) -> None:
        """Raise StateError where a decision would be about other offsets than were shown."""
        if self.shown not in (None, digest(streams)):
            raise StateError(
                "these are not the offsets that were shown and approved: what is meant has changed since. Nothing was "
                "decided; show it again, and approve it then"
            )

    def left(self, chosen: Sequence[SelectedSlice]) -> list[SelectedSlice]:
        """Return what is not on record yet."""
        return [item for item in chosen if item.slice not in self.recorded]


DIRECTLY = Approval()
"""The decision of who calls: nothing was shown before."""


def selected(bounds: Bounds, topic_id: str | None = None) -> Selection:
    """Return what is meant by topic, partitions, begin and end; UsageError where these do not go together."""
    check_bounds(bounds)
    return Selection(
        topic=bounds.topic,
        topic_id=topic_id,
        partitions=None if bounds.partitions is None else frozenset(bounds.partitions),
        start=bounds.start,
        end=bounds.end,
    )


def period(bounds: Bounds, topic_id: str | None = None) -> Selection:
    """Return what is meant by a topic and a period with both ends, which a skip and a reopen need."""
    selection = selected(bounds, topic_id)
    if selection.topic is None or selection.start is None or selection.end is None:
        raise UsageError("a topic and a period with both ends are needed: give a topic, --from and --to")
    mixed = isinstance(selection.start, datetime) is not isinstance(selection.end, datetime)
    if mixed and len(selection.partitions or ()) != 1:
        raise UsageError("one bound is a time and the other an offset: give both as times, or name one partition")
    return selection


def skip(
    ports: Ports,
    spec: PipelineSpec,
    selection: Selection,
    *,
    reason: str,
    acknowledge_order: bool = False,
    drop_staged: bool = False,
    dry_run: bool = False,
    approved: Approval = DIRECTLY,
) -> Json:
    """Pass a period unread, or show what that would change; raises what `decisions.skip` raises."""
    chosen = _approved(choose(ports, spec.name, selection), approved)
    shown = all_or_nothing(
        chosen, lambda item: decisions.preview_skip(ports, spec.name, item.stream, item.interval, reason=reason)
    )
    if dry_run:
        streams = _previewed(chosen, shown)
    else:
        done = one_by_one(
            chosen,
            chosen,
            lambda item: decisions.skip(
                ports,
                spec.name,
                item.stream,
                item.interval,
                reason=reason,
                acknowledge_order=acknowledge_order,
                drop_staged=drop_staged,
            ),
        )
        streams = [
            where(item) | {"skipped": passed.offsets, "waves": list(passed.waves)}
            for item, passed in zip(chosen, done, strict=True)
        ]
    return of_streams(spec.name, streams, {"skipped": sum(item["skipped"] for item in streams)}, dry_run=dry_run)


def _previewed(chosen: Sequence[SelectedSlice], shown: Sequence[decisions.SkipPreview]) -> list[Json]:
    return [
        where(item)
        | {
            "skipped": part.offsets,
            "waves": list(part.waves),
            "fenced": list(part.fenced),
            "goes_on": part.goes_on.to_pairs(),
        }
        for item, part in zip(chosen, shown, strict=True)
    ]


def reopen(
    ports: Ports,
    spec: PipelineSpec,
    selection: Selection,
    *,
    reason: str,
    accept_fewer: bool = False,
    drop_staged: bool = False,
    dry_run: bool = False,
    approved: Approval = DIRECTLY,
) -> Json:
    """Have a period read again, or show what that would change; raises what `reopening.prepare` raises."""

    def prepare(item: SelectedSlice) -> reopening.PreparedReopen:
        how = {"accept_fewer": accept_fewer, "drop_staged": drop_staged}
        return reopening.prepare(ports, spec, item.stream, item.interval, reason=reason, **how)

    meant = choose(ports, spec.name, selection)
    chosen = _approved(meant, approved)
    for done_before in meant:
        if done_before not in chosen:
            _finish(ports, spec, prepare, done_before)
    prepared = all_or_nothing(chosen, prepare)
    streams: list[Json] = [
        where(item)
        | {
            "reopened": part.offsets,
            "rows": part.rows,
            "waves": list(part.waves),
            "watermark": part.watermark,
            "started": [],
        }
        for item, part in zip(chosen, prepared, strict=True)
    ]
    if not dry_run:
        done = one_by_one(chosen, prepared, lambda part: reopening.carry_out(ports, spec, part))
        for item, reopened in zip(streams, done, strict=True):
            item |= {
                "watermark": reopened.watermark,
                "started": [{**segment.stream._asdict(), "start": segment.start} for segment in reopened.started],
            }
    total = {
        "reopened": sum(item["reopened"] for item in streams),
        "watermark": streams[0]["watermark"] if len(streams) == 1 else None,
        "started": list({tuple(segment.items()): segment for item in streams for segment in item["started"]}.values()),
    }
    return of_streams(spec.name, streams, total, dry_run=dry_run)


def _approved(chosen: Sequence[SelectedSlice], approved: Approval) -> list[SelectedSlice]:
    approved.require(map(where, chosen))
    return approved.left(chosen)


def _finish(
    ports: Ports, spec: PipelineSpec, prepare: Callable[[SelectedSlice], reopening.PreparedReopen], item: SelectedSlice
) -> None:
    """Finish a reopen that is on record, unless an attempt has worked on it since: what it had begun is over then."""
    try:
        begun = prepare(item)
    except (TerminalError, ConcurrentError):
        return
    if begun.begun is not None:
        reopening.carry_out(ports, spec, begun)


def withdraw(
    ports: Ports,
    subject: str,
    selection: Selection,
    *,
    reason: str,
    dry_run: bool = False,
    approved: Approval = DIRECTLY,
) -> Json:
    """Take off the plan what of a pipeline, plan, wave or range was never claimed; raises what `decisions.withdraw`
    raises."""
    found = decisions.find_subject(ports.ledger, subject)
    if approved.recorded:
        return nothing_withdrawn(found.pipeline)
    done = decisions.withdraw(ports, found, selection, reason=reason, dry_run=True)
    document = withdrawn_document(found.pipeline, done.what, done.kept, dry_run=dry_run)
    approved.require(document["streams"])
    if not dry_run:
        ports.ledger.commit(Withdraw(what=done.what, actor=ports.actor))
    return document
