"""How long clients of other systems wait for an answer, unless a connection sets another time.

Every setting keeps the name of the client that reads it. A wait is bounded from packet to packet, not as a whole.
"""

from __future__ import annotations

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60

REST_CONNECT = "rest.client.connection-timeout-ms"
REST_ANSWER = "rest.client.socket-timeout-ms"
REST: dict[str, str] = {REST_CONNECT: str(CONNECT_SECONDS * 1000), REST_ANSWER: str(ANSWER_SECONDS * 1000)}
"""Iceberg's Java client waits for ever by default; PyIceberg's has no setting of its own and is given these."""

S3: dict[str, str] = {"s3.connect-timeout": str(CONNECT_SECONDS), "s3.request-timeout": str(ANSWER_SECONDS)}
"""PyIceberg's; Java's S3 client has limits of its own."""

POSTGRES: dict[str, str] = {
    "connect_timeout": str(CONNECT_SECONDS),
    "keepalives": "1",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": str(ANSWER_SECONDS * 1000),
}
"""libpq's: a server that is cut off is noticed within a minute, in the middle of a statement too."""

JDBC_POSTGRES: dict[str, str] = {
    "connectTimeout": str(CONNECT_SECONDS),
    "socketTimeout": "120",
    "tcpKeepAlive": "true",
}
"""The same for PostgreSQL's Java driver; a statement may wait 90 seconds for a lock before silence counts."""
