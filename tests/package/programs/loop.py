"""A training loop in the way of nanoGPT: a small model of bytes, in plain PyTorch."""
import sys

import torch
from torch import nn

from optimization_rush import steps

BATCH, LENGTH, VOCABULARY = 4, 16, 64
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Embedding(VOCABULARY, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, VOCABULARY))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused="--fused" in sys.argv)

for step in steps(tokens=BATCH * LENGTH, count=3):
    with step.phase("data"):
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
    with step.phase("forward"), torch.autocast("cpu", torch.bfloat16, enabled="--bf16" in sys.argv):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    with step.phase("backward"):
        loss.backward()
    with step.phase("optimizer"):
        optimizer.step()
        optimizer.zero_grad()
    step.loss = loss
print("steps:", step.number + 1)
