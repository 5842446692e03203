"""Airflow's own processes die: a task, the scheduler, the triggerer."""

from __future__ import annotations

from tests.soak.faults.strike import Fault


class AirflowFault(Fault):
    """Hits the Airflow of the round."""

    in_airflow = True


class TaskKill(AirflowFault):
    """The process of a task is killed while its Spark driver runs."""

    name = "airflow-task-kill"
    words = "SIGKILL to the process of an ingesting Airflow task; Airflow tries it again"
    every = 20.0

    def strike(self) -> bool:
        """Kill a task that has a driver."""
        task = self.scene.flight.task() if self.scene.flight else None
        if task is None:
            return False
        self.pause(self.choose.uniform(0, 6))
        task.kill()
        return True


class SchedulerKill(AirflowFault):
    """The scheduler, and with it the executor, is killed and started again."""

    name = "scheduler-kill"
    words = "SIGKILL to Airflow's scheduler with its executor; it is started again after a few seconds"
    every = 25.0
    part = "scheduler"

    def strike(self) -> bool:
        """Kill it and start another one."""
        flight = self.scene.flight
        if flight is None or not flight.kill(self.part):
            return False
        self.pause(self.choose.uniform(1, 6))
        flight.restore(self.part)
        return True

    def heal(self) -> None:
        """Make sure that one runs."""
        if self.scene.flight:
            self.scene.flight.restore(self.part)


class TriggererKill(SchedulerKill):
    """The triggerer is killed and started again; deferred tasks wait in it."""

    name = "triggerer-kill"
    words = "SIGKILL to Airflow's triggerer, where tasks wait; it is started again after a few seconds"
    part = "triggerer"


AIRFLOW_FAULTS = (TaskKill, SchedulerKill, TriggererKill)
