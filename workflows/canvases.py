"""Makes pictures with a class per pixel: `canvases.py IMAGES LABELS COUNT SEED FOLDER`. Each is a canvas of 64 x 64 pixels with four
pieces of clothing from Fashion-MNIST (IDX files) at random places, later ones over earlier ones, and noise everywhere. FOLDER gets
images/*.pgm, masks/*.pgm and classes.txt."""

import pathlib
import random
import sys

SIDE, PIECE, PIECES = 64, 28, 4
CLASSES = ["background", "top", "trousers", "dress", "shoe", "bag"]
CLASS_OF_LABEL = [1, 2, 1, 3, 1, 4, 1, 4, 5, 4]  # T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot
DARKEST = 40  # darker pixels of clothing belong to the background
NOISE = bytes(100 * value // 255 for value in range(256))


def paste(canvas, mask, piece, number, top, left):
    for row in range(PIECE):
        place = (top + row) * SIDE + left
        for pixel in piece[row * PIECE : (row + 1) * PIECE]:
            if pixel >= DARKEST:
                canvas[place] = pixel
                mask[place] = number
            place += 1


def main() -> None:
    images = pathlib.Path(sys.argv[1]).read_bytes()[16:]
    labels = pathlib.Path(sys.argv[2]).read_bytes()[8:]
    rng = random.Random(int(sys.argv[4]))
    folder = pathlib.Path(sys.argv[5])
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    (folder / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    head = b"P5 %d %d 255\n" % (SIDE, SIDE)
    for number in range(int(sys.argv[3])):
        canvas, mask = bytearray(SIDE * SIDE), bytearray(SIDE * SIDE)
        for _ in range(PIECES):
            sample = rng.randrange(len(labels))
            piece = images[sample * PIECE * PIECE : (sample + 1) * PIECE * PIECE]
            paste(canvas, mask, piece, CLASS_OF_LABEL[labels[sample]], rng.randrange(SIDE - PIECE + 1), rng.randrange(SIDE - PIECE + 1))
        noise = rng.randbytes(SIDE * SIDE).translate(NOISE)
        pixels = bytes(min(a + b, 255) for a, b in zip(canvas, noise))
        (folder / f"images/{number:05}.pgm").write_bytes(head + pixels)
        (folder / f"masks/{number:05}.pgm").write_bytes(head + mask)


main()
