"""One episode on the fake server: `trains` forgets to abort it, `silent` prints no reward, `broken` raises."""

from __future__ import annotations

import os
import sys

import agent_roll

with open(os.environ.get("GATE_RUNS", os.devnull), "a") as file:
    file.write("ran\n")
agent_roll.start_engine()
if "broken" in sys.argv:
    raise ValueError("the agent cannot read its task")
agent_roll.episode("debug-1", 1.0, abort="trains" not in sys.argv)
if "silent" not in sys.argv:
    print(f"reward: {'nan' if 'nan' in sys.argv else 1.0}", flush=True)
