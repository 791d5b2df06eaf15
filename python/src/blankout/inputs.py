"""What predictions are asked for: events as dicts, frames, arrays and sparse matrices.

Neither pandas, Polars nor SciPy is needed: what they make is known by its methods.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import numpy as np

from .errors import RefusedEvent
from .events import LARGEST, Batch, Decoder
from .schema import hash_text, mix


def is_frame(x: Any) -> bool:
    """Say whether x is a DataFrame of pandas or Polars."""
    return hasattr(x, "columns") and (hasattr(x, "iloc") or hasattr(x, "iter_rows"))


def is_sparse(x: Any) -> bool:
    """Say whether x is a sparse matrix or array of SciPy."""
    return hasattr(x, "tocsr") and hasattr(x, "nnz")


def read(x: Any, decoder: Decoder, names: bool = False) -> Batch:
    """Return the features of x.

    Args:
        x: a list of dicts; a frame, of which None and NaN are null; or an array or sparse
            matrix of shape (n, columns), whose column j is column j of a sparse text format.
        names: also keep the names of features.
    """
    if is_frame(x):
        records = frame_events(x, decoder.record.categorical)
        known = {f.name for f in decoder.schema.fields[1:]} | {f.name.split(".")[0] for f in decoder.schema.fields[1:]}
        columns = [str(c) for c in x.columns]
        if not known:
            if decoder.schema.numeric_indices and all(isinstance(c, int) for c in x.columns):
                return from_columns(np.asarray(x.to_numpy(), dtype=np.float64), decoder)
            raise ValueError("this model knows columns by number, not by name: give it an array or a sparse matrix")
        if not known.intersection(columns) and not any(c.split("[")[0] in known for c in columns):
            raise ValueError(f"none of the frame's columns {columns[:5]} is a field of this model: it has {sorted(known)[:5]} …")
        return decoder.batch(records, names)
    if is_sparse(x) or isinstance(x, np.ndarray):
        return from_columns(x, decoder)
    if isinstance(x, dict) or isinstance(x, (str, bytes)):
        raise TypeError("one event alone: give a list of events, [event]")
    events = list(x)
    if events and not isinstance(events[0], dict) and not hasattr(events[0], "keys"):
        return from_columns(np.asarray(events, dtype=np.float64), decoder)
    return decoder.batch(events, names)


def from_columns(x: Any, decoder: Decoder) -> Batch:
    """Return the features of an array or a sparse matrix of shape (n, columns).

    Zeros of an array are left out, as of a file. So is NaN if the model declares that
    columns go missing.
    """
    schema = decoder.schema
    if len(schema.fields) > 1:
        raise ValueError(
            "this model knows its features by name: give it dicts or a DataFrame "
            f"(its fields are {[f.name for f in schema.fields[1:6]]} …)"
        )
    if is_sparse(x):
        x = x.tocsr().copy()
        x.sum_duplicates()
        shape, starts, columns, values = x.shape, x.indptr.astype(np.int64), x.indices.astype(np.int64), x.data.astype(np.float64)
    else:
        x = np.asarray(x, dtype=np.float64)
        if schema.known:
            x = np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf)
        if x.ndim != 2:
            raise ValueError(f"an array of the shape {x.shape}: want (events, columns)")
        shape = x.shape
        rows, columns = np.nonzero(x)
        values = x[rows, columns]
        starts = np.searchsorted(rows, np.arange(len(x) + 1))
    bad = ~(np.abs(values) <= LARGEST)
    if bad.any():
        i = int(np.argmax(bad))
        row = int(np.searchsorted(starts, i, side="right")) - 1
        finite = np.isfinite(values[i])
        why = "the limit is 1e30" if finite else "this model does not declare that columns go missing (--absent missing)"
        raise RefusedEvent("out-of-range" if finite else "not-finite", f"column {columns[i]} is {values[i]}: {why}", row)
    if not schema.numeric_indices:
        return _hashed(starts, columns, values, decoder)
    if shape[1] > schema.mask + 1:
        raise ValueError(f"{shape[1]} columns, but the model has 2^{schema.bits}")
    return Batch(starts, columns, values)


def _hashed(starts: np.ndarray, columns: np.ndarray, values: np.ndarray, decoder: Decoder) -> Batch:
    """Return a Batch of a model that hashes the numbers of columns as names."""
    schema = decoder.schema
    anonymous = decoder.field_hash("")
    known, at = np.unique(columns, return_inverse=True)
    hashed = np.array([schema.column_of(mix(anonymous + hash_text(str(schema.index_of(int(c)))))) for c in known], np.int64)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    key = rows * (schema.mask + 1) + (hashed[at] if len(known) else columns)
    kept, where = np.unique(key, return_inverse=True)
    sums = np.bincount(where, weights=values, minlength=len(kept)) if len(kept) else values
    rows = kept // (schema.mask + 1)
    return Batch(np.searchsorted(rows, np.arange(len(starts))), kept % (schema.mask + 1), sums)


def frame_events(frame: Any, categorical: Sequence[str] | frozenset[str] = ()) -> Iterator[dict[str, Any]]:
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
