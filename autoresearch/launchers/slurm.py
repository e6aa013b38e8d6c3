"""Slurm: one sbatch job per run; on this machine, or by a login node.

The scheduler says where a run is, its exit record how it ended.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import (
    Declined,
    Handle,
    Job,
    JobState,
    Observation,
    ProgramOutput,
    Reach,
    Unreachable,
    Want,
)
from autoresearch.core.run.limits import GRACE_S
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers import slurm_job as jobs
from autoresearch.launchers.shared import MOST_SAID, SharedFiles
from autoresearch.launchers.slurm_job import Row, SlurmOptions, number, observation, sentence, silence
from autoresearch.launchers.ssh_connection import CONNECTION, SshReach

OPTIONS = {
    **{name: meaning for name, meaning in CONNECTION.items() if name != "setup"},
    "host": "a login node, where Slurm's commands are called over ssh; default: they are called here",
    "login_setup": "shell words that are run first on the login node, such as `. /etc/profile`",
    **jobs.OPTIONS,
}
ANSWER_S = 30.0
PREFLIGHT_S = 10.0
ASK_AGAIN_S = 30.0  # seconds; about a job that is not in the queue
ACCOUNTED_AT_ONCE = 50
MOST_PARTITIONS = 8  # that `doctor` shows
_SINFO = "%R|%a|%l|%D|%t|%c|%m|%G"  # sinfo(1): name, up or down, time limit, nodes, their state, CPUs, MB, gres
_FOREIGN = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "SCANCEL_", "SQUEUE_", "SACCT_")
_FOREIGN_NAMES = {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES"}
_SITE = {"SLURM_CONF", "SLURM_JWT", "SLURM_CONF_SERVER"}  # how the cluster is found


def launcher_of(target: Target, environ: Mapping[str, str]) -> SlurmLauncher:
    """The launcher that a target's options ask for. Raises UsageError for invalid options."""
    reach: Reach | None = None
    if target.text("host"):
        options = {name: value for name, value in target.options.items() if name != "setup"}
        options |= {"setup": target.text("login_setup")} if target.text("login_setup") else {}
        options["shared"] = True  # Slurm's nodes see our files under the same paths
        reach = SshReach(replace(target, options=options), environ)
    return SlurmLauncher(target, environ, reach=reach)


def cleaned(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables of an allocation that this process may be in."""
    return {
        name: value
        for name, value in environ.items()
        if name in _SITE or not (name.startswith(_FOREIGN) or name in _FOREIGN_NAMES)
    }


@dataclass(slots=True)
class _Known:
    """What is kept of one job from poll to poll."""

    last_words: str | None = None  # of its output
    asked_at: float | None = None  # when accounting was asked about it: it is not in the queue
    row: Row | None = None  # ... and the answer
    begun: bool = False  # its Runner was reached


class SlurmLauncher:
    """`core.run.job_launcher.JobLauncher` for one Slurm cluster. Raises UsageError for invalid options."""

    kind = Kind.SLURM

    def __init__(
        self,
        target: Target,
        environ: Mapping[str, str],
        *,
        reach: Reach | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = SlurmOptions.of(target)
        self.target = target
        self.reach: Reach = reach or SharedFiles(cleaned(environ))
        self.clock = clock
        self._known: defaultdict[str, _Known] = defaultdict(_Known)
        self._accounts = True  # until Slurm reports that there is no accounting

    def _ask(self, *words: str, timeout_s: float = ANSWER_S) -> ProgramOutput:
        """Output of a Slurm command on this cluster; raises Unreachable if its failure says nothing about any job."""
        said = self.reach.run([words[0], *self.options.cluster, *words[1:]], timeout_s=timeout_s)
        if said.returncode and (silent := silence(words[0], said)):
            raise silent
        return said

    def describe(self) -> list[tuple[str, str]]:
        """See `Describes`: version, accounting, and each partition with its limit and nodes."""
        version = self.reach.run(["sinfo", "--version"]).text.split() or ["unknown"]
        storage = self._configured("AccountingStorageType") or "unknown"
        accounting = "none: what was purged is known by its exit record alone" if storage.endswith("none") else storage
        partition = self.target.text("partition")
        said = self._ask("sinfo", "-h", "-o", _SINFO, *([f"--partition={partition}"] if partition else []))
        parts: dict[str, list[str]] = {}
        for cells in (line.split("|") for line in said.text.splitlines()):
            if len(cells) == 8:
                name, up, limit, nodes, state, cpus, memory, gres = cells
                gres = "" if gres.startswith("(null") else f", {gres}"
                about = parts.setdefault(name, [f"{up}, at most {limit}"])
                about.append(f"{nodes} {state} ({cpus} CPUs, {memory} MB{gres})")
        shown = [(f"partition {name}", "; ".join(about)) for name, about in parts.items()]
        if (left := len(shown) - MOST_PARTITIONS) > 0:
            shown[MOST_PARTITIONS:] = [("partitions", f"and {left} more")]
        return [("Slurm", version[-1]), ("accounting", accounting), *shown]

    def _configured(self, name: str) -> str:
        """A value of slurm.conf; "" if it is not told."""
        lines = self._ask("scontrol", "show", "config", timeout_s=PREFLIGHT_S).text.splitlines()
        return next((line.partition("=")[2].strip() for line in lines if line.split()[:1] == [name]), "")

    # -- preflight ----------------------------------------------------------------------------------------------

    def preflight(self) -> list[Finding]:
        """See `JobLauncher`. A Slurm that does not answer now is a warning: runs may wait for it."""
        try:
            return self._preflight()
        except Unreachable as silent:
            hint = silent.hint or "runs that are ordered now wait until it answers"
            return [Finding(Severity.WARNING, "unreachable", f"Slurm does not answer: {silent.reason}", hint)]

    def _preflight(self) -> list[Finding]:
        if self.reach.run(["sbatch", "--version"], timeout_s=PREFLIGHT_S).returncode == 127:
            return [Finding(Severity.ERROR, "no_sbatch", "sbatch is not on PATH", "run where Slurm's commands are")]
        found = self._grace_is_short()
        script = self.options.script
        if script and self.reach.run(["test", "-r", script]).returncode:
            return [*found, Finding(Severity.ERROR, "no_script", f"{script} cannot be read", "change `script`")]
        words = ["sbatch", "--test-only", *self.options.resource_words(0), script or "--wrap=true"]
        said = self._ask(*words, timeout_s=PREFLIGHT_S)
        if not said.returncode:
            return found
        no = jobs.refusal(said)
        if no.code in ("refused", "refused_resources") and (away := self._nodes_away()):
            text = f"Slurm has no room for a job while nodes are {away}: {no.reason}"
            hint = "runs wait in its queue until they are back"
            return [*found, Finding(Severity.WARNING, f"slurm_{no.code}", text, hint)]
        text = f"Slurm would refuse a job: {no.reason}"
        return [*found, Finding(Severity.ERROR, f"slurm_{no.code}", text, no.hint)]

    def _nodes_away(self) -> str:
        """The states of nodes that are away now: `--test-only` refuses a job that sbatch would let wait for them."""
        with contextlib.suppress(Unreachable):
            said = self._ask("sinfo", "-h", "-o", "%T", timeout_s=PREFLIGHT_S)
            states = {line.strip().rstrip("*~#!%$@^-") for line in said.text.splitlines()}
            return ", ".join(sorted(state for state in states if re.match("drain|down|maint|reserv|fail|power", state)))
        return ""

    def _grace_is_short(self) -> list[Finding]:
        """Slurm sends KILL this long after its TERM; a Runner with a longer grace leaves no exit record."""
        kill_s = float("".join(c for c in self._configured("KillWait") if c.isdecimal()) or "inf")
        if kill_s > GRACE_S:
            return []
        message = f"Slurm kills what is left {kill_s:.0f} s after it asked a job to end (KillWait)"
        grace = f"--grace {max(1, int(kill_s) // 2)}s"
        hint = f"give runs a shorter grace, such as {grace}, so that they leave a full record"
        return [Finding(Severity.WARNING, "short_kill_wait", message, hint)]

    # -- submitting ---------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`. Raises Unreachable also if the job may have been submitted."""
        about = {"directory": job.directory, "name": job.name}
        if job.again and (native := self._find(job)):
            return Handle(job.run, native, about)
        if not self.reach.look([Want(job.run, job.directory)])[job.run].there:
            host = self.target.text("host")
            raise Declined(
                f"{host} does not see {job.directory}: Slurm's nodes and this machine need a file system that both see",
                code="not_shared",
                hint=f"keep the repository on one, or log in there: ssh {host} autoresearch run ...",
            )
        script, ours = self.options.script, f"{job.directory}/{jobs.SCRIPT}"
        self.reach.put(job.directory, {jobs.SCRIPT: self.options.batch_script(job).encode()})
        words = ["sbatch", "--parsable", *self.options.words(job), script or ours]
        if script:
            exports = [f"COMMAND=exec bash {shlex.quote(ours)}", f"BASE_LOG_DIR={job.directory}"]
            words = ["env", *exports, *(f"{name}={value}" for name, value in self.options.environment.items()), *words]
        said = self.reach.run(words, timeout_s=ANSWER_S, cwd=job.cwd)
        return Handle(job.run, number("sbatch", said), about)

    def _find(self, job: Job) -> str:
        """A job that an earlier submit may have created; the oldest if there are several, "" if none."""
        wanted = jobs.comment(job)
        ours = (row for row in self._queue() if row.comment == wanted or (row.name == job.name and not _is_ours(row)))
        refused = ("FAILED", "BadConstraints")
        found = sorted(int(row.native) for row in ours if (row.word, row.reason) != refused)
        for native in found[1:]:
            self._cancel(str(native), hard=True)
        if found:
            return str(found[0])
        kept = self._from_accounting("--name", job.name)
        return min((row.native for row in kept if row.name == job.name), key=int, default="")

    # -- asking -------------------------------------------------------------------------------------------------

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`: one squeue, and one sacct for jobs that it does not list."""
        found = {row.native: row for row in self._queue()}
        missing = [handle.native for handle in handles if handle.native not in found]
        found |= self._kept_by_accounting(missing)
        there = [(h, found[h.native]) for h in handles if h.native in found and _is_its(found[h.native], h)]
        self._look_whether_begun(there)
        return {handle.run: self._observation(handle, row) for handle, row in there}

    def _queue(self) -> list[Row]:
        """Every own job that slurmctld remembers; never by id, as a purged one makes squeue fail."""
        words = ("squeue", "--me", "--all", "--noheader", "--states=all", f"--Format={jobs.FIELDS}")
        said = self._ask(*words)
        if said.returncode:
            raise Unreachable(f"squeue: {sentence(said)}")
        if len(said.out) >= MOST_SAID:  # a job missing from a cut list is not gone
            raise Unreachable(f"squeue: your queue is longer than {MOST_SAID >> 20} MiB", code="queue_too_long")
        return list(jobs.rows(said.text))

    def _kept_by_accounting(self, missing: Sequence[str]) -> dict[str, Row]:
        """Jobs that slurmctld does not remember. What is over stays so; others are asked about again."""
        now = self.clock()
        known = {native: self._known[native] for native in missing}
        due = [
            native
            for native, one in known.items()
            if not (one.row and one.row.state is JobState.OVER)
            and (one.asked_at is None or now - one.asked_at >= ASK_AGAIN_S)
        ]
        for native in due:
            known[native].asked_at, known[native].row = now, None
        for first in range(0, len(due), ACCOUNTED_AT_ONCE):
            for row in self._from_accounting("-j", ",".join(due[first : first + ACCOUNTED_AT_ONCE])):
                self._known[row.native].row = row
        return {native: one.row for native, one in known.items() if one.row}

    def _from_accounting(self, *which: str) -> list[Row]:
        """Empty without accounting or an answer of it: slurmctld did answer, and the exit record decides."""
        if not self._accounts:
            return []
        words = ["sacct", *self.options.cluster, "-X", "-n", "-P", "-S", "now-14days", "-o", jobs.SACCT_FIELDS, *which]
        try:
            said = self.reach.run(words, timeout_s=ANSWER_S)
        except Unreachable:
            return []
        self._accounts = not (said.returncode == 127 or (said.returncode and b"storage is disabled" in said.err))
        return list(jobs.accounted(said.text)) if said.returncode == 0 else []

    def _observation(self, handle: Handle, job_row: Row) -> Observation:
        known = self._known[job_row.native]
        if job_row.went_wrong and known.last_words is None:
            known.last_words = self._tail(f"{handle.more.get('directory', '')}/{jobs.OUTPUT}")
        if job_row.word == "RUNNING" and self._prepares and not known.begun:
            job_row = Row(job_row.native, "CONFIGURING", node=job_row.node, reason="its nodes are being set up")
        return observation(job_row, last_words=known.last_words or "")

    @property
    def _prepares(self) -> bool:
        """Whether the job does other work, of any length, before its Runner can show."""
        return bool(self.options.script or self.options.setup)

    def _look_whether_begun(self, there: Sequence[tuple[Handle, Row]]) -> None:
        young = [(h, row) for h, row in there if row.word == "RUNNING" and not self._known[row.native].begun]
        if self._prepares and young:
            marks = {f"{handle.more.get('directory', '')}/{jobs.STARTED}": row.native for handle, row in young}
            for line in self.reach.run(["ls", *marks]).text.splitlines():
                if line in marks:
                    self._known[marks[line]].begun = True

    def _tail(self, path: str) -> str:
        """The last words of a job's output, in one line."""
        lines = self.reach.run(["tail", "-c", "2000", path]).text.splitlines()
        told = [line.strip() for line in lines if line.strip() and "*** " not in line]  # `slurmstepd: *** CANCELLED`
        return " / ".join(told[-3:])[-400:]

    # -- ending -------------------------------------------------------------------------------------------------

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `JobLauncher`."""
        self._cancel(handle.native, hard=hard)

    def _cancel(self, native: str, *, hard: bool) -> None:
        """Softly: TERM to the Runner alone. Hard: TERM to all its processes, and KILL after Slurm's KillWait."""
        soft = [] if hard or self.options.script else ["--signal=TERM", "--batch"]
        self._ask("scancel", *soft, native)  # ignore a job that is over

    def forget(self, handle: Handle) -> None:
        """See `JobLauncher`. Also signals a launch script that its command is over."""
        self._known.pop(handle.native, None)
        logs = f"{handle.more.get('directory', '')}/{handle.native}-logs"
        if self.options.script and self.reach.run(["test", "-d", logs]).returncode == 0:
            self.reach.put(logs, {"ENDED": b""})


def _is_ours(job_row: Row) -> bool:
    """Whether its comment is autoresearch's: a site's plugin, or the target's `extra`, may have set another one."""
    return job_row.comment.startswith("autoresearch:")


def _is_its(job_row: Row, handle: Handle) -> bool:
    """Whether a job is this run's: a reinstalled Slurm gives out its numbers a second time."""
    if _is_ours(job_row):
        return job_row.comment.endswith(f":{handle.run}")
    return not job_row.comment or job_row.name == handle.more.get("name")
