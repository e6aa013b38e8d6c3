"""What `doctor` reports about targets beside problems: versions, partitions, GPUs, disk space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoresearch.launchers import gpus

Rows = list[tuple[str, str]]


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


def _gb(size: int) -> str:
    return f"{size / 1e9:.0f} GB"
