"""A trainer whose children do everything that makes a process tree hard to end: ten kinds of them.

    tree.py TOKEN     TOKEN stands in every process's arguments, so that a test can find survivors

Everything ends by itself after a minute, whatever happens to the test.
"""

import os
import subprocess
import sys
import time

TOKEN = sys.argv[1]
NAP = "import time; time.sleep(60)"
DEAF = "import signal; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; " + NAP
RESPAWNER = (
    "import subprocess, sys, time\n"
    "until = time.monotonic() + 60\n"
    "while time.monotonic() < until:\n"
    "    subprocess.run([sys.executable, '-S', '-c', 'import time; time.sleep(60)', sys.argv[1]])\n"
)
RABBIT = (  # always the same program under a new pid, fifty times a second
    "import os, time\n"
    "until = time.monotonic() + 60\n"
    "while time.monotonic() < until:\n"
    "    time.sleep(0.02)\n"
    "    if os.fork(): os._exit(0)\n"
)


def words(code: str) -> list[str]:
    """The argv of a child."""
    return [sys.executable, "-S", "-c", code, TOKEN]


def daemon(code: str, env: dict[str, str]) -> None:
    """Fork twice, with a session of its own in between, as daemons do."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, words(code), env)
        os._exit(0)
    os.waitpid(pid, 0)


def main() -> None:
    """Start one of each kind, say so, and sleep."""
    subprocess.Popen(words(NAP))
    subprocess.Popen(words(NAP), start_new_session=True)
    subprocess.Popen(words("import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); " + NAP))
    subprocess.Popen(words(DEAF))
    subprocess.Popen(words("import os, signal; os.kill(os.getpid(), signal.SIGSTOP); " + NAP))
    daemon(DEAF, dict(os.environ))
    daemon(NAP, {})
    subprocess.Popen(words(RESPAWNER), start_new_session=True)
    subprocess.Popen(words(RABBIT), start_new_session=True)
    time.sleep(0.2)
    print("tree up", flush=True)
    time.sleep(60)


main()
