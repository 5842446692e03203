"""Guards of a pause."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

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
)
