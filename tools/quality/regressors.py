"""Progressive absolute errors of linear regressors on three streams that Python packages ship:
blankout, whose program is the first argument, Vowpal Wabbit and River, each with its defaults
but where its row says otherwise. Every event is predicted before it is learned. A stream is
presented in its own order and in as many random ones as the second argument says (20), of which
come the mean and the paired difference from blankout's, with its standard error.

    pip install river vowpalwabbit scikit-learn
    python tools/quality/regressors.py ./blankout
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile

import vowpalwabbit
from river import compose, datasets, linear_model, optim, preprocessing
from sklearn.datasets import load_diabetes

NAMES = {"chick", "diet"}  # numbers that are names


def of_river(data):
    return [({k: str(int(v)) if k in NAMES else float(v) for k, v in x.items()}, float(y)) for x, y in data]


def diabetes():
    d = load_diabetes(scaled=False)
    return [(dict(zip(d.feature_names, map(float, x))), float(y)) for x, y in zip(d.data, d.target)]


STREAMS = {
    "ChickWeights (River)": lambda: of_river(datasets.ChickWeights()),
    "TrumpApproval (River)": lambda: of_river(datasets.TrumpApproval()),
    "diabetes (scikit-learn)": diabetes,
}


def blankout(program, events, *flags):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        for x, y in events:
            f.write(json.dumps({**x, "label": y}) + "\n")
        f.flush()
        out = subprocess.run([program, "train", "--solver", "online", "-d", f.name, "-q", "--json", *flags], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)["progressive_mae"]

def vw(events, flags=""):
    m = vowpalwabbit.Workspace("--quiet " + flags)
    wrong = 0.0
    for x, y in events:
        text = " ".join(f"{k}={v}" if k in NAMES else f"{k}:{v}" for k, v in x.items())
        e = m.parse(f"{y} | {text}", vowpalwabbit.LabelType.SIMPLE)
        m.learn(e)
        wrong += abs(y - e.get_simplelabel_prediction())
        m.finish_example(e)
    m.finish()
    return wrong / len(events)

def river(events, model):
    wrong = 0.0
    for x, y in events:
        wrong += abs(y - model.predict_one(x))
        model.learn_one(x, y)
    return wrong / len(events)

def features():
    numbers = compose.SelectType(float) | preprocessing.StandardScaler()
    return numbers + (compose.SelectType(str) | preprocessing.OneHotEncoder())

METHODS = {
    "blankout squared": lambda p, e: blankout(p, e, "--loss", "squared"),
    "blankout absolute": lambda p, e: blankout(p, e, "--loss", "absolute"),
    "blankout huber:1": lambda p, e: blankout(p, e, "--loss", "huber:1"),
    "vw squared": lambda p, e: vw(e),
    "vw squared, -l 10": lambda p, e: vw(e, "-l 10"),
    "vw squared, --coin": lambda p, e: vw(e, "--coin"),
    "vw quantile": lambda p, e: vw(e, "--loss_function quantile"),
    "river LinearRegression": lambda p, e: river(e, features() | linear_model.LinearRegression()),
    "river LinearRegression, target scaled": lambda p, e: river(e, features() | preprocessing.TargetStandardScaler(linear_model.LinearRegression())),
    "river LinearRegression, Adam": lambda p, e: river(e, features() | linear_model.LinearRegression(optimizer=optim.Adam())),
    "river PARegressor": lambda p, e: river(e, features() | linear_model.PARegressor()),
    "river BayesianLinearRegression": lambda p, e: river(e, features() | linear_model.BayesianLinearRegression()),
}

def main():
    program, permutations = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    for stream, load in STREAMS.items():
        events = load()
        mean = statistics.mean(abs(y - statistics.mean(t for _, t in events)) for _, y in events)
        print(f"\n{stream}: {len(events)} events, their mean's absolute error {mean:.4g}\n")
        print("| regressor | MAE, own order | MAE, permuted | difference |\n|---|---|---|---|")
        orders = [events] + [random.Random(seed).sample(events, len(events)) for seed in range(permutations)]
        table = {name: [run(program, order) for order in orders] for name, run in METHODS.items()}
        base = table["blankout squared"][1:]
        for name, mae in table.items():
            difference = [a - b for a, b in zip(mae[1:], base)]
            error = statistics.stdev(difference) / len(difference) ** 0.5
            own = "" if difference == [0] * len(base) else f"{statistics.mean(difference):+.3g} ± {error:.2g}"
            print(f"| {name} | {mae[0]:.4g} | {statistics.mean(mae[1:]):.4g} | {own} |")


main()
