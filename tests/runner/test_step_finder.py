"""Which number is the step: what must have been seen before, what belongs to it, and when the mind is changed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from autoresearch.runner.metric_lines import body, parse
from autoresearch.runner.step_finder import FoundLine, StepFinder

FORMATS = Path(__file__).parents[1] / "samples" / "formats"


def found(text: str, *names: str) -> list[tuple[int, dict[str, float]]]:
    finder = StepFinder(names)
    finder.feed(text.encode())
    return [(line.step, line.metrics) for line in finder.end()]


def of(lines: list[FoundLine]) -> list[tuple[int, dict[str, float]]]:
    return [(line.step, line.metrics) for line in lines]


def test_nothing_is_taken_before_a_step_has_grown_twice_and_then_all() -> None:
    finder = StepFinder()
    for n in (0, 10):
        finder.feed(b"iter %d: loss 0.5\n" % n, at=float(n))
        assert finder.take() == []
    finder.feed(b"iter 20: loss 0.4\n", at=20.0)
    lines = finder.take()
    assert of(lines) == [(0, {"loss": 0.5}), (10, {"loss": 0.5}), (20, {"loss": 0.4})]
    assert [line.at for line in lines] == [0.0, 10.0, 20.0], "each with the time at which it was read"
    assert finder.take() == []
    assert finder.summary() == "read `iter` as the step, and loss, from 3 lines like `iter 0: loss 0.5`"


def test_a_declared_metric_needs_no_step_that_grew() -> None:
    assert found("step 7 reward 0.5\n") == []
    assert found("step 7 reward 0.5\n", "reward") == [(7, {"reward": 0.5})]
    assert found("loading\nPass Rate: 41 %\n", "pass_rate") == [(1, {"pass_rate": 41.0})]
    told = "".join(f"sweep {n}: energy of the lattice {n / 10} after cooling, 3 of 9\n" for n in range(1, 4))
    assert found(told, "energy of the lattice") == [(n, {"energy of the lattice": n / 10}) for n in range(1, 4)]
    long = "".join(f"step {n} {'and so the lattice is warm ' * 30} with energy {n / 10}\n" for n in range(1, 4))
    assert found(long, "energy") == [(n, {"energy": n / 10}) for n in range(1, 4)] and found(long) == []
    best = "".join(f"[Epoch {n}] val mIoU 0.{n}\nBest val mIoU 0.9 Epoch 1\n" for n in range(1, 4))
    read = found(best, "val mIoU")
    assert [one for one in read if "val mIoU" in one[1]] == [(n, {"val mIoU": n / 10}) for n in range(1, 4)]
    assert read[-1] == (3, {"Best_val_mIoU": 0.9}), "at epoch 1 it was the best: that is no step"


def test_a_step_without_a_usual_metric_beside_it_is_taken_at_the_end_if_it_always_grew() -> None:
    finder = StepFinder()
    finder.feed(b"".join(b"step %d yield=0.%d\n" % (n, n) for n in range(1, 9)))
    assert finder.take() == []
    assert of(finder.end()) == [(n, {"yield": n / 10}) for n in range(1, 9)]
    assert found("step 1 yield=0.1\nstep 2 yield=0.2\n") == [], "it grew once"
    assert found("".join(f"step {n} port=10086\n" for n in range(9))) == [], "nothing was measured"
    assert found("step 1 yield=0.1\nstep 2 yield=0.2\nstep 2 yield=0.3\nstep 3 yield=0.3\n") == []


def test_the_rows_of_a_table_without_a_step_belong_to_the_step_before() -> None:
    table = "Class  Images  P  R  mAP50\nall  8  0.5  0.4  0.{n}\ncat  4  0.6  0.4  0.2\n"
    rows = "".join(f"epoch {n} loss 0.5\n{table.format(n=n)}saved\n9  8  7  6  5\n" for n in range(1, 4))
    whole = {"Images": 8, "P": 0.5, "R": 0.4, "mAP50": 0.3}
    assert found(rows)[-1] == (3, {**whole, "cat/Images": 4, "cat/P": 0.6, "cat/R": 0.4, "cat/mAP50": 0.2})
    assert found(table.format(n=1)) == [], "nobody says that it is what was measured"


def test_a_header_may_hold_digits() -> None:
    rows = "".join(f"{n},0.{n},0.5\n" for n in range(1, 5))
    assert found("epoch,val_f1,loss_2\n" + rows)[-1] == (4, {"val_f1": 0.4, "loss_2": 0.5})


def test_a_leaderboard_at_the_end_is_no_step() -> None:
    board = "#  lr  val_loss\n1  0.1  0.2\n2  0.3  0.4\n3  0.5  0.6\n4  0.7  0.8\n"
    steps = "".join(f"epoch {n} val_loss 0.{n}\n" for n in range(5))
    assert found(steps + board, "val_loss")[-1] == found(steps + board)[-1] == (4, {"val_loss": 0.4})


def test_the_limit_to_the_first_step_takes_what_there_is() -> None:
    finder = StepFinder()
    finder.feed(b"step 1 | loss 0.5\n")
    assert finder.take() == []
    assert of(finder.take_unproven()) == [(1, {"loss": 0.5})]


def test_a_finer_step_is_taken_instead_once() -> None:
    finder = StepFinder()
    for epoch in range(4):
        finder.feed(b"epoch %d loss 0.5\n" % epoch)
    assert [line.step for line in finder.take()] == [0, 1, 2, 3]
    for step in range(100, 500, 100):
        finder.feed(b"step %d loss 0.4\n" % step)
    assert [line.step for line in finder.take()] == [100, 200, 300, 400]
    assert finder.summary().startswith("read `step` as the step (first `epoch`), and loss")


def test_a_batch_that_starts_again_with_each_epoch_is_no_step() -> None:
    lines = [f"Epoch [{e}/3], Step [{s}/30], Loss: {1 / (e * s):.3f}" for e in (1, 2, 3) for s in (10, 20, 30)]
    assert {step for step, _ in found("\n".join(lines) + "\n")} == {1, 2, 3}
    twice = [f"(epoch: {e}, iters: {s}) G_GAN: {1 / (e * s):.3f}" for e in (1, 2) for s in (10, 20, 30)]
    assert {step for step, _ in found("\n".join(twice) + "\n")} == {1, 2}, "whatever the metrics are called"


def test_a_resumed_run_goes_back_and_stays_on_its_step() -> None:
    steps = [*range(300, 400, 10), *range(370, 450, 10)]
    assert [step for step, _ in found("".join(f"step {n} loss 1\n" for n in steps))] == steps


def test_lines_beside_belong_to_the_step_before_unless_their_own_number_fits() -> None:
    val = "step {n}: val loss 2.0\n"
    text = "".join(f"iter {n}: loss 1.0\n" + (val.format(n=n) if n % 20 == 10 else "") for n in range(0, 50, 5))
    assert [(s, m) for s, m in found(text) if "val_loss" in m] == [(10, {"val_loss": 2.0}), (30, {"val_loss": 2.0})]
    steps = "".join(f"step {n} | loss: 1\n" for n in range(5))
    assert found("mse: 3.0\n" + steps + "saved\nfinal_mse: 0.5\n")[-2:] == [(4, {"loss": 1.0}), (4, {"final_mse": 0.5})]
    summary = "---\nval_bpb:   0.9979\nnum_steps: 953\n"
    assert found(steps + summary)[-1] == (4, {"val_bpb": 0.9979})


@pytest.mark.parametrize(
    ("line", "name"),
    [
        *(("Test set: Loss: {n}", "test/Loss"), ("| Validation Epoch #{n}\t\t\tLoss: {n}", "val/Loss")),
        *(("[Eval] Loss: {n}", "eval/Loss"), ("Evaluating test: Loss {n}", "test/Loss")),
        ("[Epoch {n}] [Valid] Loss: {n}", "val/Loss"),
    ],
)
def test_a_heading_tells_what_is_held_out_from_what_is_trained(line: str, name: str) -> None:
    text = "".join(f"| Epoch {n} | Loss: 9.{n}\n{line.format(n=n)}\n" for n in range(1, 5))
    assert found(text)[-2:] == [(4, {"Loss": 9.4}), (4, {name: 4.0})]
    assert found(text, name.replace("/", " "))[-1] == (4, {name.replace("/", " "): 4.0})
    assert found(text, "Loss")[-1] == (4, {"Loss": 4.0}), "a declared name is read wherever it stands"


def test_a_heading_holds_until_the_next_step() -> None:
    text = "".join(f"Training epoch: {n}\nmean loss: 4.{n}\nEval epoch: {n}\nTop1: 5{n}\n" for n in range(1, 5))
    assert found(text)[-2:] == [(4, {"mean_loss": 4.4}), (4, {"Eval_epoch": 4.0, "eval/Top1": 54.0})]


def values(text: str, name: str) -> dict[int, float]:
    return {step: metrics[name] for step, metrics in found(text) if name in metrics}


def test_a_block_belongs_to_the_step_within_its_own_frame() -> None:
    heading = "".join(f"-- Generation {n} --\n  Evaluated 18{n} individuals\n  Max 6{n}.0\n" for n in range(1, 7))
    assert values("Evaluated 300 individuals\n" + heading, "Max") == {n: 60.0 + n for n in range(1, 7)}
    rule = "-----------  --------\n"
    rows = [f"Return  -2{n}.5\nNumber of rollouts total  1{n}\nEpoch  {n}\n" for n in range(4)]
    assert values(rule + rule.join(rows) + rule, "Return") == {n: -20.5 - n for n in range(4)}


def test_a_date_is_no_bar_and_an_epoch_with_its_batch_is_a_pair() -> None:
    dated = "".join(f"04/16 10:00:0{n} INFO [{50 * n}/144] loss: 2.{n}\n" for n in (1, 2, 3))
    assert values(dated, "loss") == {50: 2.1, 100: 2.2, 150: 2.3}
    pairs = [(1, 50), (1, 100), (2, 50), (2, 100)]
    text = "".join(f"x - INFO - Epoch [{e}][{b}/144]\tlr: 2e-04, loss: {e}.{b}\n" for e, b in pairs)
    assert values(text, "loss") == {1: 1.1, 2: 2.1}


def test_the_description_of_a_bar_and_the_number_before_one_are_read() -> None:
    drawn = "".join(f"loss 2.{n} acc 9{n}:  10%|##| {n}/7 [00:01<00:02, 20.1it/s]\r" for n in range(1, 5))
    assert values(drawn, "loss") == {n: 2 + n / 10 for n in range(1, 5)}
    leads = "step 0: train loss 11.6, val loss 11.7\n" + "".join(f"{n} | loss 9.{n} | 10.5ms\n" for n in (0, 10, 20))
    assert values(leads, "loss") == {0: 9.0, 10: 9.1, 20: 9.2} and values(leads, "val_loss") == {0: 11.7}


def test_lines_without_any_step_are_counted() -> None:
    finder = StepFinder()
    finder.feed("".join(f"loss={1 / n} reward={n}\n" for n in range(1, 5)).encode())
    lines = finder.end()
    assert [(line.step, line.counted) for line in lines] == [(1, True), (2, True), (3, True), (4, True)]
    assert finder.summary().endswith("they name no step and are counted")


@pytest.mark.parametrize("name", ["iter-pipes.log", "sb3-ppo.log", "rllib-tree.log", "csv.log", "tqdm-postfix.log"])
def test_the_size_of_the_pieces_does_not_matter(name: str) -> None:
    data = (FORMATS / name).read_bytes().replace(b"\r", b"\n") + b"\n"
    whole = StepFinder()
    whole.feed(data)
    expected = of(whole.end())
    pieces, at = StepFinder(), 0
    pick, got = random.Random(name), list[FoundLine]()
    while at < len(data):
        end = data.find(b"\n", min(len(data) - 1, at + pick.randrange(1, 400))) + 1
        pieces.feed(data[at:end])
        got += pieces.take()
        at = end
    assert of(got + pieces.end()) == expected and expected


def test_a_line_far_into_a_log_is_found_by_its_needle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoresearch.runner.step_finder.LOOKED_AT", 1000)
    noise = b"a library says something, number 5 of many\n" * 100
    finder = StepFinder()
    for n in range(4):
        finder.feed(noise + b"global_step=%d, loss=0.5\n" % n + noise)
    assert [step for step, _ in of(finder.end())] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("line", "steps", "metrics"),
    [
        ("2026-11-24 10:00:00,123 - INFO - trainer - step 5 - loss: 0.5", {"step": 5}, {"loss": 0.5}),
        ("[rank0]: (Worker pid=7) step=5 loss=np.float64(0.5)", {"step": 5}, {"loss": 0.5}),
        ("level=info msg='train step' step=5 loss=.5", {"step": 5}, {"loss": 0.5}),
        ("epoch 3 done: loss 0.5 in 12.5 s", {"epoch": 3}, {"loss": 0.5}),
        ("step: 1,200 | loss: 3", {"step": 1200}, {"loss": 3}),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.5", {"Train_Epoch": 1, "n/total": 640}, {"Loss": 0.5}),
        ("step 3 time: 4.5 s Mean Reward: 0.5", {"step": 3}, {"Mean_Reward": 0.5}),
        ("epoch 3 min reward 0.1 h 0.9", {"epoch": 3}, {"min_reward": 0.1, "h": 0.9}),
        ("average undiscounted return per test episode: 7", {}, {"average_undiscounted_return_per_test_episode": 7}),
        ("eval 3: {'eval/aime': tensor(0.5, device='cuda:0')}", {"eval": 3}, {"eval/aime": 0.5}),
        ("Epoch 2 Accuracy: 30/40 (75%)", {"Epoch": 2}, {"Accuracy": 75}),
        ("Test: [30/40] Loss 0.5 (0.6)", {"n/total": 30}, {"Loss": 0.5}),
        ("Running generation 7 best score: 3", {"Running_generation": 7}, {"best_score": 3}),
        ("Episode 9/50: mean reward over the last 100 episodes was 3.5", {"Episode": 9}, {"mean_reward": 3.5}),
        ("Average Score (last 100 episodes): 3.5", {}, {"Average_Score": 3.5}),
        ("loss(train_data[1]) = 0.5f-2", {}, {"loss(train_data[1])": 0.005}),
        (
            "step 5 | recall@10[k=5]: 0.5 | eval/acc[split=test]=1",
            {"step": 5},
            {"recall@10[k=5]": 0.5, "eval/acc[split=test]": 1},
        ),
        ("Step 500: Evaluation over 10 episodes: 3.5", {"Step": 500}, {"Evaluation": 3.5}),
        ("running reward: 3.5 at episode 10", {"episode": 10}, {"running_reward": 3.5}),
        ("Mean loss: 3, mean training accuracy 0.5", {}, {"Mean_loss": 3, "mean_training_accuracy": 0.5}),
        ("Validation loss 7: 3.5", {}, {"Validation_loss": 3.5}),
        ("Train loss 7 3.5 Grad Norm 0.5 0.2s/it", {}, {"Train_loss": 3.5, "Grad_Norm": 0.5}),
        ("(a:2) INFO: 7epoch results: [train] loss=3, [valid] loss=4", {"epoch": 7}, {"loss": 3, "valid/loss": 4}),
        ("[ITER 7] Evaluating test: L1 0.5 PSNR 28", {"ITER": 7}, {"L1": 0.5, "PSNR": 28}),
    ],
)
def test_a_line_in_its_spelling(line: str, steps: dict[str, int], metrics: dict[str, float]) -> None:
    parsed = parse(body(line))
    assert parsed is not None and parsed.bare
    assert {name: value for name, (value, _) in parsed.steps.items()} == steps
    assert metrics.items() <= parsed.metrics.items()


@pytest.mark.parametrize(
    "line",
    [
        *("step: 12,34", "losses=[1, 2, 3]", "Namespace(step=10, loss='grpo')", "+ step=5 loss=3"),
        *("lr ......... 1e-6", "{'loss': 0.5", ","),
        " Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = 0.719",
    ],
)
def test_a_line_that_holds_none(line: str) -> None:
    assert parse(body(line)) is None


def test_no_output_is_too_odd() -> None:
    pick = random.Random(5)
    logs = [path.read_bytes() for path in sorted(FORMATS.glob("**/*.log"))]
    words = [b"step ", b"1" * 400, b"1e999", b"nan", b"inf", b"-", b"{", b"[", b"'", b"/", b"loss=", b"\x1b[", b"%|"]
    for log in logs:
        lines = log[: 1 << 11].split(b"\n")
        for _ in range(20):
            at = pick.randrange(len(lines))
            cut = pick.randrange(len(lines[at]) + 1)
            odd = pick.choice(words) * pick.randrange(1, 4)
            lines[at] = lines[at][:cut] + odd + lines[at][cut + pick.randrange(3) :]
        finder = StepFinder(("loss", "a b"))
        finder.feed(b"\n".join(lines) + b"\n")
        finder.take_unproven()
        assert all(0 <= line.step < 1 << 53 for line in finder.end())
        finder.summary()


def test_of_a_long_log_no_step_is_lost() -> None:
    log = "".join(f"iter {n} | loss {1 / (n + 1):.4f}\n" for n in range(15_000))
    finder = StepFinder()
    finder.feed(log.encode())
    assert [line.step for line in finder.end()] == list(range(15_000))


def test_late_in_a_log_bars_are_read_only_where_the_steps_stand_in_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoresearch.runner.step_finder.LOOKED_AT", 1 << 17)
    bar = "Epoch {n}: 100%|##########| 10/10 [00:00<00:00, 1.2it/s, train_loss={n}.5]\n"
    other = "Processed prompts:  50%|#####     | 5/10 [00:00<00:00, 9.1it/s, est. speed input: 5.1 toks/s]\n" * 40
    for line in (bar, "epoch {n} | train_loss {n}.5\n"):
        finder = StepFinder()
        for n in range(100):
            finder.feed((line.format(n=n) + other).encode())
        steps = {one.step: one.metrics["train_loss"] for one in finder.end() if "train_loss" in one.metrics}
        assert steps == {n: n + 0.5 for n in range(100)}
