"""One ingest by hand: choose a pipeline and a period in the form, and start it.

Without a topic, partitions and a period: what is missing up to the pipeline's end policy, and what earlier runs left
unfinished. From and to take an offset or a time with its offset from UTC; `[from, to)` may also lie before everything
that was read so far. A dry run shows the plan in the log of the task `plan` and writes nothing.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_kafka_lake.task_groups import kafka_lake_ingest
from airflow_kafka_lake.wiring.pipelines import configured_pipelines

PIPELINES, PROBLEMS = configured_pipelines()
NAMES = list(PIPELINES)
INVALID = "".join(f"\n\n**Invalid file** {file}: {problem}" for file, problem in PROBLEMS.items())
EMPTY = "\n\n**No pipelines:** put pipeline files (`*.toml`) into the folder of `[kafka_lake] pipelines_folder`."

DATE, CLOCK, ZONE = (
    "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?",
    "([Zz]|[+-][0-9]{2}:[0-9]{2})",
)
BOUND = f"^([0-9]{{1,19}}|{DATE}[Tt ]{CLOCK}{ZONE})$"
BOUND_FORM = "an offset (digits), or a time such as 2026-01-31T06:00:00Z"


def choice() -> Param:
    """Return the choice of a pipeline, which a person makes: none is chosen beforehand, and none is no run."""
    words = "which pipeline; choices are the files in [kafka_lake] pipelines_folder"
    if not NAMES:
        return Param(type="string", minLength=1, maxLength=0, title="Pipeline", description=words)
    return Param(type="string", enum=NAMES, title="Pipeline", description=words)


FIELDS = {
    "pipeline": choice(),
    "topic": Param(
        None,
        type=["null", "string"],
        pattern="^[A-Za-z0-9._-]{1,249}$",
        title="Topic",
        description="only this topic; empty for all topics of the pipeline",
    ),
    "partitions": Param(
        None,
        type=["null", "array"],
        items={"type": "integer", "minimum": 0, "maximum": 2147483647},
        minItems=1,
        maxItems=10000,
        title="Partitions",
        description="only these partitions, such as [0, 3]; empty for all",
    ),
    "from": Param(
        None,
        type=["null", "string"],
        pattern=BOUND,
        title="From",
        description=f"begin of the period: {BOUND_FORM}",
    ),
    "to": Param(
        None,
        type=["null", "string"],
        pattern=BOUND,
        title="To",
        description=f"end of the period, exclusive: {BOUND_FORM}",
    ),
    "all_waves": Param(
        False,
        type="boolean",
        title="Everything unfinished",
        description="also finish what earlier runs left outside of the topic, partitions and period above",
    ),
    "dry_run": Param(False, type="boolean", title="Dry run", description="only show what would be read"),
}

with DAG(
    "kafka_lake_manual",
    schedule=None,
    max_active_runs=4,
    doc_md=(__doc__ or "") + INVALID + ("" if NAMES else EMPTY),
    tags=["kafka-lake"],
    params=FIELDS,
) as dag:
    kafka_lake_ingest(
        pipeline="{{ params['pipeline'] }}",
        topic="{{ params['topic'] or '' }}",
        partitions="{{ '' if params['partitions'] is none else params['partitions'] | tojson }}",
        from_="{{ params['from'] or '' }}",
        to="{{ params['to'] or '' }}",
        all_waves="{{ params['all_waves'] | tojson }}",
        dry_run="{{ params['dry_run'] | tojson }}",
        conf_keys=sorted(FIELDS),
    )
