"""Each command once, on a real run and a real campaign: its exit code, and one JSON object where it has `--json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from autoresearch import cli

pytestmark = pytest.mark.smoke

Line = tuple[str, int]  # what is typed, and the exit code

ON_A_RUN: Sequence[Line] = (
    ("blueprint new other.md --purpose x --codebase {repo} --command true", 0),
    ("blueprint check exp.md", 0),
    ("run exp.md --dry-run", 0),
    ("status last", 0),
    ("wait last --for 1s", 0),
    ("logs last --events", 0),
    ("logs last", 0),
    ("explain last", 0),
    ("metrics last", 0),
    ("compare last last", 0),
    ("ledger show", 0),
    ("ledger show last --out {repo}/rows.csv", 0),
    ("repro last", 0),
    ("note last hello", 0),
    ("doctor", 0),
    ("clean", 0),
    ("config show", 0),
    ("config schema", 0),
    ("config schema blueprint", 0),
    ("config schema campaign", 0),
    ("attach last", 0),
    ("stop last --reason x", 0),  # it is over: nothing to do
    ("stop last", 0),
    ("report", 4),  # there is no campaign
    ("collect last", 0),  # once more
    ("skill show run", 0),
    ("skill install", 0),
    ("scaffold blackbox sc", 2),
    ("scaffold check sc", 4),
    ("init .", 0),
)
ON_A_CAMPAIGN_THAT_RUNS: Sequence[Line] = (
    ("campaign status one", 0),
    ("wait one --for 1s", 0),
    ("campaign status one --full", 0),
    ("campaign set one count=3", 0),
    ("campaign add one --set lr=0.5", 0),
    ("campaign skip nobody --campaign one", 4),
    ("campaign fix x --set lr=0.1 --campaign one", 4),
    ("campaign approve x --campaign one", 4),
    ("note one hello", 0),
    ("campaign pause one", 0),
    ("campaign resume one --detach", 0),
    ("campaign stop one --drain", 0),
    ("campaign stop one", 0),
)
ON_A_CAMPAIGN_THAT_ENDED: Sequence[Line] = (
    ("report one", 0),
    ("apply one", 5),  # nothing of it is confirmed
    ("campaign resume one --detach", 5),
    ("campaign confirm x --campaign one", 4),
)


def typed(bench: Any, lines: Sequence[Line], parse: Callable[[str], None]) -> None:
    """Type each line, for a program to read: one object with the keys of all, and lines to type next that are ours."""
    wrong = []
    for line, wanted in lines:
        words = line.format(repo=bench.repo).split()
        code, out, err = bench.here(*words, "--json")
        objects = [json.loads(text) for text in out.splitlines() if text.strip()]
        if code != wanted or len(objects) != 1 or "Traceback" in err:
            wrong.append(f"{line}: {code} {out[:600]} {err[:300]}")
            continue
        (payload,) = objects
        assert {"schema", "command", "ok", "next", "error"} <= payload.keys() and payload["schema"] == 1, line
        assert _is(payload["command"], line) and (payload["error"] is None) == payload["ok"], line
        for following in payload["next"] if payload["ok"] else ():
            parse(following)
    assert not wrong, "\n".join(wrong)


def test_on_a_run(bench: Any, parse: Callable[[str], None]) -> None:
    bench.blueprint()
    bench.ask("run", "exp.md")
    typed(bench, ON_A_RUN, parse)


@pytest.mark.waits
def test_on_a_campaign(crashes: Any, parse: Callable[[str], None]) -> None:
    crashes.recipe(mode="hold")
    crashes.bench.git("commit", "-qam", "hold")
    crashes.start(count=2)
    crashes.running("baseline")
    typed(crashes.bench, ON_A_CAMPAIGN_THAT_RUNS, parse)
    crashes.dead()
    typed(crashes.bench, ON_A_CAMPAIGN_THAT_ENDED, parse)


def test_no_command_is_left_out() -> None:
    elsewhere = {"run", "campaign start", "mcp", "demo", "prove", "audit"}  # begun with above; tests of their own
    lines = [line for line, _ in (*ON_A_RUN, *ON_A_CAMPAIGN_THAT_RUNS, *ON_A_CAMPAIGN_THAT_ENDED)]
    missing = [name for name in _commands() if name not in elsewhere and not any(_is(name, line) for line in lines)]
    assert not missing


def test_every_command_refuses_an_unknown_option(capsys: pytest.CaptureFixture[str]) -> None:
    for name in _commands():
        assert cli.run([*name.split(), "--no-such-option", "--json"]) == 2
        payload = json.loads(capsys.readouterr().out)
        assert (payload["command"], payload["ok"], payload["error"]["code"]) == (name, False, "usage")


def _commands() -> Iterator[str]:
    return (name for name, command in cli.COMMANDS.items() if command.function and command.section)


def _is(name: str, line: str) -> bool:
    return f"{line} ".startswith(f"{name} ")
