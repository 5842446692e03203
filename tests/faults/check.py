"""Judge what a fault run left behind: history files, ledger, lake, and what producers were told.

    python -m tests.faults.check orders.toml --history DIR --truth truth.json --at-rest

The connections come from the environment, as for every command. In Python:

    check(ledger, lake, spec, history=Path("history"), truth={stream: StreamTruth(...)}, at_rest=True) -> findings

`truth` is, as JSON, `{"streams": [{"topic", "topic_id", "partition", "log_start", "acknowledged": [[from, to], …],
"aborted": [[from, to], …]}]}`: offsets that readers must see, and those that none may see. `at_rest` says that all is
healed and done, so that whatever is left over is stuck. Exit code 0: nothing found.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from airflow_kafka_lake.core.audit.check import Finding
from airflow_kafka_lake.core.offsets import RangeSet, Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Lake, LedgerReader
from airflow_kafka_lake.services.pipeline_audit import gather_audit
from tests.kit import recorder
from tests.kit.history_check import check as judged
from tests.kit.operations import operations
from tests.kit.producers_truth import Evidence, StreamTruth


def check(
    ledger: LedgerReader,
    lake: Lake,
    spec: PipelineSpec,
    *,
    history: Path | None = None,
    truth: Mapping[Stream, StreamTruth] | None = None,
    at_rest: bool = False,
) -> tuple[Finding, ...]:
    """Return everything that is wrong with one pipeline; each finding has kind, stream, offsets, wave and words."""
    told = operations(recorder.read(history)) if history else ()
    inputs = gather_audit(ledger, lake, spec)
    return judged(Evidence.of(inputs, truth=truth or {}, at_rest=at_rest), told)


def truth_from(path: Path) -> dict[Stream, StreamTruth]:
    """Read a truth file."""
    return {
        Stream(item["topic"], item["topic_id"], item["partition"]): StreamTruth(
            acknowledged=RangeSet.of(*item["acknowledged"]),
            aborted=RangeSet.of(*item.get("aborted", ())),
            log_start=item.get("log_start", 0),
        )
        for item in json.loads(path.read_text())["streams"]
    }


def main(argv: list[str] | None = None) -> int:
    """Check one pipeline and print its findings, one JSON object per line."""
    from airflow_kafka_lake.pipeline import Pipeline
    from airflow_kafka_lake.wiring.assemble import open_ports
    from airflow_kafka_lake.wiring.connections import DEFAULT_LEDGER

    parser = argparse.ArgumentParser(prog="python -m tests.faults.check", description=__doc__.splitlines()[0])
    parser.add_argument("pipeline", type=Path, help="pipeline file")
    parser.add_argument("--ledger", default=DEFAULT_LEDGER, help="ledger connection")
    parser.add_argument("--history", type=Path, help="folder of history files")
    parser.add_argument("--truth", type=Path, help="what producers were told, as JSON")
    parser.add_argument("--at-rest", action="store_true", help="everything should be finished")
    words = parser.parse_args(argv)
    spec = Pipeline.from_toml(words.pipeline).spec
    truth = truth_from(words.truth) if words.truth else None
    with open_ports(spec, ledger_conn_id=words.ledger, actor="check", progress=lambda _: None) as ports:
        found = check(ports.ledger, ports.lake, spec, history=words.history, truth=truth, at_rest=words.at_rest)
    sys.stdout.writelines(json.dumps(finding.to_json()) + "\n" for finding in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
