"""Steps that belong together: what is rare when every step is drawn alone, and what each guard is there for."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from tests.properties.happenings import ANSWERS, STEPS, WORK
from tests.properties.histories import Step

Episode = tuple[Step, ...]

OTHERS = (Step("run"), Step("ingest"), Step("settle"))
GO_ON = Step("go on", -1)
"""The newest worker: the one that the episode is about."""

EPISODES: tuple[Episode, ...] = (
    # A worker stops somewhere in its work; a person decides, or others take over; it goes on.
    *(
        (Step("ingest", stop=call, late=late), other, GO_ON)
        for call, late in itertools.product(WORK, (False, True))
        for other in (*OTHERS, Step("skip"), Step("cancel"), Step("cancel", 0, 1))
    ),
    # A person stops just before the decision is written; others claim what it is about.
    *(
        (Step(what, stop=f"ledger.{last}", late=True), Step("ingest", stop=call), GO_ON, GO_ON)
        for what, last in (("skip", "skip"), ("cancel", "take"))
        for call in WORK
    ),
    # An answer is lost; whoever waits for it goes on, dies, or is overtaken.
    *(
        (Step("answer", answer), Step("ingest", stop=call, late=True), *then)
        for answer in range(len(ANSWERS))
        for call in ("", "table.look", "ledger.settle")
        for then in itertools.product((Step("kill", -1), Step("settle"), Step("run"), Step("cancel", 0, 1)), OTHERS)
    ),
    # A commit that landed is not settled, and its token expires before others look.
    *(
        (Step("ingest", stop="ledger.settle", late=True), Step("foreign"), Step("expire"), other, GO_ON)
        for _ in range(3)
        for other in (*OTHERS, Step("skip"), Step("cancel"))
    ),
    # The topic becomes another one under a worker.
    *(
        (Step("produce", 0, 3), Step("run", stop=call), Step("recreate topic"), GO_ON)
        for _ in range(5)
        for call in ("runner.stage", "table.staged", "source.topics", "source.describe", "table.publish")
    ),
    # The ledger is an older one than the lake.
    *[(Step("produce", 0, 3), Step("backup"), Step("run"), Step("old ledger"))] * 5,
    # The topic grows under a plan.
    (Step("add partition"), Step("run", stop="ledger.record_plan"), Step("add partition"), GO_ON),
)

LEAST = 17
"""So many episodes of at least three steps are at least fifty steps."""

_step = st.sampled_from(STEPS)
_episode = st.one_of(st.tuples(_step, _step, _step), st.sampled_from(EPISODES))


def histories() -> st.SearchStrategy[list[Step]]:
    """Draw the steps of a history: single ones and episodes, at least fifty steps."""
    return st.lists(_episode, min_size=LEAST, max_size=LEAST + 3).map(lambda drawn: list(itertools.chain(*drawn)))
