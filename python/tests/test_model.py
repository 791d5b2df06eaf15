"""A model predicts what the command predict does, of every kind of model and form of events."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

import blankout
from streams import events

RECORD = """
[record]
label = "label"
categorical = ["zip"]
text = ["body"]
ngrams = 3
drop = ["vector"]
crosses = [["color", "near"], ["words", "words"], ["user.age", "new"]]
max_classes = 5
"""
PLAIN = '[record]\nmax_classes = 5\n'
EXACT = ["--tol", "1e-3"]
NO_TEXT = {"words", "body", "user", "vector", "color"}


def same(got: blankout.Answer, want: dict, tol: float = 1e-12) -> None:
    """Compare an answer with the program's JSON."""

    def near(a, b):
        assert math.isclose(a, b, rel_tol=tol, abs_tol=tol), (a, b)

    assert len(got.scores) == len(want["scores"])
    for a, b in zip(got.scores, want["scores"]):
        near(a, b)
    assert got.class_ == want.get("class")
    if got.probability is not None:
        near(got.probability, want.get("probability", 0))
    assert got.probabilities.keys() == want.get("probabilities", {}).keys()
    for name, p in got.probabilities.items():
        near(p, want["probabilities"][name])
    assert got.set == want.get("set", [])
    assert (got.missing, got.missing_policy) == (want.get("missing", []), want.get("missing_policy", ""))
    assert (got.noise_level, got.unseen) == (want.get("noise_level", ""), want.get("unseen", []))
    for name in ("value", "low", "high"):
        a, b = getattr(got, name), want.get(name)
        assert (a is None) == (b is None), (name, a, b)
        if a is not None:
            near(a, b)


def compare(program, model_path, asked, *args: str, missing: str = "auto", tol: float = 1e-12) -> blankout.Model:
    """Compare what the package and the program say about events; return the package's model."""
    model = blankout.load(model_path, missing=missing)
    want = program.answers(model_path, program.events("asked.jsonl", asked), "--missing-policy", missing, *args)
    got = model.answers(asked)
    assert len(got) == len(want) == len(asked)
    for a, w in zip(got, want):
        same(a, w, tol)
    return model


# Arguments of train, the record settings, and the number of classes.
MODELS = {
    "exact": (["--noise", "dropout:0.5", *EXACT], RECORD, 2),
    "ovo": (["--standardize", "auto", "--noise", "dropout:0.4", "--multiclass", "ovo", *EXACT], RECORD, 5),
    "online": (["--solver", "online"], RECORD, 2),
    "online-five": (["--solver", "online", "--passes", "2"], RECORD, 5),
    "calibrated": (["--solver", "online", "--set", "learner.calibrate=on", "--silent-missing", "0.3"], RECORD, 2),
    "weighted": (["--solver", "online", "--set", "learner.class_weight={c1=4}", "--set", "learner.threshold=0.7"], RECORD, 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model(program, name):
    args, record, classes = MODELS[name]
    config = program.write("c.toml", record)
    model_path = program.home / "model"
    program("train", "-q", "-f", config, "-d", program.events("train.jsonl", events(600, 1, classes)), "-o", model_path, *args)
    asked = events(300, 2, classes, nulls=0.3) + [{}, {"user": None, "near": None}, {"words": ["nobody", "knows"]}]
    model = compare(program, model_path, asked)
    assert len(model.classes_) == classes
    for rule in ("none", "rescale"):
        compare(program, model_path, asked[:50], missing=rule)
    proba = model.predict_proba(asked)
    assert proba.shape == (len(asked), classes) and np.allclose(proba.sum(axis=1), 1)
    assert model.predict(asked).tolist() == [a.class_ for a in model.answers(asked)]
    scores = np.array([a.scores for a in model.answers(asked)])
    np.testing.assert_allclose(model.decision_function(asked).reshape(scores.shape), scores, rtol=1e-12, atol=1e-12)
    chances = [[a.probabilities[c] for c in model.classes_] for a in model.answers(asked)]
    np.testing.assert_allclose(proba, chances, rtol=1e-12, atol=1e-12)


def test_rules_answer(program):
    """Events with missing fields are answered by the rules for their share."""
    model_path = program.home / "model"
    program("train", "-q", "--solver", "online", "-d", program.events("t.jsonl", events(2000, 3)), "-o", model_path)
    asked = events(300, 4, nulls=0.5)
    model = compare(program, model_path, asked)
    assert "impute" in {a.missing_policy for a in model.answers(asked)}
    assert {a.missing_policy for a in blankout.load(model_path, missing="none").answers(asked)} <= {"", "none"}


@pytest.mark.parametrize("kernel", ["rbf", "poly:3"])
@pytest.mark.parametrize("classes", [2, 3])
def test_kernels(program, kernel, classes):
    model_path = program.home / "model"
    config = program.write("c.toml", RECORD)
    data = program.events("train.jsonl", [{k: v for k, v in e.items() if k != "heavy" and k != "far" and k != "signed"} for e in events(100, 5, classes)])
    program("train", "-q", "-f", config, "-d", data, "-o", model_path, "--loss", "dropsvm", "--kernel", kernel)
    asked = [{k: v for k, v in e.items() if k not in ("heavy", "far", "signed") and not k.startswith("odd")} for e in events(60, 6, classes)]
    for e in asked:
        if e.get("near") == 1e9:  # 1e9 squared leaves a kernel no digits
            e["near"] = 2
    compare(program, model_path, asked)


def rows(n: int, seed: int, columns: int = 12, classes: int = 2):
    """Return an array with zeros, and classes."""
    r = np.random.default_rng(seed)
    y = r.integers(classes, size=n)
    x = r.normal(size=(n, columns)) + 3 * y[:, None] * (np.arange(columns) % classes == 1)
    x[:, 0] = np.exp(3 * x[:, 0])
    x[:, 1] += 100
    x[r.random(x.shape) < 0.4] = 0
    x[:, 1:3] += 0.5
    x[::20, 1] = 0
    return x, y


def svmlight(x: np.ndarray, y: np.ndarray, first: int = 1) -> str:
    lines = []
    for row, label in zip(x, y):
        lines.append(" ".join([str(label)] + [f"{j + first}:{v!r}" for j, v in enumerate(row.tolist()) if v != 0]))
    return "\n".join(lines) + "\n"


COLUMNS = {
    "exact": ([], ""),
    "auto": (["--standardize", "auto"], ""),
    "all": (["--standardize", "all"], ""),
    "scale": (["--standardize", "scale"], ""),
    "online": (["--solver", "online"], ""),
    "chi2": (["--loss", "dropsvm", "--kernel", "chi2"], ""),
    "rbf": (["--loss", "dropsvm", "--kernel", "rbf"], ""),
    "zero-based": (["--zero-based", "--standardize", "auto"], ""),
    "hashed": (["--standardize", "auto"], "[record]\nnumeric_indices = false\nbits = 3\n"),
    "ovo": (["--multiclass", "ovo"], ""),
    "known": (["--absent", "missing", "--standardize", "auto"], ""),
    "known-online": (["--absent", "missing", "--solver", "online"], ""),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_by_number(program, name):
    args, record = COLUMNS[name]
    classes = 4 if name == "ovo" else 2
    first = 0 if name == "zero-based" else 1
    if record:
        args = [*args, "-f", program.write("c.toml", record)]
    x, y = rows(200, 1, classes=classes)
    asked, _ = rows(60, 2, columns=15, classes=classes)
    if name == "chi2":
        x, asked = np.abs(x), np.abs(asked)
    if name in ("chi2", "rbf"):
        x[:, 0], asked[:, 0] = x[:, 0] % 5, asked[:, 0] % 5
    asked[3] = 0
    model_path = program.home / "model"
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y, first)), "-o", model_path, *args)
    want = program.answers(model_path, program.write("a.svm", svmlight(asked, np.zeros(60, int), first)))
    model = blankout.load(model_path)
    for form in (asked, scipy.sparse.csr_matrix(asked), scipy.sparse.coo_array(asked), asked.astype(np.float64).tolist()):
        for got, w in zip(model.answers(form), want, strict=True):
            w.pop("id", None)
            same(got, w)
    if name.startswith("known"):  # NaN is left out
        gone = np.where(asked == 0, np.nan, asked)
        assert {a.missing_policy for a in model.answers(gone)} > {""} and model.answers(gone) == model.answers(asked)


@pytest.mark.parametrize("loss", ["linear", "poisson", "huber:1", "quantile:0.8"])
def test_numbers(program, loss):
    def label(k, r):
        return k + r.randrange(3) if loss == "poisson" else 10 + 2 * k + r.random()

    keep = ("label", "near", "color", "new", "words")
    data = [{k: v for k, v in e.items() if k in keep} for e in events(300, 7, label=label)]
    asked = [{k: v for k, v in e.items() if k in keep} for e in events(100, 8, nulls=0.3, label=label)]
    model_path = program.home / "model"
    program("train", "-q", "-d", program.events("t.jsonl", data), "-o", model_path, "--loss", loss, "--standardize", "auto")
    model = compare(program, model_path, asked)
    scores = model.decision_function(asked)
    np.testing.assert_allclose(model.predict(asked), np.exp(scores) if loss == "poisson" else scores, rtol=1e-14)
    assert len(model.classes_) == 0
    first = model.answers(asked)[0]
    assert first.value == model.predict(asked)[0] and first.low < first.value < first.high
    with pytest.raises(TypeError, match="predicts numbers"):
        model.predict_proba(asked)


def test_checkpoint_of_run(program):
    """A directory of checkpoints stands for its newest, which knows how events are read."""
    program.events("e.jsonl", events(3000, 10))
    config = program.write("c.toml", RECORD + '[checkpoint]\ndirectory = "learned"\n[http]\naddress = ""\n')
    program("run", "-q", "-f", config, "-d", "e.jsonl")
    asked = events(200, 11, nulls=0.3)
    model = compare(program, program.home / "learned", asked)
    assert model.events == 3000
    newest = max((program.home / "learned").glob("checkpoint-*"))
    np.testing.assert_array_equal(blankout.load(newest).decision_function(asked), model.decision_function(asked))


def test_explanations(program):
    """What features add sums to the score, the largest first, under the names that the event gives them."""
    config = program.write("c.toml", RECORD)
    model_path = program.home / "model"
    program("train", "-q", "-f", config, "-d", program.events("t.jsonl", events(400, 12)), "-o", model_path, "--standardize", "auto", *EXACT)
    model = blankout.load(model_path)
    asked = events(40, 13, nulls=0.2)
    scores = model.decision_function(asked)
    for parts, score in zip(model.explain(asked, most=1000), scores, strict=True):
        assert math.isclose(sum(p.score for p in parts), score, rel_tol=1e-9, abs_tol=1e-9)
        assert [abs(p.score) for p in parts] == sorted((abs(p.score) for p in parts), reverse=True)
    said = {p.feature for parts in model.explain(asked, most=1000) for p in parts}
    assert {"(intercept)", "near", "new=true", "user.age", "zip=80331"} <= said
    assert any(" ^ " in name for name in said) and any(name.startswith("body=") and name.count(" ") == 2 for name in said)
