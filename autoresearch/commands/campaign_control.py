"""`autoresearch campaign pause|resume|stop|skip|add|fix|set|confirm|control`."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.campaign import _payload, _state, follow
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import ConflictError, NotFoundError, UsageError
from autoresearch.runner.masking import clean_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autoresearch.core.campaign.spec import Rules
    from autoresearch.core.metrics.objective import Objective
    from autoresearch.records.campaign_records import CampaignDir

Name = Annotated[str, typer.Argument(metavar="CAMPAIGN", show_default=False)]
Reason = Annotated[str, typer.Option(help="Why; goes into the journal.")]
Json = Annotated[bool, typer.Option("--json")]
RULES = ("count", "deadline", "target", "budget_gpu_hours", "budget_usd", "budget_tokens")
_PAIR = re.compile(r"[A-Za-z_-]+=")  # the name of a campaign, or its directory, is none
MOST_CHARACTERS = 4000  # of a note to the agent


def pause(
    campaign: Name = "",
    reason: Reason = "",
    before_edits: Annotated[
        bool, typer.Option("--before-edits", help="Only hold code ideas back, for `campaign approve`.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Begin nothing more; what runs goes on."""
    if before_edits:
        return ask(campaign, "hold", as_json=as_json, on=True, reason=reason)
    return ask(campaign, "pause", as_json=as_json, reason=reason)


def stop(
    campaign: Name = "",
    drain: Annotated[bool, typer.Option("--drain", help="Let what runs finish first.")] = False,
    reason: Reason = "",
    as_json: Json = False,
) -> int:
    """Stop what runs now, record it, and end the campaign."""
    return ask(campaign, "drain" if drain else "stop", as_json=as_json, command="campaign stop", reason=reason)


def skip(
    what: Annotated[str, typer.Argument(metavar="IDEA|TEXT", show_default=False)],
    campaign: Annotated[str, typer.Option("--campaign")] = "",
    reason: Reason = "",
    as_json: Json = False,
) -> int:
    """Do not try an idea, and stop it if it runs; or say in a few words which ideas the agent shall not propose."""
    from autoresearch.core.controller.scheduler import decided
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.ideas.idea_sources import waiting_names

    what = what.strip()
    refuse_baseline(what)
    if len(what) > MOST_CHARACTERS:
        raise UsageError(f"{len(what):,} characters are too many; {MOST_CHARACTERS:,} are the most")
    campaign_dir = campaign_registry.find(campaign, real_parts())
    state = _state(campaign_dir)
    idea = state.by_slug(what)
    proposed = {one.hypothesis.slug for one in state.research.proposed.values()}
    if idea is None and what not in proposed | waiting_names(campaign_dir, state.spec):
        if state.spec.research.agent:  # words about ideas: the agent reads them, its proposals are held against them
            output.remark(f"no idea is called {what!r}: the agent is told not to propose such ideas")
            return ask(campaign, "veto", as_json=as_json, command="campaign skip", what=what, reason=reason)
        raise NotFoundError(
            f"{state.spec.name} has no idea {what!r}, and none waits in its queue",
            fix=f"autoresearch campaign status {state.spec.name} --full",
        )
    if idea is not None and decided(state, idea):
        raise ConflictError(f"{what} is over ({idea.status}): nothing of it is left to skip", code="idea_over")
    return ask(campaign, "skip", as_json=as_json, reason=reason, slug=what)


def refuse_baseline(slug: str) -> None:
    """UsageError for the one idea that cannot be done without."""
    if slug.strip().lower() == "baseline":
        raise UsageError(
            "the baseline is what all else is measured against: it cannot be skipped",
            hint="`campaign stop` ends a campaign",
        )


def resume(
    campaign: Name = "",
    detach: Annotated[bool, typer.Option("--detach")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Nothing is asked; as `campaign` has it.")] = False,
    as_json: Json = False,
) -> int:
    """Go on: after a pause, a crash of the controller, a reboot."""
    del yes  # the plan was agreed to when it began
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.lab.campaign_setup import campaign_registry, controller_session
    from autoresearch.lab.campaigns import requests

    parts = real_parts()
    campaign_dir = campaign_registry.find(campaign, parts)
    state = _state(campaign_dir)
    if state.phase is CampaignPhase.ENDED:
        raise ConflictError(
            f"{state.spec.name} has ended: {state.reason}",
            hint="`campaign set` with a higher count or a later deadline makes it go on",
            fix=f"autoresearch campaign set {state.spec.name} count={state.attempted + 10}",
        )
    if state.phase is CampaignPhase.PAUSED or campaign_dir.controlled:
        requests.ask(campaign_dir, "resume")
    if not campaign_dir.controlled:
        controller_session.start_and_wait(campaign_dir, parts)
    if detach or output.agent_or_pipe():
        _settled(campaign_dir)
        state = _state(campaign_dir)
        output.emit(
            "campaign resume",
            _payload(campaign_dir, state),
            as_json=as_json,
            lines=[f"{state.spec.name} in {campaign_dir.path} goes on"],
        )
        return 0
    return follow(campaign_dir, as_json=as_json)


def add(
    campaign: Name = "",
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A recipe key.")] = None,
    file: Annotated[str, typer.Option("--from", metavar="YAML", help="An entry, or a list of entries.")] = "",
    sentence: Annotated[str, typer.Option(help="The idea in words.")] = "",
    slug: Annotated[str, typer.Option(help="Its name.")] = "",
    parent: Annotated[str, typer.Option(help="best, baseline, or an idea.")] = "",
    simpler: Annotated[bool, typer.Option("--simpler", help="Kept when only as good.")] = False,
    as_json: Json = False,
) -> int:
    """Add an idea to the queue of a campaign that runs."""
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.campaigns import requests
    from autoresearch.lab.ideas.idea_sources import ADDED
    from autoresearch.records.appending import append_line

    campaign_dir = campaign_registry.find(campaign, real_parts())
    entries = _listed(file)
    given = {"slug": slug, "sentence": sentence, "parent": parent, "simpler": simpler}
    if set_:
        entries.append({"overrides": _overrides(set_), **{name: value for name, value in given.items() if value}})
    if not entries:
        raise UsageError("what is to be added?", hint="--set KEY=VALUE, or --from FILE")
    refuse_entries(campaign_dir, entries, file)
    campaign_dir.queue.mkdir(exist_ok=True)
    for entry in entries:
        append_line(campaign_dir.queue / ADDED, b"- " + json.dumps(entry, ensure_ascii=False).encode() + b"\n")
    requests.ask(campaign_dir, "add")
    state = _state(campaign_dir)
    payload = _payload(campaign_dir, state) | {"added": len(entries)}
    lines = [f"{len(entries)} added to {state.spec.name} in {campaign_dir.path}"]
    if state.phase is CampaignPhase.ENDED:  # nobody looks at its queue
        lines.append(f"it has ended ({state.reason}), and tries nothing more before its stop rules are changed")
        payload["next"] = [f"autoresearch campaign set {state.spec.name} count={state.attempted + len(entries)}"]
    output.emit("campaign add", payload, as_json=as_json, lines=lines)
    return 0


def refuse_entries(campaign_dir: CampaignDir, entries: list[Any], file: str) -> None:
    """QueueInvalid with all that is wrong with new entries; ConflictError where one stands in a queue already."""
    from autoresearch.lab.campaign_setup.queue_checks import QueueInvalid, entry_findings
    from autoresearch.lab.ideas.idea_sources import ADDED
    from autoresearch.lab.yaml_files import parse_any
    from autoresearch.proposers.queue_entry import QUEUE, token_of

    if findings := entry_findings(entries, file):
        raise QueueInvalid(findings)
    state, added = _state(campaign_dir), campaign_dir.queue / ADDED
    hypotheses = [*(idea.hypothesis for idea in state.ideas), *(one for one, _ in state.skipped)]
    known = {one.token for one in hypotheses if one.proposer == QUEUE}
    known |= {token_of(entry) for entry in (parse_any(added.read_bytes(), ADDED) if added.exists() else None) or ()}
    for entry in entries:
        if (token := token_of(entry)) in known:
            named = f"is called `{token}`" if isinstance(entry, dict) and entry.get("slug") else "changes this"
            raise ConflictError(f"an idea of {state.spec.name} {named} already", hint="another slug makes it another")
        known.add(token)


def fix(
    idea: Annotated[str, typer.Argument(metavar="IDEA")],
    campaign: Annotated[str, typer.Option("--campaign")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A recipe key.")] = None,
    file: Annotated[str, typer.Option("--from", metavar="YAML", help="An entry with files, patches, overrides.")] = "",
    note: Annotated[str, typer.Option(help="What was repaired.")] = "",
    as_json: Json = False,
) -> int:
    """Repair an idea that crashed: a follow-up commit on its branch, then the same idea again."""
    from autoresearch.core.controller.answer_requests import unrepairable
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.campaign_setup.queue_checks import QueueInvalid, entry_findings

    state = _state(campaign_registry.find(campaign, real_parts()))
    known = state.by_slug(idea)
    if known is None:
        raise NotFoundError(f"{state.spec.name} has no idea {idea!r}", fix="autoresearch campaign status --full")
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
    return ask(campaign, "fix", as_json=as_json, slug=idea, entry=entry, note=note)


def _listed(file: str) -> list[Any]:
    """The entries in a YAML file, their paths made absolute; none for no file."""
    from autoresearch.lab.yaml_files import parse_any
    from autoresearch.proposers.queue_entry import found_from_anywhere

    if not file:
        return []
    path = Path(file)
    if not path.is_file():
        raise NotFoundError(f"there is no file {path}")
    found = parse_any(path.read_bytes(), str(path))
    folder = path.absolute().parent
    return [found_from_anywhere(entry, folder) for entry in (found if isinstance(found, list) else [found])]


def _overrides(pairs: list[str]) -> dict[str, Any]:
    from autoresearch.lab.yaml_files import parse_any

    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"--set {pair!r} is no KEY=VALUE", hint="--set optimizer.lr=3e-5")
        found[key.strip()] = parse_any(value.encode(), "--set")
    return found


def set_rules(
    words: Annotated[list[str] | None, typer.Argument(metavar="[CAMPAIGN] KEY=VALUE...", show_default=False)] = None,
    as_json: Json = False,
) -> int:
    """Change the stop rules of a campaign; recorded. One that has ended goes on if no rule is met any more."""
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.lab.campaign_setup import campaign_registry, continue_campaign, controller_session
    from autoresearch.lab.campaigns import requests

    pairs = [word for word in words or () if _PAIR.match(word)]
    names = [word for word in words or () if not _PAIR.match(word)]
    if len(names) > 1 or not pairs:
        raise UsageError(
            f"{names[-1]!r} is no KEY=VALUE" if names else "which rule?",
            hint=f"the rules are {', '.join(RULES)}",
            fix=f"autoresearch campaign set {(names or ['CAMPAIGN'])[0]} count=40 deadline=10h",
        )
    parts = real_parts()
    campaign_dir = campaign_registry.find(names[0] if names else "", parts)
    state = _state(campaign_dir)
    rules = _rules(pairs, state.spec.objective, parts.clock())
    changes = continue_campaign.changed_rules(state.spec, rules)
    if campaign_dir.controlled:
        requests.ask(campaign_dir, "set", **changes)
        _settled(campaign_dir)
    elif state.phase is CampaignPhase.ENDED:
        continue_campaign.continue_with(campaign_dir, changes)
        controller_session.start_and_wait(campaign_dir, parts)
    else:
        requests.note(campaign_dir, "rules", **changes)
    state = _state(campaign_dir)
    lines = [f"{state.spec.name} in {campaign_dir.path}: {', '.join(f'{k} = {v}' for k, v in changes.items())}"]
    output.emit("campaign set", _payload(campaign_dir, state), as_json=as_json, lines=lines)
    return 0


def _rules(pairs: Sequence[str], objective: Objective, now: float) -> Rules:
    """The rules in KEY=VALUE words, checked as a campaign file's are."""
    from autoresearch.core.campaign.spec import Rules, parse_target
    from autoresearch.lab.campaign_setup.campaign_keys import CAMPAIGN_KEYS, TYPES, converted
    from autoresearch.lab.key_values import parse_pairs

    given = parse_pairs(pairs, {name: TYPES[name] for name in RULES}, option="")
    if unset := next((name for name, value in given.items() if value is None), None):
        raise UsageError(f"{unset}=null: a rule of a campaign that was begun can be changed, not taken back")
    values: dict[str, Any] = {}
    for name, value in given.items():
        try:
            values[name] = converted(CAMPAIGN_KEYS[name], value, now)
            if name == "target":
                values[name] = parse_target(values[name], objective)
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError(f"{name}: {error}") from None
    return Rules(**values)


def confirm(
    ideas: Annotated[list[str] | None, typer.Argument(metavar="IDEA...", show_default=False)] = None,
    campaign: Annotated[str, typer.Option("--campaign")] = "",
    as_json: Json = False,
) -> int:
    """Put kept ideas to the proof: fresh seeds, fresh baselines, corrected for the choice. Default: the best."""
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.core.controller.sentences import seed_words
    from autoresearch.lab.campaign_setup import campaign_registry, continue_campaign, controller_session
    from autoresearch.lab.campaigns import requests

    parts = real_parts()
    campaign_dir = campaign_registry.find(campaign, parts)
    state = _state(campaign_dir)
    for slug in ideas or []:
        idea = state.by_slug(slug)
        if idea is None:
            raise NotFoundError(f"{state.spec.name} has no idea {slug!r}", fix="autoresearch campaign status --full")
        if idea.hypothesis.is_baseline:
            raise ConflictError("the baseline is what ideas are measured against: it cannot be confirmed itself")
        if idea.status != "keep":
            raise ConflictError(f"{slug} is not kept ({idea.status or 'not over'}): there is nothing to confirm")
    asked = [state.by_slug(slug) for slug in ideas] if ideas else [state.best]
    if done := next((idea for idea in asked if idea and idea.confirmed == "confirmed"), None):
        raise ConflictError(f"{done.slug} is confirmed already", fix=f"autoresearch report {state.spec.name}")
    if not ideas and not (state.best and state.best.index > 1):
        raise ConflictError(f"{state.spec.name} keeps nothing but its baseline: there is nothing to confirm")
    if state.unseeded:
        raise ConflictError(f"nothing can be confirmed. {seed_words(state)}", code="unseeded")
    requests.ask(campaign_dir, "confirm", slugs=list(ideas or []))
    if not campaign_dir.controlled:
        if state.phase is CampaignPhase.ENDED:
            continue_campaign.continue_with(campaign_dir, {})
        controller_session.start_and_wait(campaign_dir, parts)
    lines = [f"{', '.join(ideas or ['the best idea'])} of {state.spec.name} in {campaign_dir.path} is put to the proof"]
    output.emit("campaign confirm", _payload(campaign_dir, _state(campaign_dir)), as_json=as_json, lines=lines)
    return 0


def control(directory: Annotated[str, typer.Argument(metavar="DIR")]) -> int:
    """Control a campaign until it is over (`campaign start` and `resume` call this in a session of its own)."""
    import signal

    from autoresearch.lab.campaign_setup import controller_session
    from autoresearch.lab.runs import detached
    from autoresearch.records.campaign_records import CampaignDir

    campaign_dir = CampaignDir(Path(directory))
    with controller_session.in_control(campaign_dir):
        mark = os.environ.get("AUTORESEARCH_RUN_ID", "")
        os.environ.clear()
        os.environ.update(detached.take_environment(campaign_dir.path))
        os.environ.pop("AUTORESEARCH_RUN_ID", None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may go, the campaign stays
        detached.reported(campaign_dir.path)
        from autoresearch.lab.campaigns.controller import Controller

        say = Speaker(campaign_dir.log)
        say(f"controller {os.getpid()} {mark} took {campaign_dir.path}")
        Controller(campaign_dir, real_parts(), say).run()
    return 0


class Speaker:
    """Says it in the log, and in the pane as long as there is one."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __call__(self, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {clean_text(' '.join(text.split()))}\n"
        try:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError:
            pass  # a full disk; the journal and the ledger are the truth
        try:
            sys.stdout.write(line)
            sys.stdout.flush()
        except OSError:
            pass  # the terminal is gone


def ask(campaign: str, do: str, *, as_json: bool, command: str = "", **fields: Any) -> int:
    """Hand a request to the controller of a campaign, and say where the campaign stands then."""
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.campaigns import requests

    campaign_dir = campaign_registry.find(campaign, real_parts())
    state = _state(campaign_dir)
    if state.phase is CampaignPhase.ENDED:
        fix = f"autoresearch report {state.spec.name}"
        raise ConflictError(f"{state.spec.name} has ended: {state.reason}", fix=fix)
    requests.ask(campaign_dir, do, **{k: v for k, v in fields.items() if v != ""})
    _settled(campaign_dir)
    state = _state(campaign_dir)
    words = (
        f"{do} is recorded" if campaign_dir.controlled else f"{do} is recorded; no controller lives: campaign resume"
    )
    lines = [f"{state.spec.name} in {campaign_dir.path}: {words}"]
    output.emit(command or f"campaign {do}", _payload(campaign_dir, state), as_json=as_json, lines=lines)
    return 0


def _settled(campaign_dir: CampaignDir) -> None:
    """Wait a moment for the controller to have obeyed."""
    from autoresearch.records.campaign_records import entries

    last = max((e["seq"] for e in entries(campaign_dir.requests)), default=0)
    until = time.monotonic() + 3.0
    while campaign_dir.controlled and _state(campaign_dir).requests < last and time.monotonic() < until:
        time.sleep(0.05)
