"""`autoresearch queue` and `top`: the static form, and the live screen in a real terminal, with real runs."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autoresearch.core.far import Handle
from autoresearch.core.places import Kind, Place
from autoresearch.records import order_file
from autoresearch.records.index import Entry, Index
from autoresearch.records.order_file import Observed, Order
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from tests.commands.conftest import Bench


@dataclass
class Pane:
    """A terminal of some size in the test's own tmux server, with the screen in a shell of its own."""

    bench: Bench
    name: str

    def keys(self, *keys: str) -> None:
        self.bench.tmux("send-keys", "-t", f"={self.name}:", *keys)

    def type(self, text: str) -> None:
        self.bench.tmux("send-keys", "-l", "-t", f"={self.name}:", text)

    @property
    def text(self) -> str:
        return self.bench.tmux("capture-pane", "-p", "-t", f"={self.name}:").stdout

    def shows(self, *texts: str) -> str:
        """Wait until all of these are on the screen; gives it."""
        found = [""]

        def there() -> bool:
            found[0] = self.text
            return all(text in found[0] for text in texts)

        try:
            self.bench.until(there, 60.0)
        except AssertionError:
            raise AssertionError(f"{texts} never came:\n{found[0]}") from None
        return found[0]

    def resize(self, columns: int, lines: int) -> None:
        self.bench.tmux("resize-window", "-t", f"={self.name}:", "-x", str(columns), "-y", str(lines))

    @property
    def modes(self) -> str:
        """What tmux knows of its terminal: alternate screen, cursor."""
        said = self.bench.tmux("display-message", "-p", "-t", f"={self.name}:", "#{alternate_on} #{cursor_flag}")
        return said.stdout.strip()


@pytest.fixture
def pane(bench: Bench) -> Callable[..., Pane]:
    """Open a terminal with a shell in it, and type `autoresearch top ...` there."""

    def start(*words: str, columns: int = 80, lines: int = 24) -> Pane:
        one = Pane(bench, f"screen{len(bench.spawned)}-{time.monotonic_ns() % 10**6}")
        flags = [word for name in SHELL for word in ("-e", f"{name}={bench.env[name]}") if name in bench.env]
        size = ("-x", str(columns), "-y", str(lines))
        done = bench.tmux(
            "-f", "/dev/null", "new-session", "-d", "-s", one.name, *size, "-c", str(bench.repo), *flags,
            "-e", "PS1=ready$ ", "-e", "NO_COLOR=", "--", "bash", "--norc", "--noprofile",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        one.shows("ready$")
        one.type(shlex.join([sys.executable, "-m", "autoresearch", "top", *words]))
        one.keys("Enter")
        return one

    yield start  # type: ignore[misc]


SHELL = [name for name in os.environ if name.startswith("AUTORESEARCH")] + [
    *("HOME", "XDG_STATE_HOME", "TMUX_TMPDIR", "PYTHONPATH", "AUTORESEARCH_TMUX_SOCKET", "AUTORESEARCH_GPU_LEASES"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "AUTORESEARCH_TEST", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "PATH"),
]


def test_try(bench: Bench, pane: Callable[..., Pane]) -> None:
    run = bench.ask("run", bench.blueprint("long"), "--detach")["run"]
    bench.event(bench.ask("status", run)["run_dir"], "first_step")
    print(bench.here("queue")[1])
    print(json.dumps(bench.ask("queue"), indent=1))
    p = pane()
    print(p.shows(run, "running", "local"))
    p.resize(200, 30)
    time.sleep(1)
    print(p.text)
    p.resize(60, 15)
    time.sleep(1)
    print(p.text)
    p.keys("Enter")
    time.sleep(1)
    print(p.text)
    p.keys("q")
    time.sleep(.5)
    p.keys("?")
    time.sleep(.5)
    print(p.text)
    p.keys("x")
    p.keys("s")
    p.type("enough")
    p.keys("Enter")
    time.sleep(.5)
    print(p.text)
    p.keys("y")
    time.sleep(2.5)
    print(p.text)
    p.keys("q")
    p.shows("ready$")
    print(p.text, p.modes)
    assert 0
