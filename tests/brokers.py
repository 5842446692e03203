"""Several real brokers that replicate: the first is the controller too, so the others can die, hang and come back."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Self

from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.local.processes import wait_until


class Member(LocalKafka):
    """A broker of a cluster that has an id and a controller already."""

    def __init__(self, cluster: str, settings: Mapping[str, str], listeners: Mapping[str, str]) -> None:
        super().__init__(settings=settings, listeners=listeners, heap="256m")
        self._cluster = cluster

    def start(self) -> Self:
        """Start, or start again on the same data."""
        if not (self.log_dir / "meta.properties").exists():
            properties = self._write_properties()
            self.tool("kafka.tools.StorageTool", "format", f"--cluster-id={self._cluster}", "-c", str(properties))
        return super().start()


class Brokers:
    """Brokers 1 to `count`, each in a rack `rack-<number>`; `bootstrap` is the address of the first.

    `listeners` are further ones of each, by name and security protocol (`addresses(name)`).
    """

    def __init__(self, count: int, settings: Mapping[str, str], listeners: Mapping[str, str] | None = None) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._stack = ExitStack()
        self._members: list[Member] = []
        for number in range(1, count + 1):
            own = {**settings, "node.id": str(number), "broker.rack": f"rack-{number}"}
            member = Member(cluster, own, listeners or {})
            self._members.append(member)
            if number > 1:
                member.settings |= {
                    "process.roles": "broker",
                    "controller.quorum.voters": f"1@{self._members[0].address('CONTROLLER')}",
                    "listeners": ",".join(
                        f"{name}://{member.address(name)}" for name in ("PLAINTEXT", *(listeners or {}))
                    ),
                }
        self.bootstrap = self._members[0].bootstrap

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for member in self._members:
                stack.enter_context(member)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def addresses(self, listener: str) -> str:
        """Return where a listener is, on each broker."""
        return ",".join(member.address(listener) for member in self._members)

    def restore(self) -> None:
        """Start those that are dead, and wait until all of them take part."""
        from confluent_kafka.admin import AdminClient

        for member in self._members:
            if not member.pid:
                member.start()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        wait_until(
            lambda: len(admin.list_topics(timeout=30).brokers) == len(self._members), timeout=120, failed=AssertionError
        )

    def __getitem__(self, number: int) -> Member:
        """Return the broker of a number."""
        return self._members[number - 1]
