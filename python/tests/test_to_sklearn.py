"""What becomes scikit-learn's model predicts the same; what cannot is refused by name."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import blankout
from streams import events
from test_model import rows, svmlight


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("args", [[], ["--solver", "online", "--standardize", "none", "--noise", "dropout:0.2"]])
def test_columns_by_number(program, classes, args):
    x, y = rows(300, 1, classes=classes)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-o", "m", *args)
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
    args = ["--solver", "online", "--standardize", "none"]
    program("train", "-q", "-d", program.events("t.jsonl", data), "-o", "m", *args)
    model = blankout.load(program.home / "m")
    same = model.to_sklearn()
    asked = pd.DataFrame([{"near": e.get("near", 0.0), "count": float(e.get("count", 0))} for e in data])[list(same.feature_names_in_)]
    np.testing.assert_allclose(same.predict_proba(asked), model.predict_proba(asked), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(same.predict(asked), model.predict(asked).astype(str))


@pytest.mark.parametrize("mode", ["auto", "all", "scale"])
@pytest.mark.parametrize("classes", [2, 4])
def test_standardized(program, mode, classes):
    """A model that standardizes is a pipeline, which can be pickled; values far out are bounded, and zeros left out, as by the model."""
    x, y = rows(300, 1, classes=classes)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-o", "m", "--standardize", mode)
    model = blankout.load(program.home / "m")
    same = pickle.loads(pickle.dumps(model.to_sklearn()))
    asked, _ = rows(200, 2, classes=classes)
    asked[0, 1], asked[1] = 1e9, 0
    order = np.argsort(model.classes_.astype(str))
    np.testing.assert_allclose(same.predict_proba(asked), model.predict_proba(asked)[:, order], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(same.predict(asked), model.predict(asked).astype(str))


def test_standardized_names(binary):
    """The estimators' default, of frames: the pipeline has the names of the columns."""
    data = pd.DataFrame([{k: e.get(k, 0.0) for k in ("near", "far", "count")} for e in events(400, 50, nulls=0)]).astype(float)
    labels = (data["near"] + data["count"] > data["count"].mean()).astype(int)
    estimator = blankout.DropoutClassifier(program=str(binary)).fit(data, labels)
    same = estimator.model_.to_sklearn()
    assert list(same.feature_names_in_) == ["near", "far", "count"]
    asked = data.head(50)
    np.testing.assert_allclose(same.predict_proba(asked), estimator.predict_proba(asked), rtol=1e-9, atol=1e-12)


def test_names_are_those_for_types():
    """Who checks types knows every name, and the package is imported without what it needs later."""
    source = Path(blankout.__file__).read_text()
    typed = source[source.index("if TYPE_CHECKING:") : source.index("_NAMES = ")]
    assert all(re.search(rf"\b{name}\b", typed) for name in blankout.__all__) and set(blankout.__all__) == set(blankout._MODULES)
    assert all(getattr(blankout, name) is not None and name in dir(blankout) for name in blankout.__all__)
    assert (Path(blankout.__file__).parent / "py.typed").exists()
    done = subprocess.run([sys.executable, "-c", "import sys, blankout; print('numpy' in sys.modules)"], capture_output=True, text=True, cwd=Path(blankout.__file__).parents[1])
    assert done.stdout == "False\n", done.stderr


def test_numbers(program):
    x, y = rows(100, 3)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y + x[:, 3])), "-o", "m", "--loss", "linear")
    model = blankout.load(program.home / "m")
    np.testing.assert_allclose(model.to_sklearn().predict(x), model.predict(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "args, said",
    [
        (["--loss", "dropsvm"], "kernel model"),
        (["--loss", "poisson"], "poisson"),
        (["--multiclass", "ovo"], "one-against-one"),
        (["--absent", "missing"], "go missing"),
        (["--solver", "online", "--standardize", "none", "--set", "learner.threshold=0.9"], "threshold 0.9"),
    ],
)
def test_refused_by_name(program, args, said):
    x, y = rows(100, 4, classes=3 if "ovo" in args else 2)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-o", "m", *args)
    with pytest.raises(blankout.UnsupportedError, match=said):
        blankout.load(program.home / "m").to_sklearn()


def test_curves_are_refused(program):
    x = np.random.default_rng(4).normal(size=(1200, 1))  # cosines need two columns
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, 1 * (x[:, 0] > 0))), "-o", "m", "--solver", "online", "--set", "learner.calibrate=off")
    with pytest.raises(blankout.UnsupportedError, match="curves, which are no lines"):
        blankout.load(program.home / "m").to_sklearn()


def test_cosines_are_refused(program):
    """A model of rings that no sum over single numbers separates."""
    x = np.random.default_rng(4).normal(size=(6000, 2))
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, 1 * (np.sin(2 * x[:, 0] * x[:, 1]) > 0))), "-o", "m", "--solver", "online")
    model = blankout.load(program.home / "m")
    assert (model.predict(x).astype(int) == (np.sin(2 * x[:, 0] * x[:, 1]) > 0)).mean() > 0.8
    with pytest.raises(blankout.UnsupportedError, match="cosines, in which numbers act together"):
        model.to_sklearn()


def test_strings_are_refused(program):
    program("train", "-q", "-d", program.events("t.jsonl", events(60, 5)), "-o", "m", "--tol", "1e-2")
    with pytest.raises(blankout.UnsupportedError, match="boolean, categorical, words"):
        blankout.load(program.home / "m").to_sklearn()
