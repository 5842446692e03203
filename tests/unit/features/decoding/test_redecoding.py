"""Decoding once more what is in the lake: which jobs are asked for, and what is refused before any is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.errors import JobFailedError, StateError, UnknownTopicError, UsageError
from airflow_kafka_lake.features.decoding.redecoding import redecode
from tests.world import SPEC, World

pytestmark = pytest.mark.unit

TEXT = Decoding(format=Format.STRING)


def landed(decoding: Decoding | None = TEXT, **more: object) -> World:
    """A world with two records in the lake."""
    world = World(spec=replace(SPEC, decoding=decoding, **more))  # type: ignore[arg-type]
    world.produce(2)
    assert world.run().exit_code == 0
    return world


def test_every_table_gets_one_job_with_the_file_as_it_is_now() -> None:
    """Not with the schema that the rows were landed with."""
    world = landed(None)
    spec = replace(world.spec, decoding=TEXT)
    assert set(redecode(world.worker(), spec, only_failed=True)) == {"raw.orders"}
    (job,) = world.runner.redecoded
    assert (job.table, job.only_failed, [decoder.topics for decoder in job.decoders]) == (
        "raw.orders",
        True,
        [("orders",)],
    )
    assert job.branch == f"kafka_lake_decode_{job.id}"


def test_what_cannot_be_decoded_is_refused() -> None:
    """No section, a topic of somebody else, nothing planned yet."""
    world = landed()
    with pytest.raises(UsageError, match=r"no \[decode\] section"):
        redecode(world.worker(), replace(world.spec, decoding=None))
    with pytest.raises(UnknownTopicError, match="'payments' is not one of pipeline orders: it has orders"):
        redecode(world.worker(), world.spec, topic="payments")
    fresh = World(spec=world.spec)
    with pytest.raises(StateError, match="nothing of pipeline orders was planned yet"):
        redecode(fresh.worker(), fresh.spec)
    assert world.runner.redecoded == []


def test_failed_job_is_told() -> None:
    """Its last words reach the caller, and nothing changed."""
    world = landed()
    world.runner.failures.append("out of memory")
    with pytest.raises(JobFailedError, match="out of memory"):
        redecode(world.worker(), world.spec)
    world.check()


def test_branch_of_a_decoding_job_is_nobodys_attempt() -> None:
    """Whoever sweeps the branches of dead attempts leaves it alone."""
    from airflow_kafka_lake.core.lake.staging import attempts_of

    world = landed()
    redecode(world.worker(), world.spec)
    assert attempts_of([world.runner.redecoded[0].branch]) == ()
