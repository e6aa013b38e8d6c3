"""Manifests of runs: against a schema with unknown fields forbidden, and what options make of them."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Declined, Job, ProgramOutput, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.core.text.session_and_branch_names import run_id, slugify
from autoresearch.errors import UsageError
from autoresearch.launchers.kubernetes import (
    AlreadyThere,
    Kubectl,
    KubernetesLauncher,
    label_value,
    meaning,
    object_name,
    parsed,
)
from autoresearch.launchers.registry import check
from tests.engines.kubernetes.schema import complaint

JOB = Job(
    run="sort-lr-7k2m9x",
    name="ajet_sort-lr_7k2m9x",
    campaign="20260101 sort & co",
    directory="/data/run",
    argv=("/venv/bin/python", "-S", "-E", "-s", "/data/runner_1", "/data/run"),
    cwd="/data/code",
    max_s=600.0,
    grace_s=30.0,
    gpus=2,
    environment={"AUTORESEARCH_RUN_ID": "sort-lr-7k2m9x"},
)
VOLUME = {"claim": "work", "mount": "/data"}
MUCH = {
    "namespace": "rl",
    "cpus": 8,
    "memory": "64Gi",
    "labels": {"team": "rl", "autoresearch/run": "no"},
    "annotations": {"who": "me"},
    "pod_spec": {
        "serviceAccountName": "trainer",
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"gpu": "h100"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "volumes": [{"name": "models", "hostPath": {"path": "/models"}}],
    },
    "container_spec": {
        "envFrom": [{"secretRef": {"name": "keys"}}],
        "resources": {"limits": {"rdma/ib": 1}},
        "volumeMounts": [{"name": "models", "mountPath": "/models"}],
    },
}


def made(job: Job = JOB, **options: Any) -> dict[str, Any]:
    place = Target("k8s", Kind.KUBERNETES, 1, {"image": "registry.example.org/trainer:1", **options})
    check(place)
    return KubernetesLauncher(place, {"HOME": "/nowhere"}).manifest(job)


@pytest.mark.parametrize("more", [{}, MUCH], ids=["little", "much"])
def test_the_schema_knows_every_field(more: Any) -> None:
    assert not complaint("jobs", made(**VOLUME, **more))


def test_a_job_is_started_once_and_bounded() -> None:
    spec = made(**VOLUME, **MUCH)["spec"]
    pod = spec["template"]["spec"]
    assert spec["backoffLimit"] == 0 and pod["restartPolicy"] == "Never" and spec["ttlSecondsAfterFinished"] == 3600
    assert pod["activeDeadlineSeconds"] > JOB.max_s and pod["terminationGracePeriodSeconds"] > JOB.grace_s
    (container,) = pod["containers"]
    assert container["command"] == list(JOB.argv) and container["workingDir"] == "/data/code"
    assert container["resources"]["limits"] == {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": 2, "rdma/ib": 1}
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/dev/shm", "/data", "/models"]
    assert [one["name"] for one in pod["volumes"]] == ["shm", "work", "models"] and pod["nodeSelector"]["gpu"] == "h100"


def test_names_and_labels_are_ours_whatever_the_target_says() -> None:
    found = made(**VOLUME, **MUCH)
    about, pod = found["metadata"], found["spec"]["template"]
    assert about["name"] == "ajet-sort-lr-7k2m9x" and about["labels"]["team"] == "rl"
    assert about["labels"]["autoresearch/run"] == pod["metadata"]["labels"]["autoresearch/run"] == JOB.run
    assert about["labels"]["autoresearch/campaign"] == "20260101-sort-co"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"image": ""}, "image"),
        ({"claim": "work"}, "mount"),
        ({"mount": "/data"}, "claim"),
        ({**VOLUME, "pod_spec": ["nodeSelector"]}, "no block"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        made(**options)


def test_names_fit_everywhere() -> None:
    run = run_id(slugify("A very long Title of an experiment, far beyond 40"), "7k2m9x")
    assert len(object_name(run)) <= 63 - len("-abcde") and object_name(run) == f"ajet-{run}"  # a pod's name is longer
    key = Target("a name@" + "x" * 80, Kind.KUBERNETES, 1, {"image": "i"}).key
    assert label_value(key).endswith(key[-9:]) and len(label_value(key)) <= 63
    assert label_value("20260101-a b&c") == "20260101-a-b-c" and label_value("-a.") == "a"


SERVER = "Error from server "
NO_KIND = 'error: unable to recognize "STDIN": no matches for kind "Job" in version "batch/v9"'
FAILED = {  # code -> what kubectl said
    "": [SERVER + '(AlreadyExists): error when creating "STDIN": jobs.batch "a" already exists'],
    "kubernetes_refused": [
        SERVER + '(NotFound): error when creating "STDIN": namespaces "no" not found',
        SERVER + '(BadRequest): strict decoding error: unknown field "spec.x"',
        SERVER + '(Invalid): Job.batch "A" is invalid: metadata.name',
        SERVER + '(Forbidden): secrets "a" is forbidden: exceeded quota: q',
        NO_KIND,
    ],
    "unauthorized": [
        SERVER + '(Forbidden): jobs.batch is forbidden: User "me" cannot create',
        "error: You must be logged in to the server (Unauthorized)",
    ],
    "no_answer": [
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host?",
        "Unable to connect to the server: dial tcp: lookup k: no such host",
        SERVER + "(InternalError): an error on the server",
        SERVER + "(TooManyRequests): slow down",
        'error: the server doesn\'t have a resource type "jobs"',
    ],
    "untrusted": ["Unable to connect to the server: x509: certificate signed by unknown authority"],
    "bad_kubeconfig": [
        "error: stat /nowhere: no such file or directory",
        "Error in configuration: context was not found for specified context: x",
        'error: context "other" does not exist',
    ],
}


@pytest.mark.parametrize(("code", "words"), [(code, words) for code, said in FAILED.items() for words in said])
def test_what_a_failed_kubectl_means(code: str, words: str) -> None:
    noise = 'E1121 23:36:42.122592 26673 memcache.go:265] "Unhandled Error"\n'
    found = meaning(ProgramOutput(1, b"", (noise + words).encode()))
    assert type(found) is {"": AlreadyThere, "kubernetes_refused": Declined}.get(code, Unreachable)
    assert getattr(found, "code", "") == code


def test_what_the_server_warns_of_is_no_refusal() -> None:
    """It took that; what failed is something else, and says nothing about the run."""
    words = 'Warning: unknown field "spec.x"\nWarning: the quota is exceeded quota-wise\n'
    found = meaning(
        ProgramOutput(1, b"", (words + "Unable to connect to the server: net/http: TLS handshake timeout").encode())
    )
    assert isinstance(found, Unreachable) and "TLS" in str(found)


@pytest.mark.parametrize("words", [b'{"items": [1]}', b'Your token ends in 2 h\n{"items": [1]}\n'])
def test_the_object_that_kubectl_printed(words: bytes) -> None:
    assert parsed(words) == {"items": [1]}


@pytest.mark.parametrize("words", [b"", b"Your token is over\n", b'{"items": [', b"[]", b'"a"'])
def test_what_is_no_object_says_nothing_about_a_run(words: bytes) -> None:
    with pytest.raises(Unreachable):
        parsed(words)


@pytest.mark.system
def test_a_missing_kubectl_is_no_answer() -> None:
    with pytest.raises(Unreachable) as found:
        Kubectl((), {"PATH": "/nowhere"}).ask("version")
    assert found.value.code == "no_kubectl" and "install" in found.value.hint
