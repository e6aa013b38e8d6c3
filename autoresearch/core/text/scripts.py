"""The scripts that a shell text starts, with their paths: `cd X && bash Y.sh` names X/Y.sh. Pure; nothing is run.

It follows `cd`, `pushd`, subshells, known variables, `env -C`, `make -C`, and nested texts. If the path cannot be
determined (an unknown variable, another host), the Script has no path, and the caller reports that it was not read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from autoresearch.core.text.shell_words import SHELLS, Simple, simple_commands

_SCRIPT = re.compile(r"\S+\.(?:sh|bash)\Z")
_JOB = re.compile(r"\S+\.(?:sh|bash|sub|slurm|sbatch|job)\Z")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^{}$`]*))?\})")
_OWN_FOLDER = re.compile(  # `$(dirname "$0")`, `$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)`
    r"\$\(\s*cd\s+(?:--\s+)?\"?\$\(dirname[^()]*\)\"?[^()]*\bpwd[^()]*\)|\$\(\s*dirname[^()]*\)"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)\Z", re.DOTALL)
_PASS_ON = frozenset(
    ["srun", "mpirun", "mpiexec", "torchrun", "accelerate", "deepspeed", "docker", "podman", "singularity", "apptainer",
     "kubectl", "ray", "parallel", "find", "watch", "tmux", "screen", "conda", "mamba", "uv", "poetry", "pixi"]
)  # fmt: skip
"""Programs that run the command in their arguments, perhaps on another machine or in another file system."""
_MAKES_NOTHING = frozenset(
    ["cd", "pushd", "popd", "export", "set", "unset", "shopt", "ulimit", "umask", "trap", "true", ":",
     "test", "[", "[[", "module", "conda", "nvidia-smi", "hostname", "date", "sleep", "wait", "ls", "pwd", "exit",
     "local", "declare"]
)  # fmt: skip
_SPEAKS = frozenset({"echo", "printf", "cat", "chmod"})  # create a script only if they name it: `echo ... > run.sh`
_OPENS, _CLOSES = frozenset({"if", "for", "while", "until", "case", "{"}), frozenset({"fi", "done", "esac", "}"})


@dataclass(frozen=True, slots=True)
class Script:
    """A script named in a text."""

    name: str  # as written
    path: str  # absolute, or relative to the directory where the text runs; "" if unknown
    line: int
    cwd: str | None = ""  # its working directory, in the form of `path`; None: unknown
    must: bool = False  # it must exist on the host before the text is run
    makefile: bool = False
    shell: bool = True  # False: possibly another kind of program


def named_scripts(
    text: str,
    variables: Mapping[str, str] | None = None,
    *,
    folder: str = "",
    cwd: str | None = "",
    earlier: Sequence[str] = (),
    line: int = 1,
) -> tuple[Script, ...]:
    """The scripts that a text starts or sources.

    folder: the directory of the text, if it is a script itself. earlier: texts that are run before it. line: number
    of its first line.
    """
    shell = _ShellState(dict(variables or {}), folder, cwd)
    shell.made = [one for other in earlier for one in simple_commands(other)]
    scripts: dict[tuple[str, str], Script] = {}
    for script in _walk(list(simple_commands(text, line=line)), shell):
        before = scripts.setdefault((script.name, script.path), script)
        if script.must and not before.must:
            scripts[script.name, script.path] = replace(before, must=True)
    return tuple(scripts.values())


def recipe_lines(makefile: str) -> str:
    """The shell text of a Makefile's recipes, on unchanged line numbers; other lines are blank."""
    lines = makefile.replace("$$", "$").split("\n")
    return "\n".join(line.lstrip("\t @+-") if line.startswith("\t") else "" for line in lines)


@dataclass(slots=True)
class _ShellState:
    """The state while walking through a text."""

    variables: dict[str, str]
    own: str  # the directory of the script itself
    cwd: str | None = ""  # None: unknown
    stack: list[str | None] = field(default_factory=list)  # of pushd
    outer: list[str | None] = field(default_factory=list)  # of subshells
    made: list[Simple] = field(default_factory=list)  # earlier commands that may have created a file
    open: int = 0  # nesting depth of `if`, loops and functions
    away: bool = False  # runs on another host

    def inside(self, cwd: str | None, *, away: bool) -> _ShellState:
        """The state for a nested text."""
        return _ShellState(dict(self.variables), self.own, cwd, made=self.made, open=self.open, away=self.away or away)

    def value(self, word: str) -> str | None:
        """A word with its variables expanded; None if one is unknown or it has other expansions."""
        word = _OWN_FOLDER.sub(lambda _: self.own or ".", word)
        word = re.sub(r"\$\(pwd\)|\$PWD\b|\$\{PWD\}", lambda _: "." if self.cwd is not None else "$(", word)
        if word == "~" or word.startswith("~/"):
            word = "$HOME" + word[1:]
        unknown = False

        def known(match: re.Match[str]) -> str:
            nonlocal unknown
            value = self.variables.get(match[1] or match[2], match[3])
            unknown = unknown or value is None
            return value or ""

        word = _VARIABLE.sub(known, word)
        return None if unknown or re.search(r"[$`*?{}]", word) else word

    def path(self, word: str, cwd: str | None) -> str:
        """The path of a file that a word names; "" if unknown."""
        value = self.value(word)
        if value is None or self.away or (cwd is None and not value.startswith("/")):
            return ""
        return posixpath.normpath(posixpath.join(cwd or "", value))


def _walk(commands: Sequence[Simple], shell: _ShellState) -> Iterator[Script]:
    """The scripts of these commands, including nested texts, which follow the command that contains them."""
    at, previous = 0, Simple(0)
    while at < len(commands):
        command, depth = commands[at], commands[at].depth
        end = next((n for n in range(at + 1, len(commands)) if commands[n].depth <= depth), len(commands))
        inner = commands[at + 1 : end]
        cwd = _joined(shell, shell.cwd, command.folder)
        for word in command.words:
            shell.open += (word in _OPENS) - (word in _CLOSES and shell.open > 0) if word in command.words[:2] else 0
        yield from _started(command, previous, shell, cwd, commands[end : end + 1])
        if inner:
            same = command.name == "eval"
            within = shell if same else shell.inside(cwd, away=command.name == "ssh")
            yield from _walk(inner, within)
        _follow(command, shell)
        at, previous = end, command


def _follow(simple: Simple, shell: _ShellState) -> None:
    """Apply the effect of a command on those after it."""
    argv = simple.argv
    for word in argv[1:] if simple.name in ("export", "declare", "local", "readonly") else simple.words:
        if not (assigned := _ASSIGNMENT.match(word)):
            if simple.name not in ("export", "declare", "local", "readonly"):
                break
            continue
        if argv and simple.name not in ("export", "declare", "local", "readonly"):
            break  # an assignment for that one command only
        value = shell.value(assigned[2])
        shell.variables.pop(assigned[1], None)
        if value is not None:
            shell.variables[assigned[1]] = value
    where = next((word for word in argv[1:] if not re.match(r"-[LPe@-]*\Z", word) or word == "-"), "")
    if simple.name == "pushd":
        shell.stack.append(shell.cwd)
    if simple.name == "popd":
        shell.cwd = shell.stack.pop() if shell.stack else None
    elif simple.name in ("cd", "pushd"):
        shell.cwd = None if where == "-" else _joined(shell, shell.cwd, where or "$HOME")
    if simple.end == "(":
        shell.outer.append(shell.cwd)
    elif simple.end == ")" and shell.outer:
        shell.cwd = shell.outer.pop()
    shell.made.append(simple)


def _joined(shell: _ShellState, cwd: str | None, word: str) -> str | None:
    value = shell.value(word)
    if value is None or (cwd is None and not value.startswith("/")):
        return None
    return posixpath.normpath(posixpath.join(cwd or "", value)) if word else cwd


def _started(
    simple: Simple, earlier_command: Simple, shell: _ShellState, cwd: str | None, following: Sequence[Simple]
) -> Iterator[Script]:
    """The scripts that one command starts directly."""
    argv, name = simple.argv, simple.name
    if not argv:
        return
    surely = not (
        shell.open
        or shell.away
        or earlier_command.end == "||"
        or (earlier_command.end == "&&" and earlier_command.name in _TESTS)
    )

    def script(word: str, *, must: bool = True) -> Script:
        path = shell.path(word, cwd)
        must = bool(must and surely and path and not any(_may_make(one, word) for one in shell.made))
        known = name in SHELLS or name in ("source", ".") or bool(_SCRIPT.match(word))
        return Script(word, path, simple.line, cwd, must, shell=known)

    if name in SHELLS or name in ("source", "."):
        if word := _first_operand(argv, name):
            yield script(word)
    elif name in ("make", "gmake"):
        yield from _makefile(argv, shell, cwd, simple.line)
    elif name in _PASS_ON or name == "sbatch":
        folder = next((b for a, b in pairwise(argv) if a == "--working-dir"), "")
        within = replace(shell, cwd=_joined(shell, cwd, folder))
        for word in argv[1:]:
            if (_JOB if name == "sbatch" else _SCRIPT).match(word):
                yield Script(word, within.path(word, within.cwd), simple.line, within.cwd)
            elif re.search(r"\s", word) and re.search(r"\.(?:sh|bash)\b", word):  # nested: `tmux new 'bash x.sh'`
                yield from _walk(list(simple_commands(word, line=simple.line)), within.inside(within.cwd, away=False))
    elif "/" in argv[0] or _SCRIPT.match(argv[0]):
        yield script(argv[0], must=bool(_SCRIPT.match(argv[0])))
    if simple.end in ("|", "|&") and following and following[0].name in SHELLS:  # `cat x.sh | bash`
        yield from (script(word, must=False) for word in argv[1:] if _SCRIPT.match(word))


_TESTS = frozenset({"test", "[", "[["})


def _first_operand(argv: Sequence[str], name: str) -> str:
    """The file that a shell executes; "" for a text after -c and for standard input."""
    words = list(argv[1:])
    while name in SHELLS and words and words[0][:1] in "-+" and words[0] != "-":
        option = words.pop(0)
        if re.match(r"-\w*c\w*\Z", option):
            return ""
        if option in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") and words:
            words.pop(0)
    first = words[0] if words else ""
    return "" if first in ("-", "--", "/dev/stdin") or first[:1] in ("<", "&") else first


def _makefile(argv: Sequence[str], shell: _ShellState, cwd: str | None, line: int) -> Iterator[Script]:
    names: list[str] = []
    for n, word in enumerate(argv[1:], 1):
        option, joined, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        value = value if joined else (argv[n + 1] if n + 1 < len(argv) else "")
        if option in ("-C", "--directory"):
            cwd = _joined(shell, cwd, value)
        elif option in ("-f", "--file", "--makefile"):
            names.append(value)
    for name in names or ["Makefile"]:
        yield Script(name, shell.path(name, cwd), line, cwd, makefile=True)


def _may_make(simple: Simple, script: str) -> bool:
    """Whether a command may create this script."""
    name = posixpath.basename(script)
    if simple.name in _SPEAKS:
        return simple.name != "chmod" and any(word.endswith(name) for word in simple.words[1:])
    return bool(simple.name) and simple.name not in _MAKES_NOTHING
