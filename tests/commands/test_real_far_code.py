"""The real thing: a run over ssh as another user, who can read none of our paths; and one of that user's own code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands.rows import ledger_rows

REPO = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
SMALL = {"total_steps: 450": "total_steps: 30", "sft_steps: 400": "sft_steps: 150", "test_freq: 45": "test_freq: 10"}


@dataclass
class Stranger:
    """Another user of this machine, reached by ssh; `venv` has what the embedded trainer needs."""

    name: str
    home: Path
    sshd: Any

    @property
    def venv(self) -> Path:
        return self.home / "env"

    def run(self, *words: str) -> str:
        """A command of theirs, with their own environment."""
        argv = ["su", "-s", "/bin/bash", self.name, "-c", 'cd && exec env -i HOME="$HOME" PATH="$PATH" "$@"', "--"]
        done = subprocess.run([*argv, "x", *words], capture_output=True, text=True, check=True, cwd="/")
        return done.stdout.strip()

    def launchers(self, **options: object) -> str:
        """autoresearch.yaml that names them `gpu1`."""
        block = {"kind": "ssh", "host": "far", "config": str(self.sshd.config), "python": PYTHON, **options}
        return json.dumps({"launchers": {"gpu1": block}})


@pytest.fixture
def stranger(sshd: Any) -> Iterator[Stranger]:
    if os.geteuid() != 0 or shutil.which("useradd") is None or shutil.which("su") is None:
        pytest.skip("another user can only be made by root, with useradd, so all paths are readable there")
    version = subprocess.run([PYTHON, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
    if version.stdout.strip() != str(sys.version_info[:2]):
        pytest.skip(f"{PYTHON} is not of this version, so numpy of here cannot be lent to another user")
    made = Stranger(f"aj{uuid.uuid4().hex[:8]}", Path("/home") / "x", sshd)
    made.home = made.home.with_name(made.name)
    subprocess.run(["useradd", "-m", "-d", made.home, made.name], check=True, capture_output=True)
    try:
        subprocess.run(["usermod", "-p", "*", made.name], check=True)  # without PAM a locked account is refused
        _equip(made)
        yield made
    finally:
        sshd.end()
        subprocess.run(["userdel", "-f", "-r", made.name], capture_output=True, check=False)


def _equip(made: Stranger) -> None:
    """Their keys and their virtual environment."""
    sshd, keys = made.sshd, made.home / "keys"
    shutil.copy(sshd.folder / "key.pub", keys)
    sshd.stop()
    mark = os.environ["AUTORESEARCH_TEST"]
    sshd.environment = {"AUTORESEARCH_TEST": mark, "AUTORESEARCH_GPU_LEASES": str(made.home / "gpu")}
    sshd.start(f"AuthorizedKeysFile {keys}")
    lines = [line for line in sshd.config.read_text().splitlines() if not line.startswith("User ")]
    sshd.config.write_text("\n".join([*lines, f"User {made.name}"]) + "\n")
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", made.venv], check=True)
    (site,) = made.venv.glob("lib/python3*/site-packages")
    for module in ("numpy", "yaml"):
        found = __import__(module).__path__[0]
        for part in (found, f"{found}.libs"):
            if Path(part).is_dir():
                shutil.copytree(part, site / Path(part).name)
    subprocess.run(["chown", "-R", f"{made.name}:", made.home], check=True)
    subprocess.run(["chmod", "700", made.home], check=True)


def embedded(place: Path) -> None:
    """The embedded trainer alone, with a small recipe of the quickstart."""
    shutil.copytree(REPO / "autoresearch/tinygrpo", place / "autoresearch/tinygrpo")
    shutil.rmtree(place / "autoresearch/tinygrpo/__pycache__", ignore_errors=True)
    shutil.copy(REPO / "autoresearch/__init__.py", place / "autoresearch")
    text = (REPO / "blueprints/recipes/quickstart.yaml").read_text()
    for old, new in SMALL.items():
        assert old in text
        text = text.replace(old, new)
    (place / "small.yaml").write_text(text)


def quickstart(bench: Any, codebase: str, result_dir: str, python: str = "auto") -> Path:
    """The quickstart with the small recipe."""
    text = (REPO / "blueprints/quickstart.md").read_text()
    text = text.replace("- dir: ./", f"- dir: {codebase}").replace("blueprints/recipes/quickstart.yaml", "small.yaml")
    text = text.replace("./auto_agent/exp_results/quickstart/", result_dir).replace("path: auto", f"path: {python}")
    path: Path = bench.repo / "quick.md"
    path.write_text(text)
    return path


def ended(bench: Any, payload: dict[str, Any]) -> dict[str, str]:
    """The ledger's row of a run, once it has one."""

    bench.until(lambda: any(Path(payload["result_dir"]).glob("finish.flag")))  # written after the row
    (row,) = ledger_rows(payload["ledger"], payload["run"])
    return row


@pytest.mark.real
def test_the_quickstart_runs_where_nothing_of_ours_can_be_read(bench: Any, stranger: Stranger) -> None:
    code = bench.repo / "code"
    code.mkdir()
    embedded(code)
    (bench.repo / "autoresearch.yaml").write_text(stranger.launchers(venv=str(stranger.venv)))
    path = quickstart(bench, "./code", "./code/auto_agent/exp_results/quickstart/")
    large = os.urandom(5 << 20)
    (code / "large.bin").write_bytes(large)
    with path.open("a") as file:  # more than goes in pieces, there and back
        file.write('- prepare: sha256sum large.bin; cp large.bin "$AUTORESEARCH_RESULT_DIR/copy"\n')
    bench.git("add", "-A")
    bench.git("commit", "-qm", "code")
    assert subprocess.run(["su", stranger.name, "-s", "/bin/ls", "--", str(bench.repo)], capture_output=True).returncode
    payload = bench.ask("run", path, "--launcher", "gpu1", "--detach")
    row = ended(bench, payload)
    assert (row["status"], row["ending"], row["launcher"]) == ("keep", "finished", "ssh/gpu1")
    assert float(row["metric_value"]) > 0.0
    results = Path(payload["result_dir"])
    steps = [json.loads(line) for line in (results / "metrics.jsonl").read_text().splitlines()]
    assert steps and (results / "validation.md").stat().st_size > 0
    log = Path(payload["run_dir"], "run.log").read_text()
    assert "step:30" in log and hashlib.sha256(large).hexdigest() in log
    assert (results / "copy").read_bytes() == large
    assert bench.git("rev-parse", row["branch"]) == row["commit"]
    assert "code/small.yaml" in bench.git("ls-tree", "-r", "--name-only", row["branch"])
    told = (results / "experiment_log.md").read_text()
    assert "checksums agree" in told and str(stranger.home) in told
    records = list((stranger.home / ".cache/autoresearch/runs").rglob("*.json"))
    assert records and not [one for one in records if str(bench.root) in one.read_text()], "a path of ours leaked"


@pytest.mark.real
def test_a_run_of_code_that_lives_on_the_host(bench: Any, stranger: Stranger) -> None:
    proj = stranger.home / "proj"
    proj.mkdir()
    embedded(proj)
    subprocess.run(["chown", "-R", f"{stranger.name}:", proj], check=True)
    stranger.run("git", "-C", "proj", "init", "-q")
    stranger.run("git", "-C", "proj", "add", "-A")
    stranger.run("git", "-C", "proj", "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "theirs")
    (bench.repo / "autoresearch.yaml").write_text(stranger.launchers(codebase="remote"))
    path = quickstart(bench, "~/proj", "~/proj/auto_agent/exp_results/quickstart", str(stranger.venv / "bin/python"))
    head = bench.git("for-each-ref")
    payload = bench.ask("run", path, "--launcher", "gpu1", "--detach")
    row = ended(bench, payload)
    assert (row["status"], row["ending"]) == ("keep", "finished")
    assert stranger.run("git", "-C", "proj", "rev-parse", row["branch"]) == row["commit"]
    assert bench.git("for-each-ref") == head, "the branch is the host's"
    assert payload["run_dir"].startswith(f"{bench.repo}/reports/auto_research/")
    assert (Path(payload["result_dir"]) / "metrics.jsonl").stat().st_size > 0
    assert stranger.run("git", "-C", "proj", "status", "--short", "--untracked-files=no") == ""
    assert not (stranger.home / ".cache/autoresearch/code").exists(), "nothing was copied there"
