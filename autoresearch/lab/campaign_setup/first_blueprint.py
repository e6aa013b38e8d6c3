"""The first blueprint of a project, from the training script that it has: for `init`, and for who runs a script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autoresearch.core.blueprint.fields import BlueprintFields
from autoresearch.core.blueprint.parser import needed_variables, parse_blueprint
from autoresearch.core.metrics.objective import usual_direction
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.resolve_blueprint import BlueprintFile, base_of, resolve_blueprint
from autoresearch.lab.resolve.scripts import LaunchTexts, shell_reader
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer
from autoresearch.trainers import registry
from autoresearch.values import replace


def first_blueprint(
    directory: Path, command: str, metric: str, purpose: str, path: Path, title: str = ""
) -> BlueprintFields:
    """The fields of a blueprint at `path` that runs this command as it is.

    Paths of a directory above it are absolute: relative ones would mean another one once that is a git repository.
    """
    launch = LaunchTexts(shell_reader(directory, {})(command, ()), directory)
    sources = next((one.sources for one in launch.objectives if one.name == metric), ())
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
        source=sources,
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
