"""The files that train the model behind a black-box agent: rendered from templates/blackbox, all or none.

An agent is given by its command line, its dataset, and the source of its reward. Placeholders in braces are substituted
in each word of a command when an episode begins, without a shell, so that a prompt may contain any characters. The
names of the files are those of AgentJet's train-complex-blackbox skill (modelscope/AgentJet, ajet/copilot/);
`reward.py` and `validation.py` are shared by the four of them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path, PurePath

from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.run.hooks import ScaffoldOptions, Templates
from autoresearch.core.run.swarm import Swarm, is_url
from autoresearch.core.text.regex import later
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.errors import ConflictError, NotFoundError, UsageError
from autoresearch.records.hostile import write_atomically

COLLECTOR = "get_training_dataset_item_list.py"
EPISODE = "run_episode_once.py"
ROLL = "agent_roll.py"
DEBUG = "agent_roll_one_episode_debug.py"
BLUEPRINT = "blueprint.md"
SERVER = "ajet-swarm start --swarm-port=$AJET_SWARM_PORT"
PROGRAMS = (COLLECTOR, EPISODE, ROLL, DEBUG, "validation.py")
MODEL = "Qwen/Qwen2.5-7B-Instruct"
AGENT_TIMEOUT_S = 600.0  # where a file does not say it
REWARD_TIMEOUT_S = 120.0

_SHARED = ("workdir", "here", "python")  # working directory of the agent, directory of the rendered files, their Python
AGENT_PLACEHOLDERS = ("prompt", "prompt_file", "base_url", "api_key", "model", "item_id", *_SHARED)
REWARD_PLACEHOLDERS = ("output_file", "answer", "answer_file", "item_file", *_SHARED)

_DEFAULTS = {  # for the training; each is a flag of agent_roll.py
    "n_gpu": 8, "batch_size": 32, "repeat": 4, "parallel": 64, "total_steps": 100, "eval_interval": 10, "eval_k": 4,
}  # fmt: skip
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
    text: str = ""  # the pattern, the name of the function, or the judge's model
    file: str = ""
    words: tuple[str, ...] = ()
    judge_url: str = ""
    judge_key_env: str = ""


@dataclass(frozen=True, slots=True)
class Blackbox:
    """An agent with its data and reward. Paths are written into the files as they are here."""

    options: ScaffoldOptions
    agent: tuple[str, ...]
    reward: Reward
    project: str

    @property
    def eval_name(self) -> str:
        """The name of the data set in validation results; without one, some rows of the training data are held out."""
        held_out = f"{PurePath(self.options.dataset).stem}-held-out"
        return PurePath(self.options.eval_dataset).stem if self.options.eval_dataset else held_out


def write_scaffold(
    scaffold_options: ScaffoldOptions, directory: Path, base: Path, templates: Templates, *, force: bool
) -> tuple[str, ...]:
    """Write the files of AgentJet's train-complex-blackbox skill for this agent; returns their paths."""
    if scaffold_options.swarm_url and not is_url(scaffold_options.swarm_url):
        raise UsageError(
            f"--set swarm_url={scaffold_options.swarm_url!r} is no address of a server", hint="write http://HOST:PORT"
        )
    box = blackbox(scaffold_options, directory, base)
    texts = {**rendered(box, templates), BLUEPRINT: blueprint(box, directory, templates)}
    return tuple(str(path) for path in write(texts, directory, force=force))


def blackbox(scaffold_options: ScaffoldOptions, directory: Path, base: Path) -> Blackbox:
    """The agent, with every path as the files in `directory` will hold it; relative ones start at `base`.

    Within one repository paths are relative to `directory`, so that they also work in a worktree; others are absolute.
    Raises UsageError for options that cannot work and NotFoundError for a missing file.
    """

    def stored(path: str) -> str:
        return _stored(_existing(base / path), directory) if path else ""

    agent, reward = agent_words(scaffold_options.agent_command), _reward(scaffold_options)
    return Blackbox(
        options=replace(
            scaffold_options,
            dataset=stored(scaffold_options.dataset),
            eval_dataset=stored(scaffold_options.eval_dataset),
        ),
        agent=_portable(agent, directory, base),
        reward=replace(reward, file=stored(reward.file), words=_portable(reward.words, directory, base)),
        project=slugify(directory.name),
    )


def agent_words(text: str) -> tuple[str, ...]:
    """Split an agent's command line. UsageError for one that cannot work or is unsafe."""
    words = _words("--agent-command", text, AGENT_PLACEHOLDERS)
    if not any("{prompt}" in word or "{prompt_file}" in word for word in words):
        raise UsageError(
            "--agent-command holds neither {prompt} nor {prompt_file}: the agent would not know what to do",
            hint=f"placeholders: {_listed(AGENT_PLACEHOLDERS)}",
        )
    return words


def _reward(scaffold_options: ScaffoldOptions) -> Reward:
    """The judge, or `exact`, `regex`, `regex:PATTERN`, `command:...`, `FILE.py:function`; UsageError for others."""
    text, judge = scaffold_options.reward, scaffold_options.judge_model
    if judge and text:
        raise UsageError("--reward and --judge-model exclude each other: a reward comes from one of them")
    if judge:
        url, key_env = scaffold_options.judge_base_url, scaffold_options.judge_api_key_env
        return Reward(RewardKind.JUDGE, judge, judge_url=url, judge_key_env=key_env)
    if not text:
        raise UsageError(
            "where does the reward come from?",
            hint="--reward exact, regex[:PATTERN], 'command:...' or FILE.py:function; or --judge-model NAME",
        )
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
    """The words of a command; UsageError if text from a model or a dataset would be executed as shell code."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{flag} {text!r}: {str(error).lower()}") from None
    if not words:
        raise UsageError(f"{flag} is empty")
    for name in (name for word in words for name in _PLACEHOLDER.findall(word)):
        if name not in known:
            raise UsageError(f"{flag}: {{{name}}} is no placeholder", hint=f"placeholders: {_listed(known)}")
    for n, word in enumerate(words[1:-1], start=1):
        by_a_shell = any(PurePath(before).name in _SHELLS for before in words[:n])
        foreign = any(f"{{{name}}}" in words[n + 1] for name in ("prompt", "answer", "item_id"))
        if by_a_shell and re.fullmatch(r"-[a-z]*c", word) and foreign:
            raise UsageError(
                f"{flag}: the shell would run what stands in the dataset",
                hint="""hand it over as an argument: bash -c 'agent "$1"' agent {prompt}""",
            )
    return words


def _listed(names: Sequence[str]) -> str:
    return " ".join(f"{{{name}}}" for name in names)


def rendered(box: Blackbox, templates: Templates) -> dict[str, str]:
    """File name -> text of everything but the blueprint."""
    options, reward, model = box.options, box.reward, box.options.model or MODEL
    values = {
        **{field.name: getattr(options, field.name) for field in fields(options)},
        **_DEFAULTS,
        **_WRITERS,
        "agent": box.agent,
        "project": box.project,
        "model_path": model,
        "model_name": Path(model).name,
        "eval_name": box.eval_name,
        "answer_needed": reward.kind in (RewardKind.EXACT, RewardKind.REGEX),
        "reward_timeout_s": REWARD_TIMEOUT_S,
        "hidden_env": (reward.judge_key_env,) if reward.kind is RewardKind.JUDGE else (),
    }
    reward_values = {
        **_WRITERS,
        **dict.fromkeys(("pattern", "function", "model"), reward.text),
        "file": reward.file,
        "command": reward.words,
        "base_url": reward.judge_url,
        "key_env": reward.judge_key_env,
        "command_timeout_s": REWARD_TIMEOUT_S / 2,
        "judge_timeout_s": REWARD_TIMEOUT_S / 4,
        "judge_tries": 3,
    }
    texts = {name: templates.render(f"blackbox/{name}.j2", **values) for name in PROGRAMS}
    return {**texts, "reward.py": templates.render(f"blackbox/reward_{reward.kind}.py.j2", **reward_values)}


def blueprint(box: Blackbox, directory: Path, templates: Templates) -> str:
    """The blueprint of a swarm run: server, one-episode check, agent_roll.py as the client.

    Without the URL of an existing server, each run starts its own on a free port.
    """
    options, model = box.options, box.options.model or MODEL
    result_dir = directory / "results"
    arguments = f"--result-dir {shlex.quote(str(result_dir))}"
    server = "" if options.swarm_url else SERVER
    # The agent's short name: its program and script.
    names = [Path(word).name for word in box.agent if "{" not in word or word.startswith("{here}/")]
    called = " ".join(" ".join(names).split())[:60]
    return templates.render_blueprint(
        Blueprint(
            title=f"Train the agent {box.project}",
            purpose=f"Train the model behind the agent `{called}` on {Path(options.dataset).name} "
            "and see whether its mean reward rises on items that it is never trained on.",
            launch_command=f"python {ROLL} {arguments}",
            codebase_dir=str(directory),
            venv_exe=options.python,
            result_dir=str(result_dir),
            notes=Notes(
                trainer="agentjet_swarm",
                metric="swarm/mean_reward",
                direction="maximize",
                env={"REMOTE_MODEL_PATH": model} if model.startswith("/") else {},  # lint looks at it
                requires_env=(box.reward.judge_key_env,) if box.reward.judge_key_env else (),
                swarm=Swarm(server=server, url=options.swarm_url.rstrip("/"), debug=f"python {DEBUG} {arguments}"),
            ),
        )
    )


def write(texts: dict[str, str], directory: Path, *, force: bool) -> list[Path]:
    """Write all files, or none: ConflictError names existing ones. Returns the paths, in order."""
    taken = [name for name in texts if os.path.lexists(directory / name)]
    if taken and not force:
        verb = "exists" if len(taken) == 1 else "exist"
        raise ConflictError(
            f"{', '.join(taken)} {verb} already in {directory}", hint="nothing was changed; --force replaces them"
        )
    if directory.exists() and not directory.is_dir():
        raise ConflictError(f"{directory} is a file; a directory is needed")
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomically(directory / name, text.encode(), durable=False)
    return [directory / name for name in texts]


def _list(words: tuple[str, ...]) -> str:
    """A list as a Python literal, one word per line if it is long."""
    flat = f"[{', '.join(map(repr, words))}]"
    return flat if len(flat) < 90 else "[\n" + "".join(f"    {word!r},\n" for word in words) + "]"


def _tuple(words: tuple[str, ...]) -> str:
    return f"({''.join(f'{word!r},' for word in words)})"


_WRITERS = {"py": repr, "py_list": _list, "py_tuple": _tuple}


def _existing(path: Path) -> Path:
    path = path.resolve()
    if not path.is_file():
        raise NotFoundError(f"{path} is no file" if path.exists() else f"there is no file {path}")
    return path


def _portable(words: tuple[str, ...], directory: Path, base: Path) -> tuple[str, ...]:
    """The words of a command; those that name a local file are rewritten to work from everywhere."""
    portable = []
    for n, word in enumerate(words):
        path = base / word
        if "{" not in word and (n or "/" in word) and path.is_file():  # a first word without a slash is on PATH
            stored = _stored(path.resolve(), directory)
            # an outgoing link keeps its name: a virtual environment's python is one
            own = str(path.parent.resolve() / path.name)
            word = own if stored.startswith("/") else f"{{here}}/{stored}"
        portable.append(word)
    if any("\0" in word for word in portable):
        raise UsageError("a command line cannot hold a NUL")
    return tuple(portable)


def _stored(path: Path, directory: Path) -> str:
    """The path as the files in `directory` name it: relative within one repository, else absolute."""
    root = next((one for one in (directory, *directory.parents) if (one / ".git").exists()), directory)
    return os.path.relpath(path, directory) if path.is_relative_to(root) else str(path)
