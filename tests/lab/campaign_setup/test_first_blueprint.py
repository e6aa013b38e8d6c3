"""What `init` makes of the training scripts that people have: see tests/samples/projects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.lab.campaign_setup.first_blueprint import as_read, first_blueprint
from autoresearch.lab.campaign_setup.first_campaign import FirstCampaign, first_campaign
from autoresearch.lab.campaign_setup.training_programs import (
    likely_commands,
    training_command,
    typed_commands,
    what_may_train,
)
from autoresearch.lab.recipes.printed_names import PrintedName, candidates, printed_names
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.scripts import MOST_SOURCES
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.readers.console import find_metrics

PROJECTS = Path(__file__).parents[2] / "samples" / "projects"


FIT = "print('loss', 0.5)\n"
MAIN = "if __name__ == '__main__':\n    go()\n"
MODULE = "import os\nos.environ['A'] = '1'\n\n\ndef train(rank):\n    print('loss', 0.5)\n"  # rl_a3c_pytorch


@pytest.mark.parametrize(
    ("files", "command", "others"),
    [
        ({"train.py": "", "fit.py": FIT}, "python train.py", None),
        ({"fit.py": FIT}, "python fit.py", None),
        ({"fit.py": FIT, "setup.py": "", "conftest.py": ""}, "python fit.py", None),
        ({"version.py": "VERSION = '1.0'\n"}, "", []),  # vision_transformer
        ({"fit.py": FIT + MAIN, "data.py": MODULE}, "python fit.py", None),
        ({"run.sh": "", "data.py": ""}, "bash run.sh", None),
        ({"setup.py": ""}, "", []),
        ({"prep_text8.py": "print(len(open('a').read()))\n", "getdata.sh": "cd a\npython ../prep_text8.py",
          "README.md": "python prep_text8.py"}, "", []),
        ({}, "", []),
        ({"train.py": MODULE, "main.py": f"from train import train\n{MAIN}"}, "python main.py", None),
        ({"train.py": MODULE + MAIN, "main.py": f"from train import train\n{MAIN}"}, "python main.py", None),
        ({"plot.py": MAIN, "dreamer/main.py": MAIN}, "python dreamer/main.py", None),  # dreamerv3
        ({"main_dino.py": MAIN, "eval_knn.py": MAIN, "video.py": MAIN}, "python main_dino.py", None),
        ({"ppo.py": FIT, "sac.py": FIT + MAIN}, "", ["python ppo.py", "python sac.py"]),
        ({"run.sh": "docker run -t image ${@:2}", "src/main.py": MAIN}, "python src/main.py", None),  # pymarl
        ({"gae/train.py": MAIN, "README.md": "```\npython train.py\n```"}, "cd gae && python train.py", None),
        ({"gae/train.py": MAIN, "README.md": "cd gae && python train.py"}, "cd gae && python train.py", None),
        ({"tuner_example.py": FIT + MAIN, "lib/ppo.py": FIT + MAIN, "README.md": "python lib/ppo.py --seed 1"},
         "", ["python tuner_example.py"]),  # cleanrl
        ({"train.py": MAIN, "README.md": "1. `python3 -u train.py -c a.json`"}, "python3 -u train.py -c a.json", None),
        ({"train.py": MAIN, "README.md": "python train.py --data <dir>"}, "python train.py", None),
        ({"main.py": f"p.add_argument('--mode', type=str,\n choices=['train', 'sample'])\n{MAIN}",
          "README.md": "python main.py --mode sample\npython main.py --mode=train --x 1"},
         "python main.py --mode=train --x 1", None),
        ({"train.py": MAIN, "README.md": "python train.py CONFIG.yaml\npython train.py a.yaml", "cfg/a.yaml": ""},
         "python train.py a.yaml", None),
        ({"config.py": MODULE, "train/train.py": MAIN}, "python train/train.py", None),  # light_mappo
        ({"text/train_lm.py": MAIN, "vision/tools/run.py": MAIN}, "", ["python text/train_lm.py"]),  # deq
        ({"scripts/a_train.py": MAIN, "scripts/b_train.py": MAIN}, "",
         ["python scripts/a_train.py", "python scripts/b_train.py"]),
    ],
)  # fmt: skip
def test_which_program_trains(tmp_path: Path, files: dict[str, str], command: str, others: list[str] | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert training_command(tmp_path) == command
    assert others is None or likely_commands(tmp_path) == others
    assert others != [] or not [*typed_commands(tmp_path)]


def test_what_is_no_file_trains_nothing(tmp_path: Path) -> None:
    for name in ("train.py", "README.md", "run.sh"):
        (tmp_path / name).mkdir()
    (tmp_path / "main.py").symlink_to("/nowhere")
    assert training_command(tmp_path) == "" and what_may_train(tmp_path).startswith("no program that trains was found")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import json\nf = open('m.jsonl', 'w')\nrow = {**row, 'acc': a()}\nf.write(json.dumps(row))", ["acc"]),
        ("f = open('m.jsonl', 'w')\nt = t + 'x'\na = b\nb = a\nf.write(t)\nf.write(a)\nprint(f'acc {x}')", ["acc"]),
        (f"print({' + '.join(['str(x)'] * 900)})\nprint(f'acc {{x}}')", ["acc"]),
        ("s = ''\n" + "s += f'acc {x}\\n'\n" * 1500 + "print(s)", ["acc"]),
        ("".join(f"r{n} = {{**r{n - 1}, **r{n - 1}}}\n" for n in range(1, 40)) + "print(f'acc {x}', r39)", ["acc"]),
        ("print('\\d')\nprint(f'acc {x}')", ["acc"]),  # a warning of its compiler is not for us to show
    ],
)
def test_no_program_is_too_odd_to_be_read(text: str, names: list[str]) -> None:
    assert [one.name for one in printed_names(text)] == names


def test_what_the_readme_types(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    lines = ["(env) $ CUDA_VISIBLE_DEVICES=0 python train.py \\", "  --env hopper  # hours", "python train.py --eval"]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "play.py").touch()
    (tmp_path / "a" / "train.py").touch()
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve/model.py").touch()
    lines += ["python -m serve.model", "python train.py --download_weights 1", "python train.py [OPTIONS...] or"]
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "src" / "pkg" / "train.py").touch()
    lines += ["python a/play.py", "cd a && python train.py --x 2", "python a/train.py --x 3"]
    lines += ["python other.py", "python -m torch.distributed.launch --use_env train.py --x 1", "python is slow"]
    (tmp_path / "small.py").touch()
    lines += ["python train.py --config small.py --x `date`", "python train.py --evaluate-n 0"]
    lines += ["python -m pkg.train --x 4", "pkg-train --x 5", "pkg-serve --x 5"]
    programs = 'pkg-train = "pkg.train:main"\npkg-serve = "pkg.serve:main"\n'
    (tmp_path / "pyproject.toml").write_text(f"[project.scripts]\n{programs}")
    (tmp_path / "README.md").write_text("\n".join(lines))
    assert [*typed_commands(tmp_path)] == [
        ("CUDA_VISIBLE_DEVICES=0 python train.py --env hopper", "README.md:1"),
        ("cd a && python train.py --x 2", "README.md:8"),
        ("python a/train.py --x 3", "README.md:9"),
        ("python -m torch.distributed.launch --use_env train.py --x 1", "README.md:11"),
        ("python train.py --config small.py --x `date`", "README.md:13"),  # big_vision
        ("python train.py --evaluate-n 0", "README.md:14"),  # k-diffusion
        ("python -m pkg.train --x 4", "README.md:15"),  # tevatron: `pip install -e .` finds it
        ("pkg-train --x 5", "README.md:16"),  # lerobot
    ]


def test_modules_that_a_program_imports_are_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MODULE)
    (tmp_path / "main.py").write_text(f"from train import train\n{MAIN}")
    assert shown("python main.py", tmp_path) == "loss"
    (tmp_path / "train.py").write_text("from tables import table\n\n\ndef train(rank):\n    table(0.5)\n")
    (tmp_path / "tables.py").write_text("def table(f1):\n    print_res_table('f1', f1)\n")
    assert shown("python main.py", tmp_path) == ""  # whatever its print_table may show
    alone = "if __name__ == '__main__':\n    print('FID: ', x)\n"  # stargan-v2
    (tmp_path / "tables.py").write_text(f"def table(f1):\n    print('f1', f1)\n{alone}")
    assert shown("python main.py", tmp_path) == "f1"
    for n in range(MOST_SOURCES):
        (tmp_path / f"m{n}.py").touch()
    (tmp_path / "main.py").write_text("\n".join(["import train", *(f"import m{n}" for n in range(MOST_SOURCES)), MAIN]))
    assert shown("python main.py", tmp_path) == ""  # not all is read: SLM-Lab


@pytest.mark.parametrize(
    ("command", "metric"),
    [
        ("python train.py", "Average_Loss"),  # its default trains; pytorchic-bert
        ("python train.py --mode train", "Average_Loss"),
        ("python train.py --mode=eval", "Accuracy"),
        ("python train.py --mode $MODE", "Accuracy"),  # nobody knows; the program itself prints no other
        ("python choice.py --mode train", "Average_Loss"),
        ("python choice.py", "Average_Loss?"),  # in one of several ways to run: dreamerv3
        ("python given.py", "loss"),  # decision-transformer: it is given no test data
        ("python flags.py", "loss"),
        ("python flags.py -v", "acc"),
    ],
)
def test_a_branch_that_the_command_does_not_take_prints_nothing(tmp_path: Path, command: str, metric: str) -> None:
    text = "import fire, lib.agent\ndef main(mode='train'):\n    if mode == 'train':\n        lib.agent.fit()\n"
    text += "    elif mode == 'eval':\n        print('Accuracy:', a)\nfire.Fire(main)\n"
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "lib" / "agent").mkdir(parents=True)
    (tmp_path / "lib" / "agent" / "__init__.py").write_text("from . import (\n    base,\n)\nfrom .base import fit\n")
    (tmp_path / "lib" / "agent" / "base.py").write_text("from lib.shown import show\ndef fit():\n    show()\n")
    text = "import argparse, lib.base\np.add_argument('--mode')\nif config.mode == 'train':\n    lib.base.fit()\n"
    (tmp_path / "choice.py").write_text(f"{text}elif config.mode == 'eval':\n    test()\n")
    (tmp_path / "lib" / "base.py").write_text("def fit():\n    print('Average Loss %.3f' % x)\n")
    text = "class T:\n    def __init__(self, m, test=None):\n        self.test = test\n    def fit(self):\n"
    text += "        if self.test is not None:\n            print('test loss', t)\n        print(f'loss: {l:.3f}')\n"
    (tmp_path / "given.py").write_text(f"{text}T(m, None).fit()\n")
    text = "import os, argparse\np.add_argument('--verbose', '-v', action='store_true')\nprint('loss', l)\n"
    text = text.replace("import os,", "try:\n    import verbose\nexcept ImportError:\n    verbose = None\nimport os,")
    (tmp_path / "flags.py").write_text(f"{text}if args.verbose:\n    print('acc', a)\n")
    (tmp_path / "lib" / "shown.py").write_text("def show():\n    print('Average Loss %.3f' % x)\n")
    assert shown(command, tmp_path) == metric


@pytest.mark.parametrize(
    ("arguments", "metric"),
    [
        ("args=Args(eval_strategy='steps' if n else 'no'), eval_dataset=v", "eval_loss"),  # alpaca-lora
        ("args=Args(evaluation_strategy='no'), eval_dataset=v", "loss"),
        ("args=Args(eval_strategy='steps'), eval_dataset=None", "loss"),
        ("args=Args(eval_strategy='steps'), eval_dataset=v, compute_metrics=f", ""),
    ],
)
def test_the_loss_of_a_script_around_transformers(tmp_path: Path, arguments: str, metric: str) -> None:
    (tmp_path / "train.py").write_text(f"import transformers\ntransformers.Trainer({arguments}).train()\n")
    assert shown("python train.py", tmp_path) == metric


def test_data_that_is_not_there(tmp_path: Path) -> None:
    text = "import argparse\np.add_argument('--data', default='./data/wiki')\np.add_argument('--train_file')\n"
    (tmp_path / "train.py").write_text(text)

    def absent(command: str) -> list[str]:
        fields = first_blueprint(tmp_path, command, "", "", tmp_path / "b.md")
        return as_read(fields, tmp_path / "b.md", {}).texts.absent()

    assert absent("python train.py") == ["--data is ./data/wiki, where nothing is"]
    assert absent("python train.py --data ./data/$SET") == absent("python train.py --data org/set") == []
    (tmp_path / "data" / "wiki").mkdir(parents=True)
    (tmp_path / "data" / "wiki" / ".keep").touch()
    assert len(absent("python train.py")) == 1
    (tmp_path / "data" / "wiki" / "train.txt").touch()
    assert absent("python train.py") == []
    (tmp_path / "train.py").write_text("import argparse\np.add_argument('--train_file')\n")
    assert absent("python train.py") == ["--train_file has no default and is not given"]
    assert absent("python train.py --train_file=x.json") == ["--train_file is x.json, where nothing is"]
    assert absent("python train.py --data_dir path/to/it") == ["--data_dir is path/to/it, where nothing is"]  # LM-BFF
    text = "import argparse\np.add_argument('--form')\np.add_argument('--way')\nargs.form == 'a' or args.way == 'b'\n"
    (tmp_path / "train.py").write_text(f"{text}args.form is None\n")  # qlora
    assert absent("python train.py") == ["--way has no default and is not given"]


@pytest.mark.parametrize(
    ("command", "unset", "required"),
    [
        ("python train.py --out $OUT/x $HOME", ["$OUT: nothing sets that, so it is empty"], ()),
        ("OUT=a; for SEED in 1 2; do python train.py --out $OUT $SEED; done", [], ()),
        ("python train.py --out ${OUT} ${HOME} ${N:-3}", [], ("OUT",)),  # which a run refuses where it is not set
    ],
)
def test_a_variable_that_nothing_sets_is_told(
    tmp_path: Path, command: str, unset: list[str], required: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint('loss', 1)\n")
    fields = first_blueprint(tmp_path, command, "", "", tmp_path / "b.md")
    assert as_read(fields, tmp_path / "b.md", {}).unset({"HOME": "/root"}) == unset and fields.requires_env == required


def test_flags_in_a_module_count_where_the_program_reaches_them(tmp_path: Path) -> None:
    text = "import argparse\n" + "".join(
        f"def {name}():\n    p.add_argument('--{name}', default='data/{name}.npz')\n" for name in ("train", "set_up")
    )
    alone = "if __name__ == '__main__':\n    p.add_argument('--data', default='data/x.npz')\n"
    (tmp_path / "args.py").write_text(text + alone)  # transformer-xl: its module may be a program, too
    sampling = "import fire\n@no_grad()\ndef sample(top=3):\n    pass\ndef main(temperature=0.8):\n    pass\n"
    (tmp_path / "sampling.py").write_text(sampling)  # lit-llama
    (tmp_path / "train.py").write_text("from sampling import sample\nfrom args import train\ntrain()\nsample()\n")
    path = tmp_path / "b.md"
    texts = as_read(first_blueprint(tmp_path, "python train.py", "", "", path), path, {}).texts
    assert texts.flags() == {"--train": "data/train.npz"}  # squad: `set_up` is of another program
    assert texts.absent() == ["--train is data/train.npz, where nothing is"]


def test_a_recipe_that_names_data_that_is_not_there_or_leaves_a_value_open(tmp_path: Path) -> None:
    text = "import hydra\n@hydra.main(config_path='.')\ndef main(c):\n    print(f'val_wer: {a:.2f} val_cer: {b:.2f}')\n"
    (tmp_path / "train.py").write_text(f"{text}main()\n")
    (tmp_path / "set").mkdir()
    recipe = "data:\n  train_path: data/an4.json\n  path: ./voc\n  lang: ???\n"
    recipe += "trainer:\n  accelerator: {}\n  devices: 2\n  monitor: val_cer\n"
    (tmp_path / "set" / "an4.yaml").write_text(recipe.format("auto"))  # deepspeech.pytorch
    path = tmp_path / "b.md"
    settings = as_read(first_blueprint(tmp_path, "python train.py +set=an4", "", "", path), path, {})
    assert [one.partition(":")[0] for one in settings.absent()] == [
        "the recipe leaves data.lang open (???)",
        "data.train_path is data/an4.json, where nothing is",
        "data.path is ./voc, where nothing is",  # pytorch-semseg
    ]
    absent = as_read(first_blueprint(tmp_path, "python train.py +set=an4 voice=a", "", "", path), path, {}).absent()
    assert not [one for one in absent if "???" in one]  # s4: `voice/a.yaml` may say it
    assert settings.objective is not None and settings.objective.metric == "val_cer"  # by which it keeps the best model
    assert settings.gpus_needed({}) == 0  # Lightning takes the CPU where there is no GPU
    (tmp_path / "set" / "an4.yaml").write_text(recipe.format("gpu"))
    assert as_read(first_blueprint(tmp_path, "python train.py +set=an4", "", "", path), path, {}).gpus_needed({}) == 2


def test_a_text_that_is_no_python_of_today_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import net\nnet.fit()\n")
    (tmp_path / "net.py").write_text("def fit():\n    print 'loss', 1\n")
    path = tmp_path / "b.md"
    settings = as_read(first_blueprint(tmp_path, "python train.py", "", "", path), path, {})
    python, why = "{}.{}".format(*sys.version_info), "Missing parentheses in call to 'print'"
    shown = f"net.py:2 cannot be read as Python {python} ({why}): its flags and what it prints were not read"
    assert settings.texts.unread() == [shown]


def shown(command: str, root: Path) -> str:
    """What may count, as the text of what this command starts shows it."""
    settings = as_read(first_blueprint(root, command, "", "", root / "b.md"), root / "b.md", {})
    return " ".join(f"{one.name}{'?' if one.also else ''}" for one in settings.texts.objectives)


def printed_metric(command: str, root: Path) -> str:
    """What a run of this command would be judged by, if nobody names a metric."""
    objective = as_read(first_blueprint(root, command, "", "", root / "b.md"), root / "b.md", {}).objective
    return objective.metric if objective else ""


def made(root: Path, **environ: str) -> tuple[str, FirstCampaign]:
    command = training_command(root)
    metric = printed_metric(command, root)
    path = root / "experiment.md"
    path.write_text(render_blueprint(first_blueprint(root, command, metric, "", path)))
    assert parse_blueprint(path.read_bytes(), path.name).notes.metric == metric
    return metric, first_campaign(path, {**os.environ, **environ}, "campaign.yaml")


@pytest.mark.parametrize(
    ("name", "metric", "varies"),
    [
        ("argparse", "score", "lr ent_coef clip-range gamma"),  # no seed, no number of steps, no interval of logs
        ("click", "val_reward", "learning-rate kl-coef group-size"),
        ("typer", "eval/accuracy", "lr beta batch-size"),
        ("absl", "episode_return", "learning_rate gae_lambda"),
        ("tyro", "episodic_return", "learning_rate ent_coef clip_coef gamma"),
        ("jsonl", "mean_return", "lr temperature"),
        ("hydra", "reward/mean", "optim.lr algo.kl_coef algo.clip_ratio optim.weight_decay"),
        ("yamlcfg", "val_acc", "learning_rate entropy_coef minibatch_size"),
    ],
)
def test_what_is_measured_and_what_is_searched(tmp_path: Path, name: str, metric: str, varies: str) -> None:
    root = tmp_path / name
    shutil.copytree(PROJECTS / name, root)
    found, campaign = made(root)
    assert (found, campaign.varies) == (metric, tuple(varies.split()))
    data = parse_mapping(campaign.text.encode(), "campaign.yaml")
    assert list(data["space"]) == varies.split() and data["blueprint"] == "experiment.md"
    for values in data["space"].values():
        numbers = values if isinstance(values, list) else [values["low"], values["high"]]
        assert numbers == sorted(numbers) and all(type(number) in (int, float) for number in numbers)


@pytest.mark.parametrize(("name", "metric", "ideas"), [
    ("constants", "score", "lr-0-0001 lr-0-0009 beta-0-013 beta-0-12"),
    ("notebook", "val_accuracy", "learning-rate-0-0033 learning-rate-0-03"),
])  # fmt: skip
def test_a_script_without_flags_is_varied_by_patches(tmp_path: Path, name: str, metric: str, ideas: str) -> None:
    root = tmp_path / name
    shutil.copytree(PROJECTS / name, root)
    found, campaign = made(root)
    assert (found, campaign.varies) == (metric, tuple(ideas.split()))
    queue = parse_mapping(campaign.text.encode(), "campaign.yaml")["queue"]
    assert [entry["slug"] for entry in queue] == ideas.split()
    assert [entry["patches"][0] for entry in queue] == list(campaign.files)
    changed = [line for line in campaign.files[f"ideas/{ideas.split()[0]}.diff"].splitlines() if line[:1] in "+-"]
    assert [line.partition(" =")[0].lower() for line in changed[2:]] == [
        f"{sign}{'lr' if name == 'constants' else 'learning_rate'}" for sign in "-+"
    ]


def test_the_value_that_stands_there_is_no_idea(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("BATCH_SIZE = 32\nprint('score', 1.0)\n")
    assert made(tmp_path)[1].varies == ("batch-size-16", "batch-size-64")


@pytest.mark.system
def test_a_script_that_ends_without_a_line_break_is_patched_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('score', 1.0)\nBATCH_SIZE = 32")
    campaign = made(tmp_path)[1]
    patch = campaign.files["ideas/batch-size-16.diff"]
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "train.py").read_text() == "print('score', 1.0)\nBATCH_SIZE = 16"


@pytest.mark.system
def test_trl_in_a_script_of_ones_own(tmp_path: Path) -> None:
    root = tmp_path / "trl"
    shutil.copytree(PROJECTS / "trl", root)
    metric, campaign = made(root)
    notes = parse_blueprint((root / "experiment.md").read_bytes(), "b.md").notes
    assert (metric, notes.direction) == ("reward", "maximize")
    assert "in its text or by its --help" in campaign.remark and not campaign.varies, "TRL is not installed here"


def test_a_script_with_nothing_to_vary_is_for_an_agent(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import nothing_of_the_kind\nnothing_of_the_kind.go()\n")
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.touch(0o755)
    metric, campaign = made(tmp_path, PATH=str(program.parent))
    assert metric == "" and "# metric: NAME" in campaign.text
    assert parse_mapping(campaign.text.encode(), "c")["agent"] == "codex" and "coding agent" in campaign.remark


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("print(f'score {w}')", ["score"]),
        ("print(f'step {s} reward {r:.2f} loss {l}')", ["reward", "loss"]),
        ("print('loss: %.4f acc: %d' % (a, b))", ["loss"]),  # a whole number counts something
        ("print('acc = {:.3f}'.format(a))", ["acc"]),
        ("print('Epoch', e, 'val_loss', v)", ["val_loss"]),
        ("log.info('it %d return=%.2f', i, r)", ["return"]),
        ("print(json.dumps({'reward': r, 'run': name()}))", ["reward", "run"]),
        ("print('done')", []),
        ("f.write(f'loss {l}')\nprint(f'score {s}', file=f)\ntqdm.write(f'acc {a:.2f}')", ["acc"]),  # f: a file
        ("x = {'loss': 1}", []),
        ("line = f'loss {l}'\nline += f' | acc {a}'\nprint(line)", ["loss", "acc"]),
        ("line = f'loss {l}'\nline = name()\nprint(line)", []),
        ("m = 'loss {:.2f}'\nprint(m.format(x))\nm = 'acc %.2f'\nprint(m % x)", ["loss", "acc"]),
        ("print('a' b)", []),  # no Python
        ("print0(f'Step {step:05d} | Validation bpb: {b:.6f}')", ["Validation_bpb"]),  # nanochat
        ("logger.info(f'Test dataset size: {len(d)}')", []),  # nano-aha-moment
        ("log('episode_reward', r)", []),  # drqv2: a logger of its own shows `R: 5.5`
        ("print('rewards:', rewards)", []),  # simple_GRPO: a list
        ("print(f'\\rEval success rate: {e:.2f}' + ' ' * 100)", ["Eval_success_rate"]),  # GRPO-Zero
        ("print('{}: agents {}, reward {:.1f}'.format(step, [mean(r) for r in all], r))", ["reward"]),  # maddpg
        ("print(f'return: {r:.2f}')\nfor i in n:\n    train()\n    print(f'loss {l:.3f}')", ["loss"]),  # of the data
        ("print(f'Evaluation over {eval_episodes} episodes: {r:.3f}')", ["Evaluation"]),  # TD3
        ("print('Validation loss {}: {:9f}'.format(iteration, l))", ["Validation_loss"]),  # tacotron2
        ("print('return: %d, eval return: %d' % (a, r))\nprint('rewards: %d' % len(r))", ["return", "eval_return"]),
        ("log.info('Skip pass %d: %s', n, record_name)", []),  # xlnet
        ("log_print('Validation loss: %.3f' % (a / b) + '\\n', logger)", ["Validation_loss"]),  # StyleTTS2
        ("log(f'step: {s.step}  acc: {s.acc_step}  loss: {round(loss.item(), 4):>7}')", ["loss"]),  # lingua
    ],
)
def test_names_that_a_text_prints(text: str, names: list[str]) -> None:
    assert [one.name for one in printed_names(text)] == names


@pytest.mark.parametrize(
    ("names", "best"),
    [
        ("val_loss reward loss", "val_loss"),
        ("reward loss lr", "reward"),
        ("reward score", "reward score"),
        ("policy_loss value_loss loss", "loss"),
        ("policy_loss value_loss", "policy_loss value_loss"),
        ("Acc@1 Acc@5 Max_accuracy", "Acc@1"),  # Swin-Transformer
        ("Vali_Loss Test_Loss Train_Loss", "Vali_Loss"),  # Autoformer
        ("Best_accuracy Prec@1", "Prec@1"),
        ("reward mean_reward", "mean_reward"),
        ("valid_loss valid_ppl valid_bpc", "valid_bpc"),  # awd-lstm-lm
        ("val_recon_loss val_perplexity", "val_recon_loss val_perplexity"),  # VideoGPT: of its codes
        ("loss lr", "loss"),
        ("lr sps", ""),
        ("val_loss val_accuracy loss", "val_loss val_accuracy"),  # which of them counts, the text does not say
        ("scores_mean scores_std scores_max", "scores_mean"),
        ("eval eval_runtime eval_samples_per_second score_std", ""),
        ("max_accuracy loss", "max_accuracy"),  # deit: the best so far
        ("reward_max", ""),
        ("eval_time eval_total_reward", "eval_total_reward"),
    ],
)
def test_held_out_before_reward_before_loss_and_never_a_spread_or_a_time(names: str, best: str) -> None:
    assert [one.name for one in candidates(map(PrintedName, names.split()))] == best.split()


@pytest.mark.parametrize(
    ("name", "metric", "direction", "source"),
    [
        ("debug", "", "", ()),  # RAGEN prints scores, and their spread, for debugging
        ("split", "eval_loss", "minimize", ()),  # transformers: log_metrics("eval", metrics)
        ("rollouts", "reward", "maximize", ()),
        ("tracker", "Validation_bpb", "minimize", ()),  # as nanochat: the console's name, not that of wandb.log
        ("wandb", "val/bpb", "minimize", ("wandb/",)),  # a run reads what only the tracker is told
    ],
)
def test_what_a_run_reads_is_named(tmp_path: Path, name: str, metric: str, direction: str, source: object) -> None:
    root = PROJECTS / name
    found = printed_metric("python train.py", root)
    fields = first_blueprint(root, "python train.py", found, "", tmp_path / "b.md")
    assert (fields.metric, fields.direction) == (metric, direction)
    assert tuple(one.path for one in fields.source) == source
    readings, _ = find_metrics(root / "run.log", (metric,))
    values = [(reading.step, reading.metrics[metric]) for reading in readings if metric in reading.metrics]
    assert values[-1:] == ([(12, 2.9)] if name == "tracker" else [])
