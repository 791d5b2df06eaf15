"""The examples of docs/python.md run, one after the other."""

from __future__ import annotations

import re

from conftest import ROOT


def test_python_md(program, monkeypatch, capsys):
    data = [{"label": c, "age": a, "color": k} for c, a, k in [("no", 20, "red"), ("yes", 60, "blue"), ("no", 30, "red"), ("yes", 50, None)]]
    program("train", "-q", "-d", program.events("t.jsonl", data * 10), "-o", "model.blankout", "--standardize", "auto")
    monkeypatch.chdir(program.home)
    monkeypatch.setenv("BLANKOUT", str(program.path))
    examples = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) >= 5
    names: dict = {}
    for example in examples:
        exec(compile(example, "docs/python.md", "exec"), names)
    assert "age" in capsys.readouterr().out
