"""How much of a cluster's time a campaign uses: 64 short ideas on eight virtual nodes of a real Slurm.

A node takes one job at a time. Ours: the campaign as it is typed, one job for each run, with as many runs in flight as
there are nodes, and with two more, which wait in Slurm's queue. Theirs: the same 64 commands as bare `sbatch` jobs, all
submitted at once, with no code, metric, verdict or row: what Slurm alone makes of its slots. What ours loses is the
beginning: the baseline is judged before the first idea is begun, and runs are begun one after the other. Needs root and
slurm-wlm; without them there is nothing to measure, and it says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.result import Result
from tests.bench.yard import ROOT, private_tmux
from tests.engines.slurm.cluster import Cluster, missing

NODES, IDEAS = 8, 64
CASES = ((NODES, 10.0, 0.866), (NODES + 2, 10.0, 0.879), (NODES + 2, 20.0, 0.934))  # in flight, seconds, reached

TRAINER = """
lr=$(sed -n 's/^lr: //p' "$1")
echo "step:1 - actor/kl_loss:0.1 - actor/pg_loss:0.2"
sleep {seconds}
echo "step:1 - task_pass_rate@1:0.$((RANDOM % 90 + 10)) - pass_n:2 - global_steps:1"
"""

BLUEPRINT = """# Use a cluster

## [exp_purpose]
- description: How much of the slots' time is used.

## [exp_codebase_dir]
- dir: {repo}

## [exp_venv_exe]
- path: {python}

## [exp_yaml_path]
- path: recipe.yaml

## [exp_launch_command]
bash train.sh recipe.yaml

## [exp_result_dir]
- dir: {results}

## [exp_max_time]
- time: 10 minutes in all, 5 minutes to the first step

## Other Notes
- trainer: verl
- metric: task_pass_rate@1
- direction: maximize
"""


def run(repeats: int = 5) -> list[Result]:
    """The share of slot time in which a trainer lived; each case once, as it takes minutes."""
    if why := missing():
        sys.stderr.write(f"not measured: {why}\n")
        return []
    cluster = Cluster(nodes=NODES, cpus=1).up()
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, private_tmux(Path(scratch)) as server:
            shares = [
                (_campaign(cluster, Path(scratch), server.socket, (width, seconds)), _bare(cluster, seconds))
                for width, seconds, _ in CASES
            ]
    finally:
        cluster.down()
    what = f"slot time of {NODES} virtual Slurm nodes used by {IDEAS} ideas"
    against = f"{IDEAS} bare sbatch jobs at once"
    return [
        Result(
            f"{what} of {seconds:.0f} s, slurm:{width}",
            against,
            [share],
            [bare],
            0.9,
            "",
            at_least=True,
            absolute=True,
            reached=reached,
        )
        for (width, seconds, reached), (share, bare) in zip(CASES, shares, strict=True)
    ]


def _bare(cluster: Cluster, seconds: float) -> float:
    """The same for bare jobs, by the stamps that they write."""
    stamps = Path(tempfile.mkdtemp())
    stamp = f"date +%s.%N > {stamps}/$SLURM_JOB_ID"
    script = f"{stamp}.a; sleep {seconds}; {stamp}.b"
    for _ in range(IDEAS):
        cluster.say("sbatch", "--output=/dev/null", f"--wrap={script}")
    while len(ended := list(stamps.glob("*.b"))) < IDEAS or any(not path.read_text() for path in ended):
        time.sleep(0.2)
    starts = [float(path.with_suffix(".a").read_text()) for path in ended]
    return IDEAS * seconds / (NODES * (max(float(path.read_text()) for path in ended) - min(starts)))


def _campaign(cluster: Cluster, scratch: Path, tmux: str, case: tuple[int, float]) -> float:
    """Run a campaign to its end; the lives of its trainers over the nodes' time from the first to the last."""
    width, seconds = case
    place = scratch / f"{width}-{seconds:.0f}"
    repo = place / "repo"
    repo.mkdir(parents=True)
    (repo / "train.sh").write_text(TRAINER.format(seconds=seconds))
    (repo / "recipe.yaml").write_text("lr: 0.001\n")
    (repo / "exp.md").write_text(BLUEPRINT.format(repo=repo, python=sys.executable, results=place / "results"))
    keys = {
        "blueprint": "exp.md",
        "count": IDEAS,
        "baseline": NODES,  # all nodes at once; every search begins with it
        "retests": 0,
        "confirm": False,
        "proposer": "random",
        "space": {"lr": {"low": 1e-6, "high": 1e-2, "log": True}},
    }
    (repo / "campaign.yaml").write_text(json.dumps(keys))
    env = {**os.environ, **cluster.env, "AUTORESEARCH_TMUX_SOCKET": tmux, "PYTHONPATH": str(ROOT)}
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(["git", *words], cwd=repo, env=env, check=True)
    words = [sys.executable, "-m", "autoresearch", "campaign", "campaign.yaml", "--launcher", f"slurm:{width}", "--yes"]
    subprocess.run(words, cwd=repo, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    records = [
        json.loads(path.read_text()) for path in (repo / "reports").rglob("exit.json") if path.parent.name != "far"
    ]
    lived = sum(record["duration_s"] for record in records)
    return float(lived / (NODES * (max(r["ended"] for r in records) - min(r["started"] for r in records))))
