"""All commands, by group. A new command goes into the module of its group; only a new group is named here."""

from __future__ import annotations

from airflow_kafka_lake.cli import (
    audit,
    decisions,
    features,
    holds,
    pausing,
    recovery,
    running,
    segments,
    setup,
    status,
    worker,
)
from airflow_kafka_lake.cli.command import Command

GROUPS = (running, status, recovery, holds, pausing, decisions, segments, features, audit, worker, setup)
"""Modules with a tuple `COMMANDS`."""
COMMANDS: tuple[Command, ...] = tuple(command for group in GROUPS for command in group.COMMANDS)
