"""Five ways to cheat, at the level of the diff: none of them reaches a commit that would be run unseen."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.agents.agent import NotMade
from autoresearch.git_repo.history import intact
from autoresearch.git_repo.patches import MAX_FILES

pytestmark = pytest.mark.system


def honest(tree: Path) -> None:
    (tree / "train.py").write_text("import evaluate\n\nlr = 0.2\nprint('step 1')\n")


# --- 1. It edits what judges it ---


def the_evaluator(tree: Path) -> None:
    (tree / "evaluate.py").write_text("def accuracy():\n    return 1.0\n")


def a_test_by_moving_it(tree: Path) -> None:
    (tree / "tests").rename(tree / "checks")


def a_test_into_a_link(tree: Path) -> None:
    (tree / "tests/test_a.py").unlink()
    (tree / "tests/test_a.py").symlink_to("../lib/a.py")


JUDGES: list[tuple[Callable[[Path], None], str]] = [
    (the_evaluator, "evaluate.py (evaluation)"),
    (a_test_by_moving_it, "tests/test_a.py (a test)"),
    (a_test_into_a_link, "tests/test_a.py (a test)"),
]


@pytest.mark.parametrize(("cheat", "named"), JUDGES, ids=[cheat.__name__ for cheat, _ in JUDGES])
def test_what_judges_it_is_not_changed(yard: Any, cheat: Callable[[Path], None], named: str) -> None:
    def agent(tree: Path) -> None:
        honest(tree)
        cheat(tree)

    edit = yard.edit(agent)
    assert edit.unmade is NotMade.PROTECTED and named in edit.why and "train.py" not in edit.why
    assert "+lr = 0.2" in edit.patch, "for the record"


def test_what_would_be_imported_in_the_place_of_an_installed_module_is_refused(make_yard: Any) -> None:
    """`python -m pytest`, the guard of our docs, passed with a pytest.py that exits with 0, or with a link to one."""
    guard = (f"cd lib && {sys.executable} -m pytest", f"{sys.executable} tools/new.py")
    yard = make_yard(guard=guard)
    links = (("pytest", "stand_in/pytest"), ("src", "stand_in"))
    for path in ("pluggy/__init__.py", "src/yaml.py", "lib/pytest.py", "tools/yaml.py", *links):

        def agent(tree: Path, path: str | tuple[str, str] = path) -> None:
            file = tree / (path if isinstance(path, str) else "stand_in/pytest/__init__.py")
            file.parent.mkdir(exist_ok=True, parents=True)
            file.write_text("raise SystemExit(0)\n")
            if isinstance(path, tuple):
                (tree / path[0]).symlink_to(path[1])

        edit = yard.edit(agent)
        assert edit.unmade is NotMade.PROTECTED and "in the place of the installed" in edit.why, edit
    free = yard.with_spec(guard=("true",))  # where no guard looks, and a name that nobody else has
    assert free.edit(lambda tree: (tree / "lib/pytest.py").write_text("x = 1\n")).unmade is None
    assert free.edit(lambda tree: (tree / "my_reward.py").write_text("x = 1\n")).unmade is None


def test_the_same_is_seen_before_a_run_is_started(yard: Any) -> None:
    """Whatever way a commit came about: by a queue's patch, a fix, a branch that somebody moved."""
    for path, content in {"evaluate.py": "x", "train.py": "y", ".autoresearch/blueprint.md": "z"}.items():
        place = yard.bench.trees.parent / "scratch"
        place.mkdir(exist_ok=True)
        (place / "f").write_text(content)
        blob = yard.git("hash-object", "-w", str(place / "f")).strip()
        yard.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    commit = yard.git("commit-tree", yard.git("write-tree").strip(), "-p", yard.base, "-m", "m").strip()
    checkout, rules = yard.bench.checkout, yard.bench.protection
    told = ("evaluate.py (evaluation)",)
    assert intact(checkout, yard.base, commit, rules, ours=(".autoresearch/",)) == told
    assert len(intact(checkout, yard.base, commit, rules)) == 2
    assert intact(checkout, yard.base, yard.base, rules) == ()


def test_protected_keys_of_the_recipe_are_not_changed(yard: Any) -> None:
    changes = {
        "max_steps: 100": "max_steps: 1000",
        "seed: 3": "seed: 4",
        "val_files: data/val.jsonl": "val_files: lib/a.py",
        "lr: 0.1": "lr: 0.1\nnew:\n  group:\n  - eval_every: 0",
    }

    def agent(tree: Path) -> None:
        text = (tree / "recipe.yaml").read_text()
        for old, new in changes.items():
            text = text.replace(old, new)
        (tree / "recipe.yaml").write_text(text)

    edit = yard.edit(agent)
    assert edit.unmade is NotMade.PROTECTED
    for key in ("max_steps: 100 -> 1000 (how long it trains)", "seed: 3 -> 4", "data.val_files", "group.0.eval_every"):
        assert key in edit.why


def test_other_keys_of_the_recipe_may_be_changed_and_it_must_be_readable(yard: Any) -> None:
    def agent(text: str) -> Callable[[Path], object]:
        return lambda tree: (tree / "recipe.yaml").write_text(text)

    good = yard.show(yard.base, "recipe.yaml").replace("lr: 0.1", "lr: 0.2\nwarmup_steps: 10")
    assert yard.edit(agent(good)).unmade is None
    edit = yard.edit(agent("lr: [0.1\n"))
    assert edit.unmade is NotMade.GUARD and "recipe cannot be read" in edit.why


def test_what_is_allowed_may_be_changed(make_yard: Any) -> None:
    assert make_yard(allow=("evaluate.py",)).edit(the_evaluator).unmade is None


# --- 2. It prints a metric that it did not reach ---


def test_a_printed_metric_is_flagged(yard: Any) -> None:
    edit = yard.edit(lambda tree: (tree / "train.py").write_text("print('accuracy: 0.99')\n"))
    assert edit.flags == ("train.py:1 prints, logs or sets a metric of the objective",)


def test_validation_data_of_the_recipe_that_the_code_names_is_flagged(make_yard: Any) -> None:
    recipe = "lr: 0.1\ndata:\n  val_files: held/b7.bin\n"
    edit = make_yard({"recipe.yaml": recipe}).edit(
        lambda t: (t / "train.py").write_text("rows = load('held/b7.bin')\n")
    )
    assert edit.flags == ("train.py:1 names validation data",)


# --- 3. It commits by itself: see test_git_tricks.py ---

# --- 4. It writes outside ---


def test_nothing_from_outside_of_the_worktree_reaches_the_patch(make_yard: Any) -> None:
    yard = make_yard(guard=("ls -A > ../seen; grep -q 0.2 train.py",))
    yard.edit(honest)  # both worktrees are there, to be written to

    def agent(tree: Path) -> None:
        honest(tree)
        other = tree.with_name("agent-b")
        (other / "evil.py").write_text("x")
        (other / "train.py").write_text("print('accuracy: 1')\n")
        (other / "sitecustomize.py").write_text("x")
        tree.with_name("evil.py").write_text("x")
        yard.git("commit", "-qam", "into the other one", cwd=other)

    edit = yard.edit(agent)
    assert (edit.unmade, edit.paths) == (None, ("train.py",)), edit.why
    assert set((yard.bench.trees / "seen").read_text().split()) == {".git", *yard.top}
    assert yard.tree(yard.committed(edit)).keys() == yard.tree(yard.base).keys()


def test_where_our_own_records_are_broken_nothing_is_taken(yard: Any) -> None:
    def agent(tree: Path) -> None:
        honest(tree)
        tree.with_name("agent-a.index").write_bytes(b"broken")

    edit = yard.edit(agent)
    assert (edit.unmade, edit.patch) == (NotMade.PATCH, "") and "git could not take up" in edit.why
    assert yard.edit(honest).paths == ("train.py",)


# --- 5. It fills the disk ---


def test_many_files_are_counted_and_not_read(yard: Any) -> None:
    def agent(tree: Path) -> None:
        honest(tree)
        (tree / "out").mkdir()
        for n in range(2 * MAX_FILES):
            os.close(os.open(tree / f"out/{n}", os.O_CREAT | os.O_WRONLY))

    objects = yard.objects()
    edit = yard.edit(agent)
    assert (edit.unmade, edit.patch) == (NotMade.LARGE, "")
    assert f"{2 * MAX_FILES + 1:,} files" in edit.why and str(MAX_FILES) in edit.why
    assert yard.objects() == objects
    assert yard.edit(honest).paths == ("train.py",)


def one_large_file(tree: Path) -> None:
    with (tree / "core.7").open("wb") as file:
        file.truncate(6 << 20)


def one_large_rule_file(tree: Path) -> None:
    with (tree / ".gitignore").open("ab") as file:
        file.truncate(6 << 20)


def many_large_files(tree: Path) -> None:
    for n in range(20):
        with (tree / f"dump{n}").open("wb") as file:
            file.truncate(4 << 20)


def a_patch_of_three_mebibytes(tree: Path) -> None:
    (tree / "dump").write_bytes(os.urandom(3 << 20))


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (one_large_file, "6.0 MiB, core.7 the most of it"),
        (one_large_rule_file, "6.0 MiB, .gitignore the most of it"),
        (many_large_files, "80.0 MiB"),
        (a_patch_of_three_mebibytes, "3.0 MiB, dump the most of it"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_large_files_never_reach_the_repository(yard: Any, agent: Callable[[Path], None], says: str) -> None:
    objects = yard.objects()
    edit = yard.edit(agent)
    assert edit.unmade is NotMade.LARGE and says in edit.why
    assert yard.objects() == objects
    left = sum(place.stat().st_size for place in yard.bench.trees.glob("agent-a.*/**/*") if place.is_file())
    assert left == 0


def test_large_files_that_git_ignores_are_no_matter(yard: Any) -> None:
    def agent(tree: Path) -> None:
        honest(tree)
        (tree / "ignored").mkdir()
        for n in range(600):
            (tree / f"ignored/{n}").touch()
        with (tree / "big.log").open("wb") as file:
            file.truncate(10 << 20)

    assert yard.edit(agent).paths == ("train.py",)
