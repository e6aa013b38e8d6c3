"""Manifests of runs: against KubeRay's own schema with unknown fields forbidden, and what options make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Declined, Job, ProgramOutput, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import AutoresearchError, UsageError
from autoresearch.lab.render import manifest
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
    "service_account": "trainer",
    "pull_secret": "registry",
    "env_from_secret": "keys",
    "cpus": 8,
    "memory": "64Gi",
    "node_selector": {"gpu": "h100"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "labels": {"team": "rl", "autoresearch/run": "no"},
    "annotations": {"who": "me"},
}


def made(job: Job = JOB, **options: Any) -> dict[str, Any]:
    place = Target("k8s", Kind.KUBERNETES, 1, {"image": "registry.example.org/trainer:1", **options})
    check(place)
    launcher = KubernetesLauncher(place, {"HOME": "/nowhere"}, manifest)
    return launcher.manifest(job)


@pytest.mark.parametrize("more", [{}, MUCH], ids=["little", "much"])
def test_the_schema_knows_every_field(more: Any) -> None:
    assert not complaint("jobs", made(**VOLUME, **more))


def test_the_schema_forbids_what_it_does_not_know() -> None:
    """A field that belongs to another place of the same manifest, and a typo."""
    plain = made(**VOLUME)
    plain["spec"]["restartPolicy"] = "Never"
    assert 'unknown field "spec.restartPolicy"' in complaint("jobs", plain)
    wrong = made(**VOLUME)
    wrong["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Always"
    assert "imagePullPolice" in complaint("jobs", wrong)


def test_a_job_is_started_once_and_bounded() -> None:
    spec = made(**VOLUME, **MUCH)["spec"]
    pod = spec["template"]["spec"]
    assert spec["backoffLimit"] == 0 and pod["restartPolicy"] == "Never" and spec["ttlSecondsAfterFinished"] == 3600
    assert pod["activeDeadlineSeconds"] > JOB.max_s and pod["terminationGracePeriodSeconds"] > JOB.grace_s
    (container,) = pod["containers"]
    assert container["command"] == list(JOB.argv) and container["workingDir"] == "/data/code"
    assert container["resources"]["limits"] == {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": 2}
    assert {"name": "work", "mountPath": "/data"} in container["volumeMounts"]


def test_names_and_labels_are_ours_whatever_the_template_says(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml.j2"
    own.write_text(
        "kind: Job\napiVersion: batch/v1\nmetadata: {name: mine, labels: {autoresearch/run: x, a: b}}\n"
        "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: {{ image | tojson }}}]}}}\n"
    )
    found = made(template=str(own), **VOLUME)
    about, pod = found["metadata"], found["spec"]["template"]
    assert about["name"] == "ajet-sort-lr-7k2m9x" and about["labels"]["a"] == "b"
    assert about["labels"]["autoresearch/run"] == pod["metadata"]["labels"]["autoresearch/run"] == JOB.run
    assert about["labels"]["autoresearch/campaign"].startswith("20260101-sort-co-")
    assert pod["spec"]["containers"][0]["image"] == "registry.example.org/trainer:1"
    assert not complaint("jobs", found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Job\nspec: {}\nmetadata: {}\n", "spec.template is missing"),
        ("kind: Pod\nspec: {}\nmetadata: {}\n", "makes a 'Pod'"),
        ("{{ nothing_of_the_kind }}", "nothing_of_the_kind"),
        ("{% if %}", "own.yaml.j2"),
        ("a: [", "own.yaml.j2"),
        ("- a list", "not a mapping"),
    ],
)
def test_a_template_that_makes_no_sense(tmp_path: Path, text: str, says: str) -> None:
    own = tmp_path / "own.yaml.j2"
    own.write_text(text)
    with pytest.raises(AutoresearchError, match=says):
        made(template=str(own), **VOLUME)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"image": ""}, "image"),
        ({"claim": "work"}, "mount"),
        ({"mount": "/data"}, "claim"),
        ({**VOLUME, "gpus": "many"}, "no number"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        made(**options)


def test_names_fit_everywhere() -> None:
    assert object_name("sort-lr-7k2m9x") == "ajet-sort-lr-7k2m9x"
    long = object_name("x" * 60)
    assert len(long) <= 47 and long != object_name("x" * 59) and object_name("a_b") != object_name("a-b")
    assert label_value("20260101-a") == "20260101-a" and len(label_value("y" * 80)) <= 63
    assert label_value("a b") != label_value("a/b") and label_value("-") not in ("", "-")


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
