"""How a model's events are written: the settings that travel with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from .container import File
from .errors import NewerError

SETTINGS = (
    "format", "label", "weight", "id", "time", "drop", "categorical", "columns", "missing",
    "separator", "unlabeled", "text", "ngrams", "groups",
)


@dataclass(frozen=True)
class Record:
    """What of a configuration's [record] decides how an event becomes features.

    Attributes:
        format: as record.format in the configuration, "" if the file does not say.
        roles: by name the fields that are no features: "label", "weight", "id", "time" and "drop".
        categorical: fields whose numbers are names.
        text: fields whose strings are bags of their words, and of up to ngrams of them in a row.
        missing: of CSV, the texts that stand for an unknown value.
    """

    format: str = ""
    roles: dict[str, str] = field(default_factory=lambda: {"label": "label"})
    categorical: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()
    ngrams: int = 1
    missing: frozenset[str] = frozenset({"", "NA", "null"})

    @classmethod
    def parse(cls, file: File) -> "Record":
        """Read the block "fingerprint"; a file without it has the defaults."""
        if "fingerprint" not in file.blocks:
            return cls()
        settings = json.loads(bytes(file.blocks["fingerprint"]))
        unknown = sorted(set(settings) - set(SETTINGS))
        if unknown:
            raise NewerError(
                f"the model's events are read with the settings {', '.join(unknown)}, "
                "which this package does not know: use a newer one"
            )
        roles = {name: "drop" for name in _list(settings, "drop")}
        roles |= {settings[role]: role for role in ("label", "weight", "id", "time") if settings.get(role)}
        return cls(
            settings.get("format", ""), roles,
            frozenset(_list(settings, "categorical")), frozenset(_list(settings, "text")),
            int(settings.get("ngrams") or 1), frozenset(_list(settings, "missing")),
        )


def _list(settings: dict[str, str], key: str) -> list[str]:
    text = settings.get(key, "")
    if text.startswith("["):
        return json.loads(text)
    return text.split(",") if text else []
