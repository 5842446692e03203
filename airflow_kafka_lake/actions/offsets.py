"""Actions about offsets of many partitions at once: leave them unread, read them again, take them off the plan."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_kafka_lake.actions.action import Action, ActionOutcome, FieldKind, Json, asked, drop_staged, switch
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import ConcurrentError, StateError, TerminalError, UsageError
from airflow_kafka_lake.core.ledger.decisions import KeptRange, Withdraw, Withdrawal
from airflow_kafka_lake.core.ledger.records import SkipResult
from airflow_kafka_lake.core.ledger.waves import ON_HOLD
from airflow_kafka_lake.core.offsets import RangeSet, Slice
from airflow_kafka_lake.core.ordering.segments import Segment
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import SelectedSlice, Selection
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.reports.plan import bullets, plain, table
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import decisions, reopening
from airflow_kafka_lake.services.identity import check_streams
from airflow_kafka_lake.services.planning import check_bounds
from airflow_kafka_lake.services.stream_choice import all_or_nothing, choose, one_by_one

# Which offsets are meant.


def selected(bounds: Bounds, topic_id: str | None = None) -> Selection:
    """Return the selection of topic, partitions, begin and end. Raises UsageError where these do not go together."""
    check_bounds(bounds)
    return Selection(
        topic=bounds.topic,
        topic_id=topic_id,
        partitions=None if bounds.partitions is None else frozenset(bounds.partitions),
        start=bounds.start,
        end=bounds.end,
    )


def digest(name: str, pipeline: str, meant: Iterable[object], effect: Iterable[object] = ()) -> str:
    """Return 16 hex digits of an action: eight for which offsets are meant, eight for what becomes of them."""
    parts = (json.dumps([name, pipeline, *part]) for part in (meant, effect))
    return "".join(hashlib.sha256(part.encode()).hexdigest()[:8] for part in parts)


def ends(items: Iterable[SelectedSlice]) -> list[Sequence[object]]:
    """Return the streams of slices, each with both ends."""
    return [[*item.stream.key, item.interval.start, item.interval.end] for item in items]


# What the three have in common.

MOST = 50
"""Partitions, and ranges that stay, that are shown to the approving person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsOutcome(ActionOutcome):
    """The result of an action about offsets, dry or carried out, and its table for the approving person.

    `effects` are its consequences as sentences, `stays` the ranges that it leaves as they are.
    """

    dry_run: bool
    pipeline: str
    waves: tuple[str, ...]
    offsets: int
    size: str
    next_step: str
    columns: tuple[str, ...]
    rows: list[Sequence[object]]
    numbers: tuple[int, ...] = (2,)
    """Columns that hold numbers."""
    effects: tuple[str, ...]
    stays: list[str] = field(default_factory=list)


class OffsetsAction(Action):
    """An action about a selection of offsets. Raises UsageError for one that is none.

    `shown` is the digest of its dry run: it is refused for other offsets. `recorded` are the slices of them that are on
    record already, from an earlier call that did not come to its end.
    """

    has_dry_run = True
    asks = "Fill in which offsets, and see here how many they are."

    selection: Selection = asked(FieldKind.SELECTION, "Period", "a period of one topic")  # a field
    shown: str | None = asked(
        FieldKind.SHOWN, "Shown", "only for the offsets of that dry run", needed=False, metavar="DIGEST"
    )
    recorded: frozenset[Slice] = frozenset()

    def __post_init__(self) -> None:
        """Check the reason and the period, wherever they were typed."""
        super().__post_init__()
        meant = self.selection
        if not self.field("selection").needed:
            return
        if meant.topic is None or meant.start is None or meant.end is None:
            raise UsageError("a topic and a period with both ends are needed: give a topic, --from and --to")
        mixed = isinstance(meant.start, datetime) is not isinstance(meant.end, datetime)
        if mixed and len(meant.partitions or ()) != 1:
            raise UsageError("one bound is a time and the other an offset: give both as times, or name one partition")

    @abstractmethod
    def apply(self, ports: Ports, spec: PipelineSpec) -> OffsetsOutcome:
        """Carry the action out. Raises StateError for other offsets than were approved."""

    @abstractmethod
    def preview(self, ports: Ports, spec: PipelineSpec) -> OffsetsOutcome:
        """Return its result as it would be now; raises a refusal that would last."""

    def _left(self, pipeline: str, chosen: Sequence[SelectedSlice]) -> list[SelectedSlice]:
        """Return the slices that are not on record yet."""
        self._require(digest(self.name, pipeline, ends(chosen))[:8])
        return [item for item in chosen if item.slice not in self.recorded]

    def _require(self, meant: str) -> None:
        """Raise StateError for other offsets than were shown, or another effect; one that is begun has another."""
        if self.shown is not None and not self.shown.startswith(meant[:8] if self.recorded else meant):
            raise StateError(
                "these are not the offsets that were shown, or something else would become of them now. "
                f"Nothing {'more ' if self.recorded else ''}was decided; show it again, and decide then"
            )

    def headline(self, outcome: OffsetsOutcome) -> str:
        """Return in one line how much is decided."""
        places = count(len(outcome.rows), "partition")
        return f"{self.name.capitalize()} {outcome.size} of {places} of {outcome.pipeline}"

    def markdown(self, outcome: OffsetsOutcome) -> str:
        """Return the numbers and consequences for the approving person, below the headline."""
        warnings = [field.warning for field in self.of_kind(FieldKind.SWITCH) if getattr(self, field.name)]
        parts = [
            f"Reason: {plain(self.reason or '')}",
            table(outcome.columns, outcome.rows, most=MOST, numbers=outcome.numbers),
            bullets([*outcome.effects, *warnings]),
        ]
        if stays := outcome.stays:
            more = [f"and {len(stays) - MOST:,} more"] if stays[MOST:] else []
            parts += ["What stays planned:", bullets([*stays[:MOST], *more])]
        return "\n\n".join(parts)


def _document(
    pipeline: str, parts: Iterable[tuple[SelectedSlice, Json]], waves: Sequence[str], *, dry_run: bool, **total: Any
) -> Json:
    """Return the document of several slices, with totals; `from` and `to` only where it is one."""
    streams = [item.slice.entry() | result for item, result in parts]
    only = {name: streams[0][name] if len(streams) == 1 else None for name in ("from", "to")}
    return {"pipeline": pipeline, "dry_run": dry_run, **only, "waves": list(waves), **total, "streams": streams}


def _waves(parts: Iterable[SkipResult | reopening.PreparedReopen]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(wave for part in parts for wave in part.waves))


# Pass offsets unread.


def _skipped(item: SelectedSlice, part: SkipResult) -> str:
    rest = item.interval.span - part.offsets
    known = f"; {count(rest, 'other there is', 'others there are')} in the table, or skipped before" if rest else ""
    return f"{count(part.offsets, 'offset')} of {item}{known}"


def _still_there(item: SelectedSlice, start: int | None) -> str:
    if start is None:
        return "whether Kafka still has them is not known"
    left = RangeSet.between(max(start, item.interval.start), item.interval.end) - item.stream.covered
    return f"Kafka still has {left.describe()}, which a run could read" if left else "Kafka has none of them any more"


class SkipAction(OffsetsAction):
    """Pass a period unread."""

    name = "skip"
    help = "pass offsets unread, by your decision"
    label = "Skip offsets …"
    title = "Skip offsets"
    consequences = (
        "They will not be in the table. The watermark passes them with the next run.",
        "Every audit counts them as skipped, with your name and reason.",
        "Only a reopen reads them later, and only while Kafka still has them.",
    )
    grave = True

    acknowledge_order: bool = switch(
        "Acknowledge order",
        "records that come later in the order may be read although these are missing",
        "Records that come later in the order may be read although these are missing.",
    )
    drop_staged: bool = drop_staged()

    @classmethod
    def button_label(cls, remedy: Remedy) -> str:
        """Return its label; it says how many offsets a known slice has, and where."""
        where = remedy.slice
        return f"Skip {count(where.range.span, 'offset')} of {where.stream}" if where else cls.label

    @classmethod
    def button_title(cls, remedy: Remedy) -> str:
        """Return the title of the question to a person."""
        return f"Skip {remedy.slice}" if remedy.slice else cls.title

    @classmethod
    def button_lines(cls, remedy: Remedy, ranges: int = 0) -> tuple[str, ...]:  # noqa: ARG003  # a slice has none
        """Return the consequences, also for the order where that is acknowledged."""
        order = "Later partitions of the topic no longer wait for them: the order of records has a gap here."
        return (*cls.consequences, *((order,) if "acknowledge_order" in remedy.switches else ()))

    def preview(self, ports: Ports, spec: PipelineSpec) -> OffsetsOutcome:
        """Return the offsets that would be passed, from which waves, and which held offsets would go on."""
        parts = self._previewed(ports, spec)
        starts, lines = decisions.log_starts(ports, {item.stream.key for item, _ in parts}), []
        there = [_still_there(item, starts.get(item.stream.key)) for item, _ in parts]
        for (item, part), seen in zip(parts, there, strict=True):
            fenced = f"; fenced first, as they were claimed: {', '.join(part.fenced)}" if part.fenced else ""
            goes_on = f"; {part.goes_on} was held for these and would go on" if part.goes_on else ""
            waves = ", ".join(part.waves) or "none"
            busy = f"; refused while a worker is on {', '.join(part.busy)}" if part.busy else ""
            still = f"; {seen}" if part.offsets else ""
            lines.append(f"would skip {_skipped(item, part)}{still}; taken from waves: {waves}{fenced}{busy}{goes_on}")
        return self._outcome(spec.name, parts, lines, there)

    def apply(self, ports: Ports, spec: PipelineSpec) -> OffsetsOutcome:
        """Skip slice by slice; raises the refusals of `decisions.skip`."""
        chosen = [item for item, _ in self._previewed(ports, spec)]

        def skip(item: SelectedSlice) -> SkipResult:
            return decisions.skip(
                *(ports, spec.name, item.stream, item.interval),
                reason=self.reason or "",
                acknowledge_order=self.acknowledge_order,
                drop_staged=self.drop_staged,
            )

        parts = list(zip(chosen, one_by_one(chosen, chosen, skip), strict=True))
        lines = [
            f"skipped {_skipped(item, part)}"
            if part.offsets
            else f"{'acknowledged the order at' if self.acknowledge_order else 'skipped nothing of'} {item}"
            for item, part in parts
        ]
        return self._outcome(spec.name, parts, lines)

    def _previewed(self, ports: Ports, spec: PipelineSpec) -> list[tuple[SelectedSlice, SkipResult]]:
        """Return the fate of each slice: none is skipped where one would be refused."""
        meant = choose(ports, spec.name, self.selection)
        chosen = self._left(spec.name, meant)
        check_streams(ports, spec, (item.stream.key for item in chosen))
        shown = all_or_nothing(
            chosen,
            lambda item: decisions.preview_skip(ports, spec.name, item.stream, item.interval, reason=self.reason or ""),
        )
        if self.acknowledge_order or any(part.offsets for part in shown):  # else all is done, perhaps by this very call
            self._require(digest(self.name, spec.name, ends(meant), (part.offsets for part in shown)))
        return list(zip(chosen, shown, strict=True))

    def _outcome(
        self,
        pipeline: str,
        parts: Sequence[tuple[SelectedSlice, SkipResult]],
        lines: Sequence[str],
        there: Sequence[str] | None = None,
    ) -> OffsetsOutcome:
        """Return the outcome; `there` is the part of each slice that Kafka has, None where this was no dry run."""
        dry_run = there is not None
        offsets, waves = sum(part.offsets for _, part in parts), _waves(part for _, part in parts)
        results = [{"skipped": part.offsets, "waves": list(part.waves)} for _, part in parts]
        if dry_run:
            for result, (_, part) in zip(results, parts, strict=True):
                result |= {"fenced": list(part.fenced), "goes_on": part.goes_on.to_pairs()}
        waits = "Partitions added to the topic since, and a new topic of its name, wait till the order is acknowledged."
        if waves:
            goes_on = f"What was held for them goes on in wave {', '.join(waves)}: {remedies.run(pipeline)}"
        elif offsets:
            goes_on = f"The watermark moves over them: {remedies.advance(pipeline)}"
        elif self.acknowledge_order:
            goes_on = f"Partitions that waited for them are read: {remedies.run(pipeline)}"
        else:
            goes_on = "All of them are in the table, or were skipped before: what has landed is not skipped"
        chosen = [item for item, _ in parts]
        return OffsetsOutcome(
            document=_document(pipeline, zip(chosen, results, strict=True), waves, dry_run=dry_run, skipped=offsets),
            lines=lines if dry_run and offsets else [*lines, goes_on],
            leaves_nothing=not offsets and not self.acknowledge_order,
            dry_run=dry_run,
            pipeline=pipeline,
            waves=waves,
            digest=digest(self.name, pipeline, ends(chosen), (part.offsets for _, part in parts)),
            offsets=offsets,
            size=count(offsets, "offset"),
            next_step=f"{goes_on}, or the pipeline's next run",
            columns=("partition", "offsets", "left unread", "taken from waves", "taken from workers", "held for these"),
            rows=[
                (
                    str(item.stream.key),
                    str(item.interval),
                    f"{part.offsets:,}",
                    ", ".join(part.waves) or "none",
                    ", ".join(part.fenced) or "none",
                    part.goes_on.describe() if part.goes_on else "none",
                )
                for item, part in parts
            ],
            effects=(
                "Records at these offsets stay out of the table; only a reopen reads them, while Kafka has them.",
                *(f"{item}: {seen}." for (item, _), seen in zip(parts[:MOST], there or (), strict=False)),
                *(() if self.acknowledge_order else (waits,)),
            ),
        )


# Read committed or skipped offsets again.


class ReopenAction(OffsetsAction):
    """Have a committed or skipped period read again."""

    name = "reopen"
    help = "read a committed or skipped slice again; the new rows take the place of the old ones in one commit"
    label = "Read again …"
    title = "Read offsets again"
    consequences = (
        "What is in the table is replaced, in one commit, by what Kafka has now; until then it stays as it is.",
        "The watermarks move back: consumers are told once more of all offsets from there on.",
    )

    accept_fewer: bool = switch(
        "Accept fewer rows",
        "also if the second reading has fewer rows than the lake has now",
        "If the second reading has fewer rows, the rows that Kafka has no longer are removed.",
    )
    restore_deleted: bool = switch(
        "Restore deleted rows",
        "also if rows would come back that are gone from the table, such as for an erasure request",
        "Rows that were deleted from the table come back, as far as Kafka still has their records.",
    )
    drop_staged: bool = drop_staged()

    def preview(self, ports: Ports, spec: PipelineSpec) -> OffsetsOutcome:
        """Return the offsets that would be read again."""
        prepared = self._prepared(ports, spec)
        lines = [
            f"an earlier call has reopened {item}: only what it had begun would be finished"
            if part.begun
            else f"would reopen {count(part.offsets, 'offset')} of {item} with {count(part.rows, 'row')} in "
            f"{count(len(part.waves), 'wave')}; the watermark would be {part.watermark}"
            + (f"; {part.gone:,} of the rows are gone from the table, and would come back" if part.gone else "")
            + "".join(f"; recorded as deleted: {reopening.told(event)}" for event in part.deletions)
            for item, part in prepared
        ]
        return self._outcome(spec.name, prepared, [(part.watermark, ()) for _, part in prepared], lines, dry_run=True)

    def apply(self, ports: Ports, spec: PipelineSpec) -> OffsetsOutcome:
        """Reopen slice by slice; raises the refusals of `reopening.prepare`."""
        prepared = self._prepared(ports, spec)
        chosen, parts = [item for item, _ in prepared], [part for _, part in prepared]
        done = one_by_one(chosen, parts, lambda part: reopening.carry_out(ports, spec, part))
        lines = [
            f"{'an earlier call, whose reason stays, has ' if was.begun else ''}reopened "
            f"{count(part.offsets, 'offset')} of {item} in wave {', '.join(part.waves)}; the watermark is "
            f"{part.watermark}" + (f"; {count(was.gone, 'deleted row')} will be in the table again" if was.gone else "")
            for (item, was), part in zip(prepared, done, strict=True)
        ]
        lines.append(f"What is in the lake stays until it is read again with: {remedies.run(spec.name)}")
        lines += [
            f"order: {segment.stream} from {segment.start} continues it and is in the lake in part already: what is "
            "read again comes after it"
            for segment in {segment.key: segment for part in done for segment in part.started}.values()
        ]
        left = [(part.watermark, part.started) for part in done]
        return self._outcome(spec.name, prepared, left, lines, dry_run=False)

    def _prepared(self, ports: Ports, spec: PipelineSpec) -> list[tuple[SelectedSlice, reopening.PreparedReopen]]:
        """Return the decision about each slice: none is reopened where one would be refused."""

        def prepare(item: SelectedSlice) -> reopening.PreparedReopen:
            return reopening.prepare(
                *(ports, spec, item.stream, item.interval),
                reason=self.reason or "",
                accept_fewer=self.accept_fewer,
                restore_deleted=self.restore_deleted,
                drop_staged=self.drop_staged,
            )

        meant = choose(ports, spec.name, self.selection)
        chosen = self._left(spec.name, meant)
        for done_before in meant:
            if done_before not in chosen:
                _finish(ports, spec, prepare, done_before)
        prepared = all_or_nothing(chosen, prepare)
        self._require(digest(self.name, spec.name, ends(meant), ((part.offsets, part.rows) for part in prepared)))
        return list(zip(chosen, prepared, strict=True))

    def _outcome(
        self,
        pipeline: str,
        parts: Sequence[tuple[SelectedSlice, reopening.PreparedReopen]],
        left: Sequence[tuple[int, Sequence[Segment]]],
        lines: Sequence[str],
        *,
        dry_run: bool,
    ) -> OffsetsOutcome:
        """Return the outcome; `left` is each watermark, and the segments that continue what is read again."""
        chosen, waves = [item for item, _ in parts], _waves(part for _, part in parts)
        offsets, rows = sum(part.offsets for _, part in parts), sum(part.rows for _, part in parts)
        results = [
            {
                "reopened": part.offsets,
                "rows": part.rows,
                "waves": list(part.waves),
                "watermark": watermark,
                "started": list(map(_start, started)),
            }
            for (_, part), (watermark, started) in zip(parts, left, strict=True)
        ]
        total = {
            "reopened": offsets,
            "watermark": left[0][0] if len(left) == 1 else None,
            "started": list({item.key: _start(item) for _, started in left for item in started}.values()),
        }
        again = sum(max(0, item.stream.watermark - part.watermark) for item, part in parts)
        run = remedies.run(pipeline)
        return OffsetsOutcome(
            document=_document(pipeline, zip(chosen, results, strict=True), waves, dry_run=dry_run, **total),
            lines=lines,
            dry_run=dry_run,
            pipeline=pipeline,
            waves=waves,
            digest=digest(self.name, pipeline, ends(chosen), ((part.offsets, part.rows) for _, part in parts)),
            offsets=offsets,
            size=f"{count(offsets, 'offset')} with {count(rows, 'row')}",
            next_step=f"What is in the lake stays until it is read again: {run}, or the pipeline's next run",
            columns=("partition", "offsets", "how many", "rows", "waves", "watermark then"),
            rows=[
                (
                    str(item.stream.key),
                    str(item.interval),
                    f"{part.offsets:,}",
                    f"{part.rows:,}",
                    len(part.waves),
                    f"{part.watermark:,}",
                )
                for item, part in parts
            ],
            numbers=(2, 3, 4, 5),
            effects=(
                "The rows stay visible until they are read again; one commit takes them away and shows the new ones.",
                f"The watermark falls as the table says: consumers are told again of {count(again, 'offset')}.",
            ),
        )


def _start(segment: Segment) -> Json:
    return {**segment.stream._asdict(), "start": segment.start}


def _finish(
    ports: Ports, spec: PipelineSpec, prepare: Callable[[SelectedSlice], reopening.PreparedReopen], item: SelectedSlice
) -> None:
    """Finish a reopen that is on record, unless an attempt has worked on it since: its work is over then."""
    try:
        begun = prepare(item)
    except (TerminalError, ConcurrentError):
        return
    if begun.begun is not None:
        reopening.carry_out(ports, spec, begun)


# Take off the plan what was never claimed.


class WithdrawAction(OffsetsAction):
    """Take off the plan what no run has begun: of a plan, a wave or a range, or of all that is planned."""

    name = "withdraw"
    help = "take off the plan what no attempt has begun to read; a later plan takes it again"
    label = "Withdraw from the plan …"
    title = "Withdraw what no run has begun"
    consequences = ("A later plan takes these offsets again.",)
    asks = "See here how many offsets that would be."

    selection: Selection = asked(  # a field
        FieldKind.SELECTION, "Offsets", "only these", needed=False, default=Selection()
    )
    subject: str | None = asked(
        FieldKind.SUBJECT,
        "Only of",
        "a plan, a wave or a range, by its id from the command status; otherwise all that is planned",
        needed=False,
        metavar="PIPELINE|PLAN|WAVE|RANGE",
        find=lambda ledger, name: (decisions.find_subject(ledger, name).pipeline, name),
    )

    def preview(self, ports: Ports, spec: PipelineSpec) -> OffsetsOutcome:
        """Return the ranges that would leave the plan, and those that would stay."""
        return _withdrawn(spec.name, *self._withdrawal(ports, spec), dry_run=True)

    def apply(self, ports: Ports, spec: PipelineSpec) -> OffsetsOutcome:
        """Withdraw; raises the refusals of `decisions.preview_withdraw`, and ConcurrentError, with nothing withdrawn,
        where another process has claimed or changed a range meanwhile. Of ranges on record nothing more is withdrawn.
        """
        if self.recorded:
            return _withdrawn(spec.name, None, (), dry_run=False)
        what, kept = self._withdrawal(ports, spec)
        outcome = _withdrawn(spec.name, what, kept, dry_run=False)
        self._require(outcome.digest)
        ports.ledger.commit(Withdraw(what=what, actor=ports.actor))
        return outcome

    def _withdrawal(self, ports: Ports, spec: PipelineSpec) -> tuple[Withdrawal, tuple[KeptRange, ...]]:
        found = decisions.find_subject(ports.ledger, self.subject or spec.name)
        check_streams(ports, spec, {item.stream for item in found.ranges})
        return decisions.preview_withdraw(ports, found, self.selection, reason=self.reason or "")


NOTHING_LOST = "nothing of them was read; a later plan takes them again"


def _withdrawn(pipeline: str, what: Withdrawal | None, kept: Sequence[KeptRange], *, dry_run: bool) -> OffsetsOutcome:
    """Return the ranges that leave the plan and those that stay; `what` is None for one that was on record before."""
    by_stream = what.by_stream if what else {}
    offsets, ranges, waves = (what.offsets, len(what.ranges), what.waves) if what else (0, 0, ())
    table_rows = [(str(key), ", ".join(map(str, gone))) for key, gone in by_stream.items()]
    stays = [f"{item.record.stream} {item.record.range}: {item.reason}" for item in kept]
    held = (item for item in (what.ranges if what else ()) if item.record.state in ON_HOLD)
    holds = [f"{Slice(item.record.stream, item.gone)}: {item.record.reason}" for item in held]
    verb, size = "would withdraw" if dry_run else "withdrew", count(offsets, "offset")
    return OffsetsOutcome(
        document={
            "pipeline": pipeline,
            "dry_run": dry_run,
            "offsets": offsets,
            "ranges": ranges,
            "waves": list(waves),
            "streams": [{**key._asdict(), "withdrawn": gone.to_pairs()} for key, gone in by_stream.items()],
            "kept": [
                {
                    "range": item.record.id,
                    "wave": item.record.wave,
                    **item.record.stream.facts,
                    "start": item.record.range.start,
                    "end": item.record.range.end,
                    "reason": item.reason,
                }
                for item in kept
            ],
        },
        lines=[
            f"{verb} {size} in {count(ranges, 'range')} of wave {', '.join(waves)}: {NOTHING_LOST}",
            ("not planned any more", ("stream", "offsets"), table_rows),
            *(f"was on hold, and is not any more: {line}" for line in holds[:MOST]),
            *(f"stays: {line}" for line in stays),
        ],
        refused=bool(kept),
        dry_run=dry_run,
        pipeline=pipeline,
        waves=waves,
        digest=digest(WithdrawAction.name, pipeline, [[*key, *gone.to_pairs()] for key, gone in by_stream.items()]),
        offsets=offsets,
        size=size,
        next_step=f"A later plan takes these offsets again: {remedies.run(pipeline)}, or the pipeline's next run",
        columns=("partition", "offsets", "not planned any more"),
        rows=[(str(key), gone.describe(), f"{gone.span:,}") for key, gone in by_stream.items()],
        effects=(
            f"{count(ranges, 'range leaves', 'ranges leave')} the plan, of {count(len(waves), 'wave')}.",
            "Nothing of them was read, so nothing is lost: a later plan takes the same offsets again.",
            *(f"On hold until then: {line}" for line in holds[:MOST]),
        ),
        stays=stays,
    )
