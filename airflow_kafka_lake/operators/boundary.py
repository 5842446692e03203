"""The boundary of all operators: values that people typed, ports, pauses, and the errors of Airflow."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from os import PathLike, fspath
from typing import Any, Never

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTerminated

from airflow_kafka_lake.adapters.machine import rarely_collecting
from airflow_kafka_lake.core.errors import (
    KafkaLakeError,
    LibraryError,
    PausedError,
    TransientError,
    UnknownOutcomeError,
    UsageError,
    nearest,
)
from airflow_kafka_lake.core.ledger import history
from airflow_kafka_lake.core.ledger.decisions import kept_text
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import TOPIC_NAME, PipelineSpec
from airflow_kafka_lake.links import PAGE, TaskLink
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.pipeline.keys import (
    MAX_PARTITION,
    PARTITIONS_FORM,
    parse_bound,
    parse_count,
    parse_partitions,
    parse_rate,
    shown,
)
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.planning import check_bounds
from airflow_kafka_lake.triggers import ResumedTrigger, WaitEvent
from airflow_kafka_lake.wiring import assemble
from airflow_kafka_lake.wiring.connections import DEFAULT_LEDGER

_logger = logging.getLogger(__name__)
_PARAMETER = re.compile(r"^    :param \w+:.*(?:\n {8}.*)*", re.MULTILINE)
_FLAGS = {True: True, False: False, "true": True, "false": False, "": False, None: False}


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Raise errors that may pass as they are, so that Airflow retries, and fail at once where repeating cannot help.

    The message is logged as a line of its own: Airflow's page cuts an exception's head off. The error's cause stays out
    of Airflow's log: a library's own text may hold a secret.
    """
    try:
        yield
    except (TransientError, UnknownOutcomeError) as error:
        _logger.error("%s", error.named)  # noqa: TRY400  # a sentence for people, no traceback
        raise error from None
    except KafkaLakeError as error:
        raise refusal(error.named) from None
    except ImportError as error:
        raise refusal(LibraryError.of(error).named) from None


def refusal(message: str) -> AirflowFailException:
    """Log a message as an error, and return the exception that fails a task at once."""
    _logger.error("%s", message)
    return AirflowFailException(message)


def message_of(event: WaitEvent) -> str:
    """Return the message of a trigger's event. Raises AirflowFailException when the wait ended in an error."""
    message = event.get("message", "the wait ended without an answer")
    if event.get("status") != "success":
        raise refusal(message)
    return message


def spec_of(pipeline: Pipeline | str | PathLike[str], ledger_conn_id: str) -> PipelineSpec:
    """Return the pipeline that a Dag names: a `Pipeline`, a pipeline file, or a name."""
    if isinstance(pipeline, Pipeline):
        return pipeline.spec
    name = fspath(pipeline) if isinstance(pipeline, PathLike) else pipeline
    return assemble.find_pipeline(text_of(name, "pipeline"), ledger_conn_id)


def actor_of(context: Mapping[str, Any]) -> str:
    """Name the Dag run and the task, for the ledger's history."""
    ti = context["ti"]
    index = getattr(ti, "map_index", None)
    return history.task(ti.dag_id, ti.run_id, ti.task_id, -1 if index is None else index)


@contextmanager
def ports_of(
    task: Any, spec: PipelineSpec, context: Mapping[str, Any], *, actor: str | None = None, **needs: Any
) -> Iterator[Ports]:
    """Open a pipeline's ports for a task, whose log shows the progress; `needs` are those of `open_ports`.

    The history names `actor`, or else the task.
    """
    opened = assemble.open_ports(
        spec, ledger_conn_id=task.ledger_conn_id, actor=actor or actor_of(context), progress=task.log.info, **needs
    )
    with rarely_collecting(), opened as ports:
        yield ports


class SparkTask(BaseOperator):
    """A task that Airflow may kill while Spark works for it."""

    killed = "the task was killed: its Spark driver, if there was one, is ended"
    _working = False

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let `on_kill` end this block."""
        self._working = True
        try:
            yield
        finally:
            self._working = False

    def on_kill(self) -> None:
        """Unwind `execute`: the runner then ends the Spark driver.

        Called by a signal handler in the thread that runs `execute`, and by Airflow after a timeout, when the stack is
        unwound already.
        """
        if self._working:
            self._working = False
            raise AirflowTaskTerminated(self.killed)


class PipelineTask(BaseOperator):
    """A task about one pipeline.

    :param pipeline: a `Pipeline`, a pipeline file, or a name (templated)
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    """

    template_fields: Collection[str] = ("pipeline", "ledger_conn_id")

    def __init__(
        self, *, pipeline: Pipeline | str | PathLike[str], ledger_conn_id: str = DEFAULT_LEDGER, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.ledger_conn_id = ledger_conn_id

    def __init_subclass__(cls) -> None:
        """Document the parameters that a class has of its base, too."""
        super().__init_subclass__()
        own, gap = (cls.__doc__ or "").rstrip(), "\n" if ":param" in (cls.__doc__ or "") else "\n\n"
        cls.__doc__ = f"{own}{gap}" + "\n".join(_PARAMETER.findall(cls.__mro__[1].__doc__ or "")) + "\n    "


class PeriodTask(PipelineTask):
    """A task that is asked for a period of a pipeline.

    :param topic: only this topic, which a reopen and a skip need (templated)
    :param partitions: only these partitions, a list of numbers or text such as "0-5, 9" (templated)
    :param from_: begin of the period: an offset, or a time with its zone (templated)
    :param to: end of the period, exclusive (templated)
    :param reason: why, kept with the plan or the decision (templated)
    :param is_dry_run: only show it (templated); `dry_run` is a method of every operator
    :param conf_keys: the keys that the Dag run's configuration may have: any other is refused; left out, all may be
    """

    asked = ("pipeline", "topic", "partitions", "from_", "to", "reason", "is_dry_run", "ledger_conn_id")
    """The template fields of them all."""
    ui_color = "#f2dfd0"
    operator_extra_links: Collection[TaskLink] = (PAGE,)

    def __init__(
        self,
        *,
        topic: str | None = None,
        partitions: Sequence[int] | str | None = None,
        from_: str | int | None = None,
        to: str | int | None = None,
        reason: str | None = None,
        is_dry_run: bool | str = False,
        conf_keys: Collection[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        self.partitions = partitions
        self.from_ = from_
        self.to = to
        self.reason = reason
        self.is_dry_run = is_dry_run
        self.conf_keys = conf_keys


def absent(value: Any) -> bool:
    """Return whether a field was left empty: None, or nothing but blanks."""
    return value is None or (isinstance(value, str) and not value.strip())


def bounds_of(topic: Any, partitions: Any, from_: Any, to: Any, *, acknowledge_order: Any = False) -> Bounds:
    """Read a period as people or templates give it, with None or empty text for a part that is not given.

    Raises UsageError, which names the field that cannot be meant.
    """
    if not absent(topic) and not (isinstance(topic, str) and TOPIC_NAME.fullmatch(topic)):
        raise UsageError(f"topic: {shown(topic)} is not a legal topic name: 1 to 249 of A-Z a-z 0-9 . _ -")
    bounds = Bounds(
        topic=None if absent(topic) else topic,
        partitions=partitions_of(partitions),
        start=_bound("from", from_),
        end=_bound("to", to),
        acknowledge_order=flag_of(acknowledge_order, "acknowledge_order"),
    )
    if isinstance(bounds.start, datetime) and bounds.start == bounds.end:
        raise UsageError(
            f"from and to are the same moment, {bounds.start.isoformat()}: nothing lies between. If they are the begin "
            f"and the end of a run's data interval, it has no length. {_GIVE_INTERVALS}"
        )
    check_bounds(bounds)
    return bounds


def of_backfill(context: Mapping[str, Any], bounds: Bounds) -> Bounds:
    """Bound a backfill run by its data interval, where the Dag does not: a person has asked for its dates.

    Raises UsageError for a backfill run whose interval has no length, as cron schedules have by default. Every other
    run reads all missing records, whatever its dates are: records may come late.
    """
    run = context.get("dag_run")
    if bounds.is_period or run is None:
        return bounds
    start, end = run.data_interval_start, run.data_interval_end
    if run.run_type != "backfill":
        if run.run_type == "manual" and start and end and start < end:  # a person may have given it a date
            _logger.info("reads what is missing: the run's data interval, %s to %s, bounds only backfills", start, end)
        return bounds
    if start is None or end is None or start >= end:
        found = f"its data interval has no length ({start.isoformat()})" if start else "it has no data interval"
        raise UsageError(
            f"this is a backfill run, and {found}: it would read all that is missing, not its own dates. "
            f"Nothing was read. {_GIVE_INTERVALS}, or trigger kafka_lake_manual with the period"
        )
    return replace(bounds, start=start, end=end)


_GIVE_INTERVALS = (
    'Give the Dag a schedule with intervals, such as CronDataIntervalTimetable("0 * * * *", timezone="UTC") of '
    "airflow.sdk, or set [scheduler] create_cron_data_intervals"
)


def form_bounds(fields: Any) -> Bounds:
    """Read the period of a form, whose ends are two times (`from_`, `to`) or two offsets (`from_offset`, `to_offset`).

    `fields` is a task with these attributes, and `topic` and `partitions`. Raises UsageError where an end is given
    twice, or one is a time and the other an offset.
    """
    start = _one_of("begin", {"from": fields.from_, "from_offset": fields.from_offset})
    end = _one_of("end", {"to": fields.to, "to_offset": fields.to_offset})
    acknowledge_order = getattr(fields, "acknowledge_order", False)
    bounds = bounds_of(fields.topic, fields.partitions, start, end, acknowledge_order=acknowledge_order)
    kinds = {isinstance(bound, datetime) for bound in (bounds.start, bounds.end) if bound is not None}
    if len(kinds) > 1:
        raise UsageError(
            f"the period begins at {shown(str(start))} and ends at {shown(str(end))}: one is an offset and the other a "
            "time. Give both as times, or both as offsets"
        )
    return bounds


def _one_of(what: str, given: Mapping[str, Any]) -> Any:
    """Return the one of two fields that is filled in. Raises UsageError for an offset that is none, or for both."""
    filled = {field: value for field, value in given.items() if not absent(value)}
    if len(filled) > 1:
        both = " and ".join(f"{field} {shown(str(value))}" for field, value in filled.items())
        raise UsageError(f"the {what} of the period is given twice, by {both}: empty one of the two fields")
    for field, value in filled.items():
        if field.endswith("_offset") and not str(value).strip().isdecimal():
            raise UsageError(f"{field}: {shown(value)} is not an offset: use digits only, such as 1200")
        return value.strip() if isinstance(value, str) else value
    return None


def refuse_unknown_keys(context: Mapping[str, Any], known: Collection[str] | None) -> None:
    """Refuse a Dag run whose configuration has other keys than these; None allows all.

    Airflow checks the values of a form's fields, and passes every other key on unread.
    """
    run = context.get("dag_run")
    unknown = sorted(set((run.conf if run else None) or {}) - set(known)) if known is not None else []
    if unknown:
        keys = sorted(known or ())
        raise UsageError(
            f"the run's configuration has {shown(unknown[0])}, which is none of its keys"
            f"{nearest(unknown[0], keys) or '.'} Nothing was planned. Trigger the Dag again with some of these keys: "
            f"{', '.join(keys)}"
        )


def flag_of(value: Any, what: str = "dry_run") -> bool:
    """Read a truth value as people or templates give it."""
    try:
        return _FLAGS[value.strip().lower() if isinstance(value, str) else value]
    except (KeyError, TypeError):
        raise UsageError(f"{what} must be true or false") from None


def count_of(value: Any, what: str) -> int | None:
    """Read a number of waves as people or templates give it; None and empty text mean "not given"."""
    with _naming(what):
        return None if absent(value) else parse_count(value)


def rate_of(value: Any) -> int | None:
    """Read bytes per second as people or templates give them; None and empty text mean "not given"."""
    with _naming("bytes_per_second"):
        return None if absent(value) else parse_rate(value)


def text_of(value: Any, what: str) -> str:
    """Read an id or a name that must be there."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise UsageError(f"{what} is needed, and none was given")
    return value.strip()


def reason_of(value: Any) -> str | None:
    """Read a reason: free text that a database can keep; None when none is given."""
    if absent(value):
        return None
    try:
        return kept_text(value).strip()
    except UsageError as error:
        raise UsageError(f"reason: {error.message}") from None


def partitions_of(value: Any) -> tuple[int, ...] | None:
    """Read partitions as text (`0-5, 9`, or a JSON list) or as a list of numbers; None for all of them."""
    if isinstance(value, str) and value.strip() in ("", "null"):
        return None
    with _naming("partitions"):
        if isinstance(value, str) and not (text := value.strip()).startswith(("[", "{")):
            return parse_partitions(text)
        try:
            found = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise _no_partitions(value.strip()) from None
        if found is None:
            return None
        is_list = isinstance(found, Sequence) and not isinstance(found, bytes)
        if not is_list or not all(type(item) is int and 0 <= item <= MAX_PARTITION for item in found):
            raise _no_partitions(found)
        return tuple(sorted(set(found)))


def _no_partitions(value: Any) -> UsageError:
    return UsageError(f"{shown(value)} is no list of partitions: use {PARTITIONS_FORM}")


def _bound(field: str, value: Any) -> int | datetime | None:
    if absent(value):
        return None
    text: Any = value.isoformat() if isinstance(value, datetime) else value
    if isinstance(text, int) and not isinstance(text, bool):
        text = str(text)
    with _naming(field):
        return parse_bound(text.strip() if isinstance(text, str) else text)


@contextmanager
def _naming(field: str) -> Iterator[None]:
    """Name the field in the refusal of its value."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{field}: {error.message}", **error.facts) from None


# Wait, without a worker slot, until what a person has paused is resumed.

PAUSE_TIMEOUT = timedelta(days=7)
"""How long a task waits for a resume before it fails: longer than a weekend."""


def wait_for_resume(task: Any, paused: KafkaLakeError, until: float | None) -> Never:
    """Defer a task until `execute_resumed` goes on; raise the error where it may not wait, or its time was over.

    `until` (epoch seconds) is the end of a wait that came to its end while the pause went on.
    """
    if not task.deferrable:
        raise paused
    if until is not None:
        raise PausedError(
            f"{paused.message}. This task has waited for {task.pause_timeout}, its pause_timeout: clear it after that",
            **paused.facts,
        )
    end = time.time() + task.pause_timeout.total_seconds()
    task.log.info("%s. Waiting without a worker slot, at most for %s.", paused.message, task.pause_timeout)
    plan = paused.facts["plan"]
    trigger = ResumedTrigger(
        pipeline=str(paused.facts["pipeline"]),
        plan=None if plan is None else str(plan),
        until=end,
        ledger_conn_id=task.ledger_conn_id,
    )
    task.defer(trigger=trigger, method_name="execute_resumed", kwargs={"until": end})
    raise AssertionError("unreachable: defer raises")


def ended_unresumed(until: float) -> float | None:
    """Return the end of a wait that was not ended by a resume; None where a resume ended it."""
    return until if time.time() >= until else None
