"""The files that train the model behind a black-box agent: rendered from templates/blackbox, all or none.

The names are those of AgentJet's train-complex-blackbox skill (modelscope/AgentJet, ajet/copilot/); `reward.py` and
`validation.py` are shared by the four of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from pathlib import Path

from autoresearch.agentjet.scaffold.blackbox import REWARD_TIMEOUT_S, Blackbox, Reward, RewardKind, blackbox_of
from autoresearch.core.blueprint.fields import BlueprintFields
from autoresearch.core.run.scaffold import ScaffoldOptions, Templates
from autoresearch.core.run.swarm import Swarm, is_url
from autoresearch.core.run.trainer import SourceFormat
from autoresearch.core.text.branch_and_run_names import slugify
from autoresearch.errors import ConflictError, NotFoundError, UsageError

COLLECTOR = "get_training_dataset_item_list.py"
EPISODE = "run_episode_once.py"
ROLL = "agent_roll.py"
DEBUG = "agent_roll_one_episode_debug.py"
BLUEPRINT = "blueprint.md"
SERVER = "ajet-swarm start --swarm-port=$AJET_SWARM_PORT"
PROGRAMS = (COLLECTOR, EPISODE, ROLL, DEBUG, "validation.py")
FILES = (*PROGRAMS, "reward.py", BLUEPRINT)

_DEFAULTS = {  # for the training; each is a flag of agent_roll.py
    "n_gpu": 8, "batch_size": 32, "repeat": 4, "parallel": 64, "total_steps": 100, "eval_interval": 10, "eval_k": 4,
}  # fmt: skip


def write_scaffold(
    scaffold_options: ScaffoldOptions, directory: Path, base: Path, templates: Templates, *, force: bool
) -> tuple[str, ...]:
    """Write the files of AgentJet's train-complex-blackbox skill for this agent; returns their paths."""
    if scaffold_options.swarm_url and not is_url(scaffold_options.swarm_url):
        raise UsageError(
            f"--swarm-url {scaffold_options.swarm_url!r} is no address of a server", hint="write http://HOST:PORT"
        )
    box = resolve_paths(blackbox_of(scaffold_options, slugify(directory.name)), directory, base)
    texts = rendered(box, templates)
    texts[BLUEPRINT] = blueprint(
        box, directory, templates, python=scaffold_options.python, swarm_url=scaffold_options.swarm_url
    )
    return tuple(str(path) for path in write(texts, directory, force=force))


def resolve_paths(box: Blackbox, directory: Path, base: Path) -> Blackbox:
    """The same with every path as the files in `directory` will hold it; relative ones start at `base`.

    Within one repository paths are relative to `directory`, so that they also work in a worktree; others are absolute.
    Raises NotFoundError for a missing file.
    """

    def stored(path: str) -> str:
        return _stored(_existing(base / path), directory) if path else ""

    reward = box.reward
    return dataclasses.replace(
        box,
        agent=_portable(box.agent, directory, base),
        dataset=stored(box.dataset),
        eval_dataset=stored(box.eval_dataset),
        reward=dataclasses.replace(reward, file=stored(reward.file), words=_portable(reward.words, directory, base)),
    )


def rendered(box: Blackbox, templates: Templates) -> dict[str, str]:
    """File name -> text of everything but the blueprint. `box` as `resolve_paths` returns it."""
    values = _values(box)
    texts = {name: templates.render(f"blackbox/{name}.j2", **values) for name in PROGRAMS}
    texts["reward.py"] = templates.render(
        f"blackbox/reward_{box.reward.kind.value}.py.j2", **_reward_values(box.reward)
    )
    return texts


def blueprint(box: Blackbox, directory: Path, templates: Templates, *, python: str, swarm_url: str = "") -> str:
    """The blueprint of a swarm run: server, one-episode check, agent_roll.py as the client.

    swarm_url: an existing server; without one, each run starts its own on a free port.
    """
    result_dir = directory / "results"
    arguments = f"--result-dir {shlex.quote(str(result_dir))}"
    keys = (box.reward.judge_key_env,) if box.reward.judge_key_env else ()
    return templates.render_blueprint(
        BlueprintFields(
            title=f"Train the agent {box.project}",
            purpose=f"Train the model behind the agent `{_called(box.agent)}` on {Path(box.dataset).name} "
            "and see whether its mean reward rises on items that it is never trained on.",
            launch_command=f"python {ROLL} {arguments}",
            codebase_dir=str(directory),
            venv_exe=python,
            result_dir=str(result_dir),
            trainer="agentjet_swarm",
            metric="swarm/mean_reward",
            direction="maximize",
            source=(f"{SourceFormat.SWARM_VAL.value} {shlex.quote(str(result_dir / 'val_results.md'))}",),
            env={"REMOTE_MODEL_PATH": box.model_path} if box.model_path.startswith("/") else {},  # lint looks at it
            requires_env=keys,
            swarm=Swarm(
                server="" if swarm_url else SERVER, url=swarm_url.rstrip("/"), debug=f"python {DEBUG} {arguments}"
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
        _replace(directory / name, text)
    return [directory / name for name in texts]


def _replace(path: Path, text: str) -> None:
    """Write by one rename, so that a reader never sees half a file."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def _values(box: Blackbox) -> dict[str, object]:
    given = {field.name: getattr(box, field.name) for field in dataclasses.fields(box)}
    judged = box.reward.kind is RewardKind.JUDGE
    return {
        **given,
        **_DEFAULTS,
        **_WRITERS,
        "eval_name": box.eval_name,
        "answer_needed": box.reward.needs_answer,
        "reward_timeout_s": REWARD_TIMEOUT_S,
        "model_name": Path(box.model_path).name,
        "hidden_env": (box.reward.judge_key_env,) if judged else (),
    }


def _reward_values(reward: Reward) -> dict[str, object]:
    return {
        **_WRITERS,
        "pattern": reward.text,
        "function": reward.text,
        "file": reward.file,
        "command": reward.words,
        "model": reward.text,
        "base_url": reward.judge_url,
        "key_env": reward.judge_key_env,
        "command_timeout_s": REWARD_TIMEOUT_S / 2,
        "judge_timeout_s": REWARD_TIMEOUT_S / 4,
        "judge_tries": 3,
    }


def _literal(value: object) -> str:
    """A value as a Python literal, with double quotes if that is as short."""
    single = repr(value)
    plain = isinstance(value, str) and not any(mark in single[1:-1] for mark in "\"'")
    return f'"{single[1:-1]}"' if plain else single


def _list(words: tuple[str, ...]) -> str:
    """A list as a Python literal, one word per line if it is long."""
    flat = f"[{', '.join(map(_literal, words))}]"
    return flat if len(flat) < 90 else "[\n" + "".join(f"    {_literal(word)},\n" for word in words) + "]"


def _tuple(words: tuple[str, ...]) -> str:
    return f"({''.join(_literal(word) + ',' for word in words)})"


_WRITERS = {"py": _literal, "py_list": _list, "py_tuple": _tuple}


def _called(agent: tuple[str, ...]) -> str:
    """An agent's short name for a sentence: its program and script."""
    words = [Path(word).name for word in agent if "{" not in word or word.startswith("{here}/")]
    return " ".join(" ".join(words).split())[:60]


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
