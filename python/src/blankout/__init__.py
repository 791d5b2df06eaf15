"""Learns from events while they arrive, and keeps predictions accurate when features go missing.

    learner = blankout.Learner()
    learner.learn_one({"amount": 12.5, "country": "ch"}, "fraud")
    learner.predict_proba_one({"amount": None, "country": "ch"})

    model = blankout.load("http://127.0.0.1:8642")
    model.predict([{"amount": 12.5, "country": "ch"}])

The program blankout, which comes with this package, learns and predicts.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import DamagedError, FileError, ForeignError, NewerError, ProgramError, RefusedEvent, SettingsError, UnsupportedError
    from .estimators import DropoutClassifier, DropoutRegressor, OnlineClassifier, OnlineRegressor
    from .learner import Learner
    from .model import Answer, Contribution, Follower, Model, follow, load

_NAMES = {
    "errors": ("DamagedError", "FileError", "ForeignError", "NewerError", "ProgramError", "RefusedEvent", "SettingsError", "UnsupportedError"),
    "estimators": ("DropoutClassifier", "DropoutRegressor", "OnlineClassifier", "OnlineRegressor"),
    "learner": ("Learner",),
    "model": ("Answer", "Contribution", "Follower", "Model", "follow", "load"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "Answer", "Contribution", "DamagedError", "DropoutClassifier", "DropoutRegressor", "FileError", "Follower", "ForeignError", "Learner", "Model",
    "NewerError", "OnlineClassifier", "OnlineRegressor", "ProgramError", "RefusedEvent", "SettingsError", "UnsupportedError", "follow", "load",
]


def __getattr__(name: str) -> Any:
    # Modules are imported when they are needed: NumPy takes a moment, scikit-learn a second, and not everybody has that.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module("." + _MODULES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
