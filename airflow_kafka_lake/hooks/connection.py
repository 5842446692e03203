"""The base of this package's hooks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from airflow.sdk import BaseHook

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.get_provider_info import connection_type


class ConnectionHook(BaseHook):
    """A hook that Airflow's connections page can test; subclasses open the system behind the connection."""

    conn_name_attr: ClassVar[str]
    default_conn_name: ClassVar[str]
    conn_type: ClassVar[str]
    hook_name: ClassVar[str]

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return which fields the connection form hides, renames and explains, from the provider's description."""
        behaviour = connection_type(cls.conn_type)["ui-field-behaviour"]
        return {key.replace("-", "_"): value for key, value in behaviour.items()}

    @abstractmethod
    def check(self) -> str:
        """Ask the other side and return one sentence about its answer; raises when there is none."""

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the other side answers, and a sentence without secrets: a library's own text may hold one."""
        try:
            return True, self.check()
        except KafkaLakeError as error:
            return False, error.message
        except Exception as error:  # noqa: BLE001  # a test of a connection answers, whatever happens
            return False, f"The test ended with an unexpected {type(error).__name__}."
