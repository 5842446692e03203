"""The tree of errors and its wire form."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator

import pytest

from airflow_kafka_lake.core import errors
from airflow_kafka_lake.core.errors import (
    KafkaLakeError,
    PipelineFileError,
    RangeExpiredError,
    RefusedError,
    TerminalError,
    TransientError,
    UnknownOutcomeError,
    UsageError,
)

pytestmark = pytest.mark.unit


def _below(kind: type[KafkaLakeError]) -> Iterator[type[KafkaLakeError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from _below(child)


LEAVES = list(_below(KafkaLakeError))


def test_exit_code_follows_the_branch() -> None:
    """2 wrong words, 3 worth repeating, 4 unknown, 1 everything else."""
    codes = ((UsageError, 2), (TransientError, 3), (UnknownOutcomeError, 4), (KafkaLakeError, 1))
    expected = {kind: next(code for branch, code in codes if issubclass(kind, branch)) for kind in LEAVES}
    assert {kind: kind.exit_code for kind in LEAVES} == expected


def test_every_error_is_on_exactly_one_branch() -> None:
    """Terminal, transient or unknown: never two of them, so that a caller knows whether to repeat."""
    branches = (TerminalError, TransientError, UnknownOutcomeError)
    assert [kind for kind in LEAVES if sum(issubclass(kind, branch) for branch in branches) != 1] == []


def test_wire_form_holds_type_message_and_facts() -> None:
    """Programs read the facts, people read the message."""
    error = RangeExpiredError("offsets 0-5 are gone", topic="orders", partition=0)
    assert json.loads(json.dumps(error.to_json())) == {
        "type": "RangeExpiredError",
        "message": "offsets 0-5 are gone",
        "topic": "orders",
        "partition": 0,
    }
    assert str(error) == "offsets 0-5 are gone"


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_error_survives_a_process_boundary(clone: object) -> None:
    """A task or trigger in another process gets message and facts."""
    got = clone(PipelineFileError("bad", file="orders.toml"))  # type: ignore[operator]
    assert isinstance(got, RefusedError)
    assert (got.message, got.facts) == ("bad", {"file": "orders.toml"})
