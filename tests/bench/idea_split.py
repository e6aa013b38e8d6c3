"""A campaign's controller with a stopwatch at each of its parts, for `bench_overhead`.

    python -m tests.bench.idea_split DIRECTORY SPANS

It is the controller as it is shipped, in a process of its own; each part is timed where it is called (some µs each).
SPANS gets a JSON list of `[name, begin, end]`, seconds of the wall clock.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# where it is looked up when it is called: module (and class), attribute, part
PARTS = (
    ("autoresearch.lab.agent_work.agent_jobs:AgentJobs", "propose", "propose: the rest"),
    ("autoresearch.lab.agent_work.agent_jobs", "gather", "propose: gather"),
    ("autoresearch.lab.agent_work.propose", "brief", "propose: brief"),
    ("autoresearch.lab.agent_work.agent_jobs:AgentJobs", "edit", "edit: the rest"),
    ("autoresearch.lab.agent_work.agent_turns", "run_turn", "turn: start and end"),
    ("autoresearch.lab.agent_work.edit", "gathered", "edit: diff"),
    ("autoresearch.lab.agent_work.edit", "patched", "edit: patch tried"),
    ("autoresearch.lab.agent_work.edit", "_recipe", "edit: recipe compared"),
    ("autoresearch.lab.agent_work.edit", "guard", "edit: guard"),
    ("autoresearch.lab.agent_work.agent_worker:AgentWorker", "collect", "taken in"),
    ("autoresearch.lab.ideas.new_ideas", "_commit", "conceive and commit"),
    ("autoresearch.lab.campaigns.live_runs", "get_ready", "prepare"),
    ("autoresearch.lab.campaigns.live_runs", "start", "launch"),
    ("autoresearch.lab.campaigns.recovery", "record", "collect"),
    ("autoresearch.lab.campaigns.context:CampaignContext", "write_documents", "documents"),
    ("autoresearch.lab.campaigns.controller", "finish", "end of the campaign"),
)
OPENED = ("worktree: opened", "worktree: closed")

_spans: list[tuple[str, float, float]] = []


def main() -> None:
    """Be the controller."""
    from autoresearch.commands.wiring import parts
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaigns.controller import Controller
    from autoresearch.records.campaign_records import CampaignDir

    place = CampaignDir(Path(sys.argv[1]))
    for where, attribute, part in PARTS:
        module, _, name = where.partition(":")
        owner = importlib.import_module(module)
        _time(getattr(owner, name) if name else owner, attribute, part)
    _time_opening()

    def say(text: str) -> None:
        with place.log.open("a") as file:
            file.write(f"{time.time():.3f} {text}\n")

    try:
        with start_campaign.in_control(place):
            Controller(place, parts(), say).run()
    finally:
        Path(sys.argv[2]).write_text(json.dumps(_spans))


def _time(owner: Any, attribute: str, part: str) -> None:
    timed: Callable[..., Any] = getattr(owner, attribute)

    @functools.wraps(timed)
    def call(*words: Any, **keys: Any) -> Any:
        with _watch(part):
            return timed(*words, **keys)

    setattr(owner, attribute, call)


def _time_opening() -> None:
    from autoresearch.git_repo.patches import IsolatedWorktree

    opened = IsolatedWorktree.opened

    @contextlib.contextmanager
    def call(self: IsolatedWorktree, commit: str, patch: bytes = b"") -> Iterator[Any]:
        with contextlib.ExitStack() as stack:
            with _watch(OPENED[0]):
                inside = stack.enter_context(opened(self, commit, patch))
            yield inside
            with _watch(OPENED[1]):
                stack.close()

    setattr(IsolatedWorktree, "opened", call)  # noqa: B010 - mypy lets nobody assign to a method


@contextlib.contextmanager
def _watch(part: str) -> Iterator[None]:
    began = time.time()
    try:
        yield
    finally:
        _spans.append((part, began, time.time()))


if __name__ == "__main__":
    main()
