"""Events that nobody would send are read as the program reads them, or refused as it refuses them."""

from __future__ import annotations

import blankout
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streams import events
from test_scores import RECORD, same

# Versions of Unicode differ beyond.
TEXT = st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs", "Cn"])
# Names that the model knows, in places where it does not, and strange ones.
NAMES = st.sampled_from(
    ["near", "far", "color", "zip", "body", "words", "user", "user.age", "age", "at", "home", "vector", "vector[1]",
     "label", "", "a.b", "[0]", "color^near", "é\n"]
) | st.text(TEXT, max_size=5)
NUMBERS = st.integers(-(10**18), 10**18) | st.floats(-1e29, 1e29, allow_nan=False)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(TEXT, max_size=12) | st.sampled_from(["red", "fine", "Fine DULL\u0130\u03a3 n42", "80331"])
VALUES = st.recursive(LEAVES, lambda v: st.lists(v, max_size=4) | st.dictionaries(NAMES, v, max_size=4), max_leaves=12)
EVENTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=8), min_size=20, max_size=60)


@pytest.fixture(scope="module")
def learned(binary, tmp_path_factory):
    from conftest import Program

    program = Program(binary, tmp_path_factory.mktemp("random"))
    config = program.write("c.toml", RECORD)
    program("train", "-q", "--solver", "online", "-f", config, "-d", program.events("t.jsonl", events(800, 20)), "-m", "model")
    return program, blankout.load(program.home / "model")


@settings(max_examples=6, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(EVENTS)
def test_random_events(learned, asked):
    program, model = learned
    usable = []
    for e in asked:
        try:
            model.predict([e])
            usable.append(e)
        except blankout.RefusedEvent:
            pass
    want = program.answers(program.home / "model", program.events("a.jsonl", asked), "--refused", "skip")
    assert len(want) == len(usable)
    if usable:
        for got, w in zip(model.answers(usable), want, strict=True):
            same(got, w)


def test_what_nothing_is_known_of_is_refused(learned):
    program, model = learned
    asked = [{"near": 1.5}, {}, {"near": None}, {"nobody": 1, "knows": "it"}]
    model.unseen = "refuse"
    for ask in (model.predict, model.answers, model.decision_function):
        with pytest.raises(blankout.RefusedEvent, match="the model has seen no feature of the event: nobody, knows=it") as e:
            ask(asked)
        assert e.value.reason == "unseen" and e.value.row == 3
    model.predict(asked[:3])
    model.unseen = "answer"
    assert len(model.predict(asked)) == 4
    want = program.answers(program.home / "model", program.events("a.jsonl", asked), "--unseen", "refuse", "--refused", "skip")
    assert len(want) == 3


@pytest.mark.parametrize("x", [float("nan"), float("inf"), -float("inf")])
def test_no_numbers_are_null(learned, x):
    _, model = learned
    assert model.answers([{"near": x}]) == model.answers([{"near": None}])


@pytest.mark.parametrize(
    "event, reason",
    [
        ({"near": 1e31}, "out-of-range"),
        ({"near": 1e30, "color": "red", "user": {"x" * 5000: 1}}, "oversize"),
        ({"words": ["w"] * 100_001}, "too-many"),
        ({"near": {1, 2}}, "syntax"),
        ({3: 4}, "syntax"),
    ],
)
def test_refusals(learned, event, reason):
    _, model = learned
    with pytest.raises(blankout.RefusedEvent) as e:
        model.predict([{}, event])
    assert e.value.reason == reason and e.value.row == 1
