"""Periods by time on a real broker: what lies in them is read, what cannot be met is named and refused."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from tests.integration.refusing import Refusals

MINUTE = timedelta(minutes=1)
BEGIN = datetime.fromtimestamp(time.time() // 3600 * 3600, UTC) - 3 * timedelta(hours=1)


def at(minutes: int) -> str:
    """Return a time as a person types it."""
    return (BEGIN + minutes * MINUTE).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def produced(producer: Producer, topic: str, partition: int, minutes: range) -> None:
    """Produce one record a minute."""
    for minute in minutes:
        stamp = int((BEGIN + minute * MINUTE).timestamp() * 1000)
        producer.produce(topic, value=f"minute {minute}".encode(), partition=partition, timestamp=stamp)
    assert producer.flush(60) == 0


def test_a_period_by_time_is_met_or_refused_by_name(fresh: Refusals) -> None:
    """A wrong year, records behind an open transaction and records that retention has taken are refused like offsets,
    and nothing is written; the rest of the period is read, and asked for again it is in the lake already."""
    sandbox, settings = fresh.sandbox, {"bootstrap.servers": fresh.sandbox.bootstrap}
    plain = Producer(settings)
    produced(plain, sandbox.topic, 0, range(4))
    slow = Producer({**settings, "transactional.id": secrets.token_hex(4)})
    slow.init_transactions(60)
    slow.begin_transaction()
    produced(slow, sandbox.topic, 0, range(4, 5))
    produced(plain, sandbox.topic, 0, range(5, 105))
    produced(plain, sandbox.topic, 1, range(20))
    for act in ("plan", "run"):
        words = (act, str(sandbox.file))
        found = fresh.refused(
            *words, "--from", "2036-01-01T00:00:00Z", "--to", "2036-02-01T00:00:00Z",
            kind="EmptyPeriodError", says=("nothing lies in the period", f"records go from {at(0)} to {at(19)}"),
        )  # fmt: skip
        assert (found["earliest"], found["newest"]) == (at(0), at(19))
        for begin, end in ((at(5), at(200)), (at(0), at(50)), (at(0), "2100-01-01T00:00:00Z")):
            says = (f"{sandbox.topic} partition 0: the period reaches to offset", "beyond the last stable offset 4")
            bounds = ("--partition", "0", "--from", begin, "--to", end)
            assert fresh.refused(*words, *bounds, kind="RangeBeyondEndError", says=says)["last_stable"] == 4
    stable = fresh.command("plan", str(sandbox.file), "--partition", "0", "--to", at(4), "--json", "--dry-run").document
    assert [item["end"] for wave in stable["waves"] for item in wave["ranges"]] == [4], "what ends before it is met"
    slow.abort_transaction(60)

    sandbox.delete_before(1, 8)
    words = ("run", str(sandbox.file), "--partition", "1")
    for begin, end in ((at(0), at(60)), (at(8), at(15)), (at(0), at(5))):
        says = (
            f"{sandbox.topic} partition 1: offsets 0-8 are gone",
            f"a record of {at(8)}",
            f"Ask from offset 8 on, or from {at(8)[:-2]}1Z on",
        )
        assert (
            fresh.refused(*words, "--from", begin, "--to", end, kind="RangeExpiredError", says=says)["log_start"] == 8
        )
    since = ("plan", fresh.variant("[lake]", f'start = "timestamp:{at(3)}"\n[lake]'), "--partition", "1")
    named = fresh.command(*since, "--dry-run", "--json")
    assert (named.code, named.document["waves"]) == (1, [])
    assert f"offsets 0-8 are gone, and what is to be read from {at(3)} on" in named.document["blocked"][0]["reason"]

    done = fresh.command(*words, "--from", at(9), "--to", at(15), "--json")
    assert (done.code, done.document["rows"], done.document["period"]["offsets"]) == (0, 6, 6), done
    again = fresh.command(*words, "--from", at(9), "--to", at(15))
    assert (again.code, "nothing to do: 6 offsets lie in the period: 6 in the lake already" in again.out) == (0, True)
    early = fresh.command(*words, "--from", at(10), "--to", "2100-01-01T00:00:00Z")
    assert early.code == 0, early
    assert "has no record as late as 2100-01-01T00:00:00" in " ".join(early.out.split())

    sandbox.write_pipeline(sizes='target_range_bytes = "200 B"\nmax_wave_bytes = "200 B"')
    earlier = fresh.command("plan", str(sandbox.file), "--partition", "0", "--json").document["waves"]
    assert len(earlier) > 4
    bounded = fresh.command("run", str(sandbox.file), "--partition", "0", "--from", "0", "--to", "10", "--json")
    (taken,) = bounded.document["waves"]
    assert (bounded.code, taken["wave"]) == (0, earlier[0]["wave"]), bounded
    assert [item["wave"] for item in bounded.document["left"]] == [item["wave"] for item in earlier[1:]]
    assert f"this run leaves wave {earlier[1]['wave']} into raw.orders: 1 range, about" in bounded.err
    assert len([key for key in sandbox.rows() if key[0] == 0]) == bounded.document["rows"] < 20
