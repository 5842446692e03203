"""The error of a failed driver: the end of its log, secrets masked, and the remedy of each usual reason."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_kafka_lake.adapters.clients import Secrets
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import UNREADABLE_RECORD, ConnectionSettingsError, JobFailedError
from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.ports import ReportingJob

_TAIL_LINES = 25
_TAIL_CHARACTERS = 4_000
_FRAME = re.compile(r"\s+at [\w.$/]+|\s*\.\.\. \d+ more|\s+\^|\s*=+$")
_PYTHON_HEAD = re.compile(r"\s*Traceback \(most recent call last\):$")
_PYTHON_FRAME = re.compile(r"\s*File \"")
_CODE = re.compile(r"\s{4}|[\s^~]+$")
_RAISED = re.compile(r"^(py4j\.protocol\.|pyspark\.errors\.)\S+", re.MULTILINE)
_IN_A_TASK = re.compile(r"stage failure|Exception in task|Lost task|TaskSetManager")
_REFUSED_POD = re.compile(r"KubernetesClientException: Failure executing: POST .*? Message: (.*?)\. Received status")
NOT_TAKEN = "Can only accept driver submissions in ALIVE state"
"""The words of a standalone master that has come back, and looks for its workers. Spark's client waits on in vain."""
BESIDE_READING = "beside-reading"
"""`facts["reason"]` of a job that no record can have ended, so that none is searched for as the cause."""

Job = StageJob | ReportingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A usual failure: its `pattern` in the driver's log, its meaning for a person, and whether the same job may
    succeed later although nobody has changed anything."""

    name: str
    pattern: str
    advice: str
    may_pass: bool = True


REASONS = (
    Reason(
        name="cluster-refuses",
        pattern=r"\n: io\.fabric8\.\S+Exception: .*?\b40[13]\b|Failed to submit application_|above the max threshold",
        advice="The cluster refuses the job, in the words below: correct token, namespace, queue or another setting of "
        "the Spark connection, or give its user the right. Repeating it does not help.",
        may_pass=False,
    ),
    Reason(
        name="deposed-leader",
        pattern=r"UnknownLeaderEpochException",
        advice="The broker that answers Spark as the leader of a partition does not know the leader epoch under which "
        "the partition was seen before: it is cut off from its controller, and another one leads. Nothing of it was "
        "read. Repeat the call; if it stays so, restart that broker, or take it from bootstrap.servers.",
    ),
    Reason(
        name="data-loss",
        pattern=r"OffsetOutOfRangeException|KAFKA_DATA_LOSS|[Ss]ome data may have been lost|"
        r"out of range with no configured reset policy",
        advice="Kafka no longer has offsets of this wave: retention, deletion or truncation passed them before or "
        "during the read. Nothing was published; plan again to see what is left, and skip what is lost.",
    ),
    Reason(
        name="not-permitted",
        pattern=r"\(Permission denied\)|\(Read-only file system\)|AccessDenied|ACCESS_DENIED|AccessControlException|"
        r"ForbiddenException|permission denied for|readonly database",
        advice="Spark may not write to the lake: give its user the permission for the catalog and the warehouse, or "
        "correct the lake connection. Repeating it does not help.",
        may_pass=False,
    ),
    Reason(
        name="no-space",
        pattern=r"No space left on device|Disk quota exceeded|database or disk is full|File too large",
        advice="A disk is full: that of the warehouse or the catalog, or the one where Spark keeps its scratch files "
        "(spark.local.dir, and the temporary folder of its machines). Make room there; nothing was published, the wave "
        "is unharmed and can be run again.",
    ),
    Reason(
        name="branch-exists",
        pattern=r"Ref kafka_lake_\w+ already exists|[Bb]ranch kafka_lake_\w+ already exists",
        advice="The attempt's staging branch exists already: this attempt was begun before, so nothing was written. "
        "Run the wave again; it gets an attempt of its own.",
    ),
    Reason(
        name="commit-conflict",
        pattern=r"add snapshot with sequence number|exceptions\.CommitFailedException",
        advice="Another commit to the table came first, as often as Spark has tried (commit.retry.num-retries of the "
        "table). Nothing was staged; repeat the call. Where it happens often, let fewer jobs and programs write to "
        "this table at once.",
    ),
    Reason(
        name="clock",
        pattern=r"Invalid (snapshot|update) timestamp|Expected sorted snapshot log entries",
        advice="The table's last change is in the future of Spark's clock: one of the clocks that write to it is "
        "wrong. Set it; if it was another's, the table takes commits again when its last change is past.",
    ),
    Reason(
        name="table-not-found",
        pattern=r"TABLE_OR_VIEW_NOT_FOUND|NoSuchTableException|Table does not exist",
        advice="Spark does not find the lake table: it was dropped, or the lake connection names another catalog or "
        "warehouse for Spark than for this worker.",
    ),
    Reason(
        name=UNREADABLE_RECORD,
        pattern=r"ArithmeticException: long overflow|CorruptRecordException|Record is corrupt|Unknown compression type|"
        r"Received exception when fetching the next record",
        advice="Kafka has a record that Spark cannot read. It is looked for in Kafka's raw batches, to be held by "
        "itself while the rest goes on.",
    ),
    Reason(
        name="out-of-memory",
        pattern=r"java\.lang\.OutOfMemoryError|GC overhead limit exceeded|Container killed .* memory limits",
        advice="Spark ran out of memory: raise the driver memory (a local master does everything in the driver) or the "
        "executor memory in the spark connection, or lower target_range_bytes.",
    ),
    Reason(
        name="kafka-authentication",
        pattern=r"SaslAuthenticationException|SslAuthenticationException|AuthorizationException|LoginException",
        advice="Kafka refused Spark's credentials or lacks a permission for them: check the kafka connection, and that "
        "the user may describe and read these topics. Repeating it does not help.",
        may_pass=False,
    ),
    Reason(
        name="kafka-unreachable",
        pattern=r"No resolvable bootstrap urls|org\.apache\.kafka\.common\.errors\.TimeoutException|"
        r"Failed to create new KafkaAdminClient|Timed out waiting for a node assignment|"
        r"Cannot fetch record for offset",
        advice="Spark does not reach Kafka from where it runs: check bootstrap.servers, the brokers' advertised "
        "listeners, and the network between Spark and Kafka.",
    ),
    Reason(
        name="catalog-unreachable",
        pattern=r"RESTException: Error occurred while processing|HttpHostConnectException|PSQLException",
        advice="Spark does not reach the lake's catalog from where it runs, or gets no answer in time: check uri and "
        "time-outs of the lake connection, and the network between Spark and the catalog.",
    ),
    Reason(
        name="store-key-ended",
        pattern=r"ExpiredToken|provided token has expired",
        advice="The store's key ended within the job. Where the catalog hands out keys, have it renew them (it has to "
        "name client.refresh-credentials-endpoint), let them last longer than a wave, or make waves smaller "
        "(max_wave_bytes in [sizes]); else renew s3.session-token and its keys in the lake connection.",
        may_pass=False,
    ),
    Reason(
        name="store-refuses",
        pattern=r"Unable to load (region|credentials)|NoSuchBucketException|\(Service: S3, Status Code: (301|40[03])",
        advice="The store refuses Spark, or Amazon's SDK lacks a setting for it: look at client.region, "
        "s3.access-key-id, s3.secret-access-key, s3.session-token and s3.endpoint of the lake connection, and at the "
        "rights of that key; of a request time that is too far off, at the clock. Repeating it does not help.",
        may_pass=False,
    ),
    Reason(
        name="unknown-topic",
        pattern=r"UnknownTopicOrPartitionException|UnknownTopicIdException|"
        r"Partitions specified for Kafka start offsets don't match",
        advice="A topic or partition of this wave does not exist any more. Plan again.",
    ),
    Reason(
        name="no-shared-consumer",
        pattern=r"ClassNotFoundException: airflow_kafka_lake\.SharedConsumer",
        advice="Spark's executors did not get the class that reads Kafka: they fetch it from the driver, as any jar. "
        "Let them reach the driver's ports, or set spark.kafka_lake.shared_consumer to false in the conf of the Spark "
        "connection, and Spark's own Kafka source reads.",
    ),
    Reason(
        name="missing-classes",
        pattern=r"NoClassDefFoundError|ClassNotFoundException|NoSuchMethodError|NoSuchFieldError|AbstractMethodError|"
        r"IncompatibleClassChangeError|UnsupportedClassVersionError|UnsatisfiedLinkError|No suitable driver|"
        r"UnsupportedFileSystemException|Cannot find constructor for interface",
        advice=f"Spark lacks a class that the job needs, or has another version of it. For files in S3 run: "
        f"{remedies.fetch_jars('s3')}. For another driver name its jar in spark.jars of the Spark connection, in "
        "versions that fit the jars of this package. Repeating it does not help.",
        may_pass=False,
    ),
    Reason(
        name="java-options",
        pattern=r"Multiple garbage collectors selected|Could not create the Java Virtual Machine|"
        r"Unrecognized VM option",
        advice="Java does not start with its options: look at those in the conf of the Spark connection, and at "
        "JAVA_TOOL_OPTIONS, JDK_JAVA_OPTIONS and SPARK_SUBMIT_OPTS in the environment of this worker. Repeating it "
        "does not help.",
        may_pass=False,
    ),
    Reason(
        name="master-unreachable",
        pattern=rf"{NOT_TAKEN}|All masters are unresponsive|Could not parse Master URL|Failed to connect to master|"
        r"\n: io\.fabric8\.|failed on connection exception(?s:.)*\.yarn\.Client\.submitApplication",
        advice="Spark does not reach its master, or it has just come back: check host and port of the spark "
        "connection, or YARN's files in HADOOP_CONF_DIR.",
    ),
)
"""In this order: the first whose pattern is found names the failure."""

NO_CALL = Reason(
    name="driver-did-not-call",
    pattern="",
    advice="The driver on the cluster has ended, or was given up, before it called this machine. Its Python may be "
    "missing there (spark.pyspark.python), or its hosts do not reach the address and port of "
    "spark.kafka_lake.worker.address in the Spark connection; the cluster's pages have the driver's own log.",
)
"""A failure of deploy mode cluster that no line tells."""


def _subject(job: Job) -> tuple[str, str, dict[str, str]]:
    """Return the name of a job, the state that its failure leaves behind, and the facts of its error."""
    if isinstance(job, StageJob):
        what = f"The Spark job of wave {job.wave} (attempt {job.attempt})"
        return what, "the wave is unharmed and can be run again", {"wave": job.wave, "attempt": job.attempt}
    return f"The Spark job that {job.task}", job.left, {}


def job_failed(
    job: Job, code: int, lines: Iterable[str], secrets: Secrets, *, untold: Reason | None = None
) -> JobFailedError | ConnectionSettingsError:
    """Return the error of a driver that ended with `code`, from its log, or with a reason that no line tells:
    ConnectionSettingsError for one that cannot succeed before a person has changed something."""
    text = [secrets.masked(line) for line in lines]
    reason = recognised(text) or untold
    end = tail(text)
    last = next(reversed(end.splitlines()), "").strip().removeprefix("Caused by: ")
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    what, left, facts = _subject(job)
    name = reason.name if reason else None
    advice = reason.advice if reason else f"Its last words are below; {left}. They end with: {last or 'nothing'}"
    if reason is None and isinstance(job, StageJob) and code > 0 and _is_beside_reading(job, text):
        name, advice = BESIDE_READING, f"No task of it failed, so no record is the cause. {advice}"
    if reason is None and code == -signal.SIGKILL:
        advice = f"A system that is short of memory ends a process so, and its log says it. {advice}"
    if reason and not isinstance(job, StageJob):
        advice = job.advice.get(reason.name, advice)
    message = f"{what} {ended}. {advice}\n{end}"
    if reason and not reason.may_pass:
        return ConnectionSettingsError(message, **facts, reason=name)
    return JobFailedError(message, last_words=last, **facts, reason=name)


def _is_beside_reading(job: StageJob, lines: Iterable[str]) -> bool:
    """Return whether a job's own exception ended it, and none of a task: records are read in tasks, apart from those
    of times beyond Spark's, which the driver reads."""
    text = "\n".join(lines)
    return not job.overflowing and _RAISED.search(text) is not None and _IN_A_TASK.search(text) is None


def why_waiting(lines: Iterable[str], secrets: Secrets) -> str:
    """Return the last words in which a cluster has refused an executor, if there are any."""
    return secrets.masked("".join(_REFUSED_POD.findall("\n".join(lines))[-1:]))


def job_stalled(job: Job, seconds: float, why: str) -> JobFailedError:
    """Return the error of a driver that lives and makes no progress; `why` are the words of its cluster."""
    what, left, facts = _subject(job)
    return JobFailedError(
        f"{what} has made no progress for {seconds / 60:.0f} minutes and was ended. Look for a stuck task or a full "
        f"cluster{why and f' ({why})'}; {left}. Where jobs wait longer, set quiet-minutes in the Spark connection.",
        **facts,
        reason="stalled",
    )


def tail(lines: Iterable[str]) -> str:
    """Return the last lines without stack frames, Java's and Python's."""
    shown = (_PYTHON_HEAD.sub("", line) for line in _without_code(lines))
    kept = [line for line in shown if line.strip() and not _FRAME.match(line)]
    return "\n".join(kept[-_TAIL_LINES:])[-_TAIL_CHARACTERS:]


def _without_code(lines: Iterable[str]) -> Iterator[str]:
    """Leave out Python's lines of a frame: the line that names it, and the indented code and marks below."""
    inside = False
    for line in lines:
        inside = bool(_PYTHON_FRAME.match(line)) or (inside and bool(_CODE.match(line)))
        if not inside:
            yield line


def recognised(lines: Iterable[str]) -> Reason | None:
    """Return the usual reason that the driver's lines show."""
    text = "\n".join(lines)
    return next((reason for reason in REASONS if re.search(reason.pattern, text)), None)
