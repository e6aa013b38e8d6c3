"""What the harness adds to each idea of a coding agent: all time of a search but the agent's and the trainers' own.

A whole campaign of code ideas by its own controller: propose, edit, guard, commit, run, judge, as shipped. The agent
is a shell script that needs some milliseconds for a turn and says itself when it began and ended, and so does the
trainer, so that everything else is ours: also the start of the agent's process, its sandbox, the guard's Runner, and
the git and the documents of the run. Nothing can hide behind a turn that takes no time; where turns take minutes a
good part of this is done meanwhile. Counted from the end of the baseline's trainer to the last idea's row.
"""

from __future__ import annotations

import itertools
import json
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState
from autoresearch.lab.agent_work.sandbox import why_not
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.records.campaign_records import CampaignDir
from tests.bench import agent_campaign
from tests.bench.bench_snapshot import FILES, fill
from tests.bench.idea_split import OPENED, PARTS
from tests.bench.result import Result

IDEAS = 8
REACHED = {
    "a small repository, no sandbox": 0.645,
    "a small repository, bubblewrap": 0.668,
    f"{FILES} files, no sandbox": 3.172,
    f"{FILES} files, bubblewrap": 4.011,
}
GOAL_S = 1.0  # of issue and README, set before anything was measured
MOST_S = 300.0
CAMPAIGNS = 1  # of each kind
SAYS = "began=$EPOCHREALTIME", 'echo "own $began $EPOCHREALTIME" >&2\n'

Span = tuple[str, float, float]


def run(repeats: int = 5) -> list[Result]:
    """Seconds per idea, for a small and a large repository, with and without bubblewrap; prints where they go."""
    kinds = {f"{name}, {_confined(boxed)}": found for name, boxed, found in _campaigns(min(repeats, CAMPAIGNS))}
    print(_table(kinds), flush=True)
    return [
        Result(
            f"what the harness adds to an idea of a coding agent ({name}; {IDEAS} ideas)",
            "",
            [one.added_s / IDEAS for one in found],
            [],
            GOAL_S,
            "s",
            note=f"worktrees made once: {_mean(one.once_s for one in found):.1f} s in all; controller's and git's "
            f"CPU {_mean(one.cpu_s for one in found) / IDEAS:.2f} s; meanwhile a bare git process took "
            f"{1000 * _mean(one.git_s for one in found):.0f} ms",
            reached=REACHED[name],
        )
        for name, found in kinds.items()
    ]


def _mean(values: Iterable[float]) -> float:
    return statistics.mean(values)


def _campaigns(times: int) -> Iterable[tuple[str, bool, list[Campaign]]]:
    boxes = (False, True) if not why_not() else (False,)
    if len(boxes) == 1:
        print(f"   without bubblewrap only: {why_not()}", flush=True)
    for name, files in (("a small repository", _few), (f"{FILES} files", fill)):
        for boxed in boxes:
            yield name, boxed, [_campaign(files, boxed) for _ in range(times)]


def _confined(boxed: bool) -> str:
    return "bubblewrap" if boxed else "no sandbox"


@dataclass(frozen=True, slots=True)
class Campaign:
    """When whose time it was, on the wall clock."""

    began: float
    ended: float
    agent: Sequence[Span]
    trainer: Sequence[Span]
    ours: Sequence[Span]
    cpu_s: float  # of the controller, and of what it started and waited for: the whole campaign, without Runners
    git_s: float  # that a bare git process took just before and after

    @property
    def once_s(self) -> float:
        """What the first use of each worktree took longer than those after it: that is when it is made."""
        total = 0.0
        for name in ("worktree: opened", "edit: patch tried", "prepare"):
            first, *later = (end - start for part, start, end in self.ours if part == name and end > self.began)
            total += max(0.0, first - statistics.median(later))
        return total

    @property
    def own_s(self) -> float:
        """The agent's and the trainers' own time."""
        return sum(end - start for _, start, end in (*self.agent, *self.trainer))

    @property
    def added_s(self) -> float:
        """All the rest."""
        return self.ended - self.began - self.own_s

    def parts(self) -> dict[str, float]:
        """The rest by what was done in it: a moment belongs to what began last; what nobody did is `waiting`."""
        own = [(start, end) for _, start, end in (*self.agent, *self.trainer)]
        every = (*self.ours, *self.agent, *self.trainer)
        edges = sorted({self.began, self.ended, *(at for _, *both in every for at in both)})
        found: dict[str, float] = {}
        for start, end in itertools.pairwise(edges):
            if start < self.began or end > self.ended or any(a <= start < b for a, b in own):
                continue
            active = [(a, name) for name, a, b in self.ours if a <= start < b]
            name = max(active)[1] if active else "waiting"
            found[name] = found.get(name, 0.0) + end - start
        return found


def _split(found: Sequence[Campaign]) -> dict[str, float]:
    """Seconds per idea of each part, the longest first."""
    names = {name for one in found for name in one.parts()}
    mean = {name: statistics.mean(one.parts().get(name, 0.0) for one in found) / IDEAS for name in names}
    return dict(sorted(mean.items(), key=lambda pair: -pair[1]))


def _few(repo: Path) -> None:
    """Nothing more than the parts that are edited."""


def _campaign(files: Callable[[Path], None], boxed: bool) -> Campaign:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        place = Path(scratch)
        flags = {
            "guard": ["true"],
            "editors": 1,  # so that the times of turns and runs add up
            "sandbox": "need" if boxed else "off",
            "prefix": "try/overhead",
        }
        directory = agent_campaign.declared(place, IDEAS, flags, fill=files, agent=SAYS)
        spans, before, git = place / "spans.json", _cpu_s(), [_git_s()]
        agent_campaign.run(directory, spans, MOST_S)
        state = CampaignHistory(directory).state()
        _check(state, directory)
        return _read(directory, json.loads(spans.read_text()), _cpu_s() - before, _mean([*git, _git_s()]))


def _git_s() -> float:
    took = []
    for _ in range(15):
        began = time.perf_counter()
        subprocess.run(["git", "--version"], check=True, capture_output=True)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _check(state: CampaignState, directory: CampaignDir) -> None:
    ran = [idea for idea in state.ideas if idea.index > 1 and any(row.returncode == 0 for row in idea.rows)]
    if len(ran) != IDEAS:
        raise RuntimeError(f"{len(ran)} of {IDEAS} ideas ran:\n{directory.log.read_text()[-3000:]}")


def _read(directory: CampaignDir, spans: list[Span], cpu_s: float, git_s: float) -> Campaign:
    agent = []
    for path in sorted(directory.turns.glob("*/err")):
        _, start, end = path.read_text().split()
        agent.append(("agent", float(start), float(end)))
    trainer = [("trainer", began, ended) for began, ended in agent_campaign.trained(directory)]
    ours = [(name, start, end) for name, start, end in spans]
    ours += _until_first(ours, trainer)
    ended = max(end for name, _, end in ours if name == "collect")
    return Campaign(trainer[0][2], ended, agent, trainer[1:], ours, cpu_s, git_s)


def _until_first(ours: Sequence[Span], trainer: Sequence[Span]) -> list[Span]:
    """The Runner's part: from the word to the trainer's first instruction, and from its last one to the collecting."""
    gone = [end for name, _, end in ours if name == "launch"]
    taken = [start for name, start, _ in ours if name == "collect"]
    found = [("launch", a, start) for a, (_, start, _) in zip(gone, trainer, strict=True) if a < start]
    return found + [("collect", end, b) for b, (_, _, end) in zip(taken, trainer, strict=True)]


def _table(kinds: Mapping[str, Sequence[Campaign]]) -> str:
    """Every part, in seconds per idea."""
    splits = [_split(found) for found in kinds.values()]
    lines = [f"| seconds per idea | {' | '.join(kinds)} |", f"|---|{'---:|' * len(kinds)}"]
    for part in [*dict.fromkeys(part for _, _, part in PARTS), *OPENED, "waiting"]:
        if any(split.get(part, 0.0) >= 0.0005 for split in splits):
            lines.append(f"| {part} | {' | '.join(f'{split.get(part, 0.0):.3f}' for split in splits)} |")
    added = [_mean(one.added_s for one in found) / IDEAS for found in kinds.values()]
    later = [_mean(one.added_s - one.once_s for one in found) / IDEAS for found in kinds.values()]
    lines.append(f"| **in all** | {' | '.join(f'{one:.3f}' for one in added)} |")
    lines.append(f"| in all, less what is done once | {' | '.join(f'{one:.3f}' for one in later)} |")
    return "\n".join(lines)
