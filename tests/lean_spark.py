"""A session of the tests on the class path of the product's drivers, so that their class archive fits it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow_kafka_lake.adapters.java import spark_home
from airflow_kafka_lake.adapters.spark_submit.runner import archive_path
from airflow_kafka_lake.adapters.spark_submit.submission import (
    QUICK_START,
    all_jars,
    java_options,
    java_start,
    options_of_spark,
)


@contextmanager
def lean_home(jars: Sequence[Path], memory: str) -> Iterator[str]:
    """Have PySpark start Java as a driver is started, while the block lasts; yields the home of such a Spark.

    Java passes over an archive that is not there or does not fit, so that only ever saves time.
    """
    home = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    # With one compiler Java keeps room for 48 MB of code: in a run of all tests it may get full, and is compiled anew.
    quick = [*QUICK_START, "-XX:ReservedCodeCacheSize=240m", f"-XX:SharedArchiveFile={archive_path(list(jars))}"]
    options = [*options_of_spark([*map(str, all_jars(jars))], {}, memory), *quick]
    (home / "java.options").write_text(java_options(home, options, {}, memory))
    script = home / "bin" / "spark-submit"
    script.parent.mkdir()
    java, options_file, *_ = java_start(home)
    script.write_text(f'#!/bin/sh\nexec {java} {options_file} org.apache.spark.deploy.SparkSubmit "$@"\n')
    script.chmod(0o700)
    (home / "python").symlink_to(spark_home() / "python")
    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield str(home)
    finally:
        os.environ.pop("SPARK_HOME", None)  # another thread may have come first
        if before is not None:
            os.environ["SPARK_HOME"] = before
