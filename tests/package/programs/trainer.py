"""transformers' Trainer on a tiny model, with the callback."""
import tempfile

import torch
from optimization_rush.trainer import Measured
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

BATCH, LENGTH = 2, 16
torch.set_num_threads(1)
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
                                     num_attention_heads=2))
tokens = torch.randint(64, (256, LENGTH))
data = [{"input_ids": row, "labels": row} for row in tokens]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=BATCH, gradient_accumulation_steps=2,
                                  max_steps=40, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no")
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[Measured(tokens=2 * BATCH * LENGTH)])
    trainer.train()
print("steps:", trainer.state.global_step)
