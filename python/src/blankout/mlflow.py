"""Loads model files for mlflow.pyfunc, as its loader_module."""

import dataclasses
import os
from typing import Any, Mapping

from .model import Model, load

METHODS = ("predict", "predict_proba", "decision_function", "answers")


class _Predictor:
    """A model as mlflow.pyfunc calls it."""

    def __init__(self, model: Model):
        self.model = model

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return what the method params["method"] says of the data.

        It is predict; predict_proba, as a frame with a column for each class; decision_function; or answers, as dicts,
        which have the bounds low and high of a regression.
        """
        asked = {"method": "predict", **(params or {})}
        method = asked.pop("method")
        if asked or method not in METHODS:
            raise ValueError(f"params {dict(params or {})}: there is \"method\" alone, and it is one of {', '.join(METHODS)}")
        said = getattr(self.model, method)(data)
        if method == "predict_proba":
            import pandas as pd

            return pd.DataFrame(said, columns=self.model.classes_, index=getattr(data, "index", None))
        return [dataclasses.asdict(answer) for answer in said] if method == "answers" else said


def _load_pyfunc(path: str) -> _Predictor:
    if os.path.isdir(path):
        path = os.path.join(path, "model.blankout")
    return _Predictor(load(path))
