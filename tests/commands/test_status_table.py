"""`autoresearch status`: the table of all living runs, with real ones; and a log that is followed in a terminal.

The terminal is of a tmux server of its own: keys are sent there, and what a person would see is read there. The runs'
own sessions are on the test's usual server.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autoresearch.commands.layout import cut
from autoresearch.commands.overview import COLUMNS, grid, idea_of, short_campaign
from autoresearch.core.run.job_launcher import Handle
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.targets import Kind, Target
from autoresearch.records import order_file, recorded_run
from autoresearch.records.index import Index, IndexEntry
from autoresearch.records.order_file import Observed, Order
from autoresearch.records.rundir import RunDir
from tests.specs import run_spec

if TYPE_CHECKING:
    from tests.commands.conftest import Bench

NOW = 1_790_000_000.0
LONG = "a-run-with-a-name-of-the-greatest-length-there-is-7k2m9x"


# ------------------------------------------------------------------------------------------ what it stands on


@dataclass
class Far:
    """Runs at other places as their files have them, in the index of a bench; somebody looks at them just now."""

    bench: Bench
    held: list[int] = field(default_factory=list)

    def __call__(self, name: str, state: str, kind: Kind = Kind.SLURM, **seen: Any) -> RunDir:
        root = self.bench.root
        rundir = RunDir(root / "far-runs" / name)
        rundir.path.mkdir(parents=True)
        spec = run_spec(name, rundir.path, trainer="verl", limits=Limits(max_s=600.0), created=NOW)
        recorded_run.write(rundir, spec, {})
        for lock in (rundir.looked, rundir.watched):
            self.held.append(os.open(lock, os.O_RDWR | os.O_CREAT))
            fcntl.flock(self.held[-1], fcntl.LOCK_EX)
        place = Target("gpu1", Kind.SSH, 4) if kind is Kind.SSH else Target(kind.value, kind, 8)
        order = Order(name, place, NOW, str(rundir.far), gpus=1, handle=Handle(name, f"4{len(name)}"))
        order_file.write(rundir, order)
        order_file.observe(rundir, Observed(state, NOW, **seen))
        index = Index(environ=self.bench.env)
        index.add(IndexEntry(name, name, spec.session, str(rundir.path), spec.result_dir, created=NOW))
        return rundir


@pytest.fixture
def far(bench: Bench) -> Iterator[Far]:
    one = Far(bench)
    yield one
    for fd in one.held:
        os.close(fd)


class Pane:
    """A terminal of 120 columns, with a shell in it."""

    def __init__(self, bench: Bench, server: Path) -> None:
        self.bench, self.server = bench, server
        size = ("-x", "120", "-y", "24")
        self.tmux("new-session", "-d", "-s", "outer", *size, "-c", str(bench.repo), "bash --norc --noprofile")
        self.type("PS1='ready$ '; clear")
        self.shows("ready$", without="clear")

    def tmux(self, *args: str) -> str:
        words = ["tmux", "-S", str(self.server), "-f", "/dev/null", *args]
        done = subprocess.run(words, env=self.bench.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", "-t", "=outer:", text)
        self.tmux("send-keys", "-t", "=outer:", "Enter")

    @property
    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "=outer:")

    def shows(self, *texts: str, without: str = "\0") -> None:
        """Wait until all of these are to be seen, and that is not."""
        self.bench.until(lambda: all(text in self.text for text in texts) and without not in self.text)


@pytest.fixture
def pane(bench: Bench, clean_environment: Path) -> Iterator[Pane]:
    """Open a terminal; it is closed after the test."""
    one = Pane(bench, clean_environment / "outer.sock")
    yield one
    one.tmux("kill-server")


# ------------------------------------------------------------------------------------------ what it says


@pytest.mark.system
def test_nothing_runs(bench: Bench) -> None:
    assert bench.here("status")[1].splitlines()[0] == "nothing runs"
    told = bench.ask("status")
    assert (told["command"], told["runs"], told["count"], told["campaigns"]) == ("status", [], 0, [])
    assert told["next"] == ["autoresearch run BLUEPRINT --detach --json"]


@pytest.mark.system
def test_a_run_while_it_lives_and_after(bench: Bench) -> None:
    started = bench.ask("run", bench.blueprint("long"), "--detach")
    run = started["run"]
    bench.event(started["run_dir"], "first_step")
    (line,) = bench.ask("status")["runs"]
    assert (line["run"], line["state"], line["place"], line["launcher"]) == (run, "running", "local", "local")
    assert line["step"] >= 1 and line["metric_name"] == "task_pass_rate@1" and line["metric_value"] == 0.1
    assert 0 < line["deadline_s"] <= 600 and line["elapsed_s"] > 0
    text = bench.here("status", "--last", "10")[1]
    assert text.splitlines()[0] == "1 run: 1 running" and run in text
    bench.ask("stop", run, "--reason", "seen enough")
    told = bench.ask("status", "--last", 3)
    assert told["runs"] == [] and [(r["run"], r["ending"], r["verdict"]) for r in told["ended"]] == [
        (run, "stopped", "discard")
    ]
    assert re.search(rf"{run} .*stopped discard", bench.here("status")[1])  # nothing runs: what ended last


@pytest.mark.system
def test_runs_at_other_places(bench: Bench, far: Far) -> None:
    far("waits-1", "pending", reason="Resources: 8 GPUs of a kind " + "that is not free yet " * 4)
    far("silent-1", "unreachable", Kind.SSH, reason="ssh: connect to host gpu1: No route to host")
    far(LONG, "running", node="n1")
    text = bench.here("status")[1]
    lines = [line for line in text.splitlines() if not line.startswith("next: ")]
    assert max(map(len, lines)) <= 80 and "3 runs: 1 pending, 1 running, 1 unreachable" in lines
    at = next(n for n, line in enumerate(lines) if line.startswith("waits-1 "))
    assert lines[at + 1].startswith("  Resources: 8 GPUs of") and lines[at + 1].endswith("…")
    assert any("No route to host" in line for line in lines)
    assert any("7k2m9x" in line for line in lines)  # what makes it this run and no other
@pytest.mark.system
def test_many_runs_and_damaged_files(bench: Bench, far: Far) -> None:
    index = Index(environ=bench.env)
    for n in range(1000):
        index.add(IndexEntry(f"old-{n}", "old", f"ajet_old_{n}", f"/nowhere/{n}", "/nowhere", created=n))
        index.discard_live(f"old-{n}")
    for n in range(40):
        far(f"run-{n:02}", "running")
    (RunDir(bench.root / "far-runs/run-03").spec).write_text("{")
    (RunDir(bench.root / "far-runs/run-04").order).write_text("nonsense")
    told = bench.ask("status")
    assert (told["count"], told["left_off"], len(told["runs"])) == (40, 10, 30)
    whole = bench.ask("status", "--limit", 0, "--last", 2)
    assert len(whole["runs"]) == 40 and len(whole["ended"]) == 2
    assert {r["run"] for r in whole["runs"] if r["trouble"]} == {"run-03", "run-04"}
    text = bench.here("status")[1]
    assert "and 10 more: --limit 0 shows all" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "/far-runs/" not in line)  # what is damaged, in full


# ------------------------------------------------------------------------------------------ the table


LINE: dict[str, Any] = {
    **{"run": LONG, "state": "unreachable", "place": "gpu1", "launcher": "ssh", "job": "12345", "node": "node17"},
    **{"reason": "no route to host", "hint": None, "unreachable_since": NOW - 4000, "seen": None},
    **{"campaign": "20261121-sort", "slug": "lower-kl", "index": 3},
    **{"replicate": 1, "why": "first", "name": None, "step": 120, "metric_name": "task_pass_rate@1"},
    **{"metric_value": 0.58213, "gpus": ["GPU-1", "GPU-2"], "gpu_indices": [0, 3]},
    **{"gpu_count": 2, "elapsed_s": 7200.0, "deadline_s": 90000.0, "first_step_left_s": None},
    **{"trouble": None, "newest_output": None, "ending": None},
}


def lines_of(count: int = 1, **more: Any) -> list[dict[str, Any]]:
    return [LINE | more for _ in range(count)]


def test_names_of_ideas() -> None:
    assert short_campaign("20261121-sort") == "sort" and short_campaign("sort-20261121") == "sort-20261121"
    assert idea_of(LINE) == "sort #3 lower-kl" and idea_of(LINE | {"why": None}) == ""
    assert idea_of(LINE | {"replicate": 2, "name": "#3 kl=0.1"}) == "sort #3.2 kl=0.1"


def test_columns_go_in_an_order_and_no_line_is_folded() -> None:
    shown: list[list[str]] = []
    for width in range(20, 260):
        whole = grid(lines_of(3), NOW, width)
        assert max(map(len, (whole.header, *whole.rows))) <= max(width, 29)
        shown.append([column.name for column, _ in whole.columns])
    for fewer, more in itertools.pairwise(shown):
        assert set(fewer) <= set(more)
    assert shown[0] == ["run", "state"] and set(shown[-1]) == {column.name for column in COLUMNS}
    at = dict(zip(range(20, 260), shown, strict=True))
    assert {"run", "state", "step", "metric", "left", "target"} <= set(at[60])
    assert {"gpu", "ran"} <= set(at[80])
    wide = grid(lines_of(), NOW, 259).rows[0]
    for text in (
        LONG[:30],
        "ssh:gpu1",
        "12345",
        "unreachable 1h06m",
        "sort #3 lower-kl",
        "0.5821",
        "0,3",
        "25h",
    ):
        assert text in wide


def test_cells() -> None:
    assert cut("abcdef", 4) == "abc…" and cut("abc", 4) == "abc"
    assert cut("a-long-name-7k2m9x", 12, middle=True) == "a-lon…7k2m9x"
    assert cut("測試測試", 5) == "測試…" and cut("測試", 1) == ""
    assert grid(lines_of(gpus=[], gpu_count=4), NOW, 200).rows[0].count("4x") == 1
    empty = grid(lines_of(step=None, metric_value=None, deadline_s=None), NOW, 200)
    assert not empty.size("step") and not empty.size("left") and empty.size("state") == len("unreachable 1h06m")
    silent = lines_of(seen=NOW - 5000, hint="type: ssh gpu1")
    assert "no route to host (type: ssh gpu1), seen 1h23m ago" in grid(silent, NOW, 260).rows[0]
    waits = lines_of(state="pending", unreachable_since=None, queue_s=90.0, elapsed_s=0.0)
    assert "pending 1m30s" in grid(waits, NOW, 200).rows[0] and not grid(waits, NOW, 200).size("left")


# ------------------------------------------------------------------------------------------ in a terminal


@pytest.mark.system
def test_a_log_is_followed_above_the_live_line_of_its_run(bench: Bench, pane: Pane) -> None:
    run = bench.ask("run", bench.blueprint("long"), "--detach")["run"]
    pane.type(shlex.join([sys.executable, "-m", "autoresearch", "logs", run, "-f"]))
    pane.shows("actor/kl_loss", "limit in ", " so far")

    def below() -> bool:
        """Whether the live line stands once, as the last one; a terminal may be looked at while it is drawn."""
        seen = pane.text.rstrip().splitlines()
        return ["so far" in line for line in seen] == [*[False] * (len(seen) - 1), True]

    bench.until(below)
    later = bench.ask("status", run)["step"] + 1
    bench.until(lambda: bench.ask("status", run)["step"] > later)
    bench.ask("stop", run, "--reason", "seen enough")
    bench.until(lambda: pane.text.rstrip().endswith("ready$"))  # the prompt above the log may be in sight yet
    assert f"step:{later} - " in pane.tmux("capture-pane", "-p", "-S", "-", "-t", "=outer:")
