"""Command lines of agents and words for rewards: what is taken, and what is refused in one sentence."""

from __future__ import annotations

import pytest

from autoresearch.agentjet.scaffold.blackbox import Blackbox, Reward, RewardKind, agent_words, reward_from
from autoresearch.errors import UsageError


def test_words_are_those_of_a_shell_and_placeholders_stay() -> None:
    assert agent_words("opencode run '{prompt}' --dir={workdir}") == ("opencode", "run", "{prompt}", "--dir={workdir}")
    assert agent_words("""a {prompt_file} '{"url":"{base_url}"}' ${HOME}""")[2] == '{"url":"{base_url}"}'
    assert agent_words("""bash -c 'cd {workdir}; agent "$1"' agent {prompt}""")[0] == "bash"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("agent 'x", "no closing quotation"),
        ("agent --model {model}", "neither {prompt} nor {prompt_file}"),
        ("agent {prompt} {promt}", "{promt} is no placeholder"),
        ("agent {prompt} {answer}", "{answer} is no placeholder"),  # the agent must not see it
        ("bash -c 'agent {prompt}'", "the shell would run what stands in the dataset"),
        ("env X=1 /bin/sh -ec 'agent {prompt} | tee log'", "the shell would run"),
    ],
)
def test_commands_that_could_never_work(text: str, why: str) -> None:
    with pytest.raises(UsageError) as failed:
        agent_words(text)
    assert why in failed.value.message and "\n" not in failed.value.message


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("exact", Reward(RewardKind.EXACT)),
        ("regex", Reward(RewardKind.REGEX)),
        ("regex:answer: (.*)", Reward(RewardKind.REGEX, "answer: (.*)")),
        ("command:rate {output_file} -x", Reward(RewardKind.COMMAND, words=("rate", "{output_file}", "-x"))),
        ("a/b.py:score", Reward(RewardKind.FUNCTION, "score", "a/b.py")),
    ],
)
def test_rewards(text: str, wanted: Reward) -> None:
    assert reward_from(text) == wanted
    assert wanted.needs_answer == (text.startswith(("exact", "regex")))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fuzzy", "names no reward"),
        ("exact:x", "names no reward"),
        ("score.py", "names no reward"),
        ("score.py:", "names no reward"),
        ("regex:(", "is no regular expression"),
        ("regex:x*", "finds an answer in no output at all"),
        ("command:", "is empty"),
        ("command:rate {prompt}", "{prompt} is no placeholder"),
        ("command:sh -c 'rate {answer}'", "the shell would run"),
    ],
)
def test_rewards_that_are_none(text: str, why: str) -> None:
    with pytest.raises(UsageError) as failed:
        reward_from(text)
    assert why in failed.value.message


def test_what_validation_results_are_listed_under() -> None:
    box = Blackbox(("a", "{prompt}"), "../data/train.jsonl", Reward(RewardKind.EXACT))
    assert box.eval_name == "train-held-out"
    assert Blackbox(box.agent, box.dataset, box.reward, "/d/aime-2025.csv").eval_name == "aime-2025"
