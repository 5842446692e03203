"""Guards of the order over layouts: what waits for what, and where a segment ends."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SEGMENTS = "airflow_kafka_lake.core.ordering.segments"
_LAYOUTS = "airflow_kafka_lake.core.ordering.layouts"
_SEALING = "airflow_kafka_lake.core.ordering.seals"
_PACKING = "airflow_kafka_lake.core.planning.packing"
_STAGING = "airflow_kafka_lake.services.staging"
_SERVICE = "airflow_kafka_lake.services.segment_declarations"
_UNIT = "tests/unit/services/test_order.py::"
_CONTRACT = "tests/contracts/test_ledger_segments.py::"

GATE = (
    Mutant(
        name="start-before-the-gate",
        law="L14",
        guard="A wave is not even claimed while an ancestor of its segments is not drained.",
        module=_STAGING,
        function="ingest",
        old="_pass_gate(ports, wave, record.pipeline)",
        new="pass",
        red=(f"{_UNIT}test_child_waits_until_its_parents_are_drained",),
    ),
    Mutant(
        name="run-again-though-only-a-person-can",
        law="L14",
        guard="A plan that waits for a person's word on the order says so: another run would wait too.",
        module="airflow_kafka_lake.services.running",
        function="finish_plan",
        old="_refuse_closed_for_good(ports, first, ...)",
        new="",
        red=(f"{_UNIT}test_skipped_parent_frees_its_child_only_with_the_order_acknowledged",),
    ),
    Mutant(
        name="publish-before-the-gate",
        law="fine print: drained, gate, edges",
        guard="PUBLISHING is recorded only while the gate is open.",
        module="airflow_kafka_lake.core.ledger.attempts",
        function="MarkPublishing.decide",
        old="if records.gate:\n    raise gate_closed(wave.id, wave.pipeline, records.gate)",
        new="",
        red=(f"{_CONTRACT}test_publishing_is_not_recorded_while_the_gate_is_closed[sqlite]",),
    ),
    Mutant(
        name="parents-without-their-parents",
        law="L14",
        guard="Every ancestor must be drained, not only the parents.",
        module=_SEGMENTS,
        function="Graph.ancestors",
        old="left += self._by_key[parent].parents",
        new="",
        red=(f"{_CONTRACT}test_gate_reaches_through_drained_parents[memory]",),
    ),
    Mutant(
        name="drained-by-any-skip",
        law="L14",
        guard="A skip counts for the order only when a person acknowledged it.",
        module=_SEGMENTS,
        function="is_drained",
        old="segment.sealed and (not missing) and (not unacknowledged)",
        new="segment.sealed and (not missing)",
        red=(f"{_UNIT}test_skipped_parent_frees_its_child_only_with_the_order_acknowledged",),
    ),
    Mutant(
        name="drained-without-a-seal",
        law="L14",
        guard="A segment whose end is not known is not drained.",
        module=_SEGMENTS,
        function="is_drained",
        old="segment.sealed and (not missing) and (not unacknowledged)",
        new="not missing and (not unacknowledged)",
        red=(f"{_CONTRACT}test_gate_waits_for_a_parent_without_a_seal[memory]",),
    ),
    Mutant(
        name="one-wave-for-all-levels",
        law="L14",
        guard="A wave never holds a segment and one that waits for it.",
        module=_PACKING,
        function="pack",
        old="levels.at(snapshot.stream, piece.start)",
        new="0",
        red=(f"{_UNIT}test_levels_never_share_a_wave",),
    ),
)

SEALS = (
    Mutant(
        name="seal-at-first-sight",
        law="L14",
        guard="An expansion counts only when it has stood for the recover time.",
        module=_LAYOUTS,
        function="_expand",
        old="topic.at >= until and topic.is_whole",
        new="topic.is_whole",
        red=(f"{_UNIT}test_new_partition_waits_until_the_expansion_has_committed",),
    ),
    Mutant(
        name="forget-a-layout-that-was-outgrown",
        law="L14",
        guard="A segment holds records of every layout that was seen while it was open.",
        module=_LAYOUTS,
        function="written_under",
        old="{segment.layout} | seen",
        new="{segment.layout}",
        red=(f"{_UNIT}test_old_partition_holds_what_was_written_under_every_layout_that_was_seen",),
    ),
    Mutant(
        name="forget-partitions-of-an-outgrown-layout",
        law="L14",
        guard="Partitions that came with a layout which was outgrown before it committed are continued too.",
        module=_LAYOUTS,
        function="_relayed",
        old="(current, *(n for n in _pending(topic, known) if current < n < topic.partitions))",
        new="(current,)",
        red=(f"{_UNIT}test_layout_that_was_outgrown_before_it_committed_is_continued",),
    ),
    Mutant(
        name="seal-without-a-second-look",
        law="L14",
        guard="A declared seal counts only when the log still ends there a recover time later.",
        module=_SEALING,
        function="_check_seal",
        old="topic.at >= until and seen.last_stable >= segment.seal",
        new="seen.last_stable >= segment.seal",
        red=(f"{_UNIT}test_migration_waits_for_its_second_look_and_then_for_the_parents",),
    ),
    Mutant(
        name="seal-anywhere",
        law="L14",
        guard="A seal is declared where the log ends, with no open transaction.",
        module=_SEALING,
        function="declared",
        old="not seen.last_stable == seen.high_watermark == at",
        new="at < 0",
        red=(f"{_UNIT}test_seal_that_is_not_the_end_of_the_log_is_refused",),
    ),
    Mutant(
        name="seal-moved",
        law="L14",
        guard="A seal is never moved.",
        module="airflow_kafka_lake.core.ledger.plans",
        function="_apply_layout_change",
        old="known.seal not in (None, segment.seal)",
        new="False",
        red=(f"{_CONTRACT}test_seal_is_never_moved[memory]",),
    ),
    Mutant(
        name="overrun-unnoticed",
        law="L14",
        guard="A log that runs past its declared seal is named.",
        module=_SEALING,
        function="_check_seal",
        old="RangeSet.between(segment.seal, seen.high_watermark) - record.planned",
        new="RangeSet()",
        red=(f"{_UNIT}test_log_that_runs_past_its_seal_is_named_until_a_person_decides",),
    ),
    Mutant(
        name="circle-of-segments",
        law="fine print: drained, gate, edges",
        guard="An edge that closes a circle is refused.",
        module=_SEGMENTS,
        function="Graph.with_segments",
        old="graph.refuse_cycles()",
        new="",
        red=(f"{_UNIT}test_migration_in_a_circle_is_refused",),
    ),
    Mutant(
        name="wave-that-waits-for-itself",
        law="fine print: drained, gate, edges",
        guard="An edge that is declared after planning splits the waves that would wait for themselves.",
        module=_SERVICE,
        function="_record",
        old="_split(ports, spec.name, graph, graph.levels(facts.seen.known))",
        new="",
        red=(f"{_UNIT}test_migration_splits_waves_that_would_wait_for_themselves",),
    ),
)
