"""The table of README against Vowpal Wabbit, River and scikit-learn, on the sensors of blankout demo.

    pip install river vowpalwabbit scikit-learn
    python tools/quality/peers.py ./blankout

Each program learns the first 4,000 events once, in their order; gradient boosting gets them all at once. The errors (%)
are on the other 1,000 events: complete, with half of the sensors null (declared), and with half of the sensors at their
mean (silent); means over five draws of the lost sensors. To help the peers, their numbers are standardized with the
mean and deviation of all learned events, so a null that is left out or replaced by 0 is the mean. The last line has the
largest standard error.
Rates are events per second of processor time on one stream of 80,000 events (blankout and VW from a file to a model,
whole processes) or 4,000 (River, scikit-learn: learning alone, one event at a time). The last row learns three further
copies of each event, with half of the sensors null.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time

import numpy as np
from river import forest, linear_model, multiclass
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import SGDClassifier

HERE = os.path.dirname(os.path.abspath(__file__))
LEARNED, DRAWS, TIMES = 4000, 5, 20


def lose(row, names, draw, value):
    """The event with each sensor, and both of its readings, lost with probability 1/2."""
    lost = {s for s in sorted({n.removesuffix("_ratio") for n in names}) if draw.random() < 0.5}
    return {n: value(n) if n.removesuffix("_ratio") in lost else row[n] for n in names}


def spent(command):
    """The processor time of a command that runs a process."""
    begin = os.times()
    command()
    end = os.times()
    return end.children_user + end.children_system - begin.children_user - begin.children_system


def blankout(program, train, tests, folder):
    def write(name, rows):
        with open(os.path.join(folder, name), "w") as f:
            f.writelines(json.dumps({"gas": y, **x}) + "\n" for y, x in rows)

    def run(*args):
        return subprocess.run([program, *args, "-q", "--json"], cwd=folder, check=True, capture_output=True, text=True).stdout

    write("train.jsonl", train)
    write("long.jsonl", train * TIMES)
    run("run", "train.jsonl", "--label", "gas", "--set", "checkpoint.directory=model")
    rate = len(train) * TIMES / spent(lambda: run("run", "long.jsonl", "--label", "gas", "--set", "checkpoint.directory=long"))
    errors = []
    for rows in tests:
        write("test.jsonl", rows)
        errors.append(json.loads(run("predict", "-m", "model", "test.jsonl"))["error"])
    return errors, rate


def vw(loss, train, tests, classes, folder):
    import vowpalwabbit

    def line(y, x):
        return (f"{classes.index(y) + 1} " if y else "") + "| " + " ".join(f"{n}:{v:.6g}" for n, v in x.items() if v is not None)

    flags = f"--oaa {len(classes)} --loss_function {loss} --quiet"
    m = vowpalwabbit.Workspace(flags)
    for y, x in train:
        m.learn(line(y, x))
    errors = [100 * np.mean([classes[m.predict(line(None, x)) - 1] != y for y, x in rows]) for rows in tests]
    m.finish()
    path = os.path.join(folder, "long.vw")
    with open(path, "w") as f:
        f.writelines(line(y, x) + "\n" for y, x in train * TIMES)
    code = "import sys, pylibvw; w = pylibvw.vw(sys.argv[1:]); w.run_parser(); w.finish()"
    command = [sys.executable, "-c", code, *flags.split(), "-d", path, "-f", path + ".model"]
    return errors, len(train) * TIMES / spent(lambda: subprocess.run(command, check=True))


def river(model, train, tests):
    full = lambda x: {n: 0.0 if v is None else v for n, v in x.items()}  # noqa: E731
    begin = time.process_time()
    for y, x in train:
        model.predict_one(x)
        model.learn_one(x, y)
    rate = len(train) / (time.process_time() - begin)
    return [100 * np.mean([model.predict_one(full(x)) != y for y, x in rows]) for rows in tests], rate


def scikit(train, copies, tests, classes, names):
    array = lambda rows, null: np.array([[null if x[n] is None else x[n] for n in names] for _, x in rows])  # noqa: E731
    labels = [y for y, _ in train]
    x = array(train, 0.0)
    sgd = SGDClassifier(loss="log_loss", random_state=1)
    begin = time.process_time()
    for i in range(len(x)):
        sgd.partial_fit(x[i : i + 1], labels[i : i + 1], classes=classes)
    rate = len(x) / (time.process_time() - begin)
    boosted = HistGradientBoostingClassifier(random_state=1).fit(x, labels)
    copied = HistGradientBoostingClassifier(random_state=1).fit(np.concatenate([x, array(copies, np.nan)]), labels + [y for y, _ in copies])
    wrong = lambda m, null: [100 * np.mean(m.predict(array(rows, null)) != [y for y, _ in rows]) for rows in tests]  # noqa: E731
    return wrong(sgd, 0.0), rate, wrong(boosted, np.nan), wrong(copied, np.nan)


def main(program):
    readings = os.path.join(HERE, "../../cmd/blankout/demodata/sensors.jsonl.zst")
    rows = [json.loads(line) for line in subprocess.check_output(["zstd", "-dcq", readings], text=True).splitlines()]
    rows = [(r.pop("gas"), {n: float(v) for n, v in r.items()}) for r in rows]
    names, classes = sorted(rows[0][1]), sorted({y for y, _ in rows})
    train, test = rows[:LEARNED], rows[LEARNED:]
    table = np.array([[x[n] for n in names] for _, x in train])
    mean, deviation = dict(zip(names, table.mean(0))), dict(zip(names, table.std(0)))
    tests = [test]
    for kind in ("null", "dead"):
        for seed in range(DRAWS):
            draw = random.Random(seed)
            tests.append([(y, lose(x, names, draw, lambda n: None if kind == "null" else float(f"{mean[n]:.6g}"))) for y, x in test])
    scaled = lambda rows: [(y, {n: None if v is None else (v - mean[n]) / deviation[n] for n, v in x.items()}) for y, x in rows]  # noqa: E731
    theirs, tests_scaled = scaled(train), [scaled(t) for t in tests]

    print("| one pass | complete | half null | half dead | events/s |\n|---|---|---|---|---|")

    standard_errors = []

    def row(name, errors, rate=None):
        null, dead = errors[1 : 1 + DRAWS], errors[1 + DRAWS :]
        standard_errors.extend(np.std(e, ddof=1) / DRAWS**0.5 for e in (null, dead))
        rate = "" if rate is None else f"{float(f'{rate:.2g}'):,.0f}"
        print(f"| {name} | {errors[0]:.1f} | {np.mean(null):.1f} | {np.mean(dead):.1f} | {rate} |", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        row("blankout, the default", *blankout(os.path.abspath(program), train, tests, folder))
        for loss in ("logistic", "squared"):
            row(f"VW, {loss} loss", *vw(loss, theirs, tests_scaled, classes, folder))
    row("River, logistic regression", *river(multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), theirs, tests_scaled))
    row("River, adaptive random forest", *river(forest.ARFClassifier(seed=1), theirs, tests_scaled))
    draw = random.Random(99)
    copies = [(y, lose(x, names, draw, lambda n: None)) for y, x in theirs * 3]
    errors, rate, boosted, copied = scikit(theirs, copies, tests_scaled, classes, names)
    row("scikit-learn, SGDClassifier", errors, rate)
    row("scikit-learn, gradient boosting", boosted)
    row("scikit-learn, gradient boosting, and copies", copied)
    print(f"\nStandard errors of the means are at most {max(standard_errors):.1f}.")


if __name__ == "__main__":
    main(sys.argv[1])
