"""Frames, arrays and dicts say the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import blankout
from streams import events
from test_model import rows, svmlight

KEPT = ("near", "heavy", "color", "zip", "new", "words")


@pytest.fixture
def model(program):
    data = [{k: e[k] for k in ("label", *KEPT) if k in e} for e in events(400, 30)]
    args = ["--set", "record.categorical=zip", "--solver", "online"]
    program("train", "-q", "-d", program.events("t.jsonl", data), "-m", "model", *args)
    return blankout.load(program.home / "model")


def test_frames(model, tmp_path):
    asked = [{k: e.get(k) for k in KEPT} for e in events(50, 31, nulls=0.3)]
    for e in asked:  # what pandas makes floats of, because some are missing
        e["zip"] = 80331 if e["zip"] == 80331 else None
    want = model.decision_function(asked)
    pandas = pd.DataFrame(asked)
    assert pandas["zip"].dtype == np.float64 and pandas["near"].isna().any()
    polars = pl.DataFrame(asked)
    polars.drop("words").write_parquet(tmp_path / "x.parquet")
    for frame in (pandas, pandas.convert_dtypes(), pandas.astype({"color": "category"}), polars, pl.from_pandas(pandas)):
        np.testing.assert_array_equal(model.decision_function(frame), want)
    without = model.decision_function([{k: v for k, v in e.items() if k != "words"} for e in asked])
    np.testing.assert_array_equal(model.decision_function(pd.read_parquet(tmp_path / "x.parquet")), without)
    np.testing.assert_array_equal(model.decision_function(pl.read_parquet(tmp_path / "x.parquet")), without)


def test_wrong_inputs(model, program):
    with pytest.raises(ValueError, match="none of the frame's columns"):
        model.predict(pd.DataFrame({"price": [1.0]}))
    with pytest.raises(ValueError, match="knows its features by name"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(TypeError, match="give a list of events"):
        model.predict({"near": 1})
    with pytest.raises(TypeError, match="want a dict"):
        model.predict([{"near": 1}, 3])
    with pytest.raises(ValueError, match='"most"'):
        blankout.load(program.home / "model", missing="most")
    assert blankout.load(program.home / "model", missing="impute").predict([{"near": None}]).shape == (1,)
    x, y = rows(50, 1)
    program("train", "-q", "-d", program.write("plain.svm", svmlight(x, y)), "-m", "plain")
    with pytest.raises(ValueError, match="no covariance"):
        blankout.load(program.home / "plain", missing="impute")
    assert model.predict([]).shape == (0,) and model.predict_proba([]).shape == (0, 2)


def test_columns_by_number_are_never_missing(program):
    x, y = rows(50, 1)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-m", "model")
    model = blankout.load(program.home / "model")
    np.testing.assert_array_equal(model.decision_function(pd.DataFrame(x)), model.decision_function(x))
    x[1, 2] = np.nan
    with pytest.raises(blankout.RefusedEvent, match="if columns can be missing"):
        model.predict(x)
    with pytest.raises(ValueError, match="by number, not by name"):
        model.predict(pd.DataFrame({"a": [1.0]}))
    assert model.predict(np.zeros((0, 3))).shape == (0,)
