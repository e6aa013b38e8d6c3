"""The import proof: real interpreters, real editable installs, and nothing of the package is imported."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from autoresearch.core.blueprint.finding import Finding
from autoresearch.lab.resolve import import_proof
from autoresearch.lab.resolve.import_proof import TopLevel, import_environment, prove_imports, top_levels

TRAP = "raise SystemExit('the package was imported')\n"


@dataclass(frozen=True)
class Yard:
    """The user's checkout, the worktree with the same files, and a virtual environment."""

    checkout: Path
    worktree: Path
    venv: Path

    @property
    def python(self) -> Path:
        return self.venv / "bin/python"

    @property
    def site(self) -> Path:
        return next((self.venv / "lib").glob("python*/site-packages"))

    def write(self, path: str, content: str = TRAP) -> None:
        for root in (self.checkout, self.worktree):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)

    def prove(self, *changed: str, **environment: str) -> tuple[Finding, ...]:
        given = {"PATH": os.defpath, "HOME": os.environ["HOME"], **environment}
        return prove_imports(self.python, self.worktree, given, changed)

    def codes(self, *changed: str, **environment: str) -> list[str]:
        return [finding.code for finding in self.prove(*changed, **environment)]


@pytest.fixture(scope="module")
def bare_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("venv") / "venv"
    venv.create(place, symlinks=True)
    return place


@pytest.fixture
def yard(tmp_path: Path, bare_venv: Path) -> Yard:
    import shutil

    shutil.copytree(bare_venv, tmp_path / "venv", symlinks=True)
    made = Yard(tmp_path / "check out", tmp_path / "work tree/slot-0", tmp_path / "venv")
    made.checkout.mkdir(parents=True)
    made.worktree.mkdir(parents=True)
    return made


def test_nothing_changed_nothing_asked(tmp_path: Path) -> None:
    assert prove_imports(tmp_path / "no python", tmp_path, {}, ["README.md", "conf/a.yaml"]) == ()


@pytest.mark.system
@pytest.mark.parametrize("place", ["pkg", "src/pkg"])
def test_a_pth_file_loses_against_the_worktree(yard: Yard, place: str) -> None:
    yard.write(f"{place}/__init__.py")
    yard.write(f"{place}/deep/x.py")
    root = (yard.checkout / place).parent
    (yard.site / "__editable__.pkg.pth").write_text(f"{root}\n")
    assert yard.prove(f"{place}/deep/x.py", f"{place}/__init__.py") == ()
    # without the worktree first it would be the checkout's: the trap is real
    said = subprocess.run([yard.python, "-c", "import importlib.util as u; print(u.find_spec('pkg').origin)"],
                          capture_output=True, text=True, cwd="/", check=True)  # fmt: skip
    assert said.stdout.strip() == str(yard.checkout / place / "__init__.py")


@pytest.mark.system
def test_a_pth_file_wins_where_the_package_lies_deeper(yard: Yard) -> None:
    yard.write("packages/pkg/lib/pkg/__init__.py")
    (yard.site / "pkg.pth").write_text(f"{yard.checkout}/packages/pkg/lib\n")
    (finding,) = yard.prove("packages/pkg/lib/pkg/__init__.py")
    assert finding.code == "imports_elsewhere"
    assert f"pkg would be imported from {yard.checkout}/packages/pkg/lib/pkg/__init__.py" in finding.message
    assert "PYTHONPATH=packages/pkg/lib" in finding.hint
    assert finding.where == "packages/pkg/lib/pkg/__init__.py"
    fixed = str(yard.worktree / "packages/pkg/lib")
    assert yard.prove("packages/pkg/lib/pkg/__init__.py", PYTHONPATH=fixed) == ()


@pytest.mark.system
def test_a_pth_file_that_puts_the_checkout_in_front(yard: Yard) -> None:
    yard.write("pkg/__init__.py")
    (yard.site / "easy-install.pth").write_text(f"import sys; sys.path.insert(0, {str(yard.checkout)!r})\n")
    (finding,) = yard.prove("pkg/__init__.py")
    assert finding.code == "imports_elsewhere"
    assert "pip uninstall pkg" in finding.hint


@pytest.mark.system
def test_packages_without_init_and_single_modules(yard: Yard) -> None:
    for path in ("ns/part/x.py", "train.py", "scripts/run-me.py", "tests/conftest.py", "setup.py", "src/one.py"):
        yard.write(path)
    assert yard.prove("ns/part/x.py", "train.py", "scripts/run-me.py", "setup.py", "src/one.py") == ()
    (yard.site / "x.pth").write_text(f"import sys; sys.path.insert(0, {str(yard.checkout)!r})\n")
    messages = [finding.message for finding in yard.prove("ns/part/x.py", "train.py", "src/one.py")]
    assert len(messages) == 2
    assert f"ns would be imported from {yard.checkout}/ns" in messages[0]
    assert "train would be imported from" in messages[1]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("pkg/sub/x.py", TopLevel("pkg", ".", "pkg/sub/x.py")),
        ("src/pkg/x.py", TopLevel("pkg", "src", "src/pkg/x.py")),
        ("pkg/loose/x.py", TopLevel("pkg", ".", "pkg/loose/x.py")),
        ("train.py", TopLevel("train", ".", "train.py")),
        ("my-script.py", None),
        ("setup.py", None),
        ("notes.txt", None),
    ],
)
def test_what_a_changed_file_belongs_to(tmp_path: Path, path: str, wanted: TopLevel | None) -> None:
    for package in ("pkg", "pkg/sub", "src/pkg"):
        (tmp_path / package).mkdir(parents=True, exist_ok=True)
        (tmp_path / package / "__init__.py").touch()
    assert top_levels(tmp_path, [path]) == (() if wanted is None else (wanted,))


def test_the_worktree_comes_first(tmp_path: Path) -> None:
    plain = import_environment({"A": "1"}, tmp_path)
    assert plain == {"A": "1", "PYTHONPATH": str(tmp_path)}
    (tmp_path / "src").mkdir()
    (tmp_path / "lib").mkdir()
    once = import_environment({"PYTHONPATH": f"/old:{tmp_path}:/x"}, tmp_path, ["lib", ".", "none"])
    assert once["PYTHONPATH"] == f"{tmp_path}:{tmp_path}/src:{tmp_path}/lib:/old:/x"
    assert import_environment(once, tmp_path, ["lib"]) == once


def no_file(yard: Yard) -> None:
    yard.python.unlink()


def no_python(yard: Yard) -> None:
    yard.python.unlink()
    yard.python.write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    yard.python.chmod(0o755)


@pytest.mark.system
@pytest.mark.parametrize(
    ("damage", "says"),
    [(no_file, "cannot be started"), (no_python, "failed (3): broken")],
)
def test_an_interpreter_that_does_not_answer_proves_nothing(
    yard: Yard, damage: Callable[[Yard], None], says: str
) -> None:
    yard.write("pkg/__init__.py")
    damage(yard)
    (finding,) = yard.prove("pkg/__init__.py")
    assert finding.code == "import_unproved"
    assert says in finding.message


@pytest.mark.system
def test_an_interpreter_that_hangs_is_ended_with_all_it_started(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_proof, "TIMEOUT_S", 0.5)
    yard.write("pkg/__init__.py")
    hang = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)\n"
    (yard.site / "hang.pth").write_text(hang)
    given = {"PATH": os.environ["PATH"], **{k: v for k, v in os.environ.items() if k.startswith("AUTORESEARCH_TEST")}}
    (finding,) = prove_imports(yard.python, yard.worktree, given, ["pkg/__init__.py"])
    assert "did not answer within 0.5 s" in finding.message  # the reaper fails the test if the sleep lives on


@pytest.mark.system
def test_an_environment_that_prints_is_understood(yard: Yard) -> None:
    yard.write("pkg/__init__.py")
    (yard.site / "loud.pth").write_text("import sys; print('hello {'); sys.stderr.write('warning')\n")
    assert yard.prove("pkg/__init__.py") == ()


@pytest.mark.system
def test_a_real_editable_install(yard: Yard) -> None:
    """`pip install -e` of the user's checkout, by a backend that is already here."""
    place = "lib/pkg"
    yard.write(f"{place}/__init__.py")
    yard.write("top.py")
    root = str(Path(place).parent)
    (yard.checkout / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "pkg"\nversion = "0.1"\n'
        f'[tool.hatch.build.targets.wheel]\npackages = ["{place}"]\n'
        f'[tool.hatch.build]\ndev-mode-dirs = ["{root}"]\n'
    )
    backend = importlib.util.find_spec("hatchling")
    assert backend is not None and backend.origin is not None
    site = str(Path(backend.origin).parents[1])
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    install = [sys.executable, "-m", "pip", "--python", str(yard.python), "install", *options, "-e", str(yard.checkout)]
    done = subprocess.run(install, env={**os.environ, "PYTHONPATH": site}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(yard.site.glob("*.pth"))
    assert yard.codes(f"{place}/__init__.py", "top.py") == ["imports_elsewhere"]
