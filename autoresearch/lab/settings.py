"""A project's defaults; precedence: flags, environment, autoresearch.yaml, built-in values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.core.keys import Key, ValueType, truth, unknown_key
from autoresearch.core.run.limits import FIRST_STEP_CAP_S, FIRST_STEP_S, GRACE_S, MAX_TIME_S
from autoresearch.core.run.targets import Declared, Target, check_declared, parse_pool
from autoresearch.core.text.durations import parse_duration, problem
from autoresearch.errors import BlueprintError, UsageError
from autoresearch.plugins import Registry

FILE = "autoresearch.yaml"
PLUGINS = Registry("launchers")
LAUNCHERS = "launchers"  # this key and the next are not single values
NOTIFY = "notify"
NOTIFY_MEANING = "who gets a notice of ends, pauses ...: an Apprise URL, the path of an Apprise configuration, a list"
_LAUNCHERS_HINT = "such as: launchers: {gpu1: {kind: ssh, host: gpu1.example.org, slots: 4}}"


_T = ValueType
KEYS = (  # the built-in values are texts, as they would be typed
    Key(
        "first_step_timeout",
        _T.DURATION,
        f"{FIRST_STEP_S / 60:.0f}m",
        "limit to the first step (of silence, where steps are not known yet), unless the blueprint sets one",
    ),
    Key("max_time", _T.DURATION, f"{MAX_TIME_S / 3600:.0f}h", "limit of a run, unless the blueprint sets one"),
    Key("stall_timeout", _T.DURATION, "", "end a run after so long without a new event; empty: only report it"),
    Key("grace", _T.DURATION, f"{GRACE_S:.0f}s", "between TERM and KILL"),
    Key(
        "first_step_cap",
        _T.DURATION,
        f"{FIRST_STEP_CAP_S / 3600:.0f}h",
        "most that boot and validation may add to the first-step limit",
    ),
    Key("tmux_socket", _T.TEXT, "", "tmux socket name or path; empty: the default server"),
    Key("launcher", _T.TEXT, "local", "where runs go: local, slurm, ray, ssh:HOST ... or a name under `launchers:`"),
    Key("trainer", _T.TEXT, "", "trainer of blueprints that name none; empty: from the command"),
    Key("gpus", _T.TEXT, "none", "GPUs to lease: none, all, N, 0,1 or UUIDs"),
    Key("gpu_check", _T.SWITCH, "yes", "no: start recipes that ask for more GPUs than there are"),
    Key("prefix", _T.TEXT, "autoresearch", "first part of branch names"),
)


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The effective value of a setting: the text and its source."""

    key: Key
    text: str
    source: str  # "built-in", "<path>:<line-less>", "environment AUTORESEARCH_X", "flag"

    @property
    def seconds(self) -> float | None:
        """The duration in seconds; None when empty."""
        return parse_duration(self.text) if self.text else None


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of one project."""

    values: Mapping[str, SettingValue]
    file: Path | None
    launchers: Declared = field(default_factory=dict)  # the `launchers:` block
    notify: object = None  # the value of `notify:`, not checked: what is wrong with it refuses no run

    def text(self, name: str) -> str:
        """The value as typed."""
        return self.values[name].text

    def is_on(self, name: str) -> bool:
        """Whether a setting that is on unless it says no is on."""
        return truth(self.values[name].text) is not False

    def targets(self, note: str = "") -> tuple[Target, ...]:
        """The targets of runs; `note`: the blueprint's. UsageError names the invalid value."""
        value, source = self.chosen("launcher", note), self.values["launcher"].source
        return targets_of(value, self.launchers, "the blueprint" if value == note else source)

    def chosen(self, name: str, note: str) -> str:
        """A setting as typed; the blueprint's note overrides the project file, and flag and environment the note."""
        value = self.values[name]
        return note if note and not value.source.startswith(("flag", "environment")) else value.text

    def seconds(self, name: str) -> float | None:
        """A duration in seconds; None when empty."""
        return self.values[name].seconds


def targets_of(text: str, declared: Declared, source: str) -> tuple[Target, ...]:
    """The targets that a text names. UsageError names its source."""
    from autoresearch.launchers.registry import check

    try:
        targets = parse_pool(text, declared, PLUGINS)
    except ValueError as error:
        raise UsageError(f"{source}: launcher: {error}", hint=_LAUNCHERS_HINT, code="bad_launcher") from error
    for target in targets:
        check(target)
    return targets


def find_file(start: Path) -> Path | None:
    """The nearest autoresearch.yaml at or above a directory, within its repository."""
    for directory in (start, *start.parents):
        if (directory / FILE).is_file():
            return directory / FILE
        if (directory / ".git").exists():
            return None
    return None


def load(start: Path, *, environ: Mapping[str, str], flags: Mapping[str, str] | None = None) -> Settings:
    """Read the settings for a directory; UsageError names the file or variable of a bad value."""
    file = find_file(start.absolute())
    typed, launchers, notify = _read(file) if file else ({}, {}, None)
    values: dict[str, SettingValue] = {}
    for key in KEYS:
        text, source = typed.get(key.name, key.default), str(file) if key.name in typed else "built-in"
        variable = f"AUTORESEARCH_{key.name.upper()}"
        if environ.get(variable):
            text, source = environ[variable], f"environment {variable}"
        if flags and flags.get(key.name):
            text, source = flags[key.name], f"flag --{key.name.replace('_', '-')}"
        if key.type is ValueType.DURATION and text:
            _check_duration(key.name, text, source)
        values[key.name] = SettingValue(key, text, source)
    return Settings(values, file, launchers, notify)


def _read(file: Path) -> tuple[dict[str, str], Declared, object]:
    """The single values of the file, its `launchers:` and its `notify:`."""
    from autoresearch.lab.yaml_files import load_mapping

    def bad(message: str) -> UsageError:
        return UsageError(f"{file}: {message}", hint=_LAUNCHERS_HINT, code="bad_launcher")

    try:
        data: dict[str, Any] = dict(load_mapping(file))
    except BlueprintError as error:  # not YAML: the file is no blueprint, and has another exit code
        raise UsageError(error.message, hint=error.hint) from error
    blocks, notify = data.pop(LAUNCHERS, None) or {}, data.pop(NOTIFY, None)
    if not isinstance(blocks, dict):
        raise bad("launchers: must hold a block of options for each name")
    if wrong := [name for name, block in blocks.items() if not isinstance(block, dict)]:
        raise bad(f"launchers: {wrong[0]}: {blocks[wrong[0]]!r} is no block of options")
    declared: Declared = {str(name): block for name, block in blocks.items()}
    try:
        check_declared(declared, PLUGINS)
    except ValueError as error:
        raise bad(f"launchers: {error}") from error
    if unknown := sorted(data.keys() - {key.name for key in KEYS}):
        raise unknown_key(str(file), unknown[0], [*(key.name for key in KEYS), LAUNCHERS, NOTIFY])
    return {name: "" if value is None else str(value) for name, value in data.items()}, declared, notify


def _check_duration(name: str, text: str, source: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        hint = "durations look like 3s, 20m, 24h or 1h30m"
        raise UsageError(f"{source}: {name}: {error}", hint=hint) from error
    if (wrong := problem(seconds)) and not (name == "grace" and seconds == 0):
        raise UsageError(f"{source}: {name}: {text} {wrong}")


def template() -> str:
    """The text of a new autoresearch.yaml: every key, commented out, with its description."""
    lines = ["# Defaults of this project; flags and AUTORESEARCH_* variables win over them."]
    lines += [f"# {key.name}: {key.default or '...'}  # {key.meaning}" for key in KEYS]
    return "\n".join([*lines, *_EXAMPLE]) + "\n"


_EXAMPLE = (
    f"# {NOTIFY}: [ntfy://my-topic]  # {NOTIFY_MEANING}",
    "# (docs/notifications.md; `autoresearch doctor --notify` sends a test). Tokens stand in such a configuration.",
    "# Targets for --launcher, by name: each a kind, its options (`autoresearch doctor --launcher NAME` tries them),",
    "# and how many runs a campaign may have there at a time. No tokens here: those come from the environment.",
    "# launchers:",
    "#   gpu1: {kind: ssh, host: gpu1.example.org, slots: 4}",
    "#   long: {kind: slurm, partition: long, gpus_per_run: 8, slots: 8}",
)
