"""Which program of a project trains: by the names and texts of its files, and by what its README types."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from autoresearch.core.shell.programs import python_file
from autoresearch.core.text.python_text import syntax_tree
from autoresearch.core.text.regex import later
from autoresearch.records.hostile import read_readable

SCRIPTS = ("train.py", "main.py", "train.sh", "run.sh", "src/train.py", "scripts/train.py", "scripts/train.sh")
_TRAINS = frozenset({"train", "training", "main", "finetune", "pretrain"})
_NO_TRAINING = frozenset({
    *("setup", "conftest", "noxfile", "init", "plot", "plots", "eval", "evaluate", "test", "tests", "infer"),
    *("inference", "predict", "demo", "download", "convert", "export", "visualize", "sample", "generate", "preprocess"),
    *("prepare", "dataset", "datasets", "utils", "util", "hubconf", "submitit", "slurm", "evaluation"),
    *("install", "build", "config", "configs", "args", "arguments", "options", "template", "play", "enjoy"),
    *("validate", "serve", "interactive", "quantize", "inf"),
})  # fmt: skip
"""Words of a file's name that say what it does, or that it does something else."""
_SETS_UP = frozenset({"os", "sys", "warnings", "logging", "logger", "torch", "np", "numpy", "random", "tf", "mp"})
_PYTHON, _GIVEN = later(r"(?m)^[^#\n]*\b(?:python3?|torchrun|accelerate|deepspeed)\b.*\.py\b"), later(r"\$\{?[@*]")
_FILE = later(r"[^\s\"']+\.py\b")
_DEFINES = later(r"(?m)^(?:def|class) ")
_LEARNS = later(r"(?i)loss|reward|accuracy|epoch|optimi[sz]|backward|learn|\b(?:fit|train\w*)\(")
_TYPED = later(r"(?:[A-Z_]\w*=\S+ +)*(?:python3?|torchrun|accelerate|deepspeed|mpiexec|mpirun|horovodrun|bash|sh|uv)\s")
_PROMPT = later(r"^(?:[ \t]|[*$>%`-]|\d+\. |\(\w+\) ?\$)+")
_MOVES = later(r"cd (?:\./)?([\w.-]+)/?(?: *&& *(.+))?")
_USAGE = later(r".*(?: \[|\.\.\.)")  # what may be typed
_FILLED_IN = later(r"(?i)[<>{}$|;]|(?<!&)&(?!&)|path|your|xxx")
_NOT_TRAINED = later(
    r"--?(?:eval|evaluate|test|eval[-_]only|test[-_]only|inference|help|download[-_]\w+)(?![\w-])(?! +[Ff]alse)"
)
_OPTION = later(r" --[\w-]+")
_ENTRY = later(r"""(?<![\w.-])([A-Za-z][\w.-]*)["']?\s*=\s*["']?([\w.]+):\w+""")
_MODULE = later(r" (?:-m|--module) ")
MOST_NAMED = 4  # in a sentence
_README_BYTES = 1 << 18


def training_command(directory: Path) -> str:
    """How the training of a project is started; "" if no file is its program, or any of several may be.

    It is a script of a usual name, of two such the one that imports the other; else the only Python file, or the only
    one that its name says to train, unless the README trains with others; else the only one of a usual name below. With
    the words that the README has behind it, if they can be typed as they are.
    """
    usual = [name for name in SCRIPTS if _starts(directory / name)]
    importing = [one for one in usual if any(_imports(directory / one, Path(other)) for other in usual if other != one)]
    found = [*importing[:1], *usual][:1] or _by_name(directory)
    inside, _, name = found[0].rpartition("/") if len(found) == 1 else ("", "", "")
    if not name or (inside and name not in ("train.py", "main.py")):
        return ""
    there = rf"|cd {re.escape(inside)} && python3?(?: -u)? {re.escape(name)}" if inside else ""
    module = re.escape(found[0].removesuffix(".py").replace("/", "."))
    same = re.compile(rf"(?:[A-Z_]\w*=\S+ )*(?:python3?(?: -u)? (?:{re.escape(found[0])}|-m {module}){there})(?: .*)?")
    typed = whole_commands(directory)
    alone = not typed or found[0] in SCRIPTS  # else the README trains with others
    return next(filter(same.fullmatch, typed), _started(directory, found[0]) if alone else "")


def _installed(directory: Path) -> dict[str, str]:
    """Name of a program -> the file behind it, by `[project.scripts]` of the project's package."""
    texts = (_text(directory / file) for file in ("setup.py", "setup.cfg", "pyproject.toml"))
    return {name: f"{module.replace('.', '/')}.py" for text in texts for name, module in _ENTRY.findall(text)}


def whole_commands(directory: Path) -> list[str]:
    """The typed commands that can be run as they are: nothing is to be filled in, and their recipes are there."""
    found = [command for command, _ in typed_commands(directory) if not _FILLED_IN.search(command)]
    return [one for one in found if not any(_is_lost(directory, word) for word in one.split())]


def _is_lost(directory: Path, word: str) -> bool:
    places = (directory / one / word for one in (".", *_folders(directory)))
    return word.endswith((".yaml", ".yml")) and not any(place.exists() for place in places)


def likely_commands(directory: Path) -> list[str]:
    """Those of which any may train, where `training_command` names none."""
    return [_started(directory, name) for name in _by_name(directory)]


def _by_name(directory: Path) -> list[str]:
    """The scripts that may train, of those at the top the ones that say so in their names, if any does."""
    scripts = (path for path in sorted(directory.glob("*.py")) if not _words(path) & _NO_TRAINING)
    starts = [path for path in scripts if _starts(path)]
    named = [path.name for path in starts if _words(path) & _TRAINS]
    fair = [path.name for path in starts if _learns(path, directory)]
    below = [
        str(path.relative_to(directory))
        for path in sorted(directory.glob("*/*.py"))
        if _words(path) & _TRAINS and not (_words(path) | _words(path.parent)) & _NO_TRAINING and _starts(path)
    ]
    return named or fair or below


def _words(path: Path) -> frozenset[str]:
    return _words_of(path.stem)


def _words_of(text: str) -> frozenset[str]:
    return frozenset(re.split(r"[^a-z]+", text.lower()))


def _started(directory: Path, script: str) -> str:
    if script.endswith(".sh"):
        return f"bash {script}"
    return f"{'uv run' if (directory / 'uv.lock').exists() and shutil.which('uv') else 'python'} {script}"


def _starts(script: Path) -> bool:
    """Whether a file is a script, no module that only defines what others call, and none that is told what to run."""
    if not script.is_file():  # a directory of that name, a link that leads nowhere
        return False
    text = _text(script)
    if script.suffix == ".sh":
        return _PYTHON.search(text) is not None or not _GIVEN.search(text)
    if _DEFINES.search(text) or (tree := syntax_tree(text)) is None:
        return _acts(text)
    return not text or any(isinstance(node, ast.Call) for node in ast.walk(tree))  # not `__version__ = "1.0"`


def _learns(script: Path, project: Path) -> bool:
    """Whether a script speaks of what training is about, or leaves it to another file, or a module of the project."""
    own = (path for place in {script.parent, project} for path in place.iterdir() if path.suffix in ("", ".py"))
    speaks = script.suffix != ".py" or _words(script) & _TRAINS or _LEARNS.search(_text(script))
    return bool(speaks) or any(_imports(script, one) for one in own)


def _acts(text: str) -> bool:
    """Whether a Python text does something when it is run, beside imports, definitions and settings of libraries."""
    tree = syntax_tree(text)
    if tree is None:
        return True
    for node in tree.body:
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
    """The text of a file; "" for one that cannot be read."""
    try:
        return read_readable(path).decode("utf-8", "replace")
    except OSError:
        return ""


def typed_commands(directory: Path) -> list[tuple[str, str]]:
    """The commands that train with a file of the project, in its README and as scripts, and where each of them is.

    Those that say so come first.
    """
    return sorted(_typed_commands(directory), key=lambda one: not _words_of(_OPTION.sub("", one[0])) & _TRAINS)


def _typed_commands(directory: Path) -> Iterator[tuple[str, str]]:
    for readme in sorted(directory.glob("[Rr][Ee][Aa][Dd][Mm][Ee]*"))[:1]:
        lines, below, typed_there = _text(readme)[:_README_BYTES].split("\n"), "", False
        installed = _installed(directory)
        for n, line in enumerate(lines):
            words, last = _PROMPT.sub("", line), n
            below = "" if line.startswith("```") or typed_there else below
            typed_there = False
            if moved := _MOVES.fullmatch(words):
                below = moved[1] if (directory / moved[1]).is_dir() else ""
                words, typed_there = moved[2] or "", bool(moved[2])  # `cd there && python train.py` moves nothing else
            if not (_TYPED.match(words) or words.partition(" ")[0] in installed):
                continue
            while words.endswith("\\") and last + 1 < len(lines):
                last += 1
                words = f"{words[:-1].strip()} {lines[last].strip()}"
            words = words.rstrip("`") if words.count("`") % 2 else words  # a pair of them is the shell's
            words = " ".join(words.split("#")[0].split())
            if _USAGE.match(words):
                continue
            for folder in [below] if below else ["", *_folders(directory)]:
                if _trains(words, directory / folder, installed):
                    found = folder == "src" != below and (_MODULE.search(words) or not _TYPED.match(words))  # installed
                    yield f"cd {folder} && {words}" if folder and not found else words, f"{readme.name}:{n + 1}"
                    break
    for script in sorted(directory.glob("*.sh")):
        programs = [directory / name for line in _PYTHON.findall(_text(script)) for name in _FILE.findall(line)]
        trains = any(_words(one) & _TRAINS or (one.is_file() and _learns(one, directory)) for one in programs)
        if trains and not _words(script) & _NO_TRAINING:
            yield f"bash {script.name}", "the project"


def _does_else(script: Path, flag: str, value: str) -> bool:
    """Whether a flag could say `train`, and says something else: `--mode sample`."""
    choices = rf"[\"']{re.escape(flag)}[\"'][^)]*choices=[\[(][^\])]*[\"']train[\"']"
    return flag[:2] == "--" and value != "train" and bool(re.search(choices, _text(script)))


def _folders(directory: Path) -> list[str]:
    return [path.name for path in sorted(directory.iterdir()) if path.is_dir() and path.name[0] != "."]


def what_may_train(directory: Path) -> str:
    """In a sentence, which commands may train a project of which none is known to."""
    likely, typed = likely_commands(directory), typed_commands(directory)
    names = [f"`{one}`" for one in likely[:MOST_NAMED]] + (["another one"] if len(likely) > MOST_NAMED else [])
    shown = "which program trains is not clear"
    shown += f", it may be {' or '.join(names)}" if names else ""
    shown += f"; {typed[0][1]} has `{typed[0][0]}`" if typed else ""
    if not (names or typed):
        shown = "no program that trains was found"
    return f"{shown}: name it by --command"


def _trains(command: str, directory: Path, installed: Mapping[str, str]) -> bool:
    try:
        argv = [word for word in shlex.split(command) if not re.match(r"[A-Z_]\w*=", word)]
    except ValueError:
        return False
    started = installed.get(argv[0], python_file(argv))
    named = (word for word in argv if word.endswith((".py", ".sh")) and (directory / word).is_file())
    script = started if (directory / started).is_file() else next(named, started)  # not `--config configs/small.py`
    if any(_does_else(directory / script, *one) for one in pairwise(" ".join(argv).replace("=", " ").split())):
        return False
    there = (directory / script).is_file() and not any(_words(Path(part)) & _NO_TRAINING for part in Path(script).parts)
    return there and _learns(directory / script, directory) and not _NOT_TRAINED.search(command)
