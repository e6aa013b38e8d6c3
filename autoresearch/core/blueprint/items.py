"""The items of a section: `- description: ...`, `- dir: ...`, `- content 1: ...`, paragraphs, code blocks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from autoresearch.core.blueprint.document import Section, SourceLine


class LabelRole(StrEnum):
    """The kind of text that an item's label announces."""

    VALUE = "value"  # a typed key: dir, path, command, time, purpose
    CONTENT = "content"  # content n
    PLAIN = "plain"  # a paragraph, or an item without a known label
    DEFAULT = "default"  # `default:`, left over from the published template: not a value
    TEXT = "text"  # description, hint, warning, note, example: for readers


_TEXT_WORDS = {
    "description", "desc", "hint", "hints", "warning", "warn", "caution", "note", "notes", "example",
    "examples", "e.g", "eg", "todo", "reason", "remark", "explanation", "tip", "important", "attention",
    "caveat", "描述", "说明", "提示", "警告", "注意", "备注", "例如", "示例", "例子", "解释", "原因",
}  # fmt: skip
_CONTENT_WORDS = {"content", "contents", "内容"}
_DEFAULT_WORDS = {"default", "默认", "默认值", "缺省"}
_PATH_WORDS = {
    "dir", "directory", "path", "folder", "file", "value", "location", "codebase", "executable", "exe",
    "python", "interpreter", "venv", "yaml", "recipe", "config", "root",
    "目录", "路径", "文件", "位置", "解释器",
    "值",
}  # fmt: skip
_VALUE_WORDS = {
    "exp_purpose": {"purpose", "goal", "hypothesis", "aim", "value", "目的", "目标", "假设"},
    "exp_codebase_dir": _PATH_WORDS,
    "exp_venv_exe": _PATH_WORDS,
    "exp_yaml_path": _PATH_WORDS,
    "exp_result_dir": _PATH_WORDS,
    "exp_launch_command": {"command", "cmd", "launch", "run", "value", "命令", "指令", "启动"},
    "exp_max_time": {
        "time", "value", "max", "maximum", "total", "maxtime", "limit", "timeout", "duration", "runtime",
        "budget", "step", "时间", "时长", "上限", "超时",
    },
}  # fmt: skip
_BULLET = re.compile(r"^(?P<indent>\s*)(?:[-*+•]|\d{1,2}[.)、])(?:\s+|$)(?P<rest>.*)$")
_LABEL = re.compile(
    r"^(?P<mark>\*\*|__|`)?(?P<label>[^\W\d][\w ./-]{0,59}?)(?: ?\d{1,2})? {0,3}"
    r"(?:[(（][^()（）]{0,80}[)）] {0,3})?(?:\*\*|__|`)? {0,3}[:：](?!//)"
    r"(?(mark)(?:\*\*|__)?)\s*(?P<rest>.*)$"
)


@dataclass(slots=True)
class SectionItem:
    """One item of a section. `first` is the text after the label on the same line."""

    role: LabelRole
    label: str
    line: int
    indent: int  # of its bullet; -1 for a paragraph
    first: str = ""
    more: list[SourceLine] = field(default_factory=list)

    @property
    def code(self) -> list[list[SourceLine]]:
        """The fenced blocks of the item, each as its lines."""
        blocks: dict[int, list[SourceLine]] = {}
        for line in self.more:
            if line.block:
                blocks.setdefault(line.block, []).append(line)
        return list(blocks.values())

    @property
    def prose(self) -> list[tuple[int, str]]:
        """(line number, text) of every line outside code blocks, dedented, without the label."""
        rest = [n for n in self.more if not n.block]
        dedented = textwrap.dedent("\n".join(n.text for n in rest)).split("\n") if rest else []
        head = [(self.line, self.first)] if self.first else []
        return head + [(n.no, text) for n, text in zip(rest, dedented, strict=True)]

    @property
    def text(self) -> str:
        """Prose and code as one text, for readers."""
        lines = [self.first] if self.first else []
        return "\n".join([*lines, *(n.text.strip() if not n.block else n.text for n in self.more)]).strip()


def items(section: Section) -> list[SectionItem]:
    """The items of a section in order; text after the tag in the heading is the first one."""
    found: list[SectionItem] = []
    if re.search(r"[:：]$", section.head) or re.fullmatch(r"[(（][^()（）]*[)）]", section.head):
        found.append(SectionItem(LabelRole.TEXT, "title", section.line, 10**6, section.head))  # nothing continues it
    elif section.head:
        found.append(_labelled(section.key, section.head, section.line, indent=-1))
    blank = False
    for line in section.body:
        if not line.block and not line.text.strip():
            blank = True
            if found and found[-1].more:
                found[-1].more.append(line)
            continue
        last = found[-1] if found else None
        if last is not None and _continues(section.key, line, last, blank):
            last.more.append(line)
        else:
            found.append(_begun(section.key, line))
        blank = False
    for item in found:
        while item.more and not item.more[-1].block and not item.more[-1].text.strip():
            item.more.pop()
    return found


def _continues(key: str, line: SourceLine, last: SectionItem, blank: bool) -> bool:
    """Whether a line continues the item before it."""
    if line.block:
        same = bool(last.more) and last.more[-1].block == line.block
        waiting = not last.first and not last.more and last.role is not LabelRole.PLAIN
        return same or line.indent > last.indent or waiting
    before = last.more[-1] if last.more else None
    written = before.text if before is not None else last.first
    if not blank and not (before and before.block) and written.endswith("\\"):
        return True
    if last.indent >= 0 or last.role is not LabelRole.PLAIN:
        return line.indent > max(last.indent, 0)
    bullet = _BULLET.match(line.text)
    label = _LABEL.match(line.text.strip())
    quiet = (LabelRole.PLAIN, LabelRole.VALUE) if key in ("exp_purpose", "exp_max_time") else (LabelRole.PLAIN,)
    begins = bullet or (label is not None and _role(key, label["label"]) not in quiet)
    return (
        not begins
        and not (before and before.block)
        and (not blank or (line.indent > 0 and _opens_list(last)))
    )


def _opens_list(last: SectionItem) -> bool:
    """Whether the item ends in a colon: then the indented block below belongs to it, even after a blank line."""
    tail = [text for _, text in last.prose if text.strip()][-1:]
    return bool(tail) and tail[0].rstrip().endswith((":", "："))


def _begun(key: str, line: SourceLine) -> SectionItem:
    if line.block:
        return SectionItem(LabelRole.PLAIN, "", line.no, -1, "", [line])
    bullet = _BULLET.match(line.text)
    if bullet:
        return _labelled(key, bullet["rest"], line.no, indent=line.indent)
    label = _LABEL.match(line.text.strip())
    if label and _role(key, label["label"]) is not LabelRole.PLAIN:
        return _labelled(key, line.text.strip(), line.no, indent=line.indent or -1)
    return SectionItem(LabelRole.PLAIN, "", line.no, -1, "", [line])


def _labelled(key: str, text: str, line: int, *, indent: int) -> SectionItem:
    label = _LABEL.match(text)
    role = _role(key, label["label"]) if label else LabelRole.PLAIN
    if label is None or role is LabelRole.PLAIN:
        return SectionItem(LabelRole.PLAIN, "", line, indent, text.strip())
    first = label["rest"].rstrip()
    if label["mark"] and first.endswith(label["mark"]) and not first.startswith(label["mark"]):
        first = first[: -len(label["mark"])]
    if re.fullmatch(r"[|>][+-]?", first.strip()):  # the indicator of a YAML block scalar
        first = ""
    return SectionItem(role, label["label"].strip().lower(), line, indent, first)


def _role(key: str, label: str) -> LabelRole:
    name = re.sub(r"[_\s]+", " ", label.strip().lower()).strip("-. ")
    words = name.replace("-", " ").split(" ")
    if name in _CONTENT_WORDS:
        return LabelRole.CONTENT
    if name in _DEFAULT_WORDS:
        return LabelRole.DEFAULT
    if name.replace(" ", "_") == key:
        return LabelRole.VALUE
    if (
        name in _TEXT_WORDS
        or words[-1] in _TEXT_WORDS
        or name.endswith(("说明", "提示", "注意", "警告", "备注"))
    ):
        return LabelRole.TEXT
    wanted = _VALUE_WORDS.get(key, set())
    chinese = any(ord(w[0]) > 0x2E80 and name.endswith(w) for w in wanted)
    return LabelRole.VALUE if words[-1] in wanted or chinese else LabelRole.PLAIN


def label_of(text: str) -> tuple[str, str]:
    """(label, rest) of `Some words (a remark): rest`; ("", text) where there is no label."""
    match = _LABEL.match(text.strip())
    return (match["label"].strip(), match["rest"]) if match else ("", text)


def with_role(found: Sequence[SectionItem], *roles: LabelRole) -> Iterator[SectionItem]:
    """The items that have one of these roles, in order."""
    return (item for item in found if item.role in roles)
