"""A training script with flags: a polynomial learns a curve. Without the host it makes 24 steps, unmeasured."""
import gc
import math
import sys

from optimization_rush import steps

TOKENS = 512
if "--no-gc" in sys.argv:
    gc.disable()
xs = [2 * i / TOKENS - 1 for i in range(TOKENS)]
rows = [[x**k for k in range(4)] for x in xs] if "--cache" in sys.argv else None
weights = [0.0] * 4
for step in steps(tokens=TOKENS, count=24):
    loss, gradient = 0.0, [0.0] * 4
    for i, x in enumerate(xs):
        row = rows[i] if rows else [x**k for k in range(4)]
        error = sum(w * p for w, p in zip(weights, row)) - math.sin(3 * x)
        loss += error * error / TOKENS
        gradient = [g + 2 * error * p / TOKENS for g, p in zip(gradient, row)]
    weights = [w - 0.2 * g for w, g in zip(weights, gradient)]
    step.loss = loss
