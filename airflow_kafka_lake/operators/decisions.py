"""Decisions of people inside a Dag: read again, leave unread, take off the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_lake.core.documents.shown_decision import Decision
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.operators.boundary import absent, text_of
from airflow_kafka_lake.operators.decision_task import DecisionTask, How
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import bulk_decisions
from airflow_kafka_lake.services.bulk_decisions import Json


class ReopenOperator(DecisionTask):
    """Has a committed or skipped period read again: the next run replaces its rows in one commit.

    :param pipeline: a `Pipeline`, a pipeline file, or a name (templated)
    :param topic: the topic (templated)
    :param topic_id: which generation of a topic that was deleted and created again (templated)
    :param partitions: only these partitions, a list of numbers or text such as "0-5, 9" (templated)
    :param from_: begin of the period, a time with its zone or an offset (templated)
    :param to: end of the period, exclusive (templated)
    :param from_offset: begin as an offset, where `from_` is not given (templated)
    :param to_offset: end as an offset, exclusive, where `to` is not given (templated)
    :param reason: why, recorded with the decision (templated)
    :param is_dry_run: only show it, in the log and as XCom `shown` (templated); `dry_run` is a method of every operator
    :param conf_keys: the keys that the Dag run's configuration may have: any other is refused; left out, all may be
    :param explain_task_id: the dry task of this Dag that has shown it: refused if it would be about other offsets now
    :param approval_task_id: the task of this Dag in which a person approves: that name is recorded
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    :param accept_fewer: also if the second reading has fewer rows than the lake has now (templated)
    :param drop_staged: also if what is staged and would go is the only copy of records (templated)
    """

    decision = Decision.REOPEN
    switches = ("accept_fewer", "drop_staged")
    template_fields: Sequence[str] = (*DecisionTask.template_fields, *switches)

    def __init__(self, *, accept_fewer: bool | str = False, drop_staged: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.accept_fewer = accept_fewer
        self.drop_staged = drop_staged

    def decide(self, ports: Ports, spec: PipelineSpec, bounds: Bounds, how: How) -> Json:
        """Reopen, or see what would be read again."""
        return bulk_decisions.reopen(ports, spec, self.needed_period(bounds, "A reopen"), **how)


class SkipOperator(DecisionTask):
    """Passes a period unread: its records stay out of the table, and the watermark moves over it.

    :param pipeline: a `Pipeline`, a pipeline file, or a name (templated)
    :param topic: the topic (templated)
    :param topic_id: which generation of a topic that was deleted and created again (templated)
    :param partitions: only these partitions, a list of numbers or text such as "0-5, 9" (templated)
    :param from_: begin of the period, a time with its zone or an offset (templated)
    :param to: end of the period, exclusive (templated)
    :param from_offset: begin as an offset, where `from_` is not given (templated)
    :param to_offset: end as an offset, exclusive, where `to` is not given (templated)
    :param reason: why, recorded with the decision (templated)
    :param is_dry_run: only show it, in the log and as XCom `shown` (templated); `dry_run` is a method of every operator
    :param conf_keys: the keys that the Dag run's configuration may have: any other is refused; left out, all may be
    :param explain_task_id: the dry task of this Dag that has shown it: refused if it would be about other offsets now
    :param approval_task_id: the task of this Dag in which a person approves: that name is recorded
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    :param acknowledge_order: later segments may start over it (templated)
    :param drop_staged: also if what is staged and would go is the only copy of records (templated)
    """

    decision = Decision.SKIP
    switches = ("acknowledge_order", "drop_staged")
    template_fields: Sequence[str] = (*DecisionTask.template_fields, *switches)

    def __init__(
        self, *, acknowledge_order: bool | str = False, drop_staged: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.acknowledge_order = acknowledge_order
        self.drop_staged = drop_staged

    def decide(self, ports: Ports, spec: PipelineSpec, bounds: Bounds, how: How) -> Json:
        """Skip, or see what would stay unread."""
        return bulk_decisions.skip(ports, spec, self.needed_period(bounds, "A skip"), **how)


class WithdrawOperator(DecisionTask):
    """Takes off the plan what no attempt has begun to read: a later plan takes it again.

    :param pipeline: a `Pipeline`, a pipeline file, or a name (templated)
    :param topic: only this topic (templated)
    :param topic_id: which generation of a topic that was deleted and created again (templated)
    :param partitions: only these partitions, a list of numbers or text such as "0-5, 9" (templated)
    :param from_: begin of the period, a time with its zone or an offset (templated)
    :param to: end of the period, exclusive (templated)
    :param from_offset: begin as an offset, where `from_` is not given (templated)
    :param to_offset: end as an offset, exclusive, where `to` is not given (templated)
    :param reason: why, recorded with the decision (templated)
    :param is_dry_run: only show it, in the log and as XCom `shown` (templated); `dry_run` is a method of every operator
    :param conf_keys: the keys that the Dag run's configuration may have: any other is refused; left out, all may be
    :param explain_task_id: the dry task of this Dag that has shown it: refused if it would be about other offsets now
    :param approval_task_id: the task of this Dag in which a person approves: that name is recorded
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    :param subject: a plan, a wave or a range, instead of everything that is planned of the pipeline (templated)
    """

    decision = Decision.WITHDRAW
    template_fields: Sequence[str] = (*DecisionTask.template_fields, "subject")

    def __init__(self, *, subject: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subject = subject

    def decide(self, ports: Ports, spec: PipelineSpec, bounds: Bounds, how: How) -> Json:
        """Withdraw, or see what would leave the plan."""
        subject = spec.name if absent(self.subject) else text_of(self.subject, "subject")
        selection = bulk_decisions.selected(bounds, self.generation)
        return bulk_decisions.withdraw(ports, subject, selection, **how)
