"""A training of several ranks, which torchrun starts."""
import torch
import torch.distributed as dist
from optimization_rush import steps
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH, WIDTH = 8, 32
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
ranks = dist.get_world_size()
model = DistributedDataParallel(nn.Linear(WIDTH, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
draws = torch.Generator().manual_seed(dist.get_rank())
for step in steps(tokens=BATCH * ranks, count=3):
    inputs = torch.randn(BATCH, WIDTH, generator=draws)
    with step.phase("forward"):
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    with step.phase("backward"):
        loss.backward()
    with step.phase("optimizer"):
        optimizer.step()
        optimizer.zero_grad()
    with step.untimed():
        step.loss = loss.detach() / ranks
        dist.all_reduce(step.loss)
dist.destroy_process_group()
print("steps:", step.number + 1)
