"""Classifiers and regressors with scikit-learn's conventions: fitted exactly, or learned online.

Dense data, arrays and frames, become events with a named field for each column, so that a
value may be missing, in fitting and in predicting: None and NaN are null, and the model's
rule for missing features answers. Sparse matrices become columns by number.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names, _check_n_features, _check_sample_weight, check_is_fitted, validate_data

from . import _events, _program
from .learner import Learner
from .errors import UnsupportedError
from .model import Model, Predictor, load

LABEL, WEIGHT = "(label)", "(weight)"  # fields of the events that are no features


class FitError(RuntimeError):
    """The program did not fit the model; the message is what it said."""


class _Weights(BaseEstimator):
    """What all estimators share: the data that they take, and the weights of what they learned."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = False
        return tags

    def _predictor(self) -> Predictor:
        """Return what was fitted. NotFittedError before."""
        raise NotImplementedError

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Return weights, shape (outputs, columns), and intercepts, shape (outputs,), in the order of classes_."""
        predictor = self._predictor()
        try:
            weights, features, intercepts = predictor._weights()
        except UnsupportedError as e:
            raise AttributeError(f"this model has no weights of columns: {e}") from None
        place = {name: j for j, name in enumerate(self._names())}
        if not hasattr(self, "feature_names_in_"):  # a sparse matrix has numbers from 1 on
            place.update((str(j + 1), j) for j in range(self.n_features_in_))
        out, several = np.zeros((len(weights), self.n_features_in_)), np.zeros(self.n_features_in_, int)
        for i, name in enumerate(features):
            j = place.get(name, place.get(name.rpartition("@")[0], place.get(name.partition("=")[0])))
            if j is not None:
                several[j] += 1
                out[:, j] = weights[:, i] if several[j] == 1 else np.hypot(out[:, j], weights[:, i])
        return out, intercepts

    @property
    def coef_(self) -> np.ndarray:
        """The weights of the columns as they come, shape (1 or K, columns), of regression (columns,).

        Of a column with several weights, as strings and curves have, it is the root of the sum of their squares.
        """
        weights = self._coefficients()[0]
        return weights if hasattr(self, "classes_") else weights[0]

    @property
    def intercept_(self) -> Any:
        """The intercepts, shape (1 or K,), of regression a number."""
        intercepts = self._coefficients()[1]
        return intercepts if hasattr(self, "classes_") else float(intercepts[0])

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if names is None else [str(n) for n in names]


class _Chances:
    """What classifiers share."""

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of the probability of each of classes_, shape (n, K)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))  # type: ignore[attr-defined]


class _Dropout(_Weights):
    """What both estimators share: the way of the data to the program and back."""

    def __init__(
        self, noise: str, c: float, loss: str, standardize: str, solver: str, tol: float, seed: int,
        categorical: Sequence[str], options: Sequence[str], program: str | None,
    ):
        self.noise, self.c, self.loss, self.standardize, self.solver = noise, c, loss, standardize, solver
        self.tol, self.seed, self.categorical, self.options, self.program = tol, seed, categorical, options, program

    def _dicts(self, X: Any) -> list[dict[str, Any]]:
        """Return the rows of dense data as events."""
        if _events.is_frame(X):
            return list(_events.frame_events(X, tuple(self.categorical)))
        names = self._names()
        return [{n: None if v != v else v for n, v in zip(names, row)} for row in X.tolist()]

    def _fit(self, X: Any, labels: list[Any], weight: np.ndarray | None) -> None:
        """Have the program fit a model, model_, to labels, a JSON value for each row."""
        args = [
            _program.find(self.program), "train", "-q", "--noise", self.noise, "-c", repr(float(self.c)), "--loss", self.loss,
            "--standardize", self.standardize, "--seed", str(self.seed),
        ]
        if self.solver == "online":
            args += ["--solver", "online"]
        else:
            args += ["--tol", repr(float(self.tol))]
            if self.solver != "auto":
                args += ["--solver", self.solver]
        with tempfile.TemporaryDirectory(prefix="blankout-") as home:
            data, model = Path(home) / "train.jsonl", Path(home) / "model"
            if _events.is_sparse(X):
                data = data.with_suffix(".vw" if weight is not None else ".svm")
                _write_sparse(data, X, labels, weight)
            else:
                args += ["--label", LABEL]
                if weight is not None:
                    args += ["--weight", WEIGHT]
                if self.categorical:
                    args += ["--set", "record.categorical=" + ",".join(self.categorical)]
                with open(data, "w") as f:
                    for i, event in enumerate(self._dicts(X)):
                        event[LABEL] = labels[i]
                        if weight is not None:
                            event[WEIGHT] = float(weight[i])
                        f.write(_line(event))
            done = subprocess.run([*args, *self.options, "-d", str(data), "-o", str(model)], capture_output=True, text=True)
            if done.returncode != 0:
                raise FitError(f"{' '.join(args[1:2])}: {done.stderr.strip()}")
            self.model_: Model = load(model)
            self.model_.unseen = "answer"  # an estimator predicts every row

    def _predictor(self) -> Predictor:
        check_is_fitted(self, "model_")
        return self.model_

    def _ask(self, method: str, X: Any) -> np.ndarray:
        """Return what a method of the model says about X."""
        check_is_fitted(self, "model_")
        X = _data(self, X, reset=False)
        if self.model_.fields:  # it was fitted to dense data
            X = self._dicts(X.toarray() if _events.is_sparse(X) else X)
        out: np.ndarray = getattr(self.model_, method)(X)
        return out


def _line(event: dict[str, Any]) -> str:
    """Return an event as a line of JSON."""
    return _events.line(event).decode() + "\n"


class DropoutClassifier(_Chances, ClassifierMixin, _Dropout):
    """A linear classifier that expects features to go missing, fitted by the program.

    Args:
        noise: what is expected of features, as the program's --noise has it: "dropout:0.5",
            "group:0.3", "none" …
        c: cost of the losses against the size of the weights.
        loss: "logistic", "hinge", "quadratic" …
        standardize: "auto", "all", "scale" or "none".
        solver: "auto" takes the exact one that fits the loss, "online" learns in one pass.
        tol: of the exact solvers, the certified gap relative to the objective.
        categorical: columns whose numbers are names.
        options: further arguments of blankout train.
        program: the path of the program; else $BLANKOUT, else it is looked for on PATH.

    Attributes:
        classes_: the labels, ascending, shape (K,).
        model_: the blankout.Model, whose classes are the numbers of classes_.
    """

    def __init__(
        self, noise: str = "dropout:0.3", c: float = 1.0, loss: str = "logistic", standardize: str = "auto", solver: str = "auto",
        tol: float = 1e-6, seed: int = 0, categorical: Sequence[str] = (), options: Sequence[str] = (), program: str | None = None,
    ):
        super().__init__(noise, c, loss, standardize, solver, tol, seed, categorical, options, program)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "DropoutClassifier":
        """Fit to X, shape (n, columns), and labels y, shape (n,). FitError if the program does not."""
        X, y, weight = _checked(self, X, y, sample_weight)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        used = labels if weight is None else labels[weight > 0]
        if len(np.unique(used)) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: y has {len(np.unique(used))} class")
        self._fit(X, labels.tolist(), weight)
        # Where a class of the model stands among classes_.
        self._place = np.array([int(c) for c in self.model_.classes_])
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores, shape (n,) of two classes, else (n, K)."""
        scores = self._ask("decision_function", X)
        return self._placed(scores) if scores.ndim > 1 else self._placed(scores[:, None])[:, 0]

    def _placed(self, x: np.ndarray) -> np.ndarray:
        """Return the columns of the model's classes, or of the second of two, in the order of classes_."""
        if x.shape[1] == 1:
            return x if self._place[1] == 1 else -x
        out = np.empty_like(x)
        out[:, self._place] = x
        return out

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        weights, intercepts = super()._coefficients()
        return self._placed(weights.T).T, self._placed(intercepts[None])[0]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each of classes_, shape (n, K)."""
        return self._placed(self._ask("predict_proba", X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted labels, shape (n,)."""
        chosen = self._ask("predict", X)
        return self.classes_[chosen.astype(np.int64)]


class DropoutRegressor(RegressorMixin, _Dropout):
    """A linear regression that expects features to go missing, fitted by the program.

    Args:
        loss: "linear" (squares) or "poisson" (counts); the others are those of DropoutClassifier.

    Attributes:
        model_: the blankout.Model.
    """

    def __init__(
        self, noise: str = "dropout:0.1", c: float = 1.0, loss: str = "linear", standardize: str = "auto", solver: str = "auto",
        tol: float = 1e-6, seed: int = 0, categorical: Sequence[str] = (), options: Sequence[str] = (), program: str | None = None,
    ):
        super().__init__(noise, c, loss, standardize, solver, tol, seed, categorical, options, program)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "DropoutRegressor":
        """Fit to X, shape (n, columns), and numbers y, shape (n,). FitError if the program does not."""
        X, y, weight = _checked(self, X, y, sample_weight, numbers=True)
        self._fit(X, y.tolist(), weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted numbers, shape (n,)."""
        return self._ask("predict", X)


class _Online(_Weights):
    """What both online estimators share."""

    n_iter_: int

    def __init__(self, loss: str, noise: str, passes: int, standardize: str, categorical: Sequence[str], settings: Mapping[str, Any] | None):
        self.loss, self.noise, self.passes, self.standardize = loss, noise, passes, standardize
        self.categorical, self.settings = categorical, settings

    def _new(self, classes: Any = None) -> Learner:
        record: dict[str, Any] = {"categorical": list(self.categorical)} if len(self.categorical) > 0 else {}
        if classes is not None:
            record["max_classes"] = max(100, len(classes))
        own = {"loss": self.loss, "noise": self.noise, "standardize": self.standardize, **(self.settings or {})}
        return Learner(classes=classes, record=record, **own)

    def _take(self, X: Any, y: Any, sample_weight: Any, classes: Any, fresh: bool) -> None:
        if fresh:
            self.learner_ = self._new(classes)
            self.learner_._sparse = _events.is_sparse(X)
            if hasattr(self, "feature_names_in_"):
                self.learner_._columns = [str(n) for n in self.feature_names_in_]
        self.learner_.partial_fit(X, y, sample_weight=sample_weight)
        self.n_iter_ = 1 if fresh else self.n_iter_ + 1

    def _predictor(self) -> Predictor:
        check_is_fitted(self, "learner_")
        return self.learner_

    def _ask(self, method: str, X: Any) -> np.ndarray:
        check_is_fitted(self, "learner_")
        out: np.ndarray = getattr(self.learner_, method)(_data(self, X, reset=False))
        return out


class OnlineClassifier(_Chances, ClassifierMixin, _Online):
    """A linear classifier that learns event by event; see blankout.Learner.

    Args:
        loss: "logistic", "hinge", "quadratic" …
        noise: what is expected of features: "auto" learns several levels beside each other and weighs them by what they have
            predicted.
        passes: how often fit goes over the data.
        standardize: "auto", "all", "scale" or "none".
        categorical: columns whose numbers are names.
        settings: further keys of the section learner of the configuration: {"half_life": 10_000} …

    Attributes:
        classes_: the labels, ascending, shape (K,).
        learner_: the blankout.Learner.
        n_iter_: how many passes were made, or calls of partial_fit.
    """

    def __init__(
        self, loss: str = "logistic", noise: str = "auto", passes: int = 1, standardize: str = "auto", categorical: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
    ):
        super().__init__(loss, noise, passes, standardize, categorical, settings)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "OnlineClassifier":
        """Forget everything and learn X, shape (n, columns), and labels y, shape (n,)."""
        X, y, weight = _checked(self, X, y, sample_weight)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        used = len(np.unique(y if weight is None else y[weight > 0]))
        if used < 2:
            raise ValueError(f"Classifier can't train when only one class is present: y has {used} class")
        for i in range(self.passes):
            self._take(X, y, weight, self.classes_, i == 0)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "OnlineClassifier":
        """Learn more events.

        Args:
            classes: all labels that will come; needed in the first call.
        """
        fresh = not hasattr(self, "learner_")
        if fresh and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if not fresh and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError("`classes` is not the same as on last call to partial_fit")
        X, y, weight = _checked(self, X, y, sample_weight, reset=fresh)
        check_classification_targets(y)
        if fresh:
            self.classes_ = np.unique(classes)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown) > 0:
            raise ValueError(f"y has labels that are not among classes: {unknown[:5].tolist()}")
        self._take(X, y, weight, self.classes_, fresh)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores, shape (n,) of two classes, else (n, K)."""
        return self._ask("decision_function", X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each of classes_, shape (n, K)."""
        return self._ask("predict_proba", X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted labels, shape (n,)."""
        return self._ask("predict", X)


class OnlineRegressor(RegressorMixin, _Online):
    """A linear regression that learns event by event; see blankout.Learner.

    Args:
        loss: "squared", "absolute", "quantile:0.9", "huber:1" or "poisson"; the others are those of OnlineClassifier.

    Attributes:
        learner_: the blankout.Learner.
        n_iter_: how many passes were made, or calls of partial_fit.
    """

    def __init__(
        self, loss: str = "squared", noise: str = "auto", passes: int = 1, standardize: str = "auto", categorical: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
    ):
        super().__init__(loss, noise, passes, standardize, categorical, settings)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "OnlineRegressor":
        """Forget everything and learn X, shape (n, columns), and numbers y, shape (n,)."""
        X, y, weight = _checked(self, X, y, sample_weight, numbers=True)
        for i in range(self.passes):
            self._take(X, y, weight, None, i == 0)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "OnlineRegressor":
        """Learn more events."""
        fresh = not hasattr(self, "learner_")
        X, y, weight = _checked(self, X, y, sample_weight, numbers=True, reset=fresh)
        self._take(X, y, weight, None, fresh)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted numbers, shape (n,)."""
        return self._ask("predict", X)


def _checked(self: Any, X: Any, y: Any, sample_weight: Any, numbers: bool = False, reset: bool = True) -> tuple[Any, Any, Any]:
    from sklearn.utils import check_consistent_length, column_or_1d
    from sklearn.utils.validation import _assert_all_finite

    if y is None:
        raise ValueError(f"requires y to be passed, but the target y is None: {type(self).__name__} is supervised")
    X = _data(self, X, reset=reset)
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        raise ValueError("y has masked labels, which are none: leave their rows out")
    y = column_or_1d(y, warn=True)
    if numbers:
        y = y.astype(np.float64)
    _assert_all_finite(y, input_name="y")
    check_consistent_length(X, y)
    weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return X, y, weight


def _data(self: Any, X: Any, reset: bool) -> Any:
    """Check X and return it as a frame, an array or a sparse matrix."""
    X = _events.collected(X)
    if _events.is_frame(X):
        _events.columns_of(X)
        if not _events.all_numbers(X, "biuf"):
            _check_feature_names(self, X, reset=reset)
            _check_n_features(self, X, reset=reset)
            return X
    elif isinstance(X, np.ndarray) and (isinstance(X, np.ma.MaskedArray) or X.dtype.kind in "mM"):
        X = _events.numeric(X)
    X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite="allow-nan")
    dense = X.data if _events.is_sparse(X) else X
    if np.isinf(dense).any():
        raise ValueError("Input X contains infinity")
    if _events.is_sparse(X) and np.isnan(dense).any():
        raise ValueError("Input X contains NaN in a sparse matrix, of which no value can be missing: give an array")
    return X


def _write_sparse(path: Path, X: Any, labels: list[Any], weight: np.ndarray | None) -> None:
    """Write a sparse matrix as svmlight, or with weights as VW text, whose index j+1 is column j."""
    X = X.tocsr()
    with open(path, "w") as f:
        for i, label in enumerate(labels):
            own = slice(X.indptr[i], X.indptr[i + 1])
            entries = " ".join(f"{j + 1}:{v!r}" for j, v in zip(X.indices[own].tolist(), X.data[own].tolist()))
            f.write(f"{label} {entries}\n" if weight is None else f"{label} {float(weight[i])!r} | {entries}\n")
