"""An agent that speaks ACP and does what a script says; the faults are those that no real one shows on demand.

The script: `version`, `noise` (printed first), `opened` (added to the answer to `session/new`), `refuse` and `die` (by
method), `steps` of the prompt and `end`, its answer. A step is an `update`, an `ask` (a request, with `params`), `tell`
(say what the answers were, or all that was `asked` of us), `pid` (write ours there) or `hang`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

SCRIPT: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
ASKED: list[dict[str, Any]] = []
ANSWERS: list[dict[str, Any]] = []


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(fields: dict[str, Any]) -> None:
    send(method="session/update", params={"sessionId": "s-1", "update": fields})


def play(step: dict[str, Any]) -> None:
    if "update" in step:
        update(step["update"])
    elif "ask" in step:
        send(id=f"q{len(ANSWERS)}", method=step["ask"], params=step.get("params", {}))
        ANSWERS.append(json.loads(sys.stdin.readline()))
    elif "tell" in step:
        words = json.dumps(ASKED if step["tell"] == "asked" else ANSWERS)
        update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": words}})
    elif "pid" in step:
        Path(step["pid"]).write_text(str(os.getpid()))
    else:
        while True:
            time.sleep(60)


def main() -> None:
    if SCRIPT.get("noise"):
        print(SCRIPT["noise"], flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        ASKED.append(asked)
        method, number = asked["method"], asked.get("id")
        if SCRIPT.get("die") == method:
            sys.exit(3)
        if method in SCRIPT.get("refuse", {}):
            send(id=number, error=SCRIPT["refuse"][method])
            continue
        if method == "session/prompt":
            for step in SCRIPT.get("steps", []):
                play(step)
        can = {"protocolVersion": SCRIPT.get("version", 1), "agentCapabilities": {}}
        opened = {"sessionId": "s-1", **SCRIPT.get("opened", {})}
        ended = SCRIPT.get("end", {"stopReason": "end_turn"})
        results = {"initialize": can, "session/new": opened, "session/prompt": ended}
        send(id=number, result=results.get(method, {}))


if __name__ == "__main__":
    main()
