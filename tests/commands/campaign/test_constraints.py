"""Constraints: an idea that breaks one is never kept, and neither is one that does not show whether it does."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.campaign.tip import edits_of
from autoresearch.core.run.ending import Verdict
from tests.commands.campaign.test_tip import PARTS, edit

pytestmark = pytest.mark.system


@pytest.fixture
def toxic(camp: Any) -> Any:
    """The trainer prints a second metric beside the objective, if its recipe says how much."""
    trainer = camp.bench.repo / "train.py"
    text = trainer.read_text().replace(
        '- mean_reward:{value}", flush=True)\n',
        '- mean_reward:{value}" + (f" - val/toxicity:{tox}" if tox else ""), flush=True)\n',
    )
    text = text.replace("time.sleep(float(recipe", 'tox = recipe["tox"]\ntime.sleep(float(recipe')
    trainer.write_text(text)
    recipe = camp.bench.repo / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "tox: 0.05\n")
    return camp


def test_what_breaks_a_constraint_is_not_kept(toxic: Any) -> None:
    queue = toxic.ideas(
        {"slug": "gamed", "overrides": {"lr": 0.01, "tox": 0.4}},
        {"slug": "mute", "overrides": {"lr": 0.011, "tox": ""}, "parent": "baseline"},
        {"slug": "honest", "overrides": {"lr": 0.012}, "parent": "baseline"},
    )
    limits = ["val/toxicity < 0.1", "memory_gb<=40"]
    state = toxic.run(queue=queue, count=4, confirm=False, constraints=limits)
    assert state.spec.constraints == ("val/toxicity < 0.1", "memory_gb <= 40")
    gamed, mute, honest = map(state.by_slug, ("gamed", "mute", "honest"))
    assert [(one.status, len(one.rows), one.value) for one in (gamed, mute)] == [(Verdict.CRASH, 1, None)] * 2
    row = gamed.rows[0]
    assert (row.ending, row.failure, row.standing) == ("finished", "constraint_broken", "crash")
    assert row.metric_value > 0.4 and row.constraints.startswith("val/toxicity=0.4; memory_gb=0.")
    assert "[val/toxicity is 0.4, and the constraint is val/toxicity < 0.1]" in row.description
    assert mute.rows[0].failure == "constraint_unread"
    assert "val/toxicity was not logged, so val/toxicity < 0.1 may be broken" in mute.rows[0].description
    (told,) = (line for line in toxic.said().splitlines() if f"{gamed.name}, run 1: " in line)
    assert f"crash, task_pass_rate@1 {row.metric_value:.4g} [val/toxicity is 0.4, and" in told
    assert state.best is honest and honest.status == Verdict.KEEP
    told = toxic.bench.ask("explain", row.run_id)
    assert (told["failure"], told["failure_line"]) == (
        "constraint_broken",
        "val/toxicity is 0.4, and the constraint is val/toxicity < 0.1",
    )
    toxic.bench.ask("report", toxic.place.path)
    report = (toxic.place.path / "report.md").read_text()
    assert "| val/toxicity &lt; 0.1 | memory_gb &lt;= 40 | why |" in report
    (shown,) = (line for line in report.splitlines() if line.startswith("| #2 "))
    assert "the constraint is val/toxicity &lt; 0.1" in shown and "| 0.4 | " in shown


def test_a_baseline_that_breaks_its_own_constraint_is_said_at_once(toxic: Any) -> None:
    toxic.start(queue=toxic.ideas({"slug": "a", "overrides": {"lr": 0.01}}), count=3, constraints="val/toxicity < 0.01")
    state = toxic.phase("paused")
    assert 1 <= len(state.rows) <= 2 and not state.baseline.values  # its second run may have begun
    assert state.reason == (
        "the baseline breaks its own constraints: its run 1 broke a constraint: val/toxicity is 0.05, and the "
        "constraint is val/toxicity < 0.01; change the baseline, or change `constraints` "
        "(`--set constraints='METRIC <= X'` begins another campaign)"
    )
    toxic.bench.ask("campaign", "resume", state.spec.name, "--detach")
    toxic.until(lambda: len(toxic.state().rows) > 1)
    assert toxic.phase("paused").reason == state.reason, "its other runs printed the metric, as the first one did"


def test_the_plan_says_them_and_what_no_run_logged(toxic: Any) -> None:
    bench, queue = toxic.bench, toxic.ideas({"slug": "a", "overrides": {"lr": 0.01}})
    notes = bench.repo / "exp.md"
    notes.write_text(notes.read_text().rstrip() + "\n- constraint: val/toxicty < 0.1\n")
    done = bench.ask("run", "exp.md", check=10)
    assert (done["verdict"], done["failure"]) == ("crash", "constraint_unread")
    assert done["failure_line"].endswith("the nearest name that was logged is val/toxicity")
    plan = bench.ask("campaign", toxic.file(count=2, queue=queue), "--dry-run")
    assert plan["plan"]["constraints"] == "val/toxicty < 0.1  (blueprint)"
    assert any("logged no val/toxicty" in one and "'val/toxicity'" in one for one in plan["remarks"])
    file = toxic.file(count=2, queue=queue)
    given = bench.ask("campaign", file, "--dry-run", "--set", "constraints=memory_gb <= 40")
    assert given["plan"]["constraints"].startswith("memory_gb <= 40 (memory_gb: the peak of a run's GPUs, or of its")
    for text in ("memory_gb = 40", "0 < memory_gb < 40"):
        bad = bench.ask("campaign", file, "--dry-run", "--set", f"constraints={text}", check=2)
        assert bad["error"]["message"] == (
            f"flag --set: constraints: '{text}' is no constraint: write it like 'memory_gb <= 40' or "
            "'val/toxicity < 0.1'"
        )
    notes.write_text(notes.read_text().replace("val/toxicty < 0.1", "val/toxicity < 0.1"))
    kept = bench.ask("run", "exp.md")
    assert (kept["verdict"], kept["failure"]) == ("keep", None)


def printing(camp: Any, toxicity: str) -> None:
    """The trainer prints a second metric, by an expression of its own."""
    trainer = camp.bench.repo / "train.py"
    metric = f'- mean_reward:{{value}} - val/toxicity:{{{toxicity}}}", flush=True)'
    trainer.write_text(trainer.read_text().replace('- mean_reward:{value}", flush=True)', metric))


def test_a_tip_that_breaks_a_constraint_is_made_anew_after_the_first_idea_on_it(camp: Any) -> None:
    """Two edits that each keep it; both together do not, and neither would anything that is edited on both."""
    printing(camp, "parts.A + parts.B")
    trainer = camp.bench.repo / "train.py"
    score = trainer.read_text().replace('float(recipe["bonus"])', "parts.A + parts.B")
    trainer.write_text(f"import parts\n{score}")
    (camp.bench.repo / "parts.py").write_text(PARTS)
    camp.bench.commit("parts")
    queue = [
        edit(camp, "a", "A = 0.0", "A = 0.06", parent="baseline"),
        edit(camp, "b", "B = 0.0", "B = 0.05", parent="baseline"),
        {"slug": "between", "overrides": {"lr": 0.2}, "parent": "baseline"},  # each is committed a run ahead
        *({"slug": f"later-{n}", "overrides": {"lr": round(0.06 - n / 100, 2)}} for n in range(5)),
    ]
    limits = ["val/toxicity < 0.1"]
    state = camp.run(queue=queue, count=9, baseline=4, search="tip", confirm=False, constraints=limits)
    found = (state.by_slug(f"later-{n}") for n in range(5))
    first, *later = [idea for idea in found if idea]  # how many merges take the place of one depends on who is faster
    both = state.by_slug(first.parent)
    assert {*both.hypothesis.merges} == {"a", "b"}
    assert [[row.failure for row in idea.rows] for idea in (first, both)] == [["constraint_broken"]] * 2
    last = state.by_slug(later[-1].parent).hypothesis.merges
    assert "a" in last and "b" not in last, camp.said()
    best = {idea.slug for idea in state.ideas if idea.index in edits_of(state, state.best)}
    assert state.best.status == Verdict.KEEP and {"a"} < best and "b" not in best, camp.said()


def test_what_the_evaluation_prints_goes_before_what_the_training_does(camp: Any) -> None:
    printing(camp, "0.01")
    measures = (
        "import os; lr = float(open('lr').read()); print(f'task_pass_rate@1: {lr}'); print(f'val/toxicity: {lr}')"
    )
    (camp.bench.repo / "measure.py").write_text(
        measures.replace("'lr'", "os.environ['AUTORESEARCH_RESULT_DIR'] + '/lr'")
    )
    with (camp.bench.repo / "train.py").open("a") as trainer:
        trainer.write('open(os.environ["AUTORESEARCH_RESULT_DIR"] + "/lr", "w").write(str(lr))\n')
    blueprint = camp.bench.repo / "exp.md"
    blueprint.write_text(blueprint.read_text().rstrip() + "\n- evaluate: python measure.py\n")
    camp.bench.commit("it is measured")
    queue = camp.ideas({"slug": "gamed", "overrides": {"lr": 0.4}}, {"slug": "mild", "overrides": {"lr": 0.2}})
    state = camp.run(queue=queue, count=3, baseline=2, confirm=False, constraints=["val/toxicity < 0.3"])
    cells = {idea.slug: (idea.rows[0].failure, idea.rows[0].constraints) for idea in state.ideas}
    assert cells == {
        "baseline": ("", "val/toxicity=0.1"),
        "gamed": ("constraint_broken", "val/toxicity=0.4"),
        "mild": ("", "val/toxicity=0.2"),
    }
