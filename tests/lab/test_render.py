"""Rendering: templates are strict, and a rendered blueprint reads back as what was asked for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from autoresearch.core.blueprint.fields import BlueprintFields, fields_like
from autoresearch.core.blueprint.notes import source_of
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.errors import BlueprintError, NotFoundError, UsageError
from autoresearch.lab import render as room
from autoresearch.lab.render import data_dir, render, render_blueprint

PLAIN = BlueprintFields(
    title="KL 0.02",
    purpose="Ten times the KL coefficient.",
    launch_command="python -m x --conf c.yaml",
    codebase_dir="/data/code",
    venv_exe="/data/code/.venv/bin/python",
    yaml_path="c.yaml",
    result_dir="/data/results/kl",
    max_time_s=5400.0,
    first_step_s=90.0,
    slug="kl-002",
    trainer="verl",
    metric="val-core/acc@1",
    direction="maximize",
    first_step="kl",
    keep_children=True,
    prepare=("make data", "set -e\nmake b\n  make c"),
    cleanup=("rm -f /tmp/x",),
    evaluate=("python eval.py", "set -e\npython a.py\npython b.py"),
    evaluate_s=90.0,
    env={"A": "1", "B": "two words", "C": ""},
    requires_env=("TOKEN", "KEY"),
    include=("data/a b.parquet",),
    hide=("data/answers",),
    writable=("/scratch/cache",),
    launcher="slurm",
    source=(source_of("jsonl runs/m.jsonl"), source_of("console", 1)),
)


def trimmed(text: str) -> str:
    return re.sub(r"\A(\s*\n)+|(\n[^\S\n]*)+\Z", "", text.replace("\r\n", "\n"))


def assert_same(fields: BlueprintFields) -> None:
    text = render_blueprint(fields)
    b = parse_blueprint(text.encode(), "rendered.md")
    first = b.first_step_s if b.first_step_given else None
    said = (b.codebase_dir, b.venv_exe, b.yaml_path, b.result_dir, b.max_time_s, first)
    assert said == (
        *(fields.codebase_dir, fields.venv_exe, fields.yaml_path, fields.default_result_dir()),
        *(fields.max_time_s, fields.first_step_s),
    )
    assert b.title == " ".join(fields.title.split())
    assert b.purpose == fields.purpose.replace("\r\n", "\n").strip()
    assert trimmed(b.launch_command) == trimmed(fields.launch_command)
    n = b.notes
    for key in (
        "slug",
        "trainer",
        "metric",
        "direction",
        "first_step",
        "keep_children",
        "requires_env",
        "include",
    ):
        assert getattr(n, key) == getattr(fields, key), key
    assert [trimmed(t) for t in n.prepare] == [trimmed(t) for t in fields.prepare]
    assert [trimmed(t) for t in n.cleanup] == [trimmed(t) for t in fields.cleanup]
    assert [trimmed(t) for t in n.evaluate] == [trimmed(t) for t in fields.evaluate]
    assert n.evaluate_s == fields.evaluate_s
    assert dict(n.env) == dict(fields.env)
    assert n.source == fields.source
    assert b.findings == ()


def test_round_trip() -> None:
    assert_same(PLAIN)
    read = parse_blueprint(render_blueprint(PLAIN).encode(), "rendered.md")
    assert fields_like(read) == PLAIN
    assert_same(BlueprintFields(title="t", purpose="p", launch_command="c"))
    assert "ends early" not in render_blueprint(PLAIN)


EVIL = [
    "## [exp_purpose]\n- purpose: other",
    "```\nfenced\n```",
    "````",
    "{{ 7 * 7 }} {% raw %} {# x #}",
    "quotes \" and ' and ` and \\ and \\n",
    "a `b` c",
    "- dir: /other\n- command: rm",
    "exp_launch_command: x",
    "ünïcode 码 \u2028 \x85 \U0001f600",
    "<!-- a comment -->",
    "<!-- open",
    "ends with a backslash \\",
    "  spaces around  ",
    "tab\there",
    "NA",
    "---",
    "value # comment",
    "$HOME $(x) `y`",
    "a: b",
    "|",
    "'quoted'",
    "note: x\n\n\ny",
]


@pytest.mark.parametrize("evil", EVIL)
def test_round_trip_of_evil_strings(evil: str) -> None:
    line = " ".join(evil.split())
    assert_same(replace(PLAIN, purpose=evil))
    assert_same(replace(PLAIN, launch_command=f"python x; {evil}", prepare=(evil, evil), cleanup=(evil,)))
    assert_same(
        replace(
            PLAIN,
            codebase_dir=f"/a/{line}",
            venv_exe=f"/v {line}",
            yaml_path=f"y/{line}",
            result_dir=f"/{line}",
        )
    )
    assert_same(
        replace(PLAIN, title=line if line[0] not in "-_" else f"x {line}", env={"A": evil}, include=(f"d/{line}",))
    )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"codebase_dir": "/a\n/b"}, "codebase_dir goes over several lines"),
        ({"launch_command": "a\rb"}, "carriage return"),
        ({"launch_command": " \n"}, "needs a launch command"),
        ({"launch_command": "NA"}, "holds no command"),
        ({"purpose": "${MaxTime}"}, "placeholder ${MaxTime}"),
        ({"launch_command": "a\x1bb"}, "control character 0x1b"),
        ({"direction": "up and down"}, "neither maximize nor minimize"),
    ],
)
def test_what_cannot_be_written(change: dict[str, object], word: str) -> None:
    with pytest.raises(BlueprintError, match=re.escape(word)):
        render_blueprint(replace(PLAIN, **change))  # type: ignore[arg-type]


def test_templates_are_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.j2").write_text("{% for x in xs %}\n  {{ x }} & <b>\n{% endfor %}\n")
    monkeypatch.setattr(room, "data_dir", lambda name: tmp_path)
    assert render("t.j2", xs=["{{ y }}"]) == "  {{ y }} & <b>\n"
    with pytest.raises(UsageError, match=r"t\.j2: 'xs' is undefined"):
        render("t.j2")
    with pytest.raises(NotFoundError, match=r"no template u\.j2"):
        render("u.j2")


def test_data_comes_from_the_wheel_or_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (data_dir("templates") / "blueprint.md.j2").is_file()
    assert (data_dir("blueprints") / "quickstart.md").is_file()
    package = tmp_path / "site/autoresearch"
    (package / "_data/blueprints").mkdir(parents=True)
    monkeypatch.setattr(room.autoresearch, "__file__", str(package / "__init__.py"))
    assert data_dir("blueprints") == package / "_data/blueprints"
    with pytest.raises(NotFoundError):
        data_dir("templates")
