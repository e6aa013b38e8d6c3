"""Options of places: each wrong one is told with its name before anybody is asked."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import UsageError
from autoresearch.launchers.registry import check, options_of

ROOM = Path(__file__).parents[2] / "autoresearch"
READ = re.compile(r"(?:(?:place|target)\.text\(|\boptions(?:\.get\(|\[))\"([a-z_]+)\"")


@pytest.mark.parametrize(
    ("kind", "option", "value", "says"),
    [
        (Kind.SLURM, "partitoin", "x", "slurm has no such option"),
        (Kind.RAY, "host", "x", "ray has no such option"),
        (Kind.LOCAL, "partition", "x", "local has no such option"),
        (Kind.SLURM, "partition", None, "says nothing"),
        (Kind.SLURM, "partition", ["a"], r"\['a'\] is no text"),
        (Kind.SLURM, "partition", {"a": 1}, "is no text"),
        (Kind.SLURM, "gpus_per_run", "two", "'two' is no whole number"),
        (Kind.SLURM, "gpus_per_run", True, "True is no whole number"),
        (Kind.SLURM, "gpus_per_run", 1.5, "1.5 is no whole number"),
        (Kind.SLURM, "gpus_per_run", -1, "-1 is no whole number"),
        (Kind.SLURM, "pending_limit", "soon", "durations look like"),
        (Kind.SLURM, "pending_limit", [], "is no time"),
        (Kind.SSH, "port", 0, "0 is no port"),
        (Kind.SSH, "port", "ssh", "'ssh' is no port"),
        (Kind.SSH, "shared", "yes", "neither true nor false"),
        (Kind.SSH, "min_free_gb", "much", "is no number"),
        (Kind.SSH, "collect_max_gb", float("inf"), "inf is no number"),
        (Kind.SSH, "collect_max_gb", date(2026, 1, 1), "is no number"),
        (Kind.SSH, "collect", 5, "5 is no pattern"),
        (Kind.SSH, "collect", [{"a": 1}], "is no pattern"),
        (Kind.SSH, "paths", ["/data"], "is no mapping of directories"),
        (Kind.SSH, "paths", {"data": "/mnt"}, "is no mapping of directories"),
        (Kind.RAY, "driver_gpus", [1], "is no number"),
        (Kind.SSH, "connect_timeout", "soon", "'soon' is no number of seconds"),
        (Kind.SSH, "keepalive", 0, "0 is no number of seconds"),
        (Kind.SSH, "host", "-oProxyCommand=x", "is no host"),
        (Kind.SLURM, "extra", "--nice", "is no list"),
        (Kind.SLURM, "signal", "soon", "is no whole number"),
        (Kind.SLURM, "time", "ages", "durations look like"),
        (Kind.SLURM, "environment", ["A"], "is no block of NAME: value"),
        (Kind.SLURM, "environment", {"A B": "x"}, "is no block of NAME: value"),
        (Kind.KUBERNETES, "tolerations", {"key": "a"}, "is no list"),
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
        (Kind.SLURM, "partitoin", "did you mean partition?"),
        (Kind.SSH, "prot", "did you mean port or root?"),  # as near to the one as to the other
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
    check(Target("gpu1", Kind.SSH, options={"host": "gpu1", "port": 2222, "identity": "~/.ssh/id_ed25519"}))


def test_every_option_that_is_read_can_be_given() -> None:
    """A target's option is of no use where `check` refuses it."""
    known = {option for kind in (Kind.SSH, Kind.SLURM, Kind.RAY) for option in options_of(kind)}
    files = [*ROOM.glob("launchers/*.py"), *ROOM.glob("lab/**/*.py")]
    read = {(option, path.name) for path in files for option in READ.findall(path.read_text())}
    assert {option for option, _ in read} >= {"python", "gpus_per_run", "host"}
    assert not {(option, name) for option, name in read if option not in known and "kube" not in name}
