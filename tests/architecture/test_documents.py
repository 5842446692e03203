"""The documents agree with the code, as far as a test can check it."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from airflow_kafka_lake.actions.registry import ACTIONS
from airflow_kafka_lake.adapters import kafka_config
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.cli.entry_point import COMMANDS, build_parser
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.reports.metrics import METRICS
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.pipeline.keys import read_offsets_file
from airflow_kafka_lake.services import pipeline_audit, reporting
from airflow_kafka_lake.wiring import connections
from tests import documented
from tests.docs_scripts import script
from tests.world import World

pytestmark = pytest.mark.architecture

ROOT = Path(__file__).parents[2]
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
DOCUMENTS = [*(ROOT / name for name in BESIDE), *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"\s*(?:\$ )?(?:[\w./-]*/)?(?:airflow )?kafka-lake (?P<arguments>[a-z].*)")
SPAN = re.compile(r"`(?:airflow )?kafka-lake (?P<arguments>[a-z][^`]*)`")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
SECTIONS = {
    "[pipeline]": 'name = "orders"',
    "[source]": 'topics = ["orders"]',
    "[lake]": 'table = "raw.orders"',
}
"""What a part of a pipeline file leaves out, as the least that is legal."""
CONNECTION = re.compile(r"^AIRFLOW_CONN_\w+='(?P<document>\{.*?\})'$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
SHELL = {"", "sh", "console"}
MOST_BYTES = 120_000
"""Of a picture: readers of the page load them all."""


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


PAGES = (
    "airflow.md",
    "benchmark.md",
    "commands.md",
    "errors.md",
    "laws.md",
    "metrics.md",
    "parts.md",
    "proof.md",
    "states.md",
    "tables.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_generated_page_is_as_the_code_says(page: str) -> None:
    """Run `python docs/generate.py` after a change of commands, states, errors, guards or evidence."""
    pages = script().pages()
    assert set(pages) == set(PAGES)
    assert (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8") == pages[page]


def test_airflows_registry_is_told_as_the_code_says() -> None:
    """Run `python docs/generate.py`; each class has a sentence."""
    text = (ROOT / ".airflow-registry.yaml").read_text(encoding="utf-8")
    assert text == script().registry()
    modules = [item for part in yaml.safe_load(text).values() if isinstance(part, list) for item in part]
    assert len(modules) > 30
    assert all(item["description"].endswith((".", "?")) for item in modules)


def test_speeds_are_those_of_the_committed_report() -> None:
    """Run `python docs/generate.py` after a new report."""
    for name, text in script("speed").pages().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text


def test_picture_of_a_terminal_is_as_the_command_prints() -> None:
    """Run `python docs/pictures.py` after a change of what `status` prints."""
    for name, picture in script("pictures").pictures().items():
        assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == picture


def test_pictures_of_the_benchmark_are_of_its_committed_reports() -> None:
    """None is left of a report that is gone, and none is older than its numbers."""
    committed = ROOT / "docs" / "reference" / "benchmark"
    assert {path.name: path.read_text(encoding="utf-8") for path in committed.glob("*")} == script().pictures()


MOST_WORDS = 40_000
"""Of all documents together: who adds a page makes others shorter."""


def test_documents_stay_short() -> None:
    """A word has a letter or a digit; tables, code and generated pages count too."""
    words = (word for path in DOCUMENTS for word in path.read_text(encoding="utf-8").split())
    assert sum(bool(re.search(r"\w", word)) for word in words) <= MOST_WORDS


def test_every_tier_of_the_suite_is_described() -> None:
    """Who contributes finds every folder of tests named."""
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("**/test_*.py"))}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {tier for tier in folders if f"`tests/{tier}" not in text} == set()


def _anchors(text: str) -> set[str]:
    """Return the anchors that a page's headings get (GitHub's way)."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_relative_link_has_its_target() -> None:
    """A link names a file of this repository, and a heading in it."""
    broken = []
    for path in DOCUMENTS:
        for match in LINK.finditer(FENCE.sub("", path.read_text(encoding="utf-8"))):
            target, _, anchor = match["target"].partition("#")
            if "://" in target:
                continue
            there = (path.parent / target) if target else path
            found = there.exists() and (not anchor or anchor in _anchors(there.read_text(encoding="utf-8")))
            broken += [] if found else [f"{_name(path)}: {match['target']}"]
    assert broken == []


def test_every_reference_of_a_link_is_defined_and_used() -> None:
    """`[text][key]` without its key is shown as it stands."""
    wrong = []
    for path in DOCUMENTS:
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        used = set(re.findall(r"\]\[(\w+)\]", text))
        defined = re.findall(r"^\[(\w+)\]: ", text, re.MULTILINE)
        wrong += [f"{_name(path)}: {key}" for key in used ^ set(defined)]
    assert wrong == []


def test_every_picture_is_shown_and_small() -> None:
    """A picture that no page shows any more is removed; `make pictures` keeps those of a browser small."""
    images = sorted((ROOT / "docs" / "images").iterdir())
    linked = {
        (path.parent / match["target"]).resolve()
        for path in DOCUMENTS
        for match in LINK.finditer(path.read_text(encoding="utf-8"))
    }
    assert [_name(path) for path in images if path.resolve() not in linked] == []
    assert [_name(path) for path in images if path.stat().st_size > MOST_BYTES] == []


def test_every_document_can_be_reached_from_the_index() -> None:
    """Pages are linked from the index, decisions from their folder."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / match["target"]).resolve() for match in LINK.finditer(index)}
    pages = {
        path for path in DOCUMENTS if path.parent.name != "decisions" and path.name not in {"README.md", "index.md"}
    }
    assert {_name(path) for path in pages if path.resolve() not in linked} == set()
    assert (ROOT / "docs" / "decisions").resolve() in linked


KNOWN = ROOT / "docs" / "reference" / "known.md"
LOOKED_AT = {"told", "once", "twice", "proven"}
CLASS = re.compile(r"^class (?P<name>[A-Z]\w*(?:Operator|Sensor|Trigger))\b", re.MULTILINE)
ABSTRACT = {"LedgerSensor", "LedgerTrigger"}
"""What answers is one of those that are made of them."""


def _known_rows() -> list[list[str]]:
    """Return the cells of every row of the page that says how each answer is known, its first table left out."""
    lines = KNOWN.read_text(encoding="utf-8").partition("## Commands")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in rows if "looked at" not in row and set(row[0]) != {"-"}]


def _answering() -> set[str]:
    """Return all that gives an answer: commands, classes of tasks and triggers, metrics, decisions by HTTP."""
    package = ROOT / "airflow_kafka_lake"
    files = [path for folder in ("operators", "sensors", "triggers") for path in (package / folder).glob("*.py")]
    classes = {match["name"] for path in files for match in CLASS.finditer(path.read_text(encoding="utf-8"))}
    metrics = {metric.full_name for metric in METRICS}
    return {command.name for command in COMMANDS} | (classes - ABSTRACT) | metrics | {action.name for action in ACTIONS}


def test_every_answer_says_how_it_is_known() -> None:
    """A new command, task, trigger, metric or button comes with a row of docs/reference/known.md."""
    told = {name for row in _known_rows() for name in re.findall(r"`([^`]+)`", row[0])}
    assert _answering() - told == set()


def test_how_an_answer_is_known_is_held_by_a_test() -> None:
    """Each row says how often was looked, in one of four words, and `tests/known.toml` names tests that there are."""
    rows = _known_rows()
    assert [row[0] for row in rows if row[-1] not in LOOKED_AT] == []
    files = (ROOT / "tests").rglob("test_*.py")
    there = {name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)}
    named = tomllib.loads((ROOT / "tests" / "known.toml").read_text("utf-8"))
    assert set(named) == {row[0].replace("`", "") for row in rows}
    assert [name for name, tests in named.items() if not tests or not there.issuperset(tests.split())] == []


def _shell_lines(text: str) -> Iterator[str]:
    for fence in FENCE.finditer(text):
        if fence["language"] in SHELL:
            yield from fence["code"].replace("\\\n", " ").splitlines()


def _commands(path: Path) -> list[str]:
    """Return every whole command line of a page, without the program's name."""
    text = path.read_text(encoding="utf-8")
    lines = [match["arguments"] for line in _shell_lines(text) if (match := COMMAND.match(line))]
    return lines + [match["arguments"] for match in SPAN.finditer(FENCE.sub("", text))]


def _is_incomplete(arguments: list[str]) -> bool:
    """Return whether a command is only named (`kafka-lake wave`), or cut short (`kafka-lake skip PIPELINE …`)."""
    return len(arguments) == 1 or arguments[-1] == "…"


def test_every_command_line_parses() -> None:
    """The real parser accepts every command line that a reader may copy."""
    names = {command.name for command in COMMANDS}
    parser = build_parser()
    refused = []
    for path in DOCUMENTS:
        for line in _commands(path):
            arguments = shlex.split(line, comments=True)
            try:
                _is_incomplete(arguments) or parser.parse_args(arguments)
            except (SystemExit, KafkaLakeError) as error:
                refused.append(f"{_name(path)}: {line}: {error}")
            refused += [] if arguments[0] in names else [f"{_name(path)}: {line}: no such command"]
    assert refused == []


def _blocks(path: Path, language: str) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    yield from (textwrap.dedent(fence["code"]) for fence in FENCE.finditer(text) if fence["language"] == language)


def test_every_connection_that_can_be_copied_is_taken() -> None:
    """Each is JSON as Airflow reads it from the environment; those to Kafka pass the check of their settings."""
    found = [
        json.loads(match["document"]) for path in DOCUMENTS for match in CONNECTION.finditer(path.read_text("utf-8"))
    ]
    of_kafka = [KafkaSettings.parse(connection["extra"]) for connection in found if connection["conn_type"] == "kafka"]
    assert {settings.mechanism for settings in of_kafka} >= {None, "SCRAM-SHA-512", "OAUTHBEARER"}
    assert {connection["conn_type"] for connection in found} > {"kafka", "lake", "spark", "sqlite", "postgres"}


def test_every_pipeline_file_of_a_page_is_legal(tmp_path: Path) -> None:
    """Whole files, and parts of one beside the least that a file has."""
    (tmp_path / "from.json").write_text('{"orders": {"0": 0}}')
    blocks = [block for path in DOCUMENTS for block in _blocks(path, "toml")]
    assert len(blocks) > 5
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.toml"
        missing = [f"{name}\n{line}\n" for name, line in SECTIONS.items() if name not in block]
        file.write_text("\n".join([block, *missing]), encoding="utf-8")
        assert Pipeline.from_toml(file).spec.name


QUOTING = ("holds", "move-from-available-now", "move-from-kafka-connect", "object-store", "secure")
JOINED = re.compile(r'"\s*\n\s*f?"')
"""Where a text of the code goes on in its next line."""


@pytest.mark.parametrize("page", QUOTING)
def test_messages_of_a_table_are_those_of_the_code(page: str) -> None:
    """What a reader looks up by its words is said so; `…` stands for what is another each time."""
    files = (ROOT / "airflow_kafka_lake").rglob("*.py")
    code = JOINED.sub("", "\n".join(path.read_text(encoding="utf-8") for path in files))
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    quoted = [
        part.strip(" .:,") for cell in cells for quote in re.findall(r"`([^`]+)`", cell) for part in quote.split("…")
    ]
    assert [part for part in quoted if " " in part and part not in code] == []


def test_last_line_of_a_checkpoint_is_an_offsets_file(tmp_path: Path) -> None:
    """As Spark writes it: who moves from a streaming job copies it as it is."""
    (shown,) = _blocks(ROOT / "docs" / "how-to" / "move-from-available-now.md", "text")
    (tmp_path / "from.json").write_text(shown.splitlines()[-1])
    offsets = read_offsets_file(tmp_path / "from.json")
    assert offsets == (("orders", 0, 1200), ("orders", 1, 980), ("orders", 2, 1015))


def test_the_search_for_commands_finds_them() -> None:
    """The README shows the main commands, and the pattern finds them after a prompt or a path, or with a comment."""
    assert len(_commands(ROOT / "README.md")) >= 5
    for line in ("kafka-lake run x  # why", "  $ .venv/bin/kafka-lake run x"):
        found = COMMAND.match(line)
        assert found is not None
        assert shlex.split(found["arguments"], comments=True) == ["run", "x"]


def test_examples_of_a_worker_start_it() -> None:
    """A unit of systemd and a Deployment: their command line is one of this version."""
    folder = ROOT / "docs" / "examples"
    deployment = yaml.safe_load((folder / "kafka-lake-worker.yml").read_text(encoding="utf-8"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    unit = re.findall(r"^ExecStart=(.*)$", (folder / "kafka-lake-worker@.service").read_text("utf-8"), re.MULTILINE)
    for words in (container["args"], *map(shlex.split, unit)):
        assert build_parser().parse_args(words[1:]).drain


def test_every_accepted_setting_of_a_connection_is_documented() -> None:
    """The page lists the same settings as the code."""
    text = (ROOT / "docs" / "reference" / "connections.md").read_text(encoding="utf-8")
    of_kafka = kafka_config._ALLOWED | set(kafka_config._ALIASES) | set(kafka_config._FIXED)
    allowed = of_kafka | connections._POSTGRES_OPTIONS
    assert {key for key in allowed if f"`{key}`" not in text} == set()


def test_every_command_has_its_json_on_a_page() -> None:
    """A program can look up the keys of every command's document."""
    assert {command.name for command in COMMANDS} - documented.commands() == set()


def test_documents_have_the_keys_of_the_page_and_no_others() -> None:
    """Every key that is printed is documented, and the reverse; `tests/sandbox.py` checks real commands."""
    world = World(partitions=2)
    world.produce(5)
    ports = world.worker()
    world.run()
    documents = {
        "status": reporting.status(ports, world.spec).to_json(),
        "wave": reporting.wave(world.ledger, world.ledger.waves("orders")[0].id).to_json(),
        "audit": pipeline_audit.audit(ports, world.spec).to_json(),
    }
    differences = {
        name: [*documented.undocumented(name, document), *documented.missing(name, document)]
        for name, document in documents.items()
    }
    assert differences == {"status": [], "wave": [], "audit": []}
    everything = reporting.overview(world.ledger, world.clock, lambda _: world.kafka).to_json()
    assert everything["pipelines"]
    assert documented.undocumented("status", everything) == []


def test_key_that_no_page_names_is_found() -> None:
    """Keys deep in a list, and below a known key, are found too."""
    document = {"pipeline": "orders", "streams": [{"lag": 1, "segments": [{"parents": [{"offset": 1}]}]}], "speed": 1}
    assert documented.undocumented("status", document) == ["speed", "streams[].segments[].parents[].offset"]


GLOSSARY = ROOT / "docs" / "glossary.md"


def test_glossary_defines_each_word_once_and_the_package_uses_it() -> None:
    """No word is defined twice, and the code has each of them."""
    defined = re.findall(r"^\*\*([^*]+)\*\*", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    words = [word.strip("` ") for entry in defined for word in entry.split(",")]
    assert [word for word in words if words.count(word) > 1] == []
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "airflow_kafka_lake").rglob("*.py")).lower()
    assert [word for word in words if word.lower() not in code] == []


_ROOMS = "adapters|cli|core|hooks|jobs|operators|pages|pipeline|ports|sensors|services|triggers|wiring"
MODULE = re.compile(rf"`((?:{_ROOMS})/[\w/]+)(?:\.py)?`")


def test_modules_that_a_document_names_are_there() -> None:
    """A reader who follows a document finds the file; decision records name the modules of their day."""
    package = ROOT / "airflow_kafka_lake"
    named = [
        (_name(path), module)
        for path in DOCUMENTS
        if path.parent.name != "decisions"
        for module in MODULE.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(named) > 20
    missing = [item for item in named if not (package / f"{item[1]}.py").exists() and not (package / item[1]).is_dir()]
    assert missing == []


WAY = re.compile(r"^\| [^|]+ \| `(?P<module>[\w/]+)` \| (?P<names>[^|]+) \| [^|]* \|$", re.MULTILINE)


def test_the_way_of_one_range_names_functions_that_are_there() -> None:
    """A reader who follows it finds each function and class in the file of its row."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    way = page.partition("## The way of one range")[2].partition("\n## ")[0]
    rows = list(WAY.finditer(way))
    assert len(rows) > 10
    missing = []
    for row in rows:
        code = (ROOT / "airflow_kafka_lake" / f"{row['module']}.py").read_text(encoding="utf-8")
        names = re.findall(r"`(\w+)`", row["names"])
        missing += [
            f"{row['module']}: {name}"
            for name in names
            if not re.search(rf"^(?:def|class) {name}\b", code, re.MULTILINE)
        ]
    assert missing == []
