"""`autoresearch demo`, with recipes of a few steps."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.commands import demo
from autoresearch.lab.render import data_dir
from autoresearch.records.index import state_home
from tests import readme_session

pytestmark = pytest.mark.system

IDENTITY = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}  # a machine on which nobody named himself


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data of the package, with recipes that are over in a second."""
    copy = tmp_path / "data" / "blueprints"
    shutil.copytree(data_dir("blueprints"), copy)
    readme_session.shorten(copy)
    campaign = copy / "quickstart-campaign.yaml"
    campaign.write_text(f"{campaign.read_text()}\nconfirm: false\nretests: 0\n")
    monkeypatch.setattr(demo, "data_dir", lambda name: copy)
    return copy


def test_a_run_in_a_repository_of_its_own(bench: Any, short: Path) -> None:
    before = sorted(bench.repo.rglob("*"))
    first, second = bench.ask("demo", **IDENTITY), bench.ask("demo", **IDENTITY)
    roots = [Path(one["repository"]) for one in (first, second)]
    assert first["command"] == "demo" and first["ending"] == "finished" and first["exit_code"] == 0
    assert first["metrics"]["task_pass_rate@1"] is not None
    assert first["next"][1] == "autoresearch demo --campaign --json"
    assert bench.ask(*first["next"][0].split()[1:])["ok"], "it is found from here too"
    assert roots[0] != roots[1] and all(root.parent == state_home(bench.env) / "demo" for root in roots)
    assert Path(first["ledger"]).is_relative_to(roots[0])
    git = ["git", "-C", str(roots[0])]
    assert subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True).stdout == b""
    assert sorted(bench.repo.rglob("*")) == before, "nothing is written where it was typed"
    assert bench.ask("status", "last", check=4)["error"]["code"], "nor does it belong to that project"


@pytest.mark.waits
def test_a_campaign_and_its_report(bench: Any, short: Path) -> None:
    code, out, err = bench.here("demo", "--campaign")
    assert code == 0, out + err
    assert "5/5 ideas attempted" in out
    (page,) = re.findall(r"^report: file://(\S+)$", out, re.M)
    (picture,) = re.findall(r"^picture: (\S+)$", out, re.M)
    assert Path(page).read_text().startswith("<!DOCTYPE html>")
    assert Path(picture).read_bytes().startswith(b"\x89PNG")
    printed = {readme_session.shape(line) for line in (out + err).splitlines()}
    for line in readme_session.shown_lines():
        known = readme_session.shape(line) in printed or any(word in line for word in readme_session.ONLY_LONGER)
        assert known, f"README shows what is not printed; python -m tests.readme_session writes it anew: {line}"


@pytest.mark.parametrize(("there", "missing"), [(["git"], ["tmux"]), (["tmux"], ["git"]), ([], ["git", "tmux"])])
def test_what_is_missing_is_said_at_once(bench: Any, tmp_path: Path, there: list[str], missing: list[str]) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for tool in (*there, "apt-get"):
        (path / tool).symlink_to("/bin/true")
    error = bench.ask("demo", check=6, PATH=str(path))["error"]
    assert error["message"].endswith(f"here is no {' and no '.join(missing)}")
    assert error["fix"].endswith(f"apt-get install -y {' '.join(missing)}")
    assert error["code"] == f"no_{missing[0]}"


def test_interrupted_it_says_how_to_end_the_run(bench: Any) -> None:
    command = [sys.executable, "-m", "autoresearch", "demo"]
    demo = subprocess.Popen(command, cwd=bench.repo, env=bench.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    bench.spawned.append(demo)
    assert demo.stderr is not None
    said = iter(lambda: demo.stderr.readline().decode(), "")
    assert any("the trainer started" in line for line in said)
    demo.send_signal(signal.SIGINT)
    rest = "".join(said)
    demo.stderr.close()
    assert demo.wait() == 130 and "the run goes on without this terminal" in rest
    (line,) = re.findall(r"^to end it: (.+)$", rest, re.M)
    bench.ask(*shlex.split(line)[1:])
    bench.until(lambda: not bench.carriers())
