"""Which run or campaign a name means, where both answer to it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from autoresearch.commands import name_lookup, output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import NotFoundError
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.runs import lookup
from autoresearch.records.campaign_records import CampaignDir, chained
from autoresearch.records.files import locked, write_json
from autoresearch.records.index import state_home

PARTS: Any = SimpleNamespace(index=SimpleNamespace(by_id=lambda name: name == "lr-ab12cd"))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], Any]:
    """What is known, by kind and name; filled in by each test."""
    found: dict[tuple[str, str], Any] = {}

    def finder(kind: str) -> Any:
        def find(name: str, parts: Any) -> Any:
            if (kind, name) not in found:
                raise NotFoundError(f"no {kind} of /here answers to {name!r}", hint="elsewhere: none", fix="look")
            return found[kind, name]

        return find

    campaigns = [SimpleNamespace(name="20260101-lr", campaign_dir="campaign")]
    monkeypatch.setattr(lookup, "find_run", finder("run"))
    monkeypatch.setattr(campaign_registry, "find", finder("campaign"))
    monkeypatch.setattr(campaign_registry, "known", lambda parts: campaigns)
    return found


def run(*, lives: bool) -> Any:
    return SimpleNamespace(kind="run", state=lambda: SimpleNamespace(lives=lives))


def campaign(*, lives: bool) -> Any:
    return SimpleNamespace(kind="campaign", controlled=lives, path=Path("/here/20260101-lr"))


# what answers to `lr` (whether it lives, or None where there is none): run, campaign; and which one is meant
MEANT = [
    ((True, None), "run"),
    ((False, None), "run"),
    ((None, False), "campaign"),
    ((True, True), "run"),
    ((False, True), "campaign"),
    ((False, False), "run"),
]


@pytest.mark.parametrize(("lives", "kind"), MEANT)
def test_the_one_that_lives_else_the_run(
    known: dict[tuple[str, str], Any], lives: tuple[bool | None, ...], kind: str
) -> None:
    for name, make, alive in zip(("run", "campaign"), (run, campaign), lives, strict=True):
        if alive is not None:
            known[name, "lr"] = make(lives=alive)
    found: Any = lookup.resolve("lr", PARTS)
    assert found.kind == kind


def test_a_full_id_and_last_mean_a_run_although_it_is_over(known: dict[tuple[str, str], Any]) -> None:
    for name in ("lr-ab12cd", "last", "/here/reports/lr"):
        known["run", name], known["campaign", name] = run(lives=False), campaign(lives=True)
        found: Any = lookup.resolve(name, PARTS)
        assert found.kind == "run", name


def test_a_command_about_runs_names_the_one_about_campaigns(known: dict[tuple[str, str], Any]) -> None:
    with pytest.raises(NotFoundError, match="no run of"):
        lookup.recorded("lr", PARTS, instead="campaign stop")
    known["campaign", "lr"] = campaign(lives=True)
    with pytest.raises(NotFoundError) as caught:
        lookup.recorded("lr", PARTS, instead="campaign stop")
    assert (caught.value.message, caught.value.fix) == ("lr is a campaign", "autoresearch campaign stop lr")
    with pytest.raises(NotFoundError) as caught:
        lookup.recorded("lr", PARTS)  # `explain`, `logs`, `metrics`
    assert caught.value.fix == "autoresearch ledger show lr"


@pytest.mark.system
def test_of_several_that_live_one_must_be_named(bench: Any) -> None:
    records = state_home(bench.env) / "campaigns"
    records.mkdir(parents=True)
    for name in ("20260101-old", "20260102-lr", "20260103-kl"):
        campaign_dir = CampaignDir(bench.repo / "reports" / "auto_research" / name)
        campaign_dir.path.mkdir(parents=True)
        campaign_dir.spec.write_text("{}")
        state = "ended" if name.endswith("old") else "running"
        campaign_dir.events.write_bytes(chained({"do": "state", "state": state}, 1, "")[0])
        record = {"name": name, "directory": str(campaign_dir.path), "created": float(name[:8])}
        write_json(records / f"{name}.json", record)
    both = "20260103-kl, 20260102-lr; name one"
    for words, expected in (
        (["pause", "--reason", "two words"], "pause 20260103-kl --reason 'two words' --json"),
        (["resume"], "resume 20260103-kl --json"),
        (["set", "count=9"], "set 20260103-kl count=9 --json"),
        (["add", "--set", "lr=1"], "add 20260103-kl --set lr=1 --json"),
        (["stop"], "stop 20260103-kl --json"),
        (["confirm"], "confirm --campaign 20260103-kl --json"),
        (["skip", "#2"], "skip '#2' --campaign 20260103-kl --json"),
        (["fix", "#2", "--set", "lr=1"], "fix '#2' --set lr=1 --campaign 20260103-kl --json"),
        (["approve", "#2"], "approve '#2' --campaign 20260103-kl --json"),
    ):
        error = bench.ask("campaign", *words, check=5)["error"]
        assert (error["code"], error["message"]) == ("several_campaigns", f"2 campaigns have not ended: {both}")
        assert error["fix"] == f"autoresearch campaign {expected}"
    status = bench.ask("status")
    assert [(one["campaign"], one["state"]) for one in status["campaigns"]] == [
        ("20260103-kl", "unknown"),
        ("20260102-lr", "unknown"),
    ], "damaged ones are named, too"
    living = CampaignDir(bench.repo / "reports" / "auto_research" / "20260102-lr")
    with locked(living.lock), mock.patch.dict(os.environ, bench.env), contextlib.chdir(bench.repo):
        assert name_lookup.campaign_to_change("", real_parts()) == living, "the one that has a controller"


@pytest.mark.parametrize(
    ("typed", "line", "expected"),
    [
        ("explain last", "autoresearch run a.md --fix-of r", "autoresearch run a.md --fix-of r --detach --json"),
        ("run a.md", "autoresearch run a.md --fix-of r", "autoresearch run a.md --fix-of r --json"),
        ("run a.md --detach", "autoresearch run a.md", "autoresearch run a.md --detach --json"),
        ("run a.md --dry-run", "autoresearch run a.md", "autoresearch run a.md --detach --json"),
        ("campaign a.yaml", "autoresearch campaign a.yaml --yes", "autoresearch campaign a.yaml --yes --detach --json"),
        ("campaign a.yaml --yes", "autoresearch campaign resume a", "autoresearch campaign resume a --json"),
        ("status", "autoresearch campaign status a", "autoresearch campaign status a --json"),
        ("scaffold", "autoresearch scaffold check a -- echo {q}", "autoresearch scaffold check a --json -- echo {q}"),
        ("note", "autoresearch note a 'b -- c'", "autoresearch note a 'b -- c' --json"),
        ("status", "autoresearch attach r", "autoresearch attach r"),
        ("status", "autoresearch --help", "autoresearch --help"),
        ("status", "autoresearch report --serve", "autoresearch report --serve"),
        ("doctor", "sudo apt-get install -y tmux", "sudo apt-get install -y tmux"),
        ("status", "", ""),
    ],
)
def test_who_reads_json_is_told_lines_that_print_json_and_return(typed: str, line: str, expected: str) -> None:
    with mock.patch.object(output.typed, "words", typed.split()):
        assert output.for_program(line) == expected
