"""Real sshd's for tests: on a loopback port of their own, or in a network of their own whose link can be cut.

Also an `ssh` that is none: it runs the command here, so that what is not about connections needs no sshd.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import autoresearch.runner
from autoresearch.core.run.job_launcher import Job
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers.ssh import SshLauncher
from tests.engines.ports import free_port

PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

RUNNER = Path(autoresearch.runner.__file__).parent


def listens(address: str, port: int) -> bool:
    """Whether somebody answers there."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=2):
        return True
    return False


@dataclass
class Sshd:
    """One sshd, its keys and the configuration by which `far` is reached. `environment` is what a login gets."""

    folder: Path
    daemon: str
    address: str = "127.0.0.1"
    wrapper: tuple[str, ...] = ()  # words that start it elsewhere (ip netns exec ...)
    environment: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)  # more of sshd_config
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def make_keys(self) -> None:
        self.folder.mkdir(mode=0o700)
        for name in ("host", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        shutil.copy(self.folder / "key.pub", self.folder / "authorized")
        ours = ["Host far far2", f"HostName {self.address}", f"Port {self.port}", f"User {getpass.getuser()}"]
        ours += [f"IdentityFile {self.folder}/key", "IdentitiesOnly yes", "StrictHostKeyChecking accept-new"]
        ours += [f"UserKnownHostsFile {self.folder}/known", "GlobalKnownHostsFile /dev/null"]
        self.config.write_text("\n".join(ours) + "\n")

    @property
    def config(self) -> Path:
        """ssh's configuration (-F): nothing of the person's is read."""
        return self.folder / "ssh_config"

    @property
    def log(self) -> str:
        """What the daemon said."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self, *lines: str) -> None:
        """Start it (again), with more lines of configuration, which count more than the usual ones."""
        theirs = [*lines, *self.lines, f"Port {self.port}", f"ListenAddress {self.address}"]
        theirs += [f"HostKey {self.folder}/host", "PidFile none", "StrictModes no", "UsePAM no", "LogLevel VERBOSE"]
        theirs += [f"AuthorizedKeysFile {self.folder}/authorized", "PermitRootLogin yes", "PasswordAuthentication no"]
        theirs += ["KbdInteractiveAuthentication no"]
        theirs += ["SetEnv " + " ".join(f'"{name}={value}"' for name, value in self.environment.items())]
        (self.folder / "sshd_config").write_text("\n".join(theirs) + "\n")
        with (self.folder / "log").open("ab") as log:
            argv = [*self.wrapper, self.daemon, "-D", "-e", "-f", str(self.folder / "sshd_config")]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not listens(self.address, self.port):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def stop(self) -> None:
        """It takes no more connections; those that stand go on."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def connections(self) -> list[int]:
        """Its children, one for each connection."""
        assert self.process is not None
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def cut(self) -> int:
        """Every connection ends without a word; how many there were."""
        cut = self.connections()
        for pid in cut:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(cut)

    def place(self, **options: Any) -> Target:
        """It as a place; `shared`, because it is this machine."""
        given = {"host": "far", "config": str(self.config), "shared": True, "python": sys.executable, **options}
        return Target("far", Kind.SSH, int(options.pop("slots", 0)), {k: v for k, v in given.items() if v is not None})

    def launcher(self, environ: Mapping[str, str] | None = None, **options: Any) -> SshLauncher:
        """A launcher for it."""
        return SshLauncher(self.place(**options), dict(environ or os.environ))

    def end(self) -> None:
        if self.process is not None:
            self.cut()
        self.stop()


def missing() -> str:
    """What there is too little of for an sshd; "" where one can be started."""
    found = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("sshd", "ssh", "ssh-keygen")]
    return "" if all(found) else "sshd and ssh are not both installed, and both are needed"


def make(folder: Path, **more: Any) -> Sshd:
    """An sshd that is yet to be started."""
    if why := missing():
        pytest.skip(f"these tests reach this machine as a host, by a real sshd and ssh: {why}")
    daemon = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or ""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # it drops its privileges into this
    made = Sshd(folder, daemon, **more)
    names = ("HOME", "AUTORESEARCH_TEST", "AUTORESEARCH_GPU_LEASES", "XDG_STATE_HOME", "GIT_CONFIG_GLOBAL")
    made.environment = {name: os.environ[name] for name in names if name in os.environ} | {"PATH": PATH}
    made.make_keys()
    return made


@pytest.fixture
def sshd(clean_environment: Path, reaper: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A host called `far` that is this machine."""
    made = make(clean_environment / "sshd")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(clean_environment))
    try:
        made.start()
        yield made
    finally:
        made.end()


@dataclass
class Link:
    """A host in a network of its own, and the link to it."""

    sshd: Sshd
    name: str

    def down(self) -> None:
        """Their end goes: what is sent there is lost, and nobody says so."""
        self._set("down")

    def up(self) -> None:
        self._set("up")

    def _set(self, state: str) -> None:
        subprocess.run(f"ip netns exec {self.name} ip link set {self.name}b {state}".split(), check=True)


@pytest.fixture
def far_link(clean_environment: Path, reaper: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    """A host behind a link that can be cut without either side being told."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("a network of its own needs root and `ip`, so no link can be cut")
    name, number = f"aj{uuid.uuid4().hex[:6]}", uuid.uuid4().int
    net = f"10.{200 + number % 50}.{number // 50 % 250}"
    steps = (
        f"ip netns add {name}",
        f"ip link add {name}a type veth peer name {name}b",
        f"ip link set {name}b netns {name}",
        f"ip addr add {net}.1/30 dev {name}a",
        f"ip link set {name}a up",
        f"ip netns exec {name} ip addr add {net}.2/30 dev {name}b",
        f"ip netns exec {name} ip link set {name}b up",
    )
    made = None
    try:
        for step in steps:
            done = subprocess.run(step.split(), capture_output=True)
            if done.returncode:
                pytest.skip(f"a network of its own cannot be made here: {done.stderr.decode().strip()}")
        made = make(clean_environment / "sshd", address=f"{net}.2", wrapper=("ip", "netns", "exec", name))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(clean_environment))
        made.start()
        yield Link(made, name)
    finally:
        if made is not None:
            made.end()
        subprocess.run(["ip", "link", "del", f"{name}a"], capture_output=True)
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


FAKE = """#!/bin/sh
# runs the command here; what it is told of hosts and options it notes
echo "$*" >>"$0.calls"
for last; do :; done
[ -e "$0.down" ] && { cat "$0.down" >&2; exit 255; }
exec sh -c "$last"
"""


@dataclass
class FakeSsh:
    """`ssh` on a PATH of its own; nobody answers while `down` holds what it then says."""

    program: Path
    environ: dict[str, str]

    @property
    def down(self) -> Path:
        return self.program.with_name("ssh.down")

    @property
    def connections(self) -> int:
        """How often a connection was made."""
        return len(self.program.with_name("ssh.calls").read_text().splitlines())

    def launcher(self, **options: Any) -> SshLauncher:
        slots = options.pop("slots", 0)
        place = Target("far", Kind.SSH, slots, {"host": "far", "shared": True, "python": sys.executable, **options})
        return SshLauncher(place, self.environ)


@pytest.fixture
def fake_ssh(tmp_path: Path, reaper: Any) -> FakeSsh:
    """A host that is this machine, without sshd."""
    folder = tmp_path / "fake_ssh"
    folder.mkdir()
    (folder / "ssh").write_text(FAKE)
    (folder / "ssh").chmod(0o755)
    made = FakeSsh(folder / "ssh", {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    made.environ["XDG_RUNTIME_DIR"] = str(tmp_path)
    return made


@pytest.fixture
def ssh_job() -> Callable[..., Job]:
    """Make the far directory of a run, and the job that starts the Runner of this checkout in it."""

    def make(place: Path, command: str, **more: Any) -> Job:
        run = f"{place.name}-{uuid.uuid4().hex[:6]}"  # a hard stop ends whatever carries it
        place.mkdir(parents=True)
        spec = {
            "run": run,
            "command": command,
            "cwd": str(place),
            "limits": {"grace_s": 1.0, "max_s": 300.0},
            "claim": True,
            "inherit": ["CUDA_"],
        }
        (place / "spec.json").write_text(json.dumps({**spec, "result_dir": str(place)}))
        (place / "environment").write_bytes(b"\0".join(f"{k}={v}".encode() for k, v in os.environ.items()))
        argv = (sys.executable, "-S", "-E", "-s", str(RUNNER), str(place))
        return Job(run, f"ajet_{run}", "c", str(place), argv, str(place), 400.0, 1.0, **more)

    return make
