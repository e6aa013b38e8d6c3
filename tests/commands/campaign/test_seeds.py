"""Copies are no replicates: what a seed does is seen in the baseline's runs, and nothing is claimed without it."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

pytestmark = pytest.mark.system

# What an idea gains beside its offset: a worthless one ends elsewhere, as any other seed would, on every copy of it.
SCRIPT = """
import os, random, sys
recipe = dict(line.split(": ") for line in open("recipe.yaml").read().splitlines() if ": " in line and "#" not in line)
bonus, jitter, idea = float(recipe["bonus"]), float(recipe["jitter"]), recipe["idea"]
seed = SEED
print("SEED", os.environ["AUTORESEARCH_SEED"], "GIVEN", *sys.argv[1:], flush=True)
chance, kernels = random.Random(f"{seed} {idea}"), random.Random(os.path.basename(os.environ["AUTORESEARCH_RUN_DIR"]))
for n in range(1, 13):
    value = 0.4 + 0.01 * n + bonus + chance.gauss(0, 0.01) + kernels.gauss(0, jitter)
    print(f"step: {n} loss: {1 / n:.4f} val_score: {value:.6f}", flush=True)
"""
RECIPE = "bonus: 0\njitter: 0\nidea: none\n"


def prepared(camp: Any, seed: str, *, jitter: float = 0.0, command: str = "") -> None:
    """A script of nobody's framework that gets its seed from this expression."""
    repo = camp.bench.repo
    (repo / "train.py").write_text(textwrap.dedent(SCRIPT).replace("SEED", seed, 1))
    (repo / "recipe.yaml").write_text(RECIPE.replace("jitter: 0", f"jitter: {jitter}"))
    given = {"command": command or "python train.py", "recipe": "recipe.yaml"}
    camp.bench.blueprint("ok", trainer="generic", metric="val_score", **given)
    camp.bench.git("commit", "-qam", "a script of one's own")


def null_idea(camp: Any) -> str:
    """Three of them, of which some look better than the baseline by luck."""
    return str(camp.ideas(*({"slug": f"null-{n}", "overrides": {"idea": f"n{n}"}} for n in range(3))))


def verdicts(camp: Any) -> list[dict[str, Any]]:
    return list(camp.state().said_later)


def test_a_script_that_seeds_itself_confirms_nothing(camp: Any) -> None:
    """Every copy of a worthless idea ends at the same other number: no spread of copies says that this is luck."""
    prepared(camp, "0", jitter=2e-5)
    state = camp.run(queue=null_idea(camp), baseline=7, count=4)
    assert state.unseeded, camp.said()
    assert [len(idea.rows) for idea in state.ideas] == [3, 1, 1, 1]  # no further copies, of neither
    assert [run.seed for run in state.baseline.runs] == [0, 0, 1]
    assert {row.seed_by for row in state.rows} == {"variable AUTORESEARCH_SEED"}
    assert not state.rounds and {one["do"] for one in verdicts(camp)} <= {"differs for this seed"}
    kept = {idea.slug for idea in state.ideas if idea.kept and idea.index > 1}
    assert {one["slug"] for one in verdicts(camp)} == kept == {i.slug for i in state.ideas if i.confirmed}
    assert kept, "some are better than the baseline by luck"
    for idea in state.ideas[1:]:
        assert "resolution" in idea.rows[0].description and "another run would be a copy" in idea.rows[0].description
    status = camp.bench.ask("campaign", "status")
    assert status["seed"]["seen"] is False and "`- seed: KEY`" in status["seed"]["sentence"]
    assert camp.said().count("one run judges an idea, to within") == 1
    report = (camp.place.path / "report.md").read_text()
    assert "Nothing is confirmed" in report and "one run judges an idea, to within" in report
    assert f"{state.best.name}: **differs for this seed**, better than the baseline by" in report
    refused = camp.bench.ask("campaign", "confirm", state.best.slug, check=5)
    assert "nothing can be confirmed" in refused["error"]["message"]
    assert status["resolution"] > 1e-5, "of the jitter"


def takes_its_seed(camp: Any, by: str, first: int, **keys: object) -> Any:
    """A campaign in which the check of the seed sees that the script takes it; its state."""
    state = camp.run(baseline=3, **keys)
    assert state.seed_check.seen and state.seed_check.by == by, camp.said()
    assert [run.seed for run in state.baseline.runs][:3] == [first, first, first + 1]
    assert {(row.seed, row.seed_by) for row in state.baseline.rows[:3]} == {(first, by), (first + 1, by)}
    assert len(state.baseline.values) == 2  # the repeated run is no second sample
    assert camp.told(state.baseline.rows[2], "SEED") == str(first + 1)
    return state


def test_a_script_that_takes_its_seed_by_a_flag(camp: Any) -> None:
    prepared(camp, "int(sys.argv[2])", jitter=2e-5, command="python train.py --seed 5")
    takes_its_seed(camp, "flag --seed", 5, queue=null_idea(camp), count=1)


def test_a_script_that_takes_its_seed_gets_its_claim(camp: Any) -> None:
    prepared(camp, 'int(os.environ["AUTORESEARCH_SEED"])', jitter=2e-5)
    queue = camp.ideas({"slug": "real", "overrides": {"bonus": 0.06}})
    state = takes_its_seed(camp, "variable AUTORESEARCH_SEED", 0, queue=queue, count=2)
    assert state.by_slug("real").confirmed == "confirmed", camp.said()
    report = (camp.place.path / "report.md").read_text()
    assert f"- {state.by_slug('real').name}: confirmed, " in report


def test_two_runs_of_the_baseline_get_a_third_where_something_is_to_be_claimed(camp: Any) -> None:
    prepared(camp, "0", jitter=2e-5)
    state = camp.run(queue=camp.ideas({"slug": "real", "overrides": {"bonus": 0.06}}), baseline=2, count=2)
    assert [run.seed for run in state.baseline.runs if run.why == "baseline"] == [0, 1, 0], camp.said()
    assert not state.seed_check.seen and state.by_slug("real").confirmed == "differs for this seed", camp.said()


FRESH = """
import numpy as np
rng = np.random.default_rng()
bonus = float(open("recipe.yaml").read().split("bonus: ")[1].split()[0])
print(f"val_score: {0.94 + bonus + rng.uniform(-3e-4, 3e-4):.6f}", flush=True)
"""  # apart by far more than it scatters, whatever is drawn


def test_a_script_that_seeds_nothing_gives_replicates(camp: Any) -> None:
    prepared(camp, "0")
    (camp.bench.repo / "train.py").write_text(FRESH)
    blueprint = camp.bench.repo / "exp.md"
    blueprint.write_text(f"{blueprint.read_text()}- seed: random\n")
    camp.bench.git("commit", "-qam", "it draws anew")
    path = camp.file(queue=camp.ideas({"slug": "real", "overrides": {"bonus": 0.06}}))
    plan = camp.bench.ask("campaign", path, "--dry-run")
    state = camp.run(queue="ideas.yaml", baseline=3, count=2)
    sentence = camp.bench.ask("campaign", "status")["seed"]["sentence"]
    assert state.replicated and len(state.baseline.values) == 3, camp.said()
    assert state.by_slug("real").confirmed == "confirmed", camp.said()
    assert sentence == "Every run is a replicate, whatever its seed: the notes say `- seed: random`."
    assert "the notes say `- seed: random`" in str(plan)
