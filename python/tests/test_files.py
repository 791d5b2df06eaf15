"""Files of every kind are read; damaged, foreign and newer ones are refused with a sentence."""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pytest

import blankout
from conftest import ROOT

FORMAT = ROOT / "tests" / "testdata" / "format1"
EVENTS = [
    {"word": "fine", "x": 1, "y": -2.5}, {"word": "grim", "x": 0.25, "other": "new"}, {"word": ["fine", "grim"], "x": None}, {},
]


@pytest.fixture(autouse=True)
def on_path(binary, monkeypatch):
    monkeypatch.setenv("BLANKOUT", str(binary))


def test_golden_files():
    want = json.loads((FORMAT / "scores.json").read_text())
    for name, scores in want.items():
        model = blankout.load(FORMAT / f"{name}.blankout")
        np.testing.assert_allclose(model.decision_function(EVENTS), np.ravel(scores), rtol=1e-12, atol=1e-12)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_allclose(again.decision_function(EVENTS), model.decision_function(EVENTS), rtol=1e-12, atol=1e-12)
        assert repr(again) == repr(model) and blankout.Model.from_bytes((FORMAT / f"{name}.blankout").read_bytes()).events == model.events
    snapshot = blankout.load(FORMAT / "snapshot.blankout")
    assert snapshot.version > 7 << 32 and snapshot.published is not None


def test_refused(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(blankout.ForeignError, match=r"model: not a blankout file"):
        blankout.load(path)
    whole = (FORMAT / "linear.blankout").read_bytes()
    for damaged in (whole[:-1], whole[:40], whole[:100] + b"x" + whole[101:], whole + b"x"):
        path.write_bytes(damaged)
        with pytest.raises(blankout.DamagedError):
            blankout.load(path)
    with pytest.raises(FileNotFoundError):
        blankout.load(tmp_path / "none")
    with pytest.raises(OSError):
        blankout.load("http://127.0.0.1:1")
    with pytest.raises(OSError, match="ftp"):
        blankout.load("ftp://a/b")
    with pytest.raises(blankout.SettingsError, match='"most"'):
        blankout.load(FORMAT / "linear.blankout", missing="most")


def test_a_directory_stands_for_its_newest_checkpoint(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        blankout.load(tmp_path)
    shutil.copy(FORMAT / "linear.blankout", tmp_path / "checkpoint-000000000009.blankout")
    shutil.copy(FORMAT / "checkpoint.blankout", tmp_path / "checkpoint-000000000010.blankout")
    assert blankout.load(tmp_path).events == 250
    monkeypatch.chdir(tmp_path)  # the program was started elsewhere
    assert blankout.load("checkpoint-000000000009.blankout").events == 300
