"""Which program of a project trains: by the names and texts of its files, and by what its README types."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.shell.programs import python_file
from autoresearch.core.text.regex import later

SCRIPTS = ("train.py", "main.py", "train.sh", "run.sh", "src/train.py", "scripts/train.py", "scripts/train.sh")
_TRAINS = frozenset({"train", "training", "main"})
_NO_TRAINING = frozenset({
    *("setup", "conftest", "noxfile", "init", "plot", "plots", "eval", "evaluate", "test", "tests", "infer"),
    *("inference", "predict", "demo", "download", "convert", "export", "visualize", "sample", "generate", "preprocess"),
    *("prepare", "dataset", "datasets", "utils", "util", "hubconf", "submitit", "slurm"),
})  # fmt: skip
"""Words of a file's name that say what it does, or that it does something else."""
_SETS_UP = frozenset({"os", "sys", "warnings", "logging", "logger", "torch", "np", "numpy", "random", "tf", "mp"})
_DEFINES = later(r"(?m)^(?:def|class) ")
_TYPED = later(r"(?:[A-Z_]\w*=\S+ +)*(?:python3?|torchrun|accelerate|deepspeed|bash|sh|uv|\./\S+\.sh)\s")
_NOT_TRAINED = later(r"--?(?:eval|evaluate|test|eval_only|test_only|inference|help)\b(?! +[Ff]alse)")
MOST_NAMED = 4  # in a sentence
_README_BYTES = 1 << 18


def training_command(directory: Path) -> str:
    """How the training of a project is started; "" if no file is its program, or any of several may be.

    It is a script of a usual name, of two such the one that imports the other; else the only Python file, or the only
    one that its name says to train; else the only one of a usual name one directory below.
    """
    usual = [name for name in SCRIPTS if (directory / name).is_file() and _starts(directory / name)]
    importing = [one for one in usual if any(_imports(directory / one, Path(other)) for other in usual if other != one)]
    found = [*importing[:1], *usual][:1] or _by_name(directory)
    return _started(directory, found[0]) if len(found) == 1 else ""


def likely_commands(directory: Path) -> list[str]:
    """Those of which any may train, where `training_command` names none."""
    return [_started(directory, name) for name in _by_name(directory)]


def _by_name(directory: Path) -> list[str]:
    fair = [path.name for path in sorted(directory.glob("*.py")) if not _words(path) & _NO_TRAINING]
    if len(fair) > 1:
        fair = [name for name in fair if _starts(directory / name)]
    named = [name for name in fair if _words(Path(name)) & _TRAINS]
    below = [
        str(path.relative_to(directory))
        for name in ("train.py", "main.py")
        for path in sorted(directory.glob(f"*/{name}"))
        if not _words(path.parent) & (_NO_TRAINING | {"examples"}) and _starts(path)
    ]
    return named or fair or below


def _words(path: Path) -> frozenset[str]:
    return frozenset(re.split(r"[^a-z]+", path.stem.lower()))


def _started(directory: Path, script: str) -> str:
    if script.endswith(".sh"):
        return f"bash {script}"
    return f"{'uv run' if (directory / 'uv.lock').exists() and shutil.which('uv') else 'python'} {script}"


def _starts(script: Path) -> bool:
    """Whether a file is a script, and no module that only defines what others call."""
    text = _text(script)
    return not _DEFINES.search(text) or script.suffix == ".sh" or _acts(text)


def _acts(text: str) -> bool:
    """Whether a Python text does something when it is run, beside imports, definitions and settings of libraries."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return True
    for node in body:
        if isinstance(node, ast.If | ast.For | ast.While | ast.With):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            root = node.value.func
            while isinstance(root, ast.Attribute):
                root = root.value
            if getattr(root, "id", "") not in _SETS_UP:
                return True
    return False


def _imports(script: Path, other: Path) -> bool:
    return bool(re.search(rf"(?m)^\s*(?:from|import)\s+\.?(?:\w+\.)*{re.escape(other.stem)}\b", _text(script)))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def readme_commands(directory: Path) -> Iterator[tuple[str, str]]:
    """The commands in its README that train with a file of the project, and where each of them stands."""
    for readme in sorted(directory.glob("[Rr][Ee][Aa][Dd][Mm][Ee]*"))[:1]:
        lines = _text(readme)[:_README_BYTES].split("\n")
        for n, line in enumerate(lines):
            words = line.strip().lstrip("$> `")
            if not _TYPED.match(words):
                continue
            while words.endswith("\\") and n + 1 < len(lines):
                n += 1
                words = f"{words[:-1].strip()} {lines[n].strip()}"
            words = " ".join(words.rstrip("`").split("#")[0].split())
            if _trains(words, directory):
                yield words, f"{readme.name}:{lines.index(line) + 1}"


def what_may_train(directory: Path) -> str:
    """In a sentence, which commands may train a project of which none is known to."""
    likely, typed = likely_commands(directory), [*readme_commands(directory)]
    names = [f"`{one}`" for one in likely[:MOST_NAMED]] + (["another one"] if len(likely) > MOST_NAMED else [])
    readme = f"; {typed[0][1]} has `{typed[0][0]}`" if typed else ""
    if names:
        return f"which program trains is not clear, it may be {' or '.join(names)}{readme}: name it with --command"
    return f"no program that trains was found{readme}: name it with --command 'python YOUR_SCRIPT.py'"


def _trains(command: str, directory: Path) -> bool:
    try:
        argv = [word for word in shlex.split(command) if not re.match(r"[A-Z_]\w*=", word)]
    except ValueError:
        return False
    named = (word for word in argv if word.endswith((".py", ".sh")) and (directory / word).is_file())
    script = next(named, python_file(argv))
    there = (directory / script).is_file() and not _words(Path(script)) & _NO_TRAINING
    return there and not _NOT_TRAINED.search(command)
