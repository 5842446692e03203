"""The code blocks of a page, run as a reader runs them, and what they print beside what the page says they print.

Blocks without a language, and those marked `sh`, are commands; all of a page go to one shell. A `toml` block is the
file that the line before it names. A `text` block is what the commands since the one before have printed: line by line,
where `…` stands for anything, and alone on a line for any lines. A block below `<!-- not run: why -->` is left out.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"(?P<before>[^\n]*)\n+```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^`(?P<file>[\w./-]+)`:$")
COMMANDS = {"", "sh", "console"}
ANY = "…"
END = "@@ end of block"


@dataclass(frozen=True, slots=True)
class Block:
    """A code block, with the line of text before it."""

    language: str
    code: str
    before: str

    @property
    def runs(self) -> bool:
        """Whether a shell runs it."""
        return not self.before.startswith("<!-- not run") and (self.language in COMMANDS or bool(self.file))

    @property
    def file(self) -> str | None:
        """The file that it is, where the line before it names one."""
        named = NAMED.match(self.before) if self.language == "toml" else None
        return named["file"] if named else None

    @property
    def script(self) -> str:
        """What a shell runs: the commands, or the writing of the file."""
        return f"cat > {self.file} <<'END OF FILE'\n{self.code}END OF FILE\n" if self.file else self.code


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, in its order."""
    found = FENCE.finditer("\n\n" + page.read_text(encoding="utf-8"))
    return [Block(match["language"], match["code"], match["before"]) for match in found]


def run(page: Path, home: Path, environment: Mapping[str, str], names: Mapping[str, str], seconds: float) -> list[str]:
    """Run all blocks of a page in a folder; return each difference between what is printed and what the page says.

    `names` are what stands here for names of the page, such as an address.
    """
    parts = [block for block in blocks(page) if block.runs or block.language == "text"]
    script = "".join(f"{block.script}echo '{END}'\n" for block in parts if block.runs)
    for name, here in names.items():
        script = script.replace(name, here)
    done = subprocess.run(
        ["bash", "-u", "-c", script],
        cwd=home,
        env=os.environ | dict(environment),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    printed = iter(done.stdout.split(f"{END}\n"))
    differences = list(_differences(parts, printed))
    return [*differences, done.stderr] if differences or done.returncode else []


def _differences(parts: list[Block], printed: Iterator[str]) -> Iterator[str]:
    since = ""
    for block in parts:
        if block.runs:
            since += next(printed, "")
        else:
            if not is_like(block.code, since):
                yield f"the page says:\n{block.code}\nprinted was:\n{since}"
            since = ""


def is_like(said: str, printed: str) -> bool:
    """Return whether something printed is as a page says, where `…` stands for anything."""
    lines = [re.escape(line).replace(re.escape(ANY), r"[^\n]*") for line in said.splitlines()]
    pattern = "".join(r"(?:[^\n]*\n)*?" if line == r"[^\n]*" else rf"{line}[ ]*\n" for line in lines)
    return re.fullmatch(pattern, printed) is not None
