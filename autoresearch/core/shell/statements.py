"""Follows the statements of a parsed shell text: lists, pipes, branches, loops, redirections, assignments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from autoresearch.core.shell import programs
from autoresearch.core.shell.commands import OpenText, Script, SimpleCommand, TextFrame, printed
from autoresearch.core.shell.programs import SHELLS, base
from autoresearch.core.shell.words import (
    DEEPEST,
    Scope,
    WordExpander,
    brackets,
    decoded,
    depth_of,
    parsed,
    shown,
    text_of,
    unknown,
)

_SCRIPT = re.compile(r"\S+\.(?:sh|bash)\Z")
_WHOLE = frozenset({"command", "pipeline", "list", "redirected_statement"})
_BODIES = frozenset({"elif_clause", "else_clause"})
_SYNTAX = frozenset({"if", "then", "fi", ";", "&", "while", "until", "do", "done", "(", ")", "{", "}", "\n", ";;", "!"})


@dataclass(slots=True)
class Statements:
    """Follows the grammar of a text; what a command does is up to `run`."""

    open_text: OpenText
    base: str
    commands: list[SimpleCommand] = field(default_factory=list)
    made: list[SimpleCommand] = field(default_factory=list)  # earlier ones that may have created a file
    scripts: dict[tuple[str, str], Script] = field(default_factory=dict)
    functions: dict[str, tuple[Node, TextFrame]] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    active: list[str] = field(default_factory=list)  # paths of the scripts that are being read

    def read(self, text: str, scope: Scope, text_frame: TextFrame) -> None:
        """Parse and follow a text; one that is nested too deeply is read word by word."""
        if text_frame.level > DEEPEST or scope.budget.spend(len(text)):
            return
        root = parsed(text) if brackets(text) <= DEEPEST else None
        depth = DEEPEST + 1 if root is None else depth_of(root, DEEPEST)
        if root is not None and text_frame.level + depth <= DEEPEST:
            self._sequence(root.children, scope, replace(text_frame, level=text_frame.level + depth))
            return
        self._word_by_word(text, text_frame.line, scope, text_frame)
        if depth > DEEPEST:
            self.unread(text_frame, "it is nested too deeply")

    def unread(self, text_frame: TextFrame, why: str) -> None:
        """Note that a text was not read to its end."""
        name = text_frame.where or "the command"
        self.scripts[name, why] = Script(name, "", text_frame.line, nested=bool(text_frame.where), why=why)

    def uncalled(self, scope: Scope) -> None:
        """Read the functions that nobody called, as dead code."""
        for name in [name for name in self.functions if name not in self.called]:
            node, text_frame = self.functions[name]
            self.walk(node, scope.copy(sure=False, live=False), text_frame)

    # statements

    def _sequence(self, nodes: Sequence[Node], scope: Scope, text_frame: TextFrame) -> None:
        before = len(self.commands)
        for node in nodes:
            if node.type == "&":
                self._end(before, text_frame, "&")
            elif node.type not in _SYNTAX and node.type != "comment":
                before = len(self.commands)
                self.walk(node, scope, text_frame)

    def _end(self, first: int, text_frame: TextFrame, end: str) -> None:
        """Note the operator behind the last command since `first`."""
        for simple in reversed(self.commands[first:]):
            if (simple.depth, simple.where) == (text_frame.depth, text_frame.where):
                simple.end = end
                return

    def walk(self, node: Node, scope: Scope, text_frame: TextFrame) -> None:
        """Follow a statement."""
        if scope.budget.spend(100):
            return
        match node.type:
            case "command":
                self._command(node, scope, text_frame)
            case "variable_assignment":
                self.assign(node, scope, text_frame)
            case "declaration_command" | "unset_command":
                self._declare(node, scope, text_frame)
            case "list":
                self._list(node, scope, text_frame)
            case "pipeline":
                self._pipeline(node.children, scope, text_frame)
            case "redirected_statement":
                self._redirected(node, scope, text_frame)
            case "subshell":
                self._sequence(node.children, scope.copy(), text_frame)
            case "if_statement":
                self._if(node, scope, text_frame)
            case "case_statement":
                self._case(node, scope, text_frame)
            case "for_statement" | "select_statement":
                self._for(node, scope, text_frame)
            case "while_statement" | "c_style_for_statement":
                inner = scope.copy(sure=False)
                self._sequence(node.children, inner, text_frame)
                scope.merge([scope.copy(), inner])
            case "function_definition":
                name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
                if name is not None and body is not None:
                    self.functions[text_of(name)] = (body, text_frame)
            case "test_command":
                self.words(scope, text_frame).all_of(_substitutions(node))
            case "ERROR":
                self._broken(node, scope, text_frame)
            case _:
                self._sequence(node.children, scope, text_frame)

    def _list(self, node: Node, scope: Scope, text_frame: TextFrame) -> None:
        left, operator, right = node.children[0], node.children[1], node.children[-1]
        before = len(self.commands)
        self.walk(left, scope, text_frame)
        self._end(before, text_frame, operator.type)
        tests = _is_test(left)
        if operator.type == "&&" and not tests:
            self.walk(right, scope, text_frame)
            return
        inner = scope.copy(sure=False)
        self.walk(right, inner, text_frame)
        if tests:
            scope.merge([scope.copy(), inner])

    def _pipeline(self, nodes: Sequence[Node], scope: Scope, text_frame: TextFrame, stdin: str | None = None) -> None:
        """The stages of a pipe, each in a shell of its own; what `echo` and `cat` print is the next one's input."""
        stages = [node for node in nodes if node.type not in ("|", "|&")]
        operators = [node.type for node in nodes if node.type in ("|", "|&")]
        goes = self.outputs(stages[-1], scope, text_frame) if stages else ()
        for n, stage in enumerate(stages):
            before = len(self.commands)
            inner = scope.copy(outputs=goes if n < len(stages) - 1 and goes else scope.outputs)
            self.walk(stage, inner, text_frame)
            mine = [
                one for one in self.commands[before:] if (one.depth, one.where) == (text_frame.depth, text_frame.where)
            ]
            if stdin is not None and mine and mine[-1].name in SHELLS and not programs.first_operand(mine[-1].argv):
                self.read(
                    stdin,
                    scope.child(),
                    replace(text_frame, depth=text_frame.depth + 1, offsets=(), level=text_frame.level + 1),
                )
            stdin = None
            if mine and n + 1 < len(stages) and n < len(operators):
                mine[-1].end = operators[n]
                stdin = self._printed(mine[-1], stage, scope, text_frame)
                following = stages[n + 1]
                if (
                    mine[-1].name == "cat"
                    and text_of(following).split()[:1]
                    and (base(text_of(following).split()[0]) in SHELLS)
                ):  # `cat x.sh | bash`
                    for word in [word for word in mine[-1].argv[1:] if _SCRIPT.match(word)]:
                        self.script(word, [word], mine[-1], inner, text_frame, must=False)

    def _printed(self, simple: SimpleCommand, node: Node, scope: Scope, text_frame: TextFrame) -> str | None:
        if simple.name == "echo":
            return " ".join(word for word in simple.argv[1:] if word not in ("-e", "-n"))
        body = next((child for child in node.children if child.type == "heredoc_redirect"), None)
        return self._heredoc(body, scope, text_frame) if simple.name == "cat" and body is not None else None

    def _redirected(self, node: Node, scope: Scope, text_frame: TextFrame) -> None:
        body = node.child_by_field_name("body")
        own = self.outputs(node, scope, text_frame)
        before, outputs = len(self.commands), scope.outputs
        heredoc = next((child for child in node.children if child.type == "heredoc_redirect"), None)
        text = self._heredoc(heredoc, scope, text_frame) if heredoc is not None else None
        scope.outputs = own or outputs
        if body is not None:
            if body.type == "pipeline":
                self.walk(body, scope, text_frame)
            else:
                self._sequence([body], scope, text_frame)
        scope.outputs = outputs
        mine = [one for one in self.commands[before:] if (one.depth, one.where) == (text_frame.depth, text_frame.where)]
        if not mine:
            return
        self._skipped(node, mine[-1], text_frame)
        mine[-1].outputs = own or mine[-1].outputs
        source = next((child for child in node.children if text_of(child)[:1] == "<" and child != heredoc), None)
        if source is not None and mine[-1].name in SHELLS and not programs.first_operand(mine[-1].argv):
            word = self.words(scope, text_frame).one(source.child_by_field_name("destination"))
            self.script(word, [word], mine[-1], scope.child(), text_frame)
        if mine[-1].words == ["exec"] and own:
            scope.outputs = own
        if heredoc is None or text is None:
            return
        line = text_frame.line if text_frame.fixed else text_frame.line + heredoc.start_point[0] + 1
        last = mine[-1]
        rest = [child for child in heredoc.children if child.type in ("pipeline", "list", "command")]
        if last.name in SHELLS and not programs.first_operand(last.argv):
            self.read(text, scope.child(), replace(text_frame.inner(line), fixed=text_frame.fixed))
        elif last.name == "ssh":
            self.read(text, scope.child(away=True, cwd=None), replace(text_frame.inner(line), fixed=text_frame.fixed))
        elif last.name == "read" and len(last.argv) > 1:
            scope.variables[last.argv[-1]] = text.strip()
        for child in rest:  # `cat <<EOF | bash`: what follows the delimiter stands inside of it
            last.end = child.children[0].type if child.children and child.type != "command" else last.end
            if child.type == "pipeline":
                self._pipeline(child.children[1:], scope, text_frame, stdin=text if last.name == "cat" else None)
            else:
                self.walk(child, scope, text_frame)

    def _skipped(self, node: Node, simple: SimpleCommand, text_frame: TextFrame) -> None:
        """Add the words before a here-document that the parser leaves out: `python - <<EOF`."""
        body, data = node.child_by_field_name("body"), node.text or b""
        following = next((child for child in node.children if child.type == "heredoc_redirect"), None)
        if body is None or following is None or body.type != "command":
            return
        gap = decoded(data[body.end_byte - node.start_byte : following.start_byte - node.start_byte])
        if "<" not in gap and ">" not in gap:
            simple.words += gap.split()
            simple.argv += gap.split()
            simple.stop += len(gap.rstrip()) if simple.stop else 0

    def _heredoc(self, node: Node, scope: Scope, text_frame: TextFrame) -> str | None:
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        start = next((text_of(child) for child in node.children if child.type == "heredoc_start"), "")
        if body is None:
            return ""
        if start[:1] in ("'", '"', "\\"):
            return text_of(body)
        quoted = re.sub(r'(?<!\\)"', '\\"', text_of(body))  # the parser sees variables in strings, not in all of these
        root = parsed(f'x="{quoted}"')
        level = text_frame.level + depth_of(root, DEEPEST)
        if level > DEEPEST or not root.children:
            return text_of(body)
        string = root.children[0].child_by_field_name("value")
        return self.words(scope, replace(text_frame, level=level)).one(string)

    def outputs(self, node: Node, scope: Scope, text_frame: TextFrame) -> tuple[str, ...]:
        """The files that a statement sends standard output to."""
        files = []
        for child in node.children:
            if child.type != "file_redirect":
                continue
            operator = next((text_of(c) for c in child.children if c.type not in ("file_descriptor", "word")), "")
            descriptor = next((text_of(c) for c in child.children if c.type == "file_descriptor"), "1")
            to = child.child_by_field_name("destination")
            if to is None or not operator.strip("&|").startswith(">") or descriptor != "1":
                self.words(scope, text_frame).all_of([to] if to is not None else [])
                continue
            if to.type == "process_substitution":
                self._output(to, scope, text_frame)
                continue
            name = shown(self.words(scope, text_frame).one(to))
            if not re.fullmatch(r"\d+|-|/dev/(?:stdout|stderr|tty)", name):
                files.append(name)
        return tuple(files)

    def _if(self, node: Node, scope: Scope, text_frame: TextFrame) -> None:
        """Every branch: which one is taken is known only when it runs."""
        clauses = [node, *(child for child in node.children if child.type in _BODIES)]
        outcomes = list[Scope]()
        for clause in clauses:
            children = [child for child in clause.children if child.type not in _BODIES]
            body = next((n for n, child in enumerate(children) if child.type in ("then", "else")), len(children))
            self._sequence(children[:body], scope, text_frame)
            outcomes.insert(0, scope.copy(sure=False))
            self._sequence(children[body:], outcomes[0], text_frame)
        scope.merge(outcomes if clauses[-1].type == "else_clause" else [scope.copy(), *outcomes])

    def _case(self, node: Node, scope: Scope, text_frame: TextFrame) -> None:
        """Every branch, as above."""
        self.words(scope, text_frame).one(node.child_by_field_name("value"))
        outcomes = [scope.copy()]
        for item in (child for child in node.children if child.type == "case_item"):
            close = next((n for n, child in enumerate(item.children) if child.type == ")"), 0)
            outcomes.append(scope.copy(sure=False))
            self._sequence(item.children[close + 1 :], outcomes[-1], text_frame)
        scope.merge(outcomes)

    def _for(self, node: Node, scope: Scope, text_frame: TextFrame) -> None:
        name = node.child_by_field_name("variable")
        values = self.words(scope, text_frame).all_of(node.children_by_field_name("value"))
        body = node.child_by_field_name("body")
        inner = scope.copy(sure=False)
        if name is not None:
            inner.variables[text_of(name)] = values[0] if len(values) == 1 else unknown(f"${text_of(name)}")
        if body is not None:
            self._sequence(body.children, inner, text_frame)
        scope.merge([inner] if len(values) == 1 else [scope.copy(), inner])

    def _broken(self, node: Node, scope: Scope, text_frame: TextFrame) -> None:
        """What the parser could not place: statements in it are read, the rest word by word."""
        data, at = node.text or b"", 0
        whole = [child for child in node.children if child.type in _WHOLE]
        for child in [*whole, None]:
            stop = child.start_byte - node.start_byte if child is not None else len(data)
            line = text_frame.line + (0 if text_frame.fixed else node.start_point[0] + data.count(b"\n", 0, at))
            self._word_by_word(decoded(data[at:stop]), line, scope, text_frame)
            if child is not None:
                self.walk(child, scope, text_frame)
                at = child.end_byte - node.start_byte

    def _word_by_word(self, source: str, line: int, scope: Scope, text_frame: TextFrame) -> None:
        """Split a text at its separators, for what it may kill."""
        text_frame = replace(text_frame, depth=text_frame.depth + 1)
        for n, text in enumerate(source.split("\n")):
            for part in re.split(r"[;|&()]+", text):
                words = part.partition("#")[0].split()
                while words and words[0] in _SYNTAX | {"else", "elif"}:
                    words.pop(0)
                if words and not scope.budget.spend(100 + len(part)):
                    self.add(words, line if text_frame.fixed else line + n, scope, text_frame)

    # words and variables

    def words(self, scope: Scope, text_frame: TextFrame) -> WordExpander:
        return WordExpander(scope, lambda node, inner: self._output(node, inner, text_frame))

    def _output(self, node: Node, scope: Scope, text_frame: TextFrame) -> str:
        """Follow a command substitution; what it prints, if it is about paths."""
        before, inner = len(self.commands), scope.copy(sure=False)
        self._sequence(node.children[1:-1], inner, text_frame.inner(self._line(node, text_frame)))
        own = [one for one in self.commands[before:] if one.depth == text_frame.depth + 1]
        found = None if node.type == "process_substitution" else printed(own, inner.cwd, scope.cwd)
        return unknown(text_of(node)) if found is None else found

    def assign(self, node: Node, scope: Scope, text_frame: TextFrame) -> tuple[str, str]:
        """Carry out an assignment; (name, value as text)."""
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        words, sign = self.words(scope, text_frame), "+=" if "+=" in [c.type for c in node.children] else "="
        name = text_of(name_node) if name_node is not None else ""
        if value_node is not None and value_node.type == "array":
            items = words.all_of([child for child in value_node.children if child.type not in ("(", ")", "comment")])
            old = scope.variables.get(name, []) if sign == "+=" else []
            scope.variables[name] = [*([old] if isinstance(old, str) else old), *items]
            return name, " ".join(items)
        value = words.one(value_node)
        if name_node is not None and name_node.type == "subscript":
            scope.variables.pop(name.partition("[")[0], None)
            return name, value
        before = scope.variables.get(name, "") if sign == "+=" else ""
        if isinstance(before, list):
            scope.variables[name] = [before[0] + value, *before[1:]] if before else [value]
        else:
            scope.variables[name] = before + value
        return name, value

    def _declare(self, node: Node, scope: Scope, text_frame: TextFrame) -> None:
        words = [text_of(node.children[0])]
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                name, value = self.assign(child, scope, text_frame)
                words.append(f"{name}={value}")
            else:
                words += self.words(scope, text_frame).of(child)
        exports = words[0] == "export" or (words[0] in ("declare", "typeset") and "-x" in words[1:3])
        for word in words[1:]:
            name = word.partition("=")[0]
            if exports and re.fullmatch(r"\w+", name):
                scope.exported.add(name)
            if words[0] == "unset":
                scope.variables.pop(name, None)
        span = self._span(node, node.end_byte, text_frame)
        self.add(words, self._line(node, text_frame), scope, text_frame, span)

    # commands

    def _command(self, node: Node, scope: Scope, text_frame: TextFrame) -> None:
        words, assigned = list[str](), dict[str, str]()
        own = scope.copy() if any(child.type == "variable_assignment" for child in node.children) else scope
        expand, last = self.words(scope, text_frame), node.start_byte
        herestring: str | None = None
        for child in node.children:
            if child.type == "variable_assignment":
                name, value = self.assign(child, own, text_frame)
                assigned[name] = value
                own.exported.add(name)
                last = child.end_byte
            elif child.type == "herestring_redirect":
                herestring = " ".join(expand.all_of(child.children[1:]))
            elif child.type not in ("file_redirect", "heredoc_redirect"):
                words += expand.all_of(child.children if child.type == "command_name" else [child])
                last = child.end_byte
        outputs = self.outputs(node, scope, text_frame)
        if not words:
            return
        before = scope.outputs
        scope.outputs = outputs or before
        whole = [*(f"{name}={value}" for name, value in assigned.items()), *words]
        simple = self.add(whole, self._line(node, text_frame), scope, text_frame, self._span(node, last, text_frame))
        self.run(simple, whole, own, scope, text_frame, herestring)
        scope.outputs = before

    def _line(self, node: Node, text_frame: TextFrame) -> int:
        return text_frame.line if text_frame.fixed else text_frame.line + node.start_point[0]

    def _span(self, node: Node, stop: int, text_frame: TextFrame) -> tuple[int, int]:
        known = text_frame.offsets and not text_frame.depth
        return (text_frame.offsets[node.start_byte], text_frame.offsets[stop]) if known else (0, 0)

    def add(
        self, words: list[str], line: int, scope: Scope, text_frame: TextFrame, span: tuple[int, int] = (0, 0)
    ) -> SimpleCommand:
        """Note a command. words: with their marks, behind its assignments. span: its offsets in the text."""
        argv, assigned, folder = programs.unwrapped(words)
        simple = SimpleCommand(
            [shown(word) for word in words],
            [shown(word) for word in argv],
            line,
            text_frame.where,
            depth=text_frame.depth,
            start=span[0],
            stop=span[1],
            cwd=scope.below(scope.cwd, folder) if folder else scope.cwd,
            environment=dict(shown(word).split("=", 1) for word in assigned),
            outputs=scope.outputs,
            pipefail=scope.pipefail,
            live=scope.live,
            parent=text_frame.parent,
            python=text_frame.python,
        )
        self.commands.append(simple)
        return simple

    def run(
        self,
        simple: SimpleCommand,
        raw: list[str],
        scoped: Scope,
        scope: Scope,
        text_frame: TextFrame,
        stdin: str | None = None,
    ) -> None:
        """Follow what a command does: to the shell it runs in, and by the texts and scripts that it starts.

        raw: its words with their marks. scoped: the scope with its own assignments.
        """
        raise NotImplementedError

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
        raise NotImplementedError


def _is_test(node: Node) -> bool:
    """Whether a statement only tests something."""
    if node.type in ("list", "negated_command"):
        node = node.children[-1]
    return node.type == "test_command" or text_of(node).split(None, 1)[:1] == ["test"]


def _substitutions(node: Node) -> list[Node]:
    """The command substitutions of a test."""
    found: list[Node] = []
    for child in node.children:
        if child.type in ("command_substitution", "string", "concatenation"):
            found.append(child)
        else:
            found += _substitutions(child)
    return found
