"""Names given by people: a topic, a generation, a partition or a word that is not there is refused by name (law L5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import UnknownSubjectError, UnknownTopicError
from airflow_kafka_lake.core.slices import Stream

NAMED = 20
"""Topics that a refusal names; more are counted."""


def nearest(word: object, words: Collection[str]) -> str:
    """Return `; did you mean '…'?` for a word that is close to one of `words`, else nothing."""
    from difflib import get_close_matches  # every process of Airflow loads this module, few a wrong name

    close = get_close_matches(word, words, n=1) if isinstance(word, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown_topic(pipeline: str, topic: str, known: Collection[str]) -> UnknownTopicError:
    """Return the refusal: a topic is none of a pipeline's, with the ones it has instead."""
    return UnknownTopicError(
        f"topic {topic!r} is not one of pipeline {pipeline}: it has {_listed(known)}{nearest(topic, sorted(known))}",
        topic=topic,
    )


def require_streams(
    pipeline: str,
    streams: Iterable[Stream],
    *,
    topic: str | None = None,
    topic_id: str | None = None,
    partitions: Collection[int] | None = None,
) -> None:
    """Refuse names that narrow a pipeline's streams to none, or names a partition that none of them has: no answer
    about nothing looks like a sound one. Raises UnknownSubjectError."""
    everything = list(streams)
    known = [key for key in everything if topic in (None, key.topic)]
    meant = {key.partition for key in known if topic_id in (None, key.topic_id)}
    missing = sorted(set(partitions or ()) - meant)
    nothing_named = topic is None and topic_id is None and partitions is None
    if nothing_named or (meant and not missing):
        return
    generation = f" of topic id {topic_id}" if topic_id else ""
    if topic is not None and not known:
        topics = {key.topic for key in everything}
        what = f"of topic {topic!r}{generation}: it has {_listed(topics)}{nearest(topic, sorted(topics))}"
    elif missing:
        where = f"of partition {missing[0]}" if topic is None else f"{topic}/{missing[0]}"
        what = f"{where}{generation}: it has {f'{min(meant)} to {max(meant)}' if meant else 'none'}"
    else:
        what = f"of topic {topic!r}{generation}: it has {_listed({key.topic_id for key in known})}"
    raise UnknownSubjectError(
        f"pipeline {pipeline} has no stream {what}. See: {remedies.status(pipeline)}",
        topic=topic,
        partition=missing[0] if missing else None,
    )


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return (", ".join(every[:NAMED]) or "none yet") + more
