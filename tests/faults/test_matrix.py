"""Every failpoint: whatever happens there, running the same thing again is right, and every record is there once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import cycle
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest
from _pytest.mark.structures import ParameterSet

from airflow_kafka_lake.local.kafka import LocalKafka
from tests.faults import matrix
from tests.faults.matrix import DRIVER, Case, Traces, TracesOnDemand
from tests.faults.operations import ACTS
from tests.faults.place import Ended, ForkedPlace
from tests.faults.real_place import RealPlace
from tests.faults.standing_decoding import COLUMN, COLUMNS
from tests.faults.verdict import problems, problems_amid
from tests.kit.failpoints import points
from tests.kit.traps import Mode, modes

NAMED = {act.name: act for act in ACTS}
COMMANDS = [act.name for act in {act.words: act for act in reversed(ACTS)}.values()]
"""An act for each command."""
BY_DAY = {
    *("run", "worker", "recover after a death", "reopen", "rebuild", "decode"),
    *("skip in what was begun", "cancel what was begun"),
}
"""Acts that land, take over or decide about rows, with every mode among them; the nightly plays all, at every point."""
PUBLISHED = (
    ("run", "table.publish:after", Mode.KILL),
    ("run", "table.publish:after", Mode.LOST),
    ("run after a publish", "ledger.record_commit:after", Mode.KILL),
)
"""The moment at which the lake has a wave, and the ledger does not know it or its worker does not."""

REAL_CASES = (
    ("driver.rows:after", Mode.KILL),
    ("runner.stage:after", Mode.KILL),
    ("table.publish:after", Mode.KILL),
    ("table.publish:after", Mode.LOST),
    ("driver.branch:after", Mode.RAISE),
    ("driver.rows:before", Mode.DELAY),
    ("driver.rows:after", Mode.STOP),
    ("driver.append:after", Mode.KILL),
    ("driver.append:after", Mode.LOST),
)


def _one_for_each_command() -> Iterator[ParameterSet]:
    for name, mode in zip(COMMANDS, cycle(Mode), strict=False):
        yield pytest.param(name, mode, marks=[] if name in BY_DAY else [pytest.mark.nightly])


def _pairs() -> Iterator[ParameterSet]:
    for point in matrix.crossed():
        if not point.startswith(DRIVER):
            yield from (pytest.param(point, mode) for mode in modes(point))


@pytest.fixture(scope="session")
def forked(service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedPlace]:
    """One place for all cases of a worker."""
    place = ForkedPlace(tmp_path_factory.mktemp("matrix"))
    yield place
    place.close()


@pytest.fixture(scope="session")
def traces(forked: ForkedPlace) -> Traces:
    """What each act crosses when nothing happens to it."""
    return TracesOnDemand(forked)


@pytest.fixture(scope="session")
def user(kafka: LocalKafka, spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlace]:
    """A place with real Spark jobs."""
    with closing(RealPlace(tmp_path_factory.mktemp("matrix-user"), kafka.bootstrap, warm=True)) as place:
        yield place


@pytest.mark.parametrize(("name", "mode"), list(_one_for_each_command()), ids=str)
def test_a_command_survives(forked: ForkedPlace, traces: Traces, name: str, mode: Mode) -> None:
    """The trap springs, a successor works, the same command again and the main job are right, and nothing is left."""
    crossed = [point for point in traces[name] if point in points() and mode in modes(point)]
    point = min(crossed, key=lambda point: crc32(f"{name} {point}".encode()))
    matrix.perform(forked, Case(act=NAMED[name], point=point, mode=mode))


@pytest.mark.parametrize(("name", "point", "mode"), PUBLISHED, ids=str)
def test_main_job_survives_between_publish_and_record(forked: ForkedPlace, name: str, point: str, mode: Mode) -> None:
    """Whoever comes next finds the rows on main, records them, and reads nothing again."""
    matrix.perform(forked, Case(act=NAMED[name], point=point, mode=mode))


@pytest.mark.nightly
@pytest.mark.parametrize(("point", "mode"), list(_pairs()), ids=str)
def test_a_command_survives_at_every_point(forked: ForkedPlace, traces: Traces, point: str, mode: Mode) -> None:
    """And some command crosses each of them: a point that nothing crosses would be survived without a test."""
    matrix.perform(forked, matrix.chosen(traces, point, mode))


@pytest.mark.nightly  # by day a driver dies from outside (test_kills.py), and workers at their points above
@pytest.mark.parametrize(("point", "mode"), REAL_CASES, ids=str)
def test_a_run_with_real_spark_survives(user: RealPlace, point: str, mode: Mode) -> None:
    """Inside the driver too: dead, stopped and continued, slow or failing, every record is there once."""
    matrix.perform(user, Case(act=ACTS[0], point=point, mode=mode))


@pytest.mark.nightly
def test_a_trap_that_does_not_spring_is_red(forked: ForkedPlace) -> None:
    """A case that tests nothing is no green case."""
    with pytest.raises(matrix.RedError, match="did not spring"):
        matrix.perform(forked, Case(act=ACTS[0], point="table.fence:after", mode=Mode.RAISE))


@pytest.mark.nightly
def test_a_row_that_is_there_twice_is_red(forked: ForkedPlace) -> None:
    """The verdict is tried on what it is for."""
    matrix.traced(forked, ACTS[0])
    assert problems(forked, []) == []
    table = forked.iceberg()
    table.append(table.scan(limit=1).to_arrow())
    assert any("times" in found for found in problems(forked, []))


@pytest.mark.nightly
def test_a_group_that_was_told_too_much_or_too_little_is_red(forked: ForkedPlace) -> None:
    """A mirror is no truth, and still may not say what is not so."""
    matrix.traced(forked, NAMED["run with a mirror"])
    assert problems(forked, []) == []
    with (forked.home / "groups").open("a") as told:
        told.write('["lake-mirror", 0, 15]\n["lake-mirror", 1, 4]\n')
    found = problems(forked, [])
    assert any("was told 15 of 0, after 14" in line for line in found)
    assert any("was told 4 of 1, after 5" in line for line in found)
    assert any("lake-mirror knows {0: 15, 1: 4}, and proved is {0: 14, 1: 5}" in line for line in found)


@pytest.mark.nightly
def test_rows_that_are_decoded_in_part_are_red(forked: ForkedPlace) -> None:
    """Half of what a decoding job would show, and a text that is another record's."""
    matrix.traced(forked, NAMED["decode"])
    assert problems(forked, []) == []
    table = forked.iceberg()
    rows = table.scan().to_arrow().to_pylist()
    rows[0] |= dict.fromkeys(COLUMNS)
    rows[1][COLUMN] = "another"
    table.overwrite(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
    assert any("decoded in part" in line for line in problems_amid(forked))
    assert any("decoded wrong" in line for line in problems_amid(forked))


@pytest.mark.nightly
def test_a_hanging_transaction_that_is_not_named_is_red(forked: ForkedPlace) -> None:
    """That a partition waits is half of the news."""
    matrix.traced(forked, NAMED["status beside an open transaction"])
    assert problems(forked, [forked.command("status", str(forked.file), "--json")]) == []
    silent = Ended(("status",), 0, '{"waiting_for_stable": [{"transaction": null}]}', "")
    assert any("is not named" in line for line in problems(forked, [silent]))


def test_every_command_gets_its_share_of_the_points() -> None:
    """Each pair is dealt once, to a command that crosses its point, and no command goes without."""
    traces = {act.name: {"common:after": 1} for act in ACTS} | {ACTS[-1].name: {"common:after": 1, "rare:after": 1}}
    pairs = [(point, mode) for point in ("common:after", "rare:after") for mode in Mode] * len(ACTS)
    dealt = list(matrix.dealt(traces, pairs, seed=7))
    assert sorted((case.point, case.mode) for case in dealt) == sorted(pairs)
    assert {case.act.name for case in dealt} == NAMED.keys()
    assert {case.act for case in dealt if case.point == "rare:after"} == {ACTS[-1]}
    assert [str(case) for case in dealt] == [str(case) for case in matrix.dealt(traces, pairs, seed=7)]
    assert [str(case) for case in dealt] != [str(case) for case in matrix.dealt(traces, pairs, seed=8)]


def test_points_that_no_command_crosses_are_those_of_calls_there_are() -> None:
    """A call that is gone, or that a command makes by now, leaves the list."""
    assert {point for point in points() if point.startswith(matrix.OF_TASKS)} == {
        f"{name}{side}" for name in matrix.OF_TASKS for side in ("before", "after")
    }


def test_a_sample_leaves_no_point_and_no_mode_inside_the_driver_out() -> None:
    """What is too slow to play whole every night is played in turns."""
    pairs = [(point, mode) for point in points() for mode in modes(point)]
    found = matrix.sampled(pairs, seed=7)
    assert {point for point, _ in found} == set(points())
    inside = [pair for pair in pairs if pair[0].startswith("driver.")]
    assert len(found) == len(inside) + len({point for point, _ in pairs if not point.startswith("driver.")})
    assert set(inside) <= set(found) <= set(pairs)
    assert set().union(*(matrix.sampled(pairs, seed) for seed in range(60))) == set(pairs)
