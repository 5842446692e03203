"""The jar of the classes for Spark, built of their sources: `python -m tests.consumer_jar` writes it into the package.

The jar carries the sources that it was built of, so that one of others is seen without a compiler.
"""

from __future__ import annotations

import io
import secrets
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.adapters.jars.cache import JarSet, verified
from airflow_kafka_lake.adapters.java import spark_home
from airflow_kafka_lake.adapters.spark_submit.submission import PACKAGE
from airflow_kafka_lake.jobs import shared_consumer

if TYPE_CHECKING:
    import pytest

SOURCE = PACKAGE / "jobs" / "SharedConsumer.java"
SOURCES = tuple(sorted(SOURCE.parent.glob("*.java")))
TARGET = PACKAGE / "jobs" / shared_consumer.JAR
JAVA = "17"
"""The oldest Java that Spark runs on. Its own compiler makes the same bytes anywhere."""


def built() -> bytes:
    """Return the jar, with Spark's jars and the pinned ones to compile against."""
    libraries = [spark_home() / "jars" / "*", *verified(JarSet.SPARK)]
    options = ["--release", JAVA, "-encoding", "UTF-8", "-g:source,lines", "-proc:none", "-Xlint:none"]
    with tempfile.TemporaryDirectory() as folder:
        words = ["javac", *options, "-cp", ":".join(map(str, libraries)), "-d", folder, *map(str, SOURCES)]
        subprocess.run(words, check=True, stderr=subprocess.PIPE)
        found = {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*.class")}
    return _zipped(found | {f"{PACKAGE.name}/{source.name}": source.read_bytes() for source in SOURCES})


def read_with(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have jobs read with a class of a changed source, which their Spark compiles."""
    name = f"Changed{secrets.token_hex(4)}"
    changed = text.replace("SharedConsumer", name)

    def consumer_class(spark: Any) -> Any:
        java, context = spark._jvm, spark.sparkContext
        compiler = java.org.codehaus.janino.SimpleCompiler()
        # Jars that came with the submit are known to the thread only.
        compiler.setParentClassLoader(java.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(changed)
        jar = Path(tempfile.mkdtemp(dir=context._temp_dir)) / f"{name}.jar"
        classes = compiler.getBytecodes()
        jar.write_bytes(_zipped({f"{each.replace('.', '/')}.class": bytes(classes[each]) for each in classes}))
        context._jsc.addJar(str(jar))
        (constructor,) = compiler.getClassLoader().loadClass(f"{PACKAGE.name}.{name}").getConstructors()

        def reader(*given: object) -> Any:
            arguments = context._gateway.new_array(java.java.lang.Object, len(given))
            for place, value in enumerate(given):
                arguments[place] = value
            return constructor.newInstance(arguments)

        return reader

    monkeypatch.setattr(shared_consumer, "consumer_class", consumer_class)


def _zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


if __name__ == "__main__":
    TARGET.write_bytes(built())
    sys.stdout.write(f"{TARGET.name}: {TARGET.stat().st_size} bytes\n")
