"""Starts each run as a process of this machine, without tmux; a scheduler would be asked instead."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from autoresearch.core.run.job_launcher import Handle, Job, JobLauncher, JobState, Observation
from autoresearch.core.run.targets import Target
from autoresearch.launchers.shared import SharedFiles

OPTIONS = {"nice": "how far its runs step back for others, 0 to 19"}


class Pool(JobLauncher):
    kind = "pool"
    OPTIONS = OPTIONS

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        self.nice = target.text("nice", "0")
        self._files = SharedFiles(environ)  # its runs see our files; others need a connection that copies and asks

    @property
    def reach(self) -> SharedFiles:
        return self._files

    def submit(self, job: Job) -> Handle:
        # `setsid --fork` so that the run outlives us; a second submit of a run must not start it twice, which the
        # Runner's lock in its directory sees to.
        words = ["setsid", "--fork", "nice", "-n", self.nice, "sh", "-c", 'echo $$ >"$0"; exec "$@"']
        pid_file = f"{job.directory}/pool.pid"
        with open(f"{job.directory}/pool.out", "ab") as out:
            subprocess.run(
                [*words, pid_file, *job.argv],
                cwd=job.cwd,
                env={**os.environ, **job.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                check=True,
            )
        return Handle(job.run, pid_file)

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        return {handle.run: Observation(self._state(handle)) for handle in handles}

    def stop(self, handle: Handle, *, hard: bool) -> None:
        with suppress(OSError, ValueError):
            os.kill(_pid(handle), signal.SIGKILL if hard else signal.SIGTERM)

    def _state(self, handle: Handle) -> JobState:
        try:
            os.kill(_pid(handle), 0)
        except (FileNotFoundError, ValueError):
            return JobState.PENDING  # its shell has not written its pid yet
        except ProcessLookupError:
            return JobState.OVER
        return JobState.RUNNING


def _pid(handle: Handle) -> int:
    with open(handle.native) as file:
        return int(file.read())
