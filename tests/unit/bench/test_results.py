"""What a report says is what its runs were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.pictures import bars, lines
from bench.racing import Run
from bench.results import Report, exponent_of, growths, is_busy, ratio, spread
from bench.tables import glance_table, growth_table, phases_table, race_table, ratios_table, sections

RUN = Run(
    workload="quiet",
    arm="ours",
    start="cold",
    scale=(1.0, 1.0),
    round=1,
    records=10,
    bytes=100,
    seconds=10.0,
    cpu_seconds=12.0,
    broker_cpu_seconds=1.0,
    others_cpu_seconds=0.5,
    peak_mib=700.0,
    bytes_at_rest=50,
    files=2,
    requests=30,
    phases={"start": 4.0, "read": 6.0},
)
WRONG = replace(RUN, arm="batch", round=2, seconds=None, problem="9 rows instead of 10\nand more")
DESCRIBED = {
    "commit": "abc",
    "changed": False,
    "at": "2026-01-01",
    "machine": {"cores": 2, "memory_gib": 8.0, "processor": "P", "system": "Linux", "load": 0.1},
    "versions": {"python": "3.11"},
    "arms": {"cores": 2, "heap": "2g"},
}


def took(arm: str, *seconds: float) -> list[Run]:
    return [replace(RUN, arm=arm, round=number, seconds=each) for number, each in enumerate(seconds, 1)]


def test_ratios_are_taken_within_rounds() -> None:
    """A round in which everything was slow says nothing about one arm."""
    ours, batch = took("ours", 10.0, 40.0, 10.0), took("batch", 20.0, 80.0, 30.0)
    found = ratio(batch, ours, lambda run: run.seconds)
    assert found is not None
    assert (found.median, found.least, found.most, found.count) == (2.0, 2.0, 3.0, 3)


def test_run_whose_work_was_wrong_has_no_time() -> None:
    """It counts in no median and in no ratio, and the table says what was wrong."""
    slow = replace(WRONG, seconds=1.0)
    assert spread([slow], lambda run: run.seconds) is None
    assert ratio(took("ours", 10.0), [replace(slow, round=1)], lambda run: run.seconds) is None
    shown = race_table({"ours": took("ours", 10.0), "batch": [WRONG]}, cores=2)
    assert "| `batch` | **none**: 9 rows instead of 10 |" in shown
    assert "1.0" not in shown.splitlines()[-1]


def test_median_has_its_spread() -> None:
    """One number alone would be a bare claim."""
    found = spread(took("ours", 12.0, 10.0, 11.0), lambda run: run.seconds)
    assert found is not None
    assert (found.text(), found.text(" s", 0)) == ("11.0 (10.0–12.0)", "11 s (10–12)")


def test_run_beside_a_busy_neighbour_is_marked() -> None:
    """More than a tenth of the machine's cores for others, and a number is no evidence."""
    assert not is_busy(RUN, cores=2)
    busy = replace(RUN, others_cpu_seconds=2.1)
    assert is_busy(busy, cores=2)
    assert "‡" in race_table({"ours": [busy]}, cores=2)
    assert "‡" not in race_table({"ours": [RUN]}, cores=2)


def test_ratios_are_of_every_number() -> None:
    """Requests, bytes and CPU are compared as seconds are; an arm without a right run is compared with nothing."""
    batch = [replace(item, requests=300, cpu_seconds=6.0) for item in took("batch", 30.0, 20.0)]
    arms = {"ours": took("ours", 10.0, 10.0), "batch": batch, "wrong": [WRONG]}
    _, _, row = ratios_table(arms, against="ours").splitlines()
    assert row.startswith("| `batch` | 2.50 (2.00–3.00) | 0.50 (0.50–0.50) |")
    assert row.endswith("| 10.00 (10.00–10.00) |")
    assert ratios_table(arms, against="wrong") == ""


def test_glance_has_each_rival_that_lands_a_table() -> None:
    """Against ours as it starts and as it goes on, from rounds that both have; ceilings are no rivals."""
    runs = [*took("ours", 10.0), *took("ours-warm", 2.0), *took("batch", 20.0), *took("read", 1.0), WRONG]
    assert glance_table([Report(described=DESCRIBED)]) == ""
    (row,) = glance_table([Report(described=DESCRIBED, runs=runs)]).splitlines()[2:]
    assert row == "| `quiet` | `batch` | 2.0× | 10.0× | 1.0× | 1.0× | 1.0× | 1.0× |"
    report = Report(described=DESCRIBED, runs=[*took("ours", 10.0), *took("batch", 5.0)])
    (cold,) = glance_table([report]).splitlines()[2:]
    assert cold.startswith("| `quiet` | `batch` | 0.5× | – |")


@pytest.mark.parametrize(("power", "exponent"), [(1, 1.0), (2, 2.0), (0, 0.0)])
def test_exponent_is_the_power(power: int, exponent: float) -> None:
    """Time in proportion to size has 1, a fixed cost 0."""
    assert exponent_of([(size, 3.0 * size**power) for size in (1.0, 4.0, 16.0)]) == pytest.approx(exponent)


def test_growth_is_told_by_what_grows() -> None:
    """More records in the same partitions is one question, more of both another."""
    sizes = [((1.0, 1.0), 10.0), ((4.0, 1.0), 20.0), ((4.0, 4.0), 40.0)]
    report = Report(described=DESCRIBED, runs=[replace(RUN, scale=scale, seconds=each) for scale, each in sizes])
    found = {item.of: round(item.exponent, 3) for item in growths(report)}
    assert found == {"records": 0.5, "records and partitions": 1.0}
    assert "0.50" in growth_table(report)


def test_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    """What is committed is the runs; the page is made from them."""
    report = Report(described=DESCRIBED, runs=[RUN, WRONG], parts=[{"arm": "audit", "seconds": 1.0}])
    report.write(tmp_path / "report.json")
    again = Report.read(tmp_path / "report.json")
    assert again == report
    page = "\n\n".join(sections(again))
    assert "### quiet" in page
    assert "start 4.0, read 6.0" in phases_table(again.races()["quiet", (1.0, 1.0)])


def test_only_right_runs_of_the_same_commit_are_gone_on_with() -> None:
    """Two commits, versions or sizes in one table would compare what was never the same."""
    report = Report(described=DESCRIBED, runs=[RUN, WRONG], parts=[{"arm": "audit", "seconds": 1.0}])
    fresh = Report(described={**DESCRIBED, "machine": {"cores": 2, "load": 1.5}})
    assert report.resumed(fresh) == replace(fresh, runs=[RUN])
    with pytest.raises(ValueError, match="other commit and arms"):
        report.resumed(Report(described={**DESCRIBED, "commit": "b", "arms": {"cores": 1, "heap": "2g"}}))


def test_pictures_are_whole_and_suit_dark_pages() -> None:
    """Each arm is named, ours is told from the others, and an arm without a time is not drawn."""
    picture = bars("quiet", {"ours": took("ours", 10.0, 11.0), "a<b": took("a<b", 20.0), "batch": [WRONG]})
    root = ET.fromstring(picture)
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert ("ours" in texts, "a<b" in texts, "batch" in texts) == (True, True, False)
    assert "prefers-color-scheme: dark" in picture
    widths = [float(element.attrib["width"]) for element in root.iter() if element.tag.endswith("rect")]
    assert widths[1] == pytest.approx(widths[0] * 20.0 / 10.5, rel=0.01)


def test_picture_of_growth_names_exponents() -> None:
    """The lines of arms that end alike keep their names apart."""
    runs = [
        replace(RUN, arm=arm, scale=(size, 1.0), seconds=size * 3) for arm in ("ours", "batch") for size in (1.0, 4.0)
    ]
    picture = lines("quiet", growths(Report(described=DESCRIBED, runs=runs)))
    ends = [float(e.attrib["y"]) for e in ET.fromstring(picture).iter() if e.text in {"ours, 1.00", "batch, 1.00"}]
    assert len(ends) == 2
    assert abs(ends[0] - ends[1]) >= 15


def test_page_has_a_section_and_a_picture_of_every_race() -> None:
    """Without reports it says only how to make one."""
    from bench.page import page, pictures

    assert "## Results" not in page({})
    runs = [replace(RUN, scale=scale, arm=arm) for scale in ((1.0, 1.0), (4.0, 1.0)) for arm in ("ours", "batch")]
    found = {"idle": Report(described=DESCRIBED, runs=runs)}
    text = "\n\n".join(page(found))
    assert text.count("### quiet") == 2
    assert {name for name in pictures(found) if f"(benchmark/{name})" not in text} == set()
    assert len(pictures(found)) == 3
