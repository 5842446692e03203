"""What the decisions of people have in common: they are shown first, approved by a person, and carried out once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ledger import history
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import Selection
from airflow_kafka_lake.core.reports.decisions import (
    DecisionKind,
    digest,
    headline,
    markdown,
    next_step,
    offsets_of,
)
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.links import PAGE, TaskLink
from airflow_kafka_lake.operators.boundary import (
    absent,
    actor_of,
    airflow_errors,
    flag_of,
    form_bounds,
    ports_of,
    reason_of,
    refusal,
    refuse_unknown_keys,
    spec_of,
    text_of,
)
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.bulk_decisions import (
    DIRECTLY,
    Approval,
    Json,
    period,
)
from airflow_kafka_lake.services.decisions import newest_event, recorded
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.signals import show_page
from airflow_kafka_lake.wiring.ledger import DEFAULT_LEDGER

if TYPE_CHECKING:
    from airflow.sdk import Context

How = Mapping[str, Any]
"""Arguments of a decision: `reason`, `dry_run`, `approved`, and its switches by name."""

SHOWN_KEY = "shown"
"""XCom key of what a dry decision showed: `{"subject", "body", "digest", "sequence"}`."""

APPROVE = "Approve"
"""What a person answers who lets a decision be carried out; Airflow's page has a button of that name."""


class DecisionTask(BaseOperator):
    """A decision about offsets of a pipeline: shown when it is dry, carried out once otherwise."""

    decision: ClassVar[DecisionKind]
    switches: ClassVar[tuple[str, ...]] = ()
    template_fields: Sequence[str] = (
        "pipeline",
        "topic",
        "topic_id",
        "partitions",
        "from_",
        "to",
        "from_offset",
        "to_offset",
        "reason",
        "is_dry_run",
        "ledger_conn_id",
    )
    ui_color = "#f2dfd0"
    operator_extra_links: Collection[TaskLink] = (PAGE,)

    def __init__(
        self,
        *,
        pipeline: Pipeline | str | PathLike[str],
        topic: str | None = None,
        topic_id: str | None = None,
        partitions: Sequence[int] | str | None = None,
        from_: str | int | None = None,
        to: str | int | None = None,
        from_offset: str | int | None = None,
        to_offset: str | int | None = None,
        reason: str | None = None,
        is_dry_run: bool | str = False,
        conf_keys: Collection[str] | None = None,
        explain_task_id: str | None = None,
        approval_task_id: str | None = None,
        ledger_conn_id: str = DEFAULT_LEDGER,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions
        self.from_ = from_
        self.to = to
        self.from_offset = from_offset
        self.to_offset = to_offset
        self.reason = reason
        self.is_dry_run = is_dry_run
        self.conf_keys = conf_keys
        self.explain_task_id = explain_task_id
        self.approval_task_id = approval_task_id
        self.ledger_conn_id = ledger_conn_id

    @property
    def generation(self) -> str | None:
        """The id of the topic that is meant, where it was deleted and created again."""
        return None if absent(self.topic_id) else text_of(self.topic_id, "topic_id")

    def needed_period(self, bounds: Bounds, what: str) -> Selection:
        """Return what is meant by a topic and a period with both ends; UsageError names the field that is empty."""
        for field, value in (("topic", bounds.topic), ("from", bounds.start), ("to", bounds.end)):
            if absent(value):
                raise UsageError(f"{field}: it is needed. {what} is about a period of one topic, with both of its ends")
        return period(bounds, self.generation)

    @abstractmethod
    def decide(self, ports: Ports, spec: PipelineSpec, bounds: Bounds, how: How) -> Json:
        """Carry it out, or see what it would do; returns the document of the command of that name."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Show or decide; returns `{"pipeline", "decision", "offsets", "waves", "by", "next"}`."""
        with airflow_errors():
            refuse_unknown_keys(context, self.conf_keys)
            bounds = form_bounds(self)
            reason = reason_of(self.reason)
            if reason is None:
                raise UsageError("reason: one is needed. Say why, for those who look at this decision later")
            dry_run = flag_of(self.is_dry_run)
            flags = {name: flag_of(getattr(self, name), name) for name in self.switches}
            person = None if dry_run else self._approver(context)
            spec = spec_of(self.pipeline, self.ledger_conn_id)
            by = actor_of(context)
            show_page(self, spec.name)
            actor = by if person is None else history.approver(person, by)
            with ports_of(self, spec, context, actor=actor) as ports:
                known_spec(ports.ledger, spec.name)
                approved = DIRECTLY if dry_run else self._approved(ports, spec.name, context)
                how = {"reason": reason, "dry_run": dry_run, "approved": approved, **flags}
                document = self.decide(ports, spec, bounds, how)
                sequence = newest_event(ports.ledger, spec.name) if dry_run else None
        if dry_run:
            shown = {
                "subject": f"{headline(self.decision, document)}?",
                "body": markdown(self.decision, document, reason=reason, flags=[name for name in flags if flags[name]]),
                "digest": digest(document["streams"]),
                "sequence": sequence,
            }
            context["ti"].xcom_push(key=SHOWN_KEY, value=shown)
        return self._report(document, person, approved, dry_run=dry_run)

    def _report(self, document: Json, person: str | None, approved: Approval, *, dry_run: bool) -> dict[str, Any]:
        line = headline(self.decision, document)
        after = "It happens when it is approved" if dry_run else next_step(self.decision, document)
        if approved.recorded:
            self.log.info("this task has decided before: %s", ", ".join(map(str, sorted(approved.recorded))))
        self.log.info("%s%s", line, " would be next; nothing was changed" if dry_run else ": done")
        self.log.info("%s", after)
        return {
            "pipeline": document["pipeline"],
            "decision": self.decision.value,
            "offsets": offsets_of(self.decision, document),
            "waves": document["waves"],
            "by": person,
            "next": after,
        }

    def _approver(self, context: Mapping[str, Any]) -> str | None:
        """Return who has approved; AirflowFailException where no person has."""
        if self.approval_task_id is None:
            return None
        answer = context["ti"].xcom_pull(task_ids=self.approval_task_id, key="return_value")
        if not isinstance(answer, Mapping) or list(answer.get("chosen_options", ())) != [APPROVE]:
            raise refusal(f"Task {self.approval_task_id} holds no approval: nothing was changed.")
        return str((answer.get("responded_by_user") or {}).get("name") or "unknown")

    def _approved(self, ports: Ports, pipeline: str, context: Mapping[str, Any]) -> Approval:
        """Return what was shown, and what this very task has decided since, before it was retried or cleared."""
        shown = shown_by(self.explain_task_id, context) if self.explain_task_id else {}
        since = shown.get("sequence") or 0
        before = recorded(ports.ledger, pipeline, self.decision.value, ports.actor, after=since)
        return Approval(shown=shown.get("digest"), recorded=before)


def shown_by(task_id: str, context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a dry decision has shown; AirflowFailException where it has shown nothing."""
    shown = context["ti"].xcom_pull(task_ids=task_id, key=SHOWN_KEY)
    if not isinstance(shown, Mapping):
        raise refusal(f"Task {task_id} has shown nothing: nothing was changed. Clear it to have it shown.")
    return shown
