"""A listener of a broker that wants a login over TLS: its settings, and those of a client."""

from __future__ import annotations

from pathlib import Path

from tests.certificates import Authority

LOGIN, USER, PASSWORD = "LOGIN", "lake", "canary-of-the-brokers"
PROTOCOLS = {LOGIN: "SASL_SSL"}
_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_{}="{}";'


class Login:
    """Certificates of a folder, and one user."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        self.authority, self._broker = authority.file, authority.issue("broker", "127.0.0.1")

    def of_broker(self) -> dict[str, str]:
        """Return the settings of a broker with the listener LOGIN."""
        return {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": _JAAS.format(USER, PASSWORD),
            "listener.name.login.ssl.keystore.type": "PEM",
            "listener.name.login.ssl.keystore.location": str(self._broker),
        }

    def of_client(self, addresses: str) -> dict[str, str]:
        """Return the extra of a Kafka connection to these addresses of LOGIN."""
        return {
            "bootstrap.servers": addresses,
            "security.protocol": PROTOCOLS[LOGIN],
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.authority),
        }
