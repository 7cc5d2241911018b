"""Makes synthetic daily temperatures over mountains on a fine and a coarse grid, and evaluates predictions of the fine ones:

    fields.py make DAYS FIELDS.nc                          the fields, with the orography
    fields.py prepare FIELDS.nc TEST_DAYS FOLDER           arrays for `dlflow data pack`; the last days are the test; lapse_rate.npy: 6.5 K per km
    fields.py score FIELDS.nc TEST_DAYS FILE.nc [ARRAY]    the temperatures of the test as NetCDF; interpolated ones if ARRAY is missing
    fields.py draw FIELDS.nc FILE.nc PICTURE.png           the last day

A sample is the coarse temperature, interpolated to the fine grid, and the orography. Its targets are the errors of interpolation, in kelvins.
NetCDF files follow the CF conventions. Needs NumPy, netCDF4 and Matplotlib.
"""

import json
import os
import pathlib
import sys

import netCDF4
import numpy as np

SIDE, FACTOR = 32, 4  # points of the fine grid in each direction; fine points per coarse point in each direction
AXES = {"lat": 40 + 0.25 * np.arange(SIDE), "lon": 4 + 0.25 * np.arange(SIDE)}
LON, LAT = np.meshgrid(AXES["lon"], AXES["lat"])


def coarse(field):
    """Means over the cells of the coarse grid."""
    return field.reshape(-1, SIDE // FACTOR, FACTOR, SIDE // FACTOR, FACTOR).mean((2, 4))


def interpolated(field):
    """A coarse field on the fine grid, bilinear between the centres of the coarse cells."""
    middles = np.arange(SIDE).reshape(-1, FACTOR).mean(1)
    weights = np.stack([np.interp(np.arange(SIDE), middles, one) for one in np.eye(len(middles))], 1)
    return weights @ field @ weights.T


def waves(rng, lengths, days):
    """The sum of waves of these lengths in degrees, which move east by up to 4 degrees a day: (days, SIDE, SIDE), of standard deviation 1."""
    total = 0
    for length in lengths:
        angle, speed, phase = rng.uniform(-1, 1), rng.uniform(1, 4), rng.uniform(0, 2 * np.pi)
        place = np.cos(angle) * LON + np.sin(angle) * LAT - speed * days[:, None, None]
        total = total + length * np.cos(2 * np.pi / length * place + phase)
    return total / np.sqrt(np.square(lengths).sum() / 2)


def temperatures(rng, days, orography):
    """Temperatures in kelvins: seasons, moving weather and fronts, a lapse rate that is larger in summer, and cold air in valleys on cold days."""
    season = np.sin(2 * np.pi * (days - 110) / 365)[:, None, None]
    weather = waves(rng, rng.uniform(6, 25, 12), days)
    fronts = np.tanh(6 * waves(rng, rng.uniform(8, 16, 4), days))
    below = np.maximum(0, interpolated(coarse(orography)) - orography) / 1000
    return (290 + 10 * season - 0.7 * (LAT - LAT.mean()) + 4 * weather + 3 * fronts - (6 + 2 * season) * orography / 1000
            - 8 * np.maximum(0, -weather) * below + rng.normal(0, 0.3, (len(days), SIDE, SIDE)))


def add(file, name, values, dimensions, units, standard_name):
    for dimension, size in zip(dimensions, values.shape):
        if dimension not in file.dimensions:
            file.createDimension(dimension, size)
    variable = file.createVariable(name, values.dtype, dimensions)
    variable.units, variable.standard_name = units, standard_name
    variable[...] = values


def write(path, days, **temperatures):
    """Writes a file with coordinates. Names that end in `_coarse` belong to the coarse grid."""
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions = "CF-1.8"
        add(file, "time", days, ["time"], "days since 2001-01-01", "time")
        for name, values in temperatures.items():
            end, step = ("_coarse", FACTOR) if name.endswith("_coarse") else ("", 1)
            for axis, units, standard_name in (("lat", "degrees_north", "latitude"), ("lon", "degrees_east", "longitude")):
                add(file, axis + end, AXES[axis].reshape(-1, step).mean(1), [axis + end], units, standard_name)
            add(file, name, values.astype(np.float32), ["time", "lat" + end, "lon" + end], "K", "air_temperature")


def make(days, path):
    rng, times = np.random.default_rng(1), np.arange(float(days))
    orography = np.maximum(0, 800 + 800 * waves(rng, rng.uniform(0.6, 5, 40), np.zeros(1)))
    tas = temperatures(rng, times, orography)
    write(path, times, tas=tas, tas_coarse=coarse(tas))
    with netCDF4.Dataset(path, "a") as file:
        add(file, "orog", orography[0].astype(np.float32), ["lat", "lon"], "m", "surface_altitude")


def read(path):
    with netCDF4.Dataset(path) as file:
        return {name: np.asarray(variable[...]) for name, variable in file.variables.items()}


def prepare(path, test_days, folder):
    fields = read(path)
    base = interpolated(fields["tas_coarse"])
    samples = np.stack([base, np.broadcast_to(fields["orog"], base.shape)], 1).astype(np.float32)
    targets = (fields["tas"] - base).reshape(len(base), -1).astype(np.float32)
    for split, days in (("train", slice(None, -int(test_days))), ("test", slice(-int(test_days), None))):
        np.save(pathlib.Path(folder, f"{split}_x.npy"), samples[days])
        np.save(pathlib.Path(folder, f"{split}_y.npy"), targets[days])
    higher = fields["orog"] - interpolated(coarse(fields["orog"]))
    np.save(pathlib.Path(folder, "lapse_rate.npy"), np.tile(-0.0065 * higher, (int(test_days), 1, 1)))


def score(path, test_days, target, predictions=None):
    """Also reports the root mean squared error and the skill: the share of interpolation's mean squared error that is removed."""
    fields = {name: values[-int(test_days):] for name, values in read(path).items() if name.startswith("t")}
    base, truth = interpolated(fields["tas_coarse"]), fields["tas"]
    tas = base if predictions is None else base + np.load(predictions).reshape(base.shape)
    write(target, fields["time"], tas=tas)
    error, interpolation = (np.square(values - truth).mean() for values in (tas, base))
    pathlib.Path(os.environ["DLFLOW_SUMMARY"]).write_text(json.dumps({"rmse": float(np.sqrt(error)), "skill": float(1 - error / interpolation)}))


def draw(path, prediction, target):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    fields, tas = read(path), read(prediction)["tas"][-1]
    truth, given = fields["tas"][-1], np.kron(fields["tas_coarse"][-1], np.ones((FACTOR, FACTOR)))
    figure, axes = pyplot.subplots(1, 4, figsize=(13, 3.4), layout="constrained", sharey=True)
    for axis, title, values in zip(axes, ("coarse field", "fine field", "prediction", "error of the prediction"), (given, truth, tas, tas - truth)):
        colours = {"cmap": "RdBu_r", "vmin": -3, "vmax": 3} if title.startswith("error") else {"vmin": truth.min(), "vmax": truth.max()}
        image = axis.imshow(values, origin="lower", extent=(*AXES["lon"][[0, -1]], *AXES["lat"][[0, -1]]), **colours)
        axis.set(title=title, xlabel="degrees east")
        figure.colorbar(image, label="K", shrink=0.8)
    axes[0].set_ylabel("degrees north")
    figure.savefig(target, dpi=90)


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    {"make": make, "prepare": prepare, "score": score, "draw": draw}[verb](*arguments)
