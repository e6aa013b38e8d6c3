"""Ports for the servers of tests."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

LEAST = 20000  # Ray's own workers have what is below
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_claims: list[int] = []


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all of them different.

    Not those that the kernel hands out: one of them may be an outgoing connection's before its server has started,
    or while it is stopped for a while. Nor those that another pytest beside this one was given: each is claimed, until
    this process ends, by a name that the kernel gives to one alone.
    """
    most = int(_RANGE.read_text().split()[0])
    tries = 20 * count
    candidates = random.sample(range(LEAST, most), k=tries) if most - LEAST >= tries else [0] * tries
    ports: dict[int, None] = {}
    for port in candidates:
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            port = int(one.getsockname()[1])
            _claims.append(_claim(port))
            ports[port] = None
        if len(ports) == count:
            break
    return list(ports)


def _claim(port: int) -> int:
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0autoresearch-test-port-{port}")
    except OSError:
        claim.close()
        raise
    return claim.detach()


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]
