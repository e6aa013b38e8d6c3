"""One reading of a shell text: its commands with their words, directories and outputs, and the scripts they start.

The text is parsed by tree-sitter and followed as bash would run it: directories, variables, functions, sourced and
started scripts, nested texts (`bash -c`, `ssh`, `eval`, here-documents), Makefiles, and the commands that a Python
launcher starts. Every branch is read, a loop once. Nothing is run; files come from a function that the caller gives.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from autoresearch.core.shell import programs, python_calls
from autoresearch.core.shell.commands import OpenText, Script, ShellReading, SimpleCommand, TextFrame, no_file
from autoresearch.core.shell.programs import SHELLS, base
from autoresearch.core.shell.statements import Statements
from autoresearch.core.shell.words import DEEPEST, Scope, depth_of, number, offsets_of, shown, unknown

_MOST_SCRIPTS = 50  # that start each other
_JOB = re.compile(r"\S+\.(?:sh|bash|sub|slurm|sbatch|job)\Z")
_SCRIPT = re.compile(r"\S+\.(?:sh|bash)\Z")
_SHEBANG = re.compile(r"#!.*\b(?:ba|da|z|k)?sh\b")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?=)(.*)\Z", re.DOTALL)
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def read_shell(
    text: str,
    variables: Mapping[str, str] | None = None,
    *,
    cwd: str = "",
    open_text: OpenText = no_file,
    earlier: Sequence[str] = (),
    line: int = 1,
) -> ShellReading:
    """Read a text that runs in `cwd` with these environment variables.

    earlier: texts that are run before it, and may make its scripts. line: number of its first line.
    """
    scope = Scope(dict(variables or {}), set(variables or {}), cwd)
    reader = Reader(open_text, cwd)
    for other in earlier:
        before = Reader(no_file, cwd)
        before.read(other, scope.copy(), TextFrame("", line))
        reader.made += before.commands
    whole = TextFrame("", line, offsets=offsets_of(text))
    reader.read(text, scope, whole)
    reader.uncalled(scope)
    if scope.budget.left < 0:
        reader.unread(whole, "it is too long, or calls itself too often")
    return ShellReading(text, tuple(reader.commands), tuple(reader.scripts.values()))


@functools.lru_cache(maxsize=64)
def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """The commands of a text, including nested ones; no file is read."""
    return read_shell(text).commands


class Reader(Statements):
    """Follows what commands do."""

    def run(
        self,
        simple: SimpleCommand,
        raw: list[str],
        scoped: Scope,
        scope: Scope,
        text_frame: TextFrame,
        stdin: str | None = None,
    ) -> None:
        """Follow what a command does: to the shell it runs in, and by the texts and scripts that it starts."""
        argv, assigned, folder = programs.unwrapped(raw)
        name = base(argv[0]) if argv else ""
        if not argv or text_frame.level > DEEPEST:
            for text in programs.nested_texts(raw, argv):
                self.read(shown(text), scoped.child(), text_frame.inner(simple.line))
            self.made.append(simple)
            return
        for word in assigned:
            key, _, value = word.partition("=")
            scoped = scoped.copy() if scoped is scope else scoped
            scoped.variables[key] = value
            scoped.exported.add(key)
        cwd = scoped.below(scoped.cwd, folder) if folder else scoped.cwd
        inner = text_frame.inner(simple.line)
        child = scoped.child(cwd=cwd, sure=scoped.sure, outputs=simple.outputs or scoped.outputs)
        if name in self.functions and not assigned and argv[0] == name:
            self._call(name, argv[1:], scope, text_frame)
        elif name in ("source", ".") and len(argv) > 1:
            self.script(argv[1], argv[1:], simple, scope, text_frame, sourced=True)
        elif name in SHELLS:
            child.pipefail = "pipefail" in argv[1:4]
            if at := programs.text_after_c(argv):
                child.arguments = argv[at + 2 :]
                self.read(shown(argv[at]), child, inner)
            elif at := programs.first_operand(argv):
                if argv[at][:1] not in ("<", "&"):
                    self.script(argv[at], argv[at:], simple, child, text_frame)
            elif stdin is not None:
                self.read(shown(stdin), child, inner)
        elif name == "eval":
            self.read(shown(" ".join(argv[1:])), scope, inner)
        elif name == "ssh":
            self.read(shown(programs.ssh_text(argv)), child.copy(away=True, cwd=None), replace(inner, parent=simple))
        elif name == "trap" and len(argv) > 2:
            self.read(shown(argv[1]), scope.copy(sure=False), inner)
        elif name in ("make", "gmake"):
            self._make(argv, simple, child, text_frame)
        elif name in programs.PASS_ON or name == "sbatch":
            self._passed_on(argv, simple, child, text_frame)
        elif _SCRIPT.match(argv[0]):
            self.script(argv[0], argv, simple, child, text_frame)
        elif "/" in argv[0] and not argv[0].endswith(".py"):
            self.script(argv[0], argv, simple, child, text_frame, kind="", must=False)
        for text in programs.nested_texts(raw, argv):
            self.read(shown(text), child, inner)
        self._python(argv, simple, child, text_frame)
        _change(name, argv, scope)
        self.made.append(simple)

    def _call(self, name: str, arguments: list[str], scope: Scope, text_frame: TextFrame) -> None:
        node, own = self.functions[name]
        self.called.add(name)
        level = text_frame.level + depth_of(node, DEEPEST)
        if level <= DEEPEST:
            outer, sure, exited = scope.arguments, scope.sure, scope.exited
            scope.arguments, scope.sure = arguments, False
            self.walk(node, scope, replace(own, level=level, offsets=()))
            scope.arguments, scope.sure, scope.exited = outer, sure, exited

    def _passed_on(self, argv: list[str], simple: SimpleCommand, scope: Scope, text_frame: TextFrame) -> None:
        """The command in the arguments of srun, `ray job submit`, sbatch and the like."""
        name = base(argv[0])
        inner = text_frame.inner(simple.line)
        where = next((b for a, b in pairwise(argv) if a == "--working-dir"), "")
        if where:
            scope = scope.copy(cwd=scope.below(scope.cwd, where))
        if name == "sbatch":
            text_frame = replace(text_frame, parent=simple)
            inner = replace(inner, parent=simple)
            if isinstance(text := scope.variables.get("COMMAND"), str) and "COMMAND" in scope.exported:
                self.read(shown(text), scope.copy(), inner)
            for n, word in enumerate(argv[1:], 1):
                if _JOB.match(word):
                    self.script(word, argv[n:], simple, scope, text_frame, must=False)
                    return
            return
        if name in ("torchrun", "accelerate", "deepspeed", "uv", "conda", "find"):
            scripts = [n for n, word in enumerate(argv) if n and _SCRIPT.match(word)]
            if scripts:
                self.script(argv[scripts[0]], argv[scripts[0] :], simple, scope, text_frame, must=False)
            return
        words = programs.nested_argv(argv)
        if words:
            far = scope.copy(sure=False, away=scope.away or name in programs.FAR)
            passed = replace(inner, parent=simple)
            self.run(self.add(words, simple.line, far, passed), words, far, far, passed)

    def _make(self, argv: list[str], simple: SimpleCommand, scope: Scope, text_frame: TextFrame) -> None:
        names, targets, n = list[str](), list[str](), 1
        while n < len(argv):
            word = argv[n]
            option, joined, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
            if option in ("-C", "--directory", "-f", "--file", "--makefile"):
                n += 0 if joined else 1
                value = value if joined else (argv[n] if n < len(argv) else "")
                if option in ("-C", "--directory"):
                    scope = scope.copy(cwd=scope.below(scope.cwd, value))
                else:
                    names.append(value)
            elif _ASSIGNMENT.match(word):
                key, _, value = word.partition("=")
                scope.variables[key] = value
                scope.exported.add(key)
            elif not word.startswith("-"):
                targets.append(word)
            n += 1
        for name in names or ["Makefile"]:
            self.script(name, [name, *targets], simple, scope, text_frame, kind="make", must=False)

    def _python(self, argv: list[str], simple: SimpleCommand, scope: Scope, text_frame: TextFrame) -> None:
        """The commands that a Python file starts."""
        name = programs.python_file(argv)
        path = scope.path(name, scope.cwd) if name else ""
        if not path or (name, path) in self.scripts or len(self.scripts) >= _MOST_SCRIPTS or text_frame.python:
            return
        try:
            text = self.open_text(path)
        except (OSError, ValueError):
            return
        script = Script(name, path, simple.line, scope.cwd, kind="python", text=text, nested=bool(text_frame.where))
        self.scripts[name, path] = script
        for line, shell in python_calls.commands(text):
            own = replace(text_frame.inner(line, python=True), where=self._where(path))
            self.read(shell, scope.child(sure=False, arguments=[]), own)

    def script(
        self,
        word: str,
        argv: list[str],
        simple: SimpleCommand,
        scope: Scope,
        text_frame: TextFrame,
        *,
        sourced: bool = False,
        must: bool = True,
        kind: str = "shell",
    ) -> None:
        """Read a script: in a scope of its own, or in this one if it is sourced."""
        if len(self.scripts) > _MOST_SCRIPTS:
            return
        name, path = shown(word), scope.path(word, scope.cwd)
        known = self.scripts.get((name, path))
        made = any(programs.may_make(one.name, [*one.words, *one.outputs], name) for one in self.made)
        must = bool(must and scope.sure and path and not made)
        script = Script(name, path, simple.line, scope.cwd, must, bool(text_frame.where), kind)
        if not path:
            script = replace(script, why="where it lies is known only when it runs")
        else:
            script = self._opened(script, argv)
            script = replace(script, where=self._where(script.path))
        if not (script.kind == "" and script.text is None):
            must = must or bool(known and known.must)
            self.scripts[name, path] = replace(known or script, must=must)
        if script.text is None or path in self.active or text_frame.level > DEEPEST:
            return
        self.active.append(path)
        arguments = [] if kind == "make" else argv[1:]
        own = TextFrame(script.where, 1, level=text_frame.level + 1, parent=text_frame.parent)
        if sourced:
            outer, exited, sources = scope.arguments, scope.exited, scope.sources
            scope.arguments, scope.sources = argv[1:] or outer, (path, *sources)
            self.read(script.text, scope, own)
            scope.arguments, scope.exited, scope.sources = outer, exited, sources
        else:
            inner = scope.copy(arguments=arguments, script=path, sources=(path,), exited=False)
            self.read(script.text, inner, own)
        self.active.pop()

    def _opened(self, script: Script, argv: list[str]) -> Script:
        paths = [script.path]
        if script.kind == "make" and script.name == "Makefile":
            paths = [posixpath.join(posixpath.dirname(script.path), name) for name in _MAKEFILES]
        for path in paths:
            try:
                text = self.open_text(path)
            except (OSError, ValueError) as failure:
                why = getattr(failure, "strerror", "") or "it cannot be read"
                script = replace(script, why=why)
                continue
            if script.kind == "make":
                text = programs.recipe_lines(text, [shown(word) for word in argv[1:]])
            if script.kind == "" and not _SHEBANG.match(text):
                return script
            return replace(script, path=path, text=text, why="")
        return script

    def _where(self, path: str) -> str:
        return path.removeprefix(f"{self.base}/") if self.base else path


def _change(name: str, argv: Sequence[str], scope: Scope) -> None:
    """Apply the effect of a builtin on what comes after it."""
    if name in ("cd", "pushd"):
        where = next((word for word in argv[1:] if not re.match(r"-[LPe@-]*\Z", word) or word == "-"), "")
        home = scope.value("HOME")
        where = where or (home if isinstance(home, str) else unknown("$HOME"))
        if name == "pushd":
            scope.stack.append(scope.cwd)
        scope.cwd = None if where == "-" else scope.below(scope.cwd, where)
    elif name == "popd":
        scope.cwd = scope.stack.pop() if scope.stack else None
    elif name in ("exit", "return"):
        scope.exited = True
    elif name == "shift":
        count = number(argv[1]) if len(argv) > 1 else 1
        scope.arguments = scope.arguments[1 if count is None else count :]
    elif name == "set":
        if "pipefail" in argv[1:]:
            scope.pipefail = not argv[argv.index("pipefail") - 1].startswith("+")
        if "--" in argv[1:]:
            scope.arguments = list(argv[argv.index("--") + 1 :])
    elif name == "read" and len(argv) > 1:
        scope.variables.pop(argv[-1], None)
