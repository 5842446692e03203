"""What a test run starts once and uses for every command that need not be started as a user starts it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.warm.commands import ROOT, WarmCommands
from tests.warm.driver import SUBMIT, VARIABLE, WarmDriver

if TYPE_CHECKING:
    from tests.warm.broker import SharedKafka

_commands, _driver = WarmCommands(), WarmDriver()


def command(words: Sequence[str], *, env: Mapping[str, str], home: Path, timeout: float) -> tuple[int, str, str]:
    """Run a command to its end, forked and with the warm driver; returns its code, stdout and stderr."""
    return _commands.run(words, env={**env, **_driver.environment()}, home=home, timeout=timeout)


def program() -> tuple[list[str], dict[str, str]]:
    """Return the start of a command line whose jobs go to the warm driver, and its environment."""
    return [sys.executable, "-m", "tests.warm.commands"], {**_driver.environment(), "PYTHONPATH": str(ROOT)}


def spark_sql(settings: Mapping[str, str], statements: Sequence[str]) -> tuple[int, str]:
    """Run SQL in the warm driver with the Spark settings of a lake; returns 0 and the last rows as JSON, or 1 and the
    error's text."""
    return _driver.sql(settings, statements)


def spark_submit() -> tuple[Path, dict[str, str]]:
    """Return a script that stands in the place of `spark-submit`, and what it needs in the environment.

    Its jobs go to the warm driver.
    """
    environment = _driver.environment()
    return Path(environment[VARIABLE]) / SUBMIT, environment


def spark_append(settings: Mapping[str, str], table: str, attempt: str, select: str) -> tuple[int, str]:
    """Stage a query's rows as an attempt's in the warm driver; returns as `spark_sql` does."""
    return _driver.append(settings, table, attempt, select)


def kafka() -> SharedKafka:
    """Return the broker of all processes of this run."""
    from tests.warm.broker import SharedKafka

    return SharedKafka.of(_driver.broker())


def share() -> None:
    """Let all processes of this run, which it starts after this, have one driver and one broker."""
    _driver.open()


def close() -> None:
    """End what was started."""
    _commands.close()
    _driver.close()
