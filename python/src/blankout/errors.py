"""The errors that this package raises, each with a sentence that says what to do."""


class FileError(ValueError):
    """A file cannot be used as a model. Its subclasses say why."""


class DamagedError(FileError):
    """Bytes of the file were changed or are missing."""


class ForeignError(FileError):
    """The file is not one of blankout's."""


class NewerError(FileError):
    """The file was written by a newer program: it says something that this package
    does not know, and scoring without it could be wrong."""


class RefusedEvent(ValueError):
    """An event cannot be used, as the program would refuse it.

    Attributes:
        reason: the reason's name, as in docs/formats.md ("not-finite", "too-many" …).
        row: the number of the event in what was given, from 0.
    """

    def __init__(self, reason: str, detail: str, row: int = 0):
        super().__init__(f"event {row}: {reason}: {detail}")
        self.reason, self.detail, self.row = reason, detail, row


class UnsupportedError(ValueError):
    """Another form of model (scikit-learn's, ONNX) cannot say what this model says."""
