"""Go on with what an earlier attempt has staged and audited, instead of staging it again."""

from __future__ import annotations

from collections.abc import Callable

from airflow_kafka_lake.core.decoding import Decoding
from airflow_kafka_lake.core.errors import AttemptRejectedError, JobFailedError, SchemaMismatchError, UnexplainedError
from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger.attempts import Renew
from airflow_kafka_lake.core.ledger.records import Claim, Staged
from airflow_kafka_lake.core.ledger.waves import AttemptRecord
from airflow_kafka_lake.ports import LakeTable, Ports
from airflow_kafka_lake.services.attempt_audit import audit_attempt
from airflow_kafka_lake.services.claims import LEASE
from airflow_kafka_lake.services.fencing import newest_resumable
from airflow_kafka_lake.services.only_copies import cancelled, refuse_to_lose
from airflow_kafka_lake.services.publishing import Proven, receipts_left_by, replaced
from airflow_kafka_lake.services.revocation import Shortfall

UNUSABLE = (AttemptRejectedError, JobFailedError, SchemaMismatchError, UnexplainedError)
"""What says that a branch cannot be published as it is, whenever it is tried."""


def resumed(
    ports: Ports, held: Claim, asked: Decoding | None, heartbeat: Callable[[], None]
) -> Proven | Shortfall | None:
    """Return what the newest earlier attempt has staged, proven again under this claim; None when it must be staged.

    The earlier worker may still live and publish it. Both would commit the same rows in the same name, from the same
    branch, which goes with it. So one of them can land, and both find it. Taking ranges away drops the branch.
    What cannot be proven any more is dropped. What is read anew on purpose, or was decoded in another way than the
    pipeline asks for now, is staged again.
    """
    if replaced(held):
        return None
    table = ports.lake.table(held.table)
    source = newest_resumable(held, table)
    if source is None:
        return None
    try:
        proven = _proven(ports, held, source, table=table, asked=asked, heartbeat=heartbeat)
    except UNUSABLE as error:
        why = f"It cannot be published as it is: {error.message.rstrip('.')}"
        refuse_to_lose(
            ports,
            held.pipeline,
            table,
            attempts=[source],
            ranges=held.ranges,
            give_up=cancelled(held.key.wave),
            why=why,
        )
        ports.progress(f"what attempt {source.attempt} has staged of wave {held.key.wave} is dropped: {error.message}")
        table.drop(source.attempt)
        return None
    if isinstance(proven, Proven):
        ports.progress(f"wave {held.key.wave} goes on with what attempt {source.attempt} has staged: no job is run")
    return proven


def _proven(
    ports: Ports,
    held: Claim,
    source: AttemptRecord,
    *,
    table: LakeTable,
    asked: Decoding | None,
    heartbeat: Callable[[], None],
) -> Proven | Shortfall | None:
    ports.ledger.commit(Renew(key=held.key, lease=LEASE))
    staged = table.staged(source.attempt, heartbeat)
    if staged is None or staged.snapshot != source.audited:
        raise AttemptRejectedError("its branch is not what was audited", attempt=source.attempt)
    if staged.decoding != (asked.digest if asked else None):
        return None
    if (receipts := _testified(ports, held, source, staged)) is None:
        audited = audit_attempt(ports, held, staged, heartbeat)
        if audited.stands:
            return Shortfall(verdicts=audited.failed, spared=source.attempt)
        if failed := audited.failed or ports.features.refuse_undecoded(asked, held, staged):
            raise UnexplainedError(failed[0].reason, attempt=source.attempt)
        receipts = audited.receipts
    return Proven(attempt=source.key, snapshot=staged.snapshot, bytes=staged.bytes, receipts=receipts)


def _testified(ports: Ports, held: Claim, source: AttemptRecord, staged: Staged) -> tuple[Receipt, ...] | None:
    """Return the attempt's own receipts, when they are of this claim's ranges and of every row that is staged.

    They were written when its audit had proven every offset, and prove it for good: Kafka may have deleted since what
    would prove it again.
    """
    receipts = receipts_left_by(ports, held, source.attempt)
    rows = sum(item.offsets.span + item.duplicates for item in staged.streams)
    is_all = len(receipts) == len(held.ranges) and sum(item.rows for item in receipts.values()) == rows
    return tuple(receipts.values()) if is_all else None
