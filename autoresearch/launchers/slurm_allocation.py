"""One Slurm allocation for many short runs (`interactive: true`): it is kept, so that runs do not wait in the queue.

A holder job keeps the allocation and watches its *spool*, a directory of its own: `RUN.job` is a run to start, which
the holder claims by renaming it to `RUN.taken`, and to `RUN.over.CODE` once it is over. After a kill of any process all
is found again: the holder by its comment, the run by its files. Without runs the holder exits after a while.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import Handle, Job, JobState, Observation, Unreachable
from autoresearch.launchers import slurm_job as jobs
from autoresearch.launchers.slurm import ANSWER_S, SlurmLauncher
from autoresearch.launchers.slurm_answers import number
from autoresearch.launchers.slurm_states import Row, observation

TIME_S = 8 * 3600.0  # default walltime of an allocation
KILL_S = 5  # seconds from TERM to KILL in a hard stop
GOING = ("COMPLETING", "STAGE_OUT")  # it still runs, but its work is over
TRIES = 3  # an allocation may be ending just now

# A hard stop kills every process with the run's id: a trainer may have outlived its Runner.
_HOLDER = """#!/bin/bash
spool={base}/$SLURM_JOB_ID
mkdir -p "$spool" && cd "$spool" || exit 66
declare -A pid
pass_on() {{ [ ${{#pid[@]}} = 0 ] || kill -"$1" "${{pid[@]}}" 2>/dev/null; }}
trap 'ending=1; touch closed; pass_on TERM' TERM
trap 'ending=1; touch closed; pass_on USR1' USR1
of_run() {{ grep -lszx "AUTORESEARCH_RUN_ID=$1" /proc/[0-9]*/environ | cut -d/ -f3; }}
since=$SECONDS
while :; do
    for run in "${{!pid[@]}}"; do
        if ! kill -0 "${{pid[$run]}}" 2>/dev/null; then
            wait "${{pid[$run]}}"
            mv "$run.taken" "$run.over.$?"
            unset "pid[$run]"
        elif [ -e "$run.kill" ]; then
            kill -TERM "${{pid[$run]}}"
            sleep {kill_s}
            kill -KILL $(of_run "$run") 2>/dev/null
        elif [ -e "$run.stop" ]; then
            rm -f "$run.stop"
            kill -TERM "${{pid[$run]}}"
        fi
    done
    if [ -n "$ending" ]; then
        [ ${{#pid[@]}} = 0 ] && exit 0
        sleep 0.2
        continue
    fi
    for job in $(ls -tr -- *.job 2>/dev/null); do
        [ ${{#pid[@]}} -lt {slots} ] || break
        run=${{job%.job}}
        mv "$job" "$run.taken" 2>/dev/null || continue
        bash "$run.taken" >> "$run.out" 2>&1 </dev/null &
        pid[$run]=$!
    done
    [ ${{#pid[@]}} = 0 ] || since=$SECONDS
    if [ $((SECONDS - since)) -ge {idle} ]; then
        touch closed
        compgen -G '*.job' >/dev/null || exit 0
        rm -f closed
    fi
    sleep 0.2
done
"""


class SlurmAllocation(SlurmLauncher):
    """`core.run.job_launcher.JobLauncher` whose runs share one allocation."""

    @property
    def mark(self) -> str:
        """Prefix of an allocation's comment; the path of its spools follows."""
        return f"autoresearch:allocation:{self.target.key}:"

    def _holders(self) -> list[Row]:
        """The allocations of this target that Slurm remembers."""
        return [row for row in self._queue() if row.comment.startswith(self.mark)]

    def _spool(self, holder: Row) -> str:
        return f"{holder.comment.removeprefix(self.mark)}/{holder.native}"

    # -- submitting ---------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`: into the existing allocation, or into a new one."""
        if job.again and (spool := self._spool_of(job)):
            return self._handle(job, spool)
        for _ in range(TRIES):
            spool = self._open_spool(job)
            self.reach.put(spool, {f"{job.run}.job": jobs.script(job, self.target).encode()})
            if not self._is_there(f"{spool}/closed") or not self._withdraw(spool, job.run):
                return self._handle(job, spool)
        raise Unreachable("the allocation is ending just now", code="allocation_ends")

    def _handle(self, job: Job, spool: str) -> Handle:
        return Handle(job.run, f"{PurePosixPath(spool).name}+{job.run}", {"spool": spool, "directory": job.directory})

    def _base(self, job: Job) -> str:
        """Beside the Runner's copy: a directory that the nodes see and that outlives a run."""
        return str(PurePosixPath(job.argv[-2]).with_name(f"allocation_{self.target.key}"))

    def _spool_of(self, job: Job) -> str:
        """The spool that an earlier submit of a run may have reached; "" without one."""
        bases = {self._base(job), *(row.comment.removeprefix(self.mark) for row in self._holders())}
        words = ["find", *sorted(bases), "-maxdepth", "2", "-name", f"{job.run}.*", "-not", "-name", "*.gone"]
        found = sorted(self.reach.run(words).text.splitlines())
        return str(PurePosixPath(found[0]).parent) if found else ""

    def _open_spool(self, job: Job) -> str:
        """The spool of the existing allocation; of a new one if there is none, or if it is about to end."""
        open_ones = (row for row in self._holders() if row.state is not JobState.OVER and row.word not in GOING)
        held = sorted(open_ones, key=lambda row: int(row.native))
        for spool in map(self._spool, held):
            if not self._is_there(f"{spool}/closed"):
                return spool
        return f"{self._base(job)}/{self._hold(job, self._base(job))}"

    def _hold(self, job: Job, base: str) -> str:
        """Ask Slurm for an allocation; returns its job number."""
        slots, idle = max(1, self.target.slots), int(jobs.seconds(self.target, "idle"))
        text = _HOLDER.format(base=shlex.quote(base), slots=slots, idle=idle, kill_s=KILL_S)
        self.reach.put(base, {"holder.sh": text.encode()})
        minutes = max(1, int((jobs.seconds(self.target, "time") if self.target.text("time") else TIME_S) // 60))
        words = ["sbatch", "--parsable", *self._where, *jobs.resources(self.target, job.gpus * slots)]
        words += [f"--job-name=ajet_hold_{self.target.key}"]  # after `extra`: sbatch takes the last of two comments
        words += [f"--comment={self.mark}{base}", "--no-requeue", f"--output={jobs.escaped(base)}/%j.out"]
        words += [f"--time={minutes}", f"--signal=B:USR1@{jobs.signal_s(self.target)}"]
        said = self.reach.run(words, stdin=text.encode(), timeout_s=ANSWER_S, cwd=job.cwd)
        return number("sbatch", said)

    def _is_there(self, path: str) -> bool:
        return self.reach.run(["test", "-e", path]).returncode == 0

    def _withdraw(self, spool: str, run: str) -> bool:
        """Withdraw an unstarted run; False if the holder has claimed it (also by a rename)."""
        return self.reach.run(["mv", f"{spool}/{run}.job", f"{spool}/{run}.gone"]).returncode == 0

    # -- asking -------------------------------------------------------------------------------------------------

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`: one squeue and one listing of the spools."""
        if not handles:
            return {}
        known = {self._spool(row): row for row in self._holders()}
        spools = sorted({str(handle.more.get("spool", "")) for handle in handles})
        listed = self.reach.run(["find", *spools, "-maxdepth", "1", "-type", "f"]).text.splitlines()
        files = [PurePosixPath(path) for path in listed]
        found: dict[str, Observation] = {}
        for handle in handles:
            spool = str(handle.more.get("spool", ""))
            start = f"{handle.run}."
            marks = {f.name.removeprefix(start) for f in files if f.name.startswith(start) and str(f.parent) == spool}
            said = self._seen(handle, marks, known.get(spool))
            found |= {handle.run: said} if said else {}
        return found

    def _seen(self, handle: Handle, marks: set[str], holder: Row | None) -> Observation | None:
        """Combine the files of one run with the allocation's state; None: nothing is known."""
        if over := next((mark.removeprefix("over.") for mark in marks if mark.startswith("over.")), ""):
            code = int(over) if over.isdecimal() else 1
            return observation(
                Row("0", "FAILED" if code else "COMPLETED", code << 8), last_words=self._last_output(handle)
            )
        if "gone" in marks:
            return Observation(JobState.OVER, "CANCELLED", "it was withdrawn", ending=Ending.STOPPED, cause="cancelled")
        if holder is None or marks.isdisjoint(("job", "taken")):
            return None
        if "taken" in marks:
            return observation(holder)
        if holder.state is JobState.OVER:
            reason = f"the allocation ended before the run began: {holder.word}"
            return Observation(
                JobState.OVER, holder.word, reason, ending=Ending.LAUNCH_FAILED, cause="job_gone", node=holder.node
            )
        if holder.state is JobState.RUNNING:
            return Observation(JobState.PENDING, "WAITING", "another run has the allocation", node=holder.node)
        return self._observation(Handle(handle.run, holder.native), holder)

    def _last_output(self, handle: Handle) -> str:
        if handle.native not in self._last_words:
            self._last_words[handle.native] = self._tail(f"{handle.more.get('spool', '')}/{handle.run}.out")
        return self._last_words[handle.native]

    # -- ending -------------------------------------------------------------------------------------------------

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `JobLauncher`: stops the run, not the allocation."""
        spool = str(handle.more.get("spool", ""))
        if not spool or self._withdraw(spool, handle.run):
            return
        if self._is_there(f"{spool}/{handle.run}.taken"):
            self.reach.put(spool, {f"{handle.run}.{'kill' if hard else 'stop'}": b""})

    def forget(self, handle: Handle) -> None:
        """See `JobLauncher`."""
        spool = str(handle.more.get("spool", ""))
        self._last_words.pop(handle.native, None)
        if spool and not self._is_there(f"{spool}/{handle.run}.taken"):
            self.reach.run(["find", spool, "-maxdepth", "1", "-name", f"{handle.run}.*", "-delete"])
