"""train_accelerate.py DATA EPOCHS: trains with accelerate, saves out/epoch_N after each epoch, and continues from the newest one."""

import glob
import gzip
import sys

import numpy
import torch
from accelerate import Accelerator

data, epochs = sys.argv[1], int(sys.argv[2])
x = numpy.frombuffer(gzip.open(f"{data}/train-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)[:20000]
y = numpy.frombuffer(gzip.open(f"{data}/train-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)[:20000]
pictures = torch.utils.data.TensorDataset(torch.tensor(x / 255, dtype=torch.float32), torch.tensor(y, dtype=torch.int64))

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16 * 13 * 13, 10))
accelerator = Accelerator()
loader = torch.utils.data.DataLoader(pictures, batch_size=64, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, torch.optim.Adam(model.parameters()), loader)

saved = sorted(int(folder.rpartition("_")[2]) for folder in glob.glob("out/epoch_*"))
if saved:
    accelerator.load_state(f"out/epoch_{saved[-1]}")
for epoch in range(saved[-1] + 1 if saved else 1, epochs + 1):
    for pictures, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        accelerator.backward(loss)
        optimizer.step()
    accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    accelerator.save_state(f"out/epoch_{epoch}")
accelerator.wait_for_everyone()
if accelerator.is_main_process:
    torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
accelerator.end_training()
