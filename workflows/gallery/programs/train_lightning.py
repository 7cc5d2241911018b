"""train_lightning.py DATA EPOCHS: trains with Lightning, which saves out/last.ckpt after each epoch and continues from it."""

import gzip
import sys

import lightning
import numpy
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

data, epochs = sys.argv[1], int(sys.argv[2])
x = numpy.frombuffer(gzip.open(f"{data}/train-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)[:20000]
y = numpy.frombuffer(gzip.open(f"{data}/train-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)[:20000]
pictures = torch.utils.data.TensorDataset(torch.tensor(x / 255, dtype=torch.float32), torch.tensor(y, dtype=torch.int64))


class Network(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16 * 13 * 13, 10))

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("loss", loss, on_epoch=True)
        return loss

    def on_train_epoch_end(self):
        print(f"epoch {self.current_epoch + 1}: loss {self.trainer.callback_metrics['loss']:.3f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


trainer = lightning.Trainer(max_epochs=epochs, accelerator="auto", devices=1, logger=False, enable_progress_bar=False,
                            callbacks=[ModelCheckpoint(dirpath="out", save_last=True)])
trainer.fit(Network(), torch.utils.data.DataLoader(pictures, batch_size=64, shuffle=True), ckpt_path="last")
