"""How many waves of a pipeline a ledger lets be at work at once: one suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from airflow_kafka_lake.adapters.sql_ledger.commit import ScopeLoader, apply
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.errors import LimitReachedError
from airflow_kafka_lake.core.ledger.attempts import ClaimWave, EndAttempt
from airflow_kafka_lake.core.ledger.plans import SavePipeline
from airflow_kafka_lake.core.ledger.records import Claim
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import HOLDER, LEASE, SPEC, attempt_id, claimed, committed, planned
from tests.contracts.test_ledger_locks import SECONDS, meanwhile

TWO = replace(SPEC, waves_at_once=2)
SLOW = replace(SPEC, bytes_per_second=1_000_000)


def three(ledger: Ledger, spec: object = TWO) -> list[str]:
    """Plan three waves."""
    return planned(ledger, [(0, 0, 10)], [(0, 10, 20)], [(0, 20, 30)], spec=spec)


def claim(ledger: Ledger, wave: str, bytes_per_second: int | None = None, *, to_decide: bool = False) -> Claim:
    """Claim a wave, as a run that asks for a rate or a person who decides."""
    return ledger.commit(
        ClaimWave(
            wave=wave,
            attempt=attempt_id(),
            holder=HOLDER,
            lease=LEASE,
            to_decide=to_decide,
            bytes_per_second=bytes_per_second,
        )
    )


def test_no_more_waves_are_claimed_than_may_be_at_work_at_once(ledger: Ledger) -> None:
    """The third is refused by name, and claimed when one of the others has ended, by whatever end."""
    first, second, third = three(ledger)
    claims = [claimed(ledger, first), claimed(ledger, second)]
    with pytest.raises(LimitReachedError, match=f"allows 2 waves at once, .*: {first}, {second}") as refusal:
        claimed(ledger, third)
    assert (refusal.value.exit_code, refusal.value.facts["limit"]) == (3, 2)
    ledger.commit(EndAttempt(key=claims[0].key, outcome=AttemptOutcome.FAILED, error="no"))
    assert claimed(ledger, third).key.fence == 1
    with pytest.raises(LimitReachedError):
        claimed(ledger, first)


def test_wave_that_is_claimed_again_does_not_count_against_itself(ledger: Ledger) -> None:
    """Its holder died: the wave is one of the two."""
    first, second, _ = three(ledger)
    claimed(ledger, first)
    claimed(ledger, second)
    assert claimed(ledger, first, over=1).key.fence == 2


def test_lease_that_has_ended_leaves_room(ledger: Ledger) -> None:
    """A worker that died counts until then, as its end is not known."""
    first, second, third = three(ledger)
    claimed(ledger, first)
    claimed(ledger, second, lease=timedelta(seconds=-1))
    assert claimed(ledger, third).key.fence == 1


def test_committed_wave_leaves_room(ledger: Ledger) -> None:
    """It is at work no more."""
    first, second, third = three(ledger)
    claimed(ledger, first)
    committed(ledger, second)
    assert claimed(ledger, third).key.fence == 1


def test_limit_is_that_of_the_newest_configuration(ledger: Ledger) -> None:
    """Not that of the time when the waves were planned; and it is one pipeline's."""
    first, second, third = three(ledger, SPEC)
    claimed(ledger, first)
    ledger.commit(SavePipeline(spec=replace(SPEC, waves_at_once=1)))
    with pytest.raises(LimitReachedError):
        claimed(ledger, second)
    (other,) = planned(ledger, [(0, 0, 10)], spec=replace(SPEC, name="others", table="raw.others"))
    claimed(ledger, other)
    ledger.commit(SavePipeline(spec=TWO))
    claimed(ledger, second)
    ledger.commit(SavePipeline(spec=SPEC))
    claimed(ledger, third)


def test_persons_decide_beyond_the_limit(ledger: Ledger) -> None:
    """A claim that finds out, or revokes, reads nothing."""
    first, second, third = three(ledger)
    claimed(ledger, first)
    claimed(ledger, second)
    assert claim(ledger, third, to_decide=True).rate is None


def test_rate_of_a_pipeline_is_shared_by_its_waves(ledger: Ledger) -> None:
    """As many as may be at work at once have it together; where the pipeline does not say, that is one."""
    first, second, _ = three(ledger, SLOW)
    assert claim(ledger, first).rate == 1_000_000
    with pytest.raises(LimitReachedError, match="allows 1 wave"):
        claimed(ledger, second)
    ledger.commit(SavePipeline(spec=replace(SLOW, waves_at_once=4)))
    assert claim(ledger, second).rate == 250_000


def test_run_may_ask_for_another_rate(ledger: Ledger) -> None:
    """It counts for the waves that this run claims, also where the pipeline has none."""
    first, second, third = three(ledger, SPEC)
    assert claim(ledger, first).rate is None
    with pytest.raises(LimitReachedError):
        claim(ledger, second, 200_000)
    ledger.commit(SavePipeline(spec=replace(SLOW, waves_at_once=2)))
    assert claim(ledger, third, 400_000).rate == 200_000


def test_two_claims_at_once_do_not_both_get_the_last_place(
    new_url: Callable[[str], str], opened: Callable[[str], SqlLedger]
) -> None:
    """The second waits for the first, and sees it."""
    ledger = opened(new_url("postgres"))
    ledger.upgrade()
    first, second, _ = three(ledger, replace(SPEC, waves_at_once=1))
    write = ClaimWave(wave=first, attempt=attempt_id(), holder=HOLDER, lease=LEASE)
    with ThreadPoolExecutor(1) as pool:
        with ledger.engine.begin() as other:
            loading = ScopeLoader(other, write.scope())
            change = write.decide(loading.load())
            late = meanwhile(ledger, pool, partial(claimed, ledger, second))
            apply(other, change, loading.ids)
        with pytest.raises(LimitReachedError):
            late.result(SECONDS)
