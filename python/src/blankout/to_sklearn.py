"""A model in the words of scikit-learn, where those can say exactly what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UnsupportedError

if TYPE_CHECKING:
    from .model import Model


def to_sklearn(model: "Model") -> Any:
    """Return a fitted LogisticRegression with the model's weights.

    Of more than two classes it is a OneVsRestClassifier of them, whose probabilities are
    divided by their sum as the model's are. Column j is the model's column j, or of a model
    with named numbers the field feature_names_in_[j]. Where labels are numbers it is
    a LinearRegression. Of a model that standardizes it is a Pipeline, whose first step does that.

    Raises:
        UnsupportedError: names what scikit-learn's linear models cannot say.
    """
    weights, names = _columns(model)
    if model._statistics is None:
        return _linear(model, weights, names)
    from sklearn.pipeline import Pipeline

    first = _standardizer(model, names, len(weights))
    return Pipeline([("standardize", first), ("model", _linear(model, weights, None))])


def _linear(model: "Model", weights: np.ndarray, names: list[str] | None) -> Any:
    """Return scikit-learn's linear model of standardized columns."""
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import LabelBinarizer

    if model._numbers:
        out = LinearRegression()
        out.coef_, out.intercept_ = weights[:, 0], float(model._intercept[0])
        return _named(out, weights, names)
    if model._threshold not in (0, 0.5):
        raise UnsupportedError(f"the threshold {model._threshold}: scikit-learn's predict decides at 0.5")

    def binary(k: int, classes: Any) -> Any:
        part = LogisticRegression()
        part.coef_ = weights[None, :, k]
        part.intercept_ = np.array([model._intercept[k]])
        part.classes_, part.n_iter_ = np.asarray(classes), np.array([0], dtype=np.int32)
        return _named(part, weights, names)

    if model._outputs == 1:
        return binary(0, model.classes_.astype(str))
    classes = model.classes_.astype(str)
    order = np.argsort(classes, kind="stable")  # as scikit-learn has them
    out = OneVsRestClassifier(LogisticRegression())
    out.estimators_ = [binary(k, [0, 1]) for k in order]
    out.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(classes)
    if not hasattr(OneVsRestClassifier, "classes_"):  # a property up to scikit-learn 1.8
        out.classes_ = out.label_binarizer_.classes_
    return _named(out, weights, names)


def _standardizer(model: "Model", names: list[str] | None, width: int) -> Any:
    """Return a fitted transformer that standardizes the columns of an array as the model does."""
    from .standardizer import Standardizer

    rows, schema = model._rows, model._schema
    assert rows is not None and model._statistics is not None
    columns = np.arange(width) if names is None else np.array([schema.number_column(n) for n in names])
    known, slots = rows.find(columns)
    statistics = np.zeros((width, model._statistics.shape[1]))
    statistics[known] = model._statistics[slots]
    # An event by number leaves zeros out, but of the dense columns.
    kept = np.ones(width, bool) if names is not None else np.isin(columns, model._scaler.dense)
    return _named(Standardizer(model._scaler, statistics, kept), np.zeros(width), names)


def _named(estimator: Any, weights: np.ndarray, names: list[str] | None) -> Any:
    estimator.n_features_in_ = len(weights)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator


def _columns(model: "Model") -> tuple[np.ndarray, list[str] | None]:
    """Return the weights, shape (columns, outputs), and the columns' names, None if they go by number."""
    if model.kind != "linear":
        raise UnsupportedError("a kernel machine is no linear model")
    if model._pairs:
        raise UnsupportedError("one-against-one: its coupled probabilities are no linear model's")
    if model.loss.startswith("poisson"):
        raise UnsupportedError("the loss poisson: what it expects is the exponential of its score")
    if model._curves is not None:
        raise UnsupportedError("curves, which are no lines, and that a number is there (train with --standardize none)")
    schema, rows = model._schema, model._rows
    assert rows is not None  # of a linear model
    if schema.known:
        raise UnsupportedError("columns that go missing (--absent missing): what is left rescales the rest")
    others = sorted({f.kind for f in schema.fields[1:]} - {"numeric"})
    if others:
        raise UnsupportedError(f"fields of the kinds {', '.join(others)}: an array has numbers only")
    if len(schema.fields) > 1:
        names = [f.name for f in schema.fields[1:]]
        wanted = np.array([schema.number_column(n) for n in names])
        if len(set(wanted.tolist())) < len(wanted):
            raise UnsupportedError("fields that share a column: train with more record.bits")
        weights = np.zeros((len(names), model._outputs))
        known, slots = rows.find(wanted)
        weights[known] = model._weights[slots]
        return weights, names
    if not schema.numeric_indices:
        raise UnsupportedError("columns that are hashed: train with numeric_indices")
    weights = np.zeros((int(rows.columns.max(initial=0)) + 1, model._outputs))
    weights[rows.columns] = model._weights[rows.slots]
    return weights, None
