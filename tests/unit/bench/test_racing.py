"""An arm has a time when its work is right, and every arm meets the same conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.arms import ARMS, Arm, Place
from bench.arms.ours import Ours
from bench.broker import CountingKafka, parsed
from bench.content import Content
from bench.measuring import Cost
from bench.racing import Race, Spent, Turn, _Clocks, _once, judged, order
from bench.run import arguments, race_of
from bench.workloads import WORKLOADS, evenly, mostly_one, records_of, zipf

COST = Cost(code=0, begun=100.0, seconds=9.0, cpu_seconds=12.0, peak_mib=500.0, marks={}, lines=())
EXPECTED = Content(rows=3, sums={"position": 1, "key": 2, "value": 3})


class Fake(Arm):
    """An arm that has done what it is told to have done."""

    name, says, lands = "fake", "", False

    def __init__(self, found: Content | Exception) -> None:
        self.found = found

    def prepare(self, place: Place) -> None: ...

    def command(self, place: Place) -> Sequence[str]:
        return ()

    def problem(self, place: Place, expected: Content, cost: Cost) -> str | None:
        if isinstance(self.found, Exception):
            raise self.found
        return expected.problem(self.found, ["value"])


def place(home: Path) -> Place:
    workload = WORKLOADS["uniform"]
    return Place(home=home, bootstrap="", topics=["t"], workload=workload, cores=2, heap="2g")


def spent(cost: Cost = COST) -> Spent:
    return Spent(cost, Counter(Fetch=5, Metadata=1), _Clocks(broker=2.0, servers=1.0, machine=20.0), 0.3)


def test_arm_whose_work_is_right_has_numbers(tmp_path: Path) -> None:
    """Its own processes and its servers, the broker apart, and what others did meanwhile."""
    run = judged(Fake(EXPECTED), place(tmp_path), EXPECTED, spent=spent())
    assert (run.problem, run.seconds, run.cpu_seconds, run.broker_cpu_seconds) == (None, 9.0, 13.0, 2.0)
    assert (run.others_cpu_seconds, run.requests) == (5.0, 6)


@pytest.mark.parametrize(
    ("found", "cost", "problem"),
    [
        (Content(rows=2, sums=EXPECTED.sums), COST, "2 rows instead of 3"),
        (Content(rows=3, sums={"position": 1, "value": 4}), COST, "value: not what the topics hold"),
        (Content(rows=3, sums={"position": 1}), COST, "value: not what the topics hold"),
        (OSError("gone"), COST, "what it left cannot be read: OSError: gone"),
        (EXPECTED, replace(COST, code=1), "it ended with 1: "),
        (EXPECTED, replace(COST, left=("java x",)), "it left processes behind: java x"),
    ],
)
def test_arm_whose_work_is_wrong_has_no_time(
    tmp_path: Path, found: Content | Exception, cost: Cost, problem: str
) -> None:
    """However fast it was."""
    run = judged(Fake(found), place(tmp_path), EXPECTED, spent=spent(cost))
    assert (run.problem, run.seconds, run.cpu_seconds) == (problem, None, None)


def test_rounds_turn_around() -> None:
    """The warm-up is round 0; an arm that takes too long for many rounds takes part in the first that count."""
    first, second, third = (Fake(EXPECTED) for _ in range(3))
    third.most_repeats = 1
    names = {id(first): "a", id(second): "b", id(third): "c"}

    def played(*, warm_up: bool) -> str:
        found = order([first, second, third], 3, warm_up=warm_up)
        return " ".join(f"{number}{names[id(arm)]}" for number, arm in found)

    assert played(warm_up=True) == "0b 0a 1a 1b 1c 2b 2a 3a 3b"
    assert played(warm_up=False) == "1a 1b 1c 2b 2a 3a 3b"


def test_interrupted_race_goes_on_with_what_is_left() -> None:
    """The warm-up is done again; a workload of which all is done is not even filled."""
    arms = [ARMS["ours"], ARMS["batch"]]
    race = Race(workloads=[WORKLOADS["quiet"]], arms=arms, rounds=2)
    every = {("quiet", (1.0, 1.0), arm.name, number) for arm in arms for number in (1, 2)}

    def left(done: set[Turn], scale: tuple[float, float] = (1.0, 1.0)) -> str:
        return " ".join(f"{number}{arm.name}" for number, arm in race.turns(WORKLOADS["quiet"], scale, done))

    assert left(set()) == "0batch 0ours 1ours 1batch 2batch 2ours"
    assert left(every - {("quiet", (1.0, 1.0), "ours", 2)}) == "0batch 0ours 2ours"
    assert left(every) == ""
    assert left(every, scale=(4.0, 1.0)) == left(set())


def test_arm_that_cannot_be_run_ends_no_other(tmp_path: Path) -> None:
    """It has a problem, as one whose work was wrong."""

    class Unprepared(Fake):
        def prepare(self, place: Place) -> None:
            raise OSError("no jars")

    broker = CountingKafka()  # never started: the arm fails before it is asked
    run = _once(Unprepared(EXPECTED), place(tmp_path), EXPECTED, broker=broker)
    assert (run.problem, run.seconds) == ("it could not be run: OSError: no jars", None)


def test_every_workload_has_us_and_a_rival() -> None:
    """A table of one arm would compare nothing."""
    for workload in WORKLOADS.values():
        names = {name for name, arm in ARMS.items() if arm.fits(workload) and arm.lands}
        assert any(name.startswith("ours") for name in names), workload.name
        assert any(not name.startswith("ours") for name in names), workload.name


@pytest.mark.parametrize("share", [evenly, mostly_one, zipf])
@pytest.mark.parametrize(("records", "partitions"), [(1000, 16), (7, 3), (5, 1), (200, 200)])
def test_every_record_has_a_partition(share, records: int, partitions: int) -> None:
    """However they are spread."""
    counts = share(records, partitions)
    assert (sum(counts), len(counts), min(counts) >= 0) == (records, partitions, True)


def test_shares_have_their_shape() -> None:
    """One partition has nine of ten records; the n-th has a n-th of the first's."""
    assert mostly_one(1000, 16)[0] == 900
    counts = zipf(100_000, 200)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_records_have_their_size_and_are_the_same_in_every_run(name: str) -> None:
    """Every arm, and every run of a workload, has the same bytes before it."""
    workload = WORKLOADS[name].scaled(0.001)
    some = list(records_of(workload, 3, 5))
    assert some == list(records_of(workload, 3, 5))
    assert some != list(records_of(workload, 4, 5))
    assert {len(value) for _, value, _ in some} == {workload.record_bytes}


def test_smaller_workload_keeps_whole_topics() -> None:
    """Topics of one workload have equally many partitions, whatever the scale."""
    smaller = WORKLOADS["quiet-topics"].scaled(0.015, 0.015)
    assert smaller.partitions % smaller.topics == 0
    assert smaller.records >= smaller.partitions


def test_command_line_asks_for_scales() -> None:
    """Fewer records come in fewer partitions and more in the same, unless partitions have a number of their own."""
    words = [word for scale in ("0.1", "4", "0.1,1", "4,4") for word in ("--scale", scale)]
    assert race_of(arguments().parse_args(words)).scales == [(0.1, 0.1), (4.0, 1.0), (0.1, 1.0), (4.0, 4.0)]
    race = race_of(arguments().parse_args([]))
    assert (race.scales, len(race.workloads)) == ([(1.0, 1.0)], len(WORKLOADS))


def test_broker_counts_requests_of_clients_once() -> None:
    """Fetch is there as a whole and by who asks; controller and broker talk among themselves."""
    line = "kafka.network:name=RequestsPerSec,request={},type=RequestMetrics,version={}:Count={}"
    kinds = [("Fetch", 17, 10), ("Fetch", 13, 1), ("FetchConsumer", 17, 11), ("Metadata", 13, 2)]
    kinds += [("BrokerHeartbeat", 1, 99), ("Vote", 2, 1), ("ListOffsets", 10, 3)]
    text = "\n".join(line.format(*kind) for kind in kinds)
    assert parsed(text) == Counter({"Fetch": 11, "ListOffsets": 3, "Metadata": 2})


def test_our_parts_are_told_by_what_the_command_says() -> None:
    """Several waves add up."""
    said = ("observing bench", "wave w1: reading 10 offsets", "wave w1: read 10 rows", "wave w1: auditing 10 offsets")
    said += (
        "wave w1: publishing 10 rows",
        "wave w1 landed: 10 rows",
        "wave w2: reading 1 offsets",
        "wave w2 landed: 1",
    )
    lines = tuple((float(at), text) for at, text in enumerate(said, 1))
    assert Ours().phases(replace(COST, lines=lines)) == {
        "start": 1.0, "plan": 1.0, "read and write": 3.0, "audit": 1.0, "commit": 1.0, "advance": 2.0,
    }  # fmt: skip
