"""A model that has been learned, and what it says about events."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import inputs
from .container import File, decode
from .errors import DamagedError, FileError, NewerError, RefusedEvent, UnsupportedError
from .events import Batch, Decoder
from .kernels import Kernel, Support
from .fill import APART, OBSERVED, Covariance, Repair, widen
from .missing import RANGES, RULES, Missing, Verdict
from .pairs import couple
from .record import Record
from .schema import Schema, strict
from .standardize import FIRST_HAT, STATISTICS, Curves, Scaler

CLASS_LOSSES = (
    "hinge", "squared-hinge", "logistic", "quadratic", "probit", "erf", "t-logistic", "exponential",
    "ramp", "fdrop", "dropsvm",
)
NUMBER_LOSSES = ("linear", "absolute", "quantile", "huber", "poisson")
INTERCEPT, FILLED_IN = "(intercept)", "(imputed)"  # among what adds to a score
MAX_VARIANCE = 10.0  # of the logarithm of a count
INTERVAL = 1.6448536269514722  # deviations to either side that hold nine of ten
MOST_LIMIT = 1000.0  # of a set that excludes no class
MOST_UNKNOWN = 20  # features that an answer names as unknown


@dataclass(frozen=True)
class Contribution:
    """What one feature adds to a score: its value, standardized, times its weight, times the
    factor of the rule for missing features."""

    feature: str
    value: float
    weight: float
    score: float


@dataclass(frozen=True)
class Answer:
    """What a model says about one event.

    Attributes:
        class_, probability: the predicted class and its probability; None where labels are numbers.
        probabilities: by class.
        set: the classes that are not excluded, the most probable first: the class of the event is
            among them as often as learner.coverage says. Empty where the model has too few events to say.
        value, low, high: where labels are numbers the predicted one, and the bounds that nine of ten
            targets, or learner.coverage, lie between; None where the model does not know them. Of an event of two classes
            in which missing numbers are filled in, low and high are where the probability would lie in
            nine of ten cases if these were known, and around probability.
        score: that of the class, or of the value; of two classes the second's.
        scores: as decision_function has them.
        missing: names of the fields that are known to be missing.
        missing_policy: what the scores were made by because of that, "" if nothing is missing; of several the
            one with the largest share.
        mixture_weights: those of the policies in the scores, by policy, if an explanation was asked for and
            something is missing.
        noise_level: the noise that the weights were learned with.
        version: of the model, 0 of one that was not published.
        unseen: names of features that the model has not seen, the first twenty of them.
        explanation: what adds most to the score of the class (of two classes the second's).
    """

    id: str
    score: float
    scores: list[float]
    class_: str | None = None
    probability: float | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    set: list[str] = field(default_factory=list)
    value: float | None = None
    low: float | None = None
    high: float | None = None
    missing: list[str] = field(default_factory=list)
    mixture_weights: dict[str, float] = field(default_factory=dict)
    missing_policy: str = ""
    noise_level: str = ""
    version: int = 0
    unseen: list[str] = field(default_factory=list)
    explanation: list[Contribution] = field(default_factory=list)


@dataclass(frozen=True)
class _Rows:
    """Values by column: row slot[i] of values belongs to column columns[i], which ascend."""

    columns: np.ndarray
    slots: np.ndarray
    values: np.ndarray

    @classmethod
    def parse(cls, file: File, width: int) -> "_Rows":
        data = file.block("columns")
        if len(data) % 4 or width < 1:
            raise DamagedError(f"block columns: {len(data)} bytes, rows of {width} values")
        columns = np.frombuffer(data, "<u4").astype(np.int64)
        parts, size = [], 0
        while size < 8 * width * len(columns):
            part = file.block(f"rows/{len(parts):04d}")
            if len(part) == 0:
                break
            parts.append(np.frombuffer(part, "<f8") if len(part) % 8 == 0 else np.zeros(0))
            size += len(part)
        if size != 8 * width * len(columns):
            raise DamagedError(f"the rows are {size} bytes, want {8 * width * len(columns)}")
        values = np.concatenate(parts) if parts else np.zeros(0)
        slots = np.argsort(columns, kind="stable")
        if (np.diff(columns[slots]) == 0).any():
            raise DamagedError("block columns: a column is there twice")
        return cls(columns[slots], slots, values.reshape(len(columns), width))

    def find(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the columns have a row, and the slots of those."""
        at = np.searchsorted(self.columns, columns)
        known = at < len(self.columns)
        known[known] = self.columns[at[known]] == columns[known]
        return known, self.slots[at[known]]


@dataclass(frozen=True)
class _Level:
    """The weights of one noise level.

    Attributes:
        weights: shape (rows, outputs).
        covered: those of the columns of the covariance, shape (columns, outputs); None without one.
    """

    noise: str
    intercept: np.ndarray
    weights: np.ndarray
    covered: np.ndarray | None


def _limits(sets: dict | None) -> tuple[tuple[float, ...], list[tuple[float, ...]]]:
    """Return by range of what is missing the limit of sets and intervals, -1 where it is not known, and those by class."""
    if sets is None:
        return (-1.0,) * (1 + RANGES), []
    strict("sets", sets, "coverage", "limits", "classes")
    common, *classes = (tuple(float(x) for x in limits) for limits in (sets["limits"], *(sets.get("classes") or ())))
    for limits in (common, *classes):
        if len(limits) != 1 + RANGES or not all((0 <= x <= MOST_LIMIT or x == -1) and (x < 0) == (c < 0) for x, c in zip(limits, common)):
            raise FileError(f"block model: sets with the limits {limits}")
    return common, classes


def _fits(layout: dict, width: int, outputs: int) -> bool:
    """Say whether rows of a width have room for all weights of a layout."""
    shared = layout.get("outputs")
    if shared is not None:
        if len(shared) != outputs or min(shared) < -1:
            return False
        outputs = max(1, max(shared) + 1)
    last = width - outputs
    return all(0 <= part["weight"] <= last and 0 <= part.get("lag", 0) <= last for part in (layout, *(layout.get("mix") or ())))


class Model:
    """A model of blankout. It never changes, and may be used by several threads.

    Attributes:
        kind: "linear" or "kernel".
        classes_: the names of the classes, shape (K,); of two classes scores are those of the
            second. Empty where labels are numbers.
        positive: the name of the positive one of two classes, "" of more or of numbers.
        loss, noise: what was minimized, as the program's flags have it.
        version: of a snapshot, larger means published later; 0 otherwise.
        published: when, None for a model that was not.
        events: how many were learned from.
        unseen: what becomes of an event of which the model has seen no feature: "refuse", or
            "answer", as if it had none. It may be set.
    """

    unseen = "refuse"

    def __init__(self, file: File, missing: str = "auto"):
        self.kind = file.kind
        head = _json(file, "model")
        strict(
            "the model", head, "schema", "scaler", "loss", "noise", "outputs", "pairs", "intercept", "layout",
            "experts", "link", "positive", "threshold", "missing", "faults", "dead", "levels", "residual", "sets", "stale", "events", "trained", *(["kernel", "support_vectors"] if file.kind == "kernel" else []),
        )
        if head.get("link") is not None:
            raise NewerError(
                "the model has a link that learner.calibrate put over its scores, which this package does not compute: "
                'ask the program, by predict or POST /v1/predict, export it as ONNX, or learn with learner.calibrate = "off"'
            )
        if head.get("faults") is not None:
            fields = head["schema"]["fields"]
            stuck = ", ".join(fields[x["field"]]["name"] for x in head["faults"].get("stuck") or ())
            what = f"fields that are stuck ({stuck})" if stuck else "readings outside of limits"
            how = 'learner.stuck = "log"' if stuck else "learner.silent_missing = 0"
            raise NewerError(
                f"the model takes {what} as missing, which this package does not: "
                f"ask the program, by predict or POST /v1/predict, export it as ONNX, or learn with {how}"
            )
        layout = head["layout"]
        strict("layout", layout, "width", "weight", "lag", "average", "stats", "scale", "outputs", "mix")
        scaler = head.get("scaler") or {}
        strict("scaler", scaler, "mode", "dense", "unfilled", "curves")
        if scaler.get("mode", "") not in ("", "none", "auto", "all", "scale"):
            raise NewerError(f'the model standardizes by "{scaler["mode"]}", which this package does not know')
        self._schema = Schema.parse(head["schema"], file)
        dense = () if scaler.get("unfilled") else scaler.get("dense") or ()
        self._scaler = Scaler(scaler.get("mode") or "none", np.array(dense, np.int64))
        self._curves = Curves.parse(scaler["curves"]) if scaler.get("curves") else None
        self._missing = Missing.parse(head.get("missing")).forced(missing)
        self._record = Record.parse(file)
        self._outputs: int = head["outputs"]
        self._pairs: bool = head.get("pairs", False)
        self._intercept = np.array(head["intercept"] or (), np.float64)
        self._threshold: float = head.get("threshold", 0)
        self.loss, self.noise, self.events = head["loss"], head["noise"], head["events"]
        family = self.loss.partition(":")[0]
        if family not in CLASS_LOSSES + NUMBER_LOSSES:
            raise NewerError(f'the model was trained with the loss "{self.loss}", which this package does not know: use a newer one')
        self._numbers, self._counts = family in NUMBER_LOSSES, family == "poisson"
        residual = head.get("residual")
        if residual is not None:
            strict("residual", residual, "mean", "deviation", "by_value")
            if residual.get("by_value"):
                strict("by_value", residual["by_value"], "at", "factor")
        self._residual = residual
        self._limits, self._class_limits = _limits(head.get("sets"))
        k = len(self._schema.classes)
        if (
            self._outputs < 1 or len(self._intercept) != self._outputs or not 0 <= self._threshold < 1
            or self._pairs and (k < 3 or self._outputs != k * (k - 1) // 2)
        ):
            raise FileError(f"block model: {self._outputs} outputs and {len(self._intercept)} intercepts do not fit")
        self.classes_ = self._class_names(k)
        self.positive: str = head.get("positive") or (self._schema.classes[1] if k == 2 else "")
        self._rows: _Rows | None = None
        self._statistics: np.ndarray | None = None
        self._support: Support | None = None
        self._covariance: Covariance | None = None
        self._weights = np.zeros((0, self._outputs))
        self._read_weights(file, layout, head.get("kernel", ""))
        self._levels = [self._level(self.noise, self._intercept, self._weights)]
        self._levels += [self._read_level(level) for level in head.get("levels") or ()]
        if not all(0 <= level < len(self._levels) for level in self._missing.levels) or len(self._missing.levels) != RANGES:
            raise FileError(f"block model: levels {self._missing.levels} for missing fields, of {len(self._levels) - 1}")
        if missing == "impute" and self._covariance is None:
            raise ValueError('missing "impute": the model has no covariance of numeric columns to fill in from')
        snapshot = _json(file, "snapshot") if "snapshot" in file.blocks else {}
        self.version: int = snapshot.get("version", 0)
        self.published = _time(snapshot.get("published"))
        self._decoder = Decoder(self._schema, self._record)

    @classmethod
    def from_bytes(cls, data: bytes, missing: str = "auto") -> "Model":
        """Read a model from the bytes of a checkpoint, snapshot or model file.

        Args:
            missing: the rule for missing features: "auto" (the model's own), "none", "rescale" or "impute".

        Raises:
            FileError: the data cannot be used; the sentence says why.
        """
        return cls.from_file(decode(data), missing)

    @classmethod
    def from_file(cls, file: File, missing: str = "auto") -> "Model":
        """Read a model from the blocks of a file; see from_bytes."""
        try:
            return cls(file, missing)
        except (KeyError, TypeError, AttributeError, IndexError) as e:
            raise FileError(f"the blocks of the file do not make a model: {e!r}") from e

    def _class_names(self, k: int) -> np.ndarray:
        if self._numbers:
            return np.zeros(0, dtype=object)
        n = k if self._pairs else 2 if self._outputs == 1 else self._outputs
        names = self._schema.classes
        return np.array([names[i] if i < k and names[i] else str(i) for i in range(n)], dtype=object)

    def _read_weights(self, file: File, layout: dict, kernel: str) -> None:
        width, stats, k = layout["width"], layout["stats"], self._outputs
        if self.kind == "kernel":
            self._support = Support(file, Kernel.parse(kernel), k)
            if width == 0:
                return
        fits = stats < 0 or stats <= width - STATISTICS
        if self.kind == "linear":
            fits = fits and _fits(layout, width, k)
        if not fits:
            raise FileError(f"block model: the layout {layout} does not fit {k} outputs")
        self._rows = rows = _Rows.parse(file, width)
        if self.kind == "linear":
            self._weights = self._weights_at(layout)
        if stats >= 0 and self._scaler.mode != "none":
            self._statistics = rows.values[:, stats : stats + STATISTICS]
        if self.kind == "linear" and "covariance" in file.blocks:
            self._covariance = Covariance(bytes(file.blocks["covariance"]))

    def _weights_at(self, layout: dict) -> np.ndarray:
        """Return the weights that a layout says are in the rows, shape (rows, outputs).

        They are a mixture of several where it lists parts. Several classes may share an output.
        """
        values, shared = self._rows.values, layout.get("outputs")
        k = self._outputs if shared is None else max(1, max(shared) + 1)
        weights: np.ndarray | None = None
        for part in layout.get("mix") or (layout | {"factor": 1.0},):
            at, average = part["weight"], part.get("average", 0)
            w = values[:, at : at + k]
            if average != 0:
                lag = part.get("lag", 0)
                w = w + average * values[:, lag : lag + k]
            if layout.get("mix"):
                w = part["factor"] * w
            weights = w if weights is None else weights + w
        if shared is not None:
            weights = np.where(np.array(shared) < 0, 0.0, weights[:, shared])
        return weights * layout["scale"] if layout.get("scale", 0) != 0 else weights

    def _read_level(self, level: dict) -> "_Level":
        """Return the weights of a further noise level, which answer events that lack fields."""
        strict("levels", level, "noise", "intercept", "layout")
        layout = level["layout"]
        strict("layout", layout, "width", "weight", "lag", "average", "stats", "scale", "outputs", "mix")
        if len(level["intercept"]) != self._outputs or not _fits(layout, self._rows.values.shape[1], self._outputs):
            raise FileError(f"block model: the level {level['noise']} does not fit {self._outputs} outputs")
        return self._level(level["noise"], np.array(level["intercept"], np.float64), self._weights_at(layout))

    def _level(self, noise: str, intercept: np.ndarray, weights: np.ndarray) -> "_Level":
        covered = None
        if self._covariance is not None:
            known, slots = self._rows.find(self._covariance.columns)
            covered = np.zeros((len(known), self._outputs))
            covered[known] = weights[slots]
        return _Level(noise, intercept, weights, covered)

    def __repr__(self) -> str:
        what = "numbers" if self._numbers else f"{len(self.classes_)} classes"
        return f"<blankout {self.kind} model of {what}, {self.events} events, loss {self.loss}, noise {self.noise}>"

    @property
    def fields(self) -> list[str]:
        """The names of the fields, in the order in which they were met."""
        return list(dict.fromkeys(f.name for f in self._schema.fields[1:] if f.kind != "cross"))

    # What the model says.

    def decision_function(self, x: Any) -> np.ndarray:
        """Return the scores of events: shape (n,) for one output, else (n, K).

        Of two classes it is the score of the second. A one-against-one model has the coupled
        probabilities of its classes here, as the program has.

        Args:
            x: a list of dicts (JSON's meaning), a DataFrame of pandas or Polars, or an array
                or SciPy matrix of shape (n, columns) for models of columns by number.

        Raises:
            RefusedEvent: an event cannot be used.
        """
        scores = self._score(self._read(x))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, x: Any) -> np.ndarray:
        """Return the probability of every class, shape (n, K); x is as for decision_function."""
        if self._numbers:
            raise TypeError(f'a model of the loss "{self.loss}" predicts numbers: it has no probabilities of classes')
        return self._probabilities(self._score(self._read(x)))

    def predict(self, x: Any) -> np.ndarray:
        """Return the predicted classes by name, or numbers where labels are numbers, shape (n,).

        With the loss poisson the score is the logarithm of what is expected, and this is the
        exponential of it. x is as for decision_function.
        """
        scores = self._score(self._read(x))
        if self._numbers:
            return self._value(scores[:, 0])
        return self.classes_[self._decide(scores)]

    def answers(self, x: Any, explain: int = 0) -> list[Answer]:
        """Return all that is said about each event: class, probabilities, what was missing, which rule.

        Args:
            x: as for decision_function.
            explain: name so many features that add most to the score.
        """
        if explain > 0:
            self._explainable()
        batch = self._read(x, names=True)
        scores = self._score(batch)
        chosen = self._decide(scores)
        chances = None if self._numbers else self._probabilities(scores)
        variances = self._variances(batch) if self._numbers else []
        out = []
        for i in range(len(batch)):
            a: dict[str, Any] = {"id": batch.ids[i] if batch.ids else "", "scores": scores[i].tolist(), "version": self.version}
            a["score"] = float(scores[i, min(chosen[i], scores.shape[1] - 1)])
            verdict = self._verdict(batch, i)
            a["missing_policy"], a["noise_level"] = verdict.rule, self._levels[verdict.level].noise
            if a["missing_policy"]:
                a["missing"] = self._missing.names(self._schema, batch, i)
            if chances is not None:
                a["class_"] = str(self.classes_[chosen[i]])
                a["probability"] = float(chances[i, chosen[i]])
                shown = range(max(2, min(len(self.classes_), len(self._schema.classes))))
                a["probabilities"] = {str(self.classes_[k]): float(chances[i, k]) for k in shown}
                a["set"] = self._set(a["probabilities"], a["class_"], verdict)
                a.update(self._chance_interval(batch, i, int(chosen[i]), a["probability"]))
            if self._numbers:
                a.update(self._interval(self._value(scores[i, 0]), variances[i], verdict))
            a["unseen"] = self._unknown(batch, i)
            if explain > 0:
                a["explanation"] = self._explain(batch, i, int(chosen[i]), explain)
                a["mixture_weights"] = {rule: share for rule, share in zip(RULES, verdict.shares) if share > 0}
            out.append(Answer(**a))
        return out

    def _value(self, score: Any) -> Any:
        """Return what scores predict where labels are numbers: of counts the exponential."""
        return np.exp(score) if self._counts else score

    def _fills(self) -> bool:
        """Say whether filling in has a share of the answer to some events."""
        return self._covariance is not None and any(shares[2] > 0 for shares in self._missing.rules)

    def _variances(self, batch: Batch) -> list[float]:
        """Return the variance that each event's score has for the numbers that are missing from it."""
        out = [0.0] * len(batch)
        if self._covariance is None or batch.present is None and not self._missing.known:
            return out
        rows, columns, x, _ = self._standardized(batch)
        ends = np.searchsorted(rows, np.arange(len(batch) + 1))
        for i in range(len(batch)):
            verdict = self._verdict(batch, i)
            fill = verdict.fill
            if verdict.parts is None and verdict.rule:  # what would be filled in is open, all of it
                verdict = self._missing.forced("impute").answer(self._schema.fields, batch, i, self._covariance)
            if verdict.parts is None:
                continue
            own = slice(ends[i], ends[i + 1])
            r = self._repair(columns[own], x[own], verdict)
            here, places = self._covariance.places(columns[own])
            off = (1 - fill) * float(x[own][here] @ r.extra[places, 0] + r.shift[0])
            out[i] = float(r.variance[0]) + off**2
        return out

    def _chance_interval(self, batch: Batch, i: int, chosen: int, chance: float) -> dict[str, float]:
        """Return where the probability of the chosen one of two classes would lie if what is filled in were known.

        The probability that is answered, which is expected over all cases, lies there too.
        """
        if self._outputs != 1 or self._pairs:
            return {}
        one = _one(batch, i)
        verdict = self._verdict(one, 0)
        if verdict.parts is None:
            return {}
        _, columns, x, slots = self._standardized(one)
        level, r = self._levels[verdict.level], self._repair(columns, x, verdict)
        here, places = self._covariance.places(columns)
        filled = verdict.fill * float(x[here] @ r.extra[places, 0] + r.shift[0])
        score = verdict.scale * float(x @ level.weights[slots, 0]) + filled + level.intercept[0]
        width = INTERVAL * verdict.fill * math.sqrt(r.variance[0])
        ends = self._probabilities(np.array([[score - width], [score + width]]))[:, chosen].tolist()
        return {"low": min(*ends, chance), "high": max(*ends, chance)}

    def _set(self, probabilities: dict[str, float], chosen: str, verdict: Verdict) -> list[str]:
        """Return the classes that an answer does not exclude, the most probable first; none where that is not known."""
        common = self._limits[verdict.range]
        if common < 0:
            return []
        inside = []
        for k, (name, p) in enumerate(probabilities.items()):
            limit = self._class_limits[k][verdict.range] if k < len(self._class_limits) else common
            if name == chosen or p >= math.exp(-limit) or limit == MOST_LIMIT:
                inside.append(name)
        return sorted(inside, key=lambda name: -probabilities[name])

    def _interval(self, value: float, variance: float, verdict: Verdict) -> dict[str, float]:
        """Return a value with the bounds that targets are to lie between, if they are known."""
        if self._residual is None:
            return {"value": float(value)}
        mean, deviation = self._residual["mean"], self._residual["deviation"]
        if by_value := self._residual.get("by_value"):
            deviation *= float(np.interp(value, by_value["at"], by_value["factor"]))
        unit = math.sqrt(max(value, 1e-30)) if self._counts else 1.0  # Pearson's residuals of counts
        if self._counts:  # the logarithm is normal
            variance = value * math.expm1(min(variance, MAX_VARIANCE))
        limit = self._limits[verdict.range]
        width = (limit if limit >= 0 else INTERVAL) * math.sqrt(deviation * deviation + variance)
        low, high = min(float(value + unit * (mean - width)), float(value)), max(float(value + unit * (mean + width)), float(value))
        return {"value": float(value), "low": max(low, 0.0) if self._counts else low, "high": high}

    def explain(self, x: Any, most: int = 10) -> list[list[Contribution]]:
        """Return for each event what adds most to the score of its class, the largest first.

        The intercept is among it. Of two classes it is the score of the second. All of them
        (most large enough) sum to the score.
        """
        return [a.explanation for a in self.answers(x, explain=most)]

    def to_sklearn(self) -> Any:
        """Return the same classifier as one of scikit-learn's; see blankout.to_sklearn."""
        from .to_sklearn import to_sklearn

        return to_sklearn(self)

    def to_onnx(self) -> Any:
        """Return the same classifier as an ONNX model; see blankout.to_onnx."""
        from .to_onnx import to_onnx

        return to_onnx(self)

    # How it says it.

    def _read(self, x: Any, names: bool = False) -> Batch:
        """Read events; one of which the model has seen no feature is refused, unless they are answered."""
        batch = inputs.read(x, self._decoder, names=names)
        if self.unseen == "answer" or self._rows is None or self._support is not None:
            return batch
        met = np.concatenate([[0], np.cumsum(self._rows.find(batch.columns)[0])])
        strangers = np.flatnonzero((np.diff(batch.starts) > 0) & (np.diff(met[batch.starts]) == 0))
        if strangers.size > 0:
            i = int(strangers[0])
            unknown = self._unknown(batch if names else inputs.read(x, self._decoder, names=True), i)
            raise RefusedEvent("unseen", f"the model has seen no feature of the event: {', '.join(unknown)}", i)
        return batch

    def _score(self, batch: Batch) -> np.ndarray:
        """Return the scores, shape (n, outputs), or of pairs (n, classes)."""
        scale, level = np.ones(len(batch)), np.zeros(len(batch), np.int64)
        filled: dict[int, Verdict] = {}
        if batch.present is not None or self._missing.known:
            for i in range(len(batch)):
                verdict = self._verdict(batch, i)
                scale[i], level[i] = verdict.scale, verdict.level
                if verdict.parts is not None:
                    filled[i] = verdict
        rows, columns, x, slots = self._standardized(batch)
        scaled = scale[rows] * x
        ends = np.searchsorted(rows, np.arange(len(batch) + 1))
        if self._support is not None:
            sums = [self._support.scores(columns[a:b], scaled[a:b]) for a, b in zip(ends, ends[1:])]
            out = np.array(sums).reshape(len(batch), self._outputs)
        else:
            out = np.empty((len(batch), self._outputs))
            for k in range(self._outputs):
                weights = self._weights[slots, k]
                for one in np.unique(level[level > 0]):
                    weights = np.where(level[rows] == one, self._levels[one].weights[slots, k], weights)
                out[:, k] = np.bincount(rows, weights=scaled * weights, minlength=len(batch))
        out += np.array([one.intercept for one in self._levels])[level]
        for i, verdict in filled.items():
            own = slice(ends[i], ends[i + 1])
            out[i] = self._filled_in(out[i], columns[own], x[own], verdict)
        return couple(out, len(self._schema.classes)) if self._pairs else out

    def _verdict(self, batch: Batch, i: int) -> Verdict:
        return self._missing.answer(self._schema.fields, batch, i, self._covariance)

    def _filled_in(self, score: np.ndarray, columns: np.ndarray, x: np.ndarray, verdict: Verdict) -> np.ndarray:
        """Return the outputs of an event of which numbers are filled in, given those without."""
        r = self._repair(columns, x, verdict)
        here, places = self._covariance.places(columns)
        score = score + verdict.fill * (x[here] @ r.extra[places] + r.shift)
        if self._numbers:
            return score + (verdict.fill**2 * np.minimum(r.variance, MAX_VARIANCE) / 2 if self._counts else 0.0)
        return np.array([widen(f, verdict.fill**2 * v) for f, v in zip(score.tolist(), r.variance.tolist())])

    def _repair(self, columns: np.ndarray, x: np.ndarray, verdict: Verdict) -> Repair:
        """Return the repair for an event; what is told from wild readings is told from none."""
        covariance, parts = self._covariance, verdict.parts.copy()
        here, places = covariance.places(columns)
        wild = covariance.wild(places, x[here], self._statistics is not None)
        parts[places[wild & (parts[places] == OBSERVED)]] = APART
        return covariance.repair(parts, self._levels[verdict.level].covered, verdict.level)

    def _standardized(self, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return event, column, value and slot of every feature as the weights see it.

        Features without a row are left out, but for a kernel machine that does not standardize,
        which has no rows at all.
        """
        rows, columns, x = batch.rows, batch.columns, batch.values
        if self._rows is None:
            return rows, columns, x, columns
        rows, columns, x = self._filled(rows, columns, x, len(batch))
        if self._curves is not None:
            rows, columns, x = self._curves.hats(rows, columns, x)
        known, slots = self._rows.find(columns)
        if self._support is None or self._statistics is not None:
            rows, columns, x = rows[known], columns[known], x[known]
        if self._statistics is not None:
            x = self._scaler.apply(self._statistics[slots], x)
        return rows, columns, x, slots

    def _filled(self, rows, columns, x, n: int):
        """Return the features with the dense columns that an event leaves out as the number 0."""
        dense = self._scaler.dense
        if not len(dense):
            return rows, columns, x
        size = 1 << 32
        key = rows * size + columns
        wanted = (np.arange(n)[:, None] * size + dense).ravel()
        key = np.concatenate([key, np.setdiff1d(wanted, key, assume_unique=True)])
        order = np.argsort(key, kind="stable")
        key = key[order]
        return key // size, key % size, np.concatenate([x, np.zeros(len(key) - len(x))])[order]

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        if self._pairs:
            return scores
        with np.errstate(over="ignore"):
            p = 1 / (1 + np.exp(-scores))
        if scores.shape[1] == 1:
            return np.hstack([1 - p, p])
        total = np.zeros(len(p))
        for k in range(p.shape[1]):
            total += p[:, k]
        some = total > 0
        p[some] /= total[some, None]
        p[~some] = 1 / p.shape[1]
        return p

    def _decide(self, scores: np.ndarray) -> np.ndarray:
        if scores.shape[1] > 1:
            return np.argmax(scores, axis=1)
        return (scores[:, 0] > self._least()).astype(np.int64)

    def _least(self) -> float:
        """Return the score above which an event of two classes is of the second."""
        return math.log(self._threshold / (1 - self._threshold)) if self._threshold > 0 else 0.0

    def _explainable(self) -> None:
        if self.kind != "linear":
            raise UnsupportedError("a kernel model cannot say what a feature adds to a score")
        if self._pairs:
            raise UnsupportedError("a one-against-one model cannot say what a feature adds to the score of a class")

    def _explain(self, batch: Batch, i: int, chosen: int, most: int) -> list[Contribution]:
        output = 0 if self._outputs == 1 else chosen
        one = _one(batch, i)
        rows, columns, x, slots = self._standardized(one)
        verdict = self._verdict(one, 0)
        scale = verdict.scale
        weights = self._levels[verdict.level].weights[slots, output]
        if verdict.parts is not None:  # what the columns stand for besides counts as theirs
            repair = self._repair(columns, x, verdict)
            here, places = self._covariance.places(columns)
            weights = weights.copy()
            weights[here] += repair.extra[places, output] * verdict.fill / verdict.scale
        intercept = float(self._levels[verdict.level].intercept[output])
        parts = [Contribution(INTERCEPT, 1.0, intercept, intercept)]
        curves: dict[int, float] = {}  # what a number's curve adds beside its own weight
        if self._curves is not None:
            for column, value, weight in zip(columns.tolist(), x.tolist(), weights.tolist()):
                if (source := self._curves.source(column)) != column:
                    curves[source] = curves.get(source, 0.0) + weight * value
        for column, value, weight in zip(columns.tolist(), x.tolist(), weights.tolist()):
            score = scale * (weight * value + curves.get(column, 0.0))
            if score != 0 and column < FIRST_HAT:
                parts.append(Contribution(self._name(one, column), value, weight, score))
        if verdict.parts is not None:
            more = float(self._score(one)[0, output]) - math.fsum(c.score for c in parts)
            parts.append(Contribution(FILLED_IN, 1.0, more, more))
        parts.sort(key=lambda c: -abs(c.score))
        return parts[:most]

    def _name(self, one: Batch, column: int) -> str:
        own = one.names[0].get(column) if one.names else None
        return " | ".join(own) if own else self._schema.name_of(column)

    def _unknown(self, batch: Batch, i: int) -> list[str]:
        if self._rows is None or self._support is not None:
            return []
        one = _one(batch, i)
        known, _ = self._rows.find(one.columns)
        return [self._name(one, c) for c in one.columns[~known][:MOST_UNKNOWN].tolist()]


def _one(batch: Batch, i: int) -> Batch:
    own = batch.of(i)

    def part(x):
        return None if x is None else x[i : i + 1]

    return Batch(
        np.array([0, own.stop - own.start]), batch.columns[own], batch.values[own],
        None if batch.fields is None else batch.fields[own], part(batch.present), part(batch.nulls), part(batch.names), part(batch.ids),
    )


def _json(file: File, name: str) -> dict:
    try:
        data = json.loads(bytes(file.block(name)))
    except ValueError as e:
        if isinstance(e, FileError):
            raise
        raise DamagedError(f"block {name}: {e}") from e
    if not isinstance(data, dict):
        raise FileError(f"block {name}: no object")
    return data


def _time(text: str | None) -> datetime.datetime | None:
    if not text or text.startswith("0001-"):
        return None
    head, dot, rest = text.partition(".")
    if dot:  # Go writes up to nine digits, Python reads six
        n = next((j for j, c in enumerate(rest) if not c.isdigit()), len(rest))
        text = f"{head}.{rest[:n][:6].ljust(6, '0')}{rest[n:]}"
    return datetime.datetime.fromisoformat(text)
