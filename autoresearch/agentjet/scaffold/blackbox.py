"""Blackbox: an agent given by its command line, its dataset, and the source of its reward.

Placeholders in braces are substituted in each word of the command when an episode begins, without a shell, so that
a prompt may contain any characters.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

from autoresearch.core.run.scaffold import ScaffoldOptions
from autoresearch.core.text.regex import later
from autoresearch.errors import UsageError

_SHARED = ("workdir", "here", "python")  # working directory of the agent, directory of the rendered files, their Python
AGENT_PLACEHOLDERS = ("prompt", "prompt_file", "base_url", "api_key", "model", "item_id", *_SHARED)
REWARD_PLACEHOLDERS = ("output_file", "answer", "answer_file", "item_file", *_SHARED)
AGENT_TIMEOUT_S = 600.0
REWARD_TIMEOUT_S = 120.0

_PLACEHOLDER = later(r"\{([a-z_]+)\}")
_FUNCTION = later(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")


class RewardKind(StrEnum):
    """Where a reward comes from; also the name of its template."""

    EXACT = "exact"
    REGEX = "regex"
    COMMAND = "command"
    FUNCTION = "function"
    JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class Reward:
    """A kind of reward and its parameters: a pattern, the words of a command, a file and a function, or a judge."""

    kind: RewardKind
    text: str = ""  # the pattern, or the name of the function
    file: str = ""
    words: tuple[str, ...] = ()
    judge_url: str = ""
    judge_key_env: str = ""

    @property
    def needs_answer(self) -> bool:
        """Whether every item of the dataset must have a reference answer."""
        return self.kind in (RewardKind.EXACT, RewardKind.REGEX)


@dataclass(frozen=True, slots=True)
class Blackbox:
    """The parameters of the rendered files. Paths are written into the files as they are; times in seconds."""

    agent: tuple[str, ...]
    dataset: str
    reward: Reward
    eval_dataset: str = ""  # "": some rows of `dataset` are held out
    prompt_column: str = "prompt"
    answer_column: str = "answer"
    id_column: str = "id"
    agent_timeout_s: float = AGENT_TIMEOUT_S
    model_path: str = "Qwen/Qwen2.5-7B-Instruct"
    project: str = "blackbox"

    @property
    def eval_name(self) -> str:
        """The name of the data set in validation results."""
        return PurePath(self.eval_dataset).stem if self.eval_dataset else f"{PurePath(self.dataset).stem}-held-out"


def blackbox_of(scaffold_options: ScaffoldOptions, project: str) -> Blackbox:
    """The agent with its data and reward, paths as they were given. UsageError for options that cannot work."""
    return Blackbox(
        agent=agent_words(scaffold_options.agent_command),
        dataset=scaffold_options.dataset,
        reward=_reward(scaffold_options),
        eval_dataset=scaffold_options.eval_dataset,
        prompt_column=scaffold_options.prompt_column,
        answer_column=scaffold_options.answer_column,
        id_column=scaffold_options.id_column,
        agent_timeout_s=scaffold_options.agent_timeout_s,
        project=project,
        **({"model_path": scaffold_options.model} if scaffold_options.model else {}),
    )


def _reward(scaffold_options: ScaffoldOptions) -> Reward:
    judge = scaffold_options.judge_model
    if judge and scaffold_options.reward:
        raise UsageError("--reward and --judge-model exclude each other: a reward comes from one of them")
    if judge:
        key_env = scaffold_options.judge_api_key_env
        return Reward(RewardKind.JUDGE, judge, judge_url=scaffold_options.judge_base_url, judge_key_env=key_env)
    if not scaffold_options.reward:
        raise UsageError(
            "where does the reward come from?",
            hint="--reward exact, regex[:PATTERN], 'command:...' or FILE.py:function; or --judge-model NAME",
        )
    return reward_from(scaffold_options.reward)


def agent_words(text: str) -> tuple[str, ...]:
    """Split an agent's command line. UsageError for one that cannot work or is unsafe."""
    words = _words("--agent-command", text, AGENT_PLACEHOLDERS)
    if not any("{prompt}" in word or "{prompt_file}" in word for word in words):
        raise UsageError(
            "--agent-command holds neither {prompt} nor {prompt_file}: the agent would not know what to do",
            hint=f"placeholders: {_listed(AGENT_PLACEHOLDERS)}",
        )
    return words


def reward_from(text: str) -> Reward:
    """Parse `exact`, `regex`, `regex:PATTERN`, `command:...` or `FILE.py:function`. UsageError for any other text."""
    kind, colon, rest = text.partition(":")
    if text in ("exact", "regex"):
        return Reward(RewardKind(text))
    if kind == "regex" and colon:
        return Reward(RewardKind.REGEX, _pattern(rest))
    if kind == "command" and colon:
        return Reward(RewardKind.COMMAND, words=_words("--reward command:", rest, REWARD_PLACEHOLDERS))
    if found := _FUNCTION.fullmatch(text):
        return Reward(RewardKind.FUNCTION, found["name"], found["file"])
    raise UsageError(
        f"--reward {text!r} names no reward",
        hint="exact, regex, regex:PATTERN, 'command:PROGRAM {output_file}', FILE.py:function, or --judge-model NAME",
    )


def _pattern(text: str) -> str:
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise UsageError(f"--reward regex: {text!r} is no regular expression: {error}") from None
    if compiled.match("") and not compiled.groups:
        raise UsageError(f"--reward regex: {text!r} finds an answer in no output at all")
    return text


def _words(flag: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{flag} {text!r}: {str(error).lower()}") from None
    if not words:
        raise UsageError(f"{flag} is empty")
    for word in words:
        for name in _PLACEHOLDER.findall(word):
            if name not in known:
                raise UsageError(f"{flag}: {{{name}}} is no placeholder", hint=f"placeholders: {_listed(known)}")
    _refuse_shell(flag, words)
    return words


def _refuse_shell(flag: str, words: Sequence[str]) -> None:
    """UsageError if text from a model or a dataset would be executed as shell code."""
    for n, word in enumerate(words[:-1]):
        by_a_shell = any(PurePath(before).name in _SHELLS for before in words[:n])
        if (
            by_a_shell
            and re.fullmatch(r"-[a-z]*c", word)
            and any(f"{{{name}}}" in words[n + 1] for name in ("prompt", "answer", "item_id"))
        ):
            raise UsageError(
                f"{flag}: the shell would run what stands in the dataset",
                hint="""hand it over as an argument: bash -c 'agent "$1"' agent {prompt}""",
            )


def _listed(names: Sequence[str]) -> str:
    return " ".join(f"{{{name}}}" for name in names)
