"""The loop over epochs, steps and virtual ranks.

A step has the same virtual ranks, 0 to V - 1, for any number P of processes, P <= V. Each process computes consecutive ones, one after
the other, as P = 1 computes all of them: the samples, the random numbers, the buffers and the shapes of each are the same. Their
gradients, losses and changes of buffers are added along one tree over their numbers.

Sources: virtual ranks that keep the accuracy while resources change are those of VirtualFlow (Or, Zhang, Freedman, MLSys 2022) and
EasyScale (Li et al., SC 2023), which also has the same bits, by the order of its ring over virtual ranks.
"""

from __future__ import annotations

import ctypes
import datetime
import hashlib
import math
import os
import pathlib
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader

from dlflow import _folder, runtime
from dlflow.torch import backend
from dlflow.torch.same_bits import checks
from dlflow.torch.same_bits.agreement import (Claim, arithmetic, arithmetic_claims, changes, flushes_denormals, require_agreement,
                                              use_threads)
from dlflow.torch.same_bits.buffers import Buffers
from dlflow.torch.same_bits.data import Leaf, Leaves, hash_of
from dlflow.torch.same_bits.gradients import GradientSum
from dlflow.torch.same_bits.seeds import seed

FORMAT = 1
_TIMEOUT = datetime.timedelta(minutes=30)

# Nothing in the file is executed. PyTorch 1.13 has the option, but cannot read a float with it.
_LOAD_OPTIONS: Dict[str, Any] = {"weights_only": True} if int(torch.__version__.split(".")[0]) >= 2 else {}


def _open_group() -> runtime.Group:
    """All processes of torch.distributed, with any backend; only this one if no launcher started several."""
    if not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group(backend.NAME)
    if dist.is_initialized():
        store = dist.PrefixStore("dlflow/exact", dist.distributed_c10d._get_default_store())
        group = backend._meet(store, dist.get_rank(), dist.get_world_size(), _TIMEOUT, "exact")
    else:
        endpoint = runtime.Endpoint()
        group = runtime.Group(endpoint, 0, [endpoint.address], _TIMEOUT.total_seconds(), name="exact")
    backend._groups[id(group)] = group  # left at the end of the process
    return group


def sha256(*objects: Any) -> str:
    """Hashes all numbers in the `state_dict()` of each, in order: models and optimizers with the same bits have the same hash."""
    digest = hashlib.sha256()

    def update(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
            flat = value.detach().cpu().contiguous()
            digest.update((ctypes.c_char * (flat.numel() * flat.element_size())).from_address(flat.data_ptr()) if flat.numel() else b"")
        elif isinstance(value, dict):
            for key in value:
                digest.update(repr(key).encode())
                update(value[key])
        elif isinstance(value, (list, tuple)):
            digest.update(str(len(value)).encode())
            for part in value:
                update(part)
        elif value is None or isinstance(value, (bool, int, float, str)):
            digest.update(repr(value).encode())
        # Other values, such as a scheduler's function, have no bits to hash.

    for each in objects:
        update(each.state_dict())
    return digest.hexdigest()


class Step:
    """A step: iterating over it yields the samples of each virtual rank of this process, one after the other. Call backward() for each.
    Afterwards the parameters' `grad` is the gradient of the mean loss over the step's samples of all ranks."""

    def __init__(self, training: "Training", leaves: Sequence[Leaf], batches: Iterator[Any]):
        self._training, self._batches = training, batches
        self.samples = sum(len(leaf.indices) for leaf in leaves)  # of all ranks
        self._leaves = [leaves[number] for number in training._gradients.leaves if leaves[number].indices]
        self.epoch, self.number = leaves[0].epoch, leaves[0].step
        self.loss: float = math.nan  # mean over the samples of all ranks, with the same bits on each; set after the last virtual rank
        self._current: Optional[Leaf] = None  # the leaf that awaits backward()
        self._own_loss = 0.0
        self.is_complete = False

    def _weight(self, leaf: Leaf) -> float:
        return len(leaf.indices) / self.samples

    def __iter__(self) -> Iterator[Any]:
        if self.is_complete or self._current is not None:
            raise self._error("its virtual ranks are computed once; iterate over a step once")
        self._training._begin_step()
        for leaf in self._leaves:
            batch = next(self._batches)
            self._training._begin_leaf(leaf)
            self._current = leaf
            try:
                checks.NoCommunication.enter()
                yield batch
            finally:
                checks.NoCommunication.leave()
            if self._current is not None:
                raise self._error(f"virtual rank {leaf.number} has no loss; call step.backward(loss) for each, instead of loss.backward()")
            self._training._end_leaf(leaf, self._weight(leaf), self._own_loss * self._weight(leaf))
        self.loss = self._training._end_step(self)
        self.is_complete = True

    def backward(self, loss: torch.Tensor) -> None:
        """Replaces `loss.backward()`; called once for each virtual rank. `loss` is the mean over its samples."""
        if self._current is None:
            raise self._error("step.backward(loss) is called once for each virtual rank, in the loop over the step; add up several losses")
        if loss.numel() != 1:
            raise self._error(f"the loss has {loss.numel()} elements; give the mean over the samples")
        leaf, self._current = self._current, None
        self._own_loss = float(loss.detach())
        self._training._backward(loss, leaf, self._weight(leaf), leaf is self._leaves[-1])

    def _error(self, text: str) -> RuntimeError:
        return RuntimeError(f"exact: epoch {self.epoch}, step {self.number}: {text}")


class Training:
    """A model and its data, trained with the same bits on any number of processes. Iterating over it yields the steps of the current
    epoch, from the position on; then `epoch` is the next one. Created by `dlflow.torch.exact`."""

    def __init__(self, model: nn.Module, loader: DataLoader, virtual_ranks: int, seed: int, threads: int):
        checks.require_supported(model)
        self._data = Leaves(loader, virtual_ranks, seed)
        self._seed, self._threads = seed, threads
        self.epoch, self.step = 0, 0  # the position: the number of steps done in the epoch
        self._group = _open_group()
        self.rank, self.size = self._group.rank, self._group.size
        if self.size > virtual_ranks:
            raise ValueError(f"exact: {self.size} ranks share out {virtual_ranks} virtual ranks, so that some have nothing to do; start at "
                             f"most {virtual_ranks}")
        use_threads(threads)
        torch.use_deterministic_algorithms(True)
        if hasattr(torch.utils, "deterministic"):
            # It costs a pass over every new tensor, 5 % of a step of resnet20, to expose reads of uninitialized memory.
            torch.utils.deterministic.fill_uninitialized_memory = False
        self._arithmetic, self._flushes = arithmetic(threads), flushes_denormals()
        named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        everything = ", ".join(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.stride()}" for name, tensor in _tensors(model))
        require_agreement(self._group, [*arithmetic_claims(self._arithmetic), Claim("the model", hash_of(everything)),
                                        Claim("the trained parameters", hash_of([name for name, _ in named])),
                                        Claim("the settings", repr(self._data.settings()))])
        self._broadcast(model)
        self._model, self._trained = model, [name for name, _ in named]
        self._gradients = GradientSum(self._group, named, virtual_ranks)
        self._buffers = Buffers(self._group, model, virtual_ranks, 1 + len(named))
        checks.NoCommunication.install()

    def _broadcast(self, model: nn.Module) -> None:
        """Gives every rank the parameters and buffers of rank 0."""
        with torch.no_grad():
            for _, tensor in _tensors(model):
                place = tensor.detach().contiguous()
                self._group.broadcast(place.data_ptr(), place.numel() * place.element_size(), 0).wait()
                if place.data_ptr() != tensor.data_ptr():
                    tensor.copy_(place)

    def __len__(self) -> int:
        """The number of steps of an epoch."""
        return len(self._data)

    def __iter__(self) -> Iterator[Step]:
        epoch, trained = self.epoch, [name for name, parameter in self._model.named_parameters() if parameter.requires_grad]
        if trained != self._trained:
            raise RuntimeError("exact: other parameters require gradients than when exact was called; call it again")
        order = self._data.order(epoch)
        require_agreement(self._group, [Claim("the order of samples", f"{len(order)} samples, {hash_of(order)}",
                                              "give a sampler that does not depend on its rank: exact shares out the samples itself"),
                                        Claim("the position", f"epoch {epoch}, step {self.step}", "load the same checkpoint on all ranks")])
        steps = self._data.steps(epoch, order)[self.step:]
        own = [leaves[number] for leaves in steps for number in self._gradients.leaves if leaves[number].indices]
        batches = self._data.load(own)
        for leaves in steps:
            step = Step(self, leaves, batches)
            seed(self._seed, "step", epoch, step.number)
            yield step
            if not step.is_complete:
                raise step._error("its virtual ranks were not all computed; iterate over every step to its end")
        self.epoch, self.step = epoch + 1, 0
        seed(self._seed, "epoch", self.epoch)

    def _begin_step(self) -> None:
        checks.require_same_settings(f"epoch {self.epoch}, step {self.step}", self._threads, self._flushes)
        self._gradients.begin_step()
        self._buffers.begin_step()

    def _begin_leaf(self, leaf: Leaf) -> None:
        self._gradients.begin_leaf()
        seed(self._seed, "model", leaf.epoch, leaf.step, leaf.number)

    def _backward(self, loss: torch.Tensor, leaf: Leaf, weight: float, is_last: bool) -> None:
        self._buffers.agree()
        self._gradients.backward(loss, leaf.number, weight, is_last)

    def _end_leaf(self, leaf: Leaf, weight: float, loss: float) -> None:
        self._buffers.take(leaf.number, weight, [loss, *self._gradients.used()])

    def _end_step(self, step: Step) -> float:
        """Returns the mean loss. Sets the gradients, and advances the position."""
        own = self._gradients.leaves
        if not step._leaves:
            self._buffers.agree()
            self._gradients.start_without_samples()
        self._buffers.take_nothing([leaf for leaf in own if not step._leaves or leaf > step._leaves[-1].number])
        loss, *used = self._buffers.finish()
        self._gradients.finish(used)
        self.step = step.number + 1
        seed(self._seed, "update", step.epoch, step.number)
        return loss

    def state_dict(self) -> Dict[str, Any]:
        """The position and everything that determines the order of samples and the random numbers; the same on every rank."""
        return {"format": FORMAT, "epoch": self.epoch, "step": self.step, "settings": self._data.settings(),
                "arithmetic": dict(self._arithmetic)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if state.get("format") != FORMAT:
            raise ValueError(f"exact: the state has the format {state.get('format')}, but this version of dlflow reads {FORMAT}")
        old, new = state["settings"], self._data.settings()
        for name in new:
            if old.get(name) != new[name]:
                raise ValueError(f"exact: the state was saved with {name}={old.get(name)}, and this training has {new[name]}; give the "
                                 "same")
        threads = "the number of threads"
        if state["arithmetic"].get(threads) != self._arithmetic[threads]:
            raise ValueError(f"exact: the state was saved with threads={state['arithmetic'].get(threads)}, and this training has "
                             f"{self._arithmetic[threads]}; give the same")
        different = changes(state["arithmetic"], self._arithmetic)
        if different:
            warnings.warn(f"exact: training continues, but its bits differ from those of the saved one: {different}")
        self.epoch, self.step = int(state["epoch"]), int(state["step"])

    def save(self, path: Any, **objects: Any) -> None:
        """Writes the position and the `state_dict()` of each of `objects` by their names: completely or not at all, even if this process
        is killed. Rank 0 writes, after verifying that all ranks have the same bits. Collective."""
        require_agreement(self._group, [Claim("the state to be saved", sha256(self, *objects.values())[:16],
                                              "let all ranks do the same to model and optimizer between steps")])
        if self.rank == 0:
            state = {"exact": self.state_dict(), **{name: each.state_dict() for name, each in objects.items()}}
            _folder.replace(pathlib.Path(path), lambda file: torch.save(state, file))

    def load(self, path: Any, **objects: Any) -> bool:
        """Loads the objects that save() has written under these names. False if there is no such file. Every rank reads it."""
        if not os.path.exists(path):
            return False
        state = torch.load(path, map_location="cpu", **_LOAD_OPTIONS)
        for name in ("exact", *objects):
            if name not in state:
                raise ValueError(f"exact: {path} has no '{name}'; it has {', '.join(map(repr, state))}")
        self.load_state_dict(state["exact"])
        for name, each in objects.items():
            each.load_state_dict(state[name])
        return True


def _tensors(model: nn.Module) -> List[Any]:
    return [*model.named_parameters(), *model.named_buffers()]


def exact(model: nn.Module, loader: DataLoader, virtual_ranks: int = 8, *, seed: int = 0, threads: int = 1) -> Training:
    """Trains with the same bits on 1 to `virtual_ranks` processes.

    `loader` determines the samples, their order and how they are loaded; its batch_size counts the samples of a step over all ranks.
    `seed` determines the order, dropout and augmentation; each process computes with `threads` threads. Collective.
    """
    return Training(model, loader, virtual_ranks, seed, threads)
