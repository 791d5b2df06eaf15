"""Loads model files for mlflow.pyfunc, as its loader_module."""

import os
from typing import Any

from .model import Model, load


class _Predictor:
    """A model as mlflow.pyfunc calls it."""

    def __init__(self, model: Model):
        self.model = model

    def predict(self, data: Any, params: Any = None) -> Any:
        return self.model.predict(data)


def _load_pyfunc(path: str) -> _Predictor:
    if os.path.isdir(path):
        path = os.path.join(path, "model.blankout")
    return _Predictor(load(path))
