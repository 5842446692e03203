"""Which offsets are compared with Kafka, and what is said of those that are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import IdentityError, JobFailedError
from airflow_kafka_lake.core.offsets import OffsetRange, Stream
from airflow_kafka_lake.core.planning.selection import StreamScope
from airflow_kafka_lake.jobs.compare import CompareJob
from airflow_kafka_lake.services import pipeline_audit, reading
from airflow_kafka_lake.services.deep_audit import DeepCheck, _bytes_per_offset
from tests.world import World

pytestmark = pytest.mark.unit


def deep(world: World, **message: Any) -> dict[str, Any]:
    return pipeline_audit.audit(world.worker(), world.spec, checks=(DeepCheck(),), **message).to_json()


@pytest.fixture
def world() -> World:
    """Two partitions of six committed records each."""
    world = World(partitions=2)
    world.produce(6, 0)
    world.produce(6, 1)
    world.run()
    return world


def test_everything_that_kafka_has_is_compared(world: World) -> None:
    """What is not committed is not asked for."""
    world.produce(3, 0)
    document = deep(world)
    assert (document["ok"], document["deep"]["records"], document["deep"]["offsets"]) == (True, 12, 12)
    assert document["deep"]["lines"] == []
    assert deep(world, scope=StreamScope(partitions=frozenset({1})))["deep"]["records"] == 6


def test_what_retention_has_taken_is_named(world: World) -> None:
    """It can be compared no more; the rest is."""
    world.retain_from(4, 1)
    document = deep(world)
    assert (document["ok"], document["deep"]["records"], document["deep"]["left_out"]) == (True, 8, 4)
    assert document["deep"]["lines"] == ["orders/1: 4 committed offsets could not be compared: Kafka has [4, 6)"]
    assert document["deep"]["sentence"].endswith("what the table has; 4 committed offsets could not be compared")


def test_a_topic_that_is_gone_is_named(world: World) -> None:
    """The new one of the same name has nothing to do with it."""
    world.create("orders", 2)
    document = deep(world)
    assert (document["ok"], document["deep"]["records"], document["deep"]["left_out"]) == (False, 0, 12)
    assert "the topic was created anew" in document["deep"]["lines"][0]
    said = "nothing was compared with Kafka: 12 committed offsets could not be compared"
    assert document["deep"]["sentence"] == said, "not that all of nothing is what the table has"
    assert [(item["kind"], item["message"]) for item in document["findings"]] == [("not-judged", said)]


def test_a_topic_that_is_re_created_meanwhile_is_an_error(world: World) -> None:
    """Half of what was read is the new one's."""
    worker = world.worker()
    report = worker.runner.report

    class Late:
        """The runner, during whose job the topic is created anew."""

        def where(self) -> str:
            return "here"

        def report(self, *message: Any, **named: Any) -> Any:
            found = report(*message, **named)
            world.create("orders", 2)
            return found

    late: Any = Late()
    with pytest.raises(IdentityError, match="while it was compared"):
        pipeline_audit.audit(replace(worker, runner=late), world.spec, checks=(DeepCheck(),))


def test_a_cleaned_record_is_no_finding_and_a_lost_row_is() -> None:
    """In a compacted topic the cleaner takes records out of Kafka after they were landed."""
    world = World()
    world.kafka.delete_topic("orders")
    world.topic_ids["orders"] = world.kafka.create_topic("orders", 1, cleanup_policy="compact")
    world.produce(6)
    world.run()
    world.kafka.log("orders", 0).remove([1, 2])
    document = deep(world)
    assert document["ok"]
    assert "2 rows have no record in Kafka any more, the first at 1" in document["deep"]["lines"][0]


def test_a_record_that_kafka_has_lost_is_a_finding(world: World) -> None:
    """In any other topic."""
    world.kafka.log("orders", 0).remove([1])
    (finding,) = deep(world)["findings"]
    assert (finding["kind"], finding["offsets"]) == ("inconsistent", [[1, 2]])


def test_a_job_that_fails_is_no_finding(world: World) -> None:
    """Nothing was compared: worth repeating."""
    world.runner.failures.append("no memory")
    with pytest.raises(JobFailedError, match="no memory"):
        deep(world)


def test_comparison_that_runs_out_of_memory_is_tried_without_what_lies_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that was skipped because no job can hold it stands behind a slice: the second job polls nothing there,
    and compares the same offsets. It is the last one: memory that does not suffice then is an error."""
    real, jobs = world.runner.report, list[CompareJob]()
    world.produce(2, transaction="t")
    world.end("t", commit=False)
    world.run()

    def report(job: CompareJob, **told: Any) -> Mapping[str, Any]:
        jobs.append(job)
        if not job.singly:
            raise JobFailedError("Spark ran out of memory", reason="out-of-memory")
        return real(job, **told)

    monkeypatch.setattr(world.runner, "report", report)
    assert deep(world, scope=StreamScope(partitions=frozenset({0})))["deep"]["offsets"] == 9
    first, second = jobs
    assert (first.slices, [str(item.range) for item in second.slices]) == (second.slices, ["0-9"])
    assert ([str(item.range) for item in second.singly], [str(item.range) for item in second.unread]) == (
        ["0-6"],
        ["6-9"],
    )
    monkeypatch.setattr(reading, "MOST_CAREFUL", 0)
    with pytest.raises(JobFailedError, match="out of memory"):
        deep(world)
    assert len(jobs) == 3
    monkeypatch.setattr(world.runner, "report", _fails("Kafka has lost them", reason="data-loss"))
    with pytest.raises(JobFailedError, match="lost"):
        deep(world)


def _fails(message: str, **facts: str) -> Callable[..., Any]:
    def report(*_: Any, **__: Any) -> Any:
        raise JobFailedError(message, **facts)

    return report


def test_weight_of_an_offset_is_that_of_what_is_compared() -> None:
    """Other partitions, and what a rebuild brought back without an estimate, say nothing of it."""
    streams = [Stream("orders", "id", partition) for partition in (0, 1)]
    committed = [
        SimpleNamespace(stream=streams[0], range=OffsetRange(0, 10), estimated_bytes=1000),
        SimpleNamespace(stream=streams[0], range=OffsetRange(10, 20), estimated_bytes=0),
        SimpleNamespace(stream=streams[1], range=OffsetRange(0, 10), estimated_bytes=9000),
    ]
    inputs: Any = SimpleNamespace(committed=committed)
    assert _bytes_per_offset(inputs, StreamScope(partitions=frozenset({0}))) == 100
    assert _bytes_per_offset(inputs, StreamScope(partitions=frozenset({2}))) is None
