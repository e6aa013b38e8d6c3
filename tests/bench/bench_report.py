"""`report` of a campaign of 1,000 ideas: the whole command, its children included.

Every idea varies two settings; each that ran has a run directory with a curve, one in 11 has crashed, and 20 are kept.
Beside it a program of a dozen lines that draws the same two plots of the same ledger with the same libraries, and reads
no run directory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench.result import Result
from tests.bench.yard import COMMAND, spent_ms
from tests.lab.conftest import Made, made_campaign

IDEAS, KEPT_EVERY, CRASHED_EVERY = 1000, 50, 11
PLOTS = """
import csv, sys
import matplotlib, optuna
matplotlib.use("agg")
from matplotlib import pyplot
rows = [row for row in csv.DictReader(open(sys.argv[1]), delimiter="\\t") if row["metric_value"]]
pyplot.scatter(range(len(rows)), [float(row["metric_value"]) for row in rows])
pyplot.savefig(sys.argv[2] + ".png")
study = optuna.create_study(direction="maximize")
scales = {name: optuna.distributions.FloatDistribution(0, 1000) for name in ("lr", "hidden")}
for n, row in enumerate(rows[-250:]):
    study.add_trial(optuna.trial.create_trial(
        params={"lr": n, "hidden": n % 7}, distributions=scales, value=float(row["metric_value"])))
optuna.visualization.plot_parallel_coordinate(study).write_html(sys.argv[2] + ".html")
optuna.visualization.plot_param_importances(study).write_html(sys.argv[2] + "2.html")
"""


def run(repeats: int = 5) -> list[Result]:
    """CPU seconds, in turn."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        made = _campaign(place / "campaign")
        program = place / "plots.py"
        program.write_text(PLOTS)
        theirs = [sys.executable, str(program), str(made.place.ledger), str(place / "theirs")]
        report = [str(COMMAND), "report", str(made.place.path)]
        pairs = [(spent_ms(report) / 1000, spent_ms(theirs) / 1000) for _ in range(repeats)]
    ours, others = zip(*pairs, strict=True)
    what, compared = f"CPU of `report`, {IDEAS} ideas", "the plots alone, with Optuna and matplotlib"
    return [Result(what, compared, ours, others, 1.5, unit="s", absolute=True)]


def _campaign(root: Path) -> Made:
    root.mkdir()
    made = made_campaign(root)
    for n in range(2, IDEAS + 1):
        made.idea(f"i{n}", git=n % KEPT_EVERY == 0, overrides={"lr": round(1e-4 * n, 6), "hidden": 32 * (n % 7 + 1)})
        if n % KEPT_EVERY == 0:
            made.run(f"i{n}", 0.5 + n / 10 / IDEAS)
        elif n % CRASHED_EVERY == 0:
            made.run(f"i{n}", None, "crash", failure="cuda_oom")
        else:
            made.run(f"i{n}", 0.4 + n % 13 / 200, "discard")
    return made
