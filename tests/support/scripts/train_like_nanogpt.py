"""Saves like nanoGPT: rank 0 calls torch.save on out/ckpt.pt every few steps, without a signal handler. Resumes from that file."""

import os
import pathlib

import tiny_training as tiny
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    out = pathlib.Path("out")
    out.mkdir(exist_ok=True)
    model = tiny.Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step = 0
    if (out / "ckpt.pt").exists():
        checkpoint = torch.load(out / "ckpt.pt", map_location="cpu", weights_only=False)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        step = checkpoint["iter_num"]
        print(f"continues from step {step}", flush=True)
    trained = torch.nn.parallel.DistributedDataParallel(model)
    for batch in tiny.loader(step, rank, ranks):
        optimizer.zero_grad(set_to_none=True)
        trained(**batch)["loss"].backward()
        optimizer.step()
        step += 1
        if step % int(os.environ.get("EVERY", 10)) == 0 and rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": step}, out / "ckpt.pt")
            print(f"saved step {step}", flush=True)
    tiny.tell_end(step, model)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
