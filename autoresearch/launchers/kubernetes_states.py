"""The states of Jobs, RayJobs and their pods as one observation of a run. Pure: objects in, observation out.

Sources: batch/v1 JobStatus and core/v1 PodStatus (kubernetes.io/docs, Job "Job termination and cleanup", Pod
"Disruption conditions"); RayJobStatus in ray-operator/apis/ray/v1/rayjob_types.go of kuberay feeaf72f.
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
STOPPED = "autoresearch/stopped"  # annotation of a RayJob that autoresearch suspended

_NEVER = {"InvalidImageName", "ErrImageNeverPull", "CrashLoopBackOff", "CreateContainerConfigError", "StartError"}
_PULL = ("ImagePullBackOff", "ErrImagePull")
MAY_COME = (*_PULL, "CreateContainerConfigError")  # retried: an image may be pushed, a Secret created
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
    """The observation of a Job or RayJob together with its pods."""
    found = _ray_job(job, pods) if job.get("kind") == "RayJob" else _plain_job(job, pods)
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


# -- batch/v1 Job -------------------------------------------------------------------------------------------------


def _plain_job(job: Object, pods: Sequence[Object]) -> Observation:
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


# -- pods ---------------------------------------------------------------------------------------------------------


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
        return Observation(JobState.OVER, why, text, Ending.CRASHED, "out_of_memory", code)
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
        never = word in _NEVER or (word in _PULL and bool(_NO_SUCH_IMAGE.search(text)))
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


# -- ray.io/v1 RayJob ---------------------------------------------------------------------------------------------


def _ray_job(job: Object, pods: Sequence[Object]) -> Observation:
    status = job.get("status") or {}
    said, word = str(status.get("jobStatus") or ""), str(status.get("jobDeploymentStatus") or "")
    message = str(status.get("message") or "")[:300]
    if word == "ValidationFailed":
        return Observation(JobState.OVER, word, message, Ending.LAUNCH_FAILED, "kubernetes_refused")
    if word == "Failed":
        return _failed_ray_job(status, message, pods)
    if word == "Complete" or said in ("SUCCEEDED", "FAILED", "STOPPED"):
        return _ended_ray_job(said, message)
    if word in ("Suspending", "Suspended") and STOPPED in (job["metadata"].get("annotations") or {}):
        alive = word == "Suspending" or any(not _ended_pod(pod) for pod in pods)
        return Observation(JobState.RUNNING if alive else JobState.OVER, word, "", Ending.STOPPED, "cancelled")
    if word in ("Suspending", "Suspended"):
        return Observation(JobState.PENDING, word, _SUSPENDED)
    head = next((pod for pod in pods if _is_head(pod)), None)
    if lost := _ended_pod(head) if head else None:
        return replace(lost, ending=lost.ending or Ending.LOST, cause=lost.cause or "head_lost")
    if word == "Running" and said == "RUNNING":
        return Observation(JobState.RUNNING, said, message)
    return _waiting_ray_job(said or word or "New", message, pods)


def _waiting_ray_job(word: str, message: str, pods: Sequence[Object]) -> Observation:
    """It waits for its cluster: report the pod in the worst state."""
    stuck = [found for pod in pods if (found := _living_pod(pod)).state is JobState.PENDING and found.reason]
    if not stuck:
        return Observation(JobState.PENDING, word, message)
    return replace(max(stuck, key=lambda found: found.hopeless), state=JobState.PENDING)


def _failed_ray_job(status: Object, message: str, pods: Sequence[Object]) -> Observation:
    reason, said = str(status.get("reason") or "Failed"), str(status.get("jobStatus") or "")
    if reason == "DeadlineExceeded":
        return Observation(JobState.OVER, reason, _DEADLINE, Ending.MAX_TIME, "walltime", outranks=True)
    if reason == "PreRunningDeadlineExceeded":
        text = f"it did not run within its preRunningDeadlineSeconds: {message}".rstrip(": ")
        return Observation(JobState.OVER, reason, text, Ending.LAUNCH_FAILED, "pending_limit")
    if reason == "SubmissionFailed" and said == "RUNNING" and any(_is_head(p) and not _ended_pod(p) for p in pods):
        # The submitter, which also shows the log, broke; the job goes on (ray-project/kuberay#4921).
        return Observation(JobState.RUNNING, reason, message)
    if reason == "SubmissionFailed":
        return Observation(JobState.OVER, reason, message, None if said else Ending.LAUNCH_FAILED, "submission_failed")
    if reason == "JobStatusCheckTimeoutExceeded":
        text = message or "the Ray head did not answer for so long that KubeRay gave it up"
        return Observation(JobState.OVER, reason, text, Ending.LOST, "head_lost")
    return replace(_ended_ray_job(said, message), word=reason)


def _ended_ray_job(status: str, message: str) -> Observation:
    if status == "STOPPED":
        return Observation(JobState.OVER, status, message or "the Ray job was stopped", Ending.STOPPED, "cancelled")
    return Observation(JobState.OVER, status or "Complete", message, returncode=0 if status == "SUCCEEDED" else None)


def _is_head(pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get("ray.io/node-type", "head")) == "head"
