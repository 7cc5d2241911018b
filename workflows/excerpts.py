"""Makes excerpts of 1 to 8 lines from this machine's source code in four languages: `excerpts.py COUNT FOLDER`. FOLDER gets
train/LANGUAGE/N.txt, COUNT of each language, and test/LANGUAGE/N.txt, a quarter as many, from other files."""

import hashlib
import pathlib
import random
import sys

SOURCES = {"c": ("/usr/include", "linux/*.h asm-generic/*.h"), "cpp": ("/usr/include/c++", "*/bits/*.h */bits/*.tcc"),
           "perl": ("/usr", "lib/*/perl-base/**/*.pm share/perl/*/**/*.pm"), "python": ("/usr/lib", "python3*/*.py")}


def lines_of(language: str, is_test: bool) -> list[list[str]]:
    """The lines of each file of this split. A hash of its name assigns a fifth of the files to the test."""
    folder, patterns = SOURCES[language]
    files = {file.resolve() for pattern in patterns.split() for file in pathlib.Path(folder).glob(pattern)}
    chosen = [file for file in sorted(files) if (hashlib.sha256(file.name.encode()).digest()[0] < 51) == is_test]
    if not chosen:
        sys.exit(f"error: no files fit {patterns} in {folder} (Debian: libstdc++-12-dev, linux-libc-dev, perl-modules-5.36 and python3)")
    return [[line for line in file.read_text(errors="replace").replace("\0", "").splitlines() if line.strip()] for file in chosen]


def main() -> None:
    count, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    for split, wanted in (("train", count), ("test", count // 4)):
        for language in SOURCES:
            texts, rng = [text for text in lines_of(language, split == "test") if len(text) > 8], random.Random(1)
            (folder / split / language).mkdir(parents=True)
            for number in range(wanted):
                text = rng.choice(texts)
                begin = rng.randrange(len(text) - 8)
                (folder / split / language / f"{number}.txt").write_text("\n".join(text[begin:begin + rng.randint(1, 8)]) + "\n")


main()
