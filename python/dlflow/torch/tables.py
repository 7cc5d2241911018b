"""Embedding tables whose rows are divided among the ranks of a group, with the optimizer that updates them: docs/user/tutorial-recommendation.md.

    tables = ShardedTables([1_000_000, 50_000], width=16, lr=0.05)
    request = tables.request(ids)         # (samples, tables), the numbers of rows that this rank's samples need
    (embedded,) = tables.look_up(request)  # (samples, tables, width)
    loss_of(embedded).backward()
    tables.step()

Row g of all tables together belongs to rank g mod P (P: ranks), so that frequent rows, which are neighbours in many data sets, are spread over the
ranks. Each rank requests each distinct row once. A step has three exchanges: row numbers, rows, and gradients of rows. The owner adds the gradients
in the order of the samples, and updates the requested rows: row-wise AdaGrad has one sum of squares per row.

Sources: row-wise sharding and optimizers that are fused with tables are those of TorchRec (Ivchenko et al., RecSys 2022); the model, the initial
values of its tables and row-wise AdaGrad those of DLRM (Naumov et al., arXiv:1906.00091; Gupta et al., arXiv:1906.03109 have the sizes).
"""

from __future__ import annotations

import mmap
import os
import pathlib
import shutil
import tempfile
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

import torch
import torch.distributed as dist
from torch.nn import functional

from dlflow import _safetensors

_CHUNK = 1 << 16  # rows that are initialised or loaded at a time
_EPSILON = 1e-8  # added to the denominator for numerical stability


class Request(NamedTuple):
    """The rows that this rank's samples need, and the rows of this rank that all samples need."""
    columns: int  # ids per sample in each table, whose rows are added up
    places: List[torch.Tensor]  # by part: the index of each id's row among the wanted ones
    wanted: List[int]  # number of distinct rows that this rank needs, by rank
    given: List[int]  # number of rows that this rank sends, by rank
    given_parts: List[int]  # the same by rank and part
    touched: torch.Tensor  # distinct rows of this rank that are used
    asked: torch.Tensor  # the index in `touched` of each sent row


class ShardedTables:
    """Embedding tables; each rank of `group` has every P-th row. With several ranks all methods are collective.

    `rows`: the number of rows of each table. `folder`: holds rows and sums of squares as memory-mapped files, which may exceed the
    memory; they vanish when the process ends, and checkpoints save their content. The initial values depend only on `seed`.
    """

    def __init__(self, rows: Sequence[int], width: int, *, lr: float, seed: int = 0, folder: Union[str, pathlib.Path, None] = None, group: Any = None):
        self._group = group
        self._rank, self._ranks = (dist.get_rank(group), dist.get_world_size(group)) if dist.is_initialized() else (0, 1)
        self._rows, self._lr = torch.tensor(rows), lr
        self._ends = self._rows.cumsum(0)
        self._total = int(self._ends[-1])
        own = -(-(self._total - self._rank) // self._ranks)
        self._weight, self._squares = _allocate([(own, width), (own,)], folder)
        self._mapped = folder is not None
        self._request: Optional[Request] = None
        self._fetched = torch.empty(0)
        fill(self._weight, rows, seed, self._rank, self._ranks)

    def request(self, *parts: torch.Tensor) -> Request:
        """Requests the rows that `parts` need: batches of this rank with equal numbers of samples. An id is a row number in its table. A
        sample has one or more ids for each table, side by side. Rows in files are read ahead if this is called a step before look_up()."""
        keys = [self._keys(ids, part, len(parts)) for part, ids in enumerate(parts)]
        wanted, places = torch.unique(torch.cat(keys), return_inverse=True)
        block = self._block()
        counts = torch.bincount(wanted // block, minlength=self._ranks * len(parts))
        given_parts = self._exchange(counts, [len(parts)] * self._ranks, [len(parts)] * self._ranks).view(self._ranks, -1)
        wanted_of = counts.view(self._ranks, -1).sum(1).tolist()
        given = given_parts.sum(1).tolist()
        touched, asked = torch.unique(self._exchange(wanted % block, wanted_of, given), return_inverse=True)
        if self._mapped:
            _read_ahead(self._weight, touched)
            _read_ahead(self._squares, touched)
        shapes = [(len(ids), len(self._rows), -1) for ids in parts]
        split = places.split([len(key) for key in keys])
        return Request(parts[0].shape[1] // len(self._rows), [place.view(shape) for place, shape in zip(split, shapes)], wanted_of, given,
                       given_parts.flatten().tolist(), touched, asked)

    def look_up(self, request: Request) -> List[torch.Tensor]:
        """The embedded samples of each part: (samples, tables, width)."""
        rows = self._weight[request.touched][request.asked]
        self._request, self._fetched = request, self._exchange(rows, request.given, request.wanted).requires_grad_()
        return [functional.embedding(places, self._fetched).sum(2) for places in request.places]

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """request() and look_up() of one part, without reading ahead."""
        return self.look_up(self.request(ids))[0]

    def step(self) -> None:
        """Updates the rows of the last look_up(), with the gradient of the mean over parts and ranks."""
        if self._request is None or self._fetched.grad is None:
            raise RuntimeError("ShardedTables.step() needs look_up() and backward() before it, on every rank")
        request, parts = self._request, len(self._request.places) * self._ranks
        gradients = self._exchange(self._fetched.grad / parts, request.wanted, request.given)
        total = torch.zeros(len(request.touched), self._weight.shape[1])
        for place, gradient in zip(request.asked.split(request.given_parts), gradients.split(request.given_parts)):
            total[place] += gradient  # places are distinct
        row_wise_adagrad(self._weight, self._squares, request.touched, total, self._lr)
        self._request = None

    def state_dict(self) -> Dict[str, Any]:
        """Every P-th row. `dlflow.checkpoint(step, tables=tables)` saves those of each rank; resume() works on any number of ranks."""
        return {"rows": self._rows.tolist(), "weight": self._weight, "squares": self._squares}

    def load_shards(self, shards: Sequence[Mapping[str, _safetensors.Tensor]]) -> None:
        """Loads from the mapped files of the ranks that saved them, with memory for only a few rows."""
        saved = [{name: torch.frombuffer(tensor.data, dtype=torch.float32).view(tensor.shape) for name, tensor in shard.items()} for shard in shards]
        theirs = (sum(len(shard["weight"]) for shard in saved), saved[0]["weight"].shape[1])
        if theirs != (self._total, self._weight.shape[1]):
            raise ValueError(f"the checkpoint has tables of {theirs[0]} rows of {theirs[1]} numbers, not {self._total} of {self._weight.shape[1]}: give the "
                             "sizes that it was trained with, or train into another folder")
        for first in range(0, len(self._weight), _CHUNK):
            own = torch.arange(first, min(first + _CHUNK, len(self._weight)))
            numbers = own * self._ranks + self._rank
            for rank, shard in enumerate(saved):
                here = numbers % len(saved) == rank
                for name, tensor in (("weight", self._weight), ("squares", self._squares)):
                    tensor[own[here]] = shard[name][numbers[here] // len(saved)]

    def _block(self) -> int:
        """An upper bound for the rows of a rank."""
        return self._total // self._ranks + 1

    def _keys(self, ids: torch.Tensor, part: int, parts: int) -> torch.Tensor:
        """A sort key for each id: by owner, then by part, then by row of the owner."""
        tables = len(self._rows)
        if ids.dim() != 2 or ids.shape[1] == 0 or ids.shape[1] % tables != 0:
            raise ValueError(f"the ids have the shape {tuple(ids.shape)}: give (samples, ids), and so many ids that {tables} tables get equally many")
        ids = ids.long().view(len(ids), tables, -1)
        outside = (ids < 0) | (ids >= self._rows.view(1, -1, 1))
        if outside.any():
            sample, table, column = outside.nonzero()[0].tolist()
            raise IndexError(f"sample {sample} has the id {int(ids[sample, table, column])} for table {table}, which has {int(self._rows[table])} rows: give "
                             "the table more rows, or take ids modulo its rows when you prepare the data")
        numbers = (ids + (self._ends - self._rows).view(1, -1, 1)).flatten()
        return (numbers % self._ranks * parts + part) * self._block() + numbers // self._ranks

    def _exchange(self, mine: torch.Tensor, to_each: List[int], from_each: List[int]) -> torch.Tensor:
        """Sends `mine`, ordered by rank, and returns the rows that the ranks send this one, in the order of ranks."""
        if self._ranks == 1:
            return mine
        theirs = mine.new_empty(sum(from_each), *mine.shape[1:])
        dist.all_to_all_single(theirs, mine.contiguous(), from_each, to_each, group=self._group)
        return theirs


def row_wise_adagrad(weight: torch.Tensor, squares: torch.Tensor, rows: torch.Tensor, gradient: torch.Tensor, lr: float) -> None:
    """Updates distinct `rows` of a table. `squares` has one number per row: the sum of the mean squares of its gradients."""
    with torch.no_grad():
        sums = squares[rows] + gradient.square().mean(1)
        squares[rows] = sums
        weight[rows] -= lr * gradient / (sums.sqrt() + _EPSILON).unsqueeze(1)


def fill(weight: torch.Tensor, rows: Sequence[int], seed: int, rank: int = 0, ranks: int = 1) -> None:
    """Initializes the rows rank, rank + ranks, … of tables with these numbers of `rows`: uniform in ±1/√rows, independent of `ranks`."""
    ends = torch.tensor(rows).cumsum(0)
    limits = torch.tensor(rows).rsqrt()
    generator = torch.Generator()
    for first in range(0, int(ends[-1]), _CHUNK):
        numbers = torch.arange(first, min(first + _CHUNK, int(ends[-1])))
        generator.manual_seed(seed * 1_000_003 + first)
        values = torch.rand(len(numbers), weight.shape[1], generator=generator) * 2 - 1
        mine = numbers % ranks == rank
        limit = limits[torch.bucketize(numbers[mine], ends, right=True)]
        with torch.no_grad():
            weight[numbers[mine] // ranks] = values[mine] * limit.unsqueeze(1)


def _allocate(shapes: Sequence[Sequence[int]], folder: Union[str, pathlib.Path, None]) -> List[torch.Tensor]:
    """Allocates zeros. Raises MemoryError or OSError with the missing amount."""
    if folder is not None:
        return [_in_file(shape, pathlib.Path(folder)) for shape in shapes]
    needed, free = 4 * sum(torch.Size(shape).numel() for shape in shapes), _free_memory() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if needed > free:
        raise MemoryError(f"the rows of this rank need {_gib(needed)} of memory, and {_gib(free)} are free for it: start more ranks, give the tables fewer "
                          "rows or a smaller width, or give ShardedTables a folder for memory-mapped files")
    return [torch.zeros(shape) for shape in shapes]


def _in_file(shape: Sequence[int], folder: pathlib.Path) -> torch.Tensor:
    """Maps a new file. Its pages are read one by one: rows that are needed together are not neighbours."""
    size = 4 * torch.Size(shape).numel()
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise OSError(error.errno, f"the rows of this rank need {_gib(size)} in {folder}, where {_gib(shutil.disk_usage(folder).free)} are free: give "
                          "ShardedTables another folder, start more ranks on other nodes, or give the tables fewer rows or a smaller width") from None
        mapped = mmap.mmap(file.fileno(), size)
    mapped.madvise(mmap.MADV_RANDOM)
    tensor = torch.frombuffer(mapped, dtype=torch.float32).view(*shape)
    tensor.mapped = mapped
    return tensor


def _read_ahead(tensor: torch.Tensor, rows: torch.Tensor) -> None:
    """Starts to read the pages of these rows, without waiting for them."""
    row = tensor[0].numel() * 4
    pages = torch.cat([rows * row // mmap.PAGESIZE, ((rows + 1) * row - 1) // mmap.PAGESIZE]).unique()
    for page in pages.tolist():
        tensor.mapped.madvise(mmap.MADV_WILLNEED, page * mmap.PAGESIZE, mmap.PAGESIZE)


def _free_memory() -> int:
    """Free bytes of the machine, or of this process's control group if that has less."""
    lines = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, kind, path = line.split(":", 2)
        for limit in (f"/sys/fs/cgroup{path}/memory.max", f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"):
            if kind in ("", "memory") and os.path.exists(limit):
                text = pathlib.Path(limit).read_text().strip()
                free = min(free, int(text)) if text != "max" else free
    return free


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB"
