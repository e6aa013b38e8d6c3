"""From what a person says about an agent to the files around it."""

from __future__ import annotations

from pathlib import Path

from autoresearch.agentjet.scaffold import files
from autoresearch.agentjet.scaffold.blackbox import Blackbox, Reward, RewardKind, agent_words, reward_from
from autoresearch.core.run.scaffold import ScaffoldOptions, Templates
from autoresearch.core.run.swarm import is_url
from autoresearch.core.text.naming import slugify
from autoresearch.errors import UsageError


def write_scaffold(
    scaffold_options: ScaffoldOptions, directory: Path, base: Path, templates: Templates, *, force: bool
) -> tuple[str, ...]:
    """Write the files of AgentJet's train-complex-blackbox skill for this agent; returns their paths."""
    if scaffold_options.swarm_url and not is_url(scaffold_options.swarm_url):
        raise UsageError(
            f"--swarm-url {scaffold_options.swarm_url!r} is no address of a server", hint="write http://HOST:PORT"
        )
    box = files.resolve_paths(blackbox_of(scaffold_options, slugify(directory.name)), directory, base)
    texts = files.rendered(box, templates)
    texts[files.BLUEPRINT] = files.blueprint(
        box, directory, templates, python=scaffold_options.python, swarm_url=scaffold_options.swarm_url
    )
    return tuple(str(path) for path in files.write(texts, directory, force=force))


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
