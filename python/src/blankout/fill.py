"""Filling in: the numbers that are missing are told from those that are left, by their covariance."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Iterable

import numpy as np

from .errors import DamagedError
from .standardize import CLIP, WILD

APART, OBSERVED, FILLED = 0, 1, 2  # what a column can be in an event
SHRINKAGE = 0.001  # the share of its own variance that is added to that of each column
LEAST_CHANCE = 1e-5
PATTERNS = 256  # of missing columns that are remembered


@dataclass(frozen=True)
class Repair:
    """What the observed columns stand for besides themselves, for one pattern of missing ones.

    Attributes:
        extra: shape (columns, outputs), added to their weights.
        shift, variance: shape (outputs,), of what the missing ones add to the scores.
    """

    extra: np.ndarray
    shift: np.ndarray
    variance: np.ndarray


class Covariance:
    """That of the numeric columns, standardized.

    Attributes:
        columns: ascending, shape (n,).
        fields: shape (n,); the field that an event names where the column is null, 0 for none.
    """

    def __init__(self, data: bytes):
        try:
            at = 0
            lists: list[np.ndarray] = []
            for dtype in ("<u4", "<u4", "<f8", "<f8"):
                (n,) = struct.unpack_from("<I", data, at)
                lists.append(np.frombuffer(data, dtype, n, at + 4))
                at += 4 + n * np.dtype(dtype).itemsize
            n = len(lists[0])
            if at != len(data) or len(lists[1]) != n or len(lists[2]) != n or len(lists[3]) != n * (n + 1) // 2:
                raise ValueError
        except (struct.error, ValueError):
            raise DamagedError(f"block covariance: {len(data)} bytes do not fit its format") from None
        self.columns, self.fields, self.mean = lists[0].astype(np.int64), lists[1].astype(np.int64), lists[2]
        matrix = np.zeros((n, n))
        matrix[np.tril_indices(n)] = lists[3]
        self._deviation = np.sqrt(np.diag(matrix))
        self._shrunk = matrix + np.tril(matrix, -1).T
        own = np.diag(matrix) * (1 + SHRINKAGE)
        np.fill_diagonal(self._shrunk, np.where(own == 0, 1, own))
        self._repairs: dict[bytes, Repair] = {}

    def places(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the columns are here, and their places."""
        at = np.searchsorted(self.columns, columns)
        here = at < len(self.columns)
        here[here] = self.columns[at[here]] == columns[here]
        return here, at[here]

    def wild(self, places: np.ndarray, x: np.ndarray, standardized: bool) -> np.ndarray:
        """Say which values are no readings to tell others from."""
        far = np.abs(x - self.mean[places]) > CLIP * np.maximum(self._deviation[places], 1e-200)
        return far | (standardized & (np.abs(x) == WILD))

    def repair(self, parts: np.ndarray, weights: np.ndarray, level: int = 0) -> Repair:
        """Return the repair of weights, shape (columns, outputs), for a pattern of parts.

        Were the values normal, the missing ones m would have the expectation
        mu_m + B'(x_o - mu_o) given the observed ones o, B = C_oo^-1 C_om, and the covariance
        C_mm - C_mo B. The weights must always be those of one model and, for
        a level, of that.
        """
        key = bytes([level]) + parts.tobytes()
        found = self._repairs.get(key)
        if found is not None:
            return found
        o, m = np.flatnonzero(parts == OBSERVED), np.flatnonzero(parts == FILLED)
        w = weights[m]
        extra = np.zeros_like(weights)
        shift = self.mean[m] @ w
        variance = np.einsum("ik,ij,jk->k", w, self._shrunk[np.ix_(m, m)], w)
        if len(o):
            right = self._shrunk[np.ix_(o, m)] @ w
            extra[o] = np.linalg.solve(self._shrunk[np.ix_(o, o)], right)
            shift = shift - self.mean[o] @ extra[o]
            variance = variance - (right * extra[o]).sum(axis=0)
        found = Repair(extra, shift, np.maximum(variance, 0))
        repairs = dict(list(self._repairs.items())[-PATTERNS + 1 :])  # another thread may read the old one
        repairs[key] = found
        self._repairs = repairs
        return found


def widen(f: float, v: float) -> float:
    """Return the score whose probability is to be expected of a normal score of mean f and variance v.

    Nothing is certain of what was filled in: v makes an answer less so.
    """
    if not v > 0:
        return f
    p = sum(w * _normal(-abs(f) / math.sqrt(t * t + v)) for w, t in MIXTURE)
    wide = min(-abs(f) / math.sqrt(1 + math.pi * v / 8), math.log(LEAST_CHANCE)) - 1e-9 * abs(f)
    if p > LEAST_CHANCE:
        wide = math.log(p / (1 - p))
    return math.copysign(wide, f)


# The logistic function as a mixture of normal distributions: weights and deviations.
MIXTURE = tuple(
    zip(
        (0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818,
         0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354),
        (1 / 1.365340806296348, 1 / 1.059523971016916, 1 / 0.830791313765644, 1 / 0.650732166639391,
         1 / 0.508135425366489, 1 / 0.396313345166341, 1 / 0.308904252267995, 1 / 0.238212616409306),
    )
)
_NUM = (3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871, 221.213596169931, 220.206867912376)
_DEN = (8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674, 637.333633378831,
        793.826512519948, 440.413735824752)


def _normal(x: float) -> float:
    """Return the normal distribution function for x <= 0 (Hart 1968, no. 5666, as given by West 2005)."""
    a = min(-x, 37.0)
    return math.exp(-0.5 * a * a) * _polynomial(_NUM, a) / _polynomial(_DEN, a)


def _polynomial(coefficients: Iterable[float], x: Any) -> Any:
    y = 0.0
    for c in coefficients:
        y = y * x + c
    return y
