"""What programs do with the words behind them: start another program, run a text, say nothing of the training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from autoresearch.core.shell.words import ASSIGNMENT
from autoresearch.core.text.regex import later

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
BESIDE = frozenset([
    *("cd", "pushd", "popd", "export", "set", "unset", "shopt", "source", ".", "echo", "printf", "mkdir", "rm", "cp"),
    *("mv", "ls", "cat", "tee", "sleep", "wait", "trap", "ulimit", "pip", "git", "module", "conda", "true", "false"),
    *("test", "[", "[[", "((", "kill", "pkill", "killall", "curl", "wget", "nvidia-smi", "grep", "tail", "head"),
    *("sed", "awk", "jq", "find", "chmod", "ln", "touch", "read", "declare", "local", "readonly", "return", "shift"),
    *("rsync", "scp", "tar", "unzip", "hostname", "date", ":", "wc", "apt", "apt-get", "pip3", "tmux", "screen"),
    *("scancel", "scontrol", "squeue", "sync", "which", "type", "alias", "typeset", "case", "select", "exit", "break"),
])  # fmt: skip
"""Commands that appear before and after a trainer and take none of its settings."""

_RUNNERS = frozenset({"uv", "poetry", "conda", "mamba", "micromamba", "pdm", "pixi", "pipenv", "rye", "hatch"})
AWAY = frozenset({"ssh", "docker", "podman", "singularity", "apptainer", "kubectl"})  # with files of their own
ELSEWHERE = frozenset({"sbatch", "srun", "ssh", "kubectl"})
_OF_MACHINES = AWAY | {"srun", "mpirun", "mpiexec"}  # with words of their own before the command
_WRAPPERS = _OF_MACHINES | {"sudo", "env", "xargs", "nice", "exec", "time", "timeout", "taskset", "numactl", "stdbuf",
                            "nohup", "command", "setsid", "eval"}  # fmt: skip
_STARTED = later(
    r"(?:bash|sh|zsh|python[\d.]*|uv|env|nohup|sudo|timeout|torchrun|accelerate|deepspeed|ray|exec|p?kill|killall|trl)\Z"
    r"|\S+\.(?:sh|bash|py)\Z|.*\s"
)
_LAUNCHERS = frozenset({"torchrun", "deepspeed", "accelerate", "ray"})
_LAUNCHES = frozenset({"torch.distributed.launch", "torch.distributed.run", "accelerate.commands.launch"})
_MODULE, _NUMBER = later(r"[\w.]+"), later(r"\d[\w.,-]*")
_VALUED = later(
    r"-[a-zA-Z]|--(?:chdir|directory|cwd|project|name|prefix|environment|extra|group|with|package|python|user|env-file)"
)
_CHDIR = frozenset({"-C", "-D", "--chdir", "--directory", "--cwd"})
_PYTHON_OPTION = later(r"(?s)-(?:[a-zA-Z]*?([cmXW])|-check-hash-based-pycs\Z)(.*)")  # with a value, joined or not


def base(word: str) -> str:
    """A program's name without directories."""
    return word.rsplit("/", 1)[-1]


def may_train(argv: Sequence[str]) -> bool:
    """Whether a command could be the trainer's."""
    name = base(argv[0]) if argv else ""
    return list(argv[1:3]) == ["job", "submit"] if name == "ray" else bool(name) and name not in BESIDE


def first_operand(argv: Sequence[str]) -> int:
    """The index of the first word behind a program or shell that is no option; where none is, its end."""
    n = 1
    while n < len(argv) and argv[n][:1] in ("-", "+") and len(argv[n]) > 1:
        n += 2 if re.match(r"[-+]\w*[oO]\Z", argv[n]) else 1  # `-euo pipefail`
    return min(n, len(argv))


def _started_by(argv: Sequence[str]) -> int:
    """The index of the program that a wrapper such as `sudo -u me nice` starts; the end where none is.

    A word behind `-n` or `--extra` is taken for its value, unless it is a program that is known. Of `docker run` and
    the like, only such a program is found, or what stands behind `--`.
    """
    passed, named = 0, base(argv[0]) in _OF_MACHINES
    for n, (before, word) in enumerate(pairwise(argv), 1):
        if _STARTED.match(base(word)) or (named and before == "--"):
            return n
        if named or word[:1] == "-" or _NUMBER.fullmatch(word):
            continue
        if not _VALUED.fullmatch(before):
            return n
        passed = passed or n
    return passed or len(argv)


def unwrapped(words: Sequence[str]) -> tuple[list[str], dict[str, str], str, list[str]]:
    """The words from the program on, without sudo, `env A=b`, `uv run`; the assignments, directory, and wrappers."""
    left, assigned, folder, through = list(words), dict[str, str](), "", list[str]()
    while left:
        head, begin = base(left[0]), 0
        if match := ASSIGNMENT.fullmatch(left[0]):
            assigned[match[1]] = match[4]
            del left[0]
            continue
        if head in _RUNNERS and "run" in left[1:]:
            begin = left.index("run")
        at = begin + _started_by(left[begin:])
        if not (begin or head in _WRAPPERS) or any(word[:1] != "-" for word in left[1:begin]):
            break
        if at == len(left) and head in _OF_MACHINES:
            break
        for option, value in pairwise([*left[1:at], ""]):
            name, joined, own = option.partition("=")
            folder = (own if joined else value) if name in _CHDIR else folder
        module = next((n for n in range(begin, at) if head == "uv" and left[n] in ("-m", "--module")), None)
        left = left[at:] if module is None else ["python", "-m", *left[module + 1 :]]
        through.append(head)
    return left, assigned, folder, through


def text_after_c(argv: Sequence[str]) -> int:
    """The index of the text that a shell runs after -c; 0 without one."""
    at = first_operand(argv)
    return at if at < len(argv) and any(re.match(r"-[a-zA-Z]*c[a-zA-Z]*\Z", word) for word in argv[1:at]) else 0


def python_file(argv: Sequence[str]) -> str:
    """The file of the Python program that a command runs, by whatever launcher, also for a module; "" for none."""
    name = base(argv[0]) if argv else ""
    if name.startswith("python"):
        return _python_operand(argv)
    for word, following in pairwise([*argv, ""] if name not in BESIDE | SHELLS else []):
        if word in ("-m", "--module") and name in _LAUNCHERS and _MODULE.fullmatch(following):
            return f"{following.replace('.', '/')}.py"
        if word.endswith(".py") and word[:1] != "-" and "=" not in word:
            return word
    return ""


def _python_operand(argv: Sequence[str]) -> str:
    """What Python itself is told to run: a file, or a directory with __main__.py, or a module; "" for a text."""
    words = iter(argv[1:])
    for word in words:
        if option := _PYTHON_OPTION.match(word):
            value = option[2] or next(words, "")
            if option[1] == "m" and value in _LAUNCHES:
                return python_file(["torchrun", *words])
            if option[1] in ("m", "c"):
                return f"{value.replace('.', '/')}.py" if option[1] == "m" and _MODULE.fullmatch(value) else ""
        elif word[:1] != "-" or word == "-":
            return word.removeprefix("-")
    return ""
