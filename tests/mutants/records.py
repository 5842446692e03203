"""Guards of the ledger: in SQL, and of the rules that every ledger shares."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CLAIMING = "airflow_kafka_lake.adapters.sql_ledger.claiming"
_DECIDING = "airflow_kafka_lake.adapters.sql_ledger.deciding"
_SKIPPING = "airflow_kafka_lake.adapters.sql_ledger.skipping"
_RECORDING = "airflow_kafka_lake.adapters.sql_ledger.recording"
_READING = "airflow_kafka_lake.adapters.sql_ledger.reading"
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
        red=("tests/unit/services/test_withdrawing.py::test_reopened_offsets_are_not_withdrawn",),
    ),
    Mutant(
        name="all-goes-on-after-any-skip",
        law="L3",
        guard="After a skip only what holds none of the offsets goes on that its range was held for.",
        module="airflow_kafka_lake.core.ledger.guards",
        function="cut_for_skip",
        old="item.held_for and (not piece.held_for)",
        new="item.held_for",
        red=("tests/unit/services/test_skipping.py::test_held_range_goes_on_once_all_that_it_is_held_for_was_passed",),
    ),
)

SQL = (
    Mutant(
        name="sql-late-without-a-trace",
        law="L10",
        guard="In SQL: a write that an old fence makes is refused and recorded.",
        module="airflow_kafka_lake.adapters.sql_ledger.claiming",
        function="record_refusal",
        old="record_event(...)",
        new="",
        red=(
            "tests/contracts/test_ledger_attempts.py::test_late_outcome_of_an_old_fence_is_recorded[sqlite-record_base]",
        ),
    ),
    Mutant(
        name="sql-any-fence",
        law="L10",
        guard="In SQL: the WHERE clause of every write of an attempt names the wave's fence.",
        module=_CLAIMING,
        function="referee",
        old="[wave.c.id == key.wave, wave.c.fence == key.fence, wave.c.attempt == key.attempt]",
        new="[wave.c.id == key.wave, wave.c.attempt == key.attempt]",
        red=("tests/contracts/test_ledger_attempts.py::test_overtaken_attempt_writes_nothing[sqlite-settle]",),
    ),
    Mutant(
        name="sql-any-attempt",
        law="L10",
        guard="In SQL: the WHERE clause of every write of an attempt names the wave's attempt id.",
        module=_CLAIMING,
        function="referee",
        old="[wave.c.id == key.wave, wave.c.fence == key.fence, wave.c.attempt == key.attempt]",
        new="[wave.c.id == key.wave, wave.c.fence == key.fence]",
        red=("tests/contracts/test_ledger_attempts.py::test_overtaken_attempt_writes_nothing[sqlite-settle]",),
    ),
    Mutant(
        name="sql-any-lease",
        law="fine print: leases",
        guard="In SQL: a live lease is honoured, unless the caller vouches that this very holder is dead.",
        module=_CLAIMING,
        function="claim",
        old="update(wave).where(wave.c.id == name, wave.c.state.in_(sources), free)",
        new="update(wave).where(wave.c.id == name, wave.c.state.in_(sources))",
        red=("tests/contracts/test_ledger_attempts.py::test_live_lease_refuses_others[sqlite]",),
    ),
    Mutant(
        name="sql-force-without-fence",
        law="L10",
        guard="In SQL: who vouches for a holder's death names the fence of that holder.",
        module=_CLAIMING,
        function="claim",
        old="wave.c.fence == over",
        new="wave.c.fence != -1",
        red=("tests/contracts/test_ledger_attempts.py::test_claim_over_a_dead_holder[sqlite]",),
    ),
    Mutant(
        name="sql-fence-used-again",
        law="L10",
        guard="In SQL: every claim raises the fence.",
        module=_CLAIMING,
        function="claim",
        old="wave.c.fence + 1",
        new="func.max(wave.c.fence, 1)",
        red=("tests/contracts/test_ledger_attempts.py::test_overtaken_attempt_writes_nothing[sqlite-settle]",),
    ),
    Mutant(
        name="sql-take-with-any-fence",
        law="L11",
        guard="In SQL: ranges are taken away under the wave's fence.",
        module=_DECIDING,
        function="take",
        old="(wave.c.id == name, wave.c.fence == fence, holder)",
        new="(wave.c.id == name, holder)",
        red=("tests/contracts/test_ledger_decisions.py::test_taking_from_a_claimed_wave_needs_its_guard[sqlite]",),
    ),
    Mutant(
        name="sql-take-by-any-attempt",
        law="L11",
        guard="In SQL: ranges are taken away by the attempt that holds the fence.",
        module=_DECIDING,
        function="take",
        old="(wave.c.id == name, wave.c.fence == fence, holder)",
        new="(wave.c.id == name, wave.c.fence == fence)",
        red=("tests/contracts/test_ledger_decisions.py::test_taking_from_a_claimed_wave_needs_its_guard[sqlite]",),
    ),
    Mutant(
        name="sql-skip-without-guard",
        law="L11",
        guard="In SQL: a skip takes ranges from a claimed wave only while it holds the wave.",
        module=_SKIPPING,
        function="record_skip",
        old="name not in held",
        new="name is None",
        red=("tests/contracts/test_ledger_decisions.py::test_claimed_wave_loses_ranges_only_under_its_guard[sqlite]",),
    ),
    Mutant(
        name="sql-withdraw-from-older-records",
        law="L10",
        guard="In SQL: what was claimed or decided about since is not taken off the plan.",
        module="airflow_kafka_lake.adapters.sql_ledger.withdrawing",
        function="withdraw",
        old="refuse_overtaken(what, {key: row.version for key, row in streams.items()}, found, fences)",
        new="",
        red=(f"{_WITHDRAWING}test_what_was_decided_from_older_records_is_refused[sqlite-claim]",),
    ),
    Mutant(
        name="sql-withdraw-unseen",
        law="L10",
        guard="In SQL: a withdrawal is a decision about the stream; who plans beside it looks again.",
        module="airflow_kafka_lake.adapters.sql_ledger.withdrawing",
        function="withdraw",
        old="stream.c.version + 1",
        new="stream.c.version",
        red=(f"{_WITHDRAWING}test_planner_that_saw_the_withdrawn_offsets_planned_is_refused[sqlite]",),
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
        red=("tests/contracts/test_ledger_plans.py::test_overlap_with_a_recorded_range_is_refused[sqlite-stretch0]",),
    ),
    Mutant(
        name="sql-plan-from-old-versions",
        law="L10",
        guard="In SQL: a plan made from an old version of a stream is refused.",
        module=_RECORDING,
        function="record_plan",
        old="(found.version if found else None) != item.version",
        new="False",
        red=("tests/contracts/test_ledger_plans.py::test_planned_from_old_versions_is_refused[sqlite]",),
        more=(
            (
                "_write_streams",
                "update(stream).where(stream.c.id == given.c.id, stream.c.version == given.c.version)",
                "update(stream).where(stream.c.id == given.c.id)",
            ),
        ),
    ),
    Mutant(
        name="sql-advance-over-gaps",
        law="L2",
        guard="In SQL: a watermark stops at the first offset that is not settled.",
        module=_DECIDING,
        function="_reached",
        old="(...).where(run.c.end_offset - run.c.watermark == run.c.total)",
        new="...",
        red=("tests/contracts/test_ledger_watermarks.py::test_watermark_stops_at_a_gap[sqlite]",),
    ),
    Mutant(
        name="sql-advance-over-holds",
        law="L1",
        guard="In SQL: only ranges that are settled or skipped carry a watermark.",
        module=_DECIDING,
        function="_reached",
        old="(...).where(range_.c.state.in_(RESOLVED), range_.c.start_offset >= stream.c.watermark)",
        new="(...).where(range_.c.start_offset >= stream.c.watermark)",
        red=("tests/contracts/test_ledger_watermarks.py::test_watermark_never_passes_a_hold[sqlite-CANCELLED]",),
    ),
    Mutant(
        name="sql-advance-unseen",
        law="L10",
        guard="In SQL: an advance raises the stream's version, so that older decisions are refused.",
        module=_DECIDING,
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
        module=_DECIDING,
        function="advance",
        old="(stream.c.version == given.c.version, stream.c.watermark == given.c.start_offset)",
        new="(stream.c.watermark == given.c.start_offset,)",
        red=(
            "tests/contracts/test_sql_ledger.py::test_advance_of_a_stream_decided_about_meanwhile_is_refused[sqlite]",
        ),
    ),
    Mutant(
        name="sql-lease-of-a-wrong-clock",
        law="fine print: leases",
        guard="In SQL: a lease that ends further away than any lease can counts as ended.",
        module=_READING,
        function="lease_live",
        old=(
            "and_(wave.c.lease_until.is_not(None), wave.c.lease_until > now(), wave.c.lease_until <= "
            "now(2 * MAX_LEASE))"
        ),
        new="and_(wave.c.lease_until.is_not(None), wave.c.lease_until > now())",
        red=("tests/contracts/test_ledger_attempts.py::test_lease_from_a_wrong_clock_does_not_block[sqlite]",),
    ),
)

RULES = (
    Mutant(
        name="lease-of-a-wrong-clock",
        law="fine print: leases",
        guard="In memory: a lease that ends further away than any lease can counts as ended.",
        module=_GUARDS,
        function="lease_is_live",
        old="now < until <= now + 2 * longest",
        new="now < until",
        red=("tests/contracts/test_ledger_attempts.py::test_lease_from_a_wrong_clock_does_not_block[memory]",),
    ),
    Mutant(
        name="settle-unaccounted",
        law="L8",
        guard="A wave is settled only by receipts that account for every offset.",
        module=_GUARDS,
        function="check_receipts",
        old="sums.unexplained or sums.span != item.range.span or sums.visible != item.rows",
        new="False",
        red=("tests/contracts/test_ledger_attempts.py::test_receipts_must_be_exact[memory-rows unlike visible]",),
    ),
    Mutant(
        name="settle-part-of-a-wave",
        law="L8",
        guard="A wave is settled only by receipts of exactly its planned ranges.",
        module=_GUARDS,
        function="check_receipts",
        old="len(given) != len(receipts) or given != wanted",
        new="False",
        red=("tests/contracts/test_ledger_attempts.py::test_receipts_must_be_exact[memory-foreign]",),
    ),
    Mutant(
        name="range-across-the-origin",
        law="L2",
        guard="No range crosses its stream's origin, where the watermark begins.",
        module=_GUARDS,
        function="check_origins",
        old="item.range.start < origins[item.stream] < item.range.end",
        new="False",
        red=("tests/contracts/test_ledger_plans.py::test_range_across_the_origin_is_a_mistake[memory]",),
    ),
)

RECORDS = (*DECISIONS, *SQL, *RULES)
