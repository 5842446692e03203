"""Pipeline files and keywords: what is legal becomes a spec, everything else says what to correct."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import re
import textwrap
from pathlib import Path

import pytest

from airflow_kafka_lake.core.decoding import Decoding, Format, Limit
from airflow_kafka_lake.core.errors import PipelineFileError
from airflow_kafka_lake.core.spec import Isolation, Ordering, Partitioner, PipelineSpec, Policy, PolicyKind
from airflow_kafka_lake.pipeline import Pipeline, load_pipelines
from airflow_kafka_lake.pipeline.definition import MAX_FILE_BYTES
from airflow_kafka_lake.pipeline.keys import COLUMNS, KEYS, parse_size, parse_span

pytestmark = pytest.mark.unit

FULL = """
[pipeline]
name = "orders"
[source]
connection = "kafka_prod"
topics = ["orders", "orders.eu"]
isolation = "read_uncommitted"
start = "group:live"
end = "timestamp:2026-01-31T06:00:00.5+01:00"
ordering = "partition"
partitioner = "crc32"
layout_grace = "1 h"
[lake]
connection = "lake_prod"
table = "raw.{topic}"
partition_by = "days( kafka_timestamp ),bucket(16,  kafka_partition)"
[decode]
format = "protobuf"
registry = "schemas"
subject = "{topic}.v"
message = "shop.Order"
limit = "0.5 %"
[spark]
connection = "spark_prod"
[sizes]
target_range_bytes = "128 MiB"
max_wave_bytes = "1.5 GB"
"""
MINIMAL = """
[pipeline]
name = "orders"
[source]
topics = ["orders"]
[lake]
table = "raw.orders"
"""
GOOD = {"name": "orders", "topics": ["orders"], "table": "raw.orders"}


def _write(folder: Path, text: str, name: str = "orders.toml") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def _refusal(**keywords: object) -> str:
    with pytest.raises(PipelineFileError) as caught:
        Pipeline(**{**GOOD, **keywords})  # type: ignore[arg-type]
    return caught.value.message


def test_every_key_of_a_file_arrives(tmp_path: Path) -> None:
    """The file of the reference becomes the spec one would write by hand."""
    assert Pipeline.from_toml(_write(tmp_path, FULL)).spec == PipelineSpec(
        name="orders",
        kafka_connection="kafka_prod",
        topics=("orders", "orders.eu"),
        isolation=Isolation.READ_UNCOMMITTED,
        start=Policy(kind=PolicyKind.GROUP, group="live"),
        end=Policy(kind=PolicyKind.TIMESTAMP, timestamp_ms=1_769_835_600_500),
        ordering=Ordering.PARTITION,
        partitioner=Partitioner.CRC32,
        layout_grace=3600,
        lake_connection="lake_prod",
        table="raw.{topic}",
        partition_by="days(kafka_timestamp), bucket(16, kafka_partition)",
        decoding=Decoding(
            format=Format.PROTOBUF,
            registry="schemas",
            subject="{topic}.v",
            message="shop.Order",
            limit=Limit(share=0.005),
        ),
        spark_connection="spark_prod",
        target_range_bytes=128 * 1024**2,
        max_wave_bytes=1_500_000_000,
    )


def test_keywords_and_file_give_the_same_pipeline(tmp_path: Path) -> None:
    """Three lines are enough, and both forms have the same defaults and the same digest."""
    from_file = Pipeline.from_toml(_write(tmp_path, MINIMAL))
    assert from_file == Pipeline(name="orders", topics=("orders",), table="raw.orders")
    assert from_file.spec == PipelineSpec(name="orders", topics=("orders",), table="raw.orders")
    assert from_file.spec.spark_connection is None


def test_pipeline_is_frozen_and_travels() -> None:
    """Airflow copies and pickles what operators hold."""
    pipeline = Pipeline(**GOOD)  # type: ignore[arg-type]
    assert copy.deepcopy(pipeline) == pipeline
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline
    assert hash(pipeline) == hash(copy.copy(pipeline))
    with pytest.raises(dataclasses.FrozenInstanceError):
        pipeline.spec = pipeline.spec  # type: ignore[misc]


BAD_FILES = {
    "decoding without a format": (
        '[decode]\nschema = "a INT"',
        ["[decode] format: found nothing", "one of json, avro, protobuf, string"],
    ),
    "decoding nothing": ("[decode]", ["[decode] format: found nothing", "one of json, avro, protobuf, string"]),
    "decoding format": ('[decode]\nformat = "jason"', ["[decode] format: found 'jason'", "did you mean 'json'?"]),
    "JSON without a schema": ('[decode]\nformat = "json"', ["[decode] schema: found nothing", "json needs it"]),
    "Avro without a registry": ('[decode]\nformat = "avro"', ["[decode] registry: found nothing", "avro needs it"]),
    "key of another format": (
        '[decode]\nformat = "string"\nschema = "a INT"',
        ["[decode] schema: found a key this format has no use for", "beside format string: one of column, limit"],
    ),
    "registry as an address": (
        '[decode]\nformat = "avro"\nregistry = "//u:secret@h"',
        ["[decode] registry: found an address (not shown", "id of an Airflow connection"],
    ),
    "column that is there": (
        '[decode]\nformat = "string"\ncolumn = "Value"',
        ["[decode] column: found 'Value'", "none that every table has"],
    ),
    "message": ('[decode]\nformat = "protobuf"\nregistry = "r"\nmessage = "a b"', ["[decode] message: found 'a b'"]),
    "limit above all": ('[decode]\nformat = "string"\nlimit = "101 %"', ["[decode] limit: found '101 %'", '"1 %"']),
    "limit as a fraction": ('[decode]\nformat = "string"\nlimit = 0.5', ["[decode] limit: found 0.5"]),
    "limit below zero": ('[decode]\nformat = "string"\nlimit = -1', ["[decode] limit: found -1"]),
    "unknown section": ("[lak]\n", ["[lak]: found an unknown section", "did you mean 'lake'?"]),
    "unknown key": ('[source]\ntopic = ["a"]', ["[source] topic: found an unknown key", "did you mean 'topics'?"]),
    "key like no other": (
        '[lake]\ncompresion = "zstd"',
        ["[lake] compresion: found an unknown key; legal: one of connection, table, partition_by\n"],
    ),
    "key of another section": ('[source]\ntable = "raw.a"', ["[source] table:", "did you mean [lake] table?"]),
    "key above all sections": ('name = "a"', ["[name]: found a key outside of any section", "[pipeline] name"]),
    "section as a value": ('source = "kafka"', ["[source]: found 'kafka'", "legal: a section"]),
    "section as a list": ("[[source]]", ["[source]: found a value of type list", "legal: a section"]),
    "missing name": ('[lake]\ntable = "raw.a"', ["[pipeline] name: found nothing", "legal: 1 to 100 of a-z"]),
    "missing table": ('[pipeline]\nname = "a"', ["[lake] table: found nothing", "legal: namespace.table"]),
    "no topics": ("[source]", ["[source] topics: found neither topics nor topic_pattern", "legal: one of the two"]),
    "both topics": (
        '[source]\ntopics = ["a"]\ntopic_pattern = "a"',
        ["found both topics and topic_pattern", "legal: one of the two"],
    ),
    "topics as text": ('[source]\ntopics = "a"', ["[source] topics: found 'a'", 'such as ["orders"]']),
    "topics empty": ("[source]\ntopics = []", ["[source] topics: found a value of type list", "at least one topic"]),
    "topic as number": ("[source]\ntopics = [1]", ["[source] topics: found 1 (item 1)", "topic names are"]),
    "topic of dots": ('[source]\ntopics = ["a", ".."]', ["found '..' (item 2)", "neither '.' nor '..'"]),
    "topic twice": ('[source]\ntopics = ["a", "b", "a"]', ["found 'a' twice", "each topic once"]),
    "pattern broken": ('[source]\ntopic_pattern = "a("', ["[source] topic_pattern: found 'a('", "unterminated"]),
    "pattern empty": ('[source]\ntopic_pattern = ""', ["[source] topic_pattern: found ''", "1 to 1000 characters"]),
    "isolation": (
        '[source]\nisolation = "read_comitted"',
        ["found 'read_comitted'", "one of read_committed, read_uncommitted; did you mean 'read_committed'?"],
    ),
    "isolation in capitals": ('[source]\nisolation = "READ_COMMITTED"', ["found 'READ_COMMITTED'", "read_committed"]),
    "ordering as boolean": ("[source]\nordering = true", ["ordering: found true", "one of key, partition, none"]),
    "partitioner": ('[source]\npartitioner = "md5"', ["found 'md5'", "one of murmur2, crc32, unknown"]),
    "layout grace without a unit": (
        '[source]\nlayout_grace = "5"',
        ["found '5'", "a number and a unit (s, min, h, d)"],
    ),
    "layout grace below zero": ("[source]\nlayout_grace = -1", ["found -1", "a whole number of seconds"]),
    "layout grace of months": ('[source]\nlayout_grace = "31 d"', ["found '31 d'", "up to 30 days"]),
    "start latest": ('[source]\nstart = "latest"', ["[source] start: found 'latest'", "earliest, group:<id>"]),
    "end earliest": ('[source]\nend = "earliest"', ["[source] end: found 'earliest'", "one of latest, group:<id>"]),
    "earliest with argument": ('[source]\nstart = "earliest:1"', ["found 'earliest:1'", "one of earliest"]),
    "group without id": ('[source]\nstart = "group"', ["found 'group'", "group:<id>"]),
    "group empty": ('[source]\nstart = "group:"', ["found 'group:'", "1 to 255 characters"]),
    "group with space": ('[source]\nstart = "group: live"', ["found 'group: live'", "no outer spaces"]),
    "time without offset": (
        '[source]\nstart = "timestamp:2026-01-31T06:00:00"',
        ["has no offset", '"2026-01-31T06:00:00Z"'],
    ),
    "bare date": ('[source]\nstart = "timestamp:2026-01-31"', ["a date", '"2026-01-31T00:00:00Z"']),
    "time as TOML time": ("[source]\nstart = 2026-01-31T06:00:00Z", ["a value of type datetime", "text, one of"]),
    "table without namespace": ('[lake]\ntable = "orders"', ["[lake] table: found 'orders'", "namespace.table"]),
    "table of an empty part": ('[lake]\ntable = "a..c"', ["[lake] table: found 'a..c'", "namespace.table"]),
    "topic in both parts": ('[lake]\ntable = "{topic}.{topic}"', ["found '{topic}.{topic}'", "at most once"]),
    "topic twice in table": ('[lake]\ntable = "a.{topic}{topic}"', ["{topic} at most once"]),
    "other placeholder": ('[lake]\ntable = "a.{name}"', ["found 'a.{name}'", "{topic} at most once"]),
    "table of receipts": ('[lake]\ntable = "raw.a__receipts"', ["found 'raw.a__receipts'", "hold receipts"]),
    "partition_by": ('[lake]\npartition_by = "week(kafka_timestamp)"', ["years|months|days|hours(kafka_timestamp)"]),
    "partition_by statement": ('[lake]\npartition_by = "a) ; DROP TABLE x"', ["terms joined by commas"]),
    "partition_by of text": ('[lake]\npartition_by = "days(kafka_topic)"', ["[lake] partition_by: found"]),
    "partition_by width twice": (
        '[lake]\npartition_by = "bucket(2, key), bucket(4, key)"',
        ["each transform of a column once"],
    ),
    "partition_by without width": ('[lake]\npartition_by = "bucket(key)"', ["bucket(N, column)"]),
    "partition_by zero width": ('[lake]\npartition_by = "bucket(0, key)"', ["bucket(N, column)"]),
    "partition_by truncated time": ('[lake]\npartition_by = "truncate(2, kafka_timestamp)"', ["not of the time"]),
    "partition_by headers": ('[lake]\npartition_by = "headers"', ["columns are kafka_timestamp"]),
    "partition_by twice": ('[lake]\npartition_by = "kafka_topic,kafka_topic"', ["each transform of a column once"]),
    "partition_by trailing comma": ('[lake]\npartition_by = "kafka_topic,"', ["terms joined by commas"]),
    "size unit": (
        '[sizes]\nmax_wave_bytes = "64 Gb"',
        ["[sizes] max_wave_bytes: found '64 Gb'", "did you mean 64 GB?"],
    ),
    "size zero": ("[sizes]\ntarget_range_bytes = 0", ["found 0", "at least 1 byte"]),
    "size negative": ("[sizes]\ntarget_range_bytes = -1", ["found -1", "at least 1 byte"]),
    "size float": ("[sizes]\ntarget_range_bytes = 1.5", ["found 1.5", "is not a size"]),
    "size boolean": ("[sizes]\ntarget_range_bytes = true", ["found true", "is not a size"]),
    "range above wave": (
        '[sizes]\ntarget_range_bytes = "2 GiB"\nmax_wave_bytes = "1 GiB"',
        ["[sizes] target_range_bytes: found 2,147,483,648 bytes, above max_wave_bytes", "at most max_wave_bytes"],
    ),
    "wave below the default range": ('[sizes]\nmax_wave_bytes = "1 MiB"', ["above max_wave_bytes (1,048,576)"]),
    "not TOML": ("[source]\ntopics = [", ["is not TOML", "line 2, column"]),
    "value missing": ("[source]\n\ntopics =\n", ["is not TOML", "line 3, column 9"]),
    "key twice": ("[source]\nend = 'latest'\nend = 'latest'", ["is not TOML", "line 3"]),
    "NUL in text": ('[pipeline]\nname = "a\0b"', ["is not TOML", "line 2, column 10"]),
    "endless number": (f"[sizes]\nmax_wave_bytes = {'9' * 5000}", ["is not TOML", "beyond reason"]),
    "bottomless list": ("a = " + "[" * 100_000, ["is not TOML"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file_says_where_what_and_what_is_legal(case: str, tmp_path: Path) -> None:
    """File, section and key, what was found, what is legal: all in the message."""
    text, parts = BAD_FILES[case]
    path = _write(tmp_path, text)
    with pytest.raises(PipelineFileError) as caught:
        Pipeline.from_toml(path)
    for part in [str(path), *parts]:
        assert part in caught.value.message
    assert caught.value.facts["file"] == str(path)


def test_all_mistakes_are_listed_together(tmp_path: Path) -> None:
    """A file is not corrected one run at a time; programs get the same list as facts."""
    path = _write(tmp_path, '[pipeline]\nname = "A"\n[source]\nend = "never"\nfoo = 1\n[sizes]\nmax_wave_bytes = "x"\n')
    with pytest.raises(PipelineFileError) as caught:
        Pipeline.from_toml(path)
    lines = caught.value.message.splitlines()
    assert lines[0] == f"{path} has 6 mistakes:"
    assert len(lines) == 7
    problems = json.loads(json.dumps(caught.value.to_json()))["problems"]
    assert {(item["section"], item["key"]) for item in problems} == {
        ("pipeline", "name"),
        ("source", "end"),
        ("source", "foo"),
        ("source", "topics"),
        ("lake", "table"),
        ("sizes", "max_wave_bytes"),
    }


def test_single_mistake_is_one_line(tmp_path: Path) -> None:
    """One mistake needs no list."""
    path = _write(tmp_path, MINIMAL.replace('"raw.orders"', '"raw"'))
    with pytest.raises(PipelineFileError) as caught:
        Pipeline.from_toml(path)
    assert caught.value.message.startswith(f"{path}: [lake] table: found 'raw'; legal: ")
    assert "\n" not in caught.value.message


POISON = {
    "newline behind": "orders\n",
    "newline inside": "ord\ners",
    "carriage return": "orders\r",
    "NUL": "orders\0",
    "quote": "orders'",
    "double quote": 'orders"',
    "backtick": "orders`",
    "semicolon": "orders;drop table x",
    "comment": "orders'--",
    "parent folder": "../orders",
    "absolute path": "/etc/orders",
    "backslash": "orders\\x",
    "space": "orders x",
    "look-alike letter": "оrders",
    "accent": "ordérs",
    "wide letters": "ｏｒｄｅｒｓ",
    "other digits": "orders٣",
    "direction mark": "orders\u202e",
    "line separator": "orders\u2028",
    "surrogate": "orders\ud800",
    "escape sequence": "\x1b[31morders",
    "empty": "",
    "endless": "o" * 5000,
}


@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize(
    "keyword", ["name", "topics", "table", "kafka_connection", "lake_connection", "spark_connection"]
)
def test_poisoned_name_is_refused(keyword: str, poison: str) -> None:
    """No name carries what a path, a statement or a terminal could obey; messages quote it safely and shortly."""
    text = POISON[poison]
    if keyword == "table":
        text = f"raw.{text}"
    message = _refusal(**{keyword: [text] if keyword == "topics" else text})
    assert f"{keyword}=: found " in message
    assert message.isprintable()
    assert len(message) < 600


@pytest.mark.parametrize(
    "poison", ["newline behind", "NUL", "escape sequence", "line separator", "surrogate", "endless"]
)
@pytest.mark.parametrize("keyword", ["start", "end"])
def test_poisoned_group_is_refused(keyword: str, poison: str) -> None:
    """Group ids are free text, but nothing in them may break a line or a terminal."""
    assert f"{keyword}=: found 'group:" in _refusal(**{keyword: f"group:{POISON[poison]}"})


@pytest.mark.parametrize("name", ["orders.toml", ".orders", "-orders", "Orders", "o" * 101])
def test_pipeline_name_is_no_file_and_no_option(name: str) -> None:
    """Commands take a file or a name, and options begin with a dash."""
    assert "name=: found" in _refusal(name=name)


def test_longest_names_are_accepted() -> None:
    """The bounds are inclusive."""
    spec = Pipeline(name="o" * 100, topics=["t" * 249], table=f"{'n' * 128}.{'t' * 128}").spec
    assert len(spec.name) == 100


def test_address_in_place_of_a_connection_is_not_shown(tmp_path: Path) -> None:
    """A URI may hold a password, so it appears in no message and no fact."""
    for address in ("kafka://admin:hunter2@broker:9092", "admin:hunter2@broker", "hunter2@"):
        with pytest.raises(PipelineFileError) as caught:
            Pipeline(**{**GOOD, "kafka_connection": address})  # type: ignore[arg-type]
        assert "hunter2" not in json.dumps(caught.value.to_json())
        assert "not shown" in caught.value.message


def test_value_of_an_unknown_key_is_not_shown(tmp_path: Path) -> None:
    """A user who puts a password into the file finds the key's name in the message, not the password."""
    path = _write(tmp_path, MINIMAL.replace("topics =", 'password = "hunter2"\ntopics ='))
    with pytest.raises(PipelineFileError, match="password: found an unknown key") as caught:
        Pipeline.from_toml(path)
    assert "hunter2" not in json.dumps(caught.value.to_json())


def test_unknown_keyword_suggests_the_nearest() -> None:
    """Keywords are checked like keys."""
    message = _refusal(topic_patern="a")
    assert "topic_patern=: found an unknown keyword" in message
    assert "did you mean 'topic_pattern'?" in message


def test_topic_that_would_land_in_a_receipts_table_is_refused() -> None:
    """`orders_receipts` maps to the name of the receipts table of `orders`."""
    assert "topic 'orders_receipts' would land in 'raw.orders__receipts'" in _refusal(
        topics=["orders", "orders_receipts"], table="raw.{topic}"
    )
    assert "would land in" in _refusal(topics=["t." * 60], table="raw.{topic}")
    assert Pipeline(name="o", topics=["orders_receipts"], table="raw.all").spec.topics == ("orders_receipts",)


def test_pattern_instead_of_topics() -> None:
    """A pattern is kept as it is; the broker's topics decide later."""
    spec = Pipeline(name="orders", topic_pattern=r"^orders\..*", table="raw.{topic}").spec
    assert (spec.topics, spec.topic_pattern) == ((), r"^orders\..*")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("  ", ""),
        ("kafka_topic", "kafka_topic"),
        ("days(kafka_timestamp)", "days(kafka_timestamp)"),
        ("day(kafka_timestamp)", "days(kafka_timestamp)"),
        ("identity(kafka_topic), bucket(4,key)", "kafka_topic, bucket(4, key)"),
        ("kafka_topic,hours( kafka_timestamp )", "kafka_topic, hours(kafka_timestamp)"),
        (
            "bucket(8,kafka_offset), truncate(1000000, kafka_offset)",
            "bucket(8, kafka_offset), truncate(1000000, kafka_offset)",
        ),
    ],
)
def test_partitioning_is_kept_in_one_spelling(given: str, kept: str) -> None:
    """Spaces make no new version of a pipeline."""
    assert Pipeline(**{**GOOD, "partition_by": given}).spec.partition_by == kept  # type: ignore[arg-type]


def test_offsets_file_stands_beside_the_pipeline_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is relative to the pipeline file, wherever the process runs."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    _write(folder, '{"orders": {"1": 7, "0": 3}}', "from.json")
    path = _write(folder, MINIMAL.replace("topics =", 'start = "offsets:from.json"\ntopics ='))
    monkeypatch.chdir(tmp_path)
    start = Pipeline.from_toml(path).spec.start
    assert start == Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 0, 3), ("orders", 1, 7)))
    absolute = Pipeline(**{**GOOD, "end": f"offsets:{folder / 'from.json'}"})  # type: ignore[arg-type]
    assert absolute.spec.end.offset_for("orders", 1) == 7
    assert "an absolute path" in _refusal(start="offsets:from.json")
    assert "an absolute path" in _refusal(start="offsets:")


def test_offsets_of_foreign_topics_are_refused(tmp_path: Path) -> None:
    """Offsets of a topic that the pipeline does not read are a mistake in one of the two."""
    path = _write(tmp_path, '{"order": {"0": 3}}', "from.json")
    assert "start=: found a file that names order" in _refusal(start=f"offsets:{path}")
    by_pattern = {"topics": None, "topic_pattern": "orders.*", "start": f"offsets:{path}"}
    assert "start=: found a file that names order" in _refusal(**by_pattern)
    assert Pipeline(name="o", table="raw.o", topic_pattern="ord.*", end=f"offsets:{path}").spec.end.offsets


def test_problem_of_an_offsets_file_is_a_mistake_of_its_key(tmp_path: Path) -> None:
    """The message names the pipeline file's key and the offsets file."""
    path = _write(tmp_path, MINIMAL.replace("topics =", 'start = "offsets:none.json"\ntopics ='))
    with pytest.raises(PipelineFileError) as caught:
        Pipeline.from_toml(path)
    assert f"[source] start: found 'offsets:none.json'; legal: {tmp_path / 'none.json'} does not exist" in str(
        caught.value
    )


def test_file_is_the_one_that_the_path_names_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is the current directory's, as everywhere; a Dag names the file beside it by its own path."""
    dags, here = tmp_path / "dags", tmp_path / "here"
    dags.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    _write(here, MINIMAL.replace('"orders"\n[source]', '"from_here"\n[source]'))
    _write(dags, MINIMAL.replace('"orders"\n[source]', '"from_dags"\n[source]'))
    module = {"__file__": str(dags / "my_dag.py"), "Pipeline": Pipeline, "Path": Path}
    assert eval("Pipeline.from_toml('orders.toml')", module).spec.name == "from_here"
    assert eval("Pipeline.from_toml(Path(__file__).parent / 'orders.toml')", module).spec.name == "from_dags"
    advice = rf"nowhere\.toml does not exist\. It is looked for in {re.escape(str(here))}; a Dag .*Path\(__file__\)"
    with pytest.raises(PipelineFileError, match=advice):
        eval("Pipeline.from_toml('nowhere.toml')", module)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    """Folders, pipes, other encodings, other sizes and impossible paths end in a sentence, never in a hang."""
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "latin.toml").write_bytes('[pipeline]\nname = "é"'.encode("latin-1"))
    (tmp_path / "huge.toml").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    cases = {
        str(tmp_path): "is not a regular file",
        str(tmp_path / "pipe.toml"): "is not a regular file",
        str(tmp_path / "latin.toml"): "is not UTF-8 (byte 19)",
        str(tmp_path / "huge.toml"): "is larger than 1048576 bytes",
        str(tmp_path / "a\0.toml"): "the path holds a NUL",
        str(tmp_path / ("a" * 300)): "cannot be read: File name too long",
    }
    for path, part in cases.items():
        with pytest.raises(PipelineFileError) as caught:
            Pipeline.from_toml(path)
        assert part in caught.value.message


def test_byte_order_mark_and_carriage_returns_are_no_mistake(tmp_path: Path) -> None:
    """Some editors write them."""
    path = tmp_path / "orders.toml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert Pipeline.from_toml(path).spec.name == "orders"


def test_folder_loads_good_files_and_keeps_the_errors_of_bad_ones(tmp_path: Path) -> None:
    """One bad file hides no other."""
    _write(tmp_path, MINIMAL.replace('name = "orders"', 'name = "b"'), "2.toml")
    _write(tmp_path, MINIMAL.replace('name = "orders"', 'name = "a"'), "1.toml")
    _write(tmp_path, "[pipeline]", "bad.toml")
    _write(tmp_path, "no pipeline", "notes.txt")
    loaded = load_pipelines(tmp_path)
    assert set(loaded) == {"a", "b", "bad.toml"}
    assert [name for name, item in loaded.items() if isinstance(item, Pipeline)] == ["a", "b"]
    assert isinstance(loaded["bad.toml"], PipelineFileError)
    assert load_pipelines(str(tmp_path)).keys() == loaded.keys()


def test_files_with_the_same_pipeline_name_are_all_errors(tmp_path: Path) -> None:
    """It cannot be told which one is meant."""
    for name in ("1.toml", "2.toml"):
        _write(tmp_path, MINIMAL, name)
    loaded = load_pipelines(tmp_path)
    assert set(loaded) == {"1.toml", "2.toml"}
    for error in loaded.values():
        assert isinstance(error, PipelineFileError)
        assert "'orders' is the name in 1.toml, 2.toml" in error.message


def test_folder_ignores_what_is_not_its_own(tmp_path: Path) -> None:
    """Subfolders, hidden files, pipes, dead links and links that lead out are ignored; links within are files."""
    outside, folder = tmp_path / "outside", tmp_path / "pipelines"
    outside.mkdir()
    folder.mkdir()
    (folder / "..data").mkdir()
    _write(outside, MINIMAL.replace('name = "orders"', 'name = "stranger"'), "stranger.toml")
    (folder / "stranger.toml").symlink_to(outside / "stranger.toml")
    (folder / "dead.toml").symlink_to(folder / "nowhere.toml")
    (folder / "loop.toml").symlink_to(folder / "loop.toml")
    (folder / "sub.toml").mkdir()
    os.mkfifo(folder / "pipe.toml")
    _write(folder, "[broken", ".hidden.toml")
    _write(folder / "..data", MINIMAL, "orders.toml")
    (folder / "orders.toml").symlink_to(Path("..data") / "orders.toml")
    assert set(load_pipelines(folder)) == {"orders"}


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    """A wrong setting is not an empty folder."""
    assert load_pipelines(tmp_path) == {}
    for folder in (tmp_path / "nowhere", _write(tmp_path, MINIMAL), tmp_path / "a\0b"):
        with pytest.raises(PipelineFileError, match="pipelines_folder"):
            load_pipelines(folder)


def test_examples_of_the_reference_are_legal(tmp_path: Path) -> None:
    """What a reader copies from the reference works."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "pipeline-file.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 1
    for example in examples:
        assert Pipeline.from_toml(_write(tmp_path, example)).spec.name == "orders"


def test_reference_names_every_key_and_default() -> None:
    """No key is without a row, and each row states the default that the spec has."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "pipeline-file.md").read_text()
    defaults = {field.name: field.default for field in dataclasses.fields(PipelineSpec)}
    defaults |= {f"decode_{field.name}": field.default for field in dataclasses.fields(Decoding)}
    for key in KEYS:
        row = next(line for line in text.splitlines() if line.startswith(f"| `[{key.section}]` | `{key.name}` |"))
        assert f"| `{key.keyword}` |" in row
        default = row.split("|")[5].strip()
        if key.required:
            assert default == "required"
        elif key.name in ("layout_grace", "leader_wait", "stable_wait"):
            assert parse_span(default.strip("`")) == defaults[key.keyword]
        elif key.section == "sizes" and "bytes" in key.name:
            assert parse_size(default.strip("`")) == defaults[key.keyword]
        elif isinstance(value := defaults[key.keyword], str) and value:
            assert default == f"`{value}`"


def test_every_legal_partitioning_is_understood_by_the_table() -> None:
    """What the file accepts, the adapter can build."""
    from airflow_kafka_lake.adapters.iceberg.schema import partition_spec
    from airflow_kafka_lake.adapters.iceberg.table import LANDING

    terms = [*COLUMNS, *(f"{unit}(kafka_timestamp)" for unit in ("years", "months", "days", "hours"))]
    terms += [f"bucket(4, {column})" for column in COLUMNS]
    terms += [f"truncate(4, {column})" for column in COLUMNS if column != "kafka_timestamp"]
    for term in terms:
        kept = Pipeline(**{**GOOD, "partition_by": term}).spec.partition_by  # type: ignore[arg-type]
        assert len(partition_spec(kept, LANDING).fields) == 1
