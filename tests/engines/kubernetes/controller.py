"""What a cluster does of itself: pods for jobs, their containers as processes of this machine, statuses of both.

No kubelet: this shows what they write into statuses, so that the launcher can be shown reading it.
Volumes are directories: a claim's mount path must be a path here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.engines.kubernetes.api_server import ApiServer, Object, now

PULLED = "registry.example.org/trainer:1"
RULE = "Pod default/{} has condition DisruptionTarget matching FailJob rule at index 0"
NO_IMAGE = "Not An Image"


@dataclass
class Pod:
    """A pod that was started."""

    name: str
    job: str
    process: subprocess.Popen[bytes]  # its one container
    started: float = 0.0
    ending: float = 0.0  # since when its processes have been asked to end
    why: Object = field(default_factory=dict)  # status of a pod that was ended from outside


class Cluster:
    """Controllers and one node, on a thread of their own."""

    namespace = "default"

    def __init__(self, api: ApiServer, folder: Path, environ: dict[str, str]) -> None:
        self.api, self.store, self.folder, self.environ = api, api.store, folder, environ
        self.pods: dict[str, Pod] = {}
        self.unschedulable = ""  # message of the scheduler for new pods
        self.started: list[str] = []  # jobs whose process was started, in order
        self._threads_end = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.faults: list[BaseException] = []

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """End every process, by pid, and the thread."""
        self._threads_end.set()
        self._thread.join(30.0)
        for pod in self.pods.values():
            _end(pod.process)

    # -- what tests do to it -------------------------------------------------------------------------------------

    def pod_of(self, job: str) -> Pod:
        """The pod in which a job's Runner is."""
        return next(pod for pod in [*self.pods.values()] if pod.job == job)  # the thread changes it

    def disrupt(self, job: str, reason: str, message: str) -> None:
        """Preempt or evict: the pod is marked, then deleted with its grace."""
        about = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        name = self.pod_of(job).name
        self.store.change("pods", self.namespace, name, {"status": {"conditions": [about]}})
        self.api.delete("pods", self.namespace, name)

    def evict(self, job: str) -> None:
        """By the kubelet, for memory: no mark, the pod stays as Failed."""
        pod = self.pod_of(job)
        pod.why = {"reason": "Evicted", "message": "The node was low on resource: memory."}
        self._kill(pod)

    def lose_node(self, job: str) -> None:
        """The node is gone, with all that ran there."""
        lost = {"reason": "NodeLost", "message": "Node n1 which was running pod is unresponsive"}
        self._end_at_once(self.pod_of(job), lost)

    def out_of_memory(self, job: str) -> None:
        """The kernel ends all of a container."""
        self._end_at_once(self.pod_of(job), {"oom": True})

    def _end_at_once(self, pod: Pod, why: Object) -> None:
        pod.why = why
        _end(pod.process)

    def pass_deadline(self, job: str) -> None:
        """activeDeadlineSeconds are over, now."""
        self.store.change("pods", self.namespace, self.pod_of(job).name, {"spec": {"activeDeadlineSeconds": 0}})

    # -- the thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._threads_end.wait(0.05):
            try:
                self._turn()
            except Exception as error:
                self.faults.append(error)
                raise

    def _turn(self) -> None:
        for job in self.store.find("jobs", self.namespace):
            self._job(job)
        for item in self.store.find("pods", self.namespace):
            self._pod(item)

    def _job(self, job: Object) -> None:
        name, meta = job["metadata"]["name"], job["metadata"]
        pods = self.store.find("pods", self.namespace, f"ajet-owner={name}")
        if "deletionTimestamp" in meta:
            for pod in pods:
                self.api.delete("pods", self.namespace, pod["metadata"]["name"])
            if not pods:
                self.store.remove("jobs", self.namespace, name)
            return
        if any(one["status"] == "True" for one in job.get("status", {}).get("conditions", [])):
            return
        if job["spec"].get("suspend"):
            for pod in pods:
                self.api.delete("pods", self.namespace, pod["metadata"]["name"])
        elif not pods and not job.get("status", {}).get("started"):
            self._make_pod(name, job["spec"]["template"])
        else:
            self._tell(name, pods[0] if pods else None)

    def _make_pod(self, name: str, template: Object) -> None:
        labels = {**template.get("metadata", {}).get("labels", {}), "ajet-owner": name}
        meta = {"name": f"{name}-0", "namespace": self.namespace, "labels": labels}
        meta |= {"creationTimestamp": now(), "uid": f"{name}-0"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": dict(template["spec"])}
        self.store.put("pods", {**pod, "status": {"phase": "Pending"}})
        self.store.change("jobs", self.namespace, name, {"status": {"started": True, "active": 1}})

    def _pod(self, item: Object) -> None:
        name, status = item["metadata"]["name"], item["status"]
        pod = self.pods.get(name)
        if pod is None and "deletionTimestamp" in item["metadata"]:
            return self.store.remove("pods", self.namespace, name)
        if pod is None and status["phase"] == "Pending":
            return self._start(item)
        if pod is None:
            return None
        running = pod.process.poll() is None
        too_long = item["spec"].get("activeDeadlineSeconds", 1 << 30) <= time.monotonic() - pod.started
        if too_long and not pod.ending and running:
            pod.why = {"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the deadline"}
            self._kill(pod)
        if "deletionTimestamp" in item["metadata"] and not pod.ending:
            self._kill(pod)
        grace_s = item["metadata"].get("deletionGracePeriodSeconds", item["spec"]["terminationGracePeriodSeconds"])
        if pod.ending and running and time.monotonic() - pod.ending > grace_s:
            _end(pod.process)
        if not running and status["phase"] == "Running":
            self._ended(item, pod)
        if "deletionTimestamp" in item["metadata"] and not running:
            if _is_disrupted(item):  # a finalizer keeps the pod until its job has said so
                self._say(pod.job, _condition("Failed", "PodFailurePolicy", RULE.format(name)))
            self.pods.pop(name)
            self.store.remove("pods", self.namespace, name)
        return None

    def _kill(self, pod: Pod) -> None:
        pod.ending = time.monotonic()
        if pod.process.poll() is None:
            os.kill(pod.process.pid, signal.SIGTERM)

    def _start(self, item: Object) -> None:
        name, (container,) = item["metadata"]["name"], item["spec"]["containers"]
        if self.unschedulable:
            about = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            return self._status(name, {"conditions": [{**about, "message": self.unschedulable}]})
        if container["image"] == NO_IMAGE:
            message = f'couldn\'t parse image name "{NO_IMAGE}": invalid reference format'
            why = {"waiting": {"reason": "InvalidImageName", "message": message}}
            waiting = {"name": container["name"], "state": why}
            return self._status(name, {"containerStatuses": [waiting], "conditions": []})
        owner = item["metadata"]["labels"]["ajet-owner"]
        self.store.change("pods", self.namespace, name, {"spec": {"nodeName": "n1"}})
        self.pods[name] = Pod(name, owner, self._process(name, container), time.monotonic())
        self.started.append(owner)
        state = {"name": container["name"], "state": {"running": {"startedAt": now()}}}
        self._status(name, {"phase": "Running", "containerStatuses": [state], "conditions": []})
        return None

    def _process(self, pod: str, container: Object) -> subprocess.Popen[bytes]:
        env = {**self.environ, **{one["name"]: one["value"] for one in container.get("env", [])}}
        with (self.folder / f"{pod}.log").open("ab") as log:
            return subprocess.Popen(
                container["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=container.get("workingDir") or str(self.folder),
                env=env,
                start_new_session=True,
            )

    def _ended(self, item: Object, pod: Pod) -> None:
        code = pod.process.returncode if pod.process.returncode >= 0 else 128 - pod.process.returncode
        why = dict(pod.why)
        reason = "OOMKilled" if why.pop("oom", False) else "Completed" if code == 0 else "Error"
        ended = {"exitCode": code, "reason": reason, "finishedAt": now()}
        first = item["spec"]["containers"][0]["name"]
        phase = "Failed" if code or why else "Succeeded"
        self._status(
            item["metadata"]["name"],
            {**why, "phase": phase, "containerStatuses": [{"name": first, "state": {"terminated": ended}}]},
        )

    def _status(self, pod: str, status: Object) -> None:
        old = (self.store.get("pods", self.namespace, pod) or {}).get("status", {})
        if any(old.get(key) != value for key, value in status.items()):
            kept = old.get("conditions") if not status.get("conditions") else status["conditions"]
            self.store.change("pods", self.namespace, pod, {"status": {**status, "conditions": kept or []}})

    # -- what jobs say of their pods -----------------------------------------------------------------------------

    def _tell(self, name: str, pod: Object | None) -> None:
        """As the Job controller does with backoffLimit 0 and a rule for disruptions."""
        if pod is not None and _is_disrupted(pod) and pod["status"]["phase"] in ("Failed", "Succeeded"):
            rule = RULE.format(pod["metadata"]["name"])
            return self._say(name, _condition("Failed", "PodFailurePolicy", rule))
        if pod is None or pod["status"]["phase"] == "Failed":
            message = "Job has reached the specified backoff limit"
            return self._say(name, _condition("Failed", "BackoffLimitExceeded", message))
        if pod["status"]["phase"] == "Succeeded":
            return self._say(name, _condition("Complete", "CompletionsReached", ""))
        return None

    def _say(self, name: str, status: Object) -> None:
        old = (self.store.get("jobs", self.namespace, name) or {}).get("status", {})
        if any(old.get(key) != value for key, value in status.items()):
            self.store.change("jobs", self.namespace, name, {"status": status})


def _end(process: subprocess.Popen[bytes]) -> None:
    """All that a container's processes are, as its PID namespace ends with its first one."""
    with contextlib.suppress(psutil.NoSuchProcess):
        tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for one in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
    process.wait()


def _is_disrupted(pod: Object) -> bool:
    return any(one["type"] == "DisruptionTarget" for one in pod["status"].get("conditions") or [])


def _condition(kind: str, reason: str, message: str) -> Object:
    return {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": message}]}
