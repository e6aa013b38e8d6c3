"""The plan of a campaign, to which a person agrees before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from autoresearch.commands import output
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.text.counted import counted

if TYPE_CHECKING:
    from autoresearch.core.campaign.spec import CampaignSpec
    from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign


PUT_ON = "the best idea so far when each begins; `parent: baseline` in an entry keeps questions apart"
_JSON_KEYS = {"agent": "researcher"}  # rows of the plan whose key for programs is another


def unless_agreed(
    proposed: ProposedCampaign, begins: str, *, asking: bool, exit_code: int, agree: str = "--yes"
) -> CommandResult | None:
    """Show the plan and ask; None where a person agreed, else what is to be said: how to agree, and nothing changed.

    agree: the option that agrees, "" if the line without `--dry-run` does.
    """
    from autoresearch.lab.disk.campaign_disk import planned_disk

    disk = planned_disk(proposed.spec, proposed.cost.runs, proposed.base.checkout, real_parts())
    rows = [("begins", begins), *plan_rows(proposed, disk.words)]
    findings = (*proposed.findings, *disk.findings)
    rows = [row for row in rows if row[1]] + [("remark", str(finding)) for finding in findings]
    if asking:
        output.say("the campaign:")
        output.table(rows)
        return None if typer.confirm("Start it?", default=True) else CommandResult({})
    payload = {
        "campaign": proposed.spec.name,
        "state": "planned",
        "exit_code": exit_code,
        "plan": {_JSON_KEYS.get(key, key): value for key, value in rows if key != "remark"},
        "cost": proposed.cost.to_json(),
        "disk": disk.to_json(),
        "remarks": [value for key, value in rows if key == "remark"],
        "next": [output.typed.again(*filter(None, [agree]), without=("--json", "--dry-run", "--yes"))],
    }
    if exit_code:
        output.remark("nothing was started: --yes starts it, and --dry-run only plans")
    lines = ["nothing was changed; the plan is:", *(f"{key:<12} {value}" for key, value in rows)]
    return CommandResult(payload, lines, exit_code=exit_code)


def plan_rows(proposed: ProposedCampaign, disk_words: str) -> list[tuple[str, str]]:
    """What will be run, where, for how long at most, and where each value came from; "" where there is nothing."""
    from autoresearch.core.campaign.stop_rules import span

    spec, rules, trainer = proposed.spec, proposed.spec.rules, proposed.trainer_settings

    def source_of(key: str) -> str:
        return f"  ({spec.sources[key]})" if key in spec.sources else ""

    left = f"{span(rules.deadline - spec.created)} from now" if rules.deadline else ""
    stops = [
        f"{rules.count} ideas, the baseline among them{source_of('count')}" if rules.count else "",
        f"in {left}{source_of('deadline')}" if left else "",
        f"{rules.budget_gpu_hours:g} GPU hours" if rules.budget_gpu_hours else "",
        f"{rules.budget_usd:g} USD" if rules.budget_usd else "",
        f"{rules.budget_tokens:,} tokens" if rules.budget_tokens else "",
        f"{spec.objective.metric} reaching {rules.target:g}" if rules.target is not None else "",
    ]
    dirty = proposed.base.dirty
    space = "; ".join(f"{key} {_values(value)}" for key, value in spec.proposer.space.items())
    recording = trainer.recording.source if trainer.recording else None
    differ = f", {'1 file differs' if len(dirty) == 1 else f'{len(dirty)} files differ'} from HEAD" if dirty else ""
    return [
        ("campaign", proposed.earlier),
        ("objective", f"{spec.objective.metric}, {spec.objective.direction}{source_of('metric')}"),
        ("command", " ".join(trainer.resolved.blueprint.launch_command.split())[:200]),
        ("stops at", "; ".join(stop for stop in stops if stop)),
        ("each run", f"at most {span(proposed.cost.limit_s)}; {spec.parallel} at a time{source_of('parallel')}"),
        ("runs", proposed.cost.runs_words),
        ("hours", proposed.cost.hours_words),
        ("room", proposed.cost.fits_words),
        ("first step", proposed.first_step_rule),
        ("where", f"{', '.join(map(str, spec.places))}{source_of('launcher')}"),
        ("baseline", f"{counted(spec.replicates, 'run')}, on {spec.branch('baseline')}{source_of('baseline')}"),
        ("seeds", _seed_words(proposed)),
        ("metrics", (recording and f"{recording.format} in the directory of each run, switched on") or ""),
        ("ideas from", f"{spec.proposer.name}{source_of('proposer')} {spec.proposer.queue}".rstrip()),
        ("put on", PUT_ON if spec.proposer.queue else ""),
        ("space", space and f"{space}{source_of('space')}"),
        ("measured by", _evaluation_words(proposed)),
        *_agent_rows(spec),
        ("early stop", spec.prune and f"{spec.prune}, after step {spec.warmup}{source_of('prune')}"),
        ("re-tests", f"up to {spec.retests} more runs of an idea that looks better"),
        ("if it fails", _failure_words(proposed)),
        ("claims", _claim_words(spec)),
        ("base", f"{spec.base}{differ}"),
        ("dirty", ", ".join(dirty[:8]) + (" ..." if len(dirty) > 8 else "")),
        ("branches", f"{spec.prefix}/<idea>, all kept"),
        ("worktrees", f"{spec.parallel + 1} in {spec.trees}"),
        ("results", f"{spec.result_dir}/<idea>"),
        ("outputs", _outputs_words(proposed)),
        ("disk", disk_words),
        ("ledger", f"{spec.directory}/results.tsv"),
        ("GPUs", (spec.gpus and f"{', '.join(spec.gpus)}; {spec.gpus_per_run} a run") or ""),
        ("include", ", ".join(spec.include)),
        ("hide", ", ".join(spec.hide)),
    ]


def _values(space: object) -> str:
    """What a key may take, as people write it: `0.001 to 0.1 (log)`, `4, 8 or 16`."""
    if isinstance(space, Mapping) and {"low", "high"} <= space.keys():
        more = [name if value is True else f"{name} {value}" for name, value in space.items() if value is not False]
        more = [words for words in more if words.split()[0] not in ("low", "high")]
        return f"{space['low']} to {space['high']}" + (f" ({', '.join(more)})" if more else "")
    if isinstance(space, Mapping):  # {value: 80} or {choices: [4, 8]}
        space = next(iter(space.values()))
    if isinstance(space, list | tuple):
        return " or ".join(filter(None, [", ".join(map(str, space[:-1])), *map(str, space[-1:])]))
    return str(space)


def _seed_words(proposed: ProposedCampaign) -> str:
    """How runs are seeded, and how it will be seen whether the seed does anything."""
    campaign_spec = proposed.spec
    known = {"random": "every run is a replicate", "fixed": "runs are copies, and nothing can be confirmed"}
    if campaign_spec.seeding in known:
        return f"{known[campaign_spec.seeding]} ({campaign_spec.seeding_why})"
    return f"{proposed.trainer_settings.seed_words}; {_seed_check_words(campaign_spec)}"


def _seed_check_words(campaign_spec: CampaignSpec) -> str:
    """How it will be seen whether the seed does anything."""
    from autoresearch.core.controller.scheduler import CHECKED

    bar = campaign_spec.resolution
    exact = "" if bar is None else f"; if not, a gain of more than {bar:g} counts"
    if campaign_spec.replicates >= CHECKED:
        return f"run 2 of the baseline repeats the first one's, which shows whether seeds change anything{exact}"
    if not campaign_spec.confirm:
        return f"whether seeds change anything stays unknown: that takes {CHECKED} runs of the baseline"
    return f"{CHECKED} runs of the baseline, made before any claim, show whether seeds change anything{exact}"


def _claim_words(campaign_spec: CampaignSpec) -> str:
    """What may be claimed at the end, and what that may cost; without a confirmation, what is given up."""
    if not campaign_spec.confirm:
        return (
            "none (confirm: false): nothing may be claimed, and the number of a kept idea is likely too good, as the "
            "idea was picked for it"
        )
    most = campaign_spec.rules.confirm_runs
    return (
        f"at the end, at most {most} fresh runs of the best idea and of the baseline together confirm it or not; "
        "if not, the next best idea is tested with what is left of them "
        f"(`campaign set {campaign_spec.name} confirm_runs={most + 8}` allows more runs)"
    )


def _outputs_words(proposed: ProposedCampaign) -> str:
    """What is kept of what the runs write, and what will be gone."""
    from autoresearch.lab.campaign_setup.preflight import named_outputs

    spec = proposed.spec
    named = ", ".join(f"{key} {value}" for key, value in named_outputs(proposed.launch).items())
    far = [place.name for place in spec.places if not place.is_local]
    gone = f"; other files that a run writes at {', '.join(far)} stay there" if far else ""
    return (
        f"what a run writes in its worktree{f' ({named})' if named else ''} is kept in its run directory, "
        f"{spec.keep_gb:g} GB in all (keep_gb); beyond that, those of discarded ideas are removed, oldest first, never "
        f"the best idea's; caches and data/ are not kept{gone}"
    )


def _failure_words(proposed: ProposedCampaign) -> str:
    """What becomes of a run that fails, by who did it."""
    from autoresearch.lab.recipes.continuation import can_go_on

    settings, most = proposed.trainer_settings, proposed.spec.max_machine_retries
    result = "a failure that the idea caused is its result"
    if not most:
        return f"{result}, one that the machine caused says nothing about it, and neither is retried"
    begins = "from the beginning (`- resume: true` in the notes: from the last checkpoint)"
    if settings.resolved.blueprint.notes.resume:
        able = can_go_on(settings.trainer, settings.whole)
        begins = "from the last checkpoint" if able else "from the beginning, as this recipe keeps no checkpoints"
    times = "once" if most == 1 else f"up to {most} times"
    return f"{result}; one that the machine caused (preemption, a lost host, a full disk) is retried {times}, {begins}"


def _evaluation_words(proposed: ProposedCampaign) -> str:
    """What measures each run; where an agent edits what trains, also that nothing does."""
    notes = proposed.trainer_settings.resolved.blueprint.notes
    if notes.evaluate:
        return f"{'; '.join(notes.evaluate)} at the base commit, within {output.duration(notes.evaluate_s)}"
    none = "the output of the training; `- evaluate: COMMAND` in the notes would measure it separately"
    return none if proposed.spec.research.agent else ""


def _agent_rows(campaign_spec: CampaignSpec) -> list[tuple[str, str]]:
    """Which agent takes part, and what it may do."""
    from autoresearch.core.campaign.stop_rules import span
    from autoresearch.core.controller.agent_schedule import HYBRID

    own = campaign_spec.research
    if not own.agent:
        return []
    share = f"; {own.share:.0%} of the ideas, the others are tpe's" if campaign_spec.proposer.name == HYBRID else ""
    bounds = f"each turn at most {span(own.turn_s)}" + (f" and {own.turn_usd:g} USD" if own.turn_usd else "")
    name = f"{own.agent} {own.model}".strip()
    return [
        ("agent", f"{name}{share}; {bounds}; {own.max_fixes} fixes an idea{'; a review' if own.review else ''}"),
        ("guard", "; ".join(own.guard) or "none: --set guard='python -m pytest -q' would try each edit before its run"),
    ]
