"""`autoresearch campaign replay-pruning`: whether early stopping would have killed the winner of a past campaign."""

from __future__ import annotations

from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import UsageError

NO_WINNER = "nothing was kept but the baseline: there is no winner to lose"


def replay_pruning(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", show_default=False)] = "",
    rule: Annotated[str, typer.Option(help="median or halving; both without it.")] = "",
    warmup: Annotated[int, typer.Option(help="Steps; several that fit the curves without it.")] = -1,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Apply a rule to the runs of a campaign that are over: whom it ends, what that saves, whether the winner lives."""
    from autoresearch.core.campaign.stop_rules import span
    from autoresearch.lab.campaign_report.pruning_replay import replays
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory
    from autoresearch.lab.campaigns.pruner import RULES

    if rule not in ("", *RULES):
        raise UsageError(f"--rule {rule!r} is neither median nor halving")
    state = CampaignHistory(campaign_registry.find(campaign, real_parts())).state()
    found = replays(state, (rule,) if rule else RULES, warmup if warmup >= 0 else None)
    winner, best_run = found[0].winner, found[0].best_run
    cut = sum(row.failure == "pruned" for row in state.rows)
    lines = [
        f"{state.spec.name}: {found[0].runs} first runs, replayed in the order in which they began",
        f"the winner is {state.best.name}" if winner and state.best else NO_WINNER,
        *([f"{cut} of the runs were ended early when they ran: their curves are cut"] if cut else []),
    ]
    for one in found:
        fate = "" if not winner else "; ENDS THE WINNER" if one.kills_winner else "; the winner lives"
        best = f"; ends the best single run ({best_run})" if one.kills_best_run else ""
        lines.append(
            f"{one.rule}, warm-up {one.warmup}: ends {len(one.ended)}, saves {span(one.saved_s)} "
            f"({one.saved_share:.0%}){fate}{best}"
        )
    if len(found) == 1:
        lines += [f"  {e.name}: {e.why}; {span(e.saved_s)} saved" for e in found[0].ended[:20]]
    safe = [one for one in found if one.ended and not one.kills_winner and not one.kills_best_run]
    good = max(safe, key=lambda one: one.saved_s, default=None)
    keys = f"--set prune={good.rule} --set warmup={good.warmup}" if good else ""
    payload = {
        "campaign": state.spec.name,
        "winner": winner,
        "best_run": best_run,
        "replays": [one.to_json() for one in found],
        "next": [f"autoresearch campaign {state.spec.blueprint} {keys}"] if good else [],
    }
    output.emit("campaign replay-pruning", payload, as_json=as_json, lines=lines)
    return 0
