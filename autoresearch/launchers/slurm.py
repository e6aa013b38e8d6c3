"""Slurm: one sbatch job per run; on this machine, or by a login node.

The scheduler says where a run is, its exit record how it ended.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import (
    Declined,
    Handle,
    Job,
    Observation,
    ProgramOutput,
    Reach,
    Unreachable,
    Want,
)
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers import slurm_job as jobs
from autoresearch.launchers.registry import COMMON
from autoresearch.launchers.shared import MOST_SAID, SharedFiles
from autoresearch.launchers.slurm_job import Row, SlurmOptions, number, observation, sentence, silence
from autoresearch.launchers.ssh import CONNECTION, SshReach

OPTIONS = {
    **{name: meaning for name, meaning in CONNECTION.items() if name != "setup"},
    "host": "a login node, where Slurm's commands are called over ssh; default: they are called here",
    "login_setup": "shell words that are run first on the login node, such as `. /etc/profile`",
    **jobs.OPTIONS,
}
ANSWER_S = 30.0
PREFLIGHT_S = 10.0
_FOREIGN = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "SCANCEL_", "SQUEUE_", "SACCT_")
_FOREIGN_NAMES = {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES"}
_SITE = {"SLURM_CONF", "SLURM_JWT", "SLURM_CONF_SERVER"}  # how the cluster is found


def cleaned(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables of an allocation that this process may be in."""
    return {
        name: value
        for name, value in environ.items()
        if name in _SITE or not (name.startswith(_FOREIGN) or name in _FOREIGN_NAMES)
    }


class SlurmLauncher:
    """`core.run.job_launcher.JobLauncher` for one Slurm cluster. Raises UsageError for invalid options."""

    kind = Kind.SLURM
    OPTIONS = OPTIONS

    def __init__(self, target: Target, environ: Mapping[str, str], *, reach: Reach | None = None) -> None:
        self.options = SlurmOptions.of(target, {*COMMON, *OPTIONS})
        self.target = target
        self.reach: Reach = reach or _reach_of(target, environ)

    def _ask(self, *words: str, timeout_s: float = ANSWER_S) -> ProgramOutput:
        """Output of a Slurm command on this cluster; raises Unreachable if its failure says nothing about any job."""
        said = self.reach.run([words[0], *self.options.cluster, *words[1:]], timeout_s=timeout_s)
        if said.returncode and (silent := silence(words[0], said)):
            raise silent
        return said

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
        words = ["sbatch", "--test-only", *self.options.resource_words(0), self.options.script or "--wrap=true"]
        said = self._ask(*words, timeout_s=PREFLIGHT_S)
        if not said.returncode:
            return []
        no = jobs.refusal(said)
        if "node configuration is not available" in no.reason:  # sbatch itself lets it wait for nodes that are away
            hint = "it waits in the queue if nodes are down or drained (`sinfo`), else it is refused when it is sent"
            return [Finding(Severity.WARNING, "slurm_no_room", f"Slurm has no room for a job now: {no.reason}", hint)]
        return [Finding(Severity.ERROR, "slurm_refused", f"Slurm would refuse a job: {no.reason}", no.hint)]

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
        if missing := [handle.native for handle in handles if handle.native not in found]:
            found |= {row.native: row for row in self._from_accounting("-j", ",".join(missing))}
        there = [(h, found[h.native]) for h in handles if h.native in found and _is_its(found[h.native], h)]
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

    def _from_accounting(self, *which: str) -> list[Row]:
        """Empty without accounting or an answer of it: slurmctld did answer, and the exit record decides."""
        words = ["sacct", *self.options.cluster, "-X", "-n", "-P", "-S", "now-14days", "-o", jobs.SACCT_FIELDS, *which]
        try:
            said = self.reach.run(words, timeout_s=ANSWER_S)
        except Unreachable:
            return []
        return list(jobs.accounted(said.text)) if said.returncode == 0 else []

    def _observation(self, handle: Handle, job_row: Row) -> Observation:
        output = f"{handle.more.get('directory', '')}/{jobs.OUTPUT}"
        return observation(job_row, last_words=self._tail(output) if job_row.went_wrong else "")

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
        """See `JobLauncher`. Tells a launch script that its command is over."""
        logs = f"{handle.more.get('directory', '')}/{handle.native}-logs"
        if self.options.script and self.reach.run(["test", "-d", logs]).returncode == 0:
            self.reach.put(logs, {"ENDED": b""})


def _reach_of(target: Target, environ: Mapping[str, str]) -> Reach:
    """Where Slurm's commands are called: here, or on the login node that the target names."""
    if not target.text("host"):
        return SharedFiles(cleaned(environ))
    options = {name: value for name, value in target.options.items() if name != "setup"}
    options |= {"setup": target.text("login_setup")} if target.text("login_setup") else {}
    options["shared"] = True  # Slurm's nodes see our files under the same paths
    return SshReach(replace(target, options=options), environ)


def _is_ours(job_row: Row) -> bool:
    """Whether its comment is autoresearch's: a site's plugin, or the target's `comment`, may have set another one."""
    return job_row.comment.startswith("autoresearch:")


def _is_its(job_row: Row, handle: Handle) -> bool:
    """Whether a job is this run's: a reinstalled Slurm gives out its numbers a second time."""
    if _is_ours(job_row):
        return job_row.comment.endswith(f":{handle.run}")
    return not job_row.comment or job_row.name == handle.more.get("name")
