"""What Airflow's own checks ask of a provider's classes, asked of every class that the provider's description names."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import runpy
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger

from airflow_kafka_lake.get_provider_info import get_provider_info


def classes(kind: str, base: type) -> Iterator[type[Any]]:
    """Return the classes of a kind that are defined in the modules which the description names."""
    (entry,) = get_provider_info()[kind]
    for name in entry["python-modules"]:
        for item in vars(importlib.import_module(name)).values():
            if isinstance(item, type) and issubclass(item, base) and item.__module__ == name:
                yield item


OPERATORS = [task for task in classes("operators", BaseOperator) if task.__name__.endswith("Operator")]
"""Without the base class of decisions, whose parameters each of them documents."""
TASKS = [*OPERATORS, *classes("sensors", BaseSensorOperator)]
SENSORS = [*classes("sensors", BaseSensorOperator)]
TRIGGERS = [trigger for trigger in classes("triggers", BaseTrigger) if not inspect.isabstract(trigger)]


def parameters(task: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class and of those of ours that it is made from."""
    found: dict[str, inspect.Parameter] = {}
    for each in task.__mro__:
        if each.__module__.startswith("airflow_kafka_lake."):
            found |= inspect.signature(each.__dict__["__init__"]).parameters if "__init__" in each.__dict__ else {}
    return {name: item for name, item in found.items() if name not in {"self", "kwargs"}}


def constructor(task: type[Any]) -> ast.FunctionDef | None:
    """Return the source of a class's own constructor."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(task))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return found[0] if found else None


def test_sensors_are_deferrable_where_the_operators_section_of_airflow_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`[operators] default_deferrable` is read when the class is made, as in Airflow's own sensors."""
    file = inspect.getsourcefile(importlib.import_module("airflow_kafka_lake.sensors"))
    for value in (True, False):
        monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", str(value))
        made = runpy.run_path(str(file))["LedgerSensor"]
        assert inspect.signature(made.__init__).parameters["deferrable"].default is value


def test_classes_are_found() -> None:
    """A walk that finds nothing would prove nothing."""
    assert {"PlanIngestOperator", "IngestWaveOperator", "WatermarkSensor"} <= {task.__name__ for task in TASKS}
    assert len(TRIGGERS) >= 6


@pytest.mark.parametrize("task", TASKS)
def test_template_fields_are_parameters_that_the_constructor_only_stores(task: type[Any]) -> None:
    """A template is rendered after the constructor: what a constructor makes of it, it makes of the template's text."""
    fields = set(task.template_fields)
    assert fields <= set(parameters(task))
    stored: set[str] = set()
    for each in task.__mro__:
        own = constructor(each) if each.__module__.startswith("airflow_kafka_lake.") else None
        for statement in own.body if own is not None else ():
            used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} & fields
            if not used:
                continue
            source = ast.unparse(statement)
            if source.startswith("super().__init__("):
                assert all(f"{field}={field}" in source for field in used), source
            else:
                (field,) = used
                assert source == f"self.{field} = {field}"
                stored.add(field)
    assert stored == fields


@pytest.mark.parametrize("task", TASKS)
def test_constructor_does_nothing_but_store(task: type[Any]) -> None:
    """A Dag file is read again and again: no branch, no loop, no call but the base class's."""
    for each in task.__mro__:
        own = constructor(each) if each.__module__.startswith("airflow_kafka_lake.") else None
        for statement in own.body if own is not None else ():
            source = ast.unparse(statement)
            assert source.startswith("super().__init__(") or isinstance(statement, ast.Assign | ast.AnnAssign), source
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                assert not any(isinstance(node, ast.Call | ast.IfExp) for node in ast.walk(statement)), source


@pytest.mark.parametrize("task", TASKS)
def test_parameters_are_keywords_and_every_one_is_documented(task: type[Any]) -> None:
    """As in every provider: keyword-only, `:param name:` for each, "(templated)" exactly where Airflow renders."""
    own = parameters(task)
    assert all(item.kind is inspect.Parameter.KEYWORD_ONLY for item in own.values())
    told = dict(re.findall(r":param (\w+):((?:(?!:param).)*)", task.__doc__ or "", re.DOTALL))
    assert set(told) == set(own)
    assert {name for name, words in told.items() if "(templated)" in words} == set(task.template_fields)


@pytest.mark.parametrize("task", TASKS)
def test_no_parameter_hides_a_method_of_every_operator(task: type[Any]) -> None:
    """`dry_run`, `render_templates` and the like stay Airflow's; connections are named as everywhere."""
    own = parameters(task)
    assert not set(own) & {name for name, item in vars(BaseOperator).items() if callable(item)}
    assert not [name for name in own if "connection" in name or name.endswith("_conn")]


@pytest.mark.parametrize("sensor", SENSORS)
def test_sensors_are_pokes_that_may_be_deferred(sensor: type[Any]) -> None:
    """Everything that Airflow's documentation says of sensors is true of ours."""
    assert sensor.poke is not BaseSensorOperator.poke
    assert "deferrable" in parameters(sensor)
    assert list(inspect.signature(sensor.execute_complete).parameters) == ["self", "context", "event"]


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_trigger_is_rebuilt_from_what_it_serializes(trigger: type[Any]) -> None:
    """The keys of the stored arguments are the constructor's parameters, to the letter."""
    given = {name: None for name in inspect.signature(trigger.__init__).parameters if name != "self"}
    given |= {name: [] for name in given if name == "partitions"}
    path, arguments = trigger(**given).serialize()
    assert path == f"{trigger.__module__}.{trigger.__qualname__}"
    assert set(arguments) == set(given)
    assert trigger(**given).trigger_id is None, "Airflow's own constructor has run: its triggerer sets this"


@pytest.mark.parametrize("task", TASKS)
def test_no_task_raises_airflows_root_exception(task: type[Any]) -> None:
    """An error has a name; Airflow's own are for what Airflow does: fail at once, skip, defer."""
    module = ast.parse(inspect.getsource(importlib.import_module(task.__module__)))
    raised = [node for node in ast.walk(module) if isinstance(node, ast.Name) and node.id == AirflowException.__name__]
    assert raised == []


@pytest.mark.parametrize("hook", [hook for hook in classes("hooks", BaseHook) if "conn_type" in vars(hook)])
def test_hooks_are_what_airflow_expects_of_a_connection_type(hook: type[Any]) -> None:
    """Each has a type that the description registers with the same names, a form, a connection and a test."""
    described = {item["connection-type"]: item for item in get_provider_info()["connection-types"]}[hook.conn_type]
    assert described["hook-class-name"] == f"{hook.__module__}.{hook.__qualname__}"
    assert described["hook-name"] == hook.hook_name
    assert set(hook.get_ui_field_behaviour()) == {"hidden_fields", "relabeling", "placeholders"}
    assert hook.get_conn is not BaseHook.get_conn
    made = hook(**{hook.conn_name_attr: "some"})
    assert (getattr(made, hook.conn_name_attr), getattr(hook(), hook.conn_name_attr)) == (
        "some",
        hook.default_conn_name,
    )
    assert callable(made.test_connection)
    with pytest.raises(TypeError, match="conn_idd"):
        hook(conn_idd="some")
