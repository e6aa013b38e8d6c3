"""Remedies: what to try for each class of failure, in general and with the settings of a specific trainer."""

from __future__ import annotations

from autoresearch.core.diagnosis.failure_kinds import FailureKind, table

_PROXYCHAINS = "proxychains is installed: begin the command with `proxychains -q` where the host needs a proxy"
_OFFLINE = "HF_HUB_OFFLINE=1 once model and data are in the cache; HF_ENDPOINT for a mirror; http_proxy and https_proxy"


def suggestions(failure_kind: FailureKind, trainer: str = "", *, proxychains: bool = False) -> tuple[str, ...]:
    """What to try, the most likely first. proxychains: whether that program is installed on this host."""
    about = table().kinds[failure_kind]
    network = (*((_PROXYCHAINS,) if proxychains else ()), _OFFLINE) if failure_kind is FailureKind.NETWORK else ()
    family = trainer.removesuffix("_swarm")
    trainers = about.get("trainers", {})
    own = trainers.get(trainer) or trainers.get(family) or ()
    if not own and family == "agentjet":  # AgentJet trains with verl
        own = trainers.get("verl", ())
    return (about["remedy"], *own, *network, *about.get("more", ()))
