"""Options that are refused, and the rendered files: good code, the right paths, never over somebody's own."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.agentjet import scaffold as scaffolds
from autoresearch.agentjet.scaffold import Blackbox, agent_words, blackbox
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.run.hooks import ScaffoldOptions, Templates
from autoresearch.errors import ConflictError, UsageError
from autoresearch.lab.render import render, render_blueprint

TEMPLATES = Templates(render, render_blueprint)
EVIL = "a'b\"c\\d\n{prompt}\u2028\U0001f600{{ x }}{% y %}"


GIVEN = ScaffoldOptions("python agent.py {prompt}", "data.jsonl", "exact")
JUDGE = {"reward": "", "judge_model": "gpt-5", "judge_api_key_env": "JUDGE_KEY"}


def box(place: Path, **changes: str) -> Blackbox:
    (place / "data.jsonl").write_text('{"prompt": "2+2?", "answer": "4"}\n')
    return blackbox(replace(GIVEN, **changes), place / "out", place)


def test_the_words_of_an_agent_are_those_of_a_shell_and_placeholders_stay() -> None:
    assert agent_words("opencode run '{prompt}' --dir={workdir}") == ("opencode", "run", "{prompt}", "--dir={workdir}")
    assert agent_words("""a {prompt_file} '{"url":"{base_url}"}' ${HOME}""")[2] == '{"url":"{base_url}"}'
    assert agent_words("""bash -c 'cd {workdir}; agent "$1"' agent {prompt}""")[0] == "bash"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"agent_command": ""}, "is empty"),
        ({"agent_command": "agent 'x"}, "no closing quotation"),
        ({"agent_command": "agent --model {model}"}, "neither {prompt} nor {prompt_file}"),
        ({"agent_command": "agent {prompt} {promt}"}, "{promt} is no placeholder"),
        ({"agent_command": "agent {prompt} {answer}"}, "{answer} is no placeholder"),  # the agent must not see it
        ({"agent_command": "env X=1 /bin/sh -ec 'agent {prompt} | tee log'"}, "the shell would run"),
        ({"reward": ""}, "where does the reward come from"),
        ({"judge_model": "j"}, "exclude each other"),
        ({"reward": "exact:x"}, "names no reward"),
        ({"reward": "score.py:"}, "names no reward"),
        ({"reward": "regex:("}, "is no regular expression"),
        ({"reward": "regex:x*"}, "finds an answer in no output at all"),
        ({"reward": "command:"}, "is empty"),
        ({"reward": "command:rate {prompt}"}, "{prompt} is no placeholder"),
        ({"reward": "command:sh -c 'rate {answer}'"}, "the shell would run what stands in the dataset"),
    ],
)
def test_options_that_could_never_work(tmp_path: Path, changes: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError) as failed:
        box(tmp_path, **changes)
    assert why in failed.value.message and "\n" not in failed.value.message


def test_what_validation_results_are_listed_under(tmp_path: Path) -> None:
    (tmp_path / "aime-2025.csv").touch()
    assert box(tmp_path).eval_name == "data-held-out"
    assert box(tmp_path, eval_dataset="aime-2025.csv").eval_name == "aime-2025"


def test_odd_texts_stay_what_they_are(tmp_path: Path) -> None:
    pattern = "regex:" + EVIL.replace("\n", "").replace("\\", "").replace("{{", "")
    made = replace(box(tmp_path, reward=pattern, prompt_column=EVIL), project=EVIL)
    texts = scaffolds.rendered(made, TEMPLATES)
    found: dict[str, Any] = {}
    exec(texts[scaffolds.COLLECTOR].replace("@dataclass", ""), {"__name__": "x", "__file__": "x"}, found)
    assert found["PROMPT"] == EVIL
    for name, text in texts.items():
        compile(text, name, "exec")


def test_paths_hold_from_everywhere(tmp_path: Path) -> None:
    (tmp_path / "agent.py").touch()
    (tmp_path / "rate.py").touch()
    reward = "command:python rate.py {output_file}"
    outside = box(tmp_path, reward=reward)
    assert outside.options.dataset == str(tmp_path / "data.jsonl")
    assert outside.agent == ("python", str(tmp_path / "agent.py"), "{prompt}")
    (tmp_path / ".git").mkdir()  # one repository: a worktree of it must find its own files
    inside = box(tmp_path, reward=reward)
    assert inside.options.dataset == "../data.jsonl"
    assert inside.agent == ("python", "{here}/../agent.py", "{prompt}")
    assert inside.reward.words == ("python", "{here}/../rate.py", "{output_file}")


def test_the_python_of_a_virtual_environment_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    python = tmp_path / "venv" / "bin" / "python"
    python.symlink_to(sys.executable)
    (tmp_path / ".git").mkdir()  # a worktree of this repository would not hold it
    made = box(tmp_path, agent_command=shlex.join([str(python), "agent.py", "{prompt}"]))
    assert made.agent[0] == str(python)  # what it links to knows nothing of its packages
    text = scaffolds.blueprint(made, tmp_path / "out", TEMPLATES)
    assert "the agent `python agent.py` on data.jsonl" in text


def test_nothing_is_written_over_without_force(tmp_path: Path) -> None:
    texts = scaffolds.rendered(box(tmp_path), TEMPLATES)
    out = tmp_path / "out"
    out.mkdir()
    (out / "reward.py").write_text("my own")
    with pytest.raises(ConflictError) as refused:
        scaffolds.write(texts, out, force=False)
    assert refused.value.message == f"reward.py exists already in {out}"
    assert [p.name for p in out.iterdir()] == ["reward.py"] and (out / "reward.py").read_text() == "my own"
    (out / "validation.py").symlink_to("nowhere")
    with pytest.raises(ConflictError, match=r"validation\.py, reward\.py exist already"):
        scaffolds.write(texts, out, force=False)
    scaffolds.write(texts, out, force=True)
    assert sorted(p.name for p in out.iterdir()) == sorted(texts) and not (out / "validation.py").is_symlink()
    with pytest.raises(ConflictError, match="is a file"):
        scaffolds.write(texts, tmp_path / "data.jsonl", force=False)


def test_the_blueprint_parses_back(tmp_path: Path) -> None:
    made = box(tmp_path, **JUDGE)
    text = scaffolds.blueprint(made, tmp_path / "out dir", TEMPLATES)
    parsed = parse_blueprint(text.encode(), "blueprint.md")
    results = tmp_path / "out dir" / "results"
    assert parsed.codebase_dir == str(tmp_path / "out dir")
    assert parsed.launch_command == f"python agent_roll.py --result-dir '{results}'"
    assert parsed.notes.requires_env == ("JUDGE_KEY",) and parsed.notes.metric == "swarm/mean_reward"
    swarm = parsed.notes.swarm
    assert swarm and swarm.port is None and swarm.server == "ajet-swarm start --swarm-port=$AJET_SWARM_PORT"
    assert swarm.debug == f"python agent_roll_one_episode_debug.py --result-dir '{results}'"
    text = scaffolds.blueprint(box(tmp_path, swarm_url="http://gpu:10086/"), tmp_path, TEMPLATES)
    swarm = parse_blueprint(text.encode(), "blueprint.md").notes.swarm
    assert swarm and (swarm.server, swarm.url) == ("", "http://gpu:10086")
