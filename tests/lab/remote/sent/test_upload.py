"""A run is sent to a host that sees none of our paths: what lies there afterwards, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.extra_paths import ExtraPath, Way
from autoresearch.core.run.job_launcher import Declined, Unreachable
from autoresearch.core.run.swarm import Swarm
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.worktrees import slot
from autoresearch.lab.remote_files.remote_host import InterpreterSearch

Record = Callable[[Any], dict[str, Any]]


def files_below(path: str) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in Path(path).rglob("*") if not p.is_dir() or p.is_symlink())


@pytest.mark.system
def test_code_recipe_words_and_environment_lie_there_with_far_paths(yard: Any, far_record: Record) -> None:
    order, job = yard.ship()
    code = order.paths[str(yard.repo)]
    assert Path(code).parent == yard.far / "code"
    assert files_below(code) == [".gitignore", "link", "recipe.yaml", "run.sh", "train.py", "yaml_free.py"]
    assert os.access(f"{code}/run.sh", os.X_OK)
    assert Path(f"{code}/link").readlink() == Path("train.py")
    results = order.paths[yard.spec.result_dir]
    assert results == f"{yard.far}/results/one/try-{yard.spec.run}"
    assert Path(f"{code}/recipe.yaml").read_text() == f"lr: 0.1\nout: {results}/metrics\n"
    found = far_record(order)
    assert found["command"] == f"python {code}/train.py {code}/recipe.yaml"
    assert (found["cwd"], found["run_dir"], found["result_dir"]) == (code, order.directory, results)
    assert order.directory == f"{yard.far}/runs/one/try-{yard.spec.run}"
    environment = Path(order.directory, "environment")
    assert environment.read_bytes().split(b"\0") == [b"TOKEN=t0p", f"PYTHONPATH={code}:{code}/x".encode()]
    assert environment.stat().st_mode & 0o777 == 0o600
    assert yard.leaks() == []
    assert job.cwd == code and job.directory == order.directory
    assert Path(job.argv[-2]).parent == yard.far and Path(job.argv[-2], "__main__.py").exists()
    (source,) = yard.spec.sources
    assert order.watched == {f"{results}/metrics/metrics.jsonl": source.path}, "it is mirrored while it grows"


@pytest.mark.system
@pytest.mark.parametrize(
    ("options", "slots", "asked", "leased"),
    [
        ({}, 1, 0, ([], 0)),
        ({}, 1, 2, (["all"], 2)),
        ({"gpus": "none"}, 1, 0, ([], 0)),
        ({"gpus": "all"}, 1, 0, (["all"], 0)),
        ({"gpus": "all"}, 4, 0, (["all"], 1)),
        ({"gpus": "all", "gpus_per_run": 0}, 4, 0, ([], 0)),
        ({"gpus": "0,1", "gpus_per_run": 2}, 1, 2, (["0", "1"], 2)),
        ({"gpus": [1]}, 1, 0, (["1"], 0)),
        ({"gpus": 2}, 1, 0, (["all"], 0)),  # at most two, `gpu_most`
        ({"gpus": "GPU-Ab"}, 1, 0, (["GPU-Ab"], 0)),
    ],
)
def test_which_gpus_its_runner_may_lease_there(
    yard: Any, far_record: Record, options: dict[str, Any], slots: int, asked: int, leased: tuple[list[str], int]
) -> None:
    yard.place = replace(yard.place, slots=slots, options={**yard.place.options, **options})
    order, _ = yard.ship(replace(yard.order(), gpus=asked))
    found = far_record(order)
    assert (found["gpus"], found["gpu_count"]) == leased


@pytest.mark.system
def test_the_same_code_is_not_sent_twice_and_what_went_away_goes_there_too(yard: Any) -> None:
    order, _ = yard.ship()
    code = Path(order.paths[str(yard.repo)])
    Path(order.directory, "exit.json").write_text("{}")  # it is over
    (code / "made_by_the_run").write_text("x")
    (code / "train.py").write_text("x" * (code / "train.py").stat().st_size)
    (code / ".venv").mkdir()
    (yard.repo / "yaml_free.py").unlink()
    (yard.repo / "new").mkdir()
    (yard.repo / "new/one.py").write_text("1")
    yard.commit()
    yard.another(2)
    again, _ = yard.ship()
    assert again.paths[str(yard.repo)] == str(code)
    assert files_below(str(code)) == [".gitignore", "link", "new/one.py", "recipe.yaml", "run.sh", "train.py"]
    assert (code / "train.py").read_text() == (yard.repo / "train.py").read_text()
    assert (code / ".venv").is_dir(), "an environment that was made there outlives the code"


@pytest.mark.system
def test_two_runs_at_once_never_share_their_code(yard: Any) -> None:
    first, _ = yard.ship()
    yard.another(2)
    second, _ = yard.ship()
    assert second.code == f"{first.code}-2"
    repeated, _ = yard.ship(second)
    assert repeated.code == second.code, "a second try takes what the first one had"


@pytest.mark.system
def test_code_is_that_of_the_commit(yard: Any) -> None:
    (yard.repo / "train.py").write_text("changed after the launch\n")
    (yard.repo / "untracked.py").write_text("")
    order, _ = yard.ship()
    assert "changed" not in Path(order.code, "train.py").read_text()
    assert not Path(order.code, "untracked.py").exists()


@pytest.mark.system
def test_a_result_directory_inside_the_code_is_a_link_to_one_of_its_own(yard: Any) -> None:
    inside = yard.repo / "auto/results"
    order, _ = yard.ship(yard.order(result_dir=str(inside)))
    link = Path(order.code, "auto/results")
    assert link.is_symlink()
    assert str(link.readlink()) == order.paths[str(inside)]
    Path(order.directory, "exit.json").write_text("{}")
    yard.another(2)
    again, _ = yard.ship(yard.order(result_dir=str(inside)))
    assert str(link.readlink()) == again.paths[str(inside)] != order.paths[str(inside)]


@pytest.mark.system
def test_a_recipe_outside_of_the_code_goes_along(yard: Any, far_record: Record) -> None:
    recipe = yard.root / "here/other.yaml"
    recipe.write_text(f"out: {yard.spec.result_dir}/x\n")
    order, _ = yard.ship(yard.order(recipe=str(recipe), command=f"python train.py {recipe}"))
    sent = Path(order.directory, "given/other.yaml")
    assert far_record(order)["command"] == f"python train.py {sent}"
    assert sent.read_text() == f"out: {order.paths[yard.spec.result_dir]}/x\n"


@pytest.mark.system
def test_paths_of_the_place_are_mapped(yard: Any, far_record: Record) -> None:
    yard.place = replace(yard.place, options={**yard.place.options, "paths": {"/data": "/mnt/sets"}})
    order, _ = yard.ship(yard.order(command="python train.py /data/x /database"))
    assert far_record(order)["command"] == "python train.py /mnt/sets/x /database"


@pytest.mark.system
def test_the_interpreter_of_the_place(yard: Any, far_record: Record, tmp_path: Path) -> None:
    python = tmp_path / "there/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    options = {**yard.place.options, "venv": str(python.parents[1])}
    yard.place = replace(yard.place, options=options)
    order, _ = yard.ship(yard.order(interpreter="/our/bin/python", command="/our/bin/python train.py"))
    assert far_record(order)["interpreter"] == str(python)
    assert far_record(order)["command"] == f"{python} train.py"


NO_PYTHON = {"interpreter": "/nowhere/bin/python"}


@pytest.mark.system
@pytest.mark.parametrize(
    ("options", "spec", "says", "hint"),
    [
        ({}, NO_PYTHON, "interpreter /nowhere/bin/python is not there, and its copy of the code has no", "venv"),
        ({"root": "/proc/here"}, {}, "/proc/here", ""),
        ({}, {"swarm": Swarm()}, "swarm mode", "--launcher local"),
        ({}, {"commit": "", "no_snapshot": "the disk was full"}, "has no commit: the disk was full", ""),
    ],
)
def test_what_is_refused_and_keeps_no_code_directory(
    yard: Any, options: dict[str, Any], spec: dict[str, Any], says: str, hint: str
) -> None:
    yard.place = replace(yard.place, options={**yard.place.options, **options})
    with pytest.raises(Declined, match=says) as no:
        yard.ship(yard.order(**spec))
    assert hint in no.value.hint and not list((yard.far / "code").glob("*.run"))


@pytest.mark.system
def test_a_cut_at_any_call_is_gone_on_from(yard: Any) -> None:
    order, cuts = yard.order(), 0
    while True:
        yard.reach.cut_after = cuts
        try:
            order, _ = yard.ship(order)
        except Unreachable:
            cuts += 1
        else:
            break
    assert cuts >= 5, "room, push, checkout, runner, words: each is a call of its own"
    assert files_below(order.code) == [".gitignore", "link", "recipe.yaml", "run.sh", "train.py", "yaml_free.py"]
    assert yard.leaks() == []


@pytest.mark.system
def test_a_push_that_is_cut_is_made_again(yard: Any) -> None:
    order = yard.order()
    for at in (0, 1, 100, 200):
        yard.reach.cut_bytes = at
        with pytest.raises(Unreachable, match="its code was not pushed"):
            yard.ship(order)
    yard.reach.cut_bytes = -1
    assert Path(yard.ship(order)[0].code, "train.py").exists()


@pytest.mark.system
def test_what_a_worktree_shows_beside_its_commit_goes_along_once(yard: Any) -> None:
    subprocess.run(["git", "clone", "-q", yard.repo, yard.root / "library"], check=True)
    yard.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(yard.root / "library"), "library")
    yard.commit()
    checkout = repository.find(yard.repo)
    assert checkout is not None
    (yard.repo / "data").mkdir()
    (yard.repo / "data/a b").write_text("1")
    (yard.repo / "data/tool").write_text("#!/bin/sh\n")
    (yard.repo / "data/tool").chmod(0o755)
    (yard.repo / "data/latest").symlink_to("a b")
    os.mkfifo(yard.repo / "data/pipe")
    tree = slot(checkout, yard.root / "here/trees/slot-1", reason="test")
    shown = [ExtraPath("data", Way.LINK, included=True), ExtraPath("secret.env", Way.COPY)]
    tree.switch(yard.spec.commit, shown)
    sent = []
    for number in (1, 2):
        yard.another(number)
        order, _ = yard.ship(yard.order(cwd=str(tree.path), command="python train.py", recipe=""))
        assert files_below(f"{order.code}/data") == ["a b", "latest", "tool"]
        assert os.access(f"{order.code}/data/tool", os.X_OK) and Path(order.code, "data/latest").read_text() == "1"
        assert Path(order.code, "library/train.py").exists(), "a submodule's files"
        assert not Path(order.code, "secret.env").exists(), "no `include:` names it"
        sent.append(sorted(yard.far.glob("repositories/*/objects/*/*")))
    assert sent[0] == sent[1]
    tree.remove()


@pytest.mark.system
def test_code_without_a_repository_is_refused_before_anything_is_sent(yard: Any, tmp_path: Path) -> None:
    with pytest.raises(Declined, match=r"code is sent by `git push`, and .* is not in a git repository") as no:
        InterpreterSearch(yard.place, sys.executable, tmp_path).run(yard.reach)
    assert "git init && git add -A && git commit" in no.value.hint


@pytest.mark.system
def test_what_was_started_already_is_left_as_it_is(yard: Any) -> None:
    order, job = yard.ship()
    (Path(order.code) / "made_by_the_run").write_text("x")
    Path(order.directory, "environment").unlink()
    Path(order.directory, "runner.json").write_text("{}")
    again, same = yard.ship(order)
    assert (again, same) == (order, job)
    assert (Path(order.code) / "made_by_the_run").exists()
    assert not Path(order.directory, "environment").exists(), "its Runner has taken it"
