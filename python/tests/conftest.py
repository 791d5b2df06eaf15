"""The real program, built once, and what tests ask of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Sequence

import blankout
import pytest

ROOT = Path(__file__).resolve().parents[2]


class Program:
    """The program blankout, run in a directory of its own."""

    def __init__(self, path: Path, home: Path):
        self.path, self.home = path, home

    def __call__(self, *args: str, input: str | None = None) -> str:
        done = subprocess.run(
            [str(self.path), *map(str, args)], cwd=self.home, input=input, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{args}: {done.stderr}"
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.write_text(text)
        return path

    def events(self, name: str, events: Sequence[dict[str, Any]]) -> Path:
        return self.write(name, "".join(json.dumps(e) + "\n" for e in events))

    def answers(self, model: Path, data: Path, *args: str) -> list[dict[str, Any]]:
        """Return what predict says about every event of a file."""
        out = self.home / "answers.jsonl"
        self("predict", "-q", "-m", model, "-d", data, "-o", out, "--unlabeled", "--unseen", "answer", *args)
        return [json.loads(line) for line in out.read_text().split("\n") if line]


@pytest.fixture(autouse=True)
def answered(monkeypatch):
    """Have models answer events of which they know nothing, as Program.answers does."""
    monkeypatch.setattr(blankout.Model, "unseen", "answer")


@pytest.fixture(scope="session")
def binary(tmp_path_factory) -> Path:
    """The program's path: that of $BLANKOUT, or one that is built."""
    if given := os.environ.get("BLANKOUT"):
        return Path(given).resolve()
    path = tmp_path_factory.mktemp("program") / "blankout"
    subprocess.run(["go", "build", "-o", path, "./cmd/blankout"], cwd=ROOT, check=True)
    return path


@pytest.fixture
def program(binary, tmp_path, monkeypatch) -> Program:
    monkeypatch.setenv("BLANKOUT", str(binary))
    return Program(binary, tmp_path)
