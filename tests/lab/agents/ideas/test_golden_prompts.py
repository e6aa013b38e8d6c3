"""The prompts of a real campaign: eleven turns of a scripted agent, seventeen runs of the embedded trainer, a tip.

`WRITE_GOLDEN=1` writes the golden files anew; read them whole before they are committed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median, variance
from unittest.mock import patch

import pytest

from autoresearch.core.agents.agent import Answer, Bounds, Edit, Turn, TurnRole
from autoresearch.core.campaign import tip
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.rules import stand_at
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.agent_work import agent_jobs, propose_prompt
from autoresearch.lab.agent_work.edit_prompt import background, edit_prompt
from autoresearch.lab.agent_work.edit_workspace import workspace_for
from autoresearch.lab.agent_work.propose_context import ProposeContext, gather
from autoresearch.lab.agent_work.propose_prompt import brief
from autoresearch.lab.agent_work.question import reviewed
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir

pytestmark = pytest.mark.system
SAMPLE = Path(__file__).parents[3] / "samples" / "records" / "agent_campaign.tar.gz"
GOLDEN = Path(__file__).parent / "golden"
PYTHON = b"/opt/rl/bin/python"  # runs nothing here; one of this machine would move where a long sentence is cut
MACHINE = [("machines", "gpu1 (15 runs; 16 CPUs, 128 GB of memory)"), ("packages", "numpy 2.4.1, torch 2.13.0")]
ROLES = ("propose", "edit", "fix", "review")
_NUMBER = re.compile(r"(?<![\w.@#/-])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)")


@dataclass(frozen=True)
class Recorded:
    """The campaign as it was recorded, unpacked."""

    root: Path
    state: CampaignState
    builder: CommitBuilder

    @property
    def matter(self) -> ProposeContext:
        workspace = workspace_for(self.builder, self.state.spec.research, lambda role: self.root / role)
        protection = workspace.protection
        return gather(self.state, stand_at(self.state, 0.0), self.builder, protection)

    def prompt(self, role: str) -> str:
        """What a turn of this role is told, with the places of this machine named."""
        text = self._prompt(role)
        text = text.replace(str(self.root), "@ROOT@")
        return re.sub(r"(?m)^(<<<(?:untrusted|end)) [0-9a-f]{8}", r"\1 @MARK@", text)  # it follows from the places

    def _prompt(self, role: str) -> str:
        if role == "propose":
            with patch.object(propose_prompt, "how_it_ran", lambda _: MACHINE):
                return brief(self.matter, 3, bounds=Bounds(1800.0, 60, 2.0))
        idea = self.state.by_slug("broken" if role == "fix" else "updates-4")
        assert idea is not None
        workspace = workspace_for(self.builder, self.state.spec.research, self._turn)
        if role == "edit":
            parent = self.state.by_slug(idea.parent)
            assert parent is not None
            workspace = replace(workspace, known=background(self.state, idea.hypothesis, parent))
        if role != "review":
            return edit_prompt(workspace, idea.hypothesis, agent_jobs.explained(idea) if role == "fix" else None)
        turns: list[Turn] = []

        def ask(turn: Turn) -> Answer:
            turns.append(turn)
            return Answer('{"verdict": "accept", "reasons": []}')

        edit = Edit(idea.hypothesis.patches[0], idea.hypothesis.paths, ("reward.py:2 sets a number",))
        reviewed(workspace, idea.hypothesis, idea.parent_commit, edit, ask)
        return turns[0].prompt

    def _turn(self, role: TurnRole) -> Path:
        path = self.root / "turns" / role
        path.mkdir(parents=True, exist_ok=True)
        return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    root = tmp_path_factory.mktemp("recorded")
    with tarfile.open(SAMPLE) as archive:
        archive.extractall(root, filter="data")
    place = root / "repo" / "reports" / "auto_research" / "one"
    subprocess.run(
        ["git", "clone", "-q", "--mirror", root / "agent_campaign/repo.bundle", root / "repo/.git"], check=True
    )
    subprocess.run(["git", "config", "core.bare", "false"], cwd=root / "repo", check=True)
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=root / "repo", check=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    (root / "agent_campaign").rename(place)
    for path in place.rglob("*"):
        if path.is_file() and path.suffix != ".bundle":
            text = (
                path.read_bytes().replace(b"@ROOT@", os.fsencode(root)).replace(b"@HOME@", os.fsencode(root / "home"))
            )
            path.write_bytes(text.replace(b"@PYTHON@", PYTHON))
    campaign_dir = CampaignDir(place)
    campaign_records.append(campaign_dir, "campaign", spec=json.loads(campaign_dir.spec.read_text()))
    for line in (place / "history.jsonl").read_text().splitlines():  # its paths are those of this place only now
        campaign_records.append(campaign_dir, **json.loads(line))
    campaign_records.write_ledger(campaign_dir)
    state = CampaignHistory(campaign_dir).state()
    checkout = repository.find(root / "repo")
    assert checkout is not None
    return Recorded(root, state, CommitBuilder.of(state.spec, checkout))


@pytest.mark.parametrize("role", ROLES)
def test_it_is_as_it_was_read(role: str, recorded: Recorded) -> None:
    text, path = recorded.prompt(role), GOLDEN / f"{role}.md"
    if os.environ.get("WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    most = {"propose": 12_288, "edit": 4_096}.get(role, 8_192)
    assert len(text.encode()) <= most


def measured(idea: Idea) -> list[float]:
    """The values in its rows, without those of runs that repeat an earlier one's numbers."""
    return [row.metric_value for row in idea.rows if row.metric_value is not None and row.run_id not in idea.copies]


def part(text: str, title: str) -> list[str]:
    """The lines below a heading."""
    _, _, after = text.partition(f"# {title}")
    return [line for line in after.partition("\n# ")[0].splitlines()[1:] if line]


def test_every_number_of_the_ideas_is_that_of_the_ledger(recorded: Recorded) -> None:
    state, text = recorded.state, recorded.prompt("propose")
    rows = [line.split(" | ") for line in part(text, "Ideas so far") if line.count(" | ") == 5][1:]
    assert len(rows) >= 10
    for slug, _, change, standing, told, why in rows:
        idea = state.by_slug(slug.partition(" (")[0])
        assert idea is not None and "patch" not in change
        values = measured(idea)
        assert told == (f"{mean(values):.4g} ({len(values)})" if values else "-"), slug
        if worth := re.match(r"worth (\S+) \((\S+) to (\S+)\)", why):
            known = tip.change_by(state, idea)
            assert known is not None and standing in ("in the tip", "set aside", "out")
            assert worth.groups() == tuple(f"{number:+.3g}" for number in known), slug


def test_every_number_of_the_rule_and_the_runs_is_that_of_the_ledger(recorded: Recorded) -> None:
    state, text = recorded.state, recorded.prompt("propose")
    groups = [measured(idea) for idea in state.ideas]
    df = sum(max(0, len(values) - 1) for values in groups)
    sd = (sum(variance(values) * (len(values) - 1) for values in groups if len(values) > 1) / df) ** 0.5
    judged = " ".join(part(text, "How a run is judged"))
    assert f"deviation of {sd:.3g} (all replicates, {df} degrees of freedom)" in judged
    assert f"baseline's is {mean(groups[0]):.4g}, the mean of {len(groups[0])} runs" in judged
    assert f"up to {1 + state.spec.retests} runs with other seeds" in judged
    took = [60 * row.elapsed_min for row in state.rows if row.elapsed_min]
    memory = max(row.memory_gb for row in state.rows if row.memory_gb)
    expected = f"A run takes {median(took):.1f}s (median of {len(took)}), and up to {memory:.3g} GB of memory."
    assert expected in part(text, "The campaign")


def test_every_point_of_a_curve_is_in_the_log_of_its_run(recorded: Recorded) -> None:
    state, text = recorded.state, recorded.prompt("propose")
    lines = [*part(text, "Recorded metrics"), *part(text, "Decided since")]
    logs = {idea.slug: [Path(row.log_path).read_text() for row in idea.rows if row.run_dir] for idea in state.ideas}
    slug = ""
    points = 0
    for line in lines:
        slug = line[2:].partition(":")[0] if line.startswith("- ") else slug
        for named in re.finditer(r"(\d+):(-?[\d.]+(?:e-?\d+)?)(?=,|$)", line):
            owner = re.search(r"step:value: ([a-z][\w-]*) ", line)
            found = [
                float(value)
                for log in logs[owner[1] if owner else slug]
                for value in re.findall(rf"step:{named[1]} .*task_pass_rate@1:(\S+)", log)
            ]
            assert any(f"{value:.4g}" == named[2] for value in found), (line, found)
            points += 1
    assert points >= 9


def test_every_other_number_is_in_some_record(recorded: Recorded) -> None:
    """Of the settings, the failures, the refusals, the findings and the ends of other curves."""
    text, place = recorded.prompt("propose"), Path(recorded.state.spec.directory)
    records = [*place.glob("*.json*"), *place.glob("*/run.log"), place / "results.tsv"]
    known = [abs(float(n)) for path in records for n in _NUMBER.findall(path.read_text("utf-8", "replace"))]
    for title in ("Settings as", "How runs failed", "Recorded metrics", "Refused before", "What you found"):
        for line in part(text, title):
            line = re.sub(r"and \d+ more$", "", line)
            for number in _NUMBER.findall(line.partition(": ")[2]):
                digits, _, power = number.lstrip("+-").partition("e")
                unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
                near = any(abs(value - abs(float(number))) <= 0.51 * unit for value in known)
                assert near, (title, line, number)
