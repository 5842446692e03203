"""An action of a person is one class: the command, the form, the body of a request and the button are made of it."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_kafka_lake.actions.action import Action, ActionOutcome, FieldKind, asked, switch
from airflow_kafka_lake.actions.registry import ACTIONS
from airflow_kafka_lake.cli.decisions import command_of
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.forms import decision_form, decision_templates
from airflow_kafka_lake.operators.decisions import DecisionTask, ReopenOperator, SkipOperator, WithdrawOperator
from airflow_kafka_lake.pages.buttons import action_button
from airflow_kafka_lake.pages.rendering import Visitor
from airflow_kafka_lake.pages.web.actions import body_of, given
from airflow_kafka_lake.ports import Ports

from .conftest import ORDERS


class RenameAction(Action):
    """Give a pipeline another name."""

    name = "rename"
    help = "give a pipeline another name"
    label = "Rename …"
    title = "Rename the pipeline"
    consequences = ("Its history stays.",)

    new_name: str = asked(FieldKind.TEXT, "New name", "the name from now on")
    keep_old: bool = switch("Keep the old name", "the old name stays known, too")

    def apply(self, ports: Ports, spec: PipelineSpec) -> ActionOutcome:
        """Rename."""
        raise NotImplementedError


def test_command_takes_the_fields_of_an_action() -> None:
    """A text as an option with a value, a switch as a flag, the reason, and the pipeline that it is about."""
    parser = argparse.ArgumentParser()
    for argument in command_of(RenameAction).arguments:
        parser.add_argument(*argument.names, **argument.settings)
    taken = parser.parse_args(["orders", "--new-name", "sales", "--keep-old", "--reason", "merger"])
    assert (taken.pipeline, taken.new_name, taken.keep_old, taken.reason) == ("orders", "sales", True, "merger")
    assert not hasattr(taken, "dry_run"), "it has no preview"
    assert "the old name stays known, too" in parser.format_help()


def test_form_asks_for_the_fields_of_an_action() -> None:
    """With title and help of each, and a template that hands it on."""
    form = decision_form(RenameAction, {"orders": ORDERS})
    assert list(form) == ["pipeline", "new_name", "keep_old", "reason"]
    assert form["new_name"].description == "The name from now on."
    assert form["keep_old"].schema["title"] == "Keep the old name"
    assert set(decision_templates(RenameAction)) == set(form)


def test_body_takes_the_fields_of_an_action() -> None:
    """Strictly: no other key, and a needed one must be there."""
    body = body_of(RenameAction).model_validate({"reason": "merger", "new_name": "sales"})
    assert given(RenameAction, body) == RenameAction(reason="merger", new_name="sales", keep_old=False)
    for wrong in ({"reason": "merger"}, {"reason": "merger", "new_name": "sales", "dry_run": True}):
        with pytest.raises(ValidationError):
            body_of(RenameAction).model_validate(wrong)


def test_button_asks_for_the_fields_of_an_action() -> None:
    """Its texts are those of the class, and what it sends goes to the address of that name."""
    visitor = Visitor(base="/kafka-lake", name="ada", csrf="", ledger="kafka_lake_ledger", may_decide=True)
    button = action_button(RenameAction, "orders", visitor, remedy=Remedy(command="rename", subject="orders"))
    assert (button.label, button.consequences, button.body) == ("Rename …", ("Its history stays.",), {})
    assert button.url.endswith("/api/pipelines/orders/rename")
    assert [(item["name"], item["kind"], item["required"]) for item in button.fields] == [
        ("new_name", "text", True),
        ("keep_old", "flag", False),
    ]
    assert RenameAction.is_on_menu()


@pytest.mark.parametrize("action", ACTIONS)
def test_reason_is_checked_by_every_action(action: type[Action]) -> None:
    """However it was typed: blanks are none, and a NUL is kept by no database."""
    values: dict[str, Any] = dict.fromkeys((field.name for field in dataclasses.fields(action)), "x")
    with pytest.raises(UsageError, match="without NUL"):
        action(**values | {"reason": "a\0b"})
    if action.field("reason").needed:
        with pytest.raises(UsageError, match="a reason is needed"):
            action(**values | {"reason": " "})


@pytest.mark.parametrize("operator", [ReopenOperator, SkipOperator, WithdrawOperator])
def test_operator_has_the_fields_of_its_action(operator: type[DecisionTask]) -> None:
    """Each is a template field, so that a form fills it."""
    assert set(decision_templates(operator.decision)) | {"is_dry_run", "ledger_conn_id"} == set(
        operator.template_fields
    )
