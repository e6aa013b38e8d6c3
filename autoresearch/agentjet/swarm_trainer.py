"""AgentJet in swarm mode: a client script runs agents against a training server (modelscope/AgentJet).

The lines that matter here (engine status, pool, steps) are autoresearch's own: `autoresearch swarm client` prints them
between the client's lines (engine.py). verl's step lines are in the server's log. The trainer never validates
in this mode (ajet/backbone/trainer_verl.py asserts it at 81e2b7d7); the client does, and prints `[EVAL @ step 10]
AIME-2025  mean_reward=0.2167 ... task_pass_rate@1=21.67% ...` (tutorial/opencode_build_aime). A task is passed if
its reward is above 0, in the trainer's own validation if it is 1 or more: so these names begin with `swarm/`.

Overrides: in the client's code, or in the YAML that it sends. Leaves behind: an engine whose processes left their
process group, `saved_checkpoints/<project>/<experiment>`, from which the next run with that name resumes, and the Ray
that `--with-ray` started. Graceful stop: POST /stop_engine, which `autoresearch stop` sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.agentjet.child import program
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import LineReader, Reading, SignalKind, SignalPattern, read_step_line
from autoresearch.core.run.hooks import Endpoint, HostServices, Say, ScaffoldOptions, ScaffoldResult, Templates
from autoresearch.core.run.recipe_keys import around, look_up, product, text_of
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.swarm import Swarm, is_url
from autoresearch.core.run.targets import Target
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat, Trainer
from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError
from autoresearch.runner.metric_lines import value_of

PREFIX = "swarm/"
COLLECTED_REWARD = f"{PREFIX}collected_reward/mean"
"""Mean reward of the episodes in a server's pool; not the `critic/rewards/mean` that its trainer logs."""
HOLD_S = 120.0  # a booting engine reports every 30 s, an evaluation's progress bar more often
MOVED_S = 0.001  # a filling pool is not a stall, but must not suspend the first-step limit

_CLIENT = later(
    r"\bagent_roll\w*\.py\b|-m[ \t]+[\w.]{0,200}\bagent_roll(?:_\w+)?(?=[ \t\n]|\Z)|\bAJET_SWARM_URL="
    r"|\bajet\.tuner_lib\.\S*swarm_client\b|\bauto_research/auto_train\.py\b"
)
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI]nf(?:inity)?)"
_TAG = r"^\[swarm\] "
_NEEDLE = ("[swarm] ",)
_SIGNALS = (
    SignalPattern(
        SignalKind.STEP,
        rf"{_TAG}step (?P<step>\d{{1,10}})(?: kl (?P<kl>{_NUMBER})| reward {_NUMBER})?(?=\r?$)",
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
_STEP = later(rf"\[swarm\] step (?P<step>\d{{1,10}})(?: kl (?P<kl>{_NUMBER})| reward (?P<reward>{_NUMBER}))?\Z")
_METRICS = {"kl": "actor/kl_loss", "reward": COLLECTED_REWARD}
_COMMON = "ajet.trainer_common"
_RUN_DIR = '"$AUTORESEARCH_RUN_DIR"'
_URL_VARIABLE = later(r"\bAJET_SWARM_URL=[\"']?(https?://[^\s\"';&|]+)")
_CLIENTS_OWN = later(r"(?<![\w/@.-])(?=(?:task_pass_rate@\d{1,6}|mean_reward|std_reward)(?![\w/@.-]))")


class ServerHooks:
    """The hooks of a trainer whose engine is a swarm server: `HasServer` and `HasPrograms`."""

    __slots__ = ()

    def recorded_metric(self, metric: str, notes: Notes) -> str:
        """Names of the client's evaluations differ from those of classic mode; those of declared files stay."""
        return metric if notes.source else _CLIENTS_OWN.sub(PREFIX, metric)

    def server_elsewhere(self, notes: Notes) -> bool:
        """Whether the GPUs belong to a machine where this run does not start the server."""
        return not (notes.swarm and notes.swarm.server)

    def check_server(
        self, blueprint: Blueprint, targets: Sequence[Target] = (), parallel: int = 1
    ) -> tuple[Finding, ...]:
        """Errors for what the server cannot do, and warnings about what it does."""
        recorded = self.recorded_metric(blueprint.notes.metric, blueprint.notes)
        return tuple(_check_server(_swarm(blueprint), blueprint, targets, parallel, recorded))

    def with_server(self, spec: RunSpec, blueprint: Blueprint) -> RunSpec:
        """The run with its server, started before the client and ended after it."""
        objective = spec.objective
        if objective:
            objective = replace(objective, metric=self.recorded_metric(objective.metric, blueprint.notes))
        return replace(
            spec,
            swarm=_swarm(blueprint),
            objective=objective,
            prepare=(*spec.prepare, program("up", _RUN_DIR)),
            cleanup=(program("down", _RUN_DIR), *spec.cleanup),
        )

    def check_port(self, spec: RunSpec) -> None:
        """Raises ConflictError if the port of this run's server is in use."""
        from autoresearch.agentjet.server import listening  # it costs an HTTP client, as the other two do

        port = spec.swarm.port if spec.swarm and spec.swarm.server else None
        if port is not None and listening(port):
            raise ConflictError(
                f"port {port} of this run's swarm server is taken by somebody else",
                hint="end that server, or write --swarm-port=$AJET_SWARM_PORT, which takes any free one",
                code="port_taken",
            )

    def with_server_metrics(self, spec: RunSpec) -> RunSpec:
        """The run with the metrics files in its final directories: its own and its server's."""
        if spec.swarm is None:
            return spec
        usual = (
            Source(SourceFormat.DICT_LINES, str(Path(spec.result_dir, "train_results.md")), 20),
            Source(SourceFormat.CONSOLE, f"{spec.run_dir}/server/run.log", 90),
        )
        known = {source.path for source in spec.sources}
        return replace(spec, sources=(*spec.sources, *(source for source in usual if source.path not in known)))

    def start_command(self, spec: RunSpec) -> str:
        """The command that the Runner starts instead of the client's; "" if it starts that itself."""
        return f"exec {program('client', _RUN_DIR)}" if spec.swarm else ""

    def stop_server(self, run_dir: str, end_processes: Callable[[str, float], int], say: Say) -> bool:
        from autoresearch.agentjet import server

        return server.stop(run_dir, end_processes, say)

    def run_program(self, program: str, run_dir: str, services: HostServices, say: Say) -> int:
        from autoresearch.agentjet import client

        return client.run_program(program, run_dir, services, say)


@dataclass(frozen=True, slots=True)
class AgentJetSwarm(ServerHooks, Trainer):
    """Reads the client's evaluations, the server's step lines, and the engine status printed by autoresearch.

    Implements `HasServer` and `HasPrograms` by `ServerHooks`, and `HasScaffold` (core/run/hooks.py).
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
        self._known = set[str]()  # data sets
        self._step = -1
        self._of_step: dict[str, dict[str, float]] = {}  # what was evaluated at this step, by data set

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
        """The metrics of a data set, and the means over all once each that is known was evaluated at this step."""
        printed = [(key, value_of(text.rstrip("%")), text.endswith("%")) for key, text in _PAIR.findall(pairs)]
        values = {key: value / 100 if percent else value for key, value, percent in printed if value is not None}
        if not values:
            return None
        if step != self._step:
            self._step, self._of_step = step, {}
        self._known.add(name)
        self._of_step[name] = values
        named = {f"{PREFIX}{name}/{key}": value for key, value in values.items()}
        every = self._of_step.values()
        whole = len(every) == len(self._known)
        shared = [key for key in values if whole and all(key in one for one in every)]
        named |= {PREFIX + key: sum(one[key] for one in every) / len(every) for key in shared}
        return Reading(SignalKind.VALIDATION, step, named)


def _check_server(
    swarm: Swarm, blueprint: Blueprint, targets: Sequence[Target], parallel: int, recorded: str
) -> Iterator[Finding]:
    def warning(code: str, message: str, hint: str) -> Finding:
        return Finding(Severity.WARNING, code, message, hint, blueprint.name, blueprint.lines.get("notes", 0))

    if parallel > 1 and not (swarm.server and swarm.port is None):
        message = f"{parallel} runs side by side would share one swarm server"
        message += ", and its engine trains one client at a time"
        hint = "`- swarm_server: ajet-swarm start --swarm-port=$AJET_SWARM_PORT` gives each its own; or --parallel 1"
        yield Finding(Severity.ERROR, "one_swarm_server", message, hint)
    for target in (target for target in targets if not target.is_local):  # as both sessions, and what checks them, are
        message = f"the two sessions of swarm mode are started on this machine, and {target.name} is not this machine"
        hint = "--launcher local where its server or its client is to be; "
        hint += "`- swarm_ssh: HOST` reaches a server elsewhere"
        yield Finding(Severity.ERROR, "swarm_is_local", message, hint)
    if not swarm.starts_session:
        where = swarm.url or "AJET_SWARM_URL, or http://127.0.0.1:10086"
        message, hint = f"no server is started: there must be one at {where}", "`- swarm_server: ...` starts one"
        yield warning("swarm_no_server", message, hint)
    metric = blueprint.notes.metric
    if metric.startswith("critic/") and not swarm.server:
        message = f"{metric} stands in the server's log, which is not here"
        hint = f"`- metric: {COLLECTED_REWARD}` is what the server's pool shows: more episodes than it then trains on"
        yield warning("swarm_metric_elsewhere", message, hint)
    if recorded != metric:
        message = f"the metric is recorded as {recorded}: classic mode counts it otherwise"
        yield warning("swarm_metric", message, f"write `- metric: {recorded}`")


def _swarm(blueprint: Blueprint) -> Swarm:
    """The swarm of the notes, with the server's address from the command or its variables if they have none."""
    swarm = blueprint.notes.swarm or Swarm()
    if swarm.url or swarm.starts_session:
        return swarm
    assigned = _URL_VARIABLE.search(blueprint.launch_command)
    url = (assigned[1] if assigned else blueprint.notes.env.get("AJET_SWARM_URL", "")).rstrip("/")
    return replace(swarm, url=url if is_url(url) else "")
