"""Mutants of small sources: their places, that they compile, that each is switched on alone; and the sandbox."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import cases  # noqa: E402
import sandbox  # noqa: E402

try:
    import mutants
    import mutate
except ImportError:
    mutants = None
NO_CLANG = "needs clang for Python: apt-get install python3-clang"


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dlflow-mutants.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


@unittest.skipUnless(mutants, NO_CLANG)
class Mutants(Folder):
    def found_in(self, text):
        source = self.folder / "source.cpp"
        source.write_text(text)
        return [(each["kind"], each["original"], each["mutant"]) for each in mutants.find(str(source), ["-std=c++20"])]

    def test_each_kind_of_mutant_is_found(self):
        found = [(each["line"], each["kind"], each["mutant"])
                 for each in mutants.find(str(HERE / "sample.cpp"), ["-std=c++20"])]
        self.assertEqual(found, [
            (4, "arithmetic", "a / 2"),
            (4, "literal plus one", "2 + 1"),
            (5, "condition negated", "!(a && b)"),
            (5, "operand dropped", "b"),
            (5, "operand dropped", "a"),
            (6, "comparison", "a != b"),
            (7, "! dropped", "a"),
            (10, "statement deleted", ""),
        ])
        self.assertEqual({kind for _, kind, _ in found}, set(mutants.KINDS))

    def test_a_program_with_mutants_is_unchanged_until_one_is_on(self):
        text = (HERE / "sample.cpp").read_text()
        found = mutants.find(str(HERE / "sample.cpp"), ["-std=c++20"])
        numbers = list(range(1, len(found) + 1))
        (self.folder / "sample.cpp").write_text(mutants.rewritten(text, found, numbers))
        shared, program = self.folder / "mutants", self.folder / "sample"
        subprocess.run([os.environ["DLFLOW_CXX"], "-std=c++20", "-include", HERE / "mutation.h",
                        f'-DDLFLOW_MUTANTS="{shared}"', "-o", program, self.folder / "sample.cpp"], check=True)

        def printed(number):
            shared.write_bytes(number.to_bytes(4, sys.byteorder) + bytes(len(found) + 1))
            return subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout

        self.assertEqual(printed(0), "6 0 0 1 0")
        self.assertEqual(shared.read_bytes()[4:], b"\0" + b"\1" * len(found))
        outputs = [printed(number) for number in numbers]
        self.assertEqual(outputs, ["1 0 0 1 0", "9 0 0 1 0", "6 1 1 1 0", "6 0 1 1 0", "6 1 0 1 0", "6 0 0 0 0",
                                   "6 0 0 1 1", ""])
        shared.unlink()
        self.assertEqual(subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout, "6 0 0 1 0")

    def test_an_error_of_the_compiler_is_traced_to_its_place(self):
        text = (HERE / "sample.cpp").read_text()
        found = mutants.find(str(HERE / "sample.cpp"), ["-std=c++20"])
        numbers = list(range(1, len(found) + 1))
        at = mutants.rewritten(text, found, numbers).index("a == b")
        self.assertEqual(mutants.original_offset(text, found, numbers, at), text.index("a == b"))

    def test_macros_and_constants_have_no_mutants(self):
        self.assertEqual(self.found_in("""
            #define CHECK(x) if (!(x)) return 1
            enum Format { kVersion = 3 };
            constexpr int kSize = 4 + 5;
            static_assert(kSize == 9);
            constexpr int next(int a) { return a + 1; }
            int room(int a, int b = 7) {
              CHECK(a < b);
              int array[6];
              switch (a) { case 2: return b; }
              if constexpr (kSize > 1) return array[a];
            }"""), [])

    def test_messages_and_optimisations_have_no_mutants(self):
        self.assertEqual(self.found_in("""
            void log(int);
            struct Text { void reserve(int); };
            void f(Text& text) { log(1); text.reserve(2); }
            void g() { throw 3; }"""), [])

    def test_a_throw_is_deleted_if_the_program_can_go_on(self):
        self.assertEqual(self.found_in("void f(bool a) { if (a) throw 1; if (a) { throw 2; } else { throw 3; } }"), [
            ("condition negated", "a", "!(a)"), ("statement deleted", "throw 1", ""), ("condition negated", "a", "!(a)")])

    def test_loops_are_left_early_or_late(self):
        self.assertEqual(self.found_in("void f(int a) { for (int i = 0; i <= a; ++i) { if (i) continue; else break; break; } }"), [
            ("literal plus one", "0", "0 + 1"), ("comparison", "i <= a", "i < a"), ("statement deleted", "break", ""),
            ("condition negated", "i", "!(i)")])

    def test_a_source_that_clang_cannot_read_is_an_error(self):
        with self.assertRaises(mutants.Unreadable):
            self.found_in("int f( {")


@unittest.skipUnless(mutants, NO_CLANG)
class Equivalents(unittest.TestCase):
    def test_each_equivalent_mutant_names_an_existing_source_and_kind(self):
        for line, places in mutate.equivalents().items():
            path, rest = line.split(" ", 1)
            source = HERE.parents[1] / path
            self.assertTrue(source.exists(), line)
            self.assertIn(rest.split(":")[0], mutants.KINDS, line)
            for place in places:
                self.assertIn(place, source.read_text(encoding="latin-1"), line)

    def test_an_equivalent_mutant_with_a_place_is_recognised_only_there(self):
        text = "int a = 0;\nint b = 0;\n\nint c = 0;\nswitch (a) {\n  case 1:\n    break;\n  case 2:\n    break;\n}\n"
        zero = {"column": 1, "kind": "literal plus one", "original": "0", "mutant": "0 + 1"}
        stop = {"column": 1, "kind": "statement deleted", "original": "break", "mutant": ""}
        source = types.SimpleNamespace(path="a.cpp", text=text, mutants=[zero | {"line": 1}, zero | {"line": 4}, stop | {"line": 7},
                                                                         stop | {"line": 9}])
        known = {"a.cpp literal plus one: 0 -> 0 + 1": {"int c ="}, "a.cpp statement deleted: break ->": {"case 2:"}}
        self.assertEqual([mutate.is_equivalent(source, index, known) for index in range(4)], [False, True, False, True])
        anywhere = {"a.cpp literal plus one: 0 -> 0 + 1": {""}}
        self.assertEqual([mutate.is_equivalent(source, index, anywhere) for index in range(4)], [True, True, False, False])

    def test_a_mutant_is_recognised_on_any_line(self):
        self.assertEqual(mutate.without_place("engine/a.cpp:12:3 comparison: a < b -> a <= b"), "engine/a.cpp comparison: a < b -> a <= b")
        self.assertEqual(mutate.without_place("engine/a.cpp:1:2 statement deleted: break -> "), "engine/a.cpp statement deleted: break ->")


@unittest.skipIf(sandbox.missing(), sandbox.missing())
class Sandbox(Folder):
    def run_inside(self, script, limit=20):
        """The exit status of a shell script in a sandbox, and its output."""
        own, at = self.folder / "own", self.folder / "at"
        own.mkdir()
        at.mkdir()
        child = os.fork()
        if child == 0:
            try:
                sandbox.enter(own, at)
                status, _, output = sandbox.run(["sh", "-c", script], "/", {}, at, limit)
                (at / "ended").write_text(f"{status} {output.decode()}")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return (own / "ended").read_text()

    def test_no_file_outside_can_be_written(self):
        self.assertEqual(self.run_inside(f"! touch {HERE}/touched 2>&- && ! touch /touched 2>&- && touch /tmp/own && echo done"),
                         "0 done\n")
        self.assertFalse((HERE / "touched").exists() or pathlib.Path("/tmp/own").exists())

    def test_no_other_process_can_be_killed(self):
        self.assertEqual(self.run_inside(f"kill -0 {os.getpid()} 2>/dev/null || echo alone"), "0 alone\n")

    def test_a_command_that_takes_too_long_ends_with_its_processes(self):
        seconds = str(1_000_000_000 + os.getpid())  # no other run of this test has them
        self.assertEqual(self.run_inside(f"setsid sleep {seconds} & sleep {seconds}", limit=1), "None ")
        deadline = time.monotonic() + 60  # the kernel ends them when it comes to it
        while self.is_running(f"sleep\0{seconds}\0") and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(self.is_running(f"sleep\0{seconds}\0"))

    @staticmethod
    def is_running(command):
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has just ended
                if path.read_bytes() == command.encode():
                    return True
        return False

    def test_an_endless_file_is_refused(self):
        self.assertIn("refused", self.run_inside("head -c 1100M /dev/zero >/tmp/file || echo refused"))


if __name__ == "__main__":
    cases.main()
