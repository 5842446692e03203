"""What is shown in place of a page."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_kafka_lake.features.pages.beginning import FIRST_PLAN
from airflow_kafka_lake.features.pages.site import NEVER, draw
from airflow_kafka_lake.features.pages.web.visitor import Visitor

_TITLES = {
    401: "You are not logged in",
    403: "You may not see this",
    404: "Not found",
    503: "Something does not answer",
}
_LINES = {
    404: ("What you may not see is as unknown as what is not there: ask for the right to read the pipeline's Dag.",),
    503: ("Nothing was changed, and nothing that has landed is in doubt: this page only looks. Runs do not need it.",),
}
_NO_LEDGER = (
    FIRST_PLAN,
    "If there was a ledger already, its connection names another place now. Nothing was changed: this page only looks.",
)


def refusal_page(base: str, status: int, message: str, *, no_ledger: bool = False) -> str:
    """Draw a refusal: what happened, what it means, what to do."""
    visitor = Visitor(base=base, name="", csrf="", ledger="kafka_lake_ledger")
    title = "There is no ledger yet" if no_ledger else _TITLES.get(status, "That did not work")
    lines: Sequence[str] = _NO_LEDGER if no_ledger else _LINES.get(status, ())
    kind = "calm" if no_ledger else "bad"
    return draw("refusal.html", visitor, poll=NEVER, title=title, message=message, lines=lines, kind=kind)
