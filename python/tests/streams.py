"""Random events of every kind, the same for the same seed."""

from __future__ import annotations

import random
from typing import Any

WORDS = "fine grim dull Bright ÉTÉ straße Ünder 東京 noon n42 it's x-ray".split()
COLOURS = ["red", "green", "blue", "", "a=b", "1", "true", "ß"]


def event(r: random.Random, classes: int = 2, label: Any = None, nulls: float = 0.1) -> dict[str, Any]:
    """Return an event: numbers (two of them with heavy tails), words, texts, booleans, nested ones, nulls."""
    k = r.randrange(classes)

    def perhaps(x: Any) -> Any:
        return None if r.random() < nulls else x

    e: dict[str, Any] = {
        "label": f"c{k}" if label is None else label(k, r),
        "near": perhaps(r.gauss(k, 1)),
        "far": perhaps(1e4 + 3 * r.gauss(-k, 1)),
        "heavy": perhaps(r.lognormvariate(k, 3)),
        "signed": perhaps(r.choice([-1, 1]) * r.lognormvariate(2 + k, 2.5)),
        "count": perhaps(r.randrange(4) + k),
        "color": perhaps(r.choice(COLOURS[k : k + 5])),
        "zip": perhaps(r.choice([80331, 80333, 1000 + k, 7.5])),
        "new": perhaps(r.random() < 0.3 + 0.3 * k),
        "words": perhaps([r.choice(WORDS) for _ in range(r.randrange(5))]),
        "body": perhaps(" ".join(r.choice(WORDS) for _ in range(r.randrange(7))) + "!"),
        "user": perhaps({"age": perhaps(r.randrange(90)), "at": {"home": perhaps(r.choice(["x", 1.5, True]))}}),
        "vector": perhaps([r.gauss(0, 1), k, perhaps("tail")]),
    }
    for name in [n for n in e if n != "label"]:
        if r.random() < 0.08:
            del e[name]
    if r.random() < 0.1:
        e[f"odd{r.randrange(30)}"] = r.choice([1, "s", [1, None], {"deep": {"er": "x"}}])
    if r.random() < 0.02:
        e["near"] = 1e9  # a wild reading
    return e


def events(n: int, seed: int, classes: int = 2, **more: Any) -> list[dict[str, Any]]:
    r = random.Random(seed)
    return [event(r, classes, **more) for _ in range(n)]
