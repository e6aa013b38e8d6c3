"""What looks at a swarm engine mean, poll by poll."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoresearch.agentjet.engine import EnginePoll, EngineWatch, parse_poll

OFF, BOOT, ROLL = "OFFLINE", "BOOTING", "ROLLING"
POST, SYNC = "ROLLING_POST", "WEIGHT_SYNCING"


def watched(*looks: tuple[str, int | None] | str, every: float = 2.0) -> tuple[EngineWatch, list[str]]:
    watch, lines = EngineWatch(), []
    for n, poll in enumerate(looks):
        status, step = (poll, None) if isinstance(poll, str) else poll
        seen = EnginePoll(trouble="refused") if not status else EnginePoll(f"ENGINE.{status}", step)
        lines += [line.removeprefix("[swarm] ") for line in watch.update(n * every, seen)]
    return watch, lines


def steps(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.startswith("step ")]


def test_a_run_from_boot_to_end() -> None:
    watch, lines = watched(
        (OFF, None), (BOOT, None), (ROLL, 1), (POST, 1), (SYNC, 1), (ROLL, 2), (POST, 2), (ROLL, 3), (OFF, 0), (OFF, 0)
    )
    assert lines == [
        "engine ENGINE.BOOTING for 0 s",
        "the engine has booted, in 2 s",
        "engine ENGINE.ROLLING global_step 1",
        "engine ENGINE.ROLLING_POST global_step 1",
        "engine ENGINE.WEIGHT_SYNCING global_step 1",
        "step 1",
        "engine ENGINE.ROLLING global_step 2",
        "engine ENGINE.ROLLING_POST global_step 2",
        "step 2",
        "engine ENGINE.ROLLING global_step 3",
        "engine ENGINE.OFFLINE",
    ]
    assert (watch.gone, watch.boot_failed, watch.done) == (True, False, 2)


def test_a_step_that_is_left_over_is_nobodys() -> None:
    watch, lines = watched((OFF, 7), (BOOT, 7), (ROLL, 1), (ROLL, 2))
    assert steps(lines) == ["step 1"]
    assert watch.first_step == 1


@pytest.mark.parametrize(
    ("looks", "failed"),
    [
        ([OFF, OFF, OFF], False),  # it was never seen to boot
        ([OFF, BOOT, OFF], False),  # a client may start it again
        ([OFF, BOOT, OFF, OFF], True),
        ([OFF, BOOT, OFF, BOOT, OFF], False),
        ([OFF, BOOT, ROLL, OFF, OFF], False),  # it has trained: gone, not failed
        ([OFF, BOOT, "", "", ""], False),
    ],
)
def test_a_boot_that_fails(looks: list[str], failed: bool) -> None:
    assert watched(*looks)[0].boot_failed is failed


def test_the_edge_from_syncing_is_a_step_where_no_number_says_so() -> None:
    assert steps(watched(OFF, BOOT, ROLL, POST, SYNC, ROLL, SYNC, ROLL)[1]) == ["step 1", "step 2"]


def test_rolling_may_be_over_between_two_looks() -> None:
    assert steps(watched(OFF, BOOT, (ROLL, 1), (POST, 2), (SYNC, 3))[1]) == ["step 1", "step 2"]


def test_a_step_is_told_again_only_for_its_kl() -> None:
    watch = EngineWatch()
    told = [
        watch.step_done(1),
        watch.step_done(1),
        watch.step_done(1, 0.5),
        watch.step_done(1, 0.5),
        watch.step_done(0),
    ]
    assert told == [["[swarm] step 1"], [], ["[swarm] step 1 kl 0.5"], [], []]
    assert watch.step_done(2, 1e-05) == ["[swarm] step 2 kl 1e-05"]
    assert watch.step_done(2) == []


def test_booting_has_a_heartbeat_and_a_pool_is_told_now_and_then() -> None:
    _, lines = watched(OFF, *[BOOT] * 32)
    assert lines == [f"engine ENGINE.BOOTING for {n} s" for n in (0, 30, 60)]
    watch = EngineWatch()
    pool = [EnginePoll("ENGINE.ROLLING", 1, (n, 32), (0, 8), 4) for n in range(12)]
    lines = [line for n, poll in enumerate(pool) for line in watch.update(2.0 * n, poll)]
    counted = [line.split(" completed ")[1] for line in lines]
    assert counted == [f"{n}/32 episodes 0/8 tasks running 4" for n in (0, 5, 10)]
    assert watch.moved_at == 22.0
    for n in range(3):
        watch.update(24.0 + n, EnginePoll("ENGINE.ROLLING", 1, (11, 32), (0, 8), 5 + n))
    assert watch.moved_at == 22.0, "a claim is no progress"


def test_a_server_that_does_not_answer_is_told_and_judged_by_nobody() -> None:
    watch, lines = watched(OFF, BOOT, *[""] * 40, (ROLL, 1))
    assert lines[1] == "the server does not answer: refused"
    assert lines[2] == "the server does not answer for 60 s: refused"
    assert lines[-3:] == [
        "the server answers again after 80 s",
        "the engine has booted, in 82 s",
        "engine ENGINE.ROLLING global_step 1",
    ]
    assert not watch.boot_failed and not watch.gone


def test_what_the_server_answers() -> None:
    status = {"engine_status": "ENGINE.ROLLING", "engine_status_detail": None, "global_step": 3}
    pool = {"completed_episodes": 12, "completed_episode_target": 32, "completed_tasks": 3, "completed_task_target": 8}
    poll = parse_poll(status, {**pool, "running_episode_details": {"a": {}}})
    assert poll == EnginePoll("ENGINE.ROLLING", 3, (12, 32), (3, 8), 1)
    assert poll.counters == "completed 12/32 episodes 3/8 tasks running 1"
    assert parse_poll(status, {"running_episode_details": None}).counters == ""
    assert parse_poll({"engine_status": None}, {}).status == ""
    assert parse_poll({"engine_status": "ENGINE.OFFLINE", "global_step": None}, {}).step is None
    assert parse_poll({"engine_status": "ENGINE.OFFLINE", "global_step": True}, {}).step is None
    rewards = {"a": [1, None, 0.5], "b": [], "c": "x"}
    assert parse_poll({}, {"completed_tasks_rewards": rewards}).rewards == {"a": (1.0, 0.5)}


def test_the_rewards_of_a_step_are_those_of_its_batch_in_the_pool() -> None:
    watch, lines = EngineWatch(pool_rewards=True), []
    old, first = {"old": (9.0,)}, {"a": (0.0, 1.0)}
    for n, (status, step, rewards) in enumerate(
        [
            (OFF, 5, old),
            (BOOT, 5, old),
            (ROLL, 1, old),  # left over from another run
            (ROLL, 1, {}),
            (ROLL, 1, {"a": (0.0,)}),
            (POST, 1, first),
            (ROLL, 2, {**first, "b": (0.5,)}),  # it overshot, and the next step has begun
            (ROLL, 2, {**first, "b": (0.5,)}),
            (SYNC, 2, {"c": (0.25,)}),
            (ROLL, 3, {"d": (1.0,)}),
            (ROLL, 5, {"f": (1.0,)}),  # nobody saw step 4
            (SYNC, 5, {"f": (1.0,)}),
            (OFF, 0, {"f": (1.0, 0.0)}),
        ]
    ):
        lines += watch.update(2.0 * n, EnginePoll(f"ENGINE.{status}", step, rewards=rewards))
    assert watch.last_collected == (5, 0.5)
    assert [line.removeprefix("[swarm] ") for line in lines if "] step " in line] == [
        "step 1 reward 0.5",
        "step 2 reward 0.25",
        "step 4",
    ]


@pytest.mark.parametrize(
    ("status", "episodes", "collected"),
    [(ROLL, (1, 2), False), (ROLL, (2, 2), True), (ROLL, (0, 0), False), (POST, (1, 2), True), (SYNC, (0, 0), True)],
)
def test_an_engine_that_went_off_had_its_batch_or_not(status: str, episodes: tuple[int, int], collected: bool) -> None:
    watch = EngineWatch(pool_rewards=True)
    for n, poll in enumerate((EnginePoll(f"ENGINE.{BOOT}"), EnginePoll(f"ENGINE.{status}", 4, episodes))):
        watch.update(float(n), poll)
    watch.update(2.0, EnginePoll(f"ENGINE.{OFF}", 0))
    assert (watch.last_collected is not None) is collected
