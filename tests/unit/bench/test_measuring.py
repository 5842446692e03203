"""What a command costs is what all of its processes cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.measuring import COMMITTED, Cost, measured, tree_cpu

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are adopted on Linux only")

ROOT = Path(__file__).parents[3]
BURN = "import os, time\ndef burn(s):\n while time.process_time() < s: pass\n"


def cost_of(program: str, home: Path, **limits: float) -> Cost:
    return measured([sys.executable, "-c", BURN + program], env=dict(os.environ), home=home, **limits)


@pytest.mark.slow
def test_cpu_of_children_and_of_orphans_counts(tmp_path: Path) -> None:
    """A child that was waited for, and one whose parent has gone before it: both are the command's."""
    program = """
import subprocess, sys
work = "import time\\nheld = b'x' * 2**26\\nwhile time.process_time() < 0.4: pass"
subprocess.run([sys.executable, "-c", work])
subprocess.Popen([sys.executable, "-c", work], start_new_session=True)
"""
    cost = cost_of(program, tmp_path)
    assert cost.code == 0
    assert cost.cpu_seconds >= 0.8
    assert cost.peak_mib >= 64
    assert cost.left == []


@pytest.mark.slow
def test_memory_is_the_commands_however_short_it_is_and_however_much_its_caller_holds(tmp_path: Path) -> None:
    """Linux counts what a caller holds as its child's, and a command can be over before the first sample."""
    held = b"x" * 2**28
    cost = cost_of("held = b'x' * 2**26", tmp_path)
    assert 64 <= cost.peak_mib < len(held) / 2**20


def test_process_that_stays_is_named_and_ended(tmp_path: Path) -> None:
    """A command that leaves something running has not ended well, and the next arm must not run beside it."""
    begun = time.monotonic()
    cost = cost_of("import subprocess\nsubprocess.Popen(['sleep', '60'])", tmp_path, grace=0.1)
    assert cost.left == ["sleep 60"]
    assert cost.seconds < time.monotonic() - begun < 60


def test_time_ends_with_the_commit(tmp_path: Path) -> None:
    """What a worker does after its rows are committed is not the work; what it says has its moment."""
    program = f"""
import json, sys
at = time.monotonic()
print("reading", file=sys.stderr, flush=True)
open("marks.json", "w").write(json.dumps({{"{COMMITTED}": at}}))
burn(0.3)
"""
    cost = cost_of(program, tmp_path)
    assert cost.seconds == cost.marks[COMMITTED] - cost.begun
    assert cost.cpu_seconds >= 0.3
    ((at, line),) = cost.lines
    assert (line, at >= cost.seconds) == ("reading", True)


def test_failure_is_the_commands(tmp_path: Path) -> None:
    """The exit code is that of the command, not of what measures it."""
    assert cost_of("raise SystemExit(3)", tmp_path).code == 3


def test_command_that_never_ends_is_ended(tmp_path: Path) -> None:
    """A race of hours must not hang on one of its runs."""
    assert cost_of("time.sleep(60)", tmp_path, limit=0.5).code == -signal.SIGKILL


def test_interrupted_measurement_leaves_nothing(tmp_path: Path) -> None:
    """What it has started is in a session of its own, where no signal of a terminal reaches it."""
    os.mkfifo(tmp_path / "started")
    program = "import os, time\nopen('started', 'w').write(str(os.getpid()))\ntime.sleep(60)"
    asked = {"command": [sys.executable, "-c", program], "env": {}, "report": "none", "grace": 15.0, "limit": 60.0}
    (tmp_path / "request.json").write_text(json.dumps(asked))
    words = [sys.executable, "-m", "bench.measuring", str(tmp_path / "request.json")]
    supervisor = subprocess.Popen(words, cwd=ROOT)
    command = psutil.Process(int((tmp_path / "started").read_text()))
    supervisor.terminate()
    assert supervisor.wait(30) == 1
    psutil.wait_procs([command], timeout=30)
    assert not command.is_running()


def test_cpu_of_a_running_tree_only_grows() -> None:
    """This process has cost something, and a process that is gone costs nothing."""
    before = tree_cpu(os.getpid())
    assert 0 < before <= tree_cpu(os.getpid())
    assert tree_cpu(2**22 + 1) == 0.0
