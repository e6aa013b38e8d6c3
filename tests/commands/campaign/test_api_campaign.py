"""A campaign by the public Python interface: started, waited for, read, stopped, reported."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import pytest

import autoresearch as ar

pytestmark = pytest.mark.system
SPACE = {"lr": {"low": 0.001, "high": 0.1, "log": True}}


def started(camp: Any, **keys: Any) -> ar.Campaign:
    usual = {"blueprint": "exp.md", "prefix": "autoresearch/one", "baseline": 1, "retests": 0, "confirm": False}
    campaign = ar.campaign(camp.file(**usual), proposer="random", space=SPACE, **keys)
    camp.known({"directory": ar.ledger(campaign.name).attrs["path"].removesuffix("/results.tsv")})
    return campaign


def test_a_campaign_is_waited_for_and_read(camp: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.chdir(camp.bench.repo)
    with mock.patch.dict(os.environ, camp.bench.env, clear=True):
        campaign = started(camp, count=3)
        assert campaign.name == "one" and campaign.wait(timeout=240) and campaign.status == "ended"
        frame = campaign.ledger()
        assert list(frame["index"]) == [1, 2, 3] and frame["metric_value"].notna().all()
        assert (frame.attrs["campaign"], frame.attrs["metric"], frame.attrs["direction"]) == (
            *("one", "task_pass_rate@1"),
            "maximize",
        )
        assert (frame["gpu_hours"] == 0.0).all()
        assert list(ar.runs()["campaign"].unique()) == ["one"] and len(ar.metrics(frame["run_id"][0])) > 3
        page = campaign.report()
        assert page.is_file() and page.suffix == ".html"
        with pytest.raises(ar.AutoresearchError, match="one has ended"):
            campaign.stop("enough")
        assert ar.Campaign().name == "one"
    assert capfd.readouterr() == ("", "")


def test_a_campaign_is_stopped(camp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    camp.recipe(mode="endless")
    camp.bench.git("commit", "-qam", "endless")
    monkeypatch.chdir(camp.bench.repo)
    with mock.patch.dict(os.environ, camp.bench.env, clear=True):
        campaign = started(camp, count=3)
        assert campaign.wait(timeout=0.3) is False and campaign.status == "running"
        campaign.stop("seen enough")
        assert campaign.wait(timeout=240)
        assert repr(campaign) == "<Campaign one: ended>"
