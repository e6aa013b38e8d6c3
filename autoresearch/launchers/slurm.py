"""Slurm: one sbatch job per run; the scheduler says where it runs, the exit record says how it ended."""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import Handle, Job, JobState, Observation, ProgramOutput, Reach, Unreachable
from autoresearch.core.run.limits import GRACE_S
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers import descriptions
from autoresearch.launchers import slurm_job as jobs
from autoresearch.launchers.shared import MOST_SAID, SharedFiles
from autoresearch.launchers.slurm_answers import number, refusal, sentence, silence
from autoresearch.launchers.slurm_states import (
    FIELDS,
    SACCT_FIELDS,
    Row,
    accounted,
    observation,
    rows,
    shown,
)

ANSWER_S = 30.0
PREFLIGHT_S = 10.0
HOPELESS_S = 60.0  # seconds; a hopeless reason may be temporary: a partition that is being changed
ASK_AGAIN_S = 30.0  # seconds; about a job that is not in the queue
SHOWN_AT_ONCE = 5  # jobs shown one by one (`scontrol`) in one poll
ACCOUNTED_AT_ONCE = 50
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

    def __init__(
        self,
        target: Target,
        environ: Mapping[str, str],
        *,
        reach: Reach | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        jobs.check(target)
        self.target = target
        self.reach: Reach = reach or SharedFiles(cleaned(environ))
        self.clock = clock
        self._where = jobs.on_cluster(target)
        self._hopeless: dict[str, float] = {}  # job -> since when
        self._last_words: dict[str, str] = {}  # job -> last words of its output
        self._asked: dict[str, float] = {}  # job that is not in the queue -> time of its last query
        self._found: dict[str, Row] = {}  # ... and the answer
        self._accounts = True  # until Slurm reports that there is no accounting
        self._begun: set[str] = set()  # jobs whose Runner was reached

    def describe(self) -> list[tuple[str, str]]:
        """See `Describes`."""
        return descriptions.of_slurm(self.reach, self._where, self.target.text("partition"))

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
        words = ["sbatch", "--test-only", *self._where, *jobs.resources(self.target, 0)]
        if script := self.target.text("script"):
            said = self.reach.run(["test", "-r", script])
            if said.returncode:
                return [*found, Finding(Severity.ERROR, "no_script", f"{script} cannot be read", "change `script`")]
            words.append(script)
        else:
            words.append("--wrap=true")
        said = self._asked_of_slurm(words, PREFLIGHT_S)
        if said.returncode:
            no = refusal(said)
            found.append(Finding(Severity.ERROR, f"slurm_{no.code}", f"Slurm would refuse a job: {no.reason}", no.hint))
            if no.code in ("refused", "refused_resources") and (away := self._nodes_away()):
                text = f"Slurm has no room for a job while nodes are {away}: {no.reason}"
                hint = "runs wait in its queue until they are back"
                found[-1] = Finding(Severity.WARNING, f"slurm_{no.code}", text, hint)
        return found

    def _nodes_away(self) -> str:
        """The states of nodes that are unavailable now: `--test-only` refuses a job that sbatch would let wait for
        them.
        """
        with contextlib.suppress(Unreachable):
            said = self._asked_of_slurm(["sinfo", *self._where, "-h", "-o", "%T"], PREFLIGHT_S)
            states = {line.strip().rstrip("*~#!%$@^-") for line in said.text.splitlines()}
            return ", ".join(sorted(state for state in states if re.match("drain|down|maint|reserv|fail|power", state)))
        return ""

    def _grace_is_short(self) -> list[Finding]:
        """Slurm sends KILL this long after its TERM; a Runner with a longer grace leaves no exit record."""
        said = self._asked_of_slurm(["scontrol", *self._where, "show", "config"], PREFLIGHT_S)
        told = next((line for line in said.text.splitlines() if line.startswith("KillWait ")), "")
        kill_s = float("".join(c for c in told.partition("=")[2] if c.isdecimal()) or "inf")
        if kill_s > GRACE_S:
            return []
        message = f"Slurm kills what is left {kill_s:.0f} s after it asked a job to end (KillWait)"
        hint = (
            f"give runs a shorter grace, such as --grace {max(1, int(kill_s) // 2)}s, so that they leave a full record"
        )
        return [Finding(Severity.WARNING, "short_kill_wait", message, hint)]

    # -- submitting ---------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`. Raises Unreachable also if the job may have been submitted."""
        if job.again and (native := self._find(job)):
            return self._queued(job, native)
        text, words = jobs.script(job, self.target), jobs.words(job, self.target)
        if script := self.target.text("script"):
            self.reach.put(job.directory, {"slurm.sh": text.encode()})
            exports = [f"COMMAND=exec bash {shlex.quote(job.directory)}/slurm.sh", f"BASE_LOG_DIR={job.directory}"]
            exports += [f"{name}={value}" for name, value in jobs.environment(self.target).items()]
            words, text = ["env", *exports, *words, script], ""
        said = self.reach.run(words, stdin=text.encode(), timeout_s=ANSWER_S, cwd=job.cwd)
        return self._queued(job, number("sbatch", said))

    def _queued(self, job: Job, native: str) -> Handle:
        return Handle(job.run, native, {"directory": job.directory, "name": job.name})

    def _find(self, job: Job) -> str:
        """A job that an earlier submit may have created; the oldest if there are several, "" if none."""
        wanted = jobs.comment(job)
        ours = (row for row in self._queue() if row.comment == wanted or (row.name == job.name and not _is_ours(row)))
        found = sorted(int(row.native) for row in ours if not _refused(row))
        for native in found[1:]:
            self._cancel(str(native), hard=True)
        if found:
            return str(found[0])
        kept = self._from_accounting(["--name", job.name])
        return min((row.native for row in kept if row.name == job.name), key=int, default="")

    # -- asking -------------------------------------------------------------------------------------------------

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`: one squeue, and one sacct for jobs that it does not list."""
        known = {row.native: row for row in self._queue()}
        missing = [handle.native for handle in handles if handle.native not in known]
        if missing:
            self._look_elsewhere(missing)
            known |= {native: self._found[native] for native in missing if native in self._found}
        there = [(h, known[h.native]) for h in handles if h.native in known and _is_its(known[h.native], h)]
        self._look_whether_begun(there)
        return {handle.run: self._observation(handle, row) for handle, row in there}

    def _queue(self) -> list[Row]:
        """Every own job that slurmctld remembers; never by id, as a purged one makes squeue fail."""
        words = ["squeue", *self._where, "--me", "--noheader", "--states=all", f"--Format={FIELDS}"]
        said = self._asked_of_slurm(words, ANSWER_S)
        if said.returncode:
            raise Unreachable(f"squeue: {sentence(said)}")
        if len(said.out) >= MOST_SAID:  # a job missing from a cut list is not gone
            raise Unreachable(f"squeue: your queue is longer than {MOST_SAID >> 20} MiB", code="queue_too_long")
        return list(rows(said.text))

    def _look_elsewhere(self, missing: Sequence[str]) -> None:
        """Jobs missing from the queue: a few by `scontrol`, the others by accounting if there is any.

        Only what a job ended with is kept: one that still runs is asked about again.
        """
        now = self.clock()
        unsettled = [n for n in missing if n not in self._found or self._found[n].state is not JobState.OVER]
        due = [n for n in unsettled if now - self._asked.get(n, -ASK_AGAIN_S) >= ASK_AGAIN_S]
        self._asked |= dict.fromkeys(due, now)
        for native in due:
            self._found.pop(native, None)
        for native in due[:SHOWN_AT_ONCE]:
            said = self._asked_of_slurm(["scontrol", *self._where, "show", "job", "-o", native], ANSWER_S)
            if row := shown(said.text):
                self._found[native] = row
        gone = [native for native in due if native not in self._found]
        for first in range(0, len(gone), ACCOUNTED_AT_ONCE):
            some = gone[first : first + ACCOUNTED_AT_ONCE]
            self._found |= {row.native: row for row in self._from_accounting(["-j", ",".join(some)])}

    def _from_accounting(self, which: Sequence[str]) -> list[Row]:
        """Empty without accounting or an answer of it: slurmctld did answer, and the exit record decides."""
        if not self._accounts:
            return []
        words = ["sacct", *self._where, "-X", "-n", "-P", "-S", "now-14days", "-o", SACCT_FIELDS, *which]
        try:
            said = self.reach.run(words, timeout_s=ANSWER_S)
        except Unreachable:
            return []
        disabled = "storage is disabled" in said.err.decode("utf-8", "replace")
        self._accounts = not (said.returncode and (disabled or said.returncode == 127))
        return list(accounted(said.text)) if said.returncode == 0 else []

    def _observation(self, handle: Handle, job_row: Row) -> Observation:
        native = job_row.native
        if not job_row.hopeless:
            self._hopeless.pop(native, None)
        for_ever = job_row.hopeless and self.clock() - self._hopeless.setdefault(native, self.clock()) >= HOPELESS_S
        if job_row.went_wrong and not job_row.not_shared and native not in self._last_words:
            self._last_words[native] = self._tail(f"{handle.more.get('directory', '')}/{jobs.OUTPUT}")
        if job_row.word == "RUNNING" and self._prepares and native not in self._begun:
            job_row = Row(native, "CONFIGURING", node=job_row.node, reason="its nodes are being set up")
        return observation(job_row, last_words=self._last_words.get(native, ""), for_ever=for_ever)

    @property
    def _prepares(self) -> bool:
        """Whether the job does other work, of any length, before its Runner can show."""
        return bool(self.target.text("script") or self.target.text("setup"))

    def _look_whether_begun(self, running: Sequence[tuple[Handle, Row]]) -> None:
        young = [(h, row) for h, row in running if row.word == "RUNNING" and row.native not in self._begun]
        if not self._prepares or not young:
            return
        marks = {f"{handle.more.get('directory', '')}/{jobs.STARTED}": row.native for handle, row in young}
        self._begun |= {marks[line] for line in self.reach.run(["ls", *marks]).text.splitlines() if line in marks}

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
        soft = [] if hard or self.target.text("script") else ["--signal=TERM", "--batch"]
        self._asked_of_slurm(["scancel", *self._where, *soft, native], ANSWER_S)  # ignore a job that is over

    def forget(self, handle: Handle) -> None:
        """See `JobLauncher`. Also signals a launch script that its command is over."""
        for told in (self._last_words, self._hopeless, self._asked, self._found):
            told.pop(handle.native, None)
        self._begun.discard(handle.native)
        if self.target.text("script"):
            logs = f"{handle.more.get('directory', '')}/{handle.native}-logs"
            if self.reach.run(["test", "-d", logs]).returncode == 0:
                self.reach.put(logs, {"ENDED": b""})

    def _asked_of_slurm(self, words: Sequence[str], timeout_s: float) -> ProgramOutput:
        """Output of a Slurm command; raises Unreachable if its failure says nothing about any job."""
        said = self.reach.run(words, timeout_s=timeout_s)
        if said.returncode and (silent := silence(words[0], said)):
            raise silent
        return said


def _is_ours(job_row: Row) -> bool:
    """Whether its comment is autoresearch's: a site's plugin, or the target's `extra`, may have set another one."""
    return job_row.comment.startswith("autoresearch:")


def _is_its(job_row: Row, handle: Handle) -> bool:
    """Whether a job is this run's: a reinstalled Slurm gives out its numbers a second time."""
    if _is_ours(job_row):
        return job_row.comment.endswith(f":{handle.run}")
    return not job_row.comment or job_row.name == handle.more.get("name")


def _refused(job_row: Row) -> bool:
    """Whether it is the row of a job that sbatch refused."""
    return job_row.word == "FAILED" and job_row.reason == "BadConstraints"
