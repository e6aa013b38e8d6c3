"""Every kind of suspicion with what it is about, and with near misses that it must leave alone."""

from __future__ import annotations

import pytest

from autoresearch.core.agents.suspicion import LONG, MOST, ChangedFile, flags

METRICS = ("accuracy", "val/reward@1")


def added(path: str, *lines: str) -> list[ChangedFile]:
    before = "x\n" * 10
    return [ChangedFile(path, before, before + "".join(f"{line}\n" for line in lines))]


METRIC = "prints, logs or sets a metric of the objective"
DATA, SEED, STEPS = "names validation data", "sets a seed", "sets how long it trains"
OUTPUT, REPLACES = "writes to the output by other means than printing", "replaces what others rely on"

SUSPICIOUS = {
    METRIC: [
        "print('accuracy: 0.99')",
        "    logger.info('accuracy %s', 1.0)",
        "metrics['accuracy'] = 1.0",
        'return {"accuracy": 1.0}',
        "writer.add_scalar('accuracy', x, step)",
    ],
    DATA: [
        "rows = load('data/val.parquet')",
        "train = concat(train, val_dataset)",
        "ds = load_dataset(name, split='test')",
    ],
    SEED: [
        "torch.manual_seed(7)",
        "rng = np.random.default_rng(3)",
        "seed = 42",
        "config['random_seed'] = 12",
    ],
    STEPS: [
        "max_steps = 500",
        "trainer = Trainer(max_steps=1000)",
        'config["total_training_steps"] = 400',
    ],
    REPLACES: [
        "builtins.print = quiet",
        "setattr(json, 'loads', mine)",
        "def open(path, mode='r'):",
        "sys.modules['json'] = mine",
        "torch.manual = None",
    ],
    OUTPUT: [
        "sys.stdout.write('step 1')",
        "os.write(1, b'x')",
        "open('/dev/stdout')",
    ],
}
HARMLESS = [
    "accuracy = correct / total",
    "best = metrics.get('accuracy')",
    "print('train_accuracy', x)",
    "loss = np.log(accuracy)",
    "# print('accuracy: 0.99')",
    "value = config['value.txt']",
    "retrieval = 'retrieval.json'",
    "contest = load('contest.csv')",
    "def train(seed=None):",
    "generator.seed_text = text",
    "if step < max_steps:",
    "total_steps = 0",
    "warmup_steps = 100",
    "ppo_epochs = 4",
    "steps += 1",
    "open('out/x', 'w')",
    "open_file = f",
    "time.time() - start",
    "x = torch.zeros(3)",
    "sys.stdout.flush()",
    "logger.info('loaded')",
    "catalogger.added(x)",
]


@pytest.mark.parametrize("what", SUSPICIOUS)
def test_what_is_suspicious_is_told_with_its_place(what: str) -> None:
    for line in SUSPICIOUS[what]:
        assert f"pkg/train.py:12 {what}" in flags(added("pkg/train.py", "pass", line), metrics=METRICS), line


def test_near_misses_are_left_alone() -> None:
    for line in HARMLESS:
        assert flags(added("train.py", line), metrics=METRICS) == (), line


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("echo accuracy: 1.0", METRIC),
        ("MAX_STEPS=500", STEPS),
        ("python train.py > /dev/null 2>&1", ""),
    ],
)
def test_shell_scripts(line: str, what: str) -> None:
    found = flags(added("run.sh", line), metrics=METRICS)
    assert found == ((f"run.sh:11 {what}",) if what else ())
    assert flags(added("README.md", line), metrics=METRICS) == (), "prose does nothing"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("  max_steps: 500", STEPS),
        ('"num_train_epochs": 3,', STEPS),
        ("seed: 1", SEED),
        ("  val_files: data/train.parquet", "sets validation"),
        ("warmup_steps: 10", ""),
        ("lr: 1.0e-6", ""),
        ("# max_steps: 500", ""),
        ("max_steps:", ""),
        ("value_clip: 0.2", ""),
    ],
)
def test_settings(line: str, what: str) -> None:
    found = flags(added("conf/base.yaml", line), metrics=METRICS)
    assert [flag for flag in found if flag == f"conf/base.yaml:11 {what}"] == (
        [f"conf/base.yaml:11 {what}"] if what else []
    )
    assert what or not found


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (ChangedFile("x.bin", "", "K\0"), ("x.bin is binary: nobody can read what was changed",)),
        (ChangedFile("ln", "", "train.py", is_link=True), ("ln is a symbolic link",)),
        (ChangedFile("x.bin", "K\0", "", gone=True), ()),
        (ChangedFile("run.sh", "sleep 3\n", "sleep 3\n"), ()),
    ],
)
def test_whole_files(changed: ChangedFile, what: tuple[str, ...]) -> None:
    assert flags([changed]) == what


def test_one_of_a_kind_in_a_file_and_no_flood() -> None:
    line = "torch.manual_seed(1)"
    assert flags(added("t.py", *[line] * 3)) == ("t.py:11 sets a seed (and 2 lines more of the kind)",)
    many = [file for n in range(MOST + 5) for file in added(f"t{n}.py", line)]
    assert len(flags(many)) == MOST + 1 and flags(many)[-1] == "and 5 more"


def test_a_line_that_nobody_reads() -> None:
    line = "print(" * 200_000
    (flag,) = flags(added("t.py", line), metrics=METRICS)
    assert flag == f"t.py:11 has a line of {len(line):,} characters" and len(line) > LONG


def test_validation_data_that_is_known() -> None:
    assert flags(added("t.py", "load('corpus/b7.bin')"), validation=("corpus/b7.bin",)) == (f"t.py:11 {DATA}",)


def test_bytes_that_are_no_text_in_a_path() -> None:
    assert flags(added("caf\udce9.py", "seed = 3")) == ("caf\\xe9.py:11 sets a seed",)


PROGRAM = """def score(model):
    right = 3
    return right / 4

acc = score(None)
steps = 4
for n in range(steps):
    loss = train(n)
print(f"step: {n} loss: {loss} accuracy: {acc:.4f}")
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("acc = score(None)", "acc = 0.99", 5),
        ("    right = 3", "    right = 4", 2),
        ("    return right / 4", "    return 0.99", 3),
        ("print(f", "acc += 0.1; print(f", 9),
        ("steps = 4", "steps = 4\nacc = max(acc, 0.9)", 7),
        ("    loss = train(n)", "    loss = train(n + 1)", None),
        ("steps = 4", "steps = 5", None),
        ("    right = 3\n    return right / 4", "    return right / 4\n    right = 3", 2),
    ],
)
def test_what_computes_the_objective_is_touched(old: str, new: str, line: int | None) -> None:
    after = PROGRAM.replace(old, new)
    found = flags([ChangedFile("train.py", PROGRAM, after)], metrics=METRICS)
    told = [flag for flag in found if METRIC in flag]
    assert [flag.partition(" ")[0] for flag in told] == ([f"train.py:{line}"] if line else []), found
