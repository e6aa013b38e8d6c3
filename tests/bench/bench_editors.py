"""How busy a campaign keeps its slots where an edit takes longer than a run.

A whole campaign of code ideas by its own controller, as shipped: a turn of the agent, a shell script, takes EDIT_S, a
run half of that, and there are four slots. Each trainer says itself when it began and ended; what is told is the share
of the four slots that trained, from the first run of an idea to the start of the last one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.lab.campaign_setup import start_campaign
from autoresearch.lab.campaign_setup.campaign_file import read_campaign_file
from autoresearch.lab.campaign_setup.resolve_campaign import resolve_campaign
from autoresearch.records.campaign_records import CampaignDir
from tests.bench.result import Result
from tests.bench.yard import ROOT, World

SLOTS = 4
EDIT_S, RUN_S = 20.0, 10.0
IDEAS = 36
OFFERED = 9  # ideas of one answer; what was not asked for is refused
GOAL = 0.8  # of issue 26, set before anything was measured; 0.06 when one job of the agent ran at a time
MOST_S = 900.0
AGENT = f"""prompt=$(cat)
sleep {EDIT_S:g}
if [ "$1" = propose ]; then
  case $prompt in *knob-[0-9]*) n=$(grep -oE 'knob-[0-9]+' <<<"$prompt" | sort -t- -k2n | tail -1);; *) n=knob-0;; esac
  cat "${{0%/*}}/answer-${{n#knob-}}.json"
else
  echo "GAIN = 1.0" >>"$(grep -oE 'part[0-9]+[.]py' <<<"$prompt" | head -1)"
  echo done
fi
"""
TRAINER = f"""began=$EPOCHREALTIME
echo "step:1 - actor/kl_loss:0.1 - actor/pg_loss:0.2"
sleep {RUN_S:g}
echo "step:1 - task_pass_rate@1:0.45 - pass_n:2"
echo "$began $EPOCHREALTIME" >>"$1/stamps"
"""


def run(repeats: int = 5) -> list[Result]:
    """The share of the slots' time in which they train; one campaign, whatever the repeats: it takes minutes."""
    edits, runs = f"edits of {EDIT_S:g} s", f"runs of {RUN_S:g} s"
    what = f"slots that train ({edits}, {runs}, {SLOTS} slots, {IDEAS} ideas)"
    return [Result(what, "", [_busy()], [], GOAL, "of their time", at_least=True)]


def _busy() -> float:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        place = Path(scratch)
        directory = _declared(place)
        argv = [sys.executable, "-m", "tests.bench.idea_split", str(directory.path), str(place / "spans.json")]
        try:
            subprocess.run(argv, check=True, timeout=MOST_S, stdin=subprocess.DEVNULL, cwd=ROOT)
        except subprocess.SubprocessError as error:
            raise RuntimeError(f"no end of the campaign:\n{directory.log.read_text()[-3000:]}") from error
        spans = [tuple(map(float, line.split())) for line in (place / "stamps").read_text().splitlines()]
        return share_of(sorted((began, ended) for began, ended in spans)[1:])  # without the baseline


def share_of(spans: list[tuple[float, float]]) -> float:
    """The share of the slots that train, between the first beginning and the last one; spans in their order."""
    if len(spans) < IDEAS:
        raise RuntimeError(f"{len(spans)} of {IDEAS} ideas ran")
    first, last = spans[0][0], spans[-1][0]
    return sum(min(ended, last) - began for began, ended in spans) / (SLOTS * (last - first))


def _declared(place: Path) -> CampaignDir:
    def fill(repo: Path) -> None:
        (repo / "recipe.yaml").write_text("level: 0\n")
        for number in range(1, IDEAS + 1):
            (repo / f"part{number}.py").write_text("GAIN = 0.0\n")

    world = World.make(place, fill)
    agent = Path(os.environ["HOME"]) / "agent"
    agent.mkdir(exist_ok=True)
    (agent / "agent.sh").write_text(AGENT)
    for had in range(IDEAS):
        answer = {"hypotheses": [_idea(number) for number in range(had + 1, IDEAS + 1)][:OFFERED]}
        (agent / f"answer-{had}.json").write_text(json.dumps(answer) + "\n")
    (place / "train.sh").write_text(TRAINER)
    blueprint = world.blueprint("night", f"bash {place}/train.sh {place}")
    blueprint.write_text(blueprint.read_text().replace("- path: NA", f"- path: {world.repo}/recipe.yaml"))
    flags: dict[str, object] = {
        "proposer": "agent",
        "agent": "command",
        "agent_command": [shutil.which("bash"), str(agent / "agent.sh"), "{role}"],
        "sandbox": "off",
        "summarise": False,
        "prefix": "try/editors",
        "parallel": SLOTS,
        "count": IDEAS + 1,
        "baseline": 1,
        "retests": 0,
        "confirm": False,
    }
    parts = real_parts()
    campaign_file = read_campaign_file(str(blueprint), flags, start=place, now=parts.clock())
    return start_campaign.create(resolve_campaign(campaign_file, parts), parts)


def _idea(number: int) -> Mapping[str, object]:
    return {
        "slug": f"knob-{number}",
        "title": hashlib.sha256(str(number).encode()).hexdigest()[:24],  # no two alike: else they are refused
        "rationale": f"The line in part{number}.py bears on the score of the answers: when it grows, so does that.",
        "expected_effect": {"metric": "task_pass_rate@1", "direction": "up", "size": "0.05"},
        "kind": "code",
        "overrides": [],
        "files": [f"part{number}.py"],
        "risk": "none",
        "parent": "baseline",
        "simpler": False,
    }
