"""`read_predictions.py FILE`: what PyArrow or netCDF4 reads in it, as JSON: a list for each column or variable, and the number of row groups."""

import json
import sys

if sys.argv[1].endswith(".parquet"):
    import pyarrow.parquet
    file = pyarrow.parquet.ParquetFile(sys.argv[1])
    table = file.read()
    table.validate(full=True)
    print(json.dumps([{name: table[name].to_pylist() for name in table.column_names}, file.num_row_groups]))
else:
    import netCDF4
    with netCDF4.Dataset(sys.argv[1]) as file:
        assert file.data_model == "NETCDF3_64BIT_OFFSET" and file.dimensions["sample"].isunlimited()
        print(json.dumps([{name: variable[:].tolist() for name, variable in file.variables.items()}, 1]))
