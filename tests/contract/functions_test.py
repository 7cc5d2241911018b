"""The functions of the package `dlflow` in one process: files that they write and read, and their behaviour outside of a step."""

import contextlib
import ctypes
import io
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cases import main  # noqa: E402

import dlflow  # noqa: E402
from dlflow import _folder, _parameters, _ranks, _report, _safetensors, _signals, _step, _tree  # noqa: E402

BIN = pathlib.Path(os.environ["DLFLOW_BIN"])
COPY = BIN.parent / "tests/safetensors_copy"

try:
    import torch
except ImportError:
    torch = None
try:
    import numpy
except ImportError:
    numpy = None

needs_torch = unittest.skipUnless(torch, "python3-torch is not installed")
needs_numpy = unittest.skipUnless(numpy, "python3-numpy is not installed")
needs_dlflow = unittest.skipUnless((BIN / "dlflow").exists(), "dlflow was not built")


class Case(unittest.TestCase):
    """A test with its own folder, without variables of dlflow, and with a freshly imported package."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DLFLOW_")}
        patch = mock.patch.dict(os.environ, clean, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.forget()
        self.addCleanup(self.forget)

    def forget(self):
        for number, before in _signals._before.items():
            signal.signal(number, before)
        _signals._before.clear()
        _signals._is_requested = False
        _step._folder_given, _step._is_agreed, _ranks._chosen = None, False, None
        _step._last = _step._Last()
        _report._summary.clear()

    def step(self, **variables):
        """From now on this is a step of a workflow."""
        self.checkpoints = self.folder / "checkpoints"
        names = {"STEP": "train", "CHECKPOINTS": self.checkpoints, "CHECKPOINT_EVERY": "1 epochs", "CHECKPOINT_KEEP": 2,
                 "METRICS": self.folder / "metrics.jsonl", "SUMMARY": self.folder / "metrics.json"} | variables
        os.environ.update({f"DLFLOW_{name}": str(value) for name, value in names.items()})

    def said(self, function, *arguments, **options):
        """What it returns, and what it says to people."""
        stream = io.StringIO()
        with contextlib.redirect_stderr(stream):
            result = function(*arguments, **options)
        return result, stream.getvalue()


class Light(unittest.TestCase):
    def test_the_import_brings_no_framework_and_no_library(self):
        script = "import sys, dlflow; print([m for m in ('torch', 'numpy', 'dlflow.runtime', 'dlflow.torch') if m in sys.modules])"
        done = subprocess.run([sys.executable, "-B", "-c", script], text=True, capture_output=True, check=True)
        self.assertEqual(done.stdout, "[]\n")


class Types(unittest.TestCase):
    @unittest.skipUnless(shutil.which("mypy"), "mypy is not installed")
    def test_the_types_are_right(self):
        package = pathlib.Path(dlflow.__file__).parent
        modules = ["dlflow", "dlflow.check", "dlflow.convert", "dlflow.track", "dlflow.torch.in_place_of_gloo", "dlflow.torch.sampler", "dlflow.torch.sharded",
                   *(f"dlflow.{path.stem}" for path in package.glob("_[a-z]*.py"))]
        # PyTorch's own types take mypy a minute.
        command = ["mypy", "--strict", "--config-file", pathlib.Path(__file__).with_name("mypy.ini"), "--cache-dir", os.devnull]
        command += [word for module in modules for word in ("-m", module)]
        place = {"MYPYPATH": str(package.parent)}
        done = subprocess.run(command, text=True, capture_output=True, env=os.environ | place)
        self.assertEqual(done.returncode, 0, done.stdout)


class Check(Case):
    def check(self, **environment):
        """Its exit status and its lines."""
        done = subprocess.run([sys.executable, "-B", "-m", "dlflow.check"], text=True, capture_output=True, env=os.environ | environment)
        return done.returncode, done.stdout.splitlines()

    @unittest.skipUnless((BIN.parent / "lib/libdlflow_runtime.so").exists(), "libdlflow_runtime.so was not built")
    def test_check_finds_no_problem_in_a_step_or_outside_of_one(self):
        status, lines = self.check()
        self.assertEqual((status, lines[-1]), (0, "all is well"), lines)
        self.step(OUTPUTS=self.folder)
        dlflow.checkpoint(3)
        status, lines = self.check(RANK="1", WORLD_SIZE="4", MASTER_ADDR="n1", MASTER_PORT="2000")
        self.assertEqual((status, lines[-1]), (0, "all is well"), lines)
        self.assertIn("ok      step: train, checkpoints every 1 epochs, 2 are kept", lines)
        self.assertIn("ok      ranks: rank 1 of 4, meeting at n1:2000", lines)
        self.assertTrue(lines[-2].endswith("GiB free, the newest is step-000003"), lines)

    def test_each_problem_comes_with_advice(self):
        self.step(OUTPUTS=self.folder, CHECKPOINTS="/proc/none", RUNTIME_LIBRARY="/none.so")
        del os.environ["DLFLOW_CHECKPOINT_EVERY"]
        status, lines = self.check(RANK="4", WORLD_SIZE="4")
        problems = [line.split(":")[0].split(" ", 1)[1] for line in lines if line.startswith("PROBLEM ")]
        self.assertEqual(problems, ["runtime library", *["PyTorch"] * bool(torch), "step", "ranks", "checkpoints"])
        self.assertEqual(len([line for line in lines if line.startswith("        do: ")]), len(problems))
        self.assertEqual((status, lines[-1]), (1, f"{len(problems)} problems"))
        self.assertIn("        do: add `checkpoint: {}` to the step: otherwise it is not asked to save", lines)

    def test_a_damaged_checkpoint_is_a_problem(self):
        self.step(OUTPUTS=self.folder)
        dlflow.checkpoint(3)
        (self.checkpoints / "step-000003/state.json").write_text("{}")
        _, lines = self.check()
        self.assertTrue(any(line.startswith("PROBLEM checkpoints: ") and "step-000003/state.json has 2 bytes" in line for line in lines), lines)


class Params(Case):
    def test_values_have_the_types_of_their_defaults_and_the_nearest_place_counts(self):
        self.step(PARAM_LR="0.1", PARAM_WARM_UP="3", PARAM_NAME="12", PARAM_FLAG="true", MATRIX_LR="1", MATRIX_SIZES="[1, 2]",
                  WITH=self.folder / "with.json")
        (self.folder / "with.json").write_text(json.dumps({"warm-up": 5, "text": "x"}))
        found = dlflow.params(lr=0.5, name="none", epochs=3, warm_up=0)
        self.assertEqual(found, {"lr": 1.0, "name": "12", "epochs": 3, "warm_up": 5, "flag": True, "sizes": [1, 2], "text": "x"})
        self.assertIs(type(found.lr), float)
        self.assertEqual(found.text, "x")

    def test_numbers_in_yaml_notation_are_numbers(self):
        self.step(PARAM_A="3.10", PARAM_B="1e-3", PARAM_C=".5", PARAM_D="+7", PARAM_E="0x10", PARAM_F="9509425349e4", PARAM_G="010", PARAM_H="1.2.3")
        self.assertEqual(dlflow.params(), {"a": 3.1, "b": 0.001, "c": 0.5, "d": 7, "e": 16, "f": 95094253490000.0, "g": "010", "h": "1.2.3"})

    def test_a_wrong_type_and_a_missing_value_are_reported(self):
        self.step(PARAM_EPOCHS="many")
        with self.assertRaisesRegex(ValueError, "epochs is 'many' in the workflow: the script needs a value of type int"):
            dlflow.params(epochs=3)
        with self.assertRaisesRegex(AttributeError, "the workflow gives no 'lr'; it gives epochs"):
            dlflow.params().lr

    def test_defaults_count_outside_of_dlflow(self):
        self.assertEqual(dlflow.params(lr=0.5), {"lr": 0.5})

    def test_the_variable_of_a_name_is_spelled_as_in_the_engine(self):
        self.assertEqual([_parameters._variable(name) for name in ("warm-up", "lr_decay", "größe")], ["WARM_UP", "LR_DECAY", "GR____E"])


class Report(Case):
    def test_metrics_are_printed_for_people_and_their_last_values_kept_for_gates(self):
        self.step()
        dlflow.report(step=1, loss=0.5, message="warming up")
        dlflow.report(step=2, loss=math.nan, accuracy=1)
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        at = [json.loads(line)["at"] for line in lines]
        self.assertAlmostEqual(at[0], time.time(), delta=60)
        self.assertEqual(lines, [f'{{"at": {at[0]}, "step": 1, "loss": 0.5, "message": "warming up"}}',
                                 f'{{"at": {at[1]}, "step": 2, "loss": NaN, "accuracy": 1}}'])
        self.assertEqual((self.folder / "metrics.json").read_text(), '{"step": 2, "loss": NaN, "accuracy": 1}\n')

    def test_reports_of_an_earlier_pass_still_count(self):
        self.step()
        dlflow.report(parameters=10, accuracy=0.9)
        self.forget()  # another process
        dlflow.report(parameters=11)
        self.assertEqual(json.loads((self.folder / "metrics.json").read_text()), {"parameters": 11, "accuracy": 0.9})

    def test_only_one_rank_reports(self):
        self.step(RANK=1)
        dlflow.report(loss=0.5)
        self.assertFalse((self.folder / "metrics.jsonl").exists())

    @needs_torch
    def test_tensors_of_one_element_are_numbers(self):
        self.step()
        dlflow.report(loss=torch.tensor(0.5), step=torch.tensor(3))
        self.assertEqual(json.loads((self.folder / "metrics.json").read_text()), {"loss": 0.5, "step": 3})

    def test_a_value_that_is_not_a_number_is_refused_by_name(self):
        with self.assertRaisesRegex(TypeError, "loss is a list"):
            dlflow.report(loss=[1])

    def test_metrics_are_printed_outside_of_dlflow(self):
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            dlflow.report(step=20, loss=0.123456789)
        self.assertEqual(stream.getvalue(), "step 20  loss 0.123457\n")


class Stop(Case):
    def test_nothing_stops_and_no_signal_is_taken_outside_of_dlflow(self):
        before = signal.getsignal(signal.SIGTERM)
        self.assertFalse(dlflow.should_stop())
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)

    def test_both_signals_are_requests_and_the_scripts_own_handler_is_still_called(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            with self.subTest(number):
                self.forget()
                self.step()
                got = []
                own = signal.signal(number, lambda *_: got.append(1))
                self.assertFalse(dlflow.should_stop())
                os.kill(os.getpid(), number)
                self.assertTrue(dlflow.should_stop())
                self.assertEqual(got, [1])
                self.forget()
                signal.signal(number, own)

    def test_stop_ends_with_exit_status_75(self):
        self.step()
        with self.assertRaises(SystemExit) as ended:
            dlflow.stop()
        self.assertEqual(ended.exception.code, 75)

    def test_a_forked_child_keeps_running_when_the_group_is_asked_to_save(self):
        self.step()
        dlflow.should_stop()
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_several_ranks_without_a_way_to_agree_get_advice(self):
        self.step()
        os.environ.update(RANK="0", WORLD_SIZE="4")
        with self.assertRaisesRegex(RuntimeError, "the 4 ranks have to agree.*init_process_group.*or give group="):
            dlflow.should_stop()
        with self.assertRaisesRegex(TypeError, "group is a str: give a dlflow.runtime.Group, or a function"):
            dlflow.should_stop(group="world")
        self.assertTrue(dlflow.should_stop(group=lambda flag: True))


class Save(Case):
    def test_a_checkpoint_is_due_at_the_interval_of_the_step(self):
        self.step(CHECKPOINT_EVERY="200 steps")
        dlflow.checkpoint(150, epoch=3)
        self.assertEqual([dlflow.should_save(step, 9) for step in (151, 349, 350)], [False, False, True])
        self.step(CHECKPOINT_EVERY="2 epochs")
        self.assertEqual([dlflow.should_save(900, epoch) for epoch in (3, 4, 5)], [False, False, True])
        self.step(CHECKPOINT_EVERY="1800 seconds")
        self.assertFalse(dlflow.should_save(900, 9))
        _step._last.at -= 1800
        self.assertTrue(dlflow.should_save(900, 9))

    def test_the_interval_counts_from_the_loaded_checkpoint_and_is_an_epoch_outside_of_dlflow(self):
        dlflow.checkpoint(10, epoch=4, folder=self.folder / "ck")
        self.forget()
        self.assertTrue(dlflow.should_save(1, 1))
        self.said(dlflow.resume, folder=self.folder / "ck")
        self.assertEqual([dlflow.should_save(11, epoch) for epoch in (4, 5)], [False, True])


VALUES = {"text": "größe", "numbers": [1, 2.5, -0.0, math.inf, 2**63], "tuple": (1, (None, True)), "bytes": b"\0\xff",
          "by number": {3: "c"}}


class Checkpoints(Case):
    def save(self, *steps, **options):
        for step in steps:
            dlflow.checkpoint(step, folder=self.folder / "ck", values=VALUES | {"step": step}, **options)

    def names(self):
        return sorted(entry.name for entry in (self.folder / "ck").iterdir())

    def test_saved_state_is_loaded_again(self):
        self.save(7, epoch=2, samples=900, metrics={"loss": 1e-5, "accuracy": math.nan, "large": 1e15})
        saved, said = self.said(dlflow.resume)
        self.assertTrue(saved)
        self.assertEqual((saved.step, saved.epoch, saved.samples), (7, 2, 900))
        self.assertEqual(saved.values, VALUES | {"step": 7})
        self.assertEqual(math.copysign(1, saved.values["numbers"][2]), -1)
        self.assertEqual(saved.metrics["loss"], 1e-5)
        self.assertTrue(math.isnan(saved.metrics["accuracy"]))
        self.assertEqual(said, f"dlflow: continues from {self.folder}/ck/step-000007\n")
        self.assertEqual(os.readlink(self.folder / "ck/latest"), "step-000007")

    def test_training_begins_without_a_checkpoint(self):
        saved = dlflow.resume(folder=self.folder / "none")
        self.assertFalse(saved)
        self.assertEqual((saved.step, saved.epoch, saved.values, saved.part("x")), (0, 0, {}, None))

    def test_a_folder_is_required_outside_of_dlflow(self):
        with self.assertRaisesRegex(ValueError, "give resume\\(\\) or checkpoint\\(\\) a folder"):
            dlflow.resume()

    def test_a_step_sets_the_folder_and_the_number_to_keep(self):
        self.step(CHECKPOINT_KEEP=3)
        self.save(1, 2, 10, 11, keep=1)
        names = sorted(entry.name for entry in self.checkpoints.iterdir())
        self.assertEqual(names, ["latest", "step-000002", "step-000010", "step-000011"])

    def test_values_of_a_step_that_become_known_later_are_saved(self):
        self.save(4)
        self.save(4, epoch=1, metrics={"accuracy": 0.5})
        saved = dlflow.resume()
        self.assertEqual((saved.epoch, saved.metrics), (1, {"accuracy": 0.5}))
        self.assertEqual(self.names(), ["latest", "step-000004"])

    def test_a_checkpoint_of_another_step_is_loaded_in_place_but_training_does_not_continue_from_it(self):
        self.save(1, 2)
        other = {"x": b"of another step"}
        dlflow.checkpoint(5, folder=self.folder / "other", other=other)
        self.step()
        self.forget()
        part = {}
        saved, said = self.said(lambda: dlflow.load(self.folder / "other", other=part))
        self.assertEqual((saved.step, part, said), (5, other, ""))
        self.assertEqual(dlflow.load(self.folder / "other/step-000005").step, 5)
        self.assertEqual(dlflow.load(self.folder / "ck/step-000001").values["step"], 1)
        self.assertFalse(dlflow.resume())

    def test_a_missing_or_damaged_checkpoint_to_load_is_an_error(self):
        with self.assertRaisesRegex(FileNotFoundError, "none has no complete checkpoint: give load"):
            dlflow.load(self.folder / "none")
        self.save(1)
        os.truncate(self.folder / "ck/step-000001/state.json", 10)
        with self.assertRaisesRegex(Exception, "10 bytes, but its manifest declares"):
            dlflow.load(self.folder / "ck/step-000001")

    def test_a_damaged_checkpoint_is_skipped_with_a_message_and_the_previous_one_is_used(self):
        damages = {"its hash does not match": lambda new: self.flip(new / "manifest.json", b'"step": 2', b'"step": 3'),
                   "written last": lambda new: (new / "manifest.json").unlink(),
                   "is missing": lambda new: (new / "model.safetensors").unlink(),
                   "its manifest declares": lambda new: self.flip(new / "state.json", b"gr", b"GR"),
                   "bytes, but its manifest declares": lambda new: os.truncate(new / "state.json", 10)}
        for reason, damage in damages.items():
            with self.subTest(reason):
                self.save(1, 2)
                damage(self.folder / "ck/step-000002")
                saved, said = self.said(dlflow.resume)
                self.assertEqual(saved.step, 1)
                self.assertRegex(said, f"dlflow: skipped: .*step-000002.*{reason}.*\n")
                subprocess.run(["rm", "-r", self.folder / "ck"], check=True)

    def flip(self, path, old, new):
        data = path.read_bytes()
        self.assertIn(old, data)
        path.write_bytes(data.replace(old, new, 1))

    def test_a_writer_killed_at_any_effect_leaves_a_usable_checkpoint(self):
        self.save(1)
        status, effects = None, 0
        while status != 0:  # until no effect is left to be killed at
            effects += 1
            child = os.fork()
            if child == 0:
                self.die_at(effects)
                self.save(2)
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            newest = self.said(dlflow.resume)[0].step
            self.assertIn((status, newest), ((9, 1), (9, 2), (0, 2)))
        self.assertEqual((status, newest), (0, 2))
        self.assertGreater(effects, 10)
        self.assertEqual(self.names(), ["latest", "step-000001", "step-000002"])

    def die_at(self, number):
        """At the n-th write, sync or rename."""
        left = [number]

        def dying(function):
            def call(*arguments, **options):
                left[0] -= 1
                if left[0] == 0:
                    os._exit(9)
                return function(*arguments, **options)
            return call
        os.fsync, os.write = dying(os.fsync), dying(os.write)
        pathlib.Path.rename, pathlib.Path.mkdir = dying(pathlib.Path.rename), dying(pathlib.Path.mkdir)
        pathlib.Path.symlink_to = dying(pathlib.Path.symlink_to)

    def test_a_possible_live_file_of_another_writer_stays_until_unused_for_an_hour(self):
        here, parent, folder = _folder._place_of_numbers(), os.getppid(), self.folder / "ck"
        dead = [f"step-000009.tmp.{writer}" for writer in (f"{here}-{parent}-1", f"{here}-{os.getpid()}-3.new", "0123456789abcdef-1-6.new")]
        live = [f"step-000009.tmp.{writer}" for writer in (f"{here}-{parent}-{_folder._start_of(parent)}.new", "0123456789abcdef-1-5", "77.new")]
        for name in dead + live:
            (folder / name).mkdir(parents=True)
            (folder / name / "model.safetensors").write_text("half")
            for path in (folder / name / "model.safetensors", folder / name):
                os.utime(path, (time.time() - (3700 if name.endswith("6.new") else 3000),) * 2)
        temporary, _ = _folder.begin(folder, 1)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), sorted([*live, temporary.name]))

    def test_a_save_that_fails_leaves_the_earlier_state(self):
        self.save(1)
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            with self.assertRaisesRegex(OSError, "No space left"):
                self.save(2)
        self.assertEqual(self.names(), ["latest", "step-000001"])

    def test_a_step_is_saved_once_and_a_damaged_one_anew(self):
        self.save(1)
        before = (self.folder / "ck/step-000001/state.json").stat().st_ino
        self.save(1)
        self.assertEqual((self.folder / "ck/step-000001/state.json").stat().st_ino, before)
        (self.folder / "ck/step-000001/state.json").write_text("{}")
        self.save(1)
        self.assertEqual(self.said(dlflow.resume)[0].step, 1)

    def test_a_step_that_an_earlier_training_saved_is_saved_anew(self):
        self.save(1)
        before = (self.folder / "ck/step-000001/state.json").stat().st_ino
        _step._last = _step._Last()  # a training from scratch has no last one
        self.save(1)
        self.assertNotEqual((self.folder / "ck/step-000001/state.json").stat().st_ino, before)

    def test_unsupported_state_is_named_and_nothing_is_left(self):
        with self.assertRaisesRegex(TypeError, "a.1 is a set, which cannot be saved"):
            dlflow.checkpoint(1, folder=self.folder / "ck", values={"a": [0, {1, 2}]})
        self.assertEqual(self.names(), [])
        for name in ("../x", "state", "manifest"):
            with self.assertRaisesRegex(ValueError, "cannot be called"):
                dlflow.checkpoint(1, folder=self.folder / "ck", **{name: {}})
        with self.assertRaisesRegex(TypeError, "model is a object: a part of a checkpoint has state_dict"):
            dlflow.checkpoint(1, folder=self.folder / "ck", model=object())

    def test_a_part_missing_in_the_checkpoint_is_named(self):
        self.save(1, table={"x": 1})
        with self.assertRaisesRegex(KeyError, "has no 'scheduler'; it has table"):
            self.said(dlflow.resume, scheduler={})
        saved, _ = self.said(dlflow.resume, table=(table := {}))
        self.assertEqual((table, saved.part("table")), ({"x": 1}, {"x": 1}))

    def test_random_numbers_continue(self):
        import random
        random.seed(3)
        self.save(1)
        expected = random.random()
        random.seed(4)
        self.said(dlflow.resume)
        self.assertEqual(random.random(), expected)
        random.seed(4)
        self.said(dlflow.resume, rng=False)
        self.assertNotEqual(random.random(), expected)

    @needs_numpy
    def test_arrays_keep_type_and_shape(self):
        arrays = {str(dtype): numpy.arange(6).reshape(2, 3).astype(dtype) for dtype in
                  ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "uint64", "bool", "complex64",
                   "complex128")}
        arrays |= {"scalar": numpy.array(2.5), "empty": numpy.zeros((0, 3)), "turned": numpy.arange(6.0).reshape(2, 3).T}
        dlflow.checkpoint(1, folder=self.folder / "ck", model=arrays)
        found = self.said(dlflow.resume)[0].part("model")
        self.assertEqual(found.keys(), arrays.keys())
        for name, array in arrays.items():
            self.assertEqual((found[name].dtype, found[name].shape), (array.dtype, array.shape), name)
            numpy.testing.assert_array_equal(found[name], array)

    @needs_numpy
    def test_arrays_of_the_other_byte_order_keep_their_numbers(self):
        arrays = {kind: numpy.arange(6).astype(kind).reshape(2, 3) for kind in (">f2", ">f4", ">f8", ">i2", ">i4", ">i8", ">u8", ">c8", ">c16")}
        dlflow.checkpoint(1, folder=self.folder / "ck", model=arrays)
        found = self.said(dlflow.resume)[0].part("model")
        for kind, array in arrays.items():
            numpy.testing.assert_array_equal(found[kind], array, kind)

    @needs_numpy
    def test_an_array_that_would_be_loaded_differently_is_refused(self):
        for array in (numpy.ma.masked_array([1.0, 2.0], [True, False]), numpy.zeros(2, "M8[s]"), numpy.zeros(2, "g"), numpy.zeros(2, "f4,i4"),
                      numpy.array(["a", "b"]), numpy.array([None])):
            with self.assertRaisesRegex(TypeError, "array is an? .*, which cannot be saved"):
                dlflow.checkpoint(1, folder=self.folder / "ck", model={"array": array})

    @needs_torch
    def test_training_goes_on_with_the_same_bits(self):
        def train(first, last, folder):
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
            parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
            saved, _ = self.said(dlflow.resume, folder=self.folder / folder, **parts)
            self.assertEqual(saved.step, first)
            for step in range(first, last):
                optimizer.zero_grad()
                model(torch.rand(5, 4)).square().sum().backward()
                optimizer.step()
                scheduler.step()
            dlflow.checkpoint(last, folder=self.folder / folder, metrics={"loss": 1}, **parts)
            return self.folder / folder / _folder.name_of(last)
        whole = train(0, 6, "a")
        train(0, 3, "b")
        resumed = train(3, 6, "b")
        for name in ("model.safetensors", "optimizer.safetensors", "rng.safetensors", "state.json", "manifest.json"):
            self.assertEqual((whole / name).read_bytes(), (resumed / name).read_bytes(), name)

    @needs_torch
    def test_tensors_of_every_type_are_loaded_unchanged(self):
        types = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
                 torch.int64, torch.bool, torch.complex64)
        tensors = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in types}
        tensors |= {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "turned": torch.arange(6.0).reshape(2, 3).t(),
                    "parameter": torch.nn.Parameter(torch.ones(2)), "conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj(),
                    "negative": torch.tensor([1 + 2j, 3 - 4j]).conj().imag}
        dlflow.checkpoint(1, folder=self.folder / "ck", model=tensors)
        found = self.said(dlflow.resume)[0].part("model")
        for name, tensor in tensors.items():
            self.assertEqual((found[name].dtype, found[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertTrue(torch.equal(found[name], tensor), name)


class Safetensors(Case):
    TENSORS = {"größe": ("F64", (2,)), "b": ("F32", (2, 3)), "a": ("F32", ()), "half": ("BF16", (3,)), "i": ("I64", (1,)),
               "u": ("U8", (5,)),
               "nothing": ("F16", (0, 4)), 'quote " \\ \n': ("I32", (2,))}

    def tensors(self):
        made = {}
        for number, (name, (dtype, shape)) in enumerate(self.TENSORS.items(), 1):
            size = math.prod(shape) * _safetensors.SIZES[dtype]
            made[name] = _safetensors.Tensor(dtype, shape, memoryview(bytes((number * 7 + i) % 256 for i in range(size))))
        return made

    def test_a_file_is_loaded_unchanged(self):
        path = str(self.folder / "x")
        size, digest = _safetensors.write(path, self.tensors(), {"step": "3"})
        self.assertEqual((size, digest), _folder.hash_file(pathlib.Path(path)))
        found, metadata = _safetensors.read(path)
        self.assertEqual(metadata, {"step": "3"})
        self.assertEqual({name: (tensor.dtype, tensor.shape, bytes(tensor.data)) for name, tensor in found.items()},
                         {name: (tensor.dtype, tensor.shape, bytes(tensor.data)) for name, tensor in self.tensors().items()})

    @unittest.skipUnless(COPY.exists(), "safetensors_copy was not built")
    def test_a_file_is_byte_for_byte_that_of_the_runtime(self):
        for metadata in ({}, {"step": "3", "format": "pt"}):
            path = str(self.folder / f"x{len(metadata)}")
            _safetensors.write(path, self.tensors(), metadata)
            subprocess.run([COPY, path, path + ".copy"], check=True)
            self.assertEqual(pathlib.Path(path).read_bytes(), pathlib.Path(path + ".copy").read_bytes())

    def test_a_damaged_file_is_refused(self):
        def file(header, data=b"\0" * 8):
            text = header if isinstance(header, bytes) else json.dumps(header).encode()
            return ctypes.c_uint64(len(text)).value.to_bytes(8, "little") + text + data
        entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
        bad = [b"", b"1234", (2**40).to_bytes(8, "little"), file(b"{"), file([]), file({"w": entry | {"shape": [3]}}),
               file({"w": entry | {"shape": [-2]}}), file({"w": entry | {"data_offsets": [0, 9]}}), file({"w": entry | {"dtype": "X"}}),
               file({"w": entry}, b"\0" * 9), file({"w": entry, "v": entry}), file(b'{"w": 1, "w": 1}'),
               file({"w": entry | {"shape": [2.0]}}),
               file({"w": entry | {"data_offsets": [4, 12]}}, b"\0" * 12)]
        for number, data in enumerate(bad):
            (self.folder / str(number)).write_bytes(data)
            with self.assertRaises(_safetensors.Damaged, msg=data):
                _safetensors.read(str(self.folder / str(number)))


class Tree(Case):
    def test_two_places_of_one_name_keep_their_tensors(self):
        tensors = _tree.Tensors()
        tree = _tree.encode({"a.b": b"1", "a": {"b": b"2"}}, tensors)
        self.assertEqual(_tree.decode(json.loads(json.dumps(tree)), tensors.by_name), {"a.b": b"1", "a": {"b": b"2"}})

    def test_a_key_that_looks_like_a_mark_stays_a_key(self):
        self.assertEqual(_tree.from_bytes(_tree.to_bytes({"$": "bytes", "x": 1})), {"$": "bytes", "x": 1})


@needs_dlflow
class Tools(Case):
    """`uses: checkpoint` on checkpoints written by Python."""

    def run_step(self, **options):
        outputs = self.folder / "outputs"
        outputs.mkdir(exist_ok=True)
        (self.folder / "with.json").write_text(json.dumps({"from": str(self.folder / "ck")} | options))
        env = {"PATH": "/usr/bin:/bin", "DLFLOW_WITH": self.folder / "with.json", "DLFLOW_OUTPUTS": outputs,
               "DLFLOW_METRICS": self.folder / "m", "DLFLOW_SUMMARY": self.folder / "s"}
        done = subprocess.run([BIN / "dlflow", "step", "checkpoint"], env=env, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def save(self, step, accuracy):
        data = memoryview(bytes(8))
        model = {"w": numpy.array([step, 2], dtype="float32")} if numpy else {"w": bytes(data)}
        dlflow.checkpoint(step, folder=self.folder / "ck", keep=9, metrics={"accuracy": accuracy, "loss": 1 / 3}, model=model)

    def test_select_verify_export_and_prune_accept_the_file(self):
        # Numbers whose shortest text the two languages spell in different ways, or only one of them finds.
        for step, accuracy in enumerate((0.1, 1e15, 5e-324, 2**70 / 3, 1e16, -0.0, 123456789012345678.0, 0.30000000000000004), 1):
            self.save(step, accuracy)
        self.assertIn("step-000004 among 8: accuracy", self.run_step(select="max accuracy", export="safetensors", prune=2))
        self.assertEqual((self.folder / "outputs/model.safetensors").read_bytes(),
                         (self.folder / "ck/step-000004/model.safetensors").read_bytes())
        self.assertEqual(json.loads((self.folder / "s").read_text())["step"], 4)
        self.assertEqual(sorted(entry.name for entry in (self.folder / "ck").glob("step-*")), ["step-000004", "step-000007", "step-000008"])

    @unittest.skipUnless((BIN / "dlflow-evaluate").exists(), "dlflow-evaluate was not built")
    def test_evaluate_reports_an_unknown_network(self):
        self.save(1, 0.1)
        outputs = self.folder / "outputs"
        outputs.mkdir()
        (self.folder / "with.json").write_text(json.dumps({"checkpoint": str(self.folder / "ck/step-000001"), "data": str(self.folder)}))
        env = {"PATH": "/usr/bin:/bin", "DLFLOW_WITH": self.folder / "with.json", "DLFLOW_OUTPUTS": outputs,
               "DLFLOW_METRICS": self.folder / "m", "DLFLOW_SUMMARY": self.folder / "s"}
        done = subprocess.run([BIN / "dlflow-evaluate", self.folder / "with.json"], env=env, text=True, capture_output=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("was saved by a Python script, and only that script defines its network; use it in a script", done.stderr)

    def test_the_verbs_skip_a_damaged_file(self):
        self.save(1, 0.1)
        self.save(2, 0.2)
        manifest = self.folder / "ck/step-000002/manifest.json"
        manifest.write_bytes(manifest.read_bytes().replace(b'"epoch": 0', b'"epoch": 1'))
        out = self.run_step()
        self.assertIn("its hash does not match", out)
        self.assertIn("step-000001 among 1", out)


if __name__ == "__main__":
    main()
