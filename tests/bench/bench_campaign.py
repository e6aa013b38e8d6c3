"""What a campaign wastes between two runs, through the real controller, and how much of its time it trains.

The gap goes from the trainer's last instruction to the next trainer's first. Between them lie: noticing the end,
ending what was left behind, the exit record; reading the metric, judging it among all ideas, a row with fsync, the
run's documents; asking every stop rule again; the next run's directories, session and Runner, whose branch and
worktree were made while the last run trained. The 10,000 files of both worktrees are compared with their commits:
what did the run change, and what did it change where the next one waits. Two campaigns take turns: one that is
young, and one with thousands of ideas, rows and branches behind it (made by hand: journal, ledger, index, refs).
The published way, measured in turn, commits, appends a row and types the next command into a shell, in the same
repository.

The trainer is a bash script, so that no interpreter's start is measured. It ends when the bench says so, once the
next run is ready, some time after everything has become quiet.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.run.ledger_row import COLUMNS, LedgerRow
from autoresearch.lab.campaign_setup import start_campaign
from autoresearch.lab.campaign_setup.campaign_keys import read_campaign_file
from autoresearch.lab.campaign_setup.resolve_campaign import resolve_campaign
from autoresearch.records import campaign_records, ledger
from autoresearch.records.campaign_records import CampaignDir
from tests.bench import published
from tests.bench.result import Result
from tests.bench.yard import FILES, Tmux, World, fill, private_tmux, start_ms, until

YOUNG, OLD = (10, 10), (5_000, 10_000)  # ideas (each has a branch), rows
RUN_S, IDEAS = 300.0, 24  # of the simulated campaign
QUIET_S = 0.7

_RUN_LINES = ("prepared", "started", "withdrawn")

TRAINER = """echo "first $EPOCHREALTIME $AUTORESEARCH_RUN_ID" >>"$1/stamps"
echo "step:1 - actor/kl_loss:0.1 - actor/pg_loss:0.2"
echo "step:1 - task_pass_rate@1:0.45 - pass_n:2"
until [ -e "$1/end-$AUTORESEARCH_RUN_ID" ]; do sleep 0.05; done
echo "last $EPOCHREALTIME $AUTORESEARCH_RUN_ID" >>"$1/stamps"
"""

PUBLISHED = """echo "first $EPOCHREALTIME" >>"$1"
sleep "$2"
echo "last $EPOCHREALTIME" >>"$1"
"""


def run(repeats: int = 5) -> list[Result]:
    """Gaps of both campaigns, the published way and a bare interpreter, in turn; then the share of time."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        place = Path(scratch)
        bash = shutil.which("bash")
        assert bash
        (place / "trainer").symlink_to(bash)
        (place / "train.sh").write_text(PUBLISHED)
        theirs = World.make(place / "published", fill)
        young, old = Night.make(place / "young", repeats, *YOUNG), Night.make(place / "old", repeats, *OLD)
        bare: list[float] = []
        gaps: list[float] = []
        with private_tmux(place) as tmux:
            young.begin()
            old.begin()
            for turn in range(repeats):
                for night in (young, old) if turn % 2 else (old, young):
                    night.turn()
                bare.append(start_ms())
                gaps.append(1000 * _theirs(place, theirs, tmux, turn, (turn + 0.5) / repeats))
            for night in (young, old):
                night.finish()
    return [
        *_gaps(young, old, bare, gaps),
        *(_share(night) for night in (young, old)),
    ]


def _gaps(young: Night, old: Night, bare: list[float], theirs: list[float]) -> list[Result]:
    what = "campaign: trainer exits: first instruction of the next trainer"
    python, other = "a start of Python with argparse and json", "GitPython, send-keys, 2 s poll"
    return [
        *(Result(f"{what} ({n.name})", python, n.gaps, bare, 20) for n in (young, old)),
        *(Result(f"{what} ({n.name}; {FILES} files)", other, n.gaps, theirs, 0.2) for n in (young, old)),
        Result(f"{what}, {old.name}", young.name, old.gaps, young.gaps, 2),
    ]


def _share(night: Night) -> Result:
    """The share of wall time in which the trainers of a campaign of 5-minute runs run, one at a time.

    Gaps, beginning and end were measured here; only the length of the runs is put in.
    """
    trained = IDEAS * RUN_S
    gaps = [(IDEAS - 1) * gap / 1000 for gap in night.gaps]
    shares = [100 * trained / (trained + night.lead_s + gap + night.tail_s) for gap in gaps]
    note = f"{night.lead_s:.1f} s to the first run and {night.tail_s:.1f} s from the last included"
    what = f"campaign of {IDEAS} runs of 5 min: share of its time in which a trainer runs ({night.name})"
    return Result(what, "", shares, [], 99.0, unit="%", at_least=True, note=note, reached=99.9)


def _command(place: Path, stamps: Path, seconds: float) -> str:
    return f"{place}/trainer {place}/train.sh {stamps} {seconds:.2f}"


def _theirs(place: Path, world: World, tmux: Tmux, turn: int, phase: float) -> float:
    first, second = place / f"theirs{turn}.1", place / f"theirs{turn}.2"
    ledger = place / "results.tsv"
    length = published.POLL_S * (1 + phase)  # it ends somewhere between the second poll and the third
    published.start(tmux.socket, f"turn{turn}", _command(place, first, length))
    (world.repo / "train.py").write_text(f"# {turn}\n")  # the next hypothesis: one file differs
    until(lambda: not published.pane_is_idle(tmux.socket, f"turn{turn}"))
    published.poll_until_idle(tmux.socket, f"turn{turn}")
    published.append_row(ledger, turn, "keep", 0.5)
    published.keep_code(world.repo, f"next{turn}")
    published.start(tmux.socket, f"next{turn}", _command(place, second, 0.1))
    gap = _gap(first, second)
    until(lambda: published.pane_is_idle(tmux.socket, f"next{turn}"))
    return gap


def _gap(first: Path, second: Path) -> float:
    until(lambda: second.exists() and second.read_text().endswith("\n"))
    last = next(line for line in first.read_text().splitlines() if line.startswith("last"))
    begun = next(line for line in second.read_text().splitlines() if line.startswith("first"))
    return float(begun.split()[1]) - float(last.split()[1])


@dataclass
class Night:
    """A campaign of which the bench decides when each run ends."""

    place: Path
    name: str
    spec: CampaignSpec
    events_end: int
    gaps: list[float] = field(default_factory=list)  # ms
    lead_s: float = 0.0
    tail_s: float = 0.0

    @classmethod
    def make(cls, place: Path, repeats: int, ideas: int, rows: int) -> Night:
        """A repository of 10,000 files, a queue, and a campaign that has lived already."""
        world = World.make(place, fill)
        (place / "train.sh").write_text(TRAINER)
        blueprint = world.searched("night", f"bash {place}/train.sh {place}")
        entries = [f"- {{slug: fresh-{n}, overrides: {{level: {n}}}}}" for n in range(1, repeats + 4)]
        (place / "ideas.yaml").write_text("\n".join(entries) + "\n")
        flags = {"queue": str(place / "ideas.yaml"), "count": ideas + repeats + 1, "baseline": 1, "confirm": False}
        flags |= {"parallel": 1}
        parts = real_parts()
        campaign_file = read_campaign_file(
            str(blueprint), {**flags, "prefix": f"try/{place.name}"}, start=place, now=parts.clock()
        )
        plan = resolve_campaign(campaign_file, parts)
        made = start_campaign.create(plan, parts)
        spec = plan.spec
        _live_through(made, spec, world.repo, ideas, rows)
        return cls(place, f"{rows} rows, {ideas} branches", spec, made.events.stat().st_size)

    @property
    def records(self) -> CampaignDir:
        return CampaignDir(Path(self.spec.directory))

    def begin(self) -> None:
        """Start the controller, as `campaign start` does."""
        began = time.time()
        start_campaign.start_controller(self.records, real_parts())
        until(lambda: self.stamps("first"))
        self.lead_s = next(iter(self.stamps("first").values())) - began

    def turn(self) -> None:
        """Let the run that trains end once the next one is ready."""
        (live,) = self.stamps("first").keys() - self.stamps("last").keys()
        until(self._is_ready)
        time.sleep(QUIET_S)
        (self.place / f"end-{live}").touch()
        until(lambda: self.stamps("first").keys() - self.stamps("last").keys() - {live})
        (after,) = self.stamps("first").keys() - self.stamps("last").keys()
        self.gaps.append(1000 * (self.stamps("first")[after] - self.stamps("last")[live]))

    def finish(self) -> None:
        """The last run, and the end of the campaign with all its documents."""
        (live,) = self.stamps("first").keys() - self.stamps("last").keys()
        (self.place / f"end-{live}").touch()
        until(self.records.flag.exists, 60)
        self.tail_s = self.records.flag.stat().st_mtime - self.stamps("last")[live]
        until(lambda: not self.records.controlled)

    def stamps(self, kind: str) -> dict[str, float]:
        """When the trainer of each run was at its first or last instruction, in seconds since the epoch."""
        path = self.place / "stamps"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return {run: float(at) for what, at, run in map(str.split, lines) if what == kind}

    def _is_ready(self) -> bool:
        with self.records.events.open("rb") as file:
            file.seek(self.events_end)
            lines = [json.loads(line) for line in file if line.endswith(b"\n")]
        runs = {kind: {line["run"] for line in lines if line["do"] == kind} for kind in _RUN_LINES}
        return bool(runs["prepared"] - runs["started"] - runs["withdrawn"] - self.stamps("first").keys())


def _live_through(place: CampaignDir, spec: CampaignSpec, repo: Path, ideas: int, rows: int) -> None:
    """Write down a past: `ideas` ideas (the baseline is one) on a branch each, `rows` runs that are over.

    A quarter of the ideas lies a little above the baseline, within the noise, as most that are tried do.
    """
    chance, now = random.Random(1), time.time() - 1e6
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True)
    commit = head.stdout.strip()
    journal: list[dict[str, object]] = [{"do": "state", "state": "running", "reason": ""}]
    table, entries, branches = [ledger.join(COLUMNS)], [], []
    for index in range(1, ideas + 1):
        slug = "baseline" if index == 1 else f"past-{index}"
        branch = spec.branch(slug)
        branches.append(f"create refs/heads/{branch} {commit}\n")
        hypothesis = {"slug": slug, "sentence": f"Try {index}", "parent": "baseline", "overrides": {"level": -index}}
        told = {"index": index, "parent": "" if index == 1 else "baseline", "parent_commit": commit, "commit": commit}
        journal.append({"do": "idea", "hypothesis": hypothesis, "branch": branch, "fingerprint": slug, **told})
        level = 0.5 if index == 1 else 0.502 if index % 4 == 0 and rows > ideas else chance.uniform(0.3, 0.48)
        for replicate in range(1, rows // ideas + 1):
            now += 60
            run, run_dir = f"{slug}-{index:03x}x{replicate:02d}", str(place.path / f"{slug}-{replicate}")
            why = "baseline" if index == 1 else "first" if replicate == 1 else "retest"
            journal.append({"do": "prepared", "index": index, "run": run, "run_dir": run_dir, "replicate": replicate,
                            "why": why, "commit": commit, "seed": replicate, "round": 0})  # fmt: skip
            journal.append({"do": "started", "run": run})
            value = level + (0.01 if replicate % 2 else -0.01) * (ideas > 10)
            row = LedgerRow(index, branch, commit, commit, "recipe.yaml", "task_pass_rate@1", value, 1.0, 1.0, "tmux",
                            run, f"bash {'train ' * 12}", f"{run_dir}/run.log", "keep" if index == 1 else "discard",
                            f"Try {index} [-0.1 over 0.5 (1 against 1 run, sd 0.014, 5000 df): no better]",
                            run, replicate, "finished", 0, trainer="verl", run_dir=run_dir, campaign=spec.name,
                            started=now, ended=now + 60)  # fmt: skip
            journal.append({"do": "ran", "row": {name: cell for name, cell in row.cells().items() if cell}})
            table.append(ledger.join(row.cells().values()))
            entries.append({"run": run, "slug": slug, "session": f"ajet_{run}", "run_dir": run_dir,
                            "result_dir": f"{spec.result_dir}/{slug}-{replicate}", "created": now})  # fmt: skip
    place.ledger.write_bytes(b"".join(table))
    begun = campaign_records.read(place).chain
    with place.events.open("ab") as events:
        own = begun.last
        for n, event in enumerate(journal, begun.n + 1):
            line, own = campaign_records.chained({"t": now, **event}, n, own)
            events.write(line)
    runs = real_parts().index.runs
    runs.parent.mkdir(parents=True, exist_ok=True)
    with runs.open("a") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)
    subprocess.run(["git", "update-ref", "--stdin"], cwd=repo, check=True, input="".join(branches), text=True)
