"""What learners are given: events as dicts, frames, arrays and sparse matrices, as the program reads them.

Neither pandas, Polars nor SciPy is needed: what they make is known by its methods.
"""

from __future__ import annotations

import datetime
import decimal
import json
import numbers
import struct
from dataclasses import dataclass
from typing import Any, Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from .errors import UnsupportedError

_NUMBERS = {float, int, np.float64, np.float32, np.int64, np.int32}
_NUMBERS_OR_NONE = _NUMBERS | {type(None)}


@dataclass(frozen=True)
class Events:
    """Events in one of the forms that the program reads.

    Attributes:
        operation: of the frame.
        count: how many events there are.
        parts: of the payload, behind labels and weights.
        names: of the columns of rows; None for another form.
    """

    operation: bytes
    count: int
    parts: tuple[Any, ...]
    names: tuple[str, ...] | None = None


def is_frame(x: Any) -> bool:
    """Say whether x is a DataFrame of pandas or Polars."""
    return hasattr(x, "columns") and (hasattr(x, "iloc") or hasattr(x, "iter_rows"))


def is_sparse(x: Any) -> bool:
    """Say whether x is a sparse matrix or array of SciPy."""
    return hasattr(x, "tocsr") and hasattr(x, "nnz")


def one(x: Mapping[str, Any], times: Collection[str] = ()) -> Events:
    """Return one event: as a row if all of it is numbers, else as JSON."""
    if not isinstance(x, Mapping):
        raise TypeError(f"an event is a dict of its fields, not a {type(x).__name__}")
    types = set(map(type, x.values()))
    if types <= _NUMBERS_OR_NONE:
        values = x.values() if types <= _NUMBERS else [np.nan if v is None else v for v in x.values()]
        try:
            return Events(b"R", 1, (struct.pack(f"<{len(x)}d", *values),), tuple(x))
        except (OverflowError, TypeError, struct.error):
            pass  # an integer that no float holds
    return Events(b"J", 1, (line(x, times),))


def read(x: Any, times: Collection[str] = (), categorical: Collection[str] = (), by_number: bool = False, names: Sequence[str] | None = None) -> Events:
    """Return events.

    Args:
        x: a list of dicts; a frame, of which None, NaN and NA are null; an array of shape (n, columns), whose column j is the
            field xj and NaN is null; or a sparse matrix, whose column j is column j of a sparse text format.
        times: the fields whose values may be times.
        categorical: the fields whose numbers are names.
        by_number: the columns of an array are those of a sparse text format too, and zeros of it are left out.
        names: of the columns of an array, in place of xj.
    """
    if is_frame(x):
        return _frame(x, times, categorical, by_number)
    if is_sparse(x):
        return _sparse(x.tocsr())
    if isinstance(x, (Mapping, str, bytes)):
        raise TypeError("one event alone: give a list of events, [event]")
    if not isinstance(x, np.ndarray):
        x = list(x)
        if x and isinstance(x[0], Mapping):
            return dicts(x, times)
        if not x:
            return Events(b"J", 0, ())
    array = np.ascontiguousarray(x, np.float64)
    if array.ndim != 2:
        raise ValueError(f"an array of the shape {array.shape}: want (events, columns)")
    if by_number:
        return _nonzero(array)
    columns = tuple(names) if names is not None and len(names) == array.shape[1] else tuple(f"x{j}" for j in range(array.shape[1]))
    return Events(b"R", len(array), (array,), columns)


def dicts(events: Sequence[Mapping[str, Any]], times: Collection[str] = ()) -> Events:
    """Return events that are dicts."""
    lines = []
    for i, event in enumerate(events):
        if not isinstance(event, Mapping):
            raise TypeError(f"event {i} is a {type(event).__name__}: want a dict of its fields")
        lines.append(line(event, times))
    return Events(b"J", len(lines), (b"\n".join(lines),))


def line(event: Mapping[str, Any], times: Collection[str] = ()) -> bytes:
    """Return an event as a line of JSON."""
    try:
        return json.dumps(event, default=_plain).encode()
    except TypeError as e:
        if not isinstance(e.__cause__, _NotPlain) and not isinstance(e, _NotPlain):
            raise
        return json.dumps({str(name): _timed(name, value, times) for name, value in event.items()}, default=_plain).encode()


class _NotPlain(TypeError):
    """A value that JSON does not have."""


def _plain(value: Any) -> Any:
    """Return what JSON has in the place of a value of NumPy or pandas."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (numbers.Real, decimal.Decimal)):
        return float(value)
    raise _NotPlain(f"a {type(value).__name__}")


def _timed(name: str, value: Any, times: Collection[str]) -> Any:
    """Return a value of a field, a time as text if the field is one of times."""
    if isinstance(value, (datetime.date, datetime.datetime)):  # pandas' Timestamp is one
        if type(value).__name__ == "NaTType":
            return None
        if name in times:
            return value.isoformat()
        raise UnsupportedError(
            f'field {name!r} holds a time: name it in record={{"time_features": [{name!r}]}}, which makes its hour, weekday and age features, '
            "or give what of it is a feature as a number"
        )
    if isinstance(value, (Mapping, list, tuple, str, numbers.Real, decimal.Decimal, type(None))) or hasattr(value, "tolist"):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    raise UnsupportedError(f"field {name!r} holds a {type(value).__name__}: give numbers, strings, booleans, lists or dicts of them, or None")


def _frame(x: Any, times: Collection[str], categorical: Collection[str], by_number: bool) -> Events:
    names = [str(c) for c in x.columns]
    pandas = hasattr(x, "iloc")
    numbers = all(getattr(t, "kind", "O") in "iuf" for t in x.dtypes) if pandas else all(t.is_numeric() for t in x.dtypes)
    if numbers and names:
        array = x.to_numpy(dtype=np.float64, na_value=np.nan) if pandas else x.to_numpy().astype(np.float64)
        if by_number:
            if not all(isinstance(c, (int, np.integer)) for c in x.columns):
                raise ValueError("this model knows columns by number, not by name: give it an array or a sparse matrix")
            return _nonzero(array)
        return Events(b"R", len(array), (np.ascontiguousarray(array),), tuple(names))
    if by_number:
        raise ValueError("this model knows columns by number, not by name: give it an array or a sparse matrix")
    return dicts(list(frame_events(x, categorical)), times)


def _sparse(x: Any) -> Events:
    if not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    return Events(b"S", x.shape[0], (x.indptr.astype("<i8"), x.indices.astype("<i8"), np.ascontiguousarray(x.data, "<f8")))


def _nonzero(array: np.ndarray) -> Events:
    rows, columns = np.nonzero(array)
    starts = np.searchsorted(rows, np.arange(len(array) + 1))
    return Events(b"S", len(array), (starts.astype("<i8"), columns.astype("<i8"), array[rows, columns].astype("<f8")))


def frame_events(frame: Any, categorical: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the rows of a frame as events; None, NaN, NaT and pandas' NA are null."""
    names, columns = [], []
    for name in frame.columns:
        series = frame[name]
        values = series.to_list() if hasattr(series, "to_list") else list(series)
        if hasattr(frame, "iloc"):
            null = series.isna().to_numpy()
            values = [None if gone else v for v, gone in zip(values, null)]
        else:
            values = [None if isinstance(v, float) and v != v else v for v in values]
        if str(name) in categorical:
            values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
        names.append(str(name))
        columns.append(values)
    if not names:
        return iter([{} for _ in range(len(frame))])
    return (dict(zip(names, row)) for row in zip(*columns))


def spell(label: Any) -> str:
    """Return a label as the text that the program knows it by."""
    if isinstance(label, (bool, np.bool_)):
        return "true" if label else "false"
    if isinstance(label, str):
        return label
    if isinstance(label, (int, np.integer)):
        return str(int(label))
    if isinstance(label, (float, np.floating)):
        return str(int(label)) if float(label).is_integer() else repr(float(label))
    raise TypeError(f"a label is a string, a number or a boolean, not a {type(label).__name__}")


# How labels are read back from their text, by the name of their type.
READ_LABELS: dict[str, Callable[[str], Any]] = {"str": str, "bool": lambda t: t == "true", "int": int, "float": float}


def type_of(label: Any) -> str:
    """Return the key of READ_LABELS for a label."""
    if isinstance(label, (bool, np.bool_)):
        return "bool"
    if isinstance(label, (int, np.integer)):
        return "int"
    return "float" if isinstance(label, (float, np.floating)) else "str"


def setting(value: Any) -> str:
    """Return a value as TOML has it."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {setting(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
        return "[" + ", ".join(setting(v) for v in value) + "]"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value)) if np.isfinite(value) else str(float(value))
    raise TypeError(f"a setting of the type {type(value).__name__}")
