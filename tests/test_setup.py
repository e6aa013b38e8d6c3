"""`make` and `install_tmux.sh` on machines that lack something: the message says the one line to type."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[1]
TOOLS = ("sh", "cat", "touch", "tail", "chmod", "mkdir", "rm", "mv", "make", "env", "ln", "true")


class Machine:
    """A machine with these few programs, and what the test adds to them."""

    def __init__(self, place: Path) -> None:
        self.bin = place / "machine"
        self.calls = place / "calls"
        self.calls.touch()
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(str(shutil.which(tool)))

    def has(self, name: str, script: str = "exit 0") -> None:
        """Add a program; it writes down how it was called."""
        (self.bin / name).write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.calls}"\n{script}\n')
        (self.bin / name).chmod(0o755)

    def run(self, *argv: str, cwd: Path = ROOT) -> tuple[int, str]:
        environ = {"PATH": str(self.bin), "HOME": os.environ["HOME"]}
        said = subprocess.run(argv, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
        return said.returncode, said.stdout + said.stderr

    def called(self) -> list[str]:
        lines = self.calls.read_text().splitlines()
        self.calls.write_text("")
        return lines


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def install(machine: Machine) -> tuple[int, str]:
    return machine.run("sh", str(ROOT / "tests" / "install_tmux.sh"))


MAKES_TMUX = 'case "$*" in *install*|*add*|*-Sy*) ln -s /bin/sh "${0%/*}/tmux";; esac'
ASKS_NOTHING = 'shift; exec "$@"'


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("apt-get", "apt-get install -y tmux"),
        ("dnf", "dnf install -y tmux"),
        ("apk", "apk add tmux"),
        ("pacman", "pacman -Sy --noconfirm tmux"),
    ],
)
def test_root_and_passwordless_sudo_install_it_without_a_question(tool: str, line: str, machine: Machine) -> None:
    machine.has(tool, MAKES_TMUX)
    machine.has("id", "echo 0")
    code, says = install(machine)
    assert (code, says) == (0, f"tmux is missing; installing it: {line}\n")
    assert line in machine.called()
    (machine.bin / "tmux").unlink()
    machine.has("id", "echo 1000")
    machine.has("sudo", ASKS_NOTHING)
    code, says = install(machine)
    assert (code, says) == (0, f"tmux is missing; installing it: sudo {line}\n")
    assert [f"sudo -n {line}", line] == machine.called()[-2:]


UPDATE_FAILS = f'[ "$1" = update ] && exit 100\n{MAKES_TMUX}'
NO_PACKAGE = '[ "$1" = update ] || { echo "E: Unable to locate package tmux" >&2; exit 100; }'
ASKS = "echo 'sudo: a password is required' >&2; exit 1"
TYPE_THIS = "type this, then run the same command again:  "


@pytest.mark.parametrize(
    ("has", "code", "says"),
    [
        ({"tmux": "exit 0", "apt-get": "exit 1"}, 0, ""),
        ({"apt-get": MAKES_TMUX, "id": "echo 1000"}, 6, f"tmux is missing; {TYPE_THIS}sudo apt-get install -y tmux\n"),
        ({"apt-get": "exit 1", "id": "echo 1000", "sudo": ASKS}, 6, f"{TYPE_THIS}sudo apt-get install -y tmux\n"),
        ({"brew": MAKES_TMUX, "id": "echo 501", "sudo": "exit 1"}, 0, ""),  # sudo would spoil what is brew's
        ({"apt-get": UPDATE_FAILS, "id": "echo 0"}, 0, ""),  # a source that cannot be reached need not stop it
        ({"apt-get": NO_PACKAGE, "id": "echo 0"}, 6, f"{TYPE_THIS}apt-get install -y tmux\n"),
        ({}, 6, "install it with the package tool of this machine"),
    ],
)
def test_tmux_is_installed_or_the_line_to_type_is_said(
    has: dict[str, str], code: int, says: str, machine: Machine
) -> None:
    for name, script in has.items():
        machine.has(name, script)
    found, text = install(machine)
    assert (found, says in text) == (code, True), text
    assert ("E: Unable to locate" in text) == (NO_PACKAGE in has.values())
    called = machine.called()
    assert not [call for call in called if call.startswith("sudo") and "brew" in call]
    assert has.get("id") != "echo 1000" or not [call for call in called if call.startswith("apt-get")]


# A Python that makes a virtual environment whose Python only writes down what it is asked to do.
PYTHON = """case "$*" in
  "-c import sys"*) exit 0 ;;
  "-m venv"*) for last; do :; done; mkdir -p "$last/bin"
    printf '#!/bin/sh\\n[ "$1" = -c ] || echo "venv $*" >> "%s"\\n' "{calls}" > "$last/bin/python"
    chmod +x "$last/bin/python" ;;
esac"""


@pytest.fixture
def clone(tmp_path: Path, machine: Machine) -> Path:
    """What `make setup` needs of a clone, in a folder with a space, on a machine with tmux and no Python yet."""
    clone = tmp_path / "a clone"
    (clone / "tests").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", clone)
    shutil.copy(ROOT / "tests" / "install_tmux.sh", clone / "tests")
    (clone / "pyproject.toml").write_text("")
    machine.has("tmux")
    return clone


def make(machine: Machine, clone: Path, *words: str) -> tuple[int, str]:
    return machine.run("make", *words, cwd=clone)


TELLS = "installing into .venv: a minute or two\n"  # a minute of silence looks like a hang
PIP = "-m pip install --quiet --disable-pip-version-check --no-compile"
INSTALLED = [
    f"venv {PIP} hatchling>=1.24 editables setuptools>=70.1",
    f"venv {PIP} --no-build-isolation --editable .[dev]",
]


def test_the_environment_is_made_once(machine: Machine, clone: Path) -> None:
    machine.has("python3", PYTHON.format(calls=machine.calls))
    assert make(machine, clone, "setup") == (0, TELLS)
    assert machine.called()[-3:] == ["python3 -m venv .venv", *INSTALLED]
    assert make(machine, clone, "test") == (0, "")
    assert machine.called() == ["venv -m pytest"]


def _older(clone: Path) -> Path:
    earlier = (clone / "pyproject.toml").stat().st_mtime - 10
    os.utime(clone / ".venv" / ".installed", (earlier, earlier))
    return clone


def _moved(clone: Path) -> Path:
    return clone.rename(clone.with_name("elsewhere"))


def _without_python(clone: Path) -> Path:
    (clone / ".venv" / "bin" / "python").unlink()
    return clone


@pytest.mark.parametrize(
    ("change", "flag"), [(_older, ""), (_moved, " --clear"), (_without_python, "")], ids=["older", "moved", "no python"]
)
def test_an_environment_that_does_not_fit_is_made_again(
    change: Callable[[Path], Path], flag: str, machine: Machine, clone: Path
) -> None:
    machine.has("python3", PYTHON.format(calls=machine.calls))
    make(machine, clone, "setup")
    clone = change(clone)
    machine.called()
    assert make(machine, clone, "setup") == (0, TELLS)
    assert machine.called()[-3:] == [f"python3 -m venv{flag} .venv", *INSTALLED]
    assert make(machine, clone, "setup") == (0, "") and machine.called() == []


def test_a_newer_python_by_another_name_is_found(machine: Machine, clone: Path) -> None:
    machine.has("python3", "exit 1")  # 3.10
    machine.has("python3.12", PYTHON.format(calls=machine.calls))
    assert make(machine, clone, "setup") == (0, TELLS)
    assert "python3.12 -m venv .venv" in machine.called()


@pytest.mark.parametrize("old", [True, False], ids=["old", "none at all"])
def test_no_python_that_is_new_enough(old: bool, machine: Machine, clone: Path) -> None:
    if old:
        machine.has("python3", "exit 1")
    code, says = make(machine, clone, "test")
    assert code != 0 and says.startswith("Python 3.11 or newer is needed; if it has another name: make PYTHON=")
    code, says = make(machine, clone, "test", "PYTHON=/nonexistent/python")
    assert code != 0 and "Python 3.11 or newer is needed" in says


NO_VENV = 'case "$*" in "-m venv"*) exit 1;; esac'
NO_PACKAGES = PYTHON.replace('[ "$1" = -c ] ||', "[ $2 != pip ] || exit 1;")


@pytest.mark.parametrize(
    ("python", "tmux", "says"),
    [
        (NO_VENV, True, "cannot make a virtual environment; on Debian and Ubuntu, type this"),
        (NO_PACKAGES, True, "could not be installed; pip says why above"),
        (PYTHON, False, f"{TYPE_THIS}sudo apt-get install -y tmux"),
    ],
    ids=["no venv", "no packages", "no tmux"],
)
def test_what_stops_make_says_what_to_type(python: str, tmux: bool, says: str, machine: Machine, clone: Path) -> None:
    machine.has("python3", python.replace("{calls}", str(machine.calls)))
    if not tmux:
        (machine.bin / "tmux").unlink()
        machine.has("apt-get")
        machine.has("id", "echo 1000")
    code, text = make(machine, clone, "test")
    assert code != 0 and says in text
    assert (clone / ".venv" / ".installed").exists() is not tmux
    assert "venv -m pytest" not in machine.called()
