"""A person's queue: read anew at each ask, nothing twice, and what is broken is told and passed over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.campaign.hypothesis import BEST
from autoresearch.lab.yaml_files import line_numbers
from autoresearch.proposers.queue import Queue
from tests.specs import blueprint_text

Reader = Callable[[bytes, str], object]
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def blueprint_of(title: str) -> str:
    return blueprint_text(title=title, purpose=f"{title}, to see what it does.", recipe="recipe.yaml")


@pytest.fixture
def queue(tmp_path: Path, read_yaml: Reader) -> Callable[[str], Queue]:
    def write(text: str) -> Queue:
        (tmp_path / "ideas.yaml").write_text(text)
        return Queue(tmp_path / "ideas.yaml", read_yaml, line_numbers)

    return write


def test_every_word_of_an_entry(queue: Any, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new/reward.py").write_text("def reward(): ...\n")
    (tmp_path / "a.diff").write_text(DIFF)
    (tmp_path / "b.md").write_text(blueprint_of(title="Longer"))
    entry = (
        "- {slug: Wide Clip, sentence: a wider clip, overrides: {actor: {clip: 1e-1}, lr: 0.1}, parent: baseline,\n"
        "   files: {src/reward.py: {from: new/reward.py}, a.txt: hello}, patches: [a.diff], blueprint: b.md,\n"
        "   expected: one point}\n"
    )
    idea = queue(entry).ask([])
    assert idea.slug == idea.token == "wide-clip"
    assert (idea.sentence, idea.expected, idea.parent) == ("a wider clip", "one point", "baseline")
    assert idea.overrides == {"actor.clip": 0.1, "lr": 0.1}
    assert idea.files == {"src/reward.py": "def reward(): ...\n", "a.txt": "hello"}
    assert idea.patches == (DIFF,)
    assert idea.blueprint.startswith("# Longer")
    assert idea.proposer == "queue"


def test_other_words_for_the_same_are_understood(queue: Any) -> None:
    idea = queue("- {title: Wide Clip, hypothesis: a wider clip, params: {lr: 0.1}}\n").ask([])
    assert (idea.slug, idea.sentence, idea.overrides) == ("wide-clip", "a wider clip", {"lr": 0.1})


def test_what_is_left_out_is_made_up(queue: Any, tmp_path: Path) -> None:
    (tmp_path / "x.diff").write_text(DIFF)
    waiting = queue("- overrides: {lr: 1e-3, group_size: 16}\n- patches: [x.diff]\n")
    first, second = waiting.ask([]), waiting.ask([])
    assert (first.slug, first.sentence, first.parent) == ("lr-1e-3-group-16", "lr = 0.001, group_size = 16", BEST)
    assert (second.slug, second.sentence) == ("applies-x-diff", "applies x.diff")


def test_what_is_appended_is_found(queue: Any, campaign: Any) -> None:
    running = campaign()
    waiting = queue("- overrides: {lr: 1}\n")
    assert len(running.run(waiting, 5)) == 1
    queue("- overrides: {lr: 1}\n- overrides: {lr: 2}\n")
    assert [dict(i.overrides) for i in running.run(waiting, 5)] == [{"lr": 1}, {"lr": 2}]
    assert waiting.faults() == []


def test_nothing_is_proposed_twice_after_a_restart(queue: Any, campaign: Any) -> None:
    running = campaign()
    text = "- {slug: a, overrides: {lr: 1}}\n- overrides: {lr: 2}\n- sentence: third\n  overrides: {lr: 3}\n"
    for _ in range(9):
        running.step(queue(text))
    assert [dict(i.overrides) for i in running.ideas] == [{"lr": 1}, {"lr": 2}, {"lr": 3}]
    reordered = "- overrides: {lr: 2.0}\n- overrides: {lr: 0}\n- {slug: a, overrides: {lr: 5}}\n"
    assert running.step(queue(reordered)).overrides == {"lr": 0}
    assert running.step(queue(reordered)) is None


def test_a_name_that_another_idea_has_gets_a_number(queue: Any, campaign: Any) -> None:
    running = campaign()
    running.run(queue("- {slug: a, overrides: {lr: 1}}\n"), 1)
    taken = running.attempts[1]
    running.attempts[1] = replace(taken, hypothesis=replace(taken.hypothesis, proposer="tpe"))
    idea = queue("- {slug: a, overrides: {lr: 1}}\n").ask(running.attempts)
    assert (idea.slug, idea.token) == ("a-2", "a")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("- 3", "it is no mapping"),
        ("- {slug: a}", "it changes nothing"),
        ("- {override: {lr: 1}}", "`override` is no key of an entry; write `overrides`"),
        ("- {titel: a, set: {lr: 1}}", "`titel` is no key of an entry; write `slug`"),
        ("- {set: {lr: 1}, slug: a, title: b}", "`title` is no key of an entry; write `slug`"),
        ("- {overrides: [lr]}", "`overrides` is no mapping"),
        ("- {overrides: {lr: 1}, slug: 3}", "`slug` is no text"),
        ("- {slug: baseline, overrides: {lr: 1}}", "cannot be called `baseline`"),
        ("- {overrides: {lr: 1}, parent: nobody}", "its parent `nobody` is no idea of this campaign yet"),
        ("- {patches: [gone.diff]}", "gone.diff: No such file"),
        ("- {patches: gone.diff}", "`patches` is no list"),
        ("- {patches: [ideas.yaml]}", "ideas.yaml is no unified diff"),
        ("- {files: {../x: ideas.yaml}}", "../x is no path inside the repository"),
        ("- {files: {/etc/x: ideas.yaml}}", "/etc/x is no path inside"),
        ("- {files: {.git/config: ideas.yaml}}", ".git/config is no path inside"),
        ("- {files: {x: {from: gone}}}", "gone: No such file"),
        ("- {files: {x: {from: binary}}}", "is no UTF-8 text"),
        ("- {files: {x: ideas.yaml}}", "nothing but the words `ideas.yaml`; write `{from: ideas.yaml}`"),
        ("- {files: {x.py: new/gone.py}}", "nothing but the words `new/gone.py`"),
        ("- {files: {x: 3}}", "what x is to hold is no text"),
        ("- {patches: [out.diff]}", "out.diff changes ../../x.py, which is no path inside the repository"),
        ("- {blueprint: ideas.yaml}", "ideas.yaml"),
    ],
)
def test_a_broken_entry_is_told_and_passed_over(queue: Any, tmp_path: Path, entry: str, says: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "out.diff").write_text(DIFF.replace("x.py", "../../x.py"))
    waiting = queue(f"{entry}\n- overrides: {{lr: 7}}\n")
    assert waiting.ask([]).overrides == {"lr": 7}
    (fault,) = waiting.faults()
    assert str(fault).startswith("ideas.yaml:1: error: entry 1: ")
    assert says in fault.message
    assert waiting.ask([]) is None


def test_a_parent_that_comes_later_frees_its_child(queue: Any, campaign: Any) -> None:
    running = campaign()
    text = "- {slug: child, parent: root, overrides: {lr: 2}}\n- {slug: root, overrides: {lr: 1}}\n"
    assert [idea.slug for idea in running.run(queue(text), 5)] == ["root", "child"]


@pytest.mark.parametrize("text", ["- a: [", "a: {b", "just text", "a: 1"])
def test_a_file_that_is_half_written_sinks_nothing(queue: Any, text: str) -> None:
    waiting = queue(text)
    assert waiting.ask([]) is None
    assert len(waiting.faults()) == 1
    queue("ideas:\n- overrides: {lr: 1}\n")
    assert waiting.ask([]).overrides == {"lr": 1}
    assert waiting.faults() == []


def test_a_folder_of_blueprints(tmp_path: Path, read_yaml: Reader, campaign: Any) -> None:
    folder, running = tmp_path / "queue", campaign()
    folder.mkdir()
    for name in ("20 Second", "10-first"):
        (folder / f"{name}.md").write_text(blueprint_of(title=name))
    (folder / "notes.txt").write_text("no blueprint")
    waiting = Queue(folder, read_yaml)
    first = running.step(waiting)
    assert (first.slug, first.token) == ("10-first", "10-first.md")
    assert first.sentence == "10-first, to see what it does."
    assert first.blueprint == (folder / "10-first.md").read_text()
    (folder / "15-broken.md").write_text("# nothing")
    assert running.step(waiting).slug == "20-second"
    assert running.step(waiting) is None
    assert len(waiting.faults()) == 1
    assert str(waiting.faults()[0]).startswith("15-broken.md: ")
    (folder / "15-broken.md").write_text(blueprint_of(title="mended"))
    assert running.step(Queue(folder, read_yaml)).slug == "15-broken"


CHECKED = """\
ideas:
- slug: good
  overrides: {lr: 1}
- slug: wrong
  fils: {a: b}
  expected: 1
  files:
    ../x: text
- {slug: good, overrides: {lr: 2}}
- {slug: child, parent: late, overrides: {lr: 3}}
- {slug: orphan, parent: nobody, overrides: {lr: 4}}
- {slug: late, overrides: {rate: 5}}
- [3]
"""


def test_all_of_it_is_checked_at_once_with_lines(queue: Any) -> None:
    waiting = queue(CHECKED)
    waiting.check(fits=lambda idea: "the recipe has no key rate" if "rate" in idea.overrides else "")
    assert [str(finding).replace("ideas.yaml:", "").replace(" error: entry", "") for finding in waiting.faults()] == [
        "5: 2: `fils` is no key of an entry; write `files`",
        "6: 2: `expected` is no text; put it in quotes",
        "8: 2: ../x is no path inside the repository",
        "9: 3: it is called like entry 1: `good`",
        "10: 4: its parent `late` stands behind it; put it before",
        "11: 5: its parent `nobody` is neither best, nor baseline, nor an idea",
        "12: 6: the recipe has no key rate",
        "13: 7: it is no mapping; write `- overrides: {key: value}`",
    ]
    sound = queue("- {slug: root, overrides: {lr: 1}}\n- {slug: leaf, parent: root, overrides: {+new: 2}}\n")
    sound.check(fits=lambda idea: "the recipe has no key new" if "new" in idea.overrides else "")
    assert sound.faults() == []
    assert sound.ask([]).slug == "root"


def test_what_was_attempted_is_not_checked_again(queue: Any) -> None:
    waiting = queue("- {slug: a, patches: [gone.diff]}\n- {slug: b, parent: a, overrides: {lr: 1}}\n")
    waiting.check()
    assert len(waiting.faults()) == 1
    waiting.check(["a"], gone={"a"})
    assert waiting.faults() == []
