"""Decisions of people inside a Dag: a plan that is reviewed and approved, offsets that are skipped or read again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk.bases.skipmixin import SkipMixin

from airflow_kafka_lake.actions.action import FieldKind
from airflow_kafka_lake.actions.offsets import (
    OffsetsAction,
    OffsetsOutcome,
    ReopenAction,
    SkipAction,
    WithdrawAction,
    selected,
)
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ledger import history
from airflow_kafka_lake.core.reports.plan import PlanSummary, plan_headline, plan_markdown
from airflow_kafka_lake.operators.boundary import (
    PeriodTask,
    absent,
    actor_of,
    airflow_errors,
    count_of,
    flag_of,
    form_bounds,
    of_backfill,
    ports_of,
    rate_of,
    reason_of,
    refusal,
    refuse_unknown_keys,
    spec_of,
    text_of,
)
from airflow_kafka_lake.operators.plan import PLAN_KEY, explain, plan_and_choose
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.decisions import newest_event, recorded
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.services.planning import check_asked
from airflow_kafka_lake.signals import go_on_address, show_page

if TYPE_CHECKING:
    from airflow.sdk import Context


# Check what a person filled in, show the plan, and ask before it starts.

APPROVE, REJECT, SEEN = "Approve", "Reject", "Seen"
"""The answers of a person. Airflow's page knows the first two, and calls it an approval."""

ANSWER_WITHIN = timedelta(days=1)
"""How long a plan waits for its answer; then nothing is started."""


SEEN_WITHIN = timedelta(seconds=1)
"""After this time the plan of a dry run counts as seen; Airflow takes zero for no limit."""


class ReviewPlanOperator(PeriodTask, HITLOperator, SkipMixin):
    """The first task behind a form: refuses in words values that cannot be meant, before anything happens.

    With `is_dry_run` it shows the plan in its tab *Required Actions*, and ends the run there. With `ask` it shows the
    plan and waits, without a worker slot, until a person approves or rejects it; without an answer in time it is
    rejected. Unless it is approved, the tasks after this one are skipped. Nothing is recorded: the plan task plans
    again.

    Further arguments are those of Airflow's HITLOperator, such as `notifiers` and `assigned_users`.

    :param from_offset: begin as an offset, where `from_` is not given (templated)
    :param to_offset: end of the period as an offset, exclusive, where `to` is not given (templated)
    :param all_waves: with bounds, too: take everything that earlier runs left unfinished (templated)
    :param max_waves: take at most so many waves (templated)
    :param bytes_per_second: how fast the run may read, which is checked here (templated)
    :param acknowledge_order: read below an origin though later segments may be in the lake already (templated)
    :param ask: wait for a person's approval (templated)
    :param response_timeout: how long to wait for the answer; without one in time it counts as rejected
    """

    inherits_from_skipmixin = True
    template_fields: Collection[str] = (
        *(*PeriodTask.asked, "from_offset", "to_offset", "all_waves", "max_waves", "bytes_per_second"),
        *("acknowledge_order", "ask"),
    )
    ui_color = "#dcebf7"

    def __init__(
        self,
        *,
        from_offset: str | int | None = None,
        to_offset: str | int | None = None,
        all_waves: bool | str = False,
        max_waves: int | str | None = None,
        bytes_per_second: int | str | None = None,
        acknowledge_order: bool | str = False,
        ask: bool | str = False,
        response_timeout: timedelta = ANSWER_WITHIN,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            subject="The plan", options=[APPROVE, REJECT, SEEN], response_timeout=response_timeout, **kwargs
        )
        self.from_offset = from_offset
        self.to_offset = to_offset
        self.all_waves = all_waves
        self.max_waves = max_waves
        self.bytes_per_second = bytes_per_second
        self.acknowledge_order = acknowledge_order
        self.ask = ask

    def execute(self, context: Context) -> dict[str, Any]:
        """Check; where a person is to see the plan, make it, push the XCom `plan`, and wait for the answer."""
        with airflow_errors():
            refuse_unknown_keys(context, self.conf_keys)
            bounds, reason = of_backfill(context, form_bounds(self)), reason_of(self.reason)
            dry_run, ask = flag_of(self.is_dry_run), flag_of(self.ask, "ask")
            everything = flag_of(self.all_waves, "all_waves")
            most = count_of(self.max_waves, "max_waves")
            rate_of(self.bytes_per_second)
            spec = spec_of(self.pipeline, self.ledger_conn_id)
            show_page(self, spec.name)
            if not dry_run and not ask and bounds.topic is None and bounds.partitions is None:
                return {"pipeline": spec.name, "asked": False}
            with ports_of(self, spec, context, need_kafka=True) as ports:
                if not dry_run and not ask:
                    check_asked(ports, spec, bounds)
                    return {"pipeline": spec.name, "asked": False}
                where = ports.runner.where()
                planned, choice = plan_and_choose(ports, spec, bounds, everything=everything, dry_run=True, most=most)
        for line in (*explain(planned.plan, where, dry_run=True), *choice.describe(planned.plan.id)):
            self.log.info("%s", line)
        summary = PlanSummary.of(planned.plan, choice, recorded=planned.recorded, dry_run=True)
        context["ti"].xcom_push(key=PLAN_KEY, value=summary.to_json())
        self.subject = f"{'Dry run' if dry_run else 'Start this'}: {plan_headline(planned.plan)}"
        next_ = _AFTER_ANSWER
        if dry_run:
            earnest = f"[run it in earnest]({address}), or " if (address := go_on_address(context)) else ""
            then = f" To read it, {earnest}trigger the Dag again without *dry run*."
            next_ = "Nothing was recorded." + (then if planned.plan.ranges or choice.taken else "")
        self.body = f"{plan_markdown(planned.plan, choice, where, reason=reason)}\n\n{next_}"
        self._offer(dry_run=dry_run)
        return super().execute(context)  # raises: the task waits for the answer

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Go on when the plan was approved; skip the tasks after this one otherwise."""
        (chosen,), person = answered(super().execute_complete(context, event))
        if chosen == APPROVE:
            self.log.info("%s has approved the plan", person)
        else:
            rejected = f"{person} has rejected the plan" if person else "no answer came in time"
            self.log.info("%s: nothing was started", "this was a dry run" if chosen == SEEN else rejected)
            self.skip(ti=context["ti"], tasks=self.get_direct_relatives(upstream=False))
        return {"asked": True, "answer": chosen, "by": person}

    def _offer(self, *, dry_run: bool) -> None:
        """Offer the answers. A dry run asks nothing: it is seen as soon as Airflow looks."""
        self.options = [SEEN] if dry_run else [APPROVE, REJECT]
        self.defaults = [self.options[-1]]
        if dry_run:
            self.response_timeout = SEEN_WITHIN


_AFTER_ANSWER = (
    "**Approve** reads it now; records that arrive until then come with it where the period has no end. "
    "**Reject** starts nothing, and records nothing."
)


def answered(answer: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """Return the chosen options of Airflow's answer, and the name of the person, if one has answered."""
    name = (answer.get("responded_by_user") or {}).get("name")
    return list(answer.get("chosen_options") or ()), name and str(name)


SHOWN_KEY = "shown"
"""XCom key of a `ShownDecision`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDecision:
    """A decision as a dry task has shown it: the fields are the keys of its XCom. `sequence` is the newest line of the
    ledger's history then."""

    subject: str
    body: str
    digest: str
    sequence: int


def shown_by(task_id: str, context: Mapping[str, Any]) -> ShownDecision:
    """Return the decision that a dry task has shown; raises AirflowFailException where it has shown none."""
    shown, names = context["ti"].xcom_pull(task_ids=task_id, key=SHOWN_KEY), [f.name for f in fields(ShownDecision)]
    if not isinstance(shown, Mapping) or not shown.keys() >= {*names}:
        raise refusal(f"Task {task_id} has shown nothing: nothing was changed. Clear it to have it shown.")
    return ShownDecision(**{name: shown[name] for name in names})


class ApproveDecisionOperator(ApprovalOperator):
    """Shows the effects of a decision, and waits, without a worker slot, until a person approves or rejects it.

    Rejected, or not answered in time: the decision is skipped, and nothing is changed. Further arguments are those of
    Airflow's ApprovalOperator, such as `notifiers` and `assigned_users`.

    :param explain_task_id: the dry task of this Dag that has shown it
    :param response_timeout: how long to wait for the answer; without one in time it counts as rejected
    """

    template_fields: Collection[str] = ()
    ui_color = "#f2dfd0"

    def __init__(self, *, explain_task_id: str, response_timeout: timedelta = ANSWER_WITHIN, **kwargs: Any) -> None:
        super().__init__(subject="A decision", defaults=[REJECT], response_timeout=response_timeout, **kwargs)
        self.explain_task_id = explain_task_id

    def execute(self, context: Context) -> Any:
        """Show it, and wait."""
        shown = shown_by(self.explain_task_id, context)
        self.subject, self.body = shown.subject, shown.body
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on with the decision when it was approved; skip it otherwise."""
        chosen, person = answered(event)
        if chosen == [APPROVE]:
            self.log.info("%s has approved it", person)
        else:
            why = f"{person} has rejected it" if person else "no answer came in time"
            self.log.info("%s: nothing was changed", why)
        return super().execute_complete(context, event)


# Decisions of people inside a Dag: they are shown first, approved by a person, and carried out once.


class DecisionTask(PeriodTask):
    """A decision about offsets of a pipeline: shown when it is dry, carried out once otherwise.

    :param topic_id: which generation of a topic that was deleted and created again (templated)
    :param from_offset: begin as an offset, where `from_` is not given (templated)
    :param to_offset: end as an offset, exclusive, where `to` is not given (templated)
    :param explain_task_id: the dry task of this Dag that has shown it: refused if it would be about other offsets now
    :param approval_task_id: the task of this Dag in which a person approves: that name is recorded
    """

    decision: ClassVar[type[OffsetsAction]]
    template_fields: Sequence[str] = (*PeriodTask.asked, "topic_id", "from_offset", "to_offset")

    def __init_subclass__(cls) -> None:
        """Document also the parameters that are the fields of its action."""
        super().__init_subclass__()
        own = cls.decision.of_kind(FieldKind.SUBJECT, FieldKind.TEXT, FieldKind.SWITCH)
        told = "".join(f"    :param {field.name}: {field.help} (templated)\n" for field in own)
        cls.__doc__ = f"{(cls.__doc__ or '').rstrip(' ')}{told}    "

    def __init__(
        self,
        *,
        topic_id: str | None = None,
        from_offset: str | int | None = None,
        to_offset: str | int | None = None,
        explain_task_id: str | None = None,
        approval_task_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic_id = topic_id
        self.from_offset = from_offset
        self.to_offset = to_offset
        self.explain_task_id = explain_task_id
        self.approval_task_id = approval_task_id

    def _given(self) -> OffsetsAction:
        """Return the action with the values of this task. Raises UsageError, which names the field."""
        bounds = form_bounds(self)
        needs_period = self.decision.field("selection").needed
        for end, value in (("topic", bounds.topic), ("from", bounds.start), ("to", bounds.end)):
            if needs_period and absent(value):
                raise UsageError(
                    f"{end}: it is needed. A {self.decision.name} is about a period of one topic, with both of its ends"
                )
        reason = reason_of(self.reason)
        if reason is None:
            raise UsageError("reason: one is needed. Say why, for those who look at this decision later")
        values: dict[str, Any] = {name: flag_of(getattr(self, name), name) for name in self.decision.switches()}
        for field in self.decision.of_kind(FieldKind.SUBJECT, FieldKind.TEXT):
            text = getattr(self, field.name)
            values[field.name] = None if absent(text) and not field.needed else text_of(text, field.name)
        topic_id = None if absent(self.topic_id) else text_of(self.topic_id, "topic_id")
        return self.decision(selection=selected(bounds, topic_id), reason=reason, **values)

    def execute(self, context: Context) -> dict[str, Any]:
        """Show or decide; returns `{"pipeline", "decision", "offsets", "waves", "by", "next"}`."""
        with airflow_errors():
            refuse_unknown_keys(context, self.conf_keys)
            dry_run = flag_of(self.is_dry_run)
            action = self._given()
            person = None if dry_run else self._approver(context)
            spec = spec_of(self.pipeline, self.ledger_conn_id)
            by = actor_of(context)
            show_page(self, spec.name)
            actor = by if person is None else f"{history.user(person)}, {by}"
            with ports_of(self, spec, context, actor=actor) as ports:
                known_spec(ports.ledger, spec.name)
                if dry_run:
                    outcome = action.preview(ports, spec)
                    shown = ShownDecision(
                        subject=f"{action.headline(outcome)}?",
                        body=action.markdown(outcome),
                        digest=outcome.digest,
                        sequence=newest_event(ports.ledger, spec.name),
                    )
                    context["ti"].xcom_push(key=SHOWN_KEY, value=asdict(shown))
                else:
                    action = self._approved(action, ports, spec.name, context)
                    outcome = action.apply(ports, spec)
        return self._report(action, outcome, person)

    def _report(self, action: OffsetsAction, outcome: OffsetsOutcome, person: str | None) -> dict[str, Any]:
        after = "It happens when it is approved" if outcome.dry_run else outcome.next_step
        if action.recorded:
            self.log.info("this task has decided before: %s", ", ".join(map(str, sorted(action.recorded))))
        done = " would be next; nothing was changed" if outcome.dry_run else ": done"
        self.log.info("%s%s", action.headline(outcome), done)
        self.log.info("%s", after)
        return {
            "pipeline": outcome.pipeline,
            "decision": action.name,
            "offsets": outcome.offsets,
            "waves": list(outcome.waves),
            "by": person,
            "next": after,
        }

    def _approver(self, context: Mapping[str, Any]) -> str | None:
        """Return the name of the person that has approved. Raises AirflowFailException where none has."""
        if self.approval_task_id is None:
            return None
        answer = context["ti"].xcom_pull(task_ids=self.approval_task_id, key="return_value")
        chosen, person = answered(answer) if isinstance(answer, Mapping) else ([], None)
        if chosen != [APPROVE]:
            raise refusal(f"Task {self.approval_task_id} holds no approval: nothing was changed.")
        return person or "unknown"

    def _approved(
        self, action: OffsetsAction, ports: Ports, pipeline: str, context: Mapping[str, Any]
    ) -> OffsetsAction:
        """Return it with the shown digest, and with the decisions of this very task before a retry."""
        shown = shown_by(self.explain_task_id, context) if self.explain_task_id else None
        before = recorded(ports.ledger, pipeline, self.decision.name, ports.actor, after=shown.sequence if shown else 0)
        return replace(action, shown=shown.digest if shown else None, recorded=before)


class ReopenOperator(DecisionTask):
    """Has a committed or skipped period read again: the next run replaces its rows in one commit."""

    decision = ReopenAction
    template_fields: Sequence[str] = (*DecisionTask.template_fields, *ReopenAction.switches())

    def __init__(
        self,
        *,
        accept_fewer: bool | str = False,
        restore_deleted: bool | str = False,
        drop_staged: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.accept_fewer = accept_fewer
        self.restore_deleted = restore_deleted
        self.drop_staged = drop_staged


class SkipOperator(DecisionTask):
    """Passes a period unread: its records stay out of the table, and the watermark moves over it."""

    decision = SkipAction
    template_fields: Sequence[str] = (*DecisionTask.template_fields, *SkipAction.switches())

    def __init__(
        self, *, acknowledge_order: bool | str = False, drop_staged: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.acknowledge_order = acknowledge_order
        self.drop_staged = drop_staged


class WithdrawOperator(DecisionTask):
    """Takes off the plan ranges that no attempt has begun to read: a later plan takes them again."""

    decision = WithdrawAction
    template_fields: Sequence[str] = (*DecisionTask.template_fields, "subject")

    def __init__(self, *, subject: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subject = subject
