"""Evaluation: the commands that measure a run after its trainer ended, with a log that only they write to."""

from __future__ import annotations

import os

from .basics import RUN_ID, LaunchError, clock, write_all
from .loop import Loop
from .masking import mask_text
from .spawn import Command, how_it_ended
from .spec import Spec
from .text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LOG = "evaluation.log"


def evaluate(run_dir: str, runner_spec: Spec, loop: Loop, env: Mapping[str, str]) -> dict[str, Any]:
    """Run the evaluation; returns the exit record's entry: exit code (None: killed or not started), seconds,
    reason of failure or "".

    No process of the trainer is alive any more. A log that the trainer left is replaced; raises OSError on failure.
    """
    event_log, began = loop.listener.event_log, clock()
    log = _opened(f"{run_dir}/{LOG}")
    event_log.emit(
        "evaluating", f"the evaluation began; it may take {runner_spec.evaluate_s:g} s", limit_s=runner_spec.evaluate_s
    )
    loop.mirror.say(f"== evaluation; its output: {run_dir}/{LOG} ==")
    code, reason = _run(run_dir, runner_spec, loop, env, log)
    os.close(log)
    took = round(clock() - began, 3)
    told = f"the evaluation failed: {reason}" if reason else f"evaluated in {took:.1f} s"
    event_log.emit("evaluated", told, returncode=code, seconds=took)
    return {"returncode": code, "seconds": took, "reason": reason}


def _opened(path: str) -> int:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _run(run_dir: str, runner_spec: Spec, loop: Loop, env: Mapping[str, str], log: int) -> tuple[int | None, str]:
    """Run the commands in order until one fails: first `evaluate_place`, in the Runner's own environment.

    Returns exit code and reason of failure.
    """
    until = clock() + runner_spec.evaluate_s
    own = {**os.environ, RUN_ID: runner_spec.run}
    ours = [Command(runner_spec.evaluate_place, run_dir, own)] if runner_spec.evaluate_place else []
    theirs = [Command(line, runner_spec.evaluate_in, env, runner_spec.evaluate_inside) for line in runner_spec.evaluate]
    for command in [*ours, *theirs]:
        write_all(log, b"$ " + mask_text(command.line).encode("utf-8", "replace") + b"\n")
        try:
            pid = loop.start(command, log)
        except LaunchError as error:
            return None, f"`{plain(command.line, 120)}` could not be started: {error.args[1]}"
        while loop.runs(pid) and clock() < until and not loop.stopping.later:
            loop.tick(until)
        code, _, words = how_it_ended(loop.statuses[pid])
        loop.tree.kill(loop.tick)
        if loop.stopping.later:
            return code, f"it was cut short: {loop.stopping.later.reason}"
        if code is None:
            return code, f"it took longer than {runner_spec.evaluate_s:g} s"
        if code:
            return code, f"`{plain(command.line, 120)}` {words}"
    return 0, ""
