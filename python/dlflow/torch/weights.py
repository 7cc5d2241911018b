"""Weights of networks that others have trained, to the file that `start_from:` of a `train` step takes, and back.

    python3 -m dlflow.torch.weights WEIGHTS -o start.safetensors
    python3 -m dlflow.torch.weights model.safetensors -o gpt2.safetensors --to huggingface

WEIGHTS is a file of PyTorch (.pt, .pth, .bin: a state dict, alone or as `state_dict` or `model` of a checkpoint), a safetensors file, an index of several
(model.safetensors.index.json), or a folder with one of those. Networks of torchvision have dlflow's names already. In Hugging Face's GPT-2, the weights
of Conv1D are transposed, and duplicates and entries that are not weights are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import zipfile
from typing import Any, Dict, List, Mapping, Optional

import torch

from dlflow import _safetensors, _tree

#: Prefixes that wrappers add to every name.
_PREFIXES = ("module.", "_orig_mod.", "model.", "transformer.")
#: Layers of GPT-2 that multiply by the weight itself, while nn.Linear multiplies by its transpose.
_CONV1D = (".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight", ".mlp.c_proj.weight")

Weights = Dict[str, torch.Tensor]


class Unreadable(Exception):
    """A file without weights. The message names it and the reason."""


def load(path: pathlib.Path) -> Weights:
    """All tensors of a file or folder, under the file's names. Raises Unreadable."""
    if path.is_dir():
        return load(_file_in(path))
    if not path.is_file():
        raise Unreadable(f"there is no file {path}")
    if path.name.endswith(".index.json"):
        return _load_index(path)
    try:
        if path.suffix == ".safetensors":
            return {name: _tree.to_torch(tensor) for name, tensor in _safetensors.read(str(path))[0].items()}
        return _load_pickle(path)
    except (_safetensors.Damaged, AttributeError) as error:
        raise Unreadable(f"{path}: {error}") from None


def to_dlflow(weights: Mapping[str, torch.Tensor]) -> Weights:
    """Converts to the names and shapes of the models in workflows/models: drops wrappers' prefixes, counters of batch normalisation,
    masks of GPT-2, and an output layer that shares the embedding."""
    named = _without_prefixes(weights)
    kept = {name: tensor for name, tensor in named.items() if not _is_no_weight(name, tensor)}
    if _is_gpt2(kept):
        kept = _transposed(kept)
        if "lm_head.weight" in kept and torch.equal(kept["lm_head.weight"], kept["wte.weight"]):
            del kept["lm_head.weight"]
    return kept


def to_huggingface(weights: Mapping[str, torch.Tensor]) -> Weights:
    """Converts a GPT-2 of dlflow for `GPT2LMHeadModel.load_state_dict(..., strict=False)`. Raises Unreadable for other networks."""
    if not _is_gpt2(weights):
        raise Unreadable("--to huggingface is for GPT-2, whose layers are called wte, wpe, h.0.attn.c_attn and so on; torchvision's names need no change")
    return {f"transformer.{name}": tensor for name, tensor in _transposed(weights).items()}


def save(path: pathlib.Path, weights: Mapping[str, torch.Tensor]) -> None:
    """Writes a safetensors file, which atomically replaces an existing one."""
    tensors = _tree.Tensors()
    _tree.encode(weights, tensors)
    whole = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    try:
        _safetensors.write(str(whole), tensors.by_name, {"format": "pt"})
        whole.replace(path)
    finally:
        whole.unlink(missing_ok=True)


def _file_in(folder: pathlib.Path) -> pathlib.Path:
    wanted = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
    for name in wanted:
        if (folder / name).exists():
            return folder / name
    raise Unreadable(f"{folder} has none of {', '.join(wanted)}")


def _load_index(path: pathlib.Path) -> Weights:
    try:
        names: Mapping[str, str] = json.loads(path.read_text())["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"{path} is not the index of a divided file: {error!r}") from None
    weights: Weights = {}
    for file in sorted(set(names.values())):
        if pathlib.PurePath(file).name != file:
            raise Unreadable(f"{path} names {file}, which is not beside it")
        weights.update(load(path.parent / file))
    missing = sorted(set(names) - set(weights))
    if missing:
        raise Unreadable(f"{path} lists {missing[0]}, which {names[missing[0]]} does not hold")
    return {name: weights[name] for name in names}


def _load_pickle(path: pathlib.Path) -> Weights:
    """PyTorch before 2.0 executes what a pickle contains unless asked to read only tensors; so it is asked to."""
    try:
        loaded: Any = torch.load(str(path), map_location="cpu", weights_only=True)
    except Exception as error:
        if zipfile.is_zipfile(path):  # a whole module, which torch.load would execute
            raise Unreadable(f"{path} holds more than tensors; if you trust it: torch.save(torch.load({str(path)!r}, weights_only=False).state_dict(), 'w.pt')") from None
        raise Unreadable(f"{path} is not a file of tensors: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from None
    for key in ("state_dict", "model", "module"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict):
        raise Unreadable(f"{path} holds {type(loaded).__name__}, not the tensors of a network")
    weights = {name: value for name, value in loaded.items() if isinstance(value, torch.Tensor)}
    if not weights:
        raise Unreadable(f"{path} holds no tensors")
    return weights


def _without_prefixes(weights: Mapping[str, torch.Tensor]) -> Weights:
    named = dict(weights)
    for _ in _PREFIXES:
        for prefix in _PREFIXES:
            inner = [name for name in named if not name.startswith("lm_head.")]
            if inner and all(name.startswith(prefix) for name in inner):
                named = {name[len(prefix):] if name.startswith(prefix) else name: tensor for name, tensor in named.items()}
    return named


def _is_gpt2(weights: Mapping[str, torch.Tensor]) -> bool:
    return {"wte.weight", "wpe.weight", "h.0.attn.c_attn.weight"} <= set(weights)


def _is_no_weight(name: str, tensor: torch.Tensor) -> bool:
    is_mask = name.endswith((".attn.bias", ".attn.masked_bias")) and (tensor.dim() == 4 or tensor.dim() == 0)
    return is_mask or name.endswith(".num_batches_tracked")


def _transposed(weights: Mapping[str, torch.Tensor]) -> Weights:
    return {name: tensor.t().contiguous() if name.endswith(_CONV1D) else tensor for name, tensor in weights.items()}


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m dlflow.torch.weights", description=__doc__.partition("\n")[0])
    parser.add_argument("weights", type=pathlib.Path, metavar="WEIGHTS")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, help="safetensors file to write")
    parser.add_argument("--to", choices=["dlflow", "huggingface"], default="dlflow", help="framework whose parameter names it gets")
    args = parser.parse_args(arguments)
    try:
        change = to_huggingface if args.to == "huggingface" else to_dlflow
        weights = change(load(args.weights))
        save(args.output, weights)
    except (Unreadable, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{args.output}: {len(weights)} tensors, {sum(tensor.numel() for tensor in weights.values()):,} numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
