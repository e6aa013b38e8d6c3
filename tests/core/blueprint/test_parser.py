"""Blueprints in every dialect: the frame, the sections, the values, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.blueprint.document import MAX_BYTES
from autoresearch.core.blueprint.model import SECTIONS, Blueprint
from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "blueprints"
EXAMPLES = ROOT / "blueprints"
COMMAND = "## [exp_launch_command]\n- command: python -m x --conf c.yaml\n"


def parse(text: str | bytes, name: str = "b.md") -> Blueprint:
    return parse_blueprint(text.encode() if isinstance(text, str) else text, name)


def refused(text: str | bytes, name: str = "b.md") -> BlueprintInvalid:
    with pytest.raises(BlueprintInvalid) as caught:
        parse(text, name)
    assert caught.value.exit_code == 3
    return caught.value


def codes(blueprint: Blueprint) -> set[str]:
    return {f.code for f in blueprint.findings}


def example(name: str) -> Blueprint:
    path = EXAMPLES / name
    return parse_blueprint(path.read_bytes(), path.name)


# one of each dialect in blueprints/: slug, codebase, venv, recipe, last line of the command, results, max, first step
EXPECTED = {
    "quickstart.md": (
        "quickstart", "./", "", "blueprints/recipes/quickstart.yaml",
        "python -m autoresearch.tinygrpo --conf blueprints/recipes/quickstart.yaml",
        "./auto_agent/exp_results/quickstart/", 600.0, 120.0,
    ),
    "examples/classic_numbered.md": (
        "find-out-whether-qwen2-5-7b-learns-gsm8k", "/data/projects/agentjet",
        "/data/projects/agentjet/.venv/bin/python",
        "tests/bench/benchmark_math/gsm8k_repeat8.yaml", "    --with-ray --skip-check-avail-gpu",
        "/data/results/gsm8k_repeat8/", 36000.0, 2700.0,
    ),
    "examples/swarm_contents.md": (
        "does-a-tool-calling-agent-on-aime-profit", "/data/projects/agentjet_swarm",
        "/data/projects/agentjet_swarm/.venv/bin/python", "",
        "AJET_SWARM_URL=http://127.0.0.1:10086 python tutorial/aime_hard/agent_roll.py --split hard "
        "--val-every 10",
        "/data/results/aime_hard", 86400.0, 1200.0,
    ),
    "examples/alpha_typed_keys.md": (
        "lora-rank-32-on-appworld", "/data/projects/agentjet", "/data/venvs/appworld/bin/python",
        "/data/research/appworld/stage_2/blueprint_3.yaml",
        "    --with-appworld --skip-check-avail-gpu --with-ray",
        "/data/research/appworld/stage_2/results/rank_32/", 43200.0, 1200.0,
    ),
    "examples/fenced.md": (
        "entropy-bonus-with-verl", "/data/projects/verl", "/data/venvs/verl/bin/python", "",
        "  trainer.total_training_steps=120", "/data/results/verl_entropy", 32400.0, 1800.0,
    ),
    "examples/bare_paragraphs.md": (
        "smaller-mini-batches-for-agentjet-on-fro", "/data/projects/agentjet",
        "/data/projects/agentjet/.venv/bin/python", "/data/recipes/frozenlake_minibatch4.yaml",
        "  --skip-check-avail-gpu", "/data/results/frozenlake_minibatch4", 5400.0, 600.0,
    ),
    "examples/chinese.md": (
        "gsm8k-kl", "/data/projects/agentjet", "/data/projects/agentjet/.venv/bin/python",
        "tests/bench/benchmark_math/gsm8k_kl_001.yaml",
        "python -m ajet.launcher --conf tests/bench/benchmark_math/gsm8k_kl_001.yaml --with-ray "
        "--skip-check-avail-gpu",
        "/data/results/gsm8k_kl_001", 43200.0, 1800.0,
    ),
}  # fmt: skip


TRAINERS = {
    "quickstart.md": "tinygrpo",
    "campaign.md": "tinygrpo",
    "examples/fenced.md": "verl",
    "examples/nemo_rl.md": "nemo_rl",
    "examples/trl.md": "trl",
    "examples/trl_tiny.md": "trl",
    "examples/openrlhf.md": "openrlhf",
    "examples/agentjet.md": "agentjet",
    "examples/agentjet_swarm.md": "agentjet_swarm",
    "examples/verl.md": "verl",
    "examples/slime.md": "slime",
    "examples/slime_coding_agent.md": "slime",
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.md")), ids=lambda path: path.stem)
def test_a_shipped_blueprint(path: Path) -> None:
    name = str(path.relative_to(EXAMPLES))
    b = example(name)
    assert len(b.purpose) > 40
    assert b.notes.trainer == TRAINERS.get(name, "")
    assert set(b.lines) >= set(SECTIONS)
    assert b.findings == ()
    if name in EXPECTED:
        last = b.launch_command.splitlines()[-1]
        said = (b.slug, b.codebase_dir, b.venv_exe, b.yaml_path, last, b.result_dir, b.max_time_s, b.first_step_s)
        assert said == EXPECTED[name]


def test_a_quoted_blueprint_is_taken_out_of_its_fence() -> None:
    b = parse((FIXTURES / "quoted.md").read_bytes(), "quoted.md")
    assert b.title == "quoted with its fence and its indentation"
    assert b.codebase_dir == "/foo/bar/codebase"
    assert b.venv_exe == "/foo/bar/.venv/bin/python"
    assert b.yaml_path == "/foo/bar/conf.yaml"
    assert b.launch_command == (
        'cd /foo/bar/codebase && \\\nexport SCRIPT="bash env.sh" && \\\npython -m ajet.launcher --conf conf.yaml'
    )
    assert b.result_dir == "/foo/results/"
    assert (b.max_time_s, b.first_step_s) == (43200.0, 1200.0)
    assert (b.max_time_given, b.first_step_given) == (True, False)
    assert b.lines["exp_launch_command"] == 29
    assert "tar -xzf" in b.notes.text
    assert b.notes.prepare == ()  # prose is shown, never run


@pytest.mark.parametrize(
    "heading",
    [
        "## [exp_codebase_dir]",
        "# exp_codebase_dir",
        "#### [EXP_CODEBASE_DIR]",
        "##[exp_codebase_dir]",
        "## \\[exp\\_codebase\\_dir\\]",
        "## 【exp_codebase_dir】",
        "## [exp codebase dir]",
        "## 2. [exp_codebase_dir] Main code path (absolute path):",
        "## [exp_codebase_dir] (absolute)",
        "**[exp_codebase_dir]**",
        "**exp_codebase_dir**:",
        "2. [exp_codebase_dir] Main code path (absolute path):",
        "2、[exp_codebase_dir] 主实验代码路径（绝对路径）：",
        "[exp_codebase_dir]",
        "[exp_codebase_dir]:",
        "exp_codebase_dir:",
        "[exp_codebase_dir]\n------------------",
    ],
)
def test_headings(heading: str) -> None:
    first = heading.replace("codebase", "launch").replace("dir", "command").replace("DIR", "COMMAND")
    first = first.replace("CODEBASE", "LAUNCH").split("\n")[0]
    b = parse(f"{heading}\n\n    /data/code\n\n{first}\n\n    python x.py\n")
    assert (b.codebase_dir, b.launch_command) == ("/data/code", "python x.py")


@pytest.mark.parametrize(
    "line",
    [
        "See [exp_codebase_dir] above.",
        "[exp_codebase_dir] is shared with the others.",
        "### expert advice",
        "| [exp_codebase_dir] | /data |",
        "    [exp_codebase_dir]:",
        "[export]",
    ],
)
def test_near_misses_of_headings(line: str) -> None:
    b = parse(f"## [exp_codebase_dir]\n- dir: /data/code\n- hint: x\n\n{line}\n\n{COMMAND}")
    assert b.codebase_dir == "/data/code"


@pytest.mark.parametrize(
    "one_line",
    [
        "[exp_codebase_dir] /data/code",
        "## [exp_codebase_dir] /data/code",
        "2. [exp_codebase_dir] Main code path (absolute path): /data/code",
        "exp_codebase_dir: /data/code",
    ],
)
def test_values_in_the_heading(one_line: str) -> None:
    command = "5. [exp_launch_command]: python x.py" if "#" not in one_line else "## [exp_launch_command] python x.py"
    b = parse(f"{one_line}\n{command}\n")
    assert (b.codebase_dir, b.launch_command) == ("/data/code", "python x.py")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("- dir: /data/my project/code", "/data/my project/code"),
        ("- dir: `/data/a (b)`", "/data/a (b)"),
        ('- dir: "/data/a b"', "/data/a b"),
        ("- **dir**: /data/x", "/data/x"),
        ("- 目录：/data/x", "/data/x"),
        ("-   dir:\n    /data/x", "/data/x"),
        ("- dir:\n  ```\n  /data/ x\n  ```", "/data/ x"),
        ("- description: all code\n- content 1: lies here\n- content 2: /data/x", "/data/x"),
        ("Main code path (absolute path): /data/x", "/data/x"),
        ("It stands alone, branch main:\n\n`/data/x`", "/data/x"),
        ("- description: /data/x", "/data/x"),
        ("./", "./"),
        ("~/code", "~/code"),
        ("- dir: the code lives in /mnt/x", "the code lives in /mnt/x"),
        ("- dir: my code/a b.yaml", "my code/a b.yaml"),
        ("<!-- open\n- dir: /data/x", "/data/x"),
        ("- dir: /data/x <!-- ours -->", "/data/x"),
        ("---\n- dir: /data/x\n---", "/data/x"),
    ],
)
def test_paths(body: str, path: str) -> None:
    assert parse(f"## [exp_codebase_dir]\n{body}\n\n{COMMAND}").codebase_dir == path


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("./out dir/結果", "./out dir/結果"),
        ("- /tmp/my results/first run", "/tmp/my results/first run"),
        ("/data/my project\n\nAll code lies there.", "/data/my project"),
        ("../a b/结果 目录/copy (1)", "../a b/结果 目录/copy (1)"),
        ("~bob/my code", "~bob/my code"),
        ('"/data/my code"', "/data/my code"),
    ],
)
def test_a_bare_path_with_spaces_is_whole(body: str, path: str) -> None:
    b = parse(f"## [exp_codebase_dir]\n{body}\n\n{COMMAND}")
    assert b.codebase_dir == path
    assert "trailing_remark" not in codes(b)
    assert path in parse(f"## [exp_codebase_dir] {body}\n\n{COMMAND}").codebase_dir or body.startswith("-")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("The checkout\nlies in /data/older, or rather\n/data/x", "/data/x"),
        ("/data/x\n\nAll of it is below /data/x.", "/data/x"),
        ("- dir: /data/x\n\nNot /data/y, which is older.", "/data/x"),
    ],
)
def test_a_path_that_stands_alone_in_prose(body: str, path: str) -> None:
    assert parse(f"## [exp_codebase_dir]\n- hint: x\n\n{body}\n\n{COMMAND}").codebase_dir == path


@pytest.mark.parametrize(
    ("body", "both"),
    [
        ("/data/x\n\n/data/y", "/data/x and /data/y"),
        ("Now: /data/x\n\nBefore: /data/y", "/data/x and /data/y"),
        ("/data/x\n\nNA", "/data/x and NA"),
    ],
)
def test_two_paths_that_compete_are_refused_with_the_line_to_write(body: str, both: str) -> None:
    error = refused(f"## [exp_codebase_dir]\n{body}\n\n{COMMAND}")
    assert f"[exp_codebase_dir] names both {both}" in error.message
    assert error.hint == f"write the one that is meant as `- dir: {both.split(' ')[0]}`"


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("The code lies in `/data/x`, branch main.", "/data/x"),
        ("/data/x is the checkout", "/data/x"),
        ("代码位于/data/x目录。", "/data/x"),
        ("It is not https://host/data but ./code here", "./code"),
        ("- description: the checkout /data/x", "/data/x"),
        ("It was in /data/x.\nNow it is in `/data/y`.", "/data/x"),
    ],
)
def test_a_path_in_a_sentence_is_refused_with_the_line_to_write(body: str, written: str) -> None:
    error = refused(f"## [exp_codebase_dir]\n{body}\n\n{COMMAND}")
    assert error.message == "b.md:2: the path in [exp_codebase_dir] stands in a sentence"
    assert error.hint == f"write it by itself: `- dir: {written}`"


@pytest.mark.parametrize(
    "body",
    [
        "- hint: `cd` to /data/x first",
        "For example /data/x",
        "The absolute path. E.g.: /data/x/y",
        "- dir:",
        "- default: /data/x",
        "- description: read/write access, see https://x.org/y",
    ],
)
def test_what_is_no_path(body: str) -> None:
    assert parse(f"## [exp_codebase_dir]\n{body}\n\n{COMMAND}").codebase_dir == "./"


@pytest.mark.parametrize("word", ["NA", "N/A", "none", "None.", "null", "无", "NA, the agent writes its own", "-"])
def test_no_recipe(word: str) -> None:
    assert parse(f"## [exp_yaml_path]\n- path: {word}\n\n{COMMAND}").yaml_path == ""
    assert parse(f"## [exp_yaml_path]\n- path: {word}/x.yaml\n\n{COMMAND}").yaml_path == f"{word}/x.yaml" or "," in word
    assert parse(f"## [exp_yaml_path]\nnone.yaml\n\n{COMMAND}").yaml_path == "none.yaml"


def test_remarks_behind_a_path_are_told() -> None:
    b = parse(f"## [exp_codebase_dir]\n- dir: /data/x  # ours\n\n{COMMAND}")
    assert b.codebase_dir == "/data/x"
    assert "trailing_remark" in codes(b)
    b = parse(f"## [exp_codebase_dir]\n- dir: /data/x (absolute path)\n\n{COMMAND}")
    assert b.codebase_dir == "/data/x"
    assert [f.line for f in b.findings if f.code == "trailing_remark"] == [2]
    assert "trailing_remark" not in codes(parse(f"## [exp_codebase_dir]\n- dir: /data/x#1\n\n{COMMAND}"))


def test_missing_sections_have_the_documented_defaults() -> None:
    b = parse(COMMAND, "kl_sweep.md")
    assert (b.codebase_dir, b.venv_exe, b.yaml_path) == ("./", "", "")
    assert b.result_dir == "./auto_agent/exp_results/kl-sweep/"
    assert (b.max_time_s, b.first_step_s) == (86400.0, 1200.0)
    assert not b.max_time_given and not b.first_step_given
    assert codes(b) == {"section_missing"}


@pytest.mark.parametrize(
    ("title", "name", "slug"),
    [
        ("# Experiment Blueprint - LoRA 16", "b.md", "lora-16"),
        ("# Experiment Blueprint", "kl_0.02.md", "kl-0-02"),
        ("# Blueprint 3: KL", "b.md", "b"),
        ("# 实验蓝图：对比", "gsm8k.md", "gsm8k"),
        ("", "some name; $(x) `y`.md", "some-name-x-y"),
        ("# " + "a" * 300, "b.md", "a" * 40),
        ("# 一", "二.md", "experiment"),
    ],
)
def test_slug(title: str, name: str, slug: str) -> None:
    assert parse(f"{title}\n\n{COMMAND}", name).slug == slug
    b = parse(f"{title}\n\n{COMMAND}## Notes\n- slug: My Slug\n", name)
    assert b.slug == "my-slug"


@pytest.mark.parametrize(
    ("title", "purpose", "slug"),
    [
        ("", "Math: is top-k worth it?", "math-is-top-k-worth-it"),
        ("# 消融实验 7", "top_k 消融", "top-k"),
        ("# 消融实验 7", "对比两种采样 k1", "exp"),
        ("# Blueprint", "", "exp"),
    ],
)
def test_slug_from_the_purpose(title: str, purpose: str, slug: str) -> None:
    assert parse(f"{title}\n\n## [exp_purpose]\n- {purpose}\n{COMMAND}", "exp.md").slug == slug


def test_evil_names_stay_text() -> None:
    b = parse((FIXTURES / "evil.md").read_bytes(), "evil.md")
    assert b.codebase_dir == """/data/my "project"; $(touch pwned)/it's"""
    assert b.purpose == "$(touch pwned) `touch pwned`; rm -rf /"
    assert b.launch_command == """echo "$(date)"; echo 'it is # no comment' # a comment"""
    assert b.result_dir == "/data/результаты/结果 (1)"
    assert b.slug == "a-name-with-quotes-touch-pwned-and-unico"


# what is refused


@pytest.mark.parametrize(
    ("data", "word", "line"),
    [
        (b"\xef\xbb\xbf \n\t\r\n", "empty", 0),
        (b"# x\n\0\x01", "control character 0x00", 2),
        (b"# ok\n\nabc \xe9t\xe9\n", "byte 10 (0xe9) is not UTF-8", 3),
        (b"x" * (MAX_BYTES + 1), "over 1 MiB", 0),
        (b"# A readme\n\nNothing here.\n", "none of the seven sections", 0),
    ],
)
def test_what_is_no_blueprint_at_all(data: bytes, word: str, line: int) -> None:
    error = refused(data)
    assert word in error.message
    assert error.message.startswith(f"b.md:{line}: " if line else "b.md: ")
    assert "\n" not in error.message
    assert len(error.message) < 200


def test_bom_crlf_and_an_exact_mebibyte_are_fine() -> None:
    assert parse(b"\xef\xbb\xbf" + COMMAND.replace("\n", "\r\n").encode()).launch_command == "python -m x --conf c.yaml"
    filler = b"x" * (MAX_BYTES - len(COMMAND) - 1)
    assert parse(filler + b"\n" + COMMAND.encode()).launch_command


def test_a_section_twice_names_both_lines() -> None:
    error = refused(f"{COMMAND}\n## [exp_result_dir]\n- path: /a\n\n# exp_result_dir\n- path: /b\n")
    assert error.message == "b.md:7: [exp_result_dir] stands in lines 4 and 7"
    assert error.findings[-1].code == "section_twice"


def test_all_errors_are_told_and_the_first_is_the_message() -> None:
    text = "## [exp_codebase_dir]\n- dir: ${Dir}\n\n## [exp_max_time]\n- time: 0 hours\n\n"
    text += "## [exp_launch_command]\n- hint: x\n## [exp_result_dir]\n- path: /r\n"
    error = refused(text)
    assert error.message == "b.md:2: the placeholder ${Dir} was never replaced (and 2 more)"
    stops = [(f.line, f.code) for f in error.findings if f.severity == "error"]
    assert stops == [(2, "placeholder"), (5, "impossible_duration"), (7, "missing_command")]
    assert error.result_dir == "/r" and refused(text.replace("/r", "${R}")).result_dir == ""


def test_an_unclosed_fence_names_its_line() -> None:
    error = refused("## [exp_launch_command]\n```bash\npython x\n\n## [exp_result_dir]\n/x\n")
    assert error.message.startswith("b.md:2: the code block that begins here is never closed")


def test_an_unknown_section_suggests_the_right_one() -> None:
    b = parse(f"{COMMAND}\n## [exp_result_dirs]\n- path: /x\n")
    (finding,) = [f for f in b.findings if f.code == "unknown_section"]
    assert (finding.line, finding.hint) == (4, "did you mean [exp_result_dir]?")


def test_a_path_over_several_lines_is_refused() -> None:
    error = refused(f"## [exp_codebase_dir]\n```\n/a\n/b\n```\n{COMMAND}")
    assert error.message == "b.md:3: the path in [exp_codebase_dir] goes over 2 lines"


PLACEHOLDERS = [
    ("## [exp_max_time]\nforcefully terminated after ${MaxTime}\n", 2),
    ("## [exp_max_time] Maximum runtime is ${MaxTime}\n", 1),
    ("## [exp_codebase_dir]\n- dir: ${subject_dir}/x\n", 2),
    ("## [exp_purpose]\n- purpose: try ${model}\n", 2),
]


@pytest.mark.parametrize(("text", "line"), PLACEHOLDERS)
def test_unreplaced_placeholders(text: str, line: int) -> None:
    error = refused(f"{COMMAND}\n{text}")
    assert error.message.startswith(f"b.md:{line + 3}: the placeholder ${{")


@pytest.mark.parametrize(
    "text",
    [
        "## [exp_codebase_dir]\n- dir: /a/$b\n",
        "## [exp_purpose]\n- purpose: {{ model }} and $x and \\${y}\n",
        "## Notes\nexport DATA=${DATA}/x\n",
        "## [exp_result_dir]\n- path: /r/x\n- note: below ${subject_dir}\n",
    ],
)
def test_what_is_no_unreplaced_placeholder(text: str) -> None:
    assert "placeholder" not in codes(parse(f"{COMMAND}\n{text}"))


@pytest.mark.parametrize(
    ("command", "fine"),
    [
        ("python x --dir $HOME/y ${HOME}/z", True),
        ("python x --dir ${OUT}", False),
        ("OUT=/x; python x --dir ${OUT}", True),
        ("for OUT in 1 2; do python x ${OUT}; done", True),
        ("python x ${OUT:-/tmp} ${1} ${#a[@]}", True),
        ("python x ${DECLARED} ${NEEDED}", True),
    ],
)
def test_placeholders_in_the_command(command: str, fine: bool) -> None:
    notes = f"## Notes\n- env: DECLARED=1\n- requires_env: NEEDED\n## [exp_purpose]\n`{command}` as it is.\n"
    text = f"## [exp_launch_command]\n```\ntrue\n{command}\n```\n{notes}"
    if fine:
        assert parse(text).launch_command == f"true\n{command}"
    else:
        assert refused(text).message.startswith("b.md:4: the placeholder ${")
