"""`python -m dlflow.convert FILE -o FILE`: .npy, .csv and .tsv files to and from .npz, Parquet, HDF5 and NetCDF.

The endings name the formats. A file holds named arrays: columns, datasets or variables; the array of an .npy file has the
name of the file. --name NAME takes one of several arrays, and may be given more than once.

Parquet needs pyarrow, HDF5 (.h5, .hdf5) h5py, NetCDF (.nc) netCDF4. Exit status: 0 done, 1 it could not be done, 2 a library
is missing or the command is wrong.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import pathlib
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

Path = pathlib.Path
Arrays = Dict[str, Any]


class Mistake(Exception):
    """A file that cannot be converted."""


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"error: {name} is not installed: {sys.executable} -m pip install {name}", file=sys.stderr)
        sys.exit(2)


def _is_text(array: Any) -> bool:
    return bool(array.dtype.kind == "O")


def _array(values: Any) -> Any:
    """Adds a dimension to scalars; texts become objects of str."""
    numpy = _library("numpy")
    array = numpy.atleast_1d(values)
    if array.dtype.kind not in "OSU":
        return array
    texts = ["" if value is None else value.decode() if isinstance(value, bytes) else str(value) for value in array.ravel()]
    return numpy.array(texts, dtype=object).reshape(array.shape)


def _rows(arrays: Arrays) -> int:
    """The common length of all arrays."""
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise Mistake("its arrays have different lengths; choose some with --name: " + ", ".join(arrays))
    return lengths.pop()


def _read_npy(path: Path) -> Arrays:
    return {path.stem: _library("numpy").load(path)}


def _write_npy(path: Path, arrays: Arrays) -> None:
    if len(arrays) > 1:
        raise Mistake("an .npy file holds one array; choose one with --name: " + ", ".join(arrays))
    (array,) = arrays.values()
    _library("numpy").save(path, array.astype(str) if _is_text(array) else array)


def _read_npz(path: Path) -> Arrays:
    with _library("numpy").load(path) as archive:
        return dict(archive)


def _write_npz(path: Path, arrays: Arrays) -> None:
    _library("numpy").savez(path, **{name: array.astype(str) if _is_text(array) else array for name, array in arrays.items()})


def _separator(path: Path) -> str:
    return "\t" if path.suffix == ".tsv" else ","


def _column(cells: List[str]) -> Any:
    """Converts to integers, otherwise to numbers with NaN for empty cells, otherwise to texts."""
    numpy = _library("numpy")
    for kind in (numpy.int64, numpy.float64):
        try:
            return numpy.array([kind(cell or "nan") for cell in cells], dtype=kind)
        except (ValueError, OverflowError):
            pass
    return numpy.array(cells, dtype=str)


def _read_csv(path: Path) -> Arrays:
    with open(path, newline="", encoding="utf-8-sig") as file:
        head, *rows = csv.reader(file, delimiter=_separator(path), strict=True)
    for number, row in enumerate(rows, 2):
        if len(row) != len(head):
            raise Mistake(f"row {number} has {len(row)} cells, the first one {len(head)}")
    return {name: _column([row[i] for row in rows]) for i, name in enumerate(head)}


def _write_csv(path: Path, arrays: Arrays) -> None:
    """Writes columns; an array of several dimensions becomes one column per value: NAME_0, NAME_1."""
    rows = _rows(arrays)
    columns: Arrays = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = array
        else:
            columns.update((f"{name}_{i}", column) for i, column in enumerate(array.reshape(rows, -1).T))
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter=_separator(path), lineterminator="\n")
        table.writerow(columns)
        table.writerows(zip(*(map(str, column) for column in columns.values())))


def _read_parquet(path: Path) -> Arrays:
    _library("pyarrow")
    table = _library("pyarrow.parquet").read_table(path)
    return {name: _array_of(name, table[name]) for name in table.column_names}


def _array_of(name: str, column: Any) -> Any:
    """Lists of equal length become another dimension."""
    compute, types = _library("pyarrow.compute"), _library("pyarrow").types
    shape = [len(column)]
    column = column.combine_chunks()
    while types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        lengths = compute.unique(compute.list_value_length(column)).to_pylist() or [0]
        if len(lengths) > 1 or lengths[0] is None:
            raise Mistake(f"the lists of its column {name} have different lengths")
        shape.append(lengths[0])
        column = column.flatten()
    return column.to_numpy(zero_copy_only=False).reshape(shape)


def _write_parquet(path: Path, arrays: Arrays) -> None:
    pyarrow = _library("pyarrow")
    _rows(arrays)
    columns = {}
    for name, array in arrays.items():
        column = pyarrow.array(array.ravel())
        for size in reversed(array.shape[1:]):
            column = pyarrow.FixedSizeListArray.from_arrays(column, size)
        columns[name] = column
    _library("pyarrow.parquet").write_table(pyarrow.table(columns), path)


def _read_hdf5(path: Path) -> Arrays:
    h5py = _library("h5py")
    arrays: Arrays = {}

    def read(group: Any) -> None:
        for item in group.values():
            if isinstance(item, h5py.Group):
                read(item)
            else:
                arrays[item.name[1:]] = (item.asstr() if h5py.check_string_dtype(item.dtype) else item)[()]

    with h5py.File(path, track_order=True) as file:
        read(file)
    return arrays


def _write_hdf5(path: Path, arrays: Arrays) -> None:
    h5py = _library("h5py")
    with h5py.File(path, "w", track_order=True) as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, dtype=h5py.string_dtype() if _is_text(array) else array.dtype)


def _read_netcdf(path: Path) -> Arrays:
    netcdf, numpy = _library("netCDF4"), _library("numpy")

    def values(variable: Any) -> Any:
        array = variable[...]
        if array.dtype == "S1":
            return netcdf.chartostring(array)
        if numpy.ma.is_masked(array):
            return array.astype(float).filled(numpy.nan)
        return numpy.asarray(array)

    with netcdf.Dataset(path) as file:
        return {name: values(variable) for name, variable in file.variables.items()}


def _write_netcdf(path: Path, arrays: Arrays) -> None:
    """All arrays share the dimension `row` if their lengths are equal."""
    with _library("netCDF4").Dataset(path, "w") as file:
        rows = len(next(iter(arrays.values())))
        for path_in_file, array in arrays.items():
            name = path_in_file.replace("/", "_")  # a slash would create a group
            dimensions = ["row" if axis == 0 and size == rows else f"{name}_{axis}" for axis, size in enumerate(array.shape)]
            for dimension, size in zip(dimensions, array.shape):
                if dimension not in file.dimensions:
                    file.createDimension(dimension, size)
            kind = str if _is_text(array) else "u1" if array.dtype == bool else array.dtype
            file.createVariable(name, kind, dimensions)[...] = array


FORMATS: Dict[str, Tuple[Callable[[Path], Arrays], Callable[[Path, Arrays], None]]] = {
    ".npy": (_read_npy, _write_npy),
    ".csv": (_read_csv, _write_csv),
    ".tsv": (_read_csv, _write_csv),
    ".parquet": (_read_parquet, _write_parquet),
    ".h5": (_read_hdf5, _write_hdf5),
    ".hdf5": (_read_hdf5, _write_hdf5),
    ".nc": (_read_netcdf, _write_netcdf),
    ".npz": (_read_npz, _write_npz),
}


def convert(source: Path, target: Path, names: List[str]) -> None:
    arrays = {name: _array(values) for name, values in FORMATS[source.suffix][0](source).items()}
    missing = [name for name in names if name not in arrays]
    if missing or not arrays:
        raise Mistake(f"it has no array {', '.join(missing)}; it has {', '.join(arrays) or 'none'}")
    FORMATS[target.suffix][1](target, {name: arrays[name] for name in names or arrays})


def main(arguments: Optional[List[str]] = None) -> int:
    def place(text: str) -> Path:
        if Path(text).suffix not in FORMATS:
            raise argparse.ArgumentTypeError(f"{text} does not end in one of {', '.join(FORMATS)}")
        return Path(text)

    parser = argparse.ArgumentParser("python -m dlflow.convert", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=place, metavar="FILE")
    parser.add_argument("-o", "--output", type=place, metavar="FILE", required=True)
    parser.add_argument("--name", action="append", default=[], help="the name of an array to convert")
    given = parser.parse_args(arguments)
    if given.output.exists():
        parser.error(f"{given.output} already exists; remove it, or write to another file with -o")
    try:
        convert(given.source, given.output, given.name)
    except (Mistake, csv.Error, OSError, RuntimeError, TypeError, ValueError) as error:  # RuntimeError comes from netCDF4
        given.output.unlink(missing_ok=True)
        print(f"error: {given.source}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
