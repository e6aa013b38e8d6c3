"""`autoresearch plan`, as it is typed: real campaigns, real kills, a real program as the agent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

REPO = Path(__file__).parents[2]

RECIPE = """experiment_name: tiny
task: sort
seed: 0
total_steps: 2
batch_size: 8
group_size: 4
lr: 0.001
hidden: 32
sft_steps: 200
val_before_train: false
test_freq: 2
val_tasks: 16
val_pass_n: 1
val_print_to_markdown_file_path: out/validation.md
metrics_jsonl_path: out/metrics.jsonl
"""
HOLD = """
import os, sys, time
recipe = dict(line.split(": ") for line in open(sys.argv[1]).read().splitlines())
def step(n):
    print(f"step:{n} - actor/kl_loss:0.00{n} - actor/pg_loss:0.1 - critic/rewards/mean:0.{n}", flush=True)
step(1)
open(os.environ["BEGAN"], "a").write("one\\n")
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
step(2)
rate = 0.5 + 0.1 * float(recipe["lr"])
print(f"step:2 - global_steps:2 - pass_n:2 - task_pass_rate@1:{rate} - mean_reward:{rate}", flush=True)
"""
QUIET = {"blueprint": "exp.md", "baseline": 1, "retests": 0, "confirm": False, "parallel": 2}


def stage(name: str, next_: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "question": "Which one?",
        "campaign": QUIET,
        "ideas": [{"slug": "lr-high", "sentence": "higher", "overrides": {"lr": 0.9}}],
        "expectation": {"sentence": "It runs.", "when": "crashed == 0 and value(lr-high) >= 0"},
        "outcomes": [
            {"when": "crashed", "conclusion": "It does not run.", "next": "revise"},
            {"when": "otherwise", "conclusion": f"{name} is done.", "next": next_},
        ],
        **more,
    }


@dataclass
class Planned:
    """A repository with an experiment and a plan."""

    bench: Any
    places: list[Any] = field(default_factory=list)

    def write(self, *stages: dict[str, Any], name: str = "lr.plan.yaml") -> Path:
        path = self.bench.repo / name
        lines = "\n".join(f"  - {json.dumps(one)}" for one in stages)
        path.write_text(f"title: About the learning rate\nquestion: Does it matter?\nstages:\n{lines}\n")
        return Path(path)

    def campaign(self, name: str) -> Any:
        from autoresearch.records.campaign_records import CampaignDir

        return CampaignDir(self.bench.repo / "reports" / "auto_research" / name)

    @property
    def directory(self) -> Path:
        return Path(self.bench.repo / "reports" / "auto_research" / "plans" / "lr")

    def kill(self, place: Any) -> None:
        """End the controller of a campaign by its pid, as a crash would."""
        os.kill(json.loads(place.controller.read_bytes())["pid"], signal.SIGKILL)
        self.bench.until(lambda: not place.controlled)

    def end(self) -> None:
        """End, by pid, every controller of ours that still lives."""
        for lock in (*self.bench.root.rglob("controller.lock"), *self.bench.root.rglob("plan.lock")):
            from autoresearch.records.rundir import is_locked

            record = lock.with_name("plan.json" if lock.name == "plan.lock" else "controller.json")
            if is_locked(lock) and record.exists():
                os.kill(json.loads(record.read_bytes())["pid"], signal.SIGKILL)
        self.bench.reaper.sweep()


@pytest.fixture
def planned(bench: Any) -> Iterator[Planned]:
    (bench.repo / "exp.yaml").write_text("lr: 0.1\ndata.seed: 7\n")
    (bench.repo / "hold.py").write_text(HOLD)
    path = bench.blueprint("ok", command="python hold.py exp.yaml")
    path.write_text(path.read_text().replace("- path: NA", "- path: exp.yaml"))
    bench.git("add", "-A")
    bench.git("commit", "-qm", "an experiment")
    bench.env |= {"GO": str(bench.root / "go"), "BEGAN": str(bench.root / "began")}
    one = Planned(bench)
    yield one
    one.end()


def test_two_stages_on_the_embedded_trainer_killed_in_the_middle(planned: Planned) -> None:
    bench = planned.bench
    (bench.repo / "exp.yaml").write_text(RECIPE)
    command = f"{sys.executable} -m autoresearch.tinygrpo --conf exp.yaml"
    path = bench.blueprint("ok", command=command, trainer="tinygrpo")
    path.write_text(path.read_text().replace("- path: NA", "- path: exp.yaml"))
    bench.git("commit", "-qam", "the embedded trainer")
    plan = planned.write(stage("screen", "refine"), stage("refine", "end"))
    refused = bench.ask("plan", "run", plan, check=5)
    assert refused["error"]["code"] == "not_approved"
    assert refused["next"] == [f"autoresearch plan approve {plan} --json"]
    assert bench.ask("plan", "check", plan)["stages"] == ["screen", "refine"]
    approved = bench.ask("plan", "approve", plan, "--yes", "--note", "go")
    assert (approved["state"], approved["stage"], approved["version"]) == ("ready", "screen", 1)
    before = (bench.git("status", "--porcelain"), bench.git("rev-parse", "HEAD"))

    first = bench.spawn("plan", "run", "lr")
    there = planned.campaign("lr-screen")
    bench.until(lambda: there.spec.exists() and there.controlled)
    busy = bench.ask("plan", "run", plan, check=5)
    assert busy["error"]["code"] == "plan_runs"
    first.kill()
    first.wait()
    status = bench.ask("plan", "status")
    assert (status["state"], status["stage"], status["pursued"]) == ("running", "screen", False)
    assert status["next"] == ["autoresearch plan run lr --detach --json"]
    assert status["campaign_state"] in ("running", "ended")

    again = bench.ask("plan", "run", "lr", "--detach")
    assert "ajet_plan_lr_" in again["attach"]
    while (news := bench.ask("wait", "lr", "--for", "100s"))["state"] != "ended" or news["pursued"]:
        assert news["pursued"] or news["state"] == "ended", (planned.directory / "plan.log").read_text()
    assert [(one["stage"], one["met"], one["next"]) for one in news["concluded"]] == [
        ("screen", "met", "refine"),
        ("refine", "met", "end"),
    ]
    ledgers = [Path(one["ledger"]).read_text().splitlines() for one in news["concluded"]]
    assert all(len(lines) == 3 for lines in ledgers)  # a header, a baseline, an idea: nothing was run twice
    assert (bench.git("status", "--porcelain"), bench.git("rev-parse", "HEAD")) == before
    subjects = bench.git("log", "--reverse", "--format=%s", "--grep", "^plan lr", news["branch"]).split("\n")
    assert [one.removeprefix("plan lr: ")[:20] for one in subjects[:4]] == [
        "the code that versio",
        "version 1 is registe",
        "version 1 is approve",
        "stage screen begins",
    ]
    assert len(subjects) == 8 and subjects[-1].startswith("plan lr: ended: refine")
    registered = int(bench.git("log", "--format=%ct", "--grep", "is registered", news["branch"]))
    assert registered <= json.loads(there.spec.read_bytes())["created"]
    report = Path(news["report"]).read_text()
    assert "refine is done." in report and "Nothing is confirmed: no idea of this plan may be claimed." in report
    assert (planned.directory / "figures" / "lr-screen.png").exists()
    assert json.loads((planned.directory / "finish.flag").read_text())["plan"] == "lr"
    assert bench.ask("plan", "run", "lr")["state"] == "ended"  # nothing is left to do
    assert bench.ask("report", "lr")["files"][0] == news["report"]


def test_a_campaign_that_dies_is_taken_up_and_one_that_is_paused_is_told(planned: Planned) -> None:
    bench = planned.bench
    planned.write(stage("only", "end"))
    running = bench.spawn("plan", "run", "lr.plan.yaml", "--no-human", "--json", stdout=-1)
    there = planned.campaign("lr-only")
    bench.until(lambda: Path(bench.env["BEGAN"]).exists() and there.controlled)
    planned.kill(there)
    bench.until(lambda: there.controlled)  # `plan run` saw it, and started another one
    bench.ask("campaign", "pause", "lr-only", "--reason", "lunch")
    paused = bench.answer(running)
    assert (paused["state"], paused["ok"]) == ("paused", True)
    assert paused["next"] == ["autoresearch campaign resume lr-only --json", "autoresearch plan run lr --json"]
    for name in ("lr", "last-plan"):
        lines = bench.ask("plan", "status", name)["next"]
        assert [line.replace(" --detach", "") for line in lines] == paused["next"]
    Path(bench.env["GO"]).touch()
    bench.ask("campaign", "resume", "lr-only", "--detach")
    ended = bench.ask("plan", "run", "lr")
    assert (ended["state"], ended["concluded"][0]["met"]) == ("ended", "met")
    assert bench.ask("plan", "status", "lr", "--full")["records"][1].split()[3] == "waived"
    said = (planned.directory / "plan.log").read_text()
    assert "the controller of lr-only died; another one is started" in said
    assert "run without an approval (--no-human)" in (planned.directory / "final_report.md").read_text()


def test_from_a_topic_to_an_approval_by_hand(planned: Planned) -> None:
    bench = planned.bench
    topic = bench.repo / "TOPIC.md"
    topic.write_text('# Does KL matter?\n\nPlease "find out": `rm -rf` {{ x }}\n# - and more\n')
    made = bench.ask("plan", "TOPIC.md")
    path = Path(bench.repo / "topic.plan.yaml")
    assert made["plan"] == str(path) and made["next"] == ["autoresearch plan check topic.plan.yaml --json"]
    text = path.read_text()
    assert '# > Please "find out": `rm -rf` {{ x }}' in text and 'title: "Does KL matter?"' in text
    assert "blueprint: exp.md" in text and "confirmed_delta" in text
    bad = bench.ask("plan", "check", path, check=3)
    told = bad["error"]["findings"]
    assert any("words of the template" in line and "topic.plan.yaml:" in line for line in told)
    assert bench.ask("plan", "write", "TOPIC.md", check=5)["error"]["message"].endswith("already exists")
    for line in text.splitlines():
        if line.split("#")[0].strip().startswith("overrides"):
            text = text.replace(line, "        overrides: {lr: 0.5}")
    path.write_text(text.replace("TODO", "Well,"))
    assert bench.ask("plan", "check", path)["plan"] == "topic"
    shown = bench.ask("plan", "approve", path)
    assert shown["state"] == "draft" and shown["next"] == [f"autoresearch plan approve {path} --yes --json"]
    assert "plans" not in bench.git("branch", "-a")  # nothing was changed
    assert bench.ask("plan", "approve", path, "--yes")["state"] == "ready"
    again = bench.ask("plan", "approve", path, "--yes")
    assert (again["state"], len(bench.ask("plan", "status", path, "--full")["records"])) == ("ready", 2)
    code, out, _ = bench.here("plan", "status", "topic", "--full")
    assert code == 0 and "otherwise -> revise: Well, what does everything else mean?" in out
    path.write_text(text.replace("TODO", "Hm,"))
    changed = bench.ask("plan", "run", path, check=5)
    assert changed["error"]["code"] == "plan_changed"
    revised = bench.ask("plan", "revise", path, "--reason", "better words")
    assert (revised["version"], revised["state"]) == (2, "registered")
    assert bench.ask("plan", "run", "topic", check=5)["error"]["code"] == "not_approved"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("check", "gone.yaml"), 4, "gone.yaml"),
        (("check", "bad.yaml"), 3, "bad.yaml:3"),
        (("check", "exp.yaml"), 3, "exp.yaml"),
        (("write", "gone.md"), 4, "gone.md"),
        (("write", "empty.md"), 2, "is empty"),
        (("gone.md", "--agent", "claude"), 4, "gone.md"),
        (("exp.md", "--agent", "nobody"), 2, "there is no agent 'nobody'"),
        (("exp.md", "--agent", "command", "--set", "agent_command=no-such-program-here"), 6, "not installed"),
        (("exp.md", "--agent", "claude", "--set", "turn_timeout=soon"), 2, "--set turn_timeout: "),
        (("run", "nobody"), 4, "no plan is called 'nobody'"),
        (("status",), 4, "there is no plan yet"),
        (("revise", "lr.plan.yaml", "--reason", "x"), 4, "no plan lr is registered"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(planned: Planned, words: tuple[str, ...], code: int, said: str) -> None:
    (planned.bench.repo / "bad.yaml").write_text("title: x\nstages: [\n")
    (planned.bench.repo / "empty.md").write_text("\n")
    planned.write(stage("only", "end"))
    found = planned.bench.ask("plan", *words, check=code)
    assert said in found["error"]["message"], found["error"]


AGENT = """
import json, pathlib, sys
prompt, mode, count = sys.stdin.read(), sys.argv[1], pathlib.Path(sys.argv[2])
count.write_text(count.read_text() + "x" if count.exists() else "x")
plan = json.loads(pathlib.Path(sys.argv[3]).read_text())
if mode == "prose" or (mode == "slow" and len(count.read_text()) == 1):
    print("I would start by reading the literature.")
else:
    assert "Does it matter?" in prompt and pathlib.Path("exp.md").exists()
    pathlib.Path("evil.txt").write_text("written where it only may read")
    print("My plan:", json.dumps(plan))
    sys.stderr.write(json.dumps({"autoresearch": {"usd": 0.25, "tokens_in": 10, "tokens_out": 5}}) + "\\n")
"""


def test_an_agent_writes_the_plan(planned: Planned) -> None:
    bench = planned.bench
    (bench.repo / "topic.md").write_text("Does it matter?\n")
    one = stage("only", "end")
    answer = {
        "title": "By an agent", "question": "Does it matter?",
        "stages": [{
            "name": "only", "question": "?", "blueprint": "exp.md", "proposer": "ideas", "space": [],
            "ideas": [{"slug": "lr-high", "sentence": "s", "expected": "", "overrides": [{"key": "lr", "value": "1"}]}],
            "settings": [], "expectation": one["expectation"], "outcomes": one["outcomes"], "most_runs": 1,
        }],
    }  # fmt: skip
    (bench.root / "agent.py").write_text(AGENT)
    (bench.root / "answer.json").write_text(json.dumps(answer))
    before = bench.git("status", "--porcelain")

    def ask(mode: str, check: int = 0) -> dict[str, Any]:
        count, given = bench.root / f"count-{mode}", bench.root / "answer.json"
        command = f"{sys.executable} {bench.root / 'agent.py'} {mode} {count} {given}"
        of_agent = ("--agent", "command", "--set", f"agent_command={command}", "--set", "sandbox=off")
        return dict(bench.ask("plan", "topic.md", *of_agent, check=check))

    failed = ask("prose", check=7)
    assert failed["error"]["code"] == "researcher_failed" and "3 answers" in failed["error"]["message"]
    assert len((bench.root / "count-prose").read_text()) == 3
    assert bench.git("status", "--porcelain") == before
    found = ask("slow")
    path = Path(bench.repo / "topic.plan.yaml")
    assert (found["file"], found["stages"], found["usd"], found["tokens"]) == (str(path), ["only"], 0.25, 15)
    assert len((bench.root / "count-slow").read_text()) == 2
    assert not list(bench.repo.rglob("evil.txt"))
    assert bench.ask("plan", "check", path)["plan"] == "topic"
    assert found["next"] == [f"autoresearch plan approve {path} --json"]
    assert len(bench.git("worktree", "list").splitlines()) == 1


def test_the_example_is_a_plan(planned: Planned) -> None:
    bench = planned.bench
    shutil.copytree(REPO / "blueprints", bench.repo / "blueprints")
    bench.git("add", "-A")
    bench.git("commit", "-qm", "blueprints")
    found = bench.ask("plan", "check", "blueprints/examples/plan.yaml")
    assert found["stages"] == ["rate", "exploration"] and found["findings"] == []
