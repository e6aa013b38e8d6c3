"""Checks a scaffold by running its files, before any server is started or any GPU is taken.

The collector must return items, and one episode must run to a finite reward: against the given endpoint, or against a
stand-in model that gives every request the same answer.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from autoresearch.agentjet.scaffold.blackbox import AGENT_TIMEOUT_S, REWARD_TIMEOUT_S
from autoresearch.agentjet.scaffold.files import BLUEPRINT, COLLECTOR, DEBUG, EPISODE, PROGRAMS, ROLL
from autoresearch.agentjet.scaffold.stand_in_model import StandIn, stand_in_model
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.run.scaffold import Endpoint, ScaffoldResult
from autoresearch.errors import BlueprintError, EnvironmentUnusable, NotFoundError
from autoresearch.records.secrets import MASK, mask_text
from autoresearch.runner.text import plain

COLLECT_S = 300.0  # for a data set of millions of rows
JOB_S = 300.0  # for importing ajet and building a configuration
_END_S = 30.0  # for a program that ends its own agent first
_SHOWN = 400
_MOST_OUTPUT = 1 << 18


class CheckFailed(BlueprintError):  # noqa: N818 - it names what happened
    """The files do not work; the message says which and why."""

    code = "check_failed"


def check_scaffold(directory: Path, python: str, endpoint: Endpoint, item: str = "") -> ScaffoldResult:
    """Check with this interpreter, or that of the blueprint beside the files; a failure says how to repeat it."""
    try:
        return check(directory, python or _interpreter(directory), endpoint, item=item)
    except CheckFailed as failed:
        failed.fix = f"autoresearch scaffold check {directory}"
        failed.hint = failed.hint or "mend the file that is named, or write all of them again with --force"
        raise


def _batch_size(directory: Path) -> int:
    """Different items in a step: of the blueprint's command, else of the client's defaults; 1 if neither says it."""
    texts = (path.read_text(encoding="utf-8") for name in (BLUEPRINT, ROLL) if (path := directory / name).is_file())
    found = re.search(r"""--batch-size(?:[ =]|", type=int, default=)(\d{1,6})\b""", "\n".join(texts))
    return int(found[1]) if found else 1


def _too_few(items: int, batch_size: int) -> Iterator[str]:
    """A remark if the items never fill a batch, so that no step would ever end; the client then refuses to start."""
    if items < batch_size:
        yield (
            f"a step takes {batch_size} different items, and there are {items} to train on: add items, or "
            f"`--batch-size {items}` to the command in {BLUEPRINT}"
        )


def _interpreter(directory: Path) -> str:
    """What the blueprint beside the files names, else our own."""
    path = directory / BLUEPRINT
    named = parse_blueprint(path.read_bytes(), str(path)).venv_exe if path.is_file() else ""
    return named if named and Path(named).is_file() else sys.executable


def check(directory: Path, python: str, endpoint: Endpoint, *, item: str = "") -> ScaffoldResult:
    """Run the collector and one episode with this interpreter.

    Raises NotFoundError if files are missing and CheckFailed for the first failure.
    """
    missing = [name for name in (*PROGRAMS, "reward.py") if not (directory / name).is_file()]
    if missing:
        raise NotFoundError(
            f"{directory} lacks {', '.join(missing)}", hint="`autoresearch scaffold blackbox` writes them"
        )
    for name in (*PROGRAMS, "reward.py"):
        _compiles(directory / name)
    collected = _json(directory, python, [COLLECTOR], {}, COLLECT_S)
    count = collected.get("count")
    if not isinstance(count, int) or count < 1:
        raise CheckFailed(f"{COLLECTOR}: {collected.get('error', 'it returns no item')}")
    first = {str(key): plain(str(value), _SHOWN) for key, value in (collected.get("first") or {}).items()}
    item = item or first.get("id", "")
    requests = None
    if endpoint.base_url:
        reward, seconds = _episode(directory, python, endpoint, item)
    else:
        with stand_in_model() as model:
            reward, seconds = _episode(directory, python, Endpoint(model.base_url, "stand-in"), item)
            _refuse_unused(model)
            requests = model.requests
    used = endpoint.base_url or "a stand-in model"
    remarks = (*_too_few(count, _batch_size(directory)), *_client(directory, python))
    return ScaffoldResult(count, first, item, reward, seconds, used, requests, remarks)


def _refuse_unused(model: StandIn) -> None:
    if model.requests:
        return
    if model.unknown:
        raise CheckFailed(
            f"the agent asked {model.unknown[0]}, and the stand-in model knows /v1/chat/completions only",
            hint="try it with --base-url URL --api-key-env NAME",
        )
    raise CheckFailed(
        f"{EPISODE}: the agent never asked the model, so that nothing it does could be trained",
        hint="hand {base_url} and {api_key} to it; OPENAI_BASE_URL and OPENAI_API_KEY are in its environment",
    )


def _episode(directory: Path, python: str, endpoint: Endpoint, item: str) -> tuple[float, float]:
    words = [EPISODE, "--item", item, "--base-url", endpoint.base_url]
    answer = _json(directory, python, words, {"OPENAI_API_KEY": endpoint.api_key or "none"}, _episode_s(directory))
    reward = answer.get("reward")
    if "error" in answer or not isinstance(reward, int | float) or not math.isfinite(reward):
        raise CheckFailed(f"{EPISODE}: {_masked(str(answer.get('error', 'it tells no finite reward')), endpoint)}")
    return float(reward), float(answer.get("seconds") or 0.0)


def _masked(text: str, endpoint: Endpoint) -> str:
    text = text.replace(endpoint.api_key, MASK) if endpoint.api_key else text
    return plain(mask_text(text), 2 * _SHOWN)


def _episode_s(directory: Path) -> float:
    """Timeout for an episode: the file ends itself after the agent's and the reward's time; this is for one that does
    not.
    """
    text = (directory / EPISODE).read_text(encoding="utf-8", errors="replace")
    times = dict(re.findall(r"^(AGENT_TIMEOUT_S|REWARD_TIMEOUT_S) = ([\d.]{1,12})", text, re.MULTILINE))
    agent, reward = times.get("AGENT_TIMEOUT_S", AGENT_TIMEOUT_S), times.get("REWARD_TIMEOUT_S", REWARD_TIMEOUT_S)
    return float(agent) + float(reward) + 60.0


def _client(directory: Path, python: str) -> tuple[str, ...]:
    """Have agent_roll.py build its configuration if AgentJet is installed; else return a remark."""
    probe = ["-c", "import importlib.util as u; raise SystemExit(0 if u.find_spec('ajet') else 7)"]
    if _run(directory, python, probe, {}, JOB_S).returncode:
        return (f"AgentJet is not installed for {python}: {ROLL} and {DEBUG} were compiled, not run",)
    with tempfile.TemporaryDirectory(prefix="prepared-") as scratch:
        done = _run(directory, python, [ROLL, "--prepare-only", "--result-dir", scratch], {}, JOB_S)
    if done.returncode:
        raise CheckFailed(f"{ROLL} --prepare-only ended with {done.returncode}: {plain(done.last_error, _SHOWN)}")
    return ()


def _compiles(path: Path) -> None:
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise CheckFailed(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class _ProgramResult:
    returncode: int
    output: str
    errors: str

    @property
    def last_error(self) -> str:
        lines = self.errors.strip().splitlines() or self.output.strip().splitlines() or ["it said nothing"]
        return lines[-1]


def _json(
    directory: Path, python: str, words: Sequence[str], extra: Mapping[str, str], limit_s: float
) -> dict[str, Any]:
    """The object on the last line that a program of the scaffold prints."""
    done = _run(directory, python, words, extra, limit_s)
    try:
        value = json.loads(done.output.strip().rpartition("\n")[2])
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CheckFailed(f"{words[0]} ended with {done.returncode}: {plain(mask_text(done.last_error), _SHOWN)}")
    return value


def _run(
    directory: Path, python: str, words: Sequence[str], extra: Mapping[str, str], limit_s: float
) -> _ProgramResult:
    """Run a program of the scaffold with a time limit; only the end of its output is kept."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **extra}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [python, *words], cwd=directory, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            )  # fmt: skip
        except OSError as error:
            raise EnvironmentUnusable(f"{python} cannot be started: {error.strerror}") from None
        with _ended(process):
            try:
                returncode = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise CheckFailed(f"{words[0]} ran longer than {limit_s:.0f} s and was ended") from None
        return _ProgramResult(returncode, _end_of(output), _end_of(errors))


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the program and its group on leaving the block, Ctrl-C included."""
    try:
        yield
    finally:
        deadline = time.monotonic() + _END_S
        if process.poll() is None:
            process.terminate()  # it ends its agent
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _end_of(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST_OUTPUT))
    return file.read().decode("utf-8", "replace")
