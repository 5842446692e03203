"""A real Kafka that can be asked which requests it has answered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.local.processes import free_ports
from tests.login import LOGIN, PROTOCOLS, Login

_REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,*"
_COUNT = re.compile(r"(?P<name>[\w.]+:\S+?):Count=(?P<count>\d+)")
_KIND = re.compile(r"[:,]request=(?P<kind>\w+)")
_NOT_A_CLIENTS = re.compile(
    # Fetch is counted as a whole and once more by who asks; the rest is what a broker and its controller say.
    r"FetchConsumer|FetchFollower|.*(Broker|Controller|Quorum|Snapshot|Voter|Replica|ClientMetrics).*|Vote|AlterPartition"
)


class CountingKafka(LocalKafka):
    """A local broker whose metrics can be read over JMX, by Kafka's own tool; who wants to may log in to it.

    The certificates of that are kept in the folder.
    """

    def __init__(self, certificates: Path, settings: Mapping[str, str], **given: Any) -> None:
        login = Login(certificates)
        super().__init__(settings={**settings, **login.of_broker()}, listeners=PROTOCOLS, **given)
        self.login = login.of_client(self.address(LOGIN))
        (self._jmx,) = free_ports(1)

    def counted(self) -> Counter[str]:
        """Return its requests by kind until now; asking takes a process of its own, about a second."""
        answer = self.tool(
            "org.apache.kafka.tools.JmxTool",
            *("--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self._jmx}/jmxrmi"),
            *("--object-name", _REQUESTS),
            *("--attributes", "Count", "--one-time", "true", "--report-format", "properties"),
        )
        return parsed(answer)

    def _java(self, *arguments: str) -> Sequence[str]:
        command = super()._java(*arguments)
        if "kafka.Kafka" not in arguments:
            return command
        options = {
            "com.sun.management.jmxremote.port": self._jmx,
            "com.sun.management.jmxremote.rmi.port": self._jmx,
            "com.sun.management.jmxremote.host": "127.0.0.1",
            "com.sun.management.jmxremote.authenticate": "false",
            "com.sun.management.jmxremote.ssl": "false",
            "java.rmi.server.hostname": "127.0.0.1",
        }
        return [command[0], *(f"-D{key}={value}" for key, value in options.items()), *command[1:]]


def parsed(answer: str) -> Counter[str]:
    """Read what JmxTool has printed."""
    requests: Counter[str] = Counter()
    for match in _COUNT.finditer(answer):
        kind = _KIND.search(match["name"])
        if kind is not None and not _NOT_A_CLIENTS.fullmatch(kind["kind"]):
            requests[kind["kind"]] += int(match["count"])
    return requests
