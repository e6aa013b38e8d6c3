"""Resolves a blueprint against the machine: paths, interpreter, recipe, and all that is wrong. Writes nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.blueprint.lint import RECORDS, lint_blueprint, lint_recipe
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.shell.commands import ShellReading
from autoresearch.errors import AutoresearchError, BlueprintError, NotFoundError
from autoresearch.lab.recipes.recipe_parents import inherited
from autoresearch.lab.resolve.blueprint_file import BlueprintFile
from autoresearch.lab.resolve.files import OURS, Files
from autoresearch.lab.resolve.scripts import recipe_of, shell_reader, unread_scripts
from autoresearch.lab.yaml_files import load_mapping, parse_mapping
from autoresearch.records import finish_flag
from autoresearch.records.secrets import MASK, mask_text
from autoresearch.runner.text import plain

_RECIPE_BYTES = 16 << 20
_UNREAD = frozenset({"missing_recipe", "large_recipe", "bad_recipe"})
_SYSTEM = frozenset({"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr"})
_SYSTEM_VAR = frozenset({"backups", "cache", "db", "lock", "log", "run", "spool"})  # below /var
_NOT_SYSTEM = frozenset({"dev/shm", "run/media", "run/user", "usr/home", "usr/local"})
_MOST_SECRETS = 5  # findings per file


@dataclass(frozen=True, slots=True)
class ResolvedBlueprint:
    """A blueprint and its resolved values; every path is absolute.

    `findings` holds the parser's warnings and all of lint's; errors among them stop a run (`raise_on_errors`). A
    missing path is included as it was meant.
    """

    file: BlueprintFile
    codebase: Path
    interpreter: Path
    interpreter_source: str  # "blueprint", "venv", ".venv" or "cli"
    recipe: Path | None
    recipe_data: Mapping[str, object]  # {} without a recipe, or if it is not YAML
    inherited: Mapping[str, object]  # the same, merged with its parents
    result_dir: Path
    shell_reading: ShellReading  # of its command, with the scripts that it starts
    findings: tuple[Finding, ...]
    files: Files = OURS  # of the machine that its paths refer to

    @property
    def blueprint(self) -> Blueprint:
        """What was parsed."""
        return self.file.blueprint

    @property
    def path(self) -> Path:
        """The blueprint's file."""
        return self.file.path


def resolve_blueprint(file: BlueprintFile, *, environ: Mapping[str, str], files: Files = OURS) -> ResolvedBlueprint:
    """Resolve and lint a blueprint. `files`: of the machine that its paths refer to.

    What is missing on the machine (codebase, interpreter, recipe, a required variable) is a finding.
    """
    blueprint, base = file.blueprint, file.base
    host = _Host(files, {**environ, "HOME": files.home(environ)})
    codebase = host.under(base, blueprint.codebase_dir)
    reader = shell_reader(codebase, {**host.environ, **blueprint.notes.env}, files)

    def read(command: str) -> ShellReading:
        return reader(command, blueprint.notes.prepare if command == blueprint.launch_command else ())

    shell_reading, result_dir = read(blueprint.launch_command), host.under(base, blueprint.result_dir)
    root = next((path for path in (codebase, *codebase.parents) if files.kind(path / ".git")), codebase)
    records = (str(root / RECORDS), str(result_dir / "finish.flag"))
    findings = [
        *blueprint.findings,
        *lint_blueprint(blueprint, read, records),
        *_required(blueprint, environ),
        *_secrets(file.data, file.path.name),
    ]
    if files.kind(codebase) != "directory":
        what = "is not a directory" if files.kind(codebase) else "is not there"
        findings.append(_missing(blueprint, "exp_codebase_dir", "missing_codebase", f"the codebase {codebase} {what}"))
    interpreter, source = _interpreter(blueprint, base, codebase, host)
    findings += _executable(blueprint, interpreter, files)
    recipe = _recipe(file, codebase, host)
    recipe_data, remarks = _read_recipe(blueprint, recipe, files)
    if recipe is not None and not blueprint.yaml_path.startswith(("/", "~/")) and codebase not in recipe.parents:
        findings.append(_elsewhere(blueprint, recipe))
    if (named := recipe_of(shell_reading, codebase, files)) not in (None, recipe):
        data, others = _read_recipe(blueprint, named, files)
        if not any(one.code in _UNREAD for one in others):  # else the word may mean something else
            remarks += others
            recipe, recipe_data = (named, data) if recipe is None else (recipe, recipe_data)
    findings += remarks
    whole, remarks = _with_parents(blueprint, recipe, recipe_data, files)
    findings += remarks
    there = files.here and files.kind(codebase) == "directory"  # a missing codebase has no scripts to miss
    findings += [*unread_scripts(blueprint, reader, there=there), *_results(blueprint, result_dir, files)]
    findings += _hidden(blueprint)
    return ResolvedBlueprint(
        file=file,
        codebase=codebase,
        interpreter=interpreter,
        interpreter_source=source,
        recipe=recipe,
        recipe_data=recipe_data,
        inherited=whole,
        result_dir=result_dir,
        shell_reading=shell_reading,
        findings=tuple(dict.fromkeys(findings)),
        files=files,
    )


def raise_on_errors(resolved: ResolvedBlueprint) -> None:
    """Raise BlueprintError with all findings if lint found an error."""
    if errors(resolved.findings):
        raise BlueprintInvalid(resolved.findings)


@contextlib.contextmanager
def errors_kept(resolved: ResolvedBlueprint) -> Iterator[None]:
    """Add a later error to those of the blueprint, where there are any."""
    try:
        yield
    except AutoresearchError as error:
        if not errors(resolved.findings):
            raise
        last = Finding(Severity.ERROR, error.code, error.message, error.hint)
        raise BlueprintInvalid([*resolved.findings, last]) from error


@dataclass(frozen=True, slots=True)
class _Host:
    """The machine that a blueprint's paths refer to, and the variables for them."""

    files: Files
    environ: Mapping[str, str]

    def under(self, base: Path, text: str) -> Path:
        """An absolute path; `~/` is the home directory, nothing else is expanded."""
        if text.startswith("~/") and self.environ.get("HOME"):
            text = self.environ["HOME"] + text[1:]
        return Path(os.path.normpath(base / text))


def _missing(blueprint: Blueprint, key: str, code: str, message: str, hint: str = "") -> Finding:
    hint = hint or f"correct [{key}]"
    return Finding(Severity.ERROR, code, message, hint, blueprint.name, blueprint.lines.get(key, 0))


def _interpreter(blueprint: Blueprint, base: Path, codebase: Path, host: _Host) -> tuple[Path, str]:
    """The interpreter and its source: the blueprint's, that of <codebase>/venv or .venv, else ours."""
    text, files = blueprint.venv_exe, host.files
    if text:
        candidates = [host.under(root, text) for root in (base, codebase)]
        named = next((path for path in candidates if files.kind(path)), None)
        if named is None and "/" not in text and files.here:
            named = Path(shutil.which(text, path=host.environ.get("PATH")) or candidates[0])
        named = named or candidates[0]
        return (named / "bin/python" if files.kind(named / "bin/python") else named), "blueprint"
    for folder in ("venv", ".venv"):
        python = codebase / folder / "bin" / "python"
        if files.executable(python):
            return python, folder
    if files.here and _of_a_tool(Path(sys.prefix)):
        folders = host.environ.get("PATH", "").split(os.pathsep)
        path = os.pathsep.join(folder for folder in folders if not folder.startswith(sys.prefix))
        if own := shutil.which("python", path=path) or shutil.which("python3", path=path):
            return Path(own), "PATH"
    return Path(files.python), "cli"


def _of_a_tool(prefix: Path) -> bool:
    """Whether an environment is that of `uv tool install`, `uvx` or pipx: it holds our packages and no others."""
    return any((prefix / name).exists() for name in ("uv-receipt.toml", "pipx_metadata.json")) or (
        "archive-v0" in prefix.parts
    )


def _executable(blueprint: Blueprint, interpreter: Path, files: Files) -> list[Finding]:
    hint = "correct [exp_venv_exe], or write auto to have one looked for"
    if not files.kind(interpreter):
        message = f"the interpreter {interpreter} is not there"
    elif files.kind(interpreter) != "file" or not files.executable(interpreter):
        message = f"the interpreter {interpreter} cannot be executed"
    else:
        return []
    return [_missing(blueprint, "exp_venv_exe", "missing_interpreter", message, hint)]


def _recipe(file: BlueprintFile, codebase: Path, host: _Host) -> Path | None:
    """The recipe: relative to the codebase, then to the base, then beside the blueprint."""
    text = file.blueprint.yaml_path
    if not text:
        return None
    candidates = [host.under(root, text) for root in (codebase, file.base, file.path.parent)]
    return next((path for path in candidates if host.files.kind(path)), candidates[0])


def _elsewhere(blueprint: Blueprint, recipe: Path) -> Finding:
    message = f"[exp_yaml_path] is relative, and not in the codebase: {recipe} is taken"
    hint = "write it from the root of the codebase, or as an absolute path"
    return Finding(
        Severity.WARNING, "relative_path", message, hint, blueprint.name, blueprint.lines.get("exp_yaml_path", 0)
    )


def _read_recipe(blueprint: Blueprint, recipe: Path | None, files: Files) -> tuple[Mapping[str, object], list[Finding]]:
    if recipe is None:
        return {}, []

    def trouble(code: str, message: str, hint: str = "") -> tuple[Mapping[str, object], list[Finding]]:
        return {}, [_missing(blueprint, "exp_yaml_path", code, message, hint)]

    if not files.kind(recipe):
        return trouble("missing_recipe", f"the recipe {recipe} is not there", "correct [exp_yaml_path], or write NA")
    if files.kind(recipe) != "file":
        return trouble("missing_recipe", f"the recipe {recipe} is not a file")
    if recipe.suffix.lower() not in (".yaml", ".yml", ".json"):
        return {}, []
    try:
        data = files.read(recipe, _RECIPE_BYTES + 1)
        if len(data) > _RECIPE_BYTES:
            return trouble("large_recipe", f"the recipe {recipe} has over {_RECIPE_BYTES >> 20} MiB")
        mapping = parse_mapping(data, str(recipe))
    except OSError as failure:
        return trouble("missing_recipe", f"the recipe {recipe} cannot be read: {failure.strerror}")
    except BlueprintError as broken:
        return trouble("bad_recipe", f"the recipe is broken: {broken.message}", broken.hint)
    remarks = lint_recipe(mapping, data.decode("utf-8", "replace"), where=recipe.name)
    return mapping, [*remarks, *_secrets(data, recipe.name, "secret_in_recipe")]


def _with_parents(
    blueprint: Blueprint, recipe: Path | None, data: Mapping[str, object], files: Files
) -> tuple[Mapping[str, object], list[Finding]]:
    """The recipe merged with its parents; alone if one cannot be read, on which the trainer would fail too."""
    try:
        return inherited(data, str(recipe or ""), lambda path: _mapping(Path(path), files)), []
    except AutoresearchError as failure:
        message = f"a parent of the recipe, under `defaults`, cannot be read: {failure.message}"
        return data, [_missing(blueprint, "exp_yaml_path", "missing_parent", message, "correct `defaults`")]


def _mapping(path: Path, files: Files) -> dict[str, object]:
    """A YAML file of that machine. Raises AutoresearchError."""
    if files.here:
        return load_mapping(path)
    try:
        return parse_mapping(files.read(path, _RECIPE_BYTES), str(path))
    except OSError as failure:
        raise NotFoundError(f"{path}: {failure.strerror}") from failure


def _required(blueprint: Blueprint, environ: Mapping[str, str]) -> list[Finding]:
    unset = [n for n in blueprint.notes.requires_env if not (blueprint.notes.env.get(n) or environ.get(n))]
    line = blueprint.lines.get("notes", 0)
    return [
        Finding(
            Severity.ERROR,
            "unset_variable",
            f"the blueprint requires the variable {name}, which is not set",
            f"export {name}=... before the run, or give it under `env:`",
            blueprint.name,
            line,
        )
        for name in unset
    ]


def _secrets(data: bytes, name: str, code: str = "secret_in_blueprint") -> list[Finding]:
    """The lines of a file that hold a secret; they are masked in the commit on the run's branch."""
    text = data.decode("utf-8", "surrogateescape")
    masked = mask_text(text)
    if masked == text:
        return []
    lines = text.splitlines()
    places = {n: shown for n, line in enumerate(lines, 1) if (shown := mask_text(line)) != line}
    if not places:  # it spans several lines
        places[next((n for n, line in enumerate(lines, 1) if "PRIVATE KEY" in line), 1)] = MASK
    return [
        Finding(
            Severity.WARNING,
            code,
            f"`{plain(shown.strip().removeprefix('- '), 120)}` holds what looks like a secret; "
            "it is masked in the branch and in the records, but stays in the file",
            "pass it by the environment: `- requires_env: NAME` in the notes, `$NAME` in the command",
            name,
            number,
        )
        for number, shown in list(places.items())[:_MOST_SECRETS]
    ]


def _is_system(path: Path) -> bool:
    """Whether a path belongs to the system: the root, or below /etc, /usr ..., except for users' directories there."""
    top, below = [*path.parts[1:3], "", ""][:2]
    if top == "var":
        return not below or below in _SYSTEM_VAR
    return not top or (top in _SYSTEM and f"{top}/{below}" not in _NOT_SYSTEM)


def _hidden(blueprint: Blueprint) -> list[Finding]:
    """That `hide:` is kept by a campaign's sandbox alone."""
    if not blueprint.notes.hide:
        return []
    from autoresearch.lab.agent_work.sandbox import why_not

    why = f"; bubblewrap does not work here: {why_not()}" if why_not() else ""
    names = ", ".join(blueprint.notes.hide)
    message = f"hide: only a campaign with a coding agent keeps it, in the sandbox; a lone run can read {names}{why}"
    hint = "docs/evaluation.md says what is readable"
    return [Finding(Severity.WARNING, "hide_alone", message, hint, blueprint.name)]


def _results(blueprint: Blueprint, result_dir: Path, files: Files) -> list[Finding]:
    line = blueprint.lines.get("exp_result_dir", 0)
    real = Path(os.path.realpath(result_dir)) if files.here else result_dir
    if _is_system(real):
        through = "" if real == result_dir else f", by a link to {real}"
        message = f"{result_dir} is a directory of the system{through}: no results are written there"
        return [_missing(blueprint, "exp_result_dir", "system_result_dir", message, "name one of your own")]
    if files.kind(result_dir) not in ("", "directory"):
        return [_missing(blueprint, "exp_result_dir", "bad_result_dir", f"{result_dir} is not a directory")]
    flag = result_dir / "finish.flag"
    if files.kind(flag) and not (files.here and finish_flag.read(flag).refused):
        message = f"{result_dir} already holds a finished run"
        hint = "its finish.flag is moved aside before the launch; a directory per experiment is clearer"
        return [Finding(Severity.WARNING, "finished_run", message, hint, blueprint.name, line)]
    return []
