"""`autoresearch run`, end to end, with real git, tmux and processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system
SAMPLES = Path(__file__).parents[1] / "samples/launch_scripts"

NEMO = (
    *("index", "branch", "parent_commit", "commit", "recipe", "metric_name", "metric_value", "memory_gb"),
    *("elapsed_min", "launcher", "job_id", "command", "log_path", "status", "description"),
)


def flag(result_dir: str) -> dict[str, Any]:
    return dict(json.loads((Path(result_dir) / "finish.flag").read_text()))


@pytest.mark.smoke
def test_a_run_ends_with_its_records_and_changes_nothing_else(bench: Any) -> None:
    """The code that ran on a branch, documents, flag, row; prepare, cleanup and secrets; git as it was."""
    (bench.repo / "trainer.py").write_text((bench.repo / "trainer.py").read_text() + "\n# uncommitted\n")
    (bench.repo / "new_module.py").write_text("x = 1\n")
    (bench.repo / ".env").write_text("SECRET=1\n")
    notes = "- env: FLAVOUR=sweet\n- requires_env: MY_API_KEY\n"
    notes += f"- prepare: echo made > {bench.root}/prepared\n- cleanup: cp {bench.root}/prepared {bench.root}/cleaned\n"
    inside = str(bench.repo / "auto_agent" / "exp_results" / "x")
    blueprint = bench.blueprint("ok", notes=notes, command="env && python trainer.py ok", result_dir=inside)
    bench.git("add", "exp.md")

    def of_git() -> list[object]:
        index = (bench.repo / ".git" / "index").read_bytes()
        return [index, *(bench.git(*words) for words in (("status", "--porcelain"), ("rev-parse", "HEAD")))]

    before = of_git()
    refused = bench.ask("run", blueprint, check=3)
    assert "MY_API_KEY" in refused["error"]["message"]
    payload = bench.ask("run", blueprint, MY_API_KEY="sk-very-secret-0123456789abcdef")
    assert of_git() == before
    told = {key: payload[key] for key in ("state", "ending", "returncode", "verdict")}
    assert told == {"state": "ended", "ending": "finished", "returncode": 0, "verdict": "keep"}
    assert payload["metrics"]["task_pass_rate@1"] == 0.5

    names = bench.git("ls-tree", "-r", "--name-only", payload["branch"]).split("\n")
    assert sorted(names) == ["exp.md", "new_module.py", "trainer.py"]
    assert bench.git("show", f"{payload['branch']}:trainer.py").endswith("# uncommitted")
    assert payload["branch"].startswith("autoresearch/") and payload["branch"].endswith("/try-ok")

    log = (Path(payload["result_dir"]) / "experiment_log.md").read_text()
    assert log.index("python trainer.py ok") < log.index("first step") < log.index("verdict: keep") and ".env" in log
    results = Path(payload["results"]).read_text()
    for words in ("See what ok does.", "## Validation", "## Training", "critic/rewards/mean", "task_pass_rate@1"):
        assert words in results
    assert flag(payload["result_dir"])["ending"] == "finished"
    (row,) = ledger_rows(payload["ledger"])
    assert tuple(row)[:15] == NEMO and float(row["memory_gb"]) > 0
    assert (row["status"], row["metric_value"], row["run_id"]) == ("keep", "0.5", payload["run"])
    assert Path(payload["ledger"]).parts[-4:-2] == ("reports", "auto_research")

    printed, run_dir = Path(payload["log_path"]).read_text(), Path(payload["run_dir"])
    assert "hello from the trainer" in printed and "echo made" in printed
    assert (bench.root / "cleaned").read_text() == "made\n"
    assert "FLAVOUR=sweet" in printed and "sk-very-secret" in printed  # the trainer does get it
    assert not (run_dir / "environment").exists() and "FLAVOUR" in (run_dir / "spec.json").read_text()
    for record in (run_dir / "spec.json", Path(payload["results"]), Path(payload["ledger"])):
        assert "sk-very-secret" not in record.read_text()
    assert "sk-very-secret" not in bench.here("logs", payload["run"], "--grep", "MY_API_KEY")[1]


@pytest.mark.smoke
def test_a_run_is_begun_once_and_outlives_the_terminal(bench: Any) -> None:
    """Ctrl-C and the death of tmux's server leave it alone, and the same command again finds it."""
    blueprint = bench.blueprint("long")
    process = bench.spawn("run", blueprint)
    run = bench.until(lambda: bench.ask("status")["runs"])[0]["run"]
    bench.until(lambda: bench.ask("status", run)["step"])
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=240) == 130
    again = bench.ask("run", blueprint, "--detach")
    assert (again["run"], again["already_running"]) == (run, True)
    bench.tmux("kill-server")  # the private one of this test
    before = bench.ask("status", run)["step"]
    bench.until(lambda: bench.ask("status", run)["step"] > before)
    assert bench.ask("stop", run, "--reason", "enough")["ending"] == "stopped"
    assert [row["run_id"] for row in ledger_rows(again["ledger"])] == [run]


def test_a_living_run_tells_what_it_uses_of_the_machine(bench: Any) -> None:
    path = bench.script("step(1)\nballast = bytearray(100_000_000)\nwhile True: pass")
    run = bench.ask("run", path, "--detach")["run"]

    def used() -> dict[str, Any] | None:
        """What is told once it is busy: in a tenth of a second a process may not get its turn."""
        told = dict(bench.ask("status", run))
        return told if told.get("memory_bytes", 0) > 100_000_000 and told["cpu_percent"] > 0 else None

    assert bench.until(used)["gpu_use"] == []
    assert re.search(r"^uses: CPU \d+ % of a core; memory \d+\.\d [GM]B$", bench.here("status", run)[1], re.MULTILINE)
    assert "cpu_percent" not in bench.ask("stop", run, "--reason", "seen")


def test_two_commands_on_one_blueprint_at_once_make_one_run(bench: Any) -> None:
    blueprint = bench.blueprint("long")
    both = [bench.spawn("run", blueprint, "--detach", "--json", stdout=subprocess.PIPE) for _ in range(2)]
    assert len({bench.answer(process)["run"] for process in both}) == 1
    bench.ask("stop", "last", "--reason", "enough")


@pytest.mark.parametrize(
    ("mode", "args", "code", "ending", "returncode"),
    [
        ("rc37", (), 10, "crashed", 37),
        ("kill", (), 10, "crashed", 137),
        ("silent", ("--first-step-timeout", "1s", "--grace", "60s"), 11, "first_step_timeout", 143),
        ("tree", ("--max-time", "2s", "--grace", "60s"), 12, "max_time", 143),
        ("stubborn", ("--max-time", "6s", "--grace", "1s"), 12, "max_time", 137),
        ("hang", ("--stall-timeout", "1s", "--grace", "60s"), 10, "stalled", 143),
    ],
)
def test_every_ending_is_told_apart(
    bench: Any, mode: str, args: tuple[str, ...], code: int, ending: str, returncode: int
) -> None:
    # deaf before Python has started: the time in all runs from the launch on, and a loaded machine takes its time
    values = {"command": "trap '' TERM; python trainer.py stubborn"} if mode == "stubborn" else {}
    payload = bench.ask("run", bench.blueprint(mode, **values), *args, check=code)
    assert (payload["ending"], payload["returncode"]) == (ending, returncode)
    assert flag(payload["result_dir"])["ending"] == ending
    (row,) = ledger_rows(payload["ledger"])
    assert row["ending"] == ending and row["returncode"] == str(returncode)
    bench.until(lambda: not bench.carriers())  # the Runner's own collector may just be finding nothing to do


def test_max_time_with_a_metric_is_judged_by_it(bench: Any) -> None:
    said = "step:0 - global_steps:0 - pass_n:2 - task_pass_rate@1:0.1 - mean_reward:0.1"  # sooner than Python could
    blueprint = bench.blueprint("long", command=f"echo '{said}'; python trainer.py long")
    payload = bench.ask("run", blueprint, "--max-time", "6s", "--grace", "60s", check=12)
    assert payload["verdict"] == "keep" and payload["metrics"]["task_pass_rate@1"] == 0.1


def test_a_dry_run_changes_nothing_and_says_how_the_same_is_run_for_real(bench: Any) -> None:
    blueprint = bench.blueprint("ok", name="my exp.md")
    before = bench.picture()
    words = ("run", blueprint.name, "--launcher", "local:2", "--max-time", "9m", "--dry-run")
    typed = ["autoresearch", "run", str(blueprint), "--launcher", "local:2", "--max-time", "9m"]
    planned = bench.ask(*words)
    assert shlex.split(planned["next"][0]) == [*typed, "--detach", "--json"]
    assert planned["branch"] and planned["session"].startswith("ajet_try_ok_")
    shown = bench.here(*words)[1]
    assert shown.splitlines()[-1] == f"next: {shlex.join(['autoresearch', *words[:-1]])}"
    assert "python trainer.py ok" in shown and "first step 5m" in shown
    assert bench.picture() == before


def test_a_second_run_moves_the_first_ones_records_aside(bench: Any) -> None:
    blueprint = bench.blueprint("ok")
    first = bench.ask("run", blueprint)
    second = bench.ask("run", blueprint)
    assert first["run"] != second["run"] and first["run_dir"] != second["run_dir"]
    assert second["branch"] == first["branch"] + "-2"
    assert [r["run_id"] for r in ledger_rows(second["ledger"])] == [first["run"], second["run"]]
    assert [r["index"] for r in ledger_rows(second["ledger"])] == ["1", "2"]
    earlier = list((Path(first["result_dir"]) / "earlier").rglob("finish.flag"))
    assert len(earlier) == 1 and json.loads(earlier[0].read_text())["run"] == first["run"]
    assert flag(second["result_dir"])["run"] == second["run"]


def test_two_runs_never_write_into_each_other(bench: Any) -> None:
    """Each has a directory of its own; into that of one that lives, no other is started."""
    paths = [bench.blueprint("long", name=f"b{n}.md", result_dir=str(bench.root / f"r{n}")) for n in range(2)]
    payloads = [bench.ask("run", path, "--detach") for path in paths]
    assert len({p["run_dir"] for p in payloads}) == len({p["session"] for p in payloads}) == 2
    other = bench.blueprint("ok", name="other.md", title="Another", result_dir=payloads[0]["result_dir"])
    assert payloads[0]["run"] in bench.ask("run", other, check=5)["error"]["message"]
    for payload in payloads:
        bench.ask("stop", payload["run"], "--reason", "enough")
    ledger = ledger_rows(payloads[0]["ledger"])
    assert sorted(r["run_id"] for r in ledger) == sorted(p["run"] for p in payloads)
    assert sorted(r["index"] for r in ledger) == ["1", "2"]


def test_a_repaired_rerun_stays_on_the_branch_and_index(bench: Any) -> None:
    blueprint = bench.blueprint("fail_early")
    broken = bench.ask("run", blueprint, check=10)
    line = shlex.split(broken["next"][-1])[1:]
    assert bench.ask(*line, check=2)["error"]["message"].startswith("nothing is repaired yet")
    bench.blueprint("ok", title="Try fail_early")
    mended = bench.ask("run", blueprint, "--fix-of", broken["run"], "--note", "the data set was put back")
    assert mended["branch"] == broken["branch"] and mended["commit"] != broken["commit"]
    assert bench.git("rev-parse", f"{mended['branch']}~1") == broken["commit"]
    assert [r["index"] for r in ledger_rows(mended["ledger"])] == ["1", "1"]
    assert ledger_rows(mended["ledger"])[1]["fix_of"] == broken["run"]
    log = (Path(mended["result_dir"]) / "experiment_log.md").read_text()
    assert "the data set was put back" in log


@pytest.mark.parametrize("name", ["a qu'ote\"s; semi$(touch pwned)\nline ünïcødé dot.colon:", "x" * 300])
def test_names_are_never_interpreted(bench: Any, name: str) -> None:
    result_dir = bench.root / ("results " + name.replace("\n", " ")[:100])
    title = name.replace("\n", " ")
    payload = bench.ask("run", bench.blueprint("ok", title=title, result_dir=f"`{result_dir}`"))
    assert payload["ending"] == "finished"
    assert payload["result_dir"] == str(result_dir)
    assert not list(bench.root.rglob("pwned"))
    assert payload["session"].isascii() and len(payload["session"]) <= 65


@pytest.mark.parametrize(("by_typer", "at"), [(False, "typed"), (False, "show"), (True, "show")])
def test_ctrl_c_of_any_command_is_one_line(bench: Any, by_typer: bool, at: str) -> None:
    from autoresearch.commands import options, output

    read = mock.patch.object(options, "read", return_value=None) if by_typer else contextlib.nullcontext()
    target, name = (output.TypedLine, "begin") if at == "typed" else (output, at)
    with read, mock.patch.object(target, name, side_effect=KeyboardInterrupt):
        code, out, err = bench.here("status")
    assert (code, out, err) == (130, "", "interrupted\n")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("", "interrupted: nothing was launched"),
        ("launch.claimed", "interrupted: {run} was not launched, and nothing of it runs"),
        ("launch.started", "interrupted, but {run} was launched already and goes on: autoresearch wait {run}"),
    ],
)
def test_ctrl_c_during_the_launch_says_what_is_left(bench: Any, where: str, said: str) -> None:
    from autoresearch.lab.launch import experiment, launch, runner_session

    def reached(name: str = "") -> None:
        if name == where:
            raise KeyboardInterrupt

    module = {"": experiment, "launch.started": runner_session}.get(where, launch)
    name = "failpoint" if where else "resolve_run"
    with mock.patch.object(module, name, reached if where else lambda *_: reached()):
        code, _, err = bench.here("run", bench.blueprint("ok"))
    assert code == 130
    if not where:
        assert err == f"{said}\n" and bench.ask("status")["count"] == 0
        return
    (run,) = re.findall(r"^interrupted\W+(?:but )?(\S+) was", err, re.MULTILINE)
    assert err.splitlines()[-1] == said.format(run=run)
    bench.until(lambda: bench.ask("status", run)["state"] == "ended")
    done = bench.ask("status", run)
    assert done["ending"] == ("finished" if where == "launch.started" else "launch_failed")
    shown = bench.here("status", run)[1]
    branch = re.findall(r"^branch +(.*)$", shown, re.MULTILINE)
    if where == "launch.started":
        assert branch == [f"{done['branch']} at {done['commit'][:12]}"]
    else:  # none was made, and one of that name is another run's
        assert branch == ["none"]
        assert re.search(r"branch.*none", Path(done["results"]).read_text())
        (failure,) = re.findall(r"^failure +(.*)$", shown, re.MULTILINE)
        assert done["reason"] and f"failure: {failure}" in bench.here("metrics", run)[1].splitlines()


def test_read_only_result_directory_is_one_sentence(bench: Any) -> None:
    if os.geteuid() == 0:
        blocked = bench.root / "file"
        blocked.write_text("not a directory")
        result_dir = blocked / "results"
    else:
        blocked = bench.root / "locked"
        blocked.mkdir(mode=0o500)
        result_dir = blocked / "results"
    refused = bench.ask("run", bench.blueprint("ok", result_dir=str(result_dir)), check=6)
    assert str(blocked) in refused["error"]["message"]
    assert bench.ask("status")["count"] == 0


def test_lines_to_type_next_hold_for_a_path_with_spaces(bench: Any) -> None:
    blueprint = bench.blueprint("fail_early", name="my exp.md")
    done = bench.ask("run", blueprint, check=10)
    told = [*bench.ask("blueprint", "check", blueprint)["next"], *done["next"], *bench.ask("explain", "last")["next"]]
    lines = [shlex.split(line) for line in told if "my exp.md" in line]
    assert len(lines) == 3 and all(str(blueprint) in words for words in lines)


def test_a_plan_says_what_was_read_from_a_launch_script(bench: Any) -> None:
    script = "examples/grpo_trainer/run_qwen2-7b.sh"
    (bench.repo / "go.sh").write_text((SAMPLES / "verl" / script).read_text())
    blueprint = bench.blueprint(command="cd . && bash go.sh trainer.nnodes=2", trainer="")
    plan = bench.ask("run", blueprint, "--dry-run", "--no-gpu-check")
    assert (plan["trainer"], plan["trainer_script"], plan["gpus_needed"]) == ("verl", "go.sh:4", 16)
    assert plan["trainer_command"].startswith("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo ")
    assert "verl, by go.sh:4" in bench.here("run", blueprint, "--dry-run", "--no-gpu-check")[1]
    (bench.repo / "go.sh").write_text((SAMPLES / "slime/examples/search-r1/run_qwen2.5_3B.sh").read_text())
    refused = bench.ask("run", blueprint, "--dry-run", check=3)
    assert "go.sh:4: pkill ends processes by name" in refused["error"]["message"]


def test_the_panes_of_earlier_runs_close_but_for_the_last(bench: Any) -> None:
    sessions = []
    for name in ("one", "two", "three"):
        path = bench.blueprint(name=f"{name}.md", title=f"Try {name}", result_dir=str(bench.root / name))
        sessions.append(bench.ask("run", path)["session"])
        bench.until(lambda: not bench.carriers())  # its Runner collects too, and its pane is alive until then
    assert set(bench.tmux("list-sessions", "-F", "#{session_name}").stdout.split()) & set(sessions) == {*sessions[1:]}


def test_the_start_names_the_edited_files_that_go_into_its_commit(bench: Any) -> None:
    path = bench.blueprint("ok")
    bench.git("add", "-A")
    bench.git("commit", "-qm", "all of it")
    clean = bench.ask("run", path)
    assert not any("not committed" in line for line in clean["remarks"])
    (bench.repo / "helper.py").write_text("x = 1\n")
    path.write_text(path.read_text() + "\n")
    code, _, err = bench.here("run", path)
    (told,) = (line for line in err.splitlines() if "not committed" in line)
    assert code == 0 and told.startswith("not committed, and in the run's commit: ")
    assert sorted(told.partition(": ")[2].split(", ")) == sorted(["helper.py", str(path.relative_to(bench.repo))])
