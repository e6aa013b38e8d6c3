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
    r"(?:\[[@*]\])?(?:(?P<sign>:?[-=])(?P<other>(?:[^{}]|\{[^{}]*\})*))?\})"
)
_LIST = later(r"(\")?\$\{?(\w+|@|\*)(\[[@*]\])?(?::?-[^{}]*)?\}?(?(1)\")")  # one expansion, and nothing else
_OWN_DIRECTORY = later(r".*dirname.*?(?:\$\{?0\b|BASH_SOURCE)[^)]*\)[\"']?((?:/\.\.)*).*", re.DOTALL)
_ASSIGNMENT = later(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=(.*)", re.DOTALL)
_SCRIPT = later(r"\S+\.(?:sh|bash|sub|slurm|sbatch|job)\Z")
_TERMINAL = later(r"\d+|-|/dev/(?:stdout|stderr|tty)|>\(.*")
_MOST, _LONGEST = 5000, 10_000  # commands; characters of a value
_DEEPEST = 12  # scripts and texts in each other

_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset"})
_NAMED = frozenset({"for", "select", "case"})
_OPENS, _CLOSES = _NAMED | {"if", "while", "until", "{"}, frozenset({"fi", "done", "esac", "}"})
_SYNTAX = frozenset({"then", "elif", "else", "do", "!", "time", "function"}) | _OPENS | _CLOSES

# What programs do with the words behind them: start another program, run a text, say nothing of the training.

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_BESIDE = frozenset([
    *("cd", "pushd", "popd", "export", "set", "unset", "shopt", "source", ".", "echo", "printf", "mkdir", "rm", "cp"),
    *("mv", "ls", "cat", "tee", "sleep", "wait", "trap", "ulimit", "pip", "git", "module", "conda", "true", "false"),
    *("test", "[", "kill", "pkill", "killall", "curl", "wget", "nvidia-smi", "grep", "tail", "head"),
    *("sed", "awk", "jq", "find", "chmod", "ln", "touch", "read", "declare", "local", "readonly", "return", "shift"),
    *("rsync", "scp", "tar", "unzip", "hostname", "date", ":", "wc", "apt", "apt-get", "pip3", "tmux", "screen", "for"),
    *("scancel", "scontrol", "squeue", "sync", "which", "type", "alias", "typeset", "case", "select", "exit", "break"),
])  # fmt: skip
"""Commands that appear before and after a trainer and take none of its settings."""
ELSEWHERE = frozenset({"sbatch", "srun", "ssh", "kubectl"})
_AWAY = frozenset({"ssh", "docker", "podman", "singularity", "apptainer", "kubectl"})  # with files of their own
_RUNNERS = frozenset({"uv", "poetry", "conda", "mamba", "micromamba", "pdm", "pixi", "pipenv", "rye", "hatch"})
_OF_MACHINES = _AWAY | {"srun", "mpirun", "mpiexec"}  # with words of their own before the command
_WRAPPERS = _OF_MACHINES | {"sudo", "env", "xargs", "nice", "exec", "time", "timeout", "taskset", "numactl", "stdbuf",
                            "nohup", "command", "setsid", "eval"}  # fmt: skip
_STARTED = later(
    r"(?:bash|sh|zsh|python[\d.]*|uv|env|nohup|sudo|timeout|torchrun|accelerate|deepspeed|ray|exec|p?kill|killall|trl)\Z"
    r"|\S+\.(?:sh|bash|py)\Z|.*\s"
)
_OPTION = later(r"-.*|\d[\w.,-]*", re.DOTALL)
_VALUED = later(r"-[a-zA-Z]|--(?:directory|project|name|environment|extra|group|with|package|python|user|env-file)")
_MODULE = ("-m", "--module")
_LAUNCHERS = ("python", "torchrun", "deepspeed", "accelerate", "ray")  # they start modules, too
_LAUNCHES = ("torch.distributed.launch", "torch.distributed.run", "accelerate.commands.launch")


@dataclass(frozen=True, slots=True)
class ShellWord:
    """One word and its offsets in the text."""

    text: str  # without quotes and backslashes; nothing is expanded
    start: int
    stop: int
    source: str
    items: tuple[ShellWord, ...] | None = None  # of an array

    @property
    def is_literal(self) -> bool:
        """Whether it stands between two quotes, with nothing in it that a backslash or a second quote changes."""
        return self.stop - self.start == len(self.text) + 2


@dataclass(slots=True)
class SimpleCommand:
    """One simple command, or assignments alone. What is unknown in its words stays as it is written, with its `$`."""

    words: list[str]  # without quotes, expanded
    argv: list[str]  # from the program on: without assignments, sudo, `env`, `uv run`
    line: int
    where: str = ""  # the script that holds it; "" for the text itself
    cwd: str | None = ""
    environment: dict[str, str] = field(default_factory=dict)  # assignments before it
    output: str = ""  # the file that its output goes to
    through: tuple[str, ...] = ()  # the programs that pass it on: sudo, ssh, `sbatch x.sub`
    raw: tuple[ShellWord, ...] = ()  # its words in the text, also in `bash -c '...'`; () in scripts
    own: bool = False  # it stands in the text itself, in no script or nested text

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
        submits = self.argv[1:3] == ["job", "submit"]
        return submits if self.name == "ray" else bool(self.argv) and self.name not in _BESIDE


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
    _Shell(reading, open_text, cwd, cwd, {**(variables or {})}).read(text, offset=0)
    return reading


@functools.lru_cache(maxsize=64)
def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """The commands of a text, including nested ones; no file is read."""
    return tuple(read_shell(text).commands)


def assignments(text: str) -> Iterator[tuple[ShellWord, str, str]]:
    """(word, name, value without quotes) of each variable that the text sets; `$NAME` for one that is added to."""
    for simple in simple_commands(text):
        for word in simple.raw if simple.own else ():
            if match := _ASSIGNMENT.fullmatch(word.text):
                whole = word.items is None and not match[2] and not match[3]
                yield word, match[1], match[4] if whole else f"${match[1]}"
            elif word.text not in _DECLARES and word.text[:1] != "-":
                break


# ------------------------------------------------------------------ words


@dataclass(slots=True)
class _Statement:
    """The words between two operators. Words of syntax, such as `then`, are left out, `for` and `case` are not."""

    words: list[ShellWord] = field(default_factory=list)
    output: str = ""  # the word behind the last `>`, as it is written
    document: str = ""  # what it reads from `<<EOF`
    end: str = ""  # the operator behind it
    level: int = 0  # of the branches, loops, functions and subshells around it, and of `&&` before it
    at: int = 0  # where its first word begins


def _statements(text: str, offset: int = 0) -> Iterator[_Statement]:
    """The statements of a text in the order in which they are written; its words are those of a longer text."""
    at, level, in_patterns, operator, before = 0, 0, False, "", ""
    now, documents = _Statement(), list[tuple[_Statement, str]]()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token["skip"]:
            at = token.end() if token else at + 1
            continue
        kind, source, at = token.lastgroup, token[0], token.end()
        if in_patterns and source != "esac":  # of `case`
            in_patterns = source != ")"
        elif kind == "end" or (source == "in" and [one.text for one in now.words[:1]] == ["case"]):
            now.end, in_patterns = source, source.startswith((";;", "in"))
            while source == "\n" and documents:
                reader, tag = documents.pop(0)
                close = re.compile(rf"^[ \t]*{re.escape(tag)}[ \t]*$", re.MULTILINE).search(text, at)
                reader.document, at = text[at : close.start() if close else at], close.end() if close else at
            if now.words or source in "()":
                yield now
            level = max(level + (source == "(") - (source == ")"), 0)
            now, before = _Statement(), source
        elif kind == "redirect":
            operator = source
        elif operator:
            if operator in (">", ">>", "1>", "&>", "&>>") and not _TERMINAL.fullmatch(source):
                now.output = source
            elif operator.lstrip("0123456789") in ("<<", "<<-"):
                documents.append((now, unquoted(source)))
            operator = ""
        else:
            syntax = source == "{" or (not now.words and source in _SYNTAX)
            in_patterns = in_patterns and not syntax
            if not now.words:
                now.level, now.at = level + (before in ("&&", "||", "|")), token.start()
            level = max(level + (syntax and source in _OPENS) - (syntax and source in _CLOSES), 0)
            if syntax and source not in _NAMED:
                continue
            items = None
            if text[at : at + 1] == "(" and re.match(r"\w+\+?=\Z", source):
                items, at = _items(text, at + 1, offset)
            now.words.append(ShellWord(unquoted(source), token.start() + offset, at + offset, source, items))
    yield now


def _items(text: str, at: int, offset: int) -> tuple[tuple[ShellWord, ...], int]:
    """The words of an array, and the offset behind its bracket."""
    found: list[ShellWord] = []
    while (token := _TOKEN.match(text, at)) and token[0] != ")":
        if token["word"]:
            found.append(ShellWord(unquoted(token[0]), at + offset, token.end() + offset, token[0]))
        at = token.end()
    return tuple(found), min(at + 1, len(text))


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


def text_or_script(argv: Sequence[str]) -> tuple[int, bool]:
    """The index of the text or the script that a shell among these words runs, and whether it is a text; 0 for none."""
    at = next((n for n, word in enumerate(argv) if _base(word) in SHELLS), len(argv)) + 1
    is_text = False
    if argv and _base(argv[0]) in _BESIDE:
        return 0, False
    while at < len(argv) and argv[at][:1] in ("-", "+") and len(argv[at]) > 1:
        is_text = is_text or re.match(r"-[a-zA-Z]*c[a-zA-Z]*\Z", argv[at]) is not None
        at += 2 if re.match(r"[-+]\w*[oO]\Z", argv[at]) else 1  # `-euo pipefail`
    return (at, is_text) if at < len(argv) else (0, False)


def unwrapped(words: Sequence[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """The words from the program on, without sudo, `env A=b`, `uv run`; the assignments, and the wrappers.

    Behind a wrapper the program is a word that is known to be one, or else the first that is no option and no value of
    one; of `docker run` and the like only such a program is found, or what stands behind `--`.
    """
    left, assigned, through = list(words), dict[str, str](), list[str]()
    while left:
        head = _base(left[0])
        if match := _ASSIGNMENT.fullmatch(left[0]):
            assigned[match[1]] = match[4]
            del left[0]
            continue
        if head not in _WRAPPERS and not (head in _RUNNERS and "run" in left):
            break
        at = left.index("run") + 1 if head in _RUNNERS else 1
        start = next((n for n in range(at, len(left)) if _begins(head, left[n - 1], left[n])), 0)
        if not start:
            break
        left = [*(["python"] if left[start] in _MODULE else []), *left[start:]]  # `uv run -m pkg`
        through.append(head)
    return left, assigned, through


def _begins(wrapper: str, before: str, word: str) -> bool:
    """Whether a word among those of a wrapper is the program that it starts."""
    known = _STARTED.match(_base(word)) is not None or (wrapper in _RUNNERS and word in _MODULE)
    if wrapper in _OF_MACHINES:
        return known or before == "--"
    return known or not (_OPTION.fullmatch(word) or _VALUED.fullmatch(before))


def python_file(argv: Sequence[str]) -> str:
    """The file of the Python program that a command runs, by whatever launcher, also for a module; "" for none."""
    name = _base(argv[0]) if argv else ""
    python, launcher = name.startswith("python"), name.startswith(_LAUNCHERS)
    for before, word in pairwise(argv if name not in _BESIDE | SHELLS else ()):
        if launcher and before in _MODULE:
            if word not in _LAUNCHES:
                return f"{word.replace('.', '/')}.py" if re.fullmatch(r"[\w.]+", word) else ""
            python = False
        elif python and before == "-c":
            return ""
        elif word[:1] != "-" and "=" not in word and (word.endswith(".py") or (python and before not in ("-X", "-W"))):
            return word
    return ""


# ------------------------------------------------------------------ the shell


@dataclass(slots=True)
class _Shell:
    """What a shell knows at one moment, and the text that it reads."""

    reading: ShellReading  # of all texts
    open_text: Callable[[str], str]
    base: str
    cwd: str | None  # None if unknown
    variables: dict[str, str | None]  # also `1` and `@`; an array as its quoted words; None: unknown
    script: str = ""  # its path; "" for the text itself
    line: int = 1  # of the first line of the text
    output: str = ""
    through: tuple[str, ...] = ()
    active: tuple[str, ...] = ()  # the scripts and texts that are being read

    def read(self, text: str, path: str = "", *, offset: int | None = None) -> None:
        """Follow the statements of a text, or of the script at a path, unless it is being read.

        offset: where it begins in the outermost text, if its words can be edited there.
        """
        if len(self.active) >= _DEEPEST or (path or text) in self.active:
            return
        self.active, outer, counted = (*self.active, path or text), list[str | None](), 0
        for statement in _statements(text, offset or 0):
            if len(self.reading.commands) > _MOST:
                break
            if statement.words:
                self.line += text.count("\n", counted, counted := statement.at)
                self._statement(statement, editable=offset is not None)
            if statement.end == "(":
                outer.append(self.cwd)
            elif statement.end == ")" and outer:
                self.cwd = outer.pop()

    def _statement(self, statement: _Statement, *, editable: bool) -> None:
        """Follow the assignments and the command of a statement. What may not be set, or not always, is unknown."""
        words, surely = statement.words, not statement.level
        own = next((n for n, word in enumerate(words) if not _ASSIGNMENT.fullmatch(word.source)), len(words))
        first, rest = words[own].text if words[own:] else "", words[own + 1 :]
        plain = words if first in _DECLARES else words[:own]
        if statement.end == "(" and first:  # the name of a function
            return
        expanded = [*(self._text(word.source) for word in plain), *self._all(words[len(plain) :])]
        if first in _DECLARES or not first:
            for word in words:
                self._assign(word, surely)
        elif first in ("for", "read", "unset"):
            self.variables |= dict.fromkeys(word.text for word in (rest[:1] if first == "for" else rest))
            if statement.document and surely and rest:  # `read -r -d '' ARGS <<EOF`
                document = statement.document.replace('"', '\\"')
                self.variables[rest[-1].text] = self._text(f'"{document}"').strip()
        elif first == "shift" or (first == "set" and any(word.text == "--" for word in rest)):
            self.variables |= dict.fromkeys("123456789@*")
        self._run(expanded, self._text(statement.output) or self.output, tuple(words) if editable else ())

    def _assign(self, word: ShellWord, surely: bool) -> None:
        if match := _ASSIGNMENT.fullmatch(word.source):
            value = shlex.join(self._all(word.items)) if word.items is not None else self._text(match[4])
            old = self.variables.get(match[1], "") if match[3] else ""
            known = surely and not match[2] and old is not None
            self.variables[match[1]] = f"{old}{' ' if old and word.items else ''}{value}" if known else None

    def _run(self, expanded: list[str], output: str, raw: tuple[ShellWord, ...]) -> None:
        """Note a command, and follow what it does to its shell, and the texts and scripts that it starts."""
        argv, own, through = unwrapped(expanded)
        passed = (*self.through, *through)
        here = _AWAY.isdisjoint(passed)
        cwd = self.cwd if here else None
        where = self.script.removeprefix(f"{self.base}/" if self.base else "")
        simple = SimpleCommand(expanded, argv, self.line, where, cwd, own, output, passed, raw, len(self.active) == 1)
        self.reading.commands.append(simple)
        if not argv:
            return
        passed = (*passed, simple.name) if simple.name in ELSEWHERE else passed
        known = {**self.variables, **own}
        child = replace(self, variables=known, cwd=cwd, output=output, through=passed)
        child.open_text = self.open_text if here else no_file
        at, is_text = text_or_script(argv)
        if simple.name in ("source", "."):
            self._script(argv[1:], sourced=True)
        elif is_text:
            literal = (word.start + 1 for word in raw if word.text == argv[at] and word.is_literal)
            child._with_arguments(argv[at + 2 :]).read(argv[at], offset=next(literal, None))
        elif at or ("/" in argv[0] and _SCRIPT.match(argv[0])):
            child._script(argv[at:])
        elif " " in argv[0]:  # of `eval`, or by ssh
            child.read(" ".join(argv))
        elif simple.name == "sbatch":
            child.read(known.get("COMMAND") or "")  # ray.sub of NeMo-RL runs it
            child._script(argv[next((n for n, word in enumerate(argv) if _SCRIPT.match(word)), len(argv)) :])
        if file := python_file(argv):
            child._opened(file, (file, f"{file.removesuffix('.py')}/__main__.py", f"src/{file}"), python=True)
        if simple.name in ("cd", "pushd", "popd"):
            folder = next((word for word in argv[1:] if word[:1] != "-"), "-")
            self.cwd = self._path(folder) if folder != "-" else None

    def _with_arguments(self, arguments: list[str]) -> _Shell:
        numbered = {str(n): value for n, value in enumerate(arguments, 1)}
        named = {name: value for name, value in self.variables.items() if not name.isdecimal()}
        every = shlex.join(arguments)
        return replace(self, variables={**named, **numbered, "@": every, "*": every})

    def _path(self, word: str) -> str | None:
        """A path from here; None if unknown."""
        if set("$`*?[") & set(word) or (self.cwd is None and word[:1] != "/"):
            return None
        return posixpath.normpath(posixpath.join(self.cwd or "", word))

    def _opened(self, name: str, paths: Sequence[str], *, python: bool = False) -> Script | None:
        """The first of these files that can be read, noted as a script."""
        for path in map(self._path, paths):
            try:
                text = self.open_text(path) if path else ""
            except (OSError, ValueError):
                continue
            if path and text:
                script = Script(name, path, text, self.cwd, python)
                if all(one.path != path for one in self.reading.scripts):
                    self.reading.scripts.append(script)
                return script
        return None

    def _script(self, argv: list[str], *, sourced: bool = False) -> None:
        """Read a script with its arguments, in this shell if it is sourced."""
        if script := self._opened(argv[0], argv[:1]) if argv else None:
            inner = self._with_arguments(argv[1:]) if argv[1:] or not sourced else replace(self)
            inner.script, inner.line = script.path, 1
            inner.read(script.text, script.path)
            if sourced:
                self.variables, self.cwd = inner.variables, inner.cwd

    def _all(self, words: Sequence[ShellWord]) -> list[str]:
        """The words that these become: none for an empty array, several for `$@` or `$FLAGS`."""
        found: list[str] = []
        for word in words:
            match = _LIST.fullmatch(word.source)
            value = self.variables.get(match[2]) if match else None
            if match is None or value is None or len(found) > _LONGEST:
                found.append(self._text(word.source))
            elif match[3] or match[2] in "@*":
                found += shlex.split(value)
            elif match[1] or "$(" in value:
                found.append(self._text(word.source))
            else:
                found += self._text(word.source).split()
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
        if whole == "$(pwd)" or name == "PWD":
            return whole if self.cwd is None else self.cwd or "."
        if name is None:
            return _as_written(match)
        value, unset = self.variables.get(name, ""), name not in self.variables
        if value is not None and sign and (unset or (not value and sign[0] == ":")):
            return self._text(match["other"])
        return whole if value is None or unset or len(value) > _LONGEST else value
