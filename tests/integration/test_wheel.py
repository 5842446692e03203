"""The package as people install it: the wheel, in an environment that has nothing of a clone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributions import DIGESTS, differences

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
BUILD_SECONDS, INSTALL_SECONDS, DEMO_SECONDS = 120, 600, 900


def run(*words: str | Path, seconds: int, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a user of nothing but the new environment does."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "PYTHON", "VIRTUAL"))}
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env=kept, capture_output=True, text=True, timeout=seconds, check=False
    )


@pytest.fixture(scope="module")
def installed(service: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and its extra for Spark, as a resolver without constraints fills it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT),
        seconds=BUILD_SECONDS,
        cwd=folder,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    (wheel,) = folder.glob("*.whl")
    for words in (
        ("venv", "--python", sys.executable, folder / "venv"),
        ("pip", "install", "--python", folder / "venv" / "bin" / "python", f"{wheel}[spark]"),
    ):
        done = run(UV, *words, seconds=INSTALL_SECONDS, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder / "venv" / "bin"


def test_two_builds_of_a_commit_are_alike(tmp_path: Path) -> None:
    """In other folders, with another umask: who builds it again can compare the digests with those of a release."""
    assert differences("HEAD", tmp_path) == {}
    assert {path.suffix for path in tmp_path.iterdir() if path.name != DIGESTS} == {".whl", ".gz"}


def test_every_command_starts_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """All that it needs is among its dependencies, and both wheels of Spark are of one version that the jars fit."""
    shown = run(installed / "kafka-lake", "--help", seconds=60, cwd=tmp_path)
    assert (shown.returncode, "demo" in shown.stdout) == (0, True)
    fetched = run(installed / "kafka-lake", "jars", "fetch", "--json", seconds=INSTALL_SECONDS, cwd=tmp_path)
    assert fetched.returncode == 0, fetched.stderr
    assert json.loads(fetched.stdout)["jars"]


def test_the_demonstration_proves_itself_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """Kafka, Airflow and Spark start, and the table holds what was produced."""
    report = tmp_path / "result.json"
    shown = run(installed / "kafka-lake", "demo", "--exit", "--report", report, seconds=DEMO_SECONDS, cwd=tmp_path)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "PROVED" in shown.stdout + shown.stderr
    assert report.exists()
