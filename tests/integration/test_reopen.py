"""`kafka-lake reopen` on real parts: what Spark has compacted, deleted and changed is replaced by what Kafka has."""

from __future__ import annotations

from tests.integration.test_holds import done
from tests.sandbox import Sandbox


def test_a_slice_is_read_again_whatever_has_become_of_its_files(sandbox: Sandbox) -> None:
    """Compacted with others' rows, then changed by hand with position deletes: one commit brings back the truth."""
    sandbox.produce(200)
    done(sandbox.run())
    table = f"lake.{sandbox.table}"
    modes = ", ".join(f"'write.{act}.mode' = 'merge-on-read'" for act in ("delete", "update", "merge"))
    somewhere = "kafka_partition = 0 AND kafka_offset BETWEEN 20 AND 29"
    columns = "kafka_topic, kafka_topic_id, kafka_partition, kafka_offset"
    sandbox.spark_sql(
        [
            f"ALTER TABLE {table} SET TBLPROPERTIES ({modes})",
            f"INSERT INTO {table} ({columns}) VALUES ('x', 'x', 0, 1)",
            f"CALL lake.system.rewrite_data_files(table => '{sandbox.table}', options => map('rewrite-all', 'true'))",
            f"UPDATE {table} SET value = X'00' WHERE kafka_topic = '{sandbox.topic}' AND {somewhere}",
        ]
    )
    head = sandbox.iceberg().metadata.current_snapshot_id
    show_first(sandbox)
    where = ("--topic", sandbox.topic, "--partition", "0", "--from", "15", "--to", "40")
    reopened = done(sandbox.command("reopen", sandbox.name, *where, "--reason", "changed by hand", "--json"))
    assert (reopened["reopened"], reopened["watermark"]) == (25, 15)
    again = done(sandbox.run())
    assert (again["rows"], [move["from"] for move in again["advanced"]]) == (25, [15])
    history = sandbox.iceberg().metadata.snapshots
    kinds = [s.summary.additional_properties.get("kafka-lake.kind") for s in history if s.parent_snapshot_id]
    assert kinds[-1] == "replace"
    assert head in {snapshot.snapshot_id for snapshot in history}
    seen = sandbox.rows()
    assert seen.pop((0, 1, None)) == 1
    assert seen == {(p, o, value): 1 for (p, o), value in sandbox.acknowledged.items()}
    sandbox.spark_sql(
        [
            f"SELECT assert_true(count(*) = 201 AND count(DISTINCT ingest_attempt) = 2) FROM {table}",
            f"CALL lake.system.expire_snapshots(table => '{sandbox.table}', older_than => TIMESTAMP '2100-01-01')",
            f"SELECT assert_true(count(*) = 201) FROM {table}",
        ]
    )
    assert done(sandbox.command("audit", sandbox.name, "--json"))["ok"] is True


def show_first(sandbox: Sandbox) -> None:
    """A whole topic, by offset or by time, is shown before it is read again, and refused as a whole where a part is."""
    before = done(sandbox.command("status", sandbox.name, "--json"))["streams"]
    topic = ("--topic", sandbox.topic, "--reason", "look", "--json")
    shown = done(sandbox.command("reopen", sandbox.name, *topic, "--from", "15", "--to", "40", "--dry-run"))
    assert [(item["reopened"], item["rows"], item["watermark"]) for item in shown["streams"]] == [(25, 25, 15)] * 2
    times = ("--from", "2020-01-01T00:00:00Z", "--to", "2100-01-01T00:00:00Z")
    whole = done(sandbox.command("reopen", sandbox.name, *topic, *times, "--dry-run"))
    assert [(item["from"], item["to"]) for item in whole["streams"]] == [(0, 100)] * 2
    passed = done(sandbox.command("skip", sandbox.name, *topic, *times, "--dry-run"))
    assert (passed["skipped"], passed["dry_run"]) == (0, True)
    refused = sandbox.command("reopen", sandbox.name, *topic, "--from", "90", "--to", "110")
    said = refused.document["error"]["message"]
    assert (refused.code, said.startswith("nothing was done: 2 of 2 partitions are refused. ")) == (1, True)
    after = done(sandbox.command("status", sandbox.name, "--json"))["streams"]
    assert [item["watermark"] for item in after] == [item["watermark"] for item in before]
