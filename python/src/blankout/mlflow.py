"""Loads model files for mlflow.pyfunc, as its loader_module."""

import os

from .places import load


class _Predictor:
    """A model as mlflow.pyfunc calls it."""

    def __init__(self, model):
        self.model = model

    def predict(self, data, params=None):
        return self.model.predict(data)


def _load_pyfunc(path):
    if os.path.isdir(path):
        path = os.path.join(path, "model.blankout")
    return _Predictor(load(path))
