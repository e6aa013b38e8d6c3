"""The states of a Job and its pods as one observation of a run. Pure: objects in, observation out.

Sources: batch/v1 JobStatus and core/v1 PodStatus (kubernetes.io/docs, Job "Job termination and cleanup", Pod
"Disruption conditions").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import JobState, Observation
from autoresearch.core.text.regex import later

Object = Mapping[str, Any]

_NEVER = {"InvalidImageName", "ErrImageNeverPull", "CrashLoopBackOff", "CreateContainerConfigError", "StartError"}
_PULL = ("ImagePullBackOff", "ErrImagePull")
_NO_SUCH_IMAGE = later(r"not found|manifest unknown|does not exist|denied|unauthorized|no match for", re.I)
_USUAL_WAIT = {"", "ContainerCreating", "PodInitializing"}
_DISRUPTED = {  # reason of the condition DisruptionTarget -> cause
    "PreemptionByScheduler": "preempted",
    "EvictionByEvictionAPI": "preempted",
    "DeletionByTaintManager": "node_failed",
    "DeletionByPodGC": "node_failed",
    "TerminationByKubelet": "node_failed",
}
_POD_REASONS = {"Evicted": "preempted", "Preempting": "preempted", "Preempted": "preempted"} | dict.fromkeys(
    ("NodeLost", "NodeShutdown", "Terminated", "Shutdown", "NodeAffinity", "UnexpectedAdmissionError"), "node_failed"
)
_SUSPENDED = "the job is suspended: a queue such as Kueue lets it in, or not"
_NO_POD = "it has no pod yet; perhaps a quota is used up (kubectl describe job)"
_DEADLINE = "the job was longer there than its activeDeadlineSeconds"


def observe(job: Object, pods: Sequence[Object]) -> Observation:
    """The observation of a Job together with its pods."""
    found = _of_job(job, pods)
    node = next((str(n) for pod in pods if (n := (pod.get("spec") or {}).get("nodeName"))), "")
    return replace(found, node=found.node or node)


def disruption(pod: Object) -> Observation | None:
    """A disruption of a pod by the cluster, while it still lives: its Runner only gets a TERM."""
    found = _conditions(pod).get("DisruptionTarget")
    cause = _DISRUPTED.get(str((found or {}).get("reason")), "")
    if not found or not cause:
        return None
    word = str(found["reason"])
    return Observation(JobState.OVER, word, str(found.get("message") or word), Ending.LOST, cause, outranks=True)


def _of_job(job: Object, pods: Sequence[Object]) -> Observation:
    conditions = _conditions(job)
    pod = max(pods, key=lambda one: str(one["metadata"].get("creationTimestamp", "")), default=None)
    failed = conditions.get("Failed") or conditions.get("FailureTarget")
    if "Complete" in conditions or "SuccessCriteriaMet" in conditions:
        return Observation(JobState.OVER, "Complete", returncode=_exit_code(pod) or 0)
    if failed is not None:
        if failed.get("reason") == "DeadlineExceeded":
            return Observation(JobState.OVER, "DeadlineExceeded", _DEADLINE, Ending.MAX_TIME, "walltime", outranks=True)
        over = _ended_pod(pod) if pod else None
        reason = str(failed.get("message") or failed.get("reason") or "")
        if failed.get("reason") == "PodFailurePolicy" and "DisruptionTarget" in reason:
            lost = Observation(JobState.OVER, "Disrupted", reason, Ending.LOST, "preempted", outranks=True)
            return over if over and over.cause else lost
        return over or Observation(JobState.OVER, "Failed", reason, returncode=_exit_code(pod))
    if (job.get("spec") or {}).get("suspend"):
        return Observation(JobState.PENDING, "Suspended", _SUSPENDED)
    if pod is None:
        return Observation(JobState.PENDING, "NoPod", _NO_POD)
    return _ended_pod(pod) or _living_pod(pod)


def _ended_pod(pod: Object) -> Observation | None:
    """How a pod ended; None while it lives."""
    status = pod.get("status") or {}
    reason, phase = str(status.get("reason") or ""), str(status.get("phase") or "")
    if phase not in ("Succeeded", "Failed"):
        return None
    if lost := disruption(pod):
        return lost
    if cause := _POD_REASONS.get(reason):
        message = str(status.get("message") or reason)
        return Observation(JobState.OVER, reason, message, Ending.LOST, cause, outranks=True)
    if reason == "DeadlineExceeded":
        return Observation(JobState.OVER, reason, _DEADLINE, Ending.MAX_TIME, "walltime", outranks=True)
    ended = _terminated(pod)
    why, code = str(ended.get("reason") or ""), _exit_code(pod)
    if why == "OOMKilled":
        text = "the container needed more memory than the target's `memory` grants, and was killed"
        return Observation(JobState.OVER, why, text, Ending.CRASHED, "memory", code)
    if why in ("StartError", "ContainerCannotRun"):
        text = str(ended.get("message") or "the container could not be started")
        return Observation(JobState.OVER, why, text[:300], Ending.LAUNCH_FAILED, "no_start", code)
    message = str(status.get("message") or "")
    return Observation(JobState.OVER, reason or phase, message[:300], returncode=code)


def _living_pod(pod: Object) -> Observation:
    status, node = pod.get("status") or {}, str((pod.get("spec") or {}).get("nodeName") or "")
    scheduled = _conditions(pod, held=False).get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        word = str(scheduled.get("reason") or "Unschedulable")
        return Observation(JobState.PENDING, word, str(scheduled.get("message") or word)[:300])
    for waiting in _waiting(pod):
        word, text = str(waiting.get("reason") or ""), str(waiting.get("message") or "")[:300]
        never: bool | None = word in _NEVER or (word in _PULL and bool(_NO_SUCH_IMAGE.search(text)))
        if word in _PULL and not never:  # between two tries, of which one may have said more
            never = None
        if word not in _USUAL_WAIT:
            return Observation(JobState.PENDING, word, f"{word}: {text}" if text else word, hopeless=never, node=node)
    if status.get("phase") == "Running":
        return Observation(JobState.RUNNING, "Running", node=node)
    return Observation(JobState.PENDING, "ContainerCreating" if node else "Pending", node=node)


def _containers(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _waiting(pod: Object) -> list[Object]:
    return [found for one in _containers(pod) if (found := (one.get("state") or {}).get("waiting"))]


def _terminated(pod: Object) -> Object:
    """How the first failed container ended, else the first that ended."""
    found = [end for one in _containers(pod) if (end := (one.get("state") or {}).get("terminated"))]
    return next((end for end in found if end.get("exitCode")), found[0] if found else {})


def _exit_code(pod: Object | None) -> int | None:
    code = _terminated(pod).get("exitCode") if pod else None
    return int(code) if isinstance(code, int) else None


def _conditions(item: Object, *, held: bool = True) -> dict[str, Object]:
    """By type; only those that hold, unless `held` is False."""
    found = (item.get("status") or {}).get("conditions") or []
    return {str(one.get("type")): one for one in found if not held or one.get("status") == "True"}
