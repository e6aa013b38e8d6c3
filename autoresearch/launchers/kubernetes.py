"""Kubernetes: one Job per run, by kubectl; its files lie on a volume that is mounted here, too, under the same path.

Objects are created, never applied over existing ones: the name is the run's, so a second submit finds the first job.
Label values are 63 of [A-Za-z0-9._-].
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import (
    Declined,
    Handle,
    Job,
    Observation,
    ProgramOutput,
    Unreachable,
)
from autoresearch.core.run.targets import Kind, Target
from autoresearch.core.text.durations import parse_duration
from autoresearch.core.text.regex import later
from autoresearch.errors import UsageError
from autoresearch.launchers.kubernetes_states import observe
from autoresearch.launchers.shared import SharedFiles

OPTIONS = {
    "image": "the container image; it has the trainer's Python, and the code unless that lies on the volume",
    "namespace": "kubectl --namespace",
    "context": "kubectl --context",
    "kubeconfig": "kubectl --kubeconfig",
    "cpus": "CPUs of each pod, such as 8 or 500m",
    "memory": "memory of each pod, such as 64Gi",
    "claim": "the PersistentVolumeClaim that holds run directories and code",
    "mount": "where the claim is mounted, in the pods and on this machine",
    "labels": "a mapping, for the job and its pods",
    "annotations": "a mapping, for the job and its pods",
    "pod_spec": "anything else of a pod's spec, as in a manifest: nodeSelector, tolerations, serviceAccountName ...",
    "container_spec": "anything else of its container, as in a manifest: envFrom, securityContext, volumeMounts ...",
    "ttl": "how long the job and its pods' logs stay when it is over; default 1h, unless the run is recorded before",
}
JOBS = "jobs.batch"
ANSWER_S = 30.0
MOST_SAID = 256 << 20  # a namespace with a thousand jobs lists 20 MiB
AFTER_GRACE_S = 60.0  # for the Runner's cleanup and record, after the trainer's grace
MARGIN_S = 300.0  # the Runner's own limits apply first
RUN, CAMPAIGN, PLACE = (f"autoresearch/{word}" for word in ("run", "campaign", "place"))
MOST_LABEL = 63
_PROBE = Job("preflight", "ajet_preflight", "preflight", "/nowhere", ("true",), "/", 60.0, 1.0)


class KubernetesLauncher:
    """`core.run.job_launcher.JobLauncher` for one namespace."""

    kind = Kind.KUBERNETES

    OPTIONS = OPTIONS

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        check_options(target)
        self.target = target
        self.kubectl = Kubectl.of(target, environ)
        self.reach = SharedFiles(environ)

    def preflight(self) -> list[Finding]:
        """See `JobLauncher`: the server validates a sample manifest (--dry-run=server)."""
        mount = self.target.text("mount")
        if not Path(mount).is_dir():
            text = f"launchers.{self.target.name}: {mount} is no directory here, and should be the volume of its claim"
            hint = "mount that volume here under the same path as in the pods"
            return [Finding(Severity.ERROR, "no_volume", text, hint)]
        try:
            self._create(self.manifest(_PROBE), "--dry-run=server")
            self.kubectl.ask("get", "persistentvolumeclaims", self.target.text("claim"), "-o", "name")
        except AlreadyThere:
            pass
        except Declined as no:
            return [Finding(Severity.ERROR, no.code, no.reason, no.hint)]
        except Unreachable as silent:
            lasts = silent.code in ("no_kubectl", "unauthorized", "bad_kubeconfig", "untrusted")
            severity, code = (Severity.ERROR, silent.code) if lasts else (Severity.WARNING, "unreachable")
            return [Finding(severity, code, silent.reason, silent.hint)]
        return []

    # -- submitting ---------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`."""
        made = self._find(job) if job.again else None
        if made is None:
            try:
                made = self._create(self.manifest(job))
            except AlreadyThere:
                made = self._find(job)
        if made is None:
            raise Unreachable(f"{object_name(job.run)} was there, and is gone")
        return Handle(job.run, object_name(job.run), {"uid": made["metadata"].get("uid", "")})

    def _find(self, job: Job) -> dict[str, Any] | None:
        """The job of this run; None without one. Raises Declined if another one has its name."""
        name = object_name(job.run)
        said = self.kubectl.ask("get", f"{JOBS}/{name}", "--ignore-not-found", "-o", "json")
        found = parsed(said) if said.strip() else None
        if found and _label(found, RUN) != label_value(job.run):
            raise Declined(f"{name} is there already, and is no job of this run", code="name_taken")
        return found

    def _create(self, manifest: Mapping[str, Any], *flags: str) -> dict[str, Any]:
        return parsed(self.kubectl.ask("create", "-f", "-", "-o", "json", *flags, stdin=json.dumps(manifest).encode()))

    def manifest(self, job: Job) -> dict[str, Any]:
        """A Job of one pod that is never started again; what the target says of pod and container is added to it."""
        target = self.target
        ours = {RUN: job.run, CAMPAIGN: job.campaign, PLACE: target.key}
        marks = {key: label_value(value) for key, value in ours.items() if value}
        labels = {**mapping(target, "labels"), **marks, "app.kubernetes.io/managed-by": "autoresearch"}
        about = {
            "labels": labels,
            "annotations": {**mapping(target, "annotations"), "autoresearch/directory": job.directory},
        }
        limits = {"cpu": target.text("cpus"), "memory": target.text("memory"), "nvidia.com/gpu": job.gpus}
        container = {
            "name": "runner",
            "image": target.text("image"),
            "command": list(job.argv),
            "workingDir": job.cwd,
            "env": [{"name": key, "value": value} for key, value in job.environment.items()],
            "resources": {"limits": {key: value for key, value in limits.items() if value}},
            "volumeMounts": [
                {"name": "shm", "mountPath": "/dev/shm"},
                {"name": "work", "mountPath": target.text("mount")},
            ],
        }
        pod = {
            "restartPolicy": "Never",
            # the kubelet ends the pod with TERM, keeps it and its log; it counts from when the pod is on its node
            "activeDeadlineSeconds": math.ceil(job.max_s + MARGIN_S),
            "terminationGracePeriodSeconds": math.ceil(job.grace_s + AFTER_GRACE_S),
            "containers": [_merged(container, target.options.get("container_spec") or {})],
            "volumes": [
                {"name": "shm", "emptyDir": {"medium": "Memory"}},
                {"name": "work", "persistentVolumeClaim": {"claimName": target.text("claim")}},
            ],
        }
        # a pod that was preempted, evicted or lost with its node says so in the job, when the pod is gone
        disrupted = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        spec = {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": max(1, math.ceil(parse_duration(target.text("ttl", "1h")))),
            "podFailurePolicy": {"rules": [disrupted]},
            "template": {"metadata": about, "spec": _merged(pod, target.options.get("pod_spec") or {})},
        }
        named = {"name": object_name(job.run), **about}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": spec}

    # -- asking -------------------------------------------------------------------------------------------------

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`: one kubectl call for all jobs of this target and their pods."""
        words = ("get", f"{JOBS},pods", "-l", f"{PLACE}={label_value(self.target.key)}", "-o", "json")
        jobs: dict[str, dict[str, Any]] = {}
        pods: dict[str, list[dict[str, Any]]] = {}
        for item in parsed(self.kubectl.ask(*words)).get("items") or []:
            if item.get("kind") == "Pod":
                pods.setdefault(_label(item, RUN), []).append(item)
            else:
                jobs[item["metadata"]["name"]] = item
        seen = {h.run: (jobs.get(h.native), pods.get(label_value(h.run), [])) for h in handles}
        ours = {run: (job, own) for run, (job, own) in seen.items() if job and _label(job, RUN) == label_value(run)}
        return {run: observe(job, own) for run, (job, own) in ours.items()}

    # -- ending -------------------------------------------------------------------------------------------------

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `JobLauncher`. A soft stop ends a Job's pod with its grace period, and keeps it and its log."""
        job, mine = f"{JOBS}/{handle.native}", self._mine(handle)
        with contextlib.suppress(Declined):  # it is over or gone already
            if hard:
                self.kubectl.ask("delete", job, "--ignore-not-found", "--wait=false", "--cascade=background")
                self.kubectl.ask("delete", "pods", "-l", mine, "--wait=false", "--grace-period=1")
            else:
                for pod in self.kubectl.ask("get", "pods", "-l", mine, "-o", "name").decode().split():
                    self.kubectl.ask("patch", pod, "--type=merge", "-p", '{"spec":{"activeDeadlineSeconds":1}}')

    def forget(self, handle: Handle) -> None:
        """See `JobLauncher`: deletes the job and its pods, unless the target says how long they stay."""
        if not self.target.text("ttl"):
            with contextlib.suppress(Declined, Unreachable):
                words = ("-l", self._mine(handle), "--wait=false", "--cascade=background")
                self.kubectl.ask("delete", JOBS, *words)

    def _mine(self, handle: Handle) -> str:
        """The label selector of one run's objects."""
        return f"{RUN}={label_value(handle.run)},{PLACE}={label_value(self.target.key)}"


# -- options and manifest -----------------------------------------------------------------------------------------


def check_options(target: Target) -> None:
    """Raise UsageError, which names the option, for options that are missing or contradict each other."""
    if not target.text("image"):
        raise _wrong(target, "image", "is missing: pods are made of an image", "image: registry.example.org/trainer:1")
    if not target.text("claim"):
        why = "is missing: run directories and code lie on the volume of a PersistentVolumeClaim"
        raise _wrong(target, "claim", why, "claim: NAME, and mount: where the pods have it")
    if not target.text("mount").startswith("/"):
        raise _wrong(target, "mount", "must say where the claim is mounted, as an absolute path, here and in the pods")


def mapping(target: Target, option: str) -> dict[str, str]:
    """An option that maps names to texts; {} if not given."""
    return {str(key): str(item) for key, item in (target.options.get(option) or {}).items()}


def _wrong(target: Target, option: str, why: str, hint: str = "") -> UsageError:
    return UsageError(f"launchers.{target.name}.{option}: {why}", hint=hint, code="bad_launcher")


def _merged(ours: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """What a target adds to ours: mappings are merged, lists are joined, anything else takes the place of ours."""
    found = dict(ours)
    for key, value in more.items():
        mine = found.get(key)
        if isinstance(mine, dict) and isinstance(value, Mapping):
            value = _merged(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            value = [*mine, *value]
        found[key] = value
    return found


def object_name(run: str) -> str:
    """The name of a run's job, the same for every submit; a run's id is a name for Kubernetes, too."""
    return f"ajet-{run}"


def label_value(text: str) -> str:
    """A text as a label's value; the end of a target's key is what tells it from others."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[-MOST_LABEL:].strip("._-")


def _label(item: Mapping[str, Any], name: str) -> str:
    return str((item["metadata"].get("labels") or {}).get(name, ""))


# -- kubectl ------------------------------------------------------------------------------------------------------


class AlreadyThere(Exception):  # noqa: N818 - as `core.run.job_launcher` names its own
    """An object of that name exists."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl for one target: its namespace, context and kubeconfig."""

    flags: tuple[str, ...]
    environ: Mapping[str, str]

    @classmethod
    def of(cls, target: Target, environ: Mapping[str, str]) -> Kubectl:
        """The kubectl that a target's options describe."""
        given = {option: target.text(option) for option in ("kubeconfig", "context", "namespace")}
        return cls(tuple(f"--{option}={value}" for option, value in given.items() if value), environ)

    def ask(self, *words: str, stdin: bytes = b"") -> bytes:
        """Its stdout; raises Unreachable, Declined or AlreadyThere if it failed."""
        argv = ["kubectl", *self.flags, f"--request-timeout={ANSWER_S * 0.8:.0f}s", *words]
        try:
            said = subprocess.run(
                argv, input=stdin, capture_output=True, timeout=ANSWER_S, check=False, env=dict(self.environ)
            )
        except FileNotFoundError:
            hint = "install kubectl (Debian: kubernetes-client)"
            why = "kubectl is not on PATH, and a Kubernetes target is asked by it"
            raise Unreachable(why, code="no_kubectl", hint=hint) from None
        except subprocess.TimeoutExpired as error:
            raise Unreachable(f"kubectl gave no answer within {ANSWER_S:.0f} s") from error
        if said.returncode != 0:
            raise meaning(ProgramOutput(said.returncode, said.stdout[: 1 << 20], said.stderr[: 1 << 20]))
        return said.stdout[:MOST_SAID]


def parsed(printed: bytes) -> dict[str, Any]:
    """The object that kubectl printed, after anything a wrapper printed; raises Unreachable without one."""
    try:
        found: dict[str, Any] = json.loads(printed[printed.index(b"{") :])
        return found
    except ValueError:
        words = _sentence(printed[:4096].decode("utf-8", "replace"))
        raise Unreachable(f"kubectl printed no object: {words or 'nothing'}", code="odd_answer") from None


# The first that fits decides. Only a clear refusal by the server is Declined; all else says nothing about a run.
_FAILURES: tuple[tuple[str, type[Unreachable | Declined], str, str], ...] = (
    ("no matches for kind", Declined, "kubernetes_refused", ""),
    (
        "strict decoding error|unknown field|exceeded quota|denied the request|violates PodSecurity",
        *(Declined, "kubernetes_refused", ""),
    ),
    (r"server \(Forbidden\)", Unreachable, "unauthorized", "ask for the right to do this in the namespace"),
    (
        r"must be logged in|provide credentials|enter Username|getting credentials|Unauthorized",
        *(Unreachable, "unauthorized", "log in to the cluster again, or correct the target's context or kubeconfig"),
    ),
    (r'namespaces "[^"]*" not found', Declined, "kubernetes_refused", "correct the target's namespace"),
    (
        r"server \((Invalid|BadRequest|NotFound|MethodNotAllowed|RequestEntityTooLarge|UnsupportedMediaType)\)",
        *(Declined, "kubernetes_refused", ""),
    ),
    (
        r'context "[^"]*" does not exist|context was not found|no configuration has been provided'
        r"|[Ii]nvalid configuration|error loading|error: (?:stat|open) [^\n]*: no such file",
        *(Unreachable, "bad_kubeconfig", "correct the target's kubeconfig or context"),
    ),
    ("x509: |certificate ", Unreachable, "untrusted", "its certificate is not the one that was expected"),
)
_WARNING = later(r"^Warning: .*\n?", re.M)  # from the server, about something it accepts all the same
_LEAD = later(r"^(?:Error from server \(\w+\): |error: )?(?:error (?:when creating|validating) [^:]*: )*")


def meaning(output: ProgramOutput) -> Unreachable | Declined | AlreadyThere:
    """What a failed kubectl says."""
    text = _WARNING.sub("", (output.err or output.out).decode("utf-8", "replace")).strip()
    sentence = f"kubectl: {_sentence(text) or output.complaint}"
    if "Error from server (AlreadyExists)" in text:
        return AlreadyThere(sentence)
    for pattern, kind, code, hint in _FAILURES:
        if re.search(pattern, text):
            return kind(sentence, code=code, hint=hint)
    return Unreachable(sentence)


def _sentence(text: str) -> str:
    """The last meaningful line, without kubectl's prefixes."""
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"[EIW]\d{4} ", line)]
    return _LEAD.sub("", lines[-1].strip())[:400] if lines else ""
