"""The first blueprint of a project, from the training script that it has: for `init`, and for who runs a script."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from autoresearch.core.blueprint.fields import BlueprintFields
from autoresearch.core.blueprint.parser import needed_variables, parse_blueprint
from autoresearch.core.metrics.objective import usual_direction
from autoresearch.errors import ConflictError
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.resolve_blueprint import BlueprintFile, base_of, read_blueprint, resolve_blueprint
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer
from autoresearch.records.index import state_home, state_usable
from autoresearch.records.rundir import read_json, write_json
from autoresearch.trainers import registry

SCRIPTS = ("train.py", "main.py", "train.sh", "run.sh", "src/train.py", "scripts/train.py", "scripts/train.sh")
_WRITTEN = "init.json"  # in the state directory: the digest of each file that `init` wrote, by its path


def training_command(directory: Path) -> str:
    """How the first script of a usual name is started; "" if there is none."""
    script = next((name for name in SCRIPTS if (directory / name).is_file()), "")
    if not script or script.endswith(".sh"):
        return script and f"bash {script}"
    return f"{'uv run' if (directory / 'uv.lock').exists() and shutil.which('uv') else 'python'} {script}"


def first_blueprint(
    directory: Path, command: str, metric: str, purpose: str, path: Path, title: str = ""
) -> BlueprintFields:
    """The fields of a blueprint at `path` that runs this command as it is.

    Paths of a directory above it are absolute: relative ones would mean another one once that is a git repository.
    """
    base = base_of(path)
    codebase = f"./{directory.relative_to(base)}" if directory.is_relative_to(base) else str(directory)
    fields = BlueprintFields(
        title=title or path.stem.replace("_", " ").replace("-", " "),
        purpose=purpose or f"The baseline of {directory.name}: `{command}` as it is.",
        launch_command=command,
        requires_env=needed_variables(command),
        codebase_dir="./" if directory == base else codebase,
        metric=metric,
        direction=usual_direction(metric, None).value if metric else "",
    )
    return replace(fields, result_dir="" if directory == base else f"{codebase}/{fields.default_result_dir()}")


def as_read(fields: BlueprintFields, path: Path, environ: Mapping[str, str]) -> TrainerSettings:
    """What a blueprint of these fields would mean at `path`, where nothing is written."""
    data = render_blueprint(fields).encode()
    return settings_of(BlueprintFile(path, data, parse_blueprint(data, path.name)), environ)


def settings_of(file: BlueprintFile, environ: Mapping[str, str]) -> TrainerSettings:
    """A blueprint as its trainer understands it."""
    resolved = resolve_blueprint(file, environ=environ)
    return ask_trainer(registry.for_blueprint(resolved.blueprint, shell_reading=resolved.shell_reading), resolved)


def command_of(path: Path) -> str:
    """The command of a blueprint."""
    return read_blueprint(path).blueprint.launch_command


def write_file(path: Path, text: str) -> None:
    """Write a file of a project, which may be written anew as long as nobody edits it."""
    path.write_text(text, encoding="utf-8")
    record = state_home() / _WRITTEN
    with state_usable(record.parent):
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, {**(read_json(record) or {}), str(path): _digest(path)}, durable=False)


def unedited(root: Path, names: Sequence[str]) -> set[Path]:
    """Of the files of these names, those that are as `write_file` left them.

    Raises ConflictError if a file of these names is not.
    """
    known = read_json(state_home() / _WRITTEN) or {}
    paths = [root / name for name in names]
    own = {path for path in paths if path.is_file() and known.get(str(path)) == _digest(path)}
    if others := [name for name in names if (root / name).exists() and root / name not in own]:
        raise ConflictError(
            f"{' and '.join(others)} in {root} {'is' if len(others) == 1 else 'are'} not as `init` wrote them",
            hint=f"nothing was changed; edit {others[0]}, or move {' and '.join(others)} away and type it again",
        )
    return own


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
