"""A project with one script that nobody knows: `init`, and one command that runs a campaign on it."""

from __future__ import annotations

import json
import shlex
import textwrap
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.commands.test_terminal_lines import at_terminal

pytestmark = pytest.mark.system

# One file with its settings in the text, a moving line while it trains, and a summary at the end.
TRAIN = """
import math, random
MATRIX_LR = 0.04
DEPTH = 8
for step in range(30):
    loss = 1.0 + 0.05 * abs(math.log10(MATRIX_LR) + 1) + math.exp(-step)
    print(f"\\rstep {step:05d} ({step / 30 * 100:.1f}%) | loss: {loss:.6f} | dt: 10ms    ", end="", flush=True)
print()
val_bpb = loss - 0.003
print("---")
print(f"val_bpb:          {val_bpb:.6f}")
print(f"training_seconds: {0.1:.1f}")
print(f"num_steps:        {step + 1}")
print(f"depth:            {DEPTH}")
"""


def project(bench: Any, text: str = TRAIN) -> None:
    for path in bench.repo.glob("*.md"):
        path.unlink()
    (bench.repo / "train.py").write_text(textwrap.dedent(text))
    bench.commit("the task")


def test_a_campaign_from_init_and_one_command(camp: Any) -> None:
    bench = camp.bench
    project(bench)
    made = bench.ask("init", "--metric", "val_bpb")
    assert (made["launch_command"], made["metric"], made["direction"]) == ("python train.py", "val_bpb", "minimize")
    assert made["next"] == [
        "autoresearch run experiment.md --detach --json",
        "autoresearch campaign start campaign.yaml --dry-run --detach --json",
    ]
    assert made["settings"] == {}, "it takes nothing: its code is for an agent to change"
    assert bench.ask("init", check=5)["error"]["code"] == "conflict"
    (bench.repo / "campaign.yaml").unlink()
    text = (bench.repo / "train.py").read_text()
    ideas = [("lr", "MATRIX_LR = 0.1"), ("worse", "MATRIX_LR = 0.001"), ("broken", "MATRIX_LR = 'x'")]
    (bench.repo / "ideas.yaml").write_text(
        "".join(
            f"- {json.dumps({'slug': slug, 'files': {'train.py': text.replace('MATRIX_LR = 0.04', new)}})}\n"
            for slug, new in ideas
        )
    )
    quick = ("--set", "baseline=1", "--set", "retests=0", "--set", "confirm=false", "--set", "prefix=autoresearch/one")
    camp.known(bench.ask("campaign", "start", "--count", 4, "--queue", "ideas.yaml", *quick, "--yes", "--detach"))
    state = camp.over()
    assert [row.ending for row in state.rows] == ["finished", "finished", "finished", "crashed"], camp.said()
    values = [None if row.metric_value is None else round(row.metric_value, 3) for row in state.rows]
    assert values == [1.017, 0.997, 1.097, None]
    assert state.spec.objective.direction == "minimize"


def test_init_lists_what_the_script_takes_and_a_key_of_it_is_varied(camp: Any) -> None:
    bench = camp.bench
    flags = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float, default=0.3)\n"
    project(bench, f"{flags}a = p.parse_args()\nfor n in range(3):\n    print('step:', n, 'reward =', a.lr)\n")
    made = bench.ask("init", "--command", "python train.py", "--metric", "reward")
    assert (made["metric"], made["direction"], made["settings"]) == ("reward", "maximize", {"lr": None})
    assert bench.ask("blueprint", "check", "experiment.md")["findings"] == []
    refused = bench.ask(*shlex.split(made["next"][1])[1:], check=2)["error"]
    assert refused["code"] == "no_space" and refused["message"].endswith("this launch has lr")
    path = bench.repo / "campaign.yaml"
    path.write_text(path.read_text().replace("# space:", "space:").replace("#   lr: []", "  lr: [0.1, 0.9]"))
    planned = bench.ask(*shlex.split(made["next"][1])[1:])
    assert planned["plan"]["space"].startswith("lr 0.1 or 0.9  ") and not planned["remarks"]


def test_without_a_trial_the_first_run_is_to_tell(bench: Any) -> None:
    project(bench)
    made = bench.ask("init")
    assert (made["metric"], made["numbers"], made["next"][0]) == ("", [], "autoresearch init --json --try 60s")
    assert made["remarks"][0] == "no metric is named: the first run will tell which numbers there are"


def test_a_trial_shows_every_number_and_one_is_named_by_a_line_to_type(bench: Any) -> None:
    project(bench, "for n in range(9):\n    print('epoch', n, 'loss', 1 / (n + 2), 'grip', n / 10 + 0.05)\n")
    made = bench.ask("init", "--try", "20s")
    shown = [(one["name"], round(one["first"], 2), round(one["last"], 2), one["proposed"]) for one in made["numbers"]]
    assert shown == [("loss", 0.5, 0.1, True), ("grip", 0.05, 0.85, False)]
    assert made["metric"] == "", "it may be that of the batch"
    assert made["next"][0] == "autoresearch init --json --metric loss"
    assert "read epoch as the step" in made["remarks"][1].replace("`", "")
    assert bench.ask("init", "--metric", "grip")["metric"] == "grip"
    assert "grape was not printed" in bench.ask("init", "--metric", "grape", "--try", "20s")["remarks"]


def test_a_trial_shows_what_stands_only_in_the_last_line(bench: Any) -> None:
    project(bench, "for n in range(9):\n    print('step', n, 'loss', 1 / (n + 2))\nprint('p50_ms=78.1 peak_mb=40.5')\n")
    assert [one["name"] for one in bench.ask("init", "--try", "20s")["numbers"]] == ["loss", "p50_ms", "peak_mb"]
    (bench.repo / "train.py").write_text("print('accuracy: 0.7005')\n")
    assert bench.ask("init", "--try", "20s")["next"][0] == "autoresearch init --json --metric accuracy"
    (bench.repo / "train.py").write_text("print('done')\n")
    assert "--try" not in bench.ask("init", "--try", "20s")["next"][0], "it was just typed"


def test_a_known_trainer_is_not_run_for_a_trial(bench: Any) -> None:
    before = bench.picture()
    words = ("init", "--try", "9s", "--command", "python -m verl.trainer.main_ppo trainer.nnodes=1")
    assert "verl" in bench.ask(*words, check=2)["error"]["message"] and bench.picture() == before


CONFIGURED = """
import sys
learning_rate = 0.0006
for word in sys.argv[1:]:
    name, value = word[2:].split("=")
    globals()[name] = float(value)
for step in range(3):
    print(f"step {step}: val_loss {learning_rate} 1")
"""


def test_a_second_init_writes_anew_what_nobody_edited(camp: Any) -> None:
    bench = camp.bench
    project(bench)
    (bench.repo / "fit.py").write_text("learning_rate = 0.1\nfor n in range(3):\n    print('it', n, 'val_acc', 0.5)\n")
    assert bench.ask("init")["launch_command"] == "python train.py"
    made = bench.ask("init", "--command", "python fit.py")
    assert made["launch_command"] == "python fit.py"
    assert [Path(path).name for path in made["files"]] == ["experiment.md", "campaign.yaml"]
    assert bench.ask("init", "--metric", "other")["launch_command"] == "python fit.py", "as it stands there"
    assert "- metric: other" in (bench.repo / "experiment.md").read_text()
    for name in ("campaign.yaml", "experiment.md"):
        text = (bench.repo / name).read_text()
        (bench.repo / name).write_text(f"{text}# mine\n")
        before = bench.picture()
        error = bench.ask("init", "--command", "python train.py", check=5)["error"]
        assert name in error["message"] and "move " in error["hint"] and bench.picture() == before
    assert "experiment.md and campaign.yaml" in error["message"]


def test_a_flag_that_nobody_knows_is_varied(camp: Any) -> None:
    bench = camp.bench
    project(bench, CONFIGURED)
    bench.ask("init", "--metric", "val_loss", "--command", "python train.py --width=4")
    path = bench.repo / "campaign.yaml"
    path.write_text("blueprint: experiment.md\nspace: {--learning_rate: [0.25, 0.5]}\nproposer: grid\ncount: 3\n")
    quick = ("--set", "baseline=1", "--set", "retests=0", "--set", "confirm=false", "--set", "prefix=autoresearch/one")
    camp.known(bench.ask("campaign", "start", path, *quick, "--yes", "--detach"))
    assert [row.metric_value for row in camp.over().rows] == [0.0006, 0.25, 0.5], camp.said()


def test_what_is_said_of_a_condition_in_a_space_works(camp: Any) -> None:
    bench = camp.bench
    flags = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--optimizer', default='adamw')\n"
    flags += "p.add_argument('--momentum', type=float, default=0.5)\na = p.parse_args()\n"
    project(bench, f"{flags}for n in range(3):\n    print('step:', n, 'reward =', a.momentum)\n")
    bench.ask("init", "--command", "python train.py", "--metric", "reward")
    path = bench.repo / "campaign.yaml"
    path.write_text("blueprint: experiment.md\nspace: {momentum: {low: 0, high: 1, if: optimizer == sgd}}\n")
    error = bench.ask("campaign", path, "--dry-run", check=2)["error"]
    assert "`if` is no word of a range" in error["message"]
    queue = error["hint"].split("`")[-2]
    assert queue.startswith("queue: [")
    path.write_text(f"blueprint: experiment.md\n{queue}\ncount: 3\n")
    planned = bench.ask("campaign", path, "--dry-run")
    assert planned["plan"]["ideas from"].startswith("queue") and not planned["remarks"]


def test_numbers_whose_names_say_nothing_are_offered_to_choose_from(camp: Any) -> None:
    """An agent that edits the code is no answer where a script reads variables; nor may its length vary unasked."""
    bench = camp.bench
    project(bench, "")
    (bench.repo / "go.sh").write_text('RATE=${RATE:-0.3}\nfor i in 1 2 3; do echo "it $i acc=$RATE"; done\n')
    made = json.loads(bench.here("init", "--json", "--metric", "acc", "--", "bash", "go.sh")[1])
    assert made["settings"] == {"$RATE": 0.3} and "is for you to say" in made["remarks"][-1]
    path = bench.repo / "campaign.yaml"
    bench.commit("start")
    assert bench.ask("campaign", path, check=2)["error"]["code"] == "no_space"
    path.write_text(path.read_text().replace("# space:", "space:").replace("#   $RATE: [0.3]", "  $RATE: [0.3, 0.6]"))
    assert bench.ask("campaign", path, "--dry-run")["plan"]["space"].startswith("$RATE 0.3 or 0.6")


def test_a_variable_that_nothing_names_is_remarked(camp: Any) -> None:
    bench = camp.bench
    project(bench, "from own import chunk\nfor n in range(3):\n    print('it', n, 'acc', chunk)\n")
    (bench.repo / "own.py").write_text("import os\nchunk = os.environ.get('CHUNK', 0.5)\n")
    (bench.repo / "go.sh").write_text("RATE=${RATE:-0.3}\npython train.py\n")
    bench.here("init", "--json", "--metric", "acc", "--", "bash", "go.sh")
    (bench.repo / "ideas.yaml").write_text(
        "- {slug: a, overrides: {$NOPE: 2, $RATE: 0.6}}\n"
        "- {slug: b, overrides: {$OWN: 2}, files: {go.sh: 'echo $OWN'}}\n"
    )
    words = ("campaign", "campaign.yaml", "--dry-run", "--count", 3, "--direction", "maximize")
    (bench.repo / "Makefile").write_text("train:\n\tpython train.py $(ROUNDS)\n")
    of_space = [("$CHUNK", "", ""), ("$ROUNDS", "", ""), ("$CHUNKS", "", "$CHUNKS")]
    for spaced, queue, named in (*of_space, ("", "ideas.yaml", "$NOPE")):
        given = ("--queue", queue) if queue else ("--set", f"space={{{spaced}: [16, 32]}}")
        plan = bench.ask(*words, *given)
        found = [one for one in plan["remarks"] if "nothing here names" in one]
        assert len(found) == bool(named) and all(f"names {named}: " in one for one in found), plan["remarks"]
    bench.commit("all of it")
    plan = bench.ask(*words, "--set", "base=HEAD", "--set", "space={$CHUNK: [1, 2], $SLUG: [1, 2]}")
    assert any("nothing here names $SLUG: " in one for one in plan["remarks"]), plan["remarks"]
    screen = ("--set", "screen={overrides: {$CHUNK: 1}}")  # cheap runs of ideas that vary it are all alike
    alike = bench.ask(*words, *screen, "--set", "space={$CHUNK: [1, 2], $RATE: [0.3, 0.6]}")["remarks"]
    assert any("`screen` sets $CHUNK, which ideas vary" in one for one in alike), alike


def test_that_a_program_is_asked_leaves_nothing_behind(camp: Any) -> None:
    bench = camp.bench
    table = "import argparse\np = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)\n"
    table += "for name, value in {'lr': 0.3, 'kl_coef': 0.02, 'seed': 1}.items():\n"
    table += "    p.add_argument('--' + name, type=float, default=value, help='a number')\n"
    project(bench, f"{table}a = p.parse_args()\nprint('reward =', a.lr)\n")
    before = {*bench.repo.iterdir()}
    assert bench.ask("init")["settings"] == {"lr": 0.3, "kl_coef": 0.02}
    new = {path.name for path in {*bench.repo.iterdir()} - before}
    assert new == {"autoresearch.yaml", ".autoresearch.schema.json", "experiment.md", "campaign.yaml"}


def test_a_file_that_is_no_blueprint_says_how_it_is_run(camp: Any) -> None:
    bench = camp.bench
    project(bench)
    refused = bench.ask("run", "train.py", check=3)["error"]
    assert refused["code"] == "not_a_blueprint"
    assert refused["fix"] == "autoresearch run --json -- python train.py"
    none = bench.ask("blueprint", "new", "x.md", check=2)["error"]
    assert none["message"] == "a blueprint needs a purpose" and "--purpose" in none["hint"]
    (bench.repo / "c.yaml").write_text("blueprint: x.md\n")
    assert bench.ask("run", "c.yaml", check=3)["error"]["fix"] == "autoresearch campaign start c.yaml --json"


def test_init_without_a_script_of_a_usual_name_asks_for_the_command(bench: Any) -> None:
    (bench.repo / "another.py").write_text("print('loss', 0.5)")
    made = bench.ask("init")
    assert made["blueprint"] is None and "name what trains by --command" in made["remarks"][0]
    assert made["next"][1] == "autoresearch init --command COMMAND --json"


EPISODES = """
import random
draws = random.Random(3)
for n in range(300):
    print(f"global_step={100 * n}, episodic_return={n / 10 + draws.gauss(20, 10):.2f}")
"""


def test_of_returns_that_jump_the_mean_of_the_last_ones_is_proposed(camp: Any) -> None:
    """By `init --try`, and where a run has shown it; a run by the last value alone says so."""
    bench, counts = camp.bench, "mean(episodic_return, last 20)"
    project(bench, EPISODES)
    ran = json.loads(bench.here("run", "--json", "--metric", "episodic_return", "--", "python", "train.py")[1])
    assert any(f"`- metric: {counts}`" in one for one in ran["warnings"]), ran
    ran = json.loads(bench.here("run", "--json", "--", "python", "train.py")[1])
    assert (ran["verdict"], ran["exit_code"]) == ("unmeasured", 0) and f"--metric '{counts}'" in str(ran), ran
    (bench.repo / "ideas.yaml").write_text(f"- {json.dumps({'slug': 'same', 'files': {'train.py': EPISODES}})}\n")
    planned = bench.ask("campaign", ran["blueprint"], "--queue", "ideas.yaml", "--dry-run")["plan"]
    assert planned["objective"].startswith(f"{counts}, maximize"), planned
    made = bench.ask("init", "--try", "20s")
    assert (made["metric"], made["direction"]) == (counts, "maximize"), made
    ran = bench.ask("run", "experiment.md")
    assert not any("jumps" in one for one in ran["warnings"])
    assert [row["metric_name"] for row in bench.ask("ledger", "show", ran["run"])["rows"]] == [counts]


QUICK = ("--set", "baseline=1", "--set", "retests=0", "--set", "confirm=false")
TRIED = ("--metric", "val_bpb", "--set", "space={--matrix_lr: [0.01, 0.1]}")


def test_at_a_terminal_init_asks_and_a_campaign_shows_its_plan(camp: Any) -> None:
    bench = camp.bench
    project(bench, "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\n" + TRAIN)
    answers = "y\ny\nyes\nno\nlr: 3\nlr: [0.1, 0.3]\n\n"  # command, trial, metric, purpose, space
    said = at_terminal(["init"], bench.repo, bench.env, typed=answers)
    asked = ("Which command trains it", "Which metric", "What is the experiment for")
    assert all(words in said for words in asked) and "write it, or press Enter" in said, said
    text = (bench.repo / "experiment.md").read_text()
    assert "python train.py\n" in text and "- metric: val_bpb" in text
    words = ["campaign", "--count", "3", "--deadline", "10h", *QUICK, "--detach"]
    said = at_terminal(words, bench.repo, bench.env, typed="\n")
    assert "the campaign (--full: all" in said and "unknown until the baseline ran; a run is cut after 10h" in said
    (directory,) = (bench.repo / "reports/auto_research").glob("*-campaign")  # beside a .gitignore
    camp.known({"directory": str(directory)})
    assert len(camp.over().rows) == 3, camp.said()


def test_in_a_folder_with_only_a_script_nothing_is_begun_or_written(bench: Any) -> None:
    bench.repo = bench.root / "stranger"
    bench.repo.mkdir()
    (bench.repo / "train.py").write_text(TRAIN)
    refused = bench.ask("campaign", "--count", 3, "--yes", check=2)["error"]
    assert (refused["code"], refused["fix"]) == ("no_campaign_file", "autoresearch init --json")
    assert bench.ask("run", "blueprint.md", check=4)["error"]["code"] == "no_blueprint"
    assert {path.name for path in bench.repo.iterdir()} == {"train.py"}


def test_the_same_line_goes_on_and_begins_another_one_once_the_first_has_ended(camp: Any) -> None:
    bench, strftime = camp.bench, time.strftime
    project(bench, f"import os, time\nwhile not os.path.exists(os.environ['GO']): time.sleep(0.02)\n{TRAIN}")
    bench.ask("init")

    def typed(day: int, *flags: object, check: int = 0) -> dict[str, Any]:
        with mock.patch("time.strftime", lambda form, *_: f"202611{day}" if form == "%Y%m%d" else strftime(form, *_)):
            code, out, err = bench.here("campaign", *QUICK, *TRIED, *flags, "--yes", "--detach", "--json")
        assert code == check, out + err
        return dict(json.loads(out))

    first = typed(10, "--count", 9)
    camp.known(first)
    assert first["campaign"] == "20261110-campaign"
    assert typed(11, check=5)["error"]["fix"] == "autoresearch campaign status 20261110-campaign --json"
    assert typed(11, "--count", 9)["campaign"] == "20261110-campaign"  # it runs
    bench.ask("campaign", "pause")
    camp.go.touch()
    camp.dead()
    camp.go.unlink()
    assert typed(11, "--count", 9)["campaign"] == "20261110-campaign"  # it was paused
    assert camp.place.controlled
    bench.ask("campaign", "pause")
    camp.go.touch()
    camp.dead()
    refused = typed(11, check=5)["error"]
    assert refused["message"] == "the campaign 20261110-campaign was started and has not ended"
    assert refused["fix"] == "autoresearch campaign resume 20261110-campaign --detach --json"
    assert refused["hint"].startswith("`--set prefix=autoresearch/20261111-campaign` starts another one")
    bench.ask("campaign", "stop")
    camp.over()
    assert typed(10, "--count", 1)["campaign"] == "20261110-campaign-2"
