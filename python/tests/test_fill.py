"""Numbers that are filled in: the scores are the program's, and so is what features add."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from streams import events
from test_scores import EXACT, RECORD, compare, rows, same, svmlight

import blankout

TOL = 1e-9  # systems of equations are solved, whose last digits are the library's


@pytest.fixture(autouse=True)
def program_fills(binary):
    said = subprocess.run([binary, "train", "--help"], capture_output=True, text=True).stdout
    if "--covariance-max-fields" not in said:
        pytest.skip("the program fills nothing in yet")


@pytest.mark.parametrize(
    "args, classes",
    [
        (["--standardize", "all"], 2),
        (["--standardize", "auto", "--noise", "dropout:0.3"], 2),
        (["--standardize", "auto"], 3),
        (["--standardize", "auto", "--multiclass", "ovo"], 3),
        (["--standardize", "none", "--loss", "hinge"], 2),
        (["--solver", "online"], 2),
        (["--solver", "online"], 3),
    ],
)
def test_filled_in(program, args, classes):
    config = program.write("c.toml", RECORD)
    data = program.events("t.jsonl", events(600, 70, classes, nulls=0.02))
    program("train", "-q", "-f", config, "-d", data, "-m", "m", "--missing-policy", "impute", "--covariance-max-fields", "256", *args, *(() if "online" in args else EXACT))
    asked = events(200, 71, classes, nulls=0.4)
    asked[0]["near"] = 1e9  # wild: nothing is told from it
    model = compare(program, program.home / "m", asked, missing="impute", tol=TOL)
    assert "impute" in {a.missing_policy for a in model.answers(asked)}
    if "ovo" not in args:
        for a, score in zip(model.answers(asked, explain=1000), model.decision_function(asked)):
            total = sum(c.score for c in a.explanation)
            want = score if classes == 2 else score[model.classes_.tolist().index(a.class_)]
            assert abs(total - want) < 1e-9 * max(1, abs(want))
            assert ("(imputed)" in {c.feature for c in a.explanation}) == (a.missing_policy == "impute")


@pytest.mark.parametrize("missing", ["none", "rescale", "auto"])
def test_noise_levels_by_missing(program, missing):
    """Events that lack much are answered by other weights, as the program answers them."""
    r = np.random.default_rng(5)

    def stream(n, nulls):
        out = []
        for _ in range(n):
            label = int(r.integers(2))
            strong = 2 * label - 1 + 0.5 * r.normal()
            e = {"label": "ab"[label], "v0": strong, **{f"v{j}": strong + 1.5 * r.normal() for j in range(1, 13)}}
            out.append({k: None if k != "label" and r.random() < nulls else v for k, v in e.items()})
        return out

    config = program.write("c.toml", '[record]\nlabel = "label"\n')
    data = program.events("t.jsonl", stream(12_000, 0))
    program("train", "-q", "-f", config, "-d", data, "-m", "m", "--solver", "online", *(["--missing-policy", missing] if missing != "auto" else []))
    asked = stream(300, 0.6)
    model = compare(program, program.home / "m", asked, tol=TOL)
    answers = model.answers(asked, explain=100)
    assert len({a.noise_level for a in answers}) > 1 or missing != "none"
    for a, score in zip(answers, model.decision_function(asked)):
        assert abs(sum(c.score for c in a.explanation) - score) < 1e-9


@pytest.mark.parametrize("loss", ["squared", "poisson"])
@pytest.mark.parametrize("missing", ["impute", "none", "auto"])
def test_numbers_filled_in(program, loss, missing):
    """What an event lacks widens its interval, whether it is filled in or not."""

    def label(k, r):
        return k + r.randrange(3) if loss == "poisson" else 10 + 2 * k + r.random()

    data = program.events("t.jsonl", events(900, 70, nulls=0.02, label=label))
    program("train", "-q", "-f", program.write("c.toml", RECORD), "-d", data, "-m", "m", "--solver", "online", "--loss", loss)
    asked = events(200, 71, nulls=0.4, label=label)
    answers = compare(program, program.home / "m", asked, missing=missing, tol=TOL).answers(asked)
    widths = [(a.high - a.low) / (max(a.value, 1e-9) ** 0.5 if loss == "poisson" else 1) for a in answers if a.low > 0]
    assert max(widths) > (1.001 if loss == "poisson" else 1.02) * min(widths)
    if missing == "impute":
        assert "impute" in {a.missing_policy for a in answers}


def test_known_columns_filled_in(program):
    x, y = rows(400, 1)
    program("train", "-q", "-d", program.write("t.svm", svmlight(x, y)), "-m", "m", "--absent", "missing", "--missing-policy", "impute", "--covariance-max-fields", "256", "--standardize", "auto")
    asked, _ = rows(100, 2)
    asked[::3, 1:3] = 0
    want = program.answers(program.home / "m", program.write("a.svm", svmlight(asked, np.zeros(100, int))), "--missing-policy", "impute")
    model = blankout.load(program.home / "m", missing="impute")
    for got, w in zip(model.answers(asked), want, strict=True):
        w.pop("id", None)
        same(got, w, TOL)
    assert any(a.missing_policy == "impute" for a in model.answers(asked))
