"""`ports.BatchReader` over kafka-python's low-level client."""

from __future__ import annotations

import random
import selectors
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from airflow_kafka_lake.adapters.kafka_batches.records import record_at
from airflow_kafka_lake.adapters.kafka_batches.scan import GapScan, Throughput
from airflow_kafka_lake.adapters.kafka_batches.session import LOGIN_REFUSED, Session, translated
from airflow_kafka_lake.adapters.kafka_python import SETTINGS, KafkaNetClient, errors
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.core.kafka.batches import divided, lost
from airflow_kafka_lake.core.lake.accounting import Explanation, Fate
from airflow_kafka_lake.core.lake.staging import Tip
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.ports.kafka import NONE_KNOWN

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_RECONNECT_AFTER_MS = 1000
_LARGEST_ANSWER_BYTES = 2**31 - 1


class ClosingSelector(selectors.DefaultSelector):
    """Closes, when it is closed, every socket it ever watched."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: set[Any] = set()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a socket."""
        self._watched.add(fileobj)
        return super().register(fileobj, events, data)

    def close(self) -> None:
        """Close the selector and the sockets."""
        super().close()
        for watched in self._watched:
            watched.close()


class KafkaBatchReader:
    """Explains offsets without a row from Kafka's raw record batches (`ports.BatchReader`).

    `settings` are kafka-python's keyword arguments (`KafkaSettings.kafka_python()`); ConnectionSettingsError names a
    key that kafka-python would ignore. `timeout_seconds` bounds every single wait for Kafka, not the whole reading;
    `bytes_per_second` bounds what is read. Connections live only as long as a call.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        timeout_seconds: float = 30.0,
        bytes_per_second: float | None = None,
    ) -> None:
        self._settings = _checked(settings)
        self._timeout = timeout_seconds
        self._bytes_per_second = bytes_per_second

    def explain(
        self,
        gaps: Sequence[Slice],
        isolation: Isolation,
        heartbeat: Callable[[int], None] = lambda _: None,
        *,
        epochs: Mapping[Stream, int] = NONE_KNOWN,
    ) -> Mapping[Slice, tuple[Explanation, ...]]:
        """Return the explanations of each gap: each offset has exactly one fate, UNEXPLAINED where Kafka has none.

        Under read_uncommitted aborted records have rows, so a missing one is UNEXPLAINED. Raises IdentityError when a
        topic's id is not the gap's, UnavailableError when the brokers cannot be read, ConnectionSettingsError when
        they refuse us.
        """
        if not gaps:
            return {}
        by_stream: dict[Stream, list[Slice]] = defaultdict(list)
        for gap in gaps:
            by_stream[gap.stream].append(gap)
        with self._connected() as client:
            session = Session(client, by_stream, timeout=self._timeout, epochs=epochs)
            found = client._manager.run(self._read, session, by_stream, isolation, heartbeat)  # noqa: SLF001  # no other door
        explained: dict[Slice, tuple[Explanation, ...]] = {}
        for stream, its_gaps in by_stream.items():
            parts = divided(found[stream], [gap.range for gap in its_gaps])
            explained |= {gap: parts[gap.range] for gap in its_gaps}
        return explained

    def held(
        self, places: Sequence[tuple[Stream, int]], *, epochs: Mapping[Stream, int] = NONE_KNOWN
    ) -> Mapping[tuple[Stream, int], Tip]:
        """Return the records at some offsets (`ports.BatchReader.held`), a batch for each; raises as `explain`."""
        if not places:
            return {}
        with self._connected() as client:
            session = Session(client, [stream for stream, _ in places], timeout=self._timeout, epochs=epochs)
            found: Mapping[tuple[Stream, int], Tip] = client._manager.run(self._look_up, session, places)  # noqa: SLF001  # no other door
        return found

    async def _look_up(
        self, session: Session, places: Sequence[tuple[Stream, int]]
    ) -> Mapping[tuple[Stream, int], Tip]:
        await session.check_identity()
        by_leader: dict[int | None, list[tuple[Stream, int]]] = defaultdict(list)
        for place in places:
            by_leader[session.leader(place[0])].append(place)
        found: dict[tuple[Stream, int], Tip] = {}

        async def look_up(some: Sequence[tuple[Stream, int]]) -> None:
            for stream, offset in some:
                answer = await session.fetch(stream, offset, isolation=0, max_bytes=1)
                if answer is not None and (tip := record_at(answer.records, stream, offset)):
                    found[stream, offset] = tip

        await session.side_by_side([partial(look_up, some) for some in by_leader.values()])
        await session.check_identity()
        return found

    async def _read(
        self,
        session: Session,
        by_stream: Mapping[Stream, Sequence[Slice]],
        isolation: Isolation,
        heartbeat: Callable[[int], None],
    ) -> Mapping[Stream, Sequence[Explanation]]:
        """Read all streams, one after the other on each leader, the leaders side by side."""
        await session.check_identity()
        throughput = Throughput(self._bytes_per_second)
        by_leader: dict[int | None, list[GapScan]] = defaultdict(list)
        for stream, its_gaps in by_stream.items():
            asked = RangeSet(gap.range for gap in its_gaps)
            scan = GapScan(session, stream, asked, isolation=isolation, throughput=throughput, heartbeat=heartbeat)
            by_leader[session.leader(stream)].append(scan)
        await session.side_by_side([partial(_in_turn, scans) for scans in by_leader.values()])
        await _doubt_holes(session, [scan for scans in by_leader.values() for scan in scans])
        # Once more after the reading: older brokers are asked by name, and the topic of a name may change meanwhile.
        await session.check_identity()
        return {scan.stream: scan.found for scans in by_leader.values() for scan in scans}

    @contextmanager
    def _connected(self) -> Iterator[KafkaNetClient]:
        timeout_ms = int(self._timeout * 1000)
        client = KafkaNetClient(
            **{
                "reconnect_backoff_max_ms": _RECONNECT_AFTER_MS,
                **self._settings,
                "request_timeout_ms": timeout_ms,
                "receive_message_max_bytes": _LARGEST_ANSWER_BYTES,
                "slow_task_threshold_secs": 0,
                "selector": ClosingSelector,
            }
        )
        try:
            try:
                client._manager.run(_try_login, client._manager, timeout_ms // 2)  # noqa: SLF001  # no other door
                client._manager.bootstrap(timeout_ms)  # noqa: SLF001
            except (errors.KafkaError, OSError) as error:
                raise translated(error, self._timeout) from error
            yield client
        finally:
            client.close()


async def _try_login(manager: Any, timeout_ms: int) -> None:
    """Try the login before the bootstrap, which would repeat a refused one until its time is over.

    kafka-python overlooks a refusal that comes together with the end of the connection, as Kafka's does: a broker that
    twice answers, hears the login and hangs up has refused it.
    """
    broker = random.choice(manager.cluster.bootstrap_brokers())
    for _ in range(2):
        try:
            connection = manager.get_connection(broker.node_id, timeout_ms=timeout_ms, refresh_metadata_on_err=False)
            await connection
        except LOGIN_REFUSED:
            raise
        except errors.NodeNotReadyError:
            return
        except errors.KafkaError:
            answered = connection.parser is not None and connection.broker_version_data is not None
            if not (answered and connection.sasl_enabled):
                return
        else:
            return
    raise errors.SaslAuthenticationFailedError


async def _in_turn(scans: Sequence[GapScan]) -> None:
    for scan in scans:
        await scan.run()


async def _doubt_holes(session: Session, scans: Sequence[GapScan]) -> None:
    """Believe in the cleaner only where there is one: elsewhere an offset without a record is a loss."""
    doubtful = [scan for scan in scans if any(item.fate is Fate.COMPACTED for item in scan.found)]
    if not doubtful:
        return
    compacted = await session.compacted()
    for scan in doubtful:
        match compacted[scan.stream[0]]:
            case False:
                scan.found = [*lost(scan.found, "and the topic is not compacted")]
            case None:
                scan.found = [*lost(scan.found, "and we may not read whether the topic is compacted (DescribeConfigs)")]


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse what kafka-python would pass over in silence, above all a protocol that would mean plaintext."""
    if unknown := sorted(settings.keys() - SETTINGS):
        raise ConnectionSettingsError(
            f"kafka-python has no setting {', '.join(map(repr, unknown))}. Correct the connection's extra.",
            settings=unknown,
        )
    protocol = str(settings.get("security_protocol", "PLAINTEXT")).upper()
    if protocol not in _PROTOCOLS:
        raise ConnectionSettingsError(
            f"security_protocol {protocol!r} is none of {', '.join(_PROTOCOLS)}. Correct the connection's extra.",
            option="security.protocol",
        )
    return {**settings, "security_protocol": protocol}
