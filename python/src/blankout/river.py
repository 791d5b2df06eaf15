"""Learners in the words of River, for its pipelines and its evaluation."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np
from river import base

from .learner import Learner


class _River:
    """What both share. A field that a dict leaves out is 0, as River means it; None is missing.

    Args:
        classes, record, settings: see blankout.Learner.
    """

    learner: Learner

    def __init__(self, record: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None):
        self.record, self.settings = record, settings
        self.learner = Learner(record={"absent": "zero", **(record or {})}, **(settings or {}))

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn an event, which counts w times; None of x is missing."""
        self.learner.learn_one(x, y, w)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn the rows of a frame, which count w times: a number, or one for each."""
        self.learner.partial_fit(X, y, sample_weight=np.broadcast_to(w, (len(X),)))

    def predict_one(self, x: dict[Any, Any]) -> Any:
        """Return the predicted label."""
        return self.learner.predict_one(x)

    def predict_many(self, X: Any) -> Any:
        """Return the predicted labels of the rows of a frame, as a Series: for each row that of predict_one."""
        import pandas as pd

        return pd.Series([self.predict_one(x) for x in X.to_dict("records")], index=X.index)

    def _memory_usage(self) -> int:
        return len(self.learner._freeze())


class Classifier(_River, base.MiniBatchClassifier):
    """A linear classifier that expects features to go missing; see blankout.Learner.

    Args:
        record: keys of the section record of the configuration.
        settings: keys of the section learner.
    """

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        """Return the probability of each class that has been learned."""
        return self.learner.predict_proba_one(x)

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probabilities of the rows of a frame, as a frame with a column for each class that has been learned."""
        import pandas as pd

        return pd.DataFrame([self.predict_proba_one(x) for x in X.to_dict("records")], index=X.index, columns=list(self.learner.classes_))

    @classmethod
    def _unit_test_params(cls) -> Iterable[dict[str, Any]]:
        yield {}


class Regressor(_River, base.MiniBatchRegressor):
    """A linear regression that expects features to go missing; see blankout.Learner.

    Args:
        record: keys of the section record of the configuration.
        settings: keys of the section learner; the loss is "squared" unless it says another one.
    """

    def __init__(self, record: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None):
        super().__init__(record, {"loss": "squared", **(settings or {})})
        self.settings = settings

    def predict_one(self, x: dict[str, Any]) -> float:
        """Return the predicted number, 0 before any has been learned."""
        value: float = self.learner.predict_one(x)
        return 0.0 if value != value else value
