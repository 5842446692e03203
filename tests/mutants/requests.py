"""Guards of what tasks ask workers for."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LEDGER = "tests/contracts/test_ledger_requests.py::"
_WORKER = "tests/unit/services/test_requests.py::"
_TASK = "tests/airflow/test_by_worker.py::"

REQUESTS = (
    Mutant(
        name="request-outlives-its-wave",
        law="fine print: request",
        guard="Of a wave that has ended nothing is asked for.",
        module="airflow_kafka_lake.core.ledger.requests",
        function="AskForWave.decide",
        old="if wave.state in FINISHED:\n    ...",
        new="",
        red=(f"{_LEDGER}test_request_dies_with_its_wave[memory-committed]",),
    ),
    Mutant(
        name="request-never-lapses",
        law="fine print: request",
        guard="A request that nothing renews is wanted no more.",
        module="airflow_kafka_lake.core.ledger.requests",
        function="RequestRecord.is_wanted",
        old="self.live",
        new="True",
        red=(
            f"{_LEDGER}test_request_that_nothing_renews_lapses[sqlite]",
            f"{_WORKER}test_request_that_lapses_ends_the_work",
        ),
    ),
    Mutant(
        name="request-is-never-renewed",
        law="fine print: request",
        guard="As long as its trigger lives, a request does not lapse.",
        module="airflow_kafka_lake.core.ledger.requests",
        function="AskForWave.decide",
        old="replace(known, until=now + self.wanted_for)",
        new="known",
        red=(
            f"{_LEDGER}test_request_is_renewed_as_it_comes_to_its_end[memory]",
            f"{_TASK}test_trigger_keeps_the_request_alive_and_says_how_it_is",
        ),
    ),
    Mutant(
        name="work-that-is-not-wanted",
        law="fine print: request",
        guard="A worker ends what no task wants any more.",
        module="airflow_kafka_lake.services.requests",
        function="_require_wanted",
        old="if not is_wanted(ports.ledger.requests(wave)):\n    ...",
        new="",
        red=(f"{_WORKER}test_wave_that_is_not_wanted_any_more_is_ended",),
    ),
    Mutant(
        name="answered-and-tried-again",
        law="fine print: request",
        guard="What was answered is not taken again before its task asks again.",
        module="airflow_kafka_lake.core.ledger.requests",
        function="RequestRecord.is_wanted",
        old="self.answer is None",
        new="True",
        red=(f"{_LEDGER}test_answer_is_kept_for_all_who_asked[memory]",),
    ),
    Mutant(
        name="answered-while-at-work",
        law="fine print: request",
        guard="A worker that fails answers nothing while another one works on the wave.",
        module="airflow_kafka_lake.core.ledger.requests",
        function="AnswerRequests.decide",
        old="guards.lease_is_live(wave.lease_until, records.now)",
        new="False",
        red=(f"{_LEDGER}test_wave_at_work_is_not_answered[memory]",),
    ),
    Mutant(
        name="request-of-another-task",
        law="fine print: request",
        guard="A task ends its own request only.",
        module="airflow_kafka_lake.core.ledger.requests",
        function="_own",
        old="item.id == name",
        new="True",
        red=(f"{_LEDGER}test_every_task_has_a_request_of_its_own[memory]",),
    ),
    Mutant(
        name="request-from-before-a-clear",
        law="fine print: request",
        guard="A task that asks anew wants nothing by what it asked for before.",
        module="airflow_kafka_lake.core.ledger.requests",
        function="AskForWave.decide",
        old="self.begins and item.actor == self.actor",
        new="False",
        red=(
            f"{_LEDGER}test_task_that_begins_again_ends_what_it_asked_for_before[memory]",
            f"{_TASK}test_task_that_was_cleared_and_is_then_marked_failed_wants_nothing",
        ),
    ),
    Mutant(
        name="cleared-task-ends-the-work",
        law="fine print: request",
        guard="A task that was cleared goes on with the attempt that runs.",
        module="airflow_kafka_lake.triggers.requests",
        function="WaveServedTrigger._has_ended",
        old="return ...",
        new="return True",
        red=(f"{_TASK}test_only_a_task_that_a_person_has_ended_ends_its_request_at_once[scheduled-True]",),
    ),
    Mutant(
        name="ledger-closed-under-others",
        law="fine print: request",
        guard="A trigger that ends leaves the ledger open for those that wait on.",
        module="airflow_kafka_lake.triggers.shared",
        function="SharedLedgers.close",
        old="if self._users[found]:\n    ...",
        new="",
        red=("tests/airflow/test_shared_ledgers.py::test_ledger_is_opened_once_and_closed_after_the_last",),
    ),
    Mutant(
        name="answer-is-not-the-tasks",
        law="fine print: request",
        guard="What a worker answers, the task ends in.",
        module="airflow_kafka_lake.operators.ingest",
        function="IngestWaveOperator._let_serve",
        old="raise problem",
        new="",
        red=(f"{_TASK}test_failure_of_the_worker_is_the_tasks",),
    ),
)
