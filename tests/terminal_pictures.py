"""What a terminal of 80 and of 200 columns shows: real commands in a real tmux, drawn by Rich and Chromium.

The runs are short ones of the embedded trainer; status and ledger are those of a campaign that lies there already.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from autoresearch.commands.demo import BLUEPRINT, demo_project
from tests.browser import Browser

ROOT = Path(__file__).parents[1]
WIDTHS = (80, 200)  # columns
LINES = 100  # of the pane: nothing scrolls away
SECONDS = 120  # after which a command hangs
SHORT, LONG = 100, 100_000  # steps of the run that is shown, and of the one that is seen to live
COLOURS = 64
COMMANDS = (
    f"run {BLUEPRINT}",
    "campaign status campaign",
    "ledger show campaign/results.tsv --last 12",
    "status --last 3",
)
PAGE = (
    '<!doctype html><meta charset="utf-8"><script>const drawn = true</script><style>{stylesheet}'
    "body {{margin: 0; overflow: hidden; background: {background}; color: {foreground}}}"
    "pre {{display: inline-block; margin: 0; padding: 12px 14px; font: 13px/17px 'DejaVu Sans Mono', monospace}}"
    "</style><pre>{code}</pre>"
)
BOX = "(({width, height}) => [width, height])(document.querySelector('pre').getBoundingClientRect())"


def terminals(chrome: Browser, campaign: Path, scratch: Path, pictures: Path) -> None:
    """Write terminal-80.png and terminal-200.png; `campaign` is a campaign's directory, `scratch` an empty one."""
    environ = _environment(scratch)
    with _living_run(environ):
        for width in WIDTHS:
            project = _project(environ, SHORT)
            (project / "campaign").symlink_to(campaign)
            page = scratch / f"terminal-{width}.html"
            page.write_text(_html(_pane(width, project, environ), width), encoding="utf-8")
            chrome.open(page.as_uri(), width=4000, height=3000)
            across, down = (round(side + 0.5) for side in chrome.js(BOX))
            chrome.open(page.as_uri(), width=across, height=down)
            picture = pictures / f"terminal-{width}.png"
            chrome.shot(picture)
            Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


def _environment(scratch: Path) -> dict[str, str]:
    """State, `autoresearch` and a tmux server of our own; the latter by tmux's variable, so that lines are as usual."""
    program = scratch / "bin/autoresearch"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m autoresearch "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    gone = {"TMUX", "TMUX_PANE", "AUTORESEARCH_TMUX_SOCKET", "COLUMNS", "LINES", "NO_COLOR", "CI"}
    ours = {"XDG_STATE_HOME": str(scratch / "state"), "TMUX_TMPDIR": str(scratch), "PATH": path}
    usual = {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    return {name: value for name, value in os.environ.items() if name not in gone} | ours | usual


def _project(environ: Mapping[str, str], steps: int) -> Path:
    """A repository with the quickstart, whose recipe takes so many steps."""
    project = demo_project(environ)
    recipe = project / "blueprints/recipes/quickstart.yaml"
    text, count = re.subn(r"(?m)^(total_steps: )\d+", rf"\g<1>{steps}", recipe.read_text(encoding="utf-8"))
    assert count == 1
    recipe.write_text(text, encoding="utf-8")
    return project


@contextlib.contextmanager
def _living_run(environ: Mapping[str, str]) -> Iterator[None]:
    """A run that trains as long as the block, then both tmux servers are ended."""
    project = _project(environ, LONG)
    try:
        _call(environ, project, "autoresearch", "run", BLUEPRINT, "--detach")
        yield
        _call(environ, project, "autoresearch", "stop", "last", "--reason", "the pictures are made")
    finally:
        own = Path(environ["TMUX_TMPDIR"])
        for socket in (own / "panes", own / f"tmux-{os.getuid()}/default"):
            if socket.exists():
                subprocess.run(["tmux", "-S", str(socket), "kill-server"], check=False, stderr=-1, timeout=SECONDS)


def _pane(width: int, project: Path, environ: Mapping[str, str]) -> str:
    """What a pane shows after the commands, with its colours."""
    tmux = ("tmux", "-f", "/dev/null", "-S", f"{environ['TMUX_TMPDIR']}/panes")
    name = f"columns-{width}"
    end = f"{shlex.join(tmux)} wait-for -S {name}"
    lines = [f"echo {shlex.quote(f'$ autoresearch {one}')}; autoresearch {one}; echo" for one in COMMANDS]
    script = "\n".join(["unset TMUX TMUX_PANE", *lines, end, "exec cat"])
    size = ("-x", str(width), "-y", str(LINES))
    _call(environ, project, *tmux, "new-session", "-d", "-s", name, *size, "sh", "-c", script)
    _call(environ, project, *tmux, "wait-for", name)
    return _call(environ, project, *tmux, "capture-pane", "-ep", "-t", f"={name}:").rstrip()


def _call(environ: Mapping[str, str], directory: Path, *words: str) -> str:
    done = subprocess.run(words, env=environ, cwd=directory, check=True, timeout=SECONDS, stdout=-1, text=True)
    return done.stdout


def _html(shown: str, width: int) -> str:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(shown), soft_wrap=True)
        return console.export_html(theme=MONOKAI, code_format=PAGE)
