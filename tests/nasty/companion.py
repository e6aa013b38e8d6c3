"""As AgentJet's launcher with --with-ray: a daemon in sessions of its own, without our mark, written down by group.

    companion.py TOKEN DIRECTORY [wait]

ajet/utils/smart_daemon.py starts `ajet.utils.pty` so, which forks a terminal's session for `ray start`, which leaves
its servers to init. Every one of them holds TOKEN in its arguments. With `wait` the launcher goes on, too.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

SLEEP = "import time; time.sleep(1000)"
PTY = (
    "import os, subprocess, sys, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"  # pty.fork
    f"    subprocess.Popen([sys.executable, '-S', '-c', {SLEEP!r}, 'gcs', sys.argv[1]], start_new_session=True)\n"
    "    if os.fork():\n"
    "        os._exit(0)\n"  # the rest is nobody's child
    "time.sleep(1000)\n"
)


def main(token: str, directory: str, wait: bool) -> None:
    """Start it, write its group down, say so."""
    script = hashlib.sha256(token.encode()).hexdigest()[:8]  # another test may have one of these beside it
    environment = {"ScriptHash": script}
    environment |= {k: v for k, v in os.environ.items() if k == "AUTORESEARCH_TEST"}  # for the tests' own reaper
    argv = [sys.executable, "-S", "-c", PTY, token]
    process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    place = Path(directory) / "saved_experiments" / "companion_logs" / "companion"
    place.mkdir(parents=True, exist_ok=True)
    name = f"ray_service.{script}.{os.uname().nodename}.pgid"
    (place / name).write_text(str(os.getpgid(process.pid)))
    print("Ray runtime started", flush=True)
    if wait:
        time.sleep(1000)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "wait" in sys.argv[3:])
