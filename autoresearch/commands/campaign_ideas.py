"""`autoresearch campaign add|fix|skip`: ideas that a person brings, repairs or does not want."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional
from autoresearch.commands.campaign_control import Name, OfCampaign, Reason, ask
from autoresearch.commands.campaign_view import changed, idea_named, known_idea, state_of
from autoresearch.commands.name_lookup import campaign_to_change
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import ConflictError, NotFoundError, UsageError

if TYPE_CHECKING:
    from autoresearch.records.campaign_records import CampaignDir

Pairs = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="A recipe key.")]


def add(
    campaign: Name = "",
    set_: Pairs = None,
    file: Annotated[str, Option("--from", metavar="YAML", help="An entry, or a list of entries.")] = "",
    sentence: Annotated[str, Option(help="The idea in words.")] = "",
    slug: Annotated[str, Option(help="Its name.")] = "",
    parent: Annotated[str, Option(help="best, baseline, or an idea such as #7.")] = "",
) -> CommandResult:
    """Add an idea to the queue of a campaign that runs."""
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.core.controller.sentences import more_ideas
    from autoresearch.lab.campaigns import context
    from autoresearch.lab.ideas.idea_sources import ADDED
    from autoresearch.records.files import append_line

    campaign_dir = campaign_to_change(campaign, real_parts())
    entries = _listed(file)
    above = idea_named(state_of(campaign_dir), parent)
    given = {"slug": slug, "sentence": sentence, "parent": above.slug if above else parent}
    if set_:
        entries.append({"overrides": _overrides(set_), **{name: value for name, value in given.items() if value}})
    if not entries:
        raise UsageError("what is to be added?", hint="--set KEY=VALUE, or --from FILE")
    _refuse_entries(campaign_dir, entries, file)
    campaign_dir.queue.mkdir(exist_ok=True)
    for entry in entries:
        append_line(campaign_dir.queue / ADDED, b"- " + json.dumps(entry, ensure_ascii=False).encode() + b"\n")
    context.ask(campaign_dir, "add")
    state = state_of(campaign_dir)
    payload: dict[str, Any] = {"added": len(entries)}
    lines = [f"{len(entries)} added to {state.spec.name} in {campaign_dir.path}"]
    if state.phase is CampaignPhase.ENDED:  # nobody looks at its queue
        lines.append(f"it has ended ({state.reason}), and tries nothing more before its stop rules are changed")
        payload["next"] = [more_ideas(state, len(entries))]
    return CommandResult(changed(campaign_dir, "", payload).payload, lines)


def _refuse_entries(campaign_dir: CampaignDir, entries: list[Any], file: str) -> None:
    """QueueInvalid with all that is wrong with new entries; ConflictError where one stands in a queue already."""
    from autoresearch.lab.campaign_setup.proposer_spec import QueueInvalid, entry_findings
    from autoresearch.lab.ideas.idea_sources import ADDED
    from autoresearch.lab.yaml_files import parse_any
    from autoresearch.proposers.queue_entry import QUEUE, token_of

    if findings := entry_findings(entries, file):
        raise QueueInvalid(findings)
    state, added = state_of(campaign_dir), campaign_dir.queue / ADDED
    hypotheses = [*(idea.hypothesis for idea in state.ideas), *(one for one, _ in state.skipped)]
    known = {one.token for one in hypotheses if one.proposer == QUEUE}
    known |= {token_of(entry) for entry in (parse_any(added.read_bytes(), ADDED) if added.exists() else None) or ()}
    for entry in entries:
        if (token := token_of(entry)) in known:
            named = f"is called `{token}`" if isinstance(entry, dict) and entry.get("slug") else "changes this"
            raise ConflictError(f"an idea of {state.spec.name} {named} already", hint="another slug makes it another")
        known.add(token)


def fix(
    idea: Annotated[str, Positional(metavar="IDEA")],
    campaign: OfCampaign = "",
    set_: Pairs = None,
    file: Annotated[str, Option("--from", metavar="YAML", help="An entry with files, patches, overrides.")] = "",
    note: Annotated[str, Option(help="What was repaired.")] = "",
) -> CommandResult:
    """Repair an idea that crashed: a follow-up commit on its branch, then the same idea again."""
    from autoresearch.core.controller.next_actions import unrepairable
    from autoresearch.lab.campaign_setup.proposer_spec import QueueInvalid, entry_findings

    campaign_dir = campaign_to_change(campaign, real_parts(), of_idea=True)
    state = state_of(campaign_dir)
    known = known_idea(state, idea)
    if why := unrepairable(state, known):
        raise ConflictError(why[0], hint=why[1], code="not_repairable")
    entries = _listed(file)
    if len(entries) > 1:
        raise UsageError(f"{file} holds {len(entries)} entries; a fix is one")
    entry = dict(entries[0]) if entries else {}
    if set_:
        entry["overrides"] = {**dict(entry.get("overrides") or {}), **_overrides(set_)}
    if not entry:
        raise UsageError("what is to be repaired?", hint="--set KEY=VALUE, or --from FILE")
    if findings := entry_findings([entry], file):
        raise QueueInvalid(findings)
    return ask(campaign_dir, "fix", slug=known.slug, entry=entry, note=note)


def skip(
    what: Annotated[str, Positional(metavar="IDEA", show_default=False)],
    campaign: OfCampaign = "",
    reason: Reason = "",
) -> CommandResult:
    """Do not try an idea, and stop it if it runs."""
    from autoresearch.core.controller.runs_and_retries import decided
    from autoresearch.lab.ideas.idea_sources import waiting_names

    what = what.strip()
    campaign_dir = campaign_to_change(campaign, real_parts(), of_idea=True)
    state = state_of(campaign_dir)
    idea = idea_named(state, what)
    what = idea.slug if idea else what
    if what.lower() == "baseline":
        raise UsageError(
            "the baseline is what all else is measured against: it cannot be skipped",
            hint="`campaign stop` ends a campaign",
        )
    proposed = {one.hypothesis.slug for one in state.research.proposed.values()}
    if idea is None and what not in proposed | waiting_names(campaign_dir, state.spec):
        agent = f"`autoresearch note {state.spec.name} WORDS` tells the agent what not to propose"
        raise NotFoundError(
            f"{state.spec.name} has no idea {what!r}, and none waits to be begun",
            hint=agent if state.spec.research.agent else "",
            fix=f"autoresearch campaign status {state.spec.name} --full",
        )
    if idea is not None and decided(state, idea):
        raise ConflictError(f"{idea.name} is over ({idea.status}): nothing of it is left to skip", code="idea_over")
    return ask(campaign_dir, "skip", reason=reason, slug=what)


def _listed(file: str) -> list[Any]:
    """The entries in a YAML file, their paths made absolute; none for no file."""
    from autoresearch.lab.yaml_files import load_any
    from autoresearch.proposers.queue_entry import found_from_anywhere

    if not file:
        return []
    entries, folder = load_any(Path(file)), Path(file).absolute().parent
    return [found_from_anywhere(entry, folder) for entry in (entries if isinstance(entries, list) else [entries])]


def _overrides(pairs: list[str]) -> dict[str, Any]:
    from autoresearch.lab.yaml_files import parse_any

    overrides: dict[str, Any] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"--set {pair!r} is no KEY=VALUE", hint="--set optimizer.lr=3e-5")
        overrides[key.strip()] = parse_any(value.encode(), "--set")
    return overrides
