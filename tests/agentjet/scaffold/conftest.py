"""A scaffold on disk, a scripted OpenAI-compatible server, an agent with many ways, and a stand-in for AgentJet."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from autoresearch.agentjet import scaffold as scaffolds
from autoresearch.core.run.hooks import ScaffoldOptions, Templates
from autoresearch.lab.render import render, render_blueprint
from tests.waiting import PATIENCE_S

TEMPLATES = Templates(render, render_blueprint)
STUB = Path(__file__).parent / "stub"

AGENT = """
import json, os, sys, time
from _socket import socket  # a library for HTTP takes a tenth of a second to import
mode, prompt = sys.argv[1:3]
def ask():
    body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": prompt}]}).encode()
    host, _, port = os.environ["OPENAI_BASE_URL"].split("/")[2].partition(":")
    head = "POST /v1/chat/completions HTTP/1.0\\r\\nAuthorization: Bearer " + os.environ["OPENAI_API_KEY"]
    connection = socket()
    connection.connect((host, int(port)))
    sent = head.encode() + b"\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body
    while sent:
        sent = sent[connection.send(sent):]
    reply = b""
    while piece := connection.recv(65536):
        reply += piece
    return json.loads(reply.partition(b"\\r\\n\\r\\n")[2])["choices"][0]["message"]["content"]
def sleeper(**how):
    import subprocess
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **how)
if mode == "silent":
    print("4")
    sys.exit()
said = ask()
if mode == "crash":
    print("half an ans")
    sys.exit("ValueError: no such tool")
if mode == "hang":
    sleeper(start_new_session=True)
    time.sleep(600)
if mode == "leaves":  # something that keeps our output open, and something that left the group
    sleeper()
    sleeper(start_new_session=True, stdout=-3)
if mode == "endless":
    for _ in range(400):
        print("x" * 20_000)
if mode == "judged":
    print("the key of the judge is", os.environ.get("JUDGE_KEY"))
if mode == "write":
    open("answer.txt", "w").write(said)
print("\\x1b[32mthinking ...\\x1b[0m")
print(said)
"""


@dataclass
class Model:
    """A server that answers what the test says; `reply` gets the parsed body of each question."""

    url: str = ""
    reply: Callable[[dict[str, Any]], str] = lambda body: "4"
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


class _Server(ThreadingHTTPServer):
    model: Model


class _Answers(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        model = self.server.model
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model.asked.append(body)
        model.keys.append(self.headers.get("Authorization", ""))
        text = model.reply(body)
        answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
        self.send_response(200 if text != "HTTP 500" else 500)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def model() -> Iterator[Model]:
    server = _Server(("127.0.0.1", 0), _Answers)
    server.daemon_threads = True
    made = Model(f"http://127.0.0.1:{server.server_address[1]}/v1")
    server.model = made
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass
class Scaffold:
    """Rendered files, and how to run them."""

    place: Path
    base: Path

    def run(self, name: str, *words: object, check: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """One of the files as a program."""
        done = subprocess.run(
            [sys.executable, self.place / name, *map(str, words)],
            env={**os.environ, **env},
            cwd=self.base,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )
        if check is not None:
            assert done.returncode == check, f"rc {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def told(self, name: str, *words: object, check: int | None = 0, **env: str) -> dict[str, Any]:
        """What it says on its last line."""
        return dict(json.loads(self.run(name, *words, check=check, **env).stdout.splitlines()[-1]))

    def load(self, name: str) -> Any:
        """One of the files that import none of the others, as a module."""
        spec = importlib.util.spec_from_file_location(f"rendered_{name.removesuffix('.py')}", self.place / name)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def episode(self, model: Model, item: str = "row-000001", check: int = 0, **env: str) -> dict[str, Any]:
        """One episode against the scripted server."""
        return self.told("run_episode_once.py", "--item", item, "--base-url", model.url, check=check, **env)


Scaffolding = Callable[..., Scaffold]


@pytest.fixture
def scaffold(tmp_path: Path) -> Scaffolding:
    """Write the files for the little agent in a mode; `changes` are options."""

    def make(mode: str = "ok", reward: str = "exact", data: str = "", **changes: Any) -> Scaffold:
        base = tmp_path / "project"
        base.mkdir(exist_ok=True)
        (base / "agent.py").write_text(AGENT)
        rows = [{"prompt": f"2+{n}?", "answer": str(2 + n)} for n in range(2, 5)]
        (base / "data.jsonl").write_text(data or "".join(json.dumps(row) + "\n" for row in rows))
        command = f"{sys.executable} -S -E -s agent.py {mode} {{prompt}}"
        options = ScaffoldOptions(command, "data.jsonl", reward, agent_timeout_s=60.0)
        box = scaffolds.blackbox(replace(options, **changes), base / "out", base)
        scaffolds.write(scaffolds.rendered(box, TEMPLATES), base / "out", force=True)
        return Scaffold(base / "out", base)

    return make


@pytest.fixture
def judge() -> Callable[[Model], dict[str, str]]:
    """The options of a judge at a scripted server."""
    return lambda model: {
        "reward": "", "judge_model": "judge-1", "judge_base_url": model.url, "judge_api_key_env": "JUDGE_KEY"
    }  # fmt: skip


@pytest.fixture
def stub() -> dict[str, str]:
    """The environment in which `import ajet` finds the stand-in."""
    return {"PYTHONPATH": str(STUB)}
