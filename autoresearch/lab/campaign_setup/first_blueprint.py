"""The first blueprint of a project, from the training script that it has: for `init`, and for who runs a script."""

from __future__ import annotations

import os.path
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.fields import BlueprintFields
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.metrics.objective import usual_direction
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.resolve_blueprint import BlueprintFile, base_of, resolve_blueprint
from autoresearch.lab.resolve.scripts import LaunchTexts, shell_reader
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer
from autoresearch.trainers import registry

SCRIPTS = ("train.py", "main.py", "train.sh", "run.sh", "src/train.py", "scripts/train.py", "scripts/train.sh")
_NO_TRAINING = ("setup.py", "conftest.py", "noxfile.py", "__init__.py")
_DEFINES, _DOES = re.compile(r"(?m)^(?:def|class) "), re.compile(r"(?m)^(?!def |class |@|from |import |#)[\w\"'].*")


def training_command(directory: Path) -> str:
    """How the training script of a project is started: one of a usual name, or its only Python file; "" without one."""
    only = [path.name for path in sorted(directory.glob("*.py")) if path.name not in _NO_TRAINING]
    script = next((name for name in SCRIPTS if _starts(directory / name)), only[0] if len(only) == 1 else "")
    if not script:
        return ""
    if script.endswith(".sh"):
        return f"bash {script}"
    return f"{'uv run' if (directory / 'uv.lock').exists() and shutil.which('uv') else 'python'} {script}"


def _starts(script: Path) -> bool:
    """Whether a script is there, and no module that only defines what others call."""
    text = script.read_text(encoding="utf-8", errors="replace") if script.is_file() else "class "
    return not _DEFINES.search(text) or _DOES.search(text) is not None


def first_blueprint(
    directory: Path, command: str, metric: str, purpose: str, path: Path, title: str = ""
) -> BlueprintFields:
    """The fields of a blueprint at `path` that runs this command as it is."""
    direction = usual_direction(metric, None) if metric else None
    launch = LaunchTexts(shell_reader(directory, {})(command, ()), directory)
    sources = next((one.sources for one in launch.objectives() if one.name == metric), ())
    below = os.path.relpath(directory, base_of(path))
    fields = BlueprintFields(
        title=title or path.stem.replace("_", " ").replace("-", " "),
        purpose=purpose or f"The baseline of {directory.name}: `{command}` as it is.",
        launch_command=command,
        codebase_dir="./" if below == "." else f"./{below}",
        metric=metric,
        direction=direction.value if direction else "",
        source=sources,
    )
    result_dir = "" if below == "." else f"./{Path(below) / fields.default_result_dir()}"
    return replace(fields, result_dir=result_dir)


def as_read(fields: BlueprintFields, path: Path, environ: Mapping[str, str]) -> TrainerSettings:
    """What a blueprint of these fields would mean at `path`, where nothing is written."""
    data = render_blueprint(fields).encode()
    return settings_of(BlueprintFile(path, data, parse_blueprint(data, path.name)), environ)


def settings_of(file: BlueprintFile, environ: Mapping[str, str]) -> TrainerSettings:
    """A blueprint as its trainer understands it."""
    resolved = resolve_blueprint(file, environ=environ)
    return ask_trainer(registry.for_blueprint(resolved.blueprint, shell_reading=resolved.shell_reading), resolved)
