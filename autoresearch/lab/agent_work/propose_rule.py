"""How a run is judged, as an agent is told it: by the rule and the noise that its campaign has."""

from __future__ import annotations

import math

from autoresearch.core.campaign import tip
from autoresearch.core.campaign.judgement import resolution_of, rule_of, shown_noise
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.statistics.student_t import t_quantile
from autoresearch.core.text.numbers import counted
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.sections import section
from autoresearch.lab.campaign_report import formatting, summary


def judged(propose_context: ProposeContext) -> str:
    """The section of a prompt."""
    state = propose_context.state
    metric, band = state.spec.objective.metric, summary.band_of(state)
    lines = [f"By the last finite {metric} that {_source(state)}."]
    limits = " and ".join(map(formatting.plain, state.spec.constraints))
    lines += [f"Its idea counts as crashed, however good, unless {limits}."] if limits else []
    lines += [f"The baseline's is {band.mean:.4g}, the mean of {counted(band.n, 'run')}."] if band else []
    if state.unseeded:
        lines.append(_one_run(state))
    else:
        lines += [_noise(state), *(_tip(state) if state.searches_by_tip else _chain(state))]
    return section("How a run is judged", lines)


def _source(state: CampaignState) -> str:
    if state.spec.self_reported:
        return "a run records; how it is computed and logged is not to be changed"
    return "the evaluation measures after a run, with code that no idea can change"


def _noise(state: CampaignState) -> str:
    noise = shown_noise(state)
    if noise.shown_sd is None:
        return "The noise is not known yet."
    differ = math.sqrt(2) * t_quantile(0.95, noise.df) * noise.shown_sd
    return (
        f"The noise: a run has a standard deviation of {noise.shown_sd:.3g} (all replicates, {noise.df} degrees of "
        f"freedom), and two runs of the same code differ by less than {differ:.2g} in nine of ten cases."
    )


def _one_run(state: CampaignState) -> str:
    bar = resolution_of(state)
    return (
        "Runs are copies whatever their seed, so each idea has one, and none is confirmed: it is kept if it is "
        f"better than the idea to beat by more than {bar.size:.3g} ({bar.source}). A simpler one is kept if it is at "
        "most that much worse."
    )


def _tip(state: CampaignState) -> list[str]:
    rule = rule_of(state)
    return [
        "An idea is edited on the tip, the merge of all edits that seem good, and runs once. All runs together say "
        "what each edit is worth, and an interval of nine cases in ten: one whose effect is above "
        f"{tip.SURE:g} of its standard error is in the tip.",
        f"The tip is tested at the end, and before that when it promises {tip.PROMISE:g} standard deviations of a run "
        f"more than the idea to beat, {tip.EVERY} ideas after the last test at the earliest. It has up to {rule.most} "
        "runs with other seeds, and is kept if a t-test shows that it is better than the idea to beat. No other code "
        "idea is kept.",
    ]


def _chain(state: CampaignState) -> list[str]:
    rule = rule_of(state)
    if rule.most == 1:
        kept = "Each idea runs once. It is kept if a t-test shows that it is better than the idea to beat."
    else:
        kept = (
            f"An idea is run again with other seeds, up to {rule.most} times, as long as its mean is better than that "
            f"of the idea to beat by {rule.first:g} standard errors. From {rule.least} runs on it is kept if a t-test "
            "agrees."
        )
    end = (
        "At the end what was kept is put to the proof by fresh runs."
        if state.spec.confirm
        else "Nothing is confirmed at the end."
    )
    return [f"{kept} A simpler one is kept if it is at most {rule.flat:g} standard deviations worse.", end]
