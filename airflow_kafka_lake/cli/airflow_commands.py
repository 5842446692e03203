"""The commands under `airflow kafka-lake …`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from airflow_kafka_lake.cli.command import Argument, Command
from airflow_kafka_lake.cli.entry_point import COMMANDS, COMMON, run_parsed


def get_cli_commands() -> list[Any]:
    """Return the command group for Airflow's own parser (the `cli` entry of the provider info)."""
    from airflow.cli.cli_config import ActionCommand, GroupCommand

    return [
        GroupCommand(
            name="kafka-lake",
            help="Move bounded Kafka offset ranges into a lake table, exactly once",
            subcommands=[
                ActionCommand(
                    name=command.name,
                    help=command.help,
                    func=_Run(command),
                    args=tuple(map(_arg, (*command.arguments, *COMMON))),
                )
                for command in COMMANDS
            ],
        )
    ]


def _arg(argument: Argument) -> Any:
    """Return an argument for Airflow's parser; its `Arg` names only some of the settings that argparse has."""
    from airflow.cli.cli_config import Arg

    made = Arg(argument.names)
    made.kwargs |= argument.settings
    return made


class _Run:
    """Runs one command with the arguments of Airflow's parser, and ends with its exit code."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.__name__ = f"kafka_lake_{command.name}"

    def __call__(self, arguments: argparse.Namespace) -> None:
        arguments.run = self._command.run
        arguments.typed = ("airflow", *sys.argv[1:])
        with stdout_of_our_own():
            code = run_parsed(arguments)
        if code:
            sys.exit(code)


@contextmanager
def stdout_of_our_own() -> Iterator[None]:
    """Send Airflow's log to stderr while a command runs: its handlers hold the old stdout."""
    sys.stdout.flush()
    document = os.dup(1)
    try:
        os.dup2(2, 1)
        with os.fdopen(document, "w", encoding="utf-8", closefd=False) as ours, redirect_stdout(ours):
            yield
    finally:
        os.dup2(document, 1)
        os.close(document)
