"""Turns as the lab asks them, and what real agents printed, trimmed (`recorded/AGENT/CASE.out` and `.err`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest

from autoresearch.agents.registry import researcher
from autoresearch.core.agents.agent import Agent, Bounds, Chosen, Spoken, Turn, TurnFault, TurnRole

RECORDED = Path(__file__).parent / "recorded"
TEMPLATE = ("agent", "--role={role}", "{prompt_file}", "{last_file}", "{cwd}")

Making = Callable[..., Agent]
Asking = Callable[..., Turn]
Hearing = Callable[..., Spoken]


@pytest.fixture
def make() -> Making:
    """`make("codex", model="m")`: the researcher of that name, with a template where it needs one."""

    def making(name: str, **chosen: Any) -> Agent:
        templates = {"command": TEMPLATE, "acp": ("opencode", "acp")}
        given = {"template": templates[name], **chosen} if name in templates else chosen
        return researcher(name, Chosen(**given))

    return making


@pytest.fixture
def ask() -> Asking:
    """`ask(Role.EDIT, turns=3)`: a turn in a worktree that need not be there."""

    def asking(role: TurnRole, prompt: str = "do it", *, turns: int | None = None, usd: float | None = None) -> Turn:
        return Turn(role, prompt, PurePath("/home/me/repo"), PurePath("/home/me/turns/7"), Bounds(60.0, turns, usd))

    return asking


@pytest.fixture
def hear() -> Hearing:
    """`hear("claude", "e401", 1)`: what that agent printed when that happened."""

    def hearing(agent: str, case: str, returncode: int | None = 0, fault: TurnFault | None = None) -> Spoken:
        out, err = (RECORDED / agent / f"{case}.{end}" for end in ("out", "err"))
        return Spoken(out.read_bytes(), err.read_bytes() if err.exists() else b"", returncode, "", fault, 2.5)

    return hearing
