"""What becomes scikit-learn's model predicts the same; what cannot is refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import blankout
from streams import events
from test_scores import rows, svmlight


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("args", [[], ["--solver", "online", "--standardise", "none", "--noise", "dropout:0.2"]])
def test_columns_by_number(program, classes, args):
    x, y = rows(300, 1, classes=classes)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-m", "m", *args)
    model = blankout.load(program.home / "m")
    same = model.to_sklearn()
    np.testing.assert_array_equal(same.predict(x), model.predict(x).astype(str))
    order = np.argsort(model.classes_.astype(str))
    np.testing.assert_allclose(same.predict_proba(x), model.predict_proba(x)[:, order], rtol=1e-9, atol=1e-12)
    if classes == 2:
        np.testing.assert_allclose(same.decision_function(x), model.decision_function(x), rtol=1e-12, atol=1e-9)
        assert same.coef_.shape == (1, 12)


def test_names(program):
    data = [{k: v for k, v in e.items() if k in ("label", "near", "count")} for e in events(500, 50, nulls=0)]
    args = ["--solver", "online", "--standardise", "none"]
    program("train", "-q", "-d", program.events("t.jsonl", data), "-m", "m", *args)
    model = blankout.load(program.home / "m")
    same = model.to_sklearn()
    asked = pd.DataFrame([{"near": e.get("near", 0.0), "count": float(e.get("count", 0))} for e in data])[list(same.feature_names_in_)]
    np.testing.assert_allclose(same.predict_proba(asked), model.predict_proba(asked), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(same.predict(asked), model.predict(asked).astype(str))


def test_numbers(program):
    x, y = rows(100, 3)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y + x[:, 3])), "-m", "m", "--loss", "linear")
    model = blankout.load(program.home / "m")
    np.testing.assert_allclose(model.to_sklearn().predict(x), model.predict(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "args, said",
    [
        (["--standardise", "auto"], 'standardising "auto" bounds values'),
        (["--loss", "dropsvm"], "kernel machine"),
        (["--loss", "poisson"], "poisson"),
        (["--multiclass", "ovo"], "one-against-one"),
        (["--absent", "missing"], "go missing"),
        (["--solver", "online", "--standardise", "none", "--set", "learner.threshold=0.9"], "threshold 0.9"),
    ],
)
def test_refused_by_name(program, args, said):
    x, y = rows(100, 4, classes=3 if "ovo" in args else 2)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-m", "m", *args)
    with pytest.raises(blankout.Unsayable, match=said):
        blankout.load(program.home / "m").to_sklearn()


def test_strings_are_refused(program):
    program("train", "-q", "-d", program.events("t.jsonl", events(60, 5)), "-m", "m", "--tol", "1e-2")
    with pytest.raises(blankout.Unsayable, match="boolean, categorical, words"):
        blankout.load(program.home / "m").to_sklearn()
