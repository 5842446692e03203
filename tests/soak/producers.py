"""Producers at a steady pace, one thread per topic, in three styles; each notes what the broker acknowledged."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.soak.acknowledged import Acknowledged, Record, digest
from tests.soak.lanes import TOPICS, Topic
from tests.soak.place import Place

BEAT_SECONDS = 1.0
KEYS = 2_000
FEW_KEYS = 40
ABORTED_OF_TEN = 3
LONGEST_OPEN_SECONDS = 4.0
LONGEST_TRANSACTION_MS = 120_000
VALUE_BYTES = 100


class Production(threading.Thread):
    """One topic's producer; `turn` is held while records are on their way."""

    def __init__(self, place: Place, topic: Topic, acknowledged: Acknowledged, *, seed: int) -> None:
        super().__init__(name=f"producer of {topic.name}", daemon=True)
        self.turn = threading.Lock()
        self.rate = 0.0
        """Records per second."""
        self.problem = ""
        self._place = place
        self._topic = topic
        self._acknowledged = acknowledged
        self._random = random.Random(f"{seed}/{topic.name}")
        self._over = threading.Event()
        self._number = 0
        self._producer: Any = None

    def run(self) -> None:
        """Produce until told to stop."""
        burst = self._transaction if self._topic.style == "transactional" else self._plain
        owed, since = 0.0, time.monotonic()
        while not self._over.wait(BEAT_SECONDS):
            now = time.monotonic()
            owed, since = owed + self.rate * (now - since), now
            if (count := int(owed)) < 1:
                continue
            owed -= count
            try:
                with self.turn:
                    burst(count)
            except Exception as error:  # noqa: BLE001  # a producer that broke must show, and not silently fall quiet
                self.problem = f"{self.name}: {type(error).__name__}: {error}"
                self._place.journal("producer broke", topic=self._topic.name, error=str(error))
                self._producer = None

    def stop(self) -> None:
        """End after what is on its way."""
        self._over.set()

    def renew(self) -> None:
        """Connect anew, for a topic that was created again; call it with `turn` in hand."""
        self._producer = None

    def _open(self, **settings: Any) -> Any:
        from confluent_kafka import Producer

        return Producer(
            {
                "bootstrap.servers": self._place.bootstrap,
                "log_level": 0,
                "linger.ms": 20,
                "enable.idempotence": True,
                "delivery.timeout.ms": 600_000,
                "topic.metadata.refresh.interval.ms": 5_000,
                "reconnect.backoff.max.ms": 1_000,
                **settings,
            }
        )

    def _record(self) -> tuple[bytes | None, bytes | None]:
        self._number += 1
        value = f"{self._topic.name} {self._number} ".encode().ljust(VALUE_BYTES, b".")
        if self._topic.style != "keyed":
            return (None if self._number % 5 else str(self._number).encode()), value
        keys = FEW_KEYS if self._topic.name == "latest" else KEYS
        return str(self._random.randrange(keys)).encode(), (value if self._number % 97 else None)

    def _plain(self, count: int) -> None:
        self._producer = self._producer or self._open()
        topic_id = self._place.topic_ids[self._topic.name]
        for _ in range(count):
            key, value = self._record()
            self._send(key, value, self._noted(topic_id, key, value, self._acknowledged.note))
        self._flush()

    def _send(self, key: bytes | None, value: bytes | None, noted: Callable[[Any, Any], None]) -> None:
        self._producer.produce(self._topic.name, key=key, value=value, on_delivery=noted)
        if not self._number % 500:
            self._producer.poll(0)

    def _flush(self) -> None:
        while self._producer.flush(5):
            if self._over.is_set() and not self._producer.flush(120):
                return

    def _noted(
        self, topic_id: str, key: bytes | None, value: bytes | None, tell: Callable[[Record], None]
    ) -> Callable[[Any, Any], None]:
        content = digest(key, value)

        def noted(error: Any, message: Any) -> None:
            if error is not None:
                self._acknowledged.unanswered.add(content)
                return
            tell(
                Record(
                    topic=self._topic.name,
                    topic_id=topic_id,
                    partition=message.partition(),
                    offset=message.offset(),
                    digest=content,
                    key=digest(key, None),
                )
            )

        return noted

    def _transaction(self, count: int) -> None:
        """Send one transaction, keep it open for a while, and end it one way or the other."""
        from confluent_kafka import KafkaException

        sent: list[Record] = []
        commit = self._random.randrange(10) >= ABORTED_OF_TEN
        self._ready()
        try:
            self._producer.begin_transaction()
            for _ in range(count):
                key, value = self._record()
                self._send(key, value, self._noted(self._place.topic_ids[self._topic.name], key, value, sent.append))
            self._flush()
            time.sleep(self._random.random() * LONGEST_OPEN_SECONDS)
            self._repeat(
                lambda: (self._producer.commit_transaction if commit else self._producer.abort_transaction)(30)
            )
        except KafkaException as error:
            self._lost(sent, error, commit=commit)
            return
        (self._acknowledged.note if commit else self._acknowledged.note_aborted)(*sent)

    def _ready(self) -> None:
        if self._producer is not None:
            return
        longest = {"delivery.timeout.ms": LONGEST_TRANSACTION_MS, "transaction.timeout.ms": LONGEST_TRANSACTION_MS}
        producer = self._open(**longest, **{"transactional.id": f"soak-{self._topic.name}"})
        self._repeat(lambda: producer.init_transactions(30))
        self._producer = producer

    def _lost(self, sent: list[Record], error: Any, *, commit: bool) -> None:
        """Find out how a transaction ended whose end failed; where that cannot be known, note just that."""
        self._place.journal("transaction failed", records=len(sent), error=str(error))
        producer, self._producer = self._producer, None
        if not commit:
            self._acknowledged.note_aborted(*sent)
        elif error.args[0].txn_requires_abort():
            self._repeat(lambda: producer.abort_transaction(30))
            self._acknowledged.note_aborted(*sent)
            self._producer = producer
        else:
            self._acknowledged.note_uncertain(*sent)

    def _repeat(self, call: Callable[[], object]) -> None:
        """Call until Kafka has answered; errors that repeating cannot help pass on."""
        from confluent_kafka import KafkaException

        while True:
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                time.sleep(0.2)
            else:
                return


class Producers:
    """All of them."""

    def __init__(self, place: Place, acknowledged: Acknowledged, *, seed: int) -> None:
        self.of = {name: Production(place, topic, acknowledged, seed=seed) for name, topic in TOPICS.items()}

    def start(self) -> None:
        """Begin, at no pace yet."""
        for production in self.of.values():
            production.start()

    def throughput(self, records_per_second: float) -> None:
        """Set the pace of all of them together; each topic gets its share."""
        for name, production in self.of.items():
            production.rate = records_per_second * TOPICS[name].share

    def stop(self) -> None:
        """Stop and wait until everything on its way was answered."""
        for production in self.of.values():
            production.stop()
        for production in self.of.values():
            production.join(180)

    def problems(self) -> list[str]:
        """Return what broke."""
        return [item.problem for item in self.of.values() if item.problem]

    def late(self) -> list[str]:
        """Return who goes on although told to stop."""
        return [f"{item.name} does not end" for item in self.of.values() if item.is_alive()]
