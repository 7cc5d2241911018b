"""Training with Lightning: its ModelCheckpoint saves every few steps, and `ckpt_path="last"` resumes."""

import os

import lightning
import tiny_training as tiny
import torch
from lightning.pytorch.callbacks import ModelCheckpoint


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = tiny.Network()

    def training_step(self, batch, _):
        return self.network(**batch)["loss"]

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)

    def train_dataloader(self):
        return tiny.loader(self.trainer.global_step, self.trainer.global_rank, self.trainer.world_size)


def main():
    saving = ModelCheckpoint(dirpath="out", filename="{step:06}", every_n_train_steps=int(os.environ.get("EVERY", 10)), save_top_k=2, monitor="step", mode="max",
                             save_last=True)
    # Resumed before half of its batches, Lightning ends the epoch too early. The next one must not repeat batches.
    trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)), num_nodes=int(os.environ.get("DLFLOW_NODES", 1)),
                                strategy="ddp", max_steps=tiny.STEPS, logger=False, callbacks=[saving], enable_progress_bar=False, enable_model_summary=False,
                                use_distributed_sampler=False, reload_dataloaders_every_n_epochs=1)
    module = Module()
    trainer.fit(module, ckpt_path="last" if os.path.exists("out/last.ckpt") else None, weights_only=False)
    tiny.tell_end(trainer.global_step, module.network)


if __name__ == "__main__":
    main()
