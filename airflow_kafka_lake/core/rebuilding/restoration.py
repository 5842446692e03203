"""What a rebuild puts back into a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow
from airflow_kafka_lake.core.ledger.waves import AttemptKey, Token, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.rebuilding.reopens import Reopens
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import PipelineSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredStream:
    """A stream that the ledger does not know."""

    stream: Stream
    origin: int
    end_seen: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredWave:
    """A wave that the lake holds: who published it, and what it brought; the receipts' `range_id` is for new ranges.

    `at` is when its receipts were written, `snapshot` None once its commit has expired.
    """

    wave: str
    table: str
    attempt: str
    fence: int
    snapshot: int | None
    at: datetime
    receipts: tuple[Receipt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredSkip:
    """A skip that the lake has a receipt of; who decided it and why was only in the ledger."""

    id: str
    stream: Stream
    at: datetime
    passed: RangeSet
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPlan:
    """A slice that was reopened and is to be read again; `wave` is a new one of the table, `leader_epoch` what the
    slice was read under before."""

    id: str
    wave: str
    table: str
    stream: Stream
    range: OffsetRange
    generation: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """One decision to make a ledger agree with the lake.

    `token` is that of the commit that moved main first. `versions` are those of the streams it was made from; `ends`
    has those streams whose logs the lake has seen longer, each with the leader epoch it had that end under, where it is
    known. `guards` are the open waves that the caller has claimed. `reopened` names committed ranges whose rows are
    gone, `undone` the committed waves whose commit is not in main's history, so that it proves nothing any more, even
    where their rows came back with another commit. `fences` has the highest fence that the lake has seen of each wave,
    `receipts` what the lake still lacks, with their tables. `reopens` is what was ever reopened, `planned` what of it
    is to be read again.
    """

    spec: PipelineSpec
    token: Token
    observed_at: datetime
    versions: Mapping[Stream, int]
    guards: tuple[AttemptKey, ...]
    tables: Mapping[str, str]
    streams: tuple[RestoredStream, ...]
    waves: tuple[RestoredWave, ...]
    skips: tuple[RestoredSkip, ...]
    reopened: tuple[str, ...]
    fences: Mapping[str, int]
    receipts: tuple[tuple[str, ReceiptRow], ...]
    ends: Mapping[Stream, tuple[int, int | None]] = field(default_factory=dict)
    reopens: Reopens = field(default_factory=lambda: Reopens({}))
    planned: tuple[RestoredPlan, ...] = ()
    undone: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """The id of the rebuild: of its plan, its wave, and the ranges it brings."""
        return self.token.wave

    @property
    def in_order(self) -> tuple[RestoredWave, ...]:
        """The waves with the rebuild's own, which has no range and no table and makes its token known; oldest first."""
        own = RestoredWave(
            wave=self.id,
            table="",
            attempt=self.token.attempt,
            fence=self.token.fence,
            snapshot=None,
            at=self.observed_at,
            receipts=(),
        )
        return tuple(sorted((*self.waves, own), key=lambda wave: (wave.at, wave.wave)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A range to be recorded: cut from `source`, or new."""

    record: RangeRecord
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What a restoration changes: ranges that go, ranges that come, waves that change state, watermarks that fall."""

    removed: frozenset[str]
    placed: tuple[Placed, ...]
    waves: Mapping[str, WaveState]
    watermarks: Mapping[Stream, int]
    new_waves: Mapping[str, str] = field(default_factory=dict)
    """New PLANNED waves, with their tables."""


RESTORED = "restored from the lake's receipt; the reason was in the lost ledger"
"""What a restored skip says."""
