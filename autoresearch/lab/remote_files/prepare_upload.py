"""Put everything that a run's Runner needs into its remote directory, before the launcher submits the job."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from autoresearch.core.run.job_launcher import Job, Reach
from autoresearch.core.run.spec import RunSpec
from autoresearch.lab.launch.runner_spec import RUNNER
from autoresearch.lab.remote_files.translate_paths import keys_of
from autoresearch.records.order_file import Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import read_json

MARGIN_S = 120.0  # beside the limits, for what the Runner does after them
ALLOCATED = ("SLURM_", "RAY_", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Beginnings of the variables by which a scheduler tells a job what it has."""


def ship(recorded: RecordedRun, order: Order, reach: Reach) -> tuple[Order, Job]:
    """Write spec, environment and Runner to the target; safe to repeat. The returned order has their directory."""
    rundir, spec = recorded.rundir, recorded.spec
    if not reach.shared:
        from autoresearch.lab.remote_files.upload import send

        sent = send(recorded, order, reach, runner_files())
        order = replace(order, directory=sent.directory, paths=sent.paths, watched=sent.watched, code=sent.code)
        return order, replace(job_of(spec, order, sent.directory, sent.runner, sent.python), cwd=sent.cwd)
    directory = str(rundir.far)
    runner = f"{rundir.path.parent}/.far/runner_{_digest()}"  # a name that Python takes for a package
    _put_runner(reach, runner)
    far = (read_json(rundir.spec) or {}) | keys_of(directory) | {"inherit": list(ALLOCATED)}
    files = {"spec.json": json.dumps(far).encode()}
    if rundir.environment.exists():
        files["environment"] = _without_our_allocation(rundir.environment.read_bytes(), order.declared)
    reach.put(directory, files, private=("environment", "spec.json"))
    python = str(Path(order.place.text("python")).expanduser()) if order.place.text("python") else ""
    return replace(order, directory=directory), job_of(spec, order, directory, runner, python)


def job_of(spec: RunSpec, order: Order, directory: str, runner: str, python: str = "") -> Job:
    """The job that starts the Runner with the target's `python`, else the trainer's interpreter."""
    python = python or spec.interpreter or "python3"
    limits = spec.limits
    return Job(
        run=spec.run,
        name=spec.session,
        campaign=spec.campaign,
        directory=directory,
        argv=(python, "-S", "-E", "-s", runner, directory),
        cwd=spec.cwd,
        max_s=limits.max_s + (spec.evaluate_s if spec.evaluate else 0.0) + 2 * limits.grace_s + MARGIN_S,
        grace_s=limits.grace_s,
        gpus=order.gpus,
        environment={"AUTORESEARCH_RUN_ID": spec.run},
        attempt=order.attempt,
        again=order.submitting is not None,
    )


def _without_our_allocation(environment: bytes, declared: tuple[str, ...]) -> bytes:
    """Drop this machine's own scheduler variables, which mean nothing in the job; the Runner adds the job's own."""
    mine = tuple(name.encode() for name in ALLOCATED)
    kept = {name.encode() for name in declared}
    pairs = environment.split(b"\0")
    return b"\0".join(p for p in pairs if not p.startswith(mine) or p.partition(b"=")[0] in kept)


def runner_files() -> dict[str, bytes]:
    """The Runner's own files, by name: what another host needs of us."""
    return {path.name: path.read_bytes() for path in sorted(Path(RUNNER).iterdir()) if path.suffix in (".py", ".json")}


def _digest() -> str:
    data = b"".join(name.encode() + body for name, body in runner_files().items())
    return hashlib.sha256(data).hexdigest()[:12]


def _put_runner(reach: Reach, directory: str) -> None:
    """Copy the Runner, once per version."""
    if not reach.shared or not Path(directory, "whole").exists():
        reach.put(directory, runner_files())
        reach.put(directory, {"whole": b""})
