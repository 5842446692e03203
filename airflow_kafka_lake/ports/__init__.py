"""What the services need of the world, as protocols named by need. Values in, values out.

Every adapter of a port passes that port's one contract suite (`tests/contracts`).
"""

from airflow_kafka_lake.core.ledger.guards import MAX_LEASE
from airflow_kafka_lake.ports.feature import Features
from airflow_kafka_lake.ports.kafka import BatchReader, OffsetSource
from airflow_kafka_lake.ports.lake import Lake, LakeTable
from airflow_kafka_lake.ports.ledger import Ledger, LedgerReader
from airflow_kafka_lake.ports.machine import Clock, JobRunner, Processes, ReportingJob, uncounted, unread
from airflow_kafka_lake.ports.ports import Ports, unprepared

__all__ = [
    "MAX_LEASE",
    "BatchReader",
    "Clock",
    "Features",
    "JobRunner",
    "Lake",
    "LakeTable",
    "Ledger",
    "LedgerReader",
    "OffsetSource",
    "Ports",
    "Processes",
    "ReportingJob",
    "uncounted",
    "unread",
    "unprepared",
]
