"""Guards of a pause, and of what may be at work at once."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LIMITS = "tests/contracts/test_ledger_limits.py::"
_PAUSES = "tests/contracts/test_ledger_pauses.py::"

PAUSES = (
    Mutant(
        name="claim-while-paused",
        law="fine print: pause",
        guard="No wave of a paused pipeline or plan is claimed to be brought into the lake.",
        module="airflow_kafka_lake.core.ledger.attempts",
        function="ClaimWave._free",
        old="refuse_paused(records.pauses, wave.plan)",
        new="",
        red=(
            f"{_PAUSES}test_nothing_is_begun_while_the_pipeline_is_paused[memory]",
            f"{_PAUSES}test_paused_plan_keeps_its_own_waves_only[sqlite]",
        ),
    ),
    Mutant(
        name="plan-while-paused",
        law="fine print: pause",
        guard="No plan with anything to read is recorded of a paused pipeline.",
        module="airflow_kafka_lake.core.ledger.plans",
        function="RecordPlan.decide",
        old="if self.plan.waves:\n    ...",
        new="",
        red=(f"{_PAUSES}test_nothing_is_begun_while_the_pipeline_is_paused[sqlite]",),
    ),
    Mutant(
        name="more-waves-than-allowed",
        law="fine print: limit",
        guard="No more waves of a pipeline are claimed than may be at work at once.",
        module="airflow_kafka_lake.core.ledger.attempts",
        function="ClaimWave._free",
        old="refuse_above(...)",
        new="",
        red=(
            f"{_LIMITS}test_no_more_waves_are_claimed_than_may_be_at_work_at_once[memory]",
            f"{_LIMITS}test_no_more_waves_are_claimed_than_may_be_at_work_at_once[sqlite]",
        ),
    ),
    Mutant(
        name="whole-rate-for-each-wave",
        law="fine print: limit",
        guard="The waves that may be at work at once have a pipeline's rate together.",
        module="airflow_kafka_lake.core.ledger.limits",
        function="Limits.of",
        old="max(1, total // waves)",
        new="total",
        red=(f"{_LIMITS}test_rate_of_a_pipeline_is_shared_by_its_waves[memory]",),
    ),
)
