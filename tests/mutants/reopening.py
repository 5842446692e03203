"""Guards of a reopen: of the decision, of the commit that replaces rows, and of what is left of it after a loss."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SERVICE = "airflow_kafka_lake.services.reopening"
_PUBLISHING = "airflow_kafka_lake.services.publishing"
_STAGING = "airflow_kafka_lake.services.staging"
_ADVANCE = "airflow_kafka_lake.services.advance"
_ICEBERG = "airflow_kafka_lake.adapters.iceberg.publish"
_READING = "airflow_kafka_lake.adapters.iceberg.rows"
_REOPENS = "airflow_kafka_lake.core.rebuilding.reopens"
_UNIT = "tests/unit/services/test_reopening.py::"
_ORDER = "tests/unit/services/test_order.py::"
_CONTRACT = "tests/contracts/test_ledger_reopening.py::"
_REBUILT = "tests/unit/services/test_rebuilding_reopened.py::"

REOPENING: tuple[Mutant, ...] = (
    Mutant(
        name="reopen-main-stands-still",
        law="L11",
        guard="Main moves after a reopen is on record: who passed his checks before it starts again.",
        module=_SERVICE,
        function="carry_out",
        old="_stop_publishers(...)",
        new="",
        red=(f"{_UNIT}test_publisher_that_looked_before_a_reopen_starts_again",),
    ),
    Mutant(
        name="reopen-stops-one-table",
        law="L11",
        guard="A reopen moves main of every table in which what it reads again is continued.",
        module=_SERVICE,
        function="_stop_publishers",
        old="ended.items()",
        new="{table: ended[table]}.items()",
        red=(f"{_ORDER}test_parent_reopened_stops_a_child_that_lands_in_another_table",),
    ),
    Mutant(
        name="reopen-leaves-the-branches",
        law="L11",
        guard="A reopen takes away the staging branches of what must wait for it.",
        module=_SERVICE,
        function="_move_main",
        old="FenceCommit(ended=ended, line=line)",
        new="FenceCommit(line=line)",
        red=(f"{_ORDER}test_reopened_parent_stops_a_child_whose_commit_is_on_its_way_when_main_is_rolled_back",),
    ),
    Mutant(
        name="reopen-in-todays-table",
        law="fine print: reopen",
        guard="A reopened slice is read into the table that has its rows, whatever the pipeline lands in since.",
        module="airflow_kafka_lake.core.ledger.reopenable",
        function="table_of",
        old="next(iter(found), spec.table_for(stream.key.topic))",
        new="spec.table_for(stream.key.topic)",
        red=(f"{_UNIT}test_rows_are_replaced_in_the_table_that_has_them",),
    ),
    Mutant(
        name="reopen-what-kafka-has-lost",
        law="fine print: reopen",
        guard="Offsets below the log start are not reopened: nothing could take the place of their rows.",
        module=_SERVICE,
        function="_refuse_lost",
        old="interval.start < seen.log_start",
        new="False",
        red=(f"{_UNIT}test_what_kafka_cannot_give_again_stays",),
    ),
    Mutant(
        name="reopen-beside-the-old-rows",
        law="fine print: reopen",
        guard="The commit that shows what was read again takes the old rows away.",
        module=_PUBLISHING,
        function="_commit",
        old="Publication(head=..., audited=..., token=..., ledger_id=..., replaces=..., claimed=..., line=...)",
        new="Publication(head=..., audited=..., token=..., ledger_id=..., claimed=..., line=...)",
        red=(f"{_UNIT}test_slice_is_read_again_and_replaced_in_one_commit",),
    ),
    Mutant(
        name="reopen-fewer-rows",
        law="fine print: reopen",
        guard="What was read again and has fewer rows than the lake is held until a person accepts it.",
        module=_STAGING,
        function="_stage_anew",
        old=(
            "audited.failed or refuse_fewer(ports, claim, staged, heartbeat) "
            "or ports.features.refuse_undecoded(asked, claim, staged)"
        ),
        new="audited.failed or ports.features.refuse_undecoded(asked, claim, staged)",
        red=(f"{_UNIT}test_smaller_result_is_held_until_a_person_accepts_it",),
    ),
    Mutant(
        name="reopen-unnotified",
        law="L17",
        guard="The lake is told that a slice was reopened before the new rows of it are there.",
        module=_ADVANCE,
        function="send_first",
        old="None if any((item.generation for item in claim.ranges)) else 'origin'",
        new="'origin'",
        red=(f"{_UNIT}test_lake_is_told_of_the_reopen_before_its_new_rows",),
    ),
    Mutant(
        name="reopen-of-another-version",
        law="L10",
        guard="A reopen is made from the stream's version.",
        module="airflow_kafka_lake.core.ledger.reopening",
        function="Reopen._stream",
        old="stream is None or stream.version != what.version or records.ranges != what.sources",
        new="stream is None or records.ranges != what.sources",
        red=(f"{_CONTRACT}test_reopen_decided_from_other_records_is_refused[memory-advance]",),
    ),
    Mutant(
        name="reopen-of-other-ranges",
        law="L10",
        guard="A reopen is made from the ranges as they are.",
        module="airflow_kafka_lake.core.ledger.reopening",
        function="Reopen._stream",
        old="stream is None or stream.version != what.version or records.ranges != what.sources",
        new="stream is None or stream.version != what.version",
        red=(f"{_CONTRACT}test_reopen_decided_from_other_records_is_refused[memory-held]",),
    ),
    Mutant(
        name="reopen-leaves-the-watermark",
        law="L1",
        guard="The watermark falls to the begin of what is reopened.",
        module="airflow_kafka_lake.core.ledger.reopening",
        function="Reopen.decide",
        old="max(stream.origin, min(stream.watermark, what.interval.start))",
        new="stream.watermark",
        red=(f"{_CONTRACT}test_middle_of_what_is_committed_is_planned_again[memory]",),
    ),
    Mutant(
        name="replace-rows-of-others",
        law="L18",
        guard="In Iceberg: a replacement refuses a topic of another owner, also when it brings no row.",
        module=_ICEBERG,
        function="Publisher.publish",
        old="ready.topic_ids | {item.stream.topic_id for item in publication.replaces}",
        new="ready.topic_ids",
        red=("tests/contracts/test_replacing.py::test_others_rows_are_not_replaced[iceberg]",),
    ),
    Mutant(
        name="replace-despite-equality-deletes",
        law="fine print: reopen",
        guard="In Iceberg: rows that another engine has deleted by value are not written anew.",
        module=_READING,
        function="files_of",
        old="require_no_equality_deletes(table, manifests, identifier)",
        new="",
        red=("tests/contracts/test_replacing.py::test_equality_deletes_of_others_are_refused_by_name",),
    ),
    Mutant(
        name="replace-found-impossible-after-the-job",
        law="fine print: reopen",
        guard="A table whose rows cannot be replaced is refused before a job is run for that.",
        module=_STAGING,
        function="_work",
        old="require_replaceable(ports.lake.table(claim.table), replaced(claim))",
        new="",
        red=(f"{_UNIT}test_table_whose_rows_cannot_be_replaced_is_refused_before_anything_is_begun",),
    ),
    Mutant(
        name="replace-without-a-heartbeat",
        law="L10",
        guard="Who reads and writes files anew for a replacement keeps its lease, or stops.",
        module=_PUBLISHING,
        function="_commit",
        old="table.publish(publication, Heartbeat(ports, claim.key, watch))",
        new="table.publish(publication)",
        red=(f"{_UNIT}test_replacing_with_progress_keeps_its_lease[publish]",),
    ),
    Mutant(
        name="rebuild-forgets-a-reopen",
        law="L17",
        guard="After a loss, what was reopened counts only with a later reading.",
        module=_REOPENS,
        function="Reopens.undo",
        old=("any((newer > generation and item.overlaps(part) for item, newer in self.by_stream.get(stream, ())))"),
        new="False",
        red=(f"{_REBUILT}test_whole_range_that_was_reopened_is_planned_again[lost]",),
    ),
    Mutant(
        name="rebuild-forgets-an-emptied-wave",
        law="L17",
        guard="A published wave comes back with a rebuild though all of its ranges were reopened since.",
        module="airflow_kafka_lake.core.rebuilding.comparison",
        function="_Table.compare",
        old="(*(self._wave(rows) for rows in self.proved.values()), *self._without_a_range())",
        new="tuple(self._wave(rows) for rows in self.proved.values())",
        red=(f"{_REBUILT}test_published_wave_is_never_run_again_by_an_older_ledger",),
    ),
    Mutant(
        name="rebuild-brings-back-what-is-known",
        law="L17",
        guard="A rebuild of a sound ledger brings back no wave.",
        module="airflow_kafka_lake.core.rebuilding.comparison",
        function="_Table._without_a_range",
        old="rows.keys() & _tokens(self.reading) - self.proved.keys() - self.known.committed",
        new="rows.keys() & _tokens(self.reading) - self.proved.keys()",
        red=(f"{_REBUILT}test_wave_without_a_committed_range_stays_published",),
    ),
)
"""Guards of reading again what is in the lake."""
