"""A researcher that is asked for a plan: what it is told, what is made of its answer, when it is asked again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.agents.agent import Answer, Turn, TurnFault, TurnRole, Usage
from autoresearch.errors import ResearcherFailed
from autoresearch.lab.plans import register
from autoresearch.lab.plans.ask_agent import write_plan
from autoresearch.lab.plans.plan_request import PlanAuthor, PlanRequest
from autoresearch.lab.plans.run_stages import in_pursuit, pursue
from autoresearch.lab.plans.write import new_plan_dir

pytestmark = pytest.mark.system

STAGE: dict[str, Any] = {
    "name": "screen", "question": "Which one?", "blueprint": "exp.md", "proposer": "ideas", "space": [],
    "ideas": [{"slug": "lr-high", "sentence": "higher", "expected": "", "overrides": [{"key": "lr", "value": "0.9"}]}],
    "settings": [], "expectation": {"sentence": "It wins.", "when": "delta(lr-high) > 0"},
    "outcomes": [{"when": "confirmed", "conclusion": "It matters.", "next": "end"},
                 {"when": "otherwise", "conclusion": "Nothing is proved.", "next": "revise"}], "most_runs": 1,
}  # fmt: skip
GOOD = {"title": "A plan", "question": "What?", "stages": [STAGE]}


class Agent:
    """Answers what the test gave it, in order; keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.turns = list(answers), list[Turn]()

    def __call__(self, turn: Turn) -> Answer:
        self.turns.append(turn)
        assert Path(turn.cwd, "exp.md").is_file() and Path(turn.directory).is_dir()
        assert self.answers, turn.prompt[-800:]
        return self.answers.pop(0)


def said(data: object, text: str = "Here it is:\n{}\nGood luck.") -> Answer:
    return Answer(text=text.replace("{}", json.dumps(data)), usage=Usage(usd=0.5, tokens_in=10), session="s")


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    plan = copy.deepcopy(GOOD)
    change(plan)
    return plan


def request_of(yard: Any, agent: Agent, *, resumes: bool = False) -> PlanRequest:
    yard.file.unlink(missing_ok=True)
    plan_dir = new_plan_dir(yard.file, yard.parts)
    return PlanRequest(yard.repo / "topic.md", yard.file, plan_dir, PlanAuthor("claude", agent, resumes=resumes))


def test_a_plan_is_written_checked_and_can_be_run(yard: Any) -> None:
    agent = Agent(said(GOOD))
    found = write_plan(request_of(yard, agent), yard.parts)
    assert yard.git("status", "--porcelain") == "" and len(yard.git("worktree", "list").splitlines()) == 1
    assert (found.usage.usd, found.draft.findings) == (0.5, ()) and found.turn.name == "0001-plan"
    (turn,) = agent.turns
    assert turn.role is TurnRole.PLAN and not turn.role.writes and turn.schema is not None
    assert not str(turn.cwd).startswith(str(yard.repo)) and not Path(turn.cwd).exists()  # a copy, gone by now
    for words in ("Does it matter?", "exp.md", "lr: 0.1", "See whether it learns.", "confirmed_delta", '"stages"'):
        assert words in turn.prompt, words
    yard.file.write_text(found.text)
    assert yard.file.read_text().startswith("# Written by claude for topic.md;")
    yard.results = {"screen": {"lr-high": ("confirmed", 0.6)}}
    plan_dir = yard.approved()
    with in_pursuit(plan_dir):
        assert pursue(plan_dir, yard.parts, yard.said.append).reason == "screen: It matters."


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (Answer(text="I would rather talk about it."), "there is no JSON object"),
        (Answer(fault=TurnFault.SILENT), "there is no JSON object"),
        (Answer(text='{"stages": [{"name": "x"'), "JSON"),
        (said({"hypotheses": []}), "stages: is no list"),
        (said(changed(lambda p: p["stages"][0].update(blueprint="nowhere.md"))), "'nowhere.md' is no file"),
        (said(changed(lambda p: p["stages"][0].update(blueprint="../../etc/passwd"))), "is no file of the repository"),
        (said(changed(lambda p: p["stages"][0]["expectation"].update(when="best >"))), "character 7"),
        (said(changed(lambda p: p["stages"][0]["outcomes"].pop())), "not every result leads somewhere"),
        (said(changed(lambda p: p["stages"][0]["outcomes"][0].update(next="more"))), "there is no stage `more`"),
        (said(changed(lambda p: p["stages"][0].update(settings=[{"key": "timeout", "value": "x"}]))), "timeout"),
        (said(changed(lambda p: p.update(notes="hm"))), "there is no key `notes`"),
        (Answer(data={"stages": []}), "stages: is missing"),
    ],
)
def test_it_is_asked_again_with_what_is_wrong(yard: Any, first: Answer, words: str) -> None:
    agent = Agent(first, said(GOOD))
    found = write_plan(request_of(yard, agent), yard.parts)
    assert found.draft.plan is not None and found.turn.name == "0002-plan"
    again = agent.turns[1].prompt
    assert words in again and "Answer again" in again
    assert "# The topic" in again  # it has no memory of the first


def test_an_agent_with_a_memory_is_told_only_what_is_wrong(yard: Any) -> None:
    agent = Agent(said(changed(lambda p: p.pop("title"))), said(GOOD))
    write_plan(request_of(yard, agent, resumes=True), yard.parts)
    assert agent.turns[1].session == "s" and "# The topic" not in agent.turns[1].prompt
    assert "title: is missing" in agent.turns[1].prompt


def test_after_three_answers_it_is_given_up(yard: Any) -> None:
    agent = Agent(*(Answer(text="prose") for _ in range(3)))
    with pytest.raises(ResearcherFailed) as caught:
        write_plan(request_of(yard, agent), yard.parts)
    assert caught.value.exit_code == 7 and "no usable plan in 3 answers" in caught.value.message
    assert not yard.file.exists() and "turns" in caught.value.hint


def test_a_fault_that_asking_again_cannot_mend_ends_it(yard: Any) -> None:
    agent = Agent(Answer(fault=TurnFault.LOGIN, message="please log in"))
    with pytest.raises(ResearcherFailed, match="login: please log in"):
        write_plan(request_of(yard, agent), yard.parts)
    assert len(agent.turns) == 1


def test_a_long_topic_reaches_it_whole(yard: Any) -> None:
    (yard.repo / "topic.md").write_text("why? " * (40 << 10) + "the very end")
    agent = Agent(said(GOOD))
    write_plan(request_of(yard, agent), yard.parts)
    assert "the very end" in agent.turns[0].prompt


def test_a_revision_tells_it_what_came_out(yard: Any) -> None:
    yard.results = {"screen": {"lr-high": ("discard", 0.51)}}
    plan_dir = yard.approved()
    with in_pursuit(plan_dir):
        assert pursue(plan_dir, yard.parts, yard.said.append).state == "revise"
    view = register.read_view(plan_dir)
    agent = Agent(said(changed(lambda p: p["stages"][0].update(name="again"))))
    author = PlanAuthor("claude", agent)
    request = PlanRequest(yard.repo / "topic.md", yard.file, plan_dir, author, view=view, reason="another way")
    found = write_plan(request, yard.parts)
    prompt = agent.turns[0].prompt
    assert "screen was run: expectation not met; Nothing is proved. [baseline 0.5" in prompt
    assert "Why it is revised: another way" in prompt
    yard.file.write_text(found.text)
    assert register.revise(plan_dir, found.draft, yard.parts, reason="another way").next == "again"
