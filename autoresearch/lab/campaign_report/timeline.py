"""What happened in a campaign, one line for each thing: journal, ledger, requests and verdicts by their times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    runs = {run.run: (idea.slug, run.why, run.replicate) for idea in state.ideas for run in idea.runs}
    for line in state.timeline:
        if said := _journal(line, runs):
            found.append((_time(line), 1, said))
    found += [(row.ended or 0.0, 2, said) for row, said in _rows(state)]
    found += [(claim.t or 0.0, 3, _claimed(claim)) for claim in summary.claims(state, verdicts)]
    found += [(_time(entry), 0, f"somebody asked: {formatting.cell(_scalars(entry))}") for entry in requests]
    return [(t, text) for t, _, text in sorted(found, key=lambda one: one[:2])]


def _journal(line: Mapping[str, Any], runs: Mapping[str, tuple[str, str, int]]) -> str:
    do = str(line.get("do", ""))
    match do:
        case "prepared" | "request" | "drafted" | "made" | "asked":
            return ""  # the start, the request, the idea and the turn themselves are told
        case "turn":
            fault = f", {line['fault']}: {formatting.cell(str(line.get('said', '')))}" if line.get("fault") else ""
            return f"turn {formatting.cell(str(line.get('name')))} of {formatting.cell(str(line.get('agent')))}{fault}"
        case "proposed" | "refused":
            slug = (line.get("hypothesis") or {}).get("slug", "")
            why = f": {formatting.cell(str(line['reason']))}" if line.get("reason") else ""
            return f"{do} {formatting.cell(str(slug))}{why}"
        case "idea":
            hypothesis = line.get("hypothesis") or {}
            on = f" on {formatting.cell(str(line.get('parent')))}" if line.get("parent") else ""
            sentence = formatting.cell(str(hypothesis.get("sentence", "")))
            return f"idea {line.get('index')}, {formatting.cell(str(hypothesis.get('slug', '')))}{on}: {sentence}"
        case "skipped":
            slug = (line.get("hypothesis") or {}).get("slug", "")
            return f"skipped {formatting.cell(str(slug))}: {formatting.cell(str(line.get('reason', '')))}"
        case "started" | "withdrawn":
            slug, why, replicate = runs.get(str(line.get("run")), ("", "", 0))
            about = f" ({formatting.cell(slug)}, {why}, replicate {replicate})" if slug else ""
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
            found = "works" if line.get("seen") else "does nothing"
            return f"the seed {found}: {formatting.cell(str(line.get('reason')))}"
        case "state":
            reason = f": {formatting.cell(str(line['reason']))}" if line.get("reason") else ""
            return f"state {formatting.cell(str(line.get('state')))}{reason}"
    return formatting.cell(_scalars(line))


def _rows(state: CampaignState) -> Iterable[tuple[Any, str]]:
    for idea in state.ideas:
        for row in idea.rows:
            value = "no metric" if measured(row) is None else f"{row.metric_name} = {row.metric_value:.4g}"
            bad = f", {summary.ended_badly(row)}" if row.status == "crash" else ""
            took = formatting.minutes(row.elapsed_min)
            yield row, formatting.cell(f"{row.shown_status} {row.run_id} ({idea.slug}): {value}, {took}{bad}")


def _claimed(claim: summary.ClaimText) -> str:
    return formatting.cell(f"{claim.word} {claim.slug}{f': {claim.detail}' if claim.detail else ''}")


def _scalars(entry: Mapping[str, Any]) -> str:
    pairs = [f"{k} {v}" for k, v in entry.items() if k not in _OWN and isinstance(v, str | int | float)]
    about = f" ({', '.join(pairs)})" if pairs else ""
    return f"{entry.get('do')}{about}"


def _time(line: Mapping[str, Any]) -> float:
    t = line.get("t")
    return float(t) if isinstance(t, int | float) else 0.0
