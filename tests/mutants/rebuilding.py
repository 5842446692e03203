"""Guards of a rebuild: what moves main, what is believed, what is refused, what is never undone."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SERVICE = "airflow_kafka_lake.services.rebuilding"
_DECISION = "airflow_kafka_lake.core.rebuilding"
_COMPARISON = "airflow_kafka_lake.core.rebuilding.comparison"
_RESTORATION = "airflow_kafka_lake.core.rebuilding.restoration"
_EDITING = "airflow_kafka_lake.core.rebuilding.editing"
_MEMORY = "airflow_kafka_lake.adapters.memory_ledger.restoring"
_SQL = "airflow_kafka_lake.adapters.sql_ledger.reinstating"
_TESTS = "tests/unit/services/test_rebuilding.py"
_CONTRACT = "tests/contracts/test_ledger_reinstating.py"

ORDER = (
    Mutant(
        name="rebuild-without-a-fence-commit",
        law="L11",
        guard="A rebuild moves main, so that no publisher of the old life can succeed any more.",
        module=_SERVICE,
        old="        outcome = lake.fence(head, owner[0], token, mine)\n",
        new="        return head, mine\n",
        red=(f"{_TESTS}::test_publisher_of_the_old_life_is_stopped[lost-first]",),
    ),
    Mutant(
        name="rebuild-reads-first",
        law="L11",
        guard="A rebuild moves main first, and reads the table then.",
        module=_SERVICE,
        old="    head, mine = _move_main(ports, spec, table, token, seen)\n",
        new="    commits, holdings = lake.commits(), lake.holdings()\n"
        "    head, mine = _move_main(ports, spec, table, token, seen)\n",
        more=(("    commits, holdings = lake.commits(), lake.holdings(sorted(mine))\n", ""),),
        red=(f"{_TESTS}::test_topic_that_came_to_be_owned_meanwhile_is_read_too[lost]",),
    ),
    Mutant(
        name="rebuild-beside-the-living",
        law="L11",
        guard="A rebuild takes over every wave that somebody may be at work on, after his lease.",
        module=_SERVICE,
        old="                claims.append(claim_wave(ports, wave.id))\n",
        new="                pass\n",
        red=(f"{_TESTS}::test_rebuild_waits_for_a_living_worker",),
    ),
    Mutant(
        name="rebuild-stops-at-what-ended",
        law="L11",
        guard="A wave that has ended since it was listed needs no taking over.",
        module=_SERVICE,
        old="            with suppress(StateError):",
        new="            with suppress():",
        red=(f"{_TESTS}::test_wave_that_ends_while_a_rebuild_begins_does_not_stop_it",),
    ),
    Mutant(
        name="rebuild-blind-to-new-topics",
        law="L18",
        guard="Topics that came to be owned while a rebuild looked are read too.",
        module=_SERVICE,
        old="        mine = seen | _owned_unseen(ports, spec, head, seen)\n",
        new="        mine = seen\n",
        red=(f"{_TESTS}::test_topic_that_came_to_be_owned_meanwhile_is_read_too[lost]",),
    ),
    Mutant(
        name="rebuild-takes-others-topics",
        law="L18",
        guard="A rebuild takes no topic from a pipeline of another name.",
        module=_SERVICE,
        old="        _refuse_others_topics(table, token.pipeline, head, mine)\n",
        new="",
        red=(f"{_TESTS}::test_topic_of_another_pipeline_is_not_taken",),
    ),
    Mutant(
        name="rebuild-known-too-early",
        law="L17",
        guard="The rebuild's token becomes known with its last write, and only by it.",
        module=_RESTORATION,
        old="(*self.waves, own)",
        new="self.waves",
        red=(f"{_CONTRACT}::test_token_is_known_from_then_on[memory]",),
    ),
)

REFUSALS = (
    Mutant(
        name="rebuild-onto-a-rollback",
        law="L12",
        guard="A lake that was rolled back is refused, unless that is accepted.",
        module=_SERVICE,
        old="    if comparison.vanished and not accept_rollback:\n",
        new="    if False:\n",
        red=(f"{_TESTS}::test_rolled_back_lake_is_refused_and_read_again_when_accepted",),
    ),
    Mutant(
        name="rebuild-onto-another-table",
        law="L12",
        guard="A table that was re-created is refused, unless that is accepted.",
        module=_SERVICE,
        old="    if recorded not in (None, uuid) and not accept_rollback:\n",
        new="    if False:\n",
        red=(f"{_TESTS}::test_recreated_table_without_any_loss_is_refused_too",),
    ),
    Mutant(
        name="rebuild-without-its-table",
        law="L12",
        guard="A table that is gone is refused, unless that is accepted.",
        module=_SERVICE,
        old="        if not accept_rollback:\n            raise IdentityError(",
        new="        if False:\n            raise IdentityError(",
        red=(f"{_TESTS}::test_dropped_table_is_refused_and_created_when_accepted",),
    ),
    Mutant(
        name="rebuild-over-contradictions",
        law="L5",
        guard="Where the lake contradicts its receipts nothing is restored.",
        module=_SERVICE,
        old="    if comparison.contradictions:\n",
        new="    if False:\n",
        red=(f"{_TESTS}::test_rows_that_are_there_twice_are_refused",),
    ),
    Mutant(
        name="read-again-beside-the-rest",
        law="L12",
        guard="Only a range all of whose rows are gone is read again.",
        module=_COMPARISON,
        old="        gone = there == 0\n",
        new="        gone = True\n",
        red=(f"{_TESTS}::test_rows_that_are_gone_in_part_are_refused[True]",),
    ),
    Mutant(
        name="rows-of-nobody",
        law="L8",
        guard="Rows that no receipt speaks of are a contradiction.",
        module=_COMPARISON,
        old="            if stray:\n",
        new="            if False:\n",
        red=(f"{_TESTS}::test_rows_without_a_receipt_are_refused",),
    ),
    Mutant(
        name="settled-by-two",
        law="L2",
        guard="No offset is settled by two attempts.",
        module=_COMPARISON,
        old="        if a[0] == b[0] and a[1].overlaps(b[1])\n",
        new="        if False\n",
        red=(f"{_TESTS}::test_offsets_that_two_attempts_claim_are_refused[known]",),
    ),
)

BELIEF = (
    Mutant(
        name="believe-what-was-never-published",
        law="L17",
        guard="Receipts of an attempt that was never published count for nothing.",
        module=_COMPARISON,
        old="row.attempt in published and _range(row) not in self.accepted",
        new="_range(row) not in self.accepted",
        red=(f"{_TESTS}::test_rebuild_waits_for_a_living_worker",),
    ),
    Mutant(
        name="believe-what-was-reopened",
        law="L17",
        guard="What was accepted as vanished does not count as settled again.",
        module=_COMPARISON,
        old="            if key in self.accepted:\n                self.reopened += ids\n                continue\n",
        new="",
        more=((" and _range(row) not in self.accepted", ""),),
        red=(f"{_TESTS}::test_what_was_accepted_is_not_asked_again",),
    ),
    Mutant(
        name="tokens-are-enough",
        law="fine print: looking",
        guard="A rebuild leaves a receipt for every range that so far only a token or rows spoke for.",
        module=_COMPARISON,
        old="            if not lost and key not in witnessed:\n",
        new="            if False:\n",
        red=(f"{_TESTS}::test_publish_without_rows_that_was_never_settled_counts",),
    ),
    Mutant(
        name="origin-is-the-smallest-offset",
        law="L17",
        guard="A lost stream begins where the lake was told, not at the smallest offset that is there.",
        module=_DECISION,
        old='        if row.kind == "origin":\n            origins.setdefault',
        new='        if row.kind == "no kind":\n            origins.setdefault',
        red=(f"{_TESTS}::test_origin_is_restored_and_islands_below_it_stay_islands",),
    ),
    Mutant(
        name="origin-stays-untold",
        law="L17",
        guard="A rebuild tells the lake the origins that it was never told.",
        module=_DECISION,
        old="receipts=(*comparison.receipts, *untold),",
        new="receipts=comparison.receipts,",
        red=(f"{_TESTS}::test_origin_that_the_lake_does_not_know_is_told_by_a_rebuild",),
    ),
    Mutant(
        name="fences-of-the-old-life-again",
        law="L10",
        guard="A fence that the lake has seen is never given out again.",
        module=_DECISION,
        old="        fences=_fences(readings),\n",
        new="        fences={},\n",
        red=(f"{_TESTS}::test_fences_of_the_old_life_are_not_reused",),
    ),
    Mutant(
        name="settled-gives-way",
        law="L4",
        guard="What is settled gives way to nothing: a restoration that wants its place is refused.",
        module=_EDITING,
        old="        if item.state is RangeState.SETTLED:\n            raise _overtaken(what)\n",
        new="",
        red=(f"{_CONTRACT}::test_settled_range_in_the_way_refuses_a_restoration[memory]",),
    ),
    Mutant(
        name="skip-over-the-settled",
        law="L3",
        guard="A restored skip passes only what is unresolved.",
        module=_EDITING,
        old="wins = settled[item.stream] if item.state in RESOLVED else settled[item.stream] | skipped[item.stream]",
        new="wins = settled[item.stream] | skipped[item.stream]",
        red=(f"{_CONTRACT}::test_recorded_ranges_give_way[memory]",),
    ),
    Mutant(
        name="left-behind-in-a-committed-wave",
        law="L3",
        guard="A planned range whose wave went into the lake without it is planned anew, not forgotten in it.",
        module=_EDITING,
        old="    return item.state is RangeState.PLANNED and item.wave in {wave.wave for wave in what.waves}\n",
        new="    return False\n",
        red=(f"{_CONTRACT}::test_wave_that_is_in_the_lake_is_committed[memory]",),
    ),
)

RECORDS = (
    Mutant(
        name="memory-restore-over-decisions",
        law="L10",
        guard="In memory: a restoration made from older records of the streams is refused.",
        module=_MEMORY,
        old="versions != dict(what.versions) or ",
        new="",
        red=(f"{_CONTRACT}::test_decisions_of_others_refuse_a_restoration[memory-_planned_meanwhile]",),
    ),
    Mutant(
        name="memory-restore-over-claims",
        law="L10",
        guard="In memory: a restoration is refused while anybody but its own guards works on a wave.",
        module=_MEMORY,
        old="or strangers or",
        new="or",
        red=(
            f"{_CONTRACT}::test_decisions_of_others_refuse_a_restoration[memory-_claimed_meanwhile]",
            f"{_CONTRACT}::test_claim_that_was_taken_over_refuses_a_restoration[memory]",
        ),
    ),
    Mutant(
        name="memory-restore-an-older-fence",
        law="L10",
        guard="In memory: a rebuild never lowers a fence.",
        module=_MEMORY,
        old="fence=max(fence, row_.fence)",
        new="fence=fence",
        red=(f"{_CONTRACT}::test_fence_is_never_lowered[memory]",),
    ),
    Mutant(
        name="memory-restore-raises-watermarks",
        law="L1",
        guard="In memory: a rebuild lets watermarks fall, and only `advance` raises them.",
        module=_MEMORY,
        old="watermark=min(row.watermark, reached)",
        new="watermark=reached",
        red=(f"{_CONTRACT}::test_fresh_ledger_is_filled[memory]",),
    ),
    Mutant(
        name="sql-restore-over-decisions",
        law="L10",
        guard="In SQL: a restoration made from older records of the streams is refused.",
        module=_SQL,
        old="versions != dict(what.versions) or ",
        new="",
        red=(f"{_CONTRACT}::test_decisions_of_others_refuse_a_restoration[sqlite-_planned_meanwhile]",),
    ),
    Mutant(
        name="sql-restore-over-claims",
        law="L10",
        guard="In SQL: a restoration is refused while anybody but its own guards works on a wave.",
        module=_SQL,
        old=" or open_ - held:",
        new=":",
        red=(
            f"{_CONTRACT}::test_decisions_of_others_refuse_a_restoration[sqlite-_claimed_meanwhile]",
            f"{_CONTRACT}::test_claim_that_was_taken_over_refuses_a_restoration[sqlite]",
        ),
    ),
    Mutant(
        name="sql-restore-an-older-fence",
        law="L10",
        guard="In SQL: a rebuild never lowers a fence.",
        module=_SQL,
        old=", wave.c.fence < seen.c.fence)",
        new=")",
        red=(f"{_CONTRACT}::test_fence_is_never_lowered[sqlite]",),
    ),
    Mutant(
        name="sql-restore-raises-watermarks",
        law="L1",
        guard="In SQL: a rebuild lets watermarks fall, and only `advance` raises them.",
        module=_SQL,
        old='"watermark": min(ids[key].watermark, end)',
        new='"watermark": end',
        red=(f"{_CONTRACT}::test_fresh_ledger_is_filled[sqlite]",),
    ),
)

REBUILDING = (*ORDER, *REFUSALS, *BELIEF, *RECORDS)
