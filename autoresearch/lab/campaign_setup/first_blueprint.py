"""The first blueprint of a project, from the training script that it has: for `init`, and for who runs a script."""

from __future__ import annotations

import os.path
import shutil
from pathlib import Path

from autoresearch.core.blueprint.fields import BlueprintFields
from autoresearch.core.metrics.objective import usual_direction
from autoresearch.core.text.regex import later
from autoresearch.lab.campaign_setup.printed_names import TRACKERS, candidates, printed_names
from autoresearch.lab.recipes.program_flags import programs
from autoresearch.lab.resolve.blueprint_file import base_of
from autoresearch.lab.resolve.launch_texts import launch_files

SCRIPTS = ("train.py", "main.py", "train.sh", "run.sh", "src/train.py", "scripts/train.py", "scripts/train.sh")
_NO_TRAINING = ("setup.py", "conftest.py", "noxfile.py", "__init__.py")
_YAML = later(r"""["']([\w./-]{1,200}\.ya?ml)["']""")
_TRL = later(r"(?m)^\s*(?:from trl\b[^\n]* import|import trl\b)")
_ROLLS_OUT = later(r"\b(?:GRPO|RLOO)Trainer\(")
_TRL_METRIC = "reward"  # what TRL logs for these
_HYDRA = later(r"""(config_path|config_name)\s*=\s*["']([\w./-]{1,200})["']""")


def training_command(directory: Path) -> str:
    """How the training script of a project is started: one of a usual name, or its only Python file; "" without one."""
    only = [path.name for path in sorted(directory.glob("*.py")) if path.name not in _NO_TRAINING]
    script = next((name for name in SCRIPTS if (directory / name).is_file()), only[0] if len(only) == 1 else "")
    if not script:
        return ""
    if script.endswith(".sh"):
        return f"bash {script}"
    return f"{'uv run' if (directory / 'uv.lock').exists() and shutil.which('uv') else 'python'} {script}"


def program_paths(command: str, directory: Path) -> list[Path]:
    """The Python files that a command starts in `directory`, by way of its scripts too."""
    scripts, _ = launch_files(command, directory, {}, directory)
    paths = [directory / one.path for text in (command, *scripts.values()) for one in programs(text)]
    return [path for path in paths if path.is_file()]


def printed_metric(command: str, directory: Path) -> str:
    """The number that the command's program prints last and that is worth optimising, by its name.

    "" without one, and where several are as likely, see `metric_candidates`.
    """
    found = metric_candidates(command, directory)
    return found[0] if len(found) == 1 else ""


def metric_candidates(command: str, directory: Path) -> list[str]:
    """The names of numbers that the command's program prints, and of which any may be the objective."""
    found = candidates(_names(command, directory))
    rolls_out = any(_ROLLS_OUT.search(_text(path)) for path in program_paths(command, directory))
    if rolls_out and found in ([], ["eval_loss"]):  # a policy's loss does not say how good it is
        return [_TRL_METRIC]
    return found


def _names(command: str, directory: Path) -> dict[str, str]:
    names: dict[str, str] = {}
    for path in program_paths(command, directory):
        names.update(printed_names(path))
    return names


def recipe_named(command: str, directory: Path) -> str:
    """The one YAML file of the project that the command's program names in its text, or that hydra reads; "" if none.
    """
    named: dict[str, None] = {}
    for path in program_paths(command, directory):
        text = _text(path)
        hydra = {match[1]: match[2] for match in _HYDRA.finditer(text)}
        if "config_name" in hydra:
            name = hydra["config_name"].removesuffix(".yaml")
            named[os.path.relpath(path.parent / hydra.get("config_path", ".") / f"{name}.yaml", directory)] = None
        named.update(dict.fromkeys(match[1] for match in _YAML.finditer(text)))
    found = [name for name in named if not name.startswith(("/", "..")) and (directory / name).is_file()]
    return found[0] if len(found) == 1 else ""


def first_blueprint(directory: Path, command: str, metric: str, purpose: str, path: Path) -> BlueprintFields:
    """The fields of a blueprint at `path` that runs this command as it is."""
    direction = usual_direction(metric, None) if metric else None
    tracker = _names(command, directory).get(metric)
    return BlueprintFields(
        title=path.stem.replace("_", " ").replace("-", " "),
        purpose=purpose or f"The baseline of {directory.name}: `{command}` as it is.",
        launch_command=command,
        codebase_dir="./" + os.path.relpath(directory, base_of(path)).removeprefix("."),
        trainer=_trainer(command, directory),
        yaml_path=recipe_named(command, directory),
        metric=metric,
        direction=direction.value if direction else "",
        source=(TRACKERS[tracker],) if tracker else (),
    )


def _trainer(command: str, directory: Path) -> str:
    """The trainer of a script whose command does not show it: one of one's own around TRL's; "" for any other."""
    texts = map(_text, program_paths(command, directory))
    return "trl" if any(_TRL.search(text) and "Trainer(" in text for text in texts) else ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
