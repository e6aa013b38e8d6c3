"""`autoresearch campaign status`, and what other commands show of a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import NotFoundError

if TYPE_CHECKING:
    from autoresearch.commands.live_line import Part
    from autoresearch.core.campaign.state import CampaignState, Idea
    from autoresearch.records.campaign_records import CampaignDir


def status(
    campaign: Annotated[str, Positional(metavar="CAMPAIGN", show_default=False)] = "",
    full: Annotated[bool, Option("--full", help="Everything needed to take over, in at most 60 lines.")] = False,
) -> CommandResult:
    """Where a campaign stands: attempted, remaining, best, what runs, what comes next."""
    from autoresearch.lab.campaign_report.run_outputs import campaign_disk
    from autoresearch.lab.campaign_setup import campaign_registry

    parts = real_parts()
    campaign_dir = campaign_registry.find(campaign, parts)
    state = state_of(campaign_dir)
    disk = campaign_disk(campaign_dir, state.spec)
    payload = payload_of(campaign_dir, state) | {"disk": disk.to_json()}
    if full:
        from autoresearch.core.controller.rules import stand_at
        from autoresearch.lab.campaign_report.memory import brief

        lines = brief(state, stand_at(state, parts.clock()))
        shown = [line for line in lines if not line.startswith("next: ")]  # which stand below all that is printed
        payload["next"] = [line for line in payload["next"] if not line.endswith(" --full")]  # this is it
        return CommandResult(payload | {"brief": lines}, shown)
    pending = [known_idea(state, slug).name for slug in payload["pending"]]
    lines = [
        *stand_lines(payload),
        *([f"tip: {payload['tip']}"] if payload["tip"] and payload["state"] != "ended" else []),
        *([f"pending, as more runs are needed to tell: {', '.join(pending)}"] if pending else []),
        *_seed_lines(payload),
        *agent_lines(payload, state),
        *map(_running_line, payload["running"]),
        *(f"queue: {fault}" for fault in state.queue_faults[:5]),
        f"python: {state.spec.interpreter_words}",
        f"disk: {disk.words}",
        f"ledger: {payload['ledger']}",
        *(f"passed over: {campaign_dir.events}, line {n}, means nothing to this version" for n in state.damaged[:3]),
    ]
    return CommandResult(payload, lines)


def changed(campaign_dir: CampaignDir, words: str, more: Mapping[str, Any] | None = None) -> CommandResult:
    """What a command says that has changed something of a campaign, with where it stands now."""
    state = state_of(campaign_dir)
    payload = payload_of(campaign_dir, state) | dict(more or {})
    return CommandResult(payload, [f"{state.spec.name} in {campaign_dir.path}{words}"])


def stand_result(
    campaign_dir: CampaignDir, state: CampaignState, *, more: Mapping[str, Any], last: Sequence[str] = ()
) -> CommandResult:
    """Where it stands after somebody waited, with `more` keys and the `last` row."""
    payload = payload_of(campaign_dir, state) | dict(more)
    name, *lines = stand_lines(payload)
    return CommandResult(payload, [name, *last, *lines, *_seed_lines(payload)])


def stand_lines(payload: Mapping[str, Any]) -> list[str]:
    """Its headline, where it stands, unless that is its reason, and the best idea beside the baseline; of a proof, what
    it has shown."""
    if "proved" in payload:
        return [headline(dict(payload, reason="")), payload["sentence"], *_report_lines(payload)]
    where, best = payload["standing"], payload["best_shown"]
    words = best["sentence"] if best else "nothing is measured yet"
    lines = [headline(payload), *([where] if where != payload["reason"] else []), f"best: {words}"]
    return [*lines, *(f"printed: {one['words']}" for one in payload["numbers"]), *_report_lines(payload)]


def _report_lines(payload: Mapping[str, Any]) -> Iterator[str]:
    if payload["report"]:
        yield f"report: {Path(payload['report']).as_uri()}"
    if payload["picture"]:
        yield f"picture: {payload['picture']}"


def headline(payload: Mapping[str, Any]) -> str:
    """Its name, its directory, its state and the reason for it."""
    reason = f": {payload['reason']}" if payload["reason"] else ""
    return f"{payload['campaign']} in {payload['directory']}: {payload['state']}{reason}"


def _seed_lines(payload: Mapping[str, Any]) -> Iterator[str]:
    """That the seed does nothing, and what to declare."""
    if payload["seed"] and not payload["seed"]["seen"]:
        yield payload["seed"]["sentence"]


def agent_lines(payload: Mapping[str, Any], state: CampaignState) -> list[str]:
    """What the agent has cost, and what it waits for."""
    from autoresearch.core.controller.sentences import doubt_words

    if not payload["agent"]:
        return []
    spent = state.research.spent
    lines = [f"agent: {state.spec.research.names}, {spent or 'not asked yet'}"]
    if denied := state.research.denied_words:
        lines.append(f"agent: {denied}")
    if payload["agent_waits"]:
        lines.append(payload["agent_waits"])
    if payload["proposals"]:
        lines.append(f"proposed, and not begun: {', '.join(payload['proposals'])}")
    return lines + [doubt_words(state, idea) for idea in state.doubtful]


def _running_line(one: Mapping[str, Any]) -> str:
    where = f" at {one['place']}" if one["place"] else ""
    why = f" ({one['reason']})" if one["reason"] else ""
    state = one["state"] if one["state"] in ("pending", "unreachable", "evaluating", "stopping") else "running"
    return f"{state}: {one['name']}, run {one['replicate']} ({one['why']}), {one['run']}{where}{why}"


def live_parts(state: CampaignState) -> list[Part]:
    """The live line: bar, ideas of the count, the best idea, the course of the search, what runs, time left.

    Of a proof: its runs, and what runs.
    """
    from autoresearch.commands.live_line import progress_bar, sparkline
    from autoresearch.core.controller.rules import eta, stand_at

    found, count, best = stand_at(state, real_parts().clock()), state.spec.rules.count, state.best
    parts = [(progress_bar(state.attempted / count), "green")] if count else []
    parts.append((f"{state.attempted}{f'/{count}' if count else ''} ideas", "bold"))
    values = [idea.value for idea in state.ideas if idea.value is not None]
    if state.spec.prove:
        done, most = len(state.rows), state.spec.replicates + 1 + state.spec.rules.confirm_runs
        parts = [(progress_bar(done / most), "green"), (f"{done} runs of {most} at most", "bold")]
    elif best and best.value is not None:
        parts += [(f"best {output.number(best.value)} {best.name}", ""), (sparkline(values), "cyan")]
    parts.append((f"{len(state.live)} running", ""))
    left = found.deadline_words or eta(state)[2:]
    return [*parts, (left, "dim")] if left else parts


# ------------------------------------------------------------------------------------------ its state


def state_of(campaign_dir: CampaignDir) -> CampaignState:
    """The state folded from its records, read afresh."""
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory

    history = CampaignHistory(campaign_dir)
    state = history.state()
    for remark in history.remarks:
        output.remark(remark)
    return state


def mark_of(campaign_dir: CampaignDir) -> tuple[int, str]:
    """What changes when there is news: the number of rows, and the phase."""
    state = state_of(campaign_dir)
    return len(state.rows), state.phase.value


def idea_named(state: CampaignState, word: str) -> Idea | None:
    """The idea that a person names: by its slug, `#7` or `7`."""
    from autoresearch.core.campaign.hypothesis import idea_index

    index = idea_index(word)
    return state.by_slug(word) or next((idea for idea in state.ideas if idea.index == index), None)


def known_idea(state: CampaignState, word: str) -> Idea:
    """The same; NotFoundError where there is none."""
    if idea := idea_named(state, word):
        return idea
    hint, fix = "--campaign names another campaign", "autoresearch campaign status --full"
    raise NotFoundError(f"{state.spec.name} has no idea {word!r}", hint=hint, fix=fix)


def payload_of(campaign_dir: CampaignDir, state: CampaignState) -> dict[str, Any]:
    """The flat object about a campaign."""
    from autoresearch.core.campaign.judgement import resolution_of
    from autoresearch.core.controller.agent_schedule import waiting
    from autoresearch.core.controller.rules import exit_code_of
    from autoresearch.core.controller.sentences import seed_words
    from autoresearch.core.controller.standing import KEPT, Word, counts, standings
    from autoresearch.lab.campaigns import campaign_status as now
    from autoresearch.lab.runs.overview import campaign_stand
    from autoresearch.records.files import read_json

    told, controlled = campaign_stand(campaign_dir, state, real_parts().clock()), campaign_dir.controlled
    phase, known = told["state"], standings(state)
    words = counts(known)
    waits: list[str] = []
    if controlled and state.research.waiting:
        from autoresearch.lab.agent_work.agent_turns import waiting_sentence

        waits = [waiting_sentence(job) for job in state.research.waiting]
    return {
        **told,
        "controller_pid": (read_json(campaign_dir.controller) or {}).get("pid") if controlled else None,
        "seed": asdict(state.seed_check) | {"sentence": seed_words(state)} if state.seed_check else None,
        "resolution": resolution_of(state).size if state.unseeded else None,
        "interpreter": state.spec.interpreter,
        "interpreter_source": state.spec.interpreter_source,
        "kept": sum(words[word] for word in KEPT),
        "pending": [one.slug for one in known if one.word is Word.PENDING],
        "agent": state.spec.research.agent or None,
        "agent_waits": "; ".join(waits) or None,
        "held": [one.slug for one in state.doubtful],
        "proposals": [one.hypothesis.slug for one in waiting(state)],
        "agent_usd": state.research.usage.usd,
        "agent_tokens": state.research.usage.tokens,
        "standings": {str(word): number for word, number in words.items()},
        "skipped": len(state.skipped),
        "queue_faults": state.queue_faults,
        "confirmed": [idea.slug for idea in state.ideas if idea.confirmed == "confirmed"],
        "claims": [one.to_json() for one in known if one.claim],
        "rows": len(state.rows),
        "running": [now.running(idea, run) for idea, run in state.live],
        "ledger": str(campaign_dir.ledger),
        **dict.fromkeys(("report", "picture")),
        **(campaign_dir.report_files() if phase == "ended" else {}),
        "numbers": [asdict(one) | {"words": str(one)} for one in now.numbers_now(state)],
        "exit_code": exit_code_of(state) if phase in ("ended", "paused", "waiting") else None,
        **(asdict(now.proof_now(campaign_dir, state)) if state.spec.prove else {}),
    }
