"""Which paths that no commit holds the worktrees of runs show."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoresearch.core.run.extra_paths import Include, Way, parse_include
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.checkout import Checkout, find
from autoresearch.lab.campaign_setup.shown_to_runs import not_sent
from autoresearch.lab.resolve.shown_paths import ShowRules, named_paths, paths_to_show, shown_words
from autoresearch.runner.masking import mask_text

pytestmark = pytest.mark.system


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A repository whose files are all ignored but one."""
    root = tmp_path / "project"
    for path in (
        *("data/train.bin", "data/raw/x", ".venv/pyvenv.cfg", "wandb/run-1/log", "runs/best.pt"),
        *("vendor/apex/.git/HEAD", ".env", "reports/auto_research/one/results.tsv", "src/train.py"),
        *("src/fast.so", "src/__pycache__/a.pyc", "auto_agent/exp_results/one/results.md"),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    (root / ".venv/bin").symlink_to("/usr/bin")
    os.truncate(root / "data/train.bin", 60_000_000)
    (root / ".gitignore").write_text("*\n!src/\n!src/*.py\n!.gitignore\n")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "c"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    found = find(root)
    assert found is not None
    return found


def ways(checkout: Checkout, **rules: tuple[str, ...] | bool) -> dict[str, Way]:
    show_rules = ShowRules(**{"own": ("reports/auto_research",), **rules})  # type: ignore[arg-type]
    return {one.name: one.way for one in paths_to_show(checkout, (), show_rules)}


USUAL = {
    **{"data/": Way.LINK, ".venv/": Way.LINK, "wandb/": Way.OUTPUT, "runs/": Way.OUTPUT, "vendor/": Way.COPY},
    **{".env": Way.COPY, "src/fast.so": Way.COPY},
}


def test_everything_but_outputs_caches_and_records(checkout: Checkout) -> None:
    assert ways(checkout) == USUAL
    words = shown_words(paths_to_show(checkout, (), ShowRules(own=("reports",))))
    assert words == "data/ (60.0 MB), .venv/, vendor/, .env, src/fast.so; left out as outputs: runs/, wandb/"
    words = shown_words(paths_to_show(checkout, (), ShowRules(own=("reports",), edited=True)))
    assert mask_text(words) == words and words.endswith("left out as secret files: .env")


@pytest.mark.parametrize(
    ("rules", "changes"),
    [
        ({"edited": True}, {".env": Way.SECRET}),
        ({"edited": True, "include": (".env",)}, {".env": Way.COPY}),
        ({"include": ("wandb/",)}, {"wandb/": Way.COPY}),
        ({"include": ("run*/*.pt",)}, {"runs/best.pt": Way.COPY}),
        ({"named": ("runs/best.pt",)}, {"runs/best.pt": Way.COPY}),
        ({"written": ("data",)}, {"data/": Way.OUTPUT}),
        ({"exclude": ("data",)}, {"data/": Way.OTHER}),
        ({"exclude": ("*.so", "vend*/")}, {"src/fast.so": Way.OTHER, "vendor/": Way.OTHER}),
        ({"include": ("{path: data/, write: copy}",)}, {"data/": Way.OWN}),
        ({"include": ("src",)}, {}),  # its files are in git, or seen anyway
    ],
)
def test_what_corrects_it(checkout: Checkout, rules: dict[str, tuple[str, ...]], changes: dict[str, Way]) -> None:
    assert ways(checkout, **rules) == USUAL | changes


def test_a_directory_is_shown_in_parts_where_they_differ(checkout: Checkout) -> None:
    parts = {name: way for name, way in USUAL.items() if name != "data/"} | {"data/train.bin": Way.LINK}
    assert ways(checkout, exclude=("data/raw/",)) == parts | {"data/raw/": Way.OTHER}
    assert ways(checkout, include=("{path: data/raw, write: copy}",)) == parts | {"data/raw/": Way.OWN}
    assert ways(checkout, own=("reports", "data/raw")) == parts


def test_a_crowd_of_files_beside_tracked_ones_is_one_path(checkout: Checkout) -> None:
    for number in range(101):
        (checkout.root / f"src/{number}.bin").write_text("x")
    assert ways(checkout)["src/"] is Way.LINK


def test_what_an_include_names(checkout: Checkout) -> None:
    for text in ("missing", "*.bin"):
        with pytest.raises(EnvironmentUnusable, match=r"include: .* is not there"):
            ways(checkout, include=(text,))
    assert parse_include({"path": "data/", "write": "copy"}) == Include("data", copied=True)
    assert parse_include("{path: data/, write: copy}") == parse_include("{'path': 'data/', 'write': 'copy'}")
    assert str(parse_include("./data/")) == "data" and str(Include("a b", True)) == "{path: a b, write: copy}"
    for bad in ("/etc/passwd", "../x", "a/../../x", "", ".", "~/x", "a\0b", "{path: x}", "{path: x, write: link}"):
        with pytest.raises(ValueError):
            parse_include(bad)


def test_what_a_command_names(checkout: Checkout) -> None:
    root = checkout.root
    words = [f"cd {root}; python src/train.py --data=../data --init runs/best.pt > 'a", "/etc/passwd"]
    assert named_paths(root, root, words) == ("src/train.py", "runs/best.pt")
    assert named_paths(root, root / "src", ["x --data=../data"]) == ("data",)


def test_the_plan_says_what_is_not_sent(checkout: Checkout) -> None:
    places = (Target("gpu1", Kind.SSH), Target("cluster", Kind.SLURM), Target("here", Kind.LOCAL))

    def launcher_for(target: Target, environ: object) -> Any:
        return SimpleNamespace(reach=SimpleNamespace(shared=target.kind is Kind.SLURM))

    def warnings(*include: str) -> list[str]:
        shown = paths_to_show(checkout, (), ShowRules(include=include, own=("reports",)))
        spec: Any = SimpleNamespace(shown=shown, places=places, repository=str(checkout.root))
        parts: Any = SimpleNamespace(launcher_for=launcher_for, environ={})
        return [finding.message for finding in not_sent(spec, parts)]

    (said,) = warnings("data", ".env", "src/fast.so")
    assert said == "not in git, and not sent to gpu1: vendor/", "of an environment nothing is sent"
    assert not warnings("data", ".env", "src/fast.so", "vendor/")
