"""`python -m dlflow ARGUMENTS`: runs the program `dlflow` that was installed with this package."""

import os
import sys
from importlib import metadata


def program() -> str:
    """The program of the wheel, or of the tree that `cmake --install` makes: PREFIX/lib/python3/dist-packages/dlflow."""
    files = [file for package in metadata.distributions(name="dlflow") for file in package.files or []]
    places = [str(file.locate()) for file in files if file.parts[-2:] == ("bin", "dlflow")]
    places = [os.path.abspath(place) for place in [*places, os.path.join(os.path.dirname(__file__), "../../../../bin/dlflow")]]
    for place in places:
        if os.path.isfile(place):
            return place
    sys.exit(f"error: the program dlflow is not at {' or '.join(places)}: reinstall dlflow")


if __name__ == "__main__":
    os.execv(program(), ["dlflow", *sys.argv[1:]])
