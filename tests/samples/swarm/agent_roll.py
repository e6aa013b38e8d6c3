"""A swarm client without an agent: it speaks to the fake server as ajet's SwarmClient does.

    python agent_roll.py [steps=3] [evals] [storm] [reuse] [hang] [rc=N]

steps: optimizer steps until it stops (it trains one less, as AgentJet's tutorial does). evals: evaluate at step 0 and
at the end, two data sets, console lines and val_results.md. storm: every episode raises and is retried. reuse: train on
with an engine that rolls already, silently, as ajet's auto_sync does. hang: wait for ever at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("AJET_SWARM_URL", "http://127.0.0.1:10086")
OPTIONS = dict(word.partition("=")[::2] for word in sys.argv[1:])
ME = "client-1"


def call(path: str, body: dict[str, object] | None = None) -> dict[str, object]:
    """One request; raises for an error status, as ajet's raise_for_status_with_detail."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        with error:
            raise RuntimeError(f"SwarmClient error {error.code}: {error.read().decode()}") from None


def status() -> tuple[str, int]:
    """Engine status and step; CANNOT_CONNECT where there is none."""
    try:
        said = call("/get_engine_status")
    except (OSError, RuntimeError):
        return "ENGINE.CANNOT_CONNECT", 0
    return str(said["engine_status"]), int(said["global_step"] or 0)  # type: ignore[call-overload]


def wait_for_rolling() -> None:
    """Without a limit, as ajet does it."""
    began, told = time.time(), 0.0
    while status()[0] != "ENGINE.ROLLING":
        if time.time() - told > 1.0:
            told = time.time()
            print(f"Current engine status (already waited {time.time() - began:.0f}s): {status()[0]}", flush=True)
        time.sleep(0.05)


def start_engine() -> None:
    """sync_train_config, start_engine."""
    if status()[0] == "ENGINE.ROLLING" and "reuse" in OPTIONS:
        print("Engine is already ROLLING. No action needed.", flush=True)
        return
    call("/sync_train_config", {"yaml_as_string": "ajet: {}\n"})
    print("started engine:", call("/start_engine", {}), flush=True)
    wait_for_rolling()


def episode(task: str, reward: float, kind: str = "train", *, abort: bool = False) -> None:
    """Claim, roll, end. Nothing, where the engine stops rolling first."""
    body: dict[str, object] = {"client_uuid": ME, "episode_type": kind, "discard_episode_timeout": 240}
    while not (claimed := call("/claim_episode", body))["success"]:
        print(f"{claimed['fail_cause']}. Retrying ...", flush=True)
        time.sleep(0.02)
        if status()[0] != "ENGINE.ROLLING":
            return
    if "storm" in OPTIONS:
        raise KeyError(f"tool_call_{time.time_ns()}")
    key = claimed["episode_uuid"]
    output = {"reward": reward, "metadata": {"task_id": task}}
    body |= {"episode_uuid": key, "workflow_output": output, "task_id": task}
    call("/abort_episode" if abort else "/end_episode", body)


def evaluate(step: int) -> None:
    """Two data sets, as the tutorial prints and writes them."""
    where = os.environ["AUTORESEARCH_RESULT_DIR"]
    for name, rate in (("AIME-2024", 0.5), ("AIME-2025", 0.25)):
        rate += step / 10
        print(f"EVAL {name} @ step {step}:  50%|█████     | 1/2 [00:01<00:01, 1.00it/s]", flush=True)
        print(
            f"[EVAL @ step {step}] {name}  mean_reward={rate:.4f}  std_reward=0.4120  task_pass_rate@1={rate:.2%}"
            f"  task_pass_rate@4=75.00%  n_tasks=30  n_rollouts=120",
            flush=True,
        )
        with open(f"{where}/val_results.md", "a") as file:
            file.write(
                f"\n## Step {step}\n- dataset: {name}\n- pass_n: 4\n- total_tasks: 30\n- num_all_success_tasks: 3\n"
                f"- num_pass_n_tasks: 11\n- task_pass_rate@1: {rate:.2%}\n- task_pass_rate@4: 75.00%\n"
                f"- mean_reward: {rate:.4f}\n- std_reward: 0.4120\n- n_rollouts: 120\n"
            )


def main() -> None:
    """Train until the last step begins."""
    last = int(OPTIONS.get("steps") or 3)
    start_engine()
    if "evals" in OPTIONS:
        evaluate(0)
    task = 0
    while status()[1] < last:
        wait_for_rolling()
        task += 1
        try:
            episode(f"task-{task}", 0.5)
        except Exception as error:  # noqa: BLE001 - auto_retry=True
            if status()[0] in ("ENGINE.OFFLINE", "ENGINE.CANNOT_CONNECT"):
                continue
            words = f"[PeriodicDrainThreadPoolExecutor] Error executing episode: {error}. Retrying..."
            print(f"\x1b[32m07:34\x1b[0m |    retry_wrapper    :71  | \x1b[31m{words}\x1b[0m", flush=True)
        time.sleep(0.02)
    if "evals" in OPTIONS:
        evaluate(last - 1)
    if "hang" in OPTIONS:
        time.sleep(600)
    print("[INFO] Training complete!", flush=True)
    sys.exit(int(OPTIONS.get("rc") or 0))


if __name__ == "__main__":
    main()
