"""What programs do with the words behind them: start another program, run a text, say nothing of the training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

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
_WRAPPERS = frozenset({"sudo", "env", "xargs", "nice", "exec", "time", "timeout", "taskset", "numactl", "stdbuf",
                       "nohup", "command", "setsid"})  # fmt: skip
_VALUED = {  # the options that take a value in a word of its own; of runners, behind `run`
    **dict.fromkeys(SHELLS, "o O rcfile init-file"),
    **dict.fromkeys(_RUNNERS, "e environment p project n name prefix C directory cwd"),
    "ssh": "b c D E e F I i J L l m O o p Q R S W w",
    **{"sudo": "u g D user group chdir", "env": "u unset C chdir", "xargs": "n P I L d", "nice": "n adjustment"},
    **{"timeout": "s k signal kill-after", "numactl": "N m C i p", "stdbuf": "i o e"},
    "uv": "extra group with with-editable with-requirements project directory env-file python p package no-group",
}
_CHDIR = frozenset({"C", "D", "chdir", "directory", "cwd"})
PASS_ON = frozenset(["srun", "mpirun", "mpiexec", "docker", "podman", "singularity", "apptainer", "kubectl", "ray"])
"""Programs that run the command in their arguments, perhaps on another machine or in another file system."""
ELSEWHERE = frozenset({"sbatch", "srun", "ssh", "kubectl"})
AWAY = frozenset({"ssh", "docker", "podman", "singularity", "apptainer", "kubectl"})  # with files of their own
_STARTED = later(
    r"(?:bash|sh|zsh|python[\d.]*|uv|env|nohup|sudo|timeout|torchrun|accelerate|deepspeed|ray|exec|p?kill|killall|trl)\Z"
    r"|\S+\.(?:sh|bash)\Z"
)
_MODULE, _OF_MODULES = later(r"[\w.]+"), frozenset({"torchrun", "deepspeed", "accelerate"})
_LAUNCHES = frozenset({"torch.distributed.launch", "torch.distributed.run", "accelerate.commands.launch"})
_PYTHON_OPTION = later(r"(?s)-(?:[a-zA-Z]*?([cmXW])|-check-hash-based-pycs\Z)(.*)")  # with a value, joined or not


def base(word: str) -> str:
    """A program's name without directories."""
    return word.rsplit("/", 1)[-1]


def may_train(argv: Sequence[str]) -> bool:
    """Whether a command could be the trainer's."""
    name = base(argv[0]) if argv else ""
    return list(argv[1:3]) == ["job", "submit"] if name == "ray" else bool(name) and name not in BESIDE


def first_operand(argv: Sequence[str]) -> int:
    """The index of the first word behind a program that is no option and no value of one; where none is, its end."""
    n, valued = 1, _VALUED.get(base(argv[0]), "").split()
    while n < len(argv) and argv[n][:1] in ("-", "+") and len(argv[n]) > 1:
        if argv[n] == "--":
            return n + 1
        name, joined, _ = argv[n].lstrip("-+").partition("=")
        name = name if argv[n].startswith("--") else name[-1:]  # `-euo pipefail`
        n += 2 if name in valued and not joined else 1
    return min(n, len(argv))


def unwrapped(words: Sequence[str]) -> tuple[list[str], dict[str, str], str]:
    """The words from the program on, without sudo, `env A=b`, `uv run`; the assignments; the directory."""
    left, assigned, folder = list(words), dict[str, str](), ""
    while left:
        head = base(left[0])
        if match := re.match(r"([A-Za-z_]\w*)=(?s:(.*))", left[0]):
            assigned[match[1]] = match[2]
            del left[0]
            continue
        if head in _RUNNERS and "run" in left[1:] and all(w.startswith("-") for w in left[1 : left.index("run")]):
            left[: left.index("run") + 1] = [head]
        elif head not in _WRAPPERS:
            break
        at = first_operand(left)
        for option, value in pairwise([*left[1:at], ""]):
            name, joined, own = option.lstrip("-").partition("=")
            folder = (own if joined else value) if name in _CHDIR else folder
        module = head == "uv" and not {"-m", "--module"}.isdisjoint(left[1:at])
        left = ["python", "-m", *left[at:]] if module else left[at + (head in ("timeout", "taskset")) :]
    return left, assigned, folder


def nested_argv(argv: Sequence[str]) -> list[str]:
    """The command that a program such as srun or `ray job submit --` runs; [] without any."""
    at = next((n for n, word in enumerate(argv) if n and _STARTED.match(base(word))), 0)
    if "--" in argv[1:-1]:
        at = argv.index("--") + 1
    return list(argv[at:]) if at else []


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
        if word in ("-m", "--module") and name in _OF_MODULES and _MODULE.fullmatch(following):
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
