"""The broker dies, forgets, or has another topic of the same name."""

from __future__ import annotations

import time

from airflow_kafka_lake.local.processes import wait_until
from tests.soak.checking import watermarks
from tests.soak.faults.strike import Fault


class BrokerRestart(Fault):
    """The broker shuts down in order and comes back."""

    name = "broker-restart"
    words = "the broker shuts down in order and comes back"
    every = 15.0
    crash = False

    def strike(self) -> bool:
        """Stop it, wait a little, start it."""
        place = self.scene.place
        with place.broker_turn:
            broker = place.a_broker(self.choose)
            (broker.kill if self.crash else broker.stop)()
            try:
                time.sleep(self.choose.uniform(0, 3))
            finally:
                broker.start()
        return True


class BrokerKill(BrokerRestart):
    """The broker dies and comes back."""

    name = "broker-kill"
    words = "SIGKILL to the broker, which comes back"
    crash = True


class AdminFault(Fault):
    """What an administrator does; while another fault has the broker down, it is not done."""

    def strike(self) -> bool:
        """Hit, unless the broker does not answer."""
        from confluent_kafka import KafkaException

        try:
            return self.hit()
        except KafkaException as error:
            self.scene.place.journal("fault missed", fault=self.name, error=str(error)[:200])
            return False

    def hit(self) -> bool:
        """Do it; whether there was something to do it to."""
        raise NotImplementedError


class RetentionSettled(AdminFault):
    """Kafka forgets what is committed: that must change nothing."""

    name = "retention-committed"
    words = "Kafka deletes records below the watermarks"
    every = 6.0

    def hit(self) -> bool:
        """Delete up to the watermark on every stream of one topic."""
        topic = self.choose.choice(("plain", "keyed", "changes"))
        with self.scene.place.database("ledger") as cursor:
            cursor.execute("SELECT partition, watermark FROM kafka_lake_stream WHERE topic = %s", (topic,))
            watermarks = dict(cursor.fetchall())
        return _delete(self, topic, watermarks)


class RetentionUnread(AdminFault):
    """Kafka forgets what no run has read: a person must decide."""

    name = "retention-unread"
    words = "Kafka deletes records that no run has read yet; a person skips them"
    every = 20.0

    def hit(self) -> bool:
        """Delete half of what is not committed."""
        place = self.scene.place
        with place.database("ledger") as cursor:
            cursor.execute("SELECT partition, watermark FROM kafka_lake_stream WHERE topic = 'expiring'")
            watermarks = dict(cursor.fetchall())
        ends = _ends(self, "expiring", list(watermarks))
        gone = {partition: (watermarks[partition] + end) // 2 for partition, end in ends.items()}
        gone = {partition: offset for partition, offset in gone.items() if offset > watermarks[partition]}
        return bool(gone) and _delete(self, "expiring", gone)


class TopicRecreation(AdminFault):
    """The topic is deleted and created again: the same name, another topic."""

    name = "topic-recreation"
    words = "a topic is deleted and created again; a person skips what was left of the old one"
    every = 25.0

    def hit(self) -> bool:
        """Delete and create, with no producer in between."""
        place, production = self.scene.place, self.scene.producers.of["reborn"]
        if not any(stream[1] == place.topic_ids["reborn"] for stream in watermarks(place)):
            return False  # no plan has it yet
        with production.turn, place.broker_turn:
            place.note_end_of("reborn")
            place.admin().delete_topics(["reborn"])["reborn"].result(timeout=60)
            _until_gone(self, "reborn")
            place.create_topic("reborn")
            production.renew()
        return True


class PartitionExpansion(AdminFault):
    """A topic gets more partitions."""

    name = "partition-expansion"
    words = "a topic gets one more partition"
    every = 30.0
    most = 12

    def hit(self) -> bool:
        """Add a partition, up to a dozen."""
        from confluent_kafka.admin import NewPartitions

        topic = "keyed"
        admin = self.scene.place.admin()
        now = len(admin.list_topics(topic, timeout=30).topics[topic].partitions)
        if now >= self.most:
            return False
        admin.create_partitions([NewPartitions(topic, now + 1)])[topic].result(timeout=60)
        return True


def _delete(fault: Fault, topic: str, before: dict[int, int]) -> bool:
    from confluent_kafka import TopicPartition

    wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items() if offset > 0]
    if not wanted:
        return False
    with fault.scene.place.broker_turn:
        for future in fault.scene.place.admin().delete_records(wanted).values():
            future.result(timeout=60)
    fault.scene.place.journal("deleted", topic=topic, before=before)
    return True


def _ends(fault: Fault, topic: str, partitions: list[int]) -> dict[int, int]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
    if not asked:
        return {}
    with fault.scene.place.broker_turn:
        answers = fault.scene.place.admin().list_offsets(asked)
        return {partition.partition: int(answer.result(timeout=60).offset) for partition, answer in answers.items()}


def _until_gone(fault: Fault, topic: str) -> None:
    admin = fault.scene.place.admin()
    wait_until(lambda: topic not in admin.list_topics(timeout=30).topics, timeout=30, failed=TimeoutError)


KAFKA_FAULTS = (BrokerRestart, BrokerKill, RetentionSettled, RetentionUnread, TopicRecreation, PartitionExpansion)
