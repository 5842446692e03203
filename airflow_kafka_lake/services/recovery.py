"""Finish waves that earlier runs left open: raise the fence (law L11), look at the lake, drop abandoned branches."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    IdentityError,
    KafkaLakeError,
    StaleFenceError,
    StateError,
    UnavailableError,
    expected,
)
from airflow_kafka_lake.core.ledger.attempts import EndAttempt
from airflow_kafka_lake.core.ledger.decisions import NEVER_CLAIMED, Revoke
from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.ledger.records import Claim, RangeDecision, WaveRecord
from airflow_kafka_lake.core.ledger.waves import (
    OPEN,
    Absent,
    AttemptOutcome,
    Committed,
    Found,
    RangeState,
    Rejected,
    Requirement,
    TableHead,
    Token,
    WaveState,
    is_over,
)
from airflow_kafka_lake.core.offsets import Slice, SliceSet
from airflow_kafka_lake.ports import LakeTable, Ports
from airflow_kafka_lake.services.advance import flush
from airflow_kafka_lake.services.claims import claim_wave, ending_on_error
from airflow_kafka_lake.services.identity import check_head
from airflow_kafka_lake.services.only_copies import cancelled, newest_resumable, refuse_to_lose
from airflow_kafka_lake.services.publishing import adopt, probe, token_of, topic_ids_of

# The fence commit: raise the fence, move main, search again; then no earlier publisher can succeed (law L11).

FENCE_TRIES = 30
OTHERWISE_CUT = "It has receipts of other ranges than the wave has now, so no run publishes it"
"""Why the branch is dropped though it holds just the rest of the wave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceCommit:
    """An empty commit on a head that was checked: the topics that get a new owner, the attempts whose branches are
    dropped, and the line of the ledger's history that it names (`ports.LakeTable.fence`)."""

    owned: Collection[str] = ()
    ended: Collection[str] = ()
    line: EventRef | None = None


def move_main(
    ports: Ports,
    table: LakeTable,
    token: Token,
    check: Callable[[TableHead], FenceCommit | None],
    *,
    find_commit: Callable[[], Found | Absent] | None = None,
    unmoved: KafkaLakeError,
) -> Found | Absent:
    """Move main away from a head that was read after the fence went up; return the result of a search after that.

    That others have moved main is not enough: after a rollback it would again be the head that an earlier publisher has
    read. `check` refuses a head, or returns the commit to make on it, or None; a commit that `find_commit` finds ends
    it too. Raises `unmoved` when main could not be moved, IdentityError when the table refuses it for good.
    """
    find_commit = find_commit or (lambda: Absent(head=table.head()))
    owner = (ports.ledger.ledger_id(), token.pipeline)
    seen = find_commit()
    for _ in range(FENCE_TRIES):
        head = seen.head
        if isinstance(seen, Found) or (asked := check(head)) is None:
            return seen
        outcome = table.fence(head, owner[0], token, owned=asked.owned, ended=asked.ended, line=asked.line)
        if isinstance(outcome, Rejected) and outcome.requirement is not Requirement.MAIN_HEAD:
            what = f"{outcome.requirement}, {outcome.detail}"
            raise IdentityError(f"main of {table.identifier} cannot be moved: {what}", table=table.identifier)
        seen = find_commit()
        # It may have landed though its answer was lost: then the newest commit is it, and was not before.
        if isinstance(outcome, Committed) or seen.head.last.get(owner) == token != head.last.get(owner):
            return seen
        ports.progress(f"moving main of {table.identifier} again: {outcome}")
    raise unmoved


def fenced(
    ports: Ports,
    wave: str,
    *,
    by_force: bool = False,
    spared: str | None = None,
    skipped: Slice | None = None,
    give_up: str | None,
) -> Claim | None:
    """Claim a wave and make sure that no earlier publisher can show its rows any more.

    Returns the claim, or None where the lake has the wave: it is adopted and committed then, and nothing can be
    revoked. Raises OnlyCopyError where a branch would be dropped that is the only copy of records; `give_up` is how a
    person agrees to that, None once he has.
    """
    claim = claim_wave(ports, wave, by_force=by_force, to_decide=True)
    with ending_on_error(ports, [claim]):
        found = _move_main_from(ports, claim, spared, skipped=skipped, give_up=give_up)
        if isinstance(found, Found):
            adopt(ports, claim, found)
            return None
    return claim


def _move_main_from(
    ports: Ports, claim: Claim, spared: str | None, *, skipped: Slice | None, give_up: str | None
) -> Found | Absent:
    """Search for the wave, move main, and search again.

    Our commit drops the branches of earlier attempts, which their commits require, but for one that has no revoked row.
    """
    table = ports.lake.table(claim.table)
    ended: list[str] | None = None

    def check(head: TableHead) -> FenceCommit:
        nonlocal ended
        if ended is None:
            ended = _ended(ports, claim, table, spared=spared, skipped=skipped, give_up=give_up)
        # A commit that a ledger does not know, or main has lost, must not be hidden behind one that is there and known.
        return FenceCommit(
            ended=ended, line=check_head(ports, claim.pipeline, claim.table, head=head, topic_ids=topic_ids_of(claim))
        )

    return move_main(
        ports,
        table,
        token_of(claim, "fence"),
        check,
        find_commit=lambda: probe(ports, claim, claim.attempts),
        # Not an unknown publish: nothing of this attempt can become visible, and a repeated call looks anew.
        unmoved=UnavailableError(
            f"main of {claim.table} could not be moved, so a publisher of wave {claim.key.wave} may still succeed. "
            "Nothing was decided: repeat the call",
            wave=claim.key.wave,
        ),
    )


def _ended(
    ports: Ports, claim: Claim, table: LakeTable, *, spared: str | None, skipped: Slice | None, give_up: str | None
) -> list[str]:
    """Return the earlier attempts whose branches are dropped; OnlyCopyError where one is the only copy of records."""
    kept = _kept(table, claim, spared, skipped)
    ended = [item for item in claim.attempts if item.attempt != kept]
    if give_up is not None:
        why = OTHERWISE_CUT if spared else None
        refuse_to_lose(
            ports, claim.pipeline, table, attempts=ended, ranges=claim.ranges, give_up=give_up, passed=skipped, why=why
        )
    return [item.attempt for item in ended]


def _kept(table: LakeTable, claim: Claim, spared: str | None, skipped: Slice | None) -> str | None:
    """Return the attempt whose branch stays, because it has no revoked row.

    An attempt without receipts has never begun to publish, and cannot any more: only its branch can be `spared`. A skip
    of offsets that were revoked before revokes nothing: the rows staged since are just the rest of the wave, and Kafka
    may not have them any more. With receipts of just these, its commit is welcome at any time.
    """
    if spared:
        return None if table.receipts(spared) else spared
    planned = {item.slice for item in claim.ranges}
    if skipped is None or SliceSet(planned) & SliceSet((skipped,)):
        return None
    if not planned or (newest := newest_resumable(claim.attempts, table)) is None:
        return None
    receipts = {row.slice for row in table.receipts(newest.attempt)}
    return newest.attempt if not receipts or receipts == planned else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """The part that must leave a wave before the rest can be published: ranges or parts of them, each put on hold or
    moved, still PLANNED, to a new wave. `spared` is the attempt whose branch holds just that rest."""

    verdicts: tuple[RangeDecision, ...]
    spared: str | None = None


def revoke(
    ports: Ports,
    wave: WaveRecord,
    verdicts: Sequence[RangeDecision],
    *,
    by_force: bool = False,
    spared: str | None = None,
    drop_staged: bool = False,
) -> None:
    """Take ranges away from a wave, also while a worker may be publishing it; PLANNED ones go to a new wave.

    The wave's staging branches are dropped. Raises StateError when the wave turns out to be published, for visible rows
    stay; OnlyCopyError where a branch is the only copy of records, unless `drop_staged` gives that up.
    """
    apart = f"{secrets.token_hex(6)}-w0" if any(item.state is RangeState.PLANNED for item in verdicts) else None
    write = Revoke(wave=wave.id, fence=NEVER_CLAIMED, attempt=None, verdicts=verdicts, actor=ports.actor, apart=apart)
    if wave.fence == NEVER_CLAIMED:
        ports.ledger.commit(write)
        return
    if wave.state is WaveState.COMMITTED:
        raise StateError(f"wave {wave.id} is published: its rows are visible and stay", wave=wave.id)
    give_up = None if drop_staged else cancelled(wave.id)
    claim = fenced(ports, wave.id, by_force=by_force, spared=spared, give_up=give_up)
    if claim is None:
        raise StateError(f"wave {wave.id} was published meanwhile: its rows are visible and stay", wave=wave.id)
    with ending_on_error(ports, [claim]):
        ports.ledger.commit(replace(write, fence=claim.key.fence, attempt=claim.key.attempt))


# Finish waves that earlier runs left open, by their rows in the lake, and drop abandoned staging branches.

OVERTAKEN = (ConcurrentError, StaleFenceError, StateError)
"""Errors of a wave that another process works on, or has ended since it was listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryResult:
    """The findings of `recover`: waves in the lake, waves to stage again, waves of other workers; branches."""

    adopted: tuple[str, ...]
    returned: tuple[str, ...]
    busy: tuple[str, ...]
    swept: Swept


def recover(ports: Ports, pipeline: str) -> RecoveryResult:
    """Search the lake for every wave that an earlier run left open; safe to repeat at any time.

    A wave that cannot be recovered does not stop the others; the first error is raised at the end.
    """
    adopted: list[str] = []
    returned: list[str] = []
    busy: list[str] = []
    problems: list[KafkaLakeError] = []
    for wave in ports.ledger.waves(pipeline, OPEN):
        try:
            (adopted if recover_wave(ports, wave) else returned).append(wave.id)
        except OVERTAKEN:
            busy.append(wave.id)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a problem of this wave alone
            problem = expected(error, f"recovering wave {wave.id}", wave=wave.id)
            ports.progress(f"wave {wave.id}: {problem}")
            problems.append(problem)
    flush(ports, pipeline)
    record = ports.ledger.pipeline(pipeline)
    swept = sweep(ports, sorted(record.tables)) if record else Swept()
    if problems:
        raise problems[0]
    return RecoveryResult(adopted=tuple(adopted), returned=tuple(returned), busy=tuple(busy), swept=swept)


def recover_wave(ports: Ports, wave: WaveRecord, *, by_force: bool = False, asked: str = "") -> bool:
    """Commit a wave that is in the lake, else return it to be staged again; returns whether it was there.

    `by_force` takes it from a living holder too, which can then neither go on nor record anything more of it. `asked`
    is kept with an attempt that is given up: by whom, and why. Raises ConcurrentError while another process works on
    it.
    """
    claim = claim_wave(ports, wave.id, by_force=by_force, to_decide=True)
    with ending_on_error(ports, [claim]):
        found = probe(ports, claim, claim.attempts)
        if isinstance(found, Found):
            adopt(ports, claim, found)
            return True
    error = f"{asked}main has nothing of it: to be tried again, with what is staged where that holds"
    ports.ledger.commit(EndAttempt(key=claim.key, outcome=AttemptOutcome.ABANDONED, error=error))
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Attempts whose branches were dropped, and attempts that this ledger does not know, whose branches stay; tables
    that could not be swept, with the reason."""

    dropped: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)


def sweep(ports: Ports, tables: Sequence[str]) -> Swept:
    """Drop the staging branches of attempts that are over; a failed drop is repeated next time.

    Only the ledger knows which attempts are over, so the branch of an attempt that it does not know is left alone: it
    belongs to another ledger, or to a part of this one that was lost. A branch is listed before the ledger is asked
    about it, and an attempt that is over stays so. If it is still about to publish, its commit requires the branch and
    fails.
    """
    dropped: list[str] = []
    foreign: list[str] = []
    left: dict[str, str] = {}
    for table in tables:
        try:
            _sweep_table(ports, table, dropped, foreign)
        except KafkaLakeError as error:
            ports.progress(f"staging branches of {table} are swept next time: {error}")
            left[table] = error.message
    return Swept(dropped=tuple(dropped), foreign=tuple(foreign), left=left)


def _sweep_table(ports: Ports, name: str, dropped: list[str], foreign: list[str]) -> None:
    table = ports.lake.table(name)
    branches = table.branches()
    if not branches:
        return
    known = ports.ledger.standing(branches)
    for attempt in branches:
        if attempt not in known:
            foreign.append(attempt)
            ports.progress(
                f"{name} has a staging branch of attempt {attempt}, which this ledger does not know: left alone"
            )
        elif (item := known[attempt][0]).outcome is AttemptOutcome.COMMITTED and not isinstance(
            table.find_commit([item]), Found
        ):  # the branch, which the commit would have taken along, may be the only copy of its rows
            ports.progress(f"main of {name} does not show attempt {attempt}, which is recorded as published: kept")
        elif is_over(*known[attempt]):
            table.drop(attempt)
            dropped.append(attempt)


def clean_up(ports: Ports, wave: WaveRecord) -> None:
    """Sweep the table of a landed wave of several attempts; a branch that cannot be dropped is swept next time."""
    with suppress(KafkaLakeError):
        if len(ports.ledger.attempts(wave.id)) > 1:
            sweep(ports, [wave.table])
