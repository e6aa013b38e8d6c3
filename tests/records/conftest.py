"""What the tests of records share: rows, specs, and code that runs in a forked child."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.run.trainer import Source, SourceFormat

EVIL = (
    "",
    " ",
    "NA",
    "nan",
    "None",
    "null",
    "tab\there",
    "line\nbreak",
    "bare\rreturn",
    "windows\r\nend",
    "nul\0byte",
    "back\\slash",
    "\\t is not a tab",
    "\\",
    "\\\\n",
    "ends in a backslash\\",
    'a "quoted" word',
    '"',
    "'single'",
    "comma, semicolon; pipe|",
    "#comment",
    "=1+1",
    "日本語 中文 🎉",
    "\u2028\x85\x0b\x0c\x1c",
    "\ufeffbom",
    "byte \udcff of a file name",
    "\\udcff",
    "\t\n\r\0\\",
    "\n",
    "x" * 5000,
)


@pytest.fixture
def evil() -> tuple[str, ...]:
    """Strings that break tables."""
    return EVIL


@pytest.fixture
def row() -> Callable[..., LedgerRow]:
    """A row of the run `run_id`, as full as real ones are."""

    def make(run_id: str = "sort-aaaaaa", **values: Any) -> LedgerRow:
        made = LedgerRow(
            index=1,
            branch="autoresearch/c/sort",
            commit="0123abc",
            metric_name="val/pass@1",
            metric_value=0.1 + 0.2,
            memory_gb=1.5,
            elapsed_min=0.25,
            launcher="tmux",
            command="python train.py --x 1",
            status="keep",
            description="sorts digits",
            run_id=run_id,
            replicate=1,
            ending="finished",
            returncode=0,
            seed=7,
            seed_by="flag --seed",
        )
        return replace(made, **values)

    return make


@pytest.fixture
def spec() -> RunSpec:
    """A spec with something in every field."""
    return RunSpec(
        run="sort-aaaaaa",
        slug="sort",
        purpose="Does a\nlarger step sort better? 更好",
        campaign="20261121-sort",
        experiment="sort",
        index=3,
        replicate=2,
        blueprint="/b/sort.md",
        blueprint_sha="ab" * 32,
        recipe="/b/r.yaml",
        recipe_in_commit="b/r.yaml",
        no_snapshot="git-lfs is missing",
        trainer="verl",
        command="python train.py \\\n  --api-key hunter2 --lr 1e-6",
        cwd="/code",
        interpreter="/v/python",
        interpreter_source=".venv",
        limits=Limits(first_step_s=12.5, stall_s=60.0, strict_first_step=True),
        session="ajet_sort_aaaaaa",
        run_dir="/code/reports/sort",
        result_dir="/code/out",
        ledger="/code/reports/results.tsv",
        created=1790000000.25,
        objective=Objective("loss", Direction.MINIMIZE),
        constraints=("memory_gb <= 40",),
        branch="autoresearch/c/sort",
        commit="c" * 40,
        parent_commit="p" * 40,
        parent_branch="main",
        fix_of="sort-zzzzzz",
        seed=7,
        seed_by="flag --seed",
        driven_by="claude",
        sources=(Source(SourceFormat.JSONL, "/code/m.jsonl", 1), Source(SourceFormat.CONSOLE, "/x\udcff")),
        source_offsets=(10, 0),
        source_marks=("0123456789abcdef", ""),
        within=("/r", "/c"),
        signals=(SignalPattern(SignalKind.PROGRESS, r"boot (?P<step>\d+) \xe9", 5.0, ("boot ",)),),
        prepare=("make data", "true"),
        evaluate=("python eval.py",),
        evaluate_s=60.0,
        evaluate_in="/trees/evaluation-1",
        evaluate_place="autoresearch evaluation-place /trees/evaluation-1",
        worktree="/trees/slot-1",
        sandbox="bwrap",
        cleanup=("rm -f tmp",),
        environment={"HF_TOKEN": "***", "A": "1"},
        gpus=("GPU-1",),
        keep_children=True,
        left_out=("big.bin: over 50 MB",),
        edited=("train.py",),
        notes="trainer: verl\nmore",
        timed_by="timeout",
        why="retest",
        lines=("step Step {step}",),
        swarm=Swarm(server="ajet-swarm start", debug="python one.py", on_busy="stop", retries=(5, 60.0)),
    )


@pytest.fixture
def forked() -> Callable[[Callable[[], object]], int]:
    """Run something in a forked child; gives its exit code: 0, 1 after a traceback, or -n for signal n."""

    def run(work: Callable[[], object]) -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
                traceback.print_exc()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return run


@pytest.fixture
def dying() -> Callable[[Callable[[], object], int, bool], Callable[[], None]]:
    """Wrap some work so that it is killed at its n-th call that changes a file, before or after that call."""
    changing = ("write", "pwrite", "fsync", "ftruncate", "rename", "replace", "unlink", "open", "mkdir", "link")

    def wrap(work: Callable[[], object], n: int, after: bool) -> Callable[[], None]:
        def doomed() -> None:
            calls = [0]

            def counted(real: Callable[..., Any]) -> Callable[..., Any]:
                def call(*args: Any, **kwargs: Any) -> Any:
                    calls[0] += 1
                    if calls[0] == n and not after:
                        os.kill(os.getpid(), signal.SIGKILL)
                    try:
                        return real(*args, **kwargs)
                    finally:
                        if calls[0] == n and after:
                            os.kill(os.getpid(), signal.SIGKILL)

                return call

            for name in changing:
                setattr(os, name, counted(getattr(os, name)))  # only in the forked child
            work()

        return doomed

    return wrap
