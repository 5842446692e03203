"""The forms that other programs read: digests, commit summaries, JSON documents (docs/reference/json.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from airflow_kafka_lake.core.errors import IdentityError
from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.ledger.waves import SnapshotPosition, Token

FORMAT = "1"
PREFIX = "kafka-lake."
LAST = PREFIX + "last"
OWNER = PREFIX + "owner."
PROVEN = PREFIX + "branches-proven"


def timestamp(at: datetime | None) -> str | None:
    """Render a time as RFC 3339 UTC with milliseconds; None stays None."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def instant(milliseconds: int) -> datetime | None:
    """Return the time of a record (milliseconds since the epoch, whatever a producer has written there); None outside
    of the years 1 to 9999."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def milliseconds(at: datetime) -> int:
    """Return Kafka's unit of time, milliseconds since the epoch, rounded up: no record before `at` may slip in."""
    return -((datetime(1970, 1, 1, tzinfo=UTC) - at) // timedelta(milliseconds=1))


def token_to_summary(token: Token) -> dict[str, str]:
    """Return the summary properties of a commit of ours."""
    named = {PREFIX + item.name: str(getattr(token, item.name)) for item in fields(token)}
    return named | {PREFIX + "version": FORMAT}


def token_from_summary(summary: Mapping[str, str]) -> Token | None:
    """Read a commit's summary; None when the commit is not ours."""
    if PREFIX + "wave" not in summary:
        return None
    return Token(
        pipeline=summary[PREFIX + "pipeline"],
        wave=summary[PREFIX + "wave"],
        attempt=summary[PREFIX + "attempt"],
        fence=int(summary[PREFIX + "fence"]),
        ranges=summary[PREFIX + "ranges"],
        kind=summary.get(PREFIX + "kind", "publish"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The newest commit of a pipeline, as a table property has it, where its newest publish stands, and the line of
    the ledger's history that the commit was made after."""

    ledger_id: str
    token: Token
    place: SnapshotPosition | None = None
    line: EventRef | None = None


def last_to_property(last: Last) -> str:
    """Return the value of the table property `kafka-lake.last`."""
    where = {"snapshot": str(last.place.snapshot), "sequence": str(last.place.sequence)} if last.place else {}
    line = {"line": str(last.line.sequence), "line-digest": last.line.digest} if last.line else {}
    return json.dumps({"ledger": last.ledger_id, **token_to_summary(last.token), **where, **line}, sort_keys=True)


def last_from_property(text: str | None) -> Last | None:
    """Read `kafka-lake.last`; None when the table has none. Raises IdentityError for a value of another form."""
    if not text:
        return None
    try:
        data = json.loads(text)
        token = token_from_summary(data)
        named = "snapshot" in data
        place = SnapshotPosition(snapshot=int(data["snapshot"]), sequence=int(data["sequence"])) if named else None
        line = EventRef(sequence=int(data["line"]), digest=data["line-digest"]) if "line" in data else None
        return Last(ledger_id=data["ledger"], token=token, place=place, line=line) if token else None
    except (KeyError, TypeError, ValueError):
        raise IdentityError(
            f"the table property {LAST} was edited and cannot be read: restore it from the table's newest metadata file"
        ) from None


def last_by(ledger_id: str, pipeline: str) -> str:
    """Return the name of the table property that holds the newest commit of one pipeline of one ledger."""
    return f"{LAST}.{owner_to_property(ledger_id, pipeline)}"


def last_of_properties(properties: Mapping[str, str]) -> dict[tuple[str, str], Last]:
    """Read the newest commit of each `(ledger id, pipeline)` out of a table's properties.

    `kafka-lake.last` alone counts where a table has nothing else: an older version wrote only that.
    """
    named = [last_from_property(text) for name, text in properties.items() if name.startswith(LAST + ".")]
    found = {(item.ledger_id, item.token.pipeline): item for item in named if item}
    if newest := last_from_property(properties.get(LAST)):
        found.setdefault((newest.ledger_id, newest.token.pipeline), newest)
    return found


def owner_to_property(ledger_id: str, pipeline: str) -> str:
    """Return the value of the table property `kafka-lake.owner.<topic id>`."""
    return f"{ledger_id}/{pipeline}"


def owner_from_property(text: str) -> tuple[str, str]:
    """Read a property of `owner_to_property`: `(ledger id, pipeline)`."""
    ledger_id, _, pipeline = text.partition("/")
    return ledger_id, pipeline
