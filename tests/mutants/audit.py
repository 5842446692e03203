"""Guards of the audit: what it must not believe, and what it must not leave out."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PROGRESS = "airflow_kafka_lake.core.audit.progress"
_REPORT = "airflow_kafka_lake.core.audit.report"
_CONTENTS = "airflow_kafka_lake.features.deep_audit.contents"
_SEAMS = "airflow_kafka_lake.features.cutover.decision"
_CHECKING = "airflow_kafka_lake.services.pipeline_audit"
_COMPARING = "airflow_kafka_lake.features.deep_audit.check"
_DOCUMENT = "tests/unit/services/test_audit_document.py"
_FOUND = "tests/unit/services/test_pipeline_audit.py"
_COMPARED = "tests/unit/features/deep_audit/test_deep_audit.py"
_JUDGED = "tests/unit/features/cutover/test_decision.py"
_ACCEPTED = "tests/unit/services/test_accepted_deletes.py"

AUDIT = (
    Mutant(
        name="a-partition-that-is-not-there-is-sound",
        law="L5",
        guard="Each partition that a command names must be one of the pipeline's.",
        module="airflow_kafka_lake.core.naming",
        function="require_streams",
        old="meant and (not missing)",
        new="meant",
        red=("tests/unit/services/test_partial_answers.py::test_partition_that_is_not_there_is_not_audited_as_sound",),
    ),
    Mutant(
        name="status-of-nothing",
        law="L5",
        guard="A topic or a partition that the pipeline has not is refused, not answered with nothing.",
        module="airflow_kafka_lake.services.reporting",
        function="status",
        old=("require_streams(spec.name, (stream.key for stream in own.streams), topic=topic, partitions=partitions)"),
        new="",
        red=("tests/unit/services/test_reporting.py::test_status_of_what_is_not_there_is_refused",),
    ),
    Mutant(
        name="poll-what-was-skipped",
        law="L4",
        guard="A comparison that is too much for Spark is tried without what lies behind its slices.",
        module=_COMPARING,
        function="_run",
        old="error.facts.get('reason') != OUT_OF_MEMORY",
        new="True",
        red=(f"{_COMPARED}::test_comparison_that_runs_out_of_memory_is_tried_without_what_lies_behind",),
    ),
    Mutant(
        name="excuse-later-deletes",
        law="L8",
        guard="Rows recorded as deleted on purpose excuse so many missing rows of their range, and not one more.",
        module="airflow_kafka_lake.core.audit.check",
        function="check_committed",
        old="inside.span < recorded.visible - deleted",
        new="inside.span < recorded.visible and (not deleted)",
        red=(f"{_ACCEPTED}::test_one_row_more_is_missing_again",),
    ),
    Mutant(
        name="accept-deletes-twice",
        law="L8",
        guard="What is recorded as deleted is not recorded once more.",
        module="airflow_kafka_lake.core.ledger.deletions",
        function="unrecorded",
        old="item.accounting.visible - before",
        new="item.accounting.visible",
        red=(f"{_ACCEPTED}::test_record_of_a_number_alone_still_counts",),
    ),
    Mutant(
        name="excuse-a-part-for-deletes-beside-it",
        law="L8",
        guard="Rows that may have been beside the part that was asked for are not recorded as deleted from it.",
        module="airflow_kafka_lake.core.ledger.deletions",
        function="unrecorded",
        old="max(0, missing - (bare - within).span)",
        new="most",
        red=(
            f"{_ACCEPTED}::test_deletes_beside_the_part_that_was_asked_for_stay_missing",
            f"{_ACCEPTED}::test_deletes_of_a_part_that_can_be_told_are_recorded",
        ),
    ),
    Mutant(
        name="excuse-a-part-twice",
        law="L8",
        guard="A part whose deletes are on record excuses none that came later beside it.",
        module="airflow_kafka_lake.core.ledger.deletions",
        function="unrecorded",
        old="RangeSet((_rows_of(item),)) - there - recorded",
        new="RangeSet((_rows_of(item),)) - there",
        red=(f"{_ACCEPTED}::test_part_that_is_recorded_excuses_no_later_delete_beside_it",),
    ),
    Mutant(
        name="deletes-recorded-at-once-add-up",
        law="L8",
        guard="Rows that two people record as deleted at once are excused once.",
        module="airflow_kafka_lake.core.ledger.deletions",
        function="Deletions.rows",
        old="max",
        new="sum",
        red=(f"{_ACCEPTED}::test_rows_that_two_people_record_at_once_are_excused_once",),
    ),
    Mutant(
        name="deletes-that-came-back-excuse",
        law="L8",
        guard="Rows that were recorded as deleted, and are there again, excuse none of those that are gone.",
        module="airflow_kafka_lake.core.ledger.deletions",
        function="_gone",
        old="row.rows - ((row.offsets or NOTHING) & there).span",
        new="row.rows",
        red=(f"{_ACCEPTED}::test_deleted_rows_that_come_back_excuse_no_others",),
    ),
    Mutant(
        name="deletes-of-another-wave-excuse",
        law="L8",
        guard="Rows that were deleted from what was rolled back since excuse none of what was read again.",
        module="airflow_kafka_lake.core.ledger.deletions",
        function="_reading",
        old="item.wave",
        new="''",
        red=(f"{_ACCEPTED}::test_what_was_rolled_back_and_read_again_has_all_of_its_rows_again",),
    ),
    Mutant(
        name="accept-a-rollback-as-deletes",
        law="L12",
        guard="Rows that vanished with their commit are not recorded as deleted.",
        module="airflow_kafka_lake.services.accepted_deletes",
        function="accept_deletes",
        old="check_table(ports, spec.name, table, sorted(topic_ids))",
        new="pass",
        red=(f"{_ACCEPTED}::test_rollback_is_no_delete",),
    ),
    Mutant(
        name="call-missing-rows-visible",
        law="L8",
        guard="What an audit calls visible is in the table: a row that is gone leaves its offset unexplained.",
        module=_REPORT,
        function="_audited",
        old="min(recorded.visible, inside.span)",
        new="recorded.visible",
        red=(f"{_DOCUMENT}::test_a_missing_row_is_unexplained",),
    ),
    Mutant(
        name="count-rows-wherever-they-are",
        law="L8",
        guard="As many rows as were published, between other offsets, are not what was published.",
        module="airflow_kafka_lake.core.audit.check",
        function="check_committed",
        old="inside and (not deleted) and (_ends(inside) != (item.first_offset, item.last_offset))",
        new="False and _ends(inside) != (item.first_offset, item.last_offset)",
        red=(f"{_DOCUMENT}::test_rows_moved_beyond_their_neighbours_are_found",),
    ),
    Mutant(
        name="believe-any-lower-watermark",
        law="L1",
        guard="A watermark stands at the end of a range: anywhere else somebody has put it.",
        module=_PROGRESS,
        function="check_progress",
        old=("stream.watermark not in {stream.origin, *(edge for i in mine for edge in (i.range.start, i.range.end))}"),
        new=(
            "False and stream.watermark not in {stream.origin, *(edge for i in mine for edge in "
            "(i.range.start, i.range.end))}"
        ),
        red=(f"{_DOCUMENT}::test_a_watermark_at_the_end_of_no_range_was_edited",),
    ),
    Mutant(
        name="pass-what-was-not-compared",
        law="L5",
        guard="A Kafka that does not answer proves no content and no cutover.",
        module=_CHECKING,
        function="audit",
        old=("if checks:\n    ..."),
        new=("if False:\n    ..."),
        red=(f"{_FOUND}::test_a_kafka_that_does_not_answer_proves_no_contents_and_no_cutover",),
    ),
    Mutant(
        name="compare-with-a-re-created-topic",
        law="L12",
        guard="Topic ids are looked at again after a comparison.",
        module=_COMPARING,
        function="DeepCheck.check",
        old="_require_same_topics(ports, slices)",
        new="",
        red=(f"{_COMPARED}::test_a_topic_that_is_re_created_meanwhile_is_an_error",),
    ),
    Mutant(
        name="blame-the-cleaner-everywhere",
        law="L8",
        guard="Only in a compacted topic may a row have no record in Kafka any more.",
        module=_CONTENTS,
        function="Deep.cleaned",
        old="item.mismatch is Mismatch.UNKNOWN and item.stream.topic in self.compacted",
        new="item.mismatch is Mismatch.UNKNOWN",
        red=(f"{_COMPARED}::test_a_record_that_kafka_has_lost_is_a_finding",),
    ),
    Mutant(
        name="explain-a-cutover-by-anything",
        law="L8",
        guard="What lies open at a cutover is explained by markers, aborted and cleaned records only.",
        module=_SEAMS,
        function="judge",
        old="(item.range for item in explanations if item.fate in EXPLAINED)",
        new="(item.range for item in explanations)",
        red=(
            f"{_JUDGED}::test_what_neither_has_is_missing_unless_kafka_explains_it",
            f"{_FOUND}::test_what_is_in_neither_table_is_missing_at_the_cutover",
        ),
    ),
    Mutant(
        name="overlook-rows-in-both-tables",
        law="L2",
        guard="A live stream's row at a committed offset is there twice.",
        module=_SEAMS,
        function="ask",
        old="committed & live",
        new="RangeSet()",
        red=(
            f"{_JUDGED}::test_what_both_have_is_twice",
            f"{_FOUND}::test_what_is_in_both_tables_is_twice_at_the_cutover",
        ),
    ),
    Mutant(
        name="write-names-as-markup",
        law="text of strangers",
        guard="What others wrote stays text in a page.",
        module="airflow_kafka_lake.features.pages.rendering",
        function="_environment",
        old="select_autoescape(default=True, default_for_string=True)",
        new="False",
        red=("tests/unit/features/pages/test_audit_page.py::test_what_strangers_wrote_stays_text",),
    ),
)
