"""The pages of the web interface: what each says of the documents of the real services, to whom."""

from __future__ import annotations

import json
import re
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_kafka_lake.core.amounts import moment
from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.ledger import history
from airflow_kafka_lake.core.ledger.attempts import EndAttempt, RecordJob, Renew
from airflow_kafka_lake.core.ledger.guards import LEASE
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, WaveState
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.ordering.segments import Graph, SegmentOrder
from airflow_kafka_lake.core.reports.progress import Progress, Step
from airflow_kafka_lake.core.reports.status import EventList, Overview, PipelineReport, groups_of
from airflow_kafka_lake.core.reports.streams import WORST_FIRST, StreamState, UnknownState
from airflow_kafka_lake.pages.charts import segments_page, segments_svg
from airflow_kafka_lake.pages.pipeline import (
    NEEDS,
    SHOWN,
    WAITING_WAVES,
    history_page,
    kind_of,
    overview_page,
    pipeline_page,
    wave_page,
    waves_page,
)
from airflow_kafka_lake.pages.rendering import (
    Visitor,
    missing,
    number,
    refusal_page,
    static_text,
    visible,
)
from airflow_kafka_lake.services import (
    claims,
    decisions,
    reporting,
    staging,
)
from tests.reading_html import Element, handlers, ids, read
from tests.world import SPEC, World, in_state, with_progress

pytestmark = pytest.mark.unit

EVIL = "<script>alert('x')</script>\"onload=\"\x1b[31m\u202e"
LOOKS = Visitor(base="/airflow/kafka-lake", name="ann", csrf="t0ken", ledger="kafka_lake_ledger")
DECIDES = replace(LOOKS, may_decide=True)


def status(world: World) -> PipelineReport:
    """Return what the page of a pipeline is drawn from."""
    return reporting.status(world.worker(), world.spec)


def overview(world: World) -> Overview:
    """Return what the page of all pipelines is drawn from."""
    return reporting.overview(world.ledger, world.clock, lambda _: world.kafka)


def acts(page: Element) -> list[dict[str, Any]]:
    """Return what the buttons of a page would send, in their order."""
    found = (item.attributes.get("data-act") for item in page.all("button"))
    return [json.loads(text) for text in found if text]


def rows(page: Element) -> list[str]:
    """Return the partitions of a map in the order in which they are seen."""
    return [
        str(item.attributes["data-key"]) for item in page.all("li", class_="stream") if "data-kind" in item.attributes
    ]


def timelines(page: Element) -> list[list[str]]:
    """Return of each drawing which status its boxes have."""
    marks = {"watermark", "sealed"}
    return [
        [kind for box in item.all("rect") if (kind := str(box.attributes["class"])) not in marks]
        for item in page.all("svg", class_="timeline")
    ]


def many(report: PipelineReport, states: list[StreamState]) -> PipelineReport:
    """Return a status with one partition for each of these states."""
    (one,) = report.streams
    streams = tuple(in_state(one, number, state) for number, state in enumerate(states))
    return replace(report, streams=streams, groups=tuple(groups_of(streams)))


@pytest.fixture
def world() -> World:
    """A simulation with a topic of one partition."""
    return World()


@pytest.fixture
def landed(world: World) -> World:
    """Five committed offsets, one of them a marker."""
    world.produce(2)
    world.produce(2, transaction="t")
    world.end("t")
    world.run()
    return world


def test_page_of_a_pipeline_says_how_far_it_is(landed: World) -> None:
    """Landed, lag, age, what needs a person, deadline, and what runs; then where every offset is."""
    landed.produce(3)
    page = read(pipeline_page(LOOKS, status(landed)))
    facts = {
        item.one("dt").text: item.one("dd").text
        for item in page.one("dl", class_="facts").parts
        if isinstance(item, Element)
    }
    assert list(facts) == ["landed", "lag", "behind by", "needs a person", "kept by Kafka at least until", "running"]
    assert facts["landed"].startswith("4 rows last at ")
    assert facts["lag"] == "3 offsets to read"
    assert facts["behind by"].startswith("under ")
    assert facts["needs a person"] == "0 nothing is blocked"
    assert rows(page) == ["orders/0"]
    assert timelines(page) == [["committed", "unread"]]
    assert page.one("li", data_key="orders/0").one("svg").attributes["aria-label"] == (
        "partition 0, offsets 0 to 8: 5 landed, 3 unread"
    )


def test_page_says_what_the_values_are_decoded_as(landed: World) -> None:
    """In the words of the pipeline file; of one that decodes nothing, nothing."""
    words = "values are decoded as json, id BIGINT"
    assert words not in pipeline_page(LOOKS, status(landed))
    landed.with_spec(decoding=Decoding(format=Format.JSON, schema="id BIGINT"))
    assert words in pipeline_page(LOOKS, status(landed))


def test_page_tells_nothing_left_from_not_known(landed: World) -> None:
    """Where all is read nothing is behind; where Kafka does not answer the page says that, and no number."""

    def facts() -> dict[str, str]:
        page = read(pipeline_page(LOOKS, status(landed)))
        parts = [item for item in page.one("dl", class_="facts").parts if isinstance(item, Element)]
        return {item.one("dt").text: item.one("dd").text for item in parts}

    assert (facts()["lag"], facts()["behind by"]) == ("0 offsets to read", "nothing everything is read")
    landed.kafka.down = True
    assert facts()["lag"] == "not known Kafka did not answer"
    assert "offsets to read" not in facts()["lag"]


def test_age_is_said_to_be_the_least_that_it_may_be(landed: World) -> None:
    """As on the command line: Kafka was asked about some ages, and the record is older than one of them."""
    landed.produce(3)
    landed.clock.advance(timedelta(hours=3))
    page = read(pipeline_page(LOOKS, status(landed)))
    row = page.one("li", data_key="orders/0")
    for shown in (page.one("dl", class_="facts"), row):
        assert re.search(r"over \d+ h", shown.text), shown.text


def test_pages_load_from_themselves_alone(landed: World) -> None:
    """One style sheet and one script, below the base path, named by what is in them; nothing runs or styles inline."""
    for html in (pipeline_page(DECIDES, status(landed)), overview_page(LOOKS, overview(landed))):
        page = read(html)
        loaded = [
            item.attributes.get("href") or item.attributes.get("src") for item in page.all("link") + page.all("script")
        ]
        assert all(
            str(address).startswith("/airflow/kafka-lake/static/page.") for address in loaded if address != "data:,"
        )
        assert all(script.parts == [] for script in page.all("script"))
        assert handlers(page) == set()
        assert page.all("style") == []
        assert len(ids(page)) == len(set(ids(page)))


def test_addresses_keep_the_ledger_that_is_not_the_usual_one(landed: World) -> None:
    """A user who follows a link stays where he was."""
    page = read(overview_page(replace(LOOKS, ledger="other"), overview(landed)))
    assert (
        page.one("li", data_key="orders").one("a").attributes["href"]
        == "/airflow/kafka-lake/pipelines/orders?ledger=other"
    )


def test_hold_is_said_in_words_with_its_remedies_as_buttons(landed: World) -> None:
    """The sentence with its commands; to who may decide, what each does in numbers before it is done."""
    landed.produce(4)
    wave = landed.planned_wave()
    decisions.cancel(landed.worker(), wave, EVIL)
    page = read(pipeline_page(DECIDES, status(landed)))
    need = page.one("div", class_="need")
    assert "orders/0 5-9 is cancelled" in need.text
    assert [item.text for item in need.all("code")] == [f"kafka-lake release {landed.ledger.ranges(wave=wave)[0].id}"]
    (button,) = acts(need)
    assert button["url"] == "/airflow/kafka-lake/api/pipelines/orders/release"
    assert button["body"] == {"subject": landed.ledger.ranges(wave=wave)[0].id}
    assert timelines(page) == [["committed", "held"]]
    assert page.one("li", data_key="orders/0").has(class_="bad")


def test_skip_says_how_many_offsets_before_it_is_confirmed(world: World) -> None:
    """What retention took: the command's own arguments, in the form that the server takes."""
    world.produce(6)
    world.plan()
    world.retain_from(4)
    world.run()
    page = read(pipeline_page(DECIDES, status(world)))
    (skip,) = [item for item in acts(page) if item["command"] == "skip" and item["body"]]
    assert skip["label"] == "Skip 4 offsets of orders/0"
    assert (skip["asks"], skip["consequences"][0]) == (
        "4 offsets of orders/0, 0 to 4.",
        "They will not be in the table. The watermark passes them with the next run.",
    )
    assert skip["body"] == {"topic": "orders", "from": "0", "to": "4", "partitions": [0]}
    assert skip["grave"]


def test_who_may_not_decide_sees_no_button(landed: World) -> None:
    """The words and the commands stay."""
    landed.produce(4)
    decisions.cancel(landed.worker(), landed.planned_wave(), "why")
    document = status(landed)
    looks = read(pipeline_page(LOOKS, document))
    assert acts(looks) == []
    assert acts(read(pipeline_page(DECIDES, document))) != []
    assert "kafka-lake release" in looks.one("div", class_="need").text


def test_wave_that_runs_is_shown_with_its_progress(world: World) -> None:
    """First of all waves, with a bar, and a button that stops it."""
    world.produce(3)
    wave = world.planned_wave()
    claims.claim_wave(world.worker(), wave)
    begun = world.clock.now()
    progress = Progress(
        step=Step.READ,
        rows=1_500,
        rows_expected=6_000,
        bytes=10**6,
        bytes_expected=4 * 10**6,
        since=begun,
        at=begun + timedelta(seconds=5),
    )
    report = with_progress(status(world), progress)
    page = read(pipeline_page(DECIDES, report))
    line = page.one("tr", data_key=f"wave {wave}")
    assert line.one("div", class_="progress").text == (
        "reading 25 %: 1,500 rows of 6,000 offsets, about 1.0 MB of 4.0 MB, 200.0 kB/s, about 15 s left"
    )
    assert line.one("rect").attributes["width"] == "25.0%"
    assert [item["command"] for item in acts(line)] == ["cancel"]
    assert page.one("body").attributes["data-poll"] == "2"
    assert timelines(page) == [["running"]]


def test_bar_is_empty_and_has_no_number_before_something_was_counted(world: World) -> None:
    """A short wave ends before the first count: "0 %" would be wrong until its end."""
    world.produce(3)
    claims.claim_wave(world.worker(), world.planned_wave())
    progress = Progress(step=Step.READ, rows_expected=6_000, bytes_expected=4 * 10**6)
    report, every = with_progress(status(world), progress), overview(world)
    every = replace(every, pipelines=tuple(with_progress(item, progress) for item in every.pipelines))
    bar = read(pipeline_page(LOOKS, report)).one("tr", data_key="wave").one("div", class_="progress")
    assert bar.text == "reading 6,000 offsets, about 4.0 MB in Kafka"
    assert bar.one("rect").attributes["width"] == "0%"
    assert read(overview_page(LOOKS, every)).one("div", class_="progress").text == "reading"


def test_worker_that_gives_no_sign_is_said_to_be_silent_before_its_lease_ends(world: World) -> None:
    """On every page that shows the wave: for how long, and when another may take it over; how fast it was is past."""
    world.produce(3)
    wave = world.planned_wave()
    claim = claims.claim_wave(world.worker(), wave)
    world.clock.advance(timedelta(seconds=10))
    progress = Progress(step=Step.READ, rows=1, rows_expected=3)
    world.ledger.commit(Renew(key=claim.key, lease=LEASE, progress=progress))
    world.clock.advance(timedelta(seconds=40))
    takeover = "another worker can take it over in 1 min 20 s, on its own host at once if it is dead"
    silent = f"no sign of life for 40 s; {takeover}"
    page = read(pipeline_page(DECIDES, status(world)))
    assert "running: a worker has it" in page.one("ul", class_="legend").text
    assert "running 0 waves 1 silent; 0 of 1 wave of open plans landed" in page.one("dl", class_="facts").text
    line = page.one("tr", data_key=f"wave {wave}")
    assert f"{wave} silent reading 33 %: 1 row of 3 offsets {silent}" in line.text
    assert [item["command"] for item in acts(line)] == ["cancel"]
    assert read(overview_page(LOOKS, overview(world))).one("div", class_="progress").text == silent
    assert silent in read(wave_page(LOOKS, reporting.wave(world.ledger, wave))).text
    world.clock.advance(LEASE)
    gone = read(wave_page(LOOKS, reporting.wave(world.ledger, wave)))
    assert (gone.one("h1").text, gone.all("div", class_="progress")) == (f"Wave {wave}", [])
    assert "interrupted" in gone.text


def test_wave_keeps_what_its_attempts_took_and_for_whom(world: World) -> None:
    """Seconds, rows, rate, bytes and Spark's application, with links back to the task and the run of Airflow."""
    world.produce(8)
    wave = world.planned_wave()
    run = "manual__2026-03-01T07:00:00+00:00"
    task = replace(world.worker(), actor=history.task("kafka_lake.a-b", run, "kafka_lake.ingest", 3))
    claim = claims.claim_wave(task, wave)
    world.ledger.commit(RecordJob(key=claim.key, job="here/1/2", application="local-17"))
    world.clock.advance(timedelta(seconds=4))
    world.ledger.commit(EndAttempt(key=claim.key, outcome=AttemptOutcome.FAILED, error="it died"))
    staging.ingest(replace(task, actor="ann"), wave)
    report = reporting.wave(world.ledger, wave)
    failed, landed = report.attempts
    assert (failed.application, failed.seconds, landed.actor) == ("local-17", 4.0, "ann")
    landed = replace(landed, ended_at=landed.started_at + timedelta(seconds=2))
    page = read(wave_page(LOOKS, replace(report, attempts=(failed, landed))))
    line = page.one("tr", data_key=f"attempt {failed.attempt}")
    assert "4.0 s it died by kafka_lake.ingest 3 of kafka_lake.a-b, " + run in line.text
    assert "Spark local-17 here/1/2" in line.text
    path = "/airflow/dags/kafka_lake.a-b/runs/manual__2026-03-01T07%3A00%3A00%2B00%3A00"
    links = [item.attributes["href"] for item in line.all("a")]
    assert links == [f"{path}/tasks/kafka_lake.ingest/mapped/3", path]
    assert all("data-airflow" in item.attributes for item in line.all("a")), "Airflow would open inside Airflow"
    last = page.one("tr", data_key=f"attempt {landed.attempt}").text
    assert f"landed {moment(landed.started_at)} 2.0 s, 8 rows, 4 rows per second" in last
    assert "written by ann" in last


def test_wave_that_was_tried_in_vain_does_not_just_wait_for_its_turn(world: World) -> None:
    """The page of the pipeline says how often it was tried; an error of thousands of characters is folded."""
    world.produce(3)
    wave = world.planned_wave()
    assert "waits for its turn" in read(pipeline_page(LOOKS, status(world))).text
    for error in ("it died", "x" * 2000):
        key = claims.claim_wave(world.worker(), wave).key
        world.ledger.commit(EndAttempt(key=key, outcome=AttemptOutcome.FAILED, error=error))
    page = read(pipeline_page(LOOKS, status(world))).one("tr", data_key=f"wave {wave}")
    assert "not landed yet: waits for the next run" in page.text
    folded = read(wave_page(LOOKS, reporting.wave(world.ledger, wave))).one("details")
    assert (folded.one("summary").text, folded.one("pre").text) == ("x" * 300 + " …", "x" * 2000)


def test_wave_whose_worker_is_gone_can_be_retried(world: World) -> None:
    """It is said to be interrupted, and the page does not say that it runs."""
    world.produce(3)
    wave = world.planned_wave()
    claims.claim_wave(world.worker(), wave)
    world.lease_ends()
    page = read(pipeline_page(DECIDES, status(world)))
    assert "interrupted its worker gives no sign" in page.text
    assert [item["command"] for item in acts(page.one("div", class_="need"))] == ["retry"]


def test_what_is_listed_has_an_end(landed: World) -> None:
    """A thousand holds are counted, and a thousand waves; the first of them are shown."""
    landed.produce(4)
    decisions.cancel(landed.worker(), landed.planned_wave(), "why")
    report = status(landed)
    recorded = report.facts.recorded
    waves = [replace(recorded.waves[-1], id=f"w{n}", state=WaveState.PLANNED) for n in range(1000)]
    report = replace(
        report,
        needs=tuple(replace(item, subject=str(n)) for item in report.needs for n in range(1000)),
        facts=replace(report.facts, recorded=replace(recorded, waves=waves)),
    )
    page = read(pipeline_page(DECIDES, report))
    assert len(page.all("div", class_="need")) == NEEDS
    assert "… and 950 more: kafka-lake status orders has all of them" in page.text
    assert len([item for item in page.all("tr") if "data-key" in item.attributes]) == WAITING_WAVES
    assert "… and 980 more that run or wait." in page.text


def test_pause_is_said_and_ended_by_a_button(landed: World) -> None:
    """Who paused it, and why; then the page offers to resume, and no second pause."""
    commands = [item["command"] for item in acts(read(pipeline_page(DECIDES, status(landed))))]
    assert commands == ["pause", "skip", "reopen", "withdraw"]
    decisions.pause(landed.worker(), decisions.PauseSubject(pipeline="orders"), EVIL)
    page = read(pipeline_page(DECIDES, status(landed)))
    assert [item["command"] for item in acts(page)] == ["resume", "skip", "reopen", "withdraw"]
    assert acts(page)[0]["body"] == {}
    assert "is paused since" in page.one("div", class_="need").text
    assert [item.text for item in page.all("span", class_="paused")] == ["paused"]


def test_partitions_are_seen_worst_first_and_the_quiet_ones_in_one_row(landed: World) -> None:
    """Of two thousand a person sees those that need one."""
    others = [StreamState.BLOCKED, StreamState.LOST, StreamState.UNKNOWN, StreamState.WAITING, StreamState.GONE]
    states = [StreamState.UP_TO_DATE] * 1900 + [StreamState.BEHIND] * (SHOWN + 7) + others
    page = read(pipeline_page(LOOKS, many(status(landed), states)))
    folds = {str(item.attributes["data-fold"]): item for item in page.all("li") if "data-fold" in item.attributes}
    assert {kind: item.one("summary").text for kind, item in folds.items()} == {
        "behind": "7 more partitions: behind",
        "up-to-date": "1,900 partitions: up to date",
    }
    seen = [
        str(item.attributes["data-kind"]) for item in page.all("li", class_="stream") if "data-kind" in item.attributes
    ]
    order = {kind_of(state): rank for rank, state in enumerate(WORST_FIRST)}
    assert [order[kind] for kind in seen] == sorted(order[kind] for kind in seen)
    assert len(seen) == len(states)
    assert len(html := pipeline_page(LOOKS, many(status(landed), states))) < 1_500_000, len(html)
    (jump,) = [item for item in page.all("a") if item.text == "Go to the worst"]
    assert jump.attributes["href"] == f"#{page.all('li', data_kind='blocked')[0].attributes['id']}"


def test_page_of_more_partitions_than_it_lists_counts_all() -> None:
    """Of all topics together the worst are listed, and a command lists the rest."""
    world = World(partitions=3, spec=replace(SPEC, topics=("orders", "payments")))
    world.create("payments")
    world.run()
    world.produce(1, 1)
    document = reporting.status(world.worker(), world.spec, most=2)
    page = read(pipeline_page(LOOKS, document))
    rows = [str(item.attributes["data-key"]) for item in page.all("li", class_="stream") if "id" in item.attributes]
    assert rows == ["orders/1", "orders/0"]
    assert "1 behind" in page.text
    assert "2 up to date" in page.text
    assert (
        "The 2 partitions to look at first are listed, and 2 more are not: kafka-lake status orders --all" in page.text
    )
    assert "are listed" not in read(pipeline_page(LOOKS, status(world))).text


def test_without_kafka_it_is_said_what_the_ledger_has(landed: World) -> None:
    """Not a zero: what is not known is said not to be known, and why."""
    landed.kafka.down = True
    document = status(landed)
    page = read(pipeline_page(LOOKS, document))
    banner = page.one("div", class_="banner").text
    assert "Kafka did not answer" in banner
    assert "as the ledger has it" in banner
    assert "not known" in page.one("dl", class_="facts").text
    assert timelines(page) == [["committed"]]


def test_pipeline_without_a_partition_says_how_to_begin(world: World) -> None:
    """The page of a pipeline that was never planned."""
    document = status(world)
    assert "kafka-lake plan orders" in read(pipeline_page(DECIDES, document)).text


def test_overview_has_a_row_for_each_pipeline(landed: World) -> None:
    """Its state in a word, its offsets as a drawing, and its numbers."""
    landed.produce(2)
    page = read(overview_page(LOOKS, overview(landed)))
    row = page.one("li", data_key="orders")
    assert row.has(data_kind="behind")
    assert row.one("a").attributes["href"] == "/airflow/kafka-lake/pipelines/orders"
    assert timelines(row) == [["committed", "unread"]]
    assert row.one("svg").attributes["aria-label"] == "offsets of orders: 5 landed, 2 unread"
    assert acts(page) == []


def test_empty_overview_says_how_to_begin() -> None:
    """And that others' pipelines are not shown."""
    text = read(overview_page(LOOKS, overview(World()))).text
    assert "kafka-lake plan FILE.toml" in text
    assert "may not see" in text
    assert "On the page of a Dag are only those that it has planned itself" in text


def test_page_of_a_wave_accounts_for_every_offset(landed: World) -> None:
    """Rows, markers and all the rest in numbers, and each attempt."""
    wave = landed.ledger.waves("orders")[0].id
    page = read(wave_page(LOOKS, reporting.wave(landed.ledger, wave)))
    assert page.one("svg", class_="timeline").attributes["aria-label"] == "offsets of this wave: 4 visible, 1 control"
    assert "4 rows in the table" in page.text
    assert "0 unexplained" in page.text
    (attempt,) = [item for item in page.all("tr") if str(item.attributes.get("data-key")).startswith("attempt ")]
    assert "landed" in attempt.text


def test_list_of_waves_leads_to_the_older_ones(landed: World) -> None:
    """A page at a time."""
    page = read(waves_page(LOOKS, "orders", landed.ledger.waves("orders"), 301, skip=100, limit=100))
    assert {item.text: item.attributes["href"] for item in page.all("a", class_="button")} == {
        "Newer": "/airflow/kafka-lake/pipelines/orders/waves?skip=0&limit=100",
        "Older": "/airflow/kafka-lake/pipelines/orders/waves?skip=200&limit=100",
    }


def test_history_names_who_decided_what() -> None:
    """Actors and reasons come from strangers, and stay text."""
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    line = history.Event(sequence=7, at=at, actor=EVIL, kind="CANCELLED", subject=EVIL, detail=EVIL)
    html = history_page(LOOKS, EventList(pipeline="orders", events=(line,)))
    page = read(html)
    assert page.text.count("<script>alert('x')</script>") == 3
    assert len(page.all("script")) == 1
    assert "\x1b" not in html


def test_segments_show_what_waits_for_what(world: World) -> None:
    """One layout waits for nothing; with more, the graph and the sentences."""
    world.produce(2)
    world.run()
    order = reporting.segments(world.ledger, world.spec)
    assert "nothing waits for anything" in read(segments_page(LOOKS, order)).text
    (root,) = order.graph
    child = replace(root, start=9, parents=frozenset({root.key}))
    root = replace(root, seal=9, sealed=True)
    grown = SegmentOrder("orders", Graph((root, child)), world.ledger.streams("orders"), ())
    page = read(segments_page(LOOKS, grown))
    assert len(page.one("svg", class_="graph").all("g")) == 2
    assert "orders/0 from 0 to its seal 9 has 7 open offsets" in page.one("div", class_="need").text
    alone = read(segments_svg(SegmentOrder(EVIL, grown.graph, world.ledger.streams("orders"), ())))
    assert len(alone.all("g")) == 2
    assert len(alone.all("style")) == 1
    assert alone.all("script") == []


def test_what_strangers_wrote_stays_text_on_every_page(landed: World) -> None:
    """Topics, tables, reasons, errors: none becomes an element, an attribute or a script."""
    landed.produce(2)
    decisions.cancel(landed.worker(), landed.planned_wave(), "why")
    every = replace(overview(landed), pipelines=(_written(overview(landed).pipelines[0]),))
    for html in (pipeline_page(DECIDES, _written(status(landed))), overview_page(DECIDES, every)):
        page = read(html)
        assert [item.attributes.get("src") for item in page.all("script")] != []
        assert len(page.all("script")) == 1
        assert handlers(page) == set()
        assert "<script>alert('x')</script>" in page.text
        assert "\x1b" not in html
        assert "\u202e" not in html


def _written(report: PipelineReport) -> PipelineReport:
    """Return a report in which strangers have written every name and reason."""
    recorded = report.facts.recorded
    spec = copy(recorded.spec)
    object.__setattr__(spec, "name", EVIL)
    waves = [replace(item, id=EVIL, table=EVIL, pipeline=EVIL) for item in recorded.waves]
    streams = [
        replace(item, record=replace(item.record, key=Stream(EVIL, EVIL, 0)), bounds_state=EVIL)
        for item in report.streams
    ]
    summary = replace(report.summary, lag_state=UnknownState(EVIL), behind_state=EVIL, retention_deadline_state=EVIL)
    return replace(
        report,
        facts=replace(report.facts, recorded=replace(recorded, spec=spec, waves=waves)),
        tables=(EVIL,),
        summary=summary,
        needs=tuple(replace(item, text=EVIL, subject=EVIL) for item in report.needs),
        streams=tuple(streams),
        groups=tuple(groups_of(streams)),
    )


def test_refusal_says_what_happened_and_what_it_means() -> None:
    """Words of a database or of a person stay text."""
    page = read(refusal_page("/airflow/kafka-lake", 503, f"no answer {EVIL}"))
    assert page.one("h1").text == "Something does not answer"
    assert "nothing that has landed is in doubt" in page.text
    assert len(page.all("script")) == 1


def test_page_without_a_ledger_says_how_to_begin() -> None:
    """Which command makes one, which Dag to start; it is no failure of anything."""
    page = read(refusal_page("/kafka-lake", 503, missing().message, no_ledger=True))
    assert page.one("h1").text == "There is no ledger yet"
    for words in ("kafka-lake db upgrade", "kafka-lake plan FILE.toml", "kafka_lake_manual", "kafka_lake_ingest"):
        assert words in page.text
    assert "does not answer" not in page.text


def test_values_are_written_for_people() -> None:
    """Numbers in groups, times to the second, nothing for what is not there, and what cannot be seen by its code."""
    assert (number(1234567), number(None), number(None, "–")) == ("1,234,567", "not known", "–")
    assert moment(datetime(2026, 3, 1, 12, 0, 1, 123_000, tzinfo=UTC)) == "2026-03-01 12:00:01 UTC"
    assert visible(None) == ""
    assert visible("a\x00b\nc") == "a\\x00b\nc"


def test_style_and_script_load_nothing_from_elsewhere() -> None:
    """No address in them, and no way to make markup from text in the script."""
    for name in ("page.css", "page.js"):
        assert "://" not in static_text(name)
        assert "@import" not in static_text(name)
    script = static_text("page.js")
    assert not [
        word for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(") if word in script
    ]


TEXT = [("ink", "page"), ("ink", "card"), ("ink", "raised"), ("faint", "page"), ("faint", "card"), ("faint", "raised")]
COLOURED = [("accent", "card"), ("accent", "accent-back"), ("bad", "card"), ("bad", "page")]
PILLS = [(name, f"{name}-back") for name in ("good", "warn", "bad")]


@pytest.mark.parametrize(("text", "back"), [*TEXT, *COLOURED, *PILLS], ids="-on-".join)
def test_words_stand_out_from_what_is_behind_them(text: str, back: str) -> None:
    """A contrast of 4.5 to 1, light and dark (WCAG 2, level AA)."""
    colours = {
        name: pair.split(", ")
        for name, pair in re.findall(r"--([\w-]+): light-dark\(([^)]+)\)", static_text("page.css"))
    }
    for one, other in zip(colours[text], colours[back], strict=True):
        darker, lighter = sorted((_luminance(one), _luminance(other)))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
