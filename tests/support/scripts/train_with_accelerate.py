"""Training with accelerate: saves its state on request (SIGTERM or SIGUSR1) and resumes from the newest one."""

import pathlib
import signal

import accelerate
import tiny_training as tiny
import torch

asked = False


def ask(*_):
    global asked
    asked = True


class Progress:
    """The number of steps done; accelerate saves it with the rest."""
    steps = 0

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state):
        self.steps = state["steps"]


def main():
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, ask)
    accelerator = accelerate.Accelerator(cpu=True)
    model = tiny.Network()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    saved = sorted(pathlib.Path("out").glob("step-*"))
    if saved:
        accelerator.load_state(str(saved[-1]))
        accelerator.print(f"continues from step {progress.steps}", flush=True)
    for batch in tiny.loader(progress.steps, accelerator.process_index, accelerator.num_processes):
        optimizer.zero_grad()
        accelerator.backward(model(**batch)["loss"])
        optimizer.step()
        progress.steps += 1
        if accelerator.reduce(torch.tensor(int(asked))).item() > 0:
            accelerator.save_state(f"out/step-{progress.steps:06}")
            accelerator.print(f"saved step {progress.steps}", flush=True)
            accelerator.end_training()
            raise SystemExit(75)
    tiny.tell_end(progress.steps, accelerator.unwrap_model(model))
    accelerator.end_training()


if __name__ == "__main__":
    main()
