"""One reading of a shell text: its commands with their words, directories and outputs, and the scripts they start.

Words, assignments, and scripts by their literal names are read, nothing is run. What only bash would know (what a
branch sets, what a program prints) stays as it is written, with its `$`.
"""

from __future__ import annotations

import ast
import functools
import operator
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from autoresearch.core.shell import programs
from autoresearch.core.shell.words import ASSIGNMENT, DECLARES, PIECE, SUBSTITUTION, RawWord, Statement, statements
from autoresearch.core.text.python_text import expression
from autoresearch.core.text.regex import later

_EXPANSION = later(
    rf"\\[\"\\$`\n]|\$\(\((?P<sum>[^()]*(?:\([^()]*\)[^()]*)*)\)\)|{SUBSTITUTION}|`[^`]*`"
    r"|\$(?:(?P<bare>[A-Za-z_]\w*|[\d@*#])|\{(?P<name>[A-Za-z_]\w*|[\d@*#])(?:\[[@*]\])?"
    r"(?::?(?P<sign>[-=?+])(?P<other>(?:[^{}]|\{[^{}]*\})*))?\})"
)
_OWN_DIRECTORY = later(r".*dirname.*?(?:\$\{?0\b|BASH_SOURCE)[^)]*\)[\"']?((?:/\.\.)*).*", re.DOTALL)
_SCRIPT, _SHEBANG = later(r"\S+\.(?:sh|bash|sub|slurm|sbatch|job)\Z"), later(r"#!.*\b(?:ba|da|z|k)?sh\b")
_TERMINAL = later(r"\d+|-|/dev/(?:stdout|stderr|tty)|>\(.*")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod},
}
_TESTS = frozenset({"[", "[[", "((", "test"})
_MOST_WORK, _LONGEST = 2_000_000, 10_000  # characters, and some for each statement; characters of a value
_PLACES = (("", "/__main__.py"), ("", "/__init__.py"), ("src/", ".py"))  # of modules, beside the file itself
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
    outputs: tuple[str, ...] = ()  # files that its output goes to
    parent: SimpleCommand | None = None  # the program that passes it on: `ray job submit -- X`, `sbatch x.sub`, ssh
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
        return self.parent is not None and (self.parent.name in programs.ELSEWHERE or self.parent.elsewhere)

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
    commands: tuple[SimpleCommand, ...]
    scripts: tuple[Script, ...]

    @property
    def own(self) -> tuple[SimpleCommand, ...]:
        """The commands of the text itself, without those of nested texts and scripts."""
        return tuple(one for one in self.commands if one.stop)

    @property
    def programs(self) -> tuple[Script, ...]:
        """The Python programs that it starts, with their texts."""
        return tuple(one for one in self.scripts if one.python)

    def trainer(self, recognises: Callable[[str], bool]) -> SimpleCommand | None:
        """The command that starts the trainer: the last one, as others prepare; a whole `ray job submit`."""
        last = next((one for one in reversed(self.commands) if one.may_train and recognises(one.text)), None)
        if last is None or last.parent is None or last.parent.name != "ray":
            return last
        return last.parent if last.parent.argv[-len(last.argv) :] == last.argv else last


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
    reader = _Reader(open_text, cwd)
    reader.read(text, _Shell({**(variables or {})}, set(variables or {}), cwd, own=True))
    return ShellReading(text, tuple(reader.commands), tuple(reader.scripts.values()))


@functools.lru_cache(maxsize=64)
def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """The commands of a text, including nested ones; no file is read."""
    return read_shell(text).commands


@dataclass(slots=True)
class _Shell:
    """What a shell knows at one moment, and the text that it reads."""

    variables: dict[str, Value]  # also `1`, `@`, `#` and `0`
    exported: set[str]
    cwd: str | None  # None: unknown
    where: str = ""
    line: int = 1  # of the first line of the text
    own: bool = False  # it reads the outermost text
    outputs: tuple[str, ...] = ()
    parent: SimpleCommand | None = None

    def with_arguments(self, arguments: list[str]) -> dict[str, Value]:
        """The variables with these arguments."""
        numbered = {str(n): value for n, value in enumerate(arguments, 1)}
        others = {name: value for name, value in self.variables.items() if name == "0" or not name.isdecimal()}
        return {**others, **numbered, "@": arguments, "*": arguments, "#": str(len(arguments))}

    def path(self, word: str) -> str | None:
        """A path from here; None if unknown."""
        if set("$`*?[") & set(word) or (self.cwd is None and word[:1] != "/"):
            return None
        return posixpath.normpath(posixpath.join(self.cwd or "", word)) if word else self.cwd

    def set(self, name: str, value: Value, *, surely: bool) -> None:
        """Set a variable. What a branch may set is unknown, but for the beginning of an array."""
        before = self.variables.get(name)
        if surely or value == before:
            self.variables[name] = value
        else:
            longer = isinstance(before, list) and isinstance(value, list) and value[: len(before)] == before
            self.variables[name] = [*(before or ()), f"${{{name}[@]}}"] if longer else None

    def expanded(self, source: str, *, split: bool = True) -> list[str]:
        """The words that one becomes: none for an empty array, several for `$@`."""
        source = re.sub(r"\A~(?=/|\Z)", "${HOME}", source)

        def piece(match: re.Match[str]) -> str:
            if match[1] is not None or match[2] is not None:
                return f"\1{(match[1] or '').replace(chr(10), '')}{match[2] or ''}"
            text, quoted = match[0] if match[3] is None else match[3], match[3] is not None or not split
            return _EXPANSION.sub(lambda one: self._value(one, quoted), text) if text else "\1"

        words = PIECE.sub(piece, source).split("\0")
        return [word.replace("\1", "") for word in words if word]

    def one(self, source: str) -> str:
        """The text that a word becomes in an assignment, where nothing is split."""
        text = " ".join(self.expanded(source, split=False))
        return text if len(text) < _LONGEST else source

    def all_of(self, words: list[RawWord]) -> list[str]:
        """The words that these become."""
        found: list[str] = []
        for word in words:
            found += self.expanded(word.source) if len(found) < _LONGEST else [word.source]
        return found

    def _value(self, match: re.Match[str], quoted: bool) -> str:
        """The value of an expansion: `\\0` between words, `\\1` before one that may be empty."""
        name, sign, whole = match["bare"] or match["name"], match["sign"], match[0]
        if name is None:
            return whole[1:].strip("\n") if whole[0] == "\\" else self._printed(match)
        unset, value = name not in self.variables, self.variables.get(name, "")
        if name == "PWD":
            unset, value = False, self.cwd
        if value is None or len(value) > _LONGEST:
            return whole
        empty = unset or (not value and ":" in whole)
        if sign == "+" or (sign in ("-", "=") and empty):
            return "" if empty == (sign == "+") else "\0".join(self.expanded(match["other"], split=not quoted))
        if unset:
            return whole
        if isinstance(value, list):
            return "\0".join(f"\1{item}" for item in (value if name in "@*" or "[" in whole else value[:1]))
        return f"\1{value}" if quoted else "\0".join(value.split())

    def _printed(self, match: re.Match[str]) -> str:
        """What a sum, `pwd`, or a search for the script's own directory prints; of anything else its source."""
        script, own = self.variables.get("0"), _OWN_DIRECTORY.fullmatch(match[0])
        if match["sum"] is not None:
            return _sum(match["sum"], self.variables) or match[0]
        if own and isinstance(script, str):
            return posixpath.normpath((posixpath.dirname(script) or ".") + own[1])
        return self.cwd or "." if match[0] in ("$(pwd)", "`pwd`") and self.cwd is not None else match[0]


def _sum(source: str, variables: Mapping[str, Value]) -> str:
    """The value of a sum or product of known whole numbers, as recipes of verl set lengths; "" for anything else."""
    bare = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda match: str(variables.get(match[1])), source[:_LONGEST]).strip()
    if not re.fullmatch(r"[\d\s()+*/%-]{1,200}", bare) or re.search(r"\*\s*\*|/\s*/|[\d)]\s*\(", bare):
        return ""
    try:
        return str(_worked_out(expression(bare.replace("/", "//"))))
    except (SyntaxError, ValueError, ArithmeticError, MemoryError):
        return ""


def _worked_out(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_worked_out(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_worked_out(left), _worked_out(right))
    raise ValueError(ast.dump(node))


@dataclass(slots=True)
class _Reader:
    """Follows the statements of a text, and what its commands start."""

    open_text: Callable[[str], str]
    base: str
    commands: list[SimpleCommand] = field(default_factory=list)
    scripts: dict[str, Script] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)  # the scripts and texts that are being read
    left: int = _MOST_WORK

    def read(self, text: str, shell: _Shell, path: str = "") -> None:
        """Follow the statements of a text, or of the script at a path, unless it is being read."""
        if len(self.active) < _DEEPEST and path not in self.active:
            self.active.append(path or text)
            self._statements(text, shell)
            self.active.pop()

    def _statements(self, text: str, shell: _Shell) -> None:
        outer, tests = list[_Shell](), False  # the shells around the subshells; whether the last statement only tests
        for statement in statements(text):
            self.left -= 100 + sum(word.stop - word.start for word in statement.words)
            if self.left < 0:
                return
            maybe = statement.level > 0 or statement.before == "||" or (tests and statement.before == "&&")
            self._statement(statement, shell, surely=not maybe)
            tests = bool(statement.words) and statement.words[0].text in _TESTS
            if statement.end == "(":
                outer.append(replace(shell, variables=dict(shell.variables)))
            elif statement.end == ")" and outer:
                shell.variables, shell.cwd = outer[-1].variables, outer.pop().cwd

    def _statement(self, statement: Statement, shell: _Shell, *, surely: bool) -> None:
        """Follow the assignments and the command of a statement."""
        words = statement.words
        own = next((n for n, word in enumerate(words) if not ASSIGNMENT.fullmatch(word.source)), len(words))
        first, rest = words[own].text if words[own:] else "", words[own + 1 :]
        if first == "for":
            values = shell.all_of(rest[2:])
            shell.set(rest[0].text if rest else "", values[0] if len(values) == 1 else None, surely=True)
            return
        if first in DECLARES or not first:
            for word in rest if first else words:
                _assign(word, shell, surely=surely)
            shell.exported |= {word.source.partition("=")[0] for word in rest if first == "export"}
        targets = [target for sign, target in statement.redirects if sign in (">", ">>", "1>", "&>", "&>>")]
        outputs = tuple(file for file in (shell.one(one.source) for one in targets) if not _TERMINAL.fullmatch(file))
        if first == "exec" and not rest:
            shell.outputs = outputs or shell.outputs
        elif first and statement.end != "(":  # else the name of a function
            plain = words if first in DECLARES else words[:own]
            expanded = [*(shell.one(word.source) for word in plain), *shell.all_of(words[len(plain) :])]
            inner = replace(shell, outputs=outputs or shell.outputs, line=shell.line + statement.line - 1)
            simple = self._add(expanded, inner)
            simple.start, simple.stop = (words[0].start, words[-1].stop) if shell.own else (0, 0)
            self._run(simple, shell, surely=surely)
            if first == "read" and simple.argv[1:]:
                document = statement.document.replace('"', '\\"')
                shell.set(simple.argv[-1], shell.one(f'"{document}"').strip() if document else None, surely=surely)

    def _add(self, words: list[str], shell: _Shell) -> SimpleCommand:
        argv, own, folder = programs.unwrapped(words)
        place = (shell.line, shell.where, shell.path(folder))
        self.commands.append(SimpleCommand(words, argv, *place, own, shell.outputs, shell.parent))
        return self.commands[-1]

    def _run(self, simple: SimpleCommand, shell: _Shell, *, surely: bool) -> None:
        """Follow what a command does to its shell, and the texts and scripts that it starts."""
        argv, name = simple.argv, simple.name
        exported = shell.exported | {*simple.environment}
        known = {**{key: value for key, value in shell.variables.items() if key in exported}, **simple.environment}
        nested = {"line": simple.line, "outputs": simple.outputs, "cwd": simple.cwd, "own": False}
        child = replace(shell, variables=known, exported=exported, **nested)  # type: ignore[arg-type]
        operand = argv[programs.first_operand(argv) :] if argv else []
        if name in programs.PASS_ON or name in programs.ELSEWHERE:
            child.parent = simple
        if name in ("source", ".") and operand:
            self._script(operand, shell, sourced=True)
        elif name in programs.SHELLS and (at := programs.text_after_c(argv)):
            child.variables = child.with_arguments(argv[at + 2 :])
            self.read(argv[at], child)
        elif name in programs.SHELLS and operand:
            self._script(operand, child)
        elif name == "eval":
            self.read(" ".join(argv[1:]), inner := replace(shell, own=False, line=simple.line))
            shell.cwd = inner.cwd
        elif name == "ssh":
            self.read(" ".join(operand[1:]), replace(child, cwd=None))
        elif name == "sbatch":
            self.read(str(known.get("COMMAND") or ""), child)  # ray.sub of NeMo-RL runs it
            self._script(argv[next((n for n, word in enumerate(argv) if _SCRIPT.match(word)), len(argv)) :], child)
        elif name in programs.PASS_ON and (started := programs.nested_argv(argv)):
            child.cwd = child.path(argv[argv.index("--working-dir") + 1] if "--working-dir" in argv[:-1] else "")
            self._run(self._add(started, child), child, surely=surely)
        elif argv and "/" in argv[0] and not argv[0].endswith(".py"):
            self._script(argv, child, known=False)
        if file := programs.python_file(argv):
            self._program(file, child)
        if name in ("cd", "pushd", "popd"):
            target = next((word for word in argv[1:] if not re.match(r"-[LPe@-]*\Z", word)), "")
            shell.cwd = None if name == "popd" or "-" in argv else shell.path(target or shell.one("~"))
        elif name in ("shift", "set"):
            before, count = shell.variables.get("@") or [], argv[1] if argv[1:] else "1"
            after = argv[argv.index("--") + 1 :] if "--" in argv else before
            if "--" in argv or (name == "shift" and count.isdecimal()):
                shell.variables = shell.with_arguments([*after[int(count) if name == "shift" else 0 :]])
        elif name == "unset":
            for key in argv[1:]:
                shell.variables.pop(key, None)

    def _opened(self, path: str | None, shell: _Shell) -> str:
        try:
            return "" if path is None or _is_away(shell.parent) else self.open_text(path)
        except (OSError, ValueError):
            return ""

    def _script(self, argv: list[str], shell: _Shell, *, sourced: bool = False, known: bool = True) -> None:
        """Read a script with its arguments, in this shell if it is sourced; unless `known`, it may be any program."""
        path = shell.path(argv[0]) if argv else None
        text = self._opened(path, shell)
        if path is None or not text or not (known or _SCRIPT.match(argv[0]) or _SHEBANG.match(text)):
            return
        where = path.removeprefix(f"{self.base}/" if self.base else "")
        self.scripts.setdefault(path, Script(argv[0], path, where, text, shell.cwd))
        variables = shell.with_arguments(argv[1:]) if argv[1:] or not sourced else shell.variables
        inner = replace(shell, variables={**variables, "0": path}, where=where, line=1, own=False)
        self.read(text, inner, path)
        if sourced:
            shell.cwd, shell.outputs = inner.cwd, inner.outputs
            shell.variables = {**inner.variables, "0": shell.variables.get("0")}

    def _program(self, name: str, shell: _Shell) -> None:
        """Note a Python program, if its text can be read."""
        path, stem = shell.path(name) or "", name.removesuffix(".py")
        for one in (path, *(shell.path(f"{folder}{stem}{end}") for folder, end in _PLACES)) if path else ():
            if text := self._opened(one, shell):
                where = str(one).removeprefix(f"{self.base}/" if self.base else "")
                self.scripts.setdefault(str(one), Script(name, str(one), where, text, shell.cwd, python=True))
                return


def _is_away(simple: SimpleCommand | None) -> bool:
    """Whether what it starts has other files than this machine."""
    return simple is not None and (simple.name in programs.AWAY or _is_away(simple.parent))


def _assign(word: RawWord, shell: _Shell, *, surely: bool) -> None:
    """Set the variable of an assignment."""
    if match := ASSIGNMENT.fullmatch(word.source):
        old = shell.variables.get(match[1], "") if match[3] else ""
        if word.items is not None:
            items = [*([old] if isinstance(old, str) and old else old or ()), *shell.all_of(word.items)]
            shell.set(match[1], items, surely=surely and old is not None)
        else:
            known = not match[2] and isinstance(old, str)
            shell.set(match[1], f"{old}{shell.one(match[4])}" if known else None, surely=surely)
