"""Guards of what happens on machines: jobs, processes, folders."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SUBMIT = "airflow_kafka_lake.adapters.spark_submit"

MACHINE = (
    Mutant(
        name="begin-with-a-clock-far-ahead",
        law="lease",
        guard="A worker whose clock is more than a minute ahead of the ledger's begins nothing.",
        module="airflow_kafka_lake.services.claims",
        function="_refuse_fast_clock",
        old="ahead <= TOLERANCE",
        new="ahead >= TOLERANCE or ahead <= TOLERANCE",
        red=("tests/unit/services/test_fencing.py::test_clock_far_ahead_of_the_ledgers_begins_nothing",),
    ),
    Mutant(
        name="plan-with-a-clock-far-off",
        law="L14",
        guard="A plan is refused whose worker's clock is more than a minute ahead of the ledger's, or behind it.",
        module="airflow_kafka_lake.core.ledger.plans",
        function="_check_clock",
        old="abs(off)",
        new="off",
        red=("tests/contracts/test_ledger_plans.py::test_plan_by_a_clock_far_off_the_ledgers_is_refused[memory]",),
    ),
    Mutant(
        name="end-a-reused-pid",
        law="zombies",
        guard="A process is a forgotten driver only if it has the recorded start time: its id may be another's by now.",
        module="airflow_kafka_lake.adapters.machine",
        function="HostProcesses.alive",
        old="(found.boot, found.started) == (holder.boot, holder.started)",
        new="True",
        red=("tests/unit/adapters/test_spark_submit.py::test_a_pid_that_is_used_again_is_never_touched",),
    ),
    Mutant(
        name="end-any-application",
        law="zombies",
        guard="On a cluster only the application with the very name of the attempt's job is ended.",
        module=f"{_SUBMIT}.standalone",
        function="_running",
        old="item['name'] == name",
        new="item['name'].startswith('kafka-lake ')",
        red=("tests/unit/adapters/test_standalone.py::test_only_the_application_of_that_name_is_ended",),
    ),
    Mutant(
        name="vouch-for-a-stopped-driver",
        law="zombies",
        guard="A driver is vouched for only while it makes progress.",
        module=f"{_SUBMIT}.log",
        function="Signs.is_recent",
        old="time.monotonic() - self._changed_at < self._seconds",
        new="True",
        red=("tests/unit/adapters/test_progress.py::test_no_sign_for_long_is_no_progress",),
    ),
    Mutant(
        name="sweep-living-folders",
        law="zombies",
        guard="A private folder is removed only when its owner is known to be dead.",
        module=f"{_SUBMIT}.folder",
        function="_is_left_behind",
        old="HostProcesses().dead(LeaseHolder.parse((folder / OWNER_FILE).read_text(encoding='utf-8')))",
        new="True",
        red=("tests/unit/adapters/test_folder.py::test_folder_of_a_living_process_is_never_swept",),
    ),
    Mutant(
        name="a-host-is-its-name",
        law="clocks",
        guard="A holder of another start of a host of our name is dead only when that was this machine.",
        module="airflow_kafka_lake.adapters.machine",
        function="HostProcesses.dead",
        old="same_start or (holder.machine is not None and holder.machine == self._machine)",
        new="True",
        red=("tests/unit/adapters/test_processes.py::test_another_host_of_the_same_name_kills_no_process",),
    ),
)
