"""One reading of a shell text: its commands with their words, directories and outputs, and the scripts they start.

Words, assignments, and scripts by their literal names are read, nothing is run. What only bash would know (what a
branch sets, what a program prints) stays as it is written, with its `$`.
"""

from __future__ import annotations

import functools
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from autoresearch.core.shell import programs
from autoresearch.core.shell.words import ASSIGNMENT, DECLARES, PIECE, SUBSTITUTION, RawWord, Statement, statements
from autoresearch.core.text.regex import later

_EXPANSION = later(
    rf"\\[\"\\$`\n]|{SUBSTITUTION}|`[^`]*`|\$(?:(?P<bare>[A-Za-z_]\w*|[\d@*])|\{{(?P<name>[A-Za-z_]\w*|[\d@*])"
    r"(?:\[[@*]\])?(?:(?P<sign>:?[-=?])(?P<other>(?:[^{}]|\{[^{}]*\})*))?\})"
)
_WHOLE = later(r"(\")?\$\{?(\w+|@|\*)(\[[@*]\])?(?::?-[^{}]*)?\}?(?(1)\")")
_OWN_DIRECTORY = later(r".*dirname.*?(?:\$\{?0\b|BASH_SOURCE)[^)]*\)[\"']?((?:/\.\.)*).*", re.DOTALL)
_SCRIPT = later(r"\S+\.(?:sh|bash|sub|slurm|sbatch|job)\Z")
_TERMINAL = later(r"\d+|-|/dev/(?:stdout|stderr|tty)|>\(.*")
_MOST, _LONGEST = 5000, 10_000  # commands; characters of a value
_DEEPEST = 12  # scripts and texts in each other

Value = str | list[str] | None  # a list for an array; None: unknown


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
        return programs.base(self.argv[0]) if self.argv else ""

    @property
    def text(self) -> str:
        """The program and its arguments, behind its own variables, as a shell text with nothing left to expand."""
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.environment.items()), shlex.join(self.argv)])

    @property
    def elsewhere(self) -> bool:
        """Whether it may run on another machine than the text: submitted to Slurm or Kubernetes, or by ssh."""
        return not programs.ELSEWHERE.isdisjoint(self.through)

    @property
    def may_train(self) -> bool:
        """Whether it could be the trainer."""
        return programs.may_train(self.argv)


@dataclass(frozen=True, slots=True)
class Script:
    """A script that a text starts or sources, or a Python program."""

    name: str  # as written
    path: str  # absolute, or relative to the directory where the text runs
    where: str  # the path for people: relative to where the text runs, if it is below
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
    reading = ShellReading(text)
    _Shell(reading, open_text, cwd, {**(variables or {})}, set(variables or {}), cwd, own=True).read(text)
    return reading


@functools.lru_cache(maxsize=64)
def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """The commands of a text, including nested ones; no file is read."""
    return tuple(read_shell(text).commands)


@dataclass(slots=True)
class _Shell:
    """What a shell knows at one moment, and the text that it reads."""

    reading: ShellReading  # of all texts
    open_text: Callable[[str], str]
    base: str
    variables: dict[str, Value]  # also `1` and `@`
    exported: set[str]
    cwd: str | None  # None: unknown
    script: str = ""  # its path; "" for the text itself
    where: str = ""
    line: int = 1  # of the first line of the text
    own: bool = False  # it reads the outermost text
    output: str = ""
    through: tuple[str, ...] = ()
    active: tuple[str, ...] = ()  # the scripts and texts that are being read

    def read(self, text: str, path: str = "") -> None:
        """Follow the statements of a text, or of the script at a path, unless it is being read."""
        if len(self.active) >= _DEEPEST or (path or text) in self.active:
            return
        self.active, outer, counted = (*self.active, path or text), list[str | None](), 0
        for statement in statements(text):
            if len(self.reading.commands) > _MOST:
                break
            if statement.words:
                self.line += text.count("\n", counted, counted := statement.words[0].start)
                self._statement(statement)
            if statement.end == "(":
                outer.append(self.cwd)
            elif statement.end == ")" and outer:
                self.cwd = outer.pop()
        self.active = self.active[:-1]

    def _statement(self, statement: Statement) -> None:
        """Follow the assignments and the command of a statement. What may not be set, or not always, is unknown."""
        words, surely = statement.words, not statement.level and statement.before not in ("&&", "||", "|")
        own = next((n for n, word in enumerate(words) if not ASSIGNMENT.fullmatch(word.source)), len(words))
        first, rest = words[own].text if words[own:] else "", words[own + 1 :]
        if first in DECLARES or not first:
            for word in rest if first else words:
                self._assign(word, surely)
            self.exported |= {word.source.partition("=")[0] for word in rest if first == "export"}
        elif first in ("for", "read", "unset"):
            self.variables |= dict.fromkeys(word.text for word in (rest[:1] if first == "for" else rest))
            if statement.document and surely and rest:  # `read -r -d '' ARGS <<EOF`
                document = statement.document.replace('"', '\\"')
                self.variables[rest[-1].text] = self._text(f'"{document}"').strip()
        elif (first == "set" and any(word.text == "--" for word in rest)) or first == "shift":
            self.variables |= dict.fromkeys("123456789@*")
        if not first or first == "for" or statement.end == "(":  # the name of a function
            return
        plain = words if first in DECLARES else words[:own]
        expanded = [*(self._text(word.source) for word in plain), *self._all(words[len(plain) :])]
        output = self.output
        for sign, target in statement.redirects:
            if sign in (">", ">>", "1>", "&>", "&>>") and not _TERMINAL.fullmatch(target.source):
                output = self._text(target.source)
        self._run(expanded, output, words)

    def _assign(self, word: RawWord, surely: bool) -> None:
        if match := ASSIGNMENT.fullmatch(word.source):
            old = self.variables.get(match[1], "") if match[3] else ""
            value: Value = None
            if surely and word.items is not None and old is not None:
                value = [*([old] if isinstance(old, str) and old else old), *self._all(word.items)]
            elif surely and not match[2] and isinstance(old, str) and word.items is None:
                value = f"{old}{self._text(match[4])}"
            self.variables[match[1]] = value

    def _run(self, expanded: list[str], output: str, raw: list[RawWord]) -> None:
        """Note a command, and follow what it does to its shell, and the texts and scripts that it starts."""
        argv, own, folder, through = programs.unwrapped(expanded)
        passed = (*self.through, *through)
        cwd = self._path(folder) if programs.AWAY.isdisjoint(passed) else None
        simple = SimpleCommand(expanded, argv, self.line, self.where, cwd, own, output, passed)
        simple.start, simple.stop = (raw[0].start, raw[-1].stop) if self.own else (0, 0)
        self.reading.commands.append(simple)
        name, operand = simple.name, argv[programs.first_operand(argv) :] if argv else []
        exported = self.exported | {*own}
        known = {**{key: value for key, value in self.variables.items() if key in exported}, **own}
        later = (*passed, name) if name in programs.ELSEWHERE else passed
        inside = {"cwd": cwd, "output": output, "through": later, "own": False}
        child = replace(self, variables=known, exported=exported, **inside)  # type: ignore[arg-type]
        if name in ("source", ".") and operand:
            self._script(operand, sourced=True)
        elif name in programs.SHELLS and (at := programs.text_after_c(argv)):
            child._with_arguments(argv[at + 2 :]).read(argv[at])
        elif name in programs.SHELLS and operand:
            child._script(operand)
        elif argv and " " in argv[0]:  # of `eval`, or by ssh
            child.read(" ".join(argv))
        elif name == "sbatch":
            child.read(str(known.get("COMMAND") or ""))  # ray.sub of NeMo-RL runs it
            child._script(argv[next((n for n, word in enumerate(argv) if _SCRIPT.match(word)), len(argv)) :])
        elif name == "ray" and "--" in argv[:-1]:
            child.cwd = child._path(argv[argv.index("--working-dir") + 1] if "--working-dir" in argv[:-1] else "")
            inner = argv[argv.index("--") + 1 :]
            child.read(shlex.join(inner) if programs.base(inner[0]) in programs.SHELLS else "")
        elif argv and "/" in argv[0] and _SCRIPT.match(argv[0]):
            child._script(argv)
        if file := programs.python_file(argv):
            child._program(file)
        if name in ("cd", "pushd", "popd"):
            self.cwd = self._path(operand[0]) if operand and operand[0] != "-" and name != "popd" else None

    def _with_arguments(self, arguments: list[str]) -> _Shell:
        numbered = {str(n): value for n, value in enumerate(arguments, 1)}
        named = {name: value for name, value in self.variables.items() if not name.isdecimal()}
        return replace(self, variables={**named, **numbered, "@": arguments, "*": arguments})

    def _path(self, word: str) -> str | None:
        """A path from here; None if unknown."""
        if set("$`*?[") & set(word) or (self.cwd is None and word[:1] != "/"):
            return None
        return posixpath.normpath(posixpath.join(self.cwd or "", word)) if word else self.cwd

    def _opened(self, path: str | None) -> str:
        try:
            return "" if path is None or not programs.AWAY.isdisjoint(self.through) else self.open_text(path)
        except (OSError, ValueError):
            return ""

    def _note(self, name: str, path: str, text: str, *, python: bool = False) -> str:
        where = path.removeprefix(f"{self.base}/" if self.base else "")
        if all(one.path != path for one in self.reading.scripts):
            self.reading.scripts.append(Script(name, path, where, text, self.cwd, python))
        return where

    def _script(self, argv: list[str], *, sourced: bool = False) -> None:
        """Read a script with its arguments, in this shell if it is sourced."""
        path = self._path(argv[0]) if argv else None
        text = self._opened(path)
        if path is None or not text:
            return
        inner = self._with_arguments(argv[1:]) if argv[1:] or not sourced else replace(self)
        inner.where, inner.script, inner.line, inner.own = self._note(argv[0], path, text), path, 1, False
        inner.read(text, path)
        if sourced:
            self.cwd, self.variables = inner.cwd, inner.variables

    def _program(self, name: str) -> None:
        """Note a Python program, if its text can be read."""
        for path in (name, f"{name.removesuffix('.py')}/__main__.py", f"src/{name}"):
            if text := self._opened(place := self._path(path)):
                self._note(name, str(place), text, python=True)
                return

    def _all(self, words: list[RawWord]) -> list[str]:
        """The words that these become: none for an empty array, several for `$@` or `$FLAGS`."""
        found: list[str] = []
        for word in words:
            match = _WHOLE.fullmatch(word.source)
            value = self.variables.get(match[2]) if match else None
            if match and isinstance(value, list) and len(value) < _LONGEST and (match[3] or match[2] in "@*"):
                found += value if len(found) < _LONGEST else []
            elif match and not match[1] and isinstance(value, str):
                found += [value] if "$(" in value else self._text(word.source).split()
            else:
                found.append(self._text(word.source))
        return found

    def _text(self, source: str) -> str:
        """The text that a word becomes where nothing is split."""

        def piece(match: re.Match[str]) -> str:
            if match[1] is not None or match[2] is not None:
                return match[2] or (match[1] or "").replace("\n", "")
            return _EXPANSION.sub(self._value, match[0] if match[3] is None else match[3])

        text = PIECE.sub(piece, re.sub(r"\A~(?=/|\Z)", "${HOME}", source))
        return text if len(text) < _LONGEST else source

    def _value(self, match: re.Match[str]) -> str:
        name, sign, whole = match["bare"] or match["name"], match["sign"] or "", match[0]
        if name is None:
            if self.script and (own := _OWN_DIRECTORY.fullmatch(whole)):
                return posixpath.normpath((posixpath.dirname(self.script) or ".") + own[1])
            here = (self.cwd or ".") if whole == "$(pwd)" and self.cwd is not None else whole
            return whole[1:].strip("\n") if whole[0] == "\\" else here
        unset = name not in self.variables and name != "PWD"
        value = self.cwd if name == "PWD" else self.variables.get(name, "")
        if value is None or len(value) > _LONGEST:
            return whole
        if sign[-1:] in ("-", "=") and (unset or (not value and sign[0] == ":")):
            return self._text(match["other"])
        if isinstance(value, list):
            return " ".join(value if name in "@*" or "[" in whole else value[:1])
        return whole if unset else value
