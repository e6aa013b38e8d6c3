"""The path that a section of a blueprint names, as it is written: nothing is expanded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoresearch.core.blueprint.document import SourceLine
from autoresearch.core.blueprint.items import LabelRole, SectionItem, label_of, with_role
from autoresearch.core.blueprint.values import CODE_SPAN, SectionValue, described, means_nothing, without_examples

_START = re.compile(r"^(?:~|\.{1,2})?/|^\.{1,2}$")
_WHOLE = re.compile(
    r"[\w.+@%=,-]+(?:/[\w.+@%=,-]*)+|[\w.-]+\.(?:ya?ml|json|toml)|python[\d.]*|auto"
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_/.:~-])"
    r"((?:~|\.{1,2})?/(?!/)[A-Za-z0-9_.+@%=,:/~${}-]*[A-Za-z0-9_/}]|[\w.-]+(?:/[\w.-]+)*\.ya?ml)"
)
_BARE = re.compile(r"[\"'*]{0,2}(?:~[\w.-]*|\.{1,2})?/(?!/)")
_SENTENCE = re.compile(  # words and punctuation of a sentence after a path; file names with spaces do not contain them
    r"[,;:!?，。；：！？.](?:\s|$)|\s[-–—]{1,2}\s|\s/|[(（](?!\d+[)）])|\s(?:是|为|在|用于|存放|其中)"
    r"|\s(?:is|are|was|were|will|has|have|holds?|contains?|lies|which|that|where|with|on|in|at|for|from|and|or"
    r"|the|an?|as|to|by|of|its?|this|see|not|but|if|then)(?=\s|$)",
    re.IGNORECASE,
)


def looks_like_path(text: str) -> bool:
    """Whether a text is a path rather than words."""
    return bool(_START.match(text) or (not re.search(r"\s", text) and _WHOLE.fullmatch(text)))


def path_in(items: Sequence[SectionItem]) -> SectionValue | None:
    """The path that a section names; None if there is none."""
    for item in with_role(items, LabelRole.VALUE):
        if value := _typed_path(item):
            return value
    contents = [v for i in with_role(items, LabelRole.CONTENT) if (v := _typed_path(i)) is not None]
    for value in [*(v for v in contents if looks_like_path(v.text) or means_nothing(v.text)), *contents]:
        if looks_like_path(value.text) or means_nothing(value.text) or not re.search(r"\s", value.text):
            return value
    plain = list(with_role(items, LabelRole.PLAIN, LabelRole.CONTENT))
    for item in plain:
        if block := next(iter(item.code), None):
            return _block_path(block)
    for item in [*plain, *described(items)]:
        for no, text in item.prose:
            if found := _said_in(text.strip(), no):
                return found
    return None


def _unless_prose(value: SectionValue) -> SectionValue:
    """Extract the path from prose such as `the code lives in /mnt/x`; a path with spaces stays whole."""
    if looks_like_path(value.text) or not re.search(r"\s", value.text) or means_nothing(value.text):
        return value
    said = _said_in(value.text, value.line)
    return said if said and _START.match(said.text) else value


def _typed_path(item: SectionItem) -> SectionValue | None:
    """The path after a label such as `dir:`, which may contain spaces."""
    if item.code and not item.first:
        return _block_path(item.code[0])
    for no, text in item.prose:
        if text.strip():
            value = _cleaned(text, no)
            return _unless_prose(value) if value and text.strip()[0] not in "`\"'*" else value
    return None


def _block_path(block: list[SourceLine]) -> SectionValue | None:
    full = [n for n in block if n.text.strip()]
    if not full:
        return None
    return SectionValue("\n".join(n.text for n in full), tuple(n.no for n in full))


def _cleaned(raw: str, no: int) -> SectionValue | None:
    """A path without surrounding quotes, trailing comment or trailing parenthesis."""
    text = raw.strip()
    if span := CODE_SPAN.match(text) or re.match(r"(\*\*|\"|')(.+?)\1(?=\s|$|[,，。;；(（])", text):
        inner = span[2].strip() if span[1].startswith("`") else span[2]
        return SectionValue(inner, (no,), (), bool(text[span.end() :].strip(" .。")))
    remarks: list[tuple[int, str, str]] = []
    for code, pattern in (
        ("inline_comment", r"(?<=\S)\s+#(?:\s.*)?$"),
        ("trailing_remark", r"(?<=\S)\s*[(（](?!\d+[)）])[^()（）]*[)）]\s*$"),
    ):
        shorter = re.sub(pattern, "", text)
        if shorter != text and shorter:
            what = "the comment" if code == "inline_comment" else "the remark in parentheses"
            remarks.append((no, code, f"{what} behind the path is not taken as a part of it: {shorter}"))
            text = shorter
    text = text.rstrip("。；，;")
    return SectionValue(text, (no,), tuple(remarks), bool(remarks)) if text else None


def _bare(text: str, no: int) -> SectionValue | None:
    """The path that a line begins with: the whole line unless a sentence follows; None if it begins with no path."""
    value = _cleaned(text, no) if _BARE.match(text) else None
    if value is None or not re.search(r"\s", value.text):
        return value
    if text[0] in "\"'*" or not _SENTENCE.search(value.text):
        return value
    path = value.text.split()[0].rstrip(".,:;，。；：")
    return SectionValue(path, (no,), (*value.remarks, _cut(path, no)), True)


def _cut(path: str, no: int) -> tuple[int, str, str]:
    return no, "path_cut", f"words follow, so the path ends at the space: {path}"


def _said_in(text: str, no: int) -> SectionValue | None:
    """The path that a line of prose names; None if it names none."""
    if not text:
        return None
    if means_nothing(text):
        return SectionValue("NA", (no,), (), len(text) > 6)
    label, rest = label_of(text)
    if label and rest and (means_nothing(rest) or looks_like_path(rest.strip("`\"' "))):
        found = _cleaned(rest, no)
        if found and not re.search(r"\s", found.text):
            return SectionValue(found.text, found.lines, found.remarks, True)
    if bare := _bare(text, no):
        return bare
    said = without_examples(text)
    for span in CODE_SPAN.finditer(said):
        if looks_like_path(span[2].strip()):
            return SectionValue(span[2].strip(), (no,), (), said.strip() != span.group())
    if looks_like_path(said) and not re.search(r"\s", said):
        return SectionValue(said.rstrip("。；，;"), (no,))
    if token := _TOKEN.search(said):
        path = token[1].rstrip(".,:")
        cut = re.match(r" [^\s/:]+/", said[token.end() :])  # `in /data/my code/x`
        return SectionValue(path, (no,), (_cut(path, no),) if cut else (), True)
    return None
