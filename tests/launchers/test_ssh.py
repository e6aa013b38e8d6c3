"""ssh as a launcher, as far as that needs no sshd: an `ssh` of the tests runs here whatever it is told to."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Declined, JobState, Unreachable, Want
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers import ssh
from autoresearch.launchers.ssh import SshLauncher, command_line, meaning
from autoresearch.runner import remote_agent


@pytest.mark.system
def test_the_contract(contract_check: Any, fake_ssh: Any, tmp_path: Path) -> None:
    contract_check(fake_ssh.launcher(), str(tmp_path / "far"))


TOLD = command_line("python3", "")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("bash: line 1: exec: python3: not found", "no_python"),
        ("zsh:1: command not found: python3", "no_python"),
        ("bash: line 1: /opt/python3.11: No such file or directory", "no_python"),
        ("python3: Command not found.", "no_python"),  # tcsh 6.24
        (f"fish: Unknown command: python3\n{TOLD}\n     ^~~~~~^", "no_python"),  # 3.6
        (f"+ {TOLD}\nbash: exec: python3: not found", "no_python"),  # with `set -x` in its startup file
        (f"+ {TOLD}\n", "no_answer"),
        ("ajet: python 3.6.8", "old_python"),
        ("Welcome to gpu1\nno python today, timed in", "no_answer"),
    ],
)
def test_a_host_without_a_python_is_told_apart(said: str, code: str) -> None:
    found = meaning("gpu1", 255, said, "")
    assert found.code == code and found.reason.startswith("gpu1: ")


def test_what_ssh_says_is_shown_as_it_is() -> None:
    found = meaning("gpu1", 255, "Welcome\nme@gpu1: Permission denied (publickey,password).\n", "")
    assert (found.code, found.reason) == ("no_answer", "gpu1: me@gpu1: Permission denied (publickey,password).")
    assert found.hint.startswith("`ssh gpu1 true` ")
    found = meaning("gpu1", 0, "", "This account is for file transfer only.\n")
    assert found.code == "noise" and "file transfer only" in found.reason


def test_bytes_and_names_travel_whole() -> None:
    value = {"a": [b"\x00\xff", {"b": b""}], "n": None, "t": "it's"}
    assert remote_agent.unpack(json.loads(json.dumps(remote_agent.pack(value)))) == value


@pytest.mark.system
def test_one_look_serves_all_runs(fake_ssh: Any, tmp_path: Path) -> None:
    reach = fake_ssh.launcher().reach
    for number in range(300):
        (tmp_path / f"run{number}").mkdir()
        (tmp_path / f"run{number}" / "run.log").write_bytes(b"x" * 10)
    seen = reach.look([Want(f"{n}", str(tmp_path / f"run{n}"), {"run.log": 4}) for n in range(300)])
    assert len(seen) == 300 and all(one.grown["run.log"] == b"x" * 6 for one in seen.values())
    assert fake_ssh.connections == 1


def test_much_comes_in_pieces_and_everybody_has_his_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_agent, "MOST_SEEN", 1000)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.log").write_bytes(b"y" * 1000)
    (tmp_path / "b" / "exit.json").write_text('{"ending": "finished"}')
    wants = [{"run": name, "directory": str(tmp_path / name), "offsets": {"run.log": 0}} for name in ("a", "b")]
    told = [remote_agent.look(wants) for _ in range(200)]
    served = [[name for name in ("a", "b") if one[name]["grown"]] for one in told]
    assert {tuple(names) for names in served} == {("a",), ("b",)}
    assert all(one["b"]["more"] or one["b"]["grown"] for one in told)  # else its exit record would be its last word


@pytest.mark.system
def test_noise_of_the_shell_is_no_answer(fake_ssh: Any, tmp_path: Path) -> None:
    noisy = 'printf "hello\\nno newline %09999d" 0; echo {\\"id\\": 0}; echo complaint >&2'
    reach = fake_ssh.launcher(setup=noisy).reach
    assert reach.run(["echo", "fine"]).text == "fine\n"


@pytest.mark.system
def test_a_host_that_goes_on_talking_is_noise(fake_ssh: Any) -> None:
    assert [found.code for found in fake_ssh.launcher(setup="echo no logins; exit 0").preflight()] == ["noise"]


@pytest.mark.system
def test_without_ssh_the_code_says_so(tmp_path: Path) -> None:
    launcher = SshLauncher(Target("far", Kind.SSH, 0, {"host": "far"}), {"PATH": str(tmp_path)})
    assert [found.code for found in launcher.preflight()] == ["no_ssh"]


@pytest.mark.system
def test_what_gives_no_answer_in_time_is_given_up(fake_ssh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reach = fake_ssh.launcher().reach
    monkeypatch.setattr(ssh, "CONNECT_S", 0.5)
    with pytest.raises(Unreachable, match="in time"):
        reach.call("run", argv=["sleep", "5"], stdin=b"", timeout_s=9.0, cwd="", within_s=0.5)


@pytest.mark.system
def test_the_runtime_directory_of_a_login_that_is_over_is_done_without(fake_ssh: Any, tmp_path: Path) -> None:
    fake_ssh.environ["XDG_RUNTIME_DIR"] = str(tmp_path / "gone")
    assert fake_ssh.launcher().reach.run(["echo", "fine"]).text == "fine\n"


@pytest.mark.system
def test_a_call_that_meets_a_dead_connection_is_made_again_but_no_program_is_run_twice(
    fake_ssh: Any, tmp_path: Path
) -> None:
    reach = fake_ssh.launcher().reach
    assert reach.look([]) == {}
    fake_ssh.down.write_text("client_loop: send disconnect: Broken pipe\n")
    once = fake_ssh.program.read_text()
    fake_ssh.program.write_text(once.replace('cat "$0.down" >&2;', 'cat "$0.down" >&2; rm "$0.down";'))
    assert reach.look([]) == {} and fake_ssh.connections == 3
    fake_ssh.down.write_text("client_loop: send disconnect: Broken pipe\n")
    with pytest.raises(Unreachable):
        reach.run(["touch", str(tmp_path / "ran")])
    assert not (tmp_path / "ran").exists() and fake_ssh.connections == 4


@pytest.mark.system
def test_errors_of_the_host_are_its_own(fake_ssh: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reach = fake_ssh.launcher().reach
    with pytest.raises(OSError, match="far:") as told:
        reach.put(f"{tmp_path}/file/below", {"x": b""})
    assert told.value.errno in (17, 20)
    assert reach.run(["true"]).returncode == 0


@pytest.mark.system
def test_clocks_that_differ_are_measured(fake_ssh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = fake_ssh.launcher()
    real = time.time  # ours is an hour late
    monkeypatch.setattr(ssh.time, "time", lambda: real() - 3600)
    (seen,) = launcher.reach.look([Want("one", str(tmp_path))]).values()
    assert 3590 < seen.ahead_s < 3610


@pytest.mark.system
def test_a_run_whose_directory_was_removed_there_is_ended_for_good(
    fake_ssh: Any, ssh_job: Any, tmp_path: Path, eventually: Any
) -> None:
    launcher, job = fake_ssh.launcher(), ssh_job(tmp_path / "run-1", "touch up; exec sleep 500")
    handle = launcher.submit(replace(job, environment={"AUTORESEARCH_RUN_ID": job.run}))
    eventually((tmp_path / "run-1/up").exists)
    eventually(lambda: '"started"' in (tmp_path / "run-1/events.jsonl").read_text())  # the Runner writes there no more
    shutil.rmtree(tmp_path / "run-1", ignore_errors=True)
    assert launcher.poll([handle])[handle.run].state is JobState.UNKNOWN
    launcher.stop(handle, hard=True)
    carried = f"AUTORESEARCH_RUN_ID={job.run}".encode()
    assert not [pid for pid in os.listdir("/proc") if pid.isdecimal() and carried in _environment_of(pid)]


@pytest.mark.system
def test_a_name_that_became_another_host_concludes_nothing(
    fake_ssh: Any, ssh_job: Any, tmp_path: Path, eventually: Any
) -> None:
    launcher, shown = fake_ssh.launcher(), tmp_path / "run-1/runner.json"
    handle = launcher.submit(ssh_job(tmp_path / "run-1", "exit 0"))
    eventually(lambda: launcher.poll([handle])[handle.run].state is JobState.OVER)
    record = json.loads(shown.read_text())
    shown.write_text(json.dumps({**record, "host": "node7", "boot_id": "other"}))
    with pytest.raises(Unreachable, match="started on node7") as told:
        launcher.poll([handle])
    assert told.value.code == "other_host"
    shown.write_text(json.dumps({**record, "boot_id": "before"}))
    said = launcher.poll([handle])[handle.run]
    assert (said.state, said.cause) == (JobState.OVER, "rebooted")


@pytest.mark.system
def test_a_runner_that_cannot_start_is_declined(fake_ssh: Any, ssh_job: Any, tmp_path: Path) -> None:
    launcher, job = fake_ssh.launcher(), ssh_job(tmp_path / "run-1", "true")
    with pytest.raises(Declined) as told:
        launcher.submit(replace(job, argv=("/nowhere/python", "x")))
    assert told.value.code == "no_interpreter"
    with pytest.raises(Declined, match="nonsense") as told:
        launcher.submit(replace(job, argv=("sh", "-c", "echo nonsense >&2; exit 3")))
    assert told.value.code == "runner_failed"


@pytest.mark.system
def test_a_look_answers_the_question_after_it_and_what_is_sent_again_leaves_no_secret(
    fake_ssh: Any, ssh_job: Any, tmp_path: Path
) -> None:
    launcher, job = fake_ssh.launcher(), ssh_job(tmp_path / "run-1", "exec sleep 500")
    handle = launcher.submit(job)
    before = fake_ssh.connections
    launcher.reach.look([Want(job.run, job.directory)])
    assert launcher.poll([handle])[job.run].state is JobState.RUNNING and fake_ssh.connections == before + 1
    launcher.reach.put(job.directory, {"environment": b"TOKEN=t0p"}, private=("environment",))
    assert launcher.submit(replace(job, again=True)).native == handle.native
    assert not (tmp_path / "run-1/environment").exists()
    launcher.stop(handle, hard=True)


@pytest.mark.system
def test_a_hard_stop_finds_what_left_the_tree(fake_ssh: Any, ssh_job: Any, tmp_path: Path, eventually: Any) -> None:
    launcher = fake_ssh.launcher()
    job = ssh_job(tmp_path / "run-1", "setsid sleep 500 & trap '' TERM; touch up; while :; do sleep 0.1; done")
    job = replace(job, environment={"AUTORESEARCH_RUN_ID": job.run})
    handle = launcher.submit(job)
    eventually(lambda: (tmp_path / "run-1" / "up").exists())
    launcher.stop(handle, hard=True)
    assert launcher.poll([handle])[handle.run].state is JobState.OVER
    carried = f"AUTORESEARCH_RUN_ID={job.run}".encode()
    assert not [pid for pid in os.listdir("/proc") if pid.isdecimal() and carried in _environment_of(pid)]


def _environment_of(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
