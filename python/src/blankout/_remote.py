"""A learner or a model in the program, and what is asked of it."""

from __future__ import annotations

import json
import os
import weakref
from typing import Any, Mapping, Sequence

import numpy as np

from . import _program as program
from ._events import Events

MOST_SHAPES = 1000  # sets of columns that the program knows of one learner


class Remote:
    """A learner or a model in the program, which lets go of it when nobody has it any more.

    Args:
        operation, parts: the request that makes it.
        path: of the program.
        process: another process than the one that serves all.
    """

    def __init__(self, operation: bytes, *parts: Any, path: str | os.PathLike[str] | None = None, process: program.Process | None = None):
        self.process = process or program.process(path)
        self.number = self.process.number()
        self._shapes: dict[tuple[str, ...], int] = {}
        self._labels = 0  # how many the program knows
        try:
            self.process.ask(operation, self.number, *parts)
        except BaseException:
            self.process.let_go(self.number)
            raise
        weakref.finalize(self, self.process.let_go, self.number).atexit = False

    @classmethod
    def of(cls, process: program.Process, number: int) -> "Remote":
        """Return the one that the program has made by another request."""
        self = cls.__new__(cls)
        self.process, self.number, self._shapes, self._labels = process, number, {}, 0
        weakref.finalize(self, process.let_go, number).atexit = False
        return self

    def ask(self, operation: bytes, *parts: Any, flags: int = 0, events: int = 0) -> program.Reply:
        """Ask for something; see Process.ask."""
        return self.process.ask(operation, self.number, *parts, flags=flags, events=events)

    def take(self, x: Events, flags: int = 0, labels: np.ndarray | None = None, weights: np.ndarray | None = None) -> np.ndarray:
        """Learn or predict events, as flags of _program say; return numbers, a row for each event.

        Args:
            labels: numbers of labels that were added, or targets; NaN for none. Shape (n,).
            weights: shape (n,).
        """
        parts: list[Any] = []
        for flag, values in ((program.LABELS, labels), (program.WEIGHTS, weights)):
            if values is not None:
                flags |= flag
                parts.append(np.ascontiguousarray(values, "<f8"))
        if x.names is not None:
            parts.append(self._shape(x.names))
        parts += x.parts
        return self.ask(x.operation, *parts, flags=flags, events=x.count).rows()

    def _shape(self, names: tuple[str, ...]) -> bytes:
        shape = self._shapes.get(names)
        if shape is None:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()  # the program keeps them; it has seldom so many
            shape = self._shapes[names] = self.ask(b"s", json.dumps(names).encode()).json()
        return shape.to_bytes(8, "little")

    def add_labels(self, labels: Sequence[str]) -> list[str]:
        """Add labels, which get the next numbers, and return the classes of the learner in the order of probabilities."""
        classes: list[str] = self.ask(b"c", json.dumps(labels).encode()).json()
        return classes

    def inspect(self) -> dict[str, Any]:
        """Return what there is to tell."""
        told: dict[str, Any] = self.ask(b"i").json()
        return told

    def export(self, form: str, missing: str = "auto") -> bytes:
        """Return the model as a file of a form: model, json, text or onnx."""
        return self.ask(b"e", json.dumps({"format": form, "missing_policy": missing}).encode()).data

    def answers(self, lines: Sequence[bytes], explain: int, flags: int) -> list[Mapping[str, Any]]:
        """Return what the HTTP server would answer to lines of JSON."""
        reply = self.ask(b"a", explain.to_bytes(8, "little"), b"\n".join(lines), flags=flags, events=len(lines))
        return [json.loads(line) for line in reply.data.splitlines()]
