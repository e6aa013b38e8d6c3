"""A swarm server without a model: AgentJet's HTTP API by the standard library alone, with faults on request.

    python fake_swarm_server.py --swarm-port=10086 [--fault NAME ...] [--total 3] [--state STATUS:STEP] [--batch 2]

Paths, answers and transitions are those of ajet/tuner_lib/experimental/swarm_server.py (modelscope/AgentJet, c0ef49bb):
OFFLINE -> BOOTING -> ROLLING(1) -> ROLLING_POST -> WEIGHT_SYNCING -> ROLLING(2) ... -> OFFLINE with step 0. Every batch
of finished training episodes is a step. /fake/die and /fake/crash are the test's own.

Faults: boot_failure (BOOTING, traceback in the log, OFFLINE), stuck (BOOTING for ever), claims (every claim fails),
slow_health (no health before --after seconds), dies (exits 9 when the engine boots), never (exits 1 at once),
errors (500 for every status, --for times), crash (traceback and OFFLINE after the first step), resume (begins at 4),
orphan (a grandchild in a session of its own holds the port), deaf (ignores INT and TERM).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TRACEBACK = """Traceback (most recent call last):
  File "/srv/ajet/backbone/main_verl.py", line 7, in <module>
    import verl
{}"""


class Engine:
    """The state that all requests share; the lock is held for every transition."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.lock = threading.RLock()
        status, _, step = args.state.partition(":")
        self.status = f"ENGINE.{status}"
        self.step = int(step) if step else None
        self.config = "found: running" if status != "OFFLINE" else ""
        self.episodes: dict[str, dict[str, str]] = {}  # claimed ones
        self.finished: dict[str, list[float]] = {}  # task -> rewards
        self.errors = args.errors_for
        self.looks = 0  # at the pool: the harness asks for it with every look, the fake client never

    def until_seen(self) -> None:
        """Stay as it is until a harness has looked, so that no test leans on how quick anything is."""
        before, until = self.looks, time.monotonic() + SEEN_S
        while self.looks < before + 2 and time.monotonic() < until:  # the first may have asked before the change
            time.sleep(0.01)

    def boot(self) -> None:
        """What start_engine's process does."""
        faults = self.args.fault
        print("Changed engine status to ENGINE.BOOTING", flush=True)
        if "dies" in faults:
            print(TRACEBACK.format("RuntimeError: the server's own fault"), file=sys.stderr, flush=True)
            os._exit(9)
        self.until_seen()
        if "stuck" in faults:
            return
        with self.lock:
            if self.status != "ENGINE.BOOTING":
                return
            if "boot_failure" in faults:
                print(TRACEBACK.format("ModuleNotFoundError: No module named 'verl'"), file=sys.stderr, flush=True)
                self.status, self.step = "ENGINE.OFFLINE", 0
                return
            print(f"(TaskRunner pid=77) Total training steps: {self.args.total}", flush=True)
            if "resume" in faults:
                print("(TaskRunner pid=77) Resuming from /ckpt/p/e/global_step_3", flush=True)
            self.finished = {}
            self.status, self.step = "ENGINE.ROLLING", 4 if "resume" in faults else 1

    def step_done(self) -> None:
        """A batch is full: post-rolling, update, weights, and the next batch or the end."""
        step = self.step or 1  # the status is ENGINE.ROLLING_POST by now
        self.until_seen()
        if "crash" in self.args.fault:
            words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB"
            print(TRACEBACK.format(words), flush=True)
            print("Changing engine status to OFFLINE before shutdown...", flush=True)
            with self.lock:
                self.status, self.step = "ENGINE.OFFLINE", 0
            return
        kl = f"np.float64({step / 1000})"
        print(
            f"(TaskRunner pid=77) step:{step} - critic/rewards/mean:0.{step} - actor/pg_loss:0.1 "
            f"- actor/kl_loss:{kl} - training/global_step:{step}",
            flush=True,
        )
        with self.lock:
            if self.status == "ENGINE.OFFLINE":  # stopped meanwhile: this thread is the engine, and it is gone
                return
            self.status = "ENGINE.WEIGHT_SYNCING"
        self.until_seen()
        with self.lock:
            if self.status == "ENGINE.OFFLINE":
                return
            self.finished = {}
            if step >= self.args.total:
                print("Final validation metrics: None", flush=True)
                print("Changing engine status to OFFLINE before shutdown...", flush=True)
                self.status, self.step = "ENGINE.OFFLINE", 0
            else:
                self.status, self.step = "ENGINE.ROLLING", step + 1

    def pool(self) -> dict[str, object]:
        """GET /get_current_batch_rollout_pool_information."""
        done = {task: rewards for task, rewards in self.finished.items() if len(rewards) >= self.args.repeat}
        running = {
            key: {"episode_status": "claimed", "time_since_last_activity": "0.0s", "discard_episode_timeout": "60.0s",
                  "llm_call_count": "0", "client_uuid": one["client"], "optional_task_id": ""}
            for key, one in self.episodes.items()
        }  # fmt: skip
        return {
            "sample_collection_method": "rollout_until_finish_enough_tasks",
            "completed_episodes": sum(map(len, self.finished.values())),
            "completed_episode_target": self.args.batch * self.args.repeat,
            "completed_tasks": len(done),
            "completed_task_target": self.args.batch,
            "completed_non_dummy_tasks": sum(1 for rewards in done.values() if len(set(rewards)) > 1),
            "completed_non_dummy_task_target": self.args.batch,
            "task_expected_num_repeat": self.args.repeat,
            "completed_tasks_details": {task: ["e"] * len(rewards) for task, rewards in self.finished.items()},
            "completed_tasks_rewards": self.finished,
            "completed_tasks_client_uuids": {},
            "running_episode_details": running or None,
            "engine_status": self.status,
            "global_step": self.step,
            "booting_start_time": None,
            "training_model_path": None,
            "swarm_client_instruction": {"active_clients": []},
        }

    def get(self, path: str) -> tuple[int, object]:
        """A GET's status and object."""
        if path == "/health":
            early = "slow_health" in self.args.fault and time.monotonic() - BORN < self.args.after
            return (503, {"detail": "starting"}) if early else (200, {"status": "ok"})
        if path == "/get_engine_status":
            if "errors" in self.args.fault and self.errors > 0:
                self.errors -= 1
                return 500, {"detail": "Internal Server Error"}
            return 200, {"engine_status": self.status, "engine_status_detail": None, "global_step": self.step}
        if path == "/get_current_batch_rollout_pool_information":
            self.looks += 1
            return 200, self.pool()
        if path == "/get_server_experiment_dir":
            return 200, {"server_experiment_dir": None}
        return (200, {"entries": []}) if path == "/get_verbose_logs" else (404, {"detail": "Not Found"})

    def post(self, path: str, body: dict[str, object]) -> tuple[int, object]:
        """A POST's status and object."""
        if path == "/sync_train_config":
            if self.status != "ENGINE.OFFLINE":
                started = "Engine is already started. Call `stop_engine` first before"
                return 400, {"detail": f"{started} syncing new training configuration."}
            self.config = str(body["yaml_as_string"])
            return 200, {"success": True}
        if path == "/start_engine":
            if self.status != "ENGINE.OFFLINE":
                return 400, {"detail": f"Cannot start engine when engine is not offline. Current status: {self.status}"}
            if not self.config:
                return 200, {"success": False, "error": "No training config found"}
            self.status = "ENGINE.BOOTING"
            threading.Thread(target=self.boot, daemon=True).start()
            return 200, {"success": True, "pid": os.getpid()}
        if path == "/stop_engine":  # step, pool and config stay as they were
            self.status = "ENGINE.OFFLINE"
            print("Changed engine status to ENGINE.OFFLINE", flush=True)
            return 200, {"success": True, "failure_reason": ""}
        if path == "/update_engine_status":
            known = ("OFFLINE", "BOOTING", "ROLLING", "ROLLING_POST", "WEIGHT_SYNCING", "WEIGHT_EXPORTING")
            if body["engine_status"] not in [f"ENGINE.{name}" for name in known]:
                return 200, {"success": False, "failure_reason": "Invalid engine status"}
            self.status, self.step = str(body["engine_status"]), body.get("global_step", self.step)  # type: ignore[assignment]
            return 200, {"success": True, "failure_reason": ""}
        if path == "/get_episode_buffer":
            return 200, {"buffer": []}
        return self.episode(path, body)

    def episode(self, path: str, body: dict[str, object]) -> tuple[int, object]:
        """Claiming and ending episodes."""
        key = str(body.get("episode_uuid", ""))
        if path == "/claim_episode":
            nothing = {"openai_base_url": "", "openai_api_key": "", "episode_uuid": ""}
            answer = {"client_uuid": body.get("client_uuid"), **nothing}
            if self.status != "ENGINE.ROLLING":
                cause = f"Engine not ready. Current status: [{self.status}]. Please start the engine first."
                return 200, {**answer, "success": False, "fail_cause": cause}
            if "claims" in self.args.fault:
                cause = "No available episodes to claim. Try again (maybe 1 minute) later."
                return 200, {**answer, "success": False, "fail_cause": cause}
            key = uuid.uuid4().hex
            self.episodes[key] = {"client": str(body.get("client_uuid")), "type": str(body.get("episode_type"))}
            more = {"episode_uuid": key, "openai_base_url": "http://127.0.0.1/v1", "openai_api_key": "sk-ajet-eA=="}
            return 200, {**answer, **more, "success": True, "fail_cause": ""}
        if path == "/abort_episode":
            self.episodes.pop(key, None)
            return 200, {"success": True}
        if path == "/end_episode":
            if self.status != "ENGINE.ROLLING":
                return 400, {"detail": f"Engine is not in rolling state: {self.status}"}
            if key not in self.episodes:
                return 400, {"detail": f"Episode {key} not found, maybe you take **too long**"}
            one, output = self.episodes.pop(key), body["workflow_output"]
            if one["type"] == "train":
                self.finished.setdefault(str(body["task_id"]), []).append(float(output["reward"]))  # type: ignore[index]
                if sum(len(rewards) >= self.args.repeat for rewards in self.finished.values()) >= self.args.batch:
                    threading.Thread(target=self.step_done, daemon=True).start()
                    self.status = "ENGINE.ROLLING_POST"
            return 200, {"success": True}
        if path == "/can_continue_episode":
            return 200, {"can_continue": key in self.episodes}
        if path == "/fake/die":
            os._exit(int(str(body.get("code", 9))))
        return 404, {"detail": "Not Found"}


class Requests(BaseHTTPRequestHandler):
    """FastAPI's part."""

    engine: Engine

    def do_GET(self) -> None:
        """Answer a GET."""
        with self.engine.lock:
            self.answer(*self.engine.get(self.path))

    def do_POST(self) -> None:
        """Answer a POST."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.engine.lock:
            self.answer(*self.engine.post(self.path, json.loads(raw or b"{}")))

    def answer(self, status: int, value: object) -> None:
        """Send an object."""
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


BORN = time.monotonic()
SEEN_S = 10.0


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", nargs="?", default="start")
    parser.add_argument("--swarm-port", type=int, default=10086)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--state", default="OFFLINE")
    parser.add_argument("--total", type=int, default=3)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--after", type=float, default=1.0)
    parser.add_argument("--errors-for", type=int, default=5)
    args = parser.parse_args()
    if "never" in args.fault:
        print(TRACEBACK.format("ModuleNotFoundError: No module named 'sglang'"), file=sys.stderr)
        sys.exit(1)
    if "orphan" in args.fault:  # as `ajet-swarm start`, whose uvicorn child survives it
        words = [word for word in sys.argv[1:] if word not in ("--fault", "orphan")]
        subprocess.Popen([sys.executable, __file__, *words], start_new_session=True)
        while True:
            time.sleep(60)
    if "deaf" in args.fault:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Requests.engine = Engine(args)
    ThreadingHTTPServer.daemon_threads = True
    server = ThreadingHTTPServer(("127.0.0.1", args.swarm_port), Requests)
    print(f"Interchange server is running in blocking mode on: 127.0.0.1:{args.swarm_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
