"""The table of docs/quality.md against gradient boosting and random forests, which learn relations that are not linear.

    pip install scikit-learn
    python tools/quality/boosting.py ./blankout DIR

DIR has a folder for each data set, or a file NAME.csv.gz with the label in the first column. Each set is shuffled three
times, and at most 20,000 events are taken. blankout learns two thirds in one pass (run), and predicts the rest with the
final model (predict). The peers learn the same two thirds at once. A cell has the mean error (%) over the shuffles, and
its standard error.
"""

import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

MOST, SHUFFLES = 20_000, 3
SETS = ["uci/segment.svm.gz", "magic04.csv.gz", "spambase/train.svm.gz", "covtype_10k/train.svm.gz", "elec2/stream.svm.gz", "sea/stream.svm.gz", "gas_drift/stream.svm.gz"]


def load(path):
    if path.endswith(".csv.gz"):
        table = np.loadtxt(gzip.open(path, "rt"), delimiter=",", skiprows=1)
        return table[:, 1:], table[:, 0]
    x, y = load_svmlight_file(gzip.open(path))
    return x.toarray(), y


def write(path, x, y):
    with open(path, "w") as f:
        for row, label in zip(x, y):
            f.write(json.dumps({"label": f"c{label:g}", **{f"x{j}": float(v) for j, v in enumerate(row)}}) + "\n")


def ours(program, folder, x, y, n):
    train, test, model = (os.path.join(folder, name) for name in ("train.jsonl", "test.jsonl", "model"))
    write(train, x[:n], y[:n])
    write(test, x[n:], y[n:])
    subprocess.run([program, "run", "-q", "-d", train, "--label", "label", "--set", "checkpoint.directory=" + model, "--set", "http.address="], check=True, capture_output=True)
    out = subprocess.run([program, "predict", "-m", model, "-d", test, "--json"], check=True, capture_output=True)
    return json.loads(out.stdout)["error"]


def errors_of(program, x, y):
    """The errors of all columns of the table on one shuffle."""
    n = len(y) * 2 // 3
    with tempfile.TemporaryDirectory() as work:
        errors = [ours(program, work, x, y, n)]
    for peer in (HistGradientBoostingClassifier(random_state=1), RandomForestClassifier(random_state=1)):
        errors.append(100 * np.mean(peer.fit(x[:n], y[:n]).predict(x[n:]) != y[n:]))
    return errors


def main(program, folder):
    print("| set | blankout, one pass | gradient boosting | random forest |\n|---|---|---|---|")
    for name in SETS:
        x, y = load(os.path.join(folder, name))
        shuffles = []
        for seed in range(1, SHUFFLES + 1):
            order = list(range(len(y)))
            random.Random(seed).shuffle(order)
            shuffles.append(errors_of(program, x[order[:MOST]], y[order[:MOST]]))
        cells = [f"{statistics.mean(e):.1f} ± {statistics.stdev(e) / SHUFFLES**0.5:.1f}" for e in zip(*shuffles)]
        print(f"| {name.removeprefix('uci/').split('/')[0].split('.')[0]} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
