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
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tree_sitter import Node

from autoresearch.core.shell import programs, python_calls
from autoresearch.core.shell.commands import ABSENT, OpenText, Script, ShellReading, SimpleCommand, no_file, printed
from autoresearch.core.shell.programs import SHELLS
from autoresearch.core.shell.shell import Input, Shell, number, shown, unknown
from autoresearch.core.shell.words import DEEPEST, WORDS, WordExpander, between, decoded, offsets_of, parsed, text_of
from autoresearch.core.text.regex import later

_MOST_SCRIPTS = 50  # that start each other
_JOB, _SCRIPT = later(r"\S+\.(?:sh|bash|sub|slurm|sbatch|job)\Z"), later(r"\S+\.(?:sh|bash)\Z")
_SHEBANG = later(r"#!.*\b(?:ba|da|z|k)?sh\b")
_ASSIGNMENT = later(r"([A-Za-z_]\w*)=(.*)\Z", re.DOTALL)
_TERMINAL = later(r"\d+|-|/dev/(?:stdout|stderr|tty)")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_BRANCHES = frozenset(
    ["if_statement", "case_statement", "for_statement", "select_statement", "while_statement", "c_style_for_statement"]
)
_CLAUSES = frozenset({"elif_clause", "else_clause", "case_item"})
_BODY = frozenset({"then", "else", ")", "do_group", "compound_statement"})  # from here on a clause may not be run
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_WHOLE = frozenset({"command", "pipeline", "list", "redirected_statement"})
_SYNTAX = frozenset({"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!"})


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
    shell = Shell(dict(variables or {}), set(variables or {}), cwd, line=line)
    reader = Reader(open_text, cwd, offsets_of(text))
    for other in earlier:
        before = Reader(no_file, cwd, offsets_of(other))
        before.read(other, shell.copy())
        reader.made += before.commands
    shell.work.unread.clear()
    reader.read(text, shell)
    for name in [name for name in reader.functions if name not in reader.called]:
        reader.call(name, [], shell.copy(live=False))  # dead code
    if shell.work.left < 0:
        shell.unread("it is too long, or calls itself too often")
    unread = [
        Script(where or "the command", "", line, nested=bool(where), why=why)
        for (where, why), line in shell.work.unread.items()
    ]
    return ShellReading(text, tuple(reader.commands), (*reader.scripts.values(), *unread))


@functools.lru_cache(maxsize=64)
def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """The commands of a text, including nested ones; no file is read."""
    return read_shell(text).commands


@dataclass(slots=True)
class Reader:
    """Follows the statements of a text, and what its commands do."""

    open_text: OpenText
    base: str
    offsets: Sequence[int]  # in the outermost text, of each byte of its syntax tree
    commands: list[SimpleCommand] = field(default_factory=list)
    made: list[SimpleCommand] = field(default_factory=list)  # earlier ones that may have created a file
    scripts: dict[tuple[str, str], Script] = field(default_factory=dict)
    functions: dict[str, tuple[Node, dict[str, Any]]] = field(default_factory=dict)  # the body, and where it stands
    called: set[str] = field(default_factory=set)
    active: list[str] = field(default_factory=list)  # the scripts and functions that are being read
    entry_points: dict[str, str] | None = None  # of the project's own package, once they were needed
    words: WordExpander = field(init=False)

    def __post_init__(self) -> None:
        self.words = WordExpander(self._substitution)

    def read(self, text: str, shell: Shell) -> None:
        """Parse and follow a text; one that is nested too deeply is read word by word."""
        if shell.work.spend(len(text)):
            return
        if (root := parsed(text)) is not None:
            self._sequence(root.children, shell)
        else:
            self._too_deep(text, shell.line, shell)

    # statements

    def _sequence(self, nodes: Sequence[Node], shell: Shell) -> None:
        before = len(self.commands)
        for node in nodes:
            if node.type == "&" and (last := self._last(before, shell)):
                last.end = "&"
            elif node.is_named and node.type != "comment":
                before = len(self.commands)
                self._walk(node, shell)

    def _last(self, first: int, shell: Shell) -> SimpleCommand | None:
        """The last command since `first` that stands in this text itself."""
        own = (one for one in reversed(self.commands[first:]) if (one.depth, one.where) == (shell.depth, shell.where))
        return next(own, None)

    def _walk(self, node: Node, shell: Shell) -> None:
        """Follow a statement."""
        if shell.work.spend(100):
            return
        if shell.work.level > DEEPEST:
            self._too_deep(text_of(node), self._line(node, shell), shell)
            return
        shell.work.level += 1
        match node.type:
            case "command":
                self._command(node, shell)
            case "variable_assignment":
                self._assign(node, shell)
            case "declaration_command" | "unset_command":
                self._declare(node, shell)
            case "list":
                self._list(node, shell)
            case "pipeline":
                self._pipeline(node.children, shell)
            case "redirected_statement":
                self._redirected(node, shell)
            case "subshell":
                self._sequence(node.children, shell.copy())
            case "function_definition":
                if body := node.child_by_field_name("body"):
                    names = ("where", "line", "fixed", "depth", "parent", "python")
                    place = {name: getattr(shell, name) for name in names}
                    self.functions[text_of(node.child_by_field_name("name"))] = (body, place)
            case "ERROR":
                self._broken(node, shell)
            case kind if kind in _BRANCHES:
                self._branches(node, shell)
            case kind if kind in WORDS:
                self.words.of(node, shell)
            case _:
                self._sequence(node.children, shell)
        shell.work.level -= 1

    def _list(self, node: Node, shell: Shell) -> None:
        """`a && b || c`: what follows a test, or `||`, may be run."""
        parts = [node]
        while parts[0].type == "list":
            parts[:1] = parts[0].children
        before, left = len(self.commands), parts[0]
        self._walk(left, shell)
        for operator, right in zip(parts[1::2], parts[2::2], strict=False):
            if last := self._last(before, shell):
                last.end = operator.type
            before = len(self.commands)
            if operator.type == "&&" and not _is_test(left):
                self._walk(right, shell)
            else:
                inner = shell.copy(sure=False)
                self._walk(right, inner)
                shell.merge([shell.copy(), inner])
            left = right

    def _branches(self, node: Node, shell: Shell) -> None:
        """Every branch, and a loop once: which one is taken, and how often, is known only when it runs."""
        clauses, outcomes = [node, *(child for child in node.children if child.type in _CLAUSES)], list[Shell]()
        for clause in clauses:
            own = [child for child in clause.children if child.type not in _CLAUSES]
            body = next((n for n, child in enumerate(own) if child.type in _BODY), len(own))
            variable = text_of(clause.child_by_field_name("variable"))
            if variable:
                values = self.words.all_of(clause.children_by_field_name("value"), shell)
            elif clause.type != "c_style_for_statement":
                self._sequence(own[:body], shell)
            loops = "for" in clause.type or clause.type == "while_statement"
            inner = shell.copy(sure=False, repeated=shell.repeated or (loops and not (variable and len(values) == 1)))
            if variable:
                inner.variables[variable] = values[0] if len(values) == 1 else unknown(f"${variable}")
            self._sequence(own[body:], inner)
            outcomes.append(inner)
        shell.merge(outcomes if clauses[-1].type == "else_clause" else [shell.copy(), *outcomes])

    def _pipeline(self, nodes: Sequence[Node], shell: Shell) -> None:
        """The stages of a pipe, each in a shell of its own; what `echo` and `cat` print is the next one's input."""
        last, stdin = None, shell.stdin
        for node in nodes:
            if not node.is_named:
                if last is not None:
                    last.end = node.type
                continue
            before = len(self.commands)
            self._walk(node, shell.copy(stdin=stdin))
            last = self._last(before, shell)
            files = [word for word in last.argv[1:] if word[:1] != "-"] if last is not None else []
            if last is None or last.name not in ("echo", "cat"):
                stdin = None
            elif last.name == "echo":
                stdin = Input(" ".join(word for word in last.argv[1:] if word not in ("-e", "-n")))
            elif files:
                stdin = Input(file=files[-1])

    def _redirected(self, node: Node, shell: Shell) -> None:
        before, body = len(self.commands), node.child_by_field_name("body")
        outputs, stdin = self._redirects(node.children, shell)
        with shell.having(outputs=outputs or shell.outputs, stdin=stdin or shell.stdin):
            if body is not None:
                self._walk(body, shell)
        last = self._last(before, shell)
        if last is None:
            return
        heredoc = next((child for child in node.children if child.type == "heredoc_redirect"), None)
        if last.words == ["exec"] and outputs:
            shell.outputs = outputs
        if heredoc is None:
            return
        if body is not None and body.type == "command":  # `python - <<EOF`: the parser leaves the `-` out
            gap = decoded(between(node, body.end_byte, heredoc.start_byte))
            if "<" not in gap and ">" not in gap:
                last.words += gap.split()
                last.argv += gap.split()
                last.stop += len(gap.rstrip()) if last.stop else 0
        for child in heredoc.children:  # `cat <<EOF | bash`: what follows the delimiter stands inside of it
            if child.type in ("&&", "||", "pipeline"):
                last.end = child.children[0].type if child.children else child.type
            if child.type in ("pipeline", "list", "command"):
                with shell.having(stdin=stdin if last.name == "cat" else None):
                    self._walk(child, shell)

    def _redirects(self, nodes: Sequence[Node], shell: Shell) -> tuple[tuple[str, ...], Input | None]:
        """The files to which these redirections send standard output, and what they give as standard input."""
        outputs, stdin = list[str](), None
        for node in nodes:
            if node.type == "herestring_redirect":
                stdin = Input(" ".join(self.words.all_of(node.children[1:], shell)))
            elif node.type == "heredoc_redirect":
                outputs += self._redirects(node.children, shell)[0]
                stdin = Input(self._heredoc(node, shell), line=self._line(node, shell) + (not shell.fixed))
            elif node.type == "file_redirect":
                to = node.child_by_field_name("destination")
                word, sign = self.words.one(to, shell), next((c.type for c in node.children if not c.is_named), "")
                descriptor = text_of(node.child_by_field_name("descriptor"))
                if to is None or to.type == "process_substitution":
                    continue
                if sign == "<":
                    stdin = Input(file=word)
                elif sign.strip("&|").startswith(">") and descriptor in ("", "1") and not _TERMINAL.fullmatch(word):
                    outputs.append(shown(word))
        return tuple(outputs), stdin

    def _heredoc(self, node: Node, shell: Shell) -> str:
        body = text_of(next((child for child in node.children if child.type == "heredoc_body"), None))
        start = text_of(next((child for child in node.children if child.type == "heredoc_start"), None))
        if not body or start[:1] in ("'", '"', "\\"):
            return body
        quoted = re.sub(r'(?<!\\)"', '\\"', body)  # the parser sees variables in strings, not in all of these
        root = parsed(f'x="{quoted}"')
        return self.words.one(root.children[0].child_by_field_name("value"), shell) if root and root.children else body

    def _broken(self, node: Node, shell: Shell) -> None:
        """What the parser could not place: statements in it are read, the rest word by word."""
        at = node.start_byte
        for child in [*(child for child in node.children if child.type in _WHOLE), None]:
            text = between(node, at, child.start_byte if child is not None else node.end_byte)
            above = 0 if shell.fixed else between(node, node.start_byte, at).count(b"\n")
            self._word_by_word(decoded(text), self._line(node, shell) + above, shell)
            if child is not None:
                self._walk(child, shell)
                at = child.end_byte

    def _too_deep(self, text: str, line: int, shell: Shell) -> None:
        shell.unread("it is nested too deeply")
        self._word_by_word(text, line, shell)

    def _word_by_word(self, source: str, line: int, shell: Shell) -> None:
        """Split a text at its separators, for what it may kill."""
        with shell.having(depth=shell.depth + 1):
            for n, text in enumerate(source.split("\n")):
                for part in re.split(r"[;|&()]+", text):
                    words = part.partition("#")[0].split()
                    while words and words[0] in _SYNTAX:
                        words.pop(0)
                    if words and not shell.work.spend(100 + len(part)):
                        self._add(words, line if shell.fixed else line + n, shell)

    # words and variables

    def _substitution(self, node: Node, shell: Shell) -> str:
        """Follow a command substitution; what it prints, if it is about paths."""
        before, inner = len(self.commands), shell.copy(sure=False, **shell.inner(self._line(node, shell)))
        self._sequence(node.children, inner)
        own = [one for one in self.commands[before:] if one.depth == inner.depth]
        value = None if node.type == "process_substitution" else printed(own, inner.cwd, shell.cwd)
        return unknown(text_of(node)) if value is None else value

    def _assign(self, node: Node, shell: Shell) -> str:
        """Carry out an assignment; `NAME=value` as one word."""
        target, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        name, more = text_of(target), any(child.type == "+=" for child in node.children)
        old = shell.variables.get(name, "") if more else ""
        if value_node is not None and value_node.type == "array":
            items = self.words.all_of([child for child in value_node.children if child.type in WORDS], shell)
            shell.variables[name] = [*([old] if old and isinstance(old, str) else old), *items]
            return f"{name}={' '.join(items)}"
        value = self.words.one(value_node, shell)
        if target is not None and target.type == "subscript":
            shell.variables.pop(name.partition("[")[0], None)
        elif isinstance(old, list):
            shell.variables[name] = ["".join(old[:1]) + value, *old[1:]]
        else:
            shell.variables[name] = old + value
        return f"{name}={value}"

    def _declare(self, node: Node, shell: Shell) -> None:
        words = [text_of(node.children[0])]
        for child in node.children[1:]:
            assigns = child.type == "variable_assignment"
            words += [self._assign(child, shell)] if assigns else self.words.of(child, shell)
        exports = words[0] == "export" or (words[0] in ("declare", "typeset") and "-x" in words[1:3])
        for name in (word.partition("=")[0] for word in words[1:]):
            if exports and re.fullmatch(r"\w+", name):
                shell.exported.add(name)
            if words[0] == "unset":
                shell.variables.pop(name, None)
        self._add(words, self._line(node, shell), shell, (node.start_byte, node.end_byte))

    # commands

    def _command(self, node: Node, shell: Shell) -> None:
        words, own, stop = list[str](), shell.copy(), node.start_byte
        for child in node.children:
            if child.type not in _REDIRECTS:
                assigns = child.type == "variable_assignment"
                parts = child.children if child.type == "command_name" else [child]
                words += [self._assign(child, own)] if assigns else self.words.all_of(parts, shell)
                stop = child.end_byte
        outputs, stdin = self._redirects(node.children, shell)
        if not words:
            return
        with shell.having(outputs=outputs or shell.outputs, stdin=stdin or shell.stdin):
            self._run(words, self._add(words, self._line(node, shell), shell, (node.start_byte, stop)), shell)

    def _line(self, node: Node, shell: Shell) -> int:
        return shell.line if shell.fixed else shell.line + node.start_point[0]

    def _add(self, words: list[str], line: int, shell: Shell, span: tuple[int, int] = (0, 0)) -> SimpleCommand:
        """Note a command. words: with their marks, behind its assignments. span: its bytes in the syntax tree."""
        argv, assigned, folder = programs.unwrapped(words)
        start, stop = (0, 0) if shell.depth or shell.where else (self.offsets[at] for at in span)
        simple = SimpleCommand(
            [shown(word) for word in words],
            [shown(word) for word in argv],
            line,
            shell.where,
            depth=shell.depth,
            start=start,
            stop=stop,
            cwd=shell.below(folder),
            environment=dict(shown(word).split("=", 1) for word in assigned),
            outputs=shell.outputs,
            pipefail=shell.pipefail,
            live=shell.live,
            parent=shell.parent,
            python=shell.python,
            repeated=shell.repeated,
            sure=shell.sure,
        )
        self.commands.append(simple)
        return simple

    def _run(self, words: list[str], simple: SimpleCommand, shell: Shell) -> None:
        """Follow what a command does: to the shell it runs in, and by the texts and scripts that it starts.

        words: its own, with their marks.
        """
        argv, assigned, _ = programs.unwrapped(words)
        name, inner = simple.name, shell.inner(simple.line)
        child = shell.copy()
        for key, _, value in (word.partition("=") for word in assigned):
            child.variables[key] = value
            child.exported.add(key)
        child = child.child(cwd=simple.cwd, stdin=shell.stdin)
        if name in self.functions and not assigned and argv[0] == name:
            self.call(name, argv[1:], shell)
        elif name in ("source", ".") and argv[1:]:
            self._script(argv[1:], simple, shell, sourced=True)
        elif name in SHELLS:
            self._shell(argv, simple, child)
        elif name == "eval":
            with shell.having(**inner):
                self.read(" ".join(simple.argv[1:]), shell)
        elif name == "ssh":
            away = child.copy(away=True, cwd=None, parent=simple)
            self._nested(" ".join(simple.argv[programs.first_operand(simple.argv) + 1 :]), simple, away)
        elif name == "trap" and argv[2:]:
            self.read(simple.argv[1], shell.copy(sure=False, **inner))
        elif name in ("make", "gmake"):
            self._make(argv, simple, child)
        elif name in programs.PASS_ON or name == "sbatch":
            self._passed_on(argv, simple, child)
        elif argv and (_SCRIPT.match(argv[0]) or ("/" in argv[0] and not argv[0].endswith(".py"))):
            known = bool(_SCRIPT.match(argv[0]))
            self._script(argv, simple, child, kind="shell" if known else "", must=known)
        for text in programs.nested_texts(simple.words, simple.argv):
            self.read(text, child.copy(**inner, sure=False, away=child.away or name in programs.FAR))
        if not shell.python and (file := programs.python_file(argv) or self._installed(name)):
            self._script([file], simple, child, kind="python", must=file in argv and name.startswith("python"))
        _change(name, argv, shell)
        self.made.append(simple)

    def _nested(self, text: str, simple: SimpleCommand, shell: Shell) -> None:
        """Read a text that another shell is given, as an argument or as its input."""
        stdin = shell.stdin or Input()
        if text or not stdin.line:
            self.read(text or shown(stdin.text), shell.copy(**shell.inner(simple.line, stdin=None)))
        else:
            self.read(shown(stdin.text), shell.copy(**shell.inner(stdin.line, stdin=None, fixed=shell.fixed)))

    def _shell(self, argv: list[str], simple: SimpleCommand, shell: Shell) -> None:
        """`bash -c TEXT`, `bash FILE`, or what it reads from standard input."""
        shell.pipefail = "pipefail" in argv[1:4]
        script = argv[programs.first_operand(argv) :]
        if at := programs.text_after_c(argv):
            shell.arguments = argv[at + 2 :]
            self._nested(simple.argv[at], simple, shell)
        elif script and script[0][:1] not in ("<", "&") and script[0] not in ("-", "/dev/stdin"):
            self._script(script, simple, shell)
        elif shell.stdin is not None and shell.stdin.file:
            self._script([shell.stdin.file], simple, shell)
        else:
            self._nested("", simple, shell)

    def call(self, name: str, arguments: list[str], shell: Shell) -> None:
        """Follow a function; one that calls itself is read once."""
        node, place = self.functions[name]
        self.called.add(name)
        if name not in self.active:
            self.active.append(name)
            with shell.having(arguments=arguments, sure=False, exited=shell.exited, **place):
                self._walk(node, shell)
            self.active.pop()

    def _passed_on(self, argv: list[str], simple: SimpleCommand, shell: Shell) -> None:
        """The command in the arguments of srun, `ray job submit`, sbatch and the like."""
        name, parent = simple.name, simple
        where = next((b for a, b in pairwise(argv) if a == "--working-dir"), "")
        shell.cwd = shell.below(where)
        if name == "sbatch":
            shell.parent = simple
            if isinstance(text := shell.variables.get("COMMAND"), str) and "COMMAND" in shell.exported:
                self._nested(shown(text), simple, shell)
        if name in ("sbatch", "torchrun", "accelerate", "deepspeed", "uv", "conda", "find"):
            pattern = _JOB if name == "sbatch" else _SCRIPT
            if at := next((n for n, word in enumerate(argv) if n and pattern.match(word)), 0):
                self._script(argv[at:], simple, shell, must=False)
            return
        if count := len(programs.nested_argv(simple.argv)):
            changes = shell.inner(simple.line, parent=parent, sure=False, away=shell.away or name in programs.FAR)
            far, words = shell.copy(**changes), argv[-count:]
            self._run(words, self._add(words, simple.line, far), far)

    def _make(self, argv: list[str], simple: SimpleCommand, shell: Shell) -> None:
        names, targets, words = list[str](), list[str](), iter(argv[1:])
        for word in words:
            option, joined, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
            if option in ("-C", "--directory", "-f", "--file", "--makefile"):
                value = value if joined else next(words, "")
                if option in ("-C", "--directory"):
                    shell.cwd = shell.below(value)
                else:
                    names.append(value)
            elif match := _ASSIGNMENT.match(word):
                shell.variables[match[1]] = match[2]
                shell.exported.add(match[1])
            elif not word.startswith("-"):
                targets.append(word)
        for name in names or ["Makefile"]:
            self._script([name, *targets], simple, shell, kind="make", must=False)

    def _script(
        self,
        argv: list[str],
        simple: SimpleCommand,
        shell: Shell,
        *,
        sourced: bool = False,
        must: bool = True,
        kind: str = "shell",
    ) -> None:
        """Read a script with its arguments: in this shell if it is sourced, else this one is its own."""
        if len(self.scripts) > _MOST_SCRIPTS:
            return
        name, path = shown(argv[0]), shell.path(argv[0])
        made = any(programs.may_make(one.name, [*one.words, *one.outputs], name) for one in self.made)
        must = bool(must and shell.sure and path and not made)
        script = Script(name, path, simple.line, shell.cwd, must, bool(shell.where), kind)
        if path:
            script = self._opened(script, argv[1:])
            script = replace(script, where=script.path.removeprefix(f"{self.base}/" if self.base else ""))
        else:
            script = replace(script, why="where it lies is known only when it runs")
        known = self.scripts.get((name, path))
        if script.text is not None or kind in ("shell", "make") or (must and not shell.where):
            self.scripts[name, path] = replace(known or script, must=must or (known is not None and known.must))
        if script.text is None or path in self.active or (kind == "python" and known):
            return
        self.active.append(path)
        own = {"where": script.where, "line": 1, "fixed": False, "depth": 0, "stdin": None}
        own |= {"sources": (path, *(shell.sources if sourced else ())), "python": False}
        if kind == "python":
            for line, text in python_calls.commands(script.text):
                self.read(text, shell.child(**own | shell.inner(line, python=True, sure=False, arguments=[])))
        elif sourced:
            arguments = argv[1:] or shell.arguments
            with shell.having(**own, arguments=arguments, exited=shell.exited):
                self.read(script.text, shell)
        else:
            arguments = [] if kind == "make" else argv[1:]
            self.read(script.text, shell.copy(**own, arguments=arguments, script=path))
        self.active.pop()

    def _installed(self, name: str) -> str:
        """The file behind a program that the project's own package installs; "" for any other."""
        if not name or name in self.functions or name in SHELLS | programs.BESIDE | programs.PASS_ON:
            return ""
        if self.entry_points is None:
            self.entry_points = python_calls.entry_points(self.base, self.open_text)
        return self.entry_points.get(name, "")

    def _opened(self, script: Script, arguments: list[str]) -> Script:
        python = script.kind == "python"
        paths = programs.python_paths(script.name, script.path, script.cwd) if python else [script.path]
        if script.kind == "make" and script.name == "Makefile":
            paths = [posixpath.join(posixpath.dirname(script.path), name) for name in _MAKEFILES]
        for path in paths:
            try:
                text = self.open_text(path)
            except (OSError, ValueError) as failure:
                if script.why in ("", ABSENT):  # what is there, and cannot be read, says more
                    script = replace(script, why=getattr(failure, "strerror", "") or "it cannot be read")
                continue
            if path == f"{script.path}.py":
                return replace(script, has_py=True)
            if script.kind == "make":
                text = programs.recipe_lines(text, [shown(word) for word in arguments])
            if script.kind == "" and not _SHEBANG.match(text):
                return script
            return replace(script, path=path, text=text, why="")
        return script


def _is_test(node: Node) -> bool:
    """Whether a statement only tests something."""
    if node.type == "negated_command":
        node = node.children[-1]
    return node.type == "test_command" or text_of(node).split(None, 1)[:1] == ["test"]


def _change(name: str, argv: Sequence[str], shell: Shell) -> None:
    """Apply the effect of a builtin on what comes after it."""
    if name in ("cd", "pushd"):
        where = next((word for word in argv[1:] if not re.match(r"-[LPe@-]*\Z", word) or word == "-"), "")
        home = shell.value("HOME")
        where = where or (home if isinstance(home, str) else unknown("$HOME"))
        if name == "pushd":
            shell.stack.append(shell.cwd)
        shell.cwd = None if where == "-" else shell.below(where)
    elif name == "popd":
        shell.cwd = shell.stack.pop() if shell.stack else None
    elif name in ("exit", "return"):
        shell.exited = True
    elif name == "shift":
        count = number(argv[1]) if len(argv) > 1 else 1
        shell.arguments = shell.arguments[1 if count is None else count :]
    elif name == "set":
        if "pipefail" in argv[1:]:
            shell.pipefail = not argv[argv.index("pipefail") - 1].startswith("+")
        if "--" in argv[1:]:
            shell.arguments = list(argv[argv.index("--") + 1 :])
    elif name == "read" and len(argv) > 1:
        shell.variables.pop(argv[-1], None)
        if shell.stdin is not None and shell.stdin.text:
            shell.variables[argv[-1]] = shell.stdin.text.strip()
