"""agentjet: AgentJet's classic mode, in which one launcher trains agents with verl.

As of modelscope/AgentJet d20cce0e (the newest complete tree) and later stored versions of single files:
ajet/{launcher,backbone/trainer_verl}.py, ajet/utils/{launch_utils,config_utils,smart_daemon}.py. The console format is
verl's (see `step_line`); validations are printed as step lines as well, the first one twice. The metrics are appended
to two files, one dict per line (see `readers.jsonl`). docs/agentjet.md has all rules.

`task_pass_rate@1` counts answers with a reward of 1 or more. Swarm clients count every reward above 0, so their metric
has another name here and the two are never compared. The KL is in every line, 0 if it is switched off.

Overrides: only in the recipe, the launcher has no flags for them. Leaves behind: a Ray head (`--with-ray`) and the
servers of `--with-appworld` and similar flags, each in its own session and recorded under
`saved_experiments/companion_logs`; `<checkpoint_base_dir>/<project>/<experiment>`, from which the next run with that
name resumes. A signal saves nothing; `total_training_steps` ends a run cleanly. The launcher's exit code is 1 for every
failure.
"""

from __future__ import annotations

from collections.abc import Mapping

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.metrics import step_line
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import around, look_up, product, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Circumstances, Continuation, Output, Recipe, Recording, Source, SourceFormat
from autoresearch.trainers import agentjet_lint
from autoresearch.trainers.agentjet_lint import COMMON, FLAGS, GPUS, NAME, TRAINING, VALIDATION
from autoresearch.trainers.command_settings import with_flags
from autoresearch.trainers.framework import FATAL_WITH_RAY, HOLD_S, LOADING, CommandFramework, words_of

PASS_RATE = "task_pass_rate@1"
COMPANIONS = "saved_experiments/companion_logs/companion/*.pgid"

ANNOUNCED_S = 1800.0  # a validation may print nothing between its first and its last episode

_LINES = (
    *(step_line.STEP, step_line.VALIDATION, *FATAL_WITH_RAY, LOADING),
    words_of(  # the launcher's own words, before or instead of a traceback
        SignalKind.ERROR,
        (
            *("Error running subprocess: Command '[", "GPU memory check failed: all GPUs must have"),
            *("SWANLAB_API_KEY is not set in the environment", "Python environment does not match current backbone"),
            "We found a configuration conflict between AgentJet and Verl!",
        ),
    ),
    SignalPattern(  # boot and validation go on
        SignalKind.PROGRESS,
        r"@ step \d{1,9}: {1,4}\d{1,3}%"  # EVAL @ step 0: 49% 1882/3840
        r"|Rollout progress \((?!0\.00 )[\d.]{1,20} tokens/s\)"  # every ten seconds; without tokens no progress
        r"|Waiting for process launch \[PGID"  # --with-ray and similar flags, which have their own time limit
        r"|test_gen_batch meta info:|Training from scratch|ompleted validate rollout|end validate rollout",
        HOLD_S,
        (
            *("@ step ", "Rollout progress (", "Waiting for process launch [PGID", "test_gen_batch meta info:"),
            *("Training from scratch", "ompleted validate rollout", "end validate rollout"),
        ),
    ),
    # a validation begins: `Starting ...`, or `start ...` in older trees
    words_of(SignalKind.PROGRESS, ("tarting validate rollout", "tart validate rollout"), ANNOUNCED_S),
)


class AgentJet(CommandFramework):
    """AgentJet's launcher, recipe, console and files."""

    name = "agentjet"
    lines = _LINES
    seed_key = "data.seed"  # verl's, beside `ajet:`; it orders the tasks, the rollouts stay random

    def recognises(self, command: str) -> bool:
        """`python -m ajet.launcher ...`, or `ajet ...`; not a swarm's server or clients (see `agentjet_swarm`)."""
        return agentjet_lint.launches(command)

    def harmless(self) -> tuple[str, ...]:
        """A tool call that cannot be parsed, and an episode that is gone or was claimed by another client."""
        return (r"hermes_tool_parser", r"\b404\b.{0,200}episode", r"episode.{0,200}\b404\b")

    def objective(self, recipe: Recipe) -> Objective | None:
        """The share of solved validation tasks, or the training reward if the recipe never validates."""
        validated = agentjet_lint.validates_every(recipe) > 0
        return Objective(PASS_RATE if validated else "critic/real_reward", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """The validation file, in which lines of older versions name no step, and the training file."""
        found = []
        if path := text_of(recipe, VALIDATION):
            every = agentjet_lint.validates_every(recipe) or 1
            first = 0 if look_up(recipe, f"{COMMON}.val_before_train") else every
            last = whole_number(recipe, f"{COMMON}.total_training_steps") or 0
            found.append(Source(SourceFormat.DICT_LINES, path, 0, first, every, last))
        if path := text_of(recipe, TRAINING):
            found.append(Source(SourceFormat.DICT_LINES, path, 1))
        return tuple(found)

    def recording(self, recipe: Recipe, directory: str) -> Recording | None:
        """Set the metrics files that the recipe does not name; AgentJet creates the directory."""
        if look_up(recipe, "ajet") is None:
            return None
        wanted = {VALIDATION: f"{directory}/validation.md", TRAINING: f"{directory}/training.md"}
        missing: dict[str, object] = {key: path for key, path in wanted.items() if not text_of(recipe, key)}
        if not missing:
            return None
        first = next(s for s in self.sources({**recipe, **missing}) if s.path in missing.values())
        return Recording(first, overrides=missing)

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """Add the launcher's flags as a separate group; `ajet.backbone` is the only recipe key that they set."""
        flags = with_flags({}, command) if self.recognises(command) else {}
        return {**recipe, FLAGS: flags} if flags else recipe

    def arguments(self, overrides: Mapping[str, object]) -> tuple[str, ...]:
        """(): the launcher has no flags that set recipe keys."""
        return ()

    def lint_command(self, command: str) -> tuple[Finding, ...]:
        return tuple(agentjet_lint.lint_command(command))

    def lint(self, recipe: Recipe) -> tuple[Finding, ...]:
        return agentjet_lint.lint(recipe)

    def lint_here(self, recipe: Recipe, here: Circumstances) -> tuple[Finding, ...]:
        return agentjet_lint.lint_here(recipe, here)

    def companions(self) -> tuple[str, ...]:
        """The files `<tag>.<hash>.<host>.pgid` of ajet/utils/smart_daemon.py, relative to the launcher's directory."""
        return (COMPANIONS,)

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """The marker file of a checkpoint under this experiment's name, unless resume_mode excludes it."""
        name = text_of(recipe, NAME).replace("|", "-")
        if name in ("", "read_yaml_name") or not agentjet_lint.resumes_by_itself(recipe):
            return ()
        base = text_of(recipe, f"{COMMON}.checkpoint_base_dir") or "./saved_checkpoints"
        project = text_of(recipe, "ajet.project_name") or "ajet_default_project"
        folder = f"{base.rstrip('/')}/{project}/{name}"
        return () if "$" in folder else (f"{folder}/latest_checkpointed_iteration.txt",)

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """The same experiment below the same checkpoint directory: verl's resume_mode is auto."""
        base, marks = text_of(recipe, f"{COMMON}.checkpoint_base_dir"), self.resumes(recipe)
        if not marks or not base.startswith("/"):
            return None
        return Continuation({f"{COMMON}.checkpoint_base_dir": base, NAME: text_of(recipe, NAME)}, marks[0])

    def gpus(self, recipe: Recipe) -> int | None:
        """GPUs per node (default 8) times nodes (default 1); None without an `ajet:` section."""
        return product(recipe, *GPUS) if look_up(recipe, "ajet") is not None else None

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """Both metrics files and the experiment's name, even if unset; the checkpoint directory if one is set."""
        saved = f"{COMMON}.checkpoint_base_dir"
        own = (Output(saved, "checkpoints"),) if text_of(recipe, saved) else ()
        return (Output(VALIDATION, "validation.md"), Output(TRAINING, "training.md"), *own, Output(NAME))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """Learning rate and KL coefficient, if the recipe sets them."""
        keys = [f"{COMMON}.optim.lr"]
        if look_up(recipe, f"{COMMON}.use_kl_loss") is None or true_at(recipe, f"{COMMON}.use_kl_loss"):
            keys.append(f"{COMMON}.kl_loss_coef")
        return around(recipe, *keys)
