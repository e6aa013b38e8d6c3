"""What `doctor` reports about targets beside problems: versions, partitions, GPUs, disk space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoresearch.core.run.job_launcher import ProgramOutput, Reach, Unreachable
from autoresearch.launchers import gpus

Rows = list[tuple[str, str]]
MOST_PARTITIONS = 8
_SINFO = "%R|%a|%l|%D|%t|%c|%m|%G"  # sinfo(1): name, up or down, time limit, nodes, their state, CPUs, MB, gres


def of_slurm(reach: Reach, where: Sequence[str] = (), partition: str = "") -> Rows:
    """Version, accounting, and each partition with its limit and nodes. `where`: the words that name a cluster."""
    version = _text(reach.run(["sinfo", "--version"])).strip()
    config = _text(reach.run(["scontrol", *where, "show", "config"]))
    told = next((line for line in config.splitlines() if line.startswith("AccountingStorageType")), "")
    storage = told.partition("=")[2].strip()
    accounting = "none: what was purged is known by its exit record alone" if storage.endswith("none") else storage
    words = ["sinfo", *where, "-h", "-o", _SINFO, *([f"--partition={partition}"] if partition else [])]
    lines = [line.split("|") for line in _text(reach.run(words)).splitlines()]
    parts: dict[str, list[str]] = {}
    for cells in (cells for cells in lines if len(cells) == 8):
        name, up, limit, nodes, state, cpus, memory, gres = cells
        gres = "" if gres.startswith("(null") else f", {gres}"
        about = parts.setdefault(name, [f"{up}, at most {limit}"])
        about.append(f"{nodes} {state} ({cpus} CPUs, {memory} MB{gres})")
    rows = [("Slurm", (version.split() or ["unknown"])[-1]), ("accounting", accounting or "unknown")]
    rows += [(f"partition {name}", "; ".join(about)) for name, about in list(parts.items())[:MOST_PARTITIONS]]
    left = len(parts) - MOST_PARTITIONS
    return [*rows, *([("partitions", f"and {left} more")] if left > 0 else [])]


def of_host(answer: Mapping[str, Any], smi: str) -> Rows:
    """Rows from a host's remote file agent (runner/remote_agent.py: probe) and its nvidia-smi."""
    there = gpus.parse(smi)
    names = ", ".join(sorted({one.name for one in there}))
    programs = ", ".join(f"{name}{'' if path else ' missing'}" for name, path in answer["programs"].items())
    paths = [
        ("disk", f"{path}: {_gb(one['free'])} of {_gb(one['total'])} free{'' if one['writable'] else ', read-only'}")
        for path, one in answer["paths"].items()
        if one["there"]
    ]
    return [
        ("host", f"{answer['host']}, as {answer['user'] or answer['uid']}"),
        ("python", f"{'.'.join(map(str, answer['python']))} ({answer['executable']})"),
        ("programs", programs),
        ("GPUs", f"{len(there)}: {names}" if there else "none"),
        *paths,
    ]


def of_ray(version: Mapping[str, Any], jobs: list[Any], url: str) -> Rows:
    """Rows from GET /api/version and /api/jobs/."""
    living = sum(isinstance(job, dict) and job.get("status") in ("PENDING", "RUNNING") for job in jobs)
    return [("Ray", f"{version.get('ray_version', 'unknown')} at {url}"), ("jobs", f"{living} live, of all users")]


def _text(output: ProgramOutput) -> str:
    if output.returncode:
        raise Unreachable(output.complaint, code="no_answer")
    return output.text


def _gb(size: int) -> str:
    return f"{size / 1e9:.0f} GB"
