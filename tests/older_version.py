"""The command line of an earlier commit, as processes: what they leave in a test's place, today's code goes on with."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rig import Ended, Rig

ROOT = Path(__file__).parents[1]
PARTS = ("airflow_kafka_lake", "tests/kit")
"""What is taken of the commit: the package, and the kit that kills its processes at a failpoint."""
FAILPOINTS = "KIT_FAILPOINTS"


def archive(commit: str, root: Path = ROOT) -> bytes:
    """Return the package as it was at a commit, as a tar; the test fails in a sentence where the clone has none."""
    words = ["git", "-C", str(root), "archive", "--format=tar", commit, *PARTS]
    try:
        found = subprocess.run(words, capture_output=True, check=False)
    except OSError as error:
        pytest.fail(f"git does not start ({error}), so the package as it was at commit {commit} cannot be had.", False)
    if found.returncode:
        said = found.stderr.decode(errors="replace").strip()
        pytest.fail(
            f"This clone cannot give the package as it was at commit {commit}, with which this test makes an older "
            f"lake. A clone without its history gets it by: git fetch --unshallow. git says: {said}",
            False,
        )
    return found.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderVersion:
    """The package of an earlier commit, unpacked in a folder."""

    folder: Path
    rig: Rig

    @classmethod
    def unpacked(cls, commit: str, folder: Path, rig: Rig) -> OlderVersion:
        """Unpack a commit into a new folder."""
        tar = archive(commit)
        folder.mkdir()
        subprocess.run(["tar", "x"], cwd=folder, input=tar, check=True)
        return cls(folder=folder, rig=rig)

    def command(self, *words: str, code: int = 0) -> Ended:
        """Run a command to its end, with a spark-submit of its own; it ends as expected."""
        ended = self.rig.end(self.rig.start(*words, env=self._environment()))
        assert ended.code == code, ended.err or ended.out
        return ended

    def killed(self, point: str, *words: str) -> None:
        """Run a command that is killed with SIGKILL at a failpoint."""
        armed = self._environment(self.folder / "tests/kit/site") | {FAILPOINTS: f"{point}=kill"}
        ended = self.rig.end(self.rig.start(*words, env=armed))
        assert ended.code == -signal.SIGKILL, f"it was not killed at {point}: {ended.err or ended.out}"

    def _environment(self, *before: Path) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join(map(str, (*before, self.folder)))}
