"""The learner as a model of the framework haphazard, beside a model of the framework's own."""

from __future__ import annotations

import importlib.util
import pkgutil
import sys
import time
import types

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import blankout


@pytest.fixture
def framework(monkeypatch):
    """The framework with OLVF alone.

    Its zoo imports all models, some of which need torch, and its helpers import torch to seed those models. If there is
    no torch, an empty module takes its place for the import, and NumPy alone is seeded for OLVF, which draws nothing.
    """
    if importlib.util.find_spec("haphazard") is None:
        pytest.skip("haphazard is not installed (.ci/python installs it without torch)")
    modules = pkgutil.iter_modules

    def light(path=None, prefix=""):
        return (m for m in modules(path, prefix) if prefix != "haphazard.models.model_zoo." or m.name.endswith(".olvf"))

    monkeypatch.setattr(pkgutil, "iter_modules", light)
    no_torch = importlib.util.find_spec("torch") is None
    if no_torch:
        monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    import haphazard

    if no_torch:
        monkeypatch.setattr(importlib.import_module("haphazard.models.model_zoo.olvf"), "seed_everything", np.random.seed)
    return haphazard


def test_the_learner_is_a_model_of_the_framework(framework, binary, monkeypatch):
    from haphazard.utils.metrics import get_all_metrics

    monkeypatch.setenv("BLANKOUT", str(binary))

    @framework.register_dataset("breast cancer")
    class BreastCancer(framework.BaseDataset):
        def __init__(self, **settings):
            self.name, self.haphazard_type, self.task, self.num_classes = "breast cancer", "controlled", "classification", 2
            super().__init__(**settings)

        def read_data(self, base_path="./"):
            x, y = load_breast_cancer(return_X_y=True)
            order = np.random.default_rng(1).permutation(len(y))
            return x[order], y[order].astype(np.int64)

    @framework.register_model("blankout")
    class Blankout(framework.BaseModel):
        def __init__(self, **settings):
            self.name, self.tasks, self.deterministic, self.hyperparameters = "blankout", {"classification"}, True, set()
            super().__init__(**settings)

        def fit(self, dataset, model_params=None, seed=42):
            start = time.perf_counter()
            learner = blankout.Learner(**(model_params or {}))
            values = np.stack([np.where(mask, x, np.nan) for x, mask, _ in dataset])  # NaN is missing
            chances = learner.learn_many(values, dataset.y.tolist())
            chance = chances[:, list(learner.classes_).index(1)]
            return {"labels": dataset.y, "preds": (chance > 0.5).astype(np.int64), "logits": chance, "is_logit": False, "time_taken": time.perf_counter() - start}

    def accuracy(model, dataset, params):
        out = framework.load_model(model)(dataset, params)
        measures = get_all_metrics(out["labels"], out["preds"], out["logits"], task="classification", num_classes=2, is_logit=out["is_logit"])
        return 100 * measures["bal_acc"]

    for probability, least in ((0.25, 84), (0.5, 90), (0.75, 92)):
        dataset = framework.load_dataset("breast cancer", scheme="probabilistic", availability_prob=probability, mask_seed=1)
        ours, theirs = accuracy("blankout", dataset, {}), accuracy("olvf", dataset, {"C": 0.1, "C_bar": 0.1, "B": 1.0, "reg": 0.01})
        assert ours > least and ours > theirs, (probability, ours, theirs)
