"""The rendered files themselves: good code, the right paths, never half of them, never over somebody's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.agentjet.scaffold import files as scaffold_files
from autoresearch.agentjet.scaffold.blackbox import Blackbox, Reward, RewardKind, agent_words, reward_from
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.run.scaffold import Templates
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.lab.render import render, render_blueprint

TEMPLATES = Templates(render, render_blueprint)
ROOT = Path(__file__).parents[3]
EVIL = "a'b\"c\\d\n{prompt}\u2028\U0001f600{{ x }}{% y %}"


def box(place: Path, reward: Reward, **changes: Any) -> Blackbox:
    (place / "data.jsonl").write_text('{"prompt": "2+2?", "answer": "4"}\n')
    given = Blackbox(agent_words("python agent.py {prompt}"), "data.jsonl", reward, **changes)
    return scaffold_files.resolve_paths(given, place / "out", place)


@pytest.mark.system
@pytest.mark.parametrize(
    "reward",
    [
        reward_from("exact"),
        reward_from("regex"),
        reward_from("regex:answer: (.*)"),
        reward_from(
            "command:rate {output_file} {answer_file} --with-a-long-option {item_file} --and-another {workdir}"
        ),
        Reward(RewardKind.FUNCTION, "score", "data.jsonl"),
        Reward(RewardKind.JUDGE, "gpt-5", judge_url="https://example.invalid/v1", judge_key_env="JUDGE_KEY"),
    ],
    ids=lambda reward: reward.kind.value,
)
def test_ruff_finds_nothing(tmp_path: Path, reward: Reward) -> None:
    texts = scaffold_files.rendered(box(tmp_path, reward), TEMPLATES)
    scaffold_files.write(texts, tmp_path / "out", force=False)
    ruff = Path(sys.executable).with_name("ruff")
    for words in (["check", "--no-cache"], ["format", "--no-cache", "--diff"]):
        done = subprocess.run(
            [ruff if ruff.exists() else shutil.which("ruff"), *words, "--config", ROOT / "pyproject.toml", "."],
            cwd=tmp_path / "out", capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    for name, text in texts.items():
        assert "{{" not in text and "{%" not in text, name
        assert text.isascii() or name == "validation.py"


def test_odd_texts_stay_what_they_are(tmp_path: Path) -> None:
    reward = Reward(RewardKind.REGEX, EVIL.replace("\n", "").replace("\\", "").replace("{{", ""))
    made = box(tmp_path, reward, prompt_column=EVIL, project=EVIL)
    texts = scaffold_files.rendered(made, TEMPLATES)
    found: dict[str, Any] = {}
    exec(texts[scaffold_files.COLLECTOR].replace("@dataclass", ""), {"__name__": "x", "__file__": "x"}, found)
    assert found["PROMPT"] == EVIL
    for name, text in texts.items():
        compile(text, name, "exec")


def test_paths_hold_from_everywhere(tmp_path: Path) -> None:
    (tmp_path / "agent.py").touch()
    (tmp_path / "rate.py").touch()
    reward = reward_from("command:python rate.py {output_file}")
    outside = box(tmp_path, reward)
    assert outside.dataset == str(tmp_path / "data.jsonl")
    assert outside.agent == ("python", str(tmp_path / "agent.py"), "{prompt}")
    (tmp_path / ".git").mkdir()  # one repository: a worktree of it must find its own files
    inside = box(tmp_path, reward)
    assert inside.dataset == "../data.jsonl"
    assert inside.agent == ("python", "{here}/../agent.py", "{prompt}")
    assert inside.reward.words == ("python", "{here}/../rate.py", "{output_file}")


def test_the_python_of_a_virtual_environment_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    python = tmp_path / "venv" / "bin" / "python"
    python.symlink_to(sys.executable)
    (tmp_path / "data.jsonl").write_text("{}")
    (tmp_path / ".git").mkdir()  # a worktree of this repository would not hold it
    given = Blackbox((str(python), "agent.py", "{prompt}"), "data.jsonl", reward_from("exact"))
    made = scaffold_files.resolve_paths(given, tmp_path / "out", tmp_path)
    assert made.agent[0] == str(python)  # what it links to knows nothing of its packages
    text = scaffold_files.blueprint(made, tmp_path / "out", TEMPLATES, python="auto")
    assert "the agent `python agent.py` on data.jsonl" in text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    given = Blackbox(("a", "{prompt}"), "none.jsonl", reward_from("exact"))
    with pytest.raises(NotFoundError, match=r"there is no file .*none\.jsonl"):
        scaffold_files.resolve_paths(given, tmp_path / "out", tmp_path)
    with pytest.raises(NotFoundError, match="is no file"):
        scaffold_files.resolve_paths(Blackbox(("a", "{prompt}"), ".", reward_from("exact")), tmp_path / "out", tmp_path)


def test_nothing_is_written_over_without_force(tmp_path: Path) -> None:
    texts = scaffold_files.rendered(box(tmp_path, reward_from("exact")), TEMPLATES)
    out = tmp_path / "out"
    out.mkdir()
    (out / "reward.py").write_text("my own")
    with pytest.raises(ConflictError) as refused:
        scaffold_files.write(texts, out, force=False)
    assert refused.value.message == f"reward.py exists already in {out}"
    assert [p.name for p in out.iterdir()] == ["reward.py"] and (out / "reward.py").read_text() == "my own"
    (out / "validation.py").symlink_to("nowhere")
    with pytest.raises(ConflictError, match=r"validation\.py, reward\.py exist already"):
        scaffold_files.write(texts, out, force=False)
    scaffold_files.write(texts, out, force=True)
    assert sorted(p.name for p in out.iterdir()) == sorted(texts) and not (out / "validation.py").is_symlink()
    with pytest.raises(ConflictError, match="is a file"):
        scaffold_files.write(texts, tmp_path / "data.jsonl", force=False)


def test_the_blueprint_parses_back(tmp_path: Path) -> None:
    judge = Reward(RewardKind.JUDGE, "gpt-5", judge_url="", judge_key_env="JUDGE_KEY")
    made = box(tmp_path, judge)
    text = scaffold_files.blueprint(made, tmp_path / "out dir", TEMPLATES, python="")
    parsed = parse_blueprint(text.encode(), "blueprint.md")
    results = tmp_path / "out dir" / "results"
    assert parsed.codebase_dir == str(tmp_path / "out dir")
    assert parsed.launch_command == f"python agent_roll.py --result-dir '{results}'"
    assert parsed.notes.requires_env == ("JUDGE_KEY",) and parsed.notes.metric == "swarm/mean_reward"
    assert [source.path for source in parsed.notes.source] == [str(results / "val_results.md")]
    swarm = parsed.notes.swarm
    assert swarm and swarm.port is None and swarm.server == "ajet-swarm start --swarm-port=$AJET_SWARM_PORT"
    assert swarm.debug == f"python agent_roll_one_episode_debug.py --result-dir '{results}'"
    text = scaffold_files.blueprint(made, tmp_path, TEMPLATES, python="", swarm_url="http://gpu:10086/")
    swarm = parse_blueprint(text.encode(), "blueprint.md").notes.swarm
    assert swarm and (swarm.server, swarm.url) == ("", "http://gpu:10086")
