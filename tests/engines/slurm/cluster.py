"""A real Slurm of a test's own: one controller and some nodes on this machine, without systemd; all of it goes again.

The daemons are children in the foreground, so their pids are known. GPUs are character devices made by mknod, which
Slurm hands out like real ones. What Slurm itself leaves (slurmstepd) is found by a mark in its environment.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.engines.ports import free_ports
from tests.reaper import MARK as OF_PYTEST
from tests.reaper import homes, new_mark
from tests.waiting import PATIENCE_S

MARK = "AUTORESEARCH_ENGINE"
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue")

CONFIG = """
ClusterName=ajet
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile={home}/run/slurmctld.pid
SlurmdPidFile={home}/run/slurmd.%n.pid
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
InactiveLimit=0
MessageTimeout={timeout_s}
KillWait=10
MinJobAge={remembered_s}
SlurmctldTimeout=30
SlurmdTimeout={node_timeout_s}
OverTimeLimit=0
GresTypes=gpu
{more}
"""


def missing() -> str:
    """Why there can be no Slurm here, in one sentence; "" where there can."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    gone = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if gone:
        return f"Slurm is not installed ({', '.join(gone)}): apt-get install slurm-wlm"
    return "" if os.geteuid() == 0 else "Slurm's daemons and its stand-ins for GPUs need root"


@dataclass
class Cluster:
    """What a test wants of Slurm; `up` starts it, `down` ends every process of it."""

    nodes: int = 1
    gpus: int = 0  # of each node
    cpus: int = 8
    timeout_s: int = 4  # how long a client waits for the controller
    remembered_s: int = 300  # finished jobs (MinJobAge)
    node_timeout_s: int = 30  # until a silent node is down
    partitions: Sequence[str] = ("PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",)
    more: Sequence[str] = ()  # further lines of slurm.conf
    blind: str = ""  # a directory that the nodes do not see
    home: Path = field(init=False)
    mark: str = field(init=False, default_factory=lambda: uuid.uuid4().hex)
    daemons: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.home / "slurm.conf"

    @property
    def env(self) -> dict[str, str]:
        """What finds this cluster's commands and configuration."""
        return {"SLURM_CONF": f"{self.home}/slurm.conf", "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

    def up(self) -> Cluster:
        """Start all daemons; returns once every node is idle."""
        self.home = Path(tempfile.mkdtemp(prefix="", dir=homes()))  # short: a Unix socket's path has 107 bytes
        for name in ("state", "log", "run", "dev", *(f"spool/n{i + 1}" for i in range(self.nodes))):
            (self.home / name).mkdir(parents=True)
        for number in range(self.gpus):
            os.mknod(self.home / f"dev/nvidia{number}", 0o666 | 0o020000, os.makedev(1, 3))
        self._configure(free_ports(self.nodes + 1))
        self.start_controller()
        for number in range(self.nodes):
            self.start_node(f"n{number + 1}")
        self.until_idle()
        return self

    def _configure(self, ports: list[int]) -> None:
        host = os.uname().nodename.split(".")[0]
        values = {name: getattr(self, name) for name in ("timeout_s", "remembered_s", "node_timeout_s", "home")}
        lines = [CONFIG.format(host=host, ports=ports, more="\n".join(self.more), **values)]
        gres = f" Gres=gpu:{self.gpus}" if self.gpus else ""
        for number in range(self.nodes):
            lines.append(
                f"NodeName=n{number + 1} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[number + 1]}"
                f" CPUs={self.cpus} RealMemory=16000{gres} State=UNKNOWN"
            )
        (self.home / "slurm.conf").write_text("\n".join([*lines, *self.partitions]) + "\n")
        if self.gpus:
            devices = f"File={self.home}/dev/nvidia[0-{self.gpus - 1}]"
            (self.home / "gres.conf").write_text(f"NodeName=n[1-{self.nodes}] Name=gpu {devices}\n")

    def _start(self, name: str, words: Sequence[str]) -> None:
        env = {"HOME": str(self.home), "LANG": "C.UTF-8", MARK: self.mark, OF_PYTEST: new_mark(), **self.env}
        with open(self.home / "log" / f"{name}.said", "ab") as said:
            self.daemons[name] = subprocess.Popen(
                words,
                env=env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def start_controller(self, *, afresh: bool = True) -> None:
        """Start slurmctld; `afresh`: it remembers nothing."""
        self._start("slurmctld", ["slurmctld", "-D", "-f", f"{self.home}/slurm.conf", *(["-c"] if afresh else [])])

    def start_node(self, name: str) -> None:
        """Start one slurmd."""
        words = ["slurmd", "-D", "-f", f"{self.home}/slurm.conf", "-N", name]
        if self.blind:
            hide = f'mount -t tmpfs tmpfs "{self.blind}" && exec "$@"'
            words = ["unshare", "--mount", "sh", "-c", hide, "sh", *words]
        self._start(name, words)

    def lose(self, name: str) -> None:
        """End a node and all that runs there, as when its power fails."""
        self.kill(name)
        jobs = [pid for pid in self._processes() if f"SLURMD_NODENAME={name}" in _environment(pid)]
        steps = [pid for pid in map(_parent, jobs) if pid and f"SLURM_CONF={self.conf}" in _environment(pid)]
        for pid in {*steps, *jobs}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _processes(self) -> list[int]:
        """What was started with this cluster's own slurm.conf: jobs, their keepers (slurmstepd), clients."""
        ours = {f"SLURM_CONF={self.conf}", f"{MARK}={self.mark}"}
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if ours & _environment(pid)]

    def kill(self, name: str, how: int = signal.SIGKILL) -> None:
        """End one daemon, as a crash of its machine would or, by SIGTERM, with its state saved.

        A killed slurmctld has not saved that a job began even seconds ago: started again, it ends that job on its
        node and starts it once more.
        """
        daemon = self.daemons.pop(name)
        daemon.send_signal(how)
        daemon.wait()

    def say(self, *words: object, check: bool = True) -> str:
        """What a client command prints; it never hangs."""
        done = subprocess.run(
            [str(word) for word in words],
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stderr}{self.logs()}"
        return done.stdout.strip()

    def until_idle(self) -> None:
        """Wait until every node takes jobs."""
        deadline = time.monotonic() + PATIENCE_S
        while set(self.say("sinfo", "-h", "-N", "-o", "%T", check=False).split()) != {"idle"}:
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def jobs(self, *states: str) -> list[tuple[str, str, str]]:
        """(id, name, state) of the jobs that slurmctld remembers."""
        words = ["--states", ",".join(states) or "all"]
        lines = self.say("squeue", "-h", *words, "-o", "%i|%j|%T").splitlines()
        return sorted((i, name, state) for i, name, state in (line.split("|") for line in lines))

    def logs(self) -> str:
        """The last of what the daemons said."""
        texts = [f"\n{path.name}: {path.read_text()[-1500:]}" for path in sorted((self.home / "log").glob("*"))]
        return "".join(texts)

    def down(self) -> None:
        """End everything, by pid."""
        for daemon in self.daemons.values():
            daemon.kill()
        for daemon in self.daemons.values():
            daemon.wait()
        deadline = time.monotonic() + PATIENCE_S
        while left := self._processes():
            assert time.monotonic() < deadline, f"cannot be ended: {left}"
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        shutil.rmtree(self.home, ignore_errors=True)


def _parent(pid: int) -> int:
    """0 for one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _environment(pid: int) -> set[str]:
    """Empty for one that is gone, and for a zombie."""
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace").split("\0"))
    except OSError:
        return set()
