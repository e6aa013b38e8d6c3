"""Stand-in for ajet/tuner_lib/experimental/swarm_client.py, with the server behind it in the same process.

STUB_LOG: a file that gets a JSON line for each call. STUB_BASE_URL: the endpoint of its episodes. STUB_MODE:
ok, or a way in which the real thing fails. As the real client, it waits for ever where an engine is gone.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from types import SimpleNamespace
from typing import Any

MODE = os.environ.get("STUB_MODE", "ok")


class SwarmClient:
    def __init__(self, server_url: str, verbose: bool = True) -> None:
        self.server_url = server_url
        self.lock = threading.Lock()
        self.status = "ENGINE.ROLLING" if MODE == "busy" else "ENGINE.OFFLINE"
        self.status = "ENGINE.CANNOT_CONNECT" if MODE == "no_server" else self.status
        self.step = 1 if MODE == "busy" else 7  # a stale one
        self.ended = 0
        self.claimed: dict[str, str] = {}
        self.looks = 0

    def _note(self, call: str, **told: Any) -> None:
        with self.lock, open(os.environ["STUB_LOG"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"call": call, **told}) + "\n")

    def get_engine_status(self) -> tuple[str, dict[str, Any]]:
        if self.status == "ENGINE.BOOTING":
            self.looks += 1
            if self.looks > 2:
                self.status = "ENGINE.OFFLINE"
        return self.status, {"engine_status": self.status, "global_step": self.step}

    def auto_sync_train_config_and_start_engine(self, agentjet_job: Any, force_restart: bool = False) -> None:
        self._note("start", **agentjet_job.given)
        if self.status != "ENGINE.OFFLINE":
            return
        self.episodes = agentjet_job.batch_size * agentjet_job.num_repeat
        if MODE == "boot_dies":
            self.status = "ENGINE.BOOTING"
            time.sleep(3600)
        self.step, self.status = 1, "ENGINE.ROLLING"

    def begin_episode(self, discard_episode_timeout: int = 240, episode_type: str = "train") -> tuple[str, Any]:
        while self.status != "ENGINE.ROLLING":
            time.sleep(0.05)
        if MODE == "no_episode":
            time.sleep(3600)
        episode = str(uuid.uuid4())
        self.claimed[episode] = episode_type
        self._note("begin", episode=episode, type=episode_type, timeout=discard_episode_timeout)
        return episode, SimpleNamespace(base_url=os.environ["STUB_BASE_URL"], api_key=f"sk-ajet-{episode[:8]}")

    def end_episode(self, task: Any, episode_uuid: str, workflow_output: Any) -> None:
        assert self.claimed.pop(episode_uuid) == "train", "an evaluation must be aborted"
        self._note("end", episode=episode_uuid, task=task.task_id, reward=workflow_output.reward)
        with self.lock:
            self.ended += 1
            if self.ended % self.episodes == 0:
                self.step += 1
        if MODE == "lost" and self.ended == 2:
            self.status, self.step = "ENGINE.OFFLINE", 0
        if MODE == "late":
            raise RuntimeError("SwarmClient error 400: maybe you take **too long**")

    def abort_episode(self, episode_uuid: str) -> None:
        del self.claimed[episode_uuid]
        self._note("abort", episode=episode_uuid)

    def stop_engine(self) -> None:
        self._note("stop")
        self.status, self.step = "ENGINE.OFFLINE", 0
