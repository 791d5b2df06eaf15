"""Frames, arrays and dicts say the same."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import blankout
from streams import events
from test_model import rows, svmlight

KEPT = ("near", "heavy", "color", "zip", "new", "words")


@pytest.fixture
def model(program):
    data = [{k: e[k] for k in ("label", *KEPT) if k in e} for e in events(400, 30)]
    args = ["--set", "record.categorical=zip", "--solver", "online"]
    program("train", "-q", "-d", program.events("t.jsonl", data), "-o", "model", *args)
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
    program("train", "-q", "-d", program.write("plain.svm", svmlight(x, y)), "-o", "plain")
    with pytest.raises(ValueError, match="no covariance"):
        blankout.load(program.home / "plain", missing="impute")
    assert model.predict([]).shape == (0,) and model.predict_proba([]).shape == (0, 2)


def test_columns_by_number_are_never_missing(program):
    x, y = rows(50, 1)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-o", "model")
    model = blankout.load(program.home / "model")
    np.testing.assert_array_equal(model.decision_function(pd.DataFrame(x)), model.decision_function(x))
    x[1, 2] = np.nan
    with pytest.raises(blankout.RefusedEvent, match="if columns can be missing"):
        model.predict(x)
    with pytest.raises(ValueError, match="by number, not by name"):
        model.predict(pd.DataFrame({"a": [1.0]}))
    assert model.predict(np.zeros((0, 3))).shape == (0,)


def test_tables_of_every_library(binary, monkeypatch):
    """Tables of Arrow, lazy frames, masked and mixed arrays teach what the same dicts teach."""
    monkeypatch.setenv("BLANKOUT", str(binary))
    r = np.random.default_rng(0)
    x = r.normal(size=(300, 3))
    y = x[:, 0] > 0
    gone = np.where(x > 1, np.nan, x)
    frame = pd.DataFrame({"a": gone[:, 0], "n": pd.array([1, None, 3] * 100, dtype="Int64"), "s": ["red", None, "blue"] * 100})

    def learned(data, labels=y):
        return blankout.Learner().partial_fit(data, labels)._remote.export("json")

    table = pa.table({"a": pa.array(gone[:, 0], from_pandas=True), "n": [1, None, 3] * 100, "s": ["red", None, "blue"] * 100})
    want = learned(frame)
    for same in (table, table.to_batches()[0], pl.from_arrow(table), pl.from_arrow(table).lazy(), table.to_pylist()):
        assert learned(same) == want
    assert learned(table.select(["a", "n"])) == learned(frame[["a", "n"]]) == learned(pl.from_arrow(table).select("a", "n").lazy())
    names = [dict(zip(("x0", "x1", "x2"), row)) for row in gone.tolist()]
    for same in (np.ma.masked_array(x, mask=x > 1), gone.astype(object), gone.tolist(), np.where(np.isnan(gone), pd.NA, gone.astype(object))):
        assert learned(same) == learned(names)
    assert learned([["red", 1.0, None]] * 300) == learned([{"x0": "red", "x1": 1.0, "x2": None}] * 300)
    learner = blankout.Learner().partial_fit(table, y)
    assert learner.score(table, y) > 0.8
    for same in (table, pl.from_arrow(table).lazy()):
        assert [a.class_ for a in learner.answers(same)[:20]] == ["true" if c else "false" for c in learner.predict(frame)[:20]]
    assert len(blankout.Learner().partial_fit(x, y).answers(x)) == 300


def test_labels_of_every_library(binary, monkeypatch):
    """None, NA, NaN and masked labels are none, and the others keep their type."""
    monkeypatch.setenv("BLANKOUT", str(binary))
    x = np.random.default_rng(0).normal(size=(300, 3))

    def learned(labels, **settings):
        learner = blankout.Learner(**settings).partial_fit(x, labels)
        return learner._remote.export("json"), learner.classes_.tolist()

    want = learned([1, 0, None] * 100)
    assert sorted(want[1]) == [0, 1] and all(type(c) is int for c in want[1])
    for same in (
        pd.Series([1, 0, None] * 100, dtype="Int64"), pd.Series([1, 0, None] * 100, dtype="int64[pyarrow]"), pa.array([1, 0, None] * 100),
        pa.chunked_array([[1, 0, None] * 100]), pl.Series([1, 0, None] * 100), np.ma.masked_array([1, 0, 7] * 100, mask=[0, 0, 1] * 100), [1, 0, pd.NA] * 100,
    ):
        assert learned(same) == want
    assert learned(pd.Series(["u", "d", None] * 100, dtype="string")) == learned(["u", "d", None] * 100)
    assert learned(pd.Series([True, False, None] * 100, dtype="boolean")) == learned([True, False, None] * 100)
    numbers = learned([1.5, 2.0, None] * 100, loss="squared")
    for same in (pd.Series([1.5, 2.0, None] * 100, dtype="Float64"), pa.array([1.5, 2.0, None] * 100), np.ma.masked_array([1.5, 2.0, 9.0] * 100, mask=[0, 0, 1] * 100)):
        assert learned(same, loss="squared") == numbers
    for labels in (np.ones(300) * 1j, np.array(["2026-01-01"] * 300, "M8[ns]"), [datetime.date(2026, 1, 1)] * 300):
        for loss in ("logistic", "squared"):
            with pytest.raises(TypeError, match="a label .*is a .*number.*, not a "):
                learned(labels, loss=loss)


def test_what_no_event_can_have_is_refused_by_name(binary, monkeypatch):
    monkeypatch.setenv("BLANKOUT", str(binary))
    x = np.random.default_rng(0).normal(size=(4, 3))
    learner = blankout.Learner()
    for wrong, said in (
        (x * 1j, "complex128"), (x.astype("M8[s]"), r"datetime64\[s\]"), (x.astype("m8[s]"), r"timedelta64\[s\]"), (np.zeros(3, [("a", float)]), "'a'"),
        (np.array([[b"a"]]), "S1"), ((x * 1j).astype(object), "field 'x0' holds a complex"), (pd.DataFrame(x * 1j, columns=list("abc")), "field 'a' holds a complex"),
        (pd.DataFrame(x, columns=list("aab")), "two fields are named 'a'"), (pd.DataFrame(x, columns=[1, "1", 2]), "two fields are named '1'"),
        (pd.DataFrame([["u", 1]] * 4, columns=["a", "a"]), "two fields are named 'a'"), (pa.table([x[:, 0], x[:, 1]], names=["a", "a"]), "two fields are named 'a'"),
        (pl.DataFrame({"t": [datetime.timedelta(1)]}), "field 't' holds a timedelta"), (pa.table({"t": [datetime.datetime.now()]}), "field 't' holds a time"),
        (x[0], r"shape \(3,\)"), (pd.Series([1.0, 2.0]), r"shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=said):
            learner.learn_many(wrong, [1] * len(wrong))
    assert learner._remote.inspect()["events"] == 0
