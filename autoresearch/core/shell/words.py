"""The words of a shell text as they are written, with their offsets: quotes, comments, arrays, here-documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from autoresearch.core.text.regex import later

SUBSTITUTION = r"\$\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
_WORD = (
    rf"(?:\\.|'[^']*'|\"(?:\\.|{SUBSTITUTION}|\$(?!\()|[^\"\\$])*\"|\$\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}}"
    rf"|{SUBSTITUTION}|[<>]\((?:[^()]|\([^()]*\))*\)|`[^`]*`|[^\s;&|()<>\\'\"`])+"
)
_TOKEN = later(
    r"(?P<skip>(?:[ \t\r]|\\\n)+|(?:^|(?<=[\s;&|(]))#[^\n]*)"
    r"|(?P<test>\[\[\s.*?(?:\s\]\]|\Z)|\(\(.*?(?:\)\)|\Z))"
    r"|(?P<redirect>(?:\d*|&)(?:<<<|<<-?|>>|[<>]&|>\||<>|[<>])(?!\())"
    rf"|(?P<end>\|\||&&|\|&|;;?&?|[&|\n()])|(?P<word>{_WORD})",
    re.DOTALL | re.MULTILINE,
)
_ARRAY = later(r"\w+\+?=\Z")
PIECE = later(
    rf"\\(.)|\$?'([^']*)'|\"((?:\\.|{SUBSTITUTION}|\$(?!\()|[^\"\\$])*)\""
    rf"|(?:{SUBSTITUTION}|\$\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}}|`[^`]*`|[^\\'\"])+",
    re.DOTALL,
)
ASSIGNMENT = later(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=(.*)", re.DOTALL)
DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset"})
_NAMED = frozenset({"for", "select", "case"})
_OPENS, _CLOSES = _NAMED | {"if", "while", "until", "{"}, frozenset({"fi", "done", "esac", "}"})
_SYNTAX = frozenset({"then", "elif", "else", "do", "!", "time", "function"})


@dataclass(slots=True)
class RawWord:
    """One word and its offsets in the text."""

    text: str  # without quotes and backslashes; nothing is expanded
    start: int
    stop: int
    source: str = ""
    items: list[RawWord] | None = None  # of an array


@dataclass(slots=True)
class Statement:
    """The words between two operators. Words of syntax, such as `then`, are left out, `for` and `case` are not."""

    words: list[RawWord] = field(default_factory=list)
    redirects: list[tuple[str, RawWord]] = field(default_factory=list)
    before: str = ""  # the operator before it
    end: str = ""  # the operator behind it
    level: int = 0  # of the branches, loops, functions and subshells around it
    document: str = ""  # what it reads from `<<EOF`


def statements(text: str) -> Iterator[Statement]:
    """The statements of a text in the order in which they are written."""
    at, level, in_patterns, operator = 0, 0, False, ""
    now, waiting = Statement(), list[tuple[Statement, str]]()
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
            for statement, tag in waiting if source == "\n" else ():
                close = re.compile(rf"^[ \t]*{re.escape(tag)}[ \t]*$", re.MULTILINE).search(text, at)
                statement.document, at = text[at : close.start() if close else at], close.end() if close else at
            waiting = [] if source == "\n" else waiting
            if now.words or source in "()":
                yield now
            level = max(level + (source == "(") - (source == ")"), 0)
            now = Statement(before=source)
        elif kind == "redirect":
            operator = source
        elif operator and kind == "word":
            now.redirects.append((operator, RawWord(unquoted(source), token.start(), at, source)))
            if operator.lstrip("0123456789") in ("<<", "<<-"):
                waiting.append((now, now.redirects[-1][1].text))
            operator = ""
        elif source == "{" or (not now.words and source in _SYNTAX | _OPENS | _CLOSES):
            now.level = level
            level = max(level + (source in _OPENS) - (source in _CLOSES), 0)
            if source in _NAMED:
                now.words.append(RawWord(source, token.start(), at, source))
        else:
            now.level = now.level if now.words else level
            source = source if kind == "word" else source[:2]  # `[[` and `((` without what they test
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


def raw_commands(text: str) -> Iterator[list[RawWord]]:
    """The words of each command, and of each array that one may be given; not those of nested texts."""
    for statement in statements(text):
        if statement.words:
            yield statement.words
        yield from (word.items for word in statement.words if word.items)


def raw_assignments(text: str) -> Iterator[tuple[RawWord, str, str]]:
    """(word, name, value without quotes) of each variable that the text sets; `$NAME` for one that is added to."""
    for statement in statements(text):
        for word in statement.words:
            if match := ASSIGNMENT.fullmatch(word.text):
                whole = word.items is None and not match[2] and not match[3]
                yield word, match[1], match[4] if whole else f"${match[1]}"
            elif word.text not in DECLARES and word.text[:1] != "-":
                break


def unquoted(source: str) -> str:
    """A word without its quotes and backslashes."""

    def piece(match: re.Match[str]) -> str:
        if match[3] is not None:
            return re.sub(r"\\([\"\\$`\n])", lambda one: one[1].replace("\n", ""), match[3])
        return match[0] if match[1] is match[2] is None else match[2] or (match[1] or "").replace("\n", "")

    return PIECE.sub(piece, source)
