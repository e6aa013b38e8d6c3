"""Names and labels of a run in Kubernetes, valid for every object kind. Pure.

Names: RFC 1035 labels; a RayJob's may have 47 characters (MaxRayJobNameLength in
ray-operator/controllers/ray/utils/constant.go of kuberay feeaf72f). Label values: 63 of [A-Za-z0-9._-].
"""

from __future__ import annotations

import hashlib
import re

from autoresearch.core.run.job_launcher import Job
from autoresearch.core.run.targets import Target

RUN, CAMPAIGN, PLACE, TELLS = (f"autoresearch/{word}" for word in ("run", "campaign", "place", "tells"))
STOPPED = "autoresearch/stopped"  # annotation of a RayJob that autoresearch suspended
MOST_NAME = 47
MOST_LABEL = 63
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")


def object_name(run: str, attempt: int = 1) -> str:
    """The name of a run's job, and of its Secret; the same for every submit of one attempt."""
    whole = f"ajet-{run}" + (f"-a{attempt}" if attempt > 1 else "")
    safe = re.sub(r"[^a-z0-9]+", "-", whole.lower()).strip("-")
    return safe if safe == whole and len(whole) <= MOST_NAME else _cut(safe, whole, MOST_NAME)


def label_value(text: str) -> str:
    """A text as a label's value; an invalid one is shortened and made unique by a hash."""
    if _LABEL.match(text):
        return text
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("._-")
    return _cut(safe, text, MOST_LABEL)


def labels(job: Job, target: Target) -> dict[str, str]:
    """The labels of every object of a run."""
    ours = {RUN: job.run, CAMPAIGN: job.campaign, PLACE: target.key}
    found = {key: label_value(value) for key, value in ours.items() if value}
    return {**found, "app.kubernetes.io/managed-by": "autoresearch"}


def _cut(safe: str, whole: str, most: int) -> str:
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{safe[: most - 9].rstrip('._-') or 'x'}-{digest}"
