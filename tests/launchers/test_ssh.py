"""ssh as a launcher, as far as that needs no sshd: an `ssh` of the tests runs here whatever it is told to."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Declined, JobState, Unreachable, Want
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers import ssh_connection
from autoresearch.launchers.ssh import SshLauncher
from autoresearch.launchers.ssh_connection import SshReach, SshWords, command_line, meaning
from autoresearch.runner import remote_agent

WORDS = SshWords("gpu1", ())
SMI = """#!/bin/sh
case "$*" in *index*) echo "0, GPU-aaaa, Fake, 80000, $(cat {0}/used)"; echo "1, GPU-bbbb, Fake, 80000, 3" ;;
*) echo "GPU-aaaa, 3"; echo "GPU-bbbb, 3" ;; esac
"""


@pytest.mark.system
def test_the_contract(contract_check: Any, fake_ssh: Any, tmp_path: Path) -> None:
    contract_check(fake_ssh.launcher(), str(tmp_path / "far"))


TOLD = command_line("python3", "")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("ssh: connect to host gpu1 port 22: Connection refused", "refused"),
        ("ssh: connect to host gpu1 port 22: Connection timed out", "timeout"),
        ("ssh: connect to host gpu1 port 22: No route to host", "no_route"),
        ("ssh: Could not resolve hostname gpu1: Name or service not known", "host_unknown"),
        ("me@gpu1: Permission denied (publickey,password).", "asks_password"),
        ("me@gpu1: Permission denied (keyboard-interactive).", "asks_password"),
        ("me@gpu1: Permission denied (publickey).", "permission_denied"),
        (
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
            "host_key_changed",
        ),
        ("Host key verification failed.", "host_key_unknown"),
        ("Timeout, server gpu1 not responding.", "connection_lost"),
        ("client_loop: send disconnect: Broken pipe", "connection_lost"),
        ("kex_exchange_identification: Connection closed by remote host", "connection_lost"),
        ("bash: line 1: exec: python3: not found", "no_python"),
        ("zsh:1: command not found: python3", "no_python"),
        ("bash: line 1: /opt/python3.11: No such file or directory", "no_python"),
        ("python3: Command not found.", "no_python"),  # tcsh 6.24
        (f"fish: Unknown command: python3\n{TOLD}\n     ^~~~~~^", "no_python"),  # 3.6
        (f"+ {TOLD}\nbash: exec: python3: not found", "no_python"),  # with `set -x` in its startup file
        (f"+ {TOLD}\n", "no_answer"),
        ("ajet: python 3.6.8", "old_python"),
        ("command-line: line 0: Bad configuration option: nonsense", "ssh_options"),
        ("Welcome to gpu1\nno python today, timed in", "no_answer"),
    ],
)
def test_what_ssh_complains_of_is_told_apart(said: str, code: str) -> None:
    found = meaning(WORDS, 255, said, "")
    assert found.code == code and found.reason.startswith("gpu1: ") and "{" not in found.hint


def test_a_shell_that_answers_without_our_program_is_noise() -> None:
    found = meaning(WORDS, 0, "", "This account is for file transfer only.\n")
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
def test_what_gives_no_answer_in_time_is_given_up(fake_ssh: Any) -> None:
    reach = fake_ssh.launcher(connect_timeout=1).reach
    with pytest.raises(Unreachable, match="in time"):
        reach.call("run", argv=["sleep", "5"], stdin=b"", timeout_s=9.0, cwd="", within_s=0.5)


@pytest.mark.system
def test_the_runtime_directory_of_a_login_that_is_over_is_done_without(fake_ssh: Any, tmp_path: Path) -> None:
    fake_ssh.environ["XDG_RUNTIME_DIR"] = str(tmp_path / "gone")
    assert fake_ssh.launcher().reach.run(["echo", "fine"]).text == "fine\n"


@pytest.mark.system
def test_exit_255_of_a_program_is_its_own(fake_ssh: Any) -> None:
    assert fake_ssh.launcher().reach.run(["sh", "-c", "exit 255"]).returncode == 255


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
def test_clocks_that_differ_are_measured(fake_ssh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = fake_ssh.launcher()
    real = time.time  # ours is an hour late
    monkeypatch.setattr(ssh_connection.time, "time", lambda: real() - 3600)
    codes = [found.code for found in launcher.preflight()]
    assert codes == ["clock_differs"] and 3590 < launcher.reach.clock_offset() < 3610


@pytest.mark.system
def test_a_free_lock_tells_nothing_of_another_host(fake_ssh: Any, tmp_path: Path) -> None:
    here, login = fake_ssh.launcher().reach, SshReach(fake_ssh.launcher().target, fake_ssh.environ)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").touch()
    wants = [Want("run", str(tmp_path / "run"))]
    assert here.look(wants)["run"].alive is False and login.look(wants)["run"].alive is None
    (tmp_path / "run" / "runner.json").write_text('{"run": "run", "host": "node7", "boot_id": "other"}')
    assert here.look(wants)["run"].alive is None
    login.close()


@pytest.mark.system
def test_a_name_that_became_another_host_concludes_nothing(fake_ssh: Any, ssh_job: Any, tmp_path: Path) -> None:
    launcher = fake_ssh.launcher()
    handle = launcher.submit(ssh_job(tmp_path / "run-1", "exit 0"))
    with pytest.raises(Unreachable, match="started on node7") as told:
        launcher.poll([replace(handle, more={**handle.more, "host": "node7", "boot_id": "other"})])
    assert told.value.code == "other_host"
    restarted = replace(handle, more={**handle.more, "boot_id": "before"})
    said = launcher.poll([restarted])[handle.run]
    assert (said.state, said.cause) == (JobState.OVER, "host_restarted")


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


# -- GPUs ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpu_host(fake_ssh: Any, tmp_path: Path) -> Any:
    """The host has two GPUs; `used` says how many MiB of the first are taken."""
    (tmp_path / "used").write_text("3")
    (fake_ssh.program.with_name("nvidia-smi")).write_text(SMI.replace("{0}", str(tmp_path)))
    fake_ssh.program.with_name("nvidia-smi").chmod(0o755)
    return fake_ssh


SHOW = 'echo "$CUDA_VISIBLE_DEVICES" > shown.tmp; mv shown.tmp shown; exec sleep 300'


@pytest.mark.system
def test_runs_share_out_the_gpus_of_their_host_by_its_leases(
    gpu_host: Any, ssh_job: Any, tmp_path: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    launcher = gpu_host.launcher(gpus="all", gpus_per_run=1, slots=2)
    handles = [launcher.submit(ssh_job(tmp_path / f"run-{n}", SHOW, gpus=1)) for n in (1, 2)]
    eventually(lambda: all((tmp_path / f"run-{n}" / "shown").exists() for n in (1, 2)))
    assert [(tmp_path / f"run-{n}" / "shown").read_text().strip() for n in (1, 2)] == ["0", "1"]
    with pytest.raises(Declined) as told:  # another command about the same host
        gpu_host.launcher(gpus="all").submit(ssh_job(tmp_path / "run-3", SHOW, gpus=1))
    assert told.value.code == "lease_busy"
    leases = Path(os.environ["AUTORESEARCH_GPU_LEASES"])
    assert leases.stat().st_mode & 0o7777 == 0o1777 and (leases / "GPU-aaaa.lock").stat().st_mode & 0o777 == 0o666
    launcher.stop(handles[0], hard=True)
    assert gpu_host.launcher(gpus="all").submit(ssh_job(tmp_path / "run-4", "true", gpus=1)).more["gpus"] == [
        "GPU-aaaa"
    ]
    launcher.stop(handles[1], hard=True)


@pytest.mark.system
def test_a_run_that_is_asked_for_again_keeps_its_gpus(
    gpu_host: Any, ssh_job: Any, tmp_path: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    launcher, job = gpu_host.launcher(gpus=2), ssh_job(tmp_path / "run-1", SHOW, gpus=2)
    first = launcher.submit(job)
    assert launcher.submit(replace(job, again=True)).native == first.native
    eventually((tmp_path / "run-1" / "shown").exists)
    launcher.stop(first, hard=True)


@pytest.mark.system
@pytest.mark.parametrize(
    ("gpus", "count", "used", "code"),
    [
        ("all", 1, "3", ["GPU-aaaa"]),
        ("all", 1, "50000", ["GPU-bbbb"]),
        ("all", 2, "50000", "lease_busy"),
        ("all", 3, "3", "no_gpu"),
        ("1,", 1, "3", ["GPU-bbbb"]),
        ([1], 1, "3", ["GPU-bbbb"]),
        ("GPU-bb", 0, "3", ["GPU-bbbb"]),
        ("1", 0, "3", ["GPU-aaaa"]),
        ("all", 0, "3", ["GPU-aaaa", "GPU-bbbb"]),
        ("none", 0, "3", []),
    ],
)
def test_which_gpus_a_run_gets(gpu_host: Any, tmp_path: Path, gpus: Any, count: int, used: str, code: Any) -> None:
    (tmp_path / "used").write_text(used)
    launcher = gpu_host.launcher(gpus=gpus)
    try:
        assert list(launcher._choose(count).uuids) == code
    except Declined as no:
        assert no.code == code, no.reason
