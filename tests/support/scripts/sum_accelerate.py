"""The same over Hugging Face's accelerate."""

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
total = accelerator.reduce(torch.tensor([float(accelerator.process_index + 1)]), reduction="sum")
print(f"rank {accelerator.process_index} of {accelerator.num_processes}: {int(total.item())}\n", end="", flush=True)
accelerator.end_training()
