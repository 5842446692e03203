"""All actions of a person. A new one has its own file and a line here: forms, commands and buttons read the list."""

from __future__ import annotations

from airflow_kafka_lake.actions.action import Action
from airflow_kafka_lake.actions.offsets import ReopenAction, SkipAction, WithdrawAction
from airflow_kafka_lake.actions.waves import CancelAction, PauseAction, ReleaseAction, ResumeAction, RetryAction

ACTIONS: tuple[type[Action], ...] = (
    CancelAction,
    ReleaseAction,
    RetryAction,
    PauseAction,
    ResumeAction,
    SkipAction,
    ReopenAction,
    WithdrawAction,
)
