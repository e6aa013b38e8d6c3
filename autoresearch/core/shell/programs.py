"""What programs do with the words behind them: start another program, run a text, say nothing of the training."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from autoresearch.core.shell.words import shown

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

_WRAPPERS: Mapping[str, tuple[str, int]] = {  # options that take a value, and the number of operands before the command
    "sudo": ("u g h p C T R D user group chdir", 0),
    "env": ("u unset C chdir S split-string", 0),
    "xargs": ("n P I L d a s E", 0),
    "nice": ("n adjustment", 0),
    "ionice": ("c n", 0),
    "exec": ("a", 0),
    "time": ("o f", 0),
    "doas": ("u C", 0),
    "timeout": ("s k signal kill-after", 1),
    "taskset": ("", 1),
    "chrt": ("T P D", 1),
    "flock": ("w E", 1),
    "numactl": ("N m C i p", 0),
    "stdbuf": ("i o e", 0),
    **dict.fromkeys(("nohup", "command", "builtin", "setsid", "unbuffer"), ("", 0)),
}
_RUNNERS: Mapping[str, str] = {  # `uv run X`: options that take a value
    "uv": "extra group with with-editable with-requirements project directory env-file python p "
    "package index no-extra no-group only-group color config-file",
    "poetry": "C directory P project",
    "conda": "n name p prefix cwd",
    "mamba": "n name p prefix cwd",
    "micromamba": "n name p prefix",
    **dict.fromkeys(("pdm", "pixi", "pipenv", "rye", "hatch"), "e environment p project"),
}
_CHDIR = frozenset({"C", "D", "chdir", "directory", "cwd"})
PASS_ON = frozenset(
    ["srun", "mpirun", "mpiexec", "torchrun", "accelerate", "deepspeed", "docker", "podman", "singularity", "apptainer",
     "kubectl", "ray", "parallel", "find", "watch", "tmux", "screen", "conda", "mamba", "uv", "poetry", "pixi"]
)  # fmt: skip
"""Programs that run the command in their arguments, perhaps on another machine or in another file system."""
ELSEWHERE = frozenset({"sbatch", "srun", "ssh", "kubectl"})
FAR = frozenset({"docker", "podman", "singularity", "apptainer", "kubectl"})
_STARTED = re.compile(
    r"(?:bash|sh|zsh|dash|ksh|python[\d.]*|uv|env|nohup|sudo|timeout|torchrun|accelerate|deepspeed|ray|make|exec|nice"
    r"|p?kill|killall5?|source|trl)\Z|\S+\.(?:sh|bash)\Z"
)
MAKES_NOTHING = frozenset(
    ["cd", "pushd", "popd", "export", "set", "unset", "shopt", "ulimit", "umask", "trap", "true", ":",
     "test", "[", "[[", "module", "conda", "nvidia-smi", "hostname", "date", "sleep", "wait", "ls", "pwd", "exit",
     "local", "declare", "readonly", "dirname", "basename", "realpath"]
)  # fmt: skip
_SPEAKS = frozenset({"echo", "printf", "cat", "chmod"})  # create a script only if they name it: `echo ... > run.sh`
_TAKES_TEXT = frozenset({"su", "runuser", "script", "sg"})  # a command text after -c


def base(word: str) -> str:
    """A program's name without directories."""
    return word.rsplit("/", 1)[-1]


def may_train(argv: Sequence[str]) -> bool:
    """Whether a command could be the trainer's."""
    name = base(argv[0]) if argv else ""
    return list(argv[1:3]) == ["job", "submit"] if name == "ray" else bool(name) and name not in BESIDE


def unwrapped(words: Sequence[str]) -> tuple[list[str], list[str], str]:
    """The words from the program on, without sudo, `env A=b`, `uv run`; the assignments; the directory."""
    left, assigned, folder = list(words), list[str](), ""
    while left:
        head = base(left[0])
        if re.match(r"[A-Za-z_]\w*=", left[0]):
            assigned.append(left.pop(0))
            continue
        valued, operands = _WRAPPERS.get(head, ("", 0))
        if head in _RUNNERS and "run" in left[1:] and all(w.startswith("-") for w in left[1 : left.index("run")]):
            valued = _RUNNERS[head]
            left = left[left.index("run") :]
        elif head not in _WRAPPERS:
            break
        left.pop(0)
        while left and left[0].startswith("-") and left[0] != "-":
            option, joined, value = left.pop(0).partition("=")
            if option == "--":
                break
            if option in ("-m", "--module") and head == "uv":
                left = ["python", "-m", *left]
                break
            option = option.lstrip("-")
            if not joined and left and option in valued.split():
                value = left.pop(0)
            folder = value if option in _CHDIR and value else folder
        del left[:operands]
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


def ssh_text(argv: Sequence[str]) -> str:
    """The text that ssh runs on the other host."""
    n = 1
    while n < len(argv) and argv[n].startswith("-"):
        n += 2 if re.fullmatch(r"-\w*[bcDEeFIiJLlmOopQRSWw]", argv[n]) else 1
    return " ".join(argv[n + 1 :])


def nested_argv(argv: Sequence[str]) -> list[str]:
    """The command that a program such as srun or `ray job submit --` runs; [] without any."""
    at = next((n for n, word in enumerate(argv) if n and _STARTED.match(base(shown(word)))), 0)
    if "--" in argv[1:-1]:
        at = argv.index("--") + 1
    return list(argv[at:]) if at else []


def text_after_c(argv: Sequence[str]) -> int:
    """The index of the text that a shell runs after -c; 0 without one."""
    for n, word in enumerate(argv[1:-1], 1):
        if re.match(r"-[a-zA-Z]*c[a-zA-Z]*\Z", word):
            return n + 1 if not argv[n + 1].startswith("-") or n + 2 == len(argv) else n + 2
        if word[:1] not in "-+" and argv[n - 1] not in ("-o", "+o", "-O", "+O"):
            return 0
    return 0


def first_operand(argv: Sequence[str]) -> int:
    """The index of the file that a shell executes; 0 for standard input."""
    n = 1
    while n < len(argv) and argv[n][:1] in ("-", "+") and argv[n] not in ("-", "--"):
        n += 2 if argv[n] in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") else 1
    return n if n < len(argv) and argv[n] not in ("-", "--", "/dev/stdin") else 0


def python_file(argv: Sequence[str]) -> str:
    """The file of the Python program that a command runs, also for a module; "" for anything else."""
    name = base(argv[0]) if argv else ""
    if name.endswith(".py"):
        return argv[0]
    if not (name.startswith("python") or name in ("torchrun", "deepspeed", "accelerate")):
        return ""
    for before, word, following in zip(argv, argv[1:], [*argv[2:], ""], strict=False):
        if word in ("-m", "--module") and re.fullmatch(r"[\w.]+", following):
            return f"{following.replace('.', '/')}.py"
        if word.endswith(".py"):
            return word
        if name.startswith("python") and (word == "-c" or (word[:1] != "-" and before not in ("-X", "-W"))):
            return ""
    return ""


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
    text = makefile
    plain = {m[1]: m[2].strip() for m in re.finditer(r"^([A-Za-z_]\w*)\s*[:?]?=(.*)$", text, re.MULTILINE)}
    rules: dict[str, list[str]] = {}
    lines, owner = list[tuple[tuple[str, ...], str]](), tuple[str, ...]()
    for line in text.split("\n"):
        names, colon, rest = line.partition(":")
        if colon and re.fullmatch(r"[\w./ -]+", names) and not rest.startswith("="):
            owner = tuple(names.split())
            for name in owner:
                rules.setdefault(name, []).extend(re.split(r"[;#=]", rest.removeprefix(":"), maxsplit=1)[0].split())
        lines.append((owner, line))
    wanted, waiting = set[str](), [name for name in targets if name in rules]
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += [other for other in rules[name] if other in rules]
    whole = not wanted or any(name not in rules for name in targets)

    def shell(line: str) -> str:
        line = re.sub(r"\$[({](\w+)[)}]", lambda m: plain.get(m[1], f"${{{m[1]}}}"), line.lstrip("\t @+-"))
        line = line.replace("$$", "$")
        return f"({line})" if line.startswith("cd ") and not line.endswith("\\") else line  # a shell for each line

    return "\n".join(
        shell(line) if line.startswith("\t") and (whole or wanted.intersection(names)) else "" for names, line in lines
    )
