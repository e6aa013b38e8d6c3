"""The wheel in a clean environment, as a new user has it: no checkout, an empty home, a directory of their own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import readme_session

REPO = Path(__file__).parents[2]
PROJECT = REPO / "tests" / "samples" / "projects" / "argparse"
pytestmark = [pytest.mark.real, pytest.mark.waits, pytest.mark.timeout(1800)]  # a package index may be slow


def built(source: Path, into: Path, *targets: str) -> list[Path]:
    """What hatchling builds of a source tree."""
    words = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into), *words]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return sorted(into.iterdir())


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist and the wheel of this tree."""
    sdist, wheel = sorted(
        built(REPO, tmp_path_factory.mktemp("dist"), "wheel", "sdist"), key=lambda path: path.suffix == ".whl"
    )
    return sdist, wheel


def test_the_sdist_builds_the_same_wheel(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    sdist, wheel = distributions
    subprocess.run(["tar", "-xzf", sdist, "-C", tmp_path], check=True)  # Debian's tarfile has no filter
    (tree,) = tmp_path.iterdir()
    (again,) = built(tree, tmp_path / "dist", "wheel")
    assert contents(again) == contents(wheel)
    data = {name.split("/")[2] for name in contents(wheel) if name.startswith("autoresearch/_data/")}
    assert data == {"templates", "blueprints", "skills"}


def test_all_that_the_first_screen_shows(
    distributions: tuple[Path, Path], tmp_path: Path, tmux_socket: str, clean_environment: Path
) -> None:
    """The environment is not activated, nobody has a name in git, and nothing but the wheel was installed."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    options = ["-q", "--disable-pip-version-check", "--no-compile"]  # most of it is never imported
    installed = subprocess.run(
        [python, "-m", "pip", "install", *options, str(distributions[1])],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    if installed.returncode and "No matching distribution" in installed.stderr:
        # a clean environment needs the dependencies from somewhere; offline there is nothing to install
        pytest.skip("no package index can be reached")
    assert installed.returncode == 0, installed.stderr
    (blueprints,) = (tmp_path / "venv").glob("lib/python*/site-packages/autoresearch/_data/blueprints")
    readme_session.shorten(blueprints)  # what is learnt in more steps is no matter of a wheel
    empty = tmp_path / "empty"
    empty.mkdir()
    kept = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMUX_TMPDIR", "PATH", "AUTORESEARCH_TEST")
    env = {name: value for name, value in os.environ.items() if name in kept or "MARK" in name}
    env |= {"AUTORESEARCH_TMUX_SOCKET": tmux_socket, "GIT_CONFIG_GLOBAL": "/dev/null"}

    def ask(*words: str, cwd: Path = empty) -> dict[str, Any]:
        command = [str(tmp_path / "venv" / "bin" / "autoresearch"), *words, "--json"]
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    _first_hour(ask, tmp_path, empty)


def _first_hour(ask: Callable[..., dict[str, Any]], tmp_path: Path, empty: Path) -> None:
    program = str(tmp_path / "venv" / "bin" / "autoresearch")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"autoresearch \d+\.\d+\.\d+\n", version)
    assert ask("doctor")["fit"]
    assert ask("demo")["ending"] == "finished"
    campaign = ask("demo", "--campaign")
    assert campaign["attempted"] == 5 and campaign["state"] == "ended"
    assert Path(campaign["picture"]).read_bytes().startswith(b"\x89PNG")
    assert Path(campaign["report"]).stat().st_size > 10_000
    assert ask("report", campaign["directory"])["files"]
    assert list(empty.iterdir()) == []
    own = tmp_path / "own"
    shutil.copytree(PROJECT, own)
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *words], cwd=own, check=True)
    made = ask("init", "--try", "20s", "--metric", "score", cwd=own)
    assert "lr" in made["settings"] and made["metric"] == "score"
    file = own / "campaign.yaml"
    file.write_text(f"{file.read_text()}\nspace: {{lr: [0.1, 0.2]}}\n")
    assert ask("campaign", "start", "campaign.yaml", "--dry-run", cwd=own)["state"] == "planned"
    assert ask("run", "experiment.md", cwd=own)["ending"] == "finished"
