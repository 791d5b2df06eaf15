"""Kernel machines: support vectors, and the kernels between them and events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .container import File
from .errors import DamagedError, FileError, NewerError


@dataclass(frozen=True)
class Kernel:
    """One of linear, poly:DEGREE, rbf:SIGMA and chi2:SIGMA."""

    name: str
    parameter: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Kernel":
        """Read the form in a model's file; NewerError for a kernel that is not known."""
        name, _, argument = text.partition(":")
        try:
            if name == "linear" and not argument:
                return cls(name)
            if name == "poly" and int(argument) >= 1:
                return cls(name, int(argument))
            if name in ("rbf", "chi2") and float(argument) > 0:
                return cls(name, float(argument))
        except ValueError:
            pass
        raise NewerError(f'the kernel "{text}" is none that this package knows: use a newer one')

    def pair(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return what one feature of two examples adds to their sum."""
        if self.name != "chi2":
            return x * y
        total = x + y
        positive = total > 0
        return np.where(positive, 2 * x * y / np.where(positive, total, 1), 0.0)

    def of(self, xy: np.ndarray, xx: float, yy: np.ndarray) -> np.ndarray:
        """Return the kernel's values given the sums of pairs of two examples and of each."""
        if self.name == "linear":
            return xy
        if self.name == "poly":
            p, b, n = np.ones_like(xy), 1 + xy, int(self.parameter)
            while n:
                if n & 1:
                    p = p * b
                b = b * b
                n >>= 1
            return p
        return np.exp(-np.maximum(xx + yy - 2 * xy, 0) / (2 * self.parameter * self.parameter))


class Support:
    """The sum over support vectors of coefficient times kernel.

    Attributes:
        columns: ascending columns of the Schema that any support vector holds.
        coefficients: shape (vectors, outputs).
    """

    def __init__(self, file: File, kernel: Kernel, outputs: int):
        def read(name: str, dtype: str) -> np.ndarray:
            data = file.block("support/" + name)
            if len(data) % np.dtype(dtype).itemsize:
                raise DamagedError(f"block support/{name}: {len(data)} bytes are not a whole number of entries")
            return np.frombuffer(data, dtype)

        columns = read("columns", "<u4").astype(np.int64)
        ends = read("ends", "<u4").astype(np.int64)
        index = read("index", "<u4").astype(np.int64)
        values = read("values", "<f8")
        coefficients = read("coefficients", "<f8")
        vectors = len(ends)
        starts = np.concatenate([[0], ends[:-1]]) if vectors else ends
        fits = (
            len(values) == len(index)
            and len(coefficients) == vectors * outputs
            and (ends >= starts).all()
            and (not len(index) or index.max() < len(columns))
            and (ends[-1] if vectors else 0) == len(index)
            and (np.diff(columns) > 0).all()
        )
        if not fits or not np.isfinite(values).all() or not np.isfinite(coefficients).all():
            raise FileError("the blocks of the support vectors do not fit each other")
        self.kernel, self.columns = kernel, columns
        self.coefficients = coefficients.reshape(vectors, outputs)
        vector = np.repeat(np.arange(vectors), ends - starts)
        self._self = np.bincount(vector, weights=kernel.pair(values, values), minlength=vectors)
        # By column: those from starts[c] to starts[c+1] hold column c.
        order = np.argsort(index, kind="stable")
        self._vector, self._value = vector[order], values[order]
        self._starts = np.searchsorted(index[order], np.arange(len(columns) + 1))

    def scores(self, columns: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the sum for one event, shape (outputs,), given its ascending columns and values."""
        xx = float(np.cumsum(self.kernel.pair(x, x))[-1]) if len(x) else 0.0
        at = np.searchsorted(self.columns, columns)
        known = at < len(self.columns)
        known[known] = self.columns[at[known]] == columns[known]
        at, x = at[known], x[known]
        sizes = self._starts[at + 1] - self._starts[at]
        where = np.repeat(self._starts[at] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        sums = np.bincount(
            self._vector[where],
            weights=self.kernel.pair(np.repeat(x, sizes), self._value[where]),
            minlength=len(self._self),
        )
        k = self.kernel.of(sums, xx, self._self)
        return (self.coefficients * k[:, None]).sum(axis=0)
