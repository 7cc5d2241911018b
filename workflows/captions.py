"""Makes pictures with captions: `captions.py IMAGES LABELS COUNT SEED FOLDER`. Each picture has two pieces of clothing of Fashion-MNIST (IDX
files) side by side, 28 x 56 pixels, and noise; its caption is two tokens: what is on the left (0 to 9), and what on the right (10 to
19). The first hundred have each caption once, the others any. FOLDER gets pictures.npy and captions.npy."""

import pathlib
import random
import struct
import sys

SIDE, CLASSES = 28, 10
NOISE = bytes(80 * value // 255 for value in range(256))


def write_npy(file, kind, shape, content):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + content)


def main() -> None:
    images = pathlib.Path(sys.argv[1]).read_bytes()[16:]
    labels = pathlib.Path(sys.argv[2]).read_bytes()[8:]
    count, rng, folder = int(sys.argv[3]), random.Random(int(sys.argv[4])), pathlib.Path(sys.argv[5])
    of_class = [[i for i, label in enumerate(labels) if label == kind] for kind in range(CLASSES)]
    pictures, captions = bytearray(), []
    for number in range(count):
        kinds = divmod(number, CLASSES) if number < CLASSES**2 else (rng.randrange(CLASSES), rng.randrange(CLASSES))
        samples = [rng.choice(of_class[kind]) * SIDE * SIDE for kind in kinds]
        for row in range(0, SIDE * SIDE, SIDE):
            line = b"".join(images[sample + row:sample + row + SIDE] for sample in samples)
            pictures += bytes(min(a + b, 255) for a, b in zip(line, rng.randbytes(2 * SIDE).translate(NOISE)))
        captions += [kinds[0], CLASSES + kinds[1]]
    folder.mkdir(parents=True, exist_ok=True)
    write_npy(folder / "pictures.npy", "|u1", (count, 1, SIDE, 2 * SIDE), bytes(pictures))
    write_npy(folder / "captions.npy", "<f4", (count, 2), struct.pack(f"<{2 * count}f", *captions))


main()
