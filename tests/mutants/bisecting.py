"""Guards of the search for what cannot be read: no record is blamed, and no range is cut, without need."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BISECTING = "airflow_kafka_lake.core.lake.halving"
_SERVICE = "tests/unit/services/test_bisection.py"

BISECTING = (
    Mutant(
        name="blame-a-record-for-the-cluster",
        law="L13",
        guard="No record is held as unreadable by trials of which none was read well.",
        module=_BISECTING,
        function="search",
        old="all((fails(edge) for edge in _edges(ranges)))",
        new="False",
        red=(f"{_SERVICE}::test_failure_that_is_not_of_the_records_holds_nothing",),
    ),
    Mutant(
        name="search-whatever-failed",
        law="L13",
        guard="A failure that the world around the job explains begins no search in its records.",
        module=_BISECTING,
        function="is_unknown",
        old="_reason(error) in _UNKNOWN_REASONS",
        new="True",
        red=(f"{_SERVICE}::test_failure_that_the_world_explains_begins_no_search",),
    ),
    Mutant(
        name="count-gaps-as-records",
        law="L4",
        guard="Where a careful job's slice ends is told by its records, not by its offsets.",
        module="airflow_kafka_lake.services.polling",
        function="_last_records",
        old="item.fate not in EXPLAINED",
        new="True",
        red=(f"{_SERVICE}::test_records_before_one_that_no_job_can_hold_are_not_blamed",),
    ),
    Mutant(
        name="cut-what-is-not-in-the-range",
        law="L2",
        guard="A part that is not inside its range, or overlaps another, cuts nothing.",
        module="airflow_kafka_lake.core.ledger.revoking",
        function="_cut",
        old="by_part.keys() - set(cuts) or len(by_part) != len(verdicts)",
        new="False",
        red=("tests/contracts/test_ledger_decisions.py::test_parts_that_do_not_fit_their_range_take_nothing",),
    ),
)
