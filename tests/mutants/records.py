"""Guards of the ledger: in SQL, and of the rules that every ledger shares."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_APPLYING = "airflow_kafka_lake.adapters.sql_ledger.committing"
_LOCKS = "tests/contracts/test_ledger_locks.py::"
_CHANGES = "airflow_kafka_lake.core.ledger.changes"
_CLAIM = "airflow_kafka_lake.core.ledger.attempts"
_TAKING = "airflow_kafka_lake.core.ledger.revoking"
_ATTEMPTS = "tests/contracts/test_ledger_attempts.py::"
_CHANGED = "tests/contracts/test_ledger_changes.py::"
_DECIDED = "tests/contracts/test_ledger_decisions.py::"
_ADVANCE = "airflow_kafka_lake.adapters.sql_ledger.watermarks"
_SKIPS = "airflow_kafka_lake.core.ledger.skips"
_PLANS = "airflow_kafka_lake.core.ledger.plans"
_SCHEMA = "airflow_kafka_lake.adapters.sql_ledger.schema"
_WITHDRAWING = "tests/contracts/test_ledger_withdrawing.py::"
_GUARDS = "airflow_kafka_lake.core.ledger.guards"

DECISIONS = (
    Mutant(
        name="withdraw-what-was-begun",
        law="L11",
        guard="Only ranges of waves that were never claimed are taken off the plan.",
        module="airflow_kafka_lake.core.ledger.withdrawing",
        function="may_be_withdrawn",
        old="unread and fence == NEVER_CLAIMED and (not item.generation)",
        new="unread and (not item.generation)",
        red=(f"{_WITHDRAWING}test_claimed_waves_stay_and_are_named_with_what_to_do[memory]",),
    ),
    Mutant(
        name="withdraw-what-is-in-the-lake",
        law="L2",
        guard="What was reopened is not taken off the plan: its rows are in the table.",
        module="airflow_kafka_lake.core.ledger.withdrawing",
        function="may_be_withdrawn",
        old="unread and fence == NEVER_CLAIMED and (not item.generation)",
        new="unread and fence == NEVER_CLAIMED",
        red=("tests/unit/services/test_withdrawals.py::test_reopened_offsets_are_not_withdrawn",),
    ),
    Mutant(
        name="all-goes-on-after-any-skip",
        law="L3",
        guard="After a skip only what holds none of the offsets goes on that its range was held for.",
        module=_SKIPS,
        function="cut_for_skip",
        old="item.held_for and (not piece.held_for)",
        new="item.held_for",
        red=("tests/unit/services/test_skipping.py::test_held_range_goes_on_once_all_that_it_is_held_for_was_passed",),
    ),
)

WRITES = (
    Mutant(
        name="late-without-a-trace",
        law="L10",
        guard="A write that an old fence makes is refused and recorded.",
        module=_CHANGES,
        function="Late.decide",
        old="Change(result=None, entries=(entry,))",
        new="Change(result=None)",
        red=(f"{_ATTEMPTS}test_late_outcome_of_an_old_fence_is_recorded[memory-record_base]",),
    ),
    Mutant(
        name="range-of-an-unlocked-wave",
        law="L11",
        guard="A range that went to another wave while the locks were awaited is not decided about.",
        module=_CHANGES,
        function="Records.of_range",
        old="if item.wave not in self.waves:\n    ...\nreturn self.waves[item.wave]",
        new="return self.waves.get(item.wave)",
        red=(f"{_LOCKS}test_range_of_a_wave_that_was_not_locked_is_not_decided_about",),
    ),
    Mutant(
        name="any-fence",
        law="L10",
        guard="An attempt writes only while its fence is the wave's.",
        module="airflow_kafka_lake.core.ledger.records",
        function="WaveRow.is_held_by",
        old="(self.id, self.fence, self.attempt) == (key.wave, key.fence, key.attempt)",
        new="(self.id, self.attempt) == (key.wave, key.attempt)",
        red=(f"{_ATTEMPTS}test_overtaken_attempt_writes_nothing[memory-recover]",),
    ),
    Mutant(
        name="any-attempt",
        law="L10",
        guard="An attempt writes only while its id is the wave's.",
        module="airflow_kafka_lake.core.ledger.records",
        function="WaveRow.is_held_by",
        old="(self.id, self.fence, self.attempt) == (key.wave, key.fence, key.attempt)",
        new="(self.id, self.fence) == (key.wave, key.fence)",
        red=(f"{_ATTEMPTS}test_overtaken_attempt_writes_nothing[memory-recover]",),
    ),
    Mutant(
        name="any-lease",
        law="fine print: leases",
        guard="A live lease is honoured, unless the caller vouches that this very holder is dead.",
        module=_CLAIM,
        function="ClaimWave._free",
        old="guards.lease_is_live(wave.lease_until, records.now) and self.over != wave.fence",
        new="False",
        red=(f"{_ATTEMPTS}test_live_lease_refuses_others[memory]",),
    ),
    Mutant(
        name="force-without-fence",
        law="L10",
        guard="Who vouches for a holder's death names the fence of that holder.",
        module=_CLAIM,
        function="ClaimWave._free",
        old="self.over != wave.fence",
        new="self.over is None",
        red=(f"{_ATTEMPTS}test_claim_over_a_dead_holder[memory]",),
    ),
    Mutant(
        name="fence-used-again",
        law="L10",
        guard="Every claim raises the fence.",
        module=_CLAIM,
        function="ClaimWave.decide",
        old="before.fence + 1",
        new="max(before.fence, 1)",
        red=(f"{_ATTEMPTS}test_overtaken_attempt_writes_nothing[memory-recover]",),
    ),
    Mutant(
        name="take-with-any-fence",
        law="L11",
        guard="Ranges are taken away under the wave's fence.",
        module=_TAKING,
        function="Revoke._home",
        old="(wave.fence, mine) != (self.fence, self.attempt)",
        new="mine != self.attempt",
        red=("tests/contracts/test_ledger_decisions.py::test_taking_from_a_claimed_wave_needs_its_guard[memory]",),
    ),
    Mutant(
        name="take-by-any-attempt",
        law="L11",
        guard="Ranges are taken away by the attempt that holds the fence.",
        module=_TAKING,
        function="Revoke._home",
        old="(wave.fence, mine) != (self.fence, self.attempt)",
        new="wave.fence != self.fence",
        red=("tests/contracts/test_ledger_decisions.py::test_taking_from_a_claimed_wave_needs_its_guard[memory]",),
    ),
    Mutant(
        name="whole-wave-by-number",
        law="L11",
        guard="A CANCELLED wave goes on as it is only when all that is released is of it.",
        module=_TAKING,
        function="Release._is_whole",
        old="home.state not in WAVE_TRANSITIONS[Act.RELEASE][0] or any((item.wave != home.id for item in wanted))",
        new="home.state not in WAVE_TRANSITIONS[Act.RELEASE][0]",
        red=(f"{_DECIDED}test_as_many_ranges_as_a_cancelled_wave_has_are_not_that_wave[memory]",),
    ),
    Mutant(
        name="skip-without-guard",
        law="L11",
        guard="A skip takes ranges from a claimed wave only while it holds the wave.",
        module=_SKIPS,
        function="Skip.decide",
        old="wave.id not in held",
        new="wave.id is None",
        red=("tests/contracts/test_ledger_decisions.py::test_claimed_wave_loses_ranges_only_under_its_guard[memory]",),
    ),
    Mutant(
        name="withdraw-from-older-records",
        law="L10",
        guard="What was claimed or decided about since is not taken off the plan.",
        module="airflow_kafka_lake.core.ledger.withdrawing",
        function="Withdraw.decide",
        old="_refuse_overtaken(what, records)",
        new="",
        red=(f"{_WITHDRAWING}test_what_was_decided_from_older_records_is_refused[memory-claim]",),
    ),
    Mutant(
        name="decide-unseen",
        law="L10",
        guard="A withdrawal is a decision about the stream, as others are; who plans beside it looks again.",
        module="airflow_kafka_lake.core.ledger.streams",
        function="StreamRow.next_version",
        old="self.version + 1",
        new="self.version",
        red=(f"{_WITHDRAWING}test_planner_that_saw_the_withdrawn_offsets_planned_is_refused[memory]",),
    ),
    Mutant(
        name="plan-from-old-versions",
        law="L10",
        guard="A plan made from an old version of a stream is refused.",
        module=_PLANS,
        function="RecordPlan._refuse_overtaken",
        old="(found.version if found else None) != item.version",
        new="False",
        red=("tests/contracts/test_ledger_plans.py::test_planned_from_old_versions_is_refused[memory]",),
    ),
)

SQL = (
    Mutant(
        name="sql-fewer-rows-than-decided",
        law="L10",
        guard="In SQL: one row less than was decided about, and nothing is written.",
        module=_APPLYING,
        function="_execute",
        old="connection.execute(statement).rowcount != expected",
        new="connection.execute(statement).rowcount > expected",
        red=(f"{_CHANGED}test_change_of_a_row_that_is_not_as_it_was_read_writes_nothing[sqlite-fence of a wave]",),
    ),
    Mutant(
        name="sql-any-row-of-that-name",
        law="L10",
        guard="In SQL: what must be as it was read stands in every WHERE clause.",
        module=_APPLYING,
        function="_found",
        old="same += ...",
        new="",
        red=(
            f"{_CHANGED}test_change_of_a_row_that_is_not_as_it_was_read_writes_nothing[sqlite-version of a stream]",
            f"{_CHANGED}test_change_of_a_row_that_is_not_as_it_was_read_writes_nothing[sqlite-fence of a wave]",
            f"{_CHANGED}test_change_of_a_row_that_is_not_as_it_was_read_writes_nothing[sqlite-outcome of an attempt]",
            f"{_CHANGED}test_change_of_a_row_that_is_not_as_it_was_read_writes_nothing[sqlite-state of a range]",
            f"{_CHANGED}test_row_that_is_not_as_it_was_read_is_not_removed[sqlite-state of a range]",
        ),
    ),
    Mutant(
        name="sql-overlap",
        law="L2",
        guard="In SQL: a constraint of the database refuses ranges of a stream that overlap.",
        module=_SCHEMA,
        function="upgrade",
        old="environment.run_migrations()",
        new=(
            "environment.run_migrations()\n"
            "for name in ('insert', 'update'):\n"
            "    connection.execute(text(f'DROP TRIGGER kafka_lake_range_no_overlap_{name}'))"
        ),
        red=("tests/contracts/test_ledger_plans.py::test_overlap_with_a_recorded_range_is_refused[sqlite-slice_0]",),
    ),
    Mutant(
        name="sql-advance-over-gaps",
        law="L2",
        guard="In SQL: a watermark stops at the first offset that is not committed.",
        module=_ADVANCE,
        function="_reached",
        old="(...).where(run.c.end_offset - run.c.watermark == run.c.total)",
        new="...",
        red=("tests/contracts/test_ledger_watermarks.py::test_watermark_stops_at_a_gap[sqlite]",),
    ),
    Mutant(
        name="sql-advance-over-holds",
        law="L1",
        guard="In SQL: only ranges that are committed or skipped carry a watermark.",
        module=_ADVANCE,
        function="_reached",
        old="(...).where(range_.c.state.in_(RESOLVED), range_.c.start_offset >= stream.c.watermark)",
        new="(...).where(range_.c.start_offset >= stream.c.watermark)",
        red=("tests/contracts/test_ledger_watermarks.py::test_watermark_never_passes_a_hold[sqlite-CANCELLED]",),
    ),
    Mutant(
        name="sql-advance-unseen",
        law="L10",
        guard="In SQL: an advance raises the stream's version, so that older decisions are refused.",
        module=_ADVANCE,
        function="advance",
        old=(
            "update(stream).where(stream.c.id == given.c.id, "
            "*guard).values(watermark=given.c.end_offset, version=stream.c.version + 1)"
        ),
        new="update(stream).where(stream.c.id == given.c.id, *guard).values(watermark=given.c.end_offset)",
        red=("tests/contracts/test_ledger_watermarks.py::test_advance_is_a_decision_about_the_stream[sqlite]",),
    ),
    Mutant(
        name="sql-advance-from-an-old-version",
        law="L10",
        guard="In SQL: an advance compares the version of every stream that it moves.",
        module=_ADVANCE,
        function="advance",
        old="(stream.c.version == given.c.version, stream.c.watermark == given.c.start_offset)",
        new="(stream.c.watermark == given.c.start_offset,)",
        red=(
            "tests/contracts/test_sql_ledger.py::test_advance_of_a_stream_decided_about_meanwhile_is_refused[sqlite]",
        ),
    ),
)

RULES = (
    Mutant(
        name="lease-of-a-wrong-clock",
        law="fine print: leases",
        guard="A lease that ends further away than any lease can counts as ended.",
        module=_GUARDS,
        function="lease_is_live",
        old="now < until <= now + 2 * MAX_LEASE",
        new="now < until",
        red=(
            f"{_ATTEMPTS}test_lease_from_a_wrong_clock_does_not_block[memory]",
            f"{_ATTEMPTS}test_lease_from_a_wrong_clock_does_not_block[sqlite]",
        ),
    ),
    Mutant(
        name="commit-unaccounted",
        law="L8",
        guard="A wave is committed only by receipts that account for every offset.",
        module="airflow_kafka_lake.core.ledger.receipts",
        function="check_receipts",
        old="sums.unexplained or sums.span != item.range.span or sums.visible != item.rows",
        new="False",
        red=("tests/contracts/test_ledger_attempts.py::test_receipts_must_be_exact[memory-rows unlike visible]",),
    ),
    Mutant(
        name="commit-part-of-a-wave",
        law="L8",
        guard="A wave is committed only by receipts of exactly its planned ranges.",
        module="airflow_kafka_lake.core.ledger.receipts",
        function="check_receipts",
        old="len(given) != len(receipts) or given != wanted",
        new="False",
        red=("tests/contracts/test_ledger_attempts.py::test_receipts_must_be_exact[memory-foreign]",),
    ),
    Mutant(
        name="range-across-the-origin",
        law="L2",
        guard="No range crosses its stream's origin, where the watermark begins.",
        module="airflow_kafka_lake.core.ledger.plans",
        function="_check_origins",
        old="item.range.start < origins[item.stream] < item.range.end",
        new="False",
        red=("tests/contracts/test_ledger_plans.py::test_range_across_the_origin_is_a_mistake[memory]",),
    ),
)

RECORDS = (*DECISIONS, *WRITES, *SQL, *RULES)
