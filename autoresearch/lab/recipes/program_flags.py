"""The flags that a Python program takes, with their defaults, as its own `--help` names them.

It is asked only of a program whose text uses a library that reads the command line, as any other would begin to train.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.trainers.command_settings import value_of

HELP_S = 60.0  # imports of torch and transformers take half of it on a cold disk
_BYTES = 1 << 20
_PARSERS = later(
    r"(?m)^[ \t]*(?:from|import)[ \t]+(?:[\w, \t]*,[ \t]*)?"
    r"((?:config)?argparse|click|typer|tyro|hydra|simple_parsing|jsonargparse|pyrallis|draccus|absl|fire)\b"
    r"|\b(HfArgumentParser|TrlParser)\b|\b(tf\.(?:app\.)?flags)\b"
)
_HELP_FLAG = later(
    r"(?m)^[ \t│|]{1,12}(?:[*][ \t]+)?(?:-\w(?:[ \t]+[A-Z_<>\[\]]+)?,?[ \t]+)?--(?P<key>[A-Za-z][\w.-]*)"
)
_HELP_DEFAULT = later(r"[\[(][Dd]efault(?:s to)?[:=]?\s*(?P<value>[^\])]{1,60})[\])]")
_FIRST_KEY = later(r"(?m)^\w[\w-]*:(?: |$)")


def parser_of(source: str) -> str:
    """The library that reads the program's command line; "" if none that we know does."""
    match = _PARSERS.search(source)
    return next(filter(None, match.groups())) if match else ""


def ask_help(
    program: Sequence[str],
    interpreter: Path,
    cwd: Path,
    environ: Mapping[str, str],
    overrides: Sequence[str] | None = None,
) -> dict[str, object]:
    """The flags that a program's `--help` names; {} if it does not answer in time.

    program: the words that start it behind the interpreter, `train.py` or `-m package.module`; it must be one of
    `parser_of`. overrides: of a program of hydra, which is asked by `--cfg job` for the keys of the configuration that
    they make. It sees no GPU.
    """
    words = [str(interpreter), *program, *(["--help"] if overrides is None else [*overrides, "--cfg", "job"])]
    quiet = {**environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    quiet |= {"PYTHONDONTWRITEBYTECODE": "1", "WANDB_MODE": "disabled"}  # it shall leave nothing behind
    try:
        with subprocess.Popen(
            words,
            cwd=cwd,
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                out, _ = process.communicate(timeout=HELP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # it began a session: the group is its own
                return {}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    text = out[:_BYTES].decode("utf-8", "replace")
    return flags_of_help(text) if overrides is None else _leaves(text)


def flags_of_help(text: str) -> dict[str, object]:
    """The flags in a help text, with the defaults that it names."""
    at = list(_HELP_FLAG.finditer(text))
    ends = [*(match.start() for match in at), len(text)][1:]
    found: dict[str, object] = {}
    for match, end in zip(at, ends, strict=True):
        default = _HELP_DEFAULT.search(text, match.end(), end)
        found[match["key"]] = value_of(" ".join(default["value"].replace("│", " ").split())) if default else None
    found.pop("help", None)
    return found


def _leaves(text: str) -> dict[str, object]:
    """The dotted keys of a configuration; what its program prints before, as it is imported, is left out."""
    first = _FIRST_KEY.search(text)
    try:
        return flatten(parse_mapping(text[first.start() if first else 0 :].encode(), "--cfg job"))
    except (AutoresearchError, RecursionError):
        return {}
