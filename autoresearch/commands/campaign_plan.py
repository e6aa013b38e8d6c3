"""The plan of a campaign, to which a person agrees before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.commands import output
from autoresearch.commands.output import CommandResult, TableRows
from autoresearch.core.statistics.screening import LEAST
from autoresearch.core.text.numbers import counted, span

if TYPE_CHECKING:
    from autoresearch.core.campaign.spec import CampaignSpec
    from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign


_KNOWN_SEEDS = {
    **{"random": "every run is a replicate", "fixed": "runs are copies, and nothing can be confirmed"},
    "none": "one run of each idea tells, if the runs of the baseline are equal",
}


def unless_agreed(
    proposed: ProposedCampaign,
    *,
    full: bool,
    first: tuple[str, str] = ("", ""),
    asking: bool = False,
    exit_code: int = 0,
    agree: str = "--yes",
) -> CommandResult | None:
    """Show the plan and ask; None where a person agreed, else what is to be said: how to agree, and nothing changed.

    first: a row above all others. full: all rows, and not only those that are needed to agree, and what is unusual.
    agree: the option that agrees, "" if the line without `--dry-run` does.
    """
    from autoresearch.core.blueprint.finding import one_of_a_kind
    from autoresearch.lab.disk.usage import GB, free_bytes, gb

    existing, free = free_bytes(proposed.campaign_dir.path)
    disk = f"at most {proposed.spec.keep_gb:g} GB of outputs are kept; {gb(free)} free in {existing}"
    rows = [row for row in ((*first, True), *plan_rows(proposed, disk)) if row[1]]
    remarks = [("remark", words) for words in one_of_a_kind(proposed.findings)]
    shown = TableRows([*((key, value) for key, value, short in rows if short or full), *remarks])
    if asking:
        output.say("the campaign (--full: all of it):")
        output.table(shown.rows)
        return None if output.confirmed("Start it?") else CommandResult({})
    payload = {
        "campaign": proposed.spec.name,
        "state": "planned",
        "exit_code": exit_code,
        "plan": {key: value for key, value, _ in rows},
        "cost": proposed.cost.to_json(),
        "disk": {"keep_at_most": round(proposed.spec.keep_gb * GB), "free": free},
        "remarks": [str(finding) for finding in proposed.findings],
        "next": [output.typed.again(*filter(None, [agree]), without=("--json", "--dry-run", "--yes", "--full"))],
    }
    if exit_code:
        output.remark("nothing was started: --yes starts it, and --dry-run only plans")
    head = "nothing was changed; the plan:" if full else "nothing was changed; the plan (--full: all of it):"
    return CommandResult(payload, [head, shown], exit_code=exit_code)


def plan_rows(proposed: ProposedCampaign, disk_words: str) -> list[tuple[str, str, bool]]:
    """What will be run, where, for how long at most, and where each value came from; "" where there is nothing.

    And whether a person needs it to agree, or would not expect it.
    """
    from autoresearch.core.metrics.constraint import constraint_words
    from autoresearch.lab.resolve.shown_paths import shown_words

    spec, rules, trainer = proposed.spec, proposed.spec.rules, proposed.trainer_settings

    def source_of(key: str) -> str:
        return f"  ({spec.sources[key]})" if key in spec.sources else ""

    stops = [
        f"{rules.count} ideas, the baseline among them{source_of('count')}" if rules.count and not spec.prove else "",
        f"in {span(rules.deadline - spec.created)}{source_of('deadline')}" if rules.deadline else "",
        f"{rules.budget_gpu_hours:g} GPU hours" if rules.budget_gpu_hours else "",
        f"{rules.budget_usd:g} USD" if rules.budget_usd else "",
        f"{rules.budget_tokens:,} tokens" if rules.budget_tokens else "",
        f"{spec.objective.metric} reaching {rules.target:g}" if rules.target is not None else "",
    ]
    dirty = proposed.base.dirty
    space = "; ".join(f"{key} {_values(value)}" for key, value in spec.proposer.space.items())
    differ = f", {'1 file differs' if len(dirty) == 1 else f'{len(dirty)} files differ'} from HEAD" if dirty else ""
    looks = "a number of the optimiser or a tip" if spec.search == "tip" else "an idea"
    elsewhere = not all(place.is_local for place in spec.places)
    return [
        ("objective", f"{spec.objective}{source_of('metric')}", True),
        ("constraints", (words := constraint_words(spec.constraints)) and f"{words}{source_of('constraints')}", True),
        ("command", " ".join(trainer.resolved.blueprint.launch_command.split())[:200], True),
        ("python", spec.interpreter_words, True),
        ("stops at", "; ".join(stop for stop in stops if stop), True),
        ("each run", f"at most {span(proposed.cost.limit_s)}; {spec.parallel} at a time{source_of('parallel')}", False),
        ("runs", _runs_of_proof(proposed) or proposed.cost.runs_words, True),
        ("hours", proposed.cost.hours_words, True),
        ("where", f"{', '.join(map(str, spec.places))}{source_of('launcher')}", elsewhere),
        ("earlier", ", ".join(Path(one).name for one in spec.earlier), False),
        ("baseline", f"{counted(spec.replicates, 'run')}, on {spec.branch('baseline')}{source_of('baseline')}", False),
        ("seeds", _seed_words(proposed), spec.seeding in _KNOWN_SEEDS),
        ("ideas from", f"{spec.proposer.name}{source_of('proposer')} {spec.proposer.queue}".rstrip(), not spec.prove),
        ("space", space and f"{space}{source_of('space')}", True),
        ("measured by", _evaluation_words(proposed), True),
        *_agent_rows(spec),
        ("screen", (words := _screen_words(spec)) and f"{words}{source_of('screen')}", True),
        ("search", _search_words(proposed), True),
        ("re-tests", f"up to {spec.retests} more runs of {looks} that looks better", False),
        ("claims", _claim_words(proposed), not spec.confirm),
        ("base", f"{spec.base}{differ}", False),
        ("dirty", ", ".join(dirty[:8]) + (" ..." if len(dirty) > 8 else ""), True),
        ("branches", f"{spec.prefix}/<idea>, all kept", False),
        ("disk", disk_words, False),
        ("ledger", f"{spec.directory}/results.tsv", False),
        ("GPUs", (spec.gpus and f"{', '.join(spec.gpus)}; {spec.gpus_per_run} a run") or "", True),
        ("not in git", (seen := shown_words(spec.shown)) and f"shown to the runs: {seen}", True),
        ("hide", ", ".join(spec.hide), True),
    ]


def _screen_words(campaign_spec: CampaignSpec) -> str:
    """The cheap first stage of an idea; "" without one."""
    cheap = ", ".join(f"{key}={value}" for key, value in campaign_spec.screen_overrides.items())
    if cheap:
        return f"each idea with {cheap} first, as {LEAST} runs of the baseline; what is clearly behind runs no further"
    return f"first runs, after {span(campaign_spec.screen_s)}" if campaign_spec.screen_s else ""


def _values(space: object) -> str:
    """What a key may take, as people write it: `0.001 to 0.1 (log)`, `4, 8 or 16`."""
    if isinstance(space, Mapping) and {"low", "high"} <= space.keys():
        more = [name if value is True else f"{name} {value}" for name, value in space.items() if value is not False]
        more = [words for words in more if words.split()[0] not in ("low", "high")]
        return f"{space['low']} to {space['high']}" + (f" ({', '.join(more)})" if more else "")
    if isinstance(space, list | tuple):
        return " or ".join(filter(None, [", ".join(map(str, space[:-1])), *map(str, space[-1:])]))
    return str(space)


def _seed_words(proposed: ProposedCampaign) -> str:
    """How runs are seeded, and whether it will be seen that the seed does anything."""
    from autoresearch.core.campaign.spec import CHECKED

    spec = proposed.spec
    if spec.seeding in _KNOWN_SEEDS:
        return f"{_KNOWN_SEEDS[spec.seeding]} ({spec.seeding_why})"
    shown = "runs of the baseline show" if spec.confirm or spec.replicates >= CHECKED else "nothing will show"
    return f"{proposed.trainer_settings.seed_words}; {shown} whether seeds change anything"


def _search_words(proposed: ProposedCampaign) -> str:
    """How a search on the tip goes, and what a proof of it costs; "" of a chain."""
    from autoresearch.core.campaign.tip import EVERY

    spec = proposed.spec
    if spec.search != "tip":
        return ""
    each = f"{counted(1 + spec.retests, 'run')} at most each"
    return (
        f"on the tip: a code idea runs once, on the merge of all that seem good; that is proved after {EVERY} ideas "
        f"if it promises enough, and at the end ({each}); search=chain re-tests single ideas instead"
    )


def _claim_words(proposed: ProposedCampaign) -> str:
    """What may be claimed at the end, and what that costs; without a confirmation, what is given up."""
    if proposed.spec.prove:
        return ""  # it is all that there is, see the row `runs`
    if not proposed.spec.confirm:
        return "none (confirm: false): the number of a kept idea is likely too good, as the idea was picked for it"
    return f"{proposed.cost.proof} fresh runs of the best idea and the baseline at the end confirm it or not"


def _runs_of_proof(proposed: ProposedCampaign) -> str:
    """How many runs a proof takes; "" of another campaign."""
    runs, cost = proposed.cost.runs, proposed.cost
    if runs is None or not proposed.spec.prove:
        return ""
    first = f"{runs.baseline} of the one, {runs.first} of the other, then {cost.proof} fresh ones of both together"
    return f"at most {runs.most}: {first}"


def _evaluation_words(proposed: ProposedCampaign) -> str:
    """What measures each run; where an agent edits what trains, also that nothing does."""
    notes = proposed.trainer_settings.resolved.blueprint.notes
    if notes.evaluate:
        return f"{'; '.join(notes.evaluate)} at the base commit, within {span(notes.evaluate_s)}"
    none = "the output of the training; `- evaluate: COMMAND` in the notes would measure it separately"
    return none if proposed.spec.research.agent else ""


def _agent_rows(campaign_spec: CampaignSpec) -> list[tuple[str, str, bool]]:
    """Which agent takes part, and what it may do."""
    from autoresearch.core.agents.agent import BUDGET_TURNS
    from autoresearch.core.agents.turns import HYBRID

    own, budget = campaign_spec.research, campaign_spec.rules.budget_usd
    if not own.agent:
        return []
    share = f"; {own.share:.0%} of the ideas, the others are tpe's" if campaign_spec.proposer.name == HYBRID else ""
    bounds = f"each turn at most {span(own.turn_s)}"
    if own.turn_usd or budget:
        tenth = "" if own.turn_usd else " (a tenth of the budget)"
        bounds += f" and {own.turn_usd or (budget or 0.0) / BUDGET_TURNS:g} USD{tenth}"
    every = [own.of(agent) for agent in own.agents]
    name = ", ".join(f"{one.agent} {one.model}".strip() for one in every)
    return [
        ("agent", f"{name}{share}; {bounds}; {own.max_fixes} fixes an idea{'; a review' if own.review else ''}", True),
        ("guard", "; ".join(own.guard) or "none: --set guard='python -m pytest -q' would try each edit first", True),
    ]
