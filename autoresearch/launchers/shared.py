"""A target with shared paths: its files are local, its programs are started here (sbatch, curl ...)."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from autoresearch.core.run.job_launcher import DirectoryState, ProgramOutput, Unreachable, Want
from autoresearch.runner import remote_requests

MOST_SAID = 1 << 20


class SharedFiles:
    """`core.run.job_launcher.Reach` of this machine. `environ`: for programs; None: the current environment."""

    shared = True

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self.environ = environ

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """See `Reach`. A free lock proves nothing: flock may not work across a network file system."""
        found = {want.run: DirectoryState(**remote_requests.look(want.directory, want.offsets)) for want in wants}
        return {run: seen if seen.alive else replace(seen, alive=None) for run, seen in found.items()}

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Collection[str] = ()) -> None:
        """See `Reach`; raises OSError if the disk is full."""
        remote_requests.put(directory, files, private)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, cwd: str = "") -> ProgramOutput:
        """See `Reach`."""
        try:
            said = subprocess.run(
                list(argv),
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
                cwd=cwd or None,
                env=dict(self.environ) if self.environ is not None else None,
            )
        except FileNotFoundError as error:
            return ProgramOutput(127, b"", str(error).encode())
        except subprocess.TimeoutExpired as error:
            raise Unreachable(f"{argv[0]} gave no answer within {timeout_s:.0f} s", code="no_answer") from error
        return ProgramOutput(said.returncode, said.stdout[:MOST_SAID], said.stderr[:MOST_SAID])

    def clock_offset(self) -> float:
        """See `Reach`: other nodes' clocks show only in their files."""
        return 0.0

    def close(self) -> None:
        """See `Reach`."""
