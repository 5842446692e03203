"""Taking ranges away from a wave: fence up, move main, look once more, only then decide (law L11)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.errors import KafkaLakeError, StaleFenceError, StateError, UnavailableError
from airflow_kafka_lake.core.ledger.records import Claim, Verdict, WaveRecord
from airflow_kafka_lake.core.ledger.waves import (
    Absent,
    AttemptRecord,
    Committed,
    Found,
    RangeState,
    TableHead,
    Token,
    WaveState,
    is_resumable,
)
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.ports import LakeTable, Ports
from airflow_kafka_lake.services.claiming import claim as claim_wave
from airflow_kafka_lake.services.identity import check_head
from airflow_kafka_lake.services.only_copies import cancelled, refuse_to_lose
from airflow_kafka_lake.services.publishing import adopt, end_attempt, probe, token_of

FENCE_TRIES = 30
NEVER_CLAIMED = 0
OTHERWISE_CUT = "It has receipts of other ranges than the wave has now, so no run publishes it"
"""Why a branch that holds just what is left of a wave goes all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """What must be taken away from a wave before the rest of it can be published: ranges or parts of them, each to a
    hold or, still PLANNED, to a wave of its own. `spared` is the attempt whose branch holds just that rest."""

    verdicts: tuple[Verdict, ...]
    spared: str | None = None


def newest_resumable(claim: Claim, table: LakeTable) -> AttemptRecord | None:
    """Return the newest earlier attempt that may have left something and whose branch is there."""
    candidates = [item for item in claim.attempts if is_resumable(item)]
    branches = frozenset(table.branches()) if candidates else frozenset()
    return next((item for item in reversed(candidates) if item.attempt in branches), None)


def fenced(
    ports: Ports,
    wave: str,
    *,
    by_force: bool = False,
    spared: str | None = None,
    skipped: Slice | None = None,
    give_up: str | None,
) -> Claim | None:
    """Claim a wave and make sure that no earlier publisher can show what is taken away from it any more.

    Returns the claim when the lake holds nothing of the wave. When it does, the wave is adopted and settled, and the
    answer is None: there is nothing left to take. Raises OnlyCopyError where a branch would go that is the only copy of
    records; `give_up` says how a person agrees to that, None that he has.
    """
    claim = claim_wave(ports, wave, by_force=by_force)
    try:
        moved = _move_main(ports, claim, spared, skipped, give_up)
        if isinstance(moved, Found):
            adopt(ports, claim, moved)
            return None
    except StaleFenceError:
        raise
    except BaseException as error:
        end_attempt(ports, claim, error)
        raise
    return claim


def _move_main(
    ports: Ports, claim: Claim, spared: str | None, skipped: Slice | None, give_up: str | None
) -> Found | Absent:
    """Look, move main away from the head that was seen after the fence went up, and look once more.

    That main was moved by others is not enough: rolled back, it would be the head again that an earlier publisher has
    looked at. Our own commit takes the earlier attempts' branches away, which their commits require, but for one that
    shows nothing of what is taken.
    """
    table = ports.lake.table(claim.table)
    look = probe(ports, claim, claim.attempts)
    if isinstance(look, Found):
        return look
    token, ledger_id = token_of(claim, "fence"), ports.ledger.ledger_id()
    topic_ids = sorted({item.stream.topic_id for item in claim.ranges})
    kept = _kept(table, claim, spared, skipped)
    ending = [item for item in claim.attempts if item.attempt != kept]
    if give_up is not None:
        why = OTHERWISE_CUT if spared else None
        refuse_to_lose(ports, claim.pipeline, table, ending, claim.ranges, give_up=give_up, passed=skipped, why=why)
    earlier = [item.attempt for item in ending]
    for _ in range(FENCE_TRIES):
        # What a ledger does not know, or main has lost, must not be hidden behind a commit that is there and known.
        line = check_head(ports, claim.pipeline, claim.table, look.head, topic_ids)
        outcome = table.fence(look.head, ledger_id, token, ended=earlier, line=line)
        look = probe(ports, claim, claim.attempts)
        if isinstance(look, Found) or isinstance(outcome, Committed) or _landed(look.head, ledger_id, token):
            return look
    # Not an unknown publish: nothing of this attempt can become visible, and a repeated call looks anew.
    raise UnavailableError(
        f"main of {claim.table} could not be moved, so a publisher of wave {claim.key.wave} may still succeed. "
        "Nothing was decided: repeat the call",
        wave=claim.key.wave,
    )


def _kept(table: LakeTable, claim: Claim, spared: str | None, skipped: Slice | None) -> str | None:
    """Return the attempt whose branch stays, because no row of what is taken away is in it.

    An attempt without receipts has never begun to publish, and cannot any more: only its branch can be `spared`. A skip
    of offsets that were taken away before takes nothing: what was staged since is just what the wave still has, and
    Kafka may not have it any more. With receipts of just that, its commit may come whenever it comes.
    """
    if spared:
        return None if table.receipts(spared) else spared
    planned = {(item.stream, item.range) for item in claim.ranges}
    if skipped is None or any(
        (item.stream.topic_id, item.stream.partition) == (skipped.stream.topic_id, skipped.stream.partition)
        and item.range.overlaps(skipped.range)
        for item in claim.ranges
    ):
        return None
    if not planned or (newest := newest_resumable(claim, table)) is None:
        return None
    told = {(row.stream, row.range) for row in table.receipts(newest.attempt)}
    return newest.attempt if not told or told == planned else None


def _landed(head: TableHead, ledger_id: str, token: Token) -> bool:
    """Return whether the commit of a token is the newest of its pipeline, though its answer was lost."""
    return head.last.get((ledger_id, token.pipeline)) == token


def take(
    ports: Ports,
    wave: WaveRecord,
    verdicts: Sequence[Verdict],
    *,
    by_force: bool = False,
    spared: str | None = None,
    drop_staged: bool = False,
) -> None:
    """Take ranges away from a wave, also while a worker may still be publishing it; PLANNED ones go to a new wave.

    What is staged of the wave goes too. Raises StateError when the wave turns out to be published: what is visible is
    not taken away; OnlyCopyError where what is staged is the only copy of records, unless `drop_staged` gives that up.
    """
    apart = f"{secrets.token_hex(6)}-w0" if any(item.state is RangeState.PLANNED for item in verdicts) else None
    if wave.fence == NEVER_CLAIMED:
        ports.ledger.take(wave.id, fence=NEVER_CLAIMED, attempt=None, verdicts=verdicts, actor=ports.actor, apart=apart)
        return
    if wave.state is WaveState.COMMITTED:
        raise StateError(f"wave {wave.id} is published: its rows are visible and stay", wave=wave.id)
    give_up = None if drop_staged else cancelled(wave.id)
    claim = fenced(ports, wave.id, by_force=by_force, spared=spared, give_up=give_up)
    if claim is None:
        raise StateError(f"wave {wave.id} was published meanwhile: its rows are visible and stay", wave=wave.id)
    key = claim.key
    try:
        ports.ledger.take(
            wave.id, fence=key.fence, attempt=key.attempt, verdicts=verdicts, actor=ports.actor, apart=apart
        )
    except KafkaLakeError as error:
        end_attempt(ports, claim, error)
        raise
