"""`python -m tests.distributions FOLDER`, or `make dist`: sdist and wheel of the commit, built twice and alike.

They are built from what the commit holds, not from what else lies in the folder. Beside them: the digests, and what
the wheel brings when it is installed, in CycloneDX's form.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIGESTS, BILL = "SHA256SUMS", "sbom.cdx.json"
PLACEHOLDER = ".example"
UMASKS = (0o022, 0o077)
"""Of the two that build: nothing of a person's settings is in a package."""


def build(commit: str, folder: Path, umask: int = 0o022, root: Path = ROOT) -> dict[str, str]:
    """Build sdist and wheel of a commit into a folder; returns the SHA-256 of each file by name."""
    git = ["git", "-C", str(root)]
    tar = subprocess.run([*git, "archive", commit], capture_output=True, check=True).stdout
    made = subprocess.run([*git, "log", "-1", "--format=%ct", commit], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["tar", "x"], cwd=place, input=tar, check=True, umask=umask)
        subprocess.run(
            [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), place],
            env=os.environ | {"SOURCE_DATE_EPOCH": made.stdout.strip()},
            stdout=subprocess.DEVNULL,
            check=True,
            umask=umask,
        )
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def differences(commit: str, folder: Path, root: Path = ROOT) -> Mapping[str, str]:
    """Build twice, the first time into the folder; returns the files that differ, with the second digest."""
    with tempfile.TemporaryDirectory() as other:
        first = build(commit, folder, UMASKS[0], root)
        second = build(commit, Path(other), UMASKS[1], root)
    (folder / DIGESTS).write_text("".join(f"{digest}  {name}\n" for name, digest in first.items()), encoding="utf-8")
    return {name: digest for name, digest in second.items() if first.get(name) != digest}


def bill_of_materials(folder: Path) -> None:
    """Install the wheel beside nothing else, with the versions of the tests, and write what then is there."""
    (wheel,) = folder.glob("*.whl")
    name, version, *_ = wheel.name.split("-")
    beside = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as place:
        python = Path(place) / "bin" / "python"
        install = ("pip", "install", "--quiet", "--python", python, "-c", ROOT / "constraints.txt")
        describe = ("environment", "--pyproject", ROOT / "pyproject.toml", "--mc-type", "library")
        for words in (
            (beside / "uv", "venv", "--quiet", "--python", sys.executable, place),
            # Found in the folder, not named by it: the list would name this machine's folder too.
            (beside / "uv", *install, "--find-links", folder, f"{name}=={version}"),
            (beside / "cyclonedx-py", *describe, "--output-reproducible", "-o", folder / BILL, python),
        ):
            subprocess.run([str(word) for word in words], check=True)


def main(folder: Path) -> int:
    """Build, compare, and list; returns the exit code."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if found := differences("HEAD", folder):
        sys.stderr.write(f"two builds differ: {', '.join(found)}\n")
        return 1
    sys.stdout.write(f"two builds are alike:\n{(folder / DIGESTS).read_text(encoding='utf-8')}")
    bill_of_materials(folder)
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    if any(PLACEHOLDER in url for url in urls.values()):
        sys.stdout.write("not to be uploaded: [project.urls] in pyproject.toml names no real address yet\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
