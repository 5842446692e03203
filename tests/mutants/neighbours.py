"""Guards of what stands beside the main road: group group_sync, samples, open transactions, connections, the jobs that
read or decode by themselves, and the tasks that ingest and audit."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ADAPTERS = "airflow_kafka_lake.adapters"
_MIRROR = "airflow_kafka_lake.features.group_sync.kafka"
_CLIENT = f"{_ADAPTERS}.kafka.client"
_SAMPLING = f"{_ADAPTERS}.kafka.sampling"
_TRANSACTIONS = f"{_ADAPTERS}.kafka.transactions"
_CONFIG = f"{_ADAPTERS}.kafka_config"
_UNTIMELY = "airflow_kafka_lake.jobs.overflowing"
_REDECODE = "airflow_kafka_lake.features.decoding.job.redecode"
_DECODING = "airflow_kafka_lake.features.decoding.job.decode"
_INGEST = "airflow_kafka_lake.operators.ingest"
_AUDIT = "airflow_kafka_lake.operators.audit"
_UNIT = "tests/unit/adapters"

KAFKA = (
    Mutant(
        name="mirror-tells-a-new-topic",
        law="L12",
        guard="The group is told no offset of a topic that was created again since.",
        module=_MIRROR,
        function="KafkaGroupCommitter.commit",
        old="ids[key.topic] != key.topic_id",
        new="False",
        red=(
            "tests/unit/features/group_sync/test_kafka_group.py::test_offset_of_a_topic_that_was_created_again_is_not_committed",
        ),
    ),
    Mutant(
        name="mirror-takes-silence-for-success",
        law="L5",
        guard="A partition that the coordinator's answer leaves out was not told.",
        module=_MIRROR,
        function="KafkaGroupCommitter._commit",
        old="{place: ('', 'the broker said nothing of it') for place in positions if place not in errors}",
        new="{}",
        red=(
            "tests/unit/features/group_sync/test_kafka_group.py::test_partition_that_the_answer_leaves_out_was_not_told",
        ),
    ),
    Mutant(
        name="mirror-overlooks-a-refusal",
        law="L5",
        guard="A partition whose commit the coordinator refuses was not told.",
        module=_MIRROR,
        function="KafkaGroupCommitter._commit",
        old="error is not None",
        new="False",
        red=("tests/unit/features/group_sync/test_kafka_group.py::test_partition_that_is_refused_was_not_told",),
    ),
    Mutant(
        name="mirror-moves-a-group-back",
        law="fine print: ledger first",
        guard="A group that is ahead is left alone, and a person is told.",
        module="airflow_kafka_lake.features.group_sync.decision",
        function="_refusal",
        old="(found.group_offset or 0) > watermark",
        new="False",
        more=(("to_commit", "found.group_offset is None or found.group_offset < stream.watermark", "True"),),
        red=("tests/unit/features/group_sync/test_group_sync.py::test_group_that_is_ahead_is_never_moved_back",),
    ),
    Mutant(
        name="mirror-writes-over-a-pending-commit",
        law="L5",
        guard="A group whose commit is pending in a transaction is not told anything.",
        module="airflow_kafka_lake.features.group_sync.decision",
        function="_refusal",
        old="'a commit of the group is pending in a transaction'",
        new="''",
        red=(
            "tests/unit/features/group_sync/test_group_sync.py::test_offset_that_is_not_known_is_not_written_over[unstable]",
        ),
    ),
    Mutant(
        name="refused-is-repeated",
        law="exit codes",
        guard="What a cluster refuses is not called silence: a person looks at the connection.",
        module=_CLIENT,
        function="Client.translated",
        old="cause.name() in _REFUSED",
        new="False",
        red=(f"{_UNIT}/test_kafka_client.py::test_what_a_cluster_refuses_is_not_called_silence",),
    ),
    Mutant(
        name="old-leaders-are-asked",
        law="L5",
        guard="Before a partition is asked again, its leader is looked up.",
        module=_CLIENT,
        function="Client.offsets",
        old="self._forget_leaders()",
        new="pass",
        red=(f"{_UNIT}/test_kafka_client.py::test_leader_that_moved_is_looked_up_before_it_is_asked_again",),
    ),
    Mutant(
        name="sample-resets",
        law="L13",
        guard="A sample of offsets that are gone reads nothing instead of others.",
        module=_SAMPLING,
        function="_settings",
        old="'error'",
        new="'earliest'",
        red=(f"{_UNIT}/test_kafka_sampling.py::test_sample_decides_for_no_missing_offset",),
    ),
    Mutant(
        name="sample-weighs-leftovers",
        law="L16",
        guard="What the client had fetched for another slice does not weigh in a sample.",
        module=_SAMPLING,
        function="_messages",
        old="message.offset() >= slice_.range.start",
        new="True",
        red=(f"{_UNIT}/test_kafka_sampling.py::test_records_of_an_earlier_assignment_do_not_weigh",),
    ),
    Mutant(
        name="ended-transaction-hangs",
        law="L5",
        guard="A producer between two transactions holds no last stable offset.",
        module=_TRANSACTIONS,
        function="_producers",
        old="producer.current_transaction_start_offset > _NONE_OPEN",
        new="True",
        red=(f"{_UNIT}/test_kafka_transactions.py::test_producer_between_two_transactions_holds_nothing",),
    ),
    Mutant(
        name="undescribed-is-not-open",
        law="L5",
        guard="A transaction that may not be described is open all the same.",
        module=_TRANSACTIONS,
        function="_details",
        old="return {}",
        new="raise",
        red=(f"{_UNIT}/test_kafka_transactions.py::test_transaction_that_may_not_be_described_is_still_named",),
    ),
    Mutant(
        name="any-client-option",
        law="secrets",
        guard="A connection's option that is not on the list reaches no client: some load libraries or run commands.",
        module=_CONFIG,
        function="_known",
        old="if key not in _ALLOWED | _DROPPED | _FIXED.keys():\n    ...",
        new="",
        red=(
            f"{_UNIT}/test_kafka_config.py::test_what_is_not_on_the_list_is_refused_by_name[True-ssl.engine.location]",
        ),
    ),
    Mutant(
        name="certificates-are-optional",
        law="secrets",
        guard="A connection cannot turn the check of certificates off.",
        module=_CONFIG,
        function="_known",
        old="if text != _FIXED[key]:\n    ...",
        new="",
        red=(
            f"{_UNIT}/test_kafka_config.py::test_what_cannot_be_meant_is_refused[extra22-enable.ssl.certificate.verification]",
        ),
    ),
    Mutant(
        name="habits-of-a-consumer",
        law="L13",
        guard="What a shared connection says for consumers decides nothing here.",
        module=_CONFIG,
        function="_known",
        old="key in _DROPPED or not (text := _text(given, value, connection))",
        new="not (text := _text(given, value, connection))",
        red=(
            f"{_UNIT}/test_kafka_config.py::test_what_must_not_decide_is_accepted_and_dropped[auto.offset.reset-earliest]",
        ),
    ),
)

JOBS = (
    Mutant(
        name="driver-reads-neighbours",
        law="L2",
        guard="Of what a poll gives, the driver takes only the slice that it reads itself.",
        module=_UNTIMELY,
        function="_read",
        old="record.offset() in part.range",
        new="True",
        red=("tests/unit/jobs/test_overflowing.py::test_only_the_records_of_the_slice_are_taken",),
    ),
    Mutant(
        name="connection-wins-in-the-driver",
        law="L7",
        guard="What the driver reads itself it reads as the job says, whatever the connection says.",
        module=_UNTIMELY,
        function="_read",
        old="{**kafka, **fixed}",
        new="{**fixed, **kafka}",
        red=("tests/unit/jobs/test_overflowing.py::test_what_the_job_needs_wins_over_the_connection",),
    ),
    Mutant(
        name="driver-reads-half-a-slice",
        law="L8",
        guard="A slice whose end does not come fails the job.",
        module=_UNTIMELY,
        function="_read",
        old="if time.monotonic() > until:\n    ...",
        new="if time.monotonic() > until:\n    return",
        red=("tests/unit/jobs/test_overflowing.py::test_end_that_does_not_come_fails_the_job",),
    ),
    Mutant(
        name="redecode-shows-other-rows",
        law="L8",
        guard="Main moves to newly decoded rows only when every one of them has the bytes it had.",
        module=_REDECODE,
        function="_compared",
        old="not rows == kept == same",
        new="False",
        red=("tests/unit/features/decoding/test_redecode.py::test_main_stays_where_the_branch_has_other_rows[2-3-3]",),
    ),
    Mutant(
        name="redecode-shows-more-rows",
        law="L8",
        guard="Main moves to newly decoded rows only when there are as many rows as before.",
        module=_REDECODE,
        function="_compared",
        old="whole != branch.count()",
        new="False",
        red=("tests/unit/features/decoding/test_redecode.py::test_main_stays_where_the_branch_has_other_rows[3-3-4]",),
    ),
    Mutant(
        name="redecode-hides-who-was-first",
        law="L9",
        guard="A decoding job that finds main moved says so, and what else goes wrong passes on.",
        module=_REDECODE,
        function="_move_main",
        old="_head(spark, table_name(job)) == base",
        new="True",
        red=("tests/unit/features/decoding/test_redecode.py::test_main_that_moved_meanwhile_is_left_alone",),
    ),
    Mutant(
        name="redecode-leaves-its-branch",
        law="fine print: audited",
        guard="A decoding job drops its branch however it ends.",
        module=_REDECODE,
        function="redecode",
        old="repeated(lambda: spark.sql(f'ALTER TABLE {table} DROP BRANCH IF EXISTS `{job.branch}`'))",
        new="pass",
        red=("tests/unit/features/decoding/test_redecode.py::test_main_that_moved_meanwhile_is_left_alone",),
    ),
    Mutant(
        name="decoded-column-hides-a-landed-one",
        law="L8",
        guard="No decoded field takes the name of a column that every table has.",
        module=_DECODING,
        function="_by_name",
        old="if lower in taken:\n    ...",
        new="",
        red=("tests/unit/jobs/test_columns.py::test_fields_with_names_of_metadata_columns_are_refused",),
    ),
)

TASKS = (
    Mutant(
        name="ingest-of-any-pipeline",
        law="L18",
        guard="A task that names its pipeline ingests no wave of another one.",
        module=_INGEST,
        function="IngestWaveOperator._look_up",
        old="if self.pipeline and self.pipeline != record.pipeline:\n    ...",
        new="",
        red=("tests/airflow/test_operators.py::test_ingest_refuses_a_wave_of_another_pipeline",),
    ),
    Mutant(
        name="taken-over-is-a-failure",
        law="L3",
        guard="A task whose wave somebody else has taken over waits for them.",
        module=_INGEST,
        function="IngestWaveOperator.execute",
        old="(ConcurrentError, StaleFenceError)",
        new="ConcurrentError",
        red=("tests/airflow/test_operators.py::test_ingest_waits_for_whoever_took_its_wave_over",),
    ),
    Mutant(
        name="killed-task-works-on",
        law="zombies",
        guard="A task that is killed ends its Spark driver.",
        module="airflow_kafka_lake.operators.boundary",
        function="SparkTask.on_kill",
        old="raise AirflowTaskTerminated(...)",
        new="pass",
        red=("tests/airflow/test_operators.py::test_kill_unwinds_the_running_job",),
    ),
    Mutant(
        name="finding-is-a-success",
        law="exit codes",
        guard="An audit with a finding fails its task.",
        module=_AUDIT,
        function="AuditOperator._judge",
        old="if found:\n    ...",
        new="",
        red=("tests/airflow/test_audit_operator.py::test_a_finding_fails_the_task_for_good",),
    ),
    Mutant(
        name="audit-of-nothing",
        law="L5",
        guard="A pipeline that the ledger does not know is not sound.",
        module=_AUDIT,
        function="AuditOperator.execute",
        old="known_spec(...)",
        new="",
        red=("tests/airflow/test_audit_operator.py::test_a_pipeline_that_never_ran_is_refused",),
    ),
    Mutant(
        name="report-only-of-the-good",
        law="exit codes",
        guard="The report of an audit is there also when it fails.",
        module=_AUDIT,
        function="AuditOperator.execute",
        old="write_report(...)",
        new="if not document['findings']:\n    write_report(file, FEATURES.page('audit')(document))",
        red=("tests/airflow/test_audit_operator.py::test_the_report_is_written_for_a_failed_audit_too",),
    ),
)

NEIGHBOURS = (*KAFKA, *JOBS, *TASKS)
