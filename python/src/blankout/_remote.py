"""A learner or a model in the program, and what is asked of it."""

from __future__ import annotations

import json
import os
import struct
import weakref
from typing import Any, Collection, Mapping, Sequence

import numpy as np

from . import _events, _program as program
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
        self._shapes: dict[tuple[str, ...], int] = {}  # numbers of sets of columns, from 1 on
        self._once: set[tuple[str, ...]] = set()  # sets of columns that came once
        self.labels: dict[str, int] = {}  # numbers of the labels that were added
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
        self.process, self.number, self._shapes, self._once, self.labels = process, number, {}, set(), {}
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
            parts.append(((self._shapes.get(x.names) or self._add(x.names)) - 1).to_bytes(8, "little"))
        return self.process.ask(x.operation, self.number, *parts, *x.parts, flags=flags, events=x.n).rows()

    def one(self, x: Mapping[str, Any], times: Collection[str], flags: int, label: float | None = None, weight: float | None = None) -> tuple[float, ...]:
        """Learn or predict one event; return its numbers. It is a row if all of it is numbers and its fields have come before, else JSON.

        Args:
            times: see _events.read.
            label, weight: see take.
        """
        before = []
        if label is not None:
            flags |= program.LABELS
            before.append(label)
        if weight is not None:
            flags |= program.WEIGHTS
            before.append(weight)
        if type(x) is not dict and not isinstance(x, Mapping):
            raise TypeError(f"an event is a dict of its fields, not a {type(x).__name__}")
        values: Any = x.values()
        types = set(map(type, values))
        if types <= _events.NUMBERS_OR_NONE and (shape := self._shapes.get(names := tuple(x)) or self._shape(names)):
            if not types <= _events.NUMBERS:
                values = [np.nan if v is None else v for v in values]
            try:
                row = struct.pack(f"<{len(before)}dQ{len(x)}d", *before, shape - 1, *values)
            except (OverflowError, TypeError, struct.error):
                pass  # an integer that no float holds
            else:
                return self.process.row(self.number, flags, row)
        line = struct.pack(f"<{len(before)}d", *before) + _events.line(x, times)
        return tuple(self.process.ask(b"J", self.number, line, flags=flags, events=1).rows().ravel().tolist())

    def _shape(self, names: tuple[Any, ...]) -> int | None:
        """Return the number of a set of columns if it has come twice: most sets of words come once."""
        texts = _events.unique(names)
        if shape := self._shapes.get(texts):
            return shape
        if texts in self._once and len(self._shapes) < MOST_SHAPES:
            return self._add(texts)
        if len(self._once) >= MOST_SHAPES:
            self._once.clear()
        self._once.add(texts)
        return None

    def _add(self, names: tuple[str, ...]) -> int:
        if len(self._shapes) >= MOST_SHAPES:
            self._shapes.clear()  # the program keeps them; it has seldom so many
        shape: int = self.ask(b"s", json.dumps(names).encode()).json() + 1
        self._shapes[names] = shape
        return shape

    def add_labels(self, labels: Sequence[str]) -> tuple[int, list[str]]:
        """Add labels; return the number of the first, and the classes of the learner in the order of probabilities."""
        told = self.ask(b"c", json.dumps(labels).encode()).json()
        return told["first"], told["classes"]

    def inspect(self) -> dict[str, Any]:
        """Return what there is to tell."""
        told: dict[str, Any] = self.ask(b"i").json()
        return told

    def export(self, form: str, missing: str = "auto") -> bytes:
        """Return the model as a file of a form: model, json, text or onnx."""
        return bytes(self.ask(b"e", json.dumps({"format": form, "missing_policy": missing}).encode()).data)

    def answers(self, lines: Sequence[bytes], explain: int, flags: int, keys: Sequence[bytes] | None = None) -> list[Mapping[str, Any]]:
        """Return what the HTTP server would answer to lines of JSON, or to records with these keys."""
        n = len(lines)
        if keys is not None:
            flags, lines = flags | program.KEYS, [part for pair in zip(keys, lines, strict=True) for part in pair]
        reply = self.ask(b"a", explain.to_bytes(8, "little"), b"\n".join(lines), flags=flags, events=n)
        return [json.loads(line) for line in reply.data.splitlines()]
