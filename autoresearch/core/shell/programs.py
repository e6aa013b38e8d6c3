"""What programs do with the words behind them: start another program, run a text, say nothing of the training."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from autoresearch.core.text.regex import later

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
BESIDE = frozenset([
    *("cd", "pushd", "popd", "export", "set", "unset", "shopt", "source", ".", "echo", "printf", "mkdir", "rm", "cp"),
    *("mv", "ls", "cat", "tee", "sleep", "wait", "trap", "ulimit", "pip", "git", "module", "conda", "true", "false"),
    *("test", "[", "[[", "kill", "pkill", "killall", "curl", "wget", "nvidia-smi", "grep", "tail", "head", "exit"),
    *("sed", "awk", "jq", "find", "chmod", "ln", "touch", "read", "declare", "local", "readonly", "return", "shift"),
    *("rsync", "scp", "tar", "unzip", "hostname", "date", ":", "wc", "apt", "apt-get", "pip3", "tmux", "screen"),
    *("scancel", "scontrol", "squeue", "sync", "which", "type", "alias"),
])  # fmt: skip
"""Commands that appear before and after a trainer and take none of its settings."""

_RUNNERS = frozenset({"uv", "poetry", "conda", "mamba", "micromamba", "pdm", "pixi", "pipenv", "rye", "hatch"})
_OPERANDS = {"timeout": 1, "taskset": 1, "chrt": 1, "flock": 1}  # before the command that they start
_WRAPPERS = _OPERANDS.keys() | {"sudo", "doas", "env", "xargs", "nice", "ionice", "exec", "time", "numactl", "stdbuf",
                                "nohup", "command", "builtin", "setsid", "unbuffer"}  # fmt: skip
_VALUED: Mapping[str, str] = {  # the options that take a value in a word of its own; of runners, behind `run`
    **dict.fromkeys(SHELLS, "o O rcfile init-file"),
    **dict.fromkeys(_RUNNERS, "e environment p project"),
    "ssh": "b c D E e F I i J L l m O o p Q R S W w",
    "sudo": "u g h p C T R D user group chdir",
    "env": "u unset C chdir S split-string",
    "xargs": "n P I L d a s E",
    "nice": "n adjustment",
    "ionice": "c n",
    "exec": "a",
    "time": "o f",
    "doas": "u C",
    "timeout": "s k signal kill-after",
    "chrt": "T P D",
    "flock": "w E",
    "numactl": "N m C i p",
    "stdbuf": "i o e",
    "uv": "extra group with with-editable with-requirements project directory env-file python p "
    "package index no-extra no-group only-group color config-file",
    "poetry": "C directory P project",
    **dict.fromkeys(("conda", "mamba", "micromamba"), "n name p prefix cwd"),
}
_CHDIR = frozenset({"C", "D", "chdir", "directory", "cwd"})
PASS_ON = frozenset(
    ["srun", "mpirun", "mpiexec", "torchrun", "accelerate", "deepspeed", "docker", "podman", "singularity", "apptainer",
     "kubectl", "ray", "parallel", "find", "watch", "tmux", "screen", "conda", "mamba", "uv", "poetry", "pixi"]
)  # fmt: skip
"""Programs that run the command in their arguments, perhaps on another machine or in another file system."""
_OF_MODULES = frozenset({"torchrun", "deepspeed", "accelerate"})
ELSEWHERE = frozenset({"sbatch", "srun", "ssh", "kubectl"})
FAR = frozenset({"docker", "podman", "singularity", "apptainer", "kubectl"})
_STARTED = later(
    r"(?:bash|sh|zsh|dash|ksh|python[\d.]*|uv|env|nohup|sudo|timeout|torchrun|accelerate|deepspeed|ray|make|exec|nice"
    r"|p?kill|killall5?|source|trl)\Z|\S+\.(?:sh|bash)\Z"
)
MAKES_NOTHING = frozenset(
    ["cd", "pushd", "popd", "export", "set", "unset", "shopt", "ulimit", "umask", "trap", "true", ":",
     "test", "[", "[[", "module", "conda", "nvidia-smi", "hostname", "date", "sleep", "wait", "ls", "pwd", "exit",
     "local", "declare", "readonly", "dirname", "basename", "realpath"]
)  # fmt: skip
_RULE = later(r"([\w./ -]+)::?(?!=)([^;#=]*)")  # of a Makefile
_SPEAKS = frozenset({"echo", "printf", "cat", "chmod"})  # create a script only if they name it: `echo ... > run.sh`
_LAUNCHES = frozenset({"torch.distributed.launch", "torch.distributed.run", "accelerate.commands.launch"})  # modules
_MODULE = later(r"[\w.]+")
_PYTHON_OPTION = later(r"(?s)-(?:[a-zA-Z]*?([cmXW])|-check-hash-based-pycs\Z)(.*)")  # with a value, joined or not
_TAKES_TEXT = frozenset({"su", "runuser", "script", "sg"})  # a command text after -c


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


def unwrapped(words: Sequence[str]) -> tuple[list[str], list[str], str]:
    """The words from the program on, without sudo, `env A=b`, `uv run`; the assignments; the directory."""
    left, assigned, folder = list(words), list[str](), ""
    while left:
        head = base(left[0])
        if re.match(r"[A-Za-z_]\w*=", left[0]):
            assigned.append(left.pop(0))
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
        left = ["python", "-m", *left[at:]] if module else left[at + _OPERANDS.get(head, 0) :]
    return left, assigned, folder


def nested_texts(words: Sequence[str], argv: Sequence[str]) -> Iterator[str]:
    """The shell texts in the words of a command, apart from those of `bash -c`, `eval` and `ssh`."""
    name = base(argv[0]) if argv else ""
    if name in _TAKES_TEXT and "-c" in argv[1:-1]:
        yield argv[argv.index("-c") + 1]
    for option, text in pairwise(words):
        if option in ("-S", "--split-string") and "env" in [base(word) for word in words[:2]]:
            yield text
        if name == "sbatch" and option == "--wrap":
            yield text
    if name == "sbatch":
        yield from (word.partition("=")[2] for word in argv[1:] if word.startswith("--wrap="))
    if name in ("tmux", "screen", "watch", "parallel", "docker", "podman"):
        yield from (word for word in argv[1:] if re.search(r"\S\s+\S", word))


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
    if name in BESIDE or name in SHELLS:
        return ""
    if name.startswith("python"):
        return _python_operand(argv)
    for word, following in pairwise([*argv, ""]):
        if word in ("-m", "--module") and name in _OF_MODULES and _MODULE.fullmatch(following):
            return f"{following.replace('.', '/')}.py"
        if word.endswith(".py") and word[:1] != "-" and "=" not in word:
            return word
    return ""


def _python_operand(argv: Sequence[str]) -> str:
    """What Python itself is told to run: a file, with or without .py, or a directory with __main__.py, or a module."""
    words = iter(argv[1:])
    for word in words:
        if option := _PYTHON_OPTION.match(word):
            value = option[2] or next(words, "")
            if option[1] == "m" and value in _LAUNCHES:
                return python_file(["torchrun", *words])
            if option[1] in ("m", "c"):
                return f"{value.replace('.', '/')}.py" if option[1] == "m" and _MODULE.fullmatch(value) else ""
        elif word == "-":
            return ""
        elif word[:1] != "-":
            return word
    return ""


def python_paths(name: str, path: str, cwd: str | None) -> list[str]:
    """Where the text of a Python program may lie; last, for `python main`, what may have been meant."""
    if not name.endswith(".py"):
        return [path, f"{path}/__main__.py", f"{path}.py"]
    stem, above = path.removesuffix(".py"), posixpath.normpath(posixpath.join(cwd or "", "src", name))
    return [path, f"{stem}/__main__.py", f"{stem}/__init__.py", above]


def may_make(name: str, words: Sequence[str], script: str) -> bool:
    """Whether a command may create this script."""
    own = base(script)
    if name in _SPEAKS:
        return name != "chmod" and any(word.endswith(own) for word in words[1:])
    return bool(name) and name not in MAKES_NOTHING


def recipe_lines(makefile: str, targets: Sequence[str] = ()) -> str:
    """The shell text of a Makefile's recipes, on unchanged line numbers; other lines are blank.

    targets: only those of these targets and of what they need, if the Makefile names them all.
    """
    plain = {m[1]: m[2].strip() for m in re.finditer(r"^([A-Za-z_]\w*)\s*[:?]?=(.*)$", makefile, re.MULTILINE)}
    rules: dict[str, list[str]] = {}
    lines, owner = list[tuple[list[str], str]](), list[str]()
    for line in makefile.split("\n"):
        if rule := _RULE.match(line):
            owner = rule[1].split()
            for name in owner:
                rules.setdefault(name, []).extend(rule[2].split())
        lines.append((owner, line))
    needed, waiting = set[str](), [*targets]
    while waiting:
        if (name := waiting.pop()) not in needed:
            needed.add(name)
            waiting += rules.get(name, ())
    whole = not rules.keys() & needed or not rules.keys() >= set(targets)

    def shell(line: str) -> str:
        line = re.sub(r"\$[({](\w+)[)}]", lambda m: plain.get(m[1], f"${{{m[1]}}}"), line.lstrip("\t @+-"))
        line = line.replace("$$", "$")
        return f"({line})" if line.startswith("cd ") and not line.endswith("\\") else line  # a shell for each line

    return "\n".join(
        shell(line) if line.startswith("\t") and (whole or needed.intersection(names)) else "" for names, line in lines
    )
