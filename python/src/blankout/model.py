"""A model that has been learned, and what it says about events."""

from __future__ import annotations

import datetime
import json
import os
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from . import _events, _program
from ._remote import Remote
from .errors import UnsupportedError


_all: weakref.WeakSet[Predictor] = weakref.WeakSet()
_states: list[tuple[Predictor, bytes]] = []  # while this process forks


def _before_fork() -> None:
    for each in list(_all):
        if getattr(each, "_live", None) is not None:
            try:
                _states.append((each, each._freeze()))
            except Exception:
                pass  # the program has ended, which the next question says


def _after_fork_in_child() -> None:
    # The process of the program is the parent's, which goes on asking it.
    for each, state in _states:
        each._live, each._state = None, state
    _states.clear()
    _program.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_states.clear, after_in_child=_after_fork_in_child)


@dataclass(frozen=True)
class Contribution:
    """What one feature adds to a score: its value, standardized, times its weight, times the
    factor of the policy for missing features."""

    feature: str
    value: float
    weight: float
    score: float


@dataclass(frozen=True)
class Answer:
    """What a model says about one event.

    Attributes:
        class_, probability: the predicted class and its probability; None of regression.
        probabilities: by class.
        set: the classes that are not excluded, the most probable first: the class of the event is among them as often as
            learner.coverage says. Empty where the model has too few events to say.
        value, low, high: of regression the predicted number, and the bounds that nine of ten targets, or learner.coverage, lie
            between; None where the model does not know them. Of an event of two classes in which missing numbers are imputed,
            low and high are where the probability would lie in nine of ten cases if these were known.
        score: that of the class, or of the value; of two classes the second's.
        scores: as decision_function has them.
        missing: names of the fields that are known to be missing.
        stuck: those of them whose value has not moved for so long that it counts as missing.
        missing_policy: what the scores were made by because of that, "" if nothing is missing; of several the one with the
            largest weight.
        mixture_weights: those of the policies, if an explanation was asked for and something is missing.
        noise_level: the noise that the weights were learned with.
        version: of the model, 0 of one that was not published.
        learner: that predicted, "" where one alone learns the stream.
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
    stuck: list[str] = field(default_factory=list)
    mixture_weights: dict[str, float] = field(default_factory=dict)
    missing_policy: str = ""
    noise_level: str = ""
    version: int = 0
    learner: str = ""
    unseen: list[str] = field(default_factory=list)
    explanation: list[Contribution] = field(default_factory=list)

    @classmethod
    def parse(cls, said: Mapping[str, Any]) -> "Answer":
        """Return the Answer that the program's JSON says."""
        a = {("class_" if name == "class" else name): value for name, value in said.items()}
        a["explanation"] = [Contribution(c["feature"], c["value"], c["weight"], c["score"]) for c in a.get("explanation", ())]
        known = cls.__dataclass_fields__
        return cls(**{"id": "", **{name: value for name, value in a.items() if name in known}})


class Predictor:
    """What models and learners share: predictions, the files of other programs, and that they outlive a fork."""

    _live: Remote | None
    _state: bytes | None
    _times: frozenset[str] = frozenset()  # the fields whose values may be times

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        _all.add(self)
        return self

    def _freeze(self) -> bytes:
        """Return what another process goes on from."""
        raise NotImplementedError

    def _start(self) -> Remote:
        """Go on from the state, in the program."""
        raise NotImplementedError

    @property
    def _remote(self) -> Remote:
        live = self._live
        if live is None:
            with _program.starting:
                live = self._live or self._start()
        return live

    def _encode(self, x: Any) -> _events.Events:
        return _events.read(x, self._times)

    def _flags(self) -> int:
        """Return the flags of requests for predictions."""
        raise NotImplementedError

    def _weights(self) -> tuple[np.ndarray, list[str], np.ndarray]:
        """Return weights of values as they come, shape (outputs, features), the names of features, and the intercepts."""
        x = json.loads(self._remote.export("json"))
        place = {f["name"]: i for i, f in enumerate(x["schema"]["fields"])}
        features = sorted(x["features"], key=lambda f: (place.get(f["name"], place.get(f["name"].partition("=")[0], len(place))), f["name"]))
        weights = np.array([f["weights"] for f in features], np.float64).reshape(len(features), x["outputs"])
        scale = np.array([f["scale"] for f in features])
        weights = np.divide(weights, scale[:, None], out=np.zeros_like(weights), where=scale[:, None] != 0)
        intercept = np.array(x["intercept"]) - np.array([f["center"] for f in features]) @ weights
        return weights.T, [f["name"] for f in features], intercept

    def answers(self, x: Any, explain: int = 0) -> list[Answer]:
        """Return all that is said about each event: class, probabilities, what was missing, which policy.

        Args:
            x: a list of dicts, or a frame; of a model of columns by number an array or a sparse matrix.
            explain: how many features that add most to the score to name.
        """
        return [Answer.parse(said) for said in self._remote.answers(self._lines(x), explain, self._flags())]

    def _lines(self, x: Any) -> list[bytes]:
        """Return events as lines of JSON."""
        x = _events.collected(x)
        if _events.is_frame(x):
            x = _events.frame_events(x)
        elif isinstance(x, np.ndarray):
            x = [{f"x{j}": None if _events.is_null(v) else v for j, v in enumerate(row)} for row in x.tolist()]
        return [_events.line(event, self._times) for event in x]

    def explain(self, x: Any, most: int = 10) -> list[list[Contribution]]:
        """Return for each event what adds most to the score of its class, the largest first.

        The intercept is among it. Of two classes it is the score of the second.

        Args:
            x: a list of dicts or a frame; one dict is a list of it.
        """
        return [a.explanation for a in self.answers([x] if isinstance(x, Mapping) else x, explain=most)]

    def to_onnx(self, missing: str = "auto") -> bytes:
        """Return the model as the bytes of an ONNX graph, for onnxruntime.InferenceSession for instance.

        Args:
            missing: the policy for missing fields of the graph: "auto", "none" or "rescale".

        Raises:
            UnsupportedError: names what a graph cannot say.
        """
        return self._remote.export("onnx", missing)

    def to_sklearn(self) -> Any:
        """Return a fitted model of scikit-learn that predicts the same; see blankout.to_sklearn.

        Raises:
            UnsupportedError: names what scikit-learn's linear models cannot say.
        """
        from .to_sklearn import to_sklearn

        return to_sklearn(json.loads(self._remote.export("json")))


class Model(Predictor):
    """A model of blankout. It never changes, and may be used by several threads.

    Attributes:
        kind: "linear" or "kernel".
        classes_: the names of the classes, shape (K,); of two classes scores are those of the second. Empty of regression.
        positive: the name of the positive one of two classes, "" of more or of regression.
        fields: the names of the fields, in the order in which they were met.
        loss, noise: what was minimized, as the program's flags have it.
        version: of a snapshot, larger means published later; 0 otherwise.
        published: when, None for a model that was not.
        events: how many were learned from.
        shards: how many shards of a group answer together, 0 for a single model. Predictions then take keys: the keys that the
            records have in the topic, of which each is answered with its shard and the mean of all.
        unseen: what becomes of an event of which the model has seen no feature: "refuse", or "answer", as if it had none.
            It may be set.
    """

    unseen = "refuse"

    def __init__(self, remote: Remote):
        self._live, self._state = remote, None
        i = remote.inspect()
        self.kind: str = i["kind"]
        self.loss: str = i["loss"]
        self.noise: str = i["noise"]
        self.events: int = i["events"]
        self.version: int = i.get("version", 0)
        self.positive: str = i.get("positive", "")
        self.fields: list[str] = i["fields"]
        self.classes_: np.ndarray = np.array(i["classes"], dtype=object)
        self.published: datetime.datetime | None = _time(i.get("published"))
        self.shards: int = i.get("shards", 0)
        self._keyed: bool = i.get("keyed", False)
        self._regression: bool = i["regression"]
        self._first = 0 if i.get("zero_based") else 1  # index of column 0 in a line

    def _start(self) -> Remote:
        self._live, self._state = Remote(b"b", self._state), None
        return self._live

    def _freeze(self) -> bytes:
        return self._state if self._live is None and self._state is not None else self._remote.export("model")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Model":
        """Read a model from the bytes of a checkpoint, snapshot or model file.

        Raises:
            FileError: the data cannot be used; the sentence says why.
        """
        return cls(Remote(b"b", data))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None, "_state": self._freeze()}

    def __repr__(self) -> str:
        what = "regression" if self._regression else f"{len(self.classes_)} classes"
        return f"<blankout {self.kind} model of {what}, {self.events} events, loss {self.loss}, noise {self.noise}>"

    def _flags(self) -> int:
        if self.unseen not in ("refuse", "answer"):
            raise ValueError(f'unseen = {self.unseen!r}: want "refuse" or "answer"')
        return _program.UNSEEN if self.unseen == "answer" else 0

    def _encode(self, x: Any) -> _events.Events:
        x = _events.collected(x)
        dense = isinstance(x, np.ndarray) or not _events.is_frame(x) and not _events.is_sparse(x) and isinstance(x, (list, tuple)) and bool(x) and not isinstance(x[0], Mapping)
        if self.fields and dense and "x0" not in self.fields:
            raise ValueError(f"this model knows its features by name: give it dicts or a DataFrame (its fields are {self.fields[:5]} …)")
        if self.fields and _events.is_frame(x):
            known = set(self.fields) | {f.split(".")[0] for f in self.fields}
            columns = _events.columns_of(x)
            if not known.intersection(columns) and not any(c.split("[")[0] in known for c in columns):
                raise ValueError(f"none of the frame's columns {list(columns[:5])} is a field of this model: it has {sorted(known)[:5]} …")
        return _events.read(x, by_number=not self.fields)

    def _lines(self, x: Any) -> list[bytes]:
        """Return events as lines of JSON, or of svmlight where the model knows columns by number."""
        events = self._encode(x)
        if events.operation != b"S":
            return super()._lines(x)
        starts, columns, values = (part.tolist() for part in events.parts)
        ends = zip(starts, starts[1:])
        return [" ".join(["0", *(f"{c + self._first}:{v!r}" for c, v in zip(columns[a:b], values[a:b]) if v == v)]).encode() for a, b in ends]

    def answers(self, x: Any, explain: int = 0, keys: Sequence[Any] | None = None) -> list[Answer]:
        """Return all that is said about each event; see Predictor.answers.

        Args:
            keys: of the shards of a group, the key of each record, text or bytes; None or "" for the mean of the shards.
        """
        if keys is None:
            return super().answers(x, explain)
        if not self._keyed:
            raise ValueError("keys: " + ("checkpoints do not contain how a group divides keys: load the group's snapshots, as in kafka://HOST:PORT/GROUP-snapshots" if self.shards else "this is a single model"))
        as_bytes = [key if isinstance(key, bytes) else str("" if key is None else key).encode() for key in keys]
        if any(b"\n" in key for key in as_bytes):
            raise ValueError("keys: a key has a line break")
        lines = self._lines(x)
        if len(lines) != len(as_bytes):
            raise ValueError(f"keys: {len(as_bytes)} of {len(lines)} events")
        return [Answer.parse(said) for said in self._remote.answers(lines, explain, self._flags(), as_bytes)]

    def _chances(self, x: Any, keys: Sequence[Any] | None) -> np.ndarray:
        """Return the probabilities of all classes that the shards of a group answer, shape (n, K)."""
        said = self.answers(x, keys=keys)
        return np.array([[a.probabilities.get(c, 0.0) for c in self.classes_] for a in said], np.float64).reshape(len(said), len(self.classes_))

    def decision_function(self, x: Any, keys: Sequence[Any] | None = None) -> np.ndarray:
        """Return the scores of events: shape (n,) for one output, else (n, K).

        Of two classes it is the score of the second. A one-against-one model has the coupled probabilities of its classes
        here, as the program has. The shards of a group have the logarithms of probabilities, of two classes log-odds.

        Args:
            x: a list of dicts, which mean what they mean as JSON; a DataFrame of pandas or Polars; or an array or SciPy
                matrix of shape (n, columns).
            keys: see answers.

        Raises:
            RefusedEvent: an event cannot be used.
        """
        if self._several(keys):
            if self._regression:
                return np.array([a.score for a in self.answers(x, keys=keys)], np.float64)
            logs: np.ndarray = np.log(np.maximum(self._chances(x, keys), 1e-15))
            if len(self.classes_) == 2:
                logs = logs[:, 1] - logs[:, 0]
            return logs
        scores = self._remote.take(self._encode(x), _program.SCORES | self._flags())
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _several(self, keys: Sequence[Any] | None) -> bool:
        """Say whether the shards of a group answer, which the program does for lines of JSON only."""
        return self.shards > 0 or keys is not None

    def predict_proba(self, x: Any, keys: Sequence[Any] | None = None) -> np.ndarray:
        """Return the probability of every class, shape (n, K); the arguments are as for decision_function."""
        if self._regression:
            raise TypeError(f'a model of the loss "{self.loss}" predicts numbers: it has no probabilities of classes')
        if self._several(keys):
            return self._chances(x, keys)
        return self._remote.take(self._encode(x), self._flags())

    def predict(self, x: Any, keys: Sequence[Any] | None = None) -> np.ndarray:
        """Return the predicted classes by name, or of regression numbers, shape (n,).

        With the loss poisson the score is the logarithm of what is expected, and this is the exponential of it. The arguments
        are as for decision_function.
        """
        if self._several(keys):
            said = self.answers(x, keys=keys)
            return np.array([a.value for a in said], np.float64) if self._regression else np.array([a.class_ for a in said], object)
        if self._regression:
            return self._remote.take(self._encode(x), self._flags())[:, 0]
        return self.classes_[self._remote.take(self._encode(x), _program.CHOICE | self._flags())[:, 0].astype(np.int64)]


class Follower:
    """The newest model of a place.

    It looks for a newer one every interval, on a thread of its own that ends with close(), or only when refresh() is called if
    the interval is None:

        with blankout.follow("http://127.0.0.1:8642") as live:
            live.model.predict(events)

    Attributes:
        last_error: the error of the latest look, None if it went well. The model is then still the one from before.
    """

    def __init__(self, where: str | os.PathLike[str], interval: float | None = 1.0, token: str = "", missing: str = "auto", settings: Mapping[str, Any] | None = None):
        if interval is not None and not interval > 0:
            raise ValueError(f"interval {interval}: want a number of seconds above 0, or None")
        self._lock = threading.Lock()  # one look at a time
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.last_error: Exception | None = None
        self._at = _opened(_address(where, token, missing, settings))
        self._process, self._model = self._at.process, Model(self._at)
        if interval is not None:
            self._thread = threading.Thread(target=self._follow, args=(interval,), name="blankout-follower", daemon=True)
            self._thread.start()

    @property
    def model(self) -> Model:
        """The newest model that has been read. It never changes; a newer one is another object."""
        return self._model

    def refresh(self) -> bool:
        """Look for a newer model now; say whether there was one. Raises what load raises."""
        with self._lock:
            number = self._process.number()
            found = False
            try:
                found = self._at.ask(b"u", str(number).encode()).json()
            except Exception as e:
                self.last_error = e
                raise
            finally:
                if not found:
                    self._process.let_go(number)
            self.last_error = None
            if not found:
                return False
            newer = Model(Remote.of(self._process, number))
            if not _follows(newer, self._model):
                return False
            newer.unseen = self._model.unseen
            self._model = newer
            return True

    def close(self) -> None:
        """Stop looking. The model that was read last stays."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self, interval: float) -> None:
        while not self._ended.wait(interval):
            try:
                self.refresh()
            except Exception:
                pass  # it is in last_error, and the next look may go better


def _follows(newer: Model, model: Model) -> bool:
    """Say whether a model takes the place of another.

    Where several servers share an address one may lag behind the others. A file that was never published has no version.
    """
    if newer.version == 0 or newer.version > model.version:
        return True
    return newer.published is not None and (model.published is None or newer.published > model.published)


def load(where: str | os.PathLike[str], *, token: str = "", missing: str = "auto", shard: int | None = None, settings: Mapping[str, Any] | None = None) -> Model:
    """Read a model.

    Args:
        where: a checkpoint, snapshot or model file; a directory of checkpoints, of which the newest counts; a directory of the
            shards of a group, which answer together; the address of a learner, http://HOST:PORT; a topic of snapshots,
            kafka://HOST:PORT/TOPIC; or an object, s3://BUCKET/KEY.
        token: what the server wants, if it wants any.
        missing: the policy for missing features: "auto" (the model's own), "none", "rescale", "impute" or "fill".
        settings: keys of the sections kafka and s3 of the configuration, as {"kafka.tls.enabled": True}.

    Raises:
        FileError: what is there cannot be used: damaged, foreign, or of a newer program.
        OSError: it cannot be read, or the server does not answer.
    """
    address = _address(where, token, missing, settings, shard)
    return Model(_opened(address) if "://" in os.fspath(where) else Remote(b"o", address))


def follow(
    where: str | os.PathLike[str], *, interval: float | None = 1.0, token: str = "", missing: str = "auto", settings: Mapping[str, Any] | None = None
) -> Follower:
    """Read a model and keep up with newer ones; see Follower. The arguments are those of load.

    Args:
        interval: seconds between two looks; None looks only when refresh() is called.
    """
    return Follower(where, interval, token, missing, settings)


def _opened(address: bytes) -> Remote:
    """Open a model in a process of its own: a server that is slow to answer keeps nobody else waiting, and can be interrupted."""
    process = _program.Process(_program.find())
    process.holds = False  # nothing is lost with it yet
    try:
        at = Remote(b"o", address, process=process)
    except BaseException:
        process.close()
        raise
    process.holds = True
    return at


def _address(where: str | os.PathLike[str], token: str, missing: str, settings: Mapping[str, Any] | None, shard: int | None = None) -> bytes:
    text = os.fspath(where)
    if "://" not in text:
        text = os.fspath(Path(text).absolute())  # the program has the directory that it was started in
    given = [f"{key}={_events.setting(value)}" for key, value in (settings or {}).items()]
    return json.dumps({"address": text, "token": token, "missing_policy": missing, "shard": shard, "settings": given}).encode()


def _time(text: str | None) -> datetime.datetime | None:
    if not text:
        return None
    head, dot, rest = text.partition(".")
    if dot:  # Go writes up to nine digits, Python reads six
        n = next((j for j, c in enumerate(rest) if not c.isdigit()), len(rest))
        text = f"{head}.{rest[:n][:6].ljust(6, '0')}{rest[n:]}"
    return datetime.datetime.fromisoformat(text)


__all__ = ["Answer", "Contribution", "Follower", "Model", "UnsupportedError", "follow", "load"]
