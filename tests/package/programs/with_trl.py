"""TRL's SFT of a tiny Llama, with the callback."""
import sys
import tempfile

import torch
from datasets import Dataset
from optimization_rush.trainer import Measured
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

BATCH, LENGTH = 4, 16
torch.set_num_threads(1)
torch.manual_seed(0)
words = ["<pad>", "<eos>", "<unk>", *"abcdefghijklmnopqrstuvwxyz"]
split = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
split.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=split, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
model = LlamaForCausalLM(LlamaConfig(vocab_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                     num_attention_heads=2, max_position_embeddings=32))
data = Dataset.from_dict({"text": ["a b c d e f g h i j k l m n o p"] * 200})
with tempfile.TemporaryDirectory() as folder:
    arguments = SFTConfig(folder, per_device_train_batch_size=BATCH, max_length=LENGTH, max_steps=20, report_to=[],
                          save_strategy="no", use_cpu=True, bf16=False, disable_tqdm=True,
                          optim="adamw_torch_fused" if "--fused" in sys.argv else "adamw_torch")
    trainer = SFTTrainer(model, arguments, train_dataset=data, processing_class=tokenizer,
                         callbacks=[Measured(tokens=BATCH * LENGTH)])
    trainer.train()
print("steps:", trainer.state.global_step)
