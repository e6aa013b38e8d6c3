"""`autoresearch prove` and `audit`: is this gain real? And which of another loop's gains are worth the question?"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.campaign import Set, begun, directed_campaign, follow
from autoresearch.commands.campaign_control import resume
from autoresearch.commands.campaign_plan import unless_agreed
from autoresearch.commands.campaign_view import payload_of, state_of
from autoresearch.commands.name_lookup import DirectionWord, target_named
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.text.durations import parse_duration
from autoresearch.core.text.regex import later
from autoresearch.errors import InputMissing, UsageError

if TYPE_CHECKING:
    from autoresearch.lab.campaign_setup.proof import Side
    from autoresearch.records.campaign_records import CampaignDir

MOST_PROOFS = 5
_COMMIT = later(r"[0-9a-f]{6,40}\Z")
_USAGE = "autoresearch prove --against HEAD -- python train.py"


def prove(
    words: Annotated[list[str] | None, Positional(metavar="[REVISION] [-- COMMAND...]", show_default=False)] = None,
    against: Annotated[str, Option(metavar="REVISION", help="What it is compared with.")] = "",
    metric: Annotated[str, Option(help="The number that counts, if it is not found.")] = "",
    direction: DirectionWord = "",
    at_least: Annotated[str, Option(metavar="GAIN", help="It has to exceed this: 0.02, or 0.5%.")] = "",
    seed: Annotated[str, Option(metavar="SEED", help="What takes it: a setting, or random, fixed, none.")] = "",
    budget: Annotated[str, Option(metavar="DURATION", help="Time that it may take in all.")] = "",
    launcher: Annotated[
        str, Option(metavar="TARGETS", help="Where: local:2, ssh:gpu1:4, slurm:8.", checked=target_named)
    ] = "",
    gpus: Annotated[str, Option(help="The pool: none, all, N, 0,1 or UUIDs.")] = "",
    set_: Set = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the plan; change nothing.")] = False,
    full: Annotated[bool, Option("--full", help="All of the plan.")] = False,
    detach: Annotated[bool, Option("--detach", help="Return as soon as it runs.")] = False,
) -> CommandResult:
    """Tell whether one version of the code, or one command, is better than another, by fresh runs of both.

    `prove --against HEAD -- uv run train.py` (the working tree as it is); `prove mine theirs`; `prove -- 'python a.py'
    'python a.py --lr 1'` (whether the second is better than the first). The same line again goes on where it was.
    """
    from autoresearch.lab.campaign_setup.campaign_goal import what_counts
    from autoresearch.lab.campaign_setup.campaign_keys import read_campaign_file
    from autoresearch.lab.campaign_setup.preflight import preflight
    from autoresearch.lab.campaign_setup.proof import proof_file, provisional, same_before
    from autoresearch.lab.resolve.resolve_blueprint import raise_on_errors, read_blueprint, resolve_blueprint

    try:
        parse_duration(budget or "1h")
    except ValueError as error:
        raise UsageError(f"--budget: {error}", hint="durations look like 40m, 2h or 1h30m") from None
    candidate, baseline, blueprint = _sides(list(words or ()), against)
    parts, here = real_parts(), Path.cwd()
    asking = not (dry_run or output.typed.as_json or output.agent_or_pipe())
    path, is_new = proof_file(candidate, baseline, here, metric, blueprint, at_least, budget, direction, seed)
    with provisional(path.parent, is_new, planned=dry_run):
        if not candidate.revision:
            raise_on_errors(resolve_blueprint(read_blueprint(path.parent / "candidate.md"), environ=os.environ))
        flags = {"deadline": budget, "at_least": at_least, "metric": metric, "launcher": launcher, "gpus": gpus}
        campaign_file = read_campaign_file(str(path), flags, start=here, now=parts.clock(), pairs=set_ or ())
        try:
            proposed = directed_campaign(campaign_file, parts, asking=asking)
        except InputMissing as missing:  # the blueprint that lacks it is ours
            name = missing.add[0].removeprefix("- metric: ")
            missing.fix = output.typed.again("--metric", name) if missing.missing == ["metric"] else missing.fix
            raise
        campaign_dir = same_before(path, proposed, parts, committed=bool(candidate.revision))
        if campaign_dir is None:
            proposed = preflight(proposed)
            asks = ("question", f"is {candidate.shown} better than {baseline.shown}?")
            if dry_run and (plan := unless_agreed(proposed, first=asks, full=full, agree="")):
                return plan
    if campaign_dir is None:
        if found := what_counts(proposed.spec):
            output.remark(found)
        campaign_dir, _ = begun(proposed, parts)
    elif state_of(campaign_dir).phase is CampaignPhase.ENDED:
        output.remark("this was put to the proof before; --budget DURATION asks again, with more runs")
        return _proof_result(campaign_dir)
    elif not dry_run:
        resume(str(campaign_dir.path), detach=True)
    if not (dry_run or detach):
        follow(campaign_dir)
    return _proof_result(campaign_dir)


def _sides(words: list[str], against: str) -> tuple[Side, Side, Path | None]:
    """The two sides, and the project's blueprint where no command was typed."""
    from autoresearch.lab.campaign_setup.first_files import training_command
    from autoresearch.lab.campaign_setup.proof import Side
    from autoresearch.lab.campaign_setup.read_setup import WORKING_TREE
    from autoresearch.lab.resolve.resolve_blueprint import read_blueprint

    command = output.typed.behind
    revisions = words[: len(words) - len(command)]
    if not revisions and not against:
        if len(command) > 2 and " " in command[0]:
            raise UsageError(
                f"two commands are compared, each as one word, and `{command[2]}` follows them",
                hint="options of `prove` stand before `--`",
                fix=shlex.join(["autoresearch", *output.typed.ours, *command[2:], "--", *command[:2]]),
            )
        if len(command) != 2:
            raise UsageError("what is to be compared? name two revisions, or two commands as one word each", fix=_USAGE)
        return Side(command[1]), Side(command[0]), None
    revisions = [*(revisions or [WORKING_TREE]), against] if against else revisions
    if len(revisions) > 2:
        raise UsageError(f"two revisions are compared, and {len(revisions)} are named", fix=_USAGE)
    if len(revisions) < 2:
        raise UsageError(f"{revisions[0]} is compared with nothing", hint="--against names the other one", fix=_USAGE)
    blueprint, own = None, Path("experiment.md")
    trained_by = output.typed.behind_as_line
    if not trained_by and own.is_file():
        blueprint = own.absolute()
        trained_by = read_blueprint(blueprint).blueprint.launch_command
    trained_by = trained_by or training_command(Path.cwd())
    if not trained_by:
        raise UsageError("which command trains it? none was typed", fix=_USAGE)
    return Side(trained_by, revisions[0]), Side(trained_by, revisions[1]), blueprint


def _proof_result(campaign_dir: CampaignDir) -> CommandResult:
    """What is shown so far. Once it stands still, it exits with 0 only where it has an answer."""
    payload = payload_of(campaign_dir, state_of(campaign_dir))
    lines = [payload["sentence"], f"records: {campaign_dir.path}"]
    return CommandResult(payload, lines, payload["exit_code"] or 0)


def audit(
    ledger: Annotated[str, Positional(metavar="LEDGER [-- COMMAND...]", show_default=False)],
    command: Annotated[list[str] | None, Positional(hidden=True)] = None,
    metric: Annotated[str, Option(help="The column that counts, if no header says it.")] = "",
    direction: DirectionWord = "",
) -> CommandResult:
    """Read the ledger of another loop: how much of it noise alone would give, and what is worth being proved.

    Any TSV or CSV file with a header, a row for each attempt and a column of verdicts. The words behind `--` train one.
    """
    from autoresearch.lab.results.ledger_audit import gains_by_noise, read_ledger, steps_of

    objective, rows = read_ledger(Path(ledger), metric, direction)
    steps, kept = steps_of(objective, rows), sum(row.kept for row in rows)
    measured = sum(row.value is not None for row in rows)
    expected, at_most = gains_by_noise(measured)
    lines = [
        f"{measured} attempts with {objective.metric} ({objective.better_words}), {kept} kept; "
        f"{len(steps)} of them beat all before",
        f"noise alone would give {expected:.1f} such, {at_most} at most in 95 of 100 loops: "
        f"{len(steps)} is {'' if len(steps) > at_most else 'not '}more than that",
        "which of them are real, a ledger of single runs cannot tell; the largest are worth a proof:",
    ]
    proofs, trained_by = [], shlex.join(command or ()) or "COMMAND"
    for row, over, gain in sorted(steps, key=lambda step: -step[2])[:MOST_PROOFS]:
        lines.append(f"{row.name}: {objective.change(gain):+.4g}: {row.words[:80]}")
        if _COMMIT.match(row.name) and _COMMIT.match(over.name):
            proofs.append(f"autoresearch prove {row.name} --against {over.name} -- {trained_by}")
    payload = {
        **{"metric": objective.metric, "direction": str(objective.direction), "attempts": len(rows)},
        **{"measured": measured, "kept": kept, "best_so_far": len(steps)},
        **{"by_noise": round(expected, 2), "by_noise_at_most": at_most, "more_than_noise": len(steps) > at_most},
        "steps": [{"name": row.name, "over": over.name, "gain": gain, "words": row.words} for row, over, gain in steps],
        "next": proofs,
    }
    return CommandResult(payload, lines if steps else lines[:2])
