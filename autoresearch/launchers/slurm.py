"""Slurm: one sbatch job for each run; the scheduler says where, the exit record says how it ended."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from autoresearch.core.far import Declined, Handle, Job, JobState, Observation, Unreachable
from autoresearch.core.finding import Finding, Severity
from autoresearch.core.places import Kind, Place
from autoresearch.launchers.shared import SharedFiles

OPTIONS = {"partition": "sbatch --partition"}
ANSWER_S = 30.0
_PENDING = ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED")
_RUNNING = ("RUNNING", "COMPLETING")


class SlurmLauncher:
    """`core.far.JobLauncher` for one Slurm cluster."""

    kind = Kind.SLURM

    def __init__(self, place: Place, environ: Mapping[str, str]) -> None:
        self.place = place
        inherited = ("SLURM_JOB", "SLURM_STEP", "SBATCH_", "SRUN_")
        self.reach = SharedFiles({k: v for k, v in environ.items() if not k.startswith(inherited)})

    def preflight(self) -> list[Finding]:
        """See `core.far.JobLauncher`."""
        if self.reach.run(["sbatch", "--version"]).returncode == 127:
            return [Finding(Severity.ERROR, "no_sbatch", "sbatch is not on PATH", "run where Slurm's commands are")]
        return []

    def submit(self, job: Job) -> Handle:
        """See `core.far.JobLauncher`."""
        minutes = max(1, math.ceil(job.max_s / 60))
        script = f"#!/bin/bash\nexec {shlex.join(job.argv)}\n"
        words = [
            *("sbatch", "--parsable", f"--job-name={job.name}", f"--comment=autoresearch:{job.campaign}:{job.run}"),
            *("--no-requeue", f"--time={minutes}", f"--output={job.directory}/slurm.out", "--open-mode=append"),
        ]
        said = self.reach.run(words, stdin=script.encode(), timeout_s=ANSWER_S, cwd=job.cwd)
        if said.returncode != 0:
            raise Declined(f"sbatch: {said.complaint}", code="sbatch_refused")
        return Handle(job.run, said.text.strip().split(";")[0])

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `core.far.JobLauncher`."""
        said = self.reach.run(["squeue", "-h", "-t", "all", "--me", "-o", "%i|%T|%r|%N"], timeout_s=ANSWER_S)
        if said.returncode != 0:
            raise Unreachable(f"squeue: {said.complaint}")
        rows = {cells[0]: cells for cells in (line.split("|") for line in said.text.splitlines()) if len(cells) == 4}
        return {h.run: _observation(rows[h.native]) for h in handles if h.native in rows}

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `core.far.JobLauncher`."""
        soft = [] if hard else ["--signal=TERM", "--batch"]
        self.reach.run(["scancel", *soft, handle.native], timeout_s=ANSWER_S)

    def forget(self, handle: Handle) -> None:
        """See `core.far.JobLauncher`."""


def _observation(cells: Sequence[str]) -> Observation:
    _, word, reason, node = cells
    state = JobState.PENDING if word in _PENDING else JobState.RUNNING if word in _RUNNING else JobState.OVER
    return Observation(state, word, "" if reason == "None" else reason, node=node)
