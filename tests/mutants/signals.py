"""Guards of what tasks show: links, metrics and lineage."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LAW = "signals"
_ADDRESSES = "airflow_kafka_lake.core.addresses"
_LINKS = "tests/airflow/test_links.py::"
_METRICS = "tests/airflow/test_metrics.py::"

SIGNALS = (
    Mutant(
        name="fail-over-what-is-shown",
        law=_LAW,
        guard="Whatever goes wrong with a link, a metric or lineage is logged by its kind, and the task goes on.",
        module="airflow_kafka_lake.links.task_links",
        function="never_failing",
        old="_logger.info(...)",
        new="raise",
        red=(
            f"{_LINKS}test_link_that_cannot_be_shown_fails_nothing",
            f"{_METRICS}test_collector_that_is_broken_fails_no_task",
            "tests/airflow/test_lineage.py::test_lineage_that_cannot_be_had_fails_nothing",
        ),
    ),
    Mutant(
        name="show-a-login",
        law=_LAW,
        guard="No link has a login in it.",
        module=_ADDRESSES,
        function="web_address",
        old='"@" not in parts.netloc',
        new="True",
        red=("tests/unit/core/test_addresses.py::test_nothing_else_is_an_address",),
    ),
    Mutant(
        name="show-another-scheme",
        law=_LAW,
        guard="A link is of http or https: no script, no file.",
        module=_ADDRESSES,
        function="web_address",
        old='parts.scheme in {"http", "https"}',
        new="parts.scheme",
        red=("tests/unit/core/test_addresses.py::test_nothing_else_is_an_address",),
    ),
    Mutant(
        name="show-a-token",
        law=_LAW,
        guard="A template of links has no parameter that is named like a secret.",
        module=_ADDRESSES,
        function="template_problem",
        old="_SECRET.search(name)",
        new="False",
        red=("tests/unit/core/test_addresses.py::test_template_is_refused_for_what_is_wrong_with_it",),
    ),
    Mutant(
        name="count-a-wave-twice",
        law=_LAW,
        guard="A wave counts for the task that recorded its commit, and for no other.",
        module="airflow_kafka_lake.signals.wave",
        function="WaveSignals.landed",
        old="self._ledger.has_committed",
        new="True",
        red=("tests/airflow/test_metrics.py::test_wave_that_another_has_landed_is_not_counted_again",),
    ),
)
