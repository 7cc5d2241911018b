"""dlflow's gradient compression as a communication hook of DistributedDataParallel:

    state = compression.State(model, "mstopk", density=0.01)
    model.register_comm_hook(state, compression.hook)

A rank adds unsent values to its next gradients (error feedback). They are kept by parameter, because DistributedDataParallel rearranges
its buckets after the first step. docs/user/compression.md describes the methods, docs/user/pytorch.md how to save this state.
"""

from __future__ import annotations

import zlib
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from dlflow import runtime
from dlflow.torch.backend import ProcessGroup, own_group

METHODS = {method.name.lower(): method for method in runtime.Method}
_AGGREGATIONS = ("all-gather", "gtopk")
_LEAST = 1024  # smaller weights are summed uncompressed, as in `train` steps
_OWN = {"residual": runtime.State.RESIDUAL, "velocity": runtime.State.VELOCITY}

Names = Tuple[str, ...]
Kept = Dict[str, Dict[str, torch.Tensor]]  # by parameter name: residual, velocity, right


def _own_group(group: Any) -> ProcessGroup:
    own = own_group(group)
    if own is None:
        raise ValueError("compression needs a group of the backend dlflow: init_process_group(\"dlflow\"), or "
                         "group=new_group(backend=\"dlflow\")")
    return own


def _view(compressor: runtime.Compressor, part: runtime.State) -> torch.Tensor:
    numbers = compressor.state(part)
    return torch.frombuffer(numbers, dtype=torch.float32) if len(numbers) else torch.empty(0)


class _Bucket:
    """The compressor of a bucket, and the places of its parameters."""

    def __init__(self, names: Names, tensors: Sequence[torch.Tensor], options: Dict[str, Any]):
        self.places: Dict[str, slice] = {}
        self.factors: Dict[str, slice] = {}
        matrices, first, factors = [], 0, 0
        for name, tensor in zip(names, tensors):
            count = tensor.numel()
            self.places[name] = slice(first, first + count)
            if tensor.dim() > 1 and count >= _LEAST:
                rows, columns = tensor.shape[0], count // tensor.shape[0]
                matrices.append((first, rows, columns))
                size = min(options["rank"], rows, columns) * columns
                self.factors[name] = slice(factors, factors + size)
                factors += size
            first += count
        # Random choices differ from bucket to bucket.
        seed = zlib.crc32("\n".join(names).encode()) ^ options["seed"]
        self.compressor = runtime.Compressor(matrices=matrices, count=first, **{**options, "seed": seed})

    def _parts(self, name: str) -> Dict[str, torch.Tensor]:
        parts = {key: _view(self.compressor, part) for key, part in _OWN.items()}
        parts = {key: numbers[self.places[name]] for key, numbers in parts.items() if len(numbers)}
        right = _view(self.compressor, runtime.State.RIGHT_FACTORS)
        if len(right) and name in self.factors:
            parts["right"] = right[self.factors[name]]
        return parts

    def kept(self) -> Kept:
        return {name: {key: part.clone() for key, part in self._parts(name).items()} for name in self.places}

    def load(self, kept: Kept) -> None:
        for name in self.places:
            for key, part in self._parts(name).items():
                if name in kept:
                    part.copy_(kept[name][key])


class State:
    """State for `hook`, one per model; the same arguments on all ranks.

    method: fp16, bf16, int8, topk, mstopk, randomk, dgc or powersgd. density, in (0, 1]: the share that topk, mstopk, randomk and dgc
    send; more in the first `warmup_epochs` epochs (set_epoch). aggregation: "all-gather", or "gtopk" for topk, mstopk and dgc. rank: for
    powersgd. clip, momentum: for dgc, whose momentum replaces the optimizer's. group: the model's ranks, by default all.
    """

    def __init__(self, model: torch.nn.Module, method: str, *, density: float = 0.01, warmup_epochs: int = 0,
                 aggregation: str = "all-gather", rank: int = 2, clip: float = 0, momentum: float = 0, seed: int = 0,
                 group: Optional[Any] = None):
        if method not in METHODS:
            raise ValueError(f"there is no compression {method!r}; there are {', '.join(METHODS)}")
        if aggregation not in _AGGREGATIONS:
            raise ValueError(f"there is no aggregation {aggregation!r}; there are {', '.join(_AGGREGATIONS)}")
        self._options = {"method": METHODS[method], "global_top_k": aggregation == "gtopk", "density": density,
                         "warmup_epochs": warmup_epochs, "rank": rank, "clip": clip, "momentum": momentum, "seed": seed}
        runtime.Compressor(matrices=[], count=0, **self._options)  # raises on invalid options
        self._group = _own_group(group)
        module = model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
        self._parameters = dict(module.named_parameters())
        self._names = {id(parameter): name for name, parameter in self._parameters.items()}
        for name, parameter in self._parameters.items():
            if parameter.requires_grad and parameter.dtype != torch.float32:
                raise ValueError(f"parameter {name} is {parameter.dtype}; only gradients of torch.float32 are compressed")
        self._buckets: Dict[Names, _Bucket] = {}
        self._kept: Kept = {}  # of parameters that are in no current bucket
        self._step, self._epoch = 0, 0

    def set_epoch(self, epoch: int) -> None:
        """Call it before the first step of each epoch, counted from 0. Only needed for `warmup_epochs`."""
        self._epoch = epoch

    def _bucket(self, names: Names, tensors: Sequence[torch.Tensor]) -> _Bucket:
        if names not in self._buckets:
            for other in [other for other in self._buckets if not set(other).isdisjoint(names)]:
                self._kept.update(self._buckets.pop(other).kept())
            bucket = _Bucket(names, tensors, self._options)
            bucket.load(self._kept)
            for name in names:
                self._kept.pop(name, None)
            self._buckets[names] = bucket
        return self._buckets[names]

    def _mean(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        tensors: List[torch.Tensor] = bucket.parameters()
        names = tuple(self._names[id(tensor)] for tensor in tensors)
        compressor = self._bucket(names, tensors).compressor
        work = self._group.compressed_mean(compressor, bucket.buffer(), self._step, self._epoch)
        if bucket.is_last():
            self._step += 1
        return work.get_future().then(lambda done: done.value()[0])

    def state_dict(self) -> Dict[str, Any]:
        """The state of this rank, which differs between ranks. `dlflow.checkpoint(step, compression=state)` saves every rank's. Call it
        after backward(), not during it."""
        kept = {name: dict(parts) for name, parts in self._kept.items()}
        for bucket in self._buckets.values():
            kept.update(bucket.kept())
        return {"method": self._options["method"].name.lower(), "step": self._step, "epoch": self._epoch, "parameters": kept}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Loads the result of this rank's state_dict(), or of merge() of all ranks'."""
        method = self._options["method"].name.lower()
        if state["method"] != method:
            raise ValueError(f"the saved state is of compression {state['method']}, but this one is of {method}")
        unknown = sorted(set(state["parameters"]) - set(self._parameters))
        if unknown:
            raise ValueError(f"the saved state has parameters that the model does not have: {', '.join(unknown)}")
        for name, parts in state["parameters"].items():
            for key in _OWN:
                if key in parts and parts[key].numel() != self._parameters[name].numel():
                    raise ValueError(f"parameter {name} has {self._parameters[name].numel()} elements, the saved state {parts[key].numel()}")
        self._buckets.clear()
        self._kept = {name: dict(parts) for name, parts in state["parameters"].items()}
        self._step, self._epoch = state["step"], state["epoch"]

    def merge_ranks(self, states: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
        """Called by dlflow.resume() if the number of ranks has changed."""
        return merge(states)


def merge(states: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """Merges the states of all ranks for training that continues with another number of ranks; each new rank loads the result. No unsent
    value is lost: the mean over the ranks stays the same."""
    merged = {key: value for key, value in states[0].items() if key != "parameters"}
    merged["parameters"] = {
        name: {key: part.clone() if key == "right" else sum(state["parameters"][name][key] for state in states) / len(states)
               for key, part in parts.items()}
        for name, parts in states[0]["parameters"].items()}
    return merged


def hook(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For DistributedDataParallel.register_comm_hook: replaces the gradients of a bucket by their approximate mean."""
    return state._mean(bucket)


# register_comm_hook compares these two types, and does not resolve names.
hook.__annotations__.update({"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]})
