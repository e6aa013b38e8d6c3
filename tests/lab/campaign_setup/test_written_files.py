"""Which files of metrics a program writes, and what stands in them, as its text shows it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from autoresearch.lab.recipes.printed_names import objectives_of, shown_by_name

DATED = Path(__file__).parents[2] / "samples/first_contact/dated-output-dir/train.py"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (DATED.read_text(), "reward jsonl outputs/*/*/metrics.jsonl"),
        ("""
            row = {"epoch": 1}
            row["val_loss"] = validate()
            Path("out/log.txt").open("a").write(json.dumps(row) + "\\n")
         """, "val_loss jsonl out/log.txt"),
        ("""
            self.file = open(os.path.join(args.out, f"{name}.csv"), "w")
            writer = csv.DictWriter(self.file, fieldnames=["epoch", "train_loss", "val_acc"])
         """, "val_acc csv logs/*.csv"),
        ("""open(args.out + "/log.csv", "a").write("epoch,lr,val_acc\\n")""", "val_acc csv logs/log.csv"),
        ("""pd.DataFrame({"step": s, "reward": r}).to_csv("reward.csv")""", "reward csv reward.csv"),
        ("""json.dump({"eval": {"success_rate": x}, "n": 3}, open("results.json", "w"))""",
         "eval/success_rate json results.json"),
        ("""Path("results.json").write_text(json.dumps({"reward": r}))""", "reward json results.json"),
        ("""
            class Agent:
                def __init__(self): self.writer = SummaryWriter(f"runs/{name}")
                def learn(self): self.writer.add_scalar("charts/episodic_return", r, s)
            Agent().learn()
         """, "charts/episodic_return tensorboard runs/*"),
        ("writer = SummaryWriter()\nwriter.add_scalar('loss', 1.0, 2)", "loss tensorboard runs/*"),
        ("""json.dump({"reward": r}, open(path, "w"))""", ""),  # nobody knows where
        ("""@hydra.main(config_path="c", config_name="c")
def main(cfg): open("m.jsonl", "a").write(json.dumps({"reward": r}))\nmain()""", ""),  # in outputs/, or elsewhere
        ("""json.load(open("results.json"))["reward"]""", ""),
        ("""open("metrics.jsonl", "a").write(json.dumps({"reward": r}))\nprint(f"score {s:.2f}")""", "score"),
        ("""open("m.jsonl", "a").write(json.dumps({"val_reward": r}))\nprint(f"loss {s:.2f}")""",
         "loss, val_reward jsonl m.jsonl"),  # which of them counts, the text does not say
        ("""writer = SummaryWriter()\nwriter.add_scalar("avg_reward/test", r)\nprint(f"Avg. Reward: {r:.2f}")""",
         "Avg_Reward"),  # pytorch-soft-actor-critic
    ],
)  # fmt: skip
def test_what_is_written_and_where(text: str, found: str) -> None:
    objectives = objectives_of({"train.py": textwrap.dedent(text)}, flags={"out": "logs"})
    shown = [" ".join([one.name, *(f"{file.format} {file.path}" for file in one.sources)]) for one in objectives]
    assert ", ".join(shown) == found


UNLESS_ON = "def show():\n    if not on:\n        return\n    print(f'reward {r:.2f}')\nshow()"
LOGS_WITH_V = "if args.v:\n    logging.basicConfig(level=logging.INFO)\n"


@pytest.mark.parametrize(
    ("text", "flags", "names"),
    [
        ("if args.test:\n    print(f'reward {r:.2f}')", {"test": False}, []),
        ("if args.test:\n    print(f'reward {r:.2f}')", {}, ["reward"]),  # the command sets it
        ("args.test = True\nif args.test:\n    print(f'reward {r:.2f}')", {"test": False}, ["reward"]),
        ("if args.mode == 'eval' and x:\n    print(f'reward {r:.2f}')", {"mode": "train"}, []),
        ("if not args.q:\n    print(f'reward {r:.2f}')\nelse:\n    print(f'acc {r:.2f}')", {"q": False}, ["reward"]),
        ("if args.every > 0:\n    print(f'reward {r:.2f}')", {"every": 0}, []),
        (f"on = args.n > 0 and x\n{UNLESS_ON}", {"n": 0}, []),  # k-diffusion
        (f"on = args.n > 0\n{UNLESS_ON}", {"n": 1}, ["reward"]),
        ("t = '|'\nif args.d in ['a', 'b']:\n    t += 'val bpc %.2f' % a\nelse:\n    t += 'val ppl %.2f' % a\nlog(t)",
         {"d": "b"}, ["val_bpc"]),  # transformer-xl
        ("log = False\nif log and main:\n    print(f'reward {r:.2f}')", {}, []),
        ("if not ok:\n    print('Loss is {}, stopping training'.format(l))\n    sys.exit(1)", {}, []),  # detr
        ("print('IoU metric: {}'.format(iou_type))", {}, []),  # the same: a text
        ("print('score of %s' % fname, 'reward: %s' % fname)", {}, []),
        ("for i in n:\n    print('T_eval %.2f eval_R_avg %.2f' % (a, b))", {}, ["eval_R_avg"]),  # PyTorch-RL: a time
        ("print(f'Loading best model from {p} (score: {s:.3f})')", {}, []),  # SimCSE
        ("def show(r):\n    print(f'Reward: {r:.2f}')", {}, []),  # pymarl: nobody calls it
        ("def show(r):\n    print(f'Reward: {r:.2f}')\nshow(1)", {}, ["Reward"]),
        ("def show(r):\n    print(f'reward {r}')\nm.show()\nif args.test:\n    show(1)", {"test": False}, []),  # ddpm
        ("class Other:\n    def end(self):\n        print(f'Reward: {r:.2f}')", {}, []),  # VideoGPT
        ("try: ask()\nexcept OSError as e:\n    print(f'API error: {e}')", {}, []),  # FastChat
        ("print(f'mixed precision: {c.use_fp16}')", {}, []),  # edm
        ("if main:\n    print('Dynamic Loss Scaling:', h.scaling)\n    train(h)", {}, []),  # tacotron2
        ("for i in n:\n    step()\n    print('accuracy train: %f test: %f' % (a, b))", {},
         ["accuracy_train", "test"]),  # powerful-gnns
        ("print('train_loss %.2f valid corr %.2f' % (l, c))", {}, ["train_loss", "valid_corr"]),  # LSTNet
        ("for i in n:\n    print('Top 1-err %.3f Test Loss %.3f' % (e, l))", {}, ["Test_Loss", "err"]),  # CutMix
        ("def a():\n    show(1)\ndef show(r):\n    print(f'reward {r:.2f}')", {}, []),  # a() is not called either
        ("def show(r):\n    print(f'Reward: {r:.2f}')\nfire.Fire()", {}, ["Reward"]),  # the command names it
        ("def show(r):\n    print(f'Reward: {r:.2f}')\nfire.Fire(main)", {}, []),
        ("class Net:\n    def fit(self):\n        print(f'reward {r:.2f}')\ninstantiate(cfg).fit()", {}, ["reward"]),
        (f"{LOGS_WITH_V}logging.info('return: %.2f', r)", {"v": False}, []),  # MinAtar
        (f"{LOGS_WITH_V}logging.info('return: %.2f', r)", {"v": True}, ["return"]),
        (f"{LOGS_WITH_V}logging.warning('return: %.2f', r)", {"v": False}, ["return"]),
    ],
)  # fmt: skip
def test_what_is_not_printed_by_default(text: str, flags: dict[str, object], names: list[str]) -> None:
    assert [one.name for one in objectives_of({"train.py": text}, flags=flags)] == names


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("def run(d):\n    print('win', a)\nrun(train)\nrun(test)", ""),  # attention-is-all-you-need-pytorch
        ("def run(d):\n    print('win', a)\nrun(test)\nrun(test)", "win"),
        ("def run(d):\n    show()\ndef show():\n    print('win', a)\nrun(train)\nrun(test)", ""),
        ("def train(d):\n    m.train()\n    print('win', a)\ntrain(d)", "win"),  # pyGAT
        ("def fit():\n    print('win', a)\ndef test():\n    print('win', b)\nfit()\ntest()", ""),  # pytorch-cifar
        ("def fit():\n    print('win', a)\ndef test():\n    print('win', b)\n    print('win', c)\nfit()\ntest()", ""),
        ("def train(s):\n    m.train()\n    print('win', a)\nr.train(s)", "win"),  # ddim
        ("for i in n:\n    for b in d:\n        print('win', a)\n    for b in d:\n        print('win', c)", ""),
        ("for i in n:\n    for b in d:\n        print('win', a)\n    print('win', c)", "win"),
        ("for i in n:\n    for phase, d in loaders.items():\n        print('test acc', l)", ""),  # wavenet_vocoder
        ("def run(d):\n    print('test acc', l)\nfor d in ['train', 'win']:\n    run(d)", ""),
        ("for i in n:\n    print('train loss %.3f val loss %.3f' % (e, l))", "val_loss"),
        ("for i in n:\n    print('loss %.3f' % e)\n    print('val loss %.3f' % l)", "val_loss"),
        ("for b in enumerate(testloader):\n    print('test_loss', b)", ""),  # pytorch-retinanet: of its last batch
        ("for i in n:\n    print('accuracy: %.2f' % a)", ""),  # of the batch that was trained on, perhaps
        ("for i in n:\n    print('average score: %.2f' % a)", "average_score"),
        ("for i in n:\n    a = f'val loss: {l:.3f}'\n    b = f'{a}\\n{c}'\n    print(b)", "val_loss"),  # clovaai
        ("def test(d):\n    for b in d: m(b)\n    print('accuracy: %.2f' % a)\nfor i in n: test(d)", "accuracy"),
        ("def test(d):\n    for b in d: print('accuracy: %.2f' % a)\nfor i in n: test(d)", ""),  # of a batch
        ("def fit():\n    for i in n:\n        a, b = test()\n        print(f'accuracy: {a:.2f}')\nfit()", "accuracy"),
        ("def fit():\n    for i in n:\n        a = step(test())\n        print(f'accuracy: {a:.2f}')\nfit()", ""),
        ("for i in n:\n    print('loss_lab %.2f test err %.2f' % (a, b))", "test_err"),  # improved-gan
        ("print(' [*] Load SUCCESS: %s' % a)", ""),  # DQN-tensorflow
        ("print('val_distance: %.2f' % d)", ""),  # whether it should rise, its name does not say
        ("print('reward_model_loss: %.2f' % d)", ""),
    ],
)
def test_a_metric_is_named_where_its_name_means_one_number_that_is_measured(text: str, metric: str) -> None:
    found = [one.name for one in objectives_of({"train.py": text}) if one.objective]
    assert found == ([metric] if metric else [])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("m.fit(x, verbose=1, callbacks=[ModelCheckpoint(p, monitor='val_acc')])", ["val_acc"]),  # CapsNet-Keras
        ("m.compile(a, metrics=['mae'])\nm.fit(x, validation_split=0.1)", ["val_loss", "val_mae"]),
        ("m.fit(x, verbose=0, validation_split=0.1)", []),
        ("m.fit(x)", []),
    ],
)
def test_what_keras_prints_of_validation_data(text: str, names: list[str]) -> None:
    assert [one.name for one in objectives_of({"train.py": f"import keras\n{text}"})] == names


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("for e in n:\n    for k, v in test().items():\n        log.info('%s = %s', k, v)", 3),  # LM-BFF
        ("for e in n:\n    print(', '.join(f'{k}: {v:.2f}' for k, v in r.items()))", 2),  # squad
        ("for e in n:\n    for k, v in vars(args).items():\n        print(k, v)", 0),
        ("for k, v in sizes.items():\n    print(k, v)\nfor e in n:\n    train()", 0),
        ("for e in n:\n    for k, v in b.items():\n        b[k] = v.cuda()", 0),
    ],
)
def test_where_names_are_shown_that_only_a_run_knows(text: str, line: int) -> None:
    assert shown_by_name(text, {}, {""}) == line


def test_a_long_script_around_transformers_is_read_in_time() -> None:
    text = "import transformers\n" + "eval_dataset = v\n" * 9000 + "transformers.Trainer(x).train()\n"
    assert [one.name for one in objectives_of({"train.py": text})] == ["loss"]
