"""The estimators keep scikit-learn's conventions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import blankout
from blankout.estimators import DropoutClassifier, DropoutRegressor, FitError, OnlineClassifier, OnlineRegressor


@pytest.fixture(autouse=True)
def on_path(binary, monkeypatch):
    monkeypatch.setenv("BLANKOUT", str(binary))


# Checks that do not hold, and why.
ORDER = "the check shuffles events, and the scale of sparse columns depends on their order: first readings that turn out to be outliers do not count"
STEPS = "an event of weight 2 is one step of a learner, two events are two, and each depends on those before"
CHECKS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]


def failing(estimator):
    return dict.fromkeys(CHECKS, STEPS) if isinstance(estimator, (OnlineClassifier, OnlineRegressor)) else {CHECKS[1]: ORDER}


@parametrize_with_checks([DropoutClassifier(), DropoutRegressor(), OnlineClassifier(), OnlineRegressor()], expected_failed_checks=failing, xfail_strict=True)
def test_sklearn_conventions(estimator, check):
    check(estimator)


def test_online():
    """In passes or piece by piece it is the same, and frames, sparse matrices and searches are taken."""
    x, y = load_breast_cancer(return_X_y=True)
    names = np.array(["bad", "good"])[y]
    once = OnlineClassifier().fit(x, names)
    pieces = OnlineClassifier()
    for part in np.array_split(np.arange(len(x)), 5):
        pieces.partial_fit(x[part], names[part], classes=["good", "bad"])
    np.testing.assert_array_equal(pieces.predict_proba(x), once.predict_proba(x))
    assert once.score(x, names) > 0.95 and once.classes_.tolist() == ["bad", "good"] and pieces.n_iter_ == 5
    frame = pd.DataFrame(x).rename(columns=lambda j: f"feature {j}")
    named = OnlineClassifier(passes=2).fit(frame, names)
    assert named.learner_.metrics()["progressive_error"] is not None and set(named.learner_.feature_names_in_) >= {"feature 0", "feature 29"}
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict(frame.rename(columns={"feature 0": "x"}))
    sparse = scipy.sparse.csr_matrix(np.where(np.abs(x - x.mean(axis=0)) < x.std(axis=0) / 3, 0, x))
    fitted = OnlineClassifier().fit(sparse, names)
    np.testing.assert_array_equal(fitted.predict(sparse.toarray()), fitted.predict(sparse))
    search = GridSearchCV(OnlineClassifier(), {"noise": ["none", "dropout:0.3"], "settings": [None, {"learning_rate": 0.1}]}, cv=3, n_jobs=2).fit(x, names)
    assert search.best_score_ > 0.9
    x, y = load_diabetes(return_X_y=True)
    assert cross_val_score(OnlineRegressor(passes=5), x, y, cv=3).mean() > 0.3


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("estimator", [DropoutClassifier, DropoutRegressor])
def test_weights_are_repetitions(estimator, check):
    getattr(estimator_checks, check)(estimator.__name__, estimator(standardize="none", tol=1e-13))


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("estimator", [DropoutClassifier, DropoutRegressor])
def test_standardizing_counts_weights(estimator, form):
    r = np.random.default_rng(0)
    x, y, weight = np.exp(r.normal(size=(60, 8))), r.integers(0, 3, 60), r.integers(0, 4, 60)
    weighted = estimator(tol=1e-10).fit(form(x), y, weight)
    repeated = estimator(tol=1e-10).fit(form(x.repeat(weight, axis=0)), y.repeat(weight))
    for method in ("predict_proba", "decision_function", "predict"):
        if hasattr(weighted, method):
            np.testing.assert_allclose(getattr(weighted, method)(form(x)), getattr(repeated, method)(form(x)), rtol=1e-6, atol=1e-8)


def test_missing_values():
    """Values may be missing in fitting and in predicting, and dropout makes that cost less."""
    x, y = load_breast_cancer(return_X_y=True)
    r = np.random.default_rng(0)
    gone = np.where(r.random(x.shape) < 0.7, np.nan, x)
    right = {q: (DropoutClassifier(noise=q).fit(x[::2], y[::2]).predict(gone[1::2]) == y[1::2]).mean() for q in ("none", "dropout:0.7")}
    assert right["dropout:0.7"] > max(right["none"], 0.9)
    assert DropoutClassifier().fit(gone[::2], y[::2]).score(x[1::2], y[1::2]) > 0.9


def test_frames_of_every_kind():
    r = np.random.default_rng(1)
    n = 300
    y = np.array(["stay", "go"])[r.integers(2, size=n)]
    frame = pd.DataFrame({
        "age": np.where(r.random(n) < 0.2, np.nan, r.normal(size=n)),
        "color": [None if r.random() < 0.1 else "red" if (k == "go") != (r.random() < 0.1) else "blue" for k in y],
        "code": r.integers(100, 105, size=n),
        "new": r.random(n) < 0.5,
    })
    fitted = DropoutClassifier(categorical=["code"]).fit(frame, y)
    assert fitted.score(frame, y) > 0.8 and fitted.classes_.tolist() == ["go", "stay"]
    assert {"color", "code", "new", "age"} == set(fitted.model_.fields)
    assert any(p.feature == "color=red" for p in fitted.model_.explain([{"color": "red"}])[0])
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame.rename(columns={"age": "years"}))
    np.testing.assert_array_equal(fitted.predict(pl.from_pandas(frame)), fitted.predict(frame))


def test_searching_and_classes():
    x, y = load_iris(return_X_y=True)
    search = GridSearchCV(DropoutClassifier(), {"noise": ["none", "dropout:0.3"]}, cv=3).fit(x, y)
    assert search.best_score_ > 0.85
    named = np.array(["setosa", "versi", "virginica"])[y]
    fitted = DropoutClassifier(options=["--multiclass", "ovo"]).fit(x, named)
    proba = fitted.predict_proba(x)
    assert (fitted.classes_[proba.argmax(axis=1)] == fitted.predict(x)).all() and fitted.score(x, named) > 0.9
    # Positive is the larger label, in whatever order they come.
    for flip in (slice(None), slice(None, None, -1)):
        two = DropoutClassifier().fit(x[:100][flip], named[:100][flip])
        assert ((two.decision_function(x[:100]) > 0) == (named[:100] == "versi")).all()


def test_sparse_and_online():
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    sparse = scipy.sparse.csr_matrix(np.where(np.abs(x) < 0.3, 0, x))
    weight = np.where(y == 1, 2.0, 1.0)
    for fitted in (DropoutClassifier().fit(sparse, y), DropoutClassifier().fit(sparse, y, weight)):
        assert fitted.score(sparse, y) > 0.9 and fitted.model_.fields == []
        np.testing.assert_array_equal(fitted.predict(sparse.toarray()), fitted.predict(sparse))
    assert DropoutClassifier(noise="auto", solver="online").fit(x, y).score(x, y) > 0.9


def test_regression():
    x, y = load_diabetes(return_X_y=True)
    assert cross_val_score(DropoutRegressor(c=10), x, y, cv=3).mean() > 0.4
    counts = np.random.default_rng(0).poisson(np.exp(x[:, 2] * 10))
    fitted = DropoutRegressor(loss="poisson").fit(x, counts)
    assert (fitted.predict(x) > 0).all() and np.corrcoef(fitted.predict(x), np.exp(x[:, 2] * 10))[0, 1] > 0.9


def test_what_goes_wrong(monkeypatch):
    x, y = load_iris(return_X_y=True)
    with pytest.raises(FitError, match="wild"):
        clone(DropoutClassifier(noise="wild")).fit(x, y)
    with pytest.raises(FileNotFoundError):
        DropoutClassifier(program="/no/such/program").fit(x, y)
    monkeypatch.delenv("BLANKOUT")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sysconfig.get_path", lambda *_, **__: "/nowhere")
    with pytest.raises(blankout.ProgramError, match="nor on PATH"):
        DropoutClassifier().fit(x, y)


def test_weights_of_columns():
    """coef_ and intercept_ are the scores, in the order of columns and classes, and selections take them."""
    x, y = load_iris(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    linear = {"settings": {"optimizer": "adagrad", "calibrate": "off"}, "standardize": "all", "noise": "dropout:0.3"}
    names = np.array(["setosa", "versi", "virginica"])[y]
    for rows in (slice(None), slice(100), slice(99, None, -1)):
        for data in (x, pd.DataFrame(x, columns=[3, 2, 1, "x0"]).rename(columns=str), scipy.sparse.csr_matrix(x)):
            part = data.iloc[rows] if hasattr(data, "iloc") else data[rows]
            for fitted in (DropoutClassifier(c=0.1).fit(part, names[rows]), OnlineClassifier(**linear).fit(part, names[rows])):
                scores = x @ fitted.coef_.T + fitted.intercept_
                if len(fitted.classes_) == 2:
                    np.testing.assert_allclose(scores[:, 0], fitted.decision_function(data), rtol=1e-6, atol=1e-6)
                elif isinstance(fitted, DropoutClassifier):
                    np.testing.assert_allclose(scores, fitted.decision_function(data), rtol=1e-6, atol=1e-6)
                else:
                    assert (scores.argmax(axis=1) == fitted.predict_proba(data).argmax(axis=1)).mean() > 0.95
                np.testing.assert_allclose(np.exp(fitted.predict_log_proba(data)), fitted.predict_proba(data))
    noisy = np.column_stack([np.random.default_rng(0).normal(size=(150, 5)), x])
    for estimator in (DropoutClassifier(), OnlineClassifier()):
        assert SelectFromModel(estimator, max_features=2, threshold=-np.inf).fit(noisy, names).get_support()[7:].all()
        assert RFE(estimator, n_features_to_select=2).fit(noisy, names).get_support()[7:].all()
        with pytest.raises(NotFittedError):
            estimator.coef_
    x, y = load_diabetes(return_X_y=True)
    for fitted in (DropoutRegressor().fit(x, y), OnlineRegressor(**linear).fit(x, y)):
        np.testing.assert_allclose(x @ fitted.coef_ + fitted.intercept_, fitted.predict(x), rtol=1e-3)
    mixed = pd.DataFrame({"color": ["red", "blue"] * 60, "size": np.random.default_rng(0).normal(size=120)})
    assert np.argmax(np.abs(DropoutClassifier().fit(mixed, mixed["color"]).coef_)) == 0


def test_data_of_every_library():
    """Tables of Arrow, lazy frames and masked arrays are what they say; times and two columns of one name are refused by name."""
    r = np.random.default_rng(0)
    x = r.normal(size=(200, 3))
    y = x[:, 0] > 0
    masked, gone = np.ma.masked_array(x, mask=x > 1), np.where(x > 1, np.nan, x)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    words = pd.DataFrame({"a": ["red", "blue"] * 100, "b": x[:, 0]})
    for kind in (DropoutClassifier, OnlineClassifier):
        want = kind().fit(frame, y).predict_proba(frame)
        for other in (pa.Table.from_pandas(frame), pa.RecordBatch.from_pandas(frame), pl.from_pandas(frame), pl.from_pandas(frame).lazy()):
            fitted = kind().fit(other, y)
            np.testing.assert_allclose(fitted.predict_proba(other), want, rtol=1e-9)
            assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(kind().fit(pa.Table.from_pandas(words), y).predict_proba(pl.from_pandas(words).lazy()), kind().fit(words, y).predict_proba(words))
        np.testing.assert_allclose(kind().fit(masked, y).predict_proba(masked), kind().fit(gone, y).predict_proba(gone))
        for labels in (pd.Series(y).map({True: "up", False: "down"}).astype("string"), pd.Series(y, dtype="boolean"), pl.Series(y), pa.array(y)):
            assert kind().fit(x, labels).score(x, np.asarray(labels)) > 0.8
        for wrong, said in (
            (pd.DataFrame(x, columns=["a", "a", "b"]), "two fields are named 'a'"), (words.set_axis(["a", "a"], axis=1), "two fields are named 'a'"),
            (x.astype("M8[s]"), "array of the type datetime64"), (x * 1j, "Complex data"), (pd.DataFrame({"t": pd.date_range("2026", periods=200)}), "field 't' holds a time"),
        ):
            with pytest.raises(ValueError, match=said):
                kind().fit(wrong, y)
        with pytest.raises(ValueError, match="masked labels"):
            kind().fit(x, np.ma.masked_array(y, mask=y))
