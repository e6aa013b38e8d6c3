"""Names that no shell, tmux, git or file system reads anything into."""

from __future__ import annotations

import re

import pytest

from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.errors import ConflictError

NASTY = (
    "",
    " ",
    ".",
    "../x",
    "a/b",
    "$(rm -rf ~)",
    "a;b",
    "a'b\"c",
    "line\nbreak",
    "-x",
    "日本語",
    "x" * 300,
    "--",
    "x.lock",
    "~",
    "nul\0",
    "a" * 39 + "-b",
    "🎉",
)


@pytest.mark.parametrize("text", NASTY)
def test_every_name_from_any_text_is_safe(text: str) -> None:
    slug = naming.slugify(text)
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", slug)
    assert len(slug) <= naming.SLUG_MAX
    assert "--" not in slug
    assert naming.RUN_ID.match(naming.run_id(slug, "7k2m9x"))
    assert naming.SESSION.match(naming.session_name(slug, "7k2m9x"))


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Sort: LR 1e-3", "sort-lr-1e-3"),
        ("Élan vital", "elan-vital"),
        ("日本語", "experiment"),
        ("x" * 300, "x" * 40),
        ("a" * 39 + " b", "a" * 39),
    ],
)
def test_slugs(text: str, slug: str) -> None:
    assert naming.slugify(text) == slug


def test_a_free_name_keeps_its_number_and_is_looked_for_ten_thousand_times() -> None:
    assert naming.first_free("a", {"a", "a-2"}.__contains__) == "a-3"
    assert naming.first_free("x" * 45, {"x" * 45}.__contains__, 40) == "x" * 38 + "-2"
    assert naming.first_free("a-b", {"a-b"}.__contains__, 4) == "a-2", "no hyphen twice"
    with pytest.raises(ConflictError, match="10000 names like 'a' are taken"):
        naming.first_free("a", lambda name: True)


@pytest.mark.parametrize(
    "name", ["ajet_", "ajet_a.b", "ajet_a:b", "x_ajet_a", "ajet_a b", "ajet_" + "a" * 61, "ajet_a\n"]
)
def test_what_is_no_session_of_ours(name: str) -> None:
    assert not naming.SESSION.match(name)


@pytest.mark.parametrize("name", ["", "-a", "A", "a/b", "..", "a" * 61, "a\n", "a\0"])
def test_what_is_no_run_id(name: str) -> None:
    assert not naming.RUN_ID.match(name)
