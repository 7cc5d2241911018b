"""Pictures per second that are decoded from JPEG, cropped at random, resized, mirrored and normalised: dlflow's loader and torchvision's.

usage: loading.py FOLDER PROGRAM [THREADS …]

Torchvision is measured in each way that its users may choose, and the best counts: decoded by Pillow or by torchvision.io, transformed by
transforms or transforms.v2, with as many worker processes as the loader has threads, not counting the reading process. All take turns,
three times; the medians count. Pictures have 500 x 375 pixels, as most of ImageNet's; all lie in memory (page cache).
"""

import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision import io, transforms
from torchvision.transforms import v2

COUNT, WIDTH, HEIGHT, BATCH, SECONDS, TURNS = 384, 500, 375, 64, 2, 3
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def write_pictures(folder):
    """Noise of all wavelengths, its amplitude proportional to the wavelength: as detailed as photographs."""
    rng = np.random.default_rng(1)
    for i in range(COUNT):
        picture = np.zeros((HEIGHT, WIDTH, 3))
        for exponent in range(8):
            size = 2**exponent
            coarse = rng.normal(size=(HEIGHT // size + 2, WIDTH // size + 2, 3)) * [1, 0.5, 0.5]
            layer = Image.fromarray(np.uint8(np.clip(coarse * 40 + 128, 0, 255))).resize((WIDTH, HEIGHT), Image.BICUBIC)
            picture += (np.asarray(layer, float) - 128) * 0.22 * size**0.45
        luma = picture @ [0.6, 0.2, 0.2]
        picture = 128 + 0.7 * luma[..., None] + 0.3 * picture
        path = folder / f"class-{i % 8}/{i:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(np.clip(picture, 0, 255))).save(path, quality=90)


class Pictures(torch.utils.data.Dataset):
    """An endless data set of the files in random order, each prepared by `load`."""

    def __init__(self, files, load):
        self.files, self.load = files, load

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return self.load(self.files[index * 7919 % len(self.files)])


def ways(size):
    old = transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                              transforms.Normalize(MEAN, STD)])
    new = v2.Compose([v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
                      v2.Normalize(MEAN, STD)])
    on_pillow = v2.Compose([v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip(), v2.ToImage(),
                            v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    return {
        "Pillow, transforms": lambda file: old(Image.open(file).convert("RGB")),
        "Pillow, transforms.v2": lambda file: on_pillow(Image.open(file).convert("RGB")),
        "torchvision.io, transforms.v2": lambda file: new(io.decode_jpeg(io.read_file(file), mode=io.ImageReadMode.RGB)),
    }


class Peer:
    """One way, in a loader whose workers stay alive over all turns."""

    def __init__(self, files, load, workers):
        torch.set_num_threads(1)
        loader = torch.utils.data.DataLoader(Pictures(files, load), batch_size=BATCH, num_workers=workers, prefetch_factor=2)
        self.batches = iter(loader)

    def measure(self):
        for _ in range(4):  # skips the batches prepared between two turns
            next(self.batches)
        begin, pictures = time.perf_counter(), 0
        while (seconds := time.perf_counter() - begin) < SECONDS:
            pictures += len(next(self.batches))
        return pictures / seconds


def pause(peer):
    """Ends its workers."""
    peer.batches._shutdown_workers()


def ours(program, folder, threads):
    command = [program, folder, str(threads), str(SECONDS)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main():
    folder, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    dlflow = pathlib.Path("build/bin/dlflow")
    write_pictures(folder / "pictures")
    files = sorted(str(file) for file in (folder / "pictures").glob("*/*.jpg"))
    mean = statistics.mean(pathlib.Path(file).stat().st_size for file in files)
    print(f"torchvision {torchvision.__version__}, PyTorch {torch.__version__}; {COUNT} pictures of {WIDTH} x {HEIGHT}, {mean / 1024:.0f} KiB on average")
    for size in (224, 64):
        packed = folder / f"kept-{size}"
        resize = str(size * 256 // 224)
        subprocess.run([dlflow, "data", "pack", folder / "pictures", "-o", packed, "--resize", resize, "--crop", str(size), "--keep-jpeg"],
                       check=True, stdout=subprocess.DEVNULL)
        for threads in [int(t) for t in sys.argv[3:]] or [1]:
            results = {name: [] for name in ways(size)}
            own = []
            for _ in range(TURNS):
                for name, load in ways(size).items():
                    peer = Peer(files, load, threads)
                    results[name].append(peer.measure())
                    pause(peer)
                own.append(ours(program, packed, threads))
            for name, rates in results.items():
                print(f"  {size}, {threads} threads, {name}: {statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})")
            best = max(statistics.median(rates) for rates in results.values())
            mine = statistics.median(own)
            print(f"{size} x {size}, {threads} threads: peer {best:.0f}, ours {mine:.0f} ({min(own):.0f} to {max(own):.0f}) pictures/s, ratio {mine / best:.2f}")


if __name__ == "__main__":
    main()
