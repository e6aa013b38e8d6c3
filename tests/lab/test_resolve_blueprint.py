"""A blueprint against real files: what is resolved, what is missing, what is refused."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.errors import BlueprintError
from autoresearch.lab.resolve.resolve_blueprint import (
    ResolvedBlueprint,
    raise_on_errors,
    read_blueprint,
    resolve_blueprint,
)

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}
COMMAND = "## [exp_launch_command]\n- description: x\n- command: python -m x\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a code directory, a recipe and a place for blueprints."""
    root = tmp_path / "project"
    for folder in (".git", "code/conf", "blueprints/deep"):
        (root / folder).mkdir(parents=True)
    (root / "code/conf/a.yaml").write_text("lr: 1\n")
    return root


def write(root: Path, text: str, name: str = "b.md") -> Path:
    path = root / "blueprints/deep" / name
    path.write_text(text + COMMAND)
    return path


def checked(root: Path, text: str, **env: str) -> ResolvedBlueprint:
    return resolve_blueprint(read_blueprint(write(root, text)), environ=ENV | env)


def codes(resolved: ResolvedBlueprint) -> list[str]:
    return sorted(f.code for f in resolved.findings if f.severity == "error")


def test_everything_is_resolved(project: Path) -> None:
    python = project / "code/.venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    path = write(project, "## [exp_codebase_dir]\n- dir: code\n## [exp_yaml_path]\n- path: conf/a.yaml\n")
    r = resolve_blueprint(read_blueprint(path), environ=ENV)
    assert r.file.base == project
    assert r.path == path
    assert r.file.sha == hashlib.sha256(path.read_bytes()).hexdigest()
    assert r.codebase == project / "code"
    assert (r.interpreter, r.interpreter_source) == (python, ".venv")  # the link itself: it makes the environment
    assert r.recipe == project / "code/conf/a.yaml"
    assert r.recipe_data == {"lr": 1}
    assert r.result_dir == project / "auto_agent/exp_results/b"
    assert codes(r) == []
    raise_on_errors(r)


def test_where_relative_paths_begin(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.md").write_text("## [exp_codebase_dir]\n- dir: ./\n" + COMMAND)
    r = resolve_blueprint(read_blueprint(tmp_path / "b.md"), environ=ENV)
    assert (r.file.base, r.codebase) == (tmp_path, tmp_path)  # no repository
    path = write(project, "")
    monkeypatch.chdir(path.parent)
    file = read_blueprint(Path("b.md"))
    assert (file.path, file.base) == (path, project)
    (project / "blueprints/.git").write_text("gitdir: elsewhere\n")  # a linked worktree is a root too
    assert read_blueprint(path).base == project / "blueprints"


@pytest.mark.parametrize("folder", ["venv", ".venv"])
def test_interpreters_are_looked_for(project: Path, folder: str) -> None:
    bin_dir = project.parent / "bin"
    bin_dir.mkdir()
    r = checked(project, "", PATH=str(bin_dir))
    assert codes(r) == ["missing_interpreter"] and "no environment is active" in r.findings[-1].message
    (bin_dir / "python3").touch(0o755)
    r = checked(project, "", PATH=str(bin_dir))
    assert (r.interpreter, r.interpreter_source) == (bin_dir / "python3", "PATH")
    python = project / folder / "bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("")
    assert checked(project, "", PATH=str(bin_dir)).interpreter_source == "PATH"  # it cannot be executed
    python.chmod(0o755)
    r = checked(project, "## [exp_venv_exe]\n- path: auto\n", PATH=str(bin_dir))
    assert (r.interpreter, r.interpreter_source) == (python, folder)


@pytest.mark.parametrize(
    ("variables", "path", "expected"),
    [
        ("", "tool bin", "tool"),  # ours is one among others
        ("VIRTUAL_ENV=env", "tool env", "env"),
        ("VIRTUAL_ENV=env", "bin", "env"),  # passed on without its PATH
        ("CONDA_PREFIX=conda", "conda bin", "conda"),
        ("VIRTUAL_ENV=env CONDA_PREFIX=conda", "env conda", "env"),
        ("VIRTUAL_ENV=env CONDA_PREFIX=conda", "conda env", "conda"),  # the one was activated in the other
        ("VIRTUAL_ENV=gone", "bin", "bin"),
    ],
)
def test_the_interpreter_is_that_of_the_shell(project: Path, variables: str, path: str, expected: str) -> None:
    """Strangers' rows 1 and 4: our own python ran what they had installed elsewhere."""
    root = project.parent
    for name in ("tool", "bin", "env", "conda"):
        (root / name / "bin").mkdir(parents=True)
        (root / name / "bin/python").touch(0o755)
    environ = {name: str(root / prefix) for name, _, prefix in (one.partition("=") for one in variables.split())}
    r = checked(project, "", PATH=os.pathsep.join(str(root / name / "bin") for name in path.split()), **environ)
    source = "active environment" if expected in ("env", "conda") else "PATH"
    assert (r.interpreter, r.interpreter_source) == (root / expected / "bin/python", source)


def test_interpreters_that_are_named(project: Path) -> None:
    python = project / "code/env/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    head = "## [exp_codebase_dir]\n- dir: code\n## [exp_venv_exe]\n- path: "
    assert codes(checked(project, f"{head}{python}\n")) == ["missing_interpreter"]  # not executable
    python.chmod(0o755)
    for text in (str(python), "env/bin/python", "code/env/bin/python", str(project / "code/env"), "env"):
        r = checked(project, f"{head}{text}\n")
        assert (r.interpreter, r.interpreter_source, codes(r)) == (python, "blueprint", []), text
    assert checked(project, f"{head}sh\n").interpreter in (Path("/usr/bin/sh"), Path("/bin/sh"))
    assert codes(checked(project, f"{head}no-such-python\n")) == ["missing_interpreter"]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("## [exp_codebase_dir]\n- dir: nowhere\n", "missing_codebase", 2),
        ("## [exp_venv_exe]\n- path: /nowhere/python\n", "missing_interpreter", 2),
        ("## [exp_yaml_path]\n- path: nowhere.yaml\n", "missing_recipe", 2),
        ("## [exp_result_dir]\n- path: code/conf/a.yaml\n", "bad_result_dir", 2),
        ("## [exp_codebase_dir]\n- dir: $(touch pwned)\n", "missing_codebase", 2),
        ("## [exp_codebase_dir]\n- dir: " + "a" * 300 + "\n", "missing_codebase", 2),
    ],
)
def test_what_is_not_there(project: Path, text: str, code: str, line: int) -> None:
    r = checked(project, text)
    (finding,) = [f for f in r.findings if f.severity == "error"]
    assert (finding.code, finding.line, finding.where) == (code, line, "b.md")
    with pytest.raises(BlueprintError) as caught:
        raise_on_errors(r)
    assert caught.value.message.startswith(f"b.md:{line}: ")
    assert isinstance(caught.value, BlueprintInvalid) and finding in caught.value.findings
    assert not list(project.rglob("pwned"))


def test_recipes_beside_the_blueprint_and_at_the_root(project: Path) -> None:
    (project / "blueprints/deep/b.yaml").write_text("a: 1\n")
    assert checked(project, "## [exp_yaml_path]\n- path: b.yaml\n").recipe_data == {"a": 1}
    (project / "b.yaml").write_text("a: 2\n")
    assert checked(project, "## [exp_yaml_path]\n- path: b.yaml\n").recipe_data == {"a": 2}
    head = "## [exp_codebase_dir]\n- dir: code\n"
    (project / "code/b.yaml").write_text("a: 3\n")
    assert checked(project, head + "## [exp_yaml_path]\n- path: b.yaml\n").recipe_data == {"a": 3}


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        ("--conf r.yaml", "a: [1\nb: 2\n", "yaml_syntax"),
        ("--conf=r.yaml", "\tx: 1\n", "yaml_syntax"),
        ("--conf r.yaml", "a: !of_its_own 1\n", ""),  # its program may know the tag
        ("--conf r.yaml", "a: 1\n", ""),
    ],
)
def test_a_recipe_that_only_the_command_names_must_parse(project: Path, words: str, text: str, code: str) -> None:
    (project / "r.yaml").write_text(text)
    (project / "train.py").write_text("")
    found = [one for one in launched(project, f"python train.py {words}") if one.severity == "error"]
    assert [one.code for one in found] == ([code] if code else [])
    assert all("r.yaml:" in one.message for one in found)


def launched(project: Path, command: str, note: str = "") -> list[Finding]:
    path = project / "b.md"
    path.write_text(f"## [exp_launch_command]\n- command: `{command}`\n## Notes\n{note}\n")
    return [*resolve_blueprint(read_blueprint(path), environ=ENV).findings]


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        *(("cd X && bash Y.sh", True), ("export A=b; bash gone.sh && python x", True), ("python pkg; true", False)),
        *(("A=1 uv run python -u gone.py --x", True), ("cd X; python gone", True)),
        *(("python make.py && bash gone.sh", False), ("git clone U X; python X/gone.py", False)),
        *(("python -m gone x.py", False), ("python -c 'print(1)' gone", False), ("bash -c 'x' gone", False)),
        *(("bash $WHERE/Y.sh", False), ("cd $X && bash Y.sh", False), ("ssh host python gone.py", False)),
        *(("[ -f gone.sh ] && bash gone.sh", False), ("bash <(curl x)", False), ("docker run i python gone.py", False)),
        ("srun --container-image=i python gone.py", False),
    ],
)
def test_a_program_that_is_not_there_is_refused(project: Path, command: str, missing: bool) -> None:
    (project / "make.py").touch()
    (project / "pkg").mkdir()
    found = [one for one in launched(project, command) if one.code == "missing_script"]
    assert [one.severity for one in found] == ["error"] * missing
    later = launched(project, "python make.py", f"- evaluate: {command}")  # it would be missed after the training
    assert [one.severity for one in later if one.code == "missing_script"] == ["error"] * missing
    assert not [one for one in launched(project, command, "- prepare: make all") if one.code == "missing_script"]


def test_home_is_expanded_and_nothing_else(project: Path) -> None:
    text = "## [exp_codebase_dir]\n- dir: ~/code\n## [exp_result_dir]\n- path: $HOME/r\n"
    r = checked(project, text, HOME=str(project))
    assert r.codebase == project / "code"
    assert r.result_dir == project / "$HOME/r"


def test_a_secret_in_the_blueprint_is_told(project: Path) -> None:
    text = "## Notes\n- env: WANDB_API_KEY=abc\n- env: NUM_TOKENS=512\n- env: HF_TOKEN=\n"
    text += "- env: X=hf_abcdefghijklmnopqrstuv\n"
    found = [f for f in checked(project, text).findings if f.code == "secret_in_blueprint"]
    assert [f.message.split("`")[1] for f in found] == ["env: WANDB_API_KEY=***", "env: X=***"]
    assert all("requires_env" in f.hint and f.severity == "warning" for f in found)
    shown = checked(project, text).path.read_text().splitlines()
    assert [shown[f.line - 1] for f in found] == ["- env: WANDB_API_KEY=abc", "- env: X=hf_abcdefghijklmnopqrstuv"]
    assert not any("abc" in f.message for f in found)
