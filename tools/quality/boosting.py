"""The table of docs/quality.md against gradient boosting and random forests, which learn relations that are not linear.

    pip install scikit-learn
    python tools/quality/boosting.py ./blankout DIR

DIR has a folder for each data set, or a file NAME.csv.gz with the label in the first column. Each set is shuffled.
blankout learns two thirds in one pass (run), and predicts the rest with the final model (predict). The peers learn the
same two thirds at once.
"""

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

MOST = 20_000
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
    out = subprocess.run([program, "predict", "-m", model, "-d", test, "--json", "-o", os.devnull], check=True, capture_output=True)
    return json.loads(out.stdout)["error"]


def main(program, folder):
    print("| set | blankout, one pass | gradient boosting | random forest |\n|---|---|---|---|")
    for name in SETS:
        x, y = load(os.path.join(folder, name))
        order = list(range(len(y)))
        random.Random(1).shuffle(order)
        order = order[:MOST]
        x, y, n = x[order], y[order], len(order) * 2 // 3
        with tempfile.TemporaryDirectory() as work:
            errors = [ours(program, work, x, y, n)]
        for peer in (HistGradientBoostingClassifier(random_state=1), RandomForestClassifier(random_state=1)):
            errors.append(100 * np.mean(peer.fit(x[:n], y[:n]).predict(x[n:]) != y[n:]))
        print(f"| {name.split('/')[0].removesuffix('.csv.gz') if 'uci' not in name else 'segment'} | " + " | ".join(f"{e:.1f}" for e in errors) + " |", flush=True)


main(*sys.argv[1:])
