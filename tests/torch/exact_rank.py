"""One rank of a test of `dlflow.torch.exact`: `exact_rank.py SCENARIO`, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

Prints `NAME SHA256 LOSSES` for each training on rank 0: of all parameters, buffers and the optimizer's state.
"""

import hashlib
import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint, data  # noqa: F401

import dlflow
import dlflow.torch
from dlflow import runtime
from dlflow.torch.same_bits import gradients
from raising import raises

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FOLDER = os.environ.get("FOLDER", "")
gradients.BUCKET_BYTES = 1000  # small models have several buckets, too


class Images(data.Dataset):
    """Small images; `augments`: shifted and with noise, by three kinds of random numbers."""

    def __init__(self, count, augments=False):
        generator = torch.Generator().manual_seed(1)
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        self.images = torch.randn(count, 3, 8, 8, generator=generator) + 0.5 * self.labels.float().view(-1, 1, 1, 1)
        self.augments = augments

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.augments:
            import numpy
            image = image.roll(random.randrange(3), 2) + 0.1 * torch.randn(3, 8, 8) + float(numpy.random.rand())
        return image, self.labels[index]


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                                  nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


class Transformer(nn.Module):
    """A transformer on sequences of 8 tokens, the columns of an image."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(24, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 4)
        self.unused = nn.Linear(3, 3)  # keeps its bits, also where the optimizer decays weights
        self.sometimes = nn.Parameter(torch.ones(4))

    def forward(self, x):
        logits = self.head(self.encoder(self.embed(x.permute(0, 3, 1, 2).flatten(2))).mean(1))
        return logits * self.sometimes if torch.rand(()) < 0.3 else logits  # by some virtual ranks alone


def mlp():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.7), None


def resnet():
    model = nn.Sequential(Block(3, 8, 1), Block(8, 12, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 4))
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    return model, optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, 40), None


def transformer():
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003, weight_decay=0.1)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40), 0.5


class Language(nn.Module):
    """A recurrent network, with weights shared by the first and the last layer, a parameter without dimensions and a buffer that is
    replaced."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(30, 16), nn.LayerNorm(16), nn.Linear(16, 30, bias=False)
        self.recurrent = nn.LSTM(16, 16, 2, batch_first=True, dropout=0.2)
        self.head.weight = self.embed.weight
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen = self.seen + x.float().mean()
        with torch.autocast("cpu", enabled=False):  # PyTorch 2.15 has no LSTM of bfloat16 on processors without AVX-512 for it
            recurrent = self.recurrent(self.embed(x))[0]
        return self.head(self.norm(recurrent)) * self.scale


def language():
    """In bfloat16 where autocast says so, with a sampler that draws with weights."""
    torch.manual_seed(5 + RANK)
    model = Language()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    texts = torch.randint(0, 30, (57, 7), generator=torch.Generator().manual_seed(1))
    sampler = data.WeightedRandomSampler(torch.arange(1.0, 58), 57)
    training = dlflow.torch.exact(model, data.DataLoader(data.TensorDataset(texts[:, :6], texts[:, 1:]), 20, sampler=sampler), 5)
    for step in training:
        for x, y in step:
            with torch.autocast("cpu", torch.bfloat16):
                loss = functional.cross_entropy(model(x).float().flatten(0, 1), y.reshape(-1))
            step.backward(loss)
        optimizer.step()
    if RANK == 0:
        print("language", dlflow.torch.sha256(model, optimizer), repr(step.loss), flush=True)


MODELS = {"mlp": mlp, "resnet": resnet, "transformer": transformer}


def train(name, loader, epochs=2, checkpoint=None, virtual_ranks=6, **options):
    """Prints the hash and the losses on rank 0."""
    torch.manual_seed(5 + RANK)  # rank 0's weights count
    model, optimizer, scheduler, clip = MODELS[name]()
    training = dlflow.torch.exact(model, loader, virtual_ranks, seed=7, **options)
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    if checkpoint:
        training.load(checkpoint, **objects)
    losses = hashlib.sha256()
    for _ in range(training.epoch, epochs):
        for step in training:
            for images, labels in step:
                step.backward(functional.cross_entropy(model(images), labels))
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            scheduler.step()
            losses.update(repr(step.loss).encode())
            if checkpoint:
                if RANK == 0:
                    print("step", step.epoch, step.number, flush=True)  # the test may kill all ranks from here on
                training.save(checkpoint, **objects)
    if RANK == 0:
        print(name, dlflow.torch.sha256(model, optimizer, scheduler), losses.hexdigest()[:16], flush=True)
    return model


def models():
    """150 samples in batches of 24: the last step has 6, of which some ranks get none."""
    for name in MODELS:
        train(name, data.DataLoader(Images(150), batch_size=24, shuffle=True))
    language()
    half_floats()


def augmented():
    workers = int(os.environ["WORKERS"])
    train("resnet", data.DataLoader(Images(60, augments=True), batch_size=24, shuffle=True, num_workers=workers, drop_last=True,
                                    persistent_workers=workers > 1))


def saved():
    """Goes on from FOLDER, and saves there after every step."""
    train(os.environ["MODEL"], data.DataLoader(Images(150), batch_size=24, shuffle=True), checkpoint=os.path.join(FOLDER, "last.pt"))


def stopped():
    """Goes on from FOLDER by dlflow.resume(), and saves there by dlflow.checkpoint() after STEPS of its own."""
    torch.manual_seed(5)
    model, optimizer, scheduler, _ = mlp()
    training = dlflow.torch.exact(model, data.DataLoader(Images(150), batch_size=24, shuffle=True), 6, seed=7)
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "exact": training}
    done = dlflow.resume(**objects, folder=FOLDER).step
    end = done + int(os.environ["STEPS"])
    for _ in range(training.epoch, 2):
        for step in training:
            for images, labels in step:
                step.backward(functional.cross_entropy(model(images), labels))
            optimizer.step()
            scheduler.step()
            done += 1
            if done == end:
                dlflow.checkpoint(done, epoch=step.epoch, **objects)
                return
    if RANK == 0:
        print("mlp", dlflow.torch.sha256(model, optimizer, scheduler), flush=True)


def as_one_process_with_statistics():
    """With one virtual rank buffers, too, have the bits of the usual loop."""
    batches = data.DataLoader(Images(144), batch_size=24)
    usual, ours = [nn.Sequential(nn.Flatten(), nn.BatchNorm1d(192, momentum=0.9), nn.Linear(192, 4)) for _ in range(2)]
    ours.load_state_dict(usual.state_dict())
    training = dlflow.torch.exact(ours, batches, 1)
    for number, (step, (images, labels)) in enumerate(zip(training, batches)):
        scale = 10.0 ** (3 - number)  # statistics that shrink: start + (now - start) is not now
        for own_images, own_labels in step:
            step.backward(functional.cross_entropy(ours(own_images * scale), own_labels))
        usual.zero_grad()
        functional.cross_entropy(usual(images * scale), labels).backward()
        for model in (ours, usual):
            torch.optim.SGD(model.parameters(), lr=0.05).step()
    for (name, a), b in zip(ours.state_dict().items(), usual.state_dict().values()):
        assert torch.equal(a, b), name


def as_one_process():
    """With one virtual rank every bit is that of the usual loop; with several, gradients agree to rounding."""
    images = Images(150)
    order = list(range(0, 150, 2)) + list(range(1, 150, 2))

    def model():
        torch.manual_seed(5)
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.Tanh(), nn.Linear(32, 4))

    dlflow.torch.exact(model(), data.DataLoader(images, batch_size=24, sampler=order), 1)  # one thread
    usual = model()
    optimizer = torch.optim.SGD(usual.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for batch, labels in data.DataLoader(images, batch_size=24, sampler=order):
        optimizer.zero_grad()
        loss = functional.cross_entropy(usual(batch), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for virtual_ranks in (1, 5):
        ours = model()
        optimizer = torch.optim.SGD(ours.parameters(), lr=0.05, momentum=0.9)
        training = dlflow.torch.exact(ours, data.DataLoader(images, batch_size=24, sampler=order), virtual_ranks)
        assert len(training) == 7
        our_losses = []
        for step in training:
            for batch, labels in step:
                step.backward(functional.cross_entropy(ours(batch), labels))
            optimizer.step()
            our_losses.append(step.loss)
        if virtual_ranks == 1:
            assert our_losses == losses, (our_losses, losses)
            for a, b in zip(ours.parameters(), usual.parameters()):
                assert torch.equal(a, b)
        torch.testing.assert_close(torch.tensor(our_losses), torch.tensor(losses), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close([*ours.parameters()], [*usual.parameters()], rtol=1e-4, atol=1e-6)


def hooked():
    """A user's hook, younger than exact's, changes each gradient once it is in its place."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.Tanh(), nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 4))
    training = dlflow.torch.exact(model, data.DataLoader(Images(48), batch_size=24), 6)
    nodes = []  # PyTorch 1.13 has such hooks only there
    for parameter in model.parameters():
        def clamp(*_, parameter=parameter):
            parameter.grad.clamp_(-0.001, 0.001)

        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            parameter.register_post_accumulate_grad_hook(clamp)
        else:
            nodes.append(parameter.expand_as(parameter).grad_fn.next_functions[0][0])
            nodes[-1].register_hook(clamp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in training:
        for images, labels in step:
            step.backward(functional.cross_entropy(model(images), labels))
        assert all(parameter.grad.abs().max() <= 0.001001 for parameter in model.parameters())
        optimizer.step()
    if RANK == 0:
        print("hooked", dlflow.torch.sha256(model), repr(step.loss), flush=True)


def overlaps():
    """The sums begin while the last backward pass of a process runs, bucket by bucket."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.Tanh(), nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 4))
    training = dlflow.torch.exact(model, data.DataLoader(Images(24), batch_size=24), 6)
    sums, begun, present = training._gradients, [], set()
    start = runtime.LeafSum.start

    def noticed(self, *arguments):
        if self is sums._sum:
            begun.append((sums._leaf, "1.weight" in present))
        return start(self, *arguments)

    runtime.LeafSum.start = noticed
    for step in training:
        for images, labels in step:
            present.clear()
            model[1].weight.register_hook(lambda _: present.add("1.weight"))
            step.backward(functional.cross_entropy(model(images), labels))
    last = 6 // SIZE * (RANK + 1) - 1
    assert begun[0] == (last, False) and begun[-1] == (last, True) and len(begun) > 2, begun


def dies():
    """Rank 1 ends in the middle of a step."""
    model = MODELS["mlp"]()[0]
    try:
        for step in dlflow.torch.exact(model, data.DataLoader(Images(150), batch_size=24), 6):
            for images, labels in step:
                if (step.number, RANK) == (2, 1):
                    os.kill(os.getpid(), 9)
                step.backward(functional.cross_entropy(model(images), labels))
    except runtime.Error as error:
        assert "rank 1 (node " in str(error), error
        print("named", flush=True)


def half_floats():
    """Gradients of bfloat16 parameters are summed in float32, and rounded once."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 4)).bfloat16()
    training = dlflow.torch.exact(model, data.DataLoader(Images(48), batch_size=24, shuffle=True), 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in training:
        for images, labels in step:
            step.backward(functional.cross_entropy(model(images.bfloat16()).float(), labels))
        optimizer.step()
    if RANK == 0:
        print("half", dlflow.torch.sha256(model), repr(step.loss), flush=True)


def refused():
    """Each by its name."""
    images = Images(48)
    plain = data.DataLoader(images, batch_size=24)

    def model(*extra):
        return nn.Sequential(nn.Flatten(), *extra, nn.Linear(192, 4))

    def made(model, loader=plain, virtual_ranks=6, **options):
        return lambda: dlflow.torch.exact(model, loader, virtual_ranks, **options)

    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(images)

    raises(TypeError, "the module 1 is a SyncBatchNorm", made(model(nn.SyncBatchNorm(192))))
    raises(TypeError, "the model is a DataParallel", made(nn.DataParallel(model())))
    raises(TypeError, "the module 1 has sparse gradients", made(model(nn.Embedding(3, 4, sparse=True))))
    raises(TypeError, "the parameter 1.weight has no shape yet", made(nn.Sequential(nn.Flatten(), nn.LazyLinear(4))))
    raises(TypeError, "the parameter 1.weight is torch.float64", made(model().double()))
    raises(ValueError, "no parameter that requires gradients", made(model().requires_grad_(False)))
    raises(TypeError, "is an IterableDataset", made(model(), data.DataLoader(Stream(), batch_size=24)))
    raises(TypeError, "a batch_sampler of its own", made(model(), data.DataLoader(images, batch_sampler=[[0], [1]])))
    raises(TypeError, "has a DistributedSampler",
           made(model(), data.DataLoader(images, batch_size=24, sampler=data.distributed.DistributedSampler(images, 1, 0))))
    raises(ValueError, "batch_size=24 samples cannot be divided into 25 virtual ranks", made(model(), virtual_ranks=25))

    training = made(model())()
    state = training.state_dict()
    raises(ValueError, "saved with seed=0, and this training has 1", lambda: made(model(), seed=1)().load_state_dict(state))
    raises(ValueError, "saved with threads=1, and this training has 2", lambda: made(model(), threads=2)().load_state_dict(state))
    refused_in_a_step(model, made)


def refused_in_a_step(model, made):
    def first_step(own, body, before=lambda: None):
        def run():
            training = made(own)()
            before()
            for step in training:
                for batch, labels in step:
                    body(step, lambda: functional.cross_entropy(own(batch), labels))
        return run

    def twice(step, loss):
        step.backward(loss())
        step.backward(loss())

    class NotDeterministic(nn.Module):
        def forward(self, x):
            return x.clone().put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))

    class Counts(nn.Module):
        """A whole number that differs between virtual ranks."""

        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.tensor(0))

        def forward(self, x):
            self.seen += 100_000 + (x.sum() * 100).long() % 97  # by little, beside what all change it by
            return x

    class Late(Counts):
        calls = 0

        def forward(self, x):
            Late.calls += 1
            if Late.calls > 3:
                self.seen += 1
            return x

    raises(RuntimeError, "virtual rank 0 has no loss; call step.backward(loss)", first_step(model(), lambda step, loss: loss().backward()))
    raises(RuntimeError, "is called once for each virtual rank", first_step(model(), twice))
    raises(RuntimeError, "give the mean over the samples", first_step(model(), lambda step, loss: step.backward(loss() * torch.ones(2))))
    raises(RuntimeError, "put_ does not have a deterministic",
           first_step(model(NotDeterministic()), lambda step, loss: step.backward(loss())))
    raises(RuntimeError, "was turned off; leave it on", first_step(model(), lambda step, loss: step.backward(loss()),
                                                                  lambda: torch.use_deterministic_algorithms(False)))
    raises(ValueError, "the buffer 1.seen of torch.int64 did not change by the same",
           first_step(model(Counts()), lambda step, loss: step.backward(loss())))
    raises(ValueError, "changed the buffer 1.seen, which the first one did not",
           first_step(model(Late()), lambda step, loss: step.backward(loss())))

    def one_more_thread():
        training = made(model())()
        torch.set_num_threads(2)
        first_step_of(training)

    def without_denormals():
        training = made(model())()
        torch.set_flush_denormal(True)
        try:
            first_step_of(training)
        finally:
            torch.set_flush_denormal(False)

    def unfrozen():
        own = model(nn.Linear(192, 192))
        own[1].requires_grad_(False)
        training = made(own)()
        own[1].requires_grad_(True)
        next(iter(training))

    def first_step_of(training):
        for step in training:
            for _ in step:
                pass

    raises(RuntimeError, "torch.set_num_threads(2) was called", one_more_thread)
    if torch.set_flush_denormal(False):  # this processor can
        raises(RuntimeError, "torch.set_flush_denormal was called after exact; call it before", without_denormals)
    raises(RuntimeError, "other parameters require gradients", unfrozen)

    class Checkpointed(nn.Module):
        """The weight of `twice` gets a gradient in two parts, with the gradients of the others in between."""

        def __init__(self):
            super().__init__()
            self.low, self.twice, self.high = nn.Linear(192, 192), nn.Linear(192, 192), nn.Linear(192, 192)

        def forward(self, x):
            x = torch.utils.checkpoint.checkpoint(self.twice, x.requires_grad_(), use_reentrant=True)
            return torch.utils.checkpoint.checkpoint(lambda y: self.twice(self.high(self.low(y))), x, use_reentrant=True)

    raises(RuntimeError, "comes in several parts, one of them late",
           first_step(model(Checkpointed()), lambda step, loss: step.backward(loss())))

    def unfinished():
        for step in made(model())():
            pass
    raises(RuntimeError, "its virtual ranks were not all computed", unfinished)


def refused_together():
    """What only several ranks can see, on every rank."""
    images, model = Images(48), nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    plain = data.DataLoader(images, batch_size=24)
    raises(ValueError, "2 ranks share out 1 virtual ranks", lambda: dlflow.torch.exact(model, plain, 1))
    raises(ValueError, "the number of threads of rank 1 differs from that of rank 0 (2; rank 0: 1)",
           lambda: dlflow.torch.exact(model, plain, 4, threads=1 + RANK))
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2" if RANK else "ALL"
    raises(ValueError, "the environment of rank 1 differs from that of rank 0 (ONEDNN_MAX_CPU_ISA=AVX2; rank 0: ONEDNN_MAX_CPU_ISA=ALL)",
           lambda: dlflow.torch.exact(model, plain, 4))
    del os.environ["ONEDNN_MAX_CPU_ISA"]
    if torch.set_flush_denormal(RANK == 1):
        raises(ValueError, "the treatment of denormals of rank 1 differs from that of rank 0 (flushed to 0; rank 0: kept)",
               lambda: dlflow.torch.exact(model, plain, 4))
        torch.set_flush_denormal(False)
    own = nn.Sequential(nn.Flatten(), nn.Linear(192, 4 + RANK))
    raises(ValueError, "the model of rank 1 differs", lambda: dlflow.torch.exact(own, plain, 4))
    by_rank = data.DataLoader(images, batch_size=24, sampler=range(RANK, 48))
    raises(ValueError, "the order of samples of rank 1 differs", lambda: next(iter(dlflow.torch.exact(model, by_rank, 4))))

    training = dlflow.torch.exact(model, plain, 3)
    raises(ValueError, "the state to be saved of rank 1 differs", lambda: training.save(os.path.join(FOLDER, "x.pt"), model=own))
    assert not os.path.exists(os.path.join(FOLDER, "x.pt"))

    class Communicates(nn.Module):
        def forward(self, x):
            dist.all_reduce(torch.ones(1))
            return x

    model.add_module("2", Communicates())

    def first_step():
        for step in training:
            for batch, labels in step:
                step.backward(functional.cross_entropy(model(batch), labels))
    raises(RuntimeError, "a collective of torch.distributed was called while a virtual rank computes", first_step)
    dist.all_reduce(torch.ones(1))  # still works

    del model[2]
    questions = []
    for step in training:
        for batch, labels in step:
            questions.append((dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.is_initialized()))
            step.backward(functional.cross_entropy(model(batch), labels))
    assert set(questions) == {(RANK, SIZE, "dlflow", True)}, questions


def over_gloo():
    """Any backend of torch.distributed tells ranks of each other."""
    dist.init_process_group("gloo")
    if "MEMORIES" in os.environ:
        os.environ["DLFLOW_MEMORY"] = os.environ["MEMORIES"].split(",")[RANK]
    for name in ("mlp", "resnet"):
        train(name, data.DataLoader(Images(150), batch_size=24, shuffle=True))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
