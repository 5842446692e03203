"""Every write of the ledger, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_lake.core.ledger.attempts import (
    ClaimWave,
    EndAttempt,
    MarkPublishing,
    MarkStaged,
    RecordBase,
    RecordCommit,
    RecordJob,
    Renew,
)
from airflow_kafka_lake.core.ledger.changes import Write
from airflow_kafka_lake.core.ledger.decisions import Pause, RecordLine, Release, Resume, Revoke, Skip, Withdraw
from airflow_kafka_lake.core.ledger.deletions import AcceptDeletes
from airflow_kafka_lake.core.ledger.moves import BeginDelivery
from airflow_kafka_lake.core.ledger.plans import BindTable, RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.reopening import Reopen
from airflow_kafka_lake.core.ledger.requests import AnswerRequests, AskForWave, EndRequest
from airflow_kafka_lake.core.rebuilding.restore import Restore

WRITES: Mapping[str, type[Write[Any]]] = {
    write.name: write
    for write in (
        SavePipeline,
        BindTable,
        RecordPlan,
        ClaimWave,
        Renew,
        RecordBase,
        RecordJob,
        MarkStaged,
        MarkPublishing,
        RecordCommit,
        EndAttempt,
        Revoke,
        Release,
        Skip,
        Reopen,
        Withdraw,
        RecordLine,
        AcceptDeletes,
        BeginDelivery,
        Restore,
        Pause,
        Resume,
        AskForWave,
        AnswerRequests,
        EndRequest,
    )
}
