"""ssh as a launcher, with a real sshd and the faults of real networks."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.blueprint.finding import Severity
from autoresearch.core.run.job_launcher import JobState, Unreachable

pytestmark = pytest.mark.real

Eventually = Callable[[Callable[[], object]], None]
COUNTING = "for n in $(seq 1 6000); do echo step:$n; echo $n > count.tmp; mv count.tmp count; sleep 0.05; done"


def test_the_contract(contract_check: Any, sshd: Any, tmp_path: Path) -> None:
    contract_check(sshd.launcher(), str(tmp_path / "far"))


def count(place: Path) -> int:
    """How far the trainer is."""
    try:
        return int((place / "count").read_text())
    except (OSError, ValueError):
        return 0


def starts(place: Path) -> int:
    path = place / "events.jsonl"  # a Runner notes the start when its trainer may count already
    return path.read_text().count('"started"') if path.exists() else 0


def answers(launcher: Any, handle: Any) -> bool:
    try:
        said = launcher.poll([handle])[handle.run]
        print(said)
        return said.state is JobState.RUNNING
    except Unreachable as silent:
        print(silent.reason)  # shown where the test fails
        return False


def test_a_link_that_is_down_is_noticed_and_costs_nothing(
    far_link: Any, ssh_job: Any, tmp_path: Path, eventually: Eventually
) -> None:
    launcher = far_link.sshd.launcher(ssh_options=["ServerAliveInterval=1", "ConnectTimeout=5"])
    place = tmp_path / "run-1"
    handle = launcher.submit(ssh_job(place, COUNTING))
    eventually(lambda: count(place))
    far_link.down()
    with pytest.raises(Unreachable):
        launcher.poll([handle])
    before = count(place)
    with pytest.raises(Unreachable):
        launcher.poll([handle])
    eventually(lambda: count(place) > before + 5)
    far_link.up()
    eventually(lambda: answers(launcher, handle))
    assert starts(place) == 1
    launcher.stop(handle, hard=False)
    eventually(lambda: (place / "exit.json").exists())


def said_by(launcher: Any) -> str:
    """What preflight says, which is the same as what a call raises: the code and the words."""
    found = [finding for finding in launcher.preflight() if finding.severity is Severity.ERROR]
    assert len(found) == 1 and found[0].hint, found
    with pytest.raises(Unreachable) as told:
        launcher.reach.run(["true"])
    assert told.value.code == found[0].code
    return f"{found[0].code}: {found[0].message}"


def test_a_changed_host_key_is_never_accepted(sshd: Any) -> None:
    assert sshd.launcher().reach.run(["true"]).returncode == 0
    sshd.cut()
    sshd.stop()
    (sshd.folder / "host").unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", sshd.folder / "host"], check=True)
    sshd.start()
    assert "Host key verification failed" in said_by(sshd.launcher())


def test_what_ssh_says_is_told(sshd: Any) -> None:
    asks = sshd.launcher(ssh_options=["StrictHostKeyChecking=ask"])
    assert said_by(asks) == "no_answer: far: Host key verification failed."
    (sshd.folder / "authorized").write_text("")
    assert "Permission denied (publickey" in said_by(sshd.launcher())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening
        assert "Connection refused" in said_by(sshd.launcher(ssh_options=[f"Port={taken.getsockname()[1]}"]))
    config = sshd.folder / "nowhere"
    config.write_text("Host nowhere\n")
    assert "nowhere.invalid: " in said_by(sshd.launcher(host="nowhere.invalid", config=str(config)))


def test_calls_share_a_connection_of_ours_or_of_the_user(sshd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as short:  # a socket's path has 108 bytes
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        reach = sshd.launcher().reach
        pids = {reach.run(["sh", "-c", "echo $SSH_CONNECTION"]).text for _ in range(3)}
        assert len(pids) == 1 and sshd.log.count("Accepted publickey") == 1
        sshd.cut()
        assert reach.look([]) == {} and sshd.log.count("Accepted publickey") == 2
        with sshd.config.open("a") as config:
            config.write(f"ControlMaster auto\nControlPersist 60\nControlPath {short}/user-%C\n")
        user = sshd.launcher().reach
        assert user.look([]) == user.look([]) == {} and sshd.log.count("Accepted publickey") == 3
        sshd.cut()


def test_a_port_that_takes_and_says_nothing_is_given_up(sshd: Any) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        silent = sshd.launcher(ssh_options=[f"Port={mute.getsockname()[1]}", "ConnectTimeout=1"])
        assert said_by(silent).startswith("no_answer: far: ")


def test_a_host_without_git_gets_no_copies(sshd: Any) -> None:
    sshd.stop()
    (sshd.folder / "bash").symlink_to("/bin/bash")
    sshd.environment["PATH"] = str(sshd.folder)
    sshd.start()
    (found,) = sshd.launcher(shared=False).preflight()
    assert (found.code, found.message) == ("no_git", "far: git is not on PATH")
    assert sshd.launcher().preflight() == []


def test_a_host_without_python(sshd: Any) -> None:
    sshd.stop()
    sshd.environment["PATH"] = str(sshd.folder)
    sshd.start()
    assert said_by(sshd.launcher(python=None)).startswith("no_python: ")
    old = sshd.folder / "python3"
    old.write_text("#!/bin/sh\necho 'ajet: python 3.6.8' >&2\nexit 1\n")
    old.chmod(0o755)
    assert said_by(sshd.launcher(python=None)).startswith("old_python: ")


def test_a_full_disk_is_told_and_leaves_nothing_half(sshd: Any, ssh_job: Any, disk: Any, tmp_path: Path) -> None:
    place = disk(tmp_path / "disk")
    launcher, job = sshd.launcher(), ssh_job(place / "run-1", "true")
    disk.fill(place)
    with pytest.raises(OSError, match="No space left on device") as told:
        launcher.reach.put(str(place / "run-1"), {"new": b"x" * 100000})
    assert str(told.value.filename).startswith("far:") and not (place / "run-1" / "new").exists()
    launcher.reach.run(["true"])
    assert job.run.startswith("run-1-")


def test_two_submitters_at_once_start_it_once(sshd: Any, ssh_job: Any, tmp_path: Path, eventually: Eventually) -> None:
    job, place = ssh_job(tmp_path / "run-1", COUNTING), tmp_path / "run-1"
    launchers = [sshd.launcher() for _ in range(4)]
    handles: list[Any] = []
    threads = [
        threading.Thread(target=lambda one=one: handles.append(one.submit(replace(job, again=True))))
        for one in launchers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(handles) == 4 and len({handle.native for handle in handles}) == 1
    eventually(lambda: count(place) and starts(place))
    assert starts(place) == 1
    launchers[0].stop(handles[0], hard=True)


SUBMIT = """
import json, sys
from autoresearch.core.run.json_record import from_record
from autoresearch.core.run.job_launcher import Job
from autoresearch.core.run.targets import Target
from autoresearch.launchers.ssh import SshLauncher
import os
given = json.loads(sys.argv[1])
launcher = SshLauncher(from_record(Target, given["place"]), os.environ)
launcher.submit(Job(**{**given["job"], "argv": tuple(given["job"]["argv"])}))
print("submitted", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("after_s", [0.3, 0.6, 1.0])
def test_a_submitter_that_is_killed_starts_it_at_most_once(
    sshd: Any, ssh_job: Any, tmp_path: Path, eventually: Eventually, after_s: float
) -> None:
    """Killed with its ssh at some moment of the submit; the next one finds or starts exactly one."""
    import json

    place, job = tmp_path / "run-1", ssh_job(tmp_path / "run-1", COUNTING)
    given = json.dumps({"place": asdict(sshd.place()), "job": asdict(job)})
    child = subprocess.Popen([sys.executable, "-c", SUBMIT, given], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.wait(after_s)
    except subprocess.TimeoutExpired:
        pass
    child.kill()
    sshd.cut()
    child.communicate()
    launcher = sshd.launcher()
    handle = launcher.submit(replace(job, again=True))
    eventually(lambda: count(place) and starts(place))
    assert launcher.submit(replace(job, again=True)).native == handle.native
    assert starts(place) == 1
    launcher.stop(handle, hard=True)
