"""The first blueprint of a project, from the training script that it has: for `init`, and for who runs a script.

The script's text is parsed, not run: each call that prints is filled with numbers, and the line goes to the reader of
logs, which says under which name a run would have it.
"""

from __future__ import annotations

import ast
import json
import os.path
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from autoresearch.core.blueprint.fields import BlueprintFields
from autoresearch.core.blueprint.notes import source_of
from autoresearch.core.metrics.objective import usual_direction
from autoresearch.core.text.regex import later
from autoresearch.lab.recipes.program_flags import programs
from autoresearch.lab.resolve.resolve_blueprint import base_of
from autoresearch.lab.resolve.scripts import LaunchTexts
from autoresearch.runner.metric_lines import body, parse, step_rank

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
    scripts = LaunchTexts(command, directory, {}).scripts(directory)
    paths = [directory / one.path for text in (command, *scripts.values()) for one in programs(text)]
    return [path for path in paths if path.is_file()]


def printed_metric(command: str, directory: Path) -> str:
    """The number that the command's program prints and that is worth optimising; "" where several are as likely."""
    found = metric_candidates(command, directory)
    return found[0] if len(found) == 1 else ""


def metric_candidates(command: str, directory: Path) -> list[str]:
    """The names of numbers that the command's program prints, and of which any may be the objective."""
    paths = program_paths(command, directory)
    found = candidates(_names(paths))
    if found in ([], ["eval_loss"]) and any(_ROLLS_OUT.search(_text(path)) for path in paths):
        return [_TRL_METRIC]  # a policy's loss does not say how good it is
    return found


def _names(paths: Sequence[Path]) -> dict[str, str]:
    return {name: tracker for path in paths for name, tracker in printed_names(path).items()}


def _recipe_named(paths: Sequence[Path], directory: Path) -> str:
    """The one YAML file of the project that its program names in its text, or that hydra reads; "" if none."""
    named: dict[str, None] = {}
    for path in paths:
        hydra = {match[1]: match[2] for match in _HYDRA.finditer(_text(path))}
        if "config_name" in hydra:
            name = hydra["config_name"].removesuffix(".yaml")
            named[os.path.relpath(path.parent / hydra.get("config_path", ".") / f"{name}.yaml", directory)] = None
        named.update(dict.fromkeys(match[1] for match in _YAML.finditer(_text(path))))
    found = [name for name in named if not name.startswith(("/", "..")) and (directory / name).is_file()]
    return found[0] if len(found) == 1 else ""


def first_blueprint(directory: Path, command: str, metric: str, purpose: str, path: Path) -> BlueprintFields:
    """The fields of a blueprint at `path` that runs this command as it is."""
    direction = usual_direction(metric, None) if metric else None
    paths = program_paths(command, directory)
    tracker = _names(paths).get(metric)
    # a script of one's own around TRL's trainers, which its command does not show
    trl = any(_TRL.search(text) and "Trainer(" in text for text in map(_text, paths))
    return BlueprintFields(
        title=path.stem.replace("_", " ").replace("-", " "),
        purpose=purpose or f"The baseline of {directory.name}: `{command}` as it is.",
        launch_command=command,
        codebase_dir="./" + os.path.relpath(directory, base_of(path)).removeprefix("."),
        trainer="trl" if trl else "",
        yaml_path=_recipe_named(paths, directory),
        metric=metric,
        direction=direction.value if direction else "",
        source=(source_of(TRACKERS[tracker]),) if tracker else (),
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PRINTS = _set_of("print info warning error log write echo rprint tqdm_write log_metrics")
TRACKERS = {"wandb": "wandb wandb/", "swanlab": "swanlab swanlog/"}
"""Trackers whose files a run reads, as `- source:` names them."""
_HELD_OUT = _set_of("val valid validation eval test")
_MEASURES = (
    _set_of("reward rewards return returns score scores acc accuracy success pass win fitness f1 auc bleu"),
    _set_of("loss bpb ppl perplexity error mse mae rmse nll"),
)
"""Words of a name that make it worth optimising, the best first; held-out ones come before these."""
_NEVER = _set_of("std stdev stddev var variance min max count counts num time runtime elapsed seconds")
_NO_MEASURE = _set_of("total number step steps epoch size samples per second sec") | _HELD_OUT
_DEBUG = later(r"\[?DEBUG\b")
_PERCENT = later(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?([diouxXeEfFgGs])")
_BRACES = later(r"\{[^{}:]*(?::([^{}]*))?\}")
_NUMBER, _COUNT = "0.1234", "7"


def printed_names(path: Path) -> dict[str, str]:
    """The metrics that the Python file prints, in the order of its text, each with the tracker that alone is told it.

    "" for one on the console; {} for a file that nobody can read.
    """
    try:
        tree = ast.parse(_text(path))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in _PRINTS]
    names: dict[str, str] = {}
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        for text in _lines(call):
            pairs = None if _DEBUG.match(text) else parse(body(text))
            for name in (name for name in (pairs.metrics if pairs else ()) if step_rank(name) is None):
                before = names.pop(name, None)  # the last that is printed comes last
                names[name] = _tracker(call) if before is None else before and _tracker(call)
    return names


def candidates(names: Mapping[str, str]) -> list[str]:
    """The names that are most worth optimising, of which one is as likely as the other; [] without one.

    Of several that are better in the same direction, the last. The console's names come before a tracker's.
    """
    return _best([name for name in names if not names[name]]) or _best(list(names))


def _best(names: Sequence[str]) -> list[str]:
    words = {name: set(re.split(r"[^a-z0-9]+", name.lower())) - {""} for name in names}
    fair = [name for name in names if not words[name] & _NEVER]
    held_out = [name for name in fair if words[name] & _HELD_OUT and words[name] - _NO_MEASURE]
    for fit in (held_out, *([name for name in fair if words[name] & measures] for measures in _MEASURES)):
        if fit:
            return sorted({usual_direction(f'"{name}"', None): name for name in fit}.values(), key=fit.index)
    return []


def _tracker(call: ast.Call) -> str:
    """The tracker that this call tells, of those whose files a run reads; "" for the console."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            words = set(name.lower().split("_"))
            return next((tracker for tracker in TRACKERS if tracker in words), "wandb" if words == {"run"} else "")
    return ""


def _lines(call: ast.Call) -> Iterator[str]:
    """The lines that a call prints, with numbers for its values."""
    arguments = list(call.args)
    first = arguments[0] if arguments else None
    text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
    if _name(call.func) == "log_metrics" and text:  # transformers: `eval` names the split
        yield f"{text}_loss {_NUMBER}"
    elif _PERCENT.search(text):
        yield from _with_numbers(text).splitlines()  # logging takes the values as arguments
    else:
        yield from " ".join(_shown(one) for one in arguments if not isinstance(one, ast.Starred)).splitlines()


def _shown(node: ast.expr) -> str:
    """How a value looks when it is printed."""
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return "".join(map(_shown, node.values))
        case ast.FormattedValue():
            spec = _shown(node.format_spec) if node.format_spec else ""
            return _COUNT if spec.endswith("d") else _shown(node.value)
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod()):
            return _with_numbers(text)
        case ast.BinOp(op=ast.Add()) if _is_text(node.left) or _is_text(node.right):
            return _shown(node.left) + _shown(node.right)
        case ast.BinOp(op=ast.Add(), left=left):
            return _shown(left)  # `epoch + 1`
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format")):
            return _BRACES.sub(lambda spec: _COUNT if (spec[1] or "").endswith("d") else _NUMBER, text)
        case ast.Call(func=function, args=[ast.Dict() as first, *_]) if _name(function) == "dumps":
            return json.dumps(_pairs(first))
        case ast.Call(func=function, args=[first, *_]) if _name(function) in ("str", "repr", "round", "float"):
            return _shown(first)
        case ast.Dict():
            return str(_pairs(node))
        case ast.Name(id=name) | ast.Attribute(attr=name) if step_rank(name) is not None:
            return _COUNT
    return _NUMBER


def _pairs(node: ast.Dict) -> dict[str, float | int]:
    shown = {key.value: _shown(value) for key, value in zip(node.keys, node.values, strict=True)
             if isinstance(key, ast.Constant) and isinstance(key.value, str)}  # fmt: skip
    return {key: int(text) if text == _COUNT else float(text) for key, text in shown.items()
            if text in (_NUMBER, _COUNT)}  # fmt: skip


def _with_numbers(text: str) -> str:
    return _PERCENT.sub(lambda spec: _COUNT if spec[1] in "diouxX" else _NUMBER, text)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
