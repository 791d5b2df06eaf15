"""Where models come from: files, directories of checkpoints, the HTTP server of a learner."""

from __future__ import annotations

import contextlib
import os
import re
import urllib.error
import urllib.parse
import urllib.request
import warnings
from pathlib import Path
from typing import Any, Mapping, Protocol

from .errors import FileError, NewerError
from .model import Model

LARGEST = 4 << 30  # bytes of a model
PATIENCE = 60.0  # seconds that a server has for an answer
_CHECKPOINT = re.compile(r"checkpoint-(\d+)\.blankout")


class Place(Protocol):
    """A place where newer models appear."""

    def look(self) -> Model | None:
        """Return the newest model, None if that is the one returned last."""

    def close(self) -> None:
        """Let go of what the place has open."""


def place(
    where: str | os.PathLike[str], token: str = "", missing: str = "auto", kafka: Mapping[str, Any] | None = None
) -> Place:
    """Return the place that an address or path names."""
    text = os.fspath(where)
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if scheme in ("http", "https"):
        return Server(text, token, missing)
    if scheme == "kafka":
        from .topics import Topic  # which needs a client of Kafka, and nothing else here does

        return Topic(text, missing, LARGEST, kafka)
    if scheme:
        raise ValueError(f"{text}: want a path, http://HOST:PORT or kafka://HOST:PORT/TOPIC")
    return OnDisk(Path(text), missing)


def load(
    where: str | os.PathLike[str], *, token: str = "", missing: str = "auto", kafka: Mapping[str, Any] | None = None
) -> Model:
    """Read a model.

    Args:
        where: a checkpoint, snapshot or model file; a directory of checkpoints, of which the
            newest sound one counts; the address of a learner, http://HOST:PORT; or its topic
            of snapshots, kafka://HOST:PORT/TOPIC.
        token: what the server wants, if it wants any.
        missing: the rule for missing features: "auto" (the model's own), "none", "rescale" or "impute".
        kafka: further settings of the KafkaConsumer of kafka-python, security_protocol for instance.

    Raises:
        FileError: what is there cannot be used: damaged, foreign, or of a newer program.
        OSError: it cannot be read, or the server does not answer.
    """
    with contextlib.closing(place(where, token, missing, kafka)) as at:
        model = at.look()
    assert model is not None  # a first look has nothing to compare with
    return model


class OnDisk:
    """A file, or a directory of checkpoints."""

    def __init__(self, path: Path, missing: str):
        self._path, self._missing = path, missing
        self._last: tuple | None = None  # what identified the file returned last

    def close(self) -> None:
        pass

    def look(self) -> Model | None:
        if not self._path.is_dir():
            return self._read(self._path)
        names = [(int(m[1]), p) for p in self._path.iterdir() if (m := _CHECKPOINT.fullmatch(p.name))]
        if not names:
            raise FileNotFoundError(f"{self._path}: no checkpoint in this directory")
        last: FileError | None = None
        for _, path in sorted(names, reverse=True):
            try:
                return self._read(path)
            except NewerError:
                raise
            except FileNotFoundError:
                continue  # removed meanwhile, as older ones are
            except FileError as e:
                last = e
                warnings.warn(f"passed over: {e}", RuntimeWarning, stacklevel=4)
        raise last or FileNotFoundError(f"{self._path}: no checkpoint in this directory")

    def _read(self, path: Path) -> Model | None:
        info = path.stat()
        identity = (path, info.st_dev, info.st_ino, info.st_mtime_ns, info.st_size)
        if identity == self._last:
            return None
        if info.st_size > LARGEST:
            raise FileError(f"{path}: the model has more than {LARGEST} bytes")
        model = _model(path.read_bytes(), str(path), self._missing)
        self._last = identity
        return model


class Server:
    """The HTTP server of a learner."""

    def __init__(self, address: str, token: str, missing: str):
        url = urllib.parse.urlsplit(address)
        if url.path in ("", "/"):
            url = url._replace(path="/v1/model")
        self._url = urllib.parse.urlunsplit(url)
        self._shown = urllib.parse.urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))
        self._token, self._missing = token, missing
        self._tag = ""  # of the model returned last
        self._opener = urllib.request.build_opener(_KeepToken)

    def close(self) -> None:
        pass

    def look(self) -> Model | None:
        headers = {"Accept-Encoding": "identity", "Accept": "application/octet-stream"}
        if self._tag:
            headers["If-None-Match"] = self._tag
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self._url, headers=headers)
        try:
            with self._opener.open(request, timeout=PATIENCE) as answer:
                data = answer.read(LARGEST + 1)
                tag = answer.headers.get("ETag", "")
        except urllib.error.HTTPError as e:
            with e:
                if e.code == 304:
                    return None
                said = e.read(1024).decode("utf-8", "replace").strip()
            raise OSError(f"{self._shown}: {e.code} {e.reason}: {said}") from None
        except urllib.error.URLError as e:
            raise OSError(f"{self._shown}: {e.reason}") from e
        if len(data) > LARGEST:
            raise FileError(f"{self._shown}: the model has more than {LARGEST} bytes")
        model = _model(data, self._shown, self._missing)
        self._tag = tag
        return model


class _KeepToken(urllib.request.HTTPRedirectHandler):
    """Takes the token out of a request that is sent on to another server than the first."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        old = urllib.parse.urlsplit(req.full_url)
        to = urllib.parse.urlsplit(newurl)
        if new is not None and (old.scheme, old.netloc.lower()) != (to.scheme, to.netloc.lower()):
            new.headers.pop("Authorization", None)
        return new


def _model(data: bytes, where: str, missing: str) -> Model:
    try:
        return Model.from_bytes(data, missing)
    except FileError as e:
        raise type(e)(f"{where}: {e}") from e
