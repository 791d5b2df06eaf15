"""Learners in the words of River, for its pipelines and its evaluation."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from river import base

from .learner import Learner


class _River:
    """What both share.

    Args:
        classes, record, settings: see blankout.Learner.
    """

    learner: Learner

    def __init__(self, record: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None):
        self.record, self.settings = record, settings
        self.learner = Learner(record=record, **(settings or {}))

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        """Learn an event; None of x is missing."""
        self.learner.learn_one(x, y)

    def predict_one(self, x: dict[str, Any]) -> Any:
        """Return the predicted label."""
        return self.learner.predict_one(x)

    def _memory_usage(self) -> int:
        return len(self.learner._freeze())


class Classifier(_River, base.Classifier):
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

    @classmethod
    def _unit_test_params(cls) -> Iterable[dict[str, Any]]:
        yield {}


class Regressor(_River, base.Regressor):
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
        value = self.learner.predict_one(x)
        return 0.0 if value != value else value
