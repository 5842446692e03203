"""Every offset of real partitions explained, held against the producer's acknowledgements and Kafka's own log dump."""

from __future__ import annotations

import contextlib
import os
import random
import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from airflow_kafka_lake.core.accounting import (
    Accounting,
    Explanation,
    Fate,
    account,
)
from airflow_kafka_lake.core.errors import IdentityError
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.local.processes import LocalServerError, wait_until

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka

RANGES = int(os.environ.get("KAFKA_LAKE_ACCOUNTING_RANGES", "2000"))
RANGES_PER_PARTITION = 10
ROUNDS = int(os.environ.get("KAFKA_LAKE_ACCOUNTING_ROUNDS", "60"))
GAPS_PER_ROUND = 8
CODECS = ("gzip", "snappy", "lz4", "zstd")
COMPACTING = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.0001",
    "delete.retention.ms": "0",
    "max.compaction.lag.ms": "500",
}
_SHELL = re.compile(r"^baseOffset: (\d+) lastOffset: \d+ count: 0 ")
_RECORD = re.compile(r"^\| offset: (\d+) .*?(endTxnMarker: \w+)?(?: coordinatorEpoch: \d+)?$")


@dataclass
class Truth:
    """What one partition holds, known without the reader: fate of each offset below `end` as a row-less offset."""

    kind: str
    topic: str
    topic_id: str
    acknowledged: dict[int, str] = field(default_factory=dict)
    markers: set[int] = field(default_factory=set)
    present: set[int] = field(default_factory=set)
    shells: set[int] = field(default_factory=set)
    log_start: int = 0
    last_stable: int = 0
    end: int = 0

    def fate(self, offset: int, isolation: Isolation) -> Fate:
        """Return what must be said of an offset without a row."""
        readable = self.last_stable if isolation is Isolation.READ_COMMITTED else self.end
        if offset < self.log_start or offset >= readable:
            return Fate.UNEXPLAINED
        if offset in self.markers:
            return Fate.CONTROL
        if offset not in self.present:
            return Fate.COMPACTED
        aborted = self.acknowledged[offset] == "aborted"
        return Fate.ABORTED if aborted and isolation is Isolation.READ_COMMITTED else Fate.UNEXPLAINED

    def visible(self) -> RangeSet:
        """Return what a reader of committed records sees of the whole partition."""
        seen = (o for o in self.present if self.acknowledged[o] == "committed")
        readable = RangeSet.between(self.log_start, self.last_stable)
        return RangeSet(OffsetRange(o, o + 1) for o in seen) & readable

    def numbers(self, asked: OffsetRange, visible: RangeSet) -> Accounting:
        """Return the accounting of a range, by what producers were told and what the log dump shows."""
        rows = RangeSet((asked,)) & visible
        fates = Counter(
            self.fate(offset, Isolation.READ_COMMITTED)
            for item in RangeSet((asked,)) - visible
            for offset in range(item.start, item.end)
        )
        return Accounting(
            visible=rows.span,
            control=fates[Fate.CONTROL],
            aborted=fates[Fate.ABORTED],
            compacted=fates[Fate.COMPACTED],
            unexplained=fates[Fate.UNEXPLAINED],
        )

    def gap(self, start: int, end: int) -> Slice:
        """Return a slice as a gap."""
        return Slice(Stream(self.topic, self.topic_id, 0), OffsetRange(start, end))


class Writing:
    """Topics of one partition, and producers that remember what was acknowledged at which offset."""

    def __init__(self, kafka: LocalKafka) -> None:
        from confluent_kafka.admin import AdminClient

        self.kafka = kafka
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def topic(self, kind: str, **config: str) -> Truth:
        """Create a topic."""
        from confluent_kafka.admin import NewTopic

        topic = f"accounting-{kind}-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(120)
        eventually(lambda: bool(topic_id(self.admin, topic)))
        return Truth(kind=kind, topic=topic, topic_id=topic_id(self.admin, topic))

    def producer(self, *, transactional: bool = True, **config: Any) -> Any:
        """Return a producer, ready for a transaction."""
        from confluent_kafka import Producer

        name = f"accounting-{uuid.uuid4().hex}"
        own = {"transactional.id": name, "transaction.timeout.ms": 900_000} if transactional else {}
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "linger.ms": 5, **own, **config})
        if transactional:
            producer.init_transactions(120)
        return producer

    def configure(self, kind: Any, name: str, **settings: str) -> None:
        """Change settings of a topic or a broker; underscores stand for dots."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in settings.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(120)

    def dump(self, truths: Sequence[Truth]) -> None:
        """Complete truths by what Kafka's own tool finds in the partitions' files and says of their bounds."""
        folders = {truth.topic: self.kafka.log_dir / f"{truth.topic}-0" for truth in truths}
        files = {str(path): truth for truth in truths for path in sorted(folders[truth.topic].glob("*.log"))}
        try:
            text = self.kafka.tool("kafka.tools.DumpLogSegments", "--print-data-log", "--files", ",".join(files))
        except LocalServerError as error:
            if "NoSuchFileException" not in str(error):
                raise
            self.dump(truths)  # the cleaner has put others in the place of files since
            return
        for line in text.splitlines():
            if line.startswith("Dumping "):
                truth = files.pop(line.removeprefix("Dumping "))
            elif record := _RECORD.match(line):
                offset = int(record[1])
                (truth.markers if record[2] else truth.present).add(offset)
            elif shell := _SHELL.match(line):
                truth.shells.add(int(shell[1]))
        assert not files
        for truth in truths:
            truth.log_start, truth.last_stable, truth.end = (
                bound(self.admin, truth.topic, which) for which in ("earliest", "stable", "latest")
            )


def topic_id(admin: Any, topic: str) -> str:
    from confluent_kafka import KafkaException, TopicCollection

    try:
        described = admin.describe_topics(TopicCollection([topic]))[topic].result(120)
    except KafkaException:
        return ""  # a topic that was just created is not known everywhere at once
    return str(described.topic_id).replace("+", "-").replace("/", "_").rstrip("=")


def bound(admin: Any, topic: str, which: str) -> int:
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    partition = TopicPartition(topic, 0)
    spec = OffsetSpec.earliest() if which == "earliest" else OffsetSpec.latest()
    level = IsolationLevel.READ_COMMITTED if which == "stable" else IsolationLevel.READ_UNCOMMITTED
    return admin.list_offsets({partition: spec}, isolation_level=level)[partition].result(120).offset


def write(truth: Truth, producer: Any, count: int, outcome: str, *, keys: int = 10**9, size: int = 20) -> None:
    """Produce records and wait for their acknowledgements; `outcome` is what will become of them."""

    def remember(error: object, message: Any) -> None:
        assert error is None
        truth.acknowledged[message.offset()] = outcome

    for number in range(count):
        producer.produce(truth.topic, os.urandom(size // 2).hex(), str(number % keys), on_delivery=remember)
    assert producer.flush(120) == 0


def transaction(truth: Truth, producer: Any, count: int, *, commit: bool, **shape: int) -> None:
    producer.begin_transaction()
    write(truth, producer, count, "committed" if commit else "aborted", **shape)
    (producer.commit_transaction if commit else producer.abort_transaction)(120)


def eventually(condition: Callable[[], bool], seconds: float = 300) -> None:
    wait_until(condition, timeout=seconds, failed=AssertionError)


def compacted(writing: Writing, truth: Truth) -> Truth:
    """Let Kafka's cleaner go over all that is written so far, and one more time for the markers it left."""
    from confluent_kafka.admin import ResourceType

    folder = writing.kafka.log_dir / f"{truth.topic}-0"
    checkpoint = writing.kafka.log_dir / "cleaner-offset-checkpoint"
    filler = writing.producer(transactional=False)

    def cleaned_to() -> int:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        return next((int(line.split()[2]) for line in lines if line.startswith(f"{truth.topic} 0 ")), 0)

    for _ in range(2):
        target = bound(writing.admin, truth.topic, "latest")

        def passed(target: int = target) -> bool:
            # A log segment is closed by the first record that comes when its time is over.
            write(truth, filler, 1, "committed", keys=1)
            return cleaned_to() >= target

        eventually(passed)
    # From here on nothing changes any more, so that a dump stays true.
    never = str(2**63 - 1)
    still = {"max_compaction_lag_ms": never, "min_compaction_lag_ms": never, "min_cleanable_dirty_ratio": "1"}
    writing.configure(ResourceType.TOPIC, truth.topic, **still)
    eventually(lambda: not any(path.suffix in {".cleaned", ".swap"} for path in folder.iterdir()))
    return truth


def mixed(writing: Writing) -> Truth:
    """Interleaved transactions of two producers, committed and aborted, among records without one."""
    truth = writing.topic("mixed")
    first, second, plain = writing.producer(), writing.producer(), writing.producer(transactional=False)
    dice = random.Random(7)
    for _ in range(12):
        fates = [dice.choice(["committed", "aborted"]) for _ in range(2)]
        for producer in (first, second):
            producer.begin_transaction()
        for _ in range(dice.randint(1, 5)):
            for producer, fate in dice.sample([*zip((first, second), fates, strict=True), (plain, "committed")], 2):
                write(truth, producer, dice.randint(1, 4), fate)
        for producer, fate in dice.sample([*zip((first, second), fates, strict=True)], 2):
            (producer.commit_transaction if fate == "committed" else producer.abort_transaction)(120)
    return truth


def only_markers(writing: Writing) -> Truth:
    """Slices of nothing but markers: many transactions that end one behind the other."""
    truth = writing.topic("markers")
    producers = [writing.producer() for _ in range(5)]
    for commit in (True, False, True):
        for producer in producers:
            producer.begin_transaction()
            write(truth, producer, 1, "committed" if commit else "aborted")
        for producer in producers:
            (producer.commit_transaction if commit else producer.abort_transaction)(120)
    return truth


def still_open(writing: Writing) -> tuple[Truth, Any]:
    """A transaction that waits long and commits, one that ends aborted behind large records, one that stays open."""
    truth = writing.topic("open")
    waiting, large, open_ended = writing.producer(), writing.producer(), writing.producer()
    plain = writing.producer(transactional=False)
    waiting.begin_transaction()
    write(truth, waiting, 3, "committed")
    large.begin_transaction()
    for _ in range(20):
        write(truth, large, 5, "aborted", size=40_000)
        write(truth, plain, 2, "committed", size=20_000)
    waiting.commit_transaction(120)
    large.abort_transaction(120)
    transaction(truth, large, 4, commit=True)
    transaction(truth, large, 4, commit=False)
    open_ended.begin_transaction()
    write(truth, open_ended, 3, "committed")
    write(truth, plain, 3, "committed")
    return truth, open_ended


def deleted_prefix(writing: Writing) -> Truth:
    """A log that starts inside a batch of an aborted transaction."""
    from confluent_kafka import TopicPartition

    truth = writing.topic("deleted")
    producer = writing.producer()
    transaction(truth, producer, 30, commit=True)
    transaction(truth, producer, 30, commit=False)
    transaction(truth, producer, 10, commit=True)
    inside = TopicPartition(truth.topic, 0, 45)
    writing.admin.delete_records([inside])[inside].result(120)
    return truth


def coded(writing: Writing, codec: str) -> Truth:
    """Compressed batches that the cleaner has thinned out, thrown away, or left as empty shells."""
    truth = writing.topic(codec, **COMPACTING)
    producer = writing.producer(**{"compression.type": codec, "batch.num.messages": 40})
    plain = writing.producer(transactional=False, **{"compression.type": codec})
    transaction(truth, writing.producer(**{"compression.type": codec}), 5, commit=True)
    for round_ in range(4):
        write(truth, plain, 60, "committed", keys=60 - 11 * round_, size=200)
        transaction(truth, producer, 50, commit=round_ % 2 == 0, keys=45, size=200)
        transaction(truth, producer, 7, commit=round_ % 2 == 1, keys=3)
    return compacted(writing, truth)


@pytest.fixture(scope="module")
def truths(kafka: LocalKafka) -> Iterator[Sequence[Truth]]:
    """All partitions with what is known of them."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ResourceType

    writing = Writing(kafka)
    # The cleaner looks every 15 s by default.
    writing.configure(ResourceType.BROKER, "1", log_cleaner_backoff_ms="100")
    unfinished, producer = still_open(writing)
    made = [
        mixed(writing),
        only_markers(writing),
        unfinished,
        deleted_prefix(writing),
        *(coded(writing, codec) for codec in CODECS),
    ]
    # The broker is other tests' too.
    writing.configure(ResourceType.BROKER, "1", log_cleaner_backoff_ms="15000")
    writing.dump(made)
    yield made
    # Only tidying: the broker may have ended the transaction before us.
    with contextlib.suppress(KafkaException):
        producer.abort_transaction(120)


def random_gaps(truths: Sequence[Truth], dice: random.Random) -> dict[Slice, Truth]:
    """Disjoint slices of some partitions: short and long, in batches' middles, below the start, beyond the end."""
    gaps: dict[Slice, Truth] = {}
    for truth in dice.sample(truths, dice.randint(1, 3)):
        edges = sorted(dice.sample(range(truth.end + 3), 2 * dice.randint(1, GAPS_PER_ROUND)))
        if dice.random() < 0.3:
            edges = [edges[0], edges[0] + 1]
        gaps |= {truth.gap(start, end): truth for start, end in zip(edges[::2], edges[1::2], strict=True)}
    return gaps


def by_offset(explanations: Sequence[Explanation]) -> list[tuple[int, Fate]]:
    return [(offset, item.fate) for item in explanations for offset in range(item.range.start, item.range.end)]


def reader(kafka: LocalKafka, **kwargs: Any) -> Any:
    from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader
    from airflow_kafka_lake.adapters.kafka_config import KafkaSettings

    further = kwargs.pop("settings", {})

    class Settings(KafkaSettings):
        def kafka_python(self) -> dict[str, object]:
            return super().kafka_python() | further

    return KafkaBatchReader(Settings.parse({"bootstrap.servers": kafka.bootstrap}), timeout_seconds=10, **kwargs)


@pytest.mark.parametrize("api_version", [None, (3, 0)], ids=["by id", "by name"])
@pytest.mark.parametrize("isolation", list(Isolation))
def test_every_offset_of_random_slices_has_its_true_fate(
    kafka: LocalKafka, truths: Sequence[Truth], isolation: Isolation, api_version: tuple[int, int] | None
) -> None:
    """Whatever slices are asked about, each of their offsets gets the one fate that log dump and producer tell."""
    dice = random.Random()
    its_reader = reader(kafka, settings={"api_version": api_version})
    for _ in range(max(1, ROUNDS // 4)):
        gaps = random_gaps(truths, dice)
        said = its_reader.explain(list(gaps), isolation)
        assert said.keys() == gaps.keys()
        for gap, truth in gaps.items():
            expected = [(o, truth.fate(o, isolation)) for o in range(gap.range.start, gap.range.end)]
            assert by_offset(said[gap]) == expected, (truth.kind, gap.range, said[gap])


def random_ranges(truths: Sequence[Truth], dice: random.Random) -> Iterator[tuple[Truth, OffsetRange]]:
    """Yield a few disjoint ranges of every partition, between its log start and its last stable offset."""
    for truth in truths:
        places = range(truth.log_start, truth.last_stable + 1)
        edges = sorted(dice.sample(places, min(2 * RANGES_PER_PARTITION, 2 * (len(places) // 2))))
        yield from ((truth, OffsetRange(a, b)) for a, b in zip(edges[::2], edges[1::2], strict=True))


def test_five_numbers_of_random_ranges_are_the_true_ones(kafka: LocalKafka, truths: Sequence[Truth]) -> None:
    """Of thousands of ranges, cut anywhere, the numbers sum to the span, leave nothing unexplained, and equal what the
    producers' acknowledgements and Kafka's own log dump say."""
    dice, its_reader, done = random.Random(), reader(kafka), 0
    rows = {truth.topic: truth.visible() for truth in truths}
    while done < RANGES:
        wanted = list(random_ranges(truths, dice))
        gaps = {
            truth.gap(item.start, item.end): (truth, asked)
            for truth, asked in wanted
            for item in RangeSet((asked,)) - rows[truth.topic]
        }
        said: dict[tuple[str, OffsetRange], list[Explanation]] = defaultdict(list)
        for gap, explanations in its_reader.explain(list(gaps), Isolation.READ_COMMITTED).items():
            truth, asked = gaps[gap]
            said[truth.topic, asked] += explanations
        for truth, asked in wanted:
            found = account(asked, rows[truth.topic], said[truth.topic, asked])
            assert found == truth.numbers(asked, rows[truth.topic]), (truth.kind, asked, said[truth.topic, asked])
            assert (found.span, found.unexplained) == (asked.span, 0), (truth.kind, asked)
        done += len(wanted)


def test_scenarios_hold_every_fate(truths: Sequence[Truth]) -> None:
    """The partitions hold what the suite means to test: all fates, shells and holes of the cleaner, a moved start."""
    fates = {
        truth.kind: {truth.fate(offset, Isolation.READ_COMMITTED) for offset in range(truth.end)} for truth in truths
    }
    assert fates["markers"] == {Fate.CONTROL, Fate.ABORTED, Fate.UNEXPLAINED}
    assert any(truth.markers >= {first + n for n in range(5)} for truth in truths for first in truth.markers)
    assert fates["mixed"] == {Fate.CONTROL, Fate.ABORTED, Fate.UNEXPLAINED}
    assert all(fates[codec] >= {Fate.COMPACTED, Fate.CONTROL, Fate.UNEXPLAINED} for codec in CODECS)
    assert all(truth.shells for truth in truths if truth.kind in CODECS)
    assert next(truth.log_start for truth in truths if truth.kind == "deleted") == 45
    unfinished = next(truth for truth in truths if truth.kind == "open")
    assert unfinished.last_stable < unfinished.end


def test_holes_of_a_topic_without_a_cleaner_are_losses(kafka: LocalKafka, truths: Sequence[Truth]) -> None:
    """The same batches prove less where nothing was allowed to take records out of the middle."""
    from confluent_kafka.admin import ResourceType

    truth = next(truth for truth in truths if truth.kind == "zstd")
    gap = truth.gap(0, truth.last_stable)
    writing = Writing(kafka)
    writing.configure(ResourceType.TOPIC, truth.topic, cleanup_policy="delete")
    try:
        eventually(lambda: "compact" not in policy(writing.admin, truth.topic))
        said = dict(by_offset(reader(kafka).explain([gap], Isolation.READ_COMMITTED)[gap]))
    finally:
        writing.configure(ResourceType.TOPIC, truth.topic, cleanup_policy="compact")
    eventually(lambda: "compact" in policy(writing.admin, truth.topic))
    for offset, fate in said.items():
        true = truth.fate(offset, Isolation.READ_COMMITTED)
        assert fate is (Fate.UNEXPLAINED if true is Fate.COMPACTED else true)


def policy(admin: Any, topic: str) -> str:
    from confluent_kafka.admin import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, topic)
    return admin.describe_configs([resource])[resource].result(120)["cleanup.policy"].value


def test_recreated_topic_is_refused_by_brokers_that_know_names_only(kafka: LocalKafka) -> None:
    """Where a Fetch names the topic, ids are compared around it."""
    writing = Writing(kafka)
    former, other = writing.topic("former"), writing.topic("other")
    write(other, writing.producer(transactional=False), 3, "committed")
    mistaken = Slice(Stream(other.topic, former.topic_id, 0), OffsetRange(0, 1))
    for api_version in (None, (3, 0)):
        with pytest.raises(IdentityError, match=other.topic):
            reader(kafka, settings={"api_version": api_version}).explain([mistaken], Isolation.READ_COMMITTED)
