"""Pipelines by name: from the folder of the option `[kafka_lake] pipelines_folder`, else from the ledger."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_kafka_lake.core.errors import PipelineFileError, UsageError
from airflow_kafka_lake.core.spec import PIPELINE_NAME, PipelineSpec
from airflow_kafka_lake.pipeline import Pipeline, load_pipelines
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.wiring import assemble

SECTION, OPTION = "kafka_lake", "pipelines_folder"


def pipelines_folder() -> Path | None:
    """Return the configured folder; None when none is configured."""
    from airflow.sdk.configuration import conf

    text = (conf.get(SECTION, OPTION, fallback=None) or "").strip()
    return Path(text).expanduser() if text else None


def find_pipeline(subject: str, ledger_conn_id: str) -> PipelineSpec:
    """Return the pipeline of a file (`*.toml`; relative to the folder) or of a name.

    Raises PipelineFileError for a file that does not validate, UnknownSubjectError for an unknown name.
    """
    folder = pipelines_folder()
    if subject.endswith(".toml") or os.sep in subject:
        return Pipeline.from_toml((folder or Path.cwd()) / subject).spec
    if not PIPELINE_NAME.fullmatch(subject):
        raise UsageError("The pipeline is neither a file (*.toml) nor a legal pipeline name: 1 to 100 of a-z 0-9 _ . -")
    if folder is not None and folder.is_dir():
        for found in load_pipelines(folder).values():
            if isinstance(found, Pipeline) and found.spec.name == subject:
                return found.spec
            if isinstance(found, PipelineFileError) and found.facts.get("pipeline") == subject:
                raise found  # the ledger has it as it was before, which is not what the file says now
    with assemble.open_ledger(ledger_conn_id) as ledger:
        return known_spec(ledger, subject)


def configured_pipelines(
    elsewhere: str | os.PathLike[str] | None = None,
) -> tuple[dict[str, Pipeline], dict[str, str]]:
    """Return the pipelines of the configured folder, or of one `elsewhere`, by name, and the errors of the other files,
    by file or folder.

    For Dag files: one bad file hides no other, and nothing raises.
    """
    folder = pipelines_folder() if elsewhere is None else Path(elsewhere).expanduser()
    if folder is None:
        return {}, {}
    try:
        found = load_pipelines(folder)
    except PipelineFileError as error:
        return {}, {folder.name or str(folder): error.message}
    good = {name: item for name, item in found.items() if isinstance(item, Pipeline)}
    bad = {name: item.message for name, item in found.items() if isinstance(item, PipelineFileError)}
    return good, bad
