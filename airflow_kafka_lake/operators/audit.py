"""The audit of a pipeline inside a Dag."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake import signals
from airflow_kafka_lake.adapters.machine import report_file, write_report
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.report import AuditReport
from airflow_kafka_lake.core.planning.selection import StreamScope
from airflow_kafka_lake.core.reports.metrics import of_audit
from airflow_kafka_lake.links import PAGE, SPARK, TaskLink
from airflow_kafka_lake.operators.boundary import (
    PipelineTask,
    SparkTask,
    airflow_errors,
    bounds_of,
    flag_of,
    ports_of,
    refusal,
    spec_of,
)
from airflow_kafka_lake.pipeline.keys import parse_size
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.services.pipeline_audit import FurtherCheck, audit, further_checks
from airflow_kafka_lake.signals import SparkPage, show_page

if TYPE_CHECKING:
    from airflow.sdk import Context

LOGGED = 50
"""Findings, and lines of the parts, that go to the task's log; the report and `kafka-lake audit --json` have all."""


class AuditOperator(PipelineTask, SparkTask):
    """Compares ledger and lake of a pipeline, and fails when anything is missing, twice or unexplained.

    Reads only; safe at any moment, also while the pipeline runs.

    :param topic: only this topic (templated)
    :param partitions: only these partitions (templated)
    :param deep: read Kafka again, where it still can, and compare every byte with the table, in Spark (templated)
    :param deep_rate: how much of Kafka to read a second, such as "20 MiB"; left out, as fast as it comes (templated)
    :param cutover: also judge the cutover with this table, which a live stream writes to (templated)
    :param cutover_columns: its columns as "topic=…,partition=…,offset=…"; otherwise those of our tables (templated)
    :param report: write a page for a browser to this file, on the worker's disk or a shared one (templated)
    """

    operator_extra_links: Collection[TaskLink] = (PAGE, SPARK)
    template_fields: Sequence[str] = (
        *(*PipelineTask.template_fields, "topic", "partitions"),
        *("deep", "deep_rate", "cutover", "cutover_columns", "report"),
    )
    ui_color = "#e4dcf4"

    def __init__(
        self,
        *,
        topic: str | None = None,
        partitions: Sequence[int] | str | None = None,
        deep: bool | str = False,
        deep_rate: int | str | None = None,
        cutover: str | None = None,
        cutover_columns: str | None = None,
        report: str | PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        self.partitions = partitions
        self.deep = deep
        self.deep_rate = deep_rate
        self.cutover = cutover
        self.cutover_columns = cutover_columns
        self.report = report

    def execute(self, context: Context) -> dict[str, Any]:
        """Audit; returns `{"pipeline", "streams", "offsets", "rows", …, "unexplained"}`.

        Raises AirflowFailException, which names the first finding.
        """
        with airflow_errors():
            scope, checks = self._scope(), self._checks()
            file = report_file(fspath(self.report)) if self.report else None
            spec = spec_of(self.pipeline, self.ledger_conn_id)
            show_page(self, spec.name)
            page = SparkPage(self, context)
            needs: dict[str, Any] = {
                "need_spark": any(check.needs_spark for check in checks),
                "application": page.began,
            }
            with page.following(), ports_of(self, spec, context, **needs) as ports:
                known_spec(ports.ledger, spec.name)
                with self.working():
                    report = audit(ports, spec, scope=scope, ask_kafka=file is not None, checks=checks)
        signals.send(partial(of_audit, report))
        try:
            self._judge(report)
        finally:
            if file:
                from airflow_kafka_lake.pages.charts import audit_page

                with airflow_errors():
                    write_report(file, audit_page(report))
                self.log.info("report: %s", file)
        sums = report.totals
        return {
            "pipeline": report.pipeline,
            "streams": sums.streams,
            "offsets": sums.span,
            "rows": sums.rows,
            "duplicates": sums.duplicates,
            "missing": sums.missing,
            **sums.accounting.to_json(),
        }

    def _scope(self) -> StreamScope:
        bounds = bounds_of(self.topic, self.partitions, None, None)
        return StreamScope(
            topic=bounds.topic, partitions=None if bounds.partitions is None else frozenset(bounds.partitions)
        )

    def _checks(self) -> tuple[FurtherCheck, ...]:
        """Return the checks beside the numbers; an option that refines a check is left out without it."""
        deep = flag_of(self.deep, "deep")
        return further_checks(
            deep=deep,
            deep_rate=parse_size(self.deep_rate) if deep and self.deep_rate else None,
            cutover=self.cutover,
            cutover_columns=self.cutover_columns if self.cutover else None,
        )

    def _judge(self, report: AuditReport) -> None:
        """Log the result; raises AirflowFailException, which names the first finding."""
        for line in (report.totals.sentence, *report.check_lines(LOGGED)):
            self.log.info("%s", line)
        found = report.findings
        for item in found[:LOGGED]:
            self.log.error("%s: %s", item.kind, item.message)
        if found:
            raise refusal(
                f"the audit of {report.pipeline} has {count(len(found), 'finding')}, the first: "
                f"{found[0].kind}: {found[0].message}. All of them: {remedies.audit(report.pipeline)}"
            )
