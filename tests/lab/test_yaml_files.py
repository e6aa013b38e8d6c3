"""YAML files as mappings: lines in the messages, no key twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.campaign.overrides import flatten
from autoresearch.errors import BlueprintError, NotFoundError
from autoresearch.lab.yaml_files import dump, edit, load_mapping, parse_mapping


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("base: &b {lr: 1.0e-6}\nuse:\n  <<: *b\n  lr: 2\n1: [a, null]\n")
    assert load_mapping(path) == {"base": {"lr": 1e-6}, "use": {"lr": 2}, "1": ["a", None]}
    path.write_text("")
    assert load_mapping(path) == {}
    path.write_text('{"a": [1, 2]}')
    assert load_mapping(path) == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "r.yaml:4: the key 'c' stands twice (first in line 3)"),
        ("a: [1\nb: 2\n", "r.yaml:2: "),
        ("a: 1\n\tb: 2\n", "r.yaml:2: "),
        ("a: !!python/object/apply:os.system ['x']\n", "r.yaml:1: "),
        ("a: *nowhere\n", "r.yaml:1: "),
        ("? [a]\n: 1\n", "r.yaml:1: "),
        ("- 1\n", "r.yaml: holds a list, not a mapping of keys to values"),
        ("text\n", "r.yaml: holds a text, not"),
        ("a: 1\n---\nb: 2\n", "r.yaml:2: "),
        ("a: \x01\n", "r.yaml:1: byte 3: control characters"),
        (b"a: 1\nb: caf\xe9\n", "r.yaml:2: byte 11: incomplete UTF-8"),
        (b"a: \xff\xfe\n", "r.yaml:1: byte 3: invalid leading UTF-8"),
        ("[" * 5000, "r.yaml"),
    ],
)
def test_broken(text: str | bytes, message: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        parse_mapping(text.encode() if isinstance(text, str) else text, "r.yaml")
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message
    assert ("UTF-8" in caught.value.hint) is ("byte" in message)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="No such file"):
        load_mapping(tmp_path / "x.yaml")


def test_dump_reads_back(tmp_path: Path) -> None:
    data = {"b": 1, "a": {"x": ["é: 码", "no", "1.0", None, True, 1e-6]}, "t": "a\nb\n"}
    path = tmp_path / "d.yaml"
    path.write_text(dump(data), encoding="utf-8")
    assert load_mapping(path) == data
    assert list(load_mapping(path)) == ["b", "a", "t"]
    assert "é: 码" in dump(data)


RECIPE = """# a recipe
lr: 1.0e-4   # tuned by hand
name: "x"
optim:
  betas: [0.9, 0.99]
  decay: 0
data.seed: 1
note: |
  two
  lines
empty:
"""


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ({"lr": 3e-5}, "lr: 3.0e-05   # tuned by hand"),
        ({"optim.decay": 2}, "  decay: 2"),
        ({"data.seed": 7}, "data.seed: 7"),
        ({"name": "a: b # c"}, "name: 'a: b # c'"),
        ({"empty": "now"}, "empty: now"),
        ({"+fresh": True}, "fresh: true"),
    ],
)
def test_edit_changes_the_value_and_nothing_else(overrides: dict[str, object], line: str) -> None:
    edited = edit(RECIPE, overrides)
    assert line in edited.splitlines()
    key = next(iter(overrides)).removeprefix("+")
    kept = [old for old in RECIPE.splitlines() if old in edited.splitlines()]
    assert len(kept) >= len(RECIPE.splitlines()) - 1
    before, after = (flatten(parse_mapping(text.encode(), "r")) for text in (RECIPE, edited))
    assert after == {**before, key: next(iter(overrides.values()))}


def test_edit_writes_anew_what_has_no_place_of_its_own() -> None:
    edited = edit(RECIPE, {"note": "one", "optim.betas": [0.8, 0.9]})
    wanted = parse_mapping(RECIPE.encode(), "r")
    assert parse_mapping(edited.encode(), "r") == {**wanted, "note": "one", "optim": {"betas": [0.8, 0.9], "decay": 0}}
    assert edit(RECIPE, {}) == RECIPE
    assert edit("", {"+lr": 1}) == "lr: 1\n"


def test_edit_refuses_a_key_that_is_not_there() -> None:
    with pytest.raises(BlueprintError, match="rate"):
        edit(RECIPE, {"rate": 1})
    assert "rate: 1" in edit(RECIPE, {"+rate": 1})


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [" + "1," * 100 + "]\n" + "".join(f"{c}: &{c} [{','.join('*' + p for _ in range(100))}]\n"
                                                  for p, c in zip("abcde", "bcdef", strict=True)),
        "a: &a [1, *a]\n",
    ],
    ids=["bomb", "in itself"],
)  # fmt: skip
def test_aliases_that_stand_for_too_much_are_refused(text: str) -> None:
    with pytest.raises(BlueprintError, match=r"its aliases .* stand for more than 1,000,000 values"):
        parse_mapping(text.encode(), "ideas.yaml")


def test_aliases_are_read() -> None:
    assert parse_mapping(b"a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n", "f") == {
        "a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}
    }  # fmt: skip
