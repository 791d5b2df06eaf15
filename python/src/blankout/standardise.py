"""Standardising: what the statistics of a column make of its values.

The names follow the file: of the five statistics of a column only the centre and the
inverse scale in force matter to a score.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

CLIP = 10.0  # a standardised value lies within +-CLIP
WILD = 4.0  # where a wild reading of a centred column counts
STATISTICS = 5
CENTRE, INVERSE = 3, 4  # their places among the statistics


def unit_of(inverse: np.ndarray) -> np.ndarray:
    """Return the unit u of columns whose values are transformed by asinh(x/u), 0 for others.

    It is in the last 11 bits of a negative inverse scale.
    """
    inverse = np.ascontiguousarray(inverse, dtype=np.float64)
    exponent = (inverse.view(np.uint64) & np.uint64(2047)).astype(np.int64) - 1024
    return np.where(inverse < 0, np.ldexp(0.5, exponent), 0.0)


@dataclass(frozen=True)
class Scaler:
    """Which columns are standardised, and how.

    Attributes:
        mode: "auto", "all", "scale" or "none".
        dense: ascending columns that are the number 0 in an event that leaves them out.
    """

    mode: str = "none"
    dense: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def beyond(self, centre: np.ndarray) -> np.ndarray:
        """Return what values beyond +-CLIP count as, by column."""
        return np.where(centre != 0, WILD, CLIP if self.mode == "all" else 1.0)

    def apply(self, statistics: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the standardised values of x.

        Args:
            statistics: shape (n, 5), those of the column of each value.
            x: shape (n,).
        """
        centre, inverse = statistics[:, CENTRE], statistics[:, INVERSE]
        z = (x - centre) * inverse
        transformed = inverse < 0
        if transformed.any():
            c, i = centre[transformed], inverse[transformed]
            z[transformed] = (np.arcsinh(x[transformed] / unit_of(i)) - c) * -i
        wild = ~(np.abs(z) <= CLIP)
        if wild.any():
            z[wild] = np.copysign(self.beyond(centre[wild]), z[wild])
        return z
