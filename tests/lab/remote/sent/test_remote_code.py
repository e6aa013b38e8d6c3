"""`codebase: remote`: what the host says of its paths, the branch that its own git makes, records that lie here."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import AutoresearchError, BlueprintError, EnvironmentUnusable
from autoresearch.lab import settings as project
from autoresearch.lab.launch.snapshot_code import keep_code
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.follower import Follower
from autoresearch.lab.remote_files.remote_code import HostFiles, files_of, refuse_in_campaign
from autoresearch.lab.remote_files.remote_host import REMOTE_FILES
from autoresearch.lab.resolve.resolve_blueprint import read_blueprint
from autoresearch.lab.resolve.resolve_run import resolve_run
from autoresearch.lab.resolve.resolved_run import ResolvedRun, RunOptions
from autoresearch.records import journal, order_file, recorded_run
from autoresearch.records.index import Index, IndexEntry
from autoresearch.records.order_file import Order
from autoresearch.records.rundir import RunDir, read_json, write_atomically

BLUEPRINT = """# Try
## [exp_purpose]
- purpose: See.
## [exp_codebase_dir]
- dir: ~/proj
## [exp_venv_exe]
- path: {python}
## [exp_yaml_path]
- path: recipe.yaml
## [exp_launch_command]
```bash
python train.py recipe.yaml
```
## [exp_result_dir]
- path: ~/proj/out
## [exp_max_time]
- time: 10 minutes in all, 5 minutes to the first step
## Other Notes
- trainer: verl
- metric: critic/rewards/mean
- direction: maximize
- source: jsonl out/metrics.jsonl
"""


@dataclass
class Remote:
    """A blueprint here, a repository over there."""

    book: Path
    proj: Path
    launcher: Any
    parts: Parts
    place: Target

    def git(self, *words: str) -> str:
        env = {**self.launcher.reach.environ, "GIT_OPTIONAL_LOCKS": "0"}
        done = subprocess.run(["git", *words], cwd=self.proj, env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    @property
    def path(self) -> Path:
        return self.book / "exp.md"

    def resolve(self) -> ResolvedRun:
        return resolve_run(self.path, RunOptions(project.load(self.book, environ={}), self.parts))

    def keep(self) -> Any:
        run = self.resolve()
        Path(run.spec.result_dir).mkdir(parents=True, exist_ok=True)
        journal.begin(Path(run.spec.result_dir), run.spec)
        return keep_code(run).spec


@pytest.fixture
def remote(yard: Any, started: Any, tmp_path: Path) -> Remote:
    proj = tmp_path / "there/home/proj"
    proj.mkdir()
    (proj / "train.py").write_text((yard.repo / "train.py").read_text().replace("out = ", "out = 'out' or "))
    (proj / "yaml_free.py").write_text("")
    (proj / "recipe.yaml").write_text("lr: 0.1\nout: out\n")
    (proj / ".gitignore").write_text("secret.env\n")
    (proj / "secret.env").write_text("KEY=1\n")
    book = tmp_path / "here/book"
    book.mkdir()
    (book / "exp.md").write_text(BLUEPRINT.format(python=sys.executable))
    block = {"kind": "ssh", "codebase": "remote", "root": str(yard.far), "min_free_gb": 0.001}
    (book / "autoresearch.yaml").write_text(json.dumps({"launcher": "gpu1", "launchers": {"gpu1": block}}))
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=book, check=True)
    place = Target("gpu1", Kind.SSH, 1, {**block, "host": "gpu1"})
    environ = {"HOME": str(tmp_path / "here"), "PATH": os.environ["PATH"]}
    parts = Parts(environ, Index(), lambda _: None, launcher_for=lambda place, environ: started)  # type: ignore[arg-type,return-value]
    one = Remote(book, proj, started, parts, place)
    one.git("init", "-q", "-b", "main")
    one.git("add", "-A")
    one.git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "first")
    return one


@pytest.mark.system
def test_paths_are_the_hosts_and_records_lie_here(remote: Remote) -> None:
    spec = remote.resolve().spec
    assert spec.cwd == str(remote.proj)
    assert spec.recipe == str(remote.proj / "recipe.yaml")
    assert spec.run_dir.startswith(f"{remote.book}/reports/auto_research/")
    assert spec.result_dir.startswith(f"{remote.book}/reports/auto_research/")
    assert spec.far_paths[spec.result_dir] == f"{remote.proj}/out"
    assert {source.path for source in spec.sources} >= {f"{spec.result_dir}/metrics.jsonl"}
    assert not (remote.book / "reports").exists(), "a plan writes nothing"


@pytest.mark.system
@pytest.mark.parametrize(
    ("gone", "said"),
    [("recipe.yaml", "the recipe .*/proj/recipe.yaml is not there"), (".", "the codebase .*/proj is not there")],
)
def test_what_is_not_there_is_refused_by_name(remote: Remote, gone: str, said: str) -> None:
    (remote.proj / gone).rename(remote.proj.parent / "moved")
    with pytest.raises(BlueprintError) as no:
        remote.resolve().refuse()
    assert re.search(said, str(no.value.message) + str(no.value))


@pytest.mark.system
def test_a_host_that_does_not_answer_is_said(remote: Remote) -> None:
    remote.launcher.reach.cut_after = 0
    with pytest.raises(EnvironmentUnusable, match="the link is down") as no:
        remote.resolve()
    assert no.value.exit_code == 6


@pytest.mark.system
def test_the_branch_holds_what_runs_and_nothing_of_the_host_is_touched(remote: Remote) -> None:
    (remote.proj / "train.py").write_text("changed\n")
    (remote.proj / "staged.py").write_text("one\n")
    remote.git("add", "staged.py")
    (remote.proj / "staged.py").write_text("two\n")
    (remote.proj / "new.py").write_text("new\n")
    (remote.proj / "yaml_free.py").unlink()
    (remote.proj / "out").mkdir()
    (remote.proj / "out/metrics.jsonl").write_text("{}\n")
    index = hashlib.sha256((remote.proj / ".git/index").read_bytes()).hexdigest()
    before = (remote.git("status", "--short"), remote.git("stash", "list"), remote.git("rev-parse", "HEAD"))
    spec = remote.keep()
    assert hashlib.sha256((remote.proj / ".git/index").read_bytes()).hexdigest() == index
    assert (remote.git("status", "--short"), remote.git("stash", "list"), remote.git("rev-parse", "HEAD")) == before
    names = remote.git("ls-tree", "-r", "--name-only", spec.branch).splitlines()
    assert names == [".autoresearch/blueprint/exp.md", ".gitignore", "new.py", "recipe.yaml", "staged.py", "train.py"]
    assert remote.git("show", f"{spec.branch}:staged.py") == "two"
    assert remote.git("show", f"{spec.branch}:train.py") == "changed"
    assert remote.git("rev-parse", spec.branch) == spec.commit
    assert spec.parent_commit == before[2] and spec.parent_branch == "main"
    again = remote.keep()
    assert again.branch == f"{spec.branch}-2", "a branch is created, never moved"
    assert remote.git("rev-parse", spec.branch) == spec.commit


@pytest.mark.system
def test_large_untracked_files_are_left_out_and_told(remote: Remote) -> None:
    with (remote.proj / "large.bin").open("wb") as file:
        file.truncate(51 << 20)
    spec = remote.keep()
    assert spec.left_out == ("large.bin (over 50 MB, untracked)",)
    assert "large.bin" not in remote.git("ls-tree", "-r", "--name-only", spec.branch)


@pytest.mark.system
def test_a_host_codebase_without_git_has_no_branch(remote: Remote) -> None:
    (remote.proj / ".git").rename(remote.proj.parent / "dotgit")
    spec = remote.keep()
    assert spec.branch == ""
    log = Path(spec.result_dir, "experiment_log.md").read_text()
    assert "no branch" in log and "is not in a git repository" in log


def test_the_program_is_one_file_of_the_standard_library() -> None:
    assert "from ." not in REMOTE_FILES.read_text()


@pytest.mark.system
def test_a_blueprint_of_this_machine_asks_nobody(remote: Remote) -> None:
    local = project.load(remote.book, environ={}, flags={"launcher": "local"})
    assert files_of(read_blueprint(remote.path).blueprint, local, remote.parts).here
    assert remote.launcher.reach.calls == []


def test_a_campaign_is_refused_with_the_way_out() -> None:
    with pytest.raises(AutoresearchError, match="gpu1 says `codebase: remote`") as no:
        refuse_in_campaign([Target("gpu1", Kind.SSH, 1, {"codebase": "remote"})])
    assert "lone `autoresearch run`" in no.value.hint
    with pytest.raises(AutoresearchError, match="'/home/x' is neither"):
        refuse_in_campaign([Target("gpu1", Kind.SSH, 1, {"codebase": "/home/x"})])
    refuse_in_campaign([Target("gpu1", Kind.SSH, 1, {})])


@pytest.mark.system
def test_a_run_on_the_hosts_own_code(remote: Remote, eventually: Callable[..., None], tmp_path: Path) -> None:
    (remote.proj / "out").mkdir()
    (remote.proj / "out/metrics.jsonl").write_text('{"step": 99}\n')
    (remote.proj / "out/older.txt").write_text("an earlier run's\n")
    os.utime(remote.proj / "out/older.txt", (1, 1))
    spec = remote.keep()
    rundir = RunDir(Path(spec.run_dir))
    rundir.path.mkdir(parents=True)
    recorded_run.write(rundir, spec, {"journal": "x", "collector": [], "await_launch": "now", "start": ""})
    write_atomically(rundir.environment, b"HOME=/x\0TOKEN=t0p", mode=0o600)
    follower = tmp_path / "follower"
    order_file.write(rundir, Order(spec.run, remote.place, 1.0, str(follower), declared=("TOKEN",)))
    remote.parts.index.add(
        IndexEntry(spec.run, spec.slug, spec.session, spec.run_dir, spec.result_dir, spec.blueprint, "", 1.0)
    )
    following = Follower(follower, remote.place, remote.launcher, remote.parts)

    def over() -> bool:
        following.turn()
        return bool(rundir.exit_record.exists())

    eventually(over)
    following.turn()
    assert (read_json(rundir.exit_record) or {})["ending"] == "finished"
    lines = Path(spec.result_dir, "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3], "the earlier run's were moved aside"
    assert Path(f"{remote.proj}/out/metrics.jsonl.before-{spec.run}").exists()
    assert not Path(spec.result_dir, "older.txt").exists()
    assert f"in {remote.proj} with t0p" in rundir.log.read_text()
    assert isinstance(remote.resolve().resolved.files, HostFiles)
