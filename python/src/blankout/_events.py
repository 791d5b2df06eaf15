"""What learners are given: events as dicts, frames, arrays and sparse matrices, as the program reads them.

Neither pandas, Polars nor SciPy is needed: what they make is known by its methods.
"""

from __future__ import annotations

import datetime
import decimal
import json
import numbers
from typing import Any, Callable, Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from .errors import UnsupportedError

NUMBERS = {float, int, np.float64, np.float32, np.int64, np.int32}
NUMBERS_OR_NONE = NUMBERS | {type(None)}


class Events(NamedTuple):
    """Events in one of the forms that the program reads.

    Attributes:
        operation: of the frame.
        n: how many events there are.
        parts: of the payload, behind labels and weights.
        names: of the columns of rows, whose number is not in parts; None for another form.
    """

    operation: bytes
    n: int
    parts: tuple[Any, ...]
    names: tuple[str, ...] | None = None


def collected(x: Any) -> Any:
    """Return a LazyFrame of Polars as a DataFrame, a RecordBatch of Arrow as a Table, and all else as it is."""
    if type(x).__name__ == "RecordBatch":
        import pyarrow

        return pyarrow.Table.from_batches([x])
    return x.collect() if type(x).__name__ == "LazyFrame" else x


def is_frame(x: Any) -> bool:
    """Say whether x is a DataFrame of pandas or Polars, or a table of Arrow."""
    return hasattr(x, "columns") and (hasattr(x, "iloc") or hasattr(x, "iter_rows")) or is_arrow(x)


def is_arrow(x: Any) -> bool:
    """Say whether x is a Table of Arrow."""
    return hasattr(x, "column_names") and hasattr(x, "to_pylist")


def is_sparse(x: Any) -> bool:
    """Say whether x is a sparse matrix or array of SciPy."""
    return hasattr(x, "tocsr") and hasattr(x, "nnz")


def is_null(value: Any) -> bool:
    """Say whether a value is None, NaN, NaT or pandas' NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or isinstance(value, (float, np.floating)) and value != value


def unique(names: Iterable[Any]) -> tuple[str, ...]:
    """Return the texts of the names of fields.

    Raises:
        ValueError: two have one text.
    """
    texts = tuple(str(name) for name in names)
    if len(set(texts)) < len(texts):
        raise ValueError(f"two fields are named {next(t for t in texts if texts.count(t) > 1)!r}: give each a name of its own")
    return texts


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
    x = collected(x)
    if is_frame(x):
        return _frame(x, times, categorical, by_number)
    if is_sparse(x):
        return _sparse(x.tocsr())
    if isinstance(x, (Mapping, str, bytes)):
        raise TypeError("one event alone: give a list of events, [event]")
    if not hasattr(x, "__array__"):
        x = list(x)
        if x and isinstance(x[0], Mapping):
            return dicts(x, times)
        if not x:
            return Events(b"J", 0, ())
    array = numeric(x)
    if array.ndim != 2:
        raise ValueError(f"an array of the shape {array.shape}: want (events, columns)")
    if by_number:
        return _nonzero(array.astype(np.float64, copy=False))
    columns = tuple(names) if names is not None and len(names) == array.shape[1] else tuple(f"x{j}" for j in range(array.shape[1]))
    if array.dtype == object:
        return dicts([dict(zip(columns, row)) for row in array.tolist()], times)
    return Events(b"R", len(array), (array,), columns)


def numeric(x: Any) -> np.ndarray:
    """Return values as an array of float64 in which what is masked is NaN, or of objects if some are no numbers.

    Raises:
        UnsupportedError: they are of a type that no event can have.
    """
    array = x if isinstance(x, np.ndarray) else np.asarray(x)
    if array.dtype.kind == "U" and not isinstance(x, np.ndarray):
        array = np.array(x, object)  # NumPy makes text of the numbers among texts
    if array.dtype.kind not in "biufOU":
        raise UnsupportedError(
            f"an array of the type {array.dtype}: give numbers, strings or booleans, and times in a DataFrame, whose columns "
            'record={"time_features": […]} names'
        )
    if array.dtype.kind in "OU":
        return array.astype(object)
    if isinstance(array, np.ma.MaskedArray):
        return np.ascontiguousarray(np.ma.filled(array.astype(np.float64), np.nan))
    return np.ascontiguousarray(array, np.float64)


def dicts(events: Sequence[Mapping[str, Any]], times: Collection[str] = ()) -> Events:
    """Return events that are dicts."""
    lines = []
    for i, event in enumerate(events):
        if not isinstance(event, Mapping):
            raise TypeError(f"event {i} is a {type(event).__name__}: want a dict of its fields")
        lines.append(line(event, times))
    return Events(b"J", len(lines), (b"\n".join(lines),))


def line(event: Mapping[str, Any], times: Collection[str] = ()) -> bytes:
    """Return an event as a line of JSON. A key that is no string is the text of it, and NaN is null."""
    if set(map(type, event)) - {str}:
        event = dict(zip(unique(event), event.values()))
    if any(isinstance(v, float) and v != v for v in event.values()):
        event = {name: None if is_null(v) else v for name, v in event.items()}
    try:
        return json.dumps(event, default=_plain).encode()
    except TypeError as e:
        if isinstance(e.__cause__ or e, _NotPlain) or "keys must be" in str(e):
            return json.dumps({name: _timed(name, value, times) for name, value in event.items()}, default=_plain).encode()
        raise


class _NotPlain(TypeError):
    """A value that JSON does not have."""


def _plain(value: Any) -> Any:
    """Return what JSON has in the place of a value of NumPy or pandas."""
    if is_null(value):
        return None
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (numbers.Real, decimal.Decimal)):
        return float(value)
    raise _NotPlain(f"a {type(value).__name__}")


def _timed(name: str, value: Any, times: Collection[str]) -> Any:
    """Return a value of a field, a time as text if the field is one of times."""
    if is_null(value):
        return None
    if isinstance(value, Mapping):
        return {text: _timed(f"{name}.{text}", v, times) for text, v in zip(unique(value), value.values())}
    if isinstance(value, (datetime.date, datetime.datetime)):  # pandas' Timestamp is one
        if name in times:
            return value.isoformat()
        raise UnsupportedError(
            f'field {name!r} holds a time: name it in record={{"time_features": [{name!r}]}}, which makes its hour, weekday and age features, '
            "or give what of it is a feature as a number"
        )
    if isinstance(value, (list, tuple, str, numbers.Real, decimal.Decimal)) or hasattr(value, "tolist"):
        return value
    raise UnsupportedError(f"field {name!r} holds a {type(value).__name__}: give numbers, strings, booleans, lists or dicts of them, or None")


def columns_of(frame: Any) -> tuple[str, ...]:
    """Return the names of the columns of a frame. ValueError if two are one."""
    return unique(frame.column_names if is_arrow(frame) else frame.columns)


def all_numbers(frame: Any, kinds: str = "iuf") -> bool:
    """Say whether all columns of a frame are of kinds of NumPy's numbers."""
    if is_arrow(frame):
        return all(str(t).rstrip("0123456789") in ("int", "uint", "halffloat", "float", "double") for t in frame.schema.types)
    if hasattr(frame, "iloc"):
        return all(getattr(t, "kind", "O") in kinds for t in frame.dtypes)
    return all(t.is_numeric() for t in frame.dtypes)


def _frame(x: Any, times: Collection[str], categorical: Collection[str], by_number: bool) -> Events:
    names = columns_of(x)
    if by_number and (is_arrow(x) or not all_numbers(x) or not all(isinstance(c, (int, np.integer)) for c in x.columns)):
        raise ValueError("this model knows columns by number, not by name: give it an array or a sparse matrix")
    if not names or not all_numbers(x):
        return dicts(list(frame_events(x, categorical)), times)
    if is_arrow(x):
        array = np.column_stack([column.to_numpy(zero_copy_only=False) for column in x.columns]).astype(np.float64)
    elif hasattr(x, "iloc"):
        array = x.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        array = x.to_numpy().astype(np.float64)
    return _nonzero(array) if by_number else Events(b"R", len(array), (np.ascontiguousarray(array),), names)


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
    names, columns = columns_of(frame), []
    for j, name in enumerate(names):
        if is_arrow(frame):
            values = frame.column(j).to_pylist()
        elif hasattr(frame, "iloc"):
            values = [None if gone else v for v, gone in zip(frame.iloc[:, j].to_list(), frame.iloc[:, j].isna().to_numpy())]
        else:
            values = frame.to_series(j).to_list()
        values = [None if isinstance(v, float) and v != v else v for v in values]
        if name in categorical:
            values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
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


def target(label: Any) -> float:
    """Return a label of regression."""
    if isinstance(label, (str, numbers.Real, decimal.Decimal, np.bool_)):
        return float(label)
    raise TypeError(f"a label of regression is a number, not a {type(label).__name__}")


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
