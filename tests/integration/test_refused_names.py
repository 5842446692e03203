"""Names with quotes, semicolons, `../`, line ends and NUL, wherever a person can type one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.integration.refusing import rows_of

pytestmark = pytest.mark.nightly

if TYPE_CHECKING:
    from tests.integration.refusing import Refusals

NASTY = {
    "quotes": "a'b\"c",
    "semicolon": "a;DROP TABLE kafka_lake_range;--",
    "climbs": "../../x",
    "line end": "a\nb",
    "NUL": "a\0b",
    "escape": "a\x1b[31mb",
    "broken UTF-8": "a\udc80b",
    "blank": " ",
    "empty": "",
    "long": "a" * 300,
}
EVERYWHERE = pytest.mark.parametrize("name", NASTY.values(), ids=NASTY)

IN_THE_FILE = {
    "[pipeline] name": ('name = "{name}"', "name = {text}"),
    "[source] topics": ('topics = ["{name}"]', "topics = [{text}]"),
    "[source] topic_pattern": ('topics = ["{name}"]', 'topic_pattern = "(" # {text}'),
    "[source] connection": ("[source]", "[source]\nconnection = {text}"),
    "[source] start": ("[source]", "[source]\nstart = {text}"),
    "[lake] table": ('table = "raw.orders"', "table = {text}"),
    "[lake] connection": ("[lake]", "[lake]\nconnection = {text}"),
    "[lake] partition_by": ("[lake]", "[lake]\npartition_by = {text}"),
    "[spark] connection": ('connection = "spark_default"', "connection = {text}"),
}


def _in_the_file() -> list[tuple[str, str]]:
    """Pair every key with every name that TOML can hold, but for the legal ways to want no partitioning."""
    names = [name for name in NASTY.values() if name.encode(errors="replace").decode() == name]
    return [(key, name) for key in IN_THE_FILE for name in names if name.strip() or key != "[lake] partition_by"]


@pytest.mark.parametrize(("key", "name"), _in_the_file())
def test_a_pipeline_file_takes_no_nasty_name(key: str, name: str, refusals: Refusals) -> None:
    """The key is named with what is legal; nothing is opened under the name."""
    old, new = IN_THE_FILE[key]
    file = refusals.variant(old.format(name=refusals.sandbox.name), new.format(text=json.dumps(name)))
    found = refusals.refused("plan", file, kind="PipelineFileError", says=(key, "legal: "))
    assert [problem["key"] for problem in found["problems"]][:1] == [key.partition("] ")[2]]


@pytest.mark.parametrize("name", [NASTY[key] for key in ("line end", "NUL", "escape", "blank", "empty", "long")])
def test_a_group_is_any_printable_name(name: str, refusals: Refusals) -> None:
    """Kafka takes nearly everything for a group's id; what could not be shown or stored is refused."""
    file = refusals.variant("[source]", f"[source]\nend = {json.dumps(f'group:{name}')}")
    refusals.refused("plan", file, kind="PipelineFileError", says=("[source] end", "legal: "))


@EVERYWHERE
def test_no_command_takes_a_nasty_pipeline(name: str, refusals: Refusals) -> None:
    """What is no legal name and no file that exists is refused before anything is opened."""
    kind = "PipelineFileError" if "/" in name else "UsageError"
    for command in ("plan", "run", "status", "recover", "advance", "audit"):
        refusals.refused(command, name, kind=kind)
    refusals.refused("plan", f"{name}.toml", kind="PipelineFileError", says=(".toml",))


@pytest.mark.parametrize("words", [("plan", "P"), ("run", "P"), ("status", "P"), ("skip", "P", "--partition", "0")])
@EVERYWHERE
def test_no_command_takes_a_nasty_topic(words: tuple[str, ...], name: str, refusals: Refusals) -> None:
    """The word is shown escaped, with what a topic's name is made of."""
    given = [refusals.sandbox.name if word == "P" else word for word in words]
    if words[0] == "skip":
        given += ["--from", "0", "--to", "5", "--reason", "x"]
    refusals.refused(*given, f"--topic={name}", kind="UsageError", says=("--topic", "is not a topic name"))


@EVERYWHERE
def test_no_command_takes_a_nasty_topic_id(name: str, refusals: Refusals) -> None:
    """An id is what Kafka's own tools print."""
    sandbox = refusals.sandbox
    given = ("skip", sandbox.name, f"--topic={sandbox.topic}", "--partition=0", "--from=0", "--to=5", "--reason=x")
    refusals.refused(*given, f"--topic-id={name}", kind="UsageError", says=("--topic-id", "is not a topic id"))


@pytest.mark.parametrize("words", [("wave",), ("ingest",), ("cancel", "--reason=x"), ("release",)], ids=lambda w: w[0])
@EVERYWHERE
def test_no_command_takes_a_nasty_id(words: tuple[str, ...], name: str, refusals: Refusals) -> None:
    """What could be an id is looked up as a value and not found; what could not is refused unread."""
    if name == NASTY["climbs"] and words[0] in {"cancel", "release"}:  # they take a pipeline's file too
        refusals.refused(*words, "--", name, kind="PipelineFileError", says=("does not exist",))
        return
    could_be = name in {NASTY["quotes"], NASTY["climbs"]}
    refusals.refused(*words, "--", name, kind="UnknownSubjectError" if could_be else "UsageError", says=("kafka-lake",))


@EVERYWHERE
def test_no_command_takes_a_nasty_ledger(name: str, refusals: Refusals) -> None:
    """What is given for a connection id is not repeated: people put addresses with passwords there."""
    found = refusals.refused(
        "status",
        refusals.sandbox.name,
        f"--ledger={name}",
        kind="ConnectionSettingsError",
        says=("A connection id is",),
    )
    assert not name.strip() or name not in found["message"]


@pytest.mark.parametrize("text", ["1'; DROP", "../1", "1\n", "1\0", "-1", "٣", "1.0", "99999999999"])
def test_no_command_takes_a_nasty_partition(text: str, refusals: Refusals) -> None:
    """A partition is a number that Kafka could have."""
    refusals.refused(
        "plan", refusals.sandbox.name, f"--partition={text}", kind="UsageError", says=("is not a partition number",)
    )


@pytest.mark.parametrize("reason", ["a\0b", "a\udc80b", "", " \n"])
def test_a_reason_is_text(reason: str, refusals: Refusals) -> None:
    """What a database could not keep, and silence, are no reasons."""
    sandbox = refusals.sandbox
    given = ("skip", sandbox.name, "--topic", sandbox.topic, "--partition", "0", "--from", "0", "--to", "5")
    refusals.refused(*given, f"--reason={reason}", kind="UsageError", says=("--reason",))


def test_a_reason_survives_word_for_word(fresh: Refusals) -> None:
    """Free text is data: quotes, semicolons, line ends and other scripts come back as they were given."""
    sandbox = fresh.sandbox
    sandbox.produce(20)
    assert fresh.command("plan", str(sandbox.file)).code == 0
    reasons = ['it\'s "late"; DROP TABLE kafka_lake_range;--', "two\nlines\tand ../.. %s {x} [bold]", "größer 東京 🙂"]
    wave = fresh.command("status", sandbox.name, "--json").document["waves"][0]["wave"]
    for reason in reasons:
        assert fresh.command("cancel", wave, "--reason", reason).code == 0
        found = fresh.command("wave", wave, "--json").document
        assert {item["reason"] for item in found["ranges"]} == {reason}
        shown = fresh.command("wave", wave)
        assert shown.code == 0
        released = fresh.command("release", wave, "--reason", reason, "--json")
        assert released.code == 0
        wave = released.document["wave"]
    skip = ("skip", sandbox.name, "--topic", sandbox.topic, "--partition", "0", "--from", "0", "--to", "5")
    assert fresh.command(*skip, "--reason", reasons[0]).code == 0
    events = "\n".join(rows_of(sandbox.ledger, set())["kafka_lake_skip"])
    assert repr(reasons[0]) in events


def test_the_actor_is_recorded_as_data(fresh: Refusals) -> None:
    """A person who decides may have a name that no database likes."""
    sandbox = fresh.sandbox
    sandbox.produce(20)
    fresh.monkeypatch.setenv("KAFKA_LAKE_ACTOR", "o'neil; \udc80\n")
    assert fresh.command("plan", str(sandbox.file)).code == 0
    assert any("o'neil; ?" in row for row in rows_of(sandbox.ledger, set())["kafka_lake_plan"])
