"""Commands in situations: what crosses the ports, and in which state of the world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow_kafka_lake.core.ledger.waves import RangeState
from tests.faults import standing_decoding
from tests.faults.place import Place
from tests.faults.standing_kafka import DELETED, Happened, happen

MIRROR = "lake-mirror"
DECODING = '[decode]\nformat = "avro"\nregistry = "schemas"'
DEAD_DECODE = "kafka_lake_decode_" + 16 * "d"
"""The branch of a decoding job that was killed: of no attempt, and gone when old snapshots are expired."""

Words = Callable[[Place], tuple[str, ...]]


def run(place: Place) -> tuple[str, ...]:
    """Do the main job."""
    return ("run", str(place.file), "--json")


def plan(place: Place) -> tuple[str, ...]:
    """Plan everything."""
    return ("plan", str(place.file), "--json")


def plan_from_a_time(place: Place) -> tuple[str, ...]:
    """Plan from a time on, which Kafka is asked for."""
    return (*plan(place), "--from", "2020-01-01T00:00:00Z")


def status(place: Place) -> tuple[str, ...]:
    """Ask how far we are."""
    return ("status", str(place.file), "--json")


def audit(place: Place) -> tuple[str, ...]:
    """Compare ledger and lake."""
    return ("audit", place.name, "--json")


def audit_deeply(place: Place) -> tuple[str, ...]:
    """Read Kafka again too, and look for a live stream's rows."""
    return (*audit(place), "--deep", "--cutover", "raw.orders")


def recover(place: Place) -> tuple[str, ...]:
    """Finish what an earlier run left."""
    return ("recover", place.name, "--json")


def advance(place: Place) -> tuple[str, ...]:
    """Move watermarks."""
    return ("advance", place.name, "--json")


def tell(place: Place) -> tuple[str, ...]:
    """Record that the moves were told."""
    return ("tell", place.name)


def ask(place: Place) -> tuple[str, ...]:
    """Ask for the wave, as a task does."""
    return ("ask", _wave(place))


def answer(place: Place) -> tuple[str, ...]:
    """Answer it, as a worker does whose job has failed."""
    return ("answer", _wave(place))


def end(place: Place) -> tuple[str, ...]:
    """End the request, as a task does that has its answer."""
    return ("end", _wave(place))


def serve(place: Place) -> tuple[str, ...]:
    """Do what tasks have asked for."""
    return ("worker", "--until-idle", "--json")


def ingest(place: Place) -> tuple[str, ...]:
    """Bring the wave into the lake."""
    return ("ingest", _wave(place), "--json")


def show(place: Place) -> tuple[str, ...]:
    """Show the wave."""
    return ("wave", _wave(place), "--json")


def cancel_wave(place: Place) -> tuple[str, ...]:
    """Put the whole wave on hold."""
    return ("cancel", _wave(place), "--reason", "because", "--json")


def cancel_range(place: Place) -> tuple[str, ...]:
    """Put one of the wave's ranges on hold."""
    return ("cancel", _range(place, RangeState.PLANNED), "--reason", "because", "--json")


def release(place: Place) -> tuple[str, ...]:
    """Take the hold off."""
    return ("release", _range(place, RangeState.CANCELLED), "--json")


def withdraw(place: Place) -> tuple[str, ...]:
    """Take some offsets in the middle of a range off the plan."""
    where = ("--partition", "0", "--from", "2", "--to", "4")
    return ("withdraw", place.name, *where, "--reason", "because", "--json")


def pause(place: Place) -> tuple[str, ...]:
    """Let nothing new be begun, and stop what is at work."""
    return ("pause", place.name, "--now", "--reason", "because", "--json")


def resume(place: Place) -> tuple[str, ...]:
    """Let it go on."""
    return ("resume", place.name, "--json")


def skip(place: Place) -> tuple[str, ...]:
    """Pass two offsets in the middle of a range unread."""
    where = ("--topic", place.topic, "--partition", "0", "--from", "2", "--to", "4")
    return ("skip", place.name, *where, "--reason", "because", "--acknowledge-order", "--json")


def reopen(place: Place) -> tuple[str, ...]:
    """Have some offsets in the middle of a range read again."""
    where = ("--topic", place.topic, "--partition", "0", "--from", "2", "--to", "4")
    return ("reopen", place.name, *where, "--reason", "because", "--json")


def delete_rows(place: Place) -> tuple[str, ...]:
    """Do what retention in the table does; then look."""
    happen(place.home, Happened.DELETION)
    place.iceberg().delete(f"kafka_offset < {DELETED}")
    return status(place)


def accept_deletes(place: Place) -> tuple[str, ...]:
    """Record that those rows were deleted on purpose."""
    return ("accept-deletes", place.name, "--reason", "because", "--json")


def expire(place: Place) -> tuple[str, ...]:
    """Do what an ordinary maintenance does: commit something else, and expire every snapshot that may be; then look."""
    table = place.iceberg()
    table.append(table.schema().as_arrow().empty_table())
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()
    return status(place)


def open_a_transaction(place: Place) -> tuple[str, ...]:
    """Let a producer begin what it does not end."""
    happen(place.home, Happened.TRANSACTION)
    return ("db", "check", "--json")


def elect_leaders(place: Place) -> tuple[str, ...]:
    """Do what every restart of a broker does: each partition gets a leader of a new epoch."""
    happen(place.home, Happened.ELECTION)
    return status(place)


def ask_for_a_mirror(place: Place) -> tuple[str, ...]:
    """Let the pipeline tell a group of Kafka how far it is."""
    place.configure(source=f'sync_group = "{MIRROR}"')
    return ("db", "check", "--json")


def ask_for_decoding(place: Place) -> tuple[str, ...]:
    """Let the pipeline decode values from now on."""
    place.configure(more=DECODING)
    return ("db", "check", "--json")


def decode(place: Place) -> tuple[str, ...]:
    """Decode once more what is in the lake."""
    return ("decode", str(place.file), "--json")


def kill_a_decode(place: Place) -> tuple[str, ...]:
    """Leave what a decoding job leaves that is killed when its rows are written."""
    standing_decoding.begun(place.iceberg(), DEAD_DECODE)
    return ("db", "check", "--json")


def lose_ledger(place: Place) -> tuple[str, ...]:
    """Begin with an empty ledger again: the old one is lost."""
    for file in place.home.glob("ledger.db*"):
        file.unlink()
    return ("db", "upgrade", "--json")


def rebuild(place: Place) -> tuple[str, ...]:
    """Make the ledger agree with the lake."""
    return ("rebuild", str(place.file), "--json")


def _wave(place: Place) -> str:
    ledger = place.ledger()
    (wave,) = ledger.waves(place.name)
    ledger.close()
    return wave.id


def _range(place: Place, state: RangeState) -> str:
    """Return the range of the last partition: another one of its wave stays."""
    ledger = place.ledger()
    found = ledger.ranges(pipeline=place.name, states=(state,))
    ledger.close()
    return max(found, key=lambda item: item.stream.partition).id


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """A state of the world: what was done after another one, and the trap in which it ended."""

    after: str | None
    words: Words
    traps: str = ""


BEGINNINGS: Mapping[str, Beginning] = {
    "nothing": Beginning(after=None, words=lambda _: ("db", "upgrade", "--json")),
    "planned": Beginning(after="nothing", words=plan),
    "staged": Beginning(after="planned", words=run, traps="table.staged:after=kill"),
    "published": Beginning(after="planned", words=run, traps="ledger.record_commit:before=kill"),
    "committed": Beginning(after="planned", words=ingest),
    "cancelled": Beginning(after="staged", words=cancel_range),
    "paused": Beginning(after="staged", words=pause),
    "finished": Beginning(after="nothing", words=run),
    "asked": Beginning(after="planned", words=ask),
    "worker died": Beginning(after="asked", words=serve, traps="table.staged:after=kill"),
    "lost ledger": Beginning(after="finished", words=lose_ledger),
    "reopened": Beginning(after="finished", words=reopen),
    "expired": Beginning(after="finished", words=expire),
    "rows deleted": Beginning(after="finished", words=delete_rows),
    "held open": Beginning(after="nothing", words=open_a_transaction),
    "finished, held open": Beginning(after="held open", words=run),
    "elected": Beginning(after="planned", words=elect_leaders),
    "mirroring": Beginning(after="nothing", words=ask_for_a_mirror),
    "planned, mirroring": Beginning(after="mirroring", words=plan),
    "committed, mirroring": Beginning(after="planned, mirroring", words=ingest),
    "decoding": Beginning(after="nothing", words=ask_for_decoding),
    "undecoded": Beginning(after="finished", words=ask_for_decoding),
    "decode died": Beginning(after="undecoded", words=kill_a_decode),
    "reopened, undecoded": Beginning(after="reopened", words=ask_for_decoding),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A command in a state of the world; `rival` is what another process does while it is stopped or slow."""

    name: str
    begins: str
    words: Words
    rival: Words = run
    forked: bool = False
    """Something happens that only the cluster and the jobs standing in can do."""


ACTS = (
    Act(name="run", begins="nothing", words=run),
    Act(name="run after a death", begins="staged", words=run),
    Act(name="run after a publish", begins="published", words=run),
    Act(name="cancel what was begun", begins="staged", words=cancel_range),
    Act(name="skip in what was begun", begins="staged", words=skip),
    Act(name="release", begins="cancelled", words=release),
    Act(name="withdraw", begins="planned", words=withdraw),
    Act(name="pause what was begun", begins="staged", words=pause),
    Act(name="resume", begins="paused", words=resume),
    Act(name="plan from a time", begins="nothing", words=plan_from_a_time),
    Act(name="tell", begins="finished", words=tell),
    Act(name="ask", begins="planned", words=ask),
    Act(name="answer", begins="asked", words=answer),
    Act(name="end a request", begins="asked", words=end),
    Act(name="worker", begins="asked", words=serve),
    Act(name="audit", begins="finished", words=audit),
    Act(name="audit deeply", begins="finished", words=audit_deeply),
    Act(name="rebuild", begins="lost ledger", words=rebuild),
    Act(name="reopen", begins="finished", words=reopen),
    Act(name="run after an expiry", begins="expired", words=run),
    Act(name="accept deletes", begins="rows deleted", words=accept_deletes, rival=status, forked=True),
    Act(name="status of nothing", begins="nothing", words=status),
    Act(name="plan beside an open transaction", begins="held open", words=plan, forked=True),
    Act(name="ingest after an election", begins="elected", words=ingest, forked=True),
    Act(name="run with a mirror", begins="mirroring", words=run, forked=True),
    Act(name="run with decoding", begins="decoding", words=run, forked=True),
    Act(name="decode", begins="undecoded", words=decode, rival=decode, forked=True),
    Act(name="recover after a death", begins="staged", words=recover),
    Act(name="recover after a publish", begins="published", words=recover),
    Act(name="advance", begins="committed", words=advance),
    Act(name="plan", begins="nothing", words=plan),
    Act(name="run after a reopen", begins="reopened", words=run),
    Act(name="worker after a death", begins="worker died", words=serve),
    Act(name="worker while a task ends its request", begins="asked", words=serve, rival=end),
    Act(name="two workers", begins="asked", words=serve, rival=serve),
    Act(name="wave", begins="finished", words=show),
    Act(name="ingest", begins="planned", words=ingest),
    Act(name="ingest while a person cancels", begins="planned", words=ingest, rival=cancel_wave),
    Act(name="ingest while a person skips", begins="planned", words=ingest, rival=skip),
    Act(name="run after a death while a person cancels", begins="staged", words=run, rival=cancel_range),
    Act(name="cancel what is planned", begins="planned", words=cancel_wave),
    Act(name="cancel what is published", begins="published", words=cancel_range),
    Act(name="skip in what is planned", begins="planned", words=skip),
    Act(name="skip in what is published", begins="published", words=skip),
    Act(name="status beside an open transaction", begins="finished, held open", words=status, forked=True),
    Act(name="run beside an open transaction", begins="held open", words=run, forked=True),
    Act(name="run after an election", begins="elected", words=run, forked=True),
    Act(name="advance with a mirror", begins="committed, mirroring", words=advance, forked=True),
    Act(name="decode after a death", begins="decode died", words=decode, forked=True),
    Act(name="decode while a wave lands", begins="reopened, undecoded", words=decode, forked=True),
)
"""The first act that crosses a point stands for it where there is time for one only; so those stand first."""


def begin(place: Place, name: str) -> None:
    """Bring the place into a state of the world, and keep it."""
    if place.has(name):
        place.put_back(name)
        return
    beginning = BEGINNINGS[name]
    if beginning.after is None:
        place.clear()
    else:
        begin(place, beginning.after)
    ended = place.command(*beginning.words(place), traps=beginning.traps)
    assert ended.code == (-9 if beginning.traps else 0), ended
    place.keep(name)
