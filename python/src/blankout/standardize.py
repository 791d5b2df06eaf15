"""Standardizing: what the statistics of a column make of its values.

The names follow the file: of the five statistics of a column only the center and the
inverse scale in force matter to a score.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .errors import FileError
from .schema import strict

CLIP = 10.0  # a standardized value lies within +-CLIP
WILD = 4.0  # where a wild reading of a centered column counts
STATISTICS = 5
CENTER, INVERSE = 3, 4  # their places among the statistics


def unit_of(inverse: np.ndarray) -> np.ndarray:
    """Return the unit u of columns whose values are transformed by asinh(x/u), 0 for others.

    It is in the last 11 bits of a negative inverse scale.
    """
    inverse = np.ascontiguousarray(inverse, dtype=np.float64)
    exponent = (inverse.view(np.uint64) & np.uint64(2047)).astype(np.int64) - 1024
    return np.where(inverse < 0, np.ldexp(0.5, exponent), 0.0)


@dataclass(frozen=True)
class Scaler:
    """Which columns are standardized, and how.

    Attributes:
        mode: "auto", "all", "scale" or "none".
        dense: ascending columns that are the number 0 in an event that leaves them out.
    """

    mode: str = "none"
    dense: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def beyond(self, center: np.ndarray) -> np.ndarray:
        """Return what values beyond +-CLIP count as, by column."""
        return np.where(center != 0, WILD, CLIP if self.mode == "all" else 1.0)

    def apply(self, statistics: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the standardized values of x.

        Args:
            statistics: shape (n, 5), those of the column of each value.
            x: shape (n,).
        """
        center, inverse = statistics[:, CENTER], statistics[:, INVERSE]
        z = (x - center) * inverse
        transformed = inverse < 0
        if transformed.any():
            c, i = center[transformed], inverse[transformed]
            z[transformed] = (np.arcsinh(x[transformed] / unit_of(i)) - c) * -i
        wild = ~(np.abs(z) <= CLIP)
        if wild.any():
            z[wild] = np.copysign(self.beyond(center[wild]), z[wild])
        return z


FIRST_HAT = 1 << 31  # the first column of a hat function
MAX_KNOTS = 64  # the hats of curve i have the columns from FIRST_HAT + i MAX_KNOTS on


@dataclass(frozen=True)
class Curves:
    """The piecewise linear functions of numeric columns.

    Attributes:
        columns: that have a curve, ascending.
        knots: of each, ascending.
    """

    columns: np.ndarray
    knots: list[np.ndarray]

    @classmethod
    def parse(cls, data: dict) -> "Curves":
        """Read what a model's head says of curves."""
        strict("curves", data, "columns", "knots")
        curves = cls(np.array(data["columns"] or (), np.int64), [np.array(k, np.float64) for k in data["knots"] or ()])
        if len(curves.columns) != len(curves.knots) or any(
            (len(k) != 1 and not 2 < len(k) <= MAX_KNOTS) or not (np.diff(k) > 0).all() for k in curves.knots
        ):
            raise FileError("block model: its curves do not fit themselves")
        return curves

    def hats(self, rows: np.ndarray, columns: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return event, column and value of the features with the hats that are not 0."""
        all_rows, all_columns, all_x = [rows], [columns], [x]
        for i, (column, knots) in enumerate(zip(self.columns, self.knots)):
            here = columns == column
            if not here.any():
                continue
            if len(knots) == 1:  # it is there
                all_rows.append(rows[here])
                all_columns.append(np.full(here.sum(), FIRST_HAT + i * MAX_KNOTS))
                all_x.append(np.ones(here.sum()))
                continue
            value = np.clip(x[here], knots[0], knots[-1])
            left = np.clip(np.searchsorted(knots, value, side="right") - 1, 0, len(knots) - 2)
            share = (value - knots[left]) / (knots[left + 1] - knots[left])
            for knot, hat in ((left, 1 - share), (left + 1, share)):
                there = hat != 0
                all_rows.append(rows[here][there])
                all_columns.append(FIRST_HAT + i * MAX_KNOTS + knot[there])
                all_x.append(hat[there])
        rows, columns, x = np.concatenate(all_rows), np.concatenate(all_columns), np.concatenate(all_x)
        order = np.lexsort((columns, rows))
        return rows[order], columns[order], x[order]

    def source(self, column: int) -> int:
        """Return the column that a hat is a function of; any other column is its own."""
        return int(self.columns[(column - FIRST_HAT) // MAX_KNOTS]) if column >= FIRST_HAT else column
