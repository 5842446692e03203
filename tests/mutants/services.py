"""Guards of the use cases: in which order the lake is asked, moved and believed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PUBLISHING = "airflow_kafka_lake.services.publishing"
_STAGING = "airflow_kafka_lake.services.staging"
_DECISIONS = "tests/unit/services/test_deciding.py"
_TAKING = "airflow_kafka_lake.services.taking"
_DECIDING = "airflow_kafka_lake.services.deciding"
_CLAIMING = "airflow_kafka_lake.services.claiming"
_SETTLEMENT = "airflow_kafka_lake.services.settlement"
_SWEEPING = "airflow_kafka_lake.services.sweeping"
_AUDITING = "airflow_kafka_lake.services.auditing"
_IDENTITY = "airflow_kafka_lake.services.identity"
_TOPICS = "airflow_kafka_lake.services.topics"
_EPOCHS = "airflow_kafka_lake.core.epochs"
_PLANNING = "airflow_kafka_lake.services.planning"

PUBLISHING = (
    Mutant(
        name="publish-without-looking",
        law="L9",
        guard="Every try to publish looks for the wave on the very head that it will commit on.",
        module=_PUBLISHING,
        old="        look = probe(ports, claim, attempts)\n",
        new="        look = Absent(head=table.head())\n",
        red=("tests/unit/services/test_publishing.py::test_late_commit_of_an_earlier_attempt_wins_over_its_successor",),
    ),
    Mutant(
        name="repeat-instead-of-adopt",
        law="L10",
        guard="A wave that the first look finds in the lake is adopted, not staged again.",
        module=_STAGING,
        old="    if isinstance(found, Found):\n        adopt(ports, held, found)\n        return ()\n",
        new="",
        red=("tests/unit/services/test_publishing.py::test_commit_that_lands_after_its_worker_died_is_adopted",),
    ),
    Mutant(
        name="claim-a-strangers-commit",
        law="L10",
        guard="A commit found while publishing is settled as the attempt's that made it, from that attempt's receipts.",
        module=_PUBLISHING,
        old="            if look.attempt != claim.key.attempt:\n                return adopt(ports, claim, look)\n",
        new="",
        red=("tests/unit/services/test_publishing.py::test_late_commit_of_an_earlier_attempt_wins_over_its_successor",),
    ),
    Mutant(
        name="adopt-without-receipts",
        law="L8",
        guard="An adopted wave must have a receipt for every one of its ranges.",
        module=_PUBLISHING,
        old="        if row is None:\n            raise IdentityError(",
        new="        if row is None:\n            continue\n            raise IdentityError(",
        red=("tests/unit/services/test_settlement.py::test_adoption_checks_every_range_against_its_receipt",),
    ),
    Mutant(
        name="unknown-is-rejected",
        law="L9",
        guard="A commit whose answer was lost is not taken for rejected: main's history is asked.",
        module=_PUBLISHING,
        old="            case Rejected() | Unknown():\n",
        new="            case Unknown():\n"
        "                raise AttemptRejectedError('no answer', wave=claim.key.wave)\n"
        "            case Rejected():\n",
        red=("tests/unit/services/test_publishing.py::test_lost_answer_is_settled_by_looking",),
    ),
    Mutant(
        name="unknown-is-committed",
        law="L5",
        guard="A commit whose answer was lost is not taken for committed.",
        module=_PUBLISHING,
        old="            case Rejected() | Unknown():\n",
        new="            case Unknown():\n"
        "                return _settle(ports, claim, None, receipts)\n"
        "            case Rejected():\n",
        red=("tests/unit/services/test_publishing.py::test_lost_answer_is_settled_by_looking",),
    ),
    Mutant(
        name="catalog-gone-is-failed",
        law="L9",
        guard="A catalog that cannot be reached during the commit leaves its outcome unknown.",
        module=_PUBLISHING,
        old="    except UnavailableError as error:\n        outcome = Unknown(reason=error.message)\n",
        new="    except UnavailableError as error:\n        raise AttemptRejectedError(error.message) from error\n",
        red=("tests/unit/services/test_publishing.py::test_unreachable_catalog_while_publishing_is_no_rejection",),
    ),
    Mutant(
        name="forget-that-it-is-unknown",
        law="fine print: rejected and unknown",
        guard="An attempt that ends without knowing its outcome says so, and its wave stays PUBLISHING.",
        module=_PUBLISHING,
        old="        outcome = AttemptOutcome.UNKNOWN\n",
        new="        outcome = AttemptOutcome.FAILED\n",
        red=("tests/unit/services/test_publishing.py::test_answers_that_stay_lost_are_an_unknown_outcome",),
    ),
    Mutant(
        name="a-failed-look-ends-the-doubt",
        law="L9",
        guard="After a commit without an answer, what fails before a look has answered leaves the outcome unknown.",
        module="airflow_kafka_lake.services.in_doubt",
        old="        self._open, self._required = True, head\n",
        new="        self._required = head\n",
        red=("tests/unit/services/test_publishing.py::test_unknown_stays_unknown_until_a_look_has_answered",),
    ),
    Mutant(
        name="a-look-at-the-same-head-ends-the-doubt",
        law="L9",
        guard="A look that finds nothing on the head that a lost commit requires does not say that it will not land.",
        module="airflow_kafka_lake.services.in_doubt",
        old="(self._open and not moved)",
        new="False",
        red=("tests/unit/services/test_publishing.py::test_unknown_stays_unknown_until_a_look_has_answered",),
    ),
    Mutant(
        name="publish-with-an-old-fence",
        law="L10",
        guard="The fence is checked, and PUBLISHING recorded, between the look and the commit.",
        module=_PUBLISHING,
        old="    ports.ledger.mark_publishing(claim.key)\n",
        new="",
        red=("tests/unit/services/test_deciding.py::test_zombie_publisher_is_stopped_by_a_cancel",),
    ),
    Mutant(
        name="publish-without-identity",
        law="L12, L17, L18",
        guard="Table, owner and newest commit are checked on the load that supplied the head.",
        module=_PUBLISHING,
        old="    check_head(ports, claim.pipeline, claim.table, head, "
        "sorted({item.topic_id for item in claim.ranges}))\n",
        new="",
        red=("tests/unit/services/test_identity.py::test_table_recreated_under_a_running_wave_stays_empty",),
    ),
    Mutant(
        name="work-without-a-base",
        law="fine print: base",
        guard="The head that was looked at is recorded as the attempt's base.",
        module=_STAGING,
        old="    ports.ledger.record_base(held.key, "
        "EMPTY_TABLE if found.head.snapshot is None else found.head.snapshot)\n",
        new="",
        red=("tests/unit/services/test_settlement.py::test_wave_that_is_in_the_lake_is_adopted",),
    ),
    Mutant(
        name="base-after-the-work",
        law="fine print: base",
        guard="The base is recorded before the attempt's job starts.",
        module=_STAGING,
        old="    ports.ledger.record_base(held.key, "
        "EMPTY_TABLE if found.head.snapshot is None else found.head.snapshot)\n"
        "    heartbeat = Heartbeat(ports, held.key)\n"
        "    if failed := _precheck(ports, held, heartbeat):\n"
        "        return failed\n"
        "    asked = decoding_of(ports, held.pipeline)\n"
        "    how = decoders(ports, asked, {item.topic for item in held.ranges})\n"
        "    try:\n        staged = _stage(ports, held, how, heartbeat)\n"
        "    except UNREADABLE:\n"
        "        if failed := _lost_meanwhile(ports, held):\n            return failed\n        raise\n",
        new="    heartbeat = Heartbeat(ports, held.key)\n"
        "    if failed := _precheck(ports, held, heartbeat):\n"
        "        return failed\n"
        "    asked = decoding_of(ports, held.pipeline)\n"
        "    how = decoders(ports, asked, {item.topic for item in held.ranges})\n"
        "    try:\n        staged = _stage(ports, held, how, heartbeat)\n"
        "    except UNREADABLE:\n"
        "        if failed := _lost_meanwhile(ports, held):\n            return failed\n        raise\n"
        "    ports.ledger.record_base(held.key, "
        "EMPTY_TABLE if found.head.snapshot is None else found.head.snapshot)\n",
        red=("tests/unit/services/test_staging.py::test_table_is_never_ahead_of_the_base",),
    ),
    Mutant(
        name="publish-unaccounted",
        law="L8",
        guard="Ranges that fail their audit are taken away before anything is published.",
        module=_STAGING,
        old="    if failed := audited.failed or refuse_fewer(",
        new="    if failed := refuse_fewer(",
        red=("tests/unit/services/test_staging.py::test_range_that_fails_its_audit_is_held_and_the_rest_published",),
    ),
    Mutant(
        name="publish-undecoded",
        law="L8",
        guard="A wave with more values that do not decode than its pipeline allows is stopped before it is published.",
        module=_STAGING,
        old=" or refuse_undecoded(asked, held, staged):",
        new=":",
        red=("tests/unit/services/test_decoding.py::test_limit_counts_over_the_wave",),
    ),
    Mutant(
        name="publish-before-receipts",
        law="L8",
        guard="An attempt's receipts are in the lake before its rows are visible.",
        module=_STAGING,
        old="    ports.lake.table(held.table).add_receipts(receipt_rows(ports, held, audited.receipts))\n",
        new="",
        red=("tests/unit/services/test_settlement.py::test_two_that_settle_at_once_do_not_disturb_each_other",),
    ),
    Mutant(
        name="read-what-is-gone",
        law="L13",
        guard="Offsets that retention has passed are held with the exact skip, before a job is started.",
        module="airflow_kafka_lake.core.losses",
        old="    if seen.log_start > start:\n",
        new="    if False:\n",
        red=("tests/unit/services/test_expiry.py::test_log_start_that_passed_the_range_holds_it_with_the_exact_skip",),
    ),
    Mutant(
        name="call-a-period-done-that-is-half-gone",
        law="L5",
        guard="A period by time that may begin below the log start is refused: the times of what is gone are unknown.",
        module="airflow_kafka_lake.core.policies",
        old="    if item.log_start == 0 or not isinstance(bounds.start, datetime):\n",
        new="    if True:\n",
        red=("tests/unit/services/test_periods.py::test_period_half_gone_to_retention_is_refused",),
    ),
    Mutant(
        name="shorten-a-period-at-an-open-transaction",
        law="L7",
        guard="A period by time that reaches beyond the last stable offset is refused, not shortened.",
        module="airflow_kafka_lake.core.policies",
        old="    elif bounds.end is not None and start < end:\n",
        new="    elif False:\n",
        red=("tests/unit/services/test_periods.py::test_period_behind_an_open_transaction_is_refused",),
    ),
    Mutant(
        name="call-an-empty-period-done",
        law="L5",
        guard="A period in which nothing lies is refused: a wrong year is no success.",
        module="airflow_kafka_lake.services.periods",
        old="    if everything and not offsets and not below:\n",
        new="    if False:\n",
        red=("tests/unit/services/test_periods.py::test_period_in_which_nothing_lies_is_refused",),
    ),
    Mutant(
        name="read-beyond-what-is-left",
        law="L13",
        guard="Offsets that a truncation has taken are held with the exact skip, before a job is started.",
        module=_EPOCHS,
        old="    if seen.high_watermark < until:\n",
        new="    if False:\n",
        red=("tests/unit/core/test_policies.py::test_log_that_shrank_is_a_stop",),
    ),
    Mutant(
        name="loss-under-the-job-is-tried-again",
        law="L13",
        guard="A job that fails because Kafka lost its offsets ends in a hold, not in another try.",
        module=_STAGING,
        old="        if failed := _lost_meanwhile(ports, held):\n",
        new="        if failed := ():\n",
        red=("tests/unit/services/test_expiry.py::test_retention_under_the_job_holds_what_is_lost",),
    ),
    Mutant(
        name="empty-job-is-a-success",
        law="L5",
        guard="A job that ended without a result has failed, whatever it said.",
        module=_STAGING,
        old="    if staged is None:\n        raise JobFailedError(",
        new="    if staged is None:\n        return Staged(snapshot=0, bytes=0, streams=())\n"
        "        raise JobFailedError(",
        red=("tests/unit/services/test_staging.py::test_job_that_ends_without_a_word_is_no_success",),
    ),
)

TAKING = (
    Mutant(
        name="take-without-a-fence-commit",
        law="L11",
        guard="Main is moved before ranges are taken away, so that no earlier publisher can succeed.",
        module=_TAKING,
        old="        outcome = table.fence(look.head, ledger_id, token, ended=earlier)\n",
        new="        return look\n",
        red=("tests/unit/services/test_deciding.py::test_zombie_publisher_is_stopped_by_a_cancel",),
    ),
    Mutant(
        name="take-without-looking-again",
        law="L11",
        guard="After main was moved, it is looked at once more before ranges are taken away.",
        module=_TAKING,
        old="        look = probe(ports, claim, claim.attempts)\n        if isinstance(look, Found) or",
        new="        look = Absent(head=table.head())\n        if isinstance(look, Found) or",
        red=("tests/unit/services/test_deciding.py::test_commit_that_lands_during_a_cancel_is_seen_or_stopped",),
    ),
    Mutant(
        name="take-before-our-fence-commit",
        law="fine print: unknown fence commit",
        guard="After a fence commit without an answer, the decision waits until that very commit is seen on main.",
        module=_TAKING,
        old=" or _landed(look.head, ledger_id, token):",
        new=" or outcome:",
        red=("tests/unit/services/test_deciding.py::test_cancel_waits_until_main_has_moved",),
    ),
    Mutant(
        name="take-after-anybodys-commit",
        law="fine print: unknown fence commit",
        guard="That others moved main does not stop an earlier publisher: main can be rolled back.",
        module=_TAKING,
        old=" or _landed(look.head, ledger_id, token):",
        new=" or head != look.head:",
        more=(
            (
                "        outcome = table.fence(look.head, ledger_id, token, ended=earlier)\n",
                "        head = look.head\n        outcome = table.fence(look.head, ledger_id, token, ended=earlier)\n",
            ),
        ),
        red=(f"{_DECISIONS}::test_zombie_commit_stays_stopped_when_main_is_rolled_back[by others]",),
    ),
    Mutant(
        name="take-and-leave-the-branches",
        law="L11",
        guard="A fence commit takes the staging branches of the wave's earlier attempts away.",
        module=_TAKING,
        old=", ended=earlier)",
        new=")",
        red=("tests/unit/services/test_deciding.py::test_zombie_commit_stays_stopped_when_main_is_rolled_back[by us]",),
    ),
    Mutant(
        name="take-what-is-published",
        law="L11",
        guard="Ranges of a wave that turns out to be published are not taken away.",
        module=_TAKING,
        old="    if claim is None:\n        raise StateError(",
        new="    if claim is None:\n        return\n        raise StateError(",
        red=("tests/unit/services/test_deciding.py::test_cancel_of_a_wave_published_but_not_settled_adopts_it",),
    ),
    Mutant(
        name="hide-an-old-ledger",
        law="L17",
        guard="A ledger that is behind the lake does not put a commit that it knows over one that it does not.",
        module=_TAKING,
        old="        check_head(ports, claim.pipeline, claim.table, look.head, topic_ids)\n",
        new="",
        red=("tests/unit/services/test_identity.py::test_ledger_behind_cannot_hide_it_by_a_cancel",),
    ),
    Mutant(
        name="skip-without-fencing",
        law="L11",
        guard="A skip fences every wave that was ever claimed and that it takes offsets from.",
        module=_DECIDING,
        old="            if claim := fenced(ports, wave):\n",
        new="            from airflow_kafka_lake.services.claiming import claim as claim_wave\n\n"
        "            if claim := claim_wave(ports, wave):\n",
        red=("tests/unit/services/test_skipping.py::test_zombie_publisher_is_stopped_by_a_skip",),
    ),
    Mutant(
        name="skip-the-future",
        law="L1",
        guard="Offsets that nobody has written yet are not skipped.",
        module=_DECIDING,
        old="    if stretch.end > end:\n",
        new="    if False:\n",
        red=("tests/unit/services/test_skipping.py::test_offsets_that_nobody_has_written_are_not_skipped",),
    ),
)

CLAIMING = (
    Mutant(
        name="rob-the-living",
        law="L10",
        guard="A wave is taken from its holder by force only when the holder is dead, or a person decides.",
        module=_CLAIMING,
        old="    over = record.fence if by_force or dead else None\n",
        new="    over = record.fence\n",
        red=("tests/unit/services/test_fencing.py::test_living_holder_keeps_its_wave_until_the_lease_ends",),
    ),
    Mutant(
        name="let-the-lease-end",
        law="L15",
        guard="A job that makes progress keeps its lease, and learns when it has lost it.",
        module=_CLAIMING,
        old="            self._ports.ledger.renew(self._key, LEASE)\n",
        new="",
        red=("tests/unit/services/test_staging.py::test_heartbeat_keeps_the_lease_and_notices_its_loss",),
    ),
    Mutant(
        name="end-somebody-elses-job",
        law="L10",
        guard="The process of a job is ended only when its worker is known to be dead.",
        module=_CLAIMING,
        old="attempt.job if dead else None",
        new="attempt.job",
        red=("tests/unit/services/test_fencing.py::test_job_of_a_worker_that_may_live_is_looked_for_by_name_only",),
    ),
    Mutant(
        name="settle-without-looking",
        law="L9",
        guard="A wave that an earlier run left open goes back only after the lake was asked.",
        module=_SETTLEMENT,
        old="        if isinstance(look, Found):\n",
        new="        if isinstance(look, bool):\n",
        red=("tests/unit/services/test_settlement.py::test_wave_that_is_in_the_lake_is_adopted",),
    ),
    Mutant(
        name="keep-it-to-the-ledger",
        law="fine print: ledger first, lake second",
        guard="Settlements and skips reach the lake's receipts, at last.",
        module=_SETTLEMENT,
        old="    ports.lake.table(table).add_receipts([item.row for item in items])\n",
        new="",
        red=("tests/unit/services/test_settlement.py::test_settlement_reaches_the_lake_at_last",),
    ),
    Mutant(
        name="rows-before-their-origin",
        law="L17",
        guard="The lake knows the origin of a stream before it shows its first row.",
        module=_STAGING,
        old="    tell_first(ports, held)\n",
        new="",
        red=("tests/unit/services/test_rebuilding.py::test_origin_is_told_before_the_first_row_is_there",),
    ),
    Mutant(
        name="publish-onto-a-rollback",
        law="L12",
        guard="No try publishes onto a table whose metadata were set back to before what was settled last.",
        module=_PUBLISHING,
        old="    check_settled(ports, claim.pipeline, claim.table, head)\n",
        new="",
        red=("tests/unit/services/test_identity.py::test_rollback_is_found_by_every_one_of_many_publishers[True]",),
    ),
    Mutant(
        name="commit-after-a-lost-commit",
        law="L12",
        guard="No commit of ours is made on a head that main's newest one of ours is not behind.",
        module=_IDENTITY,
        old="    if lost := head.lost((ledger_id, pipeline)):\n",
        new="    lost = None\n    if lost:\n",
        red=("tests/unit/services/test_identity.py::test_cancel_does_not_hide_a_rollback",),
    ),
    Mutant(
        name="silent-audit",
        law="fine print: leases",
        guard="An audit that goes on keeps the lease.",
        module=_STAGING,
        old="audit_attempt(ports, held, staged, heartbeat)",
        new="audit_attempt(ports, held, staged)",
        red=("tests/unit/services/test_fencing.py::test_audit_with_progress_keeps_its_lease[explain]",),
    ),
    Mutant(
        name="sweep-the-living",
        law="L9",
        guard="Only staging branches of attempts that are over are dropped.",
        module=_SWEEPING,
        old="        elif is_over(*known[attempt]):\n",
        new="        else:\n",
        red=(
            "tests/unit/services/test_settlement.py::test_branch_of_a_living_attempt_stays",
            "tests/unit/services/test_settlement.py::test_branch_of_an_unknown_outcome_stays_until_its_wave_is_over",
        ),
    ),
    Mutant(
        name="sweep-the-unknown",
        law="L9",
        guard="The staging branch of an attempt that this ledger does not know is left alone.",
        module=_SWEEPING,
        old="            strange.append(attempt)\n",
        new="            table.drop(attempt)\n",
        red=(
            "tests/unit/services/test_settlement.py::test_branch_of_an_attempt_that_the_ledger_does_not_know_is_left_alone",
        ),
    ),
)

IDENTITY = (
    Mutant(
        name="any-topic-of-the-name",
        law="L12",
        guard="Topic ids are compared with those that were planned.",
        module=_TOPICS,
        old="        if there.get(topic) != topic_id\n",
        new="        if topic not in there\n",
        red=("tests/unit/services/test_identity.py::test_recreated_topic_with_the_same_offsets_is_never_published",),
    ),
    Mutant(
        name="missing-in-a-list-is-deleted",
        law="L5",
        guard="A topic is asked for by its name: that a list lacks it says nothing.",
        module=_TOPICS,
        old="    left = set(topics)\n",
        new='    left = set(topics) & set(source.topics((), ".*"))\n',
        red=("tests/unit/services/test_identity.py::test_topic_that_a_list_leaves_out_is_not_deleted",),
    ),
    Mutant(
        name="silent-broker-agrees-to-a-deletion",
        law="L5",
        guard="A topic is deleted when every broker says so: one that does not answer leaves it open.",
        module="airflow_kafka_lake.adapters.kafka.identities",
        old="            if ids == {None} and self.silent:\n",
        new="            if False:\n",
        red=("tests/unit/adapters/test_kafka_identities.py::test_what_one_broker_says_alone_is_in_doubt",),
    ),
    Mutant(
        name="one-brokers-word-on-an-id",
        law="L12",
        guard="A topic's id is what every broker says that answers: one may be behind.",
        module="airflow_kafka_lake.adapters.kafka.identities",
        old="            if len(ids) != 1:\n",
        new="            if not ids:\n",
        red=("tests/unit/adapters/test_kafka_identities.py::test_what_one_broker_says_alone_is_in_doubt",),
    ),
    Mutant(
        name="topic-ids-before-the-read-only",
        law="fine print: identity brackets the accounting",
        guard="Topic ids are compared again before what is missing is explained.",
        module=_AUDITING,
        old="    failed = _changed(ports, claim.ranges)\n",
        new="    failed: dict[str, str] = {}\n",
        red=("tests/unit/services/test_identity.py::test_topic_recreated_between_explanation_and_verdict_is_held",),
    ),
    Mutant(
        name="topic-ids-not-after-the-accounting",
        law="fine print: identity brackets the accounting",
        guard="Topic ids, ends and leader epochs are compared once more after what is missing was explained.",
        module=_AUDITING,
        old="    failed |= {i: held_by(i, e) for i, e in seen.failed.items() if not isinstance(e, "
        "LogStartMovedError)}\n",
        new="",
        red=(
            "tests/unit/services/test_identity.py::test_topic_recreated_between_explanation_and_verdict_is_held",
            "tests/unit/services/test_losses_of_logs.py::test_log_cut_and_regrown_during_the_read_is_held",
        ),
    ),
    Mutant(
        name="publish-what-nobody-can-compare",
        law="L5",
        guard="A partition that cannot be observed after its read is not taken for unchanged.",
        module=_AUDITING,
        old="    if seen.unknown:\n",
        new="    if False:\n",
        red=("tests/unit/services/test_losses_of_logs.py::test_partition_unknown_after_the_read_proves_nothing",),
    ),
    Mutant(
        name="a-cut-in-the-middle-stops-nobody",
        law="fine print: leader epochs",
        guard="A log that was cut and has grown again is told by the end of the epoch that was recorded.",
        module=_EPOCHS,
        old="    return end if end < until else None\n",
        new="    return None\n",
        red=(
            "tests/unit/services/test_losses_of_logs.py::test_log_cut_and_regrown_before_the_job_is_held",
            "tests/unit/services/test_plan_refusals.py::test_shrunken_log_blocks_that_partition_only",
        ),
    ),
    Mutant(
        name="any-skip-accepts-a-loss",
        law="fine print: leader epochs",
        guard="A loss is accepted only by a skip that passes all of it.",
        module="airflow_kafka_lake.services.losses",
        old="    return seen.leader_epoch if cut is not None and stretch.start <= cut else None\n",
        new="    return seen.leader_epoch\n",
        red=("tests/unit/services/test_plan_refusals.py::test_shrunken_log_blocks_that_partition_only",),
    ),
    Mutant(
        name="move-a-group-back",
        law="L1",
        guard="A group that is ahead of a watermark is left where it is.",
        module="airflow_kafka_lake.core.mirroring",
        old="        case GroupOffsetState.KNOWN if (found.group_offset or 0) > watermark:\n",
        new="        case GroupOffsetState.KNOWN if False:\n",
        more=(
            (
                "        elif found.group_offset is None or found.group_offset < stream.watermark:\n",
                "        else:\n",
            ),
        ),
        red=("tests/unit/services/test_mirroring.py::test_group_that_is_ahead_is_never_moved_back",),
    ),
    Mutant(
        name="wait-for-commits-without-end",
        law="L5",
        guard="A group's pending commits are waited for within a bound, and then fail the plan by name.",
        module="airflow_kafka_lake.services.stability",
        old="                raise _named(ports, pending) from None\n",
        new="                raise pending from None\n",
        red=("tests/unit/services/test_stability.py::test_commit_that_stays_pending_fails_the_plan_by_name",),
    ),
    Mutant(
        name="every-restart-is-a-loss",
        law="fine print: leader epochs",
        guard="An epoch that ended where the log ended is no loss: brokers are restarted.",
        module=_EPOCHS,
        old="    return end if end < until else None\n",
        new="    return end\n",
        red=("tests/unit/services/test_losses_of_logs.py::test_rolling_restart_is_no_loss",),
    ),
    Mutant(
        name="one-partition-stops-its-wave",
        law="fine print: stream that stays unknown",
        guard="A partition that stays unknown goes to a wave of its own.",
        module=_STAGING,
        old="    if len(lost) + len(seen.unknown) < len(held.ranges):\n",
        new="    if not seen.unknown:\n",
        red=(
            "tests/unit/services/test_losses_of_logs.py::test_partition_that_stays_unknown_goes_on_in_a_wave_of_its_own",
        ),
    ),
    Mutant(
        name="any-table-of-the-name",
        law="L12",
        guard="The table's UUID is the recorded one.",
        module=_IDENTITY,
        old="    if recorded and recorded != head.uuid:\n",
        new="    if False:\n",
        red=("tests/unit/services/test_identity.py::test_recreated_table_is_refused",),
    ),
    Mutant(
        name="any-owner",
        law="L18",
        guard="A topic in a table belongs to one pipeline of one ledger.",
        module=_IDENTITY,
        old="        _check_owner(ledger_id, pipeline, table, head, topic_id)\n",
        new="        pass\n",
        red=("tests/unit/services/test_identity.py::test_another_ledger_of_the_same_pipeline_is_refused",),
    ),
    Mutant(
        name="published-by-receipts-alone",
        law="fine print: looking",
        guard="Where history has expired, an attempt without a row to show counts as not published.",
        module="airflow_kafka_lake.services.publishing",
        old="    return Absent(head=look.head)\n",
        new="    return Found(attempt=attempts[-1].attempt, snapshot=None, head=look.head)\n",
        red=("tests/unit/services/test_rebuilding.py::test_sleeper_of_the_old_life_without_rows_is_stopped",),
    ),
    Mutant(
        name="any-newest-token",
        law="L17",
        guard="The newest commit of ours in the lake is one that the ledger knows.",
        module=_IDENTITY,
        old="    if last and not ports.ledger.knows(last):\n",
        new="    if False:\n",
        red=("tests/unit/services/test_identity.py::test_ledger_that_lost_the_newest_token_is_refused",),
    ),
    Mutant(
        name="plan-for-any-table",
        law="L12, L17, L18",
        guard="A plan checks table, owner and newest commit before anything is recorded.",
        module=_PLANNING,
        old="        look_at_table(ports, spec.name, table, topic_ids)\n",
        new="        pass\n",
        red=("tests/unit/services/test_identity.py::test_dropped_table_is_refused_and_not_created_anew",),
    ),
    Mutant(
        name="any-rollback",
        law="L12",
        guard="What was settled last is in the table's history, as far as it can be known to reach back.",
        module=_IDENTITY,
        old="    check_settled(ports, pipeline, table, head)\n",
        new="",
        red=("tests/unit/services/test_identity.py::test_rolled_back_table_is_refused[True]",),
    ),
    Mutant(
        name="publish-what-is-unexplained",
        law="L8",
        guard="A range with an offset that nothing explains fails its audit.",
        module=_AUDITING,
        old="        if result.accounting.unexplained and item.id not in failed:\n",
        new="        if False:\n",
        red=("tests/unit/services/test_staging.py::test_range_that_fails_its_audit_is_held_and_the_rest_published",),
    ),
    Mutant(
        name="publish-rows-twice",
        law="L8",
        guard="A stream of which a row was staged twice fails its audit.",
        module=_AUDITING,
        old="        if content.duplicates:\n",
        new="        if False:\n",
        red=("tests/unit/services/test_staging.py::test_range_that_fails_its_audit_is_held_and_the_rest_published",),
    ),
    Mutant(
        name="publish-what-nobody-planned",
        law="L8",
        guard="A stream with staged rows outside the planned ranges fails its audit.",
        module=_AUDITING,
        old="        elif stray:\n",
        new="        elif False:\n",
        red=("tests/unit/services/test_staging.py::test_range_that_fails_its_audit_is_held_and_the_rest_published",),
    ),
)

SERVICES = (*PUBLISHING, *TAKING, *CLAIMING, *IDENTITY)
