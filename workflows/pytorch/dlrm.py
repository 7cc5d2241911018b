"""A recommendation model like DLRM (Naumov et al., arXiv:1906.00091) on click logs prepared by clicks.py:

    dlrm.py train DATA [--exact | --replicated]
    dlrm.py evaluate DATA CHECKPOINTS [--exact | --replicated]

Rows of the embedding tables are divided among the ranks, and all ranks have the MLPs (DistributedDataParallel). --exact: the same bits on any
number of ranks that divides VIRTUAL_RANKS. --replicated, for comparison: all ranks also have the tables, with sparse gradients. The MLPs run on
GPUs if there are any; the tables stay in the memory of the host.
"""

import pathlib
import sys

import numpy
import torch
import torch.distributed as dist
from torch import nn

import dlflow
import dlflow.torch
from dlflow.torch.tables import ShardedTables, fill, row_wise_adagrad

COUNTS, CATEGORIES = 13, 26
VIRTUAL_RANKS = 4
BETWEEN = 20  # steps between two checks whether the engine has asked this program to stop
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def settings():
    return dlflow.params(rows=20_000, width=16, batch=512, lr=0.02, seed=0, folder="")


class Clicks:
    """The prepared samples as memory-mapped arrays."""

    def __init__(self, folder):
        self.dense, self.ids, self.labels = (torch.from_numpy(numpy.load(f"{folder}/{name}.npy", mmap_mode="c")) for name in ("dense", "ids", "labels"))

    def __len__(self):
        return len(self.labels)


def mlp(*sizes):
    layers = [layer for inputs, outputs in zip(sizes, sizes[1:]) for layer in (nn.Linear(inputs, outputs), nn.ReLU())]
    return layers[:-1]


class Interaction(nn.Module):
    """A DLRM without its tables: computes the logit of a click from counts and embedded categories."""

    def __init__(self, width):
        super().__init__()
        first, second = torch.tril_indices(CATEGORIES + 1, CATEGORIES + 1, -1)
        self.register_buffer("pairs", first * (CATEGORIES + 1) + second, persistent=False)
        self.bottom = nn.Sequential(*mlp(COUNTS, 128, 64, width), nn.ReLU())
        self.top = nn.Sequential(*mlp(width + len(self.pairs), 256, 64, 1))

    def forward(self, dense, embedded):
        bottom = self.bottom(dense)
        features = torch.cat([bottom.unsqueeze(1), embedded], 1)
        products = torch.bmm(features, features.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([bottom, products], 1)).squeeze(1)


def loss_of(logits, labels):
    return nn.functional.binary_cross_entropy_with_logits(logits, labels.to(DEVICE))


class Sharded:
    """Training with divided tables."""

    def __init__(self, given, clicks, exact=False):
        torch.manual_seed(given.seed)
        self.clicks, self.batch = clicks, given.batch
        self.model = Interaction(given.width).to(DEVICE)
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=given.lr)
        self.tables = ShardedTables([given.rows] * CATEGORIES, given.width, lr=given.lr, seed=given.seed, folder=given.folder or None)
        self.embed = self.tables.embed
        self.parts = {"model": self.model, "optimizer": self.optimizer, "tables": self.tables}
        self.training = None
        if exact:
            loader = torch.utils.data.DataLoader(range(len(clicks)), given.batch, drop_last=True)
            self.training = self.parts["training"] = dlflow.torch.exact(self.model, loader, VIRTUAL_RANKS)
        else:
            self.network = nn.parallel.DistributedDataParallel(self.model)
        parts = VIRTUAL_RANKS if exact else dist.get_world_size()
        if given.batch % parts or parts % dist.get_world_size():
            raise SystemExit(f"error: {dist.get_world_size()} ranks cannot share {parts} equal parts of {given.batch} samples evenly: give a batch that "
                             f"is a multiple of {parts}, and with --exact a number of ranks that divides {VIRTUAL_RANKS}")
        self.part, self.own = given.batch // parts, parts // dist.get_world_size()

    def places(self, number):
        """This rank's parts of a step, as slices of the samples."""
        first = number * self.batch + dist.get_rank() * self.own * self.part
        return [slice(first + part * self.part, first + (part + 1) * self.part) for part in range(self.own)]

    def request(self, number):
        return self.tables.request(*(self.clicks.ids[place] for place in self.places(number)))

    def steps(self, first, last):
        """Makes these steps and yields, after each one, the number of finished steps and the loss of this rank."""
        request = self.request(first) if first < last else None
        virtual_steps = iter(self.training) if self.training else None
        for number in range(first, last):
            embedded = self.tables.look_up(request)
            request = self.request(number + 1) if number + 1 < last else None  # files are read while this step computes
            self.optimizer.zero_grad()
            loss = self.exact_step(next(virtual_steps), number, embedded) if virtual_steps else self.plain_step(number, embedded[0])
            self.optimizer.step()
            self.tables.step()
            yield number + 1, loss

    def plain_step(self, number, embedded):
        (place,) = self.places(number)
        loss = loss_of(self.network(self.clicks.dense[place].to(DEVICE), embedded.to(DEVICE)), self.clicks.labels[place])
        loss.backward()
        return loss.item()

    def exact_step(self, step, number, embedded):
        for _, place, rows in zip(step, self.places(number), embedded):
            step.backward(loss_of(self.model(self.clicks.dense[place], rows), self.clicks.labels[place]))
        return step.loss


class Whole(nn.Module):
    """A DLRM including its tables."""

    def __init__(self, given):
        super().__init__()
        torch.manual_seed(given.seed)
        self.interaction = Interaction(given.width)
        self.bags = nn.EmbeddingBag.from_pretrained(torch.empty(CATEGORIES * given.rows, given.width), freeze=False, mode="sum", sparse=True)
        fill(self.bags.weight, [given.rows] * CATEGORIES, given.seed)
        self.register_buffer("squares", torch.zeros(CATEGORIES * given.rows))
        self.first = given.rows * torch.arange(CATEGORIES)

    def embed(self, ids):
        return self.bags((ids + self.first).view(-1, 1)).view(len(ids), CATEGORIES, -1)

    def forward(self, dense, ids):
        return self.interaction(dense, self.embed(ids))


class Replicated:
    """Training with replicated tables: DistributedDataParallel, and the optimizers of Sharded."""

    def __init__(self, given, clicks):
        self.clicks, self.batch, self.lr = clicks, given.batch // dist.get_world_size(), given.lr
        self.whole = Whole(given)
        self.model, self.embed = self.whole.interaction, self.whole.embed
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=given.lr)
        self.network = nn.parallel.DistributedDataParallel(self.whole, broadcast_buffers=False)
        self.parts = {"model": self.whole, "optimizer": self.optimizer}

    def steps(self, first, last):
        for number in range(first, last):
            start = (number * dist.get_world_size() + dist.get_rank()) * self.batch
            place = slice(start, start + self.batch)
            self.network.zero_grad()
            loss = loss_of(self.network(self.clicks.dense[place], self.clicks.ids[place]), self.clicks.labels[place])
            loss.backward()
            self.optimizer.step()
            gradient = self.whole.bags.weight.grad.coalesce()
            row_wise_adagrad(self.whole.bags.weight, self.whole.squares, gradient.indices()[0], gradient.values(), self.lr)
            yield number + 1, loss.item()


def auc(model, embed, clicks, batch=2048):
    """The area under the ROC curve: the probability that a clicked sample has a higher score than one without a click."""
    with torch.no_grad():
        scores = torch.cat([model(dense.to(DEVICE), embed(ids).to(DEVICE)).cpu() for dense, ids in zip(clicks.dense.split(batch), clicks.ids.split(batch))])
    ranks = torch.empty(len(scores), dtype=torch.float64)
    ranks[scores.argsort(stable=True)] = torch.arange(1, len(scores) + 1, dtype=torch.float64)
    positives = int(clicks.labels.sum())
    return float(ranks[clicks.labels > 0].sum() - positives * (positives + 1) / 2) / (positives * (len(scores) - positives))


def train(folder, way=""):
    dist.init_process_group("cpu:dlflow,cuda:nccl" if DEVICE == "cuda" else "dlflow")
    given, clicks = settings(), Clicks(folder)
    training = Replicated(given, clicks) if way == "--replicated" else Sharded(given, clicks, exact=way == "--exact")
    done, last = dlflow.resume(folder="checkpoints", **training.parts).step, len(clicks) // given.batch
    for done, loss in training.steps(done, last):
        if done % BETWEEN == 0:
            dlflow.report(step=done, steps=last, loss=loss)
            if dlflow.should_stop():
                dlflow.checkpoint(done, **training.parts)
                dlflow.stop()
    dlflow.checkpoint(done, epoch=1, **training.parts)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks: loss {loss:.9f}")


def evaluate(folder, checkpoints, way=""):
    given, clicks = settings(), Clicks(folder)
    if way == "--replicated":
        whole = Whole(given)
        dlflow.load(checkpoints, model=whole)
        model, embed = whole.interaction, whole.embed
    else:
        model, tables = Interaction(given.width), ShardedTables([given.rows] * CATEGORIES, given.width, lr=0)
        dlflow.load(checkpoints, model=model, tables=tables)
        embed = tables.embed
    dlflow.report(auc=auc(model.to(DEVICE), embed, clicks))


if __name__ == "__main__":
    {"train": train, "evaluate": evaluate}[sys.argv[1]](*sys.argv[2:])
