"""What `resume` takes of a blueprint and a campaign file that were changed while the campaign was paused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commands.campaign.test_pauses import GRID, paused

pytestmark = pytest.mark.system


def terms(camp: Any) -> list[dict[str, Any]]:
    from autoresearch.records.campaign_records import entries

    return [line["terms"] for line in entries(camp.place, "rules") if "terms" in line]


def test_before_the_first_measured_run_all_but_the_objective_is_taken(camp: Any) -> None:
    """The cause is in the blueprint, the recipe or the code: resume trained the same crash again."""
    blueprint, trainer = camp.bench.repo / "exp.md", camp.bench.repo / "train.py"
    broken = blueprint.read_text()
    trainer.write_text(f"import nothing_of_this_name\n{trainer.read_text()}")
    camp.bench.ask("campaign", camp.file(**GRID, baseline=2, deadline="9h"), "--yes", "--count", "2", check=10)
    camp.known(camp.bench.ask("campaign", "status"))
    state = paused(camp)
    assert len(state.rows) == 2 and state.spec.rules.count == 2

    assert camp.bench.ask("campaign", "resume", "--detach")["taken"] == []
    state = paused(camp)
    assert len(state.rows) == 4, "nothing was mended"
    assert terms(camp) == []

    blueprint.write_text(broken.replace("task_pass_rate@1", "another") + "- env: GREETING=hello\n")
    trainer.write_text(trainer.read_text().replace("import nothing_of_this_name\n", ""))
    camp.recipe(lr=0.2)
    camp.file(**GRID | {"space": {"lr": [0.04, 0.4]}}, baseline=2, timeout="30m", deadline="9h")
    code, _, remarks = camp.bench.here("campaign", "resume", "--detach")
    assert code == 0, remarks
    assert "taken anew: the blueprint, proposer, timeout, state of the code (" in remarks
    assert "ignored, so that runs stay comparable: metric; another campaign takes it" in remarks
    state = camp.over()
    assert (state.spec.timeout_s, state.spec.rules.count) == (1800.0, 2), "what was typed still lies over the file"
    assert state.reason == "stop condition met: 2/2 ideas attempted"
    assert len(state.baseline.values) == 2 and state.baseline.branch == "autoresearch/one/baseline-2"
    assert [idea.hypothesis.overrides for idea in state.ideas[1:]] == [{"lr": 0.04}]
    recipe = camp.bench.git("show", f"{state.baseline.rows[-1].commit}:recipe.yaml")
    assert "lr: 0.2" in recipe, "the baseline is committed on the code as it is now"


def test_after_it_only_what_leaves_its_runs_comparable(camp: Any) -> None:
    ask, keys = camp.bench.ask, {"queue": camp.ideas(), "baseline": 2, "count": 3, "confirm": False}
    camp.start(**keys)
    camp.phase("waiting")
    refused = ask("campaign", "set", "timeout=20m", check=5)["error"]
    assert refused["fix"] == "autoresearch campaign pause one --json"
    mixed = ask("campaign", "set", "timeout=20m", "count=4", check=5)["error"]
    assert mixed["fix"] == "autoresearch campaign set one timeout=20m --json"
    ask("campaign", "pause")
    paused(camp)

    camp.file(**keys | {"count": 9}, timeout="30m", keep_gb=1)
    found = ask("campaign", "resume", "--detach")
    assert (found["taken"], found["ignored"]) == (["timeout"], ["count", "keep_gb"])
    assert camp.state().spec.timeout_s == 1800.0 and camp.state().spec.rules.count == 3
    ask("campaign", "pause")
    paused(camp)

    assert ask("campaign", "set", "timeout=45m")["taken"] == ["timeout"]
    assert camp.state().spec.timeout_s == 2700.0 and len(terms(camp)) == 2
    (camp.bench.repo / ".gitignore").write_text("/data/\n")
    data = camp.bench.repo / "data" / "wandb"
    data.mkdir(parents=True)
    (data / "left_out.txt").write_text("an output by its name, unless somebody includes it")
    assert ask("campaign", "set", "include=[data/wandb]")["taken"] == ["include"]
    spec = camp.state().spec
    assert (spec.include, [one.path for one in spec.shown]) == (("data/wandb",), ["data"])
    error = ask("campaign", "set", "parallel=4", check=5)["error"]
    assert error["message"].startswith("nothing is taken of parallel=4: ")
    blueprint = camp.bench.repo / "exp.md"
    text = blueprint.read_text()
    blueprint.write_text("no blueprint")
    code, _, remarks = camp.bench.here("campaign", "resume", "--detach")
    assert code == 0 and "the recorded copy of blueprint and campaign file is used: " in remarks
    blueprint.write_text(text)
    ask("campaign", "stop")
    assert camp.over().spec.timeout_s == 2700.0
    assert ask("campaign", "set", "timeout=1h", check=5)["error"]["fix"].startswith("autoresearch campaign start /")


def test_a_file_that_is_gone_is_the_recorded_one(camp: Any) -> None:
    camp.start(queue=camp.ideas(), baseline=1, count=3, confirm=False)
    camp.phase("waiting")
    path = camp.bench.repo / "campaign.yaml"
    path.unlink()
    camp.bench.ask("campaign", "pause")  # and at once, while its controller may be leaving:
    code, _, remarks = camp.bench.here("campaign", "resume", "--detach")
    assert code == 0 and f"campaign file is used: {path.name} is not there" in remarks
    camp.phase("waiting")
    camp.bench.ask("campaign", "stop")
    camp.over()
