"""Probabilities of classes from those of their pairs (one against one)."""

from __future__ import annotations

import numpy as np


def couple(outputs: np.ndarray, classes: int) -> np.ndarray:
    """Return the probabilities of classes, shape (n, classes).

    outputs has shape (n, classes*(classes-1)/2): the scores of the pairs (1,0), (2,0),
    (2,1), (3,0) … This is the second method of Wu, Lin and Weng, Probability Estimates
    for Multi-class Classification by Pairwise Coupling (2004, section 4), algorithm 2.
    """
    n, k = len(outputs), classes
    with np.errstate(over="ignore"):
        pair = 1 / (1 + np.exp(-outputs))
    p = np.full((n, k), 1 / k)
    q = np.zeros((n, k, k))
    for i in range(k):
        for j in range(i):
            a = np.clip(pair[:, i * (i - 1) // 2 + j], 1e-7, 1 - 1e-7)
            b = 1 - a
            q[:, i, j] = q[:, j, i] = -a * b
            q[:, i, i] += b * b
            q[:, j, j] += a * a
    left = np.arange(n)  # the events that have not converged
    for _ in range(1000):
        if not len(left):
            break
        s, at = p[left], q[left]
        qp = np.zeros_like(s)
        pqp = np.zeros(len(left))
        for i in range(k):
            for j in range(k):
                qp[:, i] += at[:, i, j] * s[:, j]
            pqp += s[:, i] * qp[:, i]
        going = np.abs(qp - pqp[:, None]).max(axis=1) >= 1e-9
        left, s, at, qp, pqp = left[going], s[going], at[going], qp[going], pqp[going]
        for i in range(k):
            row = at[:, i, :]
            step = (pqp - qp[:, i]) / row[:, i]
            pqp = (pqp + step * (step * row[:, i] + 2 * qp[:, i])) / ((1 + step) * (1 + step))
            s[:, i] += step
            qp = (qp + step[:, None] * row) / (1 + step)[:, None]
            s /= (1 + step)[:, None]
        p[left] = s
    return p
