"""`autoresearch scaffold blackbox|check`: the files that train a black-box agent with AgentJet, and do they work?"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.core.blueprint.fields import limit
from autoresearch.core.run.swarm import is_url
from autoresearch.errors import UsageError
from autoresearch.lab.agentjet.blackbox import Blackbox, Reward, RewardKind, agent_words, reward_from

BASE_URL = Annotated[str, typer.Option("--base-url", metavar="URL", help="Try an episode against this endpoint.")]
KEY_ENV = Annotated[str, typer.Option("--api-key-env", metavar="NAME", help="The variable that holds its key.")]


def blackbox(
    directory: Annotated[str, typer.Argument(metavar="DIR", show_default=False)],
    agent_command: Annotated[str, typer.Option(help="What runs the agent, with {prompt}, {base_url}, {workdir} ...")],
    dataset: Annotated[str, typer.Option(metavar="FILE", help="JSON lines or CSV.")],
    reward: Annotated[str, typer.Option(help="exact, regex[:PATTERN], command:..., FILE.py:function")] = "",
    judge_model: Annotated[str, typer.Option(help="Have this model judge the answers.")] = "",
    judge_base_url: Annotated[str, typer.Option(metavar="URL", help="Where it is (else $JUDGE_BASE_URL).")] = "",
    judge_api_key_env: Annotated[str, typer.Option(metavar="NAME")] = "JUDGE_API_KEY",
    eval_dataset: Annotated[str, typer.Option(metavar="FILE", help="Else a tenth of the rows is held out.")] = "",
    prompt_column: Annotated[str, typer.Option()] = "prompt",
    answer_column: Annotated[str, typer.Option()] = "answer",
    id_column: Annotated[str, typer.Option()] = "id",
    agent_timeout: Annotated[str, typer.Option(metavar="DURATION", help="Of one episode.")] = "10m",
    model: Annotated[str, typer.Option(help="What is trained: a path on the server's host.")] = "",
    python: Annotated[str, typer.Option(help="The interpreter that AgentJet is installed for.")] = "",
    swarm_url: Annotated[str, typer.Option(metavar="URL", help="A swarm server; else each run starts one.")] = "",
    base_url: BASE_URL = "",
    api_key_env: KEY_ENV = "",
    no_check: Annotated[bool, typer.Option("--no-check", help="Write the files and run none of them.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Render the files of AgentJet's train-complex-blackbox skill for an agent, and check that they work."""
    from autoresearch.core.text.naming import slugify
    from autoresearch.lab.agentjet import scaffold_files as files

    target = Path(directory).resolve()
    endpoint = _endpoint(base_url, api_key_env)
    if swarm_url and not is_url(swarm_url):
        raise UsageError(f"--swarm-url {swarm_url!r} is no address of a server", hint="write http://HOST:PORT")
    box = Blackbox(
        agent=agent_words(agent_command),
        dataset=dataset,
        reward=_reward(reward, judge_model, judge_base_url, judge_api_key_env),
        eval_dataset=eval_dataset,
        prompt_column=prompt_column,
        answer_column=answer_column,
        id_column=id_column,
        agent_timeout_s=limit("--agent-timeout", agent_timeout),
        project=slugify(target.name),
    )
    box = files.settle(replace(box, model_path=model) if model else box, target, Path.cwd())
    texts = files.rendered(box)
    texts[files.BLUEPRINT] = files.blueprint(box, target, python=python, swarm_url=swarm_url)
    written = files.write(texts, target, force=force)
    payload: dict[str, Any] = {"path": str(target), "files": [str(path) for path in written]}
    lines = [f"wrote {target}: {', '.join(texts)}"]
    if not no_check:
        told, more = _checked(target, python or sys.executable, endpoint, "")
        payload |= told
        lines += more
    payload["next"] = _next(directory, tried=bool(base_url))
    output.emit("scaffold blackbox", payload, as_json=as_json, lines=lines)
    return 0


def check(
    directory: Annotated[str, typer.Argument(metavar="DIR", show_default=False)],
    item: Annotated[str, typer.Option(metavar="ID", help="Of the dataset; default: the first.")] = "",
    python: Annotated[str, typer.Option(help="Default: the blueprint's.")] = "",
    base_url: BASE_URL = "",
    api_key_env: KEY_ENV = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Run the collector and one episode; exits 3 where one of them does not work."""
    target = Path(directory).resolve()
    told, lines = _checked(target, python or _interpreter(target), _endpoint(base_url, api_key_env), item)
    payload = {"path": str(target), **told, "next": _next(directory, tried=bool(base_url))}
    output.emit("scaffold check", payload, as_json=as_json, lines=lines)
    return 0


def _checked(directory: Path, python: str, endpoint: Any, item: str) -> tuple[dict[str, Any], list[str]]:
    """The findings as data and as lines."""
    from autoresearch.lab.agentjet import scaffold_check

    try:
        done = scaffold_check.check(directory, python, endpoint, item=item)
    except scaffold_check.CheckFailed as failed:
        failed.fix = f"autoresearch scaffold check {directory}"
        failed.hint = failed.hint or "mend the file that is named, or write all of them again with --force"
        raise
    lines = [f"{done.items} items to train on, the first of them:"]
    lines += [f"  {key}: {value[:100]}" for key, value in done.first.items()]
    asked = "" if done.asked is None else f", which was asked {done.asked} times"
    lines.append(f"one episode with {done.item}: reward {done.reward:g} after {done.seconds:.1f} s")
    lines.append(f"  the model was {done.endpoint}{asked}")
    told = {
        "items": done.items,
        "first": dict(done.first),
        "item": done.item,
        "reward": done.reward,
        "episode_s": done.seconds,
        "endpoint": done.endpoint,
        "asked": done.asked,
        "remarks": list(done.remarks),
    }
    return told, [*lines, *done.remarks]


def _reward(text: str, judge: str, url: str, key_env: str) -> Reward:
    if judge and text:
        raise UsageError("--reward and --judge-model exclude each other: a reward comes from one of them")
    if judge:
        return Reward(RewardKind.JUDGE, judge, judge_url=url, judge_key_env=key_env)
    if not text:
        raise UsageError(
            "where does the reward come from?",
            hint="--reward exact, regex[:PATTERN], 'command:...' or FILE.py:function; or --judge-model NAME",
        )
    return reward_from(text)


def _endpoint(base_url: str, key_env: str) -> Any:
    from autoresearch.lab.agentjet.scaffold_check import Endpoint

    if base_url and not base_url.startswith(("http://", "https://")):
        raise UsageError(f"--base-url {base_url!r} is no address", hint="write http://HOST:PORT/v1")
    if key_env and not base_url:
        raise UsageError("--api-key-env is the key of an endpoint, and --base-url names none")
    if key_env and not os.environ.get(key_env):
        raise UsageError(f"--api-key-env: {key_env} is not set", hint=f"export {key_env}=... and try again")
    return Endpoint(base_url.rstrip("/"), os.environ.get(key_env, "") if key_env else "")


def _interpreter(directory: Path) -> str:
    """What the blueprint beside the files says, else our own."""
    from autoresearch.core.blueprint.parser import parse_blueprint
    from autoresearch.lab.agentjet.scaffold_files import BLUEPRINT

    path = directory / BLUEPRINT
    named = parse_blueprint(path.read_bytes(), str(path)).venv_exe if path.is_file() else ""
    return named if named and Path(named).is_file() else sys.executable


def _next(directory: str, *, tried: bool) -> list[str]:
    blueprint = str(Path(directory) / "blueprint.md")
    real = f"autoresearch scaffold check {directory} --base-url URL --api-key-env NAME"
    return [*([] if tried else [real]), f"autoresearch blueprint check {blueprint}", f"autoresearch run {blueprint}"]
