"""A bench on a real repository, and agents that are functions."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.agents.agent import AgentSpec, Answer, Edit, Turn, TurnRole, Usage
from autoresearch.core.agents.protection import Protection
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.metrics.objective import Objective
from autoresearch.git_repo.checkout import find
from autoresearch.git_repo.commits import Change, commit_hypothesis
from autoresearch.git_repo.history import read_file
from autoresearch.lab.agent_work.edit import make_edit
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.turn import Pending
from autoresearch.lab.yaml_files import parse_mapping

FILES = {
    "train.py": "import evaluate\n\nlr = 0.1\nprint('step 1')\n",
    "lib/a.py": "a = 1\n",
    "lib/b.py": "b = 1\n",
    "run.sh": "#!/bin/sh\npython train.py\n",
    "evaluate.py": "def accuracy():\n    return 0.5\n",
    "tests/test_a.py": "import lib.a\nassert lib.a.a\n",
    "data/val.jsonl": '{"x": 1}\n',
    "recipe.yaml": "lr: 0.1\nmax_steps: 100\nseed: 3\ndata:\n  val_files: data/val.jsonl\n",
    "blueprint.md": "# An experiment\n",
    ".gitignore": "*.log\n/ignored/\n",
}
HYPOTHESIS = Hypothesis("lr-up", "A larger step learns faster", expected="accuracy up by 0.02", paths=("train.py",))
Agent = Callable[[Path], object]


@dataclass
class Yard:
    """A repository, a bench on it, and what a test asks of both."""

    root: Path
    base: str
    bench: EditWorkspace
    asked: list[Turn] = field(default_factory=list)

    def git(self, *words: str, cwd: Path | None = None, check: bool = True) -> str:
        done = subprocess.run(["git", *words], cwd=cwd or self.root, capture_output=True)
        assert not check or done.returncode == 0, (words, done.stdout, done.stderr)
        return os.fsdecode(done.stdout)

    def edit(self, agent: Agent, **answer: Any) -> Edit:
        """By an agent that is a function of its worktree, and says that all went well; its guard is waited for."""
        given = Answer(**{"text": "done", "usage": Usage(0.5, 10, 5, 1.0), **answer})
        directory = self.bench.turn(TurnRole.EDIT)
        bench = replace(self.bench, turn=lambda role: directory)

        def ask(turn: Turn) -> Answer:
            if turn not in self.asked:
                self.asked.append(turn)
                agent(Path(turn.cwd))
            return given

        while True:
            try:
                return make_edit(bench, HYPOTHESIS, self.base, ask)
            except Pending:
                time.sleep(0.01)

    def with_spec(self, **changes: Any) -> Yard:
        return replace(self, bench=replace(self.bench, spec=replace(self.bench.spec, **changes)))

    def committed(self, edit: Edit) -> str:
        """The commit that the harness would make of it."""
        assert edit.unmade is None, edit.why
        made = commit_hypothesis(self.bench.checkout, self.base, Change((edit.patch,)), message="m", when=1)
        return made.commit

    def show(self, commit: str, path: str) -> str:
        return self.git("show", f"{commit}:{path}")

    def tree(self, commit: str) -> dict[str, str]:
        """Mode and id of every path."""
        entries = (line.partition("\t") for line in self.git("ls-tree", "-r", "-z", commit).split("\0") if line)
        return {path: head for head, _, path in entries}

    def untouched(self) -> dict[str, bytes]:
        """All of the user's: every file of the checkout, its index, HEAD, every ref, log and setting, byte for byte."""
        found = {}
        for place in self.root.rglob("*"):
            inside = place.relative_to(self.root)
            ours = inside.parts[:2] in ((".git", "objects"), (".git", "worktrees"))
            if place.is_file() and not place.is_symlink() and not ours:
                found[str(inside)] = place.read_bytes()
        return found

    @property
    def top(self) -> set[str]:
        """What lies at the top of the base commit."""
        return set(self.git("ls-tree", "--name-only", self.base).split())

    def objects(self) -> set[str]:
        return {str(path) for path in (self.root / ".git/objects").rglob("*") if path.is_file()}


def _settings(bench_root: Path) -> Callable[[str], Mapping[str, object]]:
    def read(commit: str) -> Mapping[str, object]:
        checkout = find(bench_root)
        assert checkout is not None
        return parse_mapping(read_file(checkout.root, commit, "recipe.yaml"), "recipe.yaml")

    return read


@pytest.fixture
def plain_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration and no home of the person who tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "T")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "t@example.invalid")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every yard is a copy of: five processes once, not for each test."""
    root = tmp_path_factory.mktemp("template") / "code"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        _commit(root, FILES, ("init", "-q", "-b", "main"))
    (root / "train.py").write_text("the user is at work here\n")
    (root / "staged.py").write_text("and has staged this\n")
    subprocess.run(["git", "add", "staged.py"], cwd=root, check=True)
    (root / "lib/a.py").write_text("a = 2\n")
    return root


@pytest.fixture
def make_yard(tmp_path: Path, template: Path, plain_git: None) -> Callable[..., Yard]:
    """A repository of FILES and these (and a dirty checkout), and its bench."""

    def make(files: Mapping[str, str | bytes] | None = None, **spec: Any) -> Yard:
        root = tmp_path / "code"
        shutil.copytree(template, root, symlinks=True)
        if files:
            subprocess.run(["git", "stash", "-q"], cwd=root, check=True)
            _commit(root, files)
            subprocess.run(["git", "stash", "pop", "-q"], cwd=root, check=True)
        checkout = find(root)
        assert checkout is not None
        return Yard(root, checkout.head, _bench(root, tmp_path, AgentSpec(agent="x", **spec)))

    return make


def _commit(root: Path, files: Mapping[str, str | bytes], *before: tuple[str, ...]) -> None:
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(0o755 if path.endswith(".sh") else 0o644)
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
    for words in (*before, ("add", "-A"), (*identity, "commit", "-qm", "start")):
        subprocess.run(["git", *words], cwd=root, check=True)


def _bench(root: Path, tmp_path: Path, spec: AgentSpec) -> EditWorkspace:
    numbers = itertools.count(1)

    def turn(role: TurnRole) -> Path:
        place = tmp_path / "turns" / f"{role}-{next(numbers)}"
        place.mkdir(parents=True, exist_ok=True)
        return place

    checkout = find(root)
    assert checkout is not None
    return EditWorkspace(
        checkout=checkout,
        spec=spec,
        trees=tmp_path / "trees",
        turn=turn,
        protection=Protection(spec.protect, spec.allow, blueprint=("blueprint.md",), keys=("seed",)),
        objective=Objective("accuracy"),
        settings=_settings(root),
        recipe="recipe.yaml",
        interpreter=sys.executable,
    )


@pytest.fixture
def yard(make_yard: Callable[..., Yard]) -> Yard:
    """The usual one."""
    return make_yard()
