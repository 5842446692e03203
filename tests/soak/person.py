"""The person on call: answers what only a person may decide, the way the messages tell them to."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from tests.soak.lanes import LANES
from tests.soak.place import Place

COMMAND_SECONDS = 240


class Person:
    """Skips what Kafka no longer has on the lanes where that is expected; a hold anywhere else is a finding."""

    def __init__(self, place: Place) -> None:
        self.findings: list[str] = []
        self.skipped = 0
        self._place = place

    def try_to_look(self) -> None:
        """Look, unless Kafka or a database is down just now: then they look again later."""
        try:
            self.look()
        except Exception as error:  # noqa: BLE001  # as said; what stays wrong shows as a stream that is stuck
            self._place.journal("the person could not look", error=f"{type(error).__name__}: {error}"[:300])

    def look(self) -> None:
        """Go through all lanes once."""
        for lane in LANES.values():
            ledger = SqlLedger(self._place.ledger_url())
            try:
                streams = ledger.streams(lane.name) if ledger.pipeline(lane.name) else ()
                if lane.person:
                    for stream in streams:
                        self._pass_what_is_gone(lane.name, stream)
                held = ledger.ranges(pipeline=lane.name, states=(RangeState.HELD,))
            finally:
                ledger.close()
            for item in held:
                if not lane.person:
                    self.findings.append(
                        f"unexpected hold: {item.stream.topic}/{item.stream.partition} {item.range}: {item.reason}"
                    )
                self.command("release", item.id, "--reason", "the soak's person on call")

    def _pass_what_is_gone(self, pipeline: str, stream: StreamRecord) -> None:
        end = stream.end_seen if self._is_old(stream) else self._log_start(stream)
        if stream.watermark >= end:
            return
        slice_ = ["--partition", str(stream.key.partition), "--from", str(stream.watermark), "--to", str(end)]
        which = ["--topic", stream.key.topic, f"--topic-id={stream.key.topic_id}"]
        code, answer = self.command(
            "skip", pipeline, *which, *slice_, "--reason", "Kafka has it no longer", "--acknowledge-order"
        )
        if code == 0:
            self.skipped += answer.get("skipped", 0)

    def _is_old(self, stream: StreamRecord) -> bool:
        return stream.key.topic_id != self._place.topic_ids[stream.key.topic]

    def _log_start(self, stream: StreamRecord) -> int:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        partition = TopicPartition(stream.key.topic, stream.key.partition)
        admin = self._place.new_admin()  # one that outlived a broker knows only old leaders, and does not ask again
        asked = admin.list_offsets({partition: OffsetSpec.earliest()}, request_timeout=30)
        return int(asked[partition].result(timeout=40).offset)

    def command(self, *words: str) -> tuple[int, Any]:
        """Run a command of the product; returns its exit code and its document."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow_kafka_lake.cli", *words, "--json"],
            env=self._place.environment(),
            cwd=self._place.home,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if "Traceback (most recent call last)" in done.stderr:
            self.findings.append(f"{words[0]} shows a traceback: {done.stderr.strip().splitlines()[-1][:300]}")
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = {}
        self._place.journal("command", words=list(words), code=done.returncode, said=done.stdout[-600:])
        return done.returncode, answer
