"""The skipped tests that fail CI."""

import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import skips
from cases import main

LOG = """1/3 Testing: e2e/gpu
1/3 Test: e2e/gpu
Output:
skipped here: there is no NVIDIA driver here
2/3 Testing: torch/newest
2/3 Test: torch/newest
skipped case: test_a (Case.test_a): torch of PyPI is not in torch-venv: ./dev test installs it, and says why it could not
the word skipped: inside of a line
"""


class Skips(unittest.TestCase):
    def judged(self, log, **environment):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "log"
            path.write_text(log)
            with mock.patch.dict(os.environ, {"CI": "", **environment}), contextlib.redirect_stdout(io.StringIO()) as out:
                return skips.main(path), out.getvalue().splitlines()

    def test_missing_hardware_is_named_and_fails_nothing(self):
        self.assertEqual(self.judged(LOG.partition("2/3")[0], CI="true"), (0, ["skipped case: e2e/gpu: there is no NVIDIA driver here"]))

    def test_a_missing_package_fails_only_ci(self):
        for environment, status in (({}, 0), ({"CI": "true"}, 1)):
            judged, lines = self.judged(LOG, **environment)
            self.assertEqual(judged, status)
            self.assertEqual(lines[1:], [
                "not tested: torch/newest: test_a (Case.test_a): torch of PyPI is not in torch-venv: ./dev test installs it, and says why it could not",
                "not tested: 1 in all, for reasons that are not in tests/allowed_skips.txt; install what they lack"])


if __name__ == "__main__":
    main()
