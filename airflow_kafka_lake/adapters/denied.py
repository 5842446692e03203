"""Which errors a person has to mend: a missing permission, for which repeating cannot help, and a full disk."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_INSUFFICIENT_PRIVILEGE, _DISK_FULL = "42501", "53100"
_LEAST_ROOM = 128 * 1024
"""The least room that SQLite needs beside its file, in bytes."""

_SQLITE_DENIED = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})
_STORE = re.compile(r"ACCESS_DENIED|AccessDenied|AuthorizationPermissionMismatch|storage\.objects\.\w+ (access|denied)")
"""In the errors of S3, Azure and Google's store."""


def denied(error: BaseException, file: Path | None = None) -> bool:
    """Return whether an error of a database, a store or a file system is a missing permission.

    SQLite has one error for any file that it cannot open: then the permissions of `file` decide.
    """
    if isinstance(error, DBAPIError):
        if getattr(error.orig, "pgcode", None) == _INSUFFICIENT_PRIVILEGE:
            return True
        code = getattr(error.orig, "sqlite_errorcode", None)
        if code is None:
            return False
        return code & 0xFF in _SQLITE_DENIED or (code & 0xFF == sqlite3.SQLITE_CANTOPEN and _is_closed(file))
    return isinstance(error, OSError) and (error.errno in _DENIED or _STORE.search(str(error)) is not None)


def _is_closed(file: Path | None) -> bool:
    if file is None or not file.parent.exists():
        return False
    return not os.access(file.parent, os.W_OK | os.X_OK) or (file.exists() and not os.access(file, os.R_OK | os.W_OK))


def full(error: BaseException, file: Path | None = None) -> bool:
    """Return whether an error of a database, a store or a file system is a disk without room.

    SQLite has one error for all that a disk refuses, such as room for its shared memory: then that of `file` decides.
    """
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
