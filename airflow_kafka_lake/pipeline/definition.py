"""Read a pipeline from a TOML file or keywords, check it, and make a `PipelineSpec` of it.

Importing this module is cheap, because Dag files import it: heavy modules are imported where a value needs them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Never

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.errors import PipelineFileError, UsageError, nearest
from airflow_kafka_lake.core.spec import RECEIPTS_SUFFIX, TABLE_PART, PipelineSpec
from airflow_kafka_lake.pipeline.keys import KEYS, SECTIONS, IllegalValueError, Key, one_of, read_text_file, shown

MAX_FILE_BYTES = 1024 * 1024
"""A pipeline file is a page; a megabyte is another kind of file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mistake:
    section: str
    key: str | None
    found: str
    legal: str


@dataclass(frozen=True, slots=True, init=False)
class Pipeline:
    """A validated pipeline; planners, operators and the ledger read its `spec`.

    Keywords are the keys of the file (docs/reference/pipeline-file.md); None means "not given". Every mistake found is
    named in one PipelineFileError.
    """

    spec: PipelineSpec

    def __str__(self) -> str:
        """Return the name, which Airflow's page shows of a template field."""
        return self.spec.name

    def __init__(
        self,
        *,
        name: str | None = None,
        topics: Sequence[str] | None = None,
        topic_pattern: str | None = None,
        table: str | None = None,
        kafka_connection: str | None = None,
        lake_connection: str | None = None,
        spark_connection: str | None = None,
        isolation: str | None = None,
        start: str | None = None,
        end: str | None = None,
        ordering: str | None = None,
        partitioner: str | None = None,
        layout_grace: str | int | None = None,
        partition_by: str | None = None,
        target_range_bytes: str | int | None = None,
        max_wave_bytes: str | int | None = None,
        sync_group: str | None = None,
        leader_wait: str | int | None = None,
        stable_wait: str | int | None = None,
        audit_rate: str | int | None = None,
        waves_at_once: int | None = None,
        bytes_per_second: str | int | None = None,
        decode_format: str | None = None,
        decode_schema: str | None = None,
        decode_registry: str | None = None,
        decode_subject: str | None = None,
        decode_message: str | None = None,
        decode_column: str | None = None,
        decode_limit: str | int | None = None,
        **unknown: Never,
    ) -> None:
        given = {key: value for key, value in locals().items() if key in _KEYWORDS and value is not None}
        mistakes = [
            _Mistake(section="", key=name, found="an unknown keyword", legal=_known(name, list(_KEYWORDS)))
            for name in unknown
        ]
        object.__setattr__(self, "spec", _spec(given, mistakes, None))

    @classmethod
    def from_toml(cls, path: str | Path) -> Pipeline:
        """Read a pipeline file.

        A relative path is relative to the current directory, which is not the Dag's: a Dag file names one beside it as
        `Path(__file__).parent / "orders.toml"`. Raises PipelineFileError with every mistake found.
        """
        file = Path(path)
        mistakes: list[_Mistake] = []
        given = dict(_given(_parsed(file), mistakes))
        pipeline = object.__new__(cls)
        object.__setattr__(pipeline, "spec", _spec(given, mistakes, file))
        return pipeline


_DECODE = "decode_"
_KEYWORDS: Mapping[str, Key] = {key.keyword: key for key in KEYS}


def load_pipelines(folder: str | Path) -> dict[str, Pipeline | PipelineFileError]:
    """Read the `*.toml` of a folder, in the order of their names: good ones by pipeline name, bad ones by file name.

    A bad file keeps its error, which names the pipeline that it is about, and hides no other; files that give the same
    pipeline name are all errors. Subfolders, hidden files and links that lead out of the folder are ignored.
    PipelineFileError when there is no such folder.
    """
    root = Path(folder)
    try:
        named = (item for item in root.iterdir() if item.suffix == ".toml" and not item.name.startswith("."))
        files = sorted(item for item in named if item.is_file() and item.resolve().is_relative_to(root.resolve()))
    except (OSError, ValueError):
        raise PipelineFileError(
            f"{str(root)!r} is not a folder that can be read: correct [kafka_lake] pipelines_folder.", file=str(root)
        ) from None
    loaded: dict[str, Pipeline | PipelineFileError] = {}
    by_name: dict[str, list[Path]] = {}
    for file in files:
        try:
            pipeline = Pipeline.from_toml(file.absolute())
        except PipelineFileError as error:
            error.facts.setdefault("pipeline", _name_in(file))
            loaded[file.name] = error
        else:
            loaded[pipeline.spec.name] = pipeline
            by_name.setdefault(pipeline.spec.name, []).append(file)
    for name, same in by_name.items():
        if len(same) > 1:
            del loaded[name]
            names = ", ".join(each.name for each in same)
            for file in same:
                why = f"{file}: [pipeline] name: {name!r} is the name in {names}; give each file a name of its own."
                loaded[file.name] = PipelineFileError(why, file=str(file), pipeline=name)
    return loaded


def _name_in(file: Path) -> str:
    """Return the pipeline that a bad file is about: by its own name where nothing else of it can be read."""
    try:
        return str(tomllib.loads(file.read_text(encoding="utf-8"))["pipeline"]["name"])
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return file.stem


def _parsed(file: Path) -> dict[str, Any]:
    try:
        text = read_text_file(file, MAX_FILE_BYTES)
    except UsageError as error:
        beside = f'Path(__file__).parent / "{file.name}"'
        advice = (
            "" if file.is_absolute() else f" It is looked for in {Path.cwd()}; a Dag names one beside it as {beside}."
        )
        raise PipelineFileError(error.message + advice, file=str(file)) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        lines = text.split("\n")
        end = f"at line {len(lines)}, column {len(lines[-1]) + 1}, the end of the file"
        reason = str(error).replace("at end of document", end)
        raise PipelineFileError(f"{file} is not TOML: {reason}.", file=str(file)) from None
    except (ValueError, RecursionError):
        raise PipelineFileError(f"{file} is not TOML: a number or nesting beyond reason.", file=str(file)) from None


def _given(document: Mapping[str, Any], mistakes: list[_Mistake]) -> Iterator[tuple[str, object]]:
    for section, content in document.items():
        keys = {key.name: key for key in SECTIONS.get(section, ())}
        if not keys:
            found = "an unknown section" if isinstance(content, dict) else "a key outside of any section"
            mistakes.append(_Mistake(section=section, key=None, found=found, legal=_elsewhere(section, list(SECTIONS))))
        elif not isinstance(content, dict):
            legal = f"a section: [{section}] on a line of its own, keys below it"
            mistakes.append(_Mistake(section=section, key=None, found=shown(content), legal=legal))
        elif section == "decode" and not content:
            # An empty section would silently decode nothing.
            mistakes.append(_no_format())
        else:
            for name, value in content.items():
                if name in keys:
                    yield keys[name].keyword, value
                else:
                    # The value is not shown: an unknown key may well be a password.
                    legal = _elsewhere(name, list(keys))
                    mistakes.append(_Mistake(section=section, key=name, found="an unknown key", legal=legal))


def _known(word: str, words: list[str]) -> str:
    return one_of(words) + nearest(word, words)


def _elsewhere(word: str, words: list[str]) -> str:
    homes = [f"[{key.section}] {key.name}" for key in KEYS if key.name == word]
    return f"{one_of(words)}; did you mean {' or '.join(homes)}?" if homes else _known(word, words)


def _spec(given: Mapping[str, object], mistakes: list[_Mistake], file: Path | None) -> PipelineSpec:
    values: dict[str, Any] = {}
    for key in KEYS:
        if key.keyword in given:
            try:
                values[key.keyword] = key.read(given[key.keyword], file.parent if file else None)
            except IllegalValueError as error:
                found = error.found or shown(given[key.keyword])
                mistakes.append(_Mistake(section=key.section, key=key.name, found=found, legal=error.legal))
        elif key.required:
            mistakes.append(_Mistake(section=key.section, key=key.name, found="nothing", legal=key.required))
    mistakes += _decode_mistakes({key.name for key in SECTIONS["decode"] if key.keyword in given}, values)
    values = _with_decoding(values)
    mistakes += _crossed(given, values)
    if mistakes:
        raise _refusal(mistakes, file)
    return PipelineSpec(**values)


_DECODES: Mapping[Format, tuple[frozenset[str], frozenset[str]]] = {
    Format.JSON: (frozenset({"schema"}), frozenset()),
    Format.STRING: (frozenset(), frozenset({"column"})),
    Format.AVRO: (frozenset({"registry"}), frozenset({"subject"})),
    Format.PROTOBUF: (frozenset({"registry"}), frozenset({"subject", "message"})),
}
"""Format → the keys of [decode] that it needs, and the ones that it may have beside `format` and `limit`."""


def _decode_mistakes(given: AbstractSet[str], values: Mapping[str, Any]) -> Iterator[_Mistake]:
    if "format" not in given:
        if given:
            yield _no_format()
        return
    if "decode_format" not in values:
        return
    needed, further = _DECODES[values["decode_format"]]
    for name in sorted(needed - given):
        legal = f"format {values['decode_format'].value} needs it"
        yield _Mistake(section="decode", key=name, found="nothing", legal=legal)
    for name in sorted(given - needed - further - {"format", "limit"}):
        words = one_of(sorted({*needed, *further, "limit"}))
        legal = f"beside format {values['decode_format'].value}: {words}"
        yield _Mistake(section="decode", key=name, found="a key this format has no use for", legal=legal)


def _no_format() -> _Mistake:
    return _Mistake(section="decode", key="format", found="nothing", legal=one_of([item.value for item in Format]))


def _with_decoding(values: Mapping[str, Any]) -> dict[str, Any]:
    """Gather the keys of [decode] into one value."""
    mine = {name.removeprefix(_DECODE): value for name, value in values.items() if name.startswith(_DECODE)}
    rest = {name: value for name, value in values.items() if not name.startswith(_DECODE)}
    return {**rest, "decoding": Decoding(**mine)} if "format" in mine else rest


def _crossed(given: Mapping[str, object], values: Mapping[str, Any]) -> Iterator[_Mistake]:
    """Check the keys together: values that do not go with each other."""
    if ("topics" in given) == ("topic_pattern" in given):
        found = "both topics and topic_pattern" if "topics" in given else "neither topics nor topic_pattern"
        yield _Mistake(section="source", key="topics", found=found, legal="one of the two")
    spec = PipelineSpec(**{"name": "", "table": "", **values})
    if spec.target_range_bytes > spec.max_wave_bytes:
        found = f"{count(spec.target_range_bytes, 'byte')}, above max_wave_bytes ({spec.max_wave_bytes:,})"
        yield _Mistake(section="sizes", key="target_range_bytes", found=found, legal="at most max_wave_bytes")
    legal = f"a table of its own name, at most 128 characters, not ending in {RECEIPTS_SUFFIX}"
    for topic in spec.topics if "{topic}" in spec.table else ():
        table = spec.table_for(topic)
        if not all(map(TABLE_PART.fullmatch, table.split("."))) or table.lower().endswith(RECEIPTS_SUFFIX):
            found = f"topic {topic!r} would land in {shown(table)}"
            yield _Mistake(section="lake", key="table", found=found, legal=legal)
    if spec.sync_group is not None and spec.sync_group in (spec.start.group, spec.end.group):
        legal = "a group that no policy asks: it would follow itself"
        yield _Mistake(section="source", key="sync_group", found=shown(spec.sync_group), legal=legal)
    for key, policy in (("start", spec.start), ("end", spec.end)):
        if foreign := sorted({topic for topic, _, _ in policy.offsets if not spec.reads(topic)}):
            found = f"a file that names {', '.join(foreign[:3])}"
            yield _Mistake(section="source", key=key, found=found, legal="offsets of this pipeline's topics")


def _refusal(mistakes: Sequence[_Mistake], file: Path | None) -> PipelineFileError:
    where = str(file) if file else "Pipeline(...)"
    lines = [f"{_place(item, file)}: found {item.found}; legal: {item.legal}" for item in mistakes]
    text = f"{where}: {lines[0]}" if len(lines) == 1 else "\n  ".join([f"{where} has {len(lines)} mistakes:", *lines])
    return PipelineFileError(text, file=where, problems=[asdict(item) for item in mistakes])


def _place(item: _Mistake, file: Path | None) -> str:
    if file is None:
        keyword = next((k.keyword for k in KEYS if (k.section, k.name) == (item.section, item.key)), item.key)
        return f"{_plain(keyword or '')}="
    return f"[{_plain(item.section)}] {_plain(item.key)}" if item.key else f"[{_plain(item.section)}]"


def _plain(word: str) -> str:
    return word if word.isprintable() and len(word) <= 60 else shown(word)
