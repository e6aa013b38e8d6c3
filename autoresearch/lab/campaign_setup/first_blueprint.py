"""The first blueprint of a project, from the training script that it has: for `init`, and for who runs a script."""

from __future__ import annotations

import ast
import os.path
import re
import shlex
import shutil
from pathlib import Path

from autoresearch.core.blueprint.fields import BlueprintFields
from autoresearch.core.metrics.objective import usual_direction
from autoresearch.core.text.regex import later
from autoresearch.lab.campaign_setup.proposer_spec import space_line
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.recipes.program_flags import programs
from autoresearch.lab.resolve.blueprint_file import base_of
from autoresearch.lab.resolve.launch_texts import launch_files
from autoresearch.trainers import registry

SCRIPTS = ("train.py", "main.py", "train.sh", "run.sh", "src/train.py", "scripts/train.py", "scripts/train.sh")
_NO_TRAINING = ("setup.py", "conftest.py", "noxfile.py", "__init__.py")
_PRINTED = later(r"(?P<name>[A-Za-z][\w/@.-]{0,60})(?:\s*[:=]\s*|'\s*:\s*)\Z")  # at the end of what precedes a value
_MEASURES = (
    frozenset({"val", "valid", "validation", "eval", "test"}),
    frozenset({"reward", "return", "score", "acc", "accuracy", "success", "pass"}),
    frozenset({"loss", "bpb", "ppl", "perplexity"}),
)
"""Words of a name that make it worth optimising, the best first."""


def training_command(directory: Path) -> str:
    """How the training script of a project is started: one of a usual name, or its only Python file; "" without one."""
    only = [path.name for path in sorted(directory.glob("*.py")) if path.name not in _NO_TRAINING]
    script = next((name for name in SCRIPTS if (directory / name).is_file()), only[0] if len(only) == 1 else "")
    if not script:
        return ""
    if script.endswith(".sh"):
        return f"bash {script}"
    return f"{'uv run' if (directory / 'uv.lock').exists() and shutil.which('uv') else 'python'} {script}"


def printed_metric(command: str, directory: Path) -> str:
    """The number that the command's program prints last and that is worth optimising, by its name; "" without one."""
    scripts, _ = launch_files(command, directory, {}, directory)
    paths = [directory / one.path for text in (command, *scripts.values()) for one in programs(text)]
    names = [name for path in paths if path.is_file() for name in _names_printed(path)]
    for words in _MEASURES:
        if fit := [name for name in names if words & set(re.split(r"[^a-z]+", name.lower()))]:
            return fit[-1]
    return ""


def first_blueprint(directory: Path, command: str, metric: str, path: Path) -> BlueprintFields:
    """The fields of a blueprint at `path` that runs this command as it is."""
    direction = usual_direction(metric, None) if metric else None
    return BlueprintFields(
        title=path.stem.replace("_", " ").replace("-", " "),
        purpose=f"The baseline of {directory.name}: `{command}` as it is.",
        launch_command=command,
        codebase_dir="./" + os.path.relpath(directory, base_of(path)).removeprefix("."),
        metric=metric,
        direction=direction.value if direction else "",
    )


def campaign_line(directory: Path, blueprint: str, command: str, metric: str) -> str:
    """The command that starts a campaign on it: over numbers that it could vary, else by an agent."""
    scripts, flags = launch_files(command, directory, {}, directory)
    launch = LaunchSettings(registry.choose("", command), None, command, scripts, flags)
    words = [*([] if metric else ["--metric", "NAME"]), "--proposer", "agent", "--agent", "claude"]
    if space := space_line(launch):
        words[-4:] = ["--set", f"space={space}"]
    return shlex.join(["autoresearch", "campaign", "start", blueprint, "--count", "8", *words])


def _names_printed(path: Path) -> list[str]:
    """The names before the numbers that a Python text prints, in the order of the text: `f"val_bpb:  {x:.6f}"`."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    found: list[tuple[int, int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for before, value in zip(node.values, node.values[1:], strict=False):
                text = _text(before) if isinstance(value, ast.FormattedValue) else ""
                if match := _PRINTED.search(text):
                    found.append((value.lineno, value.col_offset, match["name"]))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            for one, value in zip(node.args, node.args[1:], strict=False):
                text = "" if isinstance(value, ast.Constant) else _text(one)
                if match := _PRINTED.search(text if text.rstrip().endswith((":", "=")) else f"{text}:"):
                    found.append((value.lineno, value.col_offset, match["name"]))
    return [name for _, _, name in sorted(found)]


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
