"""The page of one pipeline: how far it is, what blocks it, what runs, and where every offset is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.features.pages.attention import attention_of
from airflow_kafka_lake.features.pages.buttons import Button, cancel, decisions, pause, release, retry
from airflow_kafka_lake.features.pages.grouping import QUIET, Topic, counts_of, kind_of, topics_of
from airflow_kafka_lake.features.pages.progress import Bar, bar_of, silence_of
from airflow_kafka_lake.features.pages.rendering import Json
from airflow_kafka_lake.features.pages.site import BUSY, IDLE, draw
from airflow_kafka_lake.features.pages.summary import Banner, facts_of
from airflow_kafka_lake.features.pages.timeline import MEANINGS, timeline_of
from airflow_kafka_lake.features.pages.web.visitor import Visitor

RUNNING_WAVES, WAITING_WAVES, LANDED_WAVES = 50, 20, 5
"""How many waves are listed that run, that wait, and that have landed last."""

NEEDS = 50
"""How many things are listed that need a person; of more, how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLine:
    """One wave in a list: how far it is where an attempt works on it, else what it waits for."""

    wave: Json
    kind: str
    label: str
    bar: Bar | None = None
    note: str = ""
    since: str | None = None
    buttons: tuple[Button, ...] = ()


def pipeline_page(visitor: Visitor, document: Json) -> str:
    """Draw `status --json` of one pipeline."""
    name, topics = document["pipeline"], topics_of(document)
    running = document["running"]
    waiting = [wave for wave in document["waves"] if wave["state"] in {"PLANNED", "CANCELLED"}]
    landed = [wave for wave in document["waves"] if wave["state"] == "COMMITTED"][-LANDED_WAVES:]
    return draw(
        "pipeline.html",
        visitor,
        poll=BUSY if running else IDLE,
        observed_at=document["observed_at"],
        document=document,
        counts=[(state, kind_of(state), count) for state, count in counts_of(document["groups"]).items()],
        facts=facts_of(document["summary"]),
        banners=tuple(banners_of(document)),
        needs=attention_of(document, visitor, NEEDS),
        more_needs=len(document["needs_person"][NEEDS:]),
        waves=[
            wave_line(wave, name, visitor)
            for wave in (*running[:RUNNING_WAVES], *waiting[:WAITING_WAVES], *reversed(landed))
        ],
        more_waves=len(running[RUNNING_WAVES:]) + len(waiting[WAITING_WAVES:]),
        topics=topics,
        worst=_worst(topics),
        timeline=timeline_of,
        meanings=MEANINGS.items(),
        ordered=any(segment["parents"] for stream in document["streams"] for segment in stream["segments"]),
        decisions=tuple(decisions(name, tuple(dict.fromkeys(topic.topic for topic in topics)), visitor)),
        paused=document["summary"]["paused"],
        pause=pause(name, visitor) if visitor.may_decide and not document["summary"]["paused"] else None,
        status_command=str(remedies.status(name)),
        listed=len(document["streams"]),
        plan_command=str(remedies.plan(name)),
    )


def wave_line(wave: Json, pipeline: str, visitor: Visitor) -> WaveLine:
    """Return a wave of a list, with the buttons for who may decide about it."""
    line = _line(wave)
    return replace(line, buttons=tuple(_buttons(line, pipeline, visitor))) if visitor.may_decide else line


def _line(wave: Json) -> WaveLine:
    since = wave.get("started_at")
    match wave["state"]:
        case "PLANNED":
            return WaveLine(
                wave=wave,
                kind="behind",
                label="planned",
                note="waits for a resume" if wave.get("paused") else "waits for its turn",
            )
        case "CANCELLED":
            return WaveLine(wave=wave, kind="blocked", label="cancelled", note="waits for a release")
        case "COMMITTED":
            rows = "" if wave["rows"] is None else count(wave["rows"], "row")
            return WaveLine(wave=wave, kind="up-to-date", label="landed", note=rows, since=wave["committed_at"])
        case "DISSOLVED":
            return WaveLine(wave=wave, kind="gone", label="dissolved", note="its ranges went elsewhere")
        case state if wave["alive"]:
            bar, note = bar_of(wave.get("progress")), silence_of(wave)
            kind, label = ("waiting", "silent") if note else ("running", state.lower())
            return WaveLine(wave=wave, kind=kind, label=label, bar=bar, note=note, since=since)
        case _:
            note = "its worker gives no sign of life: the next run or worker takes it up"
            return WaveLine(wave=wave, kind="waiting", label="interrupted", note=note, since=since)


def _buttons(line: WaveLine, pipeline: str, visitor: Visitor) -> Iterator[Button]:
    name = line.wave["wave"]
    if line.label == "cancelled":
        yield release(pipeline, name, visitor)
    if line.label == "interrupted":
        yield retry(pipeline, name, visitor)
    if line.kind in {"behind", "running", "waiting"}:
        yield cancel(pipeline, name, visitor, ranges=line.wave["ranges"])


def banners_of(document: Json) -> Iterator[Banner]:
    """Give what holds for the whole page: without Kafka, only what the ledger has recorded is known."""
    state = document["summary"]["lag_state"]
    if state.startswith("unknown"):
        yield Banner(
            title="Kafka did not answer",
            lines=(
                state.removeprefix("unknown: "),
                "What has landed, is planned or on hold is as the ledger has it, which does not need Kafka.",
                "What came since, and so lag and age, is not known until Kafka answers. This page asks again.",
            ),
        )
    if new := document["summary"]["new_partitions"]:
        yield Banner(
            title=f"Kafka has {count(new, 'partition')} that no plan has seen",
            lines=("The next plan finds them.",),
            kind="calm",
        )


def _worst(topics: tuple[Topic, ...]) -> str | None:
    """Return the id of the row that a person should look at first."""
    for topic in topics:
        for group in topic.groups:
            if group.state not in QUIET and group.streams:
                first = group.streams[0]
                return f"s-{first['topic']}-{first['topic_id']}-{first['partition']}"
    return None
