"""Reads and follows what blankout has learned, and predicts with it.

    model = blankout.load("http://127.0.0.1:8642")
    model.predict([{"words": ["a", "fine", "day"]}])
"""

from .errors import DamagedError, FileError, ForeignError, NewerError, RefusedEvent, Unsayable
from .model import Answer, Contribution, Model
from .follow import Follower, follow
from .places import load

__all__ = [
    "Answer", "Contribution", "DamagedError", "FileError", "Follower", "ForeignError", "Model", "NewerError", "RefusedEvent",
    "Unsayable", "follow", "load",
]
