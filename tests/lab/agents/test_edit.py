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
    """The agent sees the commit and not the dirty checkout, and is told what to do and what not."""
    seen = {}

    def agent(tree: Path) -> None:
        seen["train"] = (tree / "train.py").read_text()
        seen["status"] = yard.git("status", "--porcelain", cwd=tree)
        seen["log"] = yard.git("log", "--format=%s", cwd=tree)
        raise_lr(tree)

    before = yard.untouched()
    edit = yard.with_spec(guard=("true",)).edit(agent)
    assert (edit.unmade, edit.paths, edit.summary) == (None, ("train.py",), "done")
    commit = yard.committed(edit)
    assert yard.show(commit, "train.py") == "import evaluate\n\nlr = 0.2\nprint('step 1')\n"
    assert {p for p, head in yard.tree(commit).items() if head != yard.tree(yard.base).get(p)} == {"train.py"}
    assert yard.untouched() == before
    assert seen == {"train": "import evaluate\n\nlr = 0.1\nprint('step 1')\n", "status": "", "log": "start\n"}
    turn = yard.asked[0]
    assert turn.role is TurnRole.EDIT and turn.bounds == yard.bench.spec.bounds and turn.directory.name == "edit-1"
    for words in ("A larger step learns faster", "accuracy up by 0.02", "`true`", "thrown away", "blueprint.md"):
        assert words in turn.prompt
    assert "guarded by the commands above" in turn.prompt
    yard.with_spec(guard=()).edit(agent)
    assert "clean checkout and committed" in yard.asked[-1].prompt and "Guard" not in yard.asked[-1].prompt


@pytest.mark.system
def test_a_turn_that_broke_off_a_silent_one_and_one_that_changed_nothing(yard: Any) -> None:
    """After a turn that broke off the files are not taken; else they alone count, and never its words."""
    assert set(GRADED) == {None, TurnFault.SILENT, TurnFault.ANSWER}
    for fault in (TurnFault.TIMEOUT, TurnFault.ENDED, TurnFault.TURNS):
        edit = yard.edit(raise_lr, fault=fault, message="token=hunter2secret is wrong")
        assert (edit.unmade, edit.fault, edit.patch) == (NotMade.RESEARCHER, fault, "")
        assert fault.value in edit.why and "hunter2" not in edit.why
    for fault in (TurnFault.SILENT, TurnFault.ANSWER):
        assert yard.edit(raise_lr, text="", fault=fault).unmade is None
    edit = yard.edit(lambda tree: None, text="I raised the learning rate!", denied=("Edit train.py",))
    assert edit.unmade is NotMade.EMPTY and edit.summary == "I raised the learning rate!"
    assert edit.why == "the agent changed no file; it was not allowed to: Edit train.py"


@pytest.mark.system
def test_it_may_change_nothing_and_say_why(yard: Any) -> None:
    stated = "I looked.\nNO CHANGE: warmup is read\nnowhere in train.py"
    edit = yard.edit(lambda tree: None, text=stated)
    assert (edit.unmade, edit.why) == (
        NotMade.EMPTY,
        "the agent changed no file: warmup is read nowhere in train.py",
    )
    assert "begin your last message with `NO CHANGE: `" in yard.asked[0].prompt
    assert yard.edit(raise_lr, text=stated).unmade is None, "the files tell"
    for text, why in (("**No change:** it is so already", ": it is so already"), ("NO CHANGE:", ""), ("", "")):
        assert yard.edit(lambda tree: None, text=text).why == f"the agent changed no file{why}"
