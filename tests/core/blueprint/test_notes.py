"""What the notes declare, and what stays prose."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.blueprint.fields import blueprint_like, moved
from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.blueprint.model import NOTE_KEYS, Notes
from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.run.trainer import SourceFormat

HEAD = "## [exp_launch_command]\n- command: python x\n\n"


def read(body: str, heading: str = "## Other Notes") -> tuple[Notes, list[Finding]]:
    b = parse_blueprint(f"{HEAD}{heading}\n{body}\n".encode(), "b.md")
    return b.notes, [f for f in b.findings if f.line >= 4]


def notes(body: str) -> Notes:
    return read(body)[0]


def test_an_evaluation() -> None:
    found = notes("- evaluate: python eval.py --on $AUTORESEARCH_RESULT_DIR\n- evaluate_time: 5m\n- metric: pass@1")
    assert (found.evaluate, found.evaluate_s) == (("python eval.py --on $AUTORESEARCH_RESULT_DIR",), 300.0)
    assert (notes("- metric: x").evaluate, notes("- metric: x").evaluate_s) == ((), 1800.0)
    two = notes("- evaluate:\n    - python a.py\n    - python b.py")
    assert two.evaluate == ("python a.py", "python b.py")


def test_a_key_has_the_default_of_its_field() -> None:
    for key in NOTE_KEYS:
        usual = getattr(Swarm() if key.name.startswith("swarm_") else Notes(), key.spec_field or key.name)
        assert key.default in (usual, "", ()) and type(key.default) in (type(usual), str, tuple), key.name


@pytest.mark.parametrize("text", ["42", "train.seed", "--seed", "-s", "$RNG", "`--rng-seed`"])
def test_how_a_seed_reaches_the_training(text: str) -> None:
    assert notes(f"- seed: {text}").seed == text.strip("`")


def test_prose_about_seeds_is_no_declaration() -> None:
    found, findings = read("- seed: we always use 42")
    assert found.seed == "" and [finding.code for finding in findings] == ["bad_note"]


@pytest.mark.parametrize(
    "heading",
    [
        "## Other Notes",
        "# Notes",
        "## Additional Notes",
        "## 8. 其他说明",
        "## 备注",
        "## **Notes**",
    ],
)
def test_headings(heading: str) -> None:
    found, _ = read("- trainer: verl\n\n## Additional Notes\n- metric: a/b", heading)  # two such sections are one
    assert (found.trainer, found.metric) == ("verl", "a/b")


def test_items() -> None:
    found = notes(
        "- trainer: VERL\n- **metric**: val-core/math/acc/mean@1\n* direction：higher\n- slug: Some Name\n"
        "- first_step: KL\n- keep children: yes\n- include: data/a.parquet\n- include:\n"
        "    - data/b\n    - data/c d\n"
        "- requires_env: `A`, $B C\n- todo: nothing\n- note 1: trainer: trl\n"
    )
    assert found == Notes(
        trainer="verl",
        metric="val-core/math/acc/mean@1",
        direction="maximize",
        slug="Some Name",
        first_step="kl",
        keep_children=True,
        include=("data/a.parquet", "data/b", "data/c d"),
        requires_env=("A", "B", "C"),
        text=found.text,
    )
    assert found.text.startswith("- trainer: VERL\n")


def test_commands() -> None:
    found = notes(
        "- prepare: bash a.sh --x 'y: z' # why\n- prepare:\n    cd x && \\\n      make\n- prepare:\n"
        "  ```bash\n  set -e\n\n"
        "    b\n  ```\n- prepare:\n    - c\n    - d \\\n      e\n- cleanup: rm \\\n-f /tmp/lock\n"
    )
    assert found.prepare == (
        "bash a.sh --x 'y: z' # why",
        "cd x && \\\n  make",
        "set -e\n\n  b",
        "c",
        "d \\\ne",
    )
    assert found.cleanup == ("rm \\\n-f /tmp/lock",)


@pytest.mark.parametrize(
    ("body", "env"),
    [
        ("- env: A=1", {"A": "1"}),
        ("- env: A=1\n- env: B=", {"A": "1", "B": ""}),
        ("- env:\n    - A=1\n    - B: two words", {"A": "1", "B": "two words"}),
        ("- env:\n    A: 1\n    B: http://h:1/x=y", {"A": "1", "B": "http://h:1/x=y"}),
        ("- env:\n  ```\n  export A=\"x y\"\n  B='$HOME'\n  ```", {"A": "x y", "B": "$HOME"}),
        ('- env: A="tab\\tand \\"quote\\""', {"A": 'tab\tand "quote"'}),
        ("- env: {A: 1, B: 'x, y'}", {"A": "1", "B": "x, y"}),
    ],
)
def test_env(body: str, env: dict[str, str]) -> None:
    assert notes(body).env == env


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("jsonl a/b.jsonl", (SourceFormat.JSONL, "a/b.jsonl")),
        ("dict_lines a/val.md", (SourceFormat.DICT_LINES, "a/val.md")),
        ("`a/val.md`", (SourceFormat.DICT_LINES, "a/val.md")),
        ("console", (SourceFormat.CONSOLE, "")),
    ],
)
def test_sources_come_first(text: str, source: tuple[SourceFormat, str]) -> None:
    (found,) = notes(f"- source: {text}").source
    assert (found.format, found.path) == source
    assert found.authority < 0  # before anything that a trainer is known to write
    first, second = notes("- source: a.jsonl\n- source: b.jsonl").source
    assert first.authority < second.authority


@pytest.mark.parametrize(
    ("word", "near"), [("trainr", "trainer"), ("requires env vars", "requires_env"), ("metrics", "metric")]
)
def test_a_misspelt_key_is_told(word: str, near: str) -> None:
    _, findings = read(f"- {word}: x")
    assert [(f.line, f.hint) for f in findings] == [(5, f"did you mean `{near}:`?")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("- direction: sideways", "b.md:5: direction: 'sideways' is neither maximize nor minimize"),
        ("- first_step: 20 minutes", "b.md:5: first_step: '20 minutes' is neither kl nor any"),
        ("- env: A B", "b.md:5: env: 'A B' is not NAME=value"),
        ("- requires_env: a-b", "b.md:5: requires_env: 'a-b' is not the name of a variable"),
        ("- trainer: verl\n- trainer: trl", "b.md:6: the notes give two values for trainer (lines 5 and 6)"),
        ("- metric:\n    a\n    b", "b.md:5: metric: it must be one line"),
    ],
)
def test_what_cannot_be_understood(body: str, message: str) -> None:
    with pytest.raises(BlueprintInvalid) as caught:
        read(body)
    assert caught.value.message == message


@pytest.mark.parametrize(
    "line", ["Notes:\n- see the wiki", "Notes: x\n- metric: a", "- notes:\n  - metric: a", "Noted:\n- metric: a"]
)
def test_a_bare_line_above_prose_opens_nothing(line: str) -> None:
    assert read("", f"\n{line}")[0].metric == ""


@pytest.mark.parametrize("key", ["trainer", "metric", "direction", "prepare", "cleanup", "env", "requires_env"])
@pytest.mark.parametrize("heading", ["## [exp_result_dir]\n- path: /x", "## Settings"])
def test_a_key_in_a_section_that_does_not_take_it_is_told(heading: str, key: str) -> None:
    found, findings = read(f"- {key}: x", heading)
    assert found.trainer == ""
    line = 5 + heading.count("\n")
    told = [(f.line, f.hint) for f in findings if f.code == "misplaced_note"]
    assert told == [(line, "move it to `## Other Notes`")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data/r/m.jsonl", "/new/x/m.jsonl"),
        ("jsonl /data/r", "jsonl /new/x"),
        ("/data/r:/data/r/b", "/new/x:/new/x/b"),
        ("/data/r2/m.jsonl", "/data/r2/m.jsonl"),
    ],
)
def test_what_lies_below_a_directory_moves_with_it(text: str, expected: str) -> None:
    assert moved(text, "/data/r/", "/new/x") == expected
    assert moved(text, "./r", "/new/x") == text


def test_a_blueprint_like_another_one() -> None:
    text = (Path(__file__).parents[3] / "blueprints/examples/agentjet.md").read_text()
    given = parse_blueprint(text.encode(), "b.md")
    more = "- env: OUT=/data/results/agentjet_gsm8k/x\n- source: jsonl /data/results/agentjet_gsm8k/m.jsonl\n"
    moved_one = blueprint_like(parse_blueprint(f"{text}{more}".encode(), "b.md"), result_dir="/new").notes
    assert (moved_one.env, moved_one.source[0].path) == ({"OUT": "/new/x"}, "/new/m.jsonl")
    like = blueprint_like(given, title="T", metric="m")
    assert (like.title, like.notes.metric, like.notes.text) == ("T", "m", "")
    assert blueprint_like(given).notes.metric == "task_pass_rate@1"


@pytest.mark.parametrize(
    ("text", "metric", "direction"),
    [
        ("- metric: latency_ms min", "latency_ms", "minimize"),
        ("- metric: val loss, maximise", "val loss", "maximize"),
        ("- metric: `last(a, last 5)` max", "last(a, last 5)", "maximize"),
        ("- metric: min(err) min  # of errors", "min(err)", "minimize"),
        ("- metric: q max\n- direction: minimize", "q max", "minimize"),
        ("- metric: min", "min", ""),
    ],
)
def test_a_direction_may_stand_behind_the_metric(text: str, metric: str, direction: str) -> None:
    found = notes(text)
    assert (found.metric, found.direction) == (metric, direction)
