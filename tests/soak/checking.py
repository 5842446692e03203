"""Is every acknowledged record in the table exactly once, and nothing else? Asked after every round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.soak.acknowledged import Acknowledged, Numbers, Stream, digest
from tests.soak.lanes import LANES, TOPICS
from tests.soak.place import Place

FOREIGN = "foreign"
FAR = 2**62
NONE: Numbers = np.array([], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The rows of one stream that a reader sees: offsets in order, with the digest of each row where it was asked."""

    offsets: Numbers
    digests: Numbers


@dataclass(slots=True)
class Verdict:
    """What a check found; `lost`, `double` and so on count records, `problems` say the same in words."""

    acknowledged: int = 0
    visible: int = 0
    lost: int = 0
    double: int = 0
    different: int = 0
    aborted_visible: int = 0
    unexplained: int = 0
    skipped: int = 0
    compacted: int = 0
    problems: list[str] = field(default_factory=list)

    def complain(self, stream: Stream, what: str, offsets: Iterable[int]) -> int:
        """Note offsets that should not be as they are; returns how many."""
        found = sorted(int(offset) for offset in offsets)
        if found:
            some = ", ".join(map(str, found[:8]))
            self.problems.append(f"{stream[0]}/{stream[2]}: {len(found)} {what}: {some}")
        return len(found)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers and the words."""
        return {name: getattr(self, name) for name in Verdict.__slots__}


def read(place: Place, *, contents: bool) -> tuple[dict[Stream, Seen], list[int]]:
    """Read the table as any reader would; foreign rows come apart, by their numbers."""
    names = ["kafka_topic", "kafka_topic_id", "kafka_partition", "kafka_offset"]
    scan = place.table().scan(selected_fields=(*names, "key", "value") if contents else tuple(names))
    seen: dict[Stream, tuple[list[int], list[int]]] = {}
    for batch in scan.to_arrow_batch_reader():
        columns = [batch.column(name).to_pylist() for name in names]
        digests = (
            map(digest, *(batch.column(n).to_pylist() for n in ("key", "value"))) if contents else [0] * len(batch)
        )
        for topic, topic_id, partition, offset, content in zip(*columns, digests, strict=True):
            offsets, found = seen.setdefault((topic, topic_id, partition), ([], []))
            offsets.append(offset)
            found.append(content)
    foreign = [number for stream in list(seen) if stream[0] == FOREIGN for number in seen.pop(stream)[0]]
    return {stream: _in_order(*found) for stream, found in seen.items()}, foreign


def _in_order(offsets: list[int], digests: list[int]) -> Seen:
    numbers = np.array(offsets, dtype=np.int64)
    order = np.argsort(numbers, kind="stable")
    return Seen(offsets=numbers[order], digests=np.array(digests, dtype=np.int64)[order])


def watermarks(place: Place) -> dict[Stream, int]:
    """Return the stored watermarks."""
    with place.database("ledger") as cursor:
        cursor.execute("SELECT topic, topic_id, partition, watermark FROM kafka_lake_stream")
        return {(topic, topic_id, partition): mark for topic, topic_id, partition, mark in cursor.fetchall()}


def skips(place: Place) -> dict[Stream, list[tuple[int, int]]]:
    """Return what a person has decided to pass unread, by stream."""
    with place.database("ledger") as cursor:
        cursor.execute(
            "SELECT s.topic, s.topic_id, s.partition, r.start_offset, r.end_offset FROM kafka_lake_range r "
            "JOIN kafka_lake_stream s ON s.id = r.stream WHERE r.state = 'SKIPPED'"
        )
        found: dict[Stream, list[tuple[int, int]]] = {}
        for topic, topic_id, partition, start, end in cursor.fetchall():
            found.setdefault((topic, topic_id, partition), []).append((start, end))
    return found


def beyond_the_last_plan(place: Place) -> dict[Stream, int]:
    """Return, for streams of deleted topics, the end that the last plan saw: what came later went with the topic."""
    with place.database("ledger") as cursor:
        cursor.execute("SELECT topic, topic_id, partition, end_seen FROM kafka_lake_stream")
        rows = cursor.fetchall()
    return {(topic, topic_id, partition): end for topic, topic_id, partition, end in rows if topic_id in place.gone}


def check(place: Place, acknowledged: Acknowledged, *, below: Mapping[Stream, int] | None, contents: bool) -> Verdict:
    """Compare table and acknowledgements; `below` limits what must be there to offsets under those watermarks."""
    passed = skips(place)
    for stream, end in beyond_the_last_plan(place).items():
        passed.setdefault(stream, []).append((end, FAR))
    for stream in acknowledged.streams():
        if stream[1] in place.gone:
            passed.setdefault(stream, [(0, FAR)])  # a partition that no plan ever saw
    seen, foreign = read(place, contents=contents)
    verdict = compare(seen, acknowledged, passed, below=below, contents=contents)
    if sorted(foreign) != sorted(set(foreign)) or not place.foreign <= set(foreign):
        verdict.problems.append(
            f"rows of the other writer: {len(foreign)} are there, {len(place.foreign)} were written"
        )
    return verdict


def compare(
    seen: Mapping[Stream, Seen],
    acknowledged: Acknowledged,
    passed: Mapping[Stream, list[tuple[int, int]]],
    *,
    below: Mapping[Stream, int] | None,
    contents: bool,
) -> Verdict:
    """Compare rows and acknowledgements, stream by stream."""
    verdict = Verdict()
    for stream in sorted({*seen, *acknowledged.streams()}):
        rows = seen.get(stream, Seen(offsets=NONE, digests=NONE))
        limit = None if below is None else below.get(stream, 0)
        _check_stream(verdict, stream, rows, acknowledged, passed.get(stream, []), limit, contents=contents)
    return verdict


def _check_stream(
    verdict: Verdict,
    stream: Stream,
    rows: Seen,
    acknowledged: Acknowledged,
    passed: list[tuple[int, int]],
    limit: int | None,
    *,
    contents: bool,
) -> None:
    offsets, digests, keys = acknowledged.numbers(stream)
    verdict.acknowledged += len(offsets)
    verdict.visible += len(rows.offsets)
    unique, counts = np.unique(rows.offsets, return_counts=True)
    verdict.double += verdict.complain(stream, "records are there more than once", unique[counts > 1])
    aborted = acknowledged.aborted_offsets(stream)
    verdict.aborted_visible += verdict.complain(stream, "aborted records are visible", np.intersect1d(unique, aborted))
    absent = ~np.isin(offsets, unique)
    if limit is not None:
        absent &= offsets < limit
    for start, end in passed:
        inside = (offsets >= start) & (offsets < end)
        verdict.skipped += int((absent & inside).sum())
        absent &= ~inside
    if "compact" in TOPICS[stream[0]].settings.get("cleanup.policy", ""):
        newest: dict[int, int] = {}
        for key, offset in zip(keys.tolist(), offsets.tolist(), strict=True):
            newest[key] = max(offset, newest.get(key, -1))
        superseded = np.array([newest[key] > o for key, o in zip(keys.tolist(), offsets.tolist(), strict=True)], bool)
        verdict.compacted += int((absent & superseded).sum())
        absent &= ~superseded
    verdict.lost += verdict.complain(stream, "acknowledged records are not there", offsets[absent])
    stray = np.setdiff1d(unique, np.concatenate([offsets, aborted]))
    _check_unplanned(verdict, stream, rows, stray, acknowledged, contents=contents)
    if contents:
        order = np.argsort(offsets, kind="stable")
        common = np.isin(rows.offsets, offsets)
        expected = digests[order][np.searchsorted(offsets[order], rows.offsets[common])]
        wrong = rows.offsets[common][expected != rows.digests[common]]
        verdict.different += verdict.complain(stream, "records differ from what was produced", wrong)


def _check_unplanned(
    verdict: Verdict, stream: Stream, rows: Seen, stray: Numbers, acknowledged: Acknowledged, *, contents: bool
) -> None:
    """Rows producers were not told of: of transactions without an answer (all or nothing), or records without one."""
    left = set(stray.tolist())
    for transaction in acknowledged.uncertain:
        own = {record.offset for record in transaction if record.stream == stream}
        there = own & set(rows.offsets.tolist())
        left -= own
        if contents and there and there != own:
            verdict.complain(stream, "records of one transaction are only partly there", own - there)
    if not contents:
        return  # just produced, and the answer is still on its way
    known = {
        o for o, d in zip(rows.offsets.tolist(), rows.digests.tolist(), strict=True) if d in acknowledged.unanswered
    }
    verdict.unexplained += verdict.complain(stream, "rows that no producer knows", left - known)


def unfinished(documents: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the streams of `status --json` documents that are not at the end of what is stable: stuck."""
    found = []
    for name in LANES:
        for stream in documents.get(name, {}).get("streams", ()):
            if stream["bounds_state"] != "observed":
                continue  # a deleted generation
            if stream["watermark"] != stream["last_stable"] or stream["hold"] is not None:
                which = f"{stream['topic']}/{stream['partition']}"
                found.append(
                    f"stuck: {which} at {stream['watermark']} of {stream['last_stable']}, hold {stream['hold']}: "
                    f"{'; '.join(stream['blocked_by'])}"
                )
    return found
