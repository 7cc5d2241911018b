"""One rank of a test of Horovod's interface: `horovod_rank.py SCENARIO...`. It does not use dlflow, so that the real Horovod can also
run it."""

import os
import random
import signal
import sys
import time
import warnings

import torch
import horovod.torch as hvd
from raising import raises


def same(got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape and torch.equal(got, expected), (got, expected)


def close(got, expected, **tolerance):
    torch.testing.assert_close(got, expected, **tolerance)


def values(rank, shape=(6, 5), dtype=torch.float32):
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def of_each(tensor):
    """The tensor of each rank, one row each."""
    rows = torch.zeros((hvd.size(), *tensor.shape), dtype=tensor.dtype)
    rows[hvd.rank()] = tensor
    return hvd.allreduce(rows, op=hvd.Sum)


def collectives():
    """Each call once; the results go into a file, to be compared with those of another implementation."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    results = {"numbers": (rank, size, hvd.local_rank(), hvd.local_size(), hvd.nccl_built())}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64):
        mine = values(rank, dtype=dtype)
        for op in (hvd.Average, hvd.Sum):
            results[f"allreduce {dtype} {int(op)}"] = hvd.allreduce(mine, op=op)
        results[f"scaled {dtype}"] = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.37, postscale_factor=1.7)
        results[f"broadcast {dtype}"] = hvd.broadcast(mine, size - 1)
    in_place = values(rank)
    hvd.allreduce_(in_place, op=hvd.Sum)
    hvd.broadcast_(in_place[:2].clone(), 0)
    results["in place"] = in_place
    results["mean of integers"] = hvd.allreduce(torch.arange(-5, 5) * (rank + 1))
    results["adasum"] = hvd.allreduce(values(rank) + 0.5, op=hvd.Adasum)
    results["fp16"] = hvd.allreduce(values(rank) / 3, compression=hvd.Compression.fp16, op=hvd.Sum)
    results["object"] = hvd.broadcast_object({"rank": rank}, 1)
    differentiable = values(rank).requires_grad_()
    (hvd.allreduce(differentiable, op=hvd.Sum) * torch.arange(30).view(6, 5)).sum().backward()
    results["gradient"] = differentiable.grad
    for op in (hvd.Average, hvd.Adasum):
        model = trained_model(lambda optimizer, model: hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=op), rank)
        results[f"trained {int(op)}"] = [parameter.detach() for parameter in model.parameters()]
    hvd.shutdown()
    torch.save(results, f"{os.environ['RESULTS']}-{rank}")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(10, 7), torch.nn.Linear(7, 3)
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, data):
        return self.second(torch.tanh(self.first(data)))


def trained_model(wrap, rank, passes=1, after=lambda optimizer: optimizer.step()):
    """A small network after some steps; `rank` None: one process with the data of all ranks."""
    torch.manual_seed(5)
    model = Net()
    optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model)
    for step in range(6):
        optimizer.zero_grad()
        for one in range(passes):
            generator = torch.Generator().manual_seed(1000 * step + one)
            data, labels = torch.randn(24, 10, generator=generator), torch.randint(0, 3, (24,), generator=generator)
            own = slice(None) if rank is None else slice(rank, None, hvd.size())
            torch.nn.functional.cross_entropy(model(data[own]), labels[own]).backward()
        after(optimizer)
    return model


def optimizers():
    """Each option trains to what one process does that sees all data."""
    hvd.init()
    rank = hvd.rank()

    def check(model, expected, **tolerance):
        for one, other in zip(model.parameters(), expected.parameters()):
            close(one.detach(), other.detach(), **(tolerance or {"rtol": 1e-5, "atol": 1e-6}))

    def alone(**options):
        return trained_model(lambda optimizer, model: optimizer, None, **options)

    def wrapped(**options):
        return lambda optimizer, model: hvd.DistributedOptimizer(optimizer, model.named_parameters(), **options)

    plain = alone()
    check(trained_model(wrapped(), rank), plain)
    check(trained_model(lambda optimizer, model: hvd.DistributedOptimizer(optimizer), rank), plain)
    check(trained_model(wrapped(compression=hvd.Compression.fp16), rank), plain, rtol=1e-2, atol=1e-3)
    check(trained_model(wrapped(gradient_predivide_factor=2.0), rank), plain)
    check(trained_model(wrapped(backward_passes_per_step=2), rank, passes=2), alone(passes=2))

    def clipped(optimizer):
        if hasattr(optimizer, "synchronize"):
            optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 0.1)
        if hasattr(optimizer, "synchronize"):
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            optimizer.step()
    check(trained_model(wrapped(), rank, after=clipped), alone(after=clipped))

    def with_closure(optimizer):
        optimizer.step(lambda: torch.tensor(0.0))
    check(trained_model(wrapped(), rank, after=with_closure), plain)

    scheduled = []

    def with_scheduler(optimizer, model):  # made for the inner one, before it is wrapped
        scheduled.append(torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5))
        return hvd.DistributedOptimizer(optimizer, model.named_parameters())

    def halving(optimizer):
        optimizer.step()
        scheduled[-1].step()

    def alone_scheduled(optimizer, model):
        scheduled.append(torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5))
        return optimizer
    check(trained_model(with_scheduler, rank, after=halving), trained_model(alone_scheduled, None, after=halving))

    model = Net()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    assert isinstance(optimizer, torch.optim.SGD)
    model(torch.ones(1, 10)).sum().backward()
    raises(AssertionError, "zero_grad() was called after loss.backward()", optimizer.zero_grad)
    raises(AssertionError, "more than backward_passes_per_step=1 times",
           lambda: model(torch.ones(1, 10)).sum().backward())
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    assert any("skip_synchronize" in str(warning.message) for warning in caught)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    raises(ValueError, "Found duplicates: a", lambda: hvd.DistributedOptimizer(inner, [("a", p) for p in model.parameters()]))
    raises(ValueError, "5 parameters of the optimizer are not in it", lambda: hvd.DistributedOptimizer(inner, [("a", model.first.weight)]))
    raises(ValueError, "op != Average", lambda: hvd.DistributedOptimizer(inner, op=hvd.Sum, gradient_predivide_factor=2.0))
    for beyond in ({"num_groups": 1}, {"groups": 2}, {"groups": [[model.first.bias]]}, {"sparse_as_dense": True}):
        raises(NotImplementedError, "`num_groups`, `groups` and `sparse_as_dense`", lambda: hvd.DistributedOptimizer(inner, **beyond))
    words = torch.nn.Embedding(9, 10, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(words.parameters(), lr=0.1), words.named_parameters())
    raises(NotImplementedError, "allreduce of weight: the tensor is sparse", lambda: words(torch.tensor([1])).sum().backward())


def states():
    """Parameters and optimizers that one rank has trained are on all ranks, also where an optimizer has no state yet."""
    hvd.init()
    for make in (lambda p: torch.optim.SGD(p, lr=0.1 + hvd.rank(), momentum=0.9, weight_decay=0.1),
                 lambda p: torch.optim.Adam(p, lr=0.1 + hvd.rank()), lambda p: torch.optim.AdamW(p, amsgrad=True),
                 lambda p: torch.optim.Adagrad(p)):
        torch.manual_seed(hvd.rank())
        model = torch.nn.Linear(4, 2)
        optimizer = make(model.parameters())
        for step in range(3 if hvd.rank() == 1 else 0):
            optimizer.zero_grad()
            model(torch.ones(5, 4)).square().sum().backward()
            optimizer.step()
        group = optimizer.param_groups[0]  # as a scheduler may keep it
        hvd.broadcast_parameters(model.state_dict(), root_rank=1)
        hvd.broadcast_optimizer_state(optimizer, root_rank=1)
        assert optimizer.param_groups[0] is group and group["lr"] == hvd.broadcast_object(group["lr"], 1)
        optimizer.zero_grad()
        model(torch.full((5, 4), 2.0)).square().sum().backward()
        optimizer.step()
        everybody = [hvd.broadcast_object((model.state_dict(), optimizer.state_dict()), root) for root in range(hvd.size())]
        for state, of_optimizer in everybody:
            assert str(state) == str(everybody[1][0]) and str(of_optimizer) == str(everybody[1][1]), everybody
        assert len(everybody[0][1]["state"]) == 2
    fresh = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
    hvd.broadcast_optimizer_state(fresh, root_rank=0)
    assert not fresh.state_dict()["state"]  # no step was taken for it
    assert hvd.broadcast_object("latest.pt" if hvd.rank() == 0 else None) == "latest.pt"


def random_order():
    """Ranks submit many tensors, each in an order of its own, while those of the step before are still under way."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    dice = random.Random(1000 + rank)
    under_way = {}
    for step in range(12):
        calls = []
        for i in range(40):
            dtype = (torch.float32, torch.float64, torch.int16)[i % 3]
            tensor = torch.full((i * 7 % 50, 3), float(rank + i + step), dtype=dtype)
            total = sum(float(r + i + step) for r in range(size))
            calls.append((f"sum{i}", lambda name, t=tensor: hvd.allreduce_async_(t, name=name, op=hvd.Sum), torch.full_like(tensor, total)))
        calls += [(f"root{i}", lambda name, i=i: hvd.broadcast_async_(torch.full((4,), float(rank)), i % size, name=name),
                   torch.full((4,), float(i % size))) for i in range(6)]
        dice.shuffle(calls)
        for name, call, expected in calls:
            if name in under_way:  # of the step before
                handle, before = under_way.pop(name)
                same(hvd.synchronize(handle), before)
            under_way[name] = call(name), expected
            if dice.random() < 0.03:
                time.sleep(0.003)
    for handle, expected in under_way.values():
        same(hvd.synchronize(handle), expected)


def refusals():
    """What ranks disagree about is said on all of them, with names and ranks; then they go on."""
    raises(NotImplementedError, "new_group()", lambda: hvd.init(process_sets="dynamic"))
    raises(NotImplementedError, "new_group()", lambda: hvd.init(comm=[0]))
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    last = size - 1
    others = "rank 0" if size == 2 else "ranks " + ", ".join(map(str, range(last)))
    is_last = rank == last

    def disagree(text, call):
        raises(hvd.HorovodInternalError, text, call)
        same(hvd.allreduce(torch.ones(2), name="x", op=hvd.Sum), torch.full((2,), float(size)))

    disagree(f"allreduce.x is not the same on all ranks: {others} float32 of shape [3], sum; rank {last} float32 of shape [4], sum",
             lambda: hvd.allreduce(torch.ones(3 + is_last), name="x", op=hvd.Sum))
    disagree(f"rank {last} int32 of shape [3], sum",
             lambda: hvd.allreduce(torch.ones(3, dtype=torch.int32 if is_last else torch.float32), name="x", op=hvd.Sum))
    disagree(f"{others} float32 of shape [2], average; rank {last} float32 of shape [2], sum",
             lambda: hvd.allreduce(torch.ones(2), name="x", op=hvd.Sum if is_last else hvd.Average))
    disagree("scaled by 2 and 1", lambda: hvd.allreduce(torch.ones(2), name="x", op=hvd.Sum, prescale_factor=2.0 if is_last else 1.0))
    disagree("root 1", lambda: hvd.broadcast(torch.ones(2), 1 if is_last else 0, name="r"))
    handle = hvd.allreduce_async(torch.ones(2), name="twice")
    if rank == 0:  # elsewhere the first may be done
        handles = [hvd.allreduce_async(torch.ones(2), name="late")]
        raises(ValueError, "rank 0 submitted allreduce.late twice", lambda: hvd.allreduce_async(torch.ones(2), name="late"))
    hvd.synchronize(handle)
    hvd.barrier()
    if rank > 0:
        handles = [hvd.allreduce_async(torch.ones(2), name="late")]
    same(hvd.synchronize(handles[0]), torch.ones(2))
    raises(NotImplementedError, "the tensor is sparse", lambda: hvd.allreduce(torch.ones(3).to_sparse()))
    raises(ValueError, "torch.complex64 cannot be reduced", lambda: hvd.allreduce(torch.ones(3, dtype=torch.complex64)))
    raises(ValueError, f"the ranks are 0 to {last}", lambda: hvd.broadcast(torch.ones(3), size))
    raises(NotImplementedError, "no gradient flows through", lambda: hvd.broadcast(torch.ones(3, requires_grad=True), 0))
    for name, instead in {"allgather": "all_gather()", "grouped_allgather_async": "all_gather()", "allgather_object": "all_gather_object()",
                          "alltoall": "all_to_all_single()", "reducescatter_async": "reduce_scatter()", "join": "Join", "Max": "ReduceOp",
                          "grouped_allreduce_async_": "allreduce_async_()", "sparse_allreduce_async": "to_dense()", "poll": "synchronize()",
                          "ProcessSet": "new_group()", "add_process_set": "new_group()", "SyncBatchNorm": "torch.nn.SyncBatchNorm",
                          "start_timeline": "torch.profiler", "cross_size": "local_size()", "mpi_threads_supported": "is_mpi_available()",
                          "gloo_built": "is_mpi_available()"}.items():
        text = raises(AttributeError, f"hvd.{name} is beyond Horovod's published examples", lambda: getattr(hvd, name))
        assert instead in text, text
    raises(AttributeError, "has no attribute 'alreduce'", lambda: hvd.alreduce)
    if size == 3:
        raises(NotImplementedError, "Adasum is for 2, 4, 8", lambda: hvd.allreduce(torch.ones(3), op=hvd.Adasum))
    for module, text in {"horovod.mxnet": "is for PyTorch, TensorFlow", "horovod.spark.torch": "is for PyTorch"}.items():
        raises(ImportError, text, lambda: __import__(module))
    import horovod
    raises(NotImplementedError, "resources: {ranks: N}", lambda: horovod.run(refusals, np=2))
    same(hvd.allreduce(torch.ones(2), op=hvd.Sum), torch.full((2,), float(size)))


def adasum():
    """Against the published formula, recursively over halves of the ranks."""
    hvd.init()
    size = hvd.size()

    def formula(vectors):
        if len(vectors) == 1:
            return vectors[0]
        a, b = formula(vectors[:len(vectors) // 2]), formula(vectors[len(vectors) // 2:])
        dot = (a * b).sum()
        return (1 - dot / (2 * (a * a).sum())) * a + (1 - dot / (2 * (b * b).sum())) * b

    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.float16, 1e-2)):
        everybody = [[(values(10 * rank + i, (11 * (i + 1), 3)) + 0.25).to(dtype) for i in range(3)] for rank in range(size)]
        handles = [hvd.allreduce_async(tensor, name=f"t{i}", op=hvd.Adasum) for i, tensor in enumerate(everybody[hvd.rank()])]
        for i, handle in enumerate(handles):
            got = hvd.synchronize(handle)
            close(got, formula([tensors[i].double() for tensors in everybody]).to(dtype), rtol=tolerance, atol=tolerance)
            assert all(torch.equal(row, got) for row in of_each(got))
    same(hvd.allreduce(torch.zeros(3), op=hvd.Adasum), torch.zeros(3))
    close(hvd.allreduce(torch.tensor([2.0, 4.0]), op=hvd.Adasum), torch.tensor([2.0, 4.0]))  # parallel: the mean
    close(hvd.allreduce(torch.eye(size)[hvd.rank()], op=hvd.Adasum), torch.ones(size))  # orthogonal: the sum


def states_alone():
    hvd.init()
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()) == (0, 1, 0, 1)
    same(hvd.allreduce(torch.ones(3)), torch.ones(3))
    same(hvd.allreduce(torch.ones(3), op=hvd.Adasum), torch.ones(3))
    trained_model(lambda optimizer, model: hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Adasum), 0)


def stall():
    """Rank 1 comes late to one tensor, and never to another."""
    hvd.init()
    if hvd.rank() == 1:
        time.sleep(2.5)
    hvd.allreduce(torch.ones(1), name="late")
    if hvd.rank() != 1:
        print(raises(hvd.HorovodInternalError, "allreduce.never has waited for", lambda: hvd.allreduce(torch.ones(1), name="never")), flush=True)
    else:
        time.sleep(7)


def die():
    """Rank 1 is killed, with a child that lives on; the others say after how long they know of whom."""
    hvd.init()
    hvd.barrier()
    if hvd.rank() != int(os.environ["WHO"]):
        open(f"{os.environ['READY']}-{hvd.rank()}", "w").close()
    else:
        while not all(os.path.exists(f"{os.environ['READY']}-{other}") for other in range(hvd.size()) if other != hvd.rank()):
            time.sleep(0.01)  # rank 0 would take the answers to others with it
        if os.fork() == 0:
            os.closerange(0, 3)  # who reads what it prints does not wait for it
            time.sleep(8)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    text = raises(hvd.HorovodInternalError, "", lambda: [hvd.allreduce(torch.ones(3), name=f"{i}") for i in range(1000)])
    print(f"{time.monotonic() - start:.2f}", text, flush=True)
    assert raises(hvd.HorovodInternalError, "", lambda: hvd.allreduce(torch.ones(3))) == text


def leaves():
    """Rank 1 ends; what others still submit fails."""
    hvd.init()
    hvd.allreduce(torch.ones(3))
    if hvd.rank() != 1:
        raises(hvd.HorovodInternalError, "rank 1 (node ", lambda: hvd.allreduce(torch.ones(3)))


def elastic():
    """4 epochs over 60 samples, committed after each batch. In the first pass rank 1 is killed in the middle of the second epoch."""
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(1, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5), model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(60), shuffle=True)
    resets = []

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, 4):
            for batch, samples in enumerate(torch.utils.data.DataLoader(sampler.dataset, batch_size=5, sampler=sampler)):
                optimizer.zero_grad()
                model(samples.float().view(-1, 1) / 60).square().mean().backward()
                optimizer.step()
                if os.environ["END"] == "kill" and state.epoch == 1 and batch == 2 and hvd.rank() == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                if os.environ["END"] == "differ" and state.epoch == 1:
                    hvd.allreduce(torch.ones(2 + hvd.rank()), name="differ")
                if os.environ["END"] == "warn" and state.epoch == 1 and batch == 2:
                    os.kill(os.getpid(), signal.SIGUSR1)
                state.sampler.record_batch(batch, len(samples))
                state.seen[state.epoch] += hvd.allreduce(torch.bincount(samples, minlength=60), op=hvd.Sum)
                state.commit()
            state.sampler.set_epoch(state.epoch + 1)
        return "trained"

    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, seen=torch.zeros(4, 60, dtype=torch.int64))
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    assert train(state) == "trained"
    for epoch in range(4):
        same(state.seen[epoch], torch.ones(60, dtype=torch.int64))
    weights = of_each(torch.cat([parameter.detach().view(1) for parameter in model.parameters()]))
    assert all(torch.equal(row, weights[0]) for row in weights)
    assert resets == ([hvd.size()] if os.environ["END"] == "go on" else []), resets


if __name__ == "__main__":
    for i, scenario in enumerate(sys.argv[1:]):
        if i > 0:
            hvd.barrier()
            hvd.shutdown()
        globals()[scenario]()
    print("ended", flush=True)
