"""Makes a data set for a language model of bytes from text files: `text.py LENGTH FOLDER PATTERN` writes train.dlset and
test.dlset (docs/user/data-format.md) to `$DLFLOW_OUTPUTS/data`. A sample is LENGTH bytes of one file after the other; one in
ten, chosen by its hash, is for the test."""

import hashlib
import os
import pathlib
import struct
import sys


def write_dlset(path: pathlib.Path, samples: list[bytes], length: int) -> None:
    def sha256(content: bytes) -> bytes:
        return hashlib.sha256(content).hexdigest().encode()

    size = max(1, (16 << 10) // length)
    head = b"DLFDATA\n" + struct.pack("<IIQIIII", 2, 0, len(samples), 1, 1, length, 1)
    labels = struct.pack("<I20x", size) + bytes(4 * len(samples))  # nothing to tell: the tokens are their own targets
    chunks = b"".join(sha256(b"".join(samples[i:i + size])) for i in range(0, len(samples), size))
    rest = labels + b"".join(samples) + chunks + sha256(head + labels + chunks)
    path.write_bytes(head + sha256(head + rest) + rest)


def main() -> None:
    length, folder, pattern = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    text = b"\n".join(path.read_bytes() for path in sorted(folder.glob(pattern)) if path.is_file())
    samples = [text[i:i + length] for i in range(0, len(text) - length + 1, length)]
    tested = [hashlib.sha256(sample).digest()[0] < 256 // 10 for sample in samples]
    if not any(tested) or all(tested):
        sys.exit(f"error: {folder}/{pattern} has {len(samples)} pieces of {length} bytes, which is too little text")
    output = pathlib.Path(os.environ["DLFLOW_OUTPUTS"]) / "data"
    output.mkdir(parents=True)
    write_dlset(output / "train.dlset", [s for s, test in zip(samples, tested) if not test], length)
    write_dlset(output / "test.dlset", [s for s, test in zip(samples, tested) if test], length)
    print(f"{len(text)} bytes, {len(samples)} samples")


main()
