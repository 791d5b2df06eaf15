"""Learns from events while they arrive, and keeps predictions accurate when features go missing.

    learner = blankout.Learner()
    learner.learn_one({"amount": 12.5, "country": "ch"}, "fraud")
    learner.predict_proba_one({"amount": None, "country": "ch"})

    model = blankout.load("http://127.0.0.1:8642")
    model.predict([{"amount": 12.5, "country": "ch"}])

The program blankout, which comes with this package, learns and predicts.
"""

from typing import TYPE_CHECKING, Any

from .errors import DamagedError, FileError, ForeignError, NewerError, ProgramError, RefusedEvent, SettingsError, UnsupportedError
from .learner import Learner
from .model import Answer, Contribution, Follower, Model, follow, load

if TYPE_CHECKING:
    from .estimators import DropoutClassifier, DropoutRegressor, OnlineClassifier, OnlineRegressor

__all__ = [
    "Answer", "Contribution", "DamagedError", "DropoutClassifier", "DropoutRegressor", "FileError", "Follower", "ForeignError", "Learner", "Model",
    "NewerError", "OnlineClassifier", "OnlineRegressor", "ProgramError", "RefusedEvent", "SettingsError", "UnsupportedError", "follow", "load",
]


def __getattr__(name: str) -> Any:
    # The estimators need scikit-learn, and nothing else here does.
    if name in ("DropoutClassifier", "DropoutRegressor", "OnlineClassifier", "OnlineRegressor"):
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
