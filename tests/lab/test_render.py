"""Rendering: templates are strict, and a rendered blueprint reads back as what was asked for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from autoresearch.core.blueprint.fields import blueprint_like, default_result_dir
from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.blueprint.notes import source_of
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.errors import BlueprintError, NotFoundError, UsageError
from autoresearch.lab import render as room
from autoresearch.lab.render import data_dir, render, render_blueprint

PLAIN = Blueprint(
    title="KL 0.02",
    purpose="Ten times the KL coefficient.",
    launch_command="python -m x --conf c.yaml",
    codebase_dir="/data/code",
    venv_exe="/data/code/.venv/bin/python",
    yaml_path="c.yaml",
    result_dir="/data/results/kl",
    max_time_s=5400.0,
    first_step_s=90.0,
    first_step_given=True,
    notes=Notes(
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
    ),
)


def trimmed(text: str) -> str:
    return re.sub(r"\A(\s*\n)+|(\n[^\S\n]*)+\Z", "", text.replace("\r\n", "\n"))


def assert_same(blueprint: Blueprint) -> None:
    b = parse_blueprint(render_blueprint(blueprint).encode(), "rendered.md")
    assert b.title == " ".join(blueprint.title.split())
    assert b.purpose == blueprint.purpose.replace("\r\n", "\n").strip()
    assert trimmed(b.launch_command) == trimmed(blueprint.launch_command)
    assert b.result_dir == default_result_dir(blueprint)
    for key in ("codebase_dir", "venv_exe", "yaml_path", "max_time_s", "first_step_s", "first_step_given"):
        assert getattr(b, key) == getattr(blueprint, key), key
    for name in ("prepare", "cleanup", "evaluate"):
        assert [trimmed(t) for t in getattr(b.notes, name)] == [trimmed(t) for t in getattr(blueprint.notes, name)]
    same = {"text": "", **{name: getattr(blueprint.notes, name) for name in ("prepare", "cleanup", "evaluate")}}
    assert replace(b.notes, **same) == blueprint.notes
    assert b.findings == ()


def test_round_trip() -> None:
    assert_same(PLAIN)
    read = parse_blueprint(render_blueprint(PLAIN).encode(), "rendered.md")
    assert blueprint_like(read).notes == PLAIN.notes
    assert_same(Blueprint(title="t", purpose="p", launch_command="c"))
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
    assert_same(blueprint_like(PLAIN, launch_command=f"python x; {evil}", prepare=(evil, evil), cleanup=(evil,)))
    paths = {"codebase_dir": f"/a/{line}", "venv_exe": f"/v {line}", "yaml_path": f"y/{line}", "result_dir": f"/{line}"}
    assert_same(replace(PLAIN, **paths))  # type: ignore[arg-type]
    title = line if line[0] not in "-_" else f"x {line}"
    assert_same(blueprint_like(PLAIN, title=title, env={"A": evil}, include=(f"d/{line}",)))


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
        render_blueprint(blueprint_like(PLAIN, **change))


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
