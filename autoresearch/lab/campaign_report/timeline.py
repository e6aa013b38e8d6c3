"""What happened in a campaign, one line for each thing: journal, ledger, requests and verdicts by their times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.idea_name import idea_name
from autoresearch.core.campaign.state import CampaignState, measured
from autoresearch.lab.campaign_report import formatting, summary

Told = tuple[float, str]  # seconds since the epoch, what happened
_OWN = ("t", "do", "seq", "index", "hypothesis")


def happenings(
    state: CampaignState, verdicts: Sequence[Mapping[str, Any]] = (), requests: Sequence[Mapping[str, Any]] = ()
) -> list[Told]:
    """Oldest first; texts are on one line and safe in markdown."""
    found: list[tuple[float, int, str]] = [
        (state.spec.created, 0, f"campaign {formatting.cell(state.spec.name)} was begun")
    ]
    runs = {run.run: (idea.name, run.why, run.replicate) for idea in state.ideas for run in idea.runs}
    names = {idea.slug: idea.name for idea in state.ideas}
    for line in state.timeline:
        if said := _journal(line, runs, names):
            found.append((_time(line), 1, said))
    found += [(row.ended or 0.0, 2, said) for row, said in _rows(state)]
    found += [(claim.t or 0.0, 3, _claimed(claim)) for claim in summary.claims(state, verdicts)]
    found += [(_time(entry), 0, f"somebody asked: {formatting.cell(_scalars(entry))}") for entry in requests]
    return [(t, text) for t, _, text in sorted(found, key=lambda one: one[:2])]


def _journal(line: Mapping[str, Any], runs: Mapping[str, tuple[str, str, int]], names: Mapping[str, str]) -> str:
    do = str(line.get("do", ""))
    match do:
        case "prepared" | "request" | "drafted" | "made" | "asked":
            return ""  # the start, the request, the idea and the turn themselves are told
        case "turn":
            fault = f", {line['fault']}: {formatting.cell(str(line.get('said', '')))}" if line.get("fault") else ""
            return f"turn {formatting.cell(str(line.get('name')))} of {formatting.cell(str(line.get('agent')))}{fault}"
        case "proposed" | "refused":
            why = f": {formatting.cell(str(line['reason']))}" if line.get("reason") else ""
            return f"{do} {formatting.cell(_name(line))}{why}"
        case "idea":
            parent = str(line.get("parent") or "")
            on = f" on {formatting.cell(names.get(parent, parent))}" if parent else ""
            sentence = formatting.cell(str((line.get("hypothesis") or {}).get("sentence", "")))
            return f"idea {formatting.cell(_name(line))}{on}: {sentence}"
        case "skipped":
            return f"skipped {formatting.cell(_name(line))}: {formatting.cell(str(line.get('reason', '')))}"
        case "started" | "withdrawn":
            name, why, replicate = runs.get(str(line.get("run")), ("", "", 0))
            about = f" ({formatting.cell(name)}, {why}, replicate {replicate})" if name else ""
            return f"{do} {formatting.cell(str(line.get('run')))}{about}"
        case "confirming":
            sizes = [str(n) for n in line.get("sizes") or ()] or [str(line.get("each"))]
            each = " or ".join(filter(None, (", ".join(sizes[:-1]), sizes[-1])))
            return f"round {line.get('round')} of confirmation: {each} fresh runs of each candidate and of the baseline"
        case "confirmed_round":
            return f"round {line.get('round')} of confirmation is judged"
        case "queue":
            faults = [formatting.cell(str(fault)) for fault in line.get("faults", ())]
            return f"cannot be tried as they are: {'; '.join(faults)}" if faults else "all entries can be tried"
        case "fault":
            return f"the controller ended: {formatting.cell(str(line.get('reason', '')))}"
        case "seed_check":
            found = "works" if line.get("seen") else "changes nothing"
            found = "is not needed, every run is a replicate" if line.get("randomness") == "random" else found
            return f"the seed {found}: {formatting.cell(str(line.get('reason')))}"
        case "state":
            reason = f": {formatting.cell(str(line['reason']))}" if line.get("reason") else ""
            return f"state {formatting.cell(str(line.get('state')))}{reason}"
    return formatting.cell(_scalars(line))


def _name(line: Mapping[str, Any]) -> str:
    """Of the idea of a journal line; "" where it cannot be read."""
    index = line.get("index")
    try:
        hypothesis = Hypothesis.from_json(line.get("hypothesis") or {})
        return idea_name(index if isinstance(index, int) else 0, hypothesis)
    except (TypeError, AttributeError, ValueError):  # a damaged line, which the fold passed over
        return ""


def _rows(state: CampaignState) -> Iterable[tuple[Any, str]]:
    for idea in state.ideas:
        for row in idea.rows:
            value = measured(row)
            result = "no metric" if value is None else f"{row.metric_name} = {formatting.number(value)}"
            bad = f", {summary.ended_badly(row)}" if row.status == "crash" else ""
            took = formatting.minutes(row.elapsed_min)
            yield row, formatting.cell(f"{row.shown_status} {row.run_id} ({idea.name}): {result}, {took}{bad}")


def _claimed(claim: summary.ClaimText) -> str:
    return formatting.cell(f"{claim.word} {claim.name}{f': {claim.detail}' if claim.detail else ''}")


def _scalars(entry: Mapping[str, Any]) -> str:
    pairs = [f"{k} {v}" for k, v in entry.items() if k not in _OWN and isinstance(v, str | int | float)]
    about = f" ({', '.join(pairs)})" if pairs else ""
    return f"{entry.get('do')}{about}"


def _time(line: Mapping[str, Any]) -> float:
    t = line.get("t")
    return float(t) if isinstance(t, int | float) else 0.0
