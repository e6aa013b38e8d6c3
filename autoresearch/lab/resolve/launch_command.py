"""What a launch command means on this machine: its python, the scripts that it starts, its recipe, and its flags."""

from __future__ import annotations

import contextlib
import errno
import os
import os.path
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.shell import (
    Script,
    ShellReading,
    SimpleCommand,
    python_file,
    read_shell,
    text_or_script,
)
from autoresearch.core.shell_settings import value_of
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError
from autoresearch.lab.yaml_files import parse_mapping


def kind_of(path: Path) -> str:
    """directory, file, other, or "" if nothing is there, or nothing can be (a name of 300 characters)."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def read_start(path: Path, most: int) -> bytes:
    """The first bytes of a file. Raises OSError, also for a FIFO or a terminal, which may never answer."""
    if kind_of(path) == "other":
        raise OSError(errno.EPERM, "it is no plain file", os.fspath(path))
    with path.open("rb") as file:  # where it is a directory, its reader knows the system's words
        return file.read(most)


ACTIVE, POETRY = "active environment", "poetry"
_PREFIXES = ("VIRTUAL_ENV", "CONDA_PREFIX")
SHELL = ("PATH", *_PREFIXES, "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_SHLVL")
_WORDS = ("python", "python3")
_ASKED_S = 60.0


def shell_interpreter(codebase: Path, environ: Mapping[str, str], command: str = "") -> tuple[Path | None, str]:
    """The interpreter, and where it is from: the active environment, `.venv` or `venv` in the codebase, or PATH.

    For a command with `poetry run`, the environment that poetry keeps elsewhere for this directory comes before PATH.
    The interpreter that runs us is one among others; (None, "") if there is none.
    """
    path = environ.get("PATH", "").split(os.pathsep)
    if "UV" in environ:  # `uvx` puts the environment that it made for us first on PATH
        path = [one for one in path if one != f"{sys.prefix}/bin"]
    on_path = next(filter(None, (shutil.which(one, path=os.pathsep.join(path)) for one in _WORDS)), "")
    active = [Path(environ[name], "bin/python") for name in _PREFIXES if environ.get(name)]
    active.sort(key=lambda python: str(python) != on_path)  # an environment activated in another: the one on PATH
    for python in active:
        if os.access(python, os.X_OK):
            return python, ACTIVE
    for folder in (".venv", "venv"):
        if os.access(python := codebase / folder / "bin" / "python", os.X_OK):
            return python, folder
    if "poetry run" in command and (kept := _of_poetry(codebase, environ)):
        return kept, POETRY
    return (Path(os.path.abspath(on_path)), "PATH") if on_path else (None, "")  # noqa: PTH100 - keeps symbolic links


def _of_poetry(codebase: Path, environ: Mapping[str, str]) -> Path | None:
    """The python of the environment that poetry has for a directory; it has none for a worktree of it."""
    if (program := shutil.which("poetry", path=environ.get("PATH", ""))) is None:
        return None
    words = [program, "env", "info", "--executable"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(words, cwd=codebase, env=dict(environ), capture_output=True, text=True, timeout=_ASKED_S)
        found = Path(done.stdout.strip())
        return found if done.returncode == 0 and found.is_file() else None
    return None


def shell_of(environ: Mapping[str, str]) -> dict[str, str]:
    """What of an environment says which programs a word means: PATH, and the environment that is active."""
    return {name: environ[name] for name in SHELL if name in environ}


def unsynchronised(codebase: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which `uv run` and `pixi run` take the codebase's environment as it is, where there is one.

    The user's packages stay what they are, and all runs have the same. Where there is none, these programs make one.
    """
    found = {}
    if kind_of(codebase / (environ.get("UV_PROJECT_ENVIRONMENT") or ".venv")):
        found["UV_NO_SYNC"] = "1"
    if kind_of(codebase / ".pixi" / "envs"):
        found |= {"PIXI_FROZEN": "true", "PIXI_NO_INSTALL": "true"}
    return found


_MAKES_NOTHING = frozenset(
    {"", "cd", "pushd", "export", "set", "source", ".", "mkdir", "echo", "ulimit", "module", "conda"}
)
_BYTES = 1 << 18  # a longer file is data; only its beginning is read
VARIED = (".yaml", ".yml", ".json")  # the recipes that are read, and edited; a TOML file is only named
_CONFIG = later(r"(?:--)?(?:config|conf|cfg|recipe)(?:[-_](?:file|path))?")
_HYDRA_NAME, _HYDRA_PATH = later(r"--config[-_]name|-cn"), later(r"--config[-_](?:path|dir)|-cp|-cd")
_YAML = later(r"""["']([\w./-]{1,200}\.ya?ml)["']""")
_GROUP = later(r"(?:\+{1,2}([\w/]+)|(experiment))=([\w./-]+)")  # Hydra's: one that is added may be a whole recipe


def shell_reader(
    codebase: Path, variables: Mapping[str, str], read_file: Callable[[Path, int], bytes] = read_start
) -> Callable[[str], ShellReading]:
    """A function that reads a command which runs in the codebase; each file is read once."""
    open_text = cache(lambda path: read_file(codebase / path, _BYTES).decode("utf-8", "replace"))
    return cache(lambda command: read_shell(command, variables, cwd=str(codebase), open_text=open_text))


def recipe_of(shell_reading: ShellReading, codebase: Path) -> Path | None:
    """The recipe that the trainer's command names, or that its program has.

    It is an existing file behind an option for it (`--config X`, hydra's `--config-name X`, `config=X`), else the only
    one that is an operand of a program (`axolotl train X.yml`), else the only one that its program's text names. None
    if there is no such file: the command may make it, or the option means something else.
    """
    named, operands = dict[Path, None](), dict[Path, None]()
    for one in (one for one in reversed(shell_reading.commands) if one.may_train):
        named |= dict.fromkeys(_existing(one, codebase, _named(one))) if not named else {}
        operands |= dict.fromkeys([*_existing(one, codebase, _operands(one))][:1])
    told = dict.fromkeys(path for one in shell_reading.programs for path in _in_text(one, codebase) if path.is_file())
    return next((next(iter(found)) for found in ([*named][:1], operands, told) if len(found) == 1), None)


def _existing(simple: SimpleCommand, codebase: Path, paths: Iterable[str]) -> Iterator[Path]:
    """Those of a command's files that are there, and may be recipes."""
    for path in (Path(os.path.normpath(codebase / (simple.cwd or "") / one)) for one in paths if "$" not in one):
        if path.suffix in (*VARIED, ".toml") and kind_of(path) == "file":
            yield path


def _named(simple: SimpleCommand) -> Iterator[str]:
    """The files that options of the program name."""
    own, program = _own_words(simple), python_file(simple.argv)
    yield from _options(own, _CONFIG)
    folder = Path(program).parent
    groups = [f"{match[1] or match[2]}/{match[3]}" for match in map(_GROUP.fullmatch, own) if match]
    for name in [*groups, *_options(own, _HYDRA_NAME)]:
        name = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
        for path in _options(own, _HYDRA_PATH) or ["config", "configs", "conf", "../configs", "."]:
            yield from (str(folder / path / name), str(Path(path) / name))


def _in_text(program: Script, codebase: Path) -> Iterator[Path]:
    """The YAML files that the text of a program names."""
    folder = (codebase / program.path).parent
    for name in _YAML.findall(program.text):
        yield from (codebase / (program.cwd or "") / name, folder / name, folder / "configs" / name)


def _operands(simple: SimpleCommand) -> list[str]:
    """The words of the program that are neither an option nor the value of one; JSON only if it is the only word."""
    own = _own_words(simple)
    found = [word for before, word in pairwise(["", *own]) if before[:1] != "-" or "=" in before or before == "--"]
    words = [word.removeprefix("@") for word in found if word[:1] != "-" and "=" not in word]
    return words if len(own) == 1 else [word for word in words if not word.endswith(".json")]


def _own_words(simple: SimpleCommand) -> list[str]:
    """What stands behind the program: behind the script, where a launcher such as `accelerate launch` starts one."""
    argv, program = simple.argv, python_file(simple.argv)
    if program in argv:
        return argv[argv.index(program) + 1 :]
    starts = (n for n in range(len(argv)) if argv[n - 1 : n] in (["-m"], ["--module"]))
    return argv[next(starts, 0) + 1 :] if program else argv[1:]


def _options(words: Sequence[str], names: re.Pattern[str]) -> list[str]:
    joined = [
        value for option, _, value in (word.partition("=") for word in words) if value and names.fullmatch(option)
    ]
    return joined or [value for option, value in pairwise(words) if names.fullmatch(option)]


def missing_script(shell_reading: ShellReading, codebase: Path) -> str:
    """The script or program that a command starts first and that is not there; "" for none, or if it may be made."""
    for one in (one for one in shell_reading.commands if one.own):
        file = python_file(one.argv) if one.name.startswith("python") else ""
        at, is_text = text_or_script(one.argv)
        file = one.argv[at] if at and not is_text else file
        if file in one.argv and one.cwd is not None and not one.elsewhere and not set(file) & set("$`*?[<"):
            return "" if kind_of(codebase / one.cwd / file) else file
        if one.name not in _MAKES_NOTHING:
            break
    return ""


def scripts_below(root: Path, shell_reading: ShellReading, codebase: Path) -> dict[str, str]:
    """The shell scripts below `root` that a command starts: path from `root` -> text."""
    read = [one for one in shell_reading.scripts if not one.python]
    paths = {os.path.relpath(os.path.normpath(codebase / one.path), root): one.text for one in read}
    return {path: text for path, text in paths.items() if not path.startswith("..")}


def flags_of_program(
    shell_reading: ShellReading, codebase: Path, interpreter: Path, environ: Mapping[str, str]
) -> dict[str, object]:
    """The flags that the `--help` of a command's program names, as `LaunchSettings` takes them: `--lr` -> default.

    {} if it may not be asked. environ: the program's.
    """
    for program in shell_reading.programs:
        if parser := parser_of(program.text):
            named = any(program.name in one.words for one in shell_reading.commands)
            words = [program.name] if named else ["-m", program.name.removesuffix(".py").replace("/", ".")]
            starts = [one for one in shell_reading.commands if python_file(one.argv) == program.name]
            own = _own_words(starts[0]) if len(starts) == 1 else []  # of hydra: `experiment=example`, no options
            own = [word for word in own if "=" in word and word[0] != "-" and not set(word) & set("$`")]
            cwd, dashes = codebase / (program.cwd or ""), "" if parser == "hydra" else "--"
            found = ask_help(words, interpreter, cwd, environ, None if dashes else own)
            return {f"{dashes}{key}": value for key, value in found.items()}
    return {}


HELP_S = 60.0  # imports of torch and transformers take half of it on a cold disk
_BYTES = 1 << 20
_PARSERS = later(
    r"(?m)^[ \t]*(?:from|import)[ \t]+(?:[\w, \t]*,[ \t]*)?"
    r"((?:config)?argparse|click|typer|tyro|hydra|simple_parsing|jsonargparse|pyrallis|draccus|absl|fire)\b"
    r"|\b(HfArgumentParser|TrlParser)\b|\b(tf\.(?:app\.)?flags)\b"
)
_HELP_FLAG = later(
    r"(?m)^[ \t│|]{1,12}(?:[*][ \t]+)?(?:-\w(?:[ \t]+[A-Z_<>\[\]]+)?,?[ \t]+)?--(?P<key>[A-Za-z][\w.-]*)"
)
_HELP_DEFAULT = later(r"[\[(][Dd]efault(?:s to)?[:=]?\s*(?P<value>[^\])]{1,60})[\])]")
_FIRST_KEY = later(r"(?m)^\w[\w-]*:(?: |$)")


def parser_of(source: str) -> str:
    """The library that reads the program's command line; "" if none that we know does."""
    match = _PARSERS.search(source)
    return next(filter(None, match.groups())) if match else ""


def ask_help(
    program: Sequence[str],
    interpreter: Path,
    cwd: Path,
    environ: Mapping[str, str],
    overrides: Sequence[str] | None = None,
) -> dict[str, object]:
    """The flags that a program's `--help` names; {} if it does not answer in time.

    program: the words that start it behind the interpreter, `train.py` or `-m package.module`; it must be one of
    `parser_of`. overrides: of a program of hydra, which is asked by `--cfg job` for the keys of the configuration that
    they make. It sees no GPU.
    """
    words = [str(interpreter), *program, *(["--help"] if overrides is None else [*overrides, "--cfg", "job"])]
    quiet = {**environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    quiet |= {"PYTHONDONTWRITEBYTECODE": "1", "WANDB_MODE": "disabled"}  # it shall leave nothing behind
    try:
        with subprocess.Popen(
            words,
            cwd=cwd,
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                out, _ = process.communicate(timeout=HELP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # it began a session: the group is its own
                return {}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    text = out[:_BYTES].decode("utf-8", "replace")
    return flags_of_help(text) if overrides is None else _leaves(text)


def flags_of_help(text: str) -> dict[str, object]:
    """The flags in a help text, with the defaults that it names."""
    at = list(_HELP_FLAG.finditer(text))
    ends = [*(match.start() for match in at), len(text)][1:]
    found: dict[str, object] = {}
    for match, end in zip(at, ends, strict=True):
        default = _HELP_DEFAULT.search(text, match.end(), end)
        found[match["key"]] = value_of(" ".join(default["value"].replace("│", " ").split())) if default else None
    found.pop("help", None)
    return found


def _leaves(text: str) -> dict[str, object]:
    """The dotted keys of a configuration; what its program prints before, as it is imported, is left out."""
    first = _FIRST_KEY.search(text)
    try:
        return flatten(parse_mapping(text[first.start() if first else 0 :].encode(), "--cfg job"))
    except (AutoresearchError, RecursionError):
        return {}
