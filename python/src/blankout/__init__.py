"""Reads and follows what blankout has learned, and predicts with it.

    model = blankout.load("http://127.0.0.1:8642")
    model.predict([{"words": ["a", "fine", "day"]}])
"""

from typing import TYPE_CHECKING

from .errors import DamagedError, FileError, ForeignError, NewerError, RefusedEvent, UnsupportedError
from .model import Answer, Contribution, Model
from .follow import Follower, follow
from .places import load

if TYPE_CHECKING:
    from .estimators import DropoutClassifier, DropoutRegressor

__all__ = [
    "Answer", "Contribution", "DamagedError", "DropoutClassifier", "DropoutRegressor", "FileError", "Follower", "ForeignError", "Model", "NewerError", "RefusedEvent",
    "UnsupportedError", "follow", "load",
]


def __getattr__(name: str):
    # The estimators need scikit-learn, and nothing else here does.
    if name in ("DropoutClassifier", "DropoutRegressor"):
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
