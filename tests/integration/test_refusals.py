"""What a person can ask for wrongly: each is refused in words that help, and changes nothing."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from tests.integration.refusing import rows_of

if TYPE_CHECKING:
    from tests.integration.refusing import Refusals

EARLY, LATE = "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"
RANGE = "a range is [from, to)"


@pytest.mark.parametrize(
    ("command", "kind", "says"),
    [
        (("--topic", "payments"), "UnknownTopicError", ("'payments'", "it has {topic}")),
        (("--partition", "7"), "UnknownPartitionError", ("{topic} has no partition 7", "it has 0 to 1")),
        (("--partition", "0", "7"), "UnknownPartitionError", ("{topic} has no partition 7",)),
        (("--partition",), "UsageError", ("no partition was named", "leave partitions out for all of them")),
        (("--from", "9", "--to", "3"), "UsageError", ("from 9 is not before to 3", RANGE)),
        (("--from", "9", "--to", "9"), "UsageError", ("from 9 is not before to 9", RANGE)),
        (("--from", LATE, "--to", EARLY), "UsageError", ("2026-03-02", "is not before to 2026-03-01", "[from, to)")),
        (("--from", "yesterday"), "UsageError", ("'yesterday' is not a time", "An offset is digits only")),
        (("--from", "2026-03-01"), "UsageError", ("'2026-03-01'", "2026-03-01T00:00:00Z")),
        (("--to", "2026-03-01T00:00:00"), "UsageError", ("has no offset", "2026-03-01T00:00:00Z")),
        (("--to", "-5"), "UsageError", ("'-5' is not a time", "An offset is digits only")),
        (
            ("--from", "5", "--to", "21"),
            "RangeBeyondEndError",
            ("{topic} partition", "offset 21 is beyond", "Ask for offsets up to"),
        ),
        (("--from", "21"), "RangeBeyondEndError", ("21 is beyond the last stable offset 20", "Ask for offsets up to")),
        (("--to", str(2**63 - 1)), "RangeBeyondEndError", ("beyond the last stable offset 20",)),
        (("--everything",), "UsageError", ("--everything", "--help")),
        (("--dry",), "UsageError", ("--dry", "--help")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_bounds_that_cannot_be_met_are_refused(
    command: tuple[str, ...], kind: str, says: tuple[str, ...], refusals: Refusals
) -> None:
    """Each message names the topic or the word, what was found there, and what would be right."""
    expected = tuple(part.format(topic=refusals.sandbox.topic) for part in says)
    refusals.refused("plan", str(refusals.sandbox.file), *command, kind=kind, says=expected)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("table =", "tabel =", ("[lake] tabel", "did you mean 'table'?", "[lake] table: found nothing")),
        ('topics = ["', 'topic = ["', ("[source] topic: found an unknown key", "did you mean 'topics'?")),
        ("[sizes]", "[size]\na = 1\n[sizes]", ("[size]: found an unknown section", "did you mean 'sizes'?")),
        ("[sizes]", "[sizes]\nmax_wave_bytes = true", ("[sizes] max_wave_bytes: found true", "256 MiB")),
        ("topics = [", "topics = 7 # [", ("[source] topics: found 7", "a list with at least one topic name")),
        ("[sizes]", '[sizes]\ntarget_range_bytes = "5 Mb"', ("[sizes] target_range_bytes", "did you mean 5 MB?")),
        ("[sizes]", '[sizes]\nmax_wave_bytes = "1 kB"', ("above max_wave_bytes",)),
        ("[sizes]", "[sizes", ("bad.toml is not TOML", "line 10, column 7")),
        ("[lake]", 'start = "earlyest"\n[lake]', ("[source] start: found 'earlyest'", "did you mean 'earliest'?")),
        ("[lake]", 'end = "timestamp:noon"\n[lake]', ("[source] end", "'noon' is not a time")),
        ("[lake]", 'start = "offsets:no.json"\n[lake]', ("[source] start", "no.json does not exist")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_pipeline_file_with_a_mistake_is_refused(
    old: str, new: str, says: tuple[str, ...], refusals: Refusals
) -> None:
    """The file, the section and the key are named, what was found there and what is legal."""
    file = refusals.variant(old, new)
    refusals.refused("plan", file, kind="PipelineFileError", says=says)


def test_a_topic_that_is_not_there_stops_nothing_but_itself(refusals: Refusals) -> None:
    """It is named, with what to look at; alone, or asked for by name, it is refused."""
    file = refusals.variant('"]', '", "gone-topic"]')
    done = refusals.command("plan", file, "--dry-run")
    assert done.code == 1
    assert "blocked: gone-topic: Kafka at " in done.out
    assert "has no topic 'gone-topic'. Check the pipeline's topics" in done.out
    refusals.refused("plan", file, "--topic", "gone-topic", kind="UnknownTopicError", says=("no topic 'gone-topic'",))


@pytest.mark.parametrize(
    ("command", "kind", "says"),
    [
        (("plan", "no.toml"), "PipelineFileError", ("place/no.toml does not exist", "Correct the path")),
        (("status", "./orders"), "PipelineFileError", ("place/orders does not exist", "the name of a pipeline")),
        (("plan", "./"), "PipelineFileError", ("is not a regular file",)),
        (("status", "payments"), "UnknownSubjectError", ("no pipeline 'payments'", "it knows: {name}")),
        (("wave", "0000-w0"), "UnknownSubjectError", ("0000-w0", "kafka-lake status")),
        (("ingest", "0000-w0"), "UnknownSubjectError", ("no wave or range '0000-w0'", "kafka-lake status")),
        (("cancel", "0000-w0", "--reason", "x"), "UnknownSubjectError", ("no wave or range '0000-w0'", "{name}")),
        (("release", "0000-w0"), "UnknownSubjectError", ("no wave or range '0000-w0'",)),
        (("cancel", "0000-w0"), "UsageError", ("required: --reason", "kafka-lake cancel --help")),
        (("plam", "x"), "UsageError", ("'plam'", "'plan'", "kafka-lake --help")),
        (("db", "drop"), "UsageError", ("'drop'", "upgrade, check")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_subject_that_is_not_there_is_refused(
    command: tuple[str, ...], kind: str, says: tuple[str, ...], refusals: Refusals
) -> None:
    """A missing file, pipeline, wave, range or command is named, with what there is instead."""
    refusals.refused(*command, kind=kind, says=tuple(part.format(name=refusals.sandbox.name) for part in says))


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("audit",),
        ("accept-deletes", "--reason", "x"),
        ("withdraw", "--reason", "x"),
        ("skip", "--reason", "x", "--from", "0", "--to", "5"),
        ("reopen", "--reason", "x", "--from", "0", "--to", "5"),
    ],
    ids=" ".join,
)
def test_a_topic_or_partition_that_is_not_there_is_refused(command: tuple[str, ...], refusals: Refusals) -> None:
    """Nothing is no answer about what was not meant: the topics and partitions that there are, are named."""
    topic = refusals.sandbox.topic
    act, more = [command[0], refusals.sandbox.name], command[1:]
    near = f"of topic '{topic}s': it has {topic}; did you mean '{topic}'?"
    refusals.refused(*act, "--topic", f"{topic}s", *more, kind="UnknownSubjectError", says=(near,))
    gone = f"no stream {topic}/7: it has 0 to 1"
    refusals.refused(*act, "--topic", topic, "--partition", "7", *more, kind="UnknownSubjectError", says=(gone,))


@pytest.mark.parametrize(
    ("command", "kind", "says"),
    [
        (("--from", "5", "--to", "5", "--reason", "x"), "UsageError", ("from 5 is not before to 5", RANGE)),
        (("--from", "0", "--to", "5", "--reason", "  "), "UsageError", ("a reason is needed", "--reason")),
        (
            ("--from", "0", "--to", str(2**63), "--reason", "x"),
            "UsageError",
            ("--to: ", f"largest offset Kafka has ({2**63 - 1})"),
        ),
        (("--from", "0", "--to", "1e3", "--reason", "x"), "UsageError", ("--to: '1e3'", "An offset is digits only")),
        (
            ("--from", "0", "--to", "5", "--reason", "x", "--topic-id", "AAAA"),
            "UnknownSubjectError",
            ("no stream {topic}/0 of topic id AAAA", "kafka-lake status {topic}"),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_skip_that_names_nothing_is_refused(
    command: tuple[str, ...], kind: str, says: tuple[str, ...], refusals: Refusals
) -> None:
    """Passing offsets unread needs a slice, a reason and a stream that is there."""
    sandbox = refusals.sandbox
    given = ("skip", sandbox.name, "--topic", sandbox.topic, "--partition", "0", *command)
    refusals.refused(*given, kind=kind, says=tuple(part.format(topic=sandbox.topic) for part in says))


@pytest.mark.parametrize("policy", ["start", "end"])
def test_a_group_without_an_offset_is_refused(policy: str, fresh: Refusals) -> None:
    """None is no number: a plan does not begin at zero, or end nowhere, because a group never committed."""
    fresh.sandbox.produce(10)
    group = f"missing-{secrets.token_hex(4)}"
    fresh.sandbox.write_pipeline(source=f'{policy} = "group:{group}"')
    says = (f"group '{group}' on {fresh.sandbox.topic} partition", "no committed offset", f"another [source] {policy}")
    found = fresh.refused("plan", str(fresh.sandbox.file), kind="GroupOffsetError", says=says)
    assert (found["topic"], found["partition"]) == (fresh.sandbox.topic, 0)


def test_an_end_inside_an_open_transaction_is_refused(fresh: Refusals) -> None:
    """Below the high watermark is not enough: what may still be aborted is not planned."""
    from confluent_kafka import Producer

    sandbox = fresh.sandbox
    sandbox.produce(20)
    producer = Producer({"bootstrap.servers": sandbox.bootstrap, "transactional.id": secrets.token_hex(4)})
    producer.init_transactions(120)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(sandbox.topic, value=b"open", partition=0)
    assert producer.flush(120) == 0
    try:
        command = ("plan", str(sandbox.file), "--partition", "0", "--from", "5", "--to", "12")
        says = ("partition 0: offset 12 is beyond the last stable offset 10", "Ask for offsets up to")
        found = fresh.refused(*command, kind="RangeBeyondEndError", says=says)
        assert found["last_stable"] == 10
        sandbox.write_pipeline(source='isolation = "read_uncommitted"')
        assert fresh.command(*command, "--dry-run").code == 0
    finally:
        producer.abort_transaction(120)


def test_a_period_that_retention_has_taken_is_refused(fresh: Refusals) -> None:
    """The log start is named: what is gone is never planned as if it were empty."""
    sandbox = fresh.sandbox
    sandbox.produce(40)
    sandbox.delete_before(0, 8)
    command = ("plan", str(sandbox.file), "--partition", "0", "--from", "5", "--to", "15")
    says = ("partition 0: offsets 5-8 are gone", "the log starts at 8", "Ask from offset 8 on")
    found = fresh.refused(*command, kind="RangeExpiredError", says=says)
    assert found["log_start"] == 8


def test_a_second_pipeline_on_the_same_topic_and_table_is_refused(refusals: Refusals) -> None:
    """Its records would land twice: the owner is named, also to a dry run."""
    file = refusals.variant(f'name = "{refusals.sandbox.name}"', 'name = "another"')
    says = (f"in table raw.orders belongs to pipeline {refusals.sandbox.name}", "twice", "Choose another table")
    for command in (("plan", file), ("plan", file, "--dry-run"), ("run", file)):
        found = refusals.refused(*command, kind="OwnershipError", says=says)
        assert found["owner"] == refusals.sandbox.name


def _foreign_table(refusals: Refusals) -> str:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField, StringType

    sandbox = refusals.sandbox
    catalog = load_catalog("lake", type="sql", uri=sandbox.catalog_uri, warehouse=f"file://{sandbox.home}/warehouse")
    catalog.create_namespace_if_not_exists("raw")
    catalog.create_table("raw.foreign", Schema(NestedField(1, "key", StringType(), required=False)))
    catalog.close()
    sandbox.write_pipeline(table="raw.foreign")
    return str(sandbox.file)


DIFFERENCES = ("raw.foreign does not fit", "column key is string, binary is needed", "kafka_offset long is missing")


def test_a_table_with_other_columns_is_refused(fresh: Refusals) -> None:
    """Every difference is named, and no range is planned."""
    fresh.sandbox.produce(10)
    done = fresh.command("plan", _foreign_table(fresh), "--json")
    assert done.code == 1
    assert done.document["error"]["type"] == "SchemaMismatchError"
    assert all(part in done.document["error"]["message"] for part in DIFFERENCES)
    assert not {"kafka_lake_stream", "kafka_lake_range"} & set(rows_of(fresh.sandbox.ledger, set()))


def test_a_dry_run_refuses_a_table_with_other_columns(fresh: Refusals) -> None:
    """The dry run says what the real run would say, and the real one leaves no pipeline behind in the ledger."""
    fresh.sandbox.produce(10)
    file = _foreign_table(fresh)
    for command in (("plan", file, "--dry-run"), ("plan", file)):
        fresh.refused(*command, kind="SchemaMismatchError", says=DIFFERENCES)


def test_a_skip_beyond_the_end_of_the_log_is_refused(fresh: Refusals) -> None:
    """Offsets that do not exist yet would be passed unread when they come."""
    sandbox = fresh.sandbox
    sandbox.produce(40)
    assert fresh.command("plan", str(sandbox.file)).code == 0
    given = ("skip", sandbox.name, f"--topic={sandbox.topic}", "--partition=0", "--from=0", "--to=500", "--reason=x")
    fresh.refused(*given, kind="RangeBeyondEndError", says=("offset 500 is beyond",))
