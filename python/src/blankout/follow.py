"""Keeping up with a learner that goes on learning."""

from __future__ import annotations

import os
import threading
from typing import Any, Mapping

from .model import Model
from .places import place


class Follower:
    """The newest model of a place.

    It looks for a newer one every interval, on a thread of its own that ends with close(), or
    only when refresh() is called if the interval is None:

        with blankout.follow("http://127.0.0.1:8642") as live:
            live.model.predict(events)

    Attributes:
        last_error: the error of the latest look, None if it went well. The model is then still
            the one from before.
    """

    def __init__(self, where: str | os.PathLike[str], interval: float | None = 1.0, token: str = "", missing: str = "auto", kafka: Mapping[str, Any] | None = None):
        if interval is not None and not interval > 0:
            raise ValueError(f"interval {interval}: want a number of seconds above 0, or None")
        self._place = place(where, token, missing, kafka)
        self._lock = threading.Lock()  # one look at a time
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.last_error: Exception | None = None
        try:
            model = self._place.look()
        except BaseException:
            self._place.close()
            raise
        assert model is not None  # a first look has nothing to compare with
        self._model = model
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
            try:
                newer = self._place.look()
            except Exception as e:
                self.last_error = e
                raise
            self.last_error = None
            if newer is None or not _follows(newer, self._model):
                return False
            self._model = newer
            return True

    def close(self) -> None:
        """Stop looking. The model that was read last stays."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._place.close()

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self, interval: float) -> None:
        while not self._ended.wait(interval):
            try:
                self.refresh()
            except Exception:
                pass  # it is in trouble, and the next look may go better


def _follows(newer: Model, model: Model) -> bool:
    """Say whether a model takes the place of another.

    Where several servers share an address one may lag behind the others. A file that was
    never published has no version.
    """
    if newer.version == 0 or newer.version > model.version:
        return True
    return newer.published is not None and (model.published is None or newer.published > model.published)


def follow(where: str | os.PathLike[str], *, interval: float | None = 1.0, token: str = "", missing: str = "auto", kafka: Mapping[str, Any] | None = None) -> Follower:
    """Read a model and keep up with newer ones; see Follower. The arguments are those of load.

    Args:
        interval: seconds between two looks; None looks only when refresh() is called.
    """
    return Follower(where, interval, token, missing, kafka)
