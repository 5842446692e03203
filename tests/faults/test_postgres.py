from tests.rig import Rig

def test_everything_runs_on_postgresql(postgres_rig: Rig) -> None:
    rig = postgres_rig
    rig.produce(300)
    done = rig.run()
    assert done.code == 0, done.err
    rig.assert_exact()
    rig.produce(100, begin=300)
    done = rig.run()
    assert done.code == 0, done.err
    rig.assert_exact()
    audit = rig.command("audit", rig.name, "--json")
    assert audit.document["ok"] is True
    rig.spark_sql([f"SELECT count(*) FROM lake.{rig.table}"])
