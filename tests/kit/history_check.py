"""What actors wrote down, held against the laws: fences in order, accounting before publishing, watermarks forward.

Order between processes is judged only where one had ended, by its host's clock, before the other began.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.core.audit import check as checking
from airflow_kafka_lake.core.audit.check import AuditInputs, Finding, FindingKind
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream, ranges_digest
from tests.kit.operations import Operation, Phase
from tests.kit.producers_truth import Evidence, check_truth

RECORDED_RESETS = frozenset({"ledger.restore", "ledger.reopen"})
"""Calls after which the record may be lower than before, as recorded: a rebuild, a reopen."""

Fence = tuple[str, int]
"""`(wave, fence)`."""


@dataclass(frozen=True, slots=True)
class Epochs:
    """Times between recorded resets: only within one of them is the record monotone."""

    resets: tuple[Operation, ...]

    def of(self, item: Operation) -> int:
        """Return how many resets had ended before a call began."""
        return sum(reset.before(item) for reset in self.resets)

    @property
    def last(self) -> int:
        """The one that the ledger is in now."""
        return len(self.resets)


def check(evidence: AuditInputs, history: Sequence[Operation] = ()) -> tuple[Finding, ...]:
    """Judge what the product's checker judges, and a history beside it; sorted as it sorts."""
    found = checking.check(evidence)
    if isinstance(evidence, Evidence):
        lost = [item for item in found if item.kind is FindingKind.LOST]
        found += tuple(item for item in check_truth(evidence) if not any(_is_same_loss(item, one) for one in lost))
    return tuple(sorted((*found, *check_history(evidence, history)), key=lambda item: item.place))


def _is_same_loss(found: Finding, known: Finding) -> bool:
    same = (found.kind, found.stream, found.wave) == (known.kind, known.stream, known.wave)
    return same and bool(found.offsets & known.offsets)


def check_history(evidence: AuditInputs, history: Sequence[Operation]) -> Iterator[Finding]:
    """Judge the history of this pipeline; a call whose end is unknown breaks no law."""
    done = [item for item in history if item.outcome is Phase.OK]
    planned = {wave for item in done if item.call == "ledger.record_plan" for wave in _planned(item, evidence)}
    waves = planned | {wave.id for wave in evidence.ledger.waves}
    claims = [item for item in done if item.call == "ledger.claim" and item.asked["wave"] in waves]
    epochs = Epochs(tuple(item for item in done if item.call in RECORDED_RESETS))
    yield from _check_claims(claims, epochs)
    yield from _check_fences(done, claims, epochs)
    yield from _check_receipts_first(evidence, history)
    yield from _check_watermarks(done, evidence, epochs)
    yield from _check_settlements(done, waves, evidence, epochs)


def _check_claims(claims: Sequence[Operation], epochs: Epochs) -> Iterator[Finding]:
    given: dict[tuple[int, Fence], Operation] = {}
    for claim in claims:
        key = claim.answer["key"]
        other = given.setdefault((epochs.of(claim), (key["wave"], key["fence"])), claim)
        if other is not claim:
            words = f"fence {key['fence']} of wave {key['wave']} was given to {other.process} and to {claim.process}"
            yield Finding(kind=FindingKind.STALE_FENCE, wave=key["wave"], message=words)


def _check_fences(done: Iterable[Operation], claims: Sequence[Operation], epochs: Epochs) -> Iterator[Finding]:
    """No write under a fence succeeds once a higher one was given, and none adopts what a higher one published."""
    given: dict[tuple[str, int, str], list[tuple[int, int]]] = defaultdict(list)
    fences: dict[str, int] = {}
    for claim in claims:
        key = claim.answer["key"]
        fences[key["attempt"]] = key["fence"]
        if claim.ended is not None:
            given[claim.host, epochs.of(claim), key["wave"]].append((claim.ended, key["fence"]))
    highest = {place: _running_maximum(sorted(found)) for place, found in given.items()}
    for item in done:
        for wave, fence in _fences_of(item):
            ticks, above = highest.get((item.host, epochs.of(item), wave), ([], [0]))
            newest = above[bisect_left(ticks, item.begun)]
            if newest > fence:
                words = f"{item.call} of {item.actor} succeeded with fence {fence}, after fence {newest} was given"
                yield Finding(kind=FindingKind.STALE_FENCE, wave=wave, message=words)
        if item.call == "ledger.record_commit" and fences.get(item.asked["attempt"], 0) > item.asked["key"]["fence"]:
            wave, attempt = item.asked["key"]["wave"], item.asked["attempt"]
            words = f"attempt {attempt} was adopted by {item.actor} under the older fence {item.asked['key']['fence']}"
            yield Finding(kind=FindingKind.STALE_FENCE, wave=wave, message=words)


def _running_maximum(given: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return when fences were given, and the highest one before each moment (and after the last)."""
    ticks, above = [], [0]
    for tick, fence in given:
        ticks.append(tick)
        above.append(max(fence, above[-1]))
    return ticks, above


def _fences_of(item: Operation) -> list[Fence]:
    """Return the fence that guarded a write of the ledger; those of a skip may be old where its waves have ended."""
    if not item.call.startswith("ledger.") or item.call == "ledger.claim":
        return []
    guard = item.asked if item.call == "ledger.revoke" else item.asked.get("key")
    return [(guard["wave"], guard["fence"])] if guard and guard["fence"] else []


def _check_receipts_first(evidence: AuditInputs, history: Sequence[Operation]) -> Iterator[Finding]:
    """Before an attempt is published its process has stored a complete receipt of each range that its token names."""
    receipts: dict[tuple[str, str], list[Operation]] = defaultdict(list)
    publishes: list[Operation] = []
    claimed: set[tuple[str, str]] = set()
    for item in history:
        if item.call == "ledger.claim" and item.answer:
            claimed.add((item.process, item.answer["key"]["wave"]))
        elif item.call == "table.add_receipts" and item.outcome is Phase.OK:
            for attempt in {row["attempt"] for row in item.asked["rows"] if row["kind"] == "rows"}:
                receipts[item.process, attempt].append(item)
        elif item.call == "table.publish" and item.outcome is not Phase.FAIL:
            publishes.append(item)
    for item in publishes:
        token = item.asked["publication"]["token"]
        who = (item.process, token["attempt"])
        rows = [row for added in receipts[who] if added.before(item) for row in _rows_of(added, token["attempt"])]
        if (
            (item.process, token["wave"]) in claimed
            and token["pipeline"] == evidence.ledger.pipeline
            and not _proves(rows, token)
        ):
            words = f"attempt {token['attempt']} was published by {item.actor} before its receipts were complete"
            yield Finding(kind=FindingKind.VISIBLE_BEFORE_ACCOUNTED, wave=token["wave"], message=words)


def _rows_of(added: Operation, attempt: str) -> list[Mapping[str, Any]]:
    return [row for row in added.asked["rows"] if (row["kind"], row["attempt"]) == ("rows", attempt)]


def _proves(rows: Sequence[Mapping[str, Any]], token: Mapping[str, Any]) -> bool:
    slices = {Slice(Stream(*row["slice"]["stream"]), OffsetRange(*row["slice"]["range"])) for row in rows}
    complete = all(
        not row["accounting"]["unexplained"]
        and sum(row["accounting"].values()) == row["slice"]["range"][1] - row["slice"]["range"][0]
        for row in rows
    )
    return complete and ranges_digest(slices) == token["ranges"]


def _check_watermarks(done: Sequence[Operation], evidence: AuditInputs, epochs: Epochs) -> Iterator[Finding]:
    """Each move of a watermark begins where the one before ended, and the ledger still has the last one."""
    moves: dict[Stream, dict[tuple[int, int], Mapping[str, Any]]] = defaultdict(dict)
    for item in done:
        if item.call == "ledger.advance" and item.asked["pipeline"] == evidence.ledger.pipeline:
            since = epochs.of(item)
            for move in item.answer.get("value", ()):
                moves[Stream(*move["stream"])][since, move["sequence"]] = move
    watermarks = {stream.key: stream.watermark for stream in evidence.ledger.streams}
    for stream, found in sorted(moves.items()):
        reached, epoch = 0, -1
        for (since, _), move in sorted(found.items()):
            reached = reached if since == epoch else 0
            epoch = since
            if move["end"] <= move["start"] or move["start"] < reached:
                yield _moved_back(stream, reached, move["end"])
            reached = max(reached, move["end"])
        if epoch == epochs.last and stream in watermarks and watermarks[stream] < reached:
            yield _moved_back(stream, reached, watermarks[stream])


def _moved_back(stream: Stream, reached: int, now: int) -> Finding:
    return Finding(
        kind=FindingKind.WATERMARK_BACK,
        stream=stream,
        offsets=RangeSet.between(now, reached),
        message=f"the watermark was at {reached} and moved to {now}",
    )


def _check_settlements(
    done: Sequence[Operation], waves: AbstractSet[str], evidence: AuditInputs, epochs: Epochs
) -> Iterator[Finding]:
    """The ledger still has each commit that it has confirmed."""
    committed = {wave.id for wave in evidence.ledger.waves if wave.state is WaveState.COMMITTED}
    for item in done:
        if item.call != "ledger.record_commit" or epochs.of(item) < epochs.last:
            continue
        wave = item.asked["key"]["wave"]
        if wave in waves - committed:
            words = f"the ledger confirmed to {item.actor} that wave {wave} is committed, and has forgotten it"
            yield Finding(kind=FindingKind.INCONSISTENT, wave=wave, message=words)


def _planned(item: Operation, evidence: AuditInputs) -> list[str]:
    plan = item.asked["plan"]
    return [wave["id"] for wave in plan["waves"] if plan["spec"]["name"] == evidence.ledger.pipeline]
