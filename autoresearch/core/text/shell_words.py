"""Splits shell text into simple commands, sufficient for lint: words, quotes, operators, comments, lines.

Not a full parser: no expansion, no grammar. The result is never executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_KEYWORDS = frozenset(["then", "do", "else", "elif", "if", "while", "until", "!", "{", "}", "fi", "done", "esac"])
_WRAPPERS: Mapping[str, tuple[str, int]] = {  # options that take a value, and the number of operands before the command
    "sudo": ("-u -g -h -p -C -T -R -D --user --group --chdir", 0),
    "env": ("-u --unset -C --chdir -S --split-string", 0),
    "xargs": ("-n -P -I -L -d -a -s -E", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n", 0),
    "exec": ("-a", 0),
    "time": ("-o -f", 0),
    "doas": ("-u -C", 0),
    "timeout": ("-s -k --signal --kill-after", 1),
    "taskset": ("", 1),
    "chrt": ("-T -P -D", 1),
    "flock": ("-w -E", 1),
    "numactl": ("-N -m -C -i -p", 0),
    "stdbuf": ("-i -o -e", 0),
    **dict.fromkeys(("nohup", "command", "builtin", "setsid", "unbuffer"), ("", 0)),
}
_TAKES_TEXT = frozenset({"su", "runuser", "script", "sg"})  # a command text after -c
_CHDIR = frozenset({"-C", "-D", "--chdir"})  # of env and sudo
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f\v]+|\\\n)|(?P<comment>\#[^\n]*)|(?P<operator>\n|[()]|[|&;<>]{1,2})"
    r"|(?P<word>(?:[^\s\\'\"|&;()<>`]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|(?<=\$)\([^()]*\))+)|(?P<stray>.)",
    re.DOTALL,
)
_PIECE = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)


@dataclass(slots=True)
class Simple:
    """One simple command: its words without quotes, its line, and the operator that ends it."""

    line: int
    words: list[str] = field(default_factory=list)
    end: str = ""
    depth: int = 0  # 0: the text itself; more: inside `bash -c '...'`, `$(...)`, `ssh host '...'`
    start: int = 0  # offset of its first word in the text that contains it
    stop: int = 0  # offset after its last word in that text

    @property
    def argv(self) -> list[str]:
        """The words from the command name on, without assignments and wrappers such as sudo."""
        return self._unwrapped()[0]

    @property
    def folder(self) -> str:
        """The directory that a wrapper changes to (`env -C X`); "" if none does."""
        return self._unwrapped()[1]

    def _unwrapped(self) -> tuple[list[str], str]:
        words, folder = list(self.words), ""
        while words:
            head = words[0].rsplit("/", 1)[-1]
            if head in _WRAPPERS:
                options, operands = _WRAPPERS[head]
                words.pop(0)
                while words and words[0].startswith("-"):
                    option, joined, value = words.pop(0).partition("=")
                    if not joined and words and option in options.split():
                        value = words.pop(0)
                    folder = value if option in _CHDIR and head in ("env", "sudo") else folder
                del words[:operands]
            elif words[0] in _KEYWORDS or re.match(r"[A-Za-z_]\w*=", words[0]):
                words.pop(0)
            else:
                return words, folder
        return [], folder

    @property
    def name(self) -> str:
        """The program name without directories; "" if there is none."""
        argv = self.argv
        return argv[0].rsplit("/", 1)[-1] if argv else ""


def simple_commands(text: str, *, line: int = 1, depth: int = 0) -> Iterator[Simple]:
    """The simple commands of a script in order; nested ones follow the command that contains them."""
    current, ends, at = Simple(line, depth=depth), list[str](), 0
    awaiting_end = False  # the next word is the delimiter of a here-document
    while match := _TOKEN.match(text, at):
        at, token, kind = match.end(), match.group(), match.lastgroup
        if kind == "word":
            if awaiting_end:
                ends.append(unquoted(token.lstrip("-")))
            elif not current.words:
                current.line, current.start = line, match.start()
            current.words += [] if awaiting_end else [unquoted(token)]
            current.stop = current.stop if awaiting_end else at
            awaiting_end = False
        elif kind == "operator" and "<" not in token and ">" not in token:
            current.end = token
            skip = token == "\n" and ends and current.name not in SHELLS
            yield from _with_nested(current)
            current = Simple(line, depth=depth)
            if skip:
                body = _body_end(text, at, ends)
                line, at, ends = line + text.count("\n", at, body), body, []
        elif token == "<<":
            awaiting_end = True
        line += token.count("\n")
    yield from _with_nested(current)


def unquoted(word: str) -> str:
    """A shell word without quotes and backslashes; nothing is expanded."""

    def piece(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        if match[2] is not None:
            return re.sub(r"\\([\"\\$`\n])", lambda m: "" if m[1] == "\n" else m[1], match[2])
        return "" if match[3] == "\n" else match[3]

    return _PIECE.sub(piece, word)


def _body_end(text: str, at: int, ends: list[str]) -> int:
    """Offset after the here-documents that begin at `at`."""
    for end in ends:
        match = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(text, at)
        if match is None:
            return len(text)
        at = min(match.end() + 1, len(text))
    return at


def _with_nested(simple: Simple) -> Iterator[Simple]:
    if simple.words or simple.end.strip():
        yield simple  # without words: a lone operator, such as the `&` after a parenthesis
    if simple.depth < 4:
        for text in _nested(simple):
            for inner in simple_commands(text, depth=simple.depth + 1):
                inner.line = simple.line
                yield inner


def _substituted(word: str, start: int) -> str:
    """The text inside the parenthesis that opens before `start`."""
    depth = 1
    for at in range(start, len(word)):
        depth += (word[at] == "(") - (word[at] == ")")
        if not depth:
            return word[start:at]
    return word[start:]


def _nested(simple: Simple) -> Iterator[str]:
    argv = simple.argv
    name = simple.name
    if name in SHELLS and any(re.match(r"-\w*c\w*\Z", w) for w in argv[1:4]):
        yield next((w for w in argv[1:] if not w.startswith("-")), "")
    elif name == "eval":
        yield " ".join(argv[1:])
    elif name in _TAKES_TEXT and "-c" in argv[1:-1]:
        yield argv[argv.index("-c") + 1]
    elif name == "ssh":
        yield " ".join([w for w in argv[1:] if not w.startswith("-")][1:])
    for option, text in pairwise(simple.words):
        if option in ("-S", "--split-string") and "env" in simple.words[:2]:
            yield text
    for word in simple.words:
        if (start := word.find("$(")) >= 0:
            yield _substituted(word, start + 2)
        elif word.count("`") > 1:
            yield word.split("`")[1]
