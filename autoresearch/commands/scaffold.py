"""`autoresearch scaffold blackbox|check`: the files that train a black-box agent with AgentJet, and do they work?"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

from autoresearch.commands import Option, Positional
from autoresearch.commands.output import CommandResult
from autoresearch.core.blueprint.fields import limit
from autoresearch.core.run.hooks import Endpoint, HasScaffold, ScaffoldOptions, Templates
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.errors import UsageError

TRAINER = "agentjet_swarm"
KEYS = (
    *("model", "swarm_url", "eval_dataset", "prompt_column", "answer_column", "id_column", "agent_timeout"),
    *("judge_base_url", "judge_api_key_env", "python"),
)
BASE_URL = Annotated[str, Option("--base-url", metavar="URL", help="Try an episode against this endpoint.")]
KEY_ENV = Annotated[str, Option("--api-key-env", metavar="NAME", help="The variable that holds its key.")]


def blackbox(
    agent_command: Annotated[str, Option(help="What runs the agent, with {prompt}, {base_url}, {workdir} ...")],
    dataset: Annotated[str, Option(metavar="FILE", help="JSON lines or CSV.")],
    directory: Annotated[str, Positional(metavar="DIR", show_default="tutorial/opencode_build_DATASET")] = "",
    reward: Annotated[str, Option(help="exact, regex[:PATTERN], command:..., FILE.py:function")] = "",
    judge_model: Annotated[str, Option(help="Have this model judge the answers.")] = "",
    base_url: BASE_URL = "",
    api_key_env: KEY_ENV = "",
    set_: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help=f"One of {', '.join(KEYS)}.")
    ] = None,
    no_check: Annotated[bool, Option("--no-check", help="Write the files and run none of them.")] = False,
    force: Annotated[bool, Option("--force", help="Replace files that are there.")] = False,
) -> CommandResult:
    """Render the files of AgentJet's train-complex-blackbox skill for an agent, and check that they work."""
    from autoresearch.core.keys import ValueType
    from autoresearch.lab.render import render, render_blueprint
    from autoresearch.lab.yaml_files import parse_pairs

    directory = directory or f"tutorial/opencode_build_{slugify(Path(dataset).stem).replace('-', '_')}"
    target = Path(directory).resolve()
    endpoint = _endpoint(base_url, api_key_env)
    given = parse_pairs(set_ or (), dict.fromkeys(KEYS, ValueType.TEXT))
    keys = {name: value for name, value in given.items() if value is not None}
    timeout = limit("--set agent_timeout", keys.pop("agent_timeout", "10m"))
    options = ScaffoldOptions(
        agent_command=agent_command,
        dataset=dataset,
        reward=reward,
        judge_model=judge_model,
        agent_timeout_s=timeout,
        **{"judge_api_key_env": "JUDGE_API_KEY", **keys},
    )
    templates = Templates(render, render_blueprint)
    files = _trainer().write_scaffold(options, str(target), str(Path.cwd()), templates, force=force)
    payload: dict[str, Any] = {"path": str(target), "files": list(files)}
    lines = [f"wrote {target}: {', '.join(Path(path).name for path in files)}"]
    if not no_check:
        results, more = _checked(target, options.python or sys.executable, endpoint, "")
        payload |= results
        lines += more
    payload["next"] = _next(directory, tried=bool(base_url))
    return CommandResult(payload, lines)


def check(
    directory: Annotated[str, Positional(metavar="DIR", show_default=False)],
    item: Annotated[str, Option(metavar="ID", help="Of the dataset; default: the first.")] = "",
    python: Annotated[str, Option(hidden=True)] = "",
    base_url: BASE_URL = "",
    api_key_env: KEY_ENV = "",
) -> CommandResult:
    """Run the collector and one episode; exits 3 where one of them does not work."""
    target = Path(directory).resolve()
    results, lines = _checked(target, python, _endpoint(base_url, api_key_env), item)
    payload = {"path": str(target), **results, "next": _next(directory, tried=bool(base_url))}
    return CommandResult(payload, lines)


def _checked(directory: Path, python: str, endpoint: Endpoint, item: str) -> tuple[dict[str, Any], list[str]]:
    """The findings as data and as lines."""
    done = _trainer().check_scaffold(str(directory), python, endpoint, item)
    lines = [f"{done.items} items to train on, the first of them:"]
    lines += [f"  {key}: {value[:100]}" for key, value in done.first.items()]
    requests = "" if done.requests is None else f", which was asked {done.requests} times"
    lines.append(f"one episode with {done.item}: reward {done.reward:g} after {done.seconds:.1f} s")
    lines.append(f"  the model was {done.endpoint}{requests}")
    results = {
        "items": done.items,
        "first": dict(done.first),
        "item": done.item,
        "reward": done.reward,
        "episode_s": done.seconds,
        "endpoint": done.endpoint,
        "asked": done.requests,
        "remarks": list(done.remarks),
    }
    return results, [*lines, *done.remarks]


def _trainer() -> HasScaffold:
    """The trainer that a black-box agent is trained with."""
    from autoresearch.trainers import registry

    trainer = registry.by_name(TRAINER)
    assert isinstance(trainer, HasScaffold)
    return trainer


def _endpoint(base_url: str, key_env: str) -> Endpoint:
    if base_url and not base_url.startswith(("http://", "https://")):
        raise UsageError(f"--base-url {base_url!r} is no address", hint="write http://HOST:PORT/v1")
    if key_env and not base_url:
        raise UsageError("--api-key-env is the key of an endpoint, and --base-url names none")
    if key_env and not os.environ.get(key_env):
        raise UsageError(f"--api-key-env: {key_env} is not set", hint=f"export {key_env}=... and try again")
    return Endpoint(base_url.rstrip("/"), os.environ.get(key_env, "") if key_env else "")


def _next(directory: str, *, tried: bool) -> list[str]:
    blueprint = str(Path(directory) / "blueprint.md")
    real = f"autoresearch scaffold check {directory} --base-url URL --api-key-env NAME"
    return [*([] if tried else [real]), f"autoresearch blueprint check {blueprint}", f"autoresearch run {blueprint}"]
