"""How far a pipeline is, as a few facts side by side, and what has to be known before they are believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_kafka_lake.core.amounts import age, count, span
from airflow_kafka_lake.core.audit.timeline import OffsetStatus
from airflow_kafka_lake.features.pages.rendering import Json, macro, number

OBSERVED = "observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One number with its name; `kind` is a class of the style sheet."""

    label: str
    value: str
    note: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """Something that holds for the whole page."""

    title: str
    lines: tuple[str, ...] = ()
    kind: str = ""


def facts_of(summary: Json) -> tuple[Fact, ...]:
    """Return what a person asks first."""
    needs = summary["needs_person"]
    return (
        _landed(summary),
        Fact(label="lag", value=number(summary["lag"]), note=_unless_observed(summary["lag_state"], "offsets to read")),
        Fact(label="behind by", value=behind(summary), note=_behind_note(summary)),
        Fact(
            label="needs a person",
            value=number(needs),
            note="see what blocks" if needs else _nothing_blocks(summary),
            kind="bad" if needs else "",
        ),
        _deadline(summary),
        _running(summary),
    )


def _nothing_blocks(summary: Json) -> str:
    return "nothing is blocked" if summary["lag_state"] == OBSERVED else "nothing that the ledger knows of"


def behind(summary: Json) -> str:
    """Return how old the first unread record is: Kafka was asked about two ages, and it is between them."""
    seconds, below = summary["behind_seconds"], summary.get("behind_below_seconds")
    if seconds == 0:
        return f"under {span(below)}" if below else "nothing"
    return age(seconds) or "not known"


def shares_of(summary: Json) -> Iterator[tuple[str, int]]:
    """Give how many offsets have which status; what can be read and is neither planned nor on hold is unread."""
    known = {
        OffsetStatus.COMMITTED: summary["landed_offsets"],
        OffsetStatus.SKIPPED: summary["skipped_offsets"],
        OffsetStatus.RUNNING: summary["running_offsets"],
        OffsetStatus.PLANNED: summary["planned_offsets"],
        OffsetStatus.HELD: summary["held_offsets"],
        OffsetStatus.LOST: summary["lost_offsets"],
    }
    not_read = (OffsetStatus.RUNNING, OffsetStatus.PLANNED, OffsetStatus.HELD)
    known[OffsetStatus.UNREAD] = max(0, (summary["lag"] or 0) - sum(known[status] for status in not_read))
    yield from ((status.value, count) for status, count in known.items() if count)


def _landed(summary: Json) -> Fact:
    at = summary["last_landed_at"]
    last = macro("ago", "last at", at) if at else "nothing yet"
    if summary["landed_rows"] is None:
        return Fact(
            label="landed", value=number(summary["landed_offsets"]), note=f"offsets; {last}" if not at else last
        )
    return Fact(label="landed", value=count(summary["landed_rows"], "row"), note=last)


def _unless_observed(state: str, otherwise: str) -> str:
    return otherwise if state == OBSERVED else state


def _behind_note(summary: Json) -> str:
    where = summary["behind_stream"]
    if summary["behind_state"] != OBSERVED:
        return summary["behind_state"]
    return f"the oldest unread record, in {where[0]}/{where[1]}" if where else "everything is read"


def _deadline(summary: Json) -> Fact:
    at, where = summary["retention_deadline"], summary["retention_stream"]
    if not at:
        return Fact(label="retention deadline", value="none known", note=summary["retention_deadline_state"])
    note = f"{where[0]}/{where[1]}" if where else ""
    state = summary["retention_deadline_state"]
    return Fact(
        label="retention deadline", value=macro("moment", at), note=note if state == OBSERVED else f"{note}; {state}"
    )


def _running(summary: Json) -> Fact:
    waves = summary["waves"]
    note = "no wave is planned"
    if waves["of_current_plans"]:
        note = (
            f"{waves['of_current_plans_committed']:,} of {count(waves['of_current_plans'], 'wave')} of this plan landed"
        )
    for state in ("interrupted", "cancelled"):
        if waves[state]:
            note = f"{waves[state]:,} {state}; {note}"
    return Fact(label="running", value=count(waves["running"], "wave"), note=note)
