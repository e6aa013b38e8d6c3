"""The first two stages: which sections a text has, which items they have, and what a document without any says."""

from __future__ import annotations

import pytest

from autoresearch.core.blueprint.document import NOTES, OTHER, Document, LabelRole, read_document
from autoresearch.core.blueprint.items import with_items


def document(text: str) -> Document:
    return with_items(read_document(text.encode()))


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("## [exp_purpose]\nx\n## Notes\n- trainer: verl\n", ["exp_purpose", NOTES]),
        ("# T\n\nwords\n\n# exp_purpose\nx\n# Words\ny\n", ["exp_purpose", OTHER]),
        ("## [exp_purpos]\nx\n", [OTHER]),
        ("exp_purpose: x\nOther notes:\n- trainer: verl\n", ["exp_purpose", NOTES]),
        ("exp_purpose: x\nOther notes:\nwords\n", ["exp_purpose"]),
        ("```\n## [exp_purpose]\n```\n", []),
        ("<!-- a comment -->\n## [exp_purpose]\nx\n", ["exp_purpose"]),
    ],
)
def test_sections(text: str, keys: list[str]) -> None:
    assert [section.key for section in document(text).sections] == keys


def test_the_first_of_two_sections_counts() -> None:
    twice = document("## [exp_purpose]\nx\n## [exp_purpose]\ny\n")
    assert twice.named["exp_purpose"].line == 1
    assert [f.code for f in twice.findings] == ["section_twice"]


@pytest.mark.parametrize(
    ("body", "items"),
    [
        ("- description: why\n- dir: /x\n", [(LabelRole.TEXT, "why"), (LabelRole.VALUE, "/x")]),
        ("- content 1: a\n  b\n", [(LabelRole.CONTENT, "a\nb")]),
        ("words\nmore words\n\nothers\n", [(LabelRole.PLAIN, "words\nmore words"), (LabelRole.PLAIN, "others")]),
        ("- default: /y\n", [(LabelRole.DEFAULT, "/y")]),
        ("- dir:\n\n", [(LabelRole.VALUE, "")]),
        ("- path:\n```\n/a b\n```\n", [(LabelRole.VALUE, "/a b")]),
    ],
)
def test_items(body: str, items: list[tuple[LabelRole, str]]) -> None:
    section = document("# T\n## [exp_codebase_dir]\n" + body).named["exp_codebase_dir"]
    assert [(item.role, item.text) for item in section.items] == items


def test_notes_and_unknown_sections_have_lines_and_no_items() -> None:
    sections = document("## [exp_purpose]\nx\n## Notes\n- trainer: verl\n## Words\n- a: b\n").sections
    assert [(bool(section.items), bool(section.body)) for section in sections] == [
        (True, True),
        (False, True),
        (False, True),
    ]


def test_a_value_cannot_be_changed_after_its_stage() -> None:
    section = document("## [exp_purpose]\nx\n").sections[0]
    with pytest.raises(AttributeError):
        section.key = "other"  # type: ignore[misc]
    assert isinstance(section.body, tuple) and isinstance(section.items, tuple)


@pytest.mark.parametrize(("data", "code"), [(b"", "empty"), (b"\xff", "not_utf8"), (b"a\0b", "binary")])
def test_what_is_no_text_has_no_sections(data: bytes, code: str) -> None:
    unreadable = read_document(data)
    assert [f.code for f in unreadable.findings] == [code]
    assert unreadable.sections == ()


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("- trainer: verl", ["misplaced_note"]),
        ("trainer: verl", []),
        ("- framework: verl", []),
        ("      - trainer: verl", []),
        ("- source: a word of prose", []),
    ],
)
def test_a_key_of_the_notes_in_another_section_has_a_bullet_and_the_exact_name(line: str, codes: list[str]) -> None:
    assert [f.code for f in document("## [exp_purpose]\n" + line + "\n").findings] == codes
