"""Guard commands: on the patch in a clean worktree, limited, with nothing left of them, and seeing no secret."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.agents.agent import NotMade
from tests.processes import is_dead

pytestmark = pytest.mark.system


def better(tree: Path) -> None:
    (tree / "lib/a.py").write_text("a = 7\n")


def test_the_guard_sees_the_patch_and_the_tests_of_the_base(make_yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwxyz")
    monkeypatch.setenv("AUTORESEARCH_SECRET_PLAN", "x")
    yard = make_yard(
        guard=(
            "python -c 'import lib.a; assert lib.a.a == 7' && test -f tests/test_a.py",
            'test -z "$HF_TOKEN$AUTORESEARCH_SECRET_PLAN$CUDA_VISIBLE_DEVICES"',
            'test "$(command -v python)" = "' + f'{Path(sys.executable).parent}/python"',
            "echo harmless > train.py; touch new.py",
        )
    )
    edit = yard.edit(better)
    assert (edit.unmade, edit.why, edit.paths) == (None, "", ("lib/a.py",))
    assert "harmless" not in yard.show(yard.committed(edit), "train.py"), "what a guard changes is no matter"
    directory = yard.asked[0].directory
    assert sorted(place.name for place in Path(directory).glob("guard-*")) == [f"guard-{n}" for n in range(1, 5)]
    assert yard.edit(better).unmade is None, "and is gone the next time"


def test_a_guard_that_fails(make_yard: Any) -> None:
    lines = "for i in $(seq 1 50); do echo line $i; done; echo password=hunter2; "
    yard = make_yard(guard=("true", lines + "exit 3", "touch ../third-was-run"))
    edit = yard.edit(better)
    assert edit.unmade is NotMade.GUARD and "exited with 3" in edit.why and edit.patch
    assert edit.why.count("\nline ") == 19 and "line 32\n" in edit.why and "line 31\n" not in edit.why
    assert "hunter2" not in edit.why
    assert not (yard.bench.trees / "third-was-run").exists()


def test_a_guard_that_hangs_and_leaves_children_is_ended_with_them(make_yard: Any) -> None:
    script = "(setsid env -i sleep 1000 & echo $! > ../escaped); sleep 1000 & echo $! > ../child; trap '' TERM; wait"
    yard = make_yard(guard=(script,), guard_s=4.0)
    edit = yard.edit(better)
    assert edit.unmade is NotMade.GUARD and "did not end within 4 s" in edit.why
    pids = [int((yard.bench.trees / name).read_text()) for name in ("escaped", "child")]
    assert all(map(is_dead, pids))


def test_a_guard_that_succeeds_leaves_nothing_either(make_yard: Any) -> None:
    yard = make_yard(guard=("sleep 1000 & echo $! > ../child; setsid sleep 1000 & exit 0",))
    assert yard.edit(better).unmade is None
    assert is_dead(int((yard.bench.trees / "child").read_text()))


def test_a_guard_may_have_no_time_or_be_confined(make_yard: Any) -> None:
    yard = make_yard(guard=("true", "true"), guard_s=0.0)
    edit = yard.edit(better)
    assert edit.unmade is NotMade.GUARD and "no time left" in edit.why, "the limit is for all of them"
    yard = yard.with_spec(guard=("false",), guard_s=600.0)
    inverted = replace(yard.bench, confined=lambda command, place: f"! ({command}) && test $PWD = {place}")
    assert replace(yard, bench=inverted).edit(better).unmade is None


def test_a_guard_whose_runner_dies_is_tried_once_more(make_yard: Any) -> None:
    yard = make_yard(guard=("echo x >> ../begun; kill -9 $PPID; sleep 1000",))
    edit = yard.edit(better)
    assert edit.unmade is NotMade.GUARD and "its Runner died" in edit.why
    assert (yard.bench.trees / "begun").read_text() == "x\nx\n"


POINTS = [
    *("repository.slot_added", "enclosure.switched", "enclosure.opened", "research.turned", "research.gathered"),
    *("repository.cleaned:2", "research.patched", "research.guarding", "research.guarded"),
]


def littering(tree: Path) -> None:
    better(tree)
    (tree / "litter.py").write_text("x = 1\n")


def controller(yard: Any, **environment: str) -> int:
    """Another process that makes an edit; its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            os.environ.update(environment)
            yard.edit(littering)
        finally:
            os._exit(1)
    return pid


@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_at_any_step_the_bench_can_be_used_again(make_yard: Any, point: str) -> None:
    yard = make_yard(guard=("true",))
    before = yard.untouched()
    name, _, times = point.partition(":")
    pid = controller(yard, AUTORESEARCH_FAILPOINT=f"{name}:kill" + (f":{times}" if times else ""))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    yard.bench.isolated_worktree.close()  # as the next controller does that goes on with something else
    shutil.rmtree(yard.bench.trees.parent / "turns")
    edit = yard.edit(better)
    assert (edit.unmade, edit.paths) == (None, ("lib/a.py",)), "nothing of the killed one's litter"
    assert yard.untouched() == before
