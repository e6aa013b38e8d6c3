"""The trainer's view of one launch, with the recipe as the command changes it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoresearch.core.blueprint.document import MAX_BYTES
from autoresearch.core.blueprint.finding import Finding, warning
from autoresearch.core.metrics.objective import Direction, ExpressionError, Objective, parse, usual_direction
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.trainer import Recipe, Source, Trainer
from autoresearch.core.shell import SimpleCommand
from autoresearch.core.statistics.seeding import UNSEEDED, VARIABLE, SeedWay
from autoresearch.errors import AutoresearchError, BlueprintError, ConflictError
from autoresearch.lab.recipes.overrides import LaunchSettings, seed_way_of
from autoresearch.lab.resolve import host_check
from autoresearch.lab.resolve.launch_command import VARIED, flags_of_program, read_start, scripts_below
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint
from autoresearch.lab.settings import Settings
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.readers.tracker_dirs import there
from autoresearch.trainers import ray_job

END_RAY_JOB = Path(__file__).parents[2] / "runner" / "end_ray_job.py"
RAY_S = 90.0  # the program itself waits a shorter time


@dataclass(frozen=True, slots=True)
class TrainerSettings:
    """A launch as its trainer understands it."""

    trainer: Trainer
    resolved: ResolvedBlueprint
    whole: Recipe  # merged with its parents and the command's settings
    command: str  # the command to run: the blueprint's, with its Ray job named
    understood: str  # the trainer's own command, from a script if need be, with its variables filled in
    flags: Mapping[str, object] = field(default_factory=dict)  # `--lr` -> default, as the program's `--help` has them

    @property
    def started(self) -> SimpleCommand | None:
        """The trainer's own command, from the command or a script; None if none is recognised."""
        return self.resolved.shell_reading.trainer(self.trainer.recognises)

    @property
    def steps_known(self) -> bool:
        """Whether the trainer's or the blueprint's lines tell what a step is."""
        return self.trainer.named or bool(self.resolved.blueprint.notes.step_line)

    @property
    def cwd(self) -> Path:
        """The directory where the trainer's own command runs."""
        started = self.started
        return self.resolved.codebase / (started.cwd or "") if started else self.resolved.codebase

    @property
    def sources(self) -> tuple[Source, ...]:
        """Files of metrics, as absolute paths: declared ones, then those that the trainer writes."""
        found: dict[str, Source] = {}
        for source in (*self.resolved.blueprint.notes.source, *self.trainer.sources(self.whole)):
            path = str((self.cwd / source.path).absolute())
            found.setdefault(path, replace(source, path=path))
        return tuple(found.values())

    @property
    def cleanup(self) -> tuple[str, ...]:
        """Commands to run after any ending: first the end of a job that outlives its client, then the blueprint's."""
        job = ray_job.find(self.understood)
        words = [sys.executable, "-I", str(END_RAY_JOB), job.address, job.submission_id] if job else []
        ends = (shlex.join(words),) if job and job.submission_id else ()
        return (*ends, *self.resolved.blueprint.notes.cleanup)

    @property
    def seed_way(self) -> SeedWay:
        """How the seed of a campaign's run reaches the training."""
        return seed_way_of(self.launch(), self.whole, self.resolved.blueprint.notes)

    @property
    def seeding(self) -> tuple[str, str]:
        """`random`, `fixed` or `none`, as the notes declare it, and that they do; "" and "" where the runs tell."""
        note = self.resolved.blueprint.notes.seed
        return (note, f"the notes say `- seed: {note}`") if note in UNSEEDED else ("", "")

    def launch(self, root: Path | None = None) -> LaunchSettings:
        """All that the blueprint's command can vary. `root`: of its repository; None for the codebase itself."""
        resolved, reading = self.resolved, self.resolved.shell_reading
        recipe = resolved.inherited if str(resolved.recipe).lower().endswith(VARIED) else None
        scripts = scripts_below(root or resolved.codebase, reading, resolved.codebase)
        return LaunchSettings(self.trainer, recipe, reading.text, scripts, self.flags)

    def with_flags(self, environ: Mapping[str, str]) -> TrainerSettings:
        """It, with the flags that the `--help` of a program names whose trainer does not know its command line."""
        resolved = self.resolved
        if self.trainer.takes_arguments:
            return self
        own = {**environ, **resolved.blueprint.notes.env}
        flags = flags_of_program(resolved.shell_reading, resolved.codebase, resolved.interpreter, own)
        return replace(self, flags=flags)

    @property
    def seed_words(self) -> str:
        """How a campaign seeds its runs, for people."""
        way = self.seed_way
        numbers = f"{way}, from {way.first}, and the next numbers for replicates"
        key = self.trainer.seed_key_in(self.whole) if self.trainer.named else ""
        if way.name != VARIABLE or not key:
            return numbers
        return f"{numbers}; nothing fixes {key}, which {self.trainer.name} would take: write it into the recipe"

    def refuse_seed(self) -> None:
        """Raise BlueprintError if the way that the notes declare for a seed has no effect."""
        way, note = self.seed_way, self.resolved.blueprint.notes.seed
        if way.kind != "variable" and way.name == note:  # else it was found by us, and can be set
            self.launch().check({way.name: way.first})

    @property
    def objective(self) -> Objective | None:
        """The metric of the blueprint, else the trainer's usual one; None where nobody names one.

        Raises BlueprintError for an expression that cannot be parsed.
        """
        notes, usual, path = self.resolved.blueprint.notes, self.trainer.objective(self.whole), self.resolved.path
        if not notes.metric:
            return replace(usual, direction=Direction(notes.direction)) if usual and notes.direction else usual
        try:
            parse(notes.metric)
        except ExpressionError as error:
            raise BlueprintError(f"{path}: the metric {error}", code="bad_metric") from None
        return Objective(notes.metric, Direction(notes.direction or usual_direction(notes.metric, usual)))

    def findings(self) -> list[Finding]:
        """Problems of recipe and command together."""
        cwd, result_dir = str(self.cwd), str(self.resolved.result_dir)
        found = [*self.trainer.lint(self.whole, cwd, result_dir), *ray_job.lint(self.understood)]
        if self.trainer.in_full and not self.sources:
            message = "metrics are read from the console, which rounds them and leaves some out"
            found.append(warning(0, "console_alone", message, f"`{self.trainer.in_full}` writes all of them"))
        return found

    def findings_of_run(self) -> list[Finding]:
        """Those of the blueprint, these, and a warning if no metric judges the run."""
        found = [*self.resolved.findings, *self.findings()]
        if not self.objective:
            notes = "the notes of the blueprint that the run writes" if self.resolved.file.is_typed else "the notes"
            message = "no metric is named, so the run cannot be judged; it will list the numbers that it prints"
            found.append(warning(0, "no_metric", message, f"add `- metric: NAME` to {notes}"))
        return found

    @property
    def output(self) -> str:
        """The absolute path of the file that the trainer's output goes into; "" if into none, or it cannot be followed.

        `?` where only its process will tell, as of `log_$(date +%F).txt`.
        """
        trains = [one for one in self.resolved.shell_reading.commands if one.may_train]
        last = self.started or (trains[-1] if trains else None)
        file = last.output if last is not None else ""
        if last is None or not file or last.elsewhere or file.startswith("/dev/"):
            return ""
        if self.resolved.blueprint.notes.swarm is not None:
            return ""
        known = last.cwd is not None and not set(file) & set("$`*?[~")
        return str((self.resolved.codebase / last.cwd / file).absolute()) if known and last.cwd is not None else "?"

    def gpus_needed(self, environ: Mapping[str, str]) -> int:
        """How many GPUs of this machine recipe or command ask for; 0 if they say nothing, or have them elsewhere."""
        started = self.started
        if started is not None and started.elsewhere:
            return 0
        commands = self.resolved.shell_reading.commands
        return host_check.needed(self.trainer, self.whole, self.understood, environ, commands, self._file_of)

    def _file_of(self, simple: SimpleCommand, path: str) -> Recipe:
        """The YAML file that a command names, such as the configuration of `accelerate launch`; {} for any other."""
        place = self.resolved.codebase / (simple.cwd or "") / path
        try:
            return parse_mapping(read_start(place, MAX_BYTES), path)
        except (OSError, ValueError, AutoresearchError):
            return {}

    def resume_conflict(self) -> ConflictError | None:
        """The error if a fresh run would silently continue an earlier one, from what that left."""
        patterns = () if self.resolved.blueprint.notes.resume else self.trainer.resumes(self.whole)
        left = [hit for pattern in patterns for hit in there(self.cwd / pattern)]
        if not left:
            return None
        return ConflictError(
            f"{left[0]} is there: {self.trainer.name} would go on from it, and this run would not begin afresh",
            hint="move it away or give this run a place of its own; to go on from it, add `- resume: true` "
            "to the notes of the blueprint",
            code="would_resume",
        )


def ask_trainer(trainer: Trainer, resolved: ResolvedBlueprint, *, job: str = "") -> TrainerSettings:
    """Query the trainer. `job`: the name for a Ray job that the command submits without one; "" leaves it unnamed."""
    reading = resolved.shell_reading
    command = ray_job.named(resolved.blueprint.launch_command, job)
    started = reading.trainer(trainer.recognises)
    understood = started.text if started else command
    if started and started.own:  # only there can the job be named
        understood = ray_job.named(understood, job)
    return TrainerSettings(trainer, resolved, trainer.settings(resolved.inherited, understood), command, understood)


def limits_of(trainer_settings: TrainerSettings, settings: Settings) -> Limits:
    """The blueprint's limits, else the project's; a flag overrides both and makes the first step strict.

    If the trainer's steps cannot be recognised, the default limit to the first one counts from the last output.
    """
    blueprint, usual = trainer_settings.resolved.blueprint, Limits()
    ours = {"first_step_timeout": usual.first_step_s, "max_time": usual.max_s, "grace": usual.grace_s}
    ours["first_step_cap"] = usual.first_step_cap_s
    ours |= {name: value for name in ours if (value := settings.seconds(name)) is not None}
    typed = [n for n, value in settings.values.items() if value.source.startswith("flag")]
    return Limits(
        first_step_s=blueprint.first_step_s if blueprint.first_step_given else ours["first_step_timeout"],
        max_s=blueprint.max_time_s if blueprint.max_time_given else ours["max_time"],
        stall_s=settings.seconds("stall_timeout"),
        grace_s=ours["grace"],
        first_step_cap_s=ours["first_step_cap"],
        first_step_since_output=not blueprint.first_step_given and not trainer_settings.steps_known,
    ).override(
        first_step_s=ours["first_step_timeout"] if "first_step_timeout" in typed else None,
        max_s=ours["max_time"] if "max_time" in typed else None,
    )
