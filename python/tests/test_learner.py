"""A learner in Python learns as the program does, to the bit, and outlives what processes do."""

from __future__ import annotations

import copy
import datetime
import decimal
import json
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from river import checks, datasets, evaluate, feature_extraction, metrics, preprocessing

import blankout
from blankout._events import frame_events
from blankout.river import Classifier, Regressor


@pytest.fixture(autouse=True)
def on_path(binary, monkeypatch):
    monkeypatch.setenv("BLANKOUT", str(binary))


def stream(n: int, seed: int = 0, columns: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with one value in seven missing, and labels."""
    r = np.random.default_rng(seed)
    x = r.normal(size=(n, columns))
    y = np.where(x[:, 0] + x[:, 1] + 0.3 * r.normal(size=n) > 0, "yes", "no")
    x[r.random(x.shape) < 0.15] = np.nan
    return x, y


def dicts(x: np.ndarray) -> list[dict]:
    return [{f"x{j}": None if v != v else v for j, v in enumerate(row)} for row in x.tolist()]


def model(learner: blankout.Learner) -> bytes:
    return learner._remote.export("model")


def test_every_way_is_the_programs(program):
    """Rows, dicts, frames, one by one and by the command line: the same weights to the bit."""
    x, y = stream(4000)
    rows, many, single, frame, polars = (blankout.Learner() for _ in range(5))
    rows.partial_fit(x, y)
    many.learn_many(dicts(x), y)
    for event, label in zip(dicts(x), y):
        single.learn_one(event, label)
    frame.partial_fit(pd.DataFrame(x).rename(columns=lambda j: f"x{j}"), pd.Series(y))
    polars.partial_fit(pl.DataFrame({f"x{j}": x[:, j] for j in range(5)}), y.tolist())
    want = model(rows)
    for other in (many, single, frame, polars):
        assert model(other) == want
    data = program.events("t.jsonl", [{**e, "label": str(c)} for e, c in zip(dicts(x), y)])
    program("run", "-q", "-d", data, "--label", "label", "--set", "checkpoint.directory=store", "--set", "http.address=")
    program("export", "-m", "store", "--format", "json", "-o", "theirs.json")
    rows.save(program.home / "ours")
    program("export", "-m", "ours", "--format", "json", "-o", "ours.json")
    assert (program.home / "ours.json").read_bytes() == (program.home / "theirs.json").read_bytes()
    asked = dicts(stream(50, 1)[0])
    np.testing.assert_array_equal(blankout.load(program.home / "ours").predict_proba(asked), blankout.load(program.home / "store").predict_proba(asked))
    np.testing.assert_allclose(rows.predict_proba(asked), blankout.load(program.home / "store").predict_proba(asked), rtol=1e-9, atol=1e-9)
    again = blankout.Learner.load(next((program.home / "store").glob("checkpoint-*")))
    again.learn_many(asked, ["yes"] * 50)
    rows.learn_many(asked, ["yes"] * 50)
    assert model(again) == model(rows)


def test_every_setting_is_the_programs(program):
    """More classes than max_classes, groups, a positive class: what the program makes of them, the learner does too."""
    r = np.random.default_rng(3)
    events = [{"a": float(r.normal()), "b": float(r.normal()), "label": f"c{i % (20 if i < 900 else 130)}"} for i in range(1500)]
    two = [{**e, "label": "no" if e["a"] > 0 else "yes"} for e in events]
    for n, (data, record, settings) in enumerate([
        (events, {}, {}),
        (two, {"groups": {"sensor": ["a", "b"]}, "positive": "no"}, {"silent_missing": 0.3}),
        (two, {"groups": {"sensor": ["a", "b"]}}, {"expected_missing_groups": 0.3, "half_life": 500}),
        (two, {"crosses": [["a", "b"]], "drop": ["c"]}, {"loss": "hinge", "class_weight": {"yes": 2.0}}),
    ]):
        learner = blankout.Learner(record=record, **settings)
        learner.learn_many([{k: v for k, v in e.items() if k != "label"} for e in data], [e["label"] for e in data])
        given = [*(f"record.{k}={blankout.learner._events.setting(v)}" for k, v in record.items()), *(f"learner.{k}={blankout.learner._events.setting(v)}" for k, v in settings.items())]
        path = program.events("t.jsonl", data)
        args = [a for s in ("http.address=", "record.label=label", f"checkpoint.directory=store{n}", *given) for a in ("--set", s)]
        program("run", "-q", "-d", path, *args)
        program("export", "-m", f"store{n}", "--format", "json", "-o", "theirs.json")
        (program.home / f"mine{n}").mkdir()
        learner.save(program.home / f"mine{n}" / "checkpoint-000000000000.blankout")
        program("export", "-m", f"mine{n}", "--format", "json", "-o", "ours.json")
        assert (program.home / "ours.json").read_bytes() == (program.home / "theirs.json").read_bytes(), given
        # And run goes on with what Python has learned.
        more = program.events("more.jsonl", data[:100])
        for store in ("store", "mine"):
            program("run", "-q", "-d", more, *[a.replace(f"store{n}", f"{store}{n}") for a in args])
            program("export", "-m", f"{store}{n}", "--format", "json", "-o", f"{store}.json")
        assert (program.home / "store.json").read_bytes() == (program.home / "mine.json").read_bytes(), given
        assert json.loads((program.home / "mine.json").read_bytes())["events"] == len(data) + 100


def test_predictions_agree():
    x, y = stream(2000)
    learner = blankout.Learner()
    before = learner.learn_many(x, y)
    assert before.shape == (2000, 2) and before[:2].sum() >= 0
    proba, scores, choice = learner.predict_proba(x), learner.decision_function(x), learner.predict(x)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (learner.classes_[proba.argmax(axis=1)] == choice).all() and ((scores > 0) == (choice == learner.classes_[1])).all()
    assert learner.score(x, y) == (choice == y).mean() > 0.8
    for row, event in zip(proba[:20], dicts(x)):
        np.testing.assert_allclose(list(learner.predict_proba_one(event).values()), row, rtol=1e-9, atol=1e-9)
        assert learner.predict_one(event) in ("yes", "no")
    answers = learner.answers(dicts(x)[:20], explain=2)
    assert all(a.class_ == c and len(a.explanation) == 2 for a, c in zip(answers, choice))
    assert learner.explain(dicts(x)[0])[0]
    linear = blankout.Learner(standardize="all", optimizer="adagrad", calibrate="off", noise="dropout:0.3", doubt="log")
    whole = np.nan_to_num(x)
    linear.partial_fit(whole, y)
    at = [list(linear.feature_names_in_).index(f"x{j}") for j in range(5)]
    np.testing.assert_allclose(whole @ linear.coef_[0, at] + linear.intercept_[0], linear.decision_function(whole), rtol=1e-6, atol=1e-6)


def test_labels_keep_their_type(tmp_path):
    x, _ = stream(300)
    for labels in (np.arange(300) % 3, np.arange(300) % 2 == 0, [f"c{i % 3}" for i in range(300)], (np.arange(300) % 3) / 2):
        learner = blankout.Learner()
        learner.learn_many(x, labels)
        learner.save(tmp_path / "l")
        for each in (blankout.Learner.load(tmp_path / "l"), pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)):
            assert set(each.predict(x).tolist()) <= set(np.asarray(labels).tolist()) == set(each.classes_.tolist())
            assert type(each.predict_one({"x0": 1.0})) is type(np.asarray(labels).tolist()[0])
            np.testing.assert_array_equal(each.predict_proba(x), learner.predict_proba(x))
            each.learn_many(x, labels)
    assert blankout.Learner(classes=[2, 1, 10]).classes_.tolist() == [1, 2, 10]


def test_labels_that_are_not_known():
    x, y = stream(400)
    learner, other = blankout.Learner(), blankout.Learner()
    learner.learn_many(x, [None if i % 2 else c for i, c in enumerate(y)])
    for i, event in enumerate(dicts(x)):
        other.learn_one(event, None if i % 2 else y[i])
    assert model(learner) == model(other) and learner._remote.inspect()["events"] == 400


def test_weights():
    x, y = stream(200)
    learner, other = blankout.Learner(standardize="none"), blankout.Learner(standardize="none")
    learner.learn_many(x, y, sample_weight=np.where(np.arange(200) % 2, 0.0, 1.0))
    other.learn_many(x[::2], y[::2])
    np.testing.assert_allclose(learner.predict_proba(x), other.predict_proba(x))
    with pytest.raises(blankout.RefusedEvent, match="weight"):
        learner.learn_one({"x0": 1.0}, "yes", -1)


def test_kinds_of_values():
    """Strings, booleans, lists and times are features; what is none is refused by the name of its field."""
    learner = blankout.Learner(record={"time_features": ["at"], "categorical": ["zip"]})
    frame = pd.DataFrame({
        "color": ["red", "blue", None] * 40, "new": [True, False, True] * 40, "zip": [1.0, 2.0, np.nan] * 40,
        "words": [["a", "b"], [], ["b"]] * 40, "at": pd.date_range("2026-01-01", periods=120, freq="h"), "size": np.arange(120) % 7,
    })
    learner.learn_many(frame, ["x", "y", "x"] * 40)
    assert {"color", "new", "zip", "words", "size"} <= set(learner._remote.inspect()["fields"]) and any("hour" in f for f in learner._remote.inspect()["fields"])
    assert learner.score(frame, ["x", "y", "x"] * 40) > 0.9
    other = blankout.Learner(record={"time_features": ["at"], "categorical": ["zip"]})
    for event, label in zip(frame_events(frame, ["zip"]), ["x", "y", "x"] * 40):
        other.learn_one(event, label)
    assert model(other) == model(learner)
    with pytest.raises(blankout.UnsupportedError, match="field 'at' holds a time"):
        blankout.Learner().learn_one({"at": datetime.datetime.now(), "x": 1}, "x")
    learner.learn_one({"size": decimal.Decimal("1.5")}, "x")
    with pytest.raises(blankout.UnsupportedError, match="field 'day' holds a time"):
        learner.learn_one({"day": datetime.date(2026, 1, 1)}, "x")
    with pytest.raises(ValueError, match="no class has been learned"):
        blankout.Learner().predict([{"x": 1}])
    for nothing in ([], pd.DataFrame({"size": []}), np.zeros((0, 2)), scipy.sparse.csr_matrix((0, 2))):
        assert len(learner.predict(nothing)) == 0 and len(learner.learn_many(nothing, [])) == 0
    with pytest.raises(blankout.UnsupportedError, match="field 'x' holds a complex"):
        learner.learn_one({"x": 1j}, "x")
    with pytest.raises(blankout.RefusedEvent, match="event 1: out-of-range") as refused:
        learner.learn_many([{"size": 1}, {"size": 1e31}], ["x", "x"])
    assert refused.value.row == 1 and pickle.loads(pickle.dumps(refused.value)).row == 1
    with pytest.raises(TypeError, match="one event alone"):
        learner.learn_many({"size": 1}, ["x"])
    with pytest.raises(ValueError, match=r"y has the shape \(1,\): there are 2 events"):
        learner.learn_many([{"size": 1}, {"size": 1}], ["x"])


def test_sparse():
    x = scipy.sparse.random(300, 50, density=0.1, format="csr", random_state=1)
    y = np.asarray(x[:, :25].sum(axis=1)).ravel() > np.asarray(x[:, 25:].sum(axis=1)).ravel()
    learner = blankout.Learner()
    learner.partial_fit(x, y).partial_fit(x, y)
    assert learner.score(x, y) > 0.8 and learner.classes_.dtype == bool
    np.testing.assert_array_equal(learner.predict(scipy.sparse.coo_array(x)), learner.predict(x))


def test_regression():
    r = np.random.default_rng(1)
    x = r.normal(size=(2000, 4))
    y = 100 + 5 * x[:, 0] - 3 * x[:, 1] + 0.1 * r.normal(size=2000)
    learner = blankout.Learner(loss="squared")
    before = learner.learn_many(x, y)
    assert before.shape == (2000,) and learner.score(x, y) > 0.99 and learner.metrics()["progressive_mae"] < 1
    assert abs(learner.predict_one({"x0": 1.0, "x1": 0.0, "x2": 0.0, "x3": 0.0}) - 105) < 1
    with pytest.raises(TypeError, match="predicts numbers"):
        learner.predict_proba(x)
    assert len(learner.forecast()) > 0 and learner.regression


def test_what_it_tells():
    x, y = stream(3000)
    learner = blankout.Learner(silent_missing=0.3)
    assert len(learner.forecast()) == 0 and learner.predict_one({"x0": 1.0}) is None
    learner.learn_many(x, y)
    forecast = learner.forecast()
    assert {"died", "missing", "error", "log_loss"} <= set(forecast.columns) and set(forecast["died"]) == {"declared", "silent"}
    import matplotlib

    matplotlib.use("agg")
    axes = learner.plot_forecast()
    assert len(axes.get_lines()) == 2
    assert "3,000" in learner._repr_html_() and "silent_missing" in repr(learner)
    assert isinstance(learner.warnings(), list)
    with pytest.raises(blankout.SettingsError, match="^learner.nois: unknown key"):
        blankout.Learner(nois="auto")
    with pytest.raises(blankout.SettingsError, match="optimizer"):
        blankout.Learner(optimizer="sgdd")


def test_fit_begins_anew():
    x, y = stream(500)
    learner = blankout.Learner().fit(x, y)
    once = model(learner)
    assert model(learner.fit(x, y)) == once and model(learner.partial_fit(x, y)) != once
    fixed = blankout.Learner().partial_fit(x[:1], y[:1], classes=["yes", "no", "maybe"])
    assert fixed.classes_.tolist() == ["maybe", "no", "yes"] and fixed.predict_proba(x).shape == (500, 3)


def test_a_fork():
    """Both processes go on, each with its own learner."""
    x, y = stream(300)
    learner = blankout.Learner()
    learner.learn_many(x, y)
    served = blankout.Model.from_bytes(model(learner))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def child():
        learner.learn_many(x, y)
        queue.put((learner.predict_proba(x), served.predict_proba(x)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        process = context.Process(target=child)
        process.start()
    theirs, fixed = queue.get(timeout=60)
    process.join(60)
    np.testing.assert_array_equal(served.predict_proba(x), fixed)
    assert (learner.predict_proba(x) != theirs).any()
    learner.learn_many(x, y)
    np.testing.assert_array_equal(learner.predict_proba(x), theirs)


def test_the_program_dies(binary):
    """What the learner had learned is lost, and is said to be; new ones learn in a new process."""
    x, y = stream(100)
    learner = blankout.Learner()
    learner.learn_many(x, y)
    os.kill(learner._remote.process._process.pid, signal.SIGKILL)
    with pytest.raises(blankout.ProgramError, match="exit code -9, and with it what its learners had learned"):
        learner.predict(x)
    other = blankout.Learner()
    other.learn_many(x, y)
    assert other.score(x, y) > 0.5
    with pytest.raises(blankout.ProgramError, match="there is no such program"):
        blankout.Learner(program="/no/such/program")


def test_threads_and_many_learners():
    """Learners of one process do not meet, and those that nobody has any more are let go."""
    x, y = stream(400)
    learners = [blankout.Learner() for _ in range(8)]
    threads = [threading.Thread(target=lambda each=each: [each.learn_many(x[i : i + 10], y[i : i + 10]) for i in range(0, 400, 10)]) for each in learners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({model(each) for each in learners}) == 1
    process = learners[0]._remote.process
    del learners, threads, thread
    free = len(process._free)
    for _ in range(50):
        blankout.Learner()
    blankout.Learner()
    assert len(process._free) >= free - 2


def test_interrupted_from_the_keyboard():
    """An interrupt ends the program of Python, and not the learner."""
    x, y = stream(100)
    learner = blankout.Learner()
    learner.learn_many(x, y)
    assert os.getpgid(learner._remote.process._process.pid) != os.getpgid(0)


@pytest.mark.parametrize("model", [Classifier(), Regressor()], ids=["classifier", "regressor"])
def test_rivers_checks(model):
    for check in checks.yield_checks(model):
        check(model.clone())


def test_river():
    """In a pipeline and in River's evaluation; the loss of features is learned."""
    pipeline = preprocessing.StandardScaler() | Classifier(settings={"half_life": 1000.0})
    score = evaluate.progressive_val_score(datasets.Phishing(), pipeline, metrics.Accuracy())
    assert score.get() > 0.5
    assert evaluate.progressive_val_score(datasets.Phishing(), Classifier(), metrics.Accuracy()).get() > 0.85
    assert evaluate.progressive_val_score(datasets.TrumpApproval(), Regressor(), metrics.MAE()).get() < 1
    json.dumps(pickle.loads(pickle.dumps(pipeline)).predict_proba_one({"popup_window": 1.0}))
    for stream in (datasets.synth.SEA(seed=1), datasets.synth.Waveform(seed=1)):  # whose keys are integers
        assert evaluate.progressive_val_score(stream.take(2000), Classifier(), metrics.Accuracy()).get() > 0.8
    assert evaluate.progressive_val_score(datasets.synth.Friedman(seed=1).take(2000), Regressor(), metrics.MAE()).get() < 2


@pytest.mark.parametrize("extract", [feature_extraction.BagOfWords, feature_extraction.TFIDF])
def test_what_rivers_dicts_leave_out_is_zero(extract):
    r = random.Random(1)
    words = {"cat": ["purr", "meow", "claw"], "dog": ["bark", "fetch", "howl"]}
    pipeline, right = extract() | Classifier(), 0
    for _ in range(1500):
        label = r.choice(["cat", "dog"])
        text = " ".join(r.choice(words[label] if r.random() < 0.2 else [f"w{k}" for k in range(100)]) for _ in range(12))
        right += pipeline.predict_one(text) == label
        pipeline.learn_one(text, label)
    assert right > 0.88 * 1500


def test_rivers_batches_and_weights():
    """Many rows are what one by one are, a weight of 2 is an event that came twice, and an index stays."""
    x, y = stream(300)
    frame = pd.DataFrame(dict(zip("abcde", x.T)), index=[f"row {i}" for i in range(300)])
    one, many = Classifier(settings={"standardize": "none"}), Classifier(settings={"standardize": "none"})
    fresh = Classifier()
    assert fresh.predict_many(frame).isna().all() and fresh.predict_proba_many(frame).shape == (300, 0)
    weights = np.where(np.arange(300) % 3, 1.0, 2.0)
    for event, label, w in zip(frame.to_dict("records"), y, weights):
        one.learn_one(event, label, w=w)
    many.learn_many(frame, pd.Series(y, index=frame.index), w=pd.Series(weights))
    assert one.learner._remote.export("json") == many.learner._remote.export("json")
    assert (many.predict_proba_many(frame).idxmax(axis="columns") == many.predict_many(frame)).all() and many.predict_many(frame).index.equals(frame.index)
    plain = Classifier(settings={"standardize": "none"})
    plain.learn_many(frame, y)
    assert plain.learner._remote.export("json") != many.learner._remote.export("json")
    numbers = Regressor()
    assert (numbers.predict_many(frame) == 0).all()
    numbers.learn_many(frame, np.nan_to_num(x[:, 1]), w=2)
    assert numbers.predict_many(frame).std() > 0


def test_any_key_is_its_text():
    learner, texts = blankout.Learner(), blankout.Learner()
    r = np.random.default_rng(0)
    for k, values in enumerate(r.normal(size=(300, 3)).tolist()):
        names = [(0, np.int64(1), (2, "two")), (0, True, 2.5)][k % 2]
        label = values[0] > 0
        more: dict = {"color": "red", "nested": {3: 1.5, np.int64(4): 2}} if k % 3 == 0 else {}
        learner.learn_one({**dict(zip(names, values)), **more}, label)
        if more:
            more["nested"] = {"3": 1.5, "4": 2}
        texts.learn_one({**dict(zip(map(str, names), values)), **more}, label)
    assert model(learner) == model(texts)
    assert {"0", "1", "(2, 'two')", "True", "2.5", "nested.3", "nested.4"} <= set(learner._remote.inspect()["fields"])
    learner.learn_many([{1: 2.0}, {1: 3.0}], [True, False])
    for twice in ({1: 2.0, "1": 3.0}, {1: 2.0, "1": "x"}, {"nested": {1: 2.0, "1": np.int64(3)}}):
        with pytest.raises(ValueError, match="two fields are named '1'|field \"nested.1\" twice"):
            learner.learn_one(twice, True)


def test_one_event_is_one_write_and_one_read():
    learner = blankout.Learner()
    event = {f"x{j}": float(j) for j in range(10)}
    for k in range(5):
        learner.learn_one(event, k % 2)
    learner.predict_proba_one(event)
    process, calls = learner._remote.process, []
    write, read = process._write, process._read
    process._write = lambda data: (calls.append("write"), write(data))[1]
    process._read = lambda into: (calls.append("read"), read(into))[1]
    for ask in (lambda: learner.learn_one(event, 1), lambda: learner.learn_one(event, 0, 2.0), lambda: learner.predict_proba_one(event), lambda: learner.predict_one(event)):
        calls.clear()
        ask()
        assert calls == ["write", "read"]
    process._write, process._read = write, read


def test_threads_share_a_learner():
    """Labels that come in several threads at once stay those of their events, also of a learner that nobody has asked yet."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for learner in (blankout.Learner(), pickle.loads(pickle.dumps(blankout.Learner()))):
            failed: list[BaseException] = []
            together = threading.Barrier(40)  # in rounds, because the model of labels that come one after the other is another

            def learn(k: int) -> None:
                try:
                    for _ in range(12):
                        together.wait(60)
                        learner.learn_one({"name": f"n{k}", "k": float(k % 3)}, f"label {k}")
                        learner.learn_many([{"name": f"n{k}"}], [f"label {k}"])
                        assert learner.predict_proba_one({"name": "n1"}) is not None and learner.predict_one({"name": "n1"}) is not None
                        assert learner.predict_proba(pd.DataFrame({"name": ["n1"]})).shape[0] == learner.predict([{"name": "n1"}]).shape[0] == 1
                except BaseException as e:
                    failed.append(e)

            threads = [threading.Thread(target=learn, args=(k,)) for k in range(40)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failed and [learner.predict_one({"name": f"n{k}"}) for k in range(40)] == [f"label {k}" for k in range(40)]
            assert learner._remote.inspect()["events"] == 40 * 24 and len(learner.classes_) == 40
    finally:
        sys.setswitchinterval(before)
