"""AgentJet in swarm mode: a client script runs agents against a training server (modelscope/AgentJet).

The lines that matter here (engine status, pool, steps) are autoresearch's own: `autoresearch swarm client` prints them
between the client's lines (engine.py). verl's step lines are in the server's log. The trainer never validates
in this mode (ajet/backbone/trainer_verl.py asserts it at 81e2b7d7); the client does, and prints `[EVAL @ step 10]
AIME-2025  mean_reward=0.2167 ... task_pass_rate@1=21.67% ...` (tutorial/opencode_build_aime).

Overrides: in the client's code, or in the YAML that it sends. Leaves behind: an engine whose processes left their
process group, `saved_checkpoints/<project>/<experiment>`, from which the next run with that name resumes, and the Ray
that `--with-ray` started. Graceful stop: POST /stop_engine, which `autoresearch stop` sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.agentjet.server_hooks import ServerHooks
from autoresearch.core.metrics.line_reader import LineReader, read_step_line
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.python_values import NUMBER
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.metrics.swarm_evaluations import COLLECTED_REWARD, PREFIX, Evaluations, share
from autoresearch.core.run.recipe_keys import around, look_up, product, text_of
from autoresearch.core.run.scaffold import Endpoint, ScaffoldOptions, ScaffoldResult, Templates
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat, Trainer
from autoresearch.core.text.regex import later

HOLD_S = 120.0  # a booting engine reports every 30 s, an evaluation's progress bar more often
MOVED_S = 0.001  # a filling pool is not a stall, but must not suspend the first-step limit

_CLIENT = later(
    r"\bagent_roll\w*\.py\b|-m[ \t]+[\w.]{0,200}\bagent_roll(?:_\w+)?(?=[ \t\n]|\Z)|\bAJET_SWARM_URL="
    r"|\bajet\.tuner_lib\.\S*swarm_client\b|\bauto_research/auto_train\.py\b"
)
_TAG = r"^\[swarm\] "
_NEEDLE = ("[swarm] ",)
_SIGNALS = (
    SignalPattern(
        SignalKind.STEP,
        rf"{_TAG}step (?P<step>\d{{1,10}})(?: kl (?P<kl>{NUMBER})| reward {NUMBER})?(?=\r?$)",
        needles=_NEEDLE,
    ),
    SignalPattern(SignalKind.PROGRESS, rf"{_TAG}engine ENGINE\.BOOTING\b", HOLD_S, _NEEDLE),
    SignalPattern(SignalKind.READY, rf"{_TAG}the engine has booted\b", needles=_NEEDLE),
    SignalPattern(SignalKind.PROGRESS, rf"{_TAG}engine ENGINE\.(?!BOOTING|OFFLINE)[A-Z_]{{1,40}}", MOVED_S, _NEEDLE),
    SignalPattern(
        SignalKind.ERROR, rf"{_TAG}error (?P<kind>[a-z_]{{1,40}}): (?P<text>[^\r\n]{{1,300}})", needles=_NEEDLE
    ),
    SignalPattern(SignalKind.NAN, rf"{_TAG}nan: (?P<text>[^\r\n]{{1,120}})", needles=_NEEDLE),
    SignalPattern(SignalKind.VALIDATION, r"\[EVAL @ step \d{1,9}\] \S", needles=("[EVAL @ step ",)),
    SignalPattern(SignalKind.PROGRESS, r"^EVAL [^\r\n]{1,120} @ step \d{1,9}: {1,4}\d{1,3}%", HOLD_S, (" @ step ",)),
)
_EVAL = later(r"\[EVAL @ step (?P<step>\d{1,9})\] (?P<name>\S.{0,200}?) {1,4}(?P<pairs>[\w@.-]{1,60}=\S.*)\Z")
_PAIR = later(r"([\w@.-]{1,60})=(\S+)")
_STEP = later(rf"\[swarm\] step (?P<step>\d{{1,10}})(?: kl (?P<kl>{NUMBER})| reward (?P<reward>{NUMBER}))?\Z")
_METRICS = {"kl": "actor/kl_loss", "reward": COLLECTED_REWARD}
_COMMON = "ajet.trainer_common"


@dataclass(frozen=True, slots=True)
class AgentJetSwarm(ServerHooks, Trainer):
    """Reads the client's evaluations, the server's step lines, and the engine status printed by autoresearch.

    Implements `HasServer` and `HasPrograms` (core/run/server.py) by `ServerHooks`, and `HasScaffold`
    (core/run/scaffold.py).
    """

    name: str = "agentjet_swarm"

    def recognises(self, command: str) -> bool:
        """Matches client scripts named as in AgentJet's skills and tutorials, and AJET_SWARM_URL in the command."""
        return _CLIENT.search(command) is not None

    def signals(self) -> tuple[SignalPattern, ...]:
        """autoresearch's swarm lines, the client's evaluations, and the fatal lines of any Python program."""
        return _SIGNALS

    def objective(self, recipe: Recipe) -> Objective | None:
        """The client's pass rate; `swarm/` separates it from that of classic mode, which counts differently."""
        return Objective(f"{PREFIX}task_pass_rate@1", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """The trainer's table of steps, if the recipe names one and the server is on this machine."""
        path = text_of(recipe, f"{_COMMON}.train_print_to_markdown_file_path")
        return (Source(SourceFormat.DICT_LINES, path, 20),) if path else ()

    def reader(self) -> LineReader:
        """A stateful reader: the name of an evaluation's metrics depends on the evaluations before it."""
        return _Lines()

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """The table of steps, and the experiment's name, which checkpoints and tracker runs share."""
        path = f"{_COMMON}.train_print_to_markdown_file_path"
        table = [Output(path, "train_results.md")] if text_of(recipe, path) else []
        return (*table, *([Output("ajet.experiment_name")] if text_of(recipe, "ajet.experiment_name") else []))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """Learning rate and KL loss coefficient, if the recipe sets them."""
        return around(recipe, f"{_COMMON}.optim.lr", f"{_COMMON}.kl_loss_coef")

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """The marker file of a checkpoint under this experiment's name; verl's resume_mode is auto here."""
        experiment = text_of(recipe, "ajet.experiment_name")
        if not experiment or experiment == "read_yaml_name":
            return ()
        base = text_of(recipe, f"{_COMMON}.checkpoint_base_dir") or "./saved_checkpoints"
        project = text_of(recipe, "ajet.project_name") or "ajet_default_project"
        return (f"{base}/{project}/{experiment}/latest_checkpointed_iteration.txt",)

    def gpus(self, recipe: Recipe) -> int | None:
        """The server's GPUs: GPUs per node (default 8) times nodes (default 1); None without an `ajet:` section."""
        if look_up(recipe, "ajet") is None:
            return None
        return product(recipe, (f"{_COMMON}.n_gpus_per_node", 8), (f"{_COMMON}.nnodes", 1))

    def write_scaffold(
        self, scaffold_options: ScaffoldOptions, directory: str, base: str, templates: Templates, *, force: bool
    ) -> tuple[str, ...]:
        from autoresearch.agentjet import scaffold

        return scaffold.write_scaffold(scaffold_options, Path(directory), Path(base), templates, force=force)

    def check_scaffold(self, directory: str, python: str, endpoint: Endpoint, item: str = "") -> ScaffoldResult:
        from autoresearch.agentjet import scaffold_check

        return scaffold_check.check_scaffold(Path(directory), python, endpoint, item)


class _Lines(LineReader):
    """Reads a client's log, or a server's."""

    needles = ("step:", "[EVAL @ step ", "[swarm] step ")

    def __init__(self) -> None:
        self._evaluations = Evaluations()

    def line(self, text: str) -> Reading | None:
        """Read a step of the server, a step printed by autoresearch, or an evaluation."""
        if "[EVAL @ step " in text:
            found = _EVAL.search(text)
            return self._evaluation(int(found["step"]), found["name"].strip(), found["pairs"]) if found else None
        if found := _STEP.match(text):
            metrics = {metric: float(found[name]) for name, metric in _METRICS.items() if found[name]}
            return Reading(SignalKind.STEP, int(found["step"]), metrics)
        return read_step_line(text) if "step:" in text else None

    def _evaluation(self, step: int, name: str, pairs: str) -> Reading | None:
        values = {key: value for key, text in _PAIR.findall(pairs) if (value := share(text)) is not None}
        return Reading(SignalKind.VALIDATION, step, self._evaluations.add(step, name, values)) if values else None
