"""Progressive error of River's StandardScaler + LogisticRegression on a stream.

    python river_stream.py FILE.svm[.gz]

prints one JSON object: events, error (%), log_loss (nats) and auc of one pass
in the order of the file, every event predicted before it is learned. More than
two classes are learned one against the rest. An event is a dict of the entries
its line has, as River is used with sparse data; in a file where most entries are
there, absent ones are the zeros they stand for.
"""

import gzip
import json
import math
import sys

from river import linear_model, multiclass, preprocessing


def events(name):
    with (gzip.open if name.endswith(".gz") else open)(name, "rt") as f:
        for line in f:
            label, *entries = line.split()
            yield float(label), {int(i): float(x) for i, x in (e.split(":") for e in entries)}


def auc(scored):
    """Area under the ROC curve of (score, is positive), ties counting half."""
    scored = sorted(scored)
    ranks, i, positive = 0.0, 0, 0
    while i < len(scored):
        j = i
        while j < len(scored) and scored[j][0] == scored[i][0]:
            j += 1
        n = sum(is_positive for _, is_positive in scored[i:j])
        ranks += n * (i + 1 + j) / 2
        positive += n
        i = j
    negative = len(scored) - positive
    return (ranks - positive * (positive + 1) / 2) / (positive * negative)


def main(name):
    stream = list(events(name))
    classes = sorted({y for y, _ in stream})
    columns = sorted({i for _, x in stream for i in x})
    if sum(len(x) for _, x in stream) > 0.5 * len(columns) * len(stream):
        zero = dict.fromkeys(columns, 0.0)
        stream = [(y, zero | x) for y, x in stream]
    binary = len(classes) == 2
    model = linear_model.LogisticRegression()
    model = preprocessing.StandardScaler() | (model if binary else multiclass.OneVsRestClassifier(model))
    wrong, loss, scored = 0, 0.0, []
    for y, x in stream:
        if binary:
            p = model.predict_proba_one(x)[True]
            y = y == classes[1]
            wrong += (p > 0.5) != y
            loss -= math.log(max(p if y else 1 - p, 1e-15))
            scored.append((p, y))
        else:
            wrong += model.predict_one(x) != y
        model.learn_one(x, y)
    n = len(stream)
    print(json.dumps({
        "events": n,
        "error": 100 * wrong / n,
        "log_loss": loss / n if binary else None,
        "auc": auc(scored) if binary else None,
    }))


if __name__ == "__main__":
    main(sys.argv[1])
