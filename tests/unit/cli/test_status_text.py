"""The status as text: what is wrong first, on a screenful, at every width."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_lake.cli.audit import show_audit
from airflow_kafka_lake.cli.output import (
    Output,
    TableColumn,
    TextLine,
    numbers,
    offsets,
    table,
)
from airflow_kafka_lake.cli.status import change_line, overview_lines, show_wave, status_lines
from airflow_kafka_lake.core.amounts import moment
from airflow_kafka_lake.core.kafka.snapshots import Age
from airflow_kafka_lake.core.ledger.attempts import Renew
from airflow_kafka_lake.core.ledger.guards import LEASE
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.reports.attention import Need
from airflow_kafka_lake.core.reports.progress import Progress, Step
from airflow_kafka_lake.core.reports.status import Overview, PipelineReport, groups_of
from airflow_kafka_lake.core.reports.streams import StreamState, StreamStatus
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.services import claims, decisions, pipeline_audit, reporting
from tests.world import SPEC, World, in_state, with_progress

pytestmark = pytest.mark.unit

WIDTHS = pytest.mark.parametrize("width", [80, 100, 200])
LONG = "customer-orders." * 15 + "v1"


def text(lines: Iterable[TextLine]) -> str:
    """Return lines as a terminal without colours shows them."""
    return "\n".join(line.text for line in lines)


def shown(report: PipelineReport, width: int = 80, **settings: Any) -> str:
    """Return the text of a status, in which every line fits, unless it is one word or a command."""
    found = text(status_lines(report, width, **settings))
    too_long = [line for line in found.splitlines() if len(line) > width and not is_whole(line)]
    assert too_long == []
    return found


def is_whole(line: str) -> bool:
    """Return whether a line is copied as a whole."""
    return " " not in line.strip() or line.strip().startswith("kafka-lake ")


def ranges(pairs: Iterable[Sequence[int]]) -> RangeSet:
    """Return offsets of their starts and ends."""
    return RangeSet(OffsetRange(start, end) for start, end in pairs)


def listing(report: PipelineReport, streams: list[StreamStatus]) -> PipelineReport:
    """Return a report of these streams."""
    return replace(report, streams=tuple(streams), groups=tuple(groups_of(streams)))


def many(partitions: int, topic: str = "orders") -> PipelineReport:
    """Return the status of so many partitions, nine of which are not up to date."""
    world = World(partitions=1)
    world.produce(41_0)
    world.run()
    report = reporting.status(world.worker(), world.spec)
    (like,) = report.streams
    like = replace(like, record=replace(like.record, key=like.key._replace(topic=topic)))
    streams = [in_state(like, number, StreamState.UP_TO_DATE) for number in range(partitions)]
    for number in range(0, 1_800, 200):
        state = StreamState.BLOCKED if number == 1_600 else StreamState.BEHIND
        streams[number] = behind(like, number, 12_000 + number, 7_200, state)
    return listing(report, streams)


def behind(
    like: StreamStatus, number: int, lag: int, seconds: int, state: StreamState = StreamState.BEHIND
) -> StreamStatus:
    """Return a partition that is behind by so many offsets and seconds, with two islands that have landed."""
    made = in_state(like, number, state, lag=lag)
    record = replace(made.record, covered=ranges([[0, 410], [410 + lag, 410 + lag + 90]]))
    bounds = replace(made.bounds, last_stable=500 + lag, high_watermark=500 + lag) if made.bounds else None
    return replace(made, record=record, bounds=bounds, age=Age(seconds=seconds, below=None))


@WIDTHS
@pytest.mark.parametrize("topic", ["orders", LONG])
def test_two_thousand_partitions_are_a_screenful(width: int, topic: str) -> None:
    """The nine that are not up to date have a line each, the worst first; the others have one together."""
    found = shown(many(2_000, topic), width)
    lines = found[found.index("partitions\n") :].splitlines()
    assert len(found.splitlines()) <= 40
    assert lines[1] == f"  {topic}"
    at = next(n for n, line in enumerate(lines) if "blocked" in line)
    assert re.match(r" +1600 +blocked +13,600 ", lines[at])
    assert "1,991 partitions are up to date: 1–199, 201–399" in found
    assert "0–410, 12,410–12,500" in found


def test_without_a_limit_every_partition_has_a_line() -> None:
    """As `--all` asks."""
    found = shown(many(2_000), rows=None)
    assert len(re.findall(r"^ +\d+ +(?:up to date|behind|blocked)", found, re.MULTILINE)) == 2_000


def test_more_than_there_is_room_for_are_counted() -> None:
    """Those that are behind by most have lines, the others are one group with the sum of their lags."""
    report = many(2_000)
    found = shown(listing(report, [behind(report.streams[1], n, n + 1, 60) for n in range(2_000)]), rows=4)
    listed = re.findall(r"^ +(\d+) +behind", found, re.MULTILINE)
    assert listed == ["1999", "1998", "1997", "1996"]
    assert "1,996 partitions are behind, lag 1,993,006, behind by over 1 min: 0–1995" in found


@pytest.fixture
def busy() -> World:
    """Four partitions: one is up to date, one is on hold, one waits for a transaction, and a wave runs in one."""
    world = World(partitions=4)
    for partition in range(4):
        world.produce(10, partition)
    world.run()
    world.produce(5, 1)
    decisions.cancel(world.worker(), world.planned_wave(Bounds(topic="orders", partitions=(1,))), "not now")
    world.produce(2, 2, transaction="t")
    world.produce(100, 3)
    wave = world.planned_wave(Bounds(topic="orders", partitions=(3,)))
    claim = claims.claim_wave(world.worker(), wave)
    progress = Progress(step=Step.READ, rows_expected=100, bytes_expected=2_000_000)
    for rows in (0, 45):
        world.ledger.commit(Renew(key=claim.key, lease=LEASE, progress=progress.counted(rows)))
        world.clock.advance(timedelta(seconds=10))
    return world


@WIDTHS
def test_status_of_everything_at_once(busy: World, width: int) -> None:
    """A summary, what runs and how far it is, what needs a person with the command, and the partitions."""
    report = reporting.status(busy.worker(), busy.spec)
    found = shown(report, width)
    assert "orders → raw.orders, 2026-01-01 00:00:20 UTC" in found
    assert "blocked: of 4 partitions, 1 blocked, 1 running, 1 waiting, 1 up to date" in " ".join(found.split())
    assert "landed      40 rows written, 40 offsets; last " in found
    assert "on hold     5 offsets" in found
    running = report.running[0][0].id
    how_far = (
        "reading 45 %: 45 rows of 100 offsets, about 900.0 kB of 2.0 MB, 90.0 kB/s, about 12 s left, begun 20 s ago"
    )
    assert f"running {running} {how_far}" in " ".join(found.split())
    assert f"1. orders/1 10-15 is cancelled: not now\n     kafka-lake release {report.needs[0].subject}" in found
    assert "waiting for stable: orders/2 is stable to 10 of 12" in found
    for item in report.waves:
        assert item.id in found


def test_offsets_that_are_read_again_are_told_beside_what_has_landed() -> None:
    """Until then readers see their rows, which are counted as landed no more."""
    world = World()
    world.produce(10)
    world.run()
    world.reopen(2, 5)
    found = " ".join(shown(reporting.status(world.worker(), world.spec), 200).split())
    assert "read again 3 offsets, not counted as landed: their earlier rows are visible until then" in found
    world.run()
    assert "read again" not in shown(reporting.status(world.worker(), world.spec), 200)


@pytest.fixture
def passed() -> World:
    """A wave of five offsets, of which retention took three before they were read: they are on hold."""
    world = World()
    world.produce(5)
    world.plan()
    world.retain_from(3)
    world.run()
    return world


def test_wave_that_landed_without_some_of_its_ranges_says_so(passed: World, capsys: pytest.CaptureFixture[str]) -> None:
    """In the list, and at the head of its own table."""
    (wave,) = passed.ledger.waves("orders", [WaveState.COMMITTED])
    assert re.search(
        rf"^ +{wave.id} +landed, 1 held", shown(reporting.status(passed.worker(), passed.spec), 200), re.MULTILINE
    )
    show_wave(Output(as_json=False), reporting.wave(passed.ledger, wave.id))
    assert f"wave {wave.id} landed but for 1 range on hold, in raw.orders" in capsys.readouterr().out


def test_audit_says_how_much_it_is_not_about(passed: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Its "nothing is missing" is of what has landed."""
    show_audit(Output(as_json=False), pipeline_audit.audit(passed.worker(), passed.spec))
    assert "offsets seen, not landed, and not audited: 3 held; see kafka-lake status orders" in capsys.readouterr().out


def test_worker_without_a_sign_of_life_is_said_to_be_silent(busy: World) -> None:
    """In the status, in the list of all pipelines, and in the line of a log."""
    busy.clock.advance(timedelta(seconds=30))
    report = reporting.status(busy.worker(), busy.spec)
    takeover = "another worker can take it over in 1 min 20 s, on its own host at once if it is dead"
    silent = f"no sign of life for 40 s; {takeover}"
    assert f"reading 45 %: 45 rows of 100 offsets, about 900.0 kB of 2.0 MB, {silent}, begun 50 s ago" in " ".join(
        shown(report).split()
    )
    assert "waves       0 of 1 landed, 1 silent, 1 on hold" in shown(report)
    assert silent in change_line(report)
    assert "wave 1 of 1, silent for 40 s" in text(overview_lines(overview(busy, "orders"), 200))


def test_percent_is_shown_once_something_was_counted(busy: World) -> None:
    """Until then the step and what it has before it."""
    report = reporting.status(busy.worker(), busy.spec)
    found = shown(with_progress(report, Progress(step=Step.READ, rows_expected=100)))
    assert "\n    reading 100 offsets, begun 20 s ago" in found
    assert "0 %" not in found


def test_partition_of_which_nothing_has_landed_says_so() -> None:
    """A field that is empty would look as if it were not known."""
    world = World()
    world.produce(3)
    world.plan()
    found = shown(reporting.status(world.worker(), world.spec))
    assert re.search(r"^            0  behind    3  under 1 min  nothing$", found, re.MULTILINE)


def test_columns_in_which_nothing_stands_are_left_out() -> None:
    """No lag, no age, no hold: no such columns."""
    world = World()
    world.produce(3)
    world.run()
    found = shown(reporting.status(world.worker(), world.spec))
    assert re.search(r"^    partition  state       landed$", found, re.MULTILINE)
    assert re.search(r"^            0  up to date  0–3$", found, re.MULTILINE)


def test_broker_that_is_down_is_one_sentence() -> None:
    """What is unknown is told with its reason, and nothing is zero."""
    world = World()
    world.produce(3)
    world.run()
    world.kafka.down = True
    found = shown(reporting.status(world.worker(), world.spec))
    assert "state       unknown: 1 partition" in found
    assert found.count("Kafka in memory is down") == 1
    assert "lag         0" not in found


def test_many_partitions_that_kafka_said_nothing_of_are_one_line() -> None:
    """There is one reason, and it stands in the summary."""
    world = World(partitions=40)
    world.produce(1, 0)
    world.run()
    world.kafka.down = True
    found = shown(reporting.status(world.worker(), world.spec))
    assert "  orders\n    40 partitions are unknown: 0–39\n" in found


def test_pipeline_without_a_plan_names_the_next_command() -> None:
    """There is nothing to show, and something to do."""
    report = reporting.status(World().worker(), SPEC)
    assert "nothing planned" in shown(report)
    assert "kafka-lake plan orders" in shown(report)


def test_state_names_partitions_that_no_plan_has_beside_those_behind() -> None:
    """Their records are unread, too."""
    world = World()
    world.produce(2)
    world.run()
    world.produce(3)
    world.kafka.add_partitions("orders", 3)
    found = shown(reporting.status(world.worker(), world.spec))
    assert "behind: 1 partition; 2 not planned yet\n" in found


def test_state_counts_partitions_of_which_nothing_is_known() -> None:
    """One that no plan has seen makes a pipeline unknown, and is in the list with its topic."""
    world = World(partitions=2)
    world.produce(2)
    world.run()
    world.kafka.add_partitions("orders", 4)
    world.kafka.log("orders", 3).unreachable = "no leader"
    found = shown(reporting.status(world.worker(), world.spec))
    assert "unknown: 1 partition, beside 2 up to date; 1 not planned yet\n" in found
    assert "    1 partition is unknown: 3\n" in found
    world.kafka.log("orders", 0).unreachable = "no leader"
    found = " ".join(shown(reporting.status(world.worker(), world.spec)).split())
    assert "unknown: of 2 partitions, 1 unknown, 1 up to date; 2 not planned yet" in found


def overview(world: World, *names: str) -> Overview:
    """Return all pipelines, the first one repeated under some names."""
    found = reporting.overview(world.ledger, world.clock, lambda _: world.kafka)
    return replace(found, pipelines=tuple(named(found.pipelines[0], name) for name in names))


def named(report: PipelineReport, name: str) -> PipelineReport:
    """Return the report of a pipeline under another name."""
    recorded = report.facts.recorded
    recorded = replace(recorded, spec=replace(recorded.spec, name=name))
    return replace(report, facts=replace(report.facts, recorded=recorded))


@WIDTHS
def test_all_pipelines_have_a_line_each_at_every_width(busy: World, width: int) -> None:
    """What does not fit is left out by column; a name that is too long for a column has a line before its own."""
    long = "payments." * 11 + "x"
    lines = text(overview_lines(overview(busy, "orders", long), width)).splitlines()
    assert [line for line in lines if len(line) > width and not is_whole(line)] == []
    assert re.match(r"  orders +blocked +1 +105 ", lines[2])
    assert lines[3] == f"  {long}"
    assert re.match(r" +blocked +1 +105 ", lines[4])


def test_overview_drops_the_least_urgent_columns_first(busy: World) -> None:
    """State, lag and age stay; rows and times of landing need a wider terminal."""
    narrow, wide = (text(overview_lines(overview(busy, "orders"), width)).splitlines()[1] for width in (60, 200))
    assert narrow.split() == ["pipeline", "state", "to", "do", "lag", "behind", "by"]
    assert wide.split()[-4:] == ["rows", "written", "last", "landed"]


def test_ledger_without_a_pipeline_says_how_to_begin() -> None:
    """Nothing is known yet: in the list, and in the line of a log."""
    world = World()
    found = reporting.overview(world.ledger, world.clock, lambda _: world.kafka)
    words = "the ledger knows no pipeline yet: begin one with kafka-lake run FILE.toml"
    assert text(overview_lines(found, 80)) == words
    assert change_line(found).endswith(f" UTC  {words}")


def test_change_is_one_line(busy: World) -> None:
    """For a log: of one pipeline, or of all."""
    one = change_line(reporting.status(busy.worker(), busy.spec))
    assert "orders blocked, 40 rows, lag 105" in one
    assert "reading 45 %: 45 rows of 100 offsets" in one
    assert change_line(overview(busy, "a", "b")).count("blocked") == 2
    assert "\n" not in one


def test_of_many_ranges_the_first_ones_are_named() -> None:
    """Partitions with their last one, offsets with their ends."""
    every_other = ranges([[n, n + 1] for n in range(0, 40, 2)])
    assert numbers(ranges([[0, 17], [18, 19], [20, 2_000]])) == "0–16, 18, 20–1999"
    assert numbers(every_other, most=3) == "0, 2, 4, …"
    assert offsets(ranges([[0, 41_000], [52_000, 60_000]])) == "0–41,000, 52,000–60,000"
    assert offsets(every_other, most=3) == "0–1, 2–3, … 17 more …, 38–39"


def test_cell_that_does_not_fit_gets_lines_of_its_own() -> None:
    """Nothing is cut, and the other columns stay in line."""
    columns = (TableColumn(title="id"), TableColumn(title="landed"))
    found = text(table(columns, [(("7", "0–41,000, 52,000–60,000"), "")], 20))
    assert found.splitlines() == ["  id", "  7", "      0–41,000,", "      52,000–60,000"]


def test_skipped_offsets_are_not_said_to_have_landed() -> None:
    """They stand beside, in the summary."""
    world = World()
    world.produce(10)
    world.plan()
    decisions.skip(world.worker(), "orders", world.stream(), OffsetRange(2, 5), reason="bad", acknowledge_order=True)
    world.run()
    found = shown(reporting.status(world.worker(), world.spec))
    assert re.search(r"^            0  up to date  0–2, 5–10$", found, re.MULTILINE)
    assert "skipped     3 offsets" in found


def test_deadline_of_retention_is_told_as_the_estimate_of_one_look() -> None:
    """The next look estimates another one, though no record has changed."""
    world = World()
    world.produce(1)
    world.plan()
    world.kafka._topics["orders"].retention_ms = 4 * 3_600_000
    world.clock.advance(timedelta(hours=3))
    first = reporting.status(world.worker(), world.spec)
    world.clock.advance(timedelta(minutes=5))
    report = reporting.status(world.worker(), world.spec)
    deadlines = [item.summary.retention_deadline for item in (first, report)]
    assert deadlines[0] != deadlines[1]
    found = " ".join(shown(report, 200).split())
    assert f"as early as about {moment(deadlines[1])} (orders/0)" in found
    (need,) = [item for item in report.needs if item.need is Need.RETENTION]
    assert need.text.endswith(f"of orders/0 as early as about {timestamp(deadlines[1])}")


def test_generations_of_a_topic_are_told_apart_by_their_ids() -> None:
    """Both have the same name, and lines of their own."""
    world = World()
    world.produce(2)
    world.run()
    old = world.topic_ids["orders"]
    assert f"orders, id {old}" not in shown(reporting.status(world.worker(), world.spec))
    new = world.create("orders")
    world.produce(3)
    world.run()
    found = shown(reporting.status(world.worker(), world.spec))
    assert [line for line in found.splitlines() if line in {f"  orders, id {name}" for name in (old, new)}]
    assert found.count("  orders, id ") == 2
