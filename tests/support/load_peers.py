"""Imports the modules that the peers of experiments/peers import."""
import torch.distributed.fsdp  # noqa: F401
import torch.distributed.pipelining  # noqa: F401
import torch.distributed.run  # noqa: F401
import torch.distributed.tensor.experimental  # noqa: F401
import torch.distributed.tensor.parallel  # noqa: F401
import transformers.integrations.sdpa_attention  # noqa: F401
import transformers.models.llama.modeling_llama  # noqa: F401
from safetensors.torch import load_file  # noqa: F401
from transformers import AutoModelForCausalLM  # noqa: F401
