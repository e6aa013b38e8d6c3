"""A campaign and whoever controls it: a process of its own, or this one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from tests.waiting import PATIENCE_S


class ControlledCampaign:
    """What holds for every campaign of a bench; `place` is its directory."""

    bench: Any
    place: Any

    def state(self) -> Any:
        """The campaign as its files tell it now."""
        from autoresearch.lab.campaigns.campaign_history import CampaignHistory

        return CampaignHistory(self.place).state()

    def said(self) -> str:
        """What its controllers printed so far."""
        return str(self.place.log.read_text()) if self.place.log.exists() else ""

    def pid(self) -> int:
        """The living controller's."""
        return int(json.loads(self.place.controller.read_bytes())["pid"])

    def dead(self) -> None:
        """Wait until no controller lives."""
        self.bench.until(lambda: not self.place.controlled)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the controller that lives, by its pid; it is gone when this returns."""
        os.kill(self.pid(), number)
        self.dead()

    def sessions(self) -> list[str]:
        """Those of ours on the bench's tmux server."""
        listed = self.bench.tmux("list-sessions", "-F", "#{session_name}").stdout.split()
        return [name for name in listed if name.startswith("ajet_")]

    def pane(self) -> str:
        """What stands in the panes of controllers."""
        ours = [name for name in self.sessions() if name.startswith("ajet_campaign")]
        return "".join(self.bench.tmux("capture-pane", "-p", "-t", f"={name}:").stdout.strip() for name in ours)


@contextlib.contextmanager
def in_this_process(begun: Callable[[Any], object], clock: Callable[[], float] = time.time) -> Iterator[None]:
    """Whoever starts a controller gets it here, until its end; `begun` is told its campaign's directory first."""
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaigns.controller import Controller

    patience = time.monotonic() + PATIENCE_S

    def control(place: Any, parts: Any) -> str:
        def watched() -> float:
            assert time.monotonic() < patience, f"it never ended\n{place.log.read_text()}"
            return clock()

        def say(text: str) -> None:
            with place.log.open("a") as file:
                file.write(f"{text}\n")

        begun(place)
        with start_campaign.in_control(place):
            Controller(place, replace(parts, clock=watched), say).run()
        return ""

    with mock.patch.object(start_campaign, "start_controller", control):
        yield
