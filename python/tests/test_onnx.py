"""The ONNX graph of a model says what the model says, as onnxruntime runs it; what it cannot is refused by name."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import blankout
from streams import events
from test_model import EXACT, RECORD, rows, svmlight

KEPT = ("near", "far", "heavy", "count", "color", "zip", "new")


def compare(program, model, feeds, x, *args):
    """Compare the outputs of the graph for feeds with what the model, of the file m, says of x."""
    program("export", "-m", "m", "--format", "onnx", "-o", "m.onnx", *args)
    exported = onnx.load(program.home / "m.onnx")
    onnx.checker.check_model(exported)
    compare_graph(exported, model, feeds, x)
    if not args:
        assert model.to_onnx() == (program.home / "m.onnx").read_bytes()


def compare_graph(graph, model, feeds, x):
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    out = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    scores = model.decision_function(x)
    np.testing.assert_allclose(out["score"], scores.reshape(out["score"].shape), rtol=1e-9, atol=1e-9)
    if len(model.classes_) == 0:
        np.testing.assert_allclose(out["value"], model.predict(x), rtol=1e-9)
        return
    np.testing.assert_allclose(out["probabilities"], model.predict_proba(x), rtol=1e-9, atol=1e-9)
    assert out["label"].tolist() == model.predict(x).tolist()


@pytest.mark.parametrize("mode", ["none", "auto", "all", "scale"])
@pytest.mark.parametrize("classes, solver", [(2, []), (4, []), (2, ["--solver", "online"])])
def test_columns_by_number(program, mode, classes, solver):
    x, y = rows(300, 1, classes=classes)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-o", "m", "--standardize", mode, *solver)
    model = blankout.load(program.home / "m")
    asked, _ = rows(100, 2, classes=classes)
    asked[0, 1] = 1e9  # a wild reading
    compare(program, model, {"x": asked}, asked)


def test_classes_share_an_output(program):
    """A graph has weights for each class, whose output others may share."""
    x, y = rows(750, 1, classes=30)
    y = np.where(np.arange(750) < 500, y % 10, np.where(np.arange(750) < 650, y % 15, y))
    store = program.home / "store"
    settings = {"record.max_classes": 20, "checkpoint.directory": store, "http.address": "", "learner.calibrate": "off", "learner.missing_policy": "none"}
    program("run", "-d", program.write("t.svm", svmlight(x, y)), *(a for k, v in settings.items() for a in ("--set", f"{k}={v}")))
    (path,) = store.glob("checkpoint-*")
    path.rename(program.home / "m")
    model = blankout.load(program.home / "m")
    assert 20 < len(model.classes_)
    asked, _ = rows(100, 2, classes=30)
    compare(program, model, {"x": asked}, asked)


@pytest.mark.parametrize("classes", [2, 4])
def test_link(program, classes):
    """A graph has the link that calibration puts over scores."""
    x, y = rows(800, 1, classes=classes)
    link = ["--set", "learner.calibrate=on", "--set", "learner.threshold=0.6"]
    program("train", "-q", "--solver", "online", "-d", program.write("t.svm", svmlight(x, y)), "-o", "m", *link)
    asked, labels = rows(200, 2, classes=classes)
    program("predict", "-q", "-m", "m", "-d", program.write("a.svm", svmlight(asked, labels)), "-o", "a.jsonl")
    program("export", "-m", "m", "--format", "onnx", "-o", "m.onnx")
    session = onnxruntime.InferenceSession((program.home / "m.onnx").read_bytes())
    out = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"x": asked})))
    answers = [json.loads(line) for line in (program.home / "a.jsonl").read_text().splitlines()]
    assert out["label"].tolist() == [a["class"] for a in answers]
    expected = np.array([list(a["probabilities"].values()) for a in answers])
    np.testing.assert_allclose(np.sort(out["probabilities"], axis=1), np.sort(expected, axis=1), rtol=1e-9, atol=1e-9)
    sigmoid = 1 / (1 + np.exp(-out["score"]))
    plain = sigmoid[:, 0] if classes == 2 else (sigmoid / sigmoid.sum(axis=1, keepdims=True))[:, 0]
    assert np.abs(out["probabilities"][:, -1 if classes == 2 else 0] - plain).max() > 0.01  # the link is felt


def test_faults(program):
    """A graph takes what is stuck, and a placeholder, as missing, as the program does."""
    r = np.random.default_rng(1)

    def event(i, heat=None):
        z = r.normal()
        return {"label": "yes" if z > 0 else "no", "heat": 20 + z + 0.3 * r.normal() if heat is None else heat, "load": 5 + z + r.normal()}

    train = [event(i, -999.0 if i % 10 == 5 else None) for i in range(900)] + [event(i, 22.5) for i in range(60)]
    settings = ["--set", "learner.calibrate=off", "--missing-policy", "rescale"]
    program("train", "-q", "--solver", "online", "-d", program.events("t.jsonl", train), "-o", "m", *settings)
    asked = [event(i, heat) for heat in (22.5, -999.0, None, 22.25) for i in range(5)]
    answers = program.answers(program.home / "m", program.events("a.jsonl", asked))
    assert [a.get("missing") for a in answers] == [["heat"]] * 10 + [None] * 10
    assert [a.get("stuck") for a in answers] == [["heat"]] * 5 + [None] * 15
    program("export", "-m", "m", "--format", "onnx", "-o", "m.onnx")
    onnx.checker.check_model(onnx.load(program.home / "m.onnx"))
    session = onnxruntime.InferenceSession((program.home / "m.onnx").read_bytes())
    feeds = {name: np.array([[e[name]] for e in asked], np.float64) for name in ("heat", "load")}
    out = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    np.testing.assert_allclose(out["score"][:, 0], [a["score"] for a in answers], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_cosines(program, classes):
    """A graph has the cosines, for rings that no sum over single numbers separates, with and without nulls."""
    r = np.random.default_rng(1)

    def ring(null):
        y, angle = int(r.integers(classes)), 2 * np.pi * r.random()
        radius = 1 + y + 0.2 * r.normal()
        e = {"x": radius * np.cos(angle), "y": radius * np.sin(angle), "z": r.normal()}
        return {"label": "abc"[y], **{k: None if r.random() < null else v for k, v in e.items()}}

    program("train", "-q", "--solver", "online", "-d", program.events("t.jsonl", [ring(0.1) for _ in range(3000)]), "-o", "m", "--set", "learner.calibrate=off", "--doubt=log")
    program("export", "-m", "m", "--format", "json", "-o", "m.json")
    assert len(json.loads((program.home / "m.json").read_text())["cosines"]) == 256
    program("export", "-m", "m", "--format", "onnx", "-o", "m.onnx", "--missing-policy", "rescale")
    onnx.checker.check_model(onnx.load(program.home / "m.onnx"))
    session = onnxruntime.InferenceSession((program.home / "m.onnx").read_bytes())
    asked = [ring(null) for null in (0, 0.3, 0.6) for _ in range(50)]
    answers = program.answers(program.home / "m", program.events("a.jsonl", asked), "--missing-policy", "rescale")
    feeds = {name: np.array([[e[name]] for e in asked], np.float64) for name in ("x", "y", "z")}
    (scores,) = session.run(["score"], feeds)
    expected = [a["scores"] if classes > 2 else [a["score"]] for a in answers]
    expected = [list(s.values()) if isinstance(s, dict) else s for s in expected]
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "args, classes",
    [
        (["--standardize", "auto", *EXACT], 2),
        (["--standardize", "all", "--missing-policy", "rescale", *EXACT], 4),
        (["--solver", "online", "--set", "learner.threshold=0.6", "--covariance-max-fields", "0"], 2),
        (["--solver", "online", "--missing-policy", "none"], 2),
        (["--loss", "poisson", "--standardize", "auto"], 2),
    ],
)
def test_fields(program, args, classes):
    def one(e):
        e = {k: e.get(k) for k in ("label", *KEPT)}
        if "poisson" in args:
            e["label"] = int(e["label"][1:])
        e["color"] = e["color"] or None
        e["zip"] = None if e["zip"] is None else str(e["zip"])
        return e

    data, asked = ([one(e) for e in events(500, seed, classes, nulls=0.25)] for seed in (60, 61))
    program("train", "-q", "-d", program.events("t.jsonl", data), "-o", "m", *args)
    model = blankout.load(program.home / "m")
    asked[0] |= {"near": None, "color": "never seen", "far": 1e25}
    asked[1] = dict.fromkeys(KEPT)
    feeds = {}
    for name in model.fields:
        if name in ("color", "zip"):
            feeds[name] = np.array([[e[name] or ""] for e in asked], dtype=object)
        else:
            feeds[name] = np.array([[np.nan if e[name] is None else float(e[name])] for e in asked])
    compare(program, model, feeds, asked)
    rules = {a.missing_policy for a in model.answers(asked)}
    assert rules >= {"none"} if "none" in args or "poisson" in args else len(rules) > 1


@pytest.mark.parametrize("solver", [["--solver", "online"], EXACT])
@pytest.mark.parametrize("other, null", [("red", "<null>"), ("<null>", "<<null>>")])
def test_empty_string(program, solver, other, null):
    """The empty string is a category like others; null is another string in its field."""
    r = np.random.default_rng(10)
    data = []
    for i in range(600):
        c = ["", other, None, "blue"][int(r.integers(4))]
        label = int(r.random() < {"": 0.9, other: 0.1, None: 0.5, "blue": 0.3}[c])
        data.append({"label": label, "c": c, "d": "x" if r.random() < 0.5 else None, "near": float(r.normal())})
    program("train", "-q", "-d", program.events("t.jsonl", data), "-o", "m", "--missing-policy", "rescale", *solver)
    model = blankout.load(program.home / "m", missing="rescale")
    asked = [{k: e[k] for k in ("c", "d", "near")} for e in data[:100]] + [{"c": "new", "d": "", "near": None}]
    asked[-1]["d"] = None
    feeds = {
        "c": np.array([[null if e["c"] is None else e["c"]] for e in asked], dtype=object),
        "d": np.array([[e["d"] or ""] for e in asked], dtype=object),
        "near": np.array([[np.nan if e["near"] is None else e["near"]] for e in asked]),
    }
    assert model.decision_function([{"c": "", "near": 0.0}]) != model.decision_function([{"c": None, "near": 0.0}])
    compare(program, model, feeds, asked, "--missing-policy", "rescale")


@pytest.mark.parametrize("solver", [["--solver", "online", "--set", "learner.calibrate=off", "--doubt", "log"], EXACT])
def test_presence(program, solver):
    """What it tells that a number is there; that a column by number is there is that it is not 0."""
    r = np.random.default_rng(7)
    data = []
    for i in range(1500):
        e = {"label": int(r.integers(2)), "near": float(r.normal()), "far": float(r.normal())}
        data.append(e | ({"heavy": 5 + float(r.normal())} if r.random() < 0.2 + 0.6 * e["label"] else {}))
    program("train", "-q", "-d", program.events("t.jsonl", data), "-o", "m", "--standardize", "auto", *solver)
    model = blankout.load(program.home / "m", missing="rescale")  # and not fill, which is refused
    asked = [{k: e.get(k) for k in ("near", "far", "heavy")} for e in data[:100]] + [dict.fromkeys(("near", "far", "heavy"))]
    feeds = {name: np.array([[np.nan if e[name] is None else e[name]] for e in asked]) for name in model.fields}
    compare(program, model, feeds, asked, "--missing-policy", "rescale")


def test_presence_by_number(program):
    """A column by number that is there at first and often left out later: it is there where it is not 0."""
    r = np.random.default_rng(8)
    y = r.integers(2, size=1500)
    x = np.column_stack([r.normal(size=1500), 5 + r.normal(size=1500)])
    x[100:, 1] *= r.random(1400) < 0.2 + 0.6 * y[100:]
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-o", "m", "--solver", "online", "--set", "learner.calibrate=off")
    model = blankout.load(program.home / "m")
    compare(program, model, {"x": x[-100:]}, x[-100:])


@pytest.mark.parametrize("classes", [2, 3])
def test_curves(program, classes):
    """Numbers that do not act linearly, also beyond their knots and left out."""
    r = np.random.default_rng(9)
    data = []
    for _ in range(3000):
        x = float(r.normal())
        data.append({"label": int(classes * r.random() ** (2 - abs(x) / 2 if abs(x) < 3 else 0.5)), "near": x, "far": float(r.normal())})
    program("train", "-q", "-d", program.events("t.jsonl", data), "-o", "m", "--solver", "online")
    model = blankout.load(program.home / "m", missing="rescale")  # and not fill, which is refused
    asked = [{k: e[k] for k in ("near", "far")} for e in data[:60]] + [{"near": 50.0, "far": None}, {"near": None, "far": -50.0}]
    feeds = {name: np.array([[np.nan if e[name] is None else e[name]] for e in asked]) for name in model.fields}
    compare(program, model, feeds, asked, "--missing-policy", "rescale")


def refused(program, said):
    with pytest.raises(blankout.UnsupportedError, match=said):
        blankout.load(program.home / "m").to_onnx()
    with pytest.raises(AssertionError, match=said):
        program("export", "-m", "m", "--format", "onnx", "-o", "m.onnx")
    assert not (program.home / "m.onnx").exists()


@pytest.mark.parametrize(
    "args, said",
    [
        (["--loss", "dropsvm"], "kernel model"),
        (["--multiclass", "ovo"], "one-against-one"),
        (["--absent", "missing"], "go missing"),
        (["--set", "record.numeric_indices=false"], "hashed"),
    ],
)
def test_refused_by_name(program, args, said):
    x, y = rows(100, 4, classes=3 if "ovo" in args else 2)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-o", "m", *args)
    refused(program, said)


@pytest.mark.parametrize(
    "args, kept, said",
    [
        (["-f", "c.toml"], ("near", "color"), "crosses"),
        ([], ("near", "words"), 'the field "words" of words'),
        (["--set", "record.max_names=2"], ("near", "color"), "max_names"),
        (["--set", "record.bits=2"], ("near", "far", "count", "heavy", "new", "signed"), "share a column"),
    ],
)
def test_fields_refused_by_name(program, args, kept, said):
    program.write("c.toml", RECORD)
    data = [{k: v for k, v in e.items() if k in ("label", *kept)} for e in events(200, 62)]
    program("train", "-q", "-d", program.events("t.jsonl", data), "-o", "m", *args, *EXACT)
    refused(program, said)
