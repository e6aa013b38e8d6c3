"""The part of the swarm server's HTTP API that the harness needs. No method raises if the server is unhealthy.

Paths and answers: modelscope/AgentJet, ajet/tuner_lib/experimental/swarm_server.py (at c0ef49bb).
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from autoresearch.agentjet.engine_status import OFFLINE, EnginePoll, parse_poll

ANSWER_S = 5.0
STOP_S = 45.0  # /stop_engine ends a tree with 16 s of grace, and blocks the server meanwhile


@dataclass(frozen=True, slots=True)
class SwarmServer:
    """One server, by its address; proxies are bypassed, as the address is local or a forward."""

    url: str

    def healthy(self) -> str:
        """ "" if GET /health answers ok, else why not."""
        answer, trouble = self._ask("/health")
        return "" if answer.get("status") == "ok" else trouble or f"/health says {str(answer)[:80]}"

    def poll(self) -> EnginePoll:
        """Current status and pool; an unreadable pool leaves the counters at 0."""
        status, trouble = self._ask("/get_engine_status")
        if trouble:
            return EnginePoll(trouble=trouble)
        pool, _ = self._ask("/get_current_batch_rollout_pool_information")
        return parse_poll(status, pool)

    def stop(self, *, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic) -> str:
        """POST /stop_engine and wait until the engine is offline; "" on success, else the obstacle."""
        until = clock() + STOP_S
        _, trouble = self._ask("/stop_engine", {}, STOP_S)
        while (poll := self.poll()).status != OFFLINE:
            if clock() >= until:
                return trouble or poll.trouble or f"the engine is still {poll.status} after {STOP_S:.0f} s"
            sleep(0.2)
        return ""

    def _ask(self, path: str, body: object = None, timeout: float = ANSWER_S) -> tuple[dict[str, object], str]:
        """The answered object, or {} and the reason."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout) as answer:
                value = json.loads(answer.read(1 << 22))
        except urllib.error.HTTPError as error:
            with error:
                return {}, f"HTTP {error.code} for {path}"
        except (OSError, ValueError, http.client.HTTPException) as error:  # refused, silent, torn, no JSON
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            return {}, f"{path}: {str(reason)[:160] or type(error).__name__}"
        return (value, "") if isinstance(value, dict) else ({}, f"{path} answers no object")
