"""A learner that learns event by event."""

from __future__ import annotations

import html
import json
import os
import tomllib
from pathlib import Path
from typing import Any, Iterable, Mapping

import numpy as np

from . import _events, _program
from ._remote import Remote
from .model import Predictor


class Learner(Predictor):
    """Learns a linear model event by event, as if every event had been seen under every possible loss of features.

        learner = blankout.Learner()
        for x, y in stream:
            p = learner.predict_proba_one(x)
            learner.learn_one(x, y)

    It learns in a process of the program blankout beside this one, with the same result to the bit as the program itself.
    It can be pickled and copied, used after a fork, and used by several threads.

    Args:
        classes: all of them; by default they are found as they come, up to record's max_classes.
        record: keys of the section record of the configuration: {"categorical": ["zip"], "time_features": ["time"]} …
        program: path of the program; by default the one that is installed with this package, or on PATH.
        settings: keys of the section learner: loss="logistic", half_life=10_000, silent_missing=0.3, expected_missing=0.5 …;
            blankout config init lists them.

    Raises:
        SettingsError: a setting is not known, or has a value that it cannot have.
    """

    _places: tuple[Any, dict[Any, int]] = (None, {})  # of the classes, and what they were made of
    _columns: list[str] | None = None  # names of the columns of arrays, in place of xj
    _sparse = False  # arrays are sparse, too

    def __init__(
        self, *, classes: Iterable[Any] | None = None, record: Mapping[str, Any] | None = None, program: str | os.PathLike[str] | None = None, **settings: Any
    ):
        self._program, self._record = program, dict(record or {})
        self._settings = settings
        self._given: list[Any] | None = None
        self._labels: dict[str, Any] = {}  # as they came, by their text
        self._names: list[str] = []  # of classes, in the order of probabilities
        self._numeric: bool | None = None  # whether this is regression; None if it is not known yet
        self._state: bytes | None = None  # of a learner that no process holds
        self._live: Remote | None = None
        if classes is not None:
            self._fix(classes)
        self._start()

    def _fix(self, classes: Iterable[Any]) -> None:
        """Have these be all classes, in ascending order."""
        self._given = np.unique(np.asarray(list(classes))).tolist()
        self._record["classes"] = [_events.spell(c) for c in self._given]
        self._labels.update(zip(self._record["classes"], self._given))

    def _list(self) -> list[str]:
        """Return the settings as the program takes them."""
        named = [("learner", self._settings), ("record", self._record)]
        return [f"{section}.{key}={_events.setting(value)}" for section, keys in named for key, value in keys.items()]

    def _start(self) -> Remote:
        """Begin, or go on from the state, in the program."""
        if self._state is None:
            live = Remote(b"n", json.dumps(self._list()).encode(), path=self._program)
        else:
            live = Remote(b"l", (2).to_bytes(8, "little"), b"[]", self._state, path=self._program)
        told = live.inspect()
        self._times = frozenset(self._record.get("time_features", ())) | frozenset(filter(None, [self._record.get("time")]))
        self._numeric, self._names = told["regression"], told["classes"]
        for text, kind in (told.get("client") or {}).get("labels", {}).items():
            self._labels.setdefault(text, _events.READ_LABELS[kind](text))
        self._live, self._state = live, None
        return live

    def _encode(self, x: Any) -> _events.Events:
        return _events.read(x, self._times, self._record.get("categorical", ()), self._sparse, self._columns)

    def _flags(self) -> int:
        return _program.UNSEEN

    # One event at a time, as River has it.

    def learn_one(self, x: Mapping[str, Any], y: Any = None, sample_weight: float | None = None) -> None:
        """Learn an event.

        Args:
            x: its fields. What is None or NaN is missing; so is a field that is left out although events usually have it.
            y: its label: a class, or of regression a number. None if it is not known.
            sample_weight: how much it counts; 2 is as if it had come twice.
        """
        live = self._live or self._remote
        live.one(x, self._times, _program.LEARN, None if y is None else self._number(live, y), sample_weight)

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Any, float]:
        """Return the probability of each class that has been learned."""
        self._need_classes()
        known = self._known()
        p = self._remote.one(x, self._times, _program.UNSEEN)
        return {label: p[place] for label, place in known.items()} if len(known) > 1 else dict.fromkeys(known, 1.0)

    def predict_one(self, x: Mapping[str, Any]) -> Any:
        """Return the predicted class, None before any has been learned; or of regression the predicted number, NaN then."""
        if self.regression:
            return self._remote.one(x, self._times, _program.UNSEEN)[0]
        choice = int(self._remote.one(x, self._times, _program.CHOICE | _program.UNSEEN)[0])
        known = self._known()
        return next((label for label, place in known.items() if place == choice), next(iter(known), None))

    # Many events at a time, as scikit-learn has it.

    def learn_many(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Learn events in their order, and return what was predicted of each before it was learned.

        Args:
            X: a list of dicts; a DataFrame of pandas or Polars; an array, of which column j is the field xj; or a sparse
                matrix of SciPy. None, NaN and NA are missing.
            y: labels, shape (n,); None or NaN of an event whose label is not known.
            sample_weight: shape (n,).

        Returns:
            Probabilities of the classes known after the last event, shape (n, K); of regression values, shape (n,).

        Raises:
            RefusedEvent: an event cannot be used. Those before it have been learned.
        """
        events = self._encode(X)
        p = self._learn(events, y, sample_weight, _program.LEARN | _program.ANSWER)
        return np.asarray(p[:, 0] if self.regression else p)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "Learner":
        """Learn events in their order; see learn_many.

        Args:
            classes: all of them, where they are to be known before the first event.
        """
        if classes is not None and self._given is None and not self._names and not self.regression:
            self._fix(classes)
            self._start()
        self._learn(self._encode(X), y, sample_weight, _program.LEARN)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Learner":
        """Forget everything and learn these events."""
        if not self.regression and self._given is None:
            self._names = []
        self._state = None
        self._start()
        return self.partial_fit(X, y, sample_weight=sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted classes, or of regression numbers, shape (n,). X is as for learn_many."""
        events = self._encode(X)
        if self.regression:
            return self._remote.take(events, self._flags())[:, 0]
        choice = self._remote.take(events, _program.CHOICE | self._flags())[:, 0].astype(np.int64)
        known = self._known()
        if len(choice) > 0 and not known:
            raise ValueError("no class has been learned yet")
        where = np.zeros(max([*known.values(), *choice.tolist(), 0]) + 1, np.int64)
        where[list(known.values())] = np.arange(len(known))
        return np.asarray(_array(known)[where[choice]])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each of classes_, shape (n, K). X is as for learn_many."""
        return self._chances(self._encode(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log-odds of the second of two classes, shape (n,), else the logarithm of each probability, (n, K).

        X is as for learn_many.
        """
        with np.errstate(divide="ignore"):
            p = np.log(self.predict_proba(X))
        return np.asarray(p[:, 1] - p[:, 0] if p.shape[1] == 2 else p)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of labels predicted right, or of regression R2. X is as for learn_many."""
        y, p = np.asarray(y), self.predict(X)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        if not self.regression:
            return float(np.average(np.array([a == b for a, b in zip(p.tolist(), y.tolist())], np.float64), weights=weight))
        mean = np.average(y, weights=weight)
        return float(1 - np.average((y - p) ** 2, weights=weight) / np.average((y - mean) ** 2, weights=weight))

    def _learn(self, events: _events.Events, y: Any, sample_weight: Any, flags: int) -> np.ndarray:
        live = self._remote
        labels = None if y is None else self._label_numbers(live, y)
        weights = None if sample_weight is None else _events.numeric(sample_weight).astype(np.float64)
        for name, values in (("y", labels), ("sample_weight", weights)):
            if values is not None and values.shape != (events.n,):
                raise ValueError(f"{name} has the shape {values.shape}: there are {events.n} events")
        return live.take(events, flags, labels, weights)

    def _label_numbers(self, live: Remote, y: Any) -> np.ndarray:
        """Return labels as the program counts them, or of regression as they are; NaN for none."""
        if hasattr(y, "to_numpy") and not hasattr(y, "to_pylist") and (array := y.to_numpy()).dtype.kind in "biuU":
            y = array
        if isinstance(y, np.ndarray) and not isinstance(y, np.ma.MaskedArray) and y.ndim == 1 and y.dtype.kind in ("biuf" if self.regression else "biuU"):
            if self.regression:
                return y.astype(np.float64)
            unique, at = np.unique(y, return_inverse=True)
            return np.array([self._number(live, v) for v in unique.tolist()], np.float64)[at] if len(unique) else np.zeros(0)
        for method in ("to_pylist", "to_list", "tolist"):  # of Arrow, of pandas and Polars, of what is masked
            if hasattr(y, method) and (method != "tolist" or isinstance(y, np.ma.MaskedArray)):
                y = getattr(y, method)()
        return np.array([self._number(live, v) for v in y], np.float64)

    def _number(self, live: Remote, label: Any) -> float:
        """Return the number of a label in the program's list, to which it is added if it is new, or that it is in regression; NaN for none."""
        kind = type(label)
        if kind is not str and kind is not bool and _events.is_null(label):
            return np.nan
        if self._numeric:
            return _events.target(label)
        text = label if kind is str else _events.spell(label)
        number = live.labels.get(text)
        if number is None:
            self._labels.setdefault(text, label.item() if isinstance(label, np.generic) else label)
            number = live.labels[text] = live.add_labels([text])[0]
        return number

    # What there is to tell.

    @property
    def regression(self) -> bool:
        """Whether labels are numbers: the loss says so."""
        if self._numeric is None:
            self._start()
        return bool(self._numeric)

    def _known(self) -> dict[Any, int]:
        """Return the classes that have come, with their places among the program's probabilities."""
        names, live = self._names, self._live or self._remote
        if "" in names or len(names) < max(len(live.labels), 1):  # the name of a class that has not come is empty
            names = self._names = live.add_labels([])[1]
        of = (names, len(self._labels))
        if self._places[0] != of:
            self._places = of, {self._labels.get(text, text): place for place, text in enumerate(names) if text}
        return self._places[1]

    def _chances(self, x: _events.Events) -> np.ndarray:
        """Return probabilities of the classes that have come, shape (n, K)."""
        self._need_classes()
        places = list(self._known().values())
        p = self._remote.take(x, self._flags())
        return p[:, places] if len(places) > 1 else np.ones((len(p), len(places)))

    def _need_classes(self) -> None:
        if self.regression:
            raise TypeError(f"a learner of the loss {self._settings.get('loss')!r} predicts numbers: it has no probabilities of classes")

    @property
    def classes_(self) -> np.ndarray:
        """The classes in the order of predict_proba: ascending if they were given, else as they came. Shape (K,)."""
        return _array(self._known())

    def metrics(self) -> dict[str, Any]:
        """Return what was measured of each event before it was learned: error, log-loss, AUC …, as blankout inspect --json has it."""
        measures: dict[str, Any] = self._remote.inspect()["measures"]
        return measures

    def warnings(self) -> list[str]:
        """Return what looks wrong, a sentence each."""
        return [w["text"] for w in self._remote.inspect().get("warnings", ())]

    def forecast(self) -> Any:
        """Return the error and log-loss that are expected if features go missing, a DataFrame of pandas.

        Its columns are died ("declared", where missing fields are known, or "silent"), missing (their share), and what is
        measured: error (percent) and log_loss, or of regression rmse. It is empty before there is a forecast.
        """
        import pandas as pd

        forecast = self.metrics().get("forecast") or {}
        rows = [{"died": died, **row} for died in ("declared", "silent") for row in forecast.get(died) or ()]
        return pd.DataFrame(rows, columns=None if rows else ["died", "missing", "error", "log_loss"])

    def plot_forecast(self, ax: Any = None) -> Any:
        """Draw the forecast's error over the share of features that are missing, and return the axes of Matplotlib."""
        import matplotlib.pyplot as plt

        ax = ax or plt.subplots()[1]
        frame = self.forecast()
        if len(frame) > 0:
            what = "error" if "error" in frame else frame.columns[-1]
            for died, rows in frame.groupby("died"):
                ax.plot(rows["missing"], rows[what], marker="o", label=f"{died} losses")
            ax.set_ylabel("error, %" if what == "error" and not self.regression else what)
            ax.legend()
        ax.set_xlabel("share of features that are missing")
        ax.set_ylim(bottom=0)
        return ax

    @property
    def coef_(self) -> np.ndarray:
        """The weights by output and feature, of values as they come, not standardized. Shape (1 or K, features).

        A field of strings has a feature NAME=VALUE for each value. A number may have further features, NAME@KNOT and
        NAME@present, which make its effect a curve.
        """
        return self._weights()[0]

    @property
    def intercept_(self) -> np.ndarray:
        """The intercepts by output, shape (1 or K,)."""
        return self._weights()[2]

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the features in the order of coef_."""
        return np.array(self._weights()[1], dtype=object)

    def __repr__(self) -> str:
        given = [f"{key}={value!r}" for key, value in self._settings.items()]
        if self._given is not None:
            given.append(f"classes={self._given!r}")
        record = {key: value for key, value in self._record.items() if key != "classes" or self._given is None}
        if record:
            given.append(f"record={record!r}")
        return f"Learner({', '.join(given)})"

    def _repr_html_(self) -> str:
        told = self._remote.inspect()
        measures = told["measures"]
        rows = [("events", f"{told['events']:,}"), ("loss, noise", f"{told['loss']}, {told['noise']}")]
        if not told["regression"]:
            rows.append(("classes", ", ".join(c for c in told["classes"][:10] if c) + (" …" if len(told["classes"]) > 10 else "")))
        rows.append(("fields", ", ".join(told["fields"][:12]) + (" …" if len(told["fields"]) > 12 else "")))
        for key, unit in (("progressive_error", " %"), ("progressive_log_loss", " nats"), ("auc", ""), ("progressive_mae", ""), ("progressive_rmse", ""), ("r2", "")):
            if measures.get(key) is not None:
                rows.append((key.replace("_", " "), f"{measures[key]:.4g}{unit}"))
        rows += [("warning", w["text"]) for w in told.get("warnings", ())]
        cells = "".join(f"<tr><th style='text-align:left'>{html.escape(a)}</th><td style='text-align:left'>{html.escape(b)}</td></tr>" for a, b in rows)
        return f"<b>{html.escape(repr(self))}</b><table>{cells}</table>"

    # Where it is kept.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file, a checkpoint: Learner.load goes on from it, and blankout serve and predict read it."""
        path = Path(path)
        part = path.with_name(path.name + ".part")
        with open(part, "wb") as file:
            file.write(self._freeze())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, record: Mapping[str, Any] | None = None, program: str | os.PathLike[str] | None = None, **settings: Any) -> "Learner":
        """Go on from a file that save wrote, or from a checkpoint of blankout run.

        Args:
            record, settings: replace those that it was saved with; a checkpoint of blankout run does not hold them, and wants
                those that differ from the defaults.
        """
        self: Learner = cls.__new__(cls)
        self._program, self._record, self._settings, self._given = program, dict(record or {}), settings, None
        self._labels, self._names, self._numeric, self._live = {}, [], None, None
        given = json.dumps(self._list()).encode()
        live = Remote(b"l", len(given).to_bytes(8, "little"), given, Path(path).read_bytes(), path=program)
        told = live.inspect()
        for key, text in (one.split("=", 1) for one in told.get("settings", ())):
            section, key = key.split(".", 1)
            (self._settings if section == "learner" else self._record)[key] = tomllib.loads(f"x = {text}")["x"]
        self._state = bytes(live.ask(b"w", json.dumps(told.get("client") or {}).encode()).data)
        self._start()
        return self

    def _freeze(self) -> bytes:
        """Return the state, from which the learner goes on."""
        if self._live is None and self._state is not None:
            return self._state
        kept = {"labels": {text: _events.type_of(label) for text, label in self._labels.items()}}
        return bytes(self._remote.ask(b"w", json.dumps(kept).encode()).data)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None, "_state": self._freeze()}


def _array(labels: Iterable[Any]) -> np.ndarray:
    """Return labels as an array, of objects if they are of several types."""
    known = list(labels)
    return np.array(known) if known and len({type(c) for c in known}) == 1 else np.array(known, dtype=object)
