"""One reading of a shell text: its commands with their words, directories and outputs, and the scripts they start.

Words, assignments, and scripts by their literal names are read; nothing is run. What only bash would know (what a
branch sets, what a program prints) stays as it is written, with its `$`.
"""

from __future__ import annotations

import functools
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from autoresearch.core.text.regex import later

_NESTED = r"\$\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
_BRACES = r"\$\{(?:[^{}]|\{[^{}]*\})*\}"
_QUOTED = rf"(?:\\.|{_NESTED}|\$(?!\()|[^\"\\$])*"  # between double quotes
_WORD = (
    rf"(?:\\.|'[^']*'|\"{_QUOTED}\"|{_BRACES}|{_NESTED}|[<>]\((?:[^()]|\([^()]*\))*\)|`[^`]*`"
    r"|[^\s;&|()<>\\'\"`])+"
)
_TOKEN = later(
    r"(?P<skip>(?:[ \t\r]|\\\n)+|(?:^|(?<=[\s;&|(]))#[^\n]*|\[\[\s.*?(?:\s\]\]|\Z)|\(\(.*?(?:\)\)|\Z))"
    r"|(?P<redirect>(?:\d*|&)(?:<<<|<<-?|>>|[<>]&|>\||<>|[<>])(?!\())"
    rf"|(?P<end>\|\||&&|\|&|;;?&?|[&|\n()])|(?P<word>{_WORD})",
    re.DOTALL | re.MULTILINE,
)
_PIECE = later(rf"\\(.)|\$?'([^']*)'|\"({_QUOTED})\"|(?:{_NESTED}|{_BRACES}|`[^`]*`|[^\\'\"])+", re.DOTALL)
_EXPANSION = later(
    rf"\\[\"\\$`\n]|{_NESTED}|`[^`]*`|\$(?:(?P<bare>[A-Za-z_]\w*|[\d@*])|\{{(?P<name>[A-Za-z_]\w*|[\d@*])"
    r"(?:\[[@*]\])?(?:(?P<sign>:?[-=?])(?P<other>(?:[^{}]|\{[^{}]*\})*))?\})"
)
_LIST = later(r"(\")?\$\{?(\w+|@|\*)(\[[@*]\])?(?::?-[^{}]*)?\}?(?(1)\")")  # one expansion, and nothing else
_OWN_DIRECTORY = later(r".*dirname.*?(?:\$\{?0\b|BASH_SOURCE)[^)]*\)[\"']?((?:/\.\.)*).*", re.DOTALL)
_ASSIGNMENT = later(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=(.*)", re.DOTALL)
_ARRAY = later(r"\w+\+?=\Z")
_SCRIPT = later(r"\S+\.(?:sh|bash|sub|slurm|sbatch|job)\Z")
_TERMINAL = later(r"\d+|-|/dev/(?:stdout|stderr|tty)|>\(.*")
_MOST, _LONGEST = 5000, 10_000  # commands; characters of a value
_DEEPEST = 12  # scripts and texts in each other

_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset"})
_NAMED = frozenset({"for", "select", "case"})
_OPENS, _CLOSES = _NAMED | {"if", "while", "until", "{"}, frozenset({"fi", "done", "esac", "}"})
_SYNTAX = frozenset({"then", "elif", "else", "do", "!", "time", "function"})

# What programs do with the words behind them: start another program, run a text, say nothing of the training.

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_BESIDE = frozenset([
    *("cd", "pushd", "popd", "export", "set", "unset", "shopt", "source", ".", "echo", "printf", "mkdir", "rm", "cp"),
    *("mv", "ls", "cat", "tee", "sleep", "wait", "trap", "ulimit", "pip", "git", "module", "conda", "true", "false"),
    *("test", "[", "kill", "pkill", "killall", "curl", "wget", "nvidia-smi", "grep", "tail", "head"),
    *("sed", "awk", "jq", "find", "chmod", "ln", "touch", "read", "declare", "local", "readonly", "return", "shift"),
    *("rsync", "scp", "tar", "unzip", "hostname", "date", ":", "wc", "apt", "apt-get", "pip3", "tmux", "screen"),
    *("scancel", "scontrol", "squeue", "sync", "which", "type", "alias", "typeset", "case", "select", "exit", "break"),
])  # fmt: skip
"""Commands that appear before and after a trainer and take none of its settings."""
_RUNNERS = frozenset({"uv", "poetry", "conda", "mamba", "micromamba", "pdm", "pixi", "pipenv", "rye", "hatch"})
_AWAY = frozenset({"ssh", "docker", "podman", "singularity", "apptainer", "kubectl"})  # with files of their own
ELSEWHERE = frozenset({"sbatch", "srun", "ssh", "kubectl"})
_OF_MACHINES = _AWAY | {"srun", "mpirun", "mpiexec"}  # with words of their own before the command
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
_VALUE_OF_PYTHON = later(r"-[a-zA-Z]*?([cmXW])\Z")

Value = str | list[str] | None  # a list for an array; None: unknown


@dataclass(slots=True)
class RawWord:
    """One word and its offsets in the text."""

    text: str  # without quotes and backslashes; nothing is expanded
    start: int
    stop: int
    source: str = ""
    items: list[RawWord] | None = None  # of an array


@dataclass(slots=True)
class SimpleCommand:
    """One simple command. What is unknown in its words stays as it is written, with its `$`."""

    words: list[str]  # without quotes, expanded
    argv: list[str]  # from the program on: without assignments, sudo, `env`, `uv run`
    line: int
    where: str = ""  # the script that holds it; "" for the text itself
    cwd: str | None = ""
    environment: dict[str, str] = field(default_factory=dict)  # assignments before it
    output: str = ""  # the file that its output goes to
    through: tuple[str, ...] = ()  # the programs that pass it on: sudo, ssh, `sbatch x.sub`
    start: int = 0  # offset of its first word in the text
    stop: int = 0  # offset after its last word; 0 in scripts and nested texts

    @property
    def name(self) -> str:
        """The program name without directories; "" if there is none."""
        return _base(self.argv[0]) if self.argv else ""

    @property
    def text(self) -> str:
        """The program and its arguments, behind its own variables, as a shell text with nothing left to expand."""
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.environment.items()), shlex.join(self.argv)])

    @property
    def elsewhere(self) -> bool:
        """Whether it may run on another machine than the text: submitted to Slurm or Kubernetes, or by ssh."""
        return not ELSEWHERE.isdisjoint(self.through)

    @property
    def may_train(self) -> bool:
        """Whether it could be the trainer."""
        return may_train(self.argv)


@dataclass(frozen=True, slots=True)
class Script:
    """A script that a text starts or sources, or a Python program."""

    name: str  # as written
    path: str  # absolute, or relative to the directory where the text runs
    text: str
    cwd: str | None = ""
    python: bool = False


@dataclass(frozen=True, slots=True)
class ShellReading:
    """The commands of a text and of its scripts, in the order in which they are written."""

    text: str
    commands: list[SimpleCommand] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)

    @property
    def own(self) -> tuple[SimpleCommand, ...]:
        """The commands of the text itself, without those of nested texts and scripts."""
        return tuple(one for one in self.commands if one.stop)

    @property
    def programs(self) -> tuple[Script, ...]:
        """The Python programs that it starts, with their texts."""
        return tuple(one for one in self.scripts if one.python)

    def trainer(self, recognises: Callable[[str], bool]) -> SimpleCommand | None:
        """The command that starts the trainer: the last one, as others prepare."""
        return next((one for one in reversed(self.commands) if one.may_train and recognises(one.text)), None)


def no_file(path: str) -> str:
    """For a text whose scripts are not read."""
    raise FileNotFoundError(path)


def read_shell(
    text: str,
    variables: Mapping[str, str] | None = None,
    *,
    cwd: str = "",
    open_text: Callable[[str], str] = no_file,
) -> ShellReading:
    """Read a text that runs in `cwd` with these environment variables. open_text: raises OSError."""
    reading, known = ShellReading(text), {**(variables or {}), "PWD": cwd}
    _Shell(reading, open_text, cwd, {**known}, {*known}, own=True).read(text)
    return reading


@functools.lru_cache(maxsize=64)
def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """The commands of a text, including nested ones; no file is read."""
    return tuple(read_shell(text).commands)


def raw_commands(text: str) -> Iterator[list[RawWord]]:
    """The words of each command, and of each array that one may be given; not those of nested texts."""
    for statement in _statements(text):
        if statement.words:
            yield statement.words
        yield from (word.items for word in statement.words if word.items)


def raw_assignments(text: str) -> Iterator[tuple[RawWord, str, str]]:
    """(word, name, value without quotes) of each variable that the text sets; `$NAME` for one that is added to."""
    for statement in _statements(text):
        for word in statement.words:
            if match := _ASSIGNMENT.fullmatch(word.text):
                whole = word.items is None and not match[2] and not match[3]
                yield word, match[1], match[4] if whole else f"${match[1]}"
            elif word.text not in _DECLARES and word.text[:1] != "-":
                break


# ------------------------------------------------------------------ words


@dataclass(slots=True)
class _Statement:
    """The words between two operators. Words of syntax, such as `then`, are left out, `for` and `case` are not."""

    before: str = ""  # the operator before it
    words: list[RawWord] = field(default_factory=list)
    output: str = ""  # the word behind the last `>`, as it is written
    document: str = ""  # what it reads from `<<EOF`
    end: str = ""  # the operator behind it
    level: int = 0  # of the branches, loops, functions and subshells around it


def _statements(text: str) -> Iterator[_Statement]:
    """The statements of a text in the order in which they are written."""
    at, level, in_patterns, operator = 0, 0, False, ""
    now, documents = _Statement(), list[tuple[_Statement, str]]()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token["skip"]:
            at = token.end() if token else at + 1
            continue
        kind, source, at = token.lastgroup, token[0], token.end()
        if in_patterns and source != "esac":  # of `case`
            in_patterns = source != ")"
            continue
        in_patterns = False
        if kind == "end" or (source == "in" and [one.text for one in now.words[:1]] == ["case"]):
            now.end, in_patterns = source, source.startswith((";;", "in"))
            while source == "\n" and documents:
                reader, tag = documents.pop(0)
                close = re.compile(rf"^[ \t]*{re.escape(tag)}[ \t]*$", re.MULTILINE).search(text, at)
                reader.document, at = text[at : close.start() if close else at], close.end() if close else at
            if now.words or source in "()":
                yield now
            level = max(level + (source == "(") - (source == ")"), 0)
            now = _Statement(before=source)
        elif kind == "redirect":
            operator = source
        elif operator and kind == "word":
            if operator in (">", ">>", "1>", "&>", "&>>") and not _TERMINAL.fullmatch(source):
                now.output = source
            elif operator.lstrip("0123456789") in ("<<", "<<-"):
                documents.append((now, unquoted(source)))
            operator = ""
        elif source == "{" or (not now.words and source in _SYNTAX | _OPENS | _CLOSES):
            now.level = level
            level = max(level + (source in _OPENS) - (source in _CLOSES), 0)
            if source in _NAMED:
                now.words.append(RawWord(source, token.start(), at, source))
        else:
            now.level = now.level if now.words else level
            word = RawWord(unquoted(source), token.start(), at, source)
            if text[at : at + 1] == "(" and _ARRAY.match(source):
                word.items, at = _items(text, at + 1)
                word.stop = at
            now.words.append(word)
    yield now


def _items(text: str, at: int) -> tuple[list[RawWord], int]:
    """The words of an array, and the offset behind its bracket."""
    found: list[RawWord] = []
    while (token := _TOKEN.match(text, at)) and token[0] != ")":
        if token["word"]:
            found.append(RawWord(unquoted(token[0]), at, token.end(), token[0]))
        at = token.end()
    return found, min(at + 1, len(text))


def unquoted(source: str, value: Callable[[re.Match[str]], str] | None = None) -> str:
    """A word without its quotes and backslashes. value: what an expansion, or a backslash in quotes, becomes."""

    def piece(match: re.Match[str]) -> str:
        if match[1] is not None or match[2] is not None:
            return match[2] or (match[1] or "").replace("\n", "")
        return _EXPANSION.sub(value or _as_written, match[0] if match[3] is None else match[3])

    return _PIECE.sub(piece, source)


def _as_written(match: re.Match[str]) -> str:
    return match[0][1:].strip("\n") if match[0][0] == "\\" else match[0]


# ------------------------------------------------------------------ programs


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def may_train(argv: Sequence[str]) -> bool:
    """Whether a command could be the trainer's."""
    name = _base(argv[0]) if argv else ""
    return list(argv[1:3]) == ["job", "submit"] if name == "ray" else bool(name) and name not in _BESIDE


def first_operand(argv: Sequence[str]) -> int:
    """The index of the first word behind a program or shell that is no option; where none is, its end."""
    n = 1
    while n < len(argv) and argv[n][:1] in ("-", "+") and len(argv[n]) > 1:
        n += 2 if re.match(r"[-+]\w*[oO]\Z", argv[n]) else 1  # `-euo pipefail`
    return min(n, len(argv))


def text_after_c(argv: Sequence[str]) -> int:
    """The index of the text that a shell runs after -c; 0 without one, or if it is no shell."""
    at = first_operand(argv) if argv and _base(argv[0]) in SHELLS else len(argv)
    return at if at < len(argv) and any(re.match(r"-[a-zA-Z]*c[a-zA-Z]*\Z", word) for word in argv[1:at]) else 0


def unwrapped(words: Sequence[str]) -> tuple[list[str], dict[str, str], str, list[str]]:
    """The words from the program on, without sudo, `env A=b`, `uv run`; the assignments, directory, and wrappers.

    A word behind `-n` or `--extra` is the value of that option, unless it is a program that is known. Of `docker run`
    and the like only such a program is found, or what stands behind `--`.
    """
    left, assigned, folder, through = list(words), dict[str, str](), "", list[str]()
    while left:
        head, at = _base(left[0]), 1
        if match := _ASSIGNMENT.fullmatch(left[0]):
            assigned[match[1]] = match[4]
            del left[0]
            continue
        if head in _RUNNERS and "run" in left:
            at = left.index("run") + 1
        elif head not in _WRAPPERS:
            break
        while at < len(left) and not _begins(left[at - 1], left[at], head in _OF_MACHINES):
            if head == "uv" and left[at] in ("-m", "--module"):
                left[at : at + 1] = ["python", "-m"]
                break
            at += 1
        if at == len(left):
            break
        for option, value in pairwise(left[1 : at + 1]):
            name, joined, own = option.partition("=")
            folder = (own if joined else value) if name in _CHDIR else folder
        left = left[at:]
        through.append(head)
    return left, assigned, folder, through


def _begins(before: str, word: str, machine: bool) -> bool:
    """Whether a word among those of a wrapper is the program that it starts."""
    if _STARTED.match(_base(word)) or (machine and before == "--"):
        return True
    return not (machine or word[:1] == "-" or _NUMBER.fullmatch(word) or _VALUED.fullmatch(before))


def python_file(argv: Sequence[str]) -> str:
    """The file of the Python program that a command runs, by whatever launcher, also for a module; "" for none."""
    name = _base(argv[0]) if argv else ""
    python, launcher = name.startswith("python"), name in _LAUNCHERS
    for before, word in pairwise(argv if name not in _BESIDE | SHELLS else ()):
        option = _VALUE_OF_PYTHON.match(before) if python else None
        if (option and option[1] == "m") or (launcher and before in ("-m", "--module")):
            if python and word in _LAUNCHES:
                python, launcher = False, True
            else:
                return f"{word.replace('.', '/')}.py" if _MODULE.fullmatch(word) else ""
        elif option and option[1] == "c":
            return ""
        elif not option and word[:1] != "-" and (python or (word.endswith(".py") and "=" not in word)):
            return word
    return ""


# ------------------------------------------------------------------ the shell


@dataclass(slots=True)
class _Shell:
    """What a shell knows at one moment, and the text that it reads."""

    reading: ShellReading  # of all texts
    open_text: Callable[[str], str]
    base: str
    variables: dict[str, Value]  # also `1`, `@`, and PWD, the directory
    exported: set[str]
    script: str = ""  # its path; "" for the text itself
    line: int = 1  # of the first line of the text
    own: bool = False  # it reads the outermost text
    output: str = ""
    through: tuple[str, ...] = ()
    active: tuple[str, ...] = ()  # the scripts and texts that are being read

    @property
    def cwd(self) -> str | None:
        """The directory; None if unknown."""
        here = self.variables["PWD"]
        return here if isinstance(here, str) else None

    def read(self, text: str, path: str = "") -> None:
        """Follow the statements of a text, or of the script at a path, unless it is being read."""
        if len(self.active) >= _DEEPEST or (path or text) in self.active:
            return
        self.active, outer, counted = (*self.active, path or text), list[Value](), 0
        for statement in _statements(text):
            if len(self.reading.commands) > _MOST:
                break
            if statement.words:
                self.line += text.count("\n", counted, counted := statement.words[0].start)
                self._statement(statement)
            if statement.end == "(":
                outer.append(self.variables["PWD"])
            elif statement.end == ")" and outer:
                self.variables["PWD"] = outer.pop()
        self.active = self.active[:-1]

    def _statement(self, statement: _Statement) -> None:
        """Follow the assignments and the command of a statement. What may not be set, or not always, is unknown."""
        words, surely = statement.words, not statement.level and statement.before not in ("&&", "||", "|")
        own = next((n for n, word in enumerate(words) if not _ASSIGNMENT.fullmatch(word.source)), len(words))
        first, rest = words[own].text if words[own:] else "", words[own + 1 :]
        if first in _DECLARES or not first:
            for word in rest if first else words:
                self._assign(word, surely)
            self.exported |= {word.source.partition("=")[0] for word in rest if first == "export"}
        elif first in ("for", "read", "unset"):
            self.variables |= dict.fromkeys(word.text for word in (rest[:1] if first == "for" else rest))
            if statement.document and surely and rest:  # `read -r -d '' ARGS <<EOF`
                document = statement.document.replace('"', '\\"')
                self.variables[rest[-1].text] = self._text(f'"{document}"').strip()
        elif first == "shift" or (first == "set" and any(word.text == "--" for word in rest)):
            self.variables |= dict.fromkeys("123456789@*")
        if first and first != "for" and statement.end != "(":  # that is the name of a function
            plain = words if first in _DECLARES else words[:own]
            expanded = [*(self._text(word.source) for word in plain), *self._all(words[len(plain) :])]
            self._run(expanded, self._text(statement.output) or self.output, words)

    def _assign(self, word: RawWord, surely: bool) -> None:
        if match := _ASSIGNMENT.fullmatch(word.source):
            old = self.variables.get(match[1], "") if match[3] else ""
            value: Value = None
            if surely and word.items is not None and old is not None:
                value = [*([old] if isinstance(old, str) and old else old), *self._all(word.items)]
            elif surely and not match[2] and isinstance(old, str) and word.items is None:
                value = f"{old}{self._text(match[4])}"
            self.variables[match[1]] = value

    def _run(self, expanded: list[str], output: str, raw: list[RawWord]) -> None:
        """Note a command, and follow what it does to its shell, and the texts and scripts that it starts."""
        argv, own, folder, through = unwrapped(expanded)
        passed = (*self.through, *through)
        cwd = self._path(folder) if _AWAY.isdisjoint(passed) else None
        simple = SimpleCommand(expanded, argv, self.line, self._where(self.script), cwd, own, output, passed)
        simple.start, simple.stop = (raw[0].start, raw[-1].stop) if self.own else (0, 0)
        self.reading.commands.append(simple)
        name, operand = simple.name, argv[first_operand(argv) :] if argv else []
        exported = self.exported | {*own}
        known = {**{key: value for key, value in self.variables.items() if key in exported}, **own, "PWD": cwd}
        passed = (*passed, name) if name in ELSEWHERE else passed
        child = replace(self, variables=known, exported=exported, output=output, through=passed, own=False)
        if name in ("source", ".") and operand:
            self._script(operand, sourced=True)
        elif at := text_after_c(argv):
            child._with_arguments(argv[at + 2 :]).read(argv[at])
        elif name in SHELLS or (argv and "/" in argv[0] and _SCRIPT.match(argv[0])):
            child._script(operand if name in SHELLS else argv)
        elif argv and " " in argv[0]:  # of `eval`, or by ssh
            child.read(" ".join(argv))
        elif name == "sbatch":
            child.read(str(known.get("COMMAND") or ""))  # ray.sub of NeMo-RL runs it
            child._script(argv[next((n for n, word in enumerate(argv) if _SCRIPT.match(word)), len(argv)) :])
        elif name == "ray" and "--" in argv[:-1]:
            inner = argv[argv.index("--") + 1 :]
            child.variables["PWD"] = child._path(_behind(argv, "--working-dir"))
            child.read(shlex.join(inner) if _base(inner[0]) in SHELLS else "")
        if file := python_file(argv):
            child._program(file)
        if name in ("cd", "pushd", "popd"):
            self.variables["PWD"] = self._path(operand[0]) if operand and operand[0] != "-" and name != "popd" else None

    def _with_arguments(self, arguments: list[str]) -> _Shell:
        numbered = {str(n): value for n, value in enumerate(arguments, 1)}
        named = {name: value for name, value in self.variables.items() if not name.isdecimal()}
        return replace(self, variables={**named, **numbered, "@": arguments, "*": arguments})

    def _path(self, word: str) -> str | None:
        """A path from here; None if unknown."""
        if set("$`*?[") & set(word) or (self.cwd is None and word[:1] != "/"):
            return None
        return posixpath.normpath(posixpath.join(self.cwd or "", word)) if word else self.cwd

    def _where(self, path: str) -> str:
        return path.removeprefix(f"{self.base}/" if self.base else "")

    def _opened(self, name: str, paths: Sequence[str], *, python: bool = False) -> Script | None:
        """The first of these files that can be read, noted as a script."""
        for path in map(self._path, paths):
            try:
                text = "" if path is None or not _AWAY.isdisjoint(self.through) else self.open_text(path)
            except (OSError, ValueError):
                continue
            if text and path is not None:
                script = Script(name, path, text, self.cwd, python)
                if all(one.path != path for one in self.reading.scripts):
                    self.reading.scripts.append(script)
                return script
        return None

    def _script(self, argv: list[str], *, sourced: bool = False) -> None:
        """Read a script with its arguments, in this shell if it is sourced."""
        if script := self._opened(argv[0], argv[:1]) if argv else None:
            inner = self._with_arguments(argv[1:]) if argv[1:] or not sourced else replace(self)
            inner.script, inner.line, inner.own = script.path, 1, False
            inner.read(script.text, script.path)
            if sourced:
                self.variables = inner.variables

    def _program(self, name: str) -> None:
        """Note a Python program, if its text can be read."""
        self._opened(name, (name, f"{name.removesuffix('.py')}/__main__.py", f"src/{name}"), python=True)

    def _all(self, words: list[RawWord]) -> list[str]:
        """The words that these become: none for an empty array, several for `$@` or `$FLAGS`."""
        found: list[str] = []
        for word in words:
            match = _LIST.fullmatch(word.source)
            value = self.variables.get(match[2]) if match else None
            if match and isinstance(value, list) and (match[3] or match[2] in "@*"):
                found += value if len(found) < _LONGEST else []
            elif match and not match[1] and isinstance(value, str):
                found += [value] if "$(" in value else self._text(word.source).split()
            else:
                found.append(self._text(word.source))
        return found[:_LONGEST]

    def _text(self, source: str) -> str:
        """The text that a word becomes where nothing is split."""
        text = unquoted(re.sub(r"\A~(?=/|\Z)", "${HOME}", source), self._value)
        return text if len(text) < _LONGEST else source

    def _value(self, match: re.Match[str]) -> str:
        """What an expansion becomes: as it is written where that is unknown."""
        whole, name, sign = match[0], match["bare"] or match["name"], match["sign"] or ""
        if name is None and self.script and (own := _OWN_DIRECTORY.fullmatch(whole)):
            return posixpath.normpath((posixpath.dirname(self.script) or ".") + own[1])
        if name is None and whole != "$(pwd)":
            return _as_written(match)
        value = self.variables.get(name or "PWD", "")
        if value is None or len(value) > _LONGEST:
            return whole
        unset = (name or "PWD") not in self.variables
        if sign[-1:] in ("-", "=") and (unset or (not value and sign[0] == ":")):
            return self._text(match["other"])
        if isinstance(value, list):
            return " ".join(value if name in "@*" or "[" in whole else value[:1])
        return whole if unset else value or ("" if name else ".")


def _behind(argv: Sequence[str], option: str) -> str:
    return argv[argv.index(option) + 1] if option in argv[:-1] else ""
