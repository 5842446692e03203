"""The text of .proto files compiled by protoc, for registries that do not give descriptors themselves."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from airflow_kafka_lake.core.errors import SchemaMismatchError, UnavailableError

_LIMIT_SECONDS = 60
_WARNING = re.compile(r"WARNING|[IW]\d{4} ")


def compiled(
    main: str, texts: Mapping[str, str], descriptors: Mapping[str, FileDescriptorProto]
) -> dict[str, FileDescriptorProto]:
    """Return a file and all that it imports, by import name; `descriptors` are files that need no compiling.

    Raises SchemaMismatchError for text that protoc refuses, or where protoc is not installed.
    """
    if find_spec("grpc_tools") is None:
        raise SchemaMismatchError(
            "the registry gives it as text only, and there is no compiler here. "
            "Run: pip install 'airflow-kafka-lake[schema-registry]'"
        )
    with tempfile.TemporaryDirectory(prefix="kafka-lake-protoc-") as scratch:
        folder = Path(scratch)
        for name, text in texts.items():
            file = folder / "source" / _legal(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        (folder / "given").write_bytes(FileDescriptorSet(file=descriptors.values()).SerializeToString())
        _run(folder, main)
        made = FileDescriptorSet.FromString((folder / "made").read_bytes())
    return {file.name: file for file in made.file}


def _legal(name: str) -> PurePosixPath:
    """Refuse an import name that would be written elsewhere than into the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or not name.isprintable():
        raise SchemaMismatchError("one of its references has a name that is no path below a folder")
    return path


def _run(folder: Path, main: str) -> None:
    # Nothing is imported from the folder we are in (-P): other people's files may lie there.
    command = [
        sys.executable, "-P", "-m", "grpc_tools.protoc", f"--proto_path={folder / 'source'}", "--include_imports",
        f"--descriptor_set_in={folder / 'given'}", f"--descriptor_set_out={folder / 'made'}", main,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"Compiling a Protobuf schema took over {_LIMIT_SECONDS} s. Repeat it.") from None
    if done.returncode != 0:
        lines = done.stderr.replace(f"{folder / 'source'}/", "").splitlines()
        message = " ".join(line.strip() for line in lines if not _WARNING.match(line))
        raise SchemaMismatchError(f"protoc refuses it: {message[:300]}")
