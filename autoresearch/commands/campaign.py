"""`autoresearch campaign start|status`: many hypotheses, one objective, while nobody watches."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output, target_option
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import AutoresearchError, UsageError

if TYPE_CHECKING:
    from autoresearch.core.campaign.spec import CampaignSpec
    from autoresearch.core.campaign.state import CampaignState
    from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign
    from autoresearch.records.campaign_records import CampaignDir


_JSON_KEYS = {"agent": "researcher"}  # rows of the plan whose key for programs is another
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any key of `autoresearch config schema`."),
]


def start(
    source: Annotated[str, typer.Argument(metavar="BLUEPRINT|CAMPAIGN.YAML", show_default=False)] = "",
    count: Annotated[int, typer.Option(help="Stop after so many attempted ideas; the baseline is one.")] = 0,
    deadline: Annotated[str, typer.Option(metavar="DURATION|TIME", help="Stop by then.")] = "",
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Limit of each run; beyond it, a failure.")] = "",
    metric: Annotated[str, typer.Option(help="The objective, if not the blueprint's.")] = "",
    proposer: Annotated[str, typer.Option(help="queue, grid, random, tpe, agent or hybrid.")] = "",
    space: Annotated[str, typer.Option(metavar="YAML", help="What to search, as a file.")] = "",
    queue: Annotated[str, typer.Option(metavar="PATH", help="A folder of blueprints, or a YAML list of ideas.")] = "",
    parallel: Annotated[int, typer.Option(help="Runs at a time.")] = 0,
    launcher: Annotated[
        str, typer.Option(metavar="TARGETS", help="Where: local:2, ssh:gpu1:4, slurm:8.", callback=target_option.named)
    ] = "",
    gpus: Annotated[str, typer.Option(help="The pool: none, all, N, 0,1 or UUIDs.")] = "",
    agent: Annotated[str, typer.Option(help="claude, codex, opencode, gemini, qwen, aider or command.")] = "",
    set_: Set = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return as soon as it runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Start a campaign: print the plan, ask, then run ideas until a stop rule is met.

    `autoresearch config schema` lists the keys of a campaign file, which --set takes too: --set prune=median.
    """
    from autoresearch.lab.campaign_setup import controller_session, start_campaign
    from autoresearch.lab.campaign_setup.campaign_file import read_campaign_file
    from autoresearch.lab.campaign_setup.preflight import preflight
    from autoresearch.lab.campaign_setup.resolve_campaign import resolve_campaign

    if count < 0 or parallel < 0:
        raise UsageError("--count and --parallel are numbers above 0")
    flags: dict[str, Any] = {
        "count": count or None,
        "deadline": deadline,
        "timeout": timeout,
        "metric": metric,
        "proposer": proposer,
        "space": space,
        "queue": queue,
        "parallel": parallel or None,
        "launcher": launcher,
        "gpus": gpus,
        "agent": agent,
    }
    from autoresearch.trainers import ask

    parts = real_parts()
    campaign_file = read_campaign_file(source, flags, start=Path.cwd(), now=parts.clock(), pairs=set_ or ())
    proposed = resolve_campaign(campaign_file, parts)
    findings = preflight(proposed)
    if not yes and not _agreed(proposed, findings, as_json=as_json):
        return 0
    if not ask.steps_known(proposed.trainer_settings.trainer):
        output.remark(f"first step: {proposed.first_step_rule}")
    campaign_dir = start_campaign.create(proposed, parts)
    attach = controller_session.start_and_wait(campaign_dir, parts)
    if detach:
        state = _state(campaign_dir)
        lines = [
            f"{proposed.spec.name} in {campaign_dir.path} runs; attach: {attach}",
            f"ledger: {campaign_dir.ledger}",
        ]
        output.emit("campaign start", _payload(campaign_dir, state) | {"attach": attach}, as_json=as_json, lines=lines)
        return 0
    output.remark(f"{proposed.spec.name} in {campaign_dir.path} runs in a session of its own; {attach}")
    return follow(campaign_dir, as_json=as_json)


def _agreed(proposed: ProposedCampaign, findings: Any, *, as_json: bool) -> bool:
    """Show the plan; ask on a terminal, elsewhere say how to agree and change nothing."""
    import shlex

    rows = plan_rows(proposed, findings)
    words = [word for word in output.typed if word not in ("--json", "--detach")]
    approve = shlex.join(["autoresearch", *words, "--yes"])
    if output.agent_or_pipe() or as_json:
        payload = {
            "campaign": proposed.spec.name,
            "state": "planned",
            "plan": {_JSON_KEYS.get(key, key): value for key, value in rows if key != "remark"},
            "remarks": [value for key, value in rows if key == "remark"],
            "next": [approve],
        }
        lines = [f"{key:<12} {value}" for key, value in rows]
        output.emit("campaign start", payload, as_json=as_json, lines=["nothing was changed; the plan is:", *lines])
        return False
    output.table([list(row) for row in rows], title="the campaign:")
    return bool(typer.confirm("Start it?", default=True))


def plan_rows(proposed: ProposedCampaign, findings: Any) -> list[tuple[str, str]]:
    """What will be run, where, for how long at most, and where each value came from."""
    from autoresearch.core.campaign.stop_rules import span

    spec = proposed.spec

    def source_of(key: str) -> str:
        return f"  ({spec.sources[key]})" if key in spec.sources else ""

    rules = spec.rules
    left = f"{span(rules.deadline - spec.created)} from now" if rules.deadline else ""
    stops = [
        f"{rules.count} ideas{source_of('count')}" if rules.count else "",
        f"in {left}{source_of('deadline')}" if left else "",
        f"{rules.budget_gpu_hours:g} GPU hours" if rules.budget_gpu_hours else "",
        f"{rules.budget_usd:g} USD" if rules.budget_usd else "",
        f"{rules.budget_tokens:,} tokens" if rules.budget_tokens else "",
        f"{spec.objective.metric} reaching {rules.target:g}" if rules.target is not None else "",
    ]
    dirty = proposed.base.dirty
    each = f"at most {span(spec.timeout_s or proposed.trainer_settings.resolved.blueprint.max_time_s)}"
    space = ", ".join(f"{key} {value}" for key, value in spec.proposer.space.items())
    where = proposed.trainer_settings.recording.source if proposed.trainer_settings.recording else None
    rows = [
        ("objective", f"{spec.objective.metric}, {spec.objective.direction}{source_of('metric')}"),
        ("command", " ".join(proposed.trainer_settings.resolved.blueprint.launch_command.split())[:200]),
        ("stops at", "; ".join(stop for stop in stops if stop)),
        ("each run", f"{each}; {spec.parallel} at a time{source_of('parallel')}"),
        ("first step", proposed.first_step_rule),
        ("where", f"{', '.join(map(str, spec.places))}{source_of('launcher')}"),
        ("baseline", f"{spec.replicates} runs, on {spec.branch('baseline')}{source_of('baseline')}"),
        ("seeds", f"{proposed.trainer_settings.seed_words}; {_seed_check_words(spec)}"),
        *([("metrics", f"{where.format} in the directory of each run, switched on")] if where else []),
        ("ideas from", f"{spec.proposer.name}{source_of('proposer')} {spec.proposer.queue}".rstrip()),
        *([("space", f"{space}{source_of('space')}")] if space else []),
        *_evaluation_row(proposed),
        *_agent_rows(spec),
        *([("early stop", f"{spec.prune}, after step {spec.warmup}{source_of('prune')}")] if spec.prune else []),
        ("re-tests", f"up to {spec.retests} more runs of an idea that looks better"),
        ("claims", f"confirmed with up to {spec.confirm_runs} fresh runs at the end" if spec.confirm else "none"),
        ("base", f"{spec.base}, {_files(len(dirty))} from HEAD" if dirty else spec.base),
        *([("dirty", ", ".join(dirty[:8]) + (" ..." if len(dirty) > 8 else ""))] if dirty else []),
        ("branches", f"{spec.prefix}/<idea>, all kept"),
        ("worktrees", f"{spec.parallel + 1} in {spec.trees}"),
        ("results", f"{spec.result_dir}/<idea>"),
        ("ledger", f"{spec.directory}/results.tsv"),
        *([("GPUs", f"{', '.join(spec.gpus)}; {spec.gpus_per_run} a run")] if spec.gpus else []),
        *([("include", ", ".join(spec.include))] if spec.include else []),
    ]
    return [*rows, *(("remark", str(finding)) for finding in findings)]


def _seed_check_words(campaign_spec: CampaignSpec) -> str:
    """How it will be seen whether the seed does anything."""
    from autoresearch.core.controller.scheduler import CHECKED

    if campaign_spec.replicates >= CHECKED:
        return "run 2 of the baseline repeats the first one's, which shows whether seeds do anything"
    return f"whether seeds do anything shows with {CHECKED} runs of the baseline, made before a claim"


def _files(number: int) -> str:
    return "1 file differs" if number == 1 else f"{number} files differ"


def _evaluation_row(proposed: ProposedCampaign) -> list[tuple[str, str]]:
    """What measures each run; where an agent edits what trains, also that nothing does."""
    notes = proposed.trainer_settings.resolved.blueprint.notes
    if notes.evaluate:
        within = output.duration(notes.evaluate_s)
        return [("measured by", f"{'; '.join(notes.evaluate)} at the base commit, within {within}")]
    none = "what the training prints: `- evaluate: COMMAND` in the notes would measure it apart"
    return [("measured by", none)] if proposed.spec.research.agent else []


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


def status(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", show_default=False)] = "",
    full: Annotated[
        bool, typer.Option("--full", help="All that somebody who takes over must know, in at most 60 lines.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Where a campaign stands: attempted, remaining, best, what runs, what comes next."""
    from autoresearch.lab.campaign_setup import campaign_registry

    parts = real_parts()
    campaign_dir = campaign_registry.find(campaign, parts)
    state = _state(campaign_dir)
    payload = _payload(campaign_dir, state)
    if full:
        lines = _brief(state, parts.clock())
        output.emit("campaign status", payload | {"brief": lines}, as_json=as_json, lines=lines)
        return 0
    others = [
        one.name
        for one in campaign_registry.known(parts)
        if one.campaign_dir != campaign_dir and one.campaign_dir.controlled
    ]
    lines = [
        _headline(payload),
        payload["standing"],
        f"best: {_best_words(payload)}",
        *_seed_lines(payload),
        *_agent_words(payload),
        *(_running_line(one) for one in payload["running"]),
        *(f"queue: {fault}" for fault in state.queue_faults[:5]),
        *([f"also running: {', '.join(others)}"] if others else []),
        f"ledger: {payload['ledger']}",
        *([f"passed over, damaged: {campaign_dir.journal}, line {n}" for n in state.damaged[:3]]),
    ]
    output.emit("campaign status", payload, as_json=as_json, lines=lines)
    return 0


def _brief(state: CampaignState, now: float) -> list[str]:
    from autoresearch.core.controller.rules import stand_at
    from autoresearch.lab.campaign_report.memory import brief

    return brief(state, stand_at(state, now))


def wait_for_row(campaign_dir: CampaignDir, limit: float, since: int, *, as_json: bool, as_exit_code: bool) -> int:
    """Wait for the next row, a pause or the end of a campaign; `since` is a number of rows, -1 for as many as now."""
    from autoresearch.core.campaign.spec import CampaignPhase

    rows, phase = _mark(campaign_dir)
    before = (rows if since < 0 else since, phase)
    until = time.monotonic() + limit
    while before == _mark(campaign_dir) and campaign_dir.controlled and time.monotonic() < until:
        time.sleep(min(0.25, max(0.0, until - time.monotonic())))
    state = _state(campaign_dir)
    payload = _payload(campaign_dir, state)
    last = max(state.rows, key=lambda row: row.ended or 0.0, default=None)
    payload |= {"event": "tick" if before == _mark(campaign_dir) else "news"}
    if campaign_dir.controlled:
        payload["next"] = [f"autoresearch wait {state.spec.name} --for 100s --since {len(state.rows)}"]
    lines = [_headline(payload), payload["standing"], f"best: {_best_words(payload)}", *_seed_lines(payload)]
    if last is not None:
        lines.insert(1, f"last: idea {last.index}, {last.status}, {last.description}"[:300])
    output.emit("wait", payload, as_json=as_json, lines=lines)
    return 1 if as_exit_code and payload["state"] == CampaignPhase.ENDED else 0


def _headline(payload: dict[str, Any]) -> str:
    reason = f": {payload['reason']}" if payload["reason"] else ""
    return f"{payload['campaign']} in {payload['directory']}: {payload['state']}{reason}"


def _seed_lines(payload: dict[str, Any]) -> list[str]:
    """That the seed does nothing, and what to declare."""
    return [payload["seed"]["sentence"]] if payload["seed"] and not payload["seed"]["seen"] else []


def _agent_words(payload: dict[str, Any]) -> list[str]:
    """What the agent has cost, and what it waits for."""
    if not payload["agent"]:
        return []
    usd = "" if payload["agent_usd"] is None else f", {payload['agent_usd']:.2f} USD"
    lines = [f"agent: {payload['agent']}{usd}, {payload['agent_tokens'] or 0:,} tokens"]
    if payload["agent_waits"]:
        lines.append(payload["agent_waits"])
    if payload["held"]:
        lines.append(f"held for a person: {', '.join(payload['held'])}; autoresearch campaign approve IDEA")
    return lines


def follow(campaign_dir: CampaignDir, *, as_json: bool) -> int:
    """Print what the controller says until the campaign is over, paused or waits; Ctrl-C leaves it alone."""
    from autoresearch.core.campaign.spec import CampaignPhase

    at = 0
    try:
        while True:
            controlled = campaign_dir.controlled  # before the last look at what it said
            at = _print_new(campaign_dir.log, at)
            state = _state(campaign_dir)
            if state.phase in (CampaignPhase.PAUSED, CampaignPhase.WAITING) or not controlled:
                _print_new(campaign_dir.log, at)
                break
            time.sleep(0.3)
    except KeyboardInterrupt:
        output.remark(f"the campaign goes on without this terminal: autoresearch wait {state.spec.name}")
        raise
    payload = _payload(campaign_dir, state)
    if payload["state"] == CampaignPhase.DEAD:
        raise AutoresearchError(
            f"the controller of {state.spec.name} died before the campaign was over; its runs go on",
            hint="`campaign resume` takes them up again",
            fix=f"autoresearch campaign resume {state.spec.name}",
            code="controller_died",
        )
    lines = [_headline(payload), payload["standing"], f"best: {_best_words(payload)}", *_seed_lines(payload)]
    output.emit("campaign start", payload, as_json=as_json, lines=lines)
    return 0


def _print_new(log: Path, at: int) -> int:
    try:
        with log.open("rb") as file:
            file.seek(at)
            data = file.read()
    except OSError:
        return at
    whole = data[: data.rfind(b"\n") + 1]
    for line in whole.decode("utf-8", "replace").splitlines():
        output.remark(line)
    return at + len(whole)


def _state(campaign_dir: CampaignDir) -> CampaignState:
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory

    return CampaignHistory(campaign_dir).state()


def _mark(campaign_dir: CampaignDir) -> tuple[int, str]:
    state = _state(campaign_dir)
    return len(state.rows), state.phase.value


def _payload(campaign_dir: CampaignDir, state: CampaignState) -> dict[str, Any]:
    """The flat object about a campaign."""
    from autoresearch.core.controller.agent_schedule import held
    from autoresearch.core.controller.rules import stand_at
    from autoresearch.core.controller.sentences import seed_words
    from autoresearch.lab.campaigns.campaign_status import next_commands, phase_now, reason_now, running

    found = stand_at(state, real_parts().clock())
    phase = phase_now(campaign_dir, state)
    best = state.best
    waits = None
    if state.spec.research.agent:
        from autoresearch.lab.agents.rate_limits import read_waiting

        waits = read_waiting(campaign_dir.waiting)
    return {
        "campaign": state.spec.name,
        "state": phase.value,
        "reason": reason_now(campaign_dir, state, phase),
        "controller_pid": _controller_pid(campaign_dir),
        "attempted": state.attempted,
        "remaining": found.remaining_ideas,
        "remaining_s": found.remaining_s,
        "standing": found.sentence,
        "stop_met": found.met or None,
        "best": best.slug if best and best.value is not None else None,
        "best_index": best.index if best and best.value is not None else None,
        "best_value": best.value if best else None,
        "baseline_value": state.baseline.value if state.baseline else None,
        "seed": asdict(state.seed_check) | {"sentence": seed_words(state)} if state.seed_check else None,
        "metric_name": state.spec.objective.metric,
        "kept": sum(idea.kept and idea.index > 1 for idea in state.ideas),
        "agent": state.spec.research.agent or None,
        "agent_waits": waits.sentence if waits and campaign_dir.controlled else None,
        "held": [one.slug for one in held(state)],
        "agent_usd": state.research.usage.usd,
        "agent_tokens": state.research.usage.tokens,
        "crashed": sum(idea.status == "crash" for idea in state.ideas),
        "skipped": len(state.skipped),
        "queue_faults": state.queue_faults,
        "confirmed": [idea.slug for idea in state.ideas if idea.confirmed == "confirmed"],
        "rows": len(state.rows),
        "running": [running(idea, run) for idea, run in state.live],
        "ledger": str(campaign_dir.ledger),
        "directory": str(campaign_dir.path),
        "next": next_commands(state, phase),
    }


def _running_line(one: dict[str, Any]) -> str:
    said = f"{one['slug']}, run {one['replicate']} ({one['why']}), {one['run']}"
    where = f" at {one['place']}" if one["place"] else ""
    why = f" ({one['reason']})" if one["reason"] else ""
    state = one["state"] if one["state"] in ("pending", "unreachable", "evaluating", "stopping") else "running"
    return f"{state}: {said}{where}{why}"


def _controller_pid(campaign_dir: CampaignDir) -> int | None:
    from autoresearch.records.rundir import read_json

    record = read_json(campaign_dir.controller) if campaign_dir.controlled else None
    return record.get("pid") if record else None


def _best_words(payload: dict[str, Any]) -> str:
    if payload["best_value"] is None:
        return "nothing is measured yet"
    base = payload["baseline_value"]
    against = f" (baseline {base:.4g})" if base is not None and payload["best_index"] != 1 else ""
    value = f"{payload['metric_name']} {payload['best_value']:.4g}"
    return f"idea {payload['best_index']}, {payload['best']}: {value}{against}"
