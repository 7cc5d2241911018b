"""Makes colour pictures of clothing: `tinted.py IMAGES LABELS COUNT SEED FOLDER`. Each is a picture of Fashion-MNIST (IDX files) in a random colour
on a background of another random colour, independent of its class. FOLDER gets CLASS/N.ppm, COUNT in all."""

import pathlib
import random
import sys

SIDE = 28
CLASSES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot"]


def tinted(grey: bytes, rng: random.Random) -> bytes:
    """Red, green and blue of each pixel: black pixels get the background's colour, white ones the clothing's."""
    colours = bytearray(3 * len(grey))
    for channel in range(3):
        ground, clothing = rng.randrange(0, 110), rng.randrange(145, 256)
        colours[channel::3] = grey.translate(bytes(ground + (clothing - ground) * value // 255 for value in range(256)))
    return bytes(colours)


def main() -> None:
    images = pathlib.Path(sys.argv[1]).read_bytes()[16:]
    labels = pathlib.Path(sys.argv[2]).read_bytes()[8:]
    rng = random.Random(int(sys.argv[4]))
    folder = pathlib.Path(sys.argv[5])
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
    for number, sample in enumerate(rng.sample(range(len(labels)), int(sys.argv[3]))):
        grey = images[sample * SIDE * SIDE : (sample + 1) * SIDE * SIDE]
        (folder / CLASSES[labels[sample]] / f"{number:05}.ppm").write_bytes(b"P6 %d %d 255\n" % (SIDE, SIDE) + tinted(grey, rng))


main()
