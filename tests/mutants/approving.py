"""Guards of what a person approves before it happens."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DECIDING = "airflow_kafka_lake.services.bulk_decisions"
_DECISIONS = "tests/airflow/test_decisions.py::"
_ONCE = f"{_DECISIONS}test_decision_is_carried_out_once_however_often_its_task_is_cleared"
LAW = "fine print: approval"

APPROVING = (
    Mutant(
        name="decide-without-an-approval",
        law=LAW,
        guard="A task behind an approval decides only when a person has approved.",
        module="airflow_kafka_lake.operators.decision_task",
        function="DecisionTask._approver",
        old="if not isinstance(answer, Mapping) or list(answer.get('chosen_options', ())) != [APPROVE]:\n    ...",
        new="answer = answer or {}",
        red=(f"{_DECISIONS}test_rejected_decision_changes_nothing_and_says_so",),
    ),
    Mutant(
        name="decide-about-other-offsets",
        law=LAW,
        guard="A decision about other offsets than were shown is refused.",
        module=_DECIDING,
        function="Approved.require",
        old="if self.shown not in (None, digest(streams)):\n    ...",
        new="",
        red=(f"{_DECISIONS}test_decision_about_other_offsets_than_were_shown_is_refused",),
    ),
    Mutant(
        name="decide-twice",
        law=LAW,
        guard="A task that is retried or cleared does not decide again what it has recorded.",
        module=_DECIDING,
        function="Approved.left",
        old="str(item) not in self.recorded",
        new="True",
        red=(_ONCE,),
    ),
    Mutant(
        name="withdraw-twice",
        law=LAW,
        guard="A withdrawal that this task has recorded is not repeated for what was planned since.",
        module=_DECIDING,
        function="withdraw",
        old="if approved.recorded:\n    ...",
        new="",
        red=(_ONCE,),
    ),
    Mutant(
        name="start-without-an-approval",
        law=LAW,
        guard="A plan that asks, and that no person approves, starts nothing.",
        module="airflow_kafka_lake.operators.review",
        function="ReviewPlanOperator.execute_complete",
        old="self.skip(ti=context['ti'], tasks=self.get_direct_relatives(upstream=False))",
        new="pass",
        red=("tests/airflow/test_forms.py::test_plan_that_asks_waits_for_a_person",),
    ),
)
