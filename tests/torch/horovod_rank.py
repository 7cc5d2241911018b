"""One rank of a test of Horovod's interface: `horovod_rank.py SCENARIO...`. Knows nothing of dlflow: the real Horovod runs it, too."""

import os
import random
import signal
import sys
import time
import warnings

import torch
import horovod.torch as hvd


def raises(kind, text, function):
    try:
        function()
    except kind as error:
        assert text in str(error), error
        return str(error)
    raise AssertionError(f"nothing was raised, expected: {text}")


def same(got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape and torch.equal(got, expected), (got, expected)


def close(got, expected, **tolerance):
    torch.testing.assert_close(got, expected, **tolerance)


def values(rank, shape=(6, 5), dtype=torch.float32):
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def collectives():
    """Each call once; the results go into a file, to be compared with those of another implementation."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    results = {"numbers": (rank, size, hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), hvd.nccl_built())}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64):
        mine = values(rank, dtype=dtype)
        for op in (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product):
            results[f"allreduce {dtype} {int(op)}"] = hvd.allreduce(mine, op=op)
        results[f"scaled {dtype}"] = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.37, postscale_factor=1.7)
        results[f"grouped {dtype}"] = hvd.grouped_allreduce([mine, mine[:2] + 1], op=hvd.Sum)
        results[f"allgather {dtype}"] = hvd.allgather(values(rank, (rank + 1, 3), dtype))
        results[f"broadcast {dtype}"] = hvd.broadcast(mine, size - 1)
        results[f"alltoall {dtype}"] = hvd.alltoall(values(rank, (2 * size,), dtype))
        results[f"reducescatter {dtype}"] = hvd.reducescatter(mine, op=hvd.Sum)
        results[f"mean of reducescatter {dtype}"] = hvd.reducescatter(mine)
    in_place = values(rank)
    hvd.allreduce_(in_place, op=hvd.Sum)
    hvd.broadcast_(in_place[:2].clone(), 0)
    results["in place"] = in_place
    results["mean of integers"] = hvd.allreduce(torch.arange(-5, 5) * (rank + 1))
    results["uneven alltoall"] = hvd.alltoall(torch.arange(size * (size + 1) // 2) + 100 * rank, splits=list(range(1, size + 1)))
    results["grouped allgather"] = hvd.grouped_allgather([values(rank, (rank + 2, 2)), values(rank, (3,))])
    results["grouped reducescatter"] = hvd.grouped_reducescatter([values(rank), values(rank, (size + 1,))], op=hvd.Sum)
    results["adasum"] = hvd.allreduce(values(rank) + 0.5, op=hvd.Adasum)
    results["fp16"] = hvd.allreduce(values(rank) / 3, compression=hvd.Compression.fp16, op=hvd.Sum)
    results["objects"] = (hvd.broadcast_object({"rank": rank}, 1), hvd.allgather_object("x" * rank))
    differentiable = values(rank).requires_grad_()
    for name, call in {"allreduce": lambda t: hvd.allreduce(t, op=hvd.Sum), "allgather": hvd.allgather,
                       "broadcast": lambda t: hvd.broadcast(t, 0), "alltoall": hvd.alltoall,
                       "reducescatter": lambda t: hvd.reducescatter(t, op=hvd.Sum)}.items():
        differentiable.grad = None
        output = call(differentiable)
        (output * torch.arange(output.numel()).view(output.shape)).sum().backward()
        results[f"gradient of {name}"] = differentiable.grad
    model = trained_model(wrap=lambda optimizer, model: hvd.DistributedOptimizer(optimizer, model.named_parameters()), rank=rank)
    results["trained"] = [parameter.detach() for parameter in model.parameters()]
    model = trained_model(wrap=lambda optimizer, model: hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Adasum),
                          rank=rank)
    results["trained with adasum"] = [parameter.detach() for parameter in model.parameters()]
    results["last to join"] = hvd.join() in range(size)
    hvd.shutdown()
    torch.save(results, f"{os.environ['RESULTS']}-{rank}")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(10, 7), torch.nn.Linear(7, 3)
        self.unused = torch.nn.Linear(2, 2)
        self.words = torch.nn.Embedding(9, 10, sparse=True)

    def forward(self, data, words=None):
        if words is not None:
            data = data + self.words(words)
        return self.second(torch.tanh(self.first(data)))


def trained_model(wrap, rank, size=None, steps=6, with_words=False, passes=1, after=lambda optimizer: optimizer.step()):
    """A small network after some steps; `rank` None: one process with the data of all `size` ranks."""
    torch.manual_seed(5)
    model = Net()
    optimizer = wrap(torch.optim.SGD([*model.first.parameters(), *model.second.parameters(), *model.unused.parameters(),
                                      *([model.words.weight] if with_words else [])], lr=0.1, momentum=0.0 if with_words else 0.9), model)
    for step in range(steps):
        optimizer.zero_grad()
        for one in range(passes):
            generator = torch.Generator().manual_seed(1000 * step + one)
            data, labels = torch.randn(24, 10, generator=generator), torch.randint(0, 3, (24,), generator=generator)
            words = torch.randint(0, 9, (24,), generator=generator) if with_words else None
            own = slice(None) if rank is None else slice(rank, None, size or hvd.size())
            torch.nn.functional.cross_entropy(model(data[own], words[own] if with_words else None), labels[own]).backward()
        after(optimizer)
    return model


def optimizers():
    """Each option trains to what one process does that sees all data."""
    hvd.init(process_sets="dynamic")
    rank, size = hvd.rank(), hvd.size()
    everybody = hvd.ProcessSet(list(range(size)))
    raises(ValueError, "there is a process set of the ranks", lambda: hvd.add_process_set(everybody))

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
    check(trained_model(wrapped(groups=2), rank), plain)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(trained_model(wrapped(num_groups=1), rank), plain)
        assert "num_groups" in str(caught[0].message), caught
    check(trained_model(lambda optimizer, model: hvd.DistributedOptimizer(
        optimizer, model.named_parameters(), groups=[list(model.first.parameters()), [model.second.bias]]), rank), plain)
    check(trained_model(wrapped(backward_passes_per_step=2), rank, passes=2), alone(passes=2))
    check(trained_model(wrapped(), rank, with_words=True), alone(with_words=True))
    check(trained_model(wrapped(sparse_as_dense=True), rank, with_words=True), alone(with_words=True))

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

    pairs = hvd.add_process_set([0, 1]) if size > 2 else hvd.global_process_set
    if pairs.included():
        check(trained_model(wrapped(process_set=pairs), rank, size=2), plain)
    hvd.barrier()

    model = Net()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    assert isinstance(optimizer, torch.optim.SGD)
    model(torch.ones(1, 10), torch.tensor([1])).sum().backward()
    raises(AssertionError, "zero_grad() was called after loss.backward()", optimizer.zero_grad)
    raises(AssertionError, "more than backward_passes_per_step=1 times",
           lambda: model(torch.ones(1, 10), torch.tensor([1])).sum().backward())
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    assert any("skip_synchronize" in str(warning.message) for warning in caught)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    raises(ValueError, "Found duplicates: a", lambda: hvd.DistributedOptimizer(inner, [("a", p) for p in model.parameters()]))
    raises(ValueError, "6 parameters of the optimizer are not in it", lambda: hvd.DistributedOptimizer(inner, [("a", model.words.weight)]))
    raises(ValueError, "op != Average", lambda: hvd.DistributedOptimizer(inner, op=hvd.Sum, gradient_predivide_factor=2.0))


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
        everybody = hvd.allgather_object((model.state_dict(), optimizer.state_dict()))
        for state, of_optimizer in everybody:
            assert str(state) == str(everybody[1][0]) and str(of_optimizer) == str(everybody[1][1]), everybody
        assert len(everybody[0][1]["state"]) == 2
    fresh = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
    hvd.broadcast_optimizer_state(fresh, root_rank=0)
    assert not fresh.state_dict()["state"]  # no step was taken for it
    is_first = hvd.rank() == 0
    assert hvd.broadcast_object("latest.pt" if is_first else None) == "latest.pt"
    assert hvd.allgather_object("latest.pt" if is_first else None) == ["latest.pt", *[None] * (hvd.size() - 1)]


def random_order():
    """Ranks submit many tensors, each in an order of its own, while those of the step before are still under way."""
    hvd.init(process_sets="dynamic")
    rank, size = hvd.rank(), hvd.size()
    dice = random.Random(1000 + rank)
    pair = hvd.add_process_set([0, size - 1]) if size > 2 else hvd.global_process_set
    under_way = {}
    for step in range(12):
        calls = []
        for i in range(40):
            dtype = torch.float64 if i % 5 == 0 else torch.float32
            tensor = torch.full((i * 7 % 50, 3), float(rank + i + step), dtype=dtype)
            total = sum(float(r + i + step) for r in range(size))
            calls.append((f"sum{i}", lambda name, t=tensor: hvd.allreduce_async_(t, name=name, op=hvd.Sum), torch.full_like(tensor, total)))
        calls += [(f"gather{i}", lambda name, i=i: hvd.allgather_async(torch.full((rank + i,), float(rank)), name=name),
                   torch.cat([torch.full((r + i,), float(r)) for r in range(size)])) for i in range(5)]
        calls += [(f"root{i}", lambda name, i=i: hvd.broadcast_async_(torch.full((4,), float(rank)), i % size, name=name),
                   torch.full((4,), float(i % size))) for i in range(6)]
        if pair.included():
            total = float(size - 1) if size > 2 else float(sum(range(size)))
            calls += [(f"pair{i}", lambda name: hvd.allreduce_async(torch.tensor([float(rank)]), name=name, op=hvd.Sum, process_set=pair),
                       torch.tensor([total])) for i in range(4)]
        dice.shuffle(calls)
        for name, call, expected in calls:
            if name in under_way:  # of the step before
                handle, before = under_way.pop(name)
                same(hvd.synchronize(handle), before)
            under_way[name] = call(name), expected
            if dice.random() < 0.03:
                time.sleep(0.003)
            if dice.random() < 0.1:
                hvd.poll(under_way[name][0])
    for handle, expected in under_way.values():
        same(hvd.synchronize(handle), expected)


def refusals():
    """What ranks disagree about is said on all of them, with names and ranks; then they go on."""
    hvd.init(process_sets="dynamic")
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
    disagree(f"{others} float32 of shape [2], average; rank {last} float32 of shape [2], max",
             lambda: hvd.allreduce(torch.ones(2), name="x", op=hvd.Max if is_last else hvd.Average))
    disagree("scaled by 2 and 1", lambda: hvd.allreduce(torch.ones(2), name="x", op=hvd.Sum, prescale_factor=2.0 if is_last else 1.0))
    disagree("root 1", lambda: hvd.broadcast(torch.ones(2), 1 if is_last else 0, name="r"))
    disagree("allgather.g is not the same on all ranks", lambda: hvd.allgather(torch.ones(2, 3 + is_last), name="g"))
    handle = hvd.allreduce_async(torch.ones(2), name="twice")
    if rank == 0:  # elsewhere the first may be done
        handles = [hvd.allreduce_async(torch.ones(2), name="late")]
        raises(ValueError, "rank 0 submitted allreduce.late twice", lambda: hvd.allreduce_async(torch.ones(2), name="late"))
    hvd.synchronize(handle)
    hvd.barrier()
    if rank > 0:
        handles = [hvd.allreduce_async(torch.ones(2), name="late")]
    same(hvd.synchronize(handles[0]), torch.ones(2))
    assert hvd.synchronize(handles[0]) is None
    raises(ValueError, "the tensor is sparse", lambda: hvd.allreduce(torch.ones(3).to_sparse()))
    raises(ValueError, "tensors of torch.complex64 cannot be reduced", lambda: hvd.allreduce(torch.ones(3, dtype=torch.complex64)))
    raises(ValueError, "cannot share evenly", lambda: hvd.alltoall(torch.ones(size + 1)))
    raises(ValueError, "do not share 3 rows", lambda: hvd.alltoall(torch.ones(3), splits=[4] * size))
    raises(ValueError, "is not known to the ranks", lambda: hvd.allreduce(torch.ones(3), process_set=hvd.ProcessSet([0])))
    raises(ValueError, "takes no MPI communicator", lambda: hvd.ProcessSet(5))
    raises(ValueError, "uses no MPI", hvd.mpi_threads_supported)
    only = hvd.add_process_set([0])
    if rank > 0:
        raises(ValueError, f"rank {rank} is not part of", lambda: hvd.allreduce(torch.ones(3), process_set=only))
    assert hvd.remove_process_set(only) and not hvd.remove_process_set(only)
    assert only.size() is None and not hvd.remove_process_set(hvd.global_process_set)
    if size == 3:
        raises(NotImplementedError, "Adasum is for 2, 4, 8", lambda: hvd.allreduce(torch.ones(3), op=hvd.Adasum))
    for module, text in {"horovod.tensorflow": "is for PyTorch", "horovod.spark.torch": "is for PyTorch"}.items():
        raises(ImportError, text, lambda: __import__(module))
    import horovod
    raises(NotImplementedError, "resources: {ranks: N}", lambda: horovod.run(refusals, np=2))
    same(hvd.allreduce(torch.ones(2), op=hvd.Sum), torch.full((2,), float(size)))


def process_sets():
    even, odd = hvd.ProcessSet([0, 2]), hvd.ProcessSet([1, 3])
    hvd.init(process_sets=[even, odd])
    rank = hvd.rank()
    own = even if even.included() else odd
    assert (own.size(), own.rank(), hvd.global_process_set.size()) == (2, rank // 2, 4)
    same(hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum, process_set=own), torch.tensor([2.0 + 2 * (rank % 2)]))
    same(hvd.broadcast(torch.tensor([rank]), 2 + rank % 2, process_set=own), torch.tensor([2 + rank % 2]))
    same(hvd.allgather(torch.tensor([rank]), process_set=own), torch.tensor([rank % 2, 2 + rank % 2]))
    same(hvd.alltoall(torch.tensor([rank, rank + 10]), process_set=own), torch.tensor([rank % 2, 2 + rank % 2]) + 10 * (rank // 2))
    assert hvd.broadcast_object(rank, 2 + rank % 2, process_set=own) == 2 + rank % 2
    hvd.barrier(process_set=own)
    raises(ValueError, "HOROVOD_DYNAMIC_PROCESS_SETS", lambda: hvd.add_process_set([0, 1]))
    hvd.barrier()
    hvd.shutdown()
    raises(ValueError, "has not been initialized", hvd.rank)
    hvd.init(process_sets="dynamic")
    for _ in range(3):
        first = hvd.add_process_set([0, 1, 2])
        if first.included():
            same(hvd.allreduce(torch.ones(3), op=hvd.Sum, process_set=first), torch.full((3,), 3.0))
        assert hvd.remove_process_set(first)


def join():
    """Ranks have different numbers of batches: rank r has r + 1."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    for epoch in range(2):
        for batch in range(rank + 1):
            present = [r for r in range(size) if r >= batch]
            got = hvd.grouped_allreduce([torch.full((3,), float(rank + 1)), torch.full((2, 2), rank + 1)], name=f"batch{batch}", op=hvd.Sum)
            same(got[0], torch.full((3,), float(sum(r + 1 for r in present))))
            same(got[1], torch.full((2, 2), sum(r + 1 for r in present)))
            if len(present) < size:
                raises(hvd.HorovodInternalError, "allgather is not possible once a rank has called join()",
                       lambda: hvd.allgather(torch.ones(2), name="g"))
                raises(hvd.HorovodInternalError, "with op min is not possible", lambda: hvd.allreduce(torch.ones(2), name="m", op=hvd.Min))
                same(hvd.allreduce(torch.ones(1), name="mean"), torch.tensor([len(present) / size]))
                same(hvd.allreduce(torch.ones(1), op=hvd.Sum), torch.tensor([float(len(present))]))  # no name: joined ranks count fewer
            else:
                assert hvd.allgather(torch.ones(2), name="g").numel() == 2 * size
                hvd.allreduce(torch.ones(2), name="m", op=hvd.Min)
                hvd.allreduce(torch.ones(1), name="mean")
                hvd.allreduce(torch.ones(1))
        assert hvd.join() == size - 1
        same(hvd.allgather(torch.tensor([rank])), torch.arange(size))


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
            bits = hvd.allgather(got.reshape(1, -1))
            assert all(torch.equal(row, bits[0]) for row in bits)
    same(hvd.allreduce(torch.zeros(3), op=hvd.Adasum), torch.zeros(3))
    close(hvd.allreduce(torch.tensor([2.0, 4.0]), op=hvd.Adasum), torch.tensor([2.0, 4.0]))  # parallel: the mean
    close(hvd.allreduce(torch.eye(size)[hvd.rank()], op=hvd.Adasum), torch.ones(size))  # orthogonal: the sum


def batch_norm():
    """Like BatchNorm over the samples of all ranks; rank r has r + 3."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    for shape in ((4,), (4, 5, 3)):
        for momentum, affine in ((0.1, True), (None, False)):
            kind = torch.nn.BatchNorm1d if len(shape) == 1 else torch.nn.BatchNorm2d
            ours, plain = (make(4, momentum=momentum, affine=affine) for make in (hvd.SyncBatchNorm, kind))
            if affine:
                for module in (ours, plain):
                    module.weight.data.copy_(torch.arange(4) + 1.0)
                    module.bias.data.copy_(torch.arange(4) - 1.0)
            for step in range(3):
                parts = [torch.randn((r + 3, *shape), generator=torch.Generator().manual_seed(10 * step + r)) for r in range(size)]
                own, whole = parts[rank].requires_grad_(), torch.cat(parts).detach().requires_grad_()
                begin = sum(len(part) for part in parts[:rank])
                output, expected = ours(own), plain(whole)
                close(output, expected[begin:begin + len(own)], rtol=1e-4, atol=1e-5)
                (output.square() * torch.arange(4.0).view(1, 4, *[1] * (len(shape) - 1))).sum().backward()
                (expected.square() * torch.arange(4.0).view(1, 4, *[1] * (len(shape) - 1))).sum().backward()
                close(own.grad, whole.grad[begin:begin + len(own)], rtol=1e-3, atol=1e-4)
                if affine:
                    close(hvd.allreduce(ours.weight.grad, op=hvd.Sum), plain.weight.grad, rtol=1e-3, atol=1e-3)
                    close(hvd.allreduce(ours.bias.grad, op=hvd.Sum), plain.bias.grad, rtol=1e-3, atol=1e-3)
                    ours.zero_grad()
                    plain.zero_grad()
            close(ours.running_mean, plain.running_mean)
            close(ours.running_var, plain.running_var)
            ours.eval(), plain.eval()
            close(ours(parts[0].detach()), plain(parts[0].detach()))


def states_alone():
    hvd.init()
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_size()) == (0, 1, 0, 1)
    same(hvd.allreduce(torch.ones(3)), torch.ones(3))
    same(hvd.allreduce(torch.ones(3), op=hvd.Adasum), torch.ones(3))
    trained_model(lambda optimizer, model: hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Adasum), 0)
    assert hvd.join() == 0


def stall():
    """Rank 1 comes late to one tensor, and never to another."""
    hvd.init()
    if hvd.rank() == 1:
        time.sleep(2.5)
    hvd.allreduce(torch.ones(1), name="late")
    if hvd.rank() != 1:
        print(raises(hvd.HorovodInternalError, "allreduce.never waits for", lambda: hvd.allreduce(torch.ones(1), name="never")), flush=True)
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


def timeline():
    """By the variable for the first session, by the call for the second one."""
    hvd.init()
    handles = [hvd.allreduce_async(torch.ones(3), name=f"t{i}") for i in range(4)]
    for handle in handles:
        hvd.synchronize(handle)
    hvd.allgather(torch.ones(2), name="g")
    hvd.shutdown()
    del os.environ["HOROVOD_TIMELINE"]
    hvd.init()
    hvd.allreduce(torch.ones(3), name="before")
    hvd.start_timeline(os.environ["SECOND"], mark_cycles=True)
    hvd.allreduce(torch.ones(3), name="within")
    hvd.barrier()
    hvd.stop_timeline()
    hvd.barrier()
    hvd.allreduce(torch.ones(3), name="after")


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
                state.seen[state.epoch] += sorted(hvd.allgather(samples).tolist())
                state.commit()
            state.sampler.set_epoch(state.epoch + 1)
        return "trained"

    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, seen={epoch: [] for epoch in range(4)})
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    assert train(state) == "trained"
    for epoch in range(4):
        assert sorted(state.seen[epoch]) == list(range(60)), (epoch, sorted(state.seen[epoch]))
    weights = hvd.allgather(torch.cat([parameter.detach().view(1) for parameter in model.parameters()]).view(1, -1))
    assert all(torch.equal(row, weights[0]) for row in weights)
    assert resets == ([hvd.size()] if os.environ["END"] == "go on" else []), resets


if __name__ == "__main__":
    for i, scenario in enumerate(sys.argv[1:]):
        if i > 0:
            hvd.barrier()
            hvd.shutdown()
        globals()[scenario]()
    print("ended", flush=True)
