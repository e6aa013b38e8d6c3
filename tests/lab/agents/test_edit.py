"""From what an agent did to a patch: what counts is how the files differ, and nothing of it reaches the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.agents.agent import NotMade, TurnFault, TurnRole
from autoresearch.lab.agent_work.edit import GRADED


def raise_lr(tree: Path) -> None:
    (tree / "train.py").write_text("import evaluate\n\nlr = 0.2\nprint('step 1')\n")


@pytest.mark.system
def test_an_edit_becomes_a_patch_that_the_harness_can_commit(yard: Any) -> None:
    before = yard.untouched()
    edit = yard.edit(raise_lr)
    assert (edit.unmade, edit.paths, edit.summary, edit.session) == (None, ("train.py",), "done", "s-1")
    commit = yard.committed(edit)
    assert yard.show(commit, "train.py") == "import evaluate\n\nlr = 0.2\nprint('step 1')\n"
    assert {p for p, head in yard.tree(commit).items() if head != yard.tree(yard.base).get(p)} == {"train.py"}
    assert yard.untouched() == before


@pytest.mark.system
def test_the_agent_is_told_what_to_do_and_what_not(yard: Any) -> None:
    yard.with_spec(guard=("true",)).edit(raise_lr)
    turn = yard.asked[0]
    assert turn.role is TurnRole.EDIT and turn.bounds == yard.bench.spec.bounds and turn.directory.name == "edit-1"
    for words in ("A larger step learns faster", "accuracy up by 0.02", "`true`", "Do not commit", "blueprint.md"):
        assert words in turn.prompt


@pytest.mark.system
def test_the_agent_sees_the_commit_and_not_the_dirty_checkout(yard: Any) -> None:
    seen = {}

    def look(tree: Path) -> None:
        seen["train"] = (tree / "train.py").read_text()
        seen["status"] = yard.git("status", "--porcelain", cwd=tree)
        seen["log"] = yard.git("log", "--format=%s", cwd=tree)

    assert yard.edit(look).unmade is NotMade.EMPTY
    assert seen == {"train": "import evaluate\n\nlr = 0.1\nprint('step 1')\n", "status": "", "log": "start\n"}


def test_which_faults_break_a_turn_off() -> None:
    assert set(GRADED) == {None, TurnFault.SILENT, TurnFault.ANSWER}


@pytest.mark.system
@pytest.mark.parametrize("fault", [TurnFault.TIMEOUT, TurnFault.ENDED, TurnFault.TURNS])
def test_after_a_turn_that_broke_off_the_files_are_not_taken(yard: Any, fault: TurnFault) -> None:
    edit = yard.edit(raise_lr, fault=fault, message="token=hunter2secret is wrong")
    assert (edit.unmade, edit.fault, edit.patch) == (NotMade.RESEARCHER, fault, "")
    assert fault.value in edit.why and "hunter2" not in edit.why


@pytest.mark.system
@pytest.mark.parametrize("fault", [TurnFault.SILENT, TurnFault.ANSWER])
def test_an_agent_without_words_is_judged_by_its_files(yard: Any, fault: TurnFault) -> None:
    assert yard.edit(raise_lr, text="", fault=fault).unmade is None


@pytest.mark.system
def test_an_agent_that_changed_nothing_and_says_that_it_did(yard: Any) -> None:
    edit = yard.edit(lambda tree: None, text="I raised the learning rate!", denied=("Edit train.py",))
    assert edit.unmade is NotMade.EMPTY
    assert "Edit train.py" in edit.why and edit.summary == "I raised the learning rate!"
