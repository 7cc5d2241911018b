"""One rank of a test: `rank.py SCENARIO`, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as any launcher sets them."""

import copy
import datetime
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

import dlflow.torch
from dlflow import _cuda
from dlflow.torch import compression
from raising import raises

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
FLOATS = {torch.float32, torch.float64, torch.float16, torch.bfloat16}
OPS = {dist.ReduceOp.SUM: sum, dist.ReduceOp.PRODUCT: lambda all: torch.stack(all).prod(0), dist.ReduceOp.MIN: lambda all: torch.stack(all).amin(0),
       dist.ReduceOp.MAX: lambda all: torch.stack(all).amax(0), dist.ReduceOp.AVG: lambda all: sum(all) / len(all)}
BITS = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or, dist.ReduceOp.BXOR: torch.bitwise_xor}

NEW = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 15)

dist._DEFAULT_FIRST_BUCKET_BYTES = 1000  # small models have several buckets, too
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def values(dtype, shape=(37,), rank=RANK):
    """Small whole numbers, so that every order of additions gives the same."""
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(0, 4, shape, generator=generator).to(dtype)


def same(got, expected):
    if isinstance(got, (list, tuple)):
        assert len(got) == len(expected), (got, expected)
        for a, b in zip(got, expected):
            same(a, b)
        return
    assert got.dtype == expected.dtype and torch.equal(got, expected), (got, expected)


def reductions():
    """Every type and operation, also those that gloo does not have."""
    dist.init_process_group("dlflow")
    for dtype in TYPES:
        all_values = [values(dtype, rank=rank) for rank in range(SIZE)]
        operations = dict(OPS)
        if dtype not in FLOATS:
            del operations[dist.ReduceOp.AVG]
            for op, function in BITS.items():
                def fold(tensors, function=function):
                    result = tensors[0]
                    for tensor in tensors[1:]:
                        result = function(result, tensor)
                    return result
                operations[op] = fold
        for op, expected in operations.items():
            tensor = values(dtype)
            dist.all_reduce(tensor, op)
            same(tensor, expected([t.to(torch.float64) if dtype in FLOATS else t for t in all_values]).to(dtype))
    large = torch.full((50_000,), 60_000.0, dtype=torch.float16)  # their sum is infinite, their mean is not
    for count in (3, 50_000):
        tensor = large[:count].clone()
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        same(tensor, large[:count])
    flags = torch.tensor([True, RANK == 0, False])
    for op, expected in {dist.ReduceOp.SUM: [True, True, False], dist.ReduceOp.MIN: [True, SIZE == 1, False]}.items():
        tensor = flags.clone()
        dist.all_reduce(tensor, op)
        same(tensor, torch.tensor(expected))
    raises(ValueError, "'bxor' is not an operation of fp32 numbers", lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BXOR))
    group = dist.distributed_c10d._get_default_group()
    raises(ValueError, "dlflow cannot reduce torch.complex128", lambda: group.allreduce([torch.ones(3, dtype=torch.complex128)]))


def against_gloo():
    """The same calls on both backends leave the same tensors."""
    dist.init_process_group("gloo")
    groups = [dist.new_group(backend="gloo"), dist.new_group(backend="dlflow")]
    last = SIZE - 1

    def both(function):
        results = [function(group) for group in groups]
        same(results[1], results[0])

    def in_place(call, shape=(5, 7)):
        def function(group):
            tensor = values(torch.float32, shape)
            call(tensor, group)
            return [tensor]
        both(function)

    for shape in [(), (1,), (5, 7), (700_001,)]:
        in_place(lambda tensor, group: dist.all_reduce(tensor, group=group), shape)
        in_place(lambda tensor, group: dist.broadcast(tensor, last, group=group), shape)

        def all_gather(group):
            tensors = [torch.zeros(shape) for _ in range(SIZE)]
            dist.all_gather(tensors, values(torch.float32, shape), group=group)
            return tensors
        both(all_gather)

        def gather(group):
            tensors = [torch.zeros(shape) for _ in range(SIZE)] if RANK == last else None
            dist.gather(values(torch.float32, shape), tensors, dst=last, group=group)
            return tensors or []
        both(gather)

        def scatter(group):
            tensor = torch.zeros(shape)
            dist.scatter(tensor, [values(torch.float32, shape, rank) for rank in range(SIZE)] if RANK == last else None, src=last, group=group)
            return [tensor]
        both(scatter)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        in_place(lambda tensor, group: dist.all_reduce(tensor, op, group=group))
    gloo, ours = values(torch.float32, (6, 8)), values(torch.float32, (6, 8))
    dist.all_reduce(gloo, group=groups[0])
    dist.all_reduce(ours.t(), group=groups[1])
    same(ours, gloo)

    def objects(group):
        everybody = [None] * SIZE
        dist.all_gather_object(everybody, {"rank": RANK, "text": "x" * RANK}, group=group)
        assert everybody == [{"rank": rank, "text": "x" * rank} for rank in range(SIZE)], everybody
        one = [RANK if RANK == last else None]
        dist.broadcast_object_list(one, src=last, group=group)
        assert one == [last]
        return []
    both(objects)

    def messages(group):
        received = torch.zeros(11)
        works = [dist.isend(values(torch.float32, (11,)), (RANK + 1) % SIZE, group=group, tag=3)]
        dist.recv(received, (RANK - 1) % SIZE, group=group, tag=3)
        works[0].wait()
        return [received]
    if SIZE > 1:
        both(messages)


def others():
    """What gloo of PyTorch 1.13 does not have, or crashes with: against the definition."""
    dist.init_process_group("dlflow")
    empty, empties = torch.zeros(0), [torch.zeros(0) for _ in range(SIZE)]
    dist.all_reduce(empty)
    dist.all_gather(empties, empty)
    dist.gather(empty, empties if RANK == 0 else None)
    dist.scatter(empty, empties if RANK == 0 else None)
    dist.reduce_scatter(empty, empties)
    dist.all_to_all(empties, [torch.zeros(0) for _ in range(SIZE)])
    whole = torch.zeros(SIZE * 6).reshape(SIZE * 2, 3)
    dist.all_gather_into_tensor(whole, values(torch.float32, (2, 3)))
    same(whole, torch.cat([values(torch.float32, (2, 3), rank) for rank in range(SIZE)]))
    mine = torch.zeros(2, 3)
    dist.reduce_scatter_tensor(mine, values(torch.float32, (2 * SIZE, 3)))
    total = sum(values(torch.float32, (2 * SIZE, 3), rank) for rank in range(SIZE))
    same(mine, total[2 * RANK:2 * RANK + 2])
    uneven = torch.zeros(RANK + 1)
    dist.reduce_scatter(uneven, [torch.full((rank + 1,), float(RANK + rank)) for rank in range(SIZE)])
    same(uneven, torch.full((RANK + 1,), float(SIZE * RANK + SIZE * (SIZE - 1) // 2)))
    received = torch.zeros(SIZE, 2)
    dist.all_to_all_single(received, torch.tensor([[RANK, rank] for rank in range(SIZE)], dtype=torch.float32))
    same(received, torch.tensor([[rank, RANK] for rank in range(SIZE)], dtype=torch.float32))
    # Rank r sends r + 1 rows to each.
    received = torch.zeros(SIZE * (SIZE + 1) // 2, 2)
    dist.all_to_all_single(received, torch.full((SIZE * (RANK + 1), 2), float(RANK)), [rank + 1 for rank in range(SIZE)], [RANK + 1] * SIZE)
    same(received, torch.cat([torch.full((rank + 1, 2), float(rank)) for rank in range(SIZE)]))
    lists = [torch.zeros(rank + 1) for rank in range(SIZE)]
    dist.all_to_all(lists, [torch.full((RANK + 1,), float(RANK)) for _ in range(SIZE)])
    same(lists, [torch.full((rank + 1,), float(rank)) for rank in range(SIZE)])
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        tensor = values(torch.float64)
        dist.reduce(tensor, SIZE - 1, op)
        same(tensor, OPS[op]([values(torch.float64, rank=rank) for rank in range(SIZE)]) if RANK == SIZE - 1 else values(torch.float64))
    rows = torch.sparse_coo_tensor([[RANK, SIZE]], torch.full((2, 3), 1.0 + RANK), (SIZE + 1, 3))
    dist.all_reduce(rows)  # as DDP does for embeddings
    same(rows.to_dense(), torch.tensor([[1.0 + rank] * 3 for rank in range(SIZE)] + [[SIZE * (SIZE + 1) / 2] * 3]))
    twice = values(torch.float32)
    dist.all_reduce_coalesced([twice, twice])
    same(twice, OPS[dist.ReduceOp.SUM]([values(torch.float32, rank=rank) for rank in range(SIZE)]))
    with torch.inference_mode():
        column = values(torch.float32, (4, 5)).t()
        dist.all_reduce(column, async_op=True).get_future().wait()
        same(column, sum(values(torch.float32, (4, 5), rank) for rank in range(SIZE)).t())
    dlflow.torch.monitored_barrier()
    if NEW:  # older ones refuse it for other backends than gloo
        dist.monitored_barrier()
    if SIZE > 1:
        received = torch.zeros(3)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, received, (RANK - 1) % SIZE),
                                            dist.P2POp(dist.isend, torch.full((3,), float(RANK)), (RANK + 1) % SIZE)]):
            work.wait()
        same(received, torch.full((3,), float((RANK - 1) % SIZE)))
        if RANK == 0:
            senders = set()
            for _ in range(SIZE - 1):
                sender = dist.recv(received)
                same(received, torch.full((3,), float(sender)))
                senders.add(sender)
            assert senders == set(range(1, SIZE)), senders
        else:
            dist.send(torch.full((3,), float(RANK)), 0)


class Ready:
    """Replaces an event of a stream."""

    waits = 0

    def __init__(self, tensor):
        pass

    def synchronize(self):
        Ready.waits += 1


def pass_for_gpus(identity):
    """Each tensor passes for one on a GPU, which `identity` names. Gives how much memory was pinned."""
    pinned = []
    _cuda.is_on_device, _cuda.when_ready, _cuda.identity = lambda tensor: True, Ready, lambda device: identity
    _cuda.pinned = lambda count, dtype: pinned.append(count) or torch.empty(count, dtype=dtype)
    return pinned


def gpus_shared(calls=against_gloo):
    """All ranks have one GPU, which NCCL refuses."""
    pinned = pass_for_gpus(b"one GPU for all!")
    calls()
    assert len(pinned) > 20 and Ready.waits > 20, (len(pinned), Ready.waits)


def gpus_shared_others():
    gpus_shared(others)


def gpus_apart():
    """Each rank has a GPU; gloo stands in for NCCL. Only messages between two ranks are staged."""
    pinned, made = pass_for_gpus(bytes([RANK + 1] * 16)), []
    _cuda.nccl = lambda store, *arguments: made.append(dist.ProcessGroupGloo(store, *arguments)) or made[-1]
    against_gloo()
    assert len(made) == 1
    assert pinned == ([11, 11] if SIZE > 1 else []), pinned

    class Newer:
        def __getattr__(self, name):
            if name in ("allgather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"):
                raise AttributeError(name)
            return lambda *arguments: name

    group = dist.new_group(backend="dlflow")
    _cuda.nccl = lambda *arguments: Newer()
    tensor = torch.ones(3)
    asked = [group.start_coalescing(torch.device("cuda")), group.allgather_into_tensor_coalesced([tensor], [tensor]),
             group.reduce_scatter_tensor_coalesced([tensor], [tensor]), group.end_coalescing(torch.device("cuda"))]
    assert asked == [None, "all_gather_single_coalesced", "reduce_scatter_single_coalesced", "_end_coalescing"], asked


def unused_work():
    dist.init_process_group("dlflow")
    unused = dist.all_reduce(torch.ones(3), async_op=True)
    for _ in range(100):
        dist.all_reduce(torch.ones(3))
    kept = len(dlflow.torch.backend.own_group(None)._works)
    assert kept < 10, kept
    unused.wait()


def limits():
    dist.init_process_group("dlflow")
    if RANK == 0:  # comes to the barrier once rank 1 has waited too long
        dist.recv(torch.empty(1), 1)
        return dist.barrier()
    group = dlflow.torch.backend.own_group(None)
    group.set_timeout(datetime.timedelta(seconds=0.05))
    work = dist.barrier(async_op=True)
    raises(RuntimeError, "rank 1: barrier: timed out after 0.05 s", work.wait)
    group.set_timeout(datetime.timedelta(minutes=1))
    dist.send(torch.ones(1), 0)
    work.wait(datetime.timedelta(minutes=1))


def asynchronous():
    dist.init_process_group("dlflow")
    tensors = [values(torch.float32, (1000 + i,)) for i in range(40)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works[::2]]
    for work in works[1::2]:
        assert work.wait()
        assert work.is_completed() and work.is_success()
    for future in futures:
        future.wait()
    for i, tensor in enumerate(tensors):
        expected = sum(values(torch.float32, (1000 + i,), rank) for rank in range(SIZE))
        same(tensor, expected)
        if i % 2 == 0:
            same(futures[i // 2].value()[0], expected)
    column = values(torch.float32, (4, 5)).t()
    dist.all_reduce(column, async_op=True).get_future().wait()  # copied back before the future is done
    same(column, sum(values(torch.float32, (4, 5), rank) for rank in range(SIZE)).t())
    # A slow rank: not done, a wait with a limit says so, and it can be waited for again.
    if RANK == 0:
        time.sleep(1)
    work = dist.barrier(async_op=True)
    if RANK == 1:
        assert not work.is_completed()
        raises(RuntimeError, "rank 1: barrier: timed out after 0.05 s", lambda: work.wait(datetime.timedelta(seconds=0.05)))
    work.wait()


def groups():
    """Sub-groups, also one that a rank makes before others are in it; and a second life."""
    for _ in range(2):
        dist.init_process_group("dlflow")
        even, odd = dist.new_group(list(range(0, SIZE, 2))), dist.new_group(list(range(1, SIZE, 2)))
        tensor = torch.tensor([float(RANK)])
        dist.all_reduce(tensor, group=odd if RANK % 2 else even)
        same(tensor, torch.tensor([float(sum(range(RANK % 2, SIZE, 2)))]))
        dist.barrier()
        dist.destroy_process_group()
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)


def refusals():
    dist.init_process_group("dlflow")
    raises(ValueError, f"rank {RANK}: all_gather: 1 output tensors for {SIZE} ranks", lambda: dist.all_gather([torch.ones(2)], torch.ones(2)))
    raises(ValueError, "its tensor has 3 elements, but its place in the list has 2", lambda: dist.all_gather([torch.ones(2)] * SIZE, torch.ones(3)))
    raises(ValueError, f"the output has 3 elements, but {SIZE} ranks with 2 each make {2 * SIZE}",
           lambda: dist.all_gather_into_tensor(torch.ones(3), torch.ones(2)))
    raises(ValueError, "the input is torch.float32, the output torch.float64",
           lambda: dist.all_gather_into_tensor(torch.ones(2 * SIZE, dtype=torch.float64), torch.ones(2)))
    raises(ValueError, "a tensor is sparse", lambda: dist.broadcast(torch.ones(3).to_sparse(), 0))
    raises(ValueError, "sparse tensors can only be summed",
           lambda: dist.all_reduce(torch.ones(3).to_sparse(), dist.ReduceOp.MAX))
    raises(ValueError, f"the input has {SIZE + 1} rows, which {SIZE} ranks cannot share evenly",
           lambda: dist.all_to_all_single(torch.ones(SIZE), torch.ones(SIZE + 1)))
    dist.barrier()  # none of these was told to anybody


def train(parallel):
    """A small network on 24 samples in 6 steps; the parameters as one line of text."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 3))
    data, labels = torch.randn(24, 20), torch.randint(0, 3, (24,))
    if parallel:
        dist.init_process_group("dlflow")
        data, labels = data[RANK::SIZE], labels[RANK::SIZE]
        trained = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)  # several buckets
    else:
        trained = model
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9)
    for _ in range(6):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(trained(data), labels).backward()
        optimizer.step()
    if RANK == 0:
        torch.save([parameter.detach() for parameter in model.parameters()], os.environ["PARAMETERS"])


class Crossed(torch.nn.Module):
    """Layers are used in another order than they were registered: the buckets of the first step are rebuilt."""

    def __init__(self):
        super().__init__()
        self.last, self.first = torch.nn.Linear(60, 3), torch.nn.Linear(20, 60)
        self.middle = torch.nn.Linear(60, 60)

    def forward(self, data):
        return self.last(torch.tanh(self.middle(torch.tanh(self.first(data)))))


def batch(step):
    generator = torch.Generator().manual_seed(100 * step + RANK)
    return torch.randn(8, 20, generator=generator), torch.randint(0, 3, (8,), generator=generator)


def gradients_of(model, step):
    model.zero_grad()
    data, labels = batch(step)
    torch.nn.functional.cross_entropy(model(data), labels).backward()
    return {name.replace("module.", ""): parameter.grad.clone() for name, parameter in model.named_parameters()}


def mean_over_ranks(tensor):
    tensor = tensor.clone()
    dist.all_reduce(tensor)
    return tensor / SIZE


def require_same_on_all(tensor):
    tensors = [torch.empty_like(tensor) for _ in range(SIZE)]
    dist.all_gather(tensors, tensor)
    for other in tensors:
        same(other, tensor)


def compressed_model(method, **options):
    torch.manual_seed(5)
    model = torch.nn.parallel.DistributedDataParallel(Crossed(), bucket_cap_mb=0.001)
    state = compression.State(model, method, **options)
    layouts = []

    def hook(state, bucket):
        if bucket.index() == 0:
            layouts.append([])
        layouts[-1].append([tuple(parameter.shape) for parameter in bucket.parameters()])
        return compression.hook(state, bucket)

    model.register_comm_hook(state, hook)
    return model, state, layouts


def compressed():
    """What was sent and what is kept add up to all gradients, also where buckets are rebuilt between steps."""
    dist.init_process_group("dlflow")
    for method in ("fp16", "bf16", "int8", "topk", "mstopk", "randomk", "powersgd"):
        model, state, layouts = compressed_model(method, density=0.1)
        plain = copy.deepcopy(model.module)
        sent, all = {}, {}
        for step in range(5):
            for sums, gradients in ((sent, gradients_of(model, step)), (all, gradients_of(plain, step))):
                for name, gradient in gradients.items():
                    sums[name] = sums.get(name, 0) + gradient
        assert len(layouts[1]) > 1 and layouts[0] != layouts[1] == layouts[4], layouts
        kept = state.state_dict()["parameters"]
        left = 0
        for name in all:
            require_same_on_all(sent[name])
            left += kept[name]["residual"].abs().sum().item()
            torch.testing.assert_close(sent[name] + mean_over_ranks(kept[name]["residual"].view(sent[name].shape)), mean_over_ranks(all[name]),
                                       rtol=1e-4, atol=1e-5, msg=lambda text: f"{method}, {name}: {text}")
        assert left > 0, method
    model = torch.nn.parallel.DistributedDataParallel(Crossed())
    model.register_comm_hook(compression.State(model, "fp16"), compression.hook)  # PyTorch looks at its annotations
    assert gradients_of(model, 0)


def compressed_state():
    """Training continues from a saved state as if it had not been interrupted."""
    dist.init_process_group("dlflow")
    for method, options in (("topk", {"density": 0.1}), ("dgc", {"density": 0.1, "momentum": 0.9, "clip": 1.0}), ("powersgd", {}),
                            ("mstopk", {"density": 0.1, "warmup_epochs": 2, "aggregation": "gtopk"})):
        model, state, _ = compressed_model(method, **options)
        again_model, again, _ = compressed_model(method, **options)
        for step in range(3):
            state.set_epoch(step)
            again.set_epoch(step)
            gradients_of(model, step)
            gradients_of(again_model, step)
        saved = state.state_dict()
        again.load_state_dict({**saved, "parameters": {name: {} for name in saved["parameters"]}})  # forgets everything
        again.load_state_dict(saved)
        for step in range(3, 6):
            for one, other in zip(gradients_of(model, step).values(), gradients_of(again_model, step).values()):
                same(other, one)
        states = [None] * SIZE
        dist.all_gather_object(states, state.state_dict())
        merged = compression.merge(states)["parameters"]
        for name, parts in state.state_dict()["parameters"].items():
            torch.testing.assert_close(merged[name]["residual"], mean_over_ranks(parts["residual"]))


def compressed_refusals():
    dist.init_process_group("dlflow")
    model = torch.nn.Linear(3, 2)
    raises(ValueError, "there is no compression 'zip'; there are fp16, bf16", lambda: compression.State(model, "zip"))
    raises(ValueError, "density is in (0, 1]", lambda: compression.State(model, "topk", density=0))
    raises(ValueError, "gtopk is for methods", lambda: compression.State(model, "int8", aggregation="gtopk"))
    raises(ValueError, "parameter weight is torch.float64", lambda: compression.State(torch.nn.Linear(3, 2).double(), "topk"))
    group = dist.new_group(backend="gloo")
    raises(ValueError, "needs a group of the backend dlflow", lambda: compression.State(model, "topk", group=group))
    state = compression.State(model, "topk")
    raises(ValueError, "is of compression int8", lambda: state.load_state_dict(compression.State(model, "int8").state_dict()))
    saved = {"method": "topk", "step": 0, "epoch": 0, "parameters": {"weight": {"residual": torch.ones(5)}}}
    raises(ValueError, "parameter weight has 6 elements, the saved state 5", lambda: state.load_state_dict(saved))


def one_process():
    train(False)


def ddp():
    train(True)


def profiled():
    """Steps of 10 ms in which two layers have a bucket each, the larger of which is ready last; and sums that are none of gradients, in the middle and behind them."""
    dist.init_process_group("dlflow")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(600, 500, bias=False), torch.nn.Linear(500, 300, bias=False)),
                                                      bucket_cap_mb=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(int(os.environ["STEPS"])):
        time.sleep(0.01)
        model(torch.ones(2, 600)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 5:
            dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(7))
    dist.destroy_process_group()


def differ():
    dist.init_process_group("dlflow")
    dist.barrier()
    def different():
        dist.all_reduce(torch.ones(10 + (RANK == 1)))  # of a sum that would be wrong none learns
        os._exit(3)
    start = time.monotonic()
    print(RANK, raises(RuntimeError, "is not the same on all ranks: rank 1 ", different), flush=True)
    assert time.monotonic() - start < 5


def die():
    """Rank 1 is killed; the others say after how long they know of whom."""
    dist.init_process_group("dlflow")
    dist.barrier()
    if RANK == 1:
        if os.environ.get("WITH_CHILD") and os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    text = raises(RuntimeError, "rank 1 (node ", lambda: dist.all_reduce(torch.ones(3_000_000)))
    print(f"{time.monotonic() - start:.2f}", text, flush=True)


def die_in_backward():
    """Rank 1 is killed while the others train by DDP: their `except` runs."""
    dist.init_process_group("dlflow")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)]))
    model(torch.rand(16, 64)).sum().backward()
    if RANK == 1:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()

    def train():
        while True:
            model(torch.rand(16, 64)).sum().backward()

    print(raises(RuntimeError, "rank 1 (node ", train), flush=True)


def ends():
    """No destroy_process_group: the process just ends, with a group and a work that are still known."""
    global kept
    dist.init_process_group("dlflow")
    kept = [dist.all_reduce(torch.ones(5), async_op=True), dist.new_group()]
    kept[0].wait()
    if RANK == 0:
        time.sleep(1)


def ends_late():
    """Objects that outlive the globals of their modules, as those that C++ holds may at the end of the process."""
    dist.init_process_group("gloo")
    group = dist.new_group(backend="dlflow")
    work = group.barrier()
    work.wait()
    dlflow.torch.backend._leave_all()
    for name in vars(dlflow.runtime).copy():
        if not name.startswith("__"):
            setattr(dlflow.runtime, name, None)
    del work
    group.__del__()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("ended", flush=True)
