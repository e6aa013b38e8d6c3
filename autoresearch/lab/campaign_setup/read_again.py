"""What a paused campaign takes of its blueprint and its campaign file as they are when somebody resumes it.

Before its first measured run: everything but the objective. After it: what leaves its runs comparable. An objective
that nobody knew so far is taken, too, and the baseline's runs stand if they can be measured by it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.campaign.hypothesis import baseline_hypothesis
from autoresearch.core.campaign.spec import CampaignSpec, Rules
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.run.json_record import as_recorded
from autoresearch.errors import AutoresearchError, UsageError
from autoresearch.lab.campaign_setup.campaign_keys import read_campaign_file
from autoresearch.lab.campaign_setup.campaign_spec import other_code
from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign, resolve_campaign
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.campaign_status import numbers_now, resume_line, unnamed_runs
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.lab.ideas.idea_commit import claim, conceive
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.resolve_blueprint import read_blueprint
from autoresearch.lab.results.measure import prints
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import locked

LEAVES_IN_S = 3.0
_FREE = ("include", "exclude", "timeout_s")  # is taken at any time, and so is this of the agents:
_FREE_OF_AGENT = ("program", "extra", "template", "turn_s", "guard_s")
_OWN = ("name", "slug", "directory", "repository", "trees", "prefix", "result_dir", "created", "tmux_socket", "earlier",
        "sources", "base", "base_commit", "objective", "shell")  # fmt: skip
_DERIVED = ("flags", "seeding", "seeding_why", "replicates", "parallel", "self_reported", "gpus", "shown", "read_from")
_KEYS = {"timeout_s": "timeout", "places": "launcher", "blueprint_text": "the blueprint", "research": "agent",
         "objective": "metric", "screen_s": "screen", "screen_overrides": "screen"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """What came of it, by the names of keys."""

    taken: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unread: str = ""  # why nothing was read, so that the recorded copy holds

    @property
    def sentences(self) -> Iterator[str]:
        """What to tell whoever resumed it."""
        if self.unread:
            yield f"the recorded copy of blueprint and campaign file is used: {self.unread}"
        if self.taken:
            yield f"taken anew: {', '.join(self.taken)}"
        if self.ignored:
            takes = "another campaign takes it, and `campaign set` stop rules"
            yield f"ignored, so that runs stay comparable: {', '.join(self.ignored)}; {takes}"


def read_again(campaign_dir: CampaignDir, parts: Parts, pairs: Sequence[str] = ()) -> ReadAgain:
    """Read both files again, with what was typed at the start and `pairs` laid over them, and record what is taken.

    Raises UsageError, BlueprintError or EnvironmentUnusable, with nothing recorded, for what no campaign could be, and
    where one of the numbers that were printed has to be named.
    """
    until = time.monotonic() + LEAVES_IN_S
    while campaign_dir.controlled and not CampaignHistory(campaign_dir).state().live and time.monotonic() < until:
        time.sleep(0.05)  # its controller is leaving
    with locked(campaign_dir.lock, blocking=False) as alone:
        if not alone:
            return ReadAgain(unread="a run of the campaign is not over; `campaign pause`, and resume it again then")
        state = CampaignHistory(campaign_dir).state()
        named = str(state.spec.read_from.get("file", ""))
        if gone := [path for path in (named, state.spec.blueprint) if not Path(path).is_file()]:
            return ReadAgain(unread=f"{gone[0] or 'the campaign file'} is not there")
        measured = state.baseline is not None and bool(state.baseline.values)
        try:
            proposed, ignored = _resolved(state.spec, parts, pairs)
        except AutoresearchError as error:
            if not measured or pairs:
                raise
            return ReadAgain(unread=error.message)
        recorded = campaign_records.read_spec(campaign_dir, rules=False)
        objective = recorded.objective if recorded.objective.metric else proposed.spec.objective
        measured = measured or any(prints(run, objective) for run in unnamed_runs(state) if objective.metric)
        code = None if measured else other_code(state.spec.base_commit, proposed.spec, proposed.base)
        expected = code if objective.metric else pairs  # other code may print it; other keys may be set before
        if not (measured or expected) and (numbers := numbers_now(state)):
            what = f"{objective.metric} was not printed;" if objective.metric else "which number counts?"
            message, fix = f"{what} printed: {', '.join(map(str, numbers))}", resume_line(state, numbers)
            raise UsageError(message, hint="--metric names it", fix=fix, code="no_metric")
        old, new = _fields(recorded), _fields(proposed.spec)
        differing = [name for name in new if old.get(name) != new[name]]
        taken = {name: new[name] for name in differing}
        if measured:
            bound = _bound(recorded) != _bound(proposed.spec)
            names = [name for name in differing if name != "blueprint_text" or not bound]
            taken = _comparable(state, proposed, {name: new[name] for name in names})
        if objective != recorded.objective:
            taken["objective"] = as_recorded(objective)
        ignored += [name for name in differing if taken.get(name) != new[name]]
        if taken or code:
            _record(campaign_dir, state, proposed, {"read_from": new["read_from"], **taken}, code)
    return ReadAgain((*_keys(taken), *([code] if code else [])), _keys(ignored))


def _resolved(campaign_spec: CampaignSpec, parts: Parts, pairs: Sequence[str]) -> tuple[ProposedCampaign, list[str]]:
    """The campaign that the files would begin now, on the same objective; and the keys that ask for another one."""
    origin, old = campaign_spec.read_from, campaign_spec.objective
    objective = {"metric": old.metric, "direction": old.direction.value} if old.metric else {}
    start, now = Path(origin["start"]), campaign_spec.created
    file = read_campaign_file(origin["file"], {}, start=start, now=now, pairs=pairs, before=origin["typed"])
    notes = read_blueprint(file.blueprint).blueprint.notes, _blueprint(campaign_spec).notes
    others = [
        name
        for name, value in objective.items()
        if file[name] not in ("", value) or getattr(notes[0], name) != getattr(notes[1], name)
    ]
    sources = {**file.sources, **dict.fromkeys(objective, "as recorded")}
    values = {**file.values, **objective, "prefix": campaign_spec.prefix}
    return resolve_campaign(replace(file, values=values, sources=sources), parts), others


def _fields(campaign_spec: CampaignSpec) -> dict[str, Any]:
    """What may be read again, as it is recorded: the stop rules one by one. An open interpreter is the recorded one."""
    own = (*_OWN, *([] if _blueprint(campaign_spec).venv_exe else ["interpreter", "interpreter_source"]))
    record: dict[str, Any] = as_recorded(campaign_spec)
    return {name: value for name, value in (*record.pop("rules").items(), *record.items()) if name not in own}


def _comparable(state: CampaignState, proposed: ProposedCampaign, values: dict[str, Any]) -> dict[str, Any]:
    """Of these fields, what may be taken after the first measured run."""
    agent, other = state.spec.research, proposed.spec.research
    free = replace(agent, **{name: getattr(other, name) for name in _FREE_OF_AGENT})
    allowed = [*_FREE, "blueprint_text", *(["shown"] if {"include", "exclude"} & values.keys() else [])]
    taken = {name: value for name, value in values.items() if name in allowed}
    return taken | ({"research": as_recorded(free)} if free != agent else {})


def _bound(campaign_spec: CampaignSpec) -> Blueprint:
    """What of a blueprint must not change: all but its inputs, and the limit to the first step, which only fails runs.
    """
    blueprint = _blueprint(campaign_spec)
    free: dict[str, Any] = {name: () for name in ("include", "exclude") if hasattr(blueprint.notes, name)}
    free |= {"metric": "", "direction": ""}  # the objective is the campaign's
    notes = replace(blueprint.notes, text="", **free)
    return replace(blueprint, notes=notes, first_step_s=0.0, first_step_given=False, lines={}, findings=())


def _blueprint(campaign_spec: CampaignSpec) -> Blueprint:
    return parse_blueprint(campaign_spec.blueprint_text.encode(), campaign_spec.blueprint)


def _record(
    campaign_dir: CampaignDir, state: CampaignState, proposed: ProposedCampaign, taken: dict[str, Any], code: str | None
) -> None:
    """Record it; the baseline is committed anew, unless its runs stand (`code` is None)."""
    rules: dict[str, Any] = {name: value for name, value in taken.items() if name in Rules.__match_args__}
    terms, baseline = {name: value for name, value in taken.items() if name not in rules}, dict[str, str]()
    if code:
        based = proposed.base.with_commit(proposed.spec)
        terms |= {"base_commit": based.base_commit, "base": based.base}
    if state.baseline is not None and code is not None:
        changed = state.spec.with_rules({**rules, "terms": terms})
        builder = CommitBuilder.of(changed, proposed.base.checkout)
        idea = claim(builder, conceive(builder, CampaignState(changed), baseline_hypothesis(), 1))
        baseline = {name: getattr(idea, name) for name in ("commit", "parent_commit", "branch", "fingerprint")}
    campaign_records.append(campaign_dir, "rules", **rules, terms=terms, baseline=baseline)


def _keys(names: Sequence[str] | dict[str, Any]) -> tuple[str, ...]:
    """What people call these fields; what follows from others is not named."""
    return tuple(_KEYS.get(name, name) for name in names if name not in _DERIVED)
