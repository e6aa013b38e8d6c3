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
    options: ScaffoldOptions, directory: Path, base: Path, templates: Templates, *, force: bool
) -> tuple[str, ...]:
    """Write the files of AgentJet's train-complex-blackbox skill for this agent; returns their paths."""
    if options.swarm_url and not is_url(options.swarm_url):
        raise UsageError(f"--swarm-url {options.swarm_url!r} is no address of a server", hint="write http://HOST:PORT")
    box = files.settle(blackbox_of(options, slugify(directory.name)), directory, base)
    texts = files.rendered(box, templates)
    texts[files.BLUEPRINT] = files.blueprint(
        box, directory, templates, python=options.python, swarm_url=options.swarm_url
    )
    return tuple(str(path) for path in files.write(texts, directory, force=force))


def blackbox_of(options: ScaffoldOptions, project: str) -> Blackbox:
    """The agent with its data and reward, paths as they were given. UsageError for options that cannot work."""
    return Blackbox(
        agent=agent_words(options.agent_command),
        dataset=options.dataset,
        reward=_reward(options),
        eval_dataset=options.eval_dataset,
        prompt_column=options.prompt_column,
        answer_column=options.answer_column,
        id_column=options.id_column,
        agent_timeout_s=options.agent_timeout_s,
        project=project,
        **({"model_path": options.model} if options.model else {}),
    )


def _reward(options: ScaffoldOptions) -> Reward:
    judge = options.judge_model
    if judge and options.reward:
        raise UsageError("--reward and --judge-model exclude each other: a reward comes from one of them")
    if judge:
        key_env = options.judge_api_key_env
        return Reward(RewardKind.JUDGE, judge, judge_url=options.judge_base_url, judge_key_env=key_env)
    if not options.reward:
        raise UsageError(
            "where does the reward come from?",
            hint="--reward exact, regex[:PATTERN], 'command:...' or FILE.py:function; or --judge-model NAME",
        )
    return reward_from(options.reward)
