"""Writes the session in README.md from a real one: python -m tests.readme_session (some three minutes).

tests/commands/test_demo.py compares its lines with what a demo of a few steps prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"(?<=<!-- session -->\n).*(?=<!-- end of session -->)", re.DOTALL)
COMMAND = ("demo", "--campaign")
HOME = "/home/you/.local/state"
HEAD, TAIL = 7, 10  # lines that are shown of its beginning and of its end
ONLY_LONGER = ("retest", "fresh", "confirm", "pending", "The seed")  # lines that a demo of a few steps does not print


def shorten(blueprints: Path, steps: int = 2) -> None:
    """Make it a demo of a few steps, whose runs are over in a second."""
    few = {"sft_steps": 2, "total_steps": steps, "test_freq": 2}
    for path in (blueprints / "recipes" / f"{name}.yaml" for name in ("quickstart", "campaign")):
        text = path.read_text()
        path.write_text(re.sub(r"(?m)^(\w+_steps|test_freq): \d+", lambda at: f"{at[1]}: {few[at[1]]}", text))


def shown_lines() -> list[str]:
    """The lines in README that were printed."""
    block = BLOCK.search(README.read_text(encoding="utf-8"))
    assert block is not None
    return [line for line in block[0].splitlines() if line[:1] not in ("`", "$", "") and line != "..."]


def shape(line: str) -> str:
    """A line without what differs from one session to the next: numbers, names of ideas and runs, verdicts, paths."""
    line = re.sub(r"\S*/\S+", "PATH", line)
    line = re.sub(r"tmux .*|\b(campaign)-[a-z0-9]{6}\b", r"\1", line)
    line = re.sub(r"(#\d+ )[^:,;()]*", r"\1IDEA", line)
    line = re.sub(r"\b(?:keep|discard|pending|crash)\b", "VERDICT", line)
    line = re.sub(r" \(noise [^)]*\)|; about .*|, (?:kept|confirmed)(?=\))", "", line)
    return re.sub(r"[+-]?\d[\d.,:]*(?:e-?\d+)?[smh]?", "0", line)


def session(root: Path) -> str:
    """What the command prints, its own directory shown as the usual one."""
    own = {"XDG_STATE_HOME": str(root), "AUTORESEARCH_TMUX_SOCKET": str(root / "tmux"), "COLUMNS": "100"}
    environ = {**os.environ, **own}
    line = [sys.executable, "-m", "autoresearch", *COMMAND]
    where = root.parent  # paths below it are shown from there
    done = subprocess.run(line, cwd=where, env=environ, stdout=-1, stderr=subprocess.STDOUT, text=True, check=True)
    text = done.stdout.replace(f"-S {root}/tmux ", "").replace(str(root), HOME).replace(root.name, HOME)
    return re.sub(r"\b\d{8}-\d{6}-\w{8}\b", "20261125-070000", text)


def write() -> None:
    """Put a new session into README."""
    with tempfile.TemporaryDirectory() as folder:
        lines = session(Path(folder)).splitlines()
        subprocess.run(["tmux", "-S", f"{folder}/tmux", "kill-server"], check=False, capture_output=True)
    shown = lines if len(lines) <= HEAD + TAIL else [*lines[:HEAD], "...", *lines[-TAIL:]]
    text = "\n".join(["```console", f"$ autoresearch {' '.join(COMMAND)}", *shown, "```", ""])
    README.write_text(BLOCK.sub(lambda _: text, README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
