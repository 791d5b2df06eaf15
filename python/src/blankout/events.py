"""Events become features: the rules of docs/formats.md for objects of Python.

A Decoder reads one event at a time: a dict with the meaning of a JSON object. What several
events come to is a Batch, arrays over the features of all of them.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Iterable, Mapping

import numpy as np

from .errors import RefusedEvent
from .record import Record
from .schema import Schema, hash_text, mix

MOST_FEATURES = 100_000
LARGEST = 1e30  # of a number
LONGEST_FIELD = 4096  # bytes of a field's name
LONGEST_KEPT = 256  # of the names that are told apart as fields
MOST_FIELDS = 1 << 14
DEEPEST = 64
REMEMBERED = 1 << 16  # hashes of names


@dataclass(frozen=True)
class Batch:
    """The features of n events.

    Attributes:
        starts: shape (n+1,); those of event i are from starts[i] to starts[i+1].
        columns, values: shape (starts[n],); columns ascend within an event.
        fields: the id of the field of each feature, or None where there are no fields.
        present, nulls: by event the ids of the fields that are there, and that are null;
            None where there are no fields.
        names: by event the names of the features by column, if they were asked for.
        ids: by event its id, "" for none.
    """

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    fields: np.ndarray | None = None
    present: list[set[int]] | None = None
    nulls: list[list[int]] | None = None
    names: list[dict[int, list[str]]] | None = None
    ids: list[str] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, i: int) -> slice:
        """Return the place of the features of event i."""
        return slice(int(self.starts[i]), int(self.starts[i + 1]))

    @property
    def rows(self) -> np.ndarray:
        """The number of the event of each feature."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


class _Letters(dict):
    """A table for str.translate: letters, digits and marks in lower case, all else a blank."""

    def __missing__(self, code: int) -> str:
        c = chr(code)
        kind = unicodedata.category(c)
        lower = c.lower()
        self[code] = (lower if len(lower) == 1 else lower[0]) if kind[0] in "LM" or kind == "Nd" else " "
        return self[code]


_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")  # as pandas writes integers beside missing values
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Decoder:
    """Reads events under a Schema and remembers the hashes of the names that it meets."""

    def __init__(self, schema: Schema, record: Record):
        self.schema, self.record = schema, record
        self._letters = _Letters()
        self._field_hashes: dict[str, int] = {}
        self._value_hashes: dict[tuple[int, str], int] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._first: dict[str, int] = {}  # by name its first field
        self._under: dict[str, list[int]] = {}  # by name the fields below it
        for i, f in enumerate(schema.fields):
            if i == 0:
                continue
            self._ids[f.name, f.kind] = i
            if f.name in self._first:
                continue
            self._first[f.name] = i
            parents = [at for at, c in enumerate(f.name) if c in ".["]
            for at in parents[:DEEPEST]:
                self._under.setdefault(f.name[:at], []).append(i)
        self._csv = record.format == "csv"

    def batch(self, events: Iterable[Mapping[str, Any]], names: bool = False) -> Batch:
        """Read events. RefusedEvent names the first that cannot be used."""
        starts, columns, values, fields = [0], [], [], []
        present: list[set[int]] = []
        nulls: list[list[int]] = []
        ids: list[str] = []
        named: list[dict[int, list[str]]] = []
        for row, event in enumerate(events):
            if not isinstance(event, Mapping):
                raise TypeError(f"event {row} is a {type(event).__name__}; want a dict of fields")
            e = _Event(self, row)
            e.object(event, None, 1)
            if self.schema.zeros:
                e.add_zeros()
            e.finish(columns, values, fields)
            starts.append(len(columns))
            present.append(set(fields[starts[-2] :]))
            nulls.append(sorted(e.nulls))
            ids.append(e.id)
            if names:
                named.append(e.names())
        return Batch(
            np.array(starts), np.array(columns, np.int64), np.array(values, np.float64),
            np.array(fields, np.int64), present, nulls, named if names else None, ids,
        )

    def field_hash(self, name: str) -> int:
        h = self._field_hashes.get(name)
        if h is None:
            h = self.schema.field_hash(name)
            if len(self._field_hashes) < REMEMBERED:
                self._field_hashes[name] = h
        return h

    def value_hash(self, field: int, value: str) -> int:
        h = self._value_hashes.get((field, value))
        if h is None:
            h = mix(field + hash_text(value))
            if len(self._value_hashes) < REMEMBERED:
                self._value_hashes[field, value] = h
        return h

    def field_id(self, name: str, kind: str) -> int:
        """Return the id of a field; a new one is beyond those of the Schema, one that is not told apart is 0."""
        i = self._ids.get((name, kind))
        if i is None:
            new = len(self.schema.fields) < MOST_FIELDS and len(name.encode("utf-8", "replace")) <= LONGEST_KEPT
            i = len(self.schema.fields) if new else 0
        return i

    def words(self, text: str) -> list[str]:
        """Return the words of a text in lower case, and the runs of up to ngrams of them."""
        words = text.translate(self._letters).split(" ")
        words = [w for w in words if w]
        most = self.record.ngrams
        return [" ".join(words[first : last + 1]) for last in range(len(words)) for first in range(last, max(last - most, -1), -1)]

    def below(self, name: str) -> list[int]:
        """Return the ids of the fields that a null of this name makes missing."""
        own = [self._first[name]] if name in self._first else []
        return own + self._under.get(name, [])


class _Event:
    """One event while it is read."""

    def __init__(self, decoder: Decoder, row: int):
        self.d, self.row = decoder, row
        self.hashes: list[int] = []
        self.values: list[float] = []
        self.fields: list[int] = []
        self.sources: list[tuple[str, Any]] = []  # field's name and value, for names and crosses
        self.nulls: set[int] = set()
        self.id = ""

    def refuse(self, reason: str, detail: str) -> RefusedEvent:
        return RefusedEvent(reason, detail, self.row)

    def object(self, event: Mapping[str, Any], parent: str | None, depth: int) -> None:
        if depth > DEEPEST:
            raise self.refuse("syntax", f"nested deeper than {DEEPEST}")
        for key, value in event.items():
            if not isinstance(key, str):
                raise self.refuse("syntax", f"the field {key!r} has a name that is no string")
            self.member(key if parent is None else f"{parent}.{key}", value, depth)

    def member(self, name: str, value: Any, depth: int) -> None:
        record = self.d.record
        if len(name) > LONGEST_FIELD // 4 and len(name.encode("utf-8", "replace")) > LONGEST_FIELD:
            raise self.refuse("oversize", f"the name of the field {name[:80]}… has more than {LONGEST_FIELD} bytes")
        if role := record.roles.get(name):
            return self.aside(role, name, value)
        if value is None:
            self.nulls.update(self.d.below(name))
        elif isinstance(value, str):
            self.text(name, value)
        elif isinstance(value, (bool, np.bool_)):
            self.pair(name, "boolean", "true" if value else "false")
        elif isinstance(value, (int, float, np.number)):
            self.number(name, _plain(value))
        elif isinstance(value, Mapping):
            self.object(value, name, depth + 1)
        elif isinstance(value, (list, tuple, np.ndarray)):
            if depth + 1 > DEEPEST:
                raise self.refuse("syntax", f"nested deeper than {DEEPEST}")
            for i, v in enumerate(value):
                if not isinstance(v, str):
                    self.member(f"{name}[{i}]", v, depth + 1)
                elif name in record.text:
                    self.bag(name, v)
                else:
                    self.pair(name, "words", v)
        else:
            raise self.refuse(
                "syntax", f"field {name[:80]!r} holds a {type(value).__name__}; "
                "want numbers, strings, booleans, None, lists and dicts"
            )

    def aside(self, role: str, name: str, value: Any) -> None:
        """Pass over a field that is no feature; the id is kept."""
        if role == "drop" or value is None:
            return
        if isinstance(value, (Mapping, list, tuple, np.ndarray)):
            reason = role if role in ("label", "weight") else "syntax"
            raise self.refuse(reason, f"field {name[:80]!r} holds several values")
        if role == "id":
            self.id = value if isinstance(value, str) else json.dumps(_plain(value))

    def text(self, name: str, value: str) -> None:
        if self.d._csv:  # there a value's text tells what it is
            if value in self.d.record.missing:
                self.nulls.update(self.d.below(name))
                return
            if name not in self.d.record.text:
                if value in ("true", "false"):
                    return self.pair(name, "boolean", value)
                if name not in self.d.record.categorical and _NUMBER.fullmatch(value):
                    return self.number(name, float(value))
                if whole := _WHOLE.fullmatch(value):
                    value = whole[1]
        if name in self.d.record.text:
            self.bag(name, value)
        else:
            self.pair(name, "categorical", value)

    def bag(self, name: str, text: str) -> None:
        for word in self.d.words(text):
            self.pair(name, "words", word)

    def number(self, name: str, x: int | float) -> None:
        if not math.isfinite(x):
            return self.nulls.update(self.d.below(name))
        if name in self.d.record.categorical:
            return self.pair(name, "categorical", _category(x))
        if abs(x) > LARGEST:
            raise self.refuse("out-of-range", f"field {name[:80]!r} is {x}, the limit is 1e30")
        self.add(self.d.field_hash(name), self.d.field_id(name, "numeric"), float(x), (name, None))

    def pair(self, name: str, kind: str, value: str) -> None:
        h = self.d.value_hash(self.d.field_hash(name), value)
        self.add(h, self.d.field_id(name, kind), 1.0, (name, value))

    def add(self, h: int, field: int, x: float, source: tuple[str, Any]) -> None:
        self.hashes.append(h)
        self.fields.append(field)
        self.values.append(x)
        self.sources.append(source)
        if len(self.values) > MOST_FEATURES:
            raise self.refuse("too-many", f"more than {MOST_FEATURES} features")

    def add_zeros(self) -> None:
        """Add a 0 for each number that the event leaves out."""
        fields = self.d.schema.fields
        there = {source[0] for source in self.sources} | {fields[i].name for i in self.nulls}
        for i, f in enumerate(fields):
            if i > 0 and f.kind == "numeric" and f.name not in there:
                self.add(self.d.field_hash(f.name), i, 0.0, (f.name, None))

    def cross(self) -> None:
        n = len(self.values)
        for a, b in self.d.schema.crosses:
            # A feature whose field is not told apart has no name to be crossed by.
            at = {side: [i for i in range(n) if self.fields[i] and self.sources[i][0] == side] for side in (a, b)}
            field = self.d.field_id(f"{a}^{b}", "cross")
            for i in at[a]:
                for j in at[b]:
                    if a == b and j < i:
                        continue
                    x = self.values[i] * self.values[j]
                    if abs(x) > LARGEST:
                        raise self.refuse("out-of-range", f"{a}^{b} is {x:g}, the limit is 1e30")
                    self.add(mix(3 * self.hashes[i] + self.hashes[j]), field, x, (f"{a}^{b}", (i, j)))

    def finish(self, columns: list[int], values: list[float], fields: list[int]) -> None:
        """Append the features, columns ascending, what met in one column summed in the event's order."""
        if self.d.schema.crosses:
            self.cross()
        last = -1
        for column, i in sorted([(self.column(i), i) for i in range(len(self.hashes))]):
            if column != last:
                columns.append(column)
                values.append(self.values[i])
                fields.append(self.fields[i])
                last = column
                continue
            values[-1] += self.values[i]
            if abs(values[-1]) > LARGEST:
                raise self.refuse("out-of-range", f"the features that meet in column {column} sum to {values[-1]:g}")

    def column(self, i: int) -> int:
        """Return the column of a feature."""
        field, value = self.sources[i]
        if value is None:
            return self.d.schema.number_column(field)
        return self.d.schema.column_of(self.hashes[i])

    def name(self, i: int) -> str:
        field, value = self.sources[i]
        if value is None:
            return field
        if isinstance(value, tuple):
            return f"{self.name(value[0])} ^ {self.name(value[1])}"
        return f"{field}={value}" if field else value

    def names(self) -> dict[int, list[str]]:
        """Return the names of the features by column, each name once, that of the first feature's field first."""
        own: dict[int, list[int]] = {}
        for i in range(len(self.hashes)):
            own.setdefault(self.column(i), []).append(i)
        found = {}
        for column, at in own.items():
            lead = self.sources[at[0]][0]
            by_hash = {self.hashes[i]: i for i in reversed(at)}
            found[column] = [self.name(i) for i in sorted(by_hash.values(), key=lambda i: (self.sources[i][0] != lead, i))]
        return found


def _category(x: int | float) -> str:
    """Return the one spelling of a number that is a category: 20095.0 is 20095."""
    if isinstance(x, int) or x.is_integer() and abs(x) < 1e22:
        return str(int(x))
    return format(Decimal(repr(x)), "f")


def _plain(x: Any) -> Any:
    """Return a number of NumPy as one of Python."""
    return x.item() if isinstance(x, np.generic) else x
