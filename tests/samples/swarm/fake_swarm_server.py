"""A swarm server without a model: AgentJet's HTTP API by the standard library alone, with faults on request.

    python fake_swarm_server.py --swarm-port=10086 [--fault NAME ...] [--total 3] [--state STATUS:STEP] [--batch 2]

Paths, answers, log lines and processes are, as far as anybody here looks at them, those of charlesHsuGG/AgentJet at
af6b611 (ajet/swarm_cli.py, ajet/tuner_lib/experimental/{swarm_server,oai_model_server}.py). Three processes: the
command, the server on 0.0.0.0, and the engine in a process group of its own, which speaks HTTP to the server: OFFLINE
-> BOOTING -> ROLLING(1) -> ROLLING_POST -> WEIGHT_SYNCING -> ROLLING(2) ... -> OFFLINE with step 0. Every batch of
finished training episodes is a step. /fake/... are the test's own.

Faults: boot_failure (one line in the log, OFFLINE), stuck (BOOTING for ever), claims (no episode is ever registered),
slow_health (no health before --after seconds), dies (the server exits when the engine boots), never (exits 1 at once),
errors (500 for every status, --errors-for times), crash (traceback and OFFLINE after the first step), resume (begins at
4), orphan (the server has a session of its own and outlives the command), deaf (all ignore INT and TERM).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TRACEBACK = """Traceback (most recent call last):
  File "/srv/ajet/backbone/main_verl.py", line 7, in <module>
    import verl
{}"""
BORN = time.monotonic()
SEEN_S = 10.0
AHEAD = 14  # episodes beyond the batch that can be claimed: a batch may overshoot
PLAIN = "NO_COLOR" in os.environ or os.environ.get("LOGURU_COLORIZE", "YES").upper() in ("NO", "0", "FALSE")
ROLLING = ("ENGINE.ROLLING", "ENGINE.ROLLING_POST")
LATER = "Try again (maybe 1 minute) later."
POSTS = (
    *("/start_engine", "/stop_engine", "/sync_train_config", "/update_engine_status", "/push_pool"),
    *("/register_episode", "/claim_episode", "/end_episode", "/abort_episode"),
)
POOL = {
    **dict.fromkeys(("completed_episodes", "completed_episode_target", "completed_tasks", "completed_task_target"), 0),
    "completed_tasks_rewards": {},
}

Answer = tuple[int, object]


class AssertionFailedError(Exception):
    """An assertion of the real server, which FastAPI answers with 500 and plain text."""


def log(function: str, line: int, text: str) -> None:
    """One line as loguru prints it there, in colours unless they are switched off."""
    cells = (time.strftime("%H:%M"), f"{function[-20:]:^20}", f"{line:<4}", text)
    colours = ("", "", "", "") if PLAIN else ("\x1b[32m", "\x1b[36m", "\x1b[36m", "\x1b[1m")
    stamp, name, number, words = (
        f"{code}{cell}\x1b[0m" if code else cell for code, cell in zip(colours, cells, strict=True)
    )
    print(f"{stamp} | {name}:{number} | {words}", flush=True)


class Server:
    """The state that all requests share; the lock is held for every request."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.lock = threading.RLock()
        status, _, step = args.state.partition(":")
        self.status = f"ENGINE.{status}"
        self.step = int(step) if step else None
        self.config = ""
        self.episodes: dict[str, tuple[str, str]] = {}  # by whom it is claimed, "" by nobody; what for
        self.unclaimed: list[str] = []
        self.ended: list[tuple[str, float]] = []  # task, reward: what the engine has not taken yet
        self.pushed: dict[str, object] = dict(POOL)
        self.engine: subprocess.Popen[bytes] | None = None
        self.errors = args.errors_for
        self.looks = 0  # at the pool: the harness asks for it with every look, the fake client never

    def get(self, path: str) -> Answer:
        """A GET's status and object."""
        if path == "/health":
            early = "slow_health" in self.args.fault and time.monotonic() - BORN < self.args.after
            return (503, {"detail": "starting"}) if early else (200, {"status": "ok"})
        if path == "/get_engine_status":
            if "errors" in self.args.fault and self.errors > 0:
                self.errors -= 1
                raise AssertionFailedError
            return 200, {"engine_status": self.status, "engine_status_detail": None, "global_step": self.step}
        if path == "/get_current_batch_rollout_pool_information":
            self.looks += 1
            return 200, self.pool()
        if path == "/fake/engine":
            ended, self.ended = self.ended, []
            return 200, {"ended": ended, "looks": self.looks}
        return 404, {"detail": "Not Found"}

    def pool(self) -> dict[str, object]:
        """What the trainer pushed last, and what the server knows itself."""
        claimed = {key: {} for key, (client, _) in self.episodes.items() if client}
        return {**self.pushed, "running_episode_details": claimed or None}

    def post(self, path: str, body: dict[str, object]) -> Answer:
        """A POST's status and object."""
        if path not in POSTS:
            return 404, {"detail": "Not Found"}
        return getattr(self, path[1:])(body)  # type: ignore[no-any-return]

    def sync_train_config(self, body: dict[str, str]) -> Answer:
        if self.status != "ENGINE.OFFLINE":
            call = "Engine is already started. Call `stop_engine` first before"
            return 400, {"detail": f"{call} syncing new training configuration."}
        self.config = body["yaml_as_string"]
        return 200, {"success": True}

    def start_engine(self, body: object) -> Answer:
        log("start_engine", 380, "Running: /start_engine")
        if self.status != "ENGINE.OFFLINE":
            return 400, {"detail": f"Cannot start engine when engine is not offline. Current status: {self.status}"}
        if not self.config:
            return 200, {"success": False, "error": "No training config found"}
        self.set_status("ENGINE.BOOTING")
        time.sleep(self.args.blocks)  # the real one answers nobody for 7 to 22 s
        argv = [sys.executable, __file__, "--role", "engine", *sys.argv[3:]]
        self.engine = subprocess.Popen(argv, process_group=0)
        log("start_engine", 519, f"[start_engine] Successfully started training process (PID: {self.engine.pid})")
        return 200, {"success": True, "pid": self.engine.pid}

    def stop_engine(self, body: object) -> Answer:
        log("kill_process_tree", 11, "[stop_engine] Initiating engine shutdown and cleanup...")
        if self.engine:
            self.engine.kill()
            self.engine.wait()
            self.engine = None
        self.episodes, self.unclaimed = {}, []
        self.status = "ENGINE.OFFLINE"  # step, pool and config stay as they were
        log("kill_process_tree", 98, "[stop_engine] Engine status set to OFFLINE")
        return 200, {"success": True, "failure_reason": ""}

    def set_status(self, status: str) -> None:
        if self.status in ROLLING and status not in ROLLING:
            self.episodes, self.unclaimed = {}, []
        self.status = status

    def update_engine_status(self, body: dict[str, object]) -> Answer:
        log("update_engine_status", 535, "Running /update_engine_status")
        status = str(body["engine_status"])
        pid = body.get("pid")
        if pid is None or (self.engine and self.engine.pid == pid):  # not of an engine that was just stopped
            self.set_status(status)
            step = body.get("global_step")
            self.step = step if isinstance(step, int) else self.step
            log("update_engine_status", 558, f"[update_engine_status] Engine status set to {status}")
        return 200, {"success": True, "failure_reason": ""}

    def push_pool(self, body: dict[str, object]) -> Answer:
        """Called update_current_batch_rollout_pool_information_and_fetch_instruction there."""
        self.pushed = body
        return 200, {"active_clients": []}

    def register_episode(self, body: dict[str, str]) -> Answer:
        if self.status != "ENGINE.ROLLING":
            return 200, {"success": False, "failure_reason": "Engine is not in rolling state. Cannot register episode."}
        self.episodes[body["episode_uuid"]] = "", ""
        self.unclaimed.append(body["episode_uuid"])
        return 200, {"success": True, "failure_reason": ""}

    def claim_episode(self, body: dict[str, str]) -> Answer:
        if self.status != "ENGINE.ROLLING":
            return 200, {"success": False, "fail_cause": f"Engine not ready. Current status: [{self.status}]. {LATER}"}
        if not self.unclaimed:
            return 200, {"success": False, "fail_cause": f"No available episodes to claim. {LATER}"}
        key = self.unclaimed.pop(0)
        self.episodes[key] = body["client_uuid"], body["episode_type"]
        return 200, {"success": True, "episode_uuid": key, "fail_cause": ""}

    def end_episode(self, body: dict[str, dict[str, object]]) -> Answer:
        if self.status not in ROLLING:
            words = f"Engine is not in rolling state. Current status: [{self.status}]. Cannot end episode."
            return 400, {"detail": words}
        key = str(body["episode_uuid"])
        if key not in self.episodes:
            return 400, {"detail": f"Episode {key} not found."}
        if self.episodes[key][1] == "train":
            del self.episodes[key]
            self.ended.append((str(body["task_id"]), float(str(body["workflow_output"]["reward"]))))
        else:
            self.give_back(key)
        return 200, {"success": True}

    def give_back(self, key: str) -> None:
        """While it rolls, the episode is claimed again by somebody; later it is deleted."""
        if self.status == "ENGINE.ROLLING":
            self.episodes[key] = "", ""
            self.unclaimed.append(key)
        else:
            del self.episodes[key]

    def abort_episode(self, body: dict[str, str]) -> Answer:
        if self.status in ROLLING and body["episode_uuid"] in self.episodes:
            self.give_back(body["episode_uuid"])
        return 200, {"success": True}


class Requests(BaseHTTPRequestHandler):
    """FastAPI's part."""

    server_state: Server

    def do_GET(self) -> None:
        """Answer a GET."""
        self.answer(lambda: self.server_state.get(self.path))

    def do_POST(self) -> None:
        """Answer a POST."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path == "/fake/die":
            os._exit(9)
        self.answer(lambda: self.server_state.post(self.path, body))

    def answer(self, act) -> None:  # type: ignore[no-untyped-def]
        """Send an object, or the plain text of an exception."""
        try:
            with self.server_state.lock:
                status, value = act()
            data, kind = json.dumps(value).encode(), "application/json"
        except AssertionFailedError:
            status, data, kind = 500, b"Internal Server Error", "text/plain; charset=utf-8"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        with contextlib.suppress(ConnectionError):  # uvicorn says nothing of a client that was killed meanwhile
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class Engine:
    """The trainer: a process of its own that registers episodes, collects them and makes steps of them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.url = f"http://127.0.0.1:{args.swarm_port}"
        self.tasks: dict[str, list[float]] = {}

    def call(self, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
        """One request; the engine ends with its server."""
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                return dict(json.loads(answer.read()))
        except OSError:
            sys.exit(1)

    def status(self, name: str, step: int | None = None) -> None:
        """Tell the server, as http_change_engine_status does."""
        self.call("/update_engine_status", {"engine_status": name, "global_step": step, "pid": os.getpid()})
        log("http_change_engine_status", 318, f"Changed engine status to {name}")

    def take(self) -> int:
        """Take the episodes that have ended; returns how often a harness has looked."""
        news = self.call("/fake/engine")
        for task, reward in news["ended"]:  # type: ignore[attr-defined]
            self.tasks.setdefault(task, []).append(reward)
        return int(str(news["looks"]))

    def seen(self) -> None:
        """Stay as it is until a harness has looked, so that no test leans on how quick anything is."""
        before, until = self.take(), time.monotonic() + SEEN_S
        while self.take() < before + 2 and time.monotonic() < until:  # the first may have asked before the change
            time.sleep(0.01)

    def register(self, count: int) -> None:
        """More episodes to be claimed."""
        for _ in range(0 if "claims" in self.args.fault else count):
            self.call("/register_episode", {"episode_uuid": uuid.uuid4().hex})

    def full(self) -> int:
        """Tasks with all their episodes."""
        return sum(len(rewards) >= self.args.repeat for rewards in self.tasks.values())

    def push(self) -> None:
        """The pool, as the trainer pushes it every few seconds."""
        pool = {
            "completed_episodes": sum(map(len, self.tasks.values())),
            "completed_episode_target": self.args.batch * self.args.repeat,
            "completed_tasks": self.full(),
            "completed_task_target": self.args.batch,
            "completed_tasks_rewards": self.tasks,
        }
        self.call("/push_pool", pool)

    def roll(self, step: int) -> None:
        """Collect one batch. The pool still shows the one before to whoever looks first."""
        self.tasks = {}
        looks = self.take()
        self.status("ENGINE.ROLLING", step)
        self.register(self.args.batch * self.args.repeat + AHEAD)
        pushed = -1
        while self.full() < self.args.batch:
            began = self.take() > looks
            if (count := sum(map(len, self.tasks.values()))) != pushed and (began or count):
                self.register(0 if pushed < 0 else count - pushed)
                self.push()
                pushed = count
            time.sleep(0.01)
        self.status("ENGINE.ROLLING_POST")
        self.push()
        self.seen()

    def train(self, step: int) -> None:
        """The update: verl prints its line, or dies."""
        rewards = [reward for task in self.tasks.values() for reward in task]
        print(
            f"(TaskRunner pid=77) step:{step} - critic/rewards/mean:{sum(rewards) / len(rewards)} "
            f"- actor/pg_loss:0.1 - actor/kl_loss:np.float64({step / 1000}) - training/global_step:{step}",
            flush=True,
        )
        self.status("ENGINE.WEIGHT_SYNCING")
        self.seen()

    def run(self) -> None:
        """Boot, train, end."""
        faults = self.args.fault
        if "dies" in faults:
            print(TRACEBACK.format("RuntimeError: the server's own fault"), file=sys.stderr, flush=True)
            self.call("/fake/die", {})
        self.seen()
        while "stuck" in faults:
            time.sleep(0.1)
            self.take()
        if "boot_failure" in faults:
            log("..e_training_process", 439, "Unexpected error: No module named 'verl'")
            self.status("ENGINE.OFFLINE", 0)
            return
        print(f"(TaskRunner pid=77) Total training steps: {self.args.total}", flush=True)
        if "resume" in faults:
            print("(TaskRunner pid=77) Resuming from /ckpt/p/e/global_step_3", flush=True)
        for step in range(4 if "resume" in faults else 1, self.args.total + 1):
            self.roll(step)
            if "crash" in faults:
                words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB"
                print(TRACEBACK.format(words), flush=True)
                break
            self.train(step)
        else:
            print("Final validation metrics: None", flush=True)
        print("Changing engine status to OFFLINE before shutdown...", flush=True)
        self.status("ENGINE.OFFLINE", 0)


def serve(args: argparse.Namespace) -> None:
    """The HTTP server. It ends with its parent, unless it is an orphan on purpose."""
    Requests.server_state = Server(args)
    ThreadingHTTPServer.daemon_threads = True
    server = ThreadingHTTPServer(("0.0.0.0", args.swarm_port), Requests)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    parent = os.getppid()
    while os.getppid() == parent or "orphan" in args.fault:
        time.sleep(0.05)


def command(args: argparse.Namespace) -> None:
    """`ajet-swarm start`: the server as a child; INT stops the engine and ends both, by TERM to itself: 143."""
    if "never" in args.fault:
        print(TRACEBACK.format("ModuleNotFoundError: No module named 'sglang'"), file=sys.stderr)
        sys.exit(1)
    argv = [sys.executable, __file__, "--role", "server", *sys.argv[1:]]
    child = subprocess.Popen(argv, start_new_session="orphan" in args.fault)
    url = f"http://127.0.0.1:{args.swarm_port}"
    try:
        while "slow_health" not in args.fault:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=0.5).close()
                break
            except OSError:
                if child.poll() is not None:
                    raise RuntimeError("Interchange server subprocess failed to start.") from None
                time.sleep(0.02)
        log("..interchange_server", 584, f"Interchange server is running in blocking mode on:\n------\nURL 1: {url}")
        child.wait()
    except KeyboardInterrupt:
        log("..interchange_server", 592, "Shutting down interchange server...")
        if "orphan" not in args.fault:
            try:
                urllib.request.urlopen(urllib.request.Request(f"{url}/stop_engine", b"{}"), timeout=8).close()
            except OSError:
                pass
            child.kill()
            child.wait()
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """The command, or one of its two other processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", nargs="?", default="start")
    parser.add_argument("--role", default="command")
    parser.add_argument("--swarm-port", type=int, default=10086)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--state", default="OFFLINE")
    parser.add_argument("--total", type=int, default=3)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--after", type=float, default=1.0)
    parser.add_argument("--blocks", type=float, default=0.1)
    parser.add_argument("--errors-for", type=int, default=5)
    args = parser.parse_args()
    if "deaf" in args.fault:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif args.role != "command":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends them
    {"command": command, "server": serve, "engine": lambda given: Engine(given).run()}[args.role](args)


if __name__ == "__main__":
    main()
