"""`nrl-k8s run`: which job it starts, how that is called, who waits for it; after its command line at 7ea279ab."""

from __future__ import annotations

import pytest

from autoresearch.trainers import nrl_k8s, registry

RAYJOB = "nrl-k8s run recipes/grpo.yaml --infra infra/gb300.yaml grpo.max_num_steps=20"
CLUSTER = f"cd repo && {RAYJOB} --raycluster --mode interactive"


def test_a_ray_job_is_found_and_named() -> None:
    run = nrl_k8s.find(RAYJOB)
    words = ("recipes/grpo.yaml", "grpo.max_num_steps=20", "--infra", "infra/gb300.yaml")
    assert run == nrl_k8s.NrlRun(words, rayjob=True, name="", waits=True, dry=False)
    assert run.check == ("nrl-k8s", "check", *words)
    named = nrl_k8s.find(nrl_k8s.named(RAYJOB, "ajet_Sort_lr_7k2m9x"))
    assert named is not None and named.name == "ajet-sort-lr-7k2m9x" and named.words == words


def test_a_run_on_a_cluster_is_found_and_named() -> None:
    run = nrl_k8s.find(CLUSTER)
    assert run is not None and not run.rayjob and run.waits and not run.name
    text = nrl_k8s.named(CLUSTER, "ajet_a_1")
    assert text == CLUSTER.replace("nrl-k8s run", "nrl-k8s run --run-id ajet_a_1")
    assert nrl_k8s.named(text, "ajet_b_2") == text


def test_a_name_fits_a_ray_job() -> None:
    run = nrl_k8s.find(nrl_k8s.named(RAYJOB, "ajet_" + "x" * 50 + "_7k2m9x"))
    assert run is not None and len(run.name) <= 47 and run.name.endswith("7k2m9x")


@pytest.mark.parametrize(
    ("flags", "waits"),
    [
        ("", True),
        ("--no-wait", False),
        ("--no-wait --wait", True),
        ("--raycluster", True),
        ("--raycluster --mode batch", False),
        ("--raycluster --mode=batch --wait", True),
        ("--mode batch", True),  # it is for long-lived clusters only
    ],
)
def test_who_waits(flags: str, waits: bool) -> None:
    run = nrl_k8s.find(f"uv run nrl-k8s run r.yaml {flags}")
    assert run is not None and run.waits is waits and run.words == ("r.yaml",)


@pytest.mark.parametrize(
    "command", ["nrl-k8s check r.yaml", "nrl-k8s job stop x r.yaml", "echo nrl-k8s run", "python t.py"]
)
def test_no_run(command: str) -> None:
    assert nrl_k8s.find(command) is None and nrl_k8s.named(command, "a") == command and nrl_k8s.lint(command) == ()


@pytest.mark.parametrize(
    ("flags", "codes"),
    [
        ("", ["nrl_no_output"]),
        ("--raycluster", []),
        ("--raycluster --no-wait", ["nrl_no_wait"]),
        ("--dry-run", ["nrl_dry_run"]),
        ("--rayjob --no-wait", ["nrl_no_wait"]),
    ],
)
def test_lint(flags: str, codes: list[str]) -> None:
    trainer = registry.by_name("nemo_rl")
    assert [found.code for found in trainer.lint_command(f"nrl-k8s run r.yaml {flags}")] == codes
