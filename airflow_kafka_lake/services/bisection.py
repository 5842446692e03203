"""Find what of a wave cannot be read: in Kafka's raw batches, else by trials of halves that nothing publishes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_kafka_lake.core.errors import KafkaLakeError, StaleFenceError, TransientError
from airflow_kafka_lake.core.lake import halving
from airflow_kafka_lake.core.lake.accounting import Fate
from airflow_kafka_lake.core.lake.halving import History
from airflow_kafka_lake.core.ledger.records import Claim, RangeRecord, Staged, Verdict
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.ports import Ports

FAULTS = frozenset({Fate.UNREADABLE, Fate.OVERFLOWING})

Stage = Callable[[Sequence[RangeRecord], Sequence[Slice]], Staged]
"""Stages some ranges of a claim, or pieces of them, with what is overflowing in them; raises what a job may end
with."""


def lighten(ports: Ports, held: Claim) -> tuple[Verdict, ...]:
    """Halve a wave that workers died over before another one tries; hold a single offset that did it by itself."""
    if not History.of(held.attempts).is_deadly:
        return ()
    why = "workers died over it, or lost their lease, twice"
    ports.progress(f"wave {held.key.wave} is halved: {why}")
    (first, *_) = held.ranges
    return halving.apart(held.ranges, why) or (halving.held(first, first.range, why),)


def read_otherwise(
    ports: Ports, held: Claim, error: Exception, *, stage: Stage, heartbeat: Callable[[], None]
) -> Staged | tuple[Verdict, ...]:
    """Return what was staged by another way of reading, or what to take away from a wave whose job ended with `error`.

    Nothing when neither helps. Exceptions that the search meets by itself, such as a broker out of reach, pass through.
    """
    history, overflowing = History.of(held.attempts), tuple[Slice, ...]()
    if history.asks_for_batches(error):
        found, overflowing = _asked(ports, held, heartbeat)
        if found:
            return found
    if overflowing:
        ports.progress(
            f"wave {held.key.wave} has records of a time that Spark cannot read: its driver reads them one by one"
        )
        ports.lake.table(held.table).drop(held.key.attempt)
        try:
            return stage(held.ranges, overflowing)
        except Exception as problem:
            if not halving.is_unknown(problem) or not history.asks_for_trials(problem):
                raise
            error = problem
    return (
        _tried(ports, held, error, stage=stage, overflowing=overflowing, heartbeat=heartbeat)
        if history.asks_for_trials(error)
        else ()
    )


def _asked(ports: Ports, held: Claim, heartbeat: Callable[[], None]) -> tuple[tuple[Verdict, ...], tuple[Slice, ...]]:
    """Ask Kafka's raw batches which offsets of the wave no job can read, and which only Spark's source cannot."""
    ports.progress(f"looking for what cannot be read in Kafka's batches of wave {held.key.wave}")
    gaps = {Slice(item.stream, item.range): item for item in held.ranges}
    try:
        told = ports.batches.explain(tuple(gaps), held.spec.isolation, heartbeat)
    except StaleFenceError:
        raise
    except TransientError as problem:
        ports.progress(f"Kafka's batches of wave {held.key.wave} could not be read: {problem}")
        return (), ()
    said = {item.id: told.get(gap, ()) for gap, item in gaps.items()}
    late = [
        (item, RangeSet(known.range for known in said[item.id] if known.fate is Fate.OVERFLOWING))
        for item in held.ranges
    ]
    few, too_many = halving.affordable(late)
    verdicts = []
    for item in held.ranges:
        wrong = [known.range for known in said[item.id] if known.fate is Fate.UNREADABLE]
        wrong += [part for source, part in too_many if source is item]
        for part in RangeSet(wrong).joined(halving.MOST_PARTS):
            known = next(known for known in said[item.id] if known.fate in FAULTS and known.range.overlaps(part))
            verdicts.append(halving.held(item, part, known.seen))
    return tuple(verdicts), few


def _tried(
    ports: Ports,
    held: Claim,
    error: Exception,
    *,
    stage: Stage,
    overflowing: Sequence[Slice],
    heartbeat: Callable[[], None],
) -> tuple[Verdict, ...]:
    """Stage halves of the wave until a single offset is left that fails by itself; a job per halving."""
    table, wave = ports.lake.table(held.table), held.key.wave
    trials, most = 0, halving.most_trials(held.ranges)

    def fails(part: Sequence[RangeRecord]) -> bool:
        nonlocal trials, error
        trials += 1
        named = ", ".join(f"{item.stream} {item.range}" for item in part[:3])
        more = f" and {len(part) - 3} more ranges" if len(part) > 3 else ""
        ports.progress(f"wave {wave} fails for no known reason: trial {trials} of at most {most}, {named}{more}")
        heartbeat()
        table.drop(held.key.attempt)
        try:
            stage(part, overflowing)
        except Exception as problem:
            if not halving.is_unknown(problem):
                raise
            error = problem
            return True
        return False

    found = halving.search(held.ranges, fails)
    if found.culprit is not None:
        return (halving.held(halving.source_of(held.ranges, found.culprit), found.culprit.range, _words(error)),)
    ports.progress(f"no single record of wave {wave} is the cause")
    return halving.apart(held.ranges, "its parts can be read, and not all at once") if found.read_well else ()


def _words(error: Exception) -> str:
    """Return the last line that a job said; of any other exception its name alone, for its text may hold a secret."""
    if isinstance(error, KafkaLakeError):
        if error.facts.get("reason") == halving.OUT_OF_MEMORY:
            return "Spark runs out of memory over it"
        last = next((line for line in reversed(error.message.splitlines()) if line.strip()), "")
        return last.strip().removeprefix("Caused by: ")
    return type(error).__qualname__
