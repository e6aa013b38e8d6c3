"""Make sure that the runs of a target are followed: one Follower per target, in its own session, started on demand."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from autoresearch.core.run.spec import RunState
from autoresearch.core.run.targets import Target
from autoresearch.core.text.session_and_branch_names import session_name
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs import detached
from autoresearch.records import order_file
from autoresearch.records.index import state_home
from autoresearch.records.order_file import TROUBLE, ring
from autoresearch.records.rundir import RunDir, is_locked, locked, read_json, write_atomically, write_json

SAYS_WHO = ("SSH_AUTH_SOCK", "SLURM_CONF", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "KUBECONFIG", "KRB5CCNAME")
"""Variables that say who we are to a target, or where it is: those of the next login may be others."""
_SHOWN = "shown.json"  # digests of credentials already handed over, so that two shells do not alternate


def directory_of(target: Target, parts: Parts) -> Path:
    """The folder of a target's Follower, with its lock, records and log."""
    return state_home(parts.environ) / "places" / target.key


def attend(target: Target, parts: Parts, socket: str) -> None:
    """Start a target's Follower unless it lives; returns once it holds its lock. See `lab.runs.detached.start`."""
    folder = directory_of(target, parts)
    folder.mkdir(parents=True, exist_ok=True)
    if is_locked(folder / "lock"):
        ring(folder)
        return
    with locked(folder / "starting"):  # of two CLIs at once, only one starts it
        if is_locked(folder / "lock"):
            ring(folder)
            return
        write_json(folder / "place.json", asdict(target), durable=False)
        _note_shown(folder, [_digest(_who(parts.environ))])
        session = session_name(f"follow-{target.name}", target.key[-8:])
        detached.start(folder, ["follow", str(folder)], session, f"follow-{target.key}", parts, socket)


@contextlib.contextmanager
def take_up(folder: Path) -> Iterator[None]:
    """Report a Follower's start to its starter; if it fails, leave the reason in its folder."""
    try:
        yield
    except AutoresearchError as error:
        with contextlib.suppress(OSError):
            write_json(folder / TROUBLE, {"reason": error.message, "hint": error.hint}, durable=False)
        raise
    finally:
        detached.reported(folder)
    (folder / TROUBLE).unlink(missing_ok=True)


def attend_run(rundir: RunDir, parts: Parts) -> bool:
    """Start the Follower of a remote run if there is none; False for a local run.

    Raises nothing: a caller that reads a run reports what is known, and tries again at its next read.
    """
    order = order_file.read(rundir)
    if order is None:
        return False
    if rundir.exit_record.exists():
        return True
    with contextlib.suppress(AutoresearchError, OSError):
        if order.unattended():
            attend(order.place, parts, order.socket)
        elif (seen := order_file.observed(rundir)) and seen.state == RunState.UNREACHABLE.value:
            _show(Path(order.follower), parts.environ)
    return True


def _show(folder: Path, environ: Mapping[str, str]) -> None:
    """Refresh an unreachable follower's credentials from this shell; each set is handed over only once."""
    who = _who(environ)
    digest, digests = _digest(who), list((read_json(folder / _SHOWN) or {}).get("digests") or ())
    if not who or digest in digests:
        return
    _note_shown(folder, [*digests, digest])
    detached.hand_over(folder, who)
    ring(folder)


def _note_shown(folder: Path, digests: list[str]) -> None:
    """Readable by the owner only: a short token could be guessed from its digest."""
    text = json.dumps({"digests": digests})
    write_atomically(folder / _SHOWN, text.encode(), mode=0o600, durable=False)


def _who(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in SAYS_WHO if environ.get(name)}


def _digest(who: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(who, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()
