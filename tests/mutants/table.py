"""Guards of the lake: what a commit requires, what a look counts; and of the plan: which offsets may be read."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_STORE = "airflow_kafka_lake.adapters.memory_lake.store"
_TABLE = "airflow_kafka_lake.adapters.memory_lake.table"
_COMMIT = "airflow_kafka_lake.adapters.iceberg.commit"
_PUBLISH = "airflow_kafka_lake.adapters.iceberg.publish"
_LOOK = "airflow_kafka_lake.adapters.iceberg.look"
_STAGED = "airflow_kafka_lake.adapters.iceberg.staged"
_TIME = "airflow_kafka_lake.adapters.iceberg.commit_time"
_SNAPSHOTS = "airflow_kafka_lake.core.snapshots"
_POLICIES = "airflow_kafka_lake.core.policies"
_PLAN = "airflow_kafka_lake.core.packing"

MEMORY = (
    Mutant(
        name="memory-any-head",
        law="L9",
        guard="In memory: a commit lands only on the head that was looked at.",
        module=_STORE,
        old="        if self.refs.get(MAIN) != head.snapshot:\n",
        new="        if False:\n",
        red=("tests/contracts/test_lake_table.py::test_publish_on_a_moved_main_is_rejected[memory]",),
    ),
    Mutant(
        name="memory-any-staged-snapshot",
        law="fine print: audited",
        guard="In memory: what is published is the very snapshot that was audited.",
        module=_STORE,
        old="        if self.refs.get(branch_of(token.attempt)) != audited:\n",
        new="        if False:\n",
        red=("tests/contracts/test_lake_table.py::test_publish_of_a_changed_branch_is_rejected[memory]",),
    ),
    Mutant(
        name="memory-any-uuid",
        law="L9",
        guard="In memory: a commit lands only in the table that was looked at.",
        module=_STORE,
        old="        if self.uuid != head.uuid:\n",
        new="        if False:\n",
        red=("tests/contracts/test_lake_table.py::test_publish_into_a_recreated_table_is_rejected[memory]",),
    ),
    Mutant(
        name="memory-any-spec",
        law="fine print: spec and schema",
        guard="In memory: staged files have the table's partition spec.",
        module=_STORE,
        old="        if staged.added and staged.spec != self.spec:\n",
        new="        if False:\n",
        red=("tests/contracts/test_lake_table.py::test_publish_under_a_changed_spec_is_rejected[memory]",),
    ),
    Mutant(
        name="memory-rows-not-counted",
        law="fine print: looking",
        guard="In memory: a look counts rows by attempt, because tokens expire.",
        module=_TABLE,
        old="            if row.attempt in bases:\n",
        new="            if False:\n",
        red=("tests/contracts/test_lake_table.py::test_rows_testify_when_history_is_expired[memory]",),
    ),
    Mutant(
        name="memory-expired-is-absent",
        law="fine print: looking",
        guard="In memory: a history that ends before the base is unclear, not absent.",
        module=_TABLE,
        old="        if whole or (",
        new="        if True or (",
        red=("tests/contracts/test_lake_table.py::test_expired_history_is_unclear[memory]",),
    ),
    Mutant(
        name="memory-newest-write-untold",
        law="fine print: looking",
        guard="In memory: every commit of ours is the table's newest write on record.",
        module=_STORE,
        old="            self.last = {**self.last, "
        "(publication.ledger_id, publication.token.pipeline): publication.token}\n",
        new="            pass\n",
        red=("tests/contracts/test_lake_table.py::test_published_rows_are_visible_and_the_token_testifies[memory]",),
    ),
    Mutant(
        name="memory-ownership-hides-a-write",
        law="L17",
        guard="In memory: an ownership commit does not take the place of the newest write.",
        module=_STORE,
        old='        if publication.token.kind != "owner":\n',
        new="        if True:\n",
        red=("tests/unit/services/test_identity.py::test_ledger_behind_is_found_behind_an_ownership_commit",),
    ),
)

ICEBERG = (
    Mutant(
        name="any-head",
        law="L9",
        guard="In Iceberg: a commit lands only on the head that was looked at.",
        module=_COMMIT,
        old="        yield Requirement.MAIN_HEAD, require_ref(MAIN_BRANCH, self.head.snapshot)\n",
        new="",
        red=("tests/contracts/test_lake_table.py::test_publish_on_a_moved_main_is_rejected[iceberg]",),
    ),
    Mutant(
        name="any-staged-snapshot",
        law="fine print: audited",
        guard="In Iceberg: what is published is the very snapshot that was audited.",
        module=_COMMIT,
        old="            yield Requirement.STAGING_BRANCH, require_ref(self.branch, self.audited)\n",
        new="            pass\n",
        red=("tests/contracts/test_lake_table.py::test_publish_of_a_changed_branch_is_rejected[iceberg]",),
    ),
    Mutant(
        name="any-uuid",
        law="L9",
        guard="In Iceberg: a commit lands only in the table that was looked at.",
        module=_COMMIT,
        old="        yield Requirement.TABLE_UUID, require_uuid(self.head.uuid)\n",
        new="",
        red=("tests/contracts/test_lake_table.py::test_publish_into_a_recreated_table_is_rejected[iceberg]",),
    ),
    Mutant(
        name="any-spec",
        law="fine print: spec and schema",
        guard="In Iceberg: staged files have the table's partition spec.",
        module=_COMMIT,
        old="            yield Requirement.SPEC, require_spec(self.prepared.spec_id)\n",
        new="            pass\n",
        red=("tests/contracts/test_lake_table.py::test_publish_under_a_changed_spec_is_rejected[iceberg]",),
    ),
    Mutant(
        name="any-schema",
        law="fine print: spec and schema",
        guard="In Iceberg: staged files have the table's schema.",
        module=_COMMIT,
        old="            yield Requirement.SCHEMA, require_schema(self.schema_id)\n",
        new="            pass\n",
        red=("tests/contracts/test_iceberg_table.py::test_schema_changed_after_staging_is_rejected",),
    ),
    Mutant(
        name="newest-write-untold",
        law="fine print: looking",
        guard="In Iceberg: every commit of ours sets the property that names the table's newest write.",
        module=_COMMIT,
        old="        last = dict.fromkeys(names, said_last)\n",
        new="        last: dict[str, str] = {}\n",
        red=("tests/contracts/test_lake_table.py::test_published_rows_are_visible_and_the_token_testifies[iceberg]",),
    ),
    Mutant(
        name="any-error-is-rejected",
        law="fine print: rejected",
        guard="In Iceberg: only a named failed requirement is a rejection, every other error is unknown.",
        module=_COMMIT,
        old="            if not _is_named_failure(error):\n",
        new="            if False:\n",
        red=(
            "tests/contracts/test_iceberg_table.py::test_try_after_a_lost_answer_knows_its_own_commit",
            "tests/contracts/test_lake_table.py::test_lost_answer_is_unknown_and_a_look_decides[iceberg]",
        ),
    ),
    Mutant(
        name="conflict-with-oneself",
        law="L9",
        guard="In Iceberg: after a named conflict main is asked whether the commit is there after all.",
        module=_COMMIT,
        old="        if landed := _landed(catalog, identifier, snapshot.snapshot_id):\n            return landed\n",
        new="",
        red=("tests/contracts/test_iceberg_table.py::test_conflict_after_an_own_success_is_committed",),
    ),
    Mutant(
        name="owner-not-on-the-load",
        law="L18",
        guard="In Iceberg: a publish refuses a topic of another owner on the load that it commits on.",
        module=_PUBLISH,
        old="            if (ledger_id, pipeline) != owner:\n",
        new="            if False:\n",
        red=("tests/contracts/test_lake_table.py::test_publish_for_another_owner_is_rejected[iceberg]",),
    ),
    Mutant(
        name="rows-not-counted",
        law="fine print: looking",
        guard="In Iceberg: a look counts rows by attempt, because tokens expire.",
        module=_LOOK,
        old="    if by_rows := attempts_with_rows(table, bases.keys(), enough=1):\n",
        new="    if by_rows := None:\n",
        red=("tests/contracts/test_lake_table.py::test_rows_testify_when_history_is_expired[iceberg]",),
    ),
    Mutant(
        name="receipts-not-asked",
        law="fine print: looking",
        guard="In Iceberg: where history has expired, the receipt of a settlement testifies for a wave without rows.",
        module=_LOOK,
        old="    if by_receipt := published(list(bases)):\n",
        new="    if by_receipt := None:\n",
        red=("tests/contracts/test_lake_table.py::test_published_receipt_testifies_when_history_is_expired[iceberg]",),
    ),
    Mutant(
        name="expired-is-absent",
        law="fine print: looking",
        guard="In Iceberg: a history that ends before the base is unclear, not absent.",
        module=_LOOK,
        old="    if whole:\n",
        new="    if True:\n",
        red=("tests/contracts/test_lake_table.py::test_expired_history_is_unclear[iceberg]",),
    ),
    Mutant(
        name="fence-is-a-publish",
        law="L11",
        guard="In Iceberg: a fence commit of an attempt does not testify that the attempt was published.",
        module=_LOOK,
        old=" and token.kind in _PUBLISHES:",
        new=":",
        red=("tests/contracts/test_lake_table.py::test_fence_of_an_attempt_is_not_its_publish[iceberg]",),
    ),
    Mutant(
        name="rows-of-another-attempt",
        law="L8",
        guard="In Iceberg: staged files hold rows of their own attempt only.",
        module=_STAGED,
        old="    if strangers:\n",
        new="    if False:\n",
        red=("tests/contracts/test_lake_table.py::test_rows_of_another_attempt_are_refused[iceberg]",),
    ),
    Mutant(
        name="branch-written-to-again",
        law="fine print: audited",
        guard="In Iceberg: a staging branch that was written to after its job is no result.",
        module=_STAGED,
        old="    if staged and (len(staged) > 1 or staged[0] is not own[0]):\n",
        new="    if False:\n",
        red=("tests/contracts/test_iceberg_table.py::test_branch_written_to_after_its_job_is_refused",),
    ),
    Mutant(
        name="slow-clock",
        law="fine print: snapshot time",
        guard="In Iceberg: a commit's time is after the table's last change, whatever this clock says.",
        module=_TIME,
        old="    return max(now_ms, _latest_ms(metadata) + 1)\n",
        new="    return now_ms\n",
        red=("tests/contracts/test_iceberg_table.py::test_slow_clock_keeps_history_in_order",),
    ),
)

PLAN = (
    Mutant(
        name="read-beyond-last-stable",
        law="L7",
        guard="Under read_committed nothing is planned beyond the last stable offset.",
        module=_SNAPSHOTS,
        old="return self.last_stable if isolation is Isolation.READ_COMMITTED else self.high_watermark",
        new="return self.high_watermark",
        red=("tests/unit/services/test_plan_refusals.py::test_period_beyond_last_stable_is_refused",),
    ),
    Mutant(
        name="plan-again-what-is-planned",
        law="L2",
        guard="A plan is what was asked for minus what is planned or settled already.",
        module=_PLAN,
        old="    return RangeSet((asked,)) - planned\n",
        new="    return RangeSet((asked,))\n",
        red=("tests/unit/services/test_planning.py::test_following_plans_only_what_is_missing",),
    ),
    Mutant(
        name="unstable-is-a-number",
        law="L5",
        guard="A group offset with a pending transaction is no number.",
        module=_POLICIES,
        old="        case GroupOffsetState.UNSTABLE:\n            raise UnstableError(",
        new="        case GroupOffsetState.UNSTABLE:\n            return 0\n            raise UnstableError(",
        red=("tests/unit/services/test_planning.py::test_group_offset_that_is_no_number_plans_nothing",),
    ),
    Mutant(
        name="follow-a-recreated-topic",
        law="L12",
        guard="A re-created topic waits until its old generation is settled or passed.",
        module=_POLICIES,
        old="        if stream.watermark < stream.end_seen:\n",
        new="        if False:\n",
        red=(
            "tests/unit/services/test_plan_refusals.py::test_recreated_topic_is_blocked_until_its_old_generation_is_resolved",
        ),
    ),
    Mutant(
        name="follow-a-shrunken-log",
        law="L13",
        guard="A log that ends before what was seen of it is a stop.",
        module=_POLICIES,
        old="    if record and (reason := _lost(pipeline, item, record, ends)):\n",
        new="    if False and record and (reason := _lost(pipeline, item, record, ends)):\n",
        red=("tests/unit/services/test_plan_refusals.py::test_shrunken_log_blocks_that_partition_only",),
    ),
    Mutant(
        name="read-an-expired-period",
        law="L13",
        guard="A period that retention has passed is refused.",
        module=_POLICIES,
        old="    _refuse_expired(item, start, end, record)\n",
        new="",
        red=("tests/unit/services/test_plan_refusals.py::test_expired_period_is_refused",),
    ),
)

TABLE = (*MEMORY, *ICEBERG, *PLAN)
