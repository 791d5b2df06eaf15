"""The peer of `go run ./cmd/papers sensors` that is no linear model: scikit-learn's
HistGradientBoostingClassifier with its defaults, learned from the training events and from
three more copies of each, in which groups of columns or single ones are missing at a share
drawn anew for each copy from .1 to .7. It takes missing values as they are (told), or the mean of
the training events in their place (untold). The sets, their split and their groups are those
of the experiment; masks are drawn five times, and the brackets hold standard errors. The errors
of all draws go to DATA/gradient_boosting/sensors.json, where the experiment finds them for
its tables.

    pip install scikit-learn
    python tools/quality/sensors.py DATA
"""

import gzip
import json
import os
import statistics
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

SHARES = (0, 0.1, 0.3, 0.5, 0.7, 0.9)
PATCHES = np.array([(p // 16 // 4) * 4 + p % 16 // 4 for p in range(256)])
AREAS = np.array(list(range(10)) + [10] * 4 + [11] * 40)
SENSORS = np.arange(128) // 8
SETS = (
    ("gas_drift, in order", "gas_drift/stream", None, 128, SENSORS, False),
    ("gas_drift, shuffled", "gas_drift/stream", None, 128, SENSORS, True),
    ("usps", "usps/train", "usps/test", 256, PATCHES, False),
    ("elec2, in order", "elec2/stream", None, 8, None, False),
    ("covtype_10k", "covtype_10k/train", "covtype_10k/test", 54, AREAS, False),
)


def read(path, columns):
    x, y = [], []
    with gzip.open(path, "rt") as f:
        for line in f:
            label, *pairs = line.split()
            row = np.zeros(columns)
            for pair in pairs:
                d, value = pair.split(":")
                row[int(d) - 1] = float(value)
            x.append(row)
            y.append(label)
    return np.array(x), np.array(y)


def masked(x, groups, share, draw):
    """x with what has died missing: a group at a time, share being a number or one for each row."""
    dead = draw.random((len(x), groups.max() + 1)) < np.reshape(share, (-1, 1))
    return np.where(dead[:, groups], np.nan, x)


def main(data):
    rows = []
    for name, train, test, columns, groups, shuffled in SETS:
        x, y = read(f"{data}/{train}.svm.gz", columns)
        if test is None:
            order = np.random.default_rng(1).permutation(len(x)) if shuffled else np.arange(len(x))
            cut = len(x) * 2 // 3
            x, y, tx, ty = x[order[:cut]], y[order[:cut]], x[order[cut:]], y[order[cut:]]
        else:
            tx, ty = read(f"{data}/{test}.svm.gz", columns)
        mean = x.mean(axis=0)
        for kind, of in (("groups", groups), ("features", np.arange(columns))):
            if of is None:
                continue
            draw = np.random.default_rng(2)
            copies = [masked(x, of, draw.uniform(0.1, 0.7, len(x)), draw) for _ in range(3)]
            model = HistGradientBoostingClassifier(random_state=0).fit(np.vstack([x, *copies]), np.tile(y, 4))
            print(f"\n{name}, {kind} dead\n\n| | {' | '.join(f'{100 * s:g} %' for s in SHARES)} |\n|---|{'---|' * len(SHARES)}")
            for told in (True, False):
                line, draws = [], []
                for share in SHARES:
                    errors = []
                    for seed in range(5):
                        m = masked(tx, of, share, np.random.default_rng(10 + seed))
                        m = m if told else np.where(np.isnan(m), mean, m)
                        errors.append(100 * (model.predict(m) != ty).mean())
                    draws.append(errors)
                    line.append(f"{statistics.mean(errors):.1f} ({statistics.stdev(errors) / 5 ** 0.5:.1f})")
                print(f"| {'told' if told else 'untold'} | {' | '.join(line)} |", flush=True)
                rows.append({"set": name, "dead": kind, "told": told, "shares": SHARES, "errors": draws})
    os.makedirs(f"{data}/gradient_boosting", exist_ok=True)
    with open(f"{data}/gradient_boosting/sensors.json", "w") as out:
        json.dump(rows, out)


if __name__ == "__main__":
    main(sys.argv[1])
