"""The errors that this package raises, each with a sentence that says what to do."""

from __future__ import annotations


class ProgramError(RuntimeError):
    """The program blankout is not found, ended, or failed; the message is what it said."""


class SettingsError(ValueError):
    """A setting is not known, or has a value that it cannot have."""


class FileError(ValueError):
    """A file cannot be used as a model. Its subclasses say why."""


class DamagedError(FileError):
    """Bytes of the file were changed or are missing."""


class ForeignError(FileError):
    """The file is not one of blankout's."""


class NewerError(FileError):
    """The file was written by a newer program."""


class RefusedEvent(ValueError):
    """An event cannot be used. Those before it have been learned, it and those after it have not.

    Attributes:
        reason: the reason's name, as in docs/formats.md ("not-finite", "too-many" …).
        row: the number of the event in what was given, from 0.
        detail: what is wrong.
    """

    def __init__(self, reason: str, detail: str, row: int = 0):
        super().__init__(reason, detail, row)
        self.reason, self.detail, self.row = reason, detail, row

    def __str__(self) -> str:
        return f"event {self.row}: {self.reason}: {self.detail}"


class UnsupportedError(ValueError):
    """A value that no event can have, or a form (scikit-learn's, ONNX) that cannot say what a model says."""


KINDS: dict[str, type[Exception]] = {
    "settings": SettingsError, "damaged": DamagedError, "foreign": ForeignError, "newer": NewerError,
    "missing": FileNotFoundError, "unreachable": OSError, "unsupported": UnsupportedError,
}
