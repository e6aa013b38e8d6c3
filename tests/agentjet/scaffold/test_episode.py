"""The rendered collector and episode, run as real programs against a scripted model."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COLLECTOR = "get_training_dataset_item_list.py"


@pytest.mark.system
def test_an_episode_has_the_reward_of_its_answer(scaffold: Any, model: Any) -> None:
    made = scaffold()
    told = made.episode(model, OPENAI_API_KEY="sk-1234")
    assert told["reward"] == 1.0 and told["item"] == "row-000001"
    assert told["output"] == "thinking ...\n4\n"  # no colours
    assert model.asked[0]["messages"][0]["content"] == "2+2?" and model.keys == ["Bearer sk-1234"]
    assert made.episode(model, "row-000002")["reward"] == 0.0


@pytest.mark.system
def test_an_item_may_be_given_whole(scaffold: Any, model: Any) -> None:
    assert scaffold().episode(model, json.dumps({"prompt": "say 4", "answer": " 4 "}))["reward"] == 1.0
    assert "no prompt" in scaffold().episode(model, '{"answer": "4"}', check=1)["error"]
    assert "row-9" in scaffold().episode(model, "row-9", check=1)["error"]


@pytest.mark.parametrize(
    ("reward", "said", "wanted"),
    [
        ("regex", "so it is 4!", 1.0),
        ("regex", "it is five", 0.0),
        (r"regex:(?i)answer: *(\S+)", "Answer: 5\nANSWER: 4", 1.0),  # the last one counts
        (r"regex:(?i)answer: *(\S+)", "Answer: 4\nANSWER: 5", 0.0),
        (r"regex:(?i)answer: *(\S+)", "four", 0.0),
        ("exact", "It is\n4", 1.0),
        ("exact", "It is 4", 0.0),
    ],
)
def test_programmatic_rewards(scaffold: Any, reward: str, said: str, wanted: float) -> None:
    reward_of = scaffold(reward=reward).load("reward.py").reward_of
    assert reward_of({"id": "1", "answer": "4"}, f"thinking\n{said}\n", Path()) == wanted


@pytest.mark.system
def test_a_reward_of_a_command_and_of_a_function_see_what_the_agent_left(scaffold: Any, model: Any) -> None:
    made = scaffold()
    (made.base / "rate.py").write_text(
        "import sys, pathlib\n"
        "output, answer, workdir = sys.argv[1:]\n"
        "print('rating')\n"
        "right = pathlib.Path(workdir, 'answer.txt').read_text() == answer and 'thinking' in open(output).read()\n"
        "print(0.75 if right else 0.25)\n"
    )
    command = f"command:{sys.executable} rate.py {{output_file}} {{answer}} {{workdir}}"
    assert scaffold("write", command).episode(model)["reward"] == 0.75
    (made.base / "mine.py").write_text(
        "from pathlib import Path\n"
        "def score(item, output, workdir):\n"
        "    return len(item['prompt']) + float(Path(workdir, 'answer.txt').read_text())\n"
    )
    assert scaffold("write", "mine.py:score").episode(model)["reward"] == 8.0


@pytest.mark.system
def test_a_reward_that_is_none_is_never_made_one(scaffold: Any, model: Any) -> None:
    for body, why in (
        ("return float('nan')", "the reward is nan"),
        ("return 'high'", "could not convert"),
        ("1 / 0", "ZeroDivision"),
    ):
        (scaffold().base / "bad.py").write_text(f"def score(item, output, workdir):\n    {body}\n")
        told = scaffold(reward="bad.py:score").episode(model, check=1)
        assert why in told["error"] and "reward" not in told
    for command, why in (
        ("echo high", "no number"),
        ("false", "ended with 1"),
        ("no-such-program", "cannot be started"),
    ):
        assert why in scaffold(reward=f"command:{command}").episode(model, check=1)["error"]


@pytest.mark.system
def test_a_reward_that_never_comes_back_is_ended(scaffold: Any, model: Any) -> None:
    """A regular expression holds the interpreter's lock, so that no thread could do it."""
    made = scaffold()
    (made.base / "slow.py").write_text("import re\ndef score(*_):\n    re.match('(a|a)*b', 'a' * 60)\n")
    made = scaffold(reward="slow.py:score")
    path = made.place / "run_episode_once.py"
    path.write_text(path.read_text().replace("REWARD_TIMEOUT_S = 120.0", "REWARD_TIMEOUT_S = 1.0"))
    done = made.run("run_episode_once.py", "--item", "row-000001", "--base-url", model.url, check=None)
    assert done.returncode != 0 and "Timeout" in done.stderr and "slow.py" in done.stderr


@pytest.mark.system
def test_what_an_agent_may_do_wrong(scaffold: Any, model: Any, reaper: Any) -> None:
    """All that it started ends with it, and of its output a part is kept."""
    for mode, changes, why in (
        ("crash", {}, "the agent ended with 1: ValueError: no such tool"),
        ("hang", {"agent_timeout_s": 2.0}, "ran longer than 2 s"),
        ("", {"agent_command": "no-such-agent {prompt}"}, "no-such-agent cannot be started: No such file or directory"),
    ):
        assert why in scaffold(mode, **changes).episode(model, check=1)["error"]
    assert scaffold("leaves").episode(model)["reward"] == 1.0
    assert reaper.find() == []
    told = scaffold("endless").episode(model)
    assert told["reward"] == 1.0 and len(told["output"]) == 2000


@pytest.mark.system
def test_an_episode_that_is_told_to_end_ends_its_agent(
    scaffold: Any, model: Any, reaper: Any, eventually: Callable[[Callable[[], object]], None]
) -> None:
    made = scaffold("hang")
    words = [sys.executable, made.place / "run_episode_once.py", "--item", "row-000001", "--base-url", model.url]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        eventually(lambda: len(reaper.find()) >= 3)  # itself, the agent, what the agent started
        process.terminate()
        assert process.wait(60) == 143
    assert reaper.find() == []


@pytest.mark.system
def test_prompts_are_never_shell_code_and_may_be_long(scaffold: Any, model: Any) -> None:
    evil = "$(touch /tmp/evil-{workdir}) `id` 'a' \"b\" {base_url}\n; exit 3"
    data = json.dumps({"prompt": evil, "answer": "4"}) + "\n" + json.dumps({"prompt": "x" * 200_000, "answer": "4"})
    made = scaffold(data=data)
    assert made.episode(model)["reward"] == 1.0
    assert model.asked[0]["messages"][0]["content"] == evil
    assert "Argument list too long" in made.episode(model, "row-000002", check=1)["error"]
    words = [sys.executable, "-c", "import sys; print(len(open(sys.argv[1]).read()))", "{prompt_file}"]
    told = scaffold(data=data, agent_command=shlex.join(words)).episode(model, "row-000002")
    assert told["output"] == "200000\n"


@pytest.mark.system
def test_nothing_is_left_on_disk(scaffold: Any, model: Any, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    scaffold("write").episode(model, TMPDIR=str(scratch))
    scaffold("crash").episode(model, check=1, TMPDIR=str(scratch))
    assert os.listdir(scratch) == []
    made = scaffold("write")
    words = ["--item", "row-000001", "--base-url", model.url, "--keep"]
    made.run("run_episode_once.py", *words, TMPDIR=str(scratch))
    assert [p.name for p in scratch.rglob("*.txt")] == ["answer.txt"]


@pytest.mark.system
def test_a_judge(scaffold: Any, model: Any, judge: Any) -> None:
    def reply(body: dict[str, Any]) -> str:
        if body["model"] != "judge-1":
            return "my answer"
        question = body["messages"][1]["content"]
        assert "2+2?" in question and "Reference answer:\n4" in question and "my answer" in question
        return 'It is {"score": 0}, no: {"score": 0.8}'

    model.reply = reply
    told = scaffold("judged", **judge(model)).episode(model, JUDGE_KEY="sk-judge")
    assert told["reward"] == 0.8
    assert model.keys[-1] == "Bearer sk-judge"
    assert "the key of the judge is None" in told["output"]  # it is none of the agent's business


NONSENSE = ["good!", '{"score": 7}', '{"score": "0.5"}', '{"score": NaN}', '{"score": true}', "[0.5]", "{torn"]


def test_scores(scaffold: Any, model: Any, judge: Any) -> None:
    score_in = scaffold(**judge(model)).load("reward.py").score_in
    assert [score_in(said) for said in NONSENSE] == [None] * len(NONSENSE)
    assert [score_in(said) for said in ('{"score": 0}', '```json\n{"score": 0.25}\n```')] == [0.0, 0.25]


@pytest.mark.system
def test_a_judge_that_answers_nonsense_gives_no_reward_and_may_recover(scaffold: Any, model: Any, judge: Any) -> None:
    said = iter(["good!", "HTTP 500", "good!"])
    model.reply = lambda body: next(said) if body["model"] == "judge-1" else "4"
    made = scaffold(**judge(model))
    path = made.place / "reward.py"
    path.write_text(path.read_text().replace("0.5 * 2**attempt", "0.0"))
    error = made.episode(model, check=1)["error"]
    assert error.startswith("there is no reward: the judge judge-1 gave no score in 3 tries")
    assert len(model.asked) == 4
    answers = iter(["4", "hm", '{"score": 1}'])
    model.reply = lambda body: next(answers)
    assert made.episode(model)["reward"] == 1.0


@pytest.mark.system
def test_a_judge_without_an_endpoint(scaffold: Any, model: Any, judge: Any) -> None:
    options = judge(type(model)(url=""))
    assert "JUDGE_BASE_URL is not set" in scaffold(**options).episode(model, check=1)["error"]
    model.reply = lambda body: '{"score": 1}'
    assert scaffold(**options).episode(model, JUDGE_BASE_URL=model.url)["reward"] == 1.0


@pytest.mark.system
def test_items_of_a_csv_file_and_of_json_lines_are_the_same(scaffold: Any) -> None:
    lines = '{"q": "a, b", "a": 1, "id": "x"}\n\n{"q": "two\\nlines", "a": null, "id": "y"}\n'
    made = scaffold(data=lines, reward="regex", prompt_column="q", answer_column="a")
    assert "there is no 'a'" in made.told(COLLECTOR, check=1)["error"]
    (made.base / "data.csv").write_text('\ufeffid,q,a,more\nx,"a, b",1,m\ny,"two\nlines",2,n\n')
    made = scaffold(dataset="data.csv", prompt_column="q", answer_column="a")
    both = [made.told(COLLECTOR, *words) for words in ([], ["--eval"])]
    assert [told["count"] for told in both] == [1, 1]
    firsts = sorted((told["first"] for told in both), key=lambda first: first["id"])
    assert firsts[0] == {"more": "m", "id": "x", "prompt": "a, b", "answer": "1"}
    assert firsts[1]["prompt"] == "two\nlines"
    (made.base / "test.csv").write_text("id,q,a\nx,a,b\n")
    made = scaffold(dataset="data.csv", prompt_column="q", answer_column="a", eval_dataset="test.csv")
    assert made.told(COLLECTOR)["count"] == 2 and made.told(COLLECTOR, "--eval")["count"] == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("\n", "it holds no row"),
        ("{torn", ":1: no JSON"),
        ("[1]", ":1: a row must be a JSON object, not a list"),
        ('{"question": "x"}', ":1: there is no column 'prompt' (columns: question)"),
        ('{"prompt": " ", "answer": "4"}', ":1: the prompt is empty"),
        ('{"prompt": "x"}', ":1: there is no 'answer' for the reward"),
        ('{"prompt": "x", "answer": "4", "id": "1"}\n' * 2, ":2: the id '1' is there twice"),
    ],
)
def test_data_that_cannot_be_used(scaffold: Any, data: str, why: str) -> None:
    collector = scaffold(data=data).load(COLLECTOR)
    with pytest.raises(collector.DatasetError) as failed:
        collector.get_training_dataset_item_list()
    assert why in str(failed.value) and "data.jsonl" in str(failed.value) and "\n" not in str(failed.value)


@pytest.mark.system
def test_data_that_is_no_text_or_not_there(scaffold: Any) -> None:
    made = scaffold()
    (made.base / "data.jsonl").write_bytes(b'{"prompt": "\xff"}')
    assert "not UTF-8" in made.told(COLLECTOR, check=1)["error"]
    (made.base / "data.jsonl").unlink()
    assert "No such file" in made.told(COLLECTOR, check=1)["error"]


def test_the_same_rows_are_held_out_whatever_is_added(scaffold: Any) -> None:
    def held_out(count: int) -> tuple[int, int]:
        rows = "".join(json.dumps({"prompt": f"p{n}", "answer": "1", "id": str(n)}) + "\n" for n in range(count))
        collector = scaffold(data=rows).load(COLLECTOR)
        return len(collector.get_training_dataset_item_list()), len(collector.get_eval_item_list())

    assert held_out(1) == (1, 0)
    assert held_out(2) == (1, 1)
    assert held_out(100) == (90, 10)
    assert held_out(1000) == (936, 64)
