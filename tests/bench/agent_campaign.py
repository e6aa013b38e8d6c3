"""A whole campaign of code ideas by its own controller, as shipped: its agent and its trainer are shell scripts.

Idea number n adds a line to part<n>.py. Each trainer says in its log when it began and ended: a sandbox lets it write
nowhere else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.lab.campaign_setup import start_campaign
from autoresearch.lab.campaign_setup.campaign_file import read_campaign_file
from autoresearch.lab.campaign_setup.resolve_campaign import resolve_campaign
from autoresearch.records.campaign_records import CampaignDir
from tests.bench.yard import ROOT, World

AGENT = """
prompt=$(cat)
if [ "$1" = propose ]; then
  case $prompt in *knob-[0-9]*) n=$(grep -oE 'knob-[0-9]+' <<<"$prompt" | sort -t- -k2n | tail -1);; *) n=knob-0;; esac
  cat "${0%/*}/answer-${n#knob-}.json"
else
  echo "GAIN = 1.0" >>"$(grep -oE 'part[0-9]+[.]py' <<<"$prompt" | head -1)"
  echo done
fi
"""
TRAINER = """began=$EPOCHREALTIME
echo "step:1 - actor/kl_loss:0.1 - actor/pg_loss:0.2"
%s
echo "step:1 - task_pass_rate@1:0.45 - pass_n:2"
echo "own $began $EPOCHREALTIME"
"""


def declared(
    place: Path,
    ideas: int,
    flags: Mapping[str, object],
    *,
    fill: Callable[[Path], None] | None = None,
    offered: int = 3,
    agent: tuple[str, str] = ("", ""),
    trains: str = "",
) -> CampaignDir:
    """The campaign, which `run` begins. `offered`: ideas of one answer; what was not asked for is refused.

    `agent`: what its script does first and last; `trains`: what the trainer's does between its two lines.
    """

    def fill_it(repo: Path) -> None:
        if fill is not None:
            fill(repo)
        (repo / "train.sh").write_text(TRAINER % trains)
        for number in range(1, ideas + 1):
            (repo / f"part{number}.py").write_text("GAIN = 0.0\n")

    world = World.make(place, fill_it)
    home = Path(os.environ["HOME"]) / "agent"  # a sandbox shows it
    home.mkdir(exist_ok=True)
    (home / "agent.sh").write_text(AGENT.join(agent))
    for had in range(ideas):
        answer = {"hypotheses": [_idea(number) for number in range(had + 1, ideas + 1)][:offered]}
        (home / f"answer-{had}.json").write_text(json.dumps(answer) + "\n")
    blueprint = world.searched("night", "bash train.sh")
    usual: dict[str, object] = {
        "proposer": "agent",
        "agent": "command",
        "agent_command": [shutil.which("bash"), str(home / "agent.sh"), "{role}"],
        "count": ideas + 1,
        "baseline": 1,
        "retests": 0,
        "confirm": False,
    }
    parts = real_parts()
    campaign_file = read_campaign_file(str(blueprint), {**usual, **flags}, start=place, now=parts.clock())
    return start_campaign.create(resolve_campaign(campaign_file, parts), parts)


def run(directory: CampaignDir, spans: Path, most_s: float) -> None:
    """Be its controller, in a process of its own, until the end; `spans` gets what `idea_split` writes."""
    argv = [sys.executable, "-m", "tests.bench.idea_split", str(directory.path), str(spans)]
    try:
        subprocess.run(argv, check=True, timeout=most_s, stdin=subprocess.DEVNULL, cwd=ROOT)
    except subprocess.SubprocessError as error:
        raise RuntimeError(f"no end of the campaign:\n{directory.log.read_text()[-3000:]}") from error


def trained(directory: CampaignDir) -> list[tuple[float, float]]:
    """When each trainer began and ended, the baseline's first."""
    last = (log.read_text().splitlines()[-1].split() for log in directory.path.glob("*/run.log"))
    return sorted((float(began), float(ended)) for own, began, ended in last if own == "own")


def _idea(number: int) -> Mapping[str, object]:
    return {
        "slug": f"knob-{number}",
        "title": f"Raise the gain of part {number}",
        "rationale": f"The line in part{number}.py bears on the score of the answers: when it grows, so does that.",
        "expected_effect": {"metric": "task_pass_rate@1", "direction": "up", "size": "0.05"},
        "kind": "code",
        "overrides": [],
        "files": [f"part{number}.py"],
        "risk": "none",
        "parent": "baseline",
        "simpler": False,
    }
