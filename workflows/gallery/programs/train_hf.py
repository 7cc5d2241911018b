"""train_hf.py DATA EPOCHS: trains a small vision transformer with transformers' Trainer, which saves out/checkpoint-STEP after each epoch."""

import gzip
import os
import sys

import numpy
import torch
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification
from transformers.trainer_utils import get_last_checkpoint

data, epochs = sys.argv[1], int(sys.argv[2])
x = numpy.frombuffer(gzip.open(f"{data}/train-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)[:6000]
y = numpy.frombuffer(gzip.open(f"{data}/train-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)
pictures = [{"pixel_values": torch.tensor(picture / 255, dtype=torch.float32), "labels": int(label)} for picture, label in zip(x, y)]

model = ViTForImageClassification(ViTConfig(image_size=28, patch_size=7, num_channels=1, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                                            intermediate_size=96, num_labels=10))
arguments = TrainingArguments("out", num_train_epochs=epochs, per_device_train_batch_size=32, learning_rate=1e-3, save_strategy="epoch", save_total_limit=2,
                              logging_strategy="epoch", report_to=[], disable_tqdm=True)
trainer = Trainer(model, arguments, train_dataset=pictures)
trainer.train(resume_from_checkpoint=get_last_checkpoint("out") if os.path.isdir("out") else None)
trainer.save_model("model")
