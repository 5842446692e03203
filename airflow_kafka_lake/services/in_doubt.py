"""Whether a wave may be in the lake although no answer says so: unknown stays unknown until a look has answered."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import AttemptRejectedError, KafkaLakeError, TransientError, UnknownOutcomeError
from airflow_kafka_lake.core.ledger.records import Claim
from airflow_kafka_lake.core.ledger.waves import Absent, AttemptOutcome, AttemptRecord, Found, TableHead

_UNTOLD = frozenset({AttemptOutcome.UNKNOWN, AttemptOutcome.ABANDONED})


class InDoubt:
    """True while a commit of the wave, of this attempt or an earlier one, may have landed or may still land.

    Only a look decides: one that finds nothing on the very head that a commit requires leaves it in doubt, because
    that commit may still be on its way. What was found, or answered as committed, stays so until it is recorded.
    """

    def __init__(self, attempts: Iterable[AttemptRecord]) -> None:
        self._open = any(item.audited is not None and item.outcome in _UNTOLD for item in attempts)
        self._required: TableHead | None = None

    def __bool__(self) -> bool:
        return self._open

    def sent(self, head: TableHead) -> None:
        """Note that a commit on this head was sent, and was not rejected."""
        self._open, self._required = True, head

    def looked(self, look: Found | Absent) -> None:
        """Note what a look has answered."""
        moved = self._required is None or (look.head.uuid, look.head.snapshot) != (
            self._required.uuid,
            self._required.snapshot,
        )
        self._open = isinstance(look, Found) or (self._open and not moved)

    def explained(self, claim: Claim, problem: KafkaLakeError) -> KafkaLakeError:
        """Return the error of an attempt: an unknown outcome for whatever is worth repeating, while in doubt."""
        if not self._open or isinstance(problem, AttemptRejectedError) or not isinstance(problem, TransientError):
            return problem
        wave = claim.key.wave
        return UnknownOutcomeError(
            f"wave {wave} may be in the lake: a commit of it was sent, and the look for it or its record failed: "
            f"{problem.message.rstrip('.')}. Run: {remedies.recover(claim.pipeline)}",
            wave=wave,
        )
