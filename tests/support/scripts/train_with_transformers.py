"""Training with Hugging Face's Trainer: saves every few steps to out/checkpoint-STEP, and resumes from the last one."""

import os

import tiny_training as tiny
import transformers
from transformers.trainer_utils import get_last_checkpoint


def main():
    arguments = transformers.TrainingArguments(
        output_dir="out", max_steps=tiny.STEPS, per_device_train_batch_size=tiny.BATCH, save_strategy="steps", save_steps=int(os.environ.get("EVERY", 10)),
        save_total_limit=2, learning_rate=1e-2, lr_scheduler_type="constant", use_cpu=True, report_to=[], disable_tqdm=True, logging_strategy="no",
        dataloader_num_workers=1, dataloader_multiprocessing_context="spawn",
        ddp_backend="gloo", seed=1)
    trainer = transformers.Trainer(model=tiny.Network(), args=arguments, train_dataset=tiny.Batches())
    last = get_last_checkpoint("out") if os.path.isdir("out") else None
    if last:
        print(f"continues from {last}", flush=True)
    trainer.train(resume_from_checkpoint=last)
    tiny.tell_end(trainer.state.global_step, trainer.model)


if __name__ == "__main__":
    main()
