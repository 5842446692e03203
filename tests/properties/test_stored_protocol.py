"""The protocol over real parts: the histories of `test_protocol.py` over a SQL ledger and tables of REST catalogs.

Kafka and the Spark job stand in. The ledger's clock is the history's; servers have a clock of their own, behind it.
What a catalog answers where an answer is lost is dealt by the history's own dice. A seed is a history:
`KAFKA_LAKE_STORED=1 KAFKA_LAKE_SEED=7 python -m pytest --whole -k seaweedfs tests/properties/test_stored_protocol.py`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.kit.local_lake import LocalLake
from tests.kit.rest_catalog import RestCatalogServer
from tests.proof.parts import STRUCK
from tests.properties.histories import History
from tests.properties.scenarios import dealt
from tests.properties.scheduler import counted_ids
from tests.properties.steps import HAPPENINGS
from tests.properties.stored_world import Place

HISTORIES = int(os.environ.get("KAFKA_LAKE_STORED", "20"))
SEED = int(os.environ.get("KAFKA_LAKE_SEED", "2026"))
LANES = (0, 1)
"""Each plays every other seed, so that two processes share the work: `pytest -n 2`."""
SERVERS = {"seaweedfs": LocalLake, "iceberg-rest": RestCatalogServer}

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.usefixtures("service")]


@pytest.mark.timeout(max(900, 60 * HISTORIES))
@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("server", SERVERS)
def test_every_history_over_a_rest_catalog_ends_exactly_once(
    server: str, lane: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """What the catalog knows and memory does not (409, 400, a commit that lands late, an answer that is none) changes
    no end: each row once, each watermark at the end of its partition."""
    record_property("KAFKA_LAKE_SEED", SEED)
    seeds, wrong = range(SEED + lane, SEED + HISTORIES, len(LANES)), dict[int, str]()
    with SERVERS[server]() as started, closing(Place(tmp_path, started)) as place:
        for seed in seeds:
            try:
                _end_exactly_once(place, seed)
            except Exception as error:  # noqa: BLE001 - the next history is played all the same
                wrong[seed] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n".join(f"KAFKA_LAKE_SEED={seed} KAFKA_LAKE_STORED=1: {why}" for seed, why in wrong.items())
    record_property("cases", len(seeds))
    for how, times in sorted(place.struck.items()):
        record_property(f"{STRUCK}{how}", times)
    assert place.struck.total() >= len(seeds) // 4, "hardly an answer was broken: these histories try little"


def _end_exactly_once(place: Place, seed: int) -> None:
    with counted_ids():
        history = History(place.world(seed))
        try:
            for step in itertools.chain(*dealt(seed)):
                HAPPENINGS[step.what](history, step)
                history.look()
            history.heal()
        finally:
            history.close()
            place.over()
