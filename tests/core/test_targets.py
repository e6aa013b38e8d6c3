"""`--launcher` and the `launcher:` block: what they mean, and each way to say them wrong."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.run.targets import Kind, Target, parse_pool, with_slots
from tests.specs import campaign_spec

DECLARED: dict[str, dict[str, Any]] = {
    "gpu1": {"kind": "ssh", "host": "gpu1.example.org", "slots": 4},
    "long": {"kind": "slurm", "partition": "long"},
    "slurm": {"partition": "short"},
    "near": {"kind": "local"},
}


def test_a_mixed_pool() -> None:
    found = parse_pool("local:2, gpu1, ssh:box.example.org:3,long:8", DECLARED)
    assert [(p.name, p.kind, p.slots) for p in found] == [
        ("local", Kind.LOCAL, 2),
        ("gpu1", Kind.SSH, 4),
        ("box.example.org", Kind.SSH, 3),
        ("long", Kind.SLURM, 8),
    ]
    assert found[1].options == {"host": "gpu1.example.org"} and found[2].options == {"host": "box.example.org"}
    assert ", ".join(map(str, found)) == "local:2, ssh:gpu1:4, ssh:box.example.org:3, slurm:long:8"


def test_other_names_of_kinds() -> None:
    assert [p.kind for p in parse_pool("tmux, k8s:2", {})] == [Kind.LOCAL, Kind.KUBERNETES]


def test_a_kind_takes_the_options_that_are_declared_under_its_name() -> None:
    assert parse_pool("slurm:2", DECLARED) == (Target("slurm", Kind.SLURM, 2, {"partition": "short"}),)
    assert parse_pool("slurm:long:2", DECLARED)[0].options == {"partition": "long"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no target is named"),
        ("slrm", "'slrm' is no launcher"),
        ("slurm:0", "no room for a run"),
        ("local:1000000", "more slots than a place has: 10000 at most"),
        ("local:1, local:2", "local is named twice"),
        ("ssh", "names no host"),
        ("ssh:4", "names no host"),
        ("local:a:b:2", "is no place"),
        ("slurm:-1", "is no place"),
        ("slurm:gpu1", "gpu1 is declared as ssh, and 'slurm:gpu1' calls it slurm"),
        ("gpu1, ssh:gpu1.example.org", "gpu1 and gpu1.example.org are the same place"),
        ("near, local", "near and local are the same place"),
    ],
)
def test_what_is_no_pool(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_pool(text, DECLARED)


@pytest.mark.parametrize(
    ("name", "block", "says"),
    [
        ("slurm", {"kind": "ssh", "host": "x"}, "slurm is a kind of its own, and its block says ssh"),
        ("k8s", {"kind": "ray"}, "k8s is a kind of its own"),
        ("box", {"host": "x"}, "box says no `kind:`"),
        ("box", {"kind": "shh"}, "box: kind: 'shh' is no launcher"),
        ("my box", {"kind": "local"}, "is no name of a place"),
        ("a:b", {"kind": "local"}, "is no name of a place"),
        ("box", {"kind": "local", "slots": 0}, "box: slots: 0 is no number of runs"),
        ("box", {"kind": "local", "slots": "many"}, "slots: 'many' is no number"),
        ("box", {"kind": "local", "slots": True}, "slots: True is no number"),
    ],
)
def test_what_cannot_be_declared(name: str, block: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_pool(name if name == "box" else "local", {name: block})


@pytest.mark.parametrize(
    ("pool", "parallel", "slots"),
    [
        ("local:2, slurm:8", None, [2, 8]),
        ("local:2, slurm:8", 10, [2, 8]),
        ("slurm", None, [1]),
        ("slurm", 6, [6]),
        ("local:2, ray", 6, [2, 4]),
        ("local, ray", 2, [1, 1]),
    ],
)
def test_slots_and_parallel(pool: str, parallel: int | None, slots: list[int]) -> None:
    assert [place.slots for place in with_slots(parse_pool(pool, {}), parallel)] == slots


@pytest.mark.parametrize(
    ("pool", "parallel", "room"), [("local:2, slurm:8", 4, 10), ("slurm:2", 3, 2), ("local, ray", 5, 2)]
)
def test_parallel_that_contradicts_the_slots(pool: str, parallel: int, room: int) -> None:
    with pytest.raises(ValueError, match=f"parallel is {parallel}, and .* have room for {room}"):
        with_slots(parse_pool(pool, {}), parallel)
    with pytest.raises(ValueError, match="parallel is 10001: 10000 at most"):
        with_slots(parse_pool(pool, {}), 10_001)


def test_a_campaign_keeps_its_places() -> None:
    spec = campaign_spec(places=parse_pool("local:2, gpu1", DECLARED), parallel=6)
    assert CampaignSpec.from_json(json.loads(json.dumps(asdict(spec)))) == spec
