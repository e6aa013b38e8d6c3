"""agentjet: AgentJet's classic mode, in which one launcher trains agents with verl.

As of modelscope/AgentJet d20cce0e (the newest complete tree) and later stored versions of single files:
ajet/{launcher,backbone/trainer_verl}.py, ajet/utils/{launch_utils,config_utils,smart_daemon}.py. The console format is
verl's (see `signal`); validations are printed as step lines as well, the first one twice. The metrics are appended
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

import posixpath
from collections.abc import Iterator, Mapping

from autoresearch.core.blueprint.finding import Finding, warning
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import VERL_STEP, VERL_VALIDATION, SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import around, look_up, product, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Continuation, Output, Recipe, Source, SourceFormat
from autoresearch.core.shell import simple_commands
from autoresearch.core.text.numbers import counted
from autoresearch.core.text.regex import later
from autoresearch.trainers.framework import HOLD_S, CommandFramework, words_of

COMMON = "ajet.trainer_common"
VALIDATION = f"{COMMON}.val_print_to_markdown_file_path"
TRAINING = f"{COMMON}.train_print_to_markdown_file_path"
NAME = "ajet.experiment_name"
GPUS = ((f"{COMMON}.n_gpus_per_node", 8), (f"{COMMON}.nnodes", 1))
_LAUNCHER = later(r"\bajet[./]launcher\b")
_SWARM = ("--swarm-server", "--swarm-overwatch")

PASS_RATE = "task_pass_rate@1"

ANNOUNCED_S = 1800.0  # a validation may print nothing between its first and its last episode

_LINES = (
    VERL_STEP,
    VERL_VALIDATION,
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
        if any(flag in command for flag in _SWARM):
            return False
        return _LAUNCHER.search(command) is not None or any(s.name == "ajet" for s in simple_commands(command))

    def harmless(self) -> tuple[str, ...]:
        """A tool call that cannot be parsed, and an episode that is gone or was claimed by another client."""
        return (r"hermes_tool_parser", r"\b404\b.{0,200}episode", r"episode.{0,200}\b404\b")

    def objective(self, recipe: Recipe) -> Objective | None:
        """The share of solved validation tasks, or the training reward if the recipe never validates."""
        validated = validates_every(recipe) > 0
        return Objective(PASS_RATE if validated else "critic/real_reward", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """The validation file and the training file."""
        found = []
        if path := text_of(recipe, VALIDATION):
            found.append(Source(SourceFormat.DICT_LINES, path))
        if path := text_of(recipe, TRAINING):
            found.append(Source(SourceFormat.DICT_LINES, path, 1))
        return tuple(found)

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The recipe: of the launcher's flags only `--backbone` sets a key of it."""
        return recipe

    def arguments(self, overrides: Mapping[str, object]) -> tuple[str, ...]:
        """(): the launcher has no flags that set recipe keys."""
        return ()

    def lint(self, recipe: Recipe, cwd: str, result_dir: str) -> tuple[Finding, ...]:
        """The keys that AgentJet's skills ask for; `execute_test` is looked at in every recipe."""
        if look_up(recipe, "ajet") is None:
            return ()
        return (*_validation(recipe), *_files(recipe, cwd, result_dir), *_usual(recipe))

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """The marker file of a checkpoint under this experiment's name, unless resume_mode excludes it."""
        name = text_of(recipe, NAME).replace("|", "-")
        if name in ("", "read_yaml_name") or text_of(recipe, "trainer.resume_mode") not in ("", "auto"):
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


def validates_every(recipe: Recipe) -> int:
    """Steps between two validations, 20 if unset; 0: never."""
    value = look_up(recipe, f"{COMMON}.test_freq")
    number = 20 if value is None else whole_number(recipe, f"{COMMON}.test_freq")
    return max(number or 0, 0)


def _validation(recipe: Recipe) -> Iterator[Finding]:
    if look_up(recipe, f"{COMMON}.val_before_train") is not True:
        message = "val_before_train is not True: nothing says where training began"
        yield warning(0, "val_before_train", message, f"set {COMMON}.val_before_train: True")
    every, steps = validates_every(recipe), whole_number(recipe, f"{COMMON}.total_training_steps")
    if look_up(recipe, f"{COMMON}.test_freq") is None:
        message = "test_freq is not set: every 20 steps is validated"
        yield warning(0, "test_freq", message, f"set {COMMON}.test_freq: 10")
    elif every == 0:
        message = "test_freq is not above 0: no step is validated, not even the last"
        yield warning(0, "never_validates", message, f"set {COMMON}.test_freq: 10")
    elif steps and every > steps:
        message = f"test_freq is {every}, but training ends after {counted(steps, 'step')}: only its end is validated"
        yield warning(0, "never_validates", message, f"set {COMMON}.test_freq to at most {steps}")


def _files(recipe: Recipe, cwd: str, result_dir: str) -> Iterator[Finding]:
    """A file elsewhere is appended to by every run that names it."""
    for key in (VALIDATION, TRAINING):
        path, name = text_of(recipe, key), key.rpartition(".")[2]
        if not path:
            message = f"{name} is not set: what belongs into it is read from the console alone"
            yield warning(0, "no_metrics_file", message, f"set {key} to a file inside exp_result_dir")
        elif not posixpath.join(cwd, path.removeprefix("./")).startswith(f"{result_dir.rstrip('/')}/"):
            message = f"{name} lies outside of exp_result_dir: {path}"
            hint = "its lines are appended to those of every other run that names it; write it below exp_result_dir"
            yield warning(0, "outside_result_dir", message, hint)


def _usual(recipe: Recipe) -> Iterator[Finding]:
    """Keys whose usual value surprises: all GPUs, checkpoints, a name made of the time."""
    if look_up(recipe, GPUS[0][0]) is None:
        message = "n_gpus_per_node is not set: the trainer takes 8 GPUs"
        yield warning(0, "n_gpus_per_node", message, f"set {GPUS[0][0]} to as few as will do")
    every = look_up(recipe, f"{COMMON}.save_freq")
    if every is None or (whole_number(recipe, f"{COMMON}.save_freq") or 0) > 0:
        message = f"checkpoints of model and optimizer are saved every {every or 20} steps, and at the last one"
        yield warning(0, "saves_checkpoints", message, f"set {COMMON}.save_freq: -1 where nobody wants them")
    if text_of(recipe, NAME) in ("", "read_yaml_name"):
        message = "experiment_name is not set: every start makes a name of its own, of the file's name and the time"
        yield warning(0, "no_experiment_name", message, f"set {NAME}, another for each experiment")
