"""Commands that messages name are commands that there are."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_kafka_lake
from airflow_kafka_lake.cli.entry_point import COMMANDS, build_parser
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.ledger.guards import remedies_for
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.remedies import Remedy

pytestmark = pytest.mark.unit

ITEM = Slice(Stream("some.topic-1", "-AbC_d", 3), OffsetRange(40, 120))
WHOLE = {
    "plan": [remedies.plan("p")],
    "run": [remedies.run("p")],
    "run_below_origin": [remedies.run_below_origin("p", ITEM)],
    "status": [remedies.status("p")],
    "wave": [remedies.wave("w")],
    "ingest": [remedies.ingest("w")],
    "recover": [remedies.recover("p")],
    "advance": [remedies.advance("p")],
    "cancel": [remedies.cancel("w"), remedies.cancel("w", drop_staged=True)],
    "release": [remedies.release("r")],
    "resume": [remedies.resume("p")],
    "skip": [remedies.skip("p", ITEM), remedies.skip("p", ITEM, name_topic_id=True, acknowledge_order=True)],
    "reopen": [remedies.reopen("p", ITEM), remedies.reopen("p", ITEM, switches=("accept_fewer", "restore_deleted"))],
    "audit": [remedies.audit("p")],
    "accept_deletes": [remedies.accept_deletes("p"), remedies.accept_deletes("p", ITEM)],
    "rebuild": [remedies.rebuild("p"), remedies.rebuild("p", accept_rollback=True)],
    "upgrade_ledger": [remedies.upgrade_ledger()],
    "fetch_jars": [remedies.fetch_jars(), remedies.fetch_jars("s3")],
    "worker": [remedies.worker()],
}
"""Each remedy as messages write it out."""
SHORT = [remedies.plan(), remedies.run(), remedies.status(), remedies.advance(), remedies.rebuild(), remedies.skip("p")]
"""Those that name a command and leave its words to the reader."""


def test_every_remedy_is_tried_here() -> None:
    """A new one has to be added to the table."""
    made = {
        name
        for name, function in inspect.getmembers(remedies, callable)
        if not name.startswith("_")
        and getattr(getattr(function, "func", function), "__annotations__", {}).get("return") == "Remedy"
    }
    assert made == WHOLE.keys()


@pytest.mark.parametrize("remedy", [item for items in WHOLE.values() for item in items], ids=str)
def test_every_remedy_is_a_command_line(remedy: Remedy) -> None:
    """A person can copy it: the parser takes it, and reads the slice that is meant."""
    program, *words = str(remedy).split(" ")
    arguments = build_parser().parse_args(words)
    assert (program, arguments.command) == ("kafka-lake", remedy.command)
    if "--from" in words:
        partition = arguments.partition if isinstance(arguments.partition, list) else [arguments.partition]
        assert (arguments.topic, partition) == (ITEM.stream.topic, [ITEM.stream.partition])
        assert (int(arguments.from_), int(arguments.to)) == (ITEM.range.start, ITEM.range.end)
    if "--topic-id" in str(remedy):
        assert arguments.topic_id == ITEM.stream.topic_id


@pytest.mark.parametrize("remedy", [item for items in WHOLE.values() for item in items] + SHORT, ids=str)
def test_a_remedy_is_kept_as_json(remedy: Remedy) -> None:
    """As the ledger keeps it with a hold, and as `status --json` has it."""
    assert Remedy.from_json(json.loads(json.dumps(remedy.to_json()))) == remedy


@pytest.mark.parametrize("remedy", SHORT, ids=str)
def test_a_short_remedy_names_a_command(remedy: Remedy) -> None:
    """What it leaves out is what a person has to choose."""
    assert remedy.command in {command.name for command in COMMANDS}


@pytest.mark.parametrize("state", [*RangeState, *WaveState], ids=str)
def test_the_remedy_of_every_state_is_a_command(state: RangeState | WaveState) -> None:
    """A message about a stuck wave or range names one that there is."""
    known = {command.name for command in COMMANDS}
    assert {item.command for item in remedies_for(state, "some-id", "p")} <= known


PACKAGE = Path(airflow_kafka_lake.__file__).parent
WRITTEN = re.compile(rf"\bkafka-lake ({'|'.join(command.name for command in COMMANDS)})\b")


def _texts(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.value


def test_no_other_module_writes_a_command_line() -> None:
    """A command that is renamed, or takes other words, is changed in one place."""
    found = [f"{path.relative_to(PACKAGE)}: {text}" for path in PACKAGE.rglob("*.py") for text in _texts(path)]
    assert [text for text in found if WRITTEN.search(text)] == []
