"""DistributedOptimizer: an optimizer whose gradients are the mean over all ranks.

Each gradient is submitted by its parameter's name as soon as it is computed, while others are still computed. Ranks may compute
them in different orders; step() waits for all.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Type, Union

import torch

from dlflow.horovod.common.process_sets import ProcessSet, global_process_set
from dlflow.horovod.torch import mpi_ops
from dlflow.horovod.torch.compression import Compression, Compressor
from dlflow.horovod.torch.functions import broadcast_object
from dlflow.horovod.torch.mpi_ops import Adasum, Average

Parameter = torch.nn.Parameter
NamedParameters = Iterable[Tuple[str, Parameter]]

_EARLY_ZERO_GRAD = ("optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(): "
                    "the gradients are still being reduced.")


class _Exchange:
    """The gradients of an optimizer that are under way. `names` has all its parameters."""

    def __init__(self, names: Dict[Parameter, str], compression: Type[Compressor], passes: int, op: int, predivide: float,
                 sparse_as_dense: bool, process_set: ProcessSet):
        self.names, self.compression, self.op, self.process_set = names, compression, op, process_set
        self._predivide, self._sparse_as_dense = predivide, sparse_as_dense
        self.passes = passes
        self._left: Dict[Parameter, int] = {}  # backward passes before a gradient is submitted
        self._waiting: Dict[Tuple[Parameter, ...], Tuple[Any, List[Any]]] = {}  # a group of parameters: handle, what decompress needs
        self._group_of: Dict[Parameter, Tuple[Parameter, ...]] = {}
        self.set_passes(passes)

    def set_passes(self, passes: int) -> None:
        self.passes = passes
        self._left = {parameter: passes for parameter in self.names}

    def forget(self) -> None:
        self._waiting.clear()
        self.set_passes(self.passes)

    def watch(self, parameters: Sequence[Parameter], groups: Sequence[Tuple[Parameter, ...]]) -> None:
        """Calls self.computed() once the gradient of a parameter is there. Those of a group are submitted together."""
        for group in groups:
            self._group_of.update({parameter: group for parameter in group})
        self._hooks = [_on_gradient(parameter, self.computed) for parameter in parameters]
        self._watched = list(parameters)

    def is_under_way(self) -> bool:
        return bool(self._waiting) or any(left < self.passes for left in self._left.values())

    def computed(self, parameter: Parameter) -> None:
        if self._left[parameter] <= 0:
            raise AssertionError(f"The gradient of {self.names[parameter]} was computed more than backward_passes_per_step={self.passes} "
                                 "times before step() or synchronize(). Increase backward_passes_per_step to add up gradients.")
        self._left[parameter] -= 1
        group = self._group_of[parameter]
        if all(self._left[member] == 0 for member in group):
            self._submit(group)

    def _submit(self, group: Tuple[Parameter, ...]) -> None:
        for parameter in group:
            if parameter.grad is None:  # another rank may have computed it
                parameter.grad = torch.zeros_like(parameter)
        if len(group) == 1 and group[0].grad.is_sparse and not self._sparse_as_dense:
            finish = mpi_ops.sparse_allreduce_async(group[0].grad, self.names[group[0]], self.op, self.process_set)
            self._waiting[group] = finish, [None]
            return
        sent, contexts = [], []
        for parameter in group:
            gradient = parameter.grad.detach()
            tensor, context = self.compression.compress(gradient.to_dense() if gradient.is_sparse else gradient)
            sent.append(tensor)
            contexts.append(context)
        scales = (1 / self._predivide, self._predivide) if self.op == Average else (1.0, 1.0)
        if len(group) == 1:
            handle = mpi_ops.allreduce_async_(sent[0], None, self.names[group[0]], self.op, *scales, self.process_set)
        else:
            handle = mpi_ops.grouped_allreduce_async_(sent, None, self.names[group[0]], self.op, *scales, self.process_set)
        self._waiting[group] = handle, contexts

    def finish(self) -> None:
        """Submits what this rank has not computed, and waits for all."""
        for group in dict.fromkeys(self._group_of[parameter] for parameter in self._watched):
            if group not in self._waiting:
                self._submit(group)
        waiting, self._waiting = self._waiting, {}
        for group, (handle, contexts) in waiting.items():
            outputs = handle() if callable(handle) else mpi_ops.synchronize(handle)
            for parameter, output, context in zip(group, [outputs] if len(group) == 1 else outputs, contexts):
                self._put(parameter, self.compression.decompress(output, context) if not callable(handle) else output)
                self._left[parameter] = self.passes

    @staticmethod
    def _put(parameter: Parameter, reduced: torch.Tensor) -> None:
        gradient = parameter.grad
        assert gradient is not None
        with torch.no_grad():
            if gradient.is_sparse:
                parameter.grad = reduced if reduced.is_sparse else reduced.to_sparse()
            elif reduced.data_ptr() != gradient.data_ptr():
                gradient.copy_(reduced)


def _on_gradient(parameter: Parameter, function: Callable[[Parameter], None]) -> Any:
    """What has to live as long as `function` shall be called."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # PyTorch 2.1
        return parameter.register_post_accumulate_grad_hook(function)
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: function(parameter))
    return accumulator


class _Distributed:
    """Beside the optimizer's own class. `_exchange` is None where there is nobody to exchange with."""

    _exchange: Optional[_Exchange]
    _synchronized = False
    _should_synchronize = True

    def synchronize(self) -> None:
        """Waits until gradients are reduced, for scripts that change them before step()."""
        if self._exchange is not None:
            self._exchange.finish()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """step() inside takes the gradients as they are, after synchronize()."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        inner = super().step  # type: ignore[misc]
        if closure is not None:
            def reduced_closure() -> Any:
                loss = closure()
                self.synchronize()
                return loss
            result = inner(reduced_closure)
        else:
            if self._should_synchronize:
                if self._synchronized:
                    warnings.warn("optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(): "
                                  "gradients are reduced again")
                self.synchronize()
            result = inner()
        self._synchronized = False
        return result

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        if self._exchange is not None and self._exchange._waiting:
            raise AssertionError(_EARLY_ZERO_GRAD)
        super().zero_grad(*args, **kwargs)  # type: ignore[misc]

    def set_backward_passes_per_step(self, passes: int) -> None:
        if self._exchange is not None:
            self._exchange.set_passes(passes)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        if self._exchange is not None:
            self._exchange.forget()
        self._synchronized, self._should_synchronize = False, True
        super().load_state_dict(*args, **kwargs)  # type: ignore[misc]


class _DistributedAdasum:
    """Each rank takes its own step; adasum joins the changes of the parameters, not the gradients."""

    _names: Dict[Parameter, str]
    _compression: Type[Compressor]

    def synchronize(self) -> None:
        """Nothing: gradients stay this rank's own."""

    def skip_synchronize(self) -> None:
        raise AssertionError("skip_synchronize() makes no sense with op=Adasum: the exchange is part of the step")

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Gradients add up until step() in any case."""

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        before = {parameter: parameter.detach().clone() for parameter in self._names if parameter.requires_grad}
        result = super().step(closure)  # type: ignore[misc]
        under_way = []
        with torch.no_grad():
            for parameter, start in before.items():
                change, context = self._compression.compress(parameter.detach() - start)
                under_way.append((parameter, start, mpi_ops.allreduce_async_(change, name=self._names[parameter], op=Adasum), context))
            for parameter, start, handle, context in under_way:
                parameter.copy_(start + self._compression.decompress(mpi_ops.synchronize(handle), context))
        return result


def _named(optimizer: torch.optim.Optimizer, named_parameters: Optional[NamedParameters]) -> Dict[Parameter, str]:
    """A name for each parameter of the optimizer."""
    own = [(f"gradient.{i}.{j}", parameter) for i, group in enumerate(optimizer.param_groups)
           for j, parameter in enumerate(group["params"])]
    named = own if named_parameters is None else list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in named):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter), usually produced by model.named_parameters().")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}")
    known = {id(parameter) for _, parameter in named}
    unnamed = [tuple(parameter.shape) for _, parameter in own if id(parameter) not in known]
    if unnamed:
        raise ValueError(f"named_parameters was specified, but {len(unnamed)} parameters of the optimizer are not in it, of shapes "
                         f"{', '.join(map(str, unnamed))}")
    return {parameter: name for name, parameter in named}


def _divide(parameters: List[Parameter], groups: Union[None, int, List[List[torch.Tensor]]],
            names: Dict[Parameter, str], process_set: ProcessSet) -> List[Tuple[Parameter, ...]]:
    """Which gradients travel together; the same on all ranks."""
    if groups is None:
        return [(parameter,) for parameter in parameters]
    if isinstance(groups, int):
        order = {name: i for i, name in enumerate(broadcast_object([names[parameter] for parameter in parameters], process_set.ranks[0],
                                                                   "groups of gradients", process_set))}
        parameters = sorted(parameters, key=lambda parameter: order[names[parameter]])
        size, more = divmod(len(parameters), groups)
        ends = [(i + 1) * size + min(i + 1, more) for i in range(groups)]
        pieces = [tuple(parameters[begin:end]) for begin, end in zip([0, *ends], ends)]
        return [piece for piece in pieces if piece]
    grouped = [parameter for group in groups for parameter in group]
    if any(not isinstance(parameter, torch.Tensor) for parameter in grouped):
        raise ValueError("groups must consist of torch.Tensor.")
    known = {id(parameter) for parameter in grouped}
    if len(known) < len(grouped):
        raise ValueError("A parameter can only appear once in groups.")
    own = {id(parameter) for parameter in parameters}
    divided = [tuple(parameter for parameter in group if id(parameter) in own) for group in groups]
    return [group for group in divided if group] + [(parameter,) for parameter in parameters if id(parameter) not in known]


def _derive(optimizer: torch.optim.Optimizer, mixin: type) -> Any:
    """The optimizer itself under a class that is derived from its own: options, state and parameters are the same objects."""
    made = object.__new__(type(type(optimizer).__name__, (mixin, type(optimizer)), {}))
    # A scheduler that was made for the optimizer has wrapped its step(), which would go around ours.
    made.__dict__.update({name: value for name, value in optimizer.__dict__.items() if name != "step"})
    return made


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Optional[NamedParameters] = None,
                         compression: Type[Compressor] = Compression.none, backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: Union[None, int, List[List[torch.Tensor]]] = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set) -> Any:
    """`optimizer`, whose step() takes gradients that are reduced over all ranks of `process_set` by `op`.

    backward_passes_per_step: how many gradients add up before they are reduced. gradient_predivide_factor: a mean is divided by it
    before the sum, and by the rest after it. groups: how many groups of gradients, or lists of parameters, travel together.
    sparse_as_dense: sparse gradients are reduced as dense ones.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if num_groups != 0:
        warnings.warn("Parameter `num_groups` has been replaced by `groups` and will be removed in v0.23.0.", DeprecationWarning)
        groups = num_groups if groups is None else groups
    if groups is not None and not isinstance(groups, list) and not groups > 0:
        raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
    names = _named(optimizer, named_parameters)
    own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    names = {parameter: name for parameter, name in names.items() if id(parameter) in own}
    if op == Adasum and mpi_ops.size() > 1:
        if process_set.process_set_id != 0:
            raise NotImplementedError("Adasum does not support non-global process sets yet.")
        made = _derive(optimizer, _DistributedAdasum)
        made._names, made._compression = names, compression
        return made
    made = _derive(optimizer, _Distributed)
    made._exchange = None
    if process_set.included() and mpi_ops.size() > 1:
        exchange = _Exchange(names, compression, backward_passes_per_step, op, gradient_predivide_factor, sparse_as_dense, process_set)
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter.requires_grad]
        exchange.watch(parameters, _divide(parameters, groups, names, process_set))
        made._exchange = exchange
    return made
