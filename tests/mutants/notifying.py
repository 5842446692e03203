"""Guards of what Airflow is told: each move once, in order, and never at the cost of the wave."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DELIVERIES = "airflow_kafka_lake.core.ledger.deliveries"
_NOTIFYING = "airflow_kafka_lake.services.notifying"
_ADVANCE = "airflow_kafka_lake.services.advance"
_CONTRACT = "tests/contracts/test_ledger_watermarks.py::"
_MODEL = "tests/properties/test_deliveries.py::test_every_order_of_two_tasks_tells_each_move_once_and_in_order"
_TASKS = "tests/airflow/test_notifying.py::"

NOTIFYING = (
    Mutant(
        name="two-deliver-at-once",
        law="fine print: events",
        guard="Who finds a delivery taken leaves it.",
        module=_DELIVERIES,
        function="BeginDelivery._is_free",
        old="row.holder in {None, self.holder}",
        new="True",
        red=(_MODEL, f"{_CONTRACT}test_one_delivers_at_a_time"),
    ),
    Mutant(
        name="delivery-taken-from-the-living",
        law="fine print: events",
        guard="A delivery is taken over when its task is known to have ended, or its lease has.",
        module=_DELIVERIES,
        function="BeginDelivery._is_free",
        old="(self.ended or not guards.lease_is_live(row.until, records.now))",
        new="True",
        red=(_MODEL, f"{_CONTRACT}test_delivery_is_taken_over_only_from_who_has_ended"),
    ),
    Mutant(
        name="delivery-taken-from-another",
        law="fine print: events",
        guard="It is taken from the very holder that was asked about.",
        module=_DELIVERIES,
        function="BeginDelivery._is_free",
        old="row.holder == self.over",
        new="True",
        red=(f"{_CONTRACT}test_delivery_is_taken_over_only_from_who_has_ended",),
    ),
    Mutant(
        name="accepted-asked-before-ended",
        law="fine print: events",
        guard="Whether a task has ended is asked before whether its events have arrived.",
        module=_NOTIFYING,
        function="_after",
        old="""ended = receiver.has_ended(busy.holder)
if end_delivery(ledger, busy, receiver):
    return ledger.commit(write)""",
        new="""if end_delivery(ledger, busy, receiver):
    return ledger.commit(write)
ended = receiver.has_ended(busy.holder)""",
        red=(_MODEL,),
    ),
    Mutant(
        name="success-taken-for-accepted",
        law="fine print: events",
        guard="Moves count as notified when Airflow has their events.",
        module=_NOTIFYING,
        function="end_delivery",
        old="not receiver.has_accepted(delivery)",
        new="False",
        red=(_MODEL, f"{_TASKS}test_success_that_airflow_refuses_acknowledges_nothing"),
    ),
    Mutant(
        name="told-before-the-tasks-success",
        law="fine print: events",
        guard="A move counts as told only after Airflow has accepted the event.",
        module="airflow_kafka_lake.operators.notifying",
        function="notify",
        old="return delivery.moves",
        new="ledger.mark_notified(pipeline, delivery.moves[-1].sequence)\nreturn delivery.moves",
        red=(f"{_TASKS}test_each_wave_tells_what_it_moved",),
    ),
    Mutant(
        name="notified-moves-delivered-again",
        law="fine print: events",
        guard="A delivery begins after what has been notified by then.",
        module=_NOTIFYING,
        function="begin_delivery",
        old="move.sequence > row.sequence",
        new="True",
        red=(f"{_TASKS}test_task_that_ends_after_its_events_were_accepted_tells_none_twice",),
    ),
    Mutant(
        name="wave-fails-with-its-advance",
        law="L4",
        guard="A wave that is in the lake is no problem, whatever becomes of the advance after it.",
        module=_ADVANCE,
        function="Advances.after_wave",
        old="Exception",
        new="ZeroDivisionError",
        red=("tests/unit/services/test_running.py::test_advance_that_fails_after_a_wave_fails_nothing",),
    ),
)
