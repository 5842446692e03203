"""`kafka-lake rebuild` as a user runs it, with real Kafka, Spark and Iceberg: the ledger is gone, or an old one."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.sandbox import Sandbox


def status(sandbox: Sandbox) -> dict[int, dict[str, Any]]:
    """Return what a rebuild must bring back of each partition."""
    document = sandbox.command("status", sandbox.name, "--json").document
    kept = ("topic_id", "origin", "watermark", "hold", "coverage")
    return {item["partition"]: {name: item[name] for name in kept} for item in document["streams"]}


def lived(sandbox: Sandbox) -> None:
    """Two runs and a skip: transactions, a range of markers alone, a hole that a person decided."""
    sandbox.transaction(40, commit=True)
    sandbox.transaction(10, commit=False)
    first = sandbox.run()
    assert first.code == 0, first.err
    sandbox.produce(60)
    skip = ("--topic", sandbox.topic, "--partition", "0", "--from", "27", "--to", "32", "--reason", "poison")
    assert sandbox.command("skip", sandbox.name, *skip).code == 0
    second = sandbox.run()
    assert second.code == 0, second.err
    for offset in range(27, 32):
        del sandbox.acknowledged[0, offset]
    sandbox.assert_exact()


def forget(sandbox: Sandbox) -> None:
    """Remove the ledger's files."""
    for file in sandbox.home.glob("ledger.db*"):
        file.unlink()


def reads_only_what_is_new(sandbox: Sandbox, begin: int) -> None:
    """A later run reads new records alone, and the audit proves the rest."""
    sandbox.produce(20, begin=begin)
    done = sandbox.run()
    assert (done.code, done.document["rows"]) == (0, 20), done.err
    sandbox.assert_exact()
    audit = sandbox.command("audit", sandbox.name, "--json")
    assert (audit.code, audit.document["ok"]) == (0, True), audit.out


def test_lost_ledger_comes_back_from_the_lake(sandbox: Sandbox) -> None:
    """Refused, rebuilt, equal, and nothing is read twice; once more after compaction, retention in the table and expiry
    of every snapshot."""
    lived(sandbox)
    before = status(sandbox)
    forget(sandbox)
    refused = sandbox.run()
    assert (refused.code, refused.document["error"]["type"]) == (1, "LedgerBehindError"), refused.err
    assert f"kafka-lake rebuild {sandbox.name}.toml" in refused.document["error"]["message"]
    rebuilt = sandbox.command("rebuild", str(sandbox.file), "--json")
    assert (rebuilt.code, rebuilt.document["reopened"]) == (0, []), rebuilt.err
    assert (rebuilt.document["waves"], rebuilt.document["skips"]) == (2, 1)
    assert status(sandbox) == before
    reads_only_what_is_new(sandbox, 60)
    before = status(sandbox)
    sandbox.spark_sql(
        [
            f"CALL lake.system.rewrite_data_files(table => '{sandbox.table}', options => map('rewrite-all', 'true'))",
            f"DELETE FROM lake.{sandbox.table} WHERE kafka_partition = 0 AND kafka_offset < 5",
            f"CALL lake.system.expire_snapshots(table => '{sandbox.table}', older_than => TIMESTAMP '2100-01-01')",
        ]
    )
    assert sandbox.publishes() == []
    gone = [sandbox.acknowledged.pop((0, offset)) for offset in range(5)]
    forget(sandbox)
    rebuilt = sandbox.command("rebuild", str(sandbox.file), "--json")
    assert (rebuilt.code, rebuilt.document["reopened"]) == (0, []), rebuilt.err
    assert sum(item["expected"] - item["found"] for item in rebuilt.document["deleted"]) == len(gone)
    assert status(sandbox) == before
    assert sandbox.command("audit", sandbox.name).code == 1
    accepted = sandbox.command(
        "accept-deletes", sandbox.name, "--topic", sandbox.topic, "--reason", "90 days", "--json"
    )
    assert (accepted.code, accepted.document["rows"]) == (0, len(gone)), accepted.err
    assert "the lake keeps no reasons" in sandbox.command("rebuild", str(sandbox.file)).out
    reads_only_what_is_new(sandbox, 80)


@pytest.mark.nightly
def test_older_backup_and_rolled_back_table_are_found_out(sandbox: Sandbox) -> None:
    """An older ledger is brought up to date; a table set back is refused by name, then read again when accepted."""
    sandbox.produce(40)
    assert sandbox.run().code == 0
    kept = sandbox.iceberg().metadata.current_snapshot_id
    backup = sandbox.home / "backup"
    backup.mkdir()
    for file in sandbox.home.glob("ledger.db*"):
        shutil.copy(file, backup)
    sandbox.produce(30, begin=40)
    assert sandbox.run().code == 0
    before = status(sandbox)
    forget(sandbox)
    for file in backup.glob("ledger.db*"):
        shutil.copy(file, sandbox.home)
    refused = sandbox.run()
    assert (refused.code, refused.document["error"]["type"]) == (1, "LedgerBehindError"), refused.err
    assert sandbox.command("rebuild", sandbox.name).code == 0
    assert status(sandbox) == before
    sandbox.iceberg().manage_snapshots().set_current_snapshot(snapshot_id=kept).commit()
    stopped = sandbox.run()
    assert (stopped.code, stopped.document["error"]["type"]) == (1, "IdentityError"), stopped.err
    refused = sandbox.command("rebuild", sandbox.name, "--json")
    assert refused.code == 1
    named = refused.document["error"]["differences"]
    assert {(item["partition"], item["from"], item["to"], item["found"]) for item in named} == {
        (0, 20, 35, 0),
        (1, 20, 35, 0),
    }
    accepted = sandbox.command("rebuild", sandbox.name, "--accept-rollback", "--json")
    assert (accepted.code, len(accepted.document["reopened"])) == (0, 2), accepted.err
    assert {item["watermark"] for item in status(sandbox).values()} == {20}
    again = sandbox.run()
    assert (again.code, again.document["rows"]) == (0, 30), again.err
    assert status(sandbox) == before
    sandbox.assert_exact()
