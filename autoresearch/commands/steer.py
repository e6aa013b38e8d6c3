"""`autoresearch tell|veto` and `campaign approve`: words to a campaign's researcher while it runs.

They reach its next turn, and change neither the objective nor the rules.
"""

from __future__ import annotations

from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.campaign import _payload, _researcher_words, _view
from autoresearch.commands.campaign_control import Json, Reason, ask, refuse_baseline
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import ConflictError, NotFoundError, UsageError

MOST_WORDS = 4000  # characters of one note
Words = Annotated[list[str] | None, typer.Argument(metavar="[CAMPAIGN] TEXT", show_default=False)]


def tell(words: Words = None, as_json: Json = False) -> int:
    """Tell the researcher something; it reads it in its next turn. Without a CAMPAIGN: the newest one."""
    campaign, text = _two(words, "autoresearch tell 'the reward saturates at 0.8: look at the format term'")
    return ask(campaign, "tell", as_json=as_json, command="tell", text=text)


def veto(words: Words = None, reason: Reason = "", as_json: Json = False) -> int:
    """Say what is not to be tried: the name of an idea, or words about ideas of a kind."""
    campaign, what = _two(words, "autoresearch veto 'no change of the tokenizer'")
    refuse_baseline(what)
    return ask(campaign, "veto", as_json=as_json, command="veto", what=what, reason=reason)


def approve(
    idea: Annotated[str, typer.Argument(metavar="IDEA", show_default=False)] = "",
    campaign: Annotated[str, typer.Option("--campaign")] = "",
    every: Annotated[bool, typer.Option("--all", help="Hold no code idea back any more.")] = False,
    as_json: Json = False,
) -> int:
    """Let a code idea be edited that waits for a person (--hold-edits, `pause --before-edits`)."""
    from autoresearch.lab.agent_work.agent_proposer import held
    from autoresearch.lab.campaign_setup import start_campaign

    if every:
        return ask(campaign, "hold", as_json=as_json, command="campaign approve", on=False)
    view = _view(start_campaign.find(campaign, real_parts()))
    names = [one.slug for one in held(view)]
    if not idea:
        raise UsageError("which idea is approved?", hint=f"waiting: {', '.join(names) or 'none'}; or --all")
    if idea not in names:
        raise NotFoundError(
            f"{view.spec.name} has no code idea {idea!r} that waits for a person",
            hint=f"waiting: {', '.join(names) or 'none'}",
        )
    return ask(campaign, "approve", as_json=as_json, slug=idea)


def proposals(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", show_default=False)] = "", as_json: Json = False
) -> int:
    """What the researcher has proposed and nobody has begun, what it was told, and what it has cost."""
    from autoresearch.lab.agent_work.agent_proposer import held, waiting
    from autoresearch.lab.campaign_setup import start_campaign

    place = start_campaign.find(campaign, real_parts())
    view = _view(place)
    if not view.spec.research.agent:
        raise ConflictError(f"{view.spec.name} has no researcher", hint="--agent NAME when it is started")
    kept_back = {one.slug for one in held(view)}
    ideas = [
        {
            "slug": one.hypothesis.slug,
            "kind": one.hypothesis.kind,
            "sentence": one.hypothesis.sentence,
            "state": "held" if one.hypothesis.slug in kept_back else "ready" if one.made else "to be edited",
        }
        for one in waiting(view)
    ]
    refused = [{"slug": one.slug, "reason": why} for one, why in view.research.refused[-20:]]
    told = {"told": view.research.notes, "vetoes": [*sorted(view.unwanted), *view.research.vetoes]}
    payload = _payload(place, view) | {"proposals": ideas, "refused": refused, **told}
    lines = [f"{one['slug']} ({one['kind']}, {one['state']}): {one['sentence']}" for one in ideas]
    lines += [f"refused {one['slug']}: {one['reason']}" for one in refused[-5:]]
    lines = lines or ["nothing is waiting"]
    lines += [f"told: {text}" for text in view.research.notes[-5:]]
    lines += [f"vetoed: {text}" for text in told["vetoes"][-5:]]
    lines += _researcher_words(payload)[:1]
    output.emit("campaign proposals", payload, as_json=as_json, lines=lines)
    return 0


def _two(words: list[str] | None, example: str) -> tuple[str, str]:
    """The campaign ("" for the newest) and the text."""
    given = words or []
    if not given or not given[-1].strip():
        raise UsageError("there are no words to pass on", hint=example)
    if len(given) > 2:
        raise UsageError("put the words into quotation marks", hint=example)
    text = given[-1].strip()
    if len(text) > MOST_WORDS:
        raise UsageError(f"{len(text):,} characters are too many for a note; {MOST_WORDS:,} are the most")
    return (given[0] if len(given) == 2 else ""), text
