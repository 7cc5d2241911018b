"""PyTorch's own tests of torch.distributed over the backend "dlflow":

    PYTHONPATH=build/python VENV/bin/python tests/torch/pytorch_suite.py [--tests FOLDER] [SUITE...]

VENV is a Python with PyTorch 2 and `expecttest`. The tests take "dlflow" for gloo: gloo's name makes groups of dlflow here, so that all
tests of gloo run. Failed tests are also run with gloo itself. `distributed_test*` is part of PyTorch; the others are in FOLDER, the folder
`test` of a checkout or a source package, of a version near the installed one. Takes minutes, and is not part of `./dev test`.
"""

import argparse
import collections
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

# The file that is part of PyTorch: ranks, the backend that its skips are to take for its own, and which tests are run.
SHIPPED = {
    "distributed_test": ("4", "gloo", r""),
    "distributed_test_8": ("8", "gloo", r"\.(?!.*(all_to_all|full_group|cuda|nccl)).*_group(_|$)"),  # groups of some ranks of many
    "distributed_test_mpi": ("8", "mpi", r"all_to_all(?!.*cuda)"),  # what it has MPI do alone
}
# The others, in the folder `test`; they say themselves how many ranks they have.
SUITES = dict.fromkeys(SHIPPED) | {
    "c10d_pypg": "distributed/test_c10d_pypg.py",
    "c10d_gloo": "distributed/test_c10d_gloo.py",
    "objects": "distributed/test_c10d_object_collectives.py",
    "functional": "distributed/test_functional_api.py",
    "device_mesh": "distributed/test_device_mesh.py",
    "dtensor": "distributed/_tensor/test_dtensor.py",
    "redistribute": "distributed/_tensor/test_redistribute.py",
    "dtensor_api": "distributed/_tensor/test_api.py",
    "tensor_parallel": "distributed/tensor/parallel/test_tp_style.py",
    "parallelize": "distributed/tensor/parallel/test_parallelize_api.py",
    "tp_examples": "distributed/tensor/parallel/test_tp_examples.py",
    "fsdp2_autograd": "distributed/_composable/fsdp/test_fully_shard_autograd.py",
    "fsdp2_frozen": "distributed/_composable/fsdp/test_fully_shard_frozen.py",
    "fsdp2_clip": "distributed/_composable/fsdp/test_fully_shard_clip_grad_norm_.py",
    "fsdp2_mixed_precision": "distributed/_composable/fsdp/test_fully_shard_mixed_precision.py",
    "fsdp2_state_dict": "distributed/_composable/fsdp/test_fully_shard_state_dict.py",
    "zero": "distributed/optim/test_zero_redundancy_optimizer.py",
    "replicate": "distributed/_composable/test_replicate.py",
    "checkpoint": "distributed/checkpoint/test_state_dict.py",
    "checkpoint_files": "distributed/checkpoint/test_file_system_checkpoint_cpu.py",
    "resharding": "distributed/checkpoint/test_dtensor_resharding.py",
}
SECONDS_PER_TEST = "60"


class Result(unittest.TestResult):
    """Writes a line of JSON for each test as it ends, so that a crash loses none."""

    def __init__(self, file):
        super().__init__()
        self._file = file

    def _write(self, test, outcome, reason=""):
        print(json.dumps([test.id(), outcome, reason]), file=self._file, flush=True)

    def addSuccess(self, test):
        self._write(test, "passed")

    def addSkip(self, test, reason):
        self._write(test, "not applicable", reason)

    def addExpectedFailure(self, test, error):
        self._write(test, "passed")

    def addFailure(self, test, error):
        self._write(test, "failed", self._exc_info_to_string(error, test))

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)


def be_gloo():
    """Groups of the name gloo are ours from here on, whoever makes them."""
    import torch.distributed as dist
    from dlflow.torch import backend
    dist.Backend._plugins["GLOO"] = dist.Backend._BackendPlugin(backend._create, False)
    return backend


def fork_instead_of_spawn():
    """Ranks need not import PyTorch anew, which is what most of the time goes to."""
    import torch
    from torch.testing._internal import common_distributed as common

    def fork(self):
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    common.MultiProcessTestCase._spawn_processes = fork


def on_cpus(path):
    """The module of a file of tests that are written for GPUs, with "cpu" in the place of "cuda"."""
    import torch
    from torch.testing._internal import common_distributed, common_fsdp
    torch.accelerator.device_count = lambda: 4
    common_distributed.skip_if_lt_x_gpu = lambda count, **options: lambda test: test
    common_fsdp.FSDPTestMixin.world_size = common_fsdp.FSDPTest.world_size = property(lambda self: 4)
    source = path.read_text().replace(".cuda()", "").replace("torch.cuda.device_count()", "4").replace('"cuda"', '"cpu"')
    module = types.ModuleType(path.stem)
    sys.modules[path.stem] = module
    exec(compile(source, path, "exec"), module.__dict__)
    return module


def load(suite, tests, ours):
    """The module of a suite, changed so that its groups are ours."""
    if suite in SHIPPED:
        from torch.testing._internal.distributed import distributed_test as module
        module.BACKEND = os.environ["BACKEND"] = "gloo"
        if ours is not None:
            module.PROFILING_SUPPORTED_BACKENDS = []  # as for any backend that PyTorch does not know: no events in the profiler

        class Distributed(module.TestDistBackend, module.DistributedTest._DistTestBase):
            def setUp(self):
                super().setUp()
                self._spawn_processes()
        return Distributed
    path = pathlib.Path(tests) / SUITES[suite]
    sys.path[:0] = [str(path.parent), str(pathlib.Path(tests) / "distributed"), str(tests)]
    module = on_cpus(path) if suite.startswith("fsdp2") else importlib.import_module(path.stem)
    if ours is not None and suite == "c10d_pypg":
        import datetime
        import torch.distributed as dist

        def own_group(self):
            group = ours.ProcessGroup(dist.HashStore(), self.rank, self.world_size, datetime.timedelta(seconds=60))
            group.wait_count = group.get_future_count = 1  # counted by the tests' own groups alone
            return group
        module.AbstractDDPSingleRank._get_process_group = own_group
    if ours is not None and suite == "c10d_gloo":
        import datetime
        module.ProcessGroupGlooTest._create_process_group_gloo = lambda self, store, rank, size, options: ours.ProcessGroup(
            store, rank, size, datetime.timedelta(seconds=50))
    return module


def run_one(suite, tests, backend, only, output):
    """In a process of its own, whose result is the file `output`."""
    ranks, backend_of_skips, pattern = SHIPPED.get(suite, ("4", "gloo", ""))
    os.environ |= {"BACKEND": backend_of_skips, "WORLD_SIZE": ranks, "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": SECONDS_PER_TEST,
                   "OMP_NUM_THREADS": "1", "TEMP_DIR": tempfile.mkdtemp(), "INIT_METHOD": "env://"}
    import torch
    torch.set_num_threads(1)
    fork_instead_of_spawn()
    module = load(suite, tests, be_gloo() if backend == "dlflow" else None)
    from torch.testing._internal.common_distributed import MultiThreadedTestCase
    loader = unittest.TestLoader()
    cases = loader.loadTestsFromTestCase(module) if isinstance(module, type) else loader.loadTestsFromModule(module)
    # Ranks that are threads have groups of PyTorch's own, but where they were given ours.
    wanted = unittest.TestSuite(case for case in flat(cases) if (case.id() in only if only else re.search(pattern, case.id()))
                                and (suite == "c10d_pypg" or not isinstance(case, MultiThreadedTestCase)))
    with open(output, "w") as file:
        wanted.run(Result(file))


def flat(cases):
    for case in cases:
        if isinstance(case, unittest.TestSuite):
            yield from flat(case)
        else:
            yield case


def outcomes(suite, options, backend, only=()):
    """{test: (outcome, reason)} of a suite."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "outcomes"
        command = [sys.executable, "-B", __file__, "--tests", options.tests, "--one", suite, "--backend", backend, "--output", output,
                   "--only", ",".join(only)]
        with open(options.log, "a") as log:
            status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True).returncode
        lines = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    found = {test: (outcome, reason) for test, outcome, reason in lines}
    if status:
        print(f"{suite} with {backend} ended with {status}: see {options.log}", flush=True)
    return found


BY_DESIGN = {  # failures that come from what a test asks for, which is gloo's alone
    r"has no attribute 'create_device'|'dlflow' != 'gloo'": "asks for gloo's own class, options or name",
    r"\d tensors were given; the backend dlflow takes one": "gives several tensors for each process, as nobody does any more",
    r'AssertionError: "[^"]*" does not match "': "is an error in both, in other words",
    r"(?s)AssertionError: ValueError not raised.*\.test_all_to_all_single\b": "has gloo refuse tensors that are not contiguous",
    r"(?s)AssertionError: Scalars are not equal!.*_(autograd|torch)_profiler\b": "counts events in the profiler",
}


def inner(reason):
    """The exceptions that ranks ended with, and not the one that says that they did."""
    lines = [line for line in reason.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
    own = [line for line in lines if not re.match(r"RuntimeError: Process \d", line)] or lines or [reason.strip()]
    return re.sub(r"0x[0-9a-f]+|\d+", "N", own[0])[:150]


def judged(outcome, reason, with_gloo):
    """The outcome as it is counted."""
    if outcome != "failed":
        return outcome, reason.strip()[:150]
    if with_gloo.get("outcome") == "failed":
        return "failed with gloo, too", inner(reason)
    for pattern, what in BY_DESIGN.items():
        if re.search(pattern, reason):
            return "differs by design", what
    return outcome, inner(reason)


def report(suite, found, with_gloo):
    """Prints counts and reasons."""
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for test, (outcome, reason) in sorted(found.items()):
        counted, why = judged(outcome, reason, dict(zip(("outcome", "reason"), with_gloo.get(test, ()))))
        groups[counted][why].append(test.rpartition(".")[2])
    count = {outcome: sum(map(len, reasons.values())) for outcome, reasons in groups.items()}
    outcomes = ("failed", "failed with gloo, too", "differs by design", "not applicable")
    print(f"\n{suite}: " + ", ".join(f"{count.get(outcome, 0)} {outcome}" for outcome in ("passed", *outcomes)))
    for outcome in outcomes:
        for reason, names in sorted(groups[outcome].items(), key=lambda item: -len(item[1])):
            print(f"  {outcome}, {len(names)}: {reason}: {', '.join(names[:12])}{' ...' if len(names) > 12 else ''}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--tests", default="", help="PyTorch's folder `test`")
    parser.add_argument("--log", default=os.devnull, help="file for what the tests print")
    parser.add_argument("--failures", action="store_true", help="print the whole reason of each failure")
    for hidden in ("--one", "--backend", "--output", "--only"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return run_one(options.one, options.tests, options.backend, set(filter(None, options.only.split(","))), options.output)
    for suite in options.suites or [name for name, file in SUITES.items() if file is None or options.tests]:
        found = outcomes(suite, options, "dlflow")
        failed = [test for test, (outcome, _) in found.items() if outcome == "failed"]
        report(suite, found, outcomes(suite, options, "gloo", failed) if failed else {})
        if options.failures:
            for test in failed:
                print(f"--- {test}\n{found[test][1]}")


if __name__ == "__main__":
    main()
