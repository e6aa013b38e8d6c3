"""What no commit holds is there for every run of a campaign, and the plan says so."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.system

READS = """
import os
import part
for name in ("data/train.txt", "pool/one.bin"):
    print("READ", name, open(name).read().strip(), part.VALUE, flush=True)
assert not os.path.exists("wandb") and not os.path.exists("reports")
open("data/cache", "a").write("c")
open("data/train.txt", "a").close()
"""


@pytest.fixture
def stranger(camp: Any) -> Any:
    """A project whose trainer reads ignored data and a submodule."""
    repo, git = camp.bench.repo, camp.bench.git
    own = camp.bench.root / "own"
    own.mkdir()
    git("init", "-q", str(own))
    (own / "part.py").write_text("VALUE = 3\n")
    git("-C", str(own), "add", "-A")
    git("-C", str(own), "commit", "-qm", "part")
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(own), "lib")
    (repo / "train.py").write_text("import sys; sys.path.insert(0, 'lib')\n" + READS + (repo / "train.py").read_text())
    (repo / ".gitignore").write_text("data/\nwandb/\nreports/\n*.bin\n*.so\n")
    files = {"data/train.txt": "1", "pool/one.bin": "2", "pool/code.py": "", "wandb/x": "", "fast.so": ""}
    for name, text in files.items():
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(text)
    git("add", "-A")
    git("commit", "-qm", "reads")
    return camp


def test_runs_see_it_and_the_plan_says_so(stranger: Any) -> None:
    stranger.ideas({"slug": "idea", "overrides": {"lr": 0.02}})
    keys: dict[str, Any] = {"queue": "ideas.yaml", "baseline": 1, "confirm": False, "retests": 0, "count": 2}
    plan = stranger.bench.ask("campaign", stranger.file(**keys), "--dry-run")
    assert plan["plan"]["not in git"] == (
        "shown to the runs: data/, fast.so, pool/one.bin; left out as outputs: wandb/"
    )
    _, words, _ = stranger.bench.here("campaign", stranger.file(**keys), "--dry-run")
    assert "fast.so was built and is not in git" in words
    before = stranger.checkout()
    state = stranger.run(**keys)
    assert stranger.checkout() == before, "they wrote to their own copies"
    for idea in state.ideas:
        assert idea.rows[0].ending == "finished"
        assert "READ data/train.txt 1 3" in stranger.log(idea.rows[0])
        assert "READ pool/one.bin 2 3" in stranger.log(idea.rows[0])
    again = stranger.bench.ask("repro", state.rows[0].run_id)
    assert any(line.startswith(f"ln -s {stranger.bench.repo}/data ") for line in again["lines"])


def test_what_include_and_exclude_change(stranger: Any) -> None:
    def shown(*flags: str, **keys: object) -> str:
        path = stranger.file(space={"lr": [0.1, 0.2]}, **keys)
        return str(stranger.bench.ask("campaign", path, "--dry-run", *flags)["plan"]["not in git"])

    usual = "shown to the runs: data/, fast.so, pool/one.bin; left out as outputs: wandb/"
    assert shown() == usual
    assert shown(include=["wandb"]) == "shown to the runs: data/, wandb/, fast.so, pool/one.bin"
    assert shown("--set", "exclude=*.so") == f"{usual.replace('fast.so, ', '')}; left out: fast.so"
    for text in ({"path": "data/", "write": "copy"}, "{path: data/, write: copy}"):
        assert "a copy for each run" in shown(include=[text])
    assert "a copy for each run" in shown("--set", "include=[{path: data/, write: copy}]")
    path = stranger.bench.repo / "exp.md"
    path.write_text(path.read_text() + "\n## Other Notes\n- include: wandb/\n- exclude: data\n")
    assert shown() == "shown to the runs: wandb/, fast.so, pool/one.bin; left out: data/"


def test_a_path_that_is_left_out_is_named_after_the_first_run(stranger: Any) -> None:
    repo = stranger.bench.repo
    (repo / "wandb/pre.txt").write_text("3")
    text = (repo / "train.py").read_text().replace('assert not os.path.exists("wandb")', 'open("wandb/pre.txt")')
    (repo / "train.py").write_text(text)
    stranger.start(space={"lr": [0.1, 0.2]}, baseline=3)
    state = stranger.phase("paused")
    said = "wandb/pre.txt is in the checkout, and no run sees it: `include: wandb/pre.txt` shows it"
    (row,) = state.rows
    assert state.reason.endswith(f"crashed (not_shown): {said}; see {row.log_path}")
    assert (row.failure, row.description.endswith(f"[{said}]")) == ("not_shown", True)
    explained = stranger.bench.ask("explain", row.run_id)
    assert said in str(explained) and "FileNotFoundError" in str(explained)
    path = repo / "exp.md"
    path.write_text(path.read_text() + "\n## Other Notes\n- include: wandb/pre.txt\n")
    stranger.bench.ask("campaign", "stop", "one", "--yes", check=None)


def test_a_proof_says_so_and_ends(stranger: Any) -> None:
    bench, repo = stranger.bench, stranger.bench.repo
    text = (repo / "train.py").read_text().replace('assert not os.path.exists("wandb")', 'open("wandb/x")')
    (repo / "train.py").write_text(text)
    bench.git("commit", "-qam", "needs an output of an earlier run")
    bench.git("branch", "old", "HEAD~1")
    for sides in (("old", "HEAD"), ("HEAD", "old")):
        line = ("prove", sides[0], "--against", sides[1], "--metric", "task_pass_rate@1", "--set", "baseline=1")
        _, out, _ = bench.here(*line, "--set", "confirm=false", "--", "python train.py recipe.yaml")
        assert "wandb/x is in the checkout, and no run sees it: `include: wandb/x` shows it" in out
        (place,) = (bench.repo / "reports/auto_research").glob(f"*prove-{sides[0].lower()}*")
        assert len((place / "results.tsv").read_text().splitlines()) == (2 if sides[1] == "HEAD" else 3)
