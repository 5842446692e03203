"""Every error a caller can meet, as one tree (docs/reference/errors.md): transient ones are worth repeating unchanged.

A broken attempt is an attempt's business: the wave stays as it was and can be tried again.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Self

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import some
from airflow_kafka_lake.core.offsets import OffsetRange, Stream

if TYPE_CHECKING:
    from airflow_kafka_lake.core.remedies import Remedy


class KafkaLakeError(Exception):
    """The root: a sentence for people; for programs `facts` (JSON values), and `remedies` where it holds something.

    The sentence is the `fault` and, where that is told apart from it, the `remedy`.
    """

    exit_code: ClassVar[int] = 1
    remedies: tuple[Remedy, ...] = ()
    remedy = ""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.message = self.fault = message
        self.facts = facts

    def mended_by(self, remedy: str) -> Self:
        """Return the error with the sentence that says how to mend it, which ends its message."""
        self.remedy, self.message = remedy, f"{self.fault} {remedy}"
        self.args = (self.message,)
        return self

    def ended_by(self, *remedies: Remedy) -> Self:
        """Return the error with the commands that end its hold, as its sentence names them."""
        self.remedies = remedies
        return self

    def to_json(self) -> dict[str, object]:
        """Return the wire form `{"type", "message", ...facts}` (docs/reference/json.md)."""
        return {"type": type(self).__name__, "message": self.message, **self.facts}

    @property
    def headline(self) -> str:
        """The first line, without a job's own words."""
        return self.message.partition("\n")[0]

    @property
    def named(self) -> str:
        """The sentence behind the error's name, as people read it: the reason of a hold."""
        return f"{type(self).__name__}: {self.message}"


class TerminalError(KafkaLakeError):
    """Repeating the same call cannot help."""


class TransientError(KafkaLakeError):
    """The same call may succeed later; nothing was lost or half done."""

    exit_code = 3


class UnknownOutcomeError(KafkaLakeError):
    """A commit was sent and its answer was lost; it may or may not have landed."""

    exit_code = 4


class RefusedError(TerminalError):
    """The request is wrong; nothing was changed."""


class UsageError(RefusedError):
    """The words of the call are wrong."""

    exit_code = 2


class PipelineFileError(RefusedError):
    """A pipeline file, or the keywords of `Pipeline(...)`, do not validate."""


class UnknownTopicError(RefusedError):
    """The topic does not exist, as every broker says twice, or is not one of the pipeline's."""


class UnknownPartitionError(RefusedError):
    """The topic has no such partition."""


class UnknownSubjectError(RefusedError):
    """The ledger knows no pipeline, stream, plan, wave or range of that name."""


class RangeExpiredError(RefusedError):
    """Offsets below the log start were asked for: they were deleted."""


class RangeBeyondEndError(RefusedError):
    """Offsets at or above the readable end were asked for."""


class EmptyPeriodError(RefusedError):
    """No partition has anything in the period that was asked for."""


class GroupOffsetError(RefusedError):
    """A consumer group has no committed offset where the policy needs one."""


class ConnectionSettingsError(RefusedError):
    """An Airflow connection is missing, of the wrong type, or has settings that are refused."""


class StateError(RefusedError):
    """The subject's state does not allow the request; the message names the next command."""


class SchemaMismatchError(RefusedError):
    """The lake table's columns, format version or catalog do not fit."""


class IdentityError(TerminalError):
    """A topic or table carries a known name and is not the one that was recorded."""


class TopicDeletedError(IdentityError):
    """The topic that was planned from is gone."""


class TopicRecreatedError(IdentityError):
    """The topic that was planned from is gone; another one has its name."""


class LostRecordsError(TerminalError):
    """A partition's log is not the one that was planned from any more; its topic is.

    `lost` are the offsets of a planned range that cannot be read any more, where it is about one.
    """

    lost: OffsetRange | None = None

    def __init__(self, message: str, *, lost: OffsetRange | None = None, **facts: object) -> None:
        super().__init__(message, **facts)
        self.lost = lost


class LogTruncatedError(LostRecordsError):
    """The log ends below planned offsets: its end was lost."""


class LogRewrittenError(LostRecordsError):
    """The log was cut below planned offsets and written again: they are other records now."""


class LogStartMovedError(LostRecordsError):
    """Planned offsets were deleted before they were read."""


class HangingTransactionError(TerminalError):
    """A transaction is open for longer than it may be, and no producer will end it: nothing behind it gets stable."""


class DamagedTableError(TerminalError):
    """Files of a lake table are missing or cannot be read."""


class OwnershipError(TerminalError):
    """Another pipeline, or another ledger, lands this topic in this table."""


class LedgerBehindError(TerminalError):
    """The ledger does not know the newest token in the lake, or one before it; `rebuild` is the remedy."""


class LedgerSchemaError(TerminalError):
    """The ledger's schema is missing, older or newer than this package; `db upgrade` may be the remedy."""


class UnexplainedError(TerminalError):
    """Offsets of a staged attempt are not accounted for."""


class OnlyCopyError(TerminalError):
    """Rows that would be dropped are audited, and the only copy of their records; a person may give them up."""


class UnreadableRecordError(TerminalError):
    """Kafka has a record, or the bytes of one, that no job can read; it is named, and held by itself."""


_EXTRAS = {"psycopg2": "[postgres]", "pyspark": "[spark]"}
"""The extra of this package that brings a module; all others come with it."""


class LibraryError(TerminalError):
    """A library that this package needs is missing, or of a version that it does not work with."""

    @classmethod
    def of(cls, cause: ImportError) -> LibraryError:
        """Return the error for an import that failed; a module's name holds no secret."""
        name = cause.name or "a library"
        extra = _EXTRAS.get(name.partition(".")[0], "")
        return cls(
            f"{name} is missing in this environment, or of a version that lacks what is needed of it. See what does "
            f"not fit with: pip check. Install it again with: pip install --upgrade 'airflow-kafka-lake{extra}'",
            module=name,
        )


class JarsMissingError(TerminalError):
    """Jars of a job are not in this machine's cache; `kafka-lake jars fetch` brings them."""


class JarChecksumError(TerminalError):
    """A jar has other bytes than the ones that its version is known to have."""


class DecodeLimitError(TerminalError):
    """More values of a wave do not decode than its pipeline allows."""


class HeldError(TerminalError):
    """Ranges are held, cancelled or unresolved: a person or another run is needed."""


class PausedError(HeldError):
    """A person has paused the pipeline or the plan: nothing new is begun before a person resumes it."""


class UnfinishedError(HeldError):
    """Ranges are planned and were not run to their end; to look again brings nothing, another run does."""


class UnavailableError(TransientError):
    """A broker, ledger or catalog cannot be reached or did not answer in time."""


class UnstableError(TransientError):
    """The answer exists but is not stable yet (a pending transaction)."""


class PendingCommitError(UnstableError):
    """A group's committed offset is part of a transaction that has not ended; the number before it is not taken."""


class ConcurrentError(TransientError):
    """Another writer changed the same thing first, or is working on it now."""


class LimitReachedError(ConcurrentError):
    """As many waves of the pipeline are at work as it allows at once: the next begins when one of them has ended."""


class GateClosedError(TransientError):
    """An ancestor of the wave's segments is not drained: the wave waits for its turn."""


class StaleFenceError(TransientError):
    """The wave was claimed by another attempt since; this attempt may no longer write."""


class NotWantedError(TransientError):
    """The task that asked for the wave has ended, or does not renew its request: the work on it is ended."""


UNREADABLE_RECORD = "unreadable-record"
"""`facts["reason"]` of a JobFailedError whose job met a record that it cannot read."""


class JobFailedError(TransientError):
    """The Spark job ended without a staged result; `facts["reason"]` names a usual reason, None an unknown one.

    `last_words` are the last line of its driver, where it wrote one.
    """

    last_words: str | None = None

    def __init__(self, message: str, *, last_words: str | None = None, **facts: object) -> None:
        super().__init__(message, **facts)
        self.last_words = last_words


class UnexpectedError(TransientError):
    """An exception that no part of this package expects: a defect, or a value that a library cannot hold.

    Its own text is not shown: libraries put addresses and credentials into theirs.
    """

    def __init__(self, cause: BaseException, doing: str, **facts: object) -> None:
        kind, place = type(cause).__qualname__, _place_of(cause)
        super().__init__(
            f"{doing} ended with an unexpected {kind}{place}. The same call is safe to repeat; if it ends so again, "
            "report that line",
            **facts,
            exception=kind,
        )


def mendable(error: Exception) -> KafkaLakeError | None:
    """Return the error of an import that failed, or of a file or folder that this machine refuses, which a person can
    mend; None for any other: its own text may hold a secret, a path and the system's words do not."""
    if isinstance(error, ImportError):
        return LibraryError.of(error)
    if not isinstance(error, OSError) or not error.filename:
        return None
    mend = "Let this user use it, make room for it, or name another place; then repeat the command"
    return UsageError(f"{error.filename} cannot be used: {error.strerror}. {mend}", file=str(error.filename))


def expected(error: Exception, doing: str, **facts: object) -> KafkaLakeError:
    """Return an error of this tree as it is, a failed import as a LibraryError, and any other exception as an
    UnexpectedError that names the work it ended."""
    if isinstance(error, ImportError):
        return LibraryError.of(error)
    return error if isinstance(error, KafkaLakeError) else UnexpectedError(error, doing, **facts)


def worst(codes: Collection[int]) -> int:
    """Return the exit code of several ends; 0 without any. To look for an outcome comes first, then a person."""
    return next((code for code in (4, 1, 3, 2) if code in codes), 0)


def restored(document: Mapping[str, object]) -> KafkaLakeError:
    """Return an error that another process has met, from its wire form: of the same kind, so that it is worth repeating
    or not as it was there. An unknown kind, of a newer version, is worth repeating."""
    facts = {name: value for name, value in document.items() if name not in {"type", "message"}}
    kind = _kinds(KafkaLakeError).get(str(document["type"]), TransientError)
    error = kind.__new__(kind)
    KafkaLakeError.__init__(error, str(document["message"]), **facts)
    return error


def _kinds(kind: type[KafkaLakeError]) -> dict[str, type[KafkaLakeError]]:
    found = {kind.__name__: kind}
    for each in kind.__subclasses__():
        found |= _kinds(each)
    return found


def _place_of(cause: BaseException) -> str:
    """Name the innermost line of an exception: module, function and number hold no value."""
    frames = list(traceback.walk_tb(cause.__traceback__))
    if not frames:
        return ""
    frame, line = frames[-1]
    return f" in {frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}, line {line}"


class AttemptRejectedError(TransientError):
    """Rows of an attempt no longer fit the table (partition spec, schema, branch); they are staged again."""


# Names given by people: a topic, a generation, a partition or a word that is not there is refused by name (law L5).

TOPICS_NAMED = 20
"""Topics that a refusal names; more are counted."""


def kinds() -> dict[str, type[KafkaLakeError]]:
    """Return every error of the tree by its name."""
    found = {name: item for name, item in globals().items() if isinstance(item, type)}
    return {name: item for name, item in found.items() if issubclass(item, KafkaLakeError)}


def nearest(word: object, words: Collection[str]) -> str:
    """Return `; did you mean '…'?` for a word that is close to one of `words`, else nothing."""
    from difflib import get_close_matches  # every process of Airflow loads this module, few a wrong name

    close = get_close_matches(word, words, n=1, cutoff=0.7) if isinstance(word, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown_topic(pipeline: str, topic: str, known: Collection[str]) -> UnknownTopicError:
    """Return the refusal: a topic is none of a pipeline's, with the ones it has instead."""
    return UnknownTopicError(
        f"topic {topic!r} is not one of pipeline {pipeline}: it has {_listed(known)}{nearest(topic, sorted(known))}",
        topic=topic,
    )


def require_streams(
    pipeline: str,
    streams: Iterable[Stream],
    *,
    topic: str | None = None,
    topic_id: str | None = None,
    partitions: Collection[int] | None = None,
) -> None:
    """Refuse names that narrow a pipeline's streams to none, or names a partition that none of them has: no answer
    about nothing looks like a sound one. Raises UnknownSubjectError."""
    everything = list(streams)
    known = [key for key in everything if topic in (None, key.topic)]
    meant = {key.partition for key in known if topic_id in (None, key.topic_id)}
    missing = sorted(set(partitions or ()) - meant)
    nothing_named = topic is None and topic_id is None and partitions is None
    if nothing_named or (meant and not missing):
        return
    generation = f" of topic id {topic_id}" if topic_id else ""
    if topic is not None and not known:
        topics = {key.topic for key in everything}
        what = f"of topic {topic!r}{generation}: it has {_listed(topics)}{nearest(topic, sorted(topics))}"
    elif missing:
        where = f"of partition {missing[0]}" if topic is None else f"{topic}/{missing[0]}"
        what = f"{where}{generation}: it has {f'{min(meant)} to {max(meant)}' if meant else 'none'}"
    else:
        what = f"of topic {topic!r}{generation}: it has {_listed({key.topic_id for key in known})}"
    raise UnknownSubjectError(
        f"pipeline {pipeline} has no stream {what}{'' if what[-1] == '?' else '.'} See: {remedies.status(pipeline)}",
        topic=topic,
        partition=missing[0] if missing else None,
    )


def _listed(names: Iterable[str]) -> str:
    return some(sorted(names), TOPICS_NAMED) or "none yet"
