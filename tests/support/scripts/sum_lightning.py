"""The same over Lightning, with a Trainer as on any cluster: devices are the ranks of a node."""

import os
import warnings

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy

warnings.simplefilter("ignore")


class Sum(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, _):
        total = self.all_gather(torch.tensor([float(self.global_rank + 1)])).sum()
        print(f"rank {self.global_rank} of {self.trainer.world_size}: {int(total)}\n", end="", flush=True)
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


strategy = DDPStrategy(process_group_backend=os.environ.get("BACKEND", "gloo"))
trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["DEVICES"]), num_nodes=int(os.environ["DLFLOW_NODES"]), strategy=strategy,
                            max_steps=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Sum(), torch.utils.data.DataLoader(torch.ones(8, 1), batch_size=1))
