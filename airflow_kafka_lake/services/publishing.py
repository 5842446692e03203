"""Publish and record: search, one compare-and-set on the head that was searched, then the ledger (laws L9, L10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, assert_never

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Receipt, StreamContent
from airflow_kafka_lake.core.errors import AttemptRejectedError, IdentityError, UnavailableError, UnknownOutcomeError
from airflow_kafka_lake.core.ledger.attempts import MarkPublishing, RecordCommit
from airflow_kafka_lake.core.ledger.changes import range_receipt
from airflow_kafka_lake.core.ledger.records import Claim, Publication, ReceiptRow, StagedContent
from airflow_kafka_lake.core.ledger.waves import (
    EMPTY_TABLE,
    Absent,
    AttemptKey,
    AttemptRecord,
    Committed,
    Found,
    PublishOutcome,
    Rejected,
    Requirement,
    TableHead,
    Token,
    Unclear,
    Unknown,
)
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Slice, SliceSet, Stream, ranges_digest
from airflow_kafka_lake.core.spec import sql_table
from airflow_kafka_lake.ports import LakeTable, Ports
from airflow_kafka_lake.services.attempt_audit import audit_attempt, offsets_shown
from airflow_kafka_lake.services.claims import Heartbeat, InDoubt
from airflow_kafka_lake.services.identity import check_head
from airflow_kafka_lake.services.only_copies import gone_from_kafka, refuse_to_drop
from airflow_kafka_lake.services.watching import Watch

PUBLISH_TRIES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedAttempt:
    """A staged attempt, complete and accounted for: of this claim, or of an earlier one of its wave."""

    attempt: AttemptKey
    snapshot: int
    bytes: int
    receipts: tuple[Receipt, ...]
    replaces: Mapping[Stream, RangeSet] = field(default_factory=dict)
    """The offsets of the rows that main had of reopened ranges when they were compared with the new ones."""
    remarks: str = ""
    """The sentences about its decoding, unless an earlier worker has recorded them."""


def replaced(claim: Claim) -> tuple[Slice, ...]:
    """Return the slices of a claim that were reopened: main may hold rows of an earlier reading of them."""
    return tuple(SliceSet(item.slice for item in claim.ranges if item.generation))


def rows_replaced(ports: Ports, claim: Claim, heartbeat: Callable[[], None]) -> Mapping[Stream, RangeSet]:
    """Return the offsets of the rows that main shows of the reopened ranges of a claim."""
    slices = replaced(claim)
    return offsets_shown(ports.lake.table(claim.table).visible(slices, heartbeat)) if slices else {}


def require_replaceable(table: LakeTable, slices: Sequence[Slice]) -> None:
    """Refuse a table whose rows cannot be taken out of their files, before a job is run for that.

    The obstacle is the table's, so one offset is enough to find it: at most the files around it are opened.
    """
    for first in slices[:1]:
        table.visible([first.part(OffsetRange(first.range.start, first.range.start + 1))])


def topic_ids_of(claim: Claim) -> list[str]:
    """Return the ids of the topics that a claim's ranges are of, sorted."""
    return sorted({item.stream.topic_id for item in claim.ranges})


def token_of(claim: Claim, kind: str, attempt: AttemptKey | None = None) -> Token:
    """Return the token of a commit that this claim makes, in the name of `attempt` (its own by default).

    The fence is the claim's in any case: main may have been fenced since that attempt.
    """
    return Token(
        pipeline=claim.pipeline,
        wave=claim.key.wave,
        attempt=(attempt or claim.key).attempt,
        fence=claim.key.fence,
        ranges=ranges_digest(item.slice for item in claim.ranges),
        kind=kind,
    )


def probe(ports: Ports, claim: Claim, attempts: Sequence[AttemptRecord]) -> Found | Absent:
    """Search the lake for the wave.

    Rows outlive their snapshot. So where the table's history since the attempts' begin has expired, and the table has
    no row of theirs, the wave counts as not published, even if one without rows was: it commits again, or its ranges
    are read again. Receipts prove nothing: they are written before the commit, also by a writer of a lost ledger, whose
    commit main refuses.
    """
    found = ports.lake.table(claim.table).find_commit(attempts)
    # With receipts it was audited, and its rows may have been deleted since.
    audited = isinstance(found, Found) and (found.is_ours or receipts_left_by(ports, claim, found.attempt))
    if isinstance(found, Found) and not audited and not _shown(ports, claim, found):
        ports.progress(f"what main showed of attempt {found.attempt} unaudited was deleted: it counts as not published")
        return probe(ports, claim, [item for item in attempts if item.attempt != found.attempt])
    if not isinstance(found, Unclear):
        return found
    ports.progress(f"wave {claim.key.wave}: {found.reason}; it counts as not published")
    return Absent(head=found.head)


def _shown(ports: Ports, claim: Claim, found: Found) -> tuple[StreamContent, ...]:
    return ports.lake.table(claim.table).attempt_rows(attempt=found.attempt)


def adopt(ports: Ports, claim: Claim, found: Found) -> None:
    """Record a wave that main shows already, from the receipts of the attempt that staged it.

    Rows that no commit of ours has put there, and no receipt proves, are audited where they stand. Only the current
    holder may record it (law L10).
    """
    if not found.is_ours:
        is_audited = len(receipts_left_by(ports, claim, found.attempt)) == len(claim.ranges)
        # Where the history that would name the commit has expired, receipts tell of a commit of ours.
        if found.snapshot is not None or not is_audited:
            _require_once(ports, claim, found)
        if not is_audited:
            _audit_on_main(ports, claim, found)
    _record_commit_of(ports, claim, found.attempt, found.snapshot)
    ports.progress(f"wave {claim.key.wave} is in the lake already, published by attempt {found.attempt}: adopted")


def _require_once(ports: Ports, claim: Claim, found: Found) -> None:
    """Refuse rows that main shows of another attempt too: no commit of ours has put one in the place of the other."""
    others: dict[str, dict[Stream, RangeSet]] = {}
    mine = offsets_shown(_shown(ports, claim, found))
    for item in ports.lake.table(claim.table).visible([item.slice for item in claim.ranges]):
        if item.attempt != found.attempt and (both := item.offsets & mine.get(item.stream, NOTHING)):
            others.setdefault(item.attempt or "another writer", {})[item.stream] = both
    if others:
        who, twice = min(others.items())
        stream, offsets = min(twice.items())
        why = f"offsets {offsets.describe()} of {stream} are there twice, those of attempt {who} beside them"
        raise _not_as_planned(ports, claim, found, why)


def _not_as_planned(ports: Ports, claim: Claim, found: Found, why: str) -> IdentityError:
    """Return the refusal of rows that stand on main without a commit of ours; records that Kafka cannot give again are
    to be kept before they are deleted."""
    which = f"WHERE ingest_attempt = '{found.attempt}'"
    shown, gone = offsets_shown(_shown(ports, claim, found)), gone_from_kafka(ports, claim.ranges)
    only = {stream: both for stream, offsets in gone.items() if (both := offsets & shown.get(stream, NOTHING))}
    first = ""
    if only:
        stream, offsets = min(only.items())
        first = (
            f"Kafka has offsets {offsets.describe()} of {stream} no more, and these rows may be their only copy: keep "
            f"one first (CREATE TABLE {sql_table(claim.table + '_kept')} AS "
            f"SELECT * FROM {sql_table(claim.table)} {which}). "
        )
    return IdentityError(
        f"rows of attempt {found.attempt} of wave {claim.key.wave} are on main of {claim.table}, where no commit "
        f"of kafka-lake has put them, and they are not what was planned: {why.rstrip('.')}. "
        f"{first}Delete them (DELETE FROM {sql_table(claim.table)} {which}), then {remedies.run()} "
        f"{'names what is lost' if only else 'reads the offsets again'}",
        wave=claim.key.wave,
        attempt=found.attempt,
    )


def _audit_on_main(ports: Ports, claim: Claim, found: Found) -> None:
    """Write the receipts of rows that main shows without an audit, once every offset is accounted for."""
    heartbeat, snapshot = Heartbeat(ports, claim.key), found.snapshot or EMPTY_TABLE
    ports.progress(
        f"rows of attempt {found.attempt} stand on main of {claim.table} without an audit: auditing them there"
    )
    staged = StagedContent(snapshot=snapshot, bytes=0, streams=_shown(ports, claim, found))
    audited = audit_attempt(ports, claim, staged, heartbeat)
    if audited.failed:
        raise _not_as_planned(ports, claim, found, audited.failed[0].reason)
    key = next(item.key for item in claim.attempts if item.attempt == found.attempt)
    proven = AuditedAttempt(attempt=key, snapshot=snapshot, bytes=0, receipts=audited.receipts)
    ports.lake.table(claim.table).add_receipts(receipt_rows(ports, claim, proven))


def _record_commit_of(ports: Ports, claim: Claim, attempt: str, snapshot: int | None) -> None:
    receipts = receipts_left_by(ports, claim, attempt)
    if missing := next((item for item in claim.ranges if item.id not in receipts), None):
        raise IdentityError(
            f"attempt {attempt} of wave {claim.key.wave} is in table {claim.table} without a receipt for "
            f"{missing.stream} {missing.range}. Run: {remedies.rebuild(claim.pipeline)}",
            wave=claim.key.wave,
        )
    ports.ledger.commit(
        RecordCommit(key=claim.key, attempt=attempt, snapshot=snapshot, receipts=tuple(receipts.values()))
    )


def receipts_left_by(ports: Ports, claim: Claim, attempt: str) -> Mapping[str, Receipt]:
    """Return the receipts of a claim's ranges that an attempt has left in the lake, by range id."""
    rows = {row.slice: row for row in ports.lake.table(claim.table).receipts(attempt)}
    left = ((item, rows.get(item.slice)) for item in claim.ranges)
    return {item.id: row.receipt(item.id) for item, row in left if row}


def receipt_rows(ports: Ports, claim: Claim, proven: AuditedAttempt) -> list[ReceiptRow]:
    """Return the `rows` receipts of an attempt, also of ranges without rows."""
    now, by = ports.clock.now(), proven.attempt
    ranges = {item.id: item for item in claim.ranges}
    committed = [ranges[item.range_id].committed(item) for item in proven.receipts]
    return [
        range_receipt("rows", item, attempt=by.attempt, fence=by.fence, at=now, leader_epoch=item.leader_epoch)
        for item in committed
    ]


def publish(
    ports: Ports, claim: Claim, proven: AuditedAttempt, in_doubt: InDoubt, *, watch: Watch | None = None
) -> None:
    """Make an audited attempt visible and record it; when the lake has it already, adopt it.

    The commit is in the name of the attempt that staged the rows, and under the fence of the claim. An earlier
    attempt's rows are recorded as adopted, from its receipts in the lake, as its own worker would.

    Each try searches a head and commits on that very head, so of all tries and all attempts at most one can land. A
    table that was rolled back is refused at that head too: a new commit would hide from the next plan that older ones
    are missing. `in_doubt` learns of each commit that was sent and found.
    """
    table = ports.lake.table(claim.table)
    attempts = ports.ledger.attempts(claim.key.wave)
    for _ in range(PUBLISH_TRIES):
        found = probe(ports, claim, attempts)
        in_doubt.searched(found)
        if isinstance(found, Found):
            if found.attempt != claim.key.attempt:
                return adopt(ports, claim, found)
            return _record(ports, claim, found.snapshot, proven)
        if rows_replaced(ports, claim, Heartbeat(ports, claim.key, watch)) != proven.replaces:
            _reject(ports, claim, proven, "the rows that it replaces are others since they were compared")
        outcome = _commit(ports, claim, table, head=found.head, proven=proven, in_doubt=in_doubt, watch=watch)
        match outcome:
            case Committed(snapshot=snapshot):
                return _record(ports, claim, snapshot, proven)
            case Rejected(requirement=requirement) if requirement is not Requirement.MAIN_HEAD:
                _reject(ports, claim, proven, f"{requirement}: {outcome.detail}")
            case Rejected() | Unknown():
                ports.progress(f"publishing wave {claim.key.wave} again: {outcome}")
            case _:
                assert_never(outcome)
    raise UnknownOutcomeError(
        f"wave {claim.key.wave} could not be published in {PUBLISH_TRIES} tries, last: {str(outcome).rstrip('.')}. "
        f"What is staged stays, and the next run publishes it. Run: {remedies.recover(claim.pipeline)}",
        wave=claim.key.wave,
    )


def _reject(ports: Ports, claim: Claim, proven: AuditedAttempt, rejection: str) -> NoReturn:
    """Have a wave staged again; keep a branch that is the only copy of records: the table can be restored to fit it."""
    table = ports.lake.table(claim.table)
    mine = [item for item in ports.ledger.attempts(claim.key.wave) if item.attempt == proven.attempt.attempt]
    why = f"The table rejects it: {rejection.rstrip('.')}. Once the table is as it was, {remedies.run()} publishes it"
    refuse_to_drop(ports, claim, table, mine, why=why)
    if proven.attempt != claim.key:  # or each later attempt would try it again
        table.drop(proven.attempt.attempt)
    raise AttemptRejectedError(f"wave {claim.key.wave} must be staged again: {rejection}", wave=claim.key.wave)


def _commit(
    ports: Ports,
    claim: Claim,
    table: LakeTable,
    *,
    head: TableHead,
    proven: AuditedAttempt,
    in_doubt: InDoubt,
    watch: Watch | None,
) -> Committed | Rejected | Unknown:
    line = check_head(ports, claim.pipeline, claim.table, head=head, topic_ids=topic_ids_of(claim))
    kind = "replace" if replaced(claim) else "publish"
    ports.ledger.commit(MarkPublishing(key=claim.key))
    publication = Publication(
        head=head,
        audited=proven.snapshot,
        token=token_of(claim, kind, proven.attempt),
        ledger_id=ports.ledger.ledger_id(),
        replaces=replaced(claim),
        claimed=token_of(claim, kind),
        line=line,
    )
    outcome: PublishOutcome
    try:
        outcome = table.publish(publication, Heartbeat(ports, claim.key, watch))
    except UnavailableError as error:
        outcome = Unknown(reason=error.message)
    except Exception:
        raise  # refused before it was sent
    except BaseException:  # a signal, at any moment
        in_doubt.sent(head)
        raise
    if not isinstance(outcome, Rejected):
        in_doubt.sent(head)
    return outcome


def _record(ports: Ports, claim: Claim, snapshot: int | None, proven: AuditedAttempt) -> None:
    if proven.attempt == claim.key:
        ports.ledger.commit(
            RecordCommit(key=claim.key, attempt=claim.key.attempt, snapshot=snapshot, receipts=proven.receipts)
        )
    else:
        _record_commit_of(ports, claim, proven.attempt.attempt, snapshot)
