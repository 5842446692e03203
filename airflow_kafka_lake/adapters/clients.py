"""Rules for every client of another system: time limits, secret settings, and errors that only a person can mend."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

# How long clients of other systems wait for an answer, unless a connection sets another time.
#
# Every setting keeps the name of the client that reads it. A wait is bounded from packet to packet, not as a whole.

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

JDBC_POSTGRES: dict[str, str] = {"connectTimeout": str(CONNECT_SECONDS), "socketTimeout": "120", "tcpKeepAlive": "true"}
"""The same for PostgreSQL's Java driver; a statement may wait 90 seconds for a lock before silence counts."""


# Which settings are secret: the one rule behind Spark's own redaction, the driver's log and every message.
#
# A key is secret by its name, whatever engine the setting is for; a value can hold a secret besides (a login in an
# address, a password in a list of options). Spark compares the same rule with keys and with values.

_MASK = "***"
_END = r"(?=\s*(?:=|$))"  # of a key, also of one within a value
_KEY = (
    r"secret|password|passwd|passphrase|token(?!-(?:exchange|refresh|expires)-)|credential|jaas|private|connection[._-]?string"
    rf"|(?<![a-z])(?:sas|pwd)(?![a-z])|(?<!by|om)pass(?:file)?{_END}|[.]key[.]pem{_END}|(?:^|[.])header[.]"
    r"|proxy[._-]?auth|user[._-]info|(?:access|account|api|storage|encryption|signing|master)[._-]?key"
    rf"|(?<![a-z])key(?:[._-]id)?{_END}"
)
_LOGIN_IN_ADDRESS = r"://[^/@\s:]*:(?!\d+/)([^@\s]+)@|:thin:[^/@\s]*/([^@\s]+)@"
_OPTION_IN_VALUE = rf"""(?:{_KEY})[\w.-]*\s*=\s*(?:"((?:\\.|[^"\\])*)"|'([^']*)'|([^\s;&"']+))"""
_SECRET_KEY = re.compile(_KEY, re.IGNORECASE)
_SECRET_PART = re.compile(rf"(?i){_OPTION_IN_VALUE}|{_LOGIN_IN_ADDRESS}")
_SCHEME_OR_LOGIN = re.compile(r"(?:Basic|Bearer)\s+(\S+)|[^:/\s\"]+:([^:/\s\"]{6,})", re.IGNORECASE)
_OPEN = frozenset({"", "true", "false"})

SPARK_PATTERN = rf"(?i){_KEY}|{_LOGIN_IN_ADDRESS}"
"""For `spark.redaction.regex`: event log, environment page, REST API and logged configuration."""


def is_secret(key: str, value: str = "") -> bool:
    """Return whether the value of a setting must never reach an argv, a log, an event log or a message."""
    return bool(_SECRET_KEY.search(key) or _SECRET_PART.search(value))


class Secrets:
    """The secret values of some settings, to be masked wherever they would be shown."""

    def __init__(self, *settings: Mapping[str, str]) -> None:
        found = {value for mapping in settings for key, value in mapping.items() for value in _secrets_of(key, value)}
        longest_first = sorted(found, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if found else None

    def masked(self, text: str) -> str:
        return self._pattern.sub(_MASK, text) if self._pattern else text


def _secrets_of(key: str, value: str) -> set[str]:
    """Return the value if its key is secret, also line by line as logs show it, and any password inside the value."""
    found = {part for groups in _SECRET_PART.findall(value) for part in groups}
    if is_secret(key):
        found |= {value, *value.splitlines()}
        if inside := _SCHEME_OR_LOGIN.fullmatch(value):
            found |= set(filter(None, inside.groups()))
    spoken = {re.sub(r"\\(.)", r"\1", text) for text in found} | {unquote(text) for text in found}
    return {text for text in map(str.strip, found | spoken) if len(text) > 1 and text.lower() not in _OPEN}


# Which errors a person has to mend: a missing permission, for which repeating cannot help, and a full disk.

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_INSUFFICIENT_PRIVILEGE, _DISK_FULL = "42501", "53100"
_LEAST_ROOM = 128 * 1024
"""The least room that SQLite needs beside its file, in bytes."""

_SQLITE_DENIED = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})
_STORE = re.compile(r"(?i)access[_ ]?denied|AuthorizationPermissionMismatch|storage\.objects\.\w+ (access|denied)")
"""In the errors of S3, Azure and Google's store."""


def denied(error: BaseException, file: Path | None = None) -> bool:
    """Return whether an error of a database, a store or a file system is a missing permission.

    SQLite has one error for any file that it cannot open: then the permissions of `file` decide.
    """
    from sqlalchemy.exc import DBAPIError  # other clients are light without it

    if isinstance(error, DBAPIError):
        if getattr(error.orig, "pgcode", None) == _INSUFFICIENT_PRIVILEGE:
            return True
        code = getattr(error.orig, "sqlite_errorcode", None)
        if code is None:
            return False
        return code & 0xFF in _SQLITE_DENIED or (code & 0xFF == sqlite3.SQLITE_CANTOPEN and _is_closed(file))
    return getattr(error, "errno", None) in _DENIED or _STORE.search(str(error)) is not None


def _is_closed(file: Path | None) -> bool:
    if file is None or not file.parent.exists():
        return False
    return not os.access(file.parent, os.W_OK | os.X_OK) or (file.exists() and not os.access(file, os.R_OK | os.W_OK))


def full(error: BaseException, file: Path | None = None) -> bool:
    """Return whether an error of a database, a store or a file system is a disk without room.

    SQLite has one error for all that a disk refuses, such as room for its shared memory: then that of `file` decides.
    """
    from sqlalchemy.exc import DBAPIError  # other clients are light without it

    if isinstance(error, DBAPIError):
        code = getattr(error.orig, "sqlite_errorcode", None) or 0
        return (
            getattr(error.orig, "pgcode", None) == _DISK_FULL
            or code == sqlite3.SQLITE_FULL
            or (code & 0xFF == sqlite3.SQLITE_IOERR and _has_no_room(file))
        )
    return isinstance(error, OSError) and (error.errno in _FULL or "No space left on device" in str(error))


def _has_no_room(file: Path | None) -> bool:
    try:
        return file is not None and shutil.disk_usage(file.parent).free < _LEAST_ROOM
    except OSError:
        return False
