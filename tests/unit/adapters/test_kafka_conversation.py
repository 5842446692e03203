"""The raw-batch reader over real sockets: brokers that answer as a test tells them, bytes as Kafka sends them."""

from __future__ import annotations

import base64
import gc
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader, _worth_repeating
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.accounting import Fate
from airflow_kafka_lake.core.errors import ConnectionSettingsError, IdentityError, UnavailableError
from airflow_kafka_lake.core.kafka.batches import AbortedTransaction
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from tests.kafka_bytes import marker, written
from tests.scripted_kafka import HANG_UP, LATE, NOT_ALLOWED, NOT_LEADER, UNKNOWN_ID, Log, ScriptedKafka, Topic

LETTERS = {Fate.CONTROL: "c", Fate.ABORTED: "a", Fate.COMPACTED: "k", Fate.UNEXPLAINED: "?"}
NO_ID = uuid.UUID(int=0)


def orders(**changes: Any) -> Log:
    """Records 0-2 committed, marker 3, 4-5 aborted, marker 6, a hole at 7, a record at 8."""
    batches = [
        written(0, [0, 1, 2], producer=7),
        marker(3, 7, 1),
        written(4, [4, 5], producer=7),
        marker(6, 7, 0),
        written(8, [8]),
    ]
    values = {"aborted": (AbortedTransaction(producer_id=7, first_offset=4),), "last_stable": 9, "high_watermark": 9}
    return Log(batches, **{**values, **changes})


@contextmanager
def cluster(log: Log | None = None, policy: str = "compact", **words: Any) -> Iterator[ScriptedKafka]:
    """A cluster with one topic of one partition."""
    with ScriptedKafka({"orders": Topic({0: log or orders()}, policy=policy)}, **words) as made:
        yield made


def text(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def gap(kafka: ScriptedKafka, start: int = 0, end: int = 9, *, topic: str = "orders", partition: int = 0) -> Slice:
    topic_id = text(kafka.topics[topic].id)
    return Slice(Stream(topic, topic_id, partition), OffsetRange(start, end))


def at(bootstrap: str, **more: str) -> KafkaSettings:
    return KafkaSettings.parse({"bootstrap.servers": bootstrap, **more})


def reader(kafka: ScriptedKafka, seconds: float = 5) -> KafkaBatchReader:
    return KafkaBatchReader(at(kafka.bootstrap), timeout_seconds=seconds)


def told(
    kafka: ScriptedKafka, *asked: Slice, isolation: Isolation = Isolation.READ_COMMITTED, seconds: float = 5
) -> Any:
    """One letter for each offset of each gap; a list when there are several."""
    wanted = asked or (gap(kafka),)
    found = reader(kafka, seconds).explain(wanted, isolation)
    assert set(found) == set(wanted)
    said = []
    for item in wanted:
        fates = {at: LETTERS[one.fate] for one in found[item] for at in range(one.range.start, one.range.end)}
        assert set(fates) <= set(range(item.range.start, item.range.end))
        said.append("".join(fates.get(at, "?") for at in range(item.range.start, item.range.end)))
    return said[0] if len(said) == 1 else said


def seen(kafka: ScriptedKafka, *, end: int = 9) -> str:
    """What is said of the offsets nothing is known of."""
    asked = gap(kafka, 0, end)
    said = reader(kafka).explain([asked], Isolation.READ_COMMITTED)[asked]
    return " | ".join(item.seen for item in said if item.fate is Fate.UNEXPLAINED)


@pytest.mark.parametrize("version", [4, 11, 12, 13], ids=lambda version: f"fetch-{version}")
def test_every_offset_has_its_fate_with_old_and_new_brokers(version: int) -> None:
    """Kafka 4 fetches by topic id, older versions by name."""
    with cluster(fetch_version=version) as kafka:
        if version < 13:
            kafka.topics["orders"].id = NO_ID
        assert told(kafka) == "???caack?"
        assert told(kafka, isolation=Isolation.READ_UNCOMMITTED) == "???c??ck?"
        assert {request.header.request_api_version for request in kafka.requests("Fetch")} == {version}


def test_broker_with_newer_fetch_and_no_topic_id_is_asked_by_name() -> None:
    """Fetch by id would ask for no topic where the topic has none."""
    with cluster() as kafka:
        kafka.topics["orders"].id = NO_ID
        assert told(kafka) == "???caack?"
        assert {request.header.request_api_version for request in kafka.requests("Fetch")} == {12}


def test_fetch_asks_for_what_its_isolation_may_see() -> None:
    """Isolation level 1 reads to the last stable offset and lists aborted transactions, 0 to the high watermark; an
    answer comes as soon as there is a byte, and waits for no more than a moment."""
    for isolation, level in ((Isolation.READ_COMMITTED, 1), (Isolation.READ_UNCOMMITTED, 0)):
        with cluster() as kafka:
            told(kafka, isolation=isolation)
            asked = kafka.requests("Fetch")
            assert {request.isolation_level for request in asked} == {level}
            assert {request.min_bytes for request in asked} == {1}
            assert all(0 < request.max_wait_ms <= 1000 for request in asked)
            assert asked[0].topics[0].partitions[0].fetch_offset == 0
            assert {request.allow_auto_topic_creation for request in kafka.requests("Metadata")[1:]} == {False}


@pytest.mark.parametrize(
    ("policy", "hole"), [("compact", "k"), ("compact,delete", "k"), ("delete", "?"), ("", "?")], ids=str
)
def test_hole_is_the_cleaners_work_only_where_there_is_a_cleaner(policy: str, hole: str) -> None:
    """Elsewhere an offset without a record is a loss."""
    with cluster(policy=policy) as kafka:
        assert told(kafka) == f"???caac{hole}?"
        assert ("the topic is not compacted" in seen(kafka)) == (hole == "?")


def test_hole_is_a_loss_where_no_cleaner_can_be_asked_about() -> None:
    """Without the right to DescribeConfigs nothing proves compaction."""
    with cluster() as kafka:
        refused = {"error_code": NOT_ALLOWED, "resource_type": 2, "resource_name": "orders", "configs": []}
        kafka.scripts["DescribeConfigs"] = lambda request: {"results": [result(**refused)]}

        def result(**values: Any) -> Any:
            from kafka.protocol.admin.configs import DescribeConfigsResponse

            return DescribeConfigsResponse.DescribeConfigsResult(error_message="", **values)

        assert told(kafka) == "???caac??"
        assert "may not read whether it is (DescribeConfigs)" in seen(kafka)


def test_whether_there_is_a_cleaner_is_asked_again_while_a_broker_cannot_say() -> None:
    """An error is no setting: a topic whose settings were not read is not one without a cleaner."""
    from kafka.protocol.admin.configs import DescribeConfigsResponse

    busy = DescribeConfigsResponse.DescribeConfigsResult(
        error_code=LATE, error_message="", resource_type=2, resource_name="orders", configs=[]
    )
    with cluster() as kafka:
        kafka.scripts["DescribeConfigs"] = lambda _: (
            {"results": [busy]} if len(kafka.requests("DescribeConfigs")) <= 2 else None
        )
        assert told(kafka) == "???caack?"


def test_whether_there_is_a_cleaner_is_asked_only_where_a_hole_is() -> None:
    """A plain answer costs no further question, and needs no further right."""
    with cluster() as kafka:
        assert told(kafka, gap(kafka, 3, 7)) == "caac"
        assert kafka.requests("DescribeConfigs") == []


def test_moved_leader_is_found() -> None:
    """The broker that led says that it does not any more; where the partition went is asked again."""
    with cluster(orders(leader=2), brokers=3) as kafka:

        def moves(request: Any) -> None:
            if len(kafka.requests("Fetch")) == 1:
                kafka.topics["orders"].logs[0].leader = 3

        kafka.scripts["Fetch"] = moves
        assert told(kafka) == "???caack?"
        nodes = [node for node, request in kafka.heard if request.name == "FetchRequest"]
        assert (nodes[0], set(nodes[1:])) == (2, {3})


def test_partition_without_a_leader_is_waited_for() -> None:
    """Leader -1 means that an election goes on."""
    with cluster(orders(leader=-1)) as kafka:

        def elects(request: Any) -> None:
            if len(kafka.requests("Metadata")) == 4:
                kafka.topics["orders"].logs[0].leader = 1

        kafka.scripts["Metadata"] = elects
        assert told(kafka) == "???caack?"
    with (
        cluster(orders(leader=-1)) as kafka,
        pytest.raises(UnavailableError, match="did not answer while reading"),
    ):
        told(kafka, seconds=0.3)


def test_leaders_are_read_side_by_side_and_one_failure_ends_no_other() -> None:
    """What another leader still answers is read to its end before the failure is told."""
    logs = {0: orders(leader=1), 1: orders(leader=2), 2: orders(leader=2)}
    with ScriptedKafka({"orders": Topic(logs, policy="compact")}, brokers=2) as kafka:
        asked = [gap(kafka, partition=number) for number in range(3)]
        assert told(kafka, *asked) == ["???caack?"] * 3

        def refuse(request: Any) -> Any:
            piece = request.topics[0].partitions[0]
            return answer(request, 0, error_code=NOT_ALLOWED) if piece.partition == 0 else None

        kafka.scripts["Fetch"] = refuse
        kafka.heard.clear()
        with pytest.raises(
            ConnectionSettingsError,
            match=r"lacks the right Read on topic orders\. .* --operation Read --topic orders",
        ):
            told(kafka, *asked)
        read = {request.topics[0].partitions[0].partition for request in kafka.requests("Fetch")}
        assert read == {0, 1, 2}


def answer(request: Any, throttle_ms: int, *, whole: int = 0, empty: bool = False, **values: Any) -> dict[str, Any]:
    """A Fetch answer with an error, or with no bytes."""
    from kafka.protocol.consumer import FetchResponse

    kind = FetchResponse.FetchableTopicResponse
    (asked,) = request.topics
    piece = kind.PartitionData(
        **{
            "partition_index": asked.partitions[0].partition,
            "error_code": 0,
            "high_watermark": 9,
            "last_stable_offset": 9,
            "log_start_offset": 0,
            "records": b"",
            **values,
        }
    )
    responses = [] if empty else [kind(topic=asked.topic, topic_id=asked.topic_id, partitions=[piece])]
    return {"throttle_time_ms": throttle_ms, "error_code": whole, "session_id": 0, "responses": responses}


@pytest.mark.parametrize("empty", [False, True], ids=["no-bytes", "no-partition"])
def test_answer_that_a_quota_emptied_is_asked_again(empty: bool) -> None:
    """Ten empty answers would otherwise mean that there is nothing to read."""
    with cluster() as kafka:
        kafka.scripts["Fetch"] = lambda request: (
            answer(request, 1, empty=empty) if len(kafka.requests("Fetch")) <= 10 else None
        )
        assert told(kafka) == "???caack?"


def test_full_answer_that_also_tells_of_a_quota_is_believed() -> None:
    """A throttled broker sends the data and asks for a pause behind it."""
    with cluster() as kafka:
        data = b"".join(kafka.topics["orders"].logs[0].batches)
        kafka.scripts["Fetch"] = lambda request: answer(request, 1, records=data)
        assert told(kafka, gap(kafka, 3, 4)) == "c"
        assert len(kafka.requests("Fetch")) == 1


def test_quota_of_one_broker_keeps_no_question_from_the_others() -> None:
    """Who leads and which id a topic has is asked of any broker: one that is not throttled answers at once."""
    with cluster(orders(leader=2), brokers=2) as kafka:
        data = b"".join(kafka.topics["orders"].logs[0].batches)
        kafka.scripts["Fetch"] = lambda request: answer(request, 60_000, records=data)
        assert told(kafka, gap(kafka, 3, 4)) == "c"


@pytest.mark.slow
def test_quota_of_the_one_that_leads_is_waited_for_while_another_is_free() -> None:
    """Only the leader has the bytes: how long it keeps us back counts, and is patience on top of the time given."""
    with cluster(orders(leader=2), brokers=2) as kafka:
        first = bytes(kafka.topics["orders"].logs[0].batches[1])
        kafka.scripts["Fetch"] = lambda request: (
            answer(request, 2_500, records=first) if len(kafka.requests("Fetch")) == 1 else None
        )
        assert told(kafka, gap(kafka, 3, 7), seconds=1) == "caac"


def test_error_that_does_not_pass_is_asked_again_with_pauses() -> None:
    """A broker in an election answers in a moment, and a reader that asks at once again is a load on it."""
    with cluster() as kafka:
        kafka.scripts["Fetch"] = lambda request: answer(request, 0, error_code=NOT_LEADER)
        with pytest.raises(UnavailableError, match="did not answer while reading"):
            told(kafka, seconds=0.3)
        assert 1 <= len(kafka.requests("Fetch")) <= 5


def test_broker_that_stands_still_is_given_up_after_the_time_that_was_given() -> None:
    """A question that is never answered waits for our time, not for kafka-python's half minute."""
    gave_up, in_time = threading.Event(), list[bool]()
    with cluster() as kafka:
        kafka.scripts["Fetch"] = lambda request: in_time.append(gave_up.wait(10)) or HANG_UP
        with pytest.raises(UnavailableError, match="did not answer while reading"):
            told(kafka, seconds=0.3)
        gave_up.set()
    assert in_time
    assert all(in_time)


@pytest.mark.slow
def test_quota_without_end_is_unavailable() -> None:
    """Waits that a quota announces are patience on top, not for ever."""
    with cluster() as kafka:
        kafka.scripts["Fetch"] = lambda request: answer(request, 1, empty=True)
        with pytest.raises(UnavailableError, match="a quota keeps the data back"):
            told(kafka, seconds=0.3)  # a machine under load answers late, and 0.1 s were silence then
        assert 10 <= len(kafka.requests("Fetch")) <= 75


def test_silence_of_a_broker_without_a_quota_explains_nothing() -> None:
    """Empty answers below the readable end are asked a few times and then told as what they are."""
    with cluster() as kafka:
        kafka.scripts["Fetch"] = lambda request: answer(request, 0)
        assert told(kafka) == "?????????"
        assert "returned nothing from offset 0 on, with its readable end at 9" in seen(kafka)


@pytest.mark.parametrize("whole", [False, True], ids=["partition", "answer"])
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (NOT_ALLOWED, ConnectionSettingsError),
        (31, ConnectionSettingsError),
        (-1, UnavailableError),
        (87, UnavailableError),
    ],
    ids=["topic-not-allowed", "cluster-not-allowed", "server-error", "invalid-record"],
)
def test_error_that_no_repeat_mends_is_told_at_once(code: int, error: type[Exception], whole: bool) -> None:
    """Asking again would only cost time: one question, one answer."""
    with cluster() as kafka:
        kafka.scripts["Fetch"] = lambda request: (
            answer(request, 0, whole=code) if whole else answer(request, 0, error_code=code)
        )
        with pytest.raises(error):
            told(kafka, seconds=10)
        assert len(kafka.requests("Fetch")) == 1


@pytest.mark.parametrize("code", [NOT_LEADER, 5, 7, 9, 56, 74, 75], ids=str)
def test_error_that_passes_is_asked_again(code: int) -> None:
    """A moved or new leader, a time-out and its like end by themselves."""
    with cluster() as kafka:
        kafka.scripts["Fetch"] = lambda request: (
            answer(request, 0, error_code=code) if len(kafka.requests("Fetch")) <= 2 else None
        )
        assert told(kafka) == "???caack?"


def test_connection_that_breaks_is_opened_again() -> None:
    """A broker that hangs up is a broker that restarts."""
    with cluster() as kafka:
        kafka.scripts["Fetch"] = lambda request: HANG_UP if len(kafka.requests("Fetch")) == 1 else None
        assert told(kafka) == "???caack?"
    assert _worth_repeating(ConnectionResetError())


def test_topic_of_another_id_is_another_topic() -> None:
    """Before the reading and behind it."""
    with cluster() as kafka:
        planned = gap(kafka)
        kafka.topics["orders"].id = uuid.uuid4()
        with pytest.raises(IdentityError, match="deleted and created again") as caught:
            told(kafka, planned)
        assert text(kafka.topics["orders"].id) in str(caught.value)
        assert kafka.requests("Fetch") == []
    with cluster(fetch_version=12) as kafka:
        planned = gap(kafka, 3, 4)

        def recreated(request: Any) -> None:
            kafka.topics["orders"].id = uuid.uuid4()

        kafka.scripts["Fetch"] = recreated
        with pytest.raises(IdentityError, match="deleted and created again"):
            told(kafka, planned)


@pytest.mark.slow
def test_topic_that_stays_unknown_is_gone() -> None:
    """A few answers may be of brokers that have not heard of it yet; then it is no longer there."""
    with cluster() as kafka:
        kafka.scripts["Fetch"] = lambda request: (
            answer(request, 0, error_code=UNKNOWN_ID) if len(kafka.requests("Fetch")) <= 3 else None
        )
        assert told(kafka) == "???caack?"
    with cluster() as kafka:
        planned = gap(kafka)
        del kafka.topics["orders"]
        with pytest.raises(IdentityError, match="no longer knows orders"):
            told(kafka, planned, seconds=10)
    with cluster() as kafka, pytest.raises(IdentityError, match="no longer knows orders"):
        told(kafka, gap(kafka, partition=5), seconds=10)


def test_one_topic_has_one_id() -> None:
    """Two ids under one name, or something that is no id, are refused; one id of two partitions is fine."""
    with cluster() as kafka:
        one = gap(kafka)
        other = Slice(Stream("orders", text(uuid.uuid4()), 1), one.range)
        with pytest.raises(IdentityError, match="two ids"):
            told(kafka, one, other)
        with pytest.raises(IdentityError, match="22 characters"):
            told(kafka, Slice(Stream("orders", "orders", 0), one.range))


def test_offsets_below_the_log_start_are_told_as_such() -> None:
    """The first offset that can still be read is Kafka's own answer."""
    log = orders(log_start=4)
    with cluster(log) as kafka:
        assert told(kafka) == "????aack?"
        assert "below the log start 4" in seen(kafka)
        asked = kafka.requests("ListOffsets")
        assert {(item.replica_id, item.isolation_level) for item in asked} == {(-1, 0)}
        assert {item.topics[0].partitions[0].current_leader_epoch for item in asked} == {-1}


def test_offsets_beyond_the_end_are_told_as_such() -> None:
    """What does not exist has no fate."""
    with cluster() as kafka:
        assert told(kafka, gap(kafka, 8, 14)) == "??????"
        assert "readable end at 9" in seen(kafka, end=14)


def test_nothing_stays_open() -> None:
    """Sockets and what watches them end with the call, also with one that fails, and not when memory is tidied."""
    own = psutil.Process()
    with cluster(brokers=2) as kafka:
        told(kafka)
        for thread in kafka._threads[2:]:
            thread.join(10)
        before = own.num_fds()
        gc.disable()
        try:
            told(kafka)
            kafka.scripts["Fetch"] = lambda request: answer(request, 0, error_code=NOT_ALLOWED)
            with pytest.raises(ConnectionSettingsError):
                told(kafka)
            for thread in kafka._threads[2:]:
                thread.join(10)
            assert kafka.open == 0
            assert own.num_fds() <= before
        finally:
            gc.enable()


def test_cluster_that_cannot_be_reached_is_unavailable() -> None:
    """Nothing listens: the wait is the one that was given, and repeating is worth it."""
    nowhere = Slice(Stream("orders", text(uuid.uuid4()), 0), OffsetRange(0, 1))
    with pytest.raises(UnavailableError, match="did not answer while reading"):
        KafkaBatchReader(at("127.0.0.1:1"), timeout_seconds=0.2).explain([nowhere], Isolation.READ_COMMITTED)


def test_broker_that_answers_hears_a_login_and_hangs_up_twice_has_refused_it() -> None:
    """Once may be a broker that ends; twice is a wrong password, which no repeat mends."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": "me", "sasl.password": "wrong"}
    with cluster() as kafka:
        kafka.scripts["SaslHandshake"] = lambda _: HANG_UP
        refused = KafkaBatchReader(at(kafka.bootstrap, **login), timeout_seconds=5)
        with pytest.raises(ConnectionSettingsError, match="the login is not accepted"):
            refused.explain([gap(kafka)], Isolation.READ_COMMITTED)
        assert len(kafka.requests("SaslHandshake")) == 2


def test_who_leads_is_asked_no_oftener_for_many_reads() -> None:
    """What a Fetch costs is a Fetch."""
    asked = []
    for gaps in (1, 4):
        batches = [data for at in range(0, 8, 2) for data in (written(at, [at], size=300_000), marker(at + 1, 7, 1))]
        with cluster(Log(batches, high_watermark=8, last_stable=8)) as kafka:
            wanted = [gap(kafka, at, at + 1) for at in range(1, 2 * gaps, 2)]
            said = told(kafka, *wanted)
            assert said == ("c" if gaps == 1 else ["c"] * gaps)
            assert len(kafka.requests("Fetch")) >= min(gaps, 2)
            asked.append(len(kafka.requests("Metadata")))
    assert asked[0] == asked[1]
