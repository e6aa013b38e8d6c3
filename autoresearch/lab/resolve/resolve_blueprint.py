"""Reads a blueprint and resolves it against the machine: paths, interpreter, recipe, and all that is wrong with them.

Nothing is written.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from autoresearch.core.blueprint.document import MAX_BYTES, NEW_BLUEPRINT
from autoresearch.core.blueprint.finding import Finding, Severity, error, errors, warning
from autoresearch.core.blueprint.lint import RECORDS, lint_blueprint, lint_recipe
from autoresearch.core.blueprint.model import Blueprint, directed
from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint
from autoresearch.core.shell import ShellReading
from autoresearch.errors import AutoresearchError, BlueprintError, NotFoundError
from autoresearch.lab.recipes.overrides import inherited
from autoresearch.lab.resolve.launch_command import (
    VARIED,
    kind_of,
    missing_script,
    read_start,
    recipe_of,
    shell_interpreter,
    shell_reader,
    unsynchronised,
)
from autoresearch.lab.yaml_files import SYNTAX, parse_mapping
from autoresearch.runner.masking import MASK, mask_environment, mask_text
from autoresearch.runner.text import plain

TYPED = f"{RECORDS}/typed"  # in the repository, beside the records: blueprints of typed commands
_STARTED_BY = {".py": "python", ".sh": "bash", ".bash": "bash"}  # suffixes of scripts
_RECIPE_BYTES = 16 << 20
_MAKE_IT = "correct its path, or let a `prepare:` make it"
_UNREAD = frozenset({"missing_recipe", "bad_recipe", SYNTAX})
_MOST_SECRETS = 5  # findings per file
_PATH = 200  # characters of a path in a message


@dataclass(frozen=True, slots=True)
class BlueprintFile:
    """A blueprint as it stands in its file."""

    path: Path  # absolute; symbolic links are kept, as a person reads the path
    data: bytes
    blueprint: Blueprint

    @property
    def sha(self) -> str:
        """sha256 of the content, hex."""
        return sha256(self.data).hexdigest()

    @property
    def base(self) -> Path:
        """The directory from which its relative paths start."""
        return base_of(self.path)

    def with_objective(self, metric: str, direction: str) -> BlueprintFile:
        """The same with what a command line says of the objective; "": as the blueprint has it."""
        notes, (metric, direction) = self.blueprint.notes, directed(metric, direction)
        direction = direction or ("" if metric and metric != notes.metric else notes.direction)
        notes = replace(notes, metric=metric or notes.metric, direction=direction)
        return replace(self, blueprint=replace(self.blueprint, notes=notes))

    @property
    def is_typed(self) -> bool:
        """Whether it was written for a command that somebody typed, who need not know of it."""
        return TYPED in self.path.as_posix()


def read_blueprint(path: Path) -> BlueprintFile:
    """Read and parse a blueprint.

    Raises NotFoundError for a file that is missing or cannot be read, BlueprintError for one that is invalid.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - keeps symbolic links
    data = read_bytes(path)
    _refuse_other_files(path)
    return BlueprintFile(path, data, parse_blueprint(data, path.name))


def is_blueprint(path: Path) -> bool:
    """Whether a file looks like one, among other Markdown."""
    with path.open("rb") as file:
        return b"[exp_launch_command]" in file.read(1 << 16)


def read_bytes(path: Path) -> bytes:
    """The content of a blueprint file, of one that is too large its beginning. Raises NotFoundError."""
    try:
        if not path.is_file():
            raise _no_blueprint(path)
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as failure:  # a name of 300 characters, a folder without access
        raise NotFoundError(f"{plain(str(path), _PATH)}: {failure.strerror or failure}") from failure
    except ValueError as failure:  # a NUL in the name
        raise NotFoundError(f"{plain(str(path), _PATH)} is not a file name") from failure


def key_of(path: Path) -> str:
    """A hash of the blueprint's real path, so that two CLIs lock the same key."""
    return sha256(str(path.resolve()).encode()).hexdigest()[:16]


def _refuse_other_files(path: Path) -> None:
    """Raise BlueprintError for a script or a campaign file, with the line that takes it."""
    fix = ""
    if path.suffix in (".yaml", ".yml"):
        fix = f"autoresearch campaign start {shlex.quote(path.name)}"
    elif path.suffix in _STARTED_BY:
        fix = f"autoresearch run -- {_STARTED_BY[path.suffix]} {shlex.quote(os.path.relpath(path))}"
    if fix:
        raise BlueprintError(f"{path.name} is no blueprint", fix=fix, code="not_a_blueprint")


def base_of(path: Path) -> Path:
    """The root of the git repository that holds a file, found by its `.git` entry; else its folder."""
    for folder in path.parents:
        if (folder / ".git").exists():
            return folder
    return path.parent


def _no_blueprint(path: Path) -> NotFoundError:
    named = plain(str(path), _PATH)
    if path.is_dir():
        return NotFoundError(f"{named} is a directory, not a blueprint", hint="name the .md file in it")
    if path.exists():
        return NotFoundError(f"{named} is not a regular file")
    import difflib

    near = difflib.get_close_matches(path.name, (one.name for one in path.parent.glob("*.md")), n=1)
    hint = f"did you mean {path.parent / near[0]}?" if near else NEW_BLUEPRINT
    return NotFoundError(f"there is no blueprint {named}", hint=hint, code="no_blueprint")


@dataclass(frozen=True)
class ResolvedBlueprint:
    """A blueprint and its resolved values; every path is absolute.

    `findings` holds the parser's warnings and all of lint's; errors among them stop a run (`raise_on_errors`). A
    missing path is included as it was meant.
    """

    file: BlueprintFile
    codebase: Path
    interpreter: Path
    interpreter_source: str  # "blueprint", or as `shell_interpreter` has it
    recipe: Path | None
    recipe_data: Mapping[str, object]  # {} without a recipe, or if it is not YAML
    inherited: Mapping[str, object]  # the same, merged with its parents
    result_dir: Path
    shell_reading: ShellReading  # of its command, with the scripts that it starts
    findings: tuple[Finding, ...]
    unsynchronised: Mapping[str, str]  # variables by which `uv run` and the like leave the environment as it is

    @property
    def blueprint(self) -> Blueprint:
        """What was parsed."""
        return self.file.blueprint

    def recorded(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Of an environment, for the record: declared and required variables, and GPUs; secrets masked."""
        notes = self.blueprint.notes
        names = [*notes.env, *notes.requires_env, "CUDA_VISIBLE_DEVICES"]
        return mask_environment({name: environ[name] for name in names if name in environ})

    @property
    def path(self) -> Path:
        """The blueprint's file."""
        return self.file.path


def resolve_blueprint(file: BlueprintFile, *, environ: Mapping[str, str]) -> ResolvedBlueprint:
    """Resolve and lint a blueprint.

    What is missing on the machine (codebase, interpreter, recipe, a required variable) is a finding.
    """
    blueprint, notes = file.blueprint, file.blueprint.notes
    paths = _PathChecker(file, environ)
    codebase, result_dir = paths.under(file.base, blueprint.codebase_dir), paths.under(file.base, blueprint.result_dir)
    read = shell_reader(codebase, {**environ, **notes.env})
    shell_reading = read(blueprint.launch_command)
    paths.findings += [*lint_blueprint(blueprint, read), *_of_notes(blueprint, environ)]
    paths.findings += _secrets(file.data, file.path.name)
    there = paths.check("exp_codebase_dir", "the codebase", codebase, "directory", "missing_codebase")
    commands = [("exp_launch_command", shell_reading), *(("notes", read(one)) for one in notes.evaluate)]
    for section, reading in commands if there and not notes.prepare else ():  # an evaluation's only after the training
        if lost := missing_script(reading, codebase):
            paths.add(Severity.ERROR, section, "missing_script", f"the script {lost} is not there", _MAKE_IT)
    interpreter, source = paths.interpreter(codebase)
    recipe, recipe_data, whole = paths.recipe(codebase, recipe_of(shell_reading, codebase))
    if kind_of(result_dir):
        paths.check("exp_result_dir", "the path", result_dir, "directory", "bad_result_dir")
    found = [*blueprint.findings, *paths.findings]
    if file.is_typed:
        found = [replace(one, where="", line=0) if one.where == blueprint.name else one for one in found]
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
        findings=tuple(dict.fromkeys(found)),
        unsynchronised=unsynchronised(codebase, environ),
    )


def raise_on_errors(resolved: ResolvedBlueprint) -> None:
    """Raise BlueprintError with all findings if lint found an error."""
    if errors(resolved.findings):
        raise BlueprintInvalid(resolved.findings)


@dataclass(slots=True)
class _PathChecker:
    """The paths of a blueprint, and what is wrong with them."""

    file: BlueprintFile
    environ: Mapping[str, str]
    findings: list[Finding] = field(default_factory=list)

    def under(self, base: Path, text: str) -> Path:
        """An absolute path; `~/` is the home directory, nothing else is expanded."""
        if text.startswith("~/") and self.environ.get("HOME"):
            text = self.environ["HOME"] + text[1:]
        return Path(os.path.normpath(base / text))

    def first(self, text: str, *roots: Path) -> Path:
        """The path that a text names, below the first root that has it, else below the first."""
        candidates = [self.under(root, text) for root in roots]
        return next((path for path in candidates if kind_of(path)), candidates[0])

    def add(self, severity: Severity, key: str, code: str, message: str, hint: str = "") -> None:
        """A finding at the section with this key."""
        blueprint = self.file.blueprint
        line = blueprint.lines.get(key, 0)
        self.findings.append(Finding(severity, code, message, hint or f"correct [{key}]", blueprint.name, line))

    def check(self, key: str, what: str, path: Path, kind: str, code: str, hint: str = "") -> bool:
        """Whether there is something of this kind at a path; an error if there is not."""
        found = kind_of(path)
        if found != kind:
            self.add(Severity.ERROR, key, code, f"{what} {path} is not {f'a {kind}' if found else 'there'}", hint)
        return found == kind

    def interpreter(self, codebase: Path) -> tuple[Path, str]:
        """The interpreter and its source: the blueprint's, else the shell's."""
        path, source = self._interpreter(codebase)
        key, code = "exp_venv_exe", "missing_interpreter"
        hint = "correct [exp_venv_exe], or write auto to have one looked for"
        if not source:
            message = f"no python was found: no environment is active, {codebase} has no .venv, and PATH has none"
            self.add(Severity.ERROR, key, code, message, "activate the trainer's environment, or name its python")
        elif self.check(key, "the interpreter", path, "file", code, hint) and not os.access(path, os.X_OK):
            self.add(Severity.ERROR, key, code, f"the interpreter {path} cannot be executed", hint)
        return path, source

    def _interpreter(self, codebase: Path) -> tuple[Path, str]:
        if text := self.file.blueprint.venv_exe:
            named = self.first(text, self.file.base, codebase)
            if "/" not in text and not kind_of(named):
                named = Path(shutil.which(text, path=self.environ.get("PATH", "")) or named)
            return (named / "bin/python" if kind_of(named / "bin/python") else named), "blueprint"
        found, source = shell_interpreter(codebase, self.environ, self.file.blueprint.launch_command)
        return found or Path("python"), source

    def recipe(
        self, codebase: Path, of_command: Path | None
    ) -> tuple[Path | None, Mapping[str, object], Mapping[str, object]]:
        """The recipe that the blueprint names, else the one that its command does; what is in it, and in its parents.

        It stands alone if a parent cannot be read, on which the trainer would fail too.
        """
        recipe, data, text = None, dict[str, object](), self.file.blueprint.yaml_path
        if text:  # relative to the codebase, then to the base, then to the blueprint
            recipe = self.first(text, codebase, self.file.base, self.file.path.parent)
            if not text.startswith(("/", "~/")) and codebase not in recipe.parents:
                message = f"[exp_yaml_path] is relative, and not in the codebase: {recipe} is taken"
                hint = "write it from the root of the codebase, or as an absolute path"
                self.add(Severity.WARNING, "exp_yaml_path", "relative_path", message, hint)
            data.update(self._recipe_data(recipe))
        if of_command is not None and of_command != recipe:
            apart = replace(self, findings=[])
            found, codes = apart._recipe_data(of_command), {one.code for one in apart.findings}
            broken = SYNTAX in codes and of_command.name in self.file.blueprint.launch_command
            if broken or not codes & _UNREAD:  # else it may be no recipe
                self.findings += apart.findings
                recipe, data = (recipe, data) if text else (of_command, dict(found))
        try:
            return recipe, data, inherited(data, str(recipe or ""), lambda path: self._mapping(Path(path))[1])
        except AutoresearchError as failure:
            message = f"a parent of the recipe, under `defaults`, cannot be read: {failure.message}"
            self.add(Severity.ERROR, "exp_yaml_path", "missing_parent", message, "correct `defaults`")
        return recipe, data, data

    def _recipe_data(self, recipe: Path) -> Mapping[str, object]:
        key = "exp_yaml_path"
        hint = "correct [exp_yaml_path], or write NA"
        there = self.check(key, "the recipe", recipe, "file", "missing_recipe", hint)
        if not there or recipe.suffix.lower() not in VARIED:
            return {}
        try:
            data, mapping = self._mapping(recipe)
        except AutoresearchError as broken:
            code = SYNTAX if broken.code == SYNTAX else "bad_recipe"
            self.add(Severity.ERROR, key, code, f"the recipe is broken: {broken.message}", broken.hint)
            return {}
        self.findings += lint_recipe(mapping, data.decode("utf-8", "replace"), where=recipe.name)
        self.findings += _secrets(data, recipe.name, "secret_in_recipe")
        return mapping

    def _mapping(self, path: Path) -> tuple[bytes, Mapping[str, object]]:
        """A YAML file of that machine, and what it holds. Raises AutoresearchError."""
        try:
            data = read_start(path, _RECIPE_BYTES + 1)
        except OSError as failure:
            raise NotFoundError(f"{path} cannot be read: {failure.strerror}") from failure
        if len(data) > _RECIPE_BYTES:
            raise BlueprintError(f"{path} has over {_RECIPE_BYTES >> 20} MiB")
        return data, parse_mapping(data, str(path))


def _of_notes(blueprint: Blueprint, environ: Mapping[str, str]) -> list[Finding]:
    """What of the notes cannot be kept here: a variable that is not set, and what only a campaign's sandbox hides."""
    notes, name, line = blueprint.notes, blueprint.name, blueprint.lines.get("notes", 0)
    found = []
    for unset in (one for one in notes.requires_env if not (notes.env.get(one) or environ.get(one))):
        message = f"the blueprint requires the variable {unset}, which is not set"
        hint = f"export {unset}=... before the run, or give it under `env:`"
        found.append(error(line, "unset_variable", message, hint, name))
    if notes.hide:
        keeps = "hide: only a campaign with a coding agent keeps it, in a sandbox"
        message = f"{keeps}; a lone run can read {', '.join(notes.hide)}"
        found.append(warning(0, "hide_alone", message, "docs/evaluation.md says what is readable", name))
    return found


def _secrets(data: bytes, name: str, code: str = "secret_in_blueprint") -> list[Finding]:
    """The lines of a file that hold a secret; they are masked in the commit on the run's branch."""
    text = data.decode("utf-8", "surrogateescape")
    masked = mask_text(text)
    lines = text.splitlines() if masked != text else []
    shown = {n: mask_text(line) for n, line in enumerate(lines, 1)}
    places = {n: shown[n] for n, line in enumerate(lines, 1) if shown[n] != line}
    if lines and not places:  # it spans several lines
        places[next((n for n, line in enumerate(lines, 1) if "PRIVATE KEY" in line), 1)] = MASK
    rest = "holds what looks like a secret; it is masked in the branch and in the records, but stays in the file"
    hint = "pass it by the environment: `- requires_env: NAME` in the notes, `$NAME` in the command"
    return [
        warning(number, code, f"`{plain(line.strip().removeprefix('- '), 120)}` {rest}", hint, name)
        for number, line in [*places.items()][:_MOST_SECRETS]
    ]
