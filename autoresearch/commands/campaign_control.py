"""`autoresearch campaign pause|resume|stop|set|approve|confirm`, and what hands a request to its controller."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.campaign import as_they_are_now, go_on
from autoresearch.commands.campaign_view import changed, known_idea, state_of
from autoresearch.commands.name_lookup import DirectionWord, campaign_to_change
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError, EnvironmentUnusable, NotFoundError, UsageError
from autoresearch.lab.campaigns import context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autoresearch.core.campaign.state import CampaignState
    from autoresearch.records.campaign_records import CampaignDir

Name = Annotated[str, Positional(metavar="CAMPAIGN", show_default=False)]
OfCampaign = Annotated[str, Option("--campaign")]
Reason = Annotated[str, Option(help="Why; goes into the journal.")]
MOST_CHARACTERS = 4000  # of what the agent is told
RULES = ("count", "deadline", "target", "budget_gpu_hours", "budget_usd", "budget_tokens", "confirm_runs")
_PAIR = later(r"[A-Za-z_-]+=")  # the name of a campaign, or its directory, is none


def pause(campaign: Name = "", reason: Reason = "") -> CommandResult:
    """Begin nothing more; what runs goes on."""
    campaign_dir = campaign_to_change(campaign, real_parts())
    return ask(campaign_dir, "pause", reason=reason)


def stop(
    campaign: Name = "",
    drain: Annotated[bool, Option("--drain", help="Let what runs finish first.")] = False,
    reason: Reason = "",
) -> CommandResult:
    """Stop what runs now, record it, and end the campaign."""
    campaign_dir = campaign_to_change(campaign, real_parts())
    return ask(campaign_dir, "drain" if drain else "stop", ends=True, reason=reason)


def resume(
    campaign: Name = "",
    detach: Annotated[bool, Option("--detach")] = False,
    every: Annotated[bool, Option("--all", help="All that a restart of this machine interrupted.")] = False,
    metric: Annotated[str, Option(help="The objective, where the baseline's runs had to show it.")] = "",
    direction: DirectionWord = "",
    yes: Annotated[bool, Option("--yes", hidden=True)] = False,
) -> CommandResult:
    """Go on: after a pause, a crash of the controller, a reboot."""
    del yes  # the plan was agreed to when it began
    if every:
        return _resume_all()
    from autoresearch.core.controller.sentences import more_ideas

    parts = real_parts()
    campaign_dir = campaign_to_change(campaign, parts, stands=True)
    state = state_of(campaign_dir)
    if state.phase is CampaignPhase.ENDED:
        raise ConflictError(
            f"{state.spec.name} has ended: {state.reason}",
            hint="`campaign set` with a higher count or a later deadline makes it go on",
            fix=more_ideas(state),
        )
    chosen = [f"{key}={word}" for key, word in (("metric", metric), ("direction", direction)) if word]
    if chosen and state.phase is not CampaignPhase.PAUSED:
        raise ConflictError(f"{state.spec.name} is {state.phase}: its objective is chosen while it is paused")
    return go_on(campaign_dir, parts, chosen, detach=detach or output.agent_or_pipe())


def _resume_all() -> CommandResult:
    """Go on with what a restart of this machine interrupted, in every project."""
    from autoresearch.lab.campaign_setup import start_campaign

    found = start_campaign.start_interrupted(real_parts())
    lines = [f"{one['campaign']} in {one['directory']} {one['error'] or 'goes on'}" for one in found]
    code = EnvironmentUnusable.exit_code if any(one["error"] for one in found) else 0
    return CommandResult({"campaigns": found, "next": []}, lines or ["no campaign was interrupted"], exit_code=code)


def set_rules(
    words: Annotated[list[str] | None, Positional(metavar="[CAMPAIGN] KEY=VALUE...", show_default=False)] = None,
) -> CommandResult:
    """Change the stop rules of a campaign, or confirm_runs; recorded. One that has ended goes on if it may."""
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaign_setup.campaign_keys import TYPES
    from autoresearch.lab.yaml_files import parse_pairs

    pairs = [word for word in words or () if _PAIR.match(word)]
    names = [word for word in words or () if not _PAIR.match(word)]
    if len(names) > 1 or not pairs:
        raise UsageError(
            f"{names[-1]!r} is no KEY=VALUE" if names else "which rule?",
            hint=f"the rules are {', '.join(RULES)}",
            fix=f"autoresearch campaign set {(names or ['CAMPAIGN'])[0]} count=40 deadline=10h",
        )
    parts = real_parts()
    campaign_dir = campaign_to_change(names[0] if names else "", parts)
    state = state_of(campaign_dir)
    if terms := [pair for pair in pairs if not {*RULES} >= parse_pairs([pair], TYPES, option="").keys()]:
        return _set_terms(campaign_dir, state, terms, alone=terms == pairs)
    changes = state.spec.changed_rules(_rules(pairs, state, parts.clock()))
    if campaign_dir.controlled:
        context.ask(campaign_dir, "set", **changes)
        start_campaign.settled(campaign_dir)
    elif state.phase is CampaignPhase.ENDED:
        start_campaign.continue_with(campaign_dir, changes)
        start_campaign.start_and_wait(campaign_dir, parts)
    else:
        from autoresearch.records import campaign_records

        campaign_records.append(campaign_dir, "rules", **changes)
    return changed(campaign_dir, f": {', '.join(f'{k} = {v}' for k, v in changes.items())}")


def _set_terms(
    campaign_dir: CampaignDir, state: CampaignState, pairs: Sequence[str], *, alone: bool
) -> CommandResult:
    """Lay keys that are no stop rules over the file of a paused campaign, as far as its runs stay comparable."""
    name, words = state.spec.name, " ".join(pairs)
    if state.phase is CampaignPhase.ENDED:
        options = [word for pair in pairs for word in ("--set", pair)]
        words = shlex.join([str(state.spec.read_from.get("file") or state.spec.blueprint), *options])
        message = f"{name} has ended, and only stop rules let it go on: {', '.join(RULES)}"
        raise ConflictError(message, fix=f"autoresearch campaign start {words}")
    if state.phase is not CampaignPhase.PAUSED or campaign_dir.controlled or not alone:
        message = f"{words} is no stop rule ({', '.join(RULES)}): it is set alone, while {name} is paused"
        fix = shlex.join(["campaign", "set", name, *pairs]) if not alone else f"campaign pause {name}"
        raise ConflictError(message, fix=f"autoresearch {fix}", code="not_paused")
    more = as_they_are_now(campaign_dir, pairs)
    if not more["taken"]:
        raise ConflictError(f"nothing is taken of {words}: what {name} has measured has to stay comparable")
    return changed(campaign_dir, f": {words}; go on with autoresearch campaign resume {name}", more)


def _rules(pairs: Sequence[str], state: CampaignState, now: float) -> dict[str, Any]:
    """The rules in KEY=VALUE words, checked as a campaign file's are."""
    from autoresearch.core.campaign.spec import parse_target
    from autoresearch.lab.campaign_setup.campaign_keys import CAMPAIGN_KEYS, TYPES
    from autoresearch.lab.yaml_files import parse_pairs

    values = parse_pairs(pairs, {name: TYPES[name] for name in RULES}, option="")
    for name, value in values.items():
        if value is None:
            raise UsageError(f"{name}=null: a stop rule of a campaign that has started can be changed, not removed")
        try:
            values[name] = CAMPAIGN_KEYS[name].read(value, now)
            if name == "target":
                values[name] = parse_target(values[name], state.spec.objective)
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError(f"{name}: {error}") from None
    return values


def ask(campaign_dir: CampaignDir, do: str, *, ended: bool = False, ends: bool = False, **fields: Any) -> CommandResult:
    """Hand a request to the controller of a campaign, and say where the campaign stands then.

    `ended`: also of one that has ended: whoever continues it answers. `ends`: it is the end of one that is paused, too.
    """
    from autoresearch.lab.campaign_setup import start_campaign

    state = state_of(campaign_dir)
    if state.phase is CampaignPhase.ENDED and not ended:
        fix = f"autoresearch report {state.spec.name}"
        raise ConflictError(f"{state.spec.name} has ended: {state.reason}", fix=fix)
    context.ask(campaign_dir, do, **{k: v for k, v in fields.items() if v != ""})
    start_campaign.settled(campaign_dir)
    state = state_of(campaign_dir)
    if ends and state.phase is CampaignPhase.PAUSED:
        start_campaign.answered(campaign_dir, real_parts())
    words = ": the request is recorded"
    if state.phase is CampaignPhase.ENDED:
        words += f"; go on with autoresearch campaign confirm {fields.get('slug', '')}"
    elif not campaign_dir.controlled:
        why = "it is paused" if state.phase is CampaignPhase.PAUSED else "no controller is running"
        words += f"; {why}: autoresearch campaign resume {state.spec.name}"
    return changed(campaign_dir, words)


# ------------------------------------------------------------------------------------------ what a person lets pass


def approve(
    idea: Annotated[str, Positional(metavar="IDEA", show_default=False)],
    campaign: OfCampaign = "",
) -> CommandResult:
    """Let an idea be built on and claimed whose result looked doubtful."""
    campaign_dir = campaign_to_change(campaign, real_parts(), of_idea=True)
    doubtful = state_of(campaign_dir).doubtful
    known = next((one for one in doubtful if idea in (one.slug, str(one.index), f"#{one.index}")), None)
    if known is None:
        raise NotFoundError(
            f"{campaign_dir.path.name} has no idea {idea!r} that waits for a person",
            hint=f"waiting: {', '.join(one.slug for one in doubtful) or 'none'}",
        )
    return ask(campaign_dir, "approve", slug=known.slug, ended=True)


def confirm(
    ideas: Annotated[list[str] | None, Positional(metavar="IDEA...", show_default=False)] = None,
    campaign: OfCampaign = "",
) -> CommandResult:
    """Put ideas to the proof: fresh seeds, fresh baselines, corrected for the choice. Default: the best.

    A discarded or screened idea may be named, too: the interval of its gain says what one run could not.
    """
    from autoresearch.core.controller.confirmation_rounds import next_round, plan_round
    from autoresearch.core.controller.sentences import more_ideas, seed_words
    from autoresearch.core.statistics.confirmation import fewest_runs
    from autoresearch.lab.campaign_setup import start_campaign

    parts = real_parts()
    campaign_dir = campaign_to_change(campaign, parts, of_idea=True)
    state = state_of(campaign_dir)
    name, is_over = state.spec.name, state.phase is CampaignPhase.ENDED
    named = [known_idea(state, word) for word in ideas or []]
    kept = f"autoresearch campaign status {name} --full"
    for idea in named:
        if idea.hypothesis.is_baseline:
            raise ConflictError("the baseline is what ideas are measured against: it cannot be confirmed", fix=kept)
        if not (idea.screened or idea.passed or (idea.status in ("keep", "discard") and idea.values)):
            why = idea.status or "not over"
            raise ConflictError(f"{idea.name} has no result that could be confirmed ({why})", fix=kept)
    asked = named or ([state.best] if state.best else [])
    if done := next((idea for idea in asked if idea.confirmed == "confirmed"), None):
        raise ConflictError(f"{done.name} is confirmed already", fix=f"autoresearch report {name}")
    if not ideas and not (state.best and state.best.index > 1):
        more = more_ideas(state) if is_over else f"autoresearch wait {name}"
        raise ConflictError(f"{name} keeps nothing but its baseline: there is nothing to confirm", fix=more)
    if state.unseeded and all(idea.confirmed for idea in asked):
        raise ConflictError(f"nothing can be confirmed. {seed_words(state)}", code="unseeded")
    planned, cost = plan_round(state, asked)
    least = fewest_runs(next_round(state), len(asked))
    if state.spec.rules.confirm_runs < least and not (state.unseeded or state.open_round):
        fix = f"autoresearch campaign set {name} confirm_runs={least}"
        raise ConflictError(f"nothing can be confirmed: {cost}", fix=fix, code="too_few_confirm_runs")
    context.ask(campaign_dir, "confirm", slugs=[idea.slug for idea in named])
    if not campaign_dir.controlled and state.phase is not CampaignPhase.PAUSED:
        if is_over:
            start_campaign.continue_with(campaign_dir, {})
        start_campaign.start_and_wait(campaign_dir, parts)
    names = ", ".join(idea.name for idea in named) or "the best idea"
    result = changed(campaign_dir, f": {'put to the proof; ' if planned else ''}{cost}")
    return CommandResult(result.payload, [f"{names} of {line}" for line in result.lines])
