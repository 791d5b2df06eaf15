"""A model in the words of scikit-learn, where those can say exactly what it says."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelBinarizer

from .errors import UnsupportedError

FIRST_HAT = 1 << 31  # the first column of a curve


class Standardizer(TransformerMixin, BaseEstimator):
    """Standardizes columns as a model does: (x - center)/scale, of asinh(x/unit) where a column has a unit.

    Attributes:
        center, scale, unit: by column, shape (columns,); a scale of 0 makes a column 0.
        clip: a standardized value beyond it counts as beyond, by column.
        kept: columns of which 0 is a value; of others it is left out.
    """

    def __init__(self, center: np.ndarray, scale: np.ndarray, unit: np.ndarray, beyond: np.ndarray, clip: float, kept: np.ndarray):
        self.center, self.scale, self.unit, self.beyond, self.clip, self.kept = center, scale, unit, beyond, clip, kept

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> "Standardizer":
        """Return self: the statistics are the model's."""
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the standardized values of X, an array or a frame of numbers."""
        x = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        curved = self.unit > 0
        z = np.where(curved, np.arcsinh(x / np.where(curved, self.unit, 1.0)), x)
        z = np.where(self.scale != 0, (z - self.center) / np.where(self.scale != 0, self.scale, 1.0), 0.0)
        if self.clip > 0:
            z = np.where(np.abs(z) <= self.clip, z, np.copysign(self.beyond, z))
        return np.where(self.kept | (x != 0), z, 0.0)


def to_sklearn(model: Mapping[str, Any]) -> Any:
    """Return a fitted LogisticRegression with a model's weights.

    Of more than two classes it is a OneVsRestClassifier of them, whose probabilities are divided by their sum as the model's
    are. Column j is the model's column j, or of a model with named numbers the field feature_names_in_[j]. Of regression it is
    a LinearRegression. Of a model that standardizes it is a Pipeline, whose first step does that.

    Args:
        model: the JSON of blankout export --format json.

    Raises:
        UnsupportedError: names what scikit-learn's linear models cannot say.
    """
    features, names = _features(model)
    weights = np.array([f["weights"] for f in features], np.float64).reshape(len(features), model["outputs"])
    if (model["scaler"].get("mode") or "none") == "none":
        return _linear(model, weights, names)

    def column(key: str, default: float) -> np.ndarray:
        return np.array([f.get(key, default) for f in features], np.float64)

    dense = set(model["scaler"].get("dense") or ())
    kept = np.ones(len(features), bool) if names is not None else np.array([f["column"] in dense for f in features])
    first = Standardizer(column("center", 0), column("scale", 0), column("unit", 0), column("beyond", 0), model.get("clip", 0), kept)
    return Pipeline([("standardize", _named(first, len(features), names)), ("model", _linear(model, weights, None))])


def _linear(model: Mapping[str, Any], weights: np.ndarray, names: list[str] | None) -> Any:
    """Return scikit-learn's linear model of standardized columns."""
    n = len(weights)
    if model["loss"].partition(":")[0] in ("linear", "absolute", "quantile", "huber"):
        out = LinearRegression()
        out.coef_, out.intercept_ = weights[:, 0], float(model["intercept"][0])
        return _named(out, n, names)
    if model.get("threshold", 0) not in (0, 0.5):
        raise UnsupportedError(f"the threshold {model['threshold']}: scikit-learn's predict decides at 0.5")
    classes = np.array(model["schema"]["classes"], dtype=str)

    def binary(k: int, classes: Any) -> Any:
        part = LogisticRegression()
        part.coef_ = weights[None, :, k]
        part.intercept_ = np.array([model["intercept"][k]])
        part.classes_, part.n_iter_ = np.asarray(classes), np.array([0], dtype=np.int32)
        return _named(part, n, names)

    if model["outputs"] == 1:
        return binary(0, classes)
    order = np.argsort(classes, kind="stable")  # as scikit-learn has them
    out = OneVsRestClassifier(LogisticRegression())
    out.estimators_ = [binary(int(k), [0, 1]) for k in order]
    out.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(classes)
    if not hasattr(OneVsRestClassifier, "classes_"):  # a property up to scikit-learn 1.8
        out.classes_ = out.label_binarizer_.classes_
    return _named(out, n, names)


def _named(estimator: Any, columns: int, names: list[str] | None) -> Any:
    estimator.n_features_in_ = columns
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator


def _features(model: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[str] | None]:
    """Return the features by column of an array, and the columns' names, None if they go by number."""
    schema, scaler = model["schema"], model["scaler"]
    if model.get("pairs"):
        raise UnsupportedError("one-against-one: its coupled probabilities are no linear model's")
    if model["loss"].startswith("poisson"):
        raise UnsupportedError("the loss poisson: what it expects is the exponential of its score")
    if model.get("cosines"):  # before curves, which a learner of cosines has too
        raise UnsupportedError('cosines, in which numbers act together (learn with optimizer = "adagrad" and standardize = "none")')
    if scaler.get("curves"):
        raise UnsupportedError('curves, which are no lines, and that a number is there (learn with standardize = "none")')
    if model.get("link"):
        raise UnsupportedError('a link that learner.calibrate put over the scores (learn with calibrate = "off")')
    if model.get("faults"):
        raise UnsupportedError('fields that are stuck or beyond limits, which count as missing (learn with stuck = "log")')
    if (model.get("missing") or {}).get("known"):
        raise UnsupportedError("columns that go missing (--absent missing): what is left rescales the rest")
    others = sorted({f["kind"] for f in schema["fields"][1:]} - {"numeric"})
    if others:
        raise UnsupportedError(f"fields of the kinds {', '.join(others)}: an array has numbers only")
    known = {f["column"]: f for f in model["features"]}
    nothing = {"weights": [0.0] * model["outputs"], "scale": 0.0}
    if len(schema["fields"]) > 1:
        columns = [f.get("column") for f in schema["fields"][1:]]
        if None in columns or len(set(columns)) < len(columns):
            raise UnsupportedError("fields that share a column: train with more record.bits")
        return [known.get(c, {**nothing, "column": c}) for c in columns], [f["name"] for f in schema["fields"][1:]]
    if not schema.get("numeric_indices"):
        raise UnsupportedError("columns that are hashed: train with numeric_indices")
    return [known.get(c, {**nothing, "column": c}) for c in range(max(known, default=0) + 1)], None
