"""Steps that belong together: what is rare when every step is drawn alone, and what each guard is there for."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from tests.properties.environment import Step
from tests.properties.steps import ANSWERS, REBUILDING, REOPENING, STEPS, WORK

Episode = tuple[Step, ...]

OTHERS = (Step("run"), Step("ingest"), Step("recover"))
GO_ON = Step("go on", -1)
"""The newest worker: the one that the episode is about."""


def _two_runs(*, late: bool) -> Episode:
    return (Step("produce", 0, 3), Step("run"), Step("produce", 0, 3), Step("run", stop="job.read", late=late))


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
        for what, last in (("skip", "skip"), ("cancel", "revoke"))
        for call in WORK
    ),
    # Tasks ask for a wave; its worker stops somewhere; a task ends, is cleared and asks again, or another worker comes.
    *(
        (Step("ask"), Step("serve", stop=call, late=late), *then, Step("serve"), GO_ON)
        for call, late in itertools.product(WORK, (False, True))
        for then in ((), (Step("end request"),), (Step("ask", 0, 1), Step("end request")), (Step("kill", -1, 1),))
    ),
    # An answer is lost; the worker that waits for it goes on, dies, or is overtaken.
    *(
        (Step("answer", answer), Step("ingest", stop=call, late=True), *then)
        for answer in range(len(ANSWERS))
        for call in ("", "table.find_commit", "ledger.record_commit")
        for then in itertools.product((Step("kill", -1), Step("recover"), Step("run"), Step("cancel", 0, 1)), OTHERS)
    ),
    # The lake is out of reach after the audit; the next worker goes on with what is staged, and is overtaken.
    *(
        (
            *(Step("produce", 0, 3), Step("run", stop="ledger.mark_staged")),
            *(Step("lake down", 1), GO_ON, Step("lake down", 0)),
            *(Step("ingest", stop=call, late=True), other, GO_ON),
        )
        for call in ("", "table.publish", "ledger.record_commit")
        for other in (*OTHERS, Step("cancel"))
    ),
    # A commit that landed is not committed, and its token expires before others look.
    *(
        (Step("ingest", stop="ledger.record_commit", late=True), Step("foreign"), Step("expire"), other, GO_ON)
        for _ in range(3)
        for other in (*OTHERS, Step("skip"), Step("cancel"))
    ),
    # Snapshots expire while a job has its branch, which keeps an earlier head of main: nobody has moved main back.
    *(
        (*_two_runs(late=late), Step("foreign"), Step("foreign"), Step("expire"), other, GO_ON)
        for late in (False, True)
        for other in (Step("run"), Step("advance"), Step("recover"))
    ),
    # The topic becomes another one under a worker.
    *(
        (Step("produce", 0, 3), Step("run", stop=call), Step("recreate topic"), GO_ON)
        for _ in range(5)
        for call in ("runner.stage", "table.staged", "source.topics", "source.describe", "table.publish")
    ),
    # The ledger is an older one than the lake.
    *[(Step("produce", 0, 3), Step("backup"), Step("run"), Step("old ledger"))] * 5,
    # Something is read again: while a worker publishes, with a death or a lost answer on the way, twice.
    *(
        (Step("run"), Step("produce", 0, 3), Step("ingest", stop=call, late=late), Step("reopen"), GO_ON, Step("run"))
        for call, late in itertools.product(("", "ledger.mark_publishing", "table.publish"), (False, True))
    ),
    *(
        (Step("run"), Step("reopen", stop=call), then, Step("reopen", 1), Step("run", stop=work, late=True), *more)
        for call in ("", *REOPENING)
        for then in (GO_ON, Step("kill", -1))
        for work in ("", "table.publish", "ledger.record_commit")
        for more in ((Step("run"), GO_ON), (Step("foreign"), Step("expire"), Step("run")))
    ),
    *(
        (
            Step("run"),
            Step("reopen"),
            Step("answer", answer),
            Step("run", stop="table.find_commit", late=True),
            Step("run"),
            GO_ON,
        )
        for answer in range(len(ANSWERS))
    ),
    # Waves without a row, one after the other, and then a backlog.
    (*[Step("transaction", 0, 0), Step("run")] * 10, Step("produce", 0, 40), Step("run")),
    # A range of a wave is put on hold, and the topic grows: what else is in the wave goes on when its turn comes.
    *(
        (
            Step("produce", 0, 3),
            Step("produce", 1, 3),
            *apply_layout_change,
            Step("run", stop="ledger.claim"),
            Step("kill", -1),
            held,
        )
        for apply_layout_change in (
            (),
            (Step("add partition"), Step("run"), Step("time passes", 600), Step("produce", 2, 3)),
        )
        for held in (Step("cancel"), Step("cancel", 1), Step("cancel", 2))
    ),
    # The topic grows under a plan.
    (Step("add partition"), Step("run", stop="ledger.record_plan"), Step("add partition"), GO_ON),
)

LOSSES = ((Step("set ledger back"),), (Step("lose ledger"), Step("time passes", 180)))
REBUILDS: tuple[Episode, ...] = (
    # The ledger is lost or set back under a worker, and rebuilt before it goes on, or at the same time.
    *(
        (
            Step("backup"),
            Step("ingest", stop=call),
            *loss,
            Step("rebuild", stop=held),
            GO_ON,
            Step("run"),
            Step("go on"),
        )
        for call in ("table.find_commit", "ledger.mark_staged", "table.publish", "ledger.record_commit", "ledger.sent")
        for loss in LOSSES
        for held in ("", *REBUILDING)
    ),
    # The ledger is lost or set back; what is there is run, decided and rebuilt in any order.
    *(
        (Step("backup"), Step("run"), *loss, *then, GO_ON)
        for loss in LOSSES
        for then in itertools.permutations((Step("run"), Step("skip", 0, 1), Step("rebuild", stop="ledger.restore")))
    ),
    # A worker commits what the older ledger knows of, after others have published what it does not know.
    *(
        (
            Step("produce", 0, 3),
            *begun,
            Step("backup"),
            Step("produce", 1, 3),
            Step("run"),
            GO_ON,
            Step("set ledger back"),
            Step("run"),
        )
        for begun in (
            (Step("run", stop="table.publish"),),
            (Step("run", stop="runner.stage", late=True), Step("cancel", 0, 1, stop="table.fence")),
            (Step("run"), Step("reopen", stop="table.fence")),
        )
    ),
    # Two rebuilds at the same time, and an answer that is lost.
    *(
        (*loss, Step("rebuild", stop=call), Step("answer", answer), Step("rebuild"), Step("run"), GO_ON, GO_ON)
        for loss in LOSSES
        for call in REBUILDING
        for answer in range(len(ANSWERS))
    ),
)
"""What ends the life of a ledger: three of four histories have none of it."""

REMEMBERED: tuple[Episode, ...] = (
    # Waves without rows, of which only a receipt or a token is left; an island far above the origin.
    *(
        (Step("run"), Step("transaction", 0, 0), *seen, *loss, Step("rebuild"), Step("run"))
        for loss in LOSSES[1:]
        for seen in (
            (Step("run"), Step("foreign"), Step("expire")),
            (Step("run", stop="ledger.record_commit"), Step("kill", -1)),
        )
        for _ in range(3)
    ),
    *(
        (
            Step("recreate topic"),
            Step("produce", 0, 9),
            Step("plan period", 0, 4),
            *ingested,
            *LOSSES[1],
            Step("rebuild"),
        )
        for ingested in ((Step("ingest"), Step("ingest", 1)), (Step("ingest", -1),))
        for _ in range(3)
    ),
    # A wave that the older ledger believes whole went into the lake in part.
    *(
        (Step("produce", 0, 9), Step("run", stop="ledger.claim"), Step("kill", -1), Step("backup"), *later)
        for later in [(Step("cancel"), Step("ingest"), *LOSSES[0], Step("rebuild"), Step("run"))] * 4
    ),
    # What was reopened, and read again or not, when the ledger is lost or set back.
    *(
        (Step("run"), *before, Step("reopen"), *after, *loss, Step("rebuild"), Step("run"))
        for loss in LOSSES
        for before in ((), (Step("backup"),))
        for after in ((), (Step("run"),), (Step("run", stop="ledger.record_commit"), Step("kill", -1)), (Step("skip"),))
    ),
    # The topic is made anew, and planned, between a rebuild's first look and its commit.
    *(
        (*loss, Step("rebuild", stop="table.fence"), Step("recreate topic"), Step("run"), GO_ON, Step("rebuild"))
        for loss in ((), *LOSSES)
        for _ in range(3)
    ),
)
"""What only the lake remembers, and only in one place."""

ROLL_BACKS: tuple[Episode, ...] = (
    # A person decides about what a worker publishes, and another engine moves main back over the fence commit.
    *(
        (Step("ingest", stop=call, late=late), decision, Step("roll back", 1), GO_ON, Step("run"))
        for call in ("table.find_commit", "ledger.mark_publishing", "table.publish")
        for late in (False, True)
        for decision in (Step("cancel"), Step("cancel", 0, 1), Step("skip"), Step("recover"))
    ),
    # Waves are on their way past every look at what is committed, when main is moved back below the last commit.
    *(
        (Step("produce", 0, 9), Step("run", stop=call), Step("run"), Step("roll back", count), GO_ON, Step("run"))
        for call in ("table.find_commit", "ledger.mark_publishing", "table.publish", "ledger.record_commit")
        for count in (1, 2, 3)
    ),
    # An answer is lost, and main is moved back over what may have landed.
    *(
        (Step("answer", answer), Step("ingest", stop=call, late=True), Step("roll back", 1), GO_ON, Step("run"))
        for answer in range(len(ANSWERS))
        for call in ("", "table.find_commit")
    ),
    # Old rows are deleted beside a worker, before others look for what it has published.
    *(
        (Step("run"), Step("ingest", stop=call, late=True), Step("delete rows", partition, count), *later, GO_ON)
        for call in ("table.find_commit", "table.publish", "ledger.record_commit")
        for partition, count in ((0, 0), (0, 5), (1, 5))
        for later in ((Step("run"),), (Step("foreign"), Step("expire"), Step("recover")))
    ),
    # The clock is set back behind what is left of the history, and main is moved back below what is published then.
    *(
        (*before, Step("expire"), *later, Step("time passes", -90), *then, Step("run"), *[Step("roll back", 1)] * count)
        for count in (1, 2)
        for before, later, then in (
            ((Step("run"),), (Step("reopen", 2),), ()),
            ((Step("run"), Step("foreign")), (), (Step("recreate topic"),)),
            (
                (Step("ingest", stop="ledger.record_commit", late=True), Step("foreign")),
                (),
                (Step("recreate topic"), GO_ON),
            ),
        )
    ),
)
"""What other engines do to the table: one of four histories has it."""

LEAST = 17
"""So many episodes of at least three steps are at least fifty steps."""

_LIVES = frozenset({"set ledger back", "lose ledger", "rebuild"})
_ROLLED_BACK = tuple(step for step in STEPS if step.what not in _LIVES)
_LIVED = tuple(step for step in STEPS if step.what != "roll back")
_ONE_LIFE = tuple(step for step in _LIVED if step.what not in _LIVES)


Kind = tuple[Sequence[Step], Sequence[Sequence[Episode]]]
KINDS: Mapping[int, Kind] = {
    1: (_ONE_LIFE, (EPISODES,)),
    2: (_ONE_LIFE, (EPISODES,)),
    3: (_ROLLED_BACK, (EPISODES, ROLL_BACKS, ROLL_BACKS)),
    4: (_LIVED, (EPISODES, EPISODES, REBUILDS, REMEMBERED)),
}
"""Of what a history is made: single steps, three at once, and episodes."""


def _drawn(steps: Sequence[Step], kinds: Sequence[Sequence[Episode]]) -> st.SearchStrategy[list[Episode]]:
    step = st.sampled_from(steps)
    episode = st.one_of(st.tuples(step, step, step), *(st.sampled_from(kind) for kind in kinds))
    return st.lists(episode, min_size=LEAST, max_size=LEAST + 3)


def histories() -> st.SearchStrategy[list[Step]]:
    """Draw the steps of a history: single ones and episodes, at least fifty steps."""
    drawn = st.integers(1, 4).flatmap({number: _drawn(*kind) for number, kind in KINDS.items()}.__getitem__)
    return drawn.map(lambda episodes: list(itertools.chain(*episodes)))


def dealt(seed: int) -> list[Episode]:
    """Deal the episodes of one history: the same as are drawn, where a history costs seconds and none is shrunk."""
    dice = random.Random(seed)
    steps, kinds = KINDS[dice.randint(1, 4)]

    def episode() -> Episode:
        kind = dice.choice([None, *kinds])
        return tuple(dice.choice(steps) for _ in range(3)) if kind is None else dice.choice(kind)

    return [episode() for _ in range(dice.randint(LEAST, LEAST + 3))]
