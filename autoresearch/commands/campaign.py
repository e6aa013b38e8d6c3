"""`autoresearch campaign start`: many hypotheses, one objective, while nobody watches."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.campaign_plan import unless_agreed
from autoresearch.commands.campaign_view import changed, live_parts, stand_result, state_of
from autoresearch.commands.live_line import live_line, new_lines
from autoresearch.commands.name_lookup import DirectionWord, target_named
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import AutoresearchError, ConflictError, InputMissing, UsageError
from autoresearch.runner.log_follower import LogFollower

if TYPE_CHECKING:
    from autoresearch.lab.campaign_setup.campaign_keys import CampaignFile
    from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign
    from autoresearch.lab.parts import Parts
    from autoresearch.records.campaign_records import CampaignDir
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Any key of `autoresearch config schema`."),
]


def start(
    source: Annotated[str, Positional(metavar="BLUEPRINT|CAMPAIGN.YAML", show_default=False)] = "",
    count: Annotated[int, Option(help="Stop after so many attempted ideas; the baseline is one.")] = 0,
    deadline: Annotated[str, Option(metavar="DURATION|TIME", help="Stop by then.")] = "",
    timeout: Annotated[str, Option(metavar="DURATION", help="Limit of each run; beyond it, a failure.")] = "",
    metric: Annotated[str, Option(help="The objective, if not the blueprint's.")] = "",
    direction: DirectionWord = "",
    proposer: Annotated[str, Option(help="queue, grid, random, tpe, agent or hybrid.")] = "",
    space: Annotated[str, Option(metavar="YAML", help="What to search, as a file.")] = "",
    queue: Annotated[str, Option(metavar="PATH", help="A folder of blueprints, or a YAML list of ideas.")] = "",
    parallel: Annotated[int, Option(help="Runs at a time.")] = 0,
    launcher: Annotated[
        str, Option(metavar="TARGETS", help="Where: local:2, ssh:gpu1:4, slurm:8.", checked=target_named)
    ] = "",
    gpus: Annotated[str, Option(help="The pool: none, all, N, 0,1 or UUIDs.")] = "",
    agent: Annotated[str, Option(help="claude, codex, opencode, gemini, qwen, goose, command; or several: a,b.")] = "",
    set_: Set = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the plan; change nothing.")] = False,
    full: Annotated[bool, Option("--full", help="All of the plan.")] = False,
    detach: Annotated[bool, Option("--detach", help="Return as soon as it runs.")] = False,
) -> CommandResult:
    """Start a campaign: print the plan, ask, then run ideas until a stop rule is met.

    `autoresearch config schema` lists the keys of a campaign file, which --set takes too: --set screen=10m.
    """
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.campaign_setup.campaign_keys import read_campaign_file
    from autoresearch.lab.campaign_setup.preflight import preflight

    if count < 0 or parallel < 0:
        raise UsageError("--count and --parallel are numbers above 0")
    flags: dict[str, Any] = {
        "count": count or None,
        "deadline": deadline,
        "timeout": timeout,
        "metric": metric,
        "direction": direction,
        "proposer": proposer,
        "space": space,
        "queue": queue,
        "parallel": parallel or None,
        "launcher": launcher,
        "gpus": gpus,
        "agent": agent,
    }
    parts = real_parts()
    asking = not (dry_run or yes or output.typed.as_json or output.agent_or_pipe())
    campaign_file = read_campaign_file(source, flags, start=Path.cwd(), now=parts.clock(), pairs=set_ or ())
    prefix = campaign_file["prefix"].strip("/")
    if not dry_run and (same := campaign_registry.begun_from(campaign_file.read_from, prefix, parts)):
        return _once_more(same.campaign_dir, parts, detach=detach)
    with _typed_again():
        proposed = preflight(directed_campaign(campaign_file, parts, asking=asking))
    if dry_run or not yes:
        code = 0 if dry_run or asking else UsageError.exit_code
        if plan := unless_agreed(proposed, asking=asking, exit_code=code, full=full):
            return plan
    campaign_dir, attach = begun(proposed, parts)
    if not detach:
        return follow(campaign_dir)
    result = changed(campaign_dir, f" runs; attach: {attach}", {"attach": attach})
    return CommandResult(result.payload, [*result.lines, f"ledger: {campaign_dir.ledger}"])


def begun(proposed: ProposedCampaign, parts: Parts) -> tuple[CampaignDir, str]:
    """Start a campaign: its directory, and how to attach to it."""
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.notices.run_notices import project_recipients

    if not proposed.trainer_settings.steps_known:
        output.remark(f"first step: {proposed.first_step_rule}")
    with _typed_again():
        campaign_dir = start_campaign.create(proposed, parts)
    try:
        attach = start_campaign.start_and_wait(campaign_dir, parts)
    except KeyboardInterrupt:
        message = f"interrupted at its start; whether it runs: autoresearch campaign status {proposed.spec.name}"
        raise KeyboardInterrupt(message) from None
    for warning in project_recipients(Path(proposed.spec.blueprint).parent).warnings:
        output.remark(warning)
    output.remark(f"{proposed.spec.name} in {campaign_dir.path} runs in a session of its own; {attach}")
    return campaign_dir, attach


def directed_campaign(campaign_file: CampaignFile, parts: Parts, *, asking: bool) -> ProposedCampaign:
    """The campaign as it would be started; if `asking`, a person says which values are better where nothing else does.
    """
    from autoresearch.lab.campaign_setup.resolve_campaign import resolve_campaign

    try:
        return resolve_campaign(campaign_file, parts)
    except InputMissing as missing:
        if missing.missing != ["direction"]:
            raise
        if not asking:
            missing.fix = output.typed.again("--direction", "minimize", without=("--json",))
            raise
        from autoresearch.commands.project import asked_direction

        said = {"direction": asked_direction(missing.message)}
        values, sources = {**campaign_file.values, **said}, {**campaign_file.sources, "direction": "the keyboard"}
    return resolve_campaign(replace(campaign_file, values=values, sources=sources), parts)


@contextlib.contextmanager
def _typed_again() -> Iterator[None]:
    """Where another `--set` would do, the line to type is what was typed, with that `--set`."""
    try:
        yield
    except AutoresearchError as error:
        if error.setting:
            error.fix = output.typed.again("--set", error.setting, without=("--json",))
        raise


def _once_more(campaign_dir: CampaignDir, parts: Parts, *, detach: bool) -> CommandResult:
    """The same line again: follow the campaign that it began, or have it go on where it stands still."""
    from autoresearch.core.campaign.spec import CampaignPhase

    state = state_of(campaign_dir)
    name, runs = state.spec.name, campaign_dir.controlled and state.phase is not CampaignPhase.PAUSED
    if runs and state.stop_mode:
        raise ConflictError(f"{name}, which this line began, is being ended", fix=f"autoresearch wait {name}")
    if not runs:
        output.remark(f"{name} was begun by this line and has not ended")
        return go_on(campaign_dir, parts, detach=detach)
    output.remark(f"{name} was begun by this line and runs; its files are read again by `campaign pause` and `resume`")
    return changed(campaign_dir, " runs") if detach else follow(campaign_dir)


def go_on(
    campaign_dir: CampaignDir, parts: Parts, pairs: Sequence[str] = (), *, detach: bool = False
) -> CommandResult:
    """Have a campaign that has not ended go on, and follow it. pairs: KEY=VALUE that a paused one takes."""
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaigns import context

    paused = state_of(campaign_dir).phase is CampaignPhase.PAUSED
    more = as_they_are_now(campaign_dir, pairs) if paused else {}
    if paused or campaign_dir.controlled:
        context.ask(campaign_dir, "resume")
    else:
        start_campaign.start_and_wait(campaign_dir, parts)
    start_campaign.answered(campaign_dir, parts)
    return changed(campaign_dir, " goes on", more) if detach else follow(campaign_dir, more)


def as_they_are_now(campaign_dir: CampaignDir, pairs: Sequence[str] = ()) -> dict[str, Any]:
    """Have blueprint and campaign file read again; what was taken and ignored, which is said, too."""
    from autoresearch.lab.campaign_setup.read_again import read_again

    came = read_again(campaign_dir, real_parts(), pairs)
    if came.unread and pairs:
        raise ConflictError(f"nothing is taken of {' '.join(pairs)}: {came.unread}")
    for sentence in came.sentences:
        output.remark(sentence)
    return {"taken": list(came.taken), "ignored": list(came.ignored)}


def follow(campaign_dir: CampaignDir, more: Mapping[str, Any] | None = None) -> CommandResult:
    """Print what the controller says until the campaign is over, paused or waits; Ctrl-C leaves it alone.

    It exits with 0 unless nothing could be measured.
    """
    from autoresearch.core.campaign.spec import CampaignPhase

    name = state_of(campaign_dir).spec.name
    try:
        _follow(campaign_dir)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the campaign goes on without this terminal: autoresearch wait {name}") from None
    result = stand_result(campaign_dir, state_of(campaign_dir), more=more or {})
    if result.payload["state"] == CampaignPhase.DEAD:
        raise AutoresearchError(
            f"the controller of {name} died before the campaign was over; its runs go on",
            hint="`campaign resume` takes them up again",
            fix=f"autoresearch campaign resume {name}",
            code="controller_died",
        )
    return replace(result, exit_code=result.payload["exit_code"] or 0)


def _follow(campaign_dir: CampaignDir) -> None:
    """Print what its controller says until there is nothing more to follow, above a live line if there is one."""
    from autoresearch.core.campaign.spec import CampaignPhase
    from autoresearch.records.campaign_records import LOG_ONLY

    told = LogFollower(str(campaign_dir.log))
    with live_line() as display:
        while True:
            controlled = campaign_dir.controlled  # before the last look at what it said
            state = state_of(campaign_dir)
            for line in new_lines(told):
                if not line.partition(" ")[2].startswith(LOG_ONLY):
                    display.say(line)
            if state.phase in (CampaignPhase.PAUSED, CampaignPhase.WAITING) or not controlled:
                return
            if display.display:
                display.show(live_parts(state))
            time.sleep(0.3)
