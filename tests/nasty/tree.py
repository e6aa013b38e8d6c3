"""A trainer whose children do everything that makes a process tree hard to end: ten kinds of them.

    tree.py TOKEN     TOKEN stands in every process's arguments, so that a test can find survivors

Says "tree up" when each of them is what it is to be. Everything ends by itself after some minutes, whatever
happens to the test.
"""

import os
import subprocess
import sys
import time

TOKEN = sys.argv[1]
READY = "import os, sys; os.write(int(sys.argv[2]), b'.'); "
NAP = READY + "import time; time.sleep(300)"
DEAF = "import signal; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; " + NAP
RESPAWNER = (
    READY + "import subprocess, time\n"
    "until = time.monotonic() + 300\n"
    "while time.monotonic() < until:\n"
    "    subprocess.run([sys.executable, '-S', '-c', 'import time; time.sleep(300)', sys.argv[1]])\n"
)
RABBIT = (  # always the same program under a new pid, fifty times a second
    READY + "import time\n"
    "until = time.monotonic() + 300\n"
    "while time.monotonic() < until:\n"
    "    time.sleep(0.02)\n"
    "    if os.fork(): os._exit(0)\n"
)


READER, WRITER = os.pipe()
os.set_inheritable(WRITER, True)


def words(code: str) -> list[str]:
    """The argv of a child."""
    return [sys.executable, "-S", "-c", code, TOKEN, str(WRITER)]


def child(code: str, *, new_session: bool = False) -> "subprocess.Popen[bytes]":
    """Start one that can say that it is ready."""
    return subprocess.Popen(words(code), start_new_session=new_session, pass_fds=[WRITER])


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
    child(NAP)
    child(NAP, new_session=True)
    child("import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); " + NAP)
    child(DEAF)
    stopped = child("import os, signal; os.kill(os.getpid(), signal.SIGSTOP); " + NAP)
    daemon(DEAF, dict(os.environ))
    daemon(NAP, {})
    child(RESPAWNER, new_session=True)
    child(RABBIT, new_session=True)
    for _ in range(8):
        os.read(READER, 1)
    os.waitpid(stopped.pid, os.WUNTRACED)
    print("tree up", flush=True)
    time.sleep(300)


main()
