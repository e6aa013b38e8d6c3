"""Ten `kill -9` of a campaign's controller at random moments, in each of 20 campaigns: what is lost, twice, left over.

Real git, tmux, Runners, collectors and trainers. The controller is `autoresearch campaign control`, forked from
a process that has imported everything: there is no start-up between two kills, so that they all hit its work,
and 200 of them fit into some minutes. A campaign that ends before its tenth kill gets two more ideas and goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.commands.daemons import control_campaign as control
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.campaign.state import CampaignState
from autoresearch.lab.campaign_report import report  # noqa: F401 - what a controller imports
from autoresearch.lab.campaign_setup import start_campaign
from autoresearch.lab.campaign_setup.campaign_file import read_campaign_file
from autoresearch.lab.campaign_setup.preflight import preflight
from autoresearch.lab.campaign_setup.resolve_campaign import resolve_campaign
from autoresearch.lab.campaigns import controller  # noqa: F401 - what a controller imports
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import write_atomically
from tests.bench.result import Result
from tests.bench.yard import World, kill, processes_with, until

KILLS = 10
IDEAS = 6
LONGEST_S = 0.7  # from the start of a controller to its kill, at most
TRAINER = """
import os, sys
with open(os.environ["STARTS"], "a") as file:
    file.write(os.environ["AUTORESEARCH_RUN_ID"] + "\\n")
recipe = dict(line.split(": ") for line in open(sys.argv[1]).read().splitlines())
print("step:1 - actor/kl_loss:0.001 - actor/pg_loss:0.1 - critic/rewards/mean:0.1")
rate = 0.1 * float(recipe["lr"])
print(f"step:1 - global_steps:1 - pass_n:2 - task_pass_rate@1:{rate} - mean_reward:{rate}")
"""
CAMPAIGN = {
    "blueprint": "exp.md",
    "prefix": "autoresearch/killed",
    "count": IDEAS,
    "baseline": 2,
    "retests": 1,
    "confirm": False,
    "parallel": 2,
    "proposer": "random",
    "space": {"lr": {"low": 0.001, "high": 0.9}},
}


@dataclass
class Tally:
    """What was found, one number for each campaign."""

    kills: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    twice: list[float] = field(default_factory=list)
    orphans: list[float] = field(default_factory=list)
    wrong: list[float] = field(default_factory=list)


def run(repeats: int = 5) -> list[Result]:
    """20 campaigns for five repeats."""
    tally, chance = Tally(), random.Random(2026)
    with contextlib.suppress(ImportError):
        import matplotlib.pyplot  # noqa: F401 - else each controller that reports pays for it
    for _ in range(4 * repeats):
        with tempfile.TemporaryDirectory() as scratch:
            _campaign(Path(scratch), chance, tally)
    note = f"{len(tally.kills)} campaigns, {sum(tally.kills):.0f} kills, {sum(tally.runs):.0f} runs"
    found = [
        ("runs without a row", tally.lost),
        ("rows and starts of a run that it has twice", tally.twice),
        ("processes, sessions, directories and worktrees left over", tally.orphans),
        ("ideas too many or too few, indices twice", tally.wrong),
    ]
    return [Result(what, "ten random kill -9", values, (), 0, "", worst=True, note=note) for what, values in found]


def _campaign(scratch: Path, chance: random.Random, tally: Tally) -> None:
    world = World.make(scratch, _fill)
    os.environ["STARTS"] = str(scratch / "starts")
    blueprint = world.blueprint("exp", "python -S -E train.py exp.yaml")
    (world.repo / "exp.md").write_text(blueprint.read_text().replace("- path: NA", "- path: exp.yaml"))
    with contextlib.chdir(world.repo):
        parts = real_parts()
        plan = resolve_campaign(
            read_campaign_file("campaign.yaml", {}, start=world.repo, now=parts.clock()),
            parts,
        )
        preflight(plan)
        place = start_campaign.create(plan, parts)
    kills = 0
    while kills < KILLS:
        kills += _killed(place, chance.uniform(0.0, LONGEST_S))
        state = CampaignHistory(place).state()
        if kills < KILLS and state.phase == "ended":
            start_campaign.continue_with(place, {"count": (state.spec.rules.count or 0) + 2})
    if CampaignHistory(place).state().phase != "ended":
        with _controlled(place) as pid:
            os.waitpid(pid, 0)
    tally.kills.append(kills)
    _count(place, world, tally)
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]) / "autoresearch", ignore_errors=True)


def _fill(repo: Path) -> None:
    (repo / "train.py").write_text(TRAINER)
    (repo / "exp.yaml").write_text("lr: 0.1\ndata.seed: 7\n")
    (repo / "campaign.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in CAMPAIGN.items()))


def _killed(place: CampaignDir, after_s: float) -> int:
    """Let a controller work for so long and kill it; 0 where it was through before."""
    with _controlled(place) as pid:
        until_ = time.monotonic() + after_s
        while time.monotonic() < until_:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                return 0
            time.sleep(0.001)
        kill(pid)
        os.waitpid(pid, 0)
        return 1


@contextlib.contextmanager
def _controlled(place: CampaignDir) -> Iterator[int]:
    """A controller as `campaign control` is one, in a child that shares our imports."""
    passed = b"\0".join(f"{k}={v}".encode() for k, v in os.environ.items())
    write_atomically(place.path / "controller.environment", passed, mode=0o600, durable=False)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            out = os.open(place.path / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(out, 1)
            os.dup2(out, 2)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            control(str(place.path))
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - a forked child must never return
            print(repr(error), flush=True)
            os._exit(1)
    try:
        yield pid
    finally:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                kill(pid)
                os.waitpid(pid, 0)


def _count(place: CampaignDir, world: World, tally: Tally) -> None:
    state = CampaignHistory(place).state()
    runs = [line.split("\t") for line in place.ledger.read_text().splitlines()]
    rows = [cells[runs[0].index("run_id")] for cells in runs[1:]]
    began = (world.place / "starts").read_text().split()
    told = [str(line["run"]) for line in campaign_records.entries(place.journal) if line["do"] == "started"]
    ids = {str(line["run"]) for line in campaign_records.entries(place.journal) if "run" in line} | set(began)
    with contextlib.suppress(TimeoutError):  # collectors are niced and may be at it still
        until(lambda: not _processes(ids), seconds=30, pause=0.05)
    tally.runs.append(len(rows))
    tally.lost.append(len({*began, *told} - set(rows)))
    tally.twice.append(len(rows) - len(set(rows)) + len(began) - len(set(began)))
    tally.orphans.append(len(_processes(ids)) + _left(place, world, state, rows))
    ideas = [idea.index for idea in state.ideas if idea.attempted]
    tally.wrong.append(abs(len(ideas) - (state.spec.rules.count or 0)) + len(ideas) - len(set(ideas)))


def _processes(runs: set[str]) -> list[int]:
    return [pid for run in runs for pid in processes_with(f"AUTORESEARCH_RUN_ID={run}\0", "environ")]


def _left(place: CampaignDir, world: World, state: CampaignState, rows: list[str]) -> int:
    import subprocess

    def lines(*words: str) -> list[str]:
        return subprocess.run(words, cwd=world.repo, capture_output=True, text=True).stdout.splitlines()

    listed = lines("tmux", "-S", os.environ["AUTORESEARCH_TMUX_SOCKET"], "list-sessions", "-F", "#{session_name}")
    sessions = [name for name in listed if name.startswith("ajet_")]
    directories = list(place.path.glob("*/launching"))
    trees = lines("git", "worktree", "list")[1:]
    branches = set(lines("git", "for-each-ref", "--format=%(refname:short)", f"refs/heads/{state.spec.prefix}/"))
    strays = branches ^ {idea.branch for idea in state.ideas}
    return len(sessions) + max(0, len(directories) - len(set(rows))) + len(trees) + len(strays)
