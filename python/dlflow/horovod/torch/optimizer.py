"""DistributedOptimizer: an optimizer whose gradients are the mean over all ranks.

Each gradient is submitted by its parameter's name as soon as it is computed, while the backward pass continues. Ranks may compute them
in different orders; step() waits for all.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple, Type

import torch

from dlflow.horovod.session import Entry
from dlflow.horovod.torch import mpi_ops
from dlflow.horovod.torch.compression import Compression, Compressor
from dlflow.horovod.torch.mpi_ops import Adasum, Average

Parameter = torch.nn.Parameter
NamedParameters = Iterable[Tuple[str, Parameter]]

_EARLY_ZERO_GRAD = ("optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(): "
                    "the gradients are still being reduced.")


class _Exchange:
    """The pending gradients of an optimizer. `names` has all its parameters."""

    def __init__(self, names: Dict[Parameter, str], compression: Type[Compressor], passes: int, op: int, predivide: float):
        self._names, self._compression, self._op = names, compression, op
        self._scales = (1 / predivide, predivide) if op == Average else (1.0, 1.0)
        self._passes = passes
        self.forget()
        self._watched = [parameter for parameter in names if parameter.requires_grad]
        self._hooks = [_on_gradient(parameter, self._computed) for parameter in self._watched]

    def forget(self) -> None:
        self.under_way: Dict[Parameter, Tuple[Entry, Any]] = {}  # the handle and decompress()'s context
        self._left = {parameter: self._passes for parameter in self._names}  # backward passes before a gradient is submitted

    def _computed(self, parameter: Parameter) -> None:
        if self._left[parameter] <= 0:
            raise AssertionError(f"The gradient of {self._names[parameter]} was computed more than backward_passes_per_step={self._passes} "
                                 "times before step() or synchronize(). Increase backward_passes_per_step to add up gradients.")
        self._left[parameter] -= 1
        if self._left[parameter] == 0:
            self._submit(parameter)

    def _submit(self, parameter: Parameter) -> None:
        if parameter.grad is None:  # another rank may have a gradient
            parameter.grad = torch.zeros_like(parameter)
        sent, context = self._compression.compress(parameter.grad.detach())
        self.under_way[parameter] = mpi_ops.allreduce_async_(sent, None, self._names[parameter], self._op, *self._scales), context

    def finish(self) -> None:
        """Submits gradients that this rank has not computed, and waits for all."""
        for parameter in self._watched:
            if parameter not in self.under_way:
                self._submit(parameter)
        under_way, self.under_way = self.under_way, {}
        for parameter, (handle, context) in under_way.items():
            reduced = self._compression.decompress(mpi_ops.synchronize(handle), context)
            with torch.no_grad():
                if reduced.data_ptr() != parameter.grad.data_ptr():
                    parameter.grad.copy_(reduced)
            self._left[parameter] = self._passes


def _on_gradient(parameter: Parameter, function: Callable[[Parameter], None]) -> Any:
    """Returns an object that must live as long as `function` is to be called."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # PyTorch 2.1
        return parameter.register_post_accumulate_grad_hook(function)
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: function(parameter))
    return accumulator


class _Distributed:
    """Mixed into the optimizer's own class. `_exchange` is None with a single rank."""

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
        """Within it, step() uses the gradients as they are, after synchronize()."""
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
        if self._exchange is not None and self._exchange.under_way:
            raise AssertionError(_EARLY_ZERO_GRAD)
        super().zero_grad(*args, **kwargs)  # type: ignore[misc]

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        if self._exchange is not None:
            self._exchange.forget()
        self._synchronized, self._should_synchronize = False, True
        super().load_state_dict(*args, **kwargs)  # type: ignore[misc]


class _DistributedAdasum:
    """Each rank takes its own step; adasum combines the changes of the parameters, not the gradients."""

    _names: Dict[Parameter, str]
    _compression: Type[Compressor]

    def synchronize(self) -> None:
        """Does nothing: gradients stay this rank's own."""

    def skip_synchronize(self) -> None:
        raise AssertionError("skip_synchronize() makes no sense with op=Adasum: the exchange is part of the step")

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
    known, ids = {id(parameter) for _, parameter in named}, {id(parameter) for _, parameter in own}
    unnamed = [tuple(parameter.shape) for _, parameter in own if id(parameter) not in known]
    if unnamed:
        raise ValueError(f"named_parameters was specified, but {len(unnamed)} parameters of the optimizer are not in it, of shapes "
                         f"{', '.join(map(str, unnamed))}")
    return {parameter: name for name, parameter in named if id(parameter) in ids}


def _derive(optimizer: torch.optim.Optimizer, mixin: type) -> Any:
    """The optimizer with a class derived from its own: options, state and parameters are the same objects."""
    made = object.__new__(type(type(optimizer).__name__, (mixin, type(optimizer)), {}))
    # A scheduler may have replaced the optimizer's step() by a wrapper, which would bypass ours.
    made.__dict__.update({name: value for name, value in optimizer.__dict__.items() if name != "step"})
    return made


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Optional[NamedParameters] = None,
                         compression: Type[Compressor] = Compression.none, backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Any = None,
                         sparse_as_dense: bool = False) -> Any:
    """`optimizer`, whose step() uses gradients that are reduced over all ranks by `op`.

    backward_passes_per_step: the number of gradients that are added before they are reduced. gradient_predivide_factor: the mean's
    divisor is split into this factor before the sum, and the rest after it.
    """
    if num_groups or groups is not None or sparse_as_dense:
        raise NotImplementedError("hvd.DistributedOptimizer has no `num_groups`, `groups` and `sparse_as_dense` here: leave them out, or use "
                                  "torch.nn.parallel.DistributedDataParallel, which groups gradients; make embeddings with sparse=False")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    names = _named(optimizer, named_parameters)
    if mpi_ops.size() > 1 and op == Adasum:
        made = _derive(optimizer, _DistributedAdasum)
        made._names, made._compression = names, compression
        return made
    made = _derive(optimizer, _Distributed)
    made._exchange = _Exchange(names, compression, backward_passes_per_step, op, gradient_predivide_factor) if mpi_ops.size() > 1 else None
    return made
