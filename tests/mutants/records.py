"""Guards of the ledger, in memory and in SQL, and of the rules that both share."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ATTEMPTS = "airflow_kafka_lake.adapters.memory_ledger.attempts"
_MEMORY = "airflow_kafka_lake.adapters.memory_ledger.ledger"
_PLANNING = "airflow_kafka_lake.adapters.memory_ledger.planning"
_CLAIMING = "airflow_kafka_lake.adapters.sql_ledger.claiming"
_DECIDING = "airflow_kafka_lake.adapters.sql_ledger.deciding"
_SKIPPING = "airflow_kafka_lake.adapters.sql_ledger.skipping"
_RECORDING = "airflow_kafka_lake.adapters.sql_ledger.recording"
_READING = "airflow_kafka_lake.adapters.sql_ledger.reading"
_SCHEMA = "airflow_kafka_lake.adapters.sql_ledger.schema"
_GUARDS = "airflow_kafka_lake.core.guards"

MEMORY = (
    Mutant(
        name="memory-any-fence",
        law="L10",
        guard="In memory: every write of an attempt names the wave's fence.",
        module=_ATTEMPTS,
        old="(row.fence, row.attempt) == (key.fence, key.attempt)",
        new="row.attempt == key.attempt",
        red=("tests/contracts/test_ledger_attempts.py::test_overtaken_attempt_writes_nothing[memory-settle]",),
    ),
    Mutant(
        name="memory-any-attempt",
        law="L10",
        guard="In memory: every write of an attempt names the wave's attempt id.",
        module=_ATTEMPTS,
        old="(row.fence, row.attempt) == (key.fence, key.attempt)",
        new="row.fence == key.fence",
        red=("tests/contracts/test_ledger_attempts.py::test_overtaken_attempt_writes_nothing[memory-settle]",),
    ),
    Mutant(
        name="memory-any-lease",
        law="fine print: leases",
        guard="In memory: a live lease is honoured, unless the caller vouches that this very holder is dead.",
        module=_ATTEMPTS,
        old="            if self._live(row) and over != row.fence:\n",
        new="            if False:\n",
        red=("tests/contracts/test_ledger_attempts.py::test_live_lease_refuses_others[memory]",),
    ),
    Mutant(
        name="memory-force-without-fence",
        law="L10",
        guard="In memory: who vouches for a holder's death names the fence of that holder.",
        module=_ATTEMPTS,
        old="over != row.fence:",
        new="over is None:",
        red=("tests/contracts/test_ledger_attempts.py::test_claim_over_a_dead_holder[memory]",),
    ),
    Mutant(
        name="memory-fence-used-again",
        law="L10",
        guard="In memory: every claim raises the fence.",
        module=_ATTEMPTS,
        old="now, fence = self._clock.now(), row.fence + 1",
        new="now, fence = self._clock.now(), max(row.fence, 1)",
        red=("tests/contracts/test_ledger_attempts.py::test_overtaken_attempt_writes_nothing[memory-settle]",),
    ),
    Mutant(
        name="memory-take-with-any-fence",
        law="L11",
        guard="In memory: ranges are taken away under the wave's fence.",
        module=_MEMORY,
        old="if row.fence != fence or (",
        new="if (",
        red=("tests/contracts/test_ledger_decisions.py::test_taking_from_a_claimed_wave_needs_its_guard[memory]",),
    ),
    Mutant(
        name="memory-skip-without-guard",
        law="L11",
        guard="In memory: a skip takes ranges from a claimed wave only while it holds the wave.",
        module=_MEMORY,
        old="            self._refuse_unguarded(draft.waves[name], held)\n",
        new="            pass\n",
        red=("tests/contracts/test_ledger_decisions.py::test_claimed_wave_loses_ranges_only_under_its_guard[memory]",),
    ),
    Mutant(
        name="all-goes-on-after-any-skip",
        law="L3",
        guard="After a skip only what holds none of the offsets goes on that its range was held for.",
        module="airflow_kafka_lake.core.guards",
        old="            elif item.held_for and not piece.held_for:\n",
        new="            elif item.held_for:\n",
        red=("tests/unit/services/test_skipping.py::test_held_range_goes_on_once_all_that_it_is_held_for_was_passed",),
    ),
    Mutant(
        name="memory-overlap",
        law="L2",
        guard="In memory: ranges of a stream never overlap.",
        module=_PLANNING,
        old="            self._refuse_overlaps(draft, plan)\n",
        new="",
        red=("tests/contracts/test_ledger_plans.py::test_overlap_with_a_recorded_range_is_refused[memory-stretch0]",),
    ),
    Mutant(
        name="memory-plan-from-old-versions",
        law="L10",
        guard="In memory: a plan made from an old version of a stream is refused.",
        module=_PLANNING,
        old="        if (known.version if known else None) != stream.version:\n",
        new="        if False:\n",
        red=("tests/contracts/test_ledger_plans.py::test_planned_from_old_versions_is_refused[memory]",),
    ),
    Mutant(
        name="memory-advance-over-gaps",
        law="L2",
        guard="In memory: a watermark stops at the first offset that is not settled.",
        module=_MEMORY,
        old="RangeSet(item.range for item in resolved).unbroken_end(row.watermark)",
        new="max((item.range.end for item in resolved), default=row.watermark)",
        red=("tests/contracts/test_ledger_watermarks.py::test_watermark_stops_at_a_gap[memory]",),
    ),
    Mutant(
        name="memory-advance-unseen",
        law="L10",
        guard="In memory: an advance raises the stream's version, so that older decisions are refused.",
        module=_MEMORY,
        old="replace(row, watermark=end, version=row.version + 1)",
        new="replace(row, watermark=end)",
        red=("tests/contracts/test_ledger_watermarks.py::test_advance_is_a_decision_about_the_stream[memory]",),
    ),
)

SQL = (
    Mutant(
        name="sql-any-fence",
        law="L10",
        guard="In SQL: the WHERE clause of every write of an attempt names the wave's fence.",
        module=_CLAIMING,
        old="where = [wave.c.id == key.wave, wave.c.fence == key.fence, wave.c.attempt == key.attempt]",
        new="where = [wave.c.id == key.wave, wave.c.attempt == key.attempt]",
        red=("tests/contracts/test_ledger_attempts.py::test_overtaken_attempt_writes_nothing[sqlite-settle]",),
    ),
    Mutant(
        name="sql-any-attempt",
        law="L10",
        guard="In SQL: the WHERE clause of every write of an attempt names the wave's attempt id.",
        module=_CLAIMING,
        old="where = [wave.c.id == key.wave, wave.c.fence == key.fence, wave.c.attempt == key.attempt]",
        new="where = [wave.c.id == key.wave, wave.c.fence == key.fence]",
        red=("tests/contracts/test_ledger_attempts.py::test_overtaken_attempt_writes_nothing[sqlite-settle]",),
    ),
    Mutant(
        name="sql-any-lease",
        law="fine print: leases",
        guard="In SQL: a live lease is honoured, unless the caller vouches that this very holder is dead.",
        module=_CLAIMING,
        old=".where(wave.c.id == name, wave.c.state.in_(sources), free)",
        new=".where(wave.c.id == name, wave.c.state.in_(sources))",
        red=("tests/contracts/test_ledger_attempts.py::test_live_lease_refuses_others[sqlite]",),
    ),
    Mutant(
        name="sql-force-without-fence",
        law="L10",
        guard="In SQL: who vouches for a holder's death names the fence of that holder.",
        module=_CLAIMING,
        old="or_(not_(reading.lease_live()), wave.c.fence == over)",
        new="or_(not_(reading.lease_live()), wave.c.fence != -1)",
        red=("tests/contracts/test_ledger_attempts.py::test_claim_over_a_dead_holder[sqlite]",),
    ),
    Mutant(
        name="sql-fence-used-again",
        law="L10",
        guard="In SQL: every claim raises the fence.",
        module=_CLAIMING,
        old="fence=wave.c.fence + 1",
        new="fence=func.max(wave.c.fence, 1)",
        red=("tests/contracts/test_ledger_attempts.py::test_overtaken_attempt_writes_nothing[sqlite-settle]",),
    ),
    Mutant(
        name="sql-take-with-any-fence",
        law="L11",
        guard="In SQL: ranges are taken away under the wave's fence.",
        module=_DECIDING,
        old="    where = (wave.c.id == name, wave.c.fence == fence, holder)\n",
        new="    where = (wave.c.id == name, holder)\n",
        red=("tests/contracts/test_ledger_decisions.py::test_taking_from_a_claimed_wave_needs_its_guard[sqlite]",),
    ),
    Mutant(
        name="sql-take-by-any-attempt",
        law="L11",
        guard="In SQL: ranges are taken away by the attempt that holds the fence.",
        module=_DECIDING,
        old="    where = (wave.c.id == name, wave.c.fence == fence, holder)\n",
        new="    where = (wave.c.id == name, wave.c.fence == fence)\n",
        red=("tests/contracts/test_ledger_decisions.py::test_taking_from_a_claimed_wave_needs_its_guard[sqlite]",),
    ),
    Mutant(
        name="sql-skip-without-guard",
        law="L11",
        guard="In SQL: a skip takes ranges from a claimed wave only while it holds the wave.",
        module=_SKIPPING,
        old=" and name not in held:",
        new=" and name is None:",
        red=("tests/contracts/test_ledger_decisions.py::test_claimed_wave_loses_ranges_only_under_its_guard[sqlite]",),
    ),
    Mutant(
        name="sql-overlap",
        law="L2",
        guard="In SQL: a constraint of the database refuses ranges of a stream that overlap.",
        module=_SCHEMA,
        old="        environment.run_migrations()\n",
        new="        environment.run_migrations()\n"
        "    for name in ('insert', 'update'):\n"
        "        connection.execute(text(f'DROP TRIGGER kafka_lake_range_no_overlap_{name}'))\n",
        red=("tests/contracts/test_ledger_plans.py::test_overlap_with_a_recorded_range_is_refused[sqlite-stretch0]",),
    ),
    Mutant(
        name="sql-plan-from-old-versions",
        law="L10",
        guard="In SQL: a plan made from an old version of a stream is refused.",
        module=_RECORDING,
        old="        if (found.version if found else None) != item.version:\n",
        new="        if False:\n",
        red=("tests/contracts/test_ledger_plans.py::test_planned_from_old_versions_is_refused[sqlite]",),
        more=(
            (
                ".where(stream.c.id == given.c.id, stream.c.version == given.c.version)",
                ".where(stream.c.id == given.c.id)",
            ),
        ),
    ),
    Mutant(
        name="sql-advance-over-gaps",
        law="L2",
        guard="In SQL: a watermark stops at the first offset that is not settled.",
        module=_DECIDING,
        old="        .where(run.c.end_offset - run.c.watermark == run.c.total)\n",
        new="",
        red=("tests/contracts/test_ledger_watermarks.py::test_watermark_stops_at_a_gap[sqlite]",),
    ),
    Mutant(
        name="sql-advance-over-holds",
        law="L1",
        guard="In SQL: only ranges that are settled or skipped carry a watermark.",
        module=_DECIDING,
        old="        .where(range_.c.state.in_(RESOLVED), range_.c.start_offset >= stream.c.watermark)\n",
        new="        .where(range_.c.start_offset >= stream.c.watermark)\n",
        red=("tests/contracts/test_ledger_watermarks.py::test_watermark_never_passes_a_hold[sqlite-CANCELLED]",),
    ),
    Mutant(
        name="sql-advance-unseen",
        law="L10",
        guard="In SQL: an advance raises the stream's version, so that older decisions are refused.",
        module=_DECIDING,
        old=".values(watermark=given.c.end_offset, version=stream.c.version + 1)",
        new=".values(watermark=given.c.end_offset)",
        red=("tests/contracts/test_ledger_watermarks.py::test_advance_is_a_decision_about_the_stream[sqlite]",),
    ),
    Mutant(
        name="sql-advance-from-an-old-version",
        law="L10",
        guard="In SQL: an advance compares the version of every stream that it moves.",
        module=_DECIDING,
        old="    guard = (stream.c.version == given.c.version, stream.c.watermark == given.c.start_offset)\n",
        new="    guard = (stream.c.watermark == given.c.start_offset,)\n",
        red=(
            "tests/contracts/test_sql_ledger.py::test_advance_of_a_stream_decided_about_meanwhile_is_refused[sqlite]",
        ),
    ),
    Mutant(
        name="sql-lease-of-a-wrong-clock",
        law="fine print: leases",
        guard="In SQL: a lease that ends further away than any lease can counts as ended.",
        module=_READING,
        old=", wave.c.lease_until <= now(2 * MAX_LEASE))",
        new=")",
        red=("tests/contracts/test_ledger_attempts.py::test_lease_from_a_wrong_clock_does_not_block[sqlite]",),
    ),
)

RULES = (
    Mutant(
        name="lease-of-a-wrong-clock",
        law="fine print: leases",
        guard="In memory: a lease that ends further away than any lease can counts as ended.",
        module=_GUARDS,
        old="now < until <= now + 2 * longest",
        new="now < until",
        red=("tests/contracts/test_ledger_attempts.py::test_lease_from_a_wrong_clock_does_not_block[memory]",),
    ),
    Mutant(
        name="settle-unaccounted",
        law="L8",
        guard="A wave is settled only by receipts that account for every offset.",
        module=_GUARDS,
        old="if sums.unexplained or sums.span != item.range.span or sums.visible != item.rows:",
        new="if False:",
        red=("tests/contracts/test_ledger_attempts.py::test_receipts_must_be_exact[memory-rows unlike visible]",),
    ),
    Mutant(
        name="settle-part-of-a-wave",
        law="L8",
        guard="A wave is settled only by receipts of exactly its planned ranges.",
        module=_GUARDS,
        old="    if len(given) != len(receipts) or given != wanted:\n",
        new="    if False:\n",
        red=("tests/contracts/test_ledger_attempts.py::test_receipts_must_be_exact[memory-foreign]",),
    ),
    Mutant(
        name="range-across-the-origin",
        law="L2",
        guard="No range crosses its stream's origin, where the watermark begins.",
        module=_GUARDS,
        old="        if item.range.start < origins[range_key(item)] < item.range.end:\n",
        new="        if False:\n",
        red=("tests/contracts/test_ledger_plans.py::test_range_across_the_origin_is_a_mistake[memory]",),
    ),
)

RECORDS = (*MEMORY, *SQL, *RULES)
