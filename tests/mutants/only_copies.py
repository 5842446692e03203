"""Mutants of what keeps staged records that exist nowhere else."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TESTS = "tests/unit/services/test_only_copies.py::"
_REAL = "tests/contracts/test_resuming_on_real_tables.py::"
_SERVICES = "airflow_kafka_lake.services"
_ONLY = f"{_TESTS}test_branch_that_is_the_only_copy_of_records_is_not_dropped"

ONLY_COPIES: tuple[Mutant, ...] = (
    Mutant(
        name="take-the-only-copy",
        law="fine print: only copy",
        guard="What takes ranges away is refused where it would drop the only copy of records.",
        module=f"{_SERVICES}.fencing",
        function="_ended",
        old="refuse_to_lose(...)",
        new="pass",
        red=(
            f"{_ONLY}[cancel]",
            f"{_ONLY}[skip]",
            f"{_REAL}test_branch_of_a_table_that_is_the_only_copy_of_records_stays",
        ),
    ),
    Mutant(
        name="rebuild-over-the-only-copy",
        law="fine print: only copy",
        guard="A rebuild is refused where it would drop the only copy of records.",
        module=f"{_SERVICES}.rebuilding",
        function="_refuse_to_lose",
        old="refuse_to_lose_waves(ports, spec.name, by_table)",
        new="pass",
        red=(f"{_ONLY}[rebuild]",),
    ),
    Mutant(
        name="rebuild-over-an-unknown-only-copy",
        law="fine print: only copy",
        guard="A rebuild looks at the rows of branches that the ledger does not know.",
        module=f"{_SERVICES}.rebuilding",
        function="_refuse_to_lose",
        old="refuse_to_lose_unknown(...)",
        new="pass",
        red=(
            f"{_TESTS}test_rebuild_of_a_lost_ledger_does_not_drop_the_only_copy[True]",
            f"{_REAL}test_branch_of_a_table_that_is_the_only_copy_of_records_stays",
        ),
    ),
    Mutant(
        name="stage-anew-over-the-only-copy",
        law="fine print: only copy",
        guard="What would be staged in another way is not staged anew where its branch is the only copy.",
        module=f"{_SERVICES}.staging",
        function="_stage_anew",
        old="refuse_to_lose(...)",
        new="pass",
        red=(f"{_TESTS}test_repeat_that_would_decode_otherwise_does_not_drop_the_only_copy",),
    ),
    Mutant(
        name="drop-an-unusable-only-copy",
        law="fine print: only copy",
        guard="A branch that cannot be published as it is stays where it is the only copy.",
        module=f"{_SERVICES}.staging",
        function="_resume",
        old="refuse_to_lose(...)",
        new="pass",
        red=(f"{_TESTS}test_damaged_branch_is_not_dropped_where_kafka_has_its_records_no_more",),
    ),
    Mutant(
        name="drop-a-rejected-only-copy",
        law="fine print: only copy",
        guard="A branch that the table rejects stays where it is the only copy.",
        module=f"{_SERVICES}.publishing",
        function="_refuse_to_lose",
        old="refuse_to_lose(...)",
        new="pass",
        red=(f"{_TESTS}test_branch_that_the_table_rejects_is_not_dropped_where_it_is_the_only_copy[True]",),
    ),
    Mutant(
        name="reopen-over-the-only-copy",
        law="fine print: only copy",
        guard="A reopen is refused where what must wait for it is the only copy of records.",
        module=f"{_SERVICES}.reopening",
        function="prepare",
        old="refuse_to_lose_waves(...)",
        new="pass",
        red=(f"{_TESTS}test_reopen_of_a_parent_does_not_drop_the_only_copy_of_its_child",),
    ),
    Mutant(
        name="unknown-is-no-only-copy",
        law="L5",
        guard="Where Kafka does not say whether it has records still, no branch is dropped.",
        module=f"{_SERVICES}.only_copies",
        function="gone_from_kafka",
        old="if seen.unknown:\n    ...",
        new="",
        red=(f"{_TESTS}test_only_copy_is_not_judged_while_kafka_does_not_answer[cancel]",),
    ),
)
