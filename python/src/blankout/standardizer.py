"""The first step of a pipeline of scikit-learn that stands for a model which standardizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from .standardize import Scaler


class Standardizer(TransformerMixin, BaseEstimator):
    """Standardizes columns: (x - center) * inverse, or that of asinh, with values far out bounded.

    Attributes:
        scaler: the model's.
        statistics: shape (columns, 5), of each column.
        kept: columns of which 0 is a value; of others it is left out.
    """

    def __init__(self, scaler: Scaler, statistics: np.ndarray, kept: np.ndarray):
        self.scaler, self.statistics, self.kept = scaler, statistics, kept

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> "Standardizer":
        """Return self: the statistics are the model's."""
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the standardized values of X, an array or a frame of numbers."""
        x = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        n, width = x.shape
        z = self.scaler.apply(np.tile(self.statistics, (n, 1)), x.ravel()).reshape(n, width)
        return np.where(self.kept | (x != 0), z, 0.0)
