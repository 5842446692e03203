"""Every kind of finding, made by breaking one thing in a world where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.core.audit.check import Finding, FindingKind
from airflow_kafka_lake.core.errors import DamagedTableError, StaleFenceError, UnavailableError
from airflow_kafka_lake.core.ledger.attempts import ClaimWave, RecordBase
from airflow_kafka_lake.core.ledger.guards import LEASE
from airflow_kafka_lake.core.ledger.waves import AttemptKey, AttemptOutcome, RangeState, Token, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream
from airflow_kafka_lake.services import decisions, pipeline_audit
from airflow_kafka_lake.services.cutover import CutoverCheck
from airflow_kafka_lake.services.deep_audit import DeepCheck
from tests.evidence import Notes, evidence_of
from tests.gates import Killed, KilledError
from tests.kit.history_check import check
from tests.kit.memory_lake import Row
from tests.kit.producers_truth import Evidence, TruthKind
from tests.world import World

pytestmark = pytest.mark.unit

ABORTED = 7


@dataclass
class Scene:
    """A world, what its workers wrote down, and the one stream of its topic."""

    world: World
    notes: Notes

    @property
    def stream(self) -> Stream:
        return self.world.key()

    def inputs(self, *, at_rest: bool = True) -> Evidence:
        return evidence_of(self.world, at_rest=at_rest, aborted=[(self.stream, ABORTED)])

    def findings(self, *, at_rest: bool = True) -> tuple[Finding, ...]:
        return check(self.inputs(at_rest=at_rest), self.notes.operations)

    def kinds(self, *, at_rest: bool = True) -> set[FindingKind]:
        return {item.kind for item in self.findings(at_rest=at_rest)}

    def run(self) -> None:
        assert self.world.run(worker=self.notes.of(self.world.worker())).exit_code == 0

    def attempts(self) -> list[str]:
        """Return the attempts of the committed waves, oldest first."""
        return [self.world.ledger.attempts(wave.id)[-1].attempt for wave in self.world.ledger.waves("orders")]

    def change_rows(self, change: Callable[[tuple[Row, ...]], Any]) -> None:
        """Let another program edit the rows that readers see."""
        store = self.world.table._store
        head = store.commits[store.refs["main"]]
        store.commits[head.id] = replace(head, rows=tuple(change(head.rows)))

    def change_commit(self, snapshot: int, **changes: Any) -> None:
        """Let another program edit a commit of main."""
        commits = self.world.table._store.commits
        commits[snapshot] = replace(commits[snapshot], **changes)

    def forget_receipts(self, kind: str, attempt: str) -> None:
        """Let receipts vanish."""
        receipts = self.world.table._receipts
        for key in [key for key, row in receipts.items() if (row.kind, row.attempt) == (kind, attempt)]:
            del receipts[key]

    def edit_stream(self, **changes: Any) -> None:
        """Let another program edit the ledger's stream."""
        draft = self.world.ledger.snapshot()
        draft.streams = {key: replace(row, **changes) for key, row in draft.streams.items()}
        self.world.ledger.restore(draft)

    def edit_range(self, number: int, **changes: Any) -> None:
        """Let another program edit one of the ledger's ranges."""
        draft = self.world.ledger.snapshot()
        item = sorted(draft.ranges.values(), key=lambda item: item.range)[number]
        draft.ranges[item.id] = replace(item, **changes)
        self.world.ledger.restore(draft)

    def lines(self, call: str, phase: str) -> list[dict[str, Any]]:
        """Return the written lines of a call, to be edited."""
        return [line for line in self.notes.lines if (line["call"], line["phase"]) == (call, phase)]


@pytest.fixture
def scene() -> Scene:
    """Offsets 0-4: rows and a marker; 5-6: skipped; 7-9: nothing but an aborted record and markers; 9-12: rows.

    Three waves, each committed, one of them without rows; everything is at rest.
    """
    world = World()
    scene = Scene(world, Notes(world))
    world.produce(2)
    world.produce(1, transaction="a")
    world.end("a")
    scene.run()
    world.produce(3)
    slice_ = OffsetRange(4, 7)
    decisions.skip(world.worker(), "orders", world.stream(), slice_, reason="bad", acknowledge_order=False)
    assert world.produce(1, transaction="b") == [ABORTED]
    world.end("b", commit=False)
    scene.run()
    world.produce(3)
    scene.run()
    world.check()
    return scene


def test_a_sound_world_has_no_finding(scene: Scene) -> None:
    """Rows, a wave without rows, a skip, an aborted record, three watermark moves, and all of it written down."""
    assert scene.findings() == ()
    assert [(move["start"], move["end"]) for move in moves(scene)] == [(0, 4), (4, 9), (9, 12)]
    assert scene.world.offsets() == [0, 1, 2, 9, 10, 11]


def moves(scene: Scene) -> list[dict[str, Any]]:
    """Return the watermark moves that were written down."""
    return [move for line in scene.lines("ledger.advance", "ok") for move in line["values"].get("value", ())]


def test_a_missing_row_is_lost(scene: Scene) -> None:
    """With the producers' word the very offset is named; without it the range is, and how many."""
    scene.change_rows(lambda rows: [row for row in rows if row.offset != 10])
    (finding,) = scene.findings()
    assert (finding.kind, finding.stream, finding.offsets) == (FindingKind.LOST, scene.stream, RangeSet.of((10, 11)))
    (alone,) = check(replace(scene.inputs(), truth={}))
    assert (alone.kind, alone.offsets) == (FindingKind.LOST, RangeSet.of((10, 11)))
    assert alone.message == "range 9-12: 2 rows are in the table, 3 were published"


def test_a_record_that_the_accounting_never_had_is_lost(scene: Scene) -> None:
    """Ledger, receipts and lake agree with each other, and producers know of one record more."""
    scene.world.visible[scene.stream][8] = b"never seen"
    (finding,) = scene.findings()
    assert (finding.kind, finding.offsets) == (FindingKind.LOST, RangeSet.of((8, 9)))


def test_a_row_twice_is_a_duplicate(scene: Scene) -> None:
    """Whether one attempt brought both or another one did."""
    scene.change_rows(lambda rows: [*rows, rows[0]])
    (finding,) = scene.findings()
    assert (finding.kind, finding.stream) == (FindingKind.DUPLICATE, scene.stream)
    assert "1 row is there more than once" in finding.message
    other = scene.attempts()[-1]
    scene.change_rows(lambda rows: [*rows[:-1], replace(rows[0], attempt=other)])
    found = [item for item in scene.findings() if item.kind is FindingKind.DUPLICATE]
    assert [item.offsets for item in found] == [RangeSet.of((0, 1))]


def test_a_wave_that_is_published_twice_is_a_duplicate(scene: Scene) -> None:
    """Also one without rows; main was not fenced in between, whatever the fence of the second one is."""
    store = scene.world.table._store
    empty = next(c for c in store.history() if c.token and c.token.attempt == scene.attempts()[1])
    store.add("main", (), token=empty.token)
    (finding,) = scene.findings()
    assert (finding.kind, finding.stream) == (FindingKind.DUPLICATE, None)
    assert "was published twice" in finding.message
    assert empty.token is not None
    store.add("main", (), token=replace(empty.token, fence=0))
    assert FindingKind.STALE_FENCE not in scene.kinds()


def test_ledger_and_receipts_that_differ_are_inconsistent(scene: Scene) -> None:
    """The numbers of a commit are on record twice."""
    item = scene.world.ledger.ranges(pipeline="orders")[-1]
    assert item.accounting is not None
    scene.edit_range(-1, accounting=replace(item.accounting, visible=2, compacted=1), rows=2)
    assert scene.kinds() == {FindingKind.INCONSISTENT}
    scene.edit_range(-1, accounting=replace(item.accounting, visible=2, compacted=0), rows=2)
    assert "range 9-12: 2 of 3 offsets are accounted for" in [item.message for item in scene.findings()]


def test_a_receipt_of_other_numbers_is_inconsistent(scene: Scene) -> None:
    """As many rows, and another reason for the offset without one."""
    item = scene.world.ledger.ranges(pipeline="orders")[0]
    assert item.accounting is not None
    scene.edit_range(0, accounting=replace(item.accounting, control=0, aborted=1))
    (finding,) = scene.findings()
    assert (finding.kind, finding.offsets) == (FindingKind.INCONSISTENT, RangeSet.of((0, 4)))
    assert "or their accounting differs" in finding.message


def test_more_rows_than_were_published_are_inconsistent(scene: Scene) -> None:
    """A row where the accounting has a marker."""
    scene.change_rows(lambda rows: [*rows, replace(rows[0], offset=3)])
    (finding,) = scene.findings()
    assert finding.kind is FindingKind.INCONSISTENT
    assert finding.message == "range 0-4: 4 rows are in the table, 3 were published"


def test_rows_of_a_wave_that_was_given_up_are_inconsistent(scene: Scene) -> None:
    """Visible rows wait for their commit only while their wave is open."""
    killed_after_publish(scene)
    draft = scene.world.ledger.snapshot()
    last = list(draft.waves)[-1]
    draft.waves[last] = replace(draft.waves[last], state=WaveState.DISSOLVED)
    scene.world.ledger.restore(draft)
    (finding,) = scene.findings()
    assert (finding.kind, finding.offsets) == (FindingKind.INCONSISTENT, RangeSet.of((12, 14)))


def test_a_commit_of_another_attempt_than_the_ledger_says_is_inconsistent(scene: Scene) -> None:
    """The ledger committed the wave by an attempt that is not the one in main's history."""
    draft = scene.world.ledger.snapshot()
    index = list(draft.attempts)[1]
    draft.attempts[index] = replace(draft.attempts[index], outcome=AttemptOutcome.ABANDONED)
    scene.world.ledger.restore(draft)
    (finding,) = scene.findings()
    assert finding.kind is FindingKind.INCONSISTENT
    assert "is committed by another attempt" in finding.message


def test_rows_with_an_incomplete_receipt_were_visible_too_early(scene: Scene) -> None:
    """A receipt that leaves an offset unexplained proves nothing."""
    receipts = scene.world.table._receipts
    for key, row in receipts.items():
        if row.kind == "rows" and row.range.start == 0:
            receipts[key] = replace(row, accounting=replace(row.accounting, control=0, unexplained=1))
    (finding,) = scene.findings()
    assert (finding.kind, finding.offsets) == (FindingKind.VISIBLE_BEFORE_ACCOUNTED, RangeSet.of((0, 3)))


def test_a_damaged_table_is_lost_as_a_whole(scene: Scene) -> None:
    """What it holds is not known: nothing is said of single offsets, and no number is made up."""

    class Damaged:
        """A table whose files are gone."""

        def __getattr__(self, name: str) -> Any:
            return getattr(scene.world.table, name)

        def attempt_rows(self, _: object) -> None:
            raise DamagedTableError("2 data files are missing")

    class Lake:
        def table(self, _: str) -> Any:
            return Damaged()

    lake: Any = Lake()
    (finding,) = check(pipeline_audit.gather_audit(scene.world.ledger, lake, scene.world.spec))
    assert (finding.kind, finding.table, finding.message) == (
        FindingKind.LOST,
        "raw.orders",
        "2 data files are missing",
    )
    document = pipeline_audit.audit(replace(scene.world.worker(), lake=lake), scene.world.spec).to_json()
    assert [stream["rows"] for stream in document["streams"]] == [None]


def test_rows_of_a_skipped_slice_are_inconsistent(scene: Scene) -> None:
    """What was passed unread is not visible."""
    scene.change_rows(lambda rows: [*rows, replace(rows[0], offset=5)])
    (finding,) = [item for item in scene.findings() if item.kind is FindingKind.INCONSISTENT]
    assert (finding.offsets, finding.message) == (RangeSet.of((5, 6)), "range 4-7 is skipped and has 1 row")


def test_a_token_of_other_ranges_is_inconsistent(scene: Scene) -> None:
    """A commit names what it published by a digest."""
    store = scene.world.table._store
    head = store.commits[store.refs["main"]]
    assert head.token is not None
    scene.change_commit(head.id, token=replace(head.token, ranges="0" * 16))
    (finding,) = scene.findings()
    assert finding.kind is FindingKind.INCONSISTENT
    assert "names other ranges" in finding.message


def test_a_commit_that_the_ledger_does_not_know_is_inconsistent(scene: Scene) -> None:
    """An older ledger behind its lake."""
    draft = scene.world.ledger.snapshot()
    wave = list(draft.waves)[1]
    del draft.attempts[wave, 1]
    scene.world.ledger.restore(draft)
    assert "is unknown to the ledger" in " ".join(item.message for item in scene.findings())
    assert scene.kinds() == {FindingKind.INCONSISTENT}


def test_a_rolled_back_table_loses_rows_and_history(scene: Scene) -> None:
    """The wave without rows has nothing to lose: main's history tells."""
    first = next(c for c in scene.world.table.commits() if c.token and c.token.attempt == scene.attempts()[0])
    scene.world.table.roll_back(first.snapshot)
    assert scene.kinds() == {FindingKind.LOST, FindingKind.INCONSISTENT}
    (rolled_back,) = [item for item in scene.findings() if "main's history has lost" in item.message]
    assert rolled_back.wave == scene.world.ledger.waves("orders")[1].id


def test_expired_snapshots_are_no_finding(scene: Scene) -> None:
    """Tokens go with them; rows and receipts stay."""
    scene.world.table.expire()
    assert scene.findings() == ()


def test_a_row_of_an_aborted_transaction_is_visible(scene: Scene) -> None:
    """The producers' word decides, whatever the accounting says."""
    truth = scene.inputs().truth[scene.stream]
    truth = replace(truth, aborted=RangeSet.of((0, 1)), acknowledged=truth.acknowledged - RangeSet.of((0, 1)))
    (finding,) = check(replace(scene.inputs(), truth={scene.stream: truth}))
    assert (finding.kind, finding.offsets) == (TruthKind.ABORTED_VISIBLE, RangeSet.of((0, 1)))


def test_another_content_than_acknowledged_is_inconsistent(scene: Scene) -> None:
    """Where digests were taken, they are compared."""
    inputs = scene.inputs()
    truth = replace(inputs.truth[scene.stream], digests={0: "a", 1: "b"})
    digests = {scene.stream: {0: "a", 1: "x", 2: "y"}}
    (finding,) = check(replace(inputs, truth={scene.stream: truth}, digests=digests))
    assert (finding.kind, finding.offsets) == (FindingKind.INCONSISTENT, RangeSet.of((1, 2)))


def test_rows_without_a_receipt_were_visible_too_early(scene: Scene) -> None:
    """Receipts are stored before the publish: without them nothing proves the rows."""
    scene.forget_receipts("rows", scene.attempts()[-1])
    (finding,) = scene.findings()
    assert (finding.kind, finding.offsets) == (FindingKind.VISIBLE_BEFORE_ACCOUNTED, RangeSet.of((9, 12)))


def test_a_publish_before_its_receipts_is_told_by_the_history(scene: Scene) -> None:
    """The end looks right; only the order was wrong."""
    last = [line for line in scene.lines("table.add_receipts", "invoke") if rows_kind(line) == "rows"][-1]
    for line in scene.notes.lines:
        if (line["process"], line["op"]) == (last["process"], last["op"]):
            line["tick"] += 10**6
    (finding,) = scene.findings()
    assert finding.kind is FindingKind.VISIBLE_BEFORE_ACCOUNTED
    assert "before its receipts were complete" in finding.message


def rows_kind(line: dict[str, Any]) -> str:
    """Return the kind of the receipts of a line."""
    return line["values"]["rows"][0]["kind"]


def test_an_unexplained_offset_in_a_receipt_is_told_by_the_history(scene: Scene) -> None:
    """A receipt that does not account for everything proves nothing."""
    for line in scene.lines("table.add_receipts", "invoke"):
        if rows_kind(line) == "rows":
            line["values"]["rows"][0]["accounting"] |= {"unexplained": 1}
    assert scene.kinds() == {FindingKind.VISIBLE_BEFORE_ACCOUNTED}


def test_a_watermark_above_what_is_committed_is_ahead(scene: Scene) -> None:
    """No advance moved it there."""
    scene.edit_stream(watermark=15)
    (finding,) = scene.findings()
    assert (finding.kind, finding.offsets) == (FindingKind.WATERMARK_AHEAD, RangeSet.of((12, 15)))


def test_a_hole_under_the_watermark_is_found(scene: Scene) -> None:
    """A range that is open again below the watermark, as no decision of ours leaves it."""
    scene.edit_range(-2, state=RangeState.HELD, reason="edited")
    assert FindingKind.WATERMARK_AHEAD in scene.kinds(at_rest=False)


def test_a_watermark_that_moved_back_is_told_by_the_history(scene: Scene) -> None:
    """A move that begins below the end of the one before, and a ledger that is lower than its last word."""
    scene.edit_stream(watermark=9)
    (finding,) = scene.findings(at_rest=False)
    assert (finding.kind, finding.message) == (FindingKind.WATERMARK_BACK, "the watermark was at 12 and moved to 9")
    scene.edit_stream(watermark=12)
    moves(scene)[-1]["start"] = 2
    (finding,) = scene.findings()
    assert finding.kind is FindingKind.WATERMARK_BACK


def test_rows_of_no_wave_are_visible_without_token(scene: Scene) -> None:
    """A row that no commit of ours can have brought, by any name."""
    for attempt in ("f" * 16, ""):
        scene.change_rows(lambda rows, by=attempt: [*rows[:6], replace(rows[0], offset=50, attempt=by)])
        (finding,) = scene.findings()
        assert (finding.kind, finding.offsets) == (FindingKind.VISIBLE_WITHOUT_TOKEN, RangeSet.of((50, 51)))


def test_rows_whose_commit_says_nothing_are_visible_without_token(scene: Scene) -> None:
    """The ledger's word alone does not stand for a commit that is there and has no token."""
    store = scene.world.table._store
    scene.change_commit(store.refs["main"], token=None)
    scene.forget_receipts("published", scene.attempts()[-1])
    (finding,) = scene.findings()
    assert (finding.kind, finding.offsets) == (FindingKind.VISIBLE_WITHOUT_TOKEN, RangeSet.of((9, 12)))


def killed_after_publish(scene: Scene) -> str:
    """Let a worker die between publish and commit; return the wave."""
    scene.world.produce(2)
    wave = scene.world.planned_wave()
    with pytest.raises(KilledError):
        scene.world.ingest(wave, scene.notes.of(scene.world.worker(Killed("ledger.record_commit"))))
    return wave


def test_a_publish_that_waits_for_its_commit_is_no_finding(scene: Scene) -> None:
    """Visible, proved, and adopted by the worker that comes next; only at rest one should have come."""
    wave = killed_after_publish(scene)
    assert scene.findings(at_rest=False) == ()
    (finding,) = scene.findings()
    assert (finding.kind, finding.wave) == (TruthKind.STUCK, wave)
    scene.world.table._store.add("main", (), token=None)
    scene.world.table.expire()
    assert scene.findings(at_rest=False) == ()


def test_a_token_without_rows_is_found(scene: Scene) -> None:
    """The commit says that something was published, the receipts how much, and nothing is there."""
    wave = killed_after_publish(scene)
    scene.change_rows(lambda rows: rows[:-2])
    (finding,) = scene.findings(at_rest=False)
    assert (finding.kind, finding.wave) == (FindingKind.TOKEN_WITHOUT_ROWS, wave)


def test_a_write_under_an_old_fence_is_told_by_the_history(scene: Scene) -> None:
    """A ledger that let it through would have done so without a trace."""
    world = scene.world
    world.produce(1)
    wave = world.planned_wave()
    first = scene.notes.of(world.worker())
    claim = first.ledger.commit(ClaimWave(wave=wave, attempt="a" * 16, holder=first.processes.this(), lease=LEASE))
    world.lease_ends()
    world.ingest(wave, scene.notes.of(world.worker()))
    world.advance()
    with pytest.raises(StaleFenceError):
        first.ledger.commit(RecordBase(key=claim.key, base=1))
    assert scene.findings() == ()
    (line,) = [line for line in scene.notes.lines if line["error"] == "StaleFenceError"]
    line |= {"phase": "ok", "error": None}
    (finding,) = scene.findings()
    assert (finding.kind, finding.wave) == (FindingKind.STALE_FENCE, wave)
    assert "succeeded with fence 1, after fence 2 was given" in finding.message


def test_a_fence_that_was_given_twice_is_told_by_the_history(scene: Scene) -> None:
    """Two claims with one fence are two masters."""
    lines = scene.lines("ledger.claim", "ok")
    lines[1]["values"]["key"] = dict(lines[0]["values"]["key"])
    begun = next(item for item in scene.lines("ledger.claim", "invoke") if item["op"] == lines[1]["op"])
    begun["values"]["wave"] = lines[0]["values"]["key"]["wave"]
    assert FindingKind.STALE_FENCE in scene.kinds()


def test_an_older_fence_may_not_adopt_what_a_newer_one_published(scene: Scene) -> None:
    """Adoption goes forward only."""
    claim, recover = scene.lines("ledger.claim", "ok")[-1], scene.lines("ledger.record_commit", "invoke")[-1]
    claim["values"]["key"] |= {"fence": 3, "attempt": "b" * 16}
    claim["tick"] = 10**6
    recover["values"]["attempt"] = "b" * 16
    (finding,) = [item for item in scene.findings() if item.kind is FindingKind.STALE_FENCE]
    assert "was adopted by" in finding.message


def test_a_publish_after_its_wave_was_fenced_is_a_stale_fence(scene: Scene) -> None:
    """Main itself testifies: the fence commit of a later claim comes first."""
    commits = scene.world.table.commits()
    wave = commits[-1].token.wave if commits[-1].token else ""
    token = Token(pipeline="orders", wave=wave, attempt="c" * 16, fence=9, ranges="", kind="fence")
    scene.change_commit(commits[0].snapshot, token=token)
    (finding,) = scene.findings()
    assert (finding.kind, finding.wave) == (FindingKind.STALE_FENCE, wave)


def test_a_commit_that_the_ledger_forgot_is_inconsistent(scene: Scene) -> None:
    """A ledger that failed over to an older copy of itself."""
    before = scene.world.ledger.snapshot()
    scene.world.produce(1)
    scene.run()
    scene.world.ledger.restore(before)
    found = [item for item in scene.findings(at_rest=False) if "has forgotten it" in item.message]
    assert [item.kind for item in found] == [FindingKind.INCONSISTENT]


def test_what_is_left_over_at_rest_is_stuck(scene: Scene) -> None:
    """Unplanned records, a wave that no run takes, a hold, a watermark that no advance moves: each by itself."""
    world = scene.world
    world.produce(2)
    assert scene.findings(at_rest=False) == ()
    assert words(scene) == ["2 acknowledged records not even planned: 12-14"]
    wave = world.planned_wave()
    assert words(scene) == [f"wave {wave} is still PLANNED at fence 0"]
    decisions.cancel(world.worker(), wave, "not now")
    assert words(scene) == ["range 12-14 is CANCELLED: not now"]
    decisions.release(world.worker(), wave, None)
    world.ingest(wave)
    assert words(scene) == ["the watermark 12 could be at 14: run kafka-lake advance"]
    world.advance()
    assert scene.findings() == ()


def words(scene: Scene) -> list[str]:
    """Return what is stuck, in words."""
    findings = scene.findings()
    assert {item.kind for item in findings} <= {TruthKind.STUCK}
    return [item.message for item in findings]


def test_an_acknowledged_stream_that_is_not_known_is_stuck(scene: Scene) -> None:
    """A partition that was added and never planned."""
    inputs = scene.inputs()
    added = Stream("orders", scene.world.topic_ids["orders"], 7)
    (finding,) = check(replace(inputs, truth={**inputs.truth, added: inputs.truth[scene.stream]}))
    assert (finding.kind, finding.stream) == (TruthKind.STUCK, added)


def test_a_pipeline_that_goes_on_meanwhile_is_no_finding(scene: Scene) -> None:
    """What is committed while the lake is read is neither lost nor a stray."""
    world = scene.world
    world.produce(2)

    class Busy:
        """The ledger, which another uses between the reading of ranges and the reading of the lake, and after."""

        def __getattr__(self, name: str) -> Any:
            if name in {"waves", "attempts"}:
                world.run()
                world.produce(1)
            return getattr(world.ledger, name)

    busy: Any = Busy()
    assert check(pipeline_audit.gather_audit(busy, world.lake, world.spec)) == ()


def test_audit_says_every_finding_as_json(scene: Scene) -> None:
    """What is wrong, where, and in words; streams keep their numbers."""
    scene.change_rows(lambda rows: [*rows[1:], rows[-1]])
    document = pipeline_audit.audit(scene.world.worker(), scene.world.spec).to_json()
    assert not document["ok"]
    assert [(item["kind"], item["offsets"], item["span"]) for item in document["findings"]] == [
        ("duplicate", [], 0),
        ("lost", [[0, 1], [3, 4]], 2),
    ]
    (stream,) = document["streams"]
    assert (stream["rows"], stream["duplicates"], stream["missing"]) == (6, 1, 1)
    assert [item["message"] for item in document["findings"]] == stream["problems"]
    assert document["problems"] == []


def test_a_lake_out_of_reach_is_no_finding(scene: Scene) -> None:
    """What could not be read is neither right nor wrong: worth repeating."""
    scene.world.lake.reachable = False
    with pytest.raises(UnavailableError):
        pipeline_audit.audit(scene.world.worker(), scene.world.spec)


def test_every_kind_of_finding_has_a_test_here() -> None:
    """A kind that no broken world produces is a check that cannot fail."""
    text = Path(__file__).read_text()
    assert [kind for kind in FindingKind if f"FindingKind.{kind.name}" not in text] == []


def test_contents_that_kafka_does_not_have_are_different(scene: Scene) -> None:
    """Only a comparison sees it: offsets and numbers are all right."""
    scene.change_rows(lambda rows: [replace(row, value=b"!") if row.offset == 10 else row for row in rows])
    assert scene.findings() == ()
    document = pipeline_audit.audit(scene.world.worker(), scene.world.spec, checks=(DeepCheck(),)).to_json()
    (finding,) = document["findings"]
    assert (finding["kind"], finding["offsets"]) == (FindingKind.DIFFERENT, [[10, 11]])
    assert "the value is not what Kafka has, at 1 offset, the first 10" in finding["message"]
    assert "not all of them" in document["deep"]["sentence"]


def cutover(scene: Scene, *live: int) -> dict[str, Any]:
    """Audit the cutover with a live stream that has written some offsets into the same table."""
    topic, topic_id, partition = scene.stream
    rows = [
        Row(topic=topic, topic_id=topic_id, partition=partition, offset=o, key=None, value=b"live", attempt="")
        for o in live
    ]
    scene.change_rows(lambda mine: [*mine, *rows])
    found = CutoverCheck(table=scene.world.table.identifier)
    return pipeline_audit.audit(scene.world.worker(), scene.world.spec, checks=(found,)).to_json()


def test_a_live_stream_that_goes_on_where_we_end_is_sound(scene: Scene) -> None:
    """Also in the same table, with a marker between the two."""
    scene.world.produce(1, transaction="live")
    scene.world.end("live", commit=False)
    scene.world.produce(2)
    document = cutover(scene, 14, 15)
    assert (document["ok"], document["findings"]) == (True, [])
    assert document["cutover"]["lines"] == [
        "orders/0: committed up to 12, the live stream begins at 14: nothing missing, nothing twice"
    ]


def test_what_is_in_neither_table_is_missing_at_the_cutover(scene: Scene) -> None:
    """Kafka has a record, and the table has no row."""
    scene.world.produce(3)
    (finding,) = cutover(scene, 13, 14)["findings"]
    assert (finding["kind"], finding["offsets"]) == (FindingKind.CUTOVER_MISSING, [[12, 13]])


def test_what_is_in_both_tables_is_twice_at_the_cutover(scene: Scene) -> None:
    """The live stream had begun before the pipeline ended."""
    scene.world.produce(1)
    (finding,) = cutover(scene, 11, 12)["findings"]
    assert (finding["kind"], finding["offsets"]) == (FindingKind.CUTOVER_TWICE, [[11, 12]])


def test_a_kafka_that_does_not_answer_proves_no_contents_and_no_cutover(scene: Scene) -> None:
    """What was not compared must not pass."""
    scene.world.kafka.down = True
    for asked in (DeepCheck(), CutoverCheck(table="raw.orders")):
        with pytest.raises(UnavailableError, match="Audit again when Kafka answers"):
            pipeline_audit.audit(scene.world.worker(), scene.world.spec, checks=(asked,))


def test_keys_name_their_guard() -> None:
    """What a guarded write is asked for has the fence under the name that the checker reads."""
    assert set(AttemptKey.__slots__) == {"wave", "fence", "attempt"}


def test_a_recorded_reset_lets_the_record_begin_anew(scene: Scene) -> None:
    """After a rebuild a watermark may be lower and a fence may come again; without it on record they may not."""
    world, before = scene.world, scene.world.ledger.snapshot()
    world.produce(1)
    scene.run()
    world.ledger.restore(before)
    assert FindingKind.WATERMARK_BACK in scene.kinds(at_rest=False)
    last, move = scene.notes.lines[-1], {**moves(scene)[-1], "sequence": 99, "start": 4, "end": 9}
    later: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("ledger.restore", {}, {}),
        ("ledger.advance", {"pipeline": "orders"}, {"value": [move]}),
    ]
    for number, (call, asked, answer) in enumerate(later, 1):
        for phase, values, tick in (("invoke", asked, 2 * number), ("ok", answer, 2 * number + 1)):
            said = {"call": call, "phase": phase, "op": number, "tick": last["tick"] + tick, "values": values}
            scene.notes.lines.append({**last, "process": "rebuild", **said})
    assert not {FindingKind.WATERMARK_BACK, FindingKind.STALE_FENCE} & scene.kinds(at_rest=False)
    assert not [item for item in scene.findings(at_rest=False) if "has forgotten it" in item.message]


def test_comparison_with_nothing_is_no_proof(scene: Scene) -> None:
    """Kafka has deleted all that is committed: a deep audit of it is not sound, whatever the numbers say."""
    assert scene.findings() == ()
    scene.world.kafka.log(scene.stream.topic, scene.stream.partition).delete_before(12)
    report = pipeline_audit.audit(scene.world.worker(), scene.world.spec, checks=(DeepCheck(),))
    (finding,) = report.findings
    assert (report.ok, finding.kind) == (False, FindingKind.NOT_JUDGED)
    assert finding.message.startswith("nothing was compared with Kafka")


def test_findings_of_a_stream_come_in_the_order_of_its_offsets() -> None:
    """Not of their words: 5 is before 10."""
    world = World()
    for _ in range(3):
        world.produce(5)
        assert world.run().exit_code == 0
    world.table.delete_foreign(lambda row: row.offset in {1, 6, 11})
    found = pipeline_audit.audit(world.worker(), world.spec).findings
    assert [item.message.partition(":")[0] for item in found] == ["range 0-5", "range 5-10", "range 10-15"]
