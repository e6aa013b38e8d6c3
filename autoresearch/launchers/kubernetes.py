"""Kubernetes: one Job, or KubeRay RayJob, per run, by kubectl.

Objects are created, never applied over existing ones: the name is the run's, so a second submit finds the first job.
The job is created before the Secret that carries its files and that it owns; its pod waits for the Secret.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import Declined, Handle, Job, JobState, Observation, Reach, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import AutoresearchError, UsageError
from autoresearch.launchers import descriptions
from autoresearch.launchers.kubernetes_files import CarriedFiles, VolumeFiles, secret
from autoresearch.launchers.kubernetes_kubectl import AlreadyThere, Kubectl, parsed
from autoresearch.launchers.kubernetes_manifest import checked, mapping, pods_of, stamp, values
from autoresearch.launchers.kubernetes_names import PLACE, RUN, STOPPED, TELLS, label_value, labels, object_name
from autoresearch.launchers.kubernetes_states import MAY_COME, disruption, observe
from autoresearch.records.index import state_home

OPTIONS = {
    "workload": "job (batch/v1, the default) or rayjob (KubeRay, ray.io/v1)",
    "image": "the container image; it has the trainer's Python, and the code unless that lies on the volume",
    "namespace": "kubectl --namespace",
    "context": "kubectl --context",
    "kubeconfig": "kubectl --kubeconfig",
    "service_account": "of the pods",
    "pull_secret": "name of the Secret that lets the image be pulled",
    "env_from_secret": "name of a Secret whose keys become variables of the trainer (API keys, tokens)",
    "gpus": "GPUs of each pod that trains; default: gpus_per_run",
    "cpus": "CPUs of each pod, such as 8 or 500m",
    "memory": "memory of each pod, such as 64Gi",
    "workers": "rayjob: pods beside the head, which has no GPU then; default 0",
    "ray_version": "rayjob: rayVersion, that of the image",
    "node_selector": "a mapping of labels",
    "tolerations": "a list of tolerations, as a pod has them",
    "labels": "a mapping, for the job and its pods",
    "annotations": "a mapping, for the job and its pods",
    "claim": "the PersistentVolumeClaim that holds run directories and code; without: files go by a Secret",
    "mount": "where the claim is mounted in the pods",
    "local": "where the same volume is mounted on this machine; default: as `mount`, and then nothing is copied",
    "root": "the pods' directory for code and runs: below `mount` where `local` differs, any where there is no claim",
    "template": "a manifest of your own (jinja2, as templates/kubernetes/job.yaml.j2)",
    "pre_running_deadline": "how long images may be pulled and a cluster may start; default 30m",
    "ttl": "how long the job and its pods' logs stay when it is over; default 1h, unless the run is recorded before",
}
Render = Callable[[str, Mapping[str, object]], dict[str, Any]]
KINDS = {"job": "jobs.batch", "rayjob": "rayjobs.ray.io"}
HOPELESS_S = 60.0  # a registry may reject a token, or lack an image, for a moment
SUSPEND = {"metadata": {"annotations": {STOPPED: "yes"}}, "spec": {"suspend": True}}
_PROBE = Job("preflight", "ajet_preflight", "preflight", "/nowhere", ("true",), "/", 60.0, 1.0)


class KubernetesLauncher:
    """`core.run.job_launcher.JobLauncher` for one namespace. `render`: (template, values) -> the manifest."""

    kind = Kind.KUBERNETES

    def __init__(
        self, target: Target, environ: Mapping[str, str], render: Render, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.target = target
        self.clock = clock
        self.render = render
        self.workload = checked(target)
        self.resource = KINDS[self.workload]
        self.kubectl = Kubectl.of(target, environ)
        mount, local = target.text("mount"), target.text("local", target.text("mount"))
        folder = state_home(environ) / "places" / target.key / "carried"
        self.carried = None if target.text("claim") else CarriedFiles(self.kubectl, environ, target, folder)
        self.reach: Reach = self.carried or VolumeFiles(environ, target, mount, local)
        self._disrupted: dict[str, Observation] = {}  # a preempted pod is gone before its job reports it
        self._hopeless: dict[str, float] = {}  # run -> since when

    def describe(self) -> list[tuple[str, str]]:
        """See `Describes`."""
        version = self.kubectl.ask("version", "-o", "json")
        return descriptions.of_kubernetes(version, self.target.text("context"), self.target.text("namespace"))

    def preflight(self) -> list[Finding]:
        """See `JobLauncher`: the server validates a sample manifest (--dry-run=server)."""
        local = self.target.text("local", self.target.text("mount"))
        if self.target.text("claim") and not Path(local).is_dir():
            text = f"launchers.{self.target.name}: {local} is no directory here, and should be the volume of its claim"
            return [Finding(Severity.ERROR, "no_volume", text, "mount the volume here, or correct `local`")]
        if self.kubectl.run("version", "--client", "-o", "json").returncode == 127:
            text = "kubectl is not on PATH, and a Kubernetes target is asked by it"
            return [Finding(Severity.ERROR, "no_kubectl", text, "install kubectl (Debian: kubernetes-client)")]
        try:
            self._create(self._manifest(_PROBE, labels(_PROBE, self.target)), "--dry-run=server")
            if claim := self.target.text("claim"):
                self.kubectl.ask("get", "persistentvolumeclaims", claim, "-o", "name")
        except AlreadyThere:
            return []
        except Declined as no:
            return [Finding(Severity.ERROR, no.code, no.reason, no.hint)]
        except Unreachable as silent:
            knows = silent.code in ("unauthorized", "bad_kubeconfig", "untrusted")
            severity = Severity.ERROR if knows else Severity.WARNING
            return [Finding(severity, silent.code, silent.reason, silent.hint)]
        return []

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`."""
        name, marks = object_name(job.run, job.attempt), labels(job, self.target)
        made = self._find(name, marks) if job.again else None
        packed = self.carried.packed(job) if self.carried is not None else b""
        if made is None:
            try:
                made = self._create(self._manifest(job, marks))
            except AutoresearchError as error:
                raise Declined(error.message, code="bad_template", hint=error.hint) from error
            except AlreadyThere:
                made = self._find(name, marks)
                if made is None:
                    raise Unreachable(f"{name} was there, and is gone") from None
        handle = Handle(job.run, name, {"uid": made["metadata"].get("uid", ""), "directory": job.directory})
        if self.carried is not None:
            try:
                self._send(secret(name, marks, made, packed))
            except Declined:  # without its files, its pod would wait for ever
                self.stop(handle, hard=True)
                raise
            self.carried.sent(job)
        return handle

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`: one kubectl call for all jobs of this target and their pods."""
        words = ("get", f"{self.resource},pods", "-l", f"{PLACE}={label_value(self.target.key)}", "-o", "json")
        items: list[dict[str, Any]] = parsed(self.kubectl.ask(*words)).get("items") or []
        if self.carried is not None:
            self._pass_on_stops(handles)
        runs = {label_value(handle.run): handle.run for handle in handles}
        jobs: dict[str, dict[str, Any]] = {}
        pods: dict[str, list[dict[str, Any]]] = {}
        for item in items:
            run = runs.get((item["metadata"].get("labels") or {}).get(RUN, ""))
            if run and item.get("kind") == "Pod":
                pods.setdefault(run, []).append(item)
            elif run:
                jobs[item["metadata"]["name"]] = item
        if self.carried is not None:
            self.carried.pods = {
                pod["metadata"]["name"]: run
                for run, own in pods.items()
                for pod in own
                if (pod["metadata"].get("labels") or {}).get(TELLS)
                and (pod.get("status") or {}).get("phase", "Pending") != "Pending"  # it has no log: all would be asked
            }
        return {h.run: found for h in handles if (found := self._observed(h, jobs.get(h.native), pods.get(h.run, [])))}

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `JobLauncher`. A soft stop ends a Job's pod with its grace period, and keeps it and its log.

        A RayJob is suspended: KubeRay then takes its cluster down with the pods' grace period.
        """
        job = f"{self.resource}/{handle.native}"
        try:
            if hard:
                self.kubectl.ask("delete", job, "--ignore-not-found", "--wait=false", "--cascade=background")
                self.kubectl.ask("delete", "pods", "-l", self._mine(handle), "--wait=false", "--grace-period=1")
            elif self.workload == "rayjob":
                self.kubectl.ask("patch", job, "--type=merge", "-p", json.dumps(SUSPEND))
            else:
                self._end_pods(handle)
        except Declined:
            return  # it is over or gone already

    def forget(self, handle: Handle) -> None:
        """See `JobLauncher`: deletes the job, its pods and its Secret; the log has been copied by now."""
        self._disrupted.pop(handle.run, None)
        self._hopeless.pop(handle.run, None)
        if self.carried is not None:
            self.carried.forget(handle.run)
        kinds = "secrets" if self.target.text("ttl") else f"{self.resource},secrets"
        with contextlib.suppress(Declined, Unreachable):
            self.kubectl.ask("delete", kinds, "-l", self._mine(handle), "--wait=false", "--cascade=background")

    # -- submitting ---------------------------------------------------------------------------------------------

    def _find(self, name: str, marks: Mapping[str, str]) -> dict[str, Any] | None:
        """The job of this name; None without one. Raises Declined if it is another run's."""
        said = self.kubectl.ask("get", f"{self.resource}/{name}", "--ignore-not-found", "-o", "json")
        found = parsed(said) if said.strip() else None
        if found and (found["metadata"].get("labels") or {}).get(RUN) != marks[RUN]:
            raise Declined(f"{name} is there already, and is no job of this run", code="name_taken")
        return found

    def _create(self, manifest: Mapping[str, Any], *flags: str) -> dict[str, Any]:
        return parsed(self.kubectl.ask("create", "-f", "-", "-o", "json", *flags, stdin=json.dumps(manifest).encode()))

    def _send(self, content: Mapping[str, Any]) -> None:
        with contextlib.suppress(AlreadyThere):
            self._create(content)

    def _manifest(self, job: Job, marks: Mapping[str, str]) -> dict[str, Any]:
        """The template's object; name, labels and annotations are set here, so that no template can omit them."""
        template = self.target.text("template") or f"kubernetes/{self.workload}.yaml.j2"
        made = self.render(template, values(self.target, job))
        if made.get("kind") != ("RayJob" if self.workload == "rayjob" else "Job"):
            raise UsageError(f"launchers.{self.target.name}.template: {template} makes a {made.get('kind')!r}")
        whole = {**mapping(self.target, "labels"), **marks}
        stamp(made, whole, mapping(self.target, "annotations") | {"autoresearch/directory": job.directory})
        made["metadata"]["name"] = object_name(job.run, job.attempt)
        for pod in pods_of(made):
            tells = self.carried is not None and pod is pods_of(made)[0]
            stamp(pod, {**whole, **({TELLS: "yes"} if tells else {})}, mapping(self.target, "annotations"))
        return made

    # -- asking -------------------------------------------------------------------------------------------------

    def _observed(
        self, handle: Handle, job: Mapping[str, Any] | None, pods: Sequence[Mapping[str, Any]]
    ) -> Observation | None:
        if job is None:
            return self._disrupted.get(handle.run)
        found = self._lasting(handle.run, observe(job, pods))
        for pod in pods:
            if lost := disruption(pod):
                self._disrupted[handle.run] = lost
        kept = self._disrupted.get(handle.run)
        return kept if kept and found.state is JobState.OVER and not found.cause else found

    def _lasting(self, run: str, observation: Observation) -> Observation:
        """Waits that a registry or a person may still end are hopeless only if they last; the kubelet keeps trying."""
        if observation.word not in MAY_COME:
            self._hopeless.pop(run, None)
            return observation
        if observation.hopeless:
            self._hopeless.setdefault(run, self.clock())
        since = self._hopeless.get(run, math.inf)
        return replace(observation, hopeless=self.clock() - since >= HOPELESS_S)

    def _pass_on_stops(self, handles: Sequence[Handle]) -> None:
        """Turn stop requests for pods whose files cannot be written into a TERM."""
        assert self.carried is not None
        for handle in handles:
            directory = str(handle.more.get("directory", ""))
            if directory in self.carried.stops:
                self.stop(handle, hard=False)
                del self.carried.stops[directory]

    def _mine(self, handle: Handle) -> str:
        """The label selector of one run's objects."""
        return f"{RUN}={label_value(handle.run)},{PLACE}={label_value(self.target.key)}"

    def _end_pods(self, handle: Handle) -> None:
        """Have the kubelet end the pods with their grace period, keeping their logs (which deleting would remove)."""
        listed = self.kubectl.ask("get", "pods", "-l", self._mine(handle), "-o", "name")
        for pod in listed.decode().split():
            self.kubectl.ask("patch", pod, "--type=merge", "-p", '{"spec":{"activeDeadlineSeconds":1}}')
