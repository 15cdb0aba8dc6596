"""Lightning on a tiny model, with the callback."""
import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from optimization_rush.lightning import Measured
from torch import nn

BATCH, LENGTH, VOCABULARY, ACCUMULATED = 4, 16, 64, 2
torch.set_num_threads(1)
torch.manual_seed(0)


class Bytes(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Embedding(VOCABULARY, 32), nn.Linear(32, VOCABULARY))

    def training_step(self, batch, number):
        return nn.functional.cross_entropy(self.net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, fused="--fused" in sys.argv)


data = torch.utils.data.DataLoader(torch.randint(VOCABULARY, (400, LENGTH + 1)), batch_size=BATCH)
trainer = Trainer(max_steps=20, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                  accumulate_grad_batches=ACCUMULATED, callbacks=[Measured(tokens=ACCUMULATED * BATCH * LENGTH)])
trainer.fit(Bytes(), data)
print("steps:", trainer.global_step)
