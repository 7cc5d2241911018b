"""onnx_peer_test.py CASES: the ONNX files that CASES (onnx_cases.cpp) writes are valid, and onnxruntime computes the scores of the reference."""

import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"skipped here: {error}")
    sys.exit(77)


def difference(path):
    """Of the norms of scores, relative to those expected."""
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (taken, *more), (given,) = session.get_inputs(), session.get_outputs()
    assert (taken.name, given.name, taken.shape[0]) == ("input", "scores", "batch"), (taken, given)
    kind = "int64" if "int64" in taken.type else "float32"
    images = numpy.fromfile(path.with_suffix(".input")).reshape(-1, *taken.shape[1:]).astype(kind)
    expected = numpy.fromfile(path.with_suffix(".scores")).reshape(-1, *given.shape[1:])
    lengths = {more[0].name: numpy.fromfile(path.with_suffix(".lengths")).astype("int64")} if more else {}
    assert list(lengths) == ["lengths"] * path.with_suffix(".lengths").exists(), path
    scores, = session.run(["scores"], {"input": images} | lengths)
    assert scores.shape == expected.shape and session.get_modelmeta().custom_metadata_map == {"name": path.stem}
    return numpy.linalg.norm(scores - expected) / numpy.linalg.norm(expected)


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        found = {path.stem: difference(path) for path in sorted(pathlib.Path(folder).glob("*.onnx"))}
    for name, distance in found.items():
        print(f"{name}: {distance:.1e}")
    assert len(found) > 30 and max(found.values()) < 2e-5, found


main()
