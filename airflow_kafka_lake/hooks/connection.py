"""What all hooks of this package are."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from airflow.sdk import BaseHook

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.get_provider_info import connection_type


class ConnectionHook(BaseHook):
    """A hook that can be tested from Airflow's connections page; subclasses open what the connection leads to."""

    conn_name_attr: ClassVar[str]
    default_conn_name: ClassVar[str]
    conn_type: ClassVar[str]
    hook_name: ClassVar[str]

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return which fields the connection form hides, renames and explains, as the provider's description has it."""
        behaviour = connection_type(cls.conn_type)["ui-field-behaviour"]
        return {key.replace("-", "_"): value for key, value in behaviour.items()}

    @abstractmethod
    def check(self) -> str:
        """Return in one sentence that the other side answers; raises what keeps it from answering."""

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the other side answers, and a sentence without secrets: a library's own words may hold one."""
        try:
            return True, self.check()
        except KafkaLakeError as error:
            return False, error.message
        except Exception as error:  # noqa: BLE001  # a test of a connection answers, whatever happens
            return False, f"The test ended with an unexpected {type(error).__name__}."
