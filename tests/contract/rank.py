"""A rank of tests/contract/ranks_test.py. usage: rank.py SCENARIO. Its output is compared there."""

import os
import pathlib
import signal
import sys
import time

import torch
import torch.distributed as dist

import dlflow
import dlflow.torch

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FOLDER = pathlib.Path(os.environ["FOLDER"])
SAMPLES, EPOCHS, BATCH = 50, 2, 3


class Numbers(torch.utils.data.Dataset):
    """Sample i is i, of class i % 3."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, torch.full((4,), float(index)) / SAMPLES, index % 3


def join(backend=None):
    dist.init_process_group(backend or os.environ.get("BACKEND", "gloo"))


def train():
    """Trains until one rank alone is asked to stop, and continues from there; notes which samples each step was made of."""
    join()
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = dlflow.torch.DistributedSampler(Numbers())
    loader = torch.utils.data.DataLoader(Numbers(), sampler=sampler, batch_size=BATCH, num_workers=2)
    saved = dlflow.resume(model=model, optimizer=optimizer, sampler=sampler)
    step, stop_at = saved.step, int(os.environ.get("STOP_AT", -1))
    for epoch in range(sampler.epoch, EPOCHS):
        sampler.set_epoch(epoch)
        for index, data, label in sampler.track(loader):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data), label).backward()
            optimizer.step()
            step += 1
            print("used", epoch, *index.tolist())
            if step == stop_at and RANK == SIZE - 1:
                os.kill(os.getpid(), signal.SIGUSR1)
            if dlflow.should_stop():
                dlflow.checkpoint(step, epoch=epoch, model=model, optimizer=optimizer, sampler=sampler, values={"ranks": SIZE})
                print("stopped", step, flush=True)
                dlflow.stop()
    print("done", step, saved.values.get("ranks"), flush=True)


def random_numbers():
    """Each rank has random numbers of its own, and goes on with them."""
    join()
    if dlflow.resume():
        print("drew", torch.rand(1).item(), flush=True)
        return
    torch.manual_seed(RANK)
    torch.rand(3)
    dlflow.checkpoint(1)
    print("drew", torch.rand(1).item(), flush=True)


def compresses():
    """DistributedDataParallel with compressed gradients: what is not sent yet is another on every rank. With KILLED all ranks are killed
    after step 3."""
    from dlflow.torch import compression
    join("dlflow")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(40, 40), torch.nn.Tanh(), torch.nn.Linear(40, 40)))
    state = compression.State(model, "dgc", density=0.05, momentum=0.9)
    model.register_comm_hook(state, compression.hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    saved = dlflow.resume(model=model, optimizer=optimizer, compression=state)
    generator = torch.Generator()
    for step in range(saved.step + 1, 7):
        data = torch.randn(8, 40, generator=generator.manual_seed(10 * step + RANK))
        loss = (model(data) - data).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", step, repr(loss.item()), flush=True)
        dlflow.checkpoint(step, model=model, optimizer=optimizer, compression=state)
        if step == 3 and "KILLED" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def of_each_rank():
    """A part that every rank has another of: alone, with a function that merges, and in what resume() hands out."""
    join()
    merged = dlflow.PerRank({}, lambda states: {"sum": sum(state["x"] for state in states)})
    alone = dlflow.PerRank({})
    if os.environ.get("SAVE"):
        merged.part["x"], alone.part["x"] = torch.tensor(10 + RANK), [RANK]
        dlflow.checkpoint(1, merged=merged, alone=alone, values={"x": 5})
        return
    saved = dlflow.resume(merged=merged)
    print(saved.values, merged.part, flush=True)
    try:
        dlflow.resume(alone=alone)
        print(alone.part, saved.part("alone"), flush=True)
    except RuntimeError as error:
        print(str(error).partition("/ck/")[2], flush=True)


def full_disk_of_another():
    """Rank 1 cannot write its part; all ranks hear of it."""
    join()
    from dlflow import _folder
    if RANK == 1:
        def no_space(*arguments):
            raise OSError(28, "No space left on device")
        _folder.write_tensors = no_space
    try:
        dlflow.checkpoint(1, own=dlflow.PerRank({"x": torch.ones(3)}))
    except RuntimeError as error:
        print(error, flush=True)


def first_alone():
    """`if rank == 0: checkpoint()`, as torch.save is called."""
    join()
    dlflow._ranks.PATIENCE = 1
    if RANK == 0:
        try:
            dlflow.checkpoint(1)
        except RuntimeError as error:
            print(error, flush=True)
    else:
        time.sleep(3)


def others_alone():
    """`if rank != 0: checkpoint()`."""
    join()
    dlflow._ranks.PATIENCE = 1
    if RANK != 0:
        try:
            dlflow.checkpoint(1)
        except RuntimeError as error:
            print(error, flush=True)
        (FOLDER / "told").touch()
    while not (FOLDER / "told").exists():  # the store ends with rank 0
        time.sleep(0.02)


def full_disk():
    """Rank 0 cannot write; all ranks hear of it."""
    join()
    if RANK == 0:
        def no_space(descriptor):
            raise OSError(28, "No space left on device")
        os.fsync = no_space
    try:
        dlflow.checkpoint(1)
    except (OSError, RuntimeError) as error:
        print(error, flush=True)


def of_runtime():
    """Ranks that have no torch.distributed agree over a group of dlflow.runtime."""
    from dlflow import runtime
    endpoint = runtime.Endpoint()
    (FOLDER / f"address.{RANK}.tmp").write_text(endpoint.address)
    (FOLDER / f"address.{RANK}.tmp").rename(FOLDER / f"address.{RANK}")
    while len(list(FOLDER.glob("address.?"))) < SIZE:
        time.sleep(0.02)
    group = runtime.Group(endpoint, RANK, [(FOLDER / f"address.{rank}").read_text() for rank in range(SIZE)])
    saved = dlflow.resume(group=group)
    for step in range(saved.step + 1, 10):
        if step == 4 and RANK == 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        if dlflow.should_stop():
            dlflow.checkpoint(step, values={"x": [1, 2]})
            print("stopped", step, flush=True)
            dlflow.stop()
    print("done", saved.step, saved.values, flush=True)


def sharded():
    """FSDP2: every rank writes its shards; another number of ranks goes on with the same parameters and state of the optimizer."""
    from torch.distributed.fsdp import fully_shard
    join()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 30), torch.nn.Tanh(), torch.nn.Linear(30, 3))
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    saved = dlflow.resume(model=model, optimizer=optimizer)
    for step in range(saved.step, saved.step + 3 if not saved else saved.step):
        optimizer.zero_grad()
        model(torch.arange(8.0).reshape(2, 4)).square().sum().backward()
        optimizer.step()
    if not saved:
        dlflow.checkpoint(3, model=model, optimizer=optimizer)
    total = sum(parameter.full_tensor().double().sum().item() * number for number, parameter in enumerate(model.parameters(), 1))
    moments = sum(state["exp_avg"].full_tensor().double().abs().sum().item() for state in optimizer.state.values())
    print("sums", saved.step, repr(total), repr(moments), flush=True)
    dist.barrier()
    os._exit(0)  # on a crowded machine one PyTorch 2.15 in some dozens aborts in its own threads when it ends


if __name__ == "__main__":
    globals()[sys.argv[1]]()
