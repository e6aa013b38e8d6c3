"""The launch command among sentences about it."""

from __future__ import annotations

import pytest

from autoresearch.core.blueprint.parser import BlueprintInvalid, looks_like_command, parse_blueprint


def command(section: str) -> str:
    return parse_blueprint(f"## [exp_launch_command]\n{section}\n".encode(), "b.md").launch_command


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("- command: python -m x --conf c.yaml", "python -m x --conf c.yaml"),
        ("- command: `python -m x`", "python -m x"),
        (
            "- command:\n    python x \\\n      --a 1 \\\n      --b 2\n- hint: y",
            "python x \\\n  --a 1 \\\n  --b 2",
        ),
        ("- command: python x \\\n--a 1 \\\n- y", "python x \\\n--a 1 \\\n- y"),
        ("- command: |\n    cd x\n\n    python y", "cd x\n\npython y"),
        ("- command:\n    - python x", "python x"),
        ("- command:\n  ```bash\n  cd x\n    python y\n  ```", "cd x\n  python y"),
        ("- command: see below\n\n```\npython x\n```", "python x"),
        ("- 命令：python x", "python x"),
        ("- Launch command: train.sh now", "train.sh now"),
        ("- content 1: run from the root\n- content 2: python x", "python x"),
        ("- description: what runs\n- hint: not `python old.py`\n- command: python x", "python x"),
        ("```\npython x\n```", "python x"),
        ("```console\n$ cd x\n$ python y\n```", "cd x\npython y"),
        ("Run this:\n\n```bash\npython x\n```\n\nIt prints\n\n```text\nok\n```", "python x"),
        ("Run this:\n```\npython x\n```\nand look at `python y`.", "python x"),
        (
            "```bash\n# exp_result_dir\n## [exp_purpose]\npython x\n```",
            "# exp_result_dir\n## [exp_purpose]\npython x",
        ),
        ("````\n```\npython x\n````", "```\npython x"),
        ("```\npython x\n```text\n```", "python x\n```text"),
        ("python -m x --a\n\nIt replaces `python -m y`.", "python -m x --a"),
        ("Training command:\npython -m x --a\nNote: adjust `python y` to your system.", "python -m x --a"),
        ("Training command (string): python -m x", "python -m x"),
        ("Start it from the root:\n\n    cd a && \\\n    python x\n\nThen wait.", "cd a && \\\npython x"),
        ("执行命令：\n    python x --a", "python x --a"),
        ('CUDA_VISIBLE_DEVICES=0,1 A="b c" python x', 'CUDA_VISIBLE_DEVICES=0,1 A="b c" python x'),
        ("# first this\ncd x\npython y", "cd x\npython y"),
        ("./run.sh --a", "./run.sh --a"),
        ("mytrainer --config x", "mytrainer --config x"),
    ],
)
def test_command(section: str, expected: str) -> None:
    assert command(section) == expected


@pytest.mark.parametrize(
    "section",
    [
        "",
        "- command:",
        "- command: NA",
        "- content 1: to be written by the agent",
        "- hint: python x",
        "- description: The agent must write its own command",
        "Default: the agent must write its own command",
        "the agent must write its own command; rm is not needed",
        "E.g. python -m x --conf y",
        "Start with `python -m x`.",
        "- description: start `python x` by hand",
        "```\n\n```",
        "```yaml\na: b\n```",
    ],
)
def test_no_command(section: str) -> None:
    with pytest.raises(BlueprintInvalid) as caught:
        command(section)
    assert caught.value.message == "b.md:1: [exp_launch_command] holds no command"
    assert "- command:" in caught.value.hint


@pytest.mark.parametrize(
    ("section", "lines"),
    [
        ("- command 1: python a\n- command 2: python b", "2, 3"),
        ("- content 1: ajet-swarm start --swarm-port=1\n- content 2: python b.py", "2, 3"),
        ("```\npython a\n```\n\n```\npython b\n```", "3, 7"),
    ],
)
def test_several_commands_are_never_guessed_among(section: str, lines: str) -> None:
    with pytest.raises(BlueprintInvalid) as caught:
        command(section)
    assert f"holds 2 commands (lines {lines})" in caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python x", True),
        ("time python x --a", True),
        ("for s in 1 2; do python x $s; done", True),
        ("make train", True),
        ("A=1", True),
        ("for this run we use the small model", False),
        ("time is short on this machine today", False),
        ("Python is needed", False),
        ("the --with-ray flag is needed", False),
        ("rm is not needed.", False),
    ],
)
def test_looks_like_command(text: str, expected: bool) -> None:
    assert looks_like_command(text) is expected
