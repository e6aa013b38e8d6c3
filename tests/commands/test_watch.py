"""`autoresearch status --watch`: printed once, and drawn again in a real terminal, with real runs.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autoresearch.commands.layout import cut
from autoresearch.commands.overview import COLUMNS, grid, idea_of, place_text, run_filter, short_campaign
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


@dataclass
class Pane:
    """A terminal of some size, with a shell in it."""

    bench: Bench
    server: str
    size: tuple[int, int]

    def tmux(self, *args: str) -> str:
        words = ["tmux", "-S", self.server, "-f", "/dev/null", *args]
        done = subprocess.run(words, env=self.bench.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "=outer:", *keys)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", "-t", "=outer:", text)

    @property
    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "=outer:")

    def shows(self, *texts: str, without: tuple[str, ...] = ()) -> str:
        """Wait until all of these are to be seen, and none of those; what is to be seen then."""
        seen = [""]

        def there() -> bool:
            seen[0] = self.text
            return all(text in seen[0] for text in texts) and not any(text in seen[0] for text in without)

        try:
            self.bench.until(there)
        except AssertionError:
            raise AssertionError(f"{texts} without {without} never came:\n{seen[0]}") from None
        return seen[0]

    def resize(self, columns: int, lines: int) -> None:
        self.tmux("resize-window", "-t", "=outer:", "-x", str(columns), "-y", str(lines))

    def top(self, *words: str) -> None:
        """Type the command."""
        self.type(shlex.join([sys.executable, "-m", "autoresearch", "status", "--watch", *words]))
        self.keys("Enter")

    @property
    def pid(self) -> int:
        """The screen's process: the shell's child."""
        shell = self.tmux("display-message", "-p", "-t", "=outer:", "#{pane_pid}").strip()
        found: list[str] = self.bench.until(lambda: Path(f"/proc/{shell}/task/{shell}/children").read_text().split())
        return int(found[0])

    def given_back(self) -> bool:
        """Whether the terminal is as a shell wants it: its screen, its cursor, its modes."""
        modes = self.tmux("display-message", "-p", "-t", "=outer:", "#{alternate_on} #{cursor_flag} #{wrap_flag}")
        tty = self.tmux("display-message", "-p", "-t", "=outer:", "#{pane_tty}").strip()
        stty = subprocess.run(["stty", "-F", tty, "-a"], capture_output=True, text=True, check=True).stdout
        return modes.split() == ["0", "1", "1"] and " ixon" in stty and "-ixon" not in stty

    def ends(self, code: int) -> None:
        """Wait until the shell is there again; the exit code, and the terminal as it was.

        The screen that comes back shows older prompts before the program is gone, which drops what was typed till then.
        """
        self.bench.until(lambda: self.text.rstrip().endswith("\nready$"))
        self.type("echo code $?")
        self.keys("Enter")
        self.shows(f"code {code}")
        self.bench.until(self.given_back)


@pytest.fixture
def pane(bench: Bench, clean_environment: Path) -> Iterator[Callable[..., Pane]]:
    """Open a terminal; it is closed after the test."""
    opened: list[Pane] = []

    def start(*words: str, columns: int = 80, lines: int = 24) -> Pane:
        one = Pane(bench, str(clean_environment / "outer.sock"), (columns, lines))
        opened.append(one)
        size = ("-x", str(columns), "-y", str(lines))
        one.tmux("new-session", "-d", "-s", "outer", *size, "-c", str(bench.repo), "bash --norc --noprofile")
        one.type("PS1='ready$ '; clear")
        one.keys("Enter")
        one.shows("ready$", without=("clear",))
        one.top(*words)
        return one

    yield start
    for one in opened:
        one.tmux("kill-server")


# ------------------------------------------------------------------------------------------ without a terminal


@pytest.mark.system
def test_nothing_runs(bench: Bench) -> None:
    assert bench.here("status")[1].splitlines()[0] == "nothing runs"
    told = bench.ask("status", "--watch")
    assert (told["command"], told["runs"], told["count"], told["campaigns"]) == ("status", [], 0, [])
    assert told["places"][0]["place"] == "local" and told["next"] == ["autoresearch run BLUEPRINT --detach --json"]


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--state", "pendig"), "did you mean pending?"),
        (("--state", "running,,dancing"), "'dancing'"),
        (("--last", "-1"), "--last"),
    ],
)
def test_bad_input(bench: Bench, words: tuple[str, ...], says: str) -> None:
    code, out, err = bench.here("status", "--watch", *words)
    assert code == 2 and says in err and not out
    assert bench.ask("status", "--watch", *words, check=2)["error"]["code"] == "usage"


@pytest.mark.system
def test_a_run_while_it_lives_and_after(bench: Bench) -> None:
    started = bench.ask("run", bench.blueprint("long"), "--detach")
    run = started["run"]
    bench.event(started["run_dir"], "first_step")
    (line,) = bench.ask("status", "--watch")["runs"]
    assert (line["run"], line["state"], line["place"], line["launcher"]) == (run, "running", "local", "local")
    assert line["step"] >= 1 and line["metric_name"] == "task_pass_rate@1" and line["metric_value"] == 0.1
    assert 0 < line["left_s"] <= 600 and line["limit"] == "max_time" and line["elapsed_s"] > 0
    text = bench.here("status", "--watch", "--last", "10")[1]
    assert text.splitlines()[0] == "1 run: 1 running" and run in text
    bench.ask("stop", run, "--reason", "seen enough")
    told = bench.ask("status", "--watch", "--last", 3)
    assert told["runs"] == [] and [(r["run"], r["ending"], r["verdict"]) for r in told["ended"]] == [
        (run, "stopped", "discard")
    ]
    assert re.search(rf"{run} .*stopped discard", bench.here("status", "--watch", "--last", "10")[1])
    assert re.search(rf"{run} .*stopped discard", bench.here("status")[1])  # nothing runs: what ended last


@pytest.mark.system
def test_runs_at_other_places(bench: Bench, far: Far) -> None:
    far("waits-1", "pending", reason="Resources: 8 GPUs of a kind " + "that is not free yet " * 4)
    far("silent-1", "unreachable", Kind.SSH, reason="ssh: connect to host gpu1: No route to host")
    far(LONG, "running", node="n1")
    text = bench.here("status", "--watch")[1]
    lines = [line for line in text.splitlines() if not line.startswith("next: ")]
    assert max(map(len, lines)) <= 80 and "3 runs: 1 pending, 1 running, 1 unreachable" in lines
    assert [line for line in lines if line.startswith("slurm: 2/8 slots, 6 free, 1 pending")]
    assert [line for line in lines if line.startswith("ssh:gpu1: 1/4 slots, 3 free, unreachable since ")]
    at = next(n for n, line in enumerate(lines) if line.startswith("waits-1 "))
    assert lines[at + 1].startswith("  Resources: 8 GPUs of") and lines[at + 1].endswith("…")
    assert any("No route to host" in line for line in lines)
    assert any("7k2m9x" in line for line in lines)  # what makes it this run and no other
    told = bench.ask("status", "--watch", "--target", "ssh", "--state", "unreachable,pending")
    assert [(r["run"], r["unreachable_since"], r["gpu_count"]) for r in told["runs"]] == [("silent-1", NOW, 1)]
    assert bench.ask("status", "--watch", "--state", "pending")["runs"][0]["job"] == "47"
    assert bench.ask("status", "--watch", "--campaign", "nobody")["count"] == 0


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
    told = bench.ask("status", "--watch")
    assert (told["count"], told["left_off"], len(told["runs"])) == (40, 10, 30)
    whole = bench.ask("status", "--watch", "--limit", 0, "--last", 2)
    assert len(whole["runs"]) == 40 and len(whole["ended"]) == 2
    assert {r["run"] for r in whole["runs"] if r["trouble"]} == {"run-03", "run-04"}
    text = bench.here("status", "--watch")[1]
    assert "and 10 more: --limit 0 shows all" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "/far-runs/" not in line)  # what is damaged, in full


@pytest.mark.system
def test_settings_that_cannot_be_read_are_told_and_hide_nothing(bench: Bench, far: Far) -> None:
    far("waits-1", "pending")
    (bench.repo / "autoresearch.yaml").write_text("launcher: frobnicate\n")
    told = bench.ask("status", "--watch")
    assert told["count"] == 1 and "frobnicate" in told["remarks"][0]
    (bench.repo / "autoresearch.yaml").write_text("launcher: local:3, slurm:8, ray:2\n")
    places = {place["place"]: place for place in bench.ask("status", "--watch")["places"]}
    assert (places["local"]["slots"], places["ray"]["free"], places["slurm"]["used"]) == (3, 2, 1)


# ------------------------------------------------------------------------------------------ the table


LINE: dict[str, Any] = {
    **{"run": LONG, "state": "unreachable", "place": "gpu1", "launcher": "ssh", "job": "12345", "node": "node17"},
    **{"reason": "no route to host", "since": NOW - 4000, "campaign": "20261121-sort", "slug": "lower-kl", "index": 3},
    **{"replicate": 1, "why": "first", "name": None, "step": 120, "metric_name": "task_pass_rate@1"},
    **{"metric_value": 0.58213, "gpus": ["GPU-1", "GPU-2"], "gpu_indices": [0, 3], "gpu_memory_mib": [30000, 30000]},
    **{"gpu_count": 2, "elapsed_s": 7200.0, "left_s": 90000.0, "trouble": None, "newest_output": None, "ending": None},
}


def lines_of(count: int = 1, **more: Any) -> list[dict[str, Any]]:
    return [LINE | more for _ in range(count)]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("ssh", "", ""), "uo"),
        (("gpu1", "", ""), "uo"),
        (("ssh:gpu1", "", ""), "uo"),
        (("ss", "", ""), ""),  # a part of a target is none
        (("", "sort", "pending,unreachable"), "uo"),
        (("", "copy", ""), ""),
        (("", "", "running"), "ro"),
    ],
)
def test_which_runs_are_shown(options: tuple[str, str, str], shown: str) -> None:
    runs = lines_of() + lines_of(state="running", place="local", launcher="local", campaign=None)
    runs += lines_of(state="ended")
    found = [one["state"] for one in filter(run_filter(*options), runs)]
    assert "".join({"unreachable": "u", "running": "r", "ended": "o"}[state] for state in found) == shown


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
        "0,3  59G",
        "25h",
    ):
        assert text in wide


def test_cells() -> None:
    assert cut("abcdef", 4) == "abc…" and cut("abc", 4) == "abc"
    assert cut("a-long-name-7k2m9x", 12, middle=True) == "a-lon…7k2m9x"
    assert cut("測試測試", 5) == "測試…" and cut("測試", 1) == ""
    assert grid(lines_of(gpus=[], gpu_count=4), NOW, 200).rows[0].count("4x") == 1
    empty = grid(lines_of(step=None, metric_value=None, left_s=None), NOW, 200)
    assert not empty.size("step") and not empty.size("left") and empty.size("state") == len("unreachable 1h06m")
    silent = {"place": "g", "launcher": "ssh", "slots": 4, "used": 2, "free": 2, "pending": 0, "gpus": None}
    silent |= {"unreachable_since": NOW - 60, "reason": "no route", "seen": NOW - 300}
    assert place_text(silent, NOW) == "ssh:g: 2/4 slots, 2 free, unreachable since 1m: no route"
    assert place_text(silent | {"unreachable_since": None}, NOW) == "ssh:g: 2/4 slots, 2 free, seen 5m ago"


# ------------------------------------------------------------------------------------------ in a terminal


@pytest.mark.system
def test_it_is_drawn_again_until_ctrl_c(bench: Bench, far: Far, pane: Callable[..., Pane]) -> None:
    killed = {"AUTORESEARCH_FAILPOINT": "collect.measured:kill"}
    started = bench.ask("run", bench.blueprint("ok"), "--detach", **killed)
    rundir = RunDir(Path(started["run_dir"]))
    bench.until(lambda: rundir.exit_record.exists() and not bench.carriers())
    gone = far("gone-1", "running")
    silent = far("silent-1", "unreachable", Kind.SSH, reason="no route to host")
    one = pane()
    one.shows("2 runs: 1 running, 1 unreachable", "gone-1", "silent-1", "no route to host")
    bench.until(rundir.collected.exists)
    order_file.observe(silent, Observed("running", NOW, NOW))
    one.shows("2 runs: 2 running", without=("unreachable",))
    for path in gone.path.iterdir():
        path.unlink()
    gone.path.rmdir()
    one.shows("1 run: 1 running", "silent-1", without=("gone-1",))
    one.resize(60, 8)
    one.shows("1 run: 1 running", "silent-1")
    one.keys("C-c")
    one.ends(0)


@pytest.mark.system
def test_a_terminal_that_can_nothing_gets_it_once(bench: Bench, far: Far, pane: Callable[..., Pane]) -> None:
    far("waits-1", "pending")
    one = pane("--help")
    one.type("clear; export TERM=dumb")
    one.keys("Enter")
    one.top()
    one.shows("1 run: 1 pending", "next: autoresearch status waits-1")


@pytest.mark.system
def test_a_log_is_followed_above_the_live_line_of_its_run(bench: Bench, pane: Callable[..., Pane]) -> None:
    run = bench.ask("run", bench.blueprint("long"), "--detach")["run"]
    one = pane("--help", columns=120)
    one.type("clear; " + shlex.join([sys.executable, "-m", "autoresearch", "logs", run, "-f"]))
    one.keys("Enter")
    one.shows("actor/kl_loss", "limit in ", " so far")

    def below() -> bool:
        """Whether the live line stands once, as the last one; a terminal may be looked at while it is drawn."""
        seen = one.text.rstrip().splitlines()
        return ["so far" in line for line in seen] == [*[False] * (len(seen) - 1), True]

    bench.until(below)
    later = bench.ask("status", run)["step"] + 1
    bench.until(lambda: bench.ask("status", run)["step"] > later)
    bench.ask("stop", run, "--reason", "seen enough")
    one.ends(0)
    assert f"step:{later} - " in one.tmux("capture-pane", "-p", "-S", "-", "-t", "=outer:")
