"""Models in mlflow.pyfunc."""

from __future__ import annotations

import mlflow.pyfunc
import numpy as np
import pandas as pd
import pytest
from mlflow.models import infer_signature

import blankout


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_what_mlflow_loads(loss, binary, tmp_path, monkeypatch):
    monkeypatch.setenv("BLANKOUT", str(binary))
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 3)), columns=list("abc"))
    y = np.where(x["a"] > 0, "up", "down") if loss == "logistic" else 3 * x["a"] + 1
    blankout.Learner(loss=loss).partial_fit(x, y).save(tmp_path / "model.blankout")
    signature = infer_signature(x, y, params={"method": "predict"})
    mlflow.pyfunc.save_model(tmp_path / "flow", loader_module="blankout.mlflow", data_path=str(tmp_path / "model.blankout"), signature=signature, pip_requirements=[])
    loaded, model = mlflow.pyfunc.load_model(str(tmp_path / "flow")), blankout.load(tmp_path / "model.blankout")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    np.testing.assert_array_equal(loaded.predict(x, params={"method": "decision_function"}), model.decision_function(x))
    answers = loaded.predict(x[:5], params={"method": "answers"})
    if loss == "logistic":
        chances = loaded.predict(x, params={"method": "predict_proba"})
        assert chances.columns.tolist() == model.classes_.tolist() and (chances.idxmax(axis="columns") == model.predict(x)).all()
        assert [a["class_"] for a in answers] == model.predict(x[:5]).tolist()
    else:
        assert all(a["low"] < a["value"] < a["high"] for a in answers)
        with pytest.raises(TypeError, match="predicts numbers"):
            loaded.predict(x, params={"method": "predict_proba"})
    with pytest.raises(ValueError, match="is one of predict, predict_proba"):
        loaded.predict(x, params={"method": "explain"})
