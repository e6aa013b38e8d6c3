"""Options of places: each wrong one is told with its name before anybody is asked."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import UsageError
from autoresearch.launchers.registry import check


@pytest.mark.parametrize(
    ("kind", "option", "value", "says"),
    [
        (Kind.RAY, "host", "x", "ray has no such option"),
        (Kind.LOCAL, "partition", "x", "local has no such option"),
        (Kind.SLURM, "partition", None, "says nothing"),
        (Kind.SLURM, "gpus_per_run", "two", "'two' is no whole number"),
        (Kind.SLURM, "gpus_per_run", True, "True is no whole number"),
        (Kind.SLURM, "gpus_per_run", 1.5, "1.5 is no whole number"),
        (Kind.SLURM, "gpus_per_run", -1, "-1 is no whole number"),
        (Kind.SLURM, "pending_limit", "soon", "durations look like"),
        (Kind.SLURM, "pending_limit", [], "durations look like"),
        (Kind.SSH, "shared", "yes", "neither true nor false"),
        (Kind.SSH, "collect_max_gb", "much", "is no number"),
        (Kind.SSH, "collect_max_gb", float("inf"), "inf is no number"),
        (Kind.SSH, "collect_max_gb", date(2026, 1, 1), "is no number"),
        (Kind.SSH, "collect", 5, "5 is no pattern"),
        (Kind.SSH, "collect", [{"a": 1}], "is no pattern"),
        (Kind.SSH, "paths", ["/data"], "is no mapping of directories"),
        (Kind.SSH, "paths", {"data": "/mnt"}, "is no mapping of directories"),
        (Kind.RAY, "driver_gpus", [1], "is no number"),
        (Kind.SSH, "host", "-oProxyCommand=x", "is no host"),
        (Kind.SLURM, "time", "ages", "durations look like"),
        (Kind.SLURM, "environment", ["A"], "is no block of NAME: value"),
        (Kind.SLURM, "environment", {"A B": "x"}, "is no block of NAME: value"),
        (Kind.KUBERNETES, "pod_spec", ["tolerations"], "is no block of NAME: value"),
        (Kind.KUBERNETES, "labels", "a=b", "is no block of NAME: value"),
        (Kind.KUBERNETES, "ttl", "soon", "durations look like"),
    ],
)
def test_what_an_option_may_not_hold(kind: Kind, option: str, value: Any, says: str) -> None:
    with pytest.raises(UsageError, match=f"launchers.box.{option}: .*{says}"):
        check(Target("box", kind, options={option: value}))


@pytest.mark.parametrize(
    ("kind", "option", "hint"),
    [
        (Kind.RAY, "adress", "did you mean address?"),
        (Kind.SSH, "rost", "did you mean host or root?"),  # as near to the one as to the other
    ],
)
def test_a_near_miss_is_named(kind: Kind, option: str, hint: str) -> None:
    with pytest.raises(UsageError) as told:
        check(Target("box", kind, options={option: 22}))
    assert told.value.hint == hint and told.value.exit_code == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("token", "9f3a7c1e5b2d8046aa01"),
        ("password", "hunter2hunter2"),
        ("auth_token", "abc123abc123abc1"),
        ("address", "http://me:sesame123@head:8265"),
        ("address", "http://head:8265?key=sk-abcdef0123456789abcdef"),
        ("driver_resources", {"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwx"}),
        ("driver_resources", ["hf_abcdefghijklmnopqrstuvwx"]),
    ],
)
def test_a_secret_is_refused_and_not_repeated(option: str, value: Any) -> None:
    with pytest.raises(UsageError) as told:
        check(Target("ray", Kind.RAY, options={option: value}))
    assert told.value.code == "secret_in_file" and "environment" in told.value.hint
    inner = next(iter(value.values())) if isinstance(value, dict) else value[0] if isinstance(value, list) else value
    assert inner not in str(told.value.message) + told.value.hint


def test_what_is_no_secret_passes() -> None:
    check(Target("ray", Kind.RAY, options={"address": "http://head:8265", "pending_limit": "2h", "gpus_per_run": 0}))
    check(Target("gpu1", Kind.SSH, options={"host": "gpu1", "ssh_options": ["Port=2222", "IdentityFile=~/.ssh/id"]}))
