"""All pipelines as lines of text, one each, and a change of any of them as one line."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_kafka_lake.cli.status_text import STYLES, Json, working
from airflow_kafka_lake.cli.text import BOLD, DIM, Column, Line, ago, moment, table, until, wrapped
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import age, count, span

_PIPELINE_COLUMNS = (
    Column(title="pipeline"),
    Column(title="state"),
    Column(title="to do", right=True),
    Column(title="lag", right=True),
    Column(title="behind by", rank=1),
    Column(title="running", rank=2),
    Column(title="rows", right=True, rank=4),
    Column(title="last landed", rank=3),
    Column(title="retention", rank=5),
)


def overview_lines(document: Json, width: int) -> Iterator[Line]:
    """Give all pipelines, a line each, the worst first; of columns that do not fit the least urgent are left out."""
    pipelines = document["pipelines"]
    if not pipelines:
        yield Line(f"the ledger knows no pipeline yet: begin one with {remedies.run('FILE.toml')}")
        return
    now = document["observed_at"]
    yield from wrapped(f"{count(len(pipelines), 'pipeline')}, {moment(now)}", width, style=BOLD)
    rows = [(_pipeline_cells(item, now), STYLES[item["state"]]) for item in pipelines]
    yield from table(_PIPELINE_COLUMNS, rows, width)
    yield from wrapped(f"more of one: {remedies.status('PIPELINE')}", width, indent="  ", style=DIM)


def _pipeline_cells(item: Json, now: str) -> tuple[str, ...]:
    lag = item["lag"]
    return (
        item["pipeline"],
        f"{item['state']}, paused" if item["paused"] else item["state"],
        f"{item['needs_person']:,}" if item["needs_person"] else "",
        "?" if lag is None else f"{lag:,}" if lag else "",
        age(item["behind_seconds"]) if lag else "",
        _at_work(item),
        f"{item['landed_rows']:,}" if item["landed_rows"] else "",
        ago(item["last_landed_at"], now),
        until(item["retention_deadline"], now),
    )


def _at_work(item: Json) -> str:
    waves = item["waves"]
    alive = [wave for wave in item["running"] if wave["alive"]]
    if not alive:
        return ""
    of = f"wave {waves['of_current_plans_committed'] + 1:,} of {waves['of_current_plans']:,}"
    progress, silent = alive[0]["progress"], alive[0]["silent_seconds"]
    if silent is not None:
        return f"{of}, silent for {span(silent)}"
    return of if progress is None else f"{of}, {progress['step']}"


def change_line(document: Json) -> str:
    """Return one line that says how a pipeline, or all of them, are now: for a log, a line for each change."""
    lines = document.get("pipelines") or [
        {"pipeline": document.get("pipeline"), **document.get("summary", {}), **document}
    ]
    return f"{moment(document['observed_at'])}  " + "; ".join(map(_in_short, lines))


def _in_short(item: Json) -> str:
    summary = item.get("summary", item)
    parts = [f"{item['pipeline']} {summary['state']}"]
    if summary["landed_rows"] is not None:
        parts.append(count(summary["landed_rows"], "row"))
    if summary["lag"]:
        parts.append(f"lag {summary['lag']:,}")
    if (waves := summary["waves"])["of_current_plans"]:
        parts.append(f"{waves['of_current_plans_committed']:,} of {count(waves['of_current_plans'], 'wave')} landed")
    parts += [f"{wave['wave']} {working(wave)}" for wave in item["running"][:1] if wave["alive"]]
    return ", ".join(parts)
