"""`kafka-lake rebuild` as a user runs it, with real Kafka, Spark and Iceberg: the ledger is gone, or an old one."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.rig import Rig


def status(rig: Rig) -> dict[int, dict[str, Any]]:
    """Return what a rebuild must bring back of each partition."""
    document = rig.command("status", rig.name, "--json").document
    kept = ("topic_id", "origin", "watermark", "hold", "coverage")
    return {item["partition"]: {name: item[name] for name in kept} for item in document["streams"]}


def lived(rig: Rig) -> None:
    """Two runs and a skip: transactions, a range of markers alone, a hole that a person decided."""
    rig.transaction(40, commit=True)
    rig.transaction(10, commit=False)
    first = rig.run()
    assert first.code == 0, first.err
    rig.produce(60)
    skip = ("--topic", rig.topic, "--partition", "0", "--from", "27", "--to", "32", "--reason", "poison")
    assert rig.command("skip", rig.name, *skip).code == 0
    second = rig.run()
    assert second.code == 0, second.err
    for offset in range(27, 32):
        del rig.acknowledged[0, offset]
    rig.assert_exact()


def forget(rig: Rig) -> None:
    """Remove the ledger's files."""
    for file in rig.home.glob("ledger.db*"):
        file.unlink()


def reads_only_what_is_new(rig: Rig, begin: int) -> None:
    """A later run reads new records alone, and the audit proves the rest."""
    rig.produce(20, begin=begin)
    done = rig.run()
    assert (done.code, done.document["rows"]) == (0, 20), done.err
    rig.assert_exact()
    audit = rig.command("audit", rig.name, "--json")
    assert (audit.code, audit.document["ok"]) == (0, True), audit.out


def test_lost_ledger_comes_back_from_the_lake(rig: Rig) -> None:
    """Refused, rebuilt, equal, and nothing is read twice; once more after compaction, retention in the table and expiry
    of every snapshot."""
    lived(rig)
    before = status(rig)
    forget(rig)
    refused = rig.run()
    assert (refused.code, refused.document["error"]["type"]) == (1, "LedgerBehindError"), refused.err
    assert f"kafka-lake rebuild {rig.name}" in refused.document["error"]["message"]
    rebuilt = rig.command("rebuild", str(rig.file), "--json")
    assert (rebuilt.code, rebuilt.document["reopened"]) == (0, []), rebuilt.err
    assert (rebuilt.document["waves"], rebuilt.document["skips"]) == (2, 1)
    assert status(rig) == before
    reads_only_what_is_new(rig, 60)
    before = status(rig)
    rig.spark_sql(
        [
            f"CALL lake.system.rewrite_data_files(table => '{rig.table}', options => map('rewrite-all', 'true'))",
            f"DELETE FROM lake.{rig.table} WHERE kafka_partition = 0 AND kafka_offset < 5",
            f"CALL lake.system.expire_snapshots(table => '{rig.table}', older_than => TIMESTAMP '2100-01-01 00:00:00')",
        ]
    )
    assert rig.publishes() == []
    gone = [rig.acknowledged.pop((0, offset)) for offset in range(5)]
    forget(rig)
    rebuilt = rig.command("rebuild", str(rig.file), "--json")
    assert (rebuilt.code, rebuilt.document["reopened"]) == (0, []), rebuilt.err
    assert sum(item["expected"] - item["found"] for item in rebuilt.document["deleted"]) == len(gone)
    assert status(rig) == before
    assert rig.command("audit", rig.name).code == 1
    accepted = rig.command("accept-deletes", rig.name, "--topic", rig.topic, "--reason", "90 days", "--json")
    assert (accepted.code, accepted.document["rows"]) == (0, len(gone)), accepted.err
    reads_only_what_is_new(rig, 80)


@pytest.mark.nightly
def test_older_backup_and_rolled_back_table_are_found_out(rig: Rig) -> None:
    """An older ledger is brought up to date; a table set back is refused by name, then read again when accepted."""
    rig.produce(40)
    assert rig.run().code == 0
    kept = rig.iceberg().metadata.current_snapshot_id
    backup = rig.home / "backup"
    backup.mkdir()
    for file in rig.home.glob("ledger.db*"):
        shutil.copy(file, backup)
    rig.produce(30, begin=40)
    assert rig.run().code == 0
    before = status(rig)
    forget(rig)
    for file in backup.glob("ledger.db*"):
        shutil.copy(file, rig.home)
    refused = rig.run()
    assert (refused.code, refused.document["error"]["type"]) == (1, "LedgerBehindError"), refused.err
    assert rig.command("rebuild", rig.name).code == 0
    assert status(rig) == before
    rig.iceberg().manage_snapshots().set_current_snapshot(snapshot_id=kept).commit()
    stopped = rig.run()
    assert (stopped.code, stopped.document["error"]["type"]) == (1, "IdentityError"), stopped.err
    refused = rig.command("rebuild", rig.name, "--json")
    assert refused.code == 1
    named = refused.document["error"]["differences"]
    assert {(item["partition"], item["from"], item["to"], item["found"]) for item in named} == {
        (0, 20, 35, 0),
        (1, 20, 35, 0),
    }
    accepted = rig.command("rebuild", rig.name, "--accept-rollback", "--json")
    assert (accepted.code, len(accepted.document["reopened"])) == (0, 2), accepted.err
    assert {item["watermark"] for item in status(rig).values()} == {20}
    again = rig.run()
    assert (again.code, again.document["rows"]) == (0, 30), again.err
    assert status(rig) == before
    rig.assert_exact()
