"""Rendering: templates are strict, and a rendered blueprint reads back as what was asked for."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from autoresearch.core.blueprint.fields import BlueprintFields, fields_from, fields_like
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
    "# exp_max_time",
    "```\nfenced\n```",
    "````",
    "~~~",
    "{{ 7 * 7 }} {% raw %} {# x #}",
    "quotes \" and ' and ` and \\ and \\n",
    "a `b` c",
    "- dir: /other\n- command: rm",
    "1. [exp_result_dir] /other",
    "**[exp_codebase_dir]**",
    "exp_launch_command: x",
    "ünïcode 码 \u2028 \x85 \U0001f600",
    "<!-- a comment -->",
    "<!-- open",
    "ends with a backslash \\",
    "  spaces around  ",
    "tab\there",
    "NA",
    "none of it",
    "---",
    "trailing (remark)",
    "value # comment",
    "24 hours in all",
    "$HOME $(x) `y`",
    "a: b",
    "|",
    "*stars* _and_ [brackets](x)",
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


def test_round_trip_of_random_strings() -> None:
    rng = random.Random(7)
    for _ in range(60):
        text = "".join(rng.choice([*EVIL, " ", "\n", "\n\n", "  "]) for _ in range(rng.randint(1, 5))) + "x"
        assert_same(
            replace(
                PLAIN,
                purpose=text,
                launch_command=f"true {text}",
                prepare=(text,),
                env={"A": text},
            )
        )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"codebase_dir": "/a\n/b"}, "codebase_dir goes over several lines"),
        ({"launch_command": "a\rb"}, "carriage return"),
        ({"launch_command": " \n"}, "needs a launch command"),
        ({"launch_command": "NA"}, "holds no command"),
        ({"purpose": ""}, "needs a purpose"),
        ({"title": " "}, "needs a title"),
        ({"purpose": "${MaxTime}"}, "placeholder ${MaxTime}"),
        ({"launch_command": "a\x1bb"}, "control character 0x1b"),
        ({"max_time_s": 0.0}, "no time at all"),
        ({"direction": "up and down"}, "neither maximize nor minimize"),
        ({"env": {"A B": "1"}}, "NAME=value"),
    ],
)
def test_what_cannot_be_written(change: dict[str, object], word: str) -> None:
    with pytest.raises(BlueprintError, match=re.escape(word)):
        render_blueprint(replace(PLAIN, **change))  # type: ignore[arg-type]


def test_fields_from_flags() -> None:
    fields = fields_from(
        {
            "title": "T",
            "purpose": "p",
            "launch_command": "python x",
            "max_time_s": "90 min",
            "first_step_s": 60,
            "prepare": ["a", "b"],
            "cleanup": "c",
            "env": {"A": 1},
            "keep_children": True,
            "slug": None,
        }
    )
    assert (fields.purpose, fields.launch_command, fields.slug) == ("p", "python x", "")
    assert (fields.max_time_s, fields.first_step_s) == (5400.0, 60.0)
    assert (fields.prepare, fields.cleanup, fields.env) == (("a", "b"), ("c",), {"A": "1"})
    assert_same(fields)


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
