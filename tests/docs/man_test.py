"""The programs write valid roff man pages: one for each verb with every option of its help, and one for each step program. The pages of
docs/ have all verbs, variables and files."""

import re
import shutil
import subprocess
import sys

import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import support  # noqa: E402


STEP_PROGRAMS = [name for name in ("dlflow-train", "dlflow-evaluate") if (support.BIN / name).exists()]  # dlflow-predict.1 is the verb's
# Where a step program reads its environment: folders of both, and its own.
READERS = ["steps/environment", "steps/ranks", "steps/scratch"]
ENVIRONMENT = support.ROOT / "docs/user/environment.md"
VERBS = support.ROOT / "docs/user/verbs.md"
SOURCES = [file for folder in ("base", "engine", "python", "runtime", "steps") for file in (support.ROOT / folder).rglob("*")
           if file.suffix in (".cpp", ".cu", ".h", ".py")]
# Between two processes of dlflow, and for tests of kills.
INTERNAL = {"DLFLOW_NOTIFY_ADDRESS", "DLFLOW_CRASH_AT", "DLFLOW_CRASH_MARK"}


def output_of(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    return done.stdout


def variables_in(text):
    return set(re.findall(r"DLFLOW_[A-Z_]*[A-Z]\b", text))


class ManPages(support.Case):
    def setUp(self):
        super().setUp()
        self.dlflow("man-pages", "man", ENVIRONMENT)
        for name in STEP_PROGRAMS:
            (self.folder / "man" / f"{name}.1").write_text(output_of(support.BIN / name, "--man-page"))
        self.pages = {page.stem: page for page in (self.folder / "man").glob("*.1")}
        self.of_steps = {name: page for name, page in self.pages.items() if name in STEP_PROGRAMS}

    def help_of(self, page):
        if page in STEP_PROGRAMS:
            return output_of(support.BIN / page, "--help")
        return self.dlflow(*page.split("-")[1:], "--help")[0]

    def verbs_in(self, text):
        above = re.split(r"\n(?:Arguments|Options):\n", text)[0]
        return re.findall(r"^  ([a-z][a-z-]*) ", above, re.MULTILINE)

    def test_every_verb_has_a_page(self):
        wanted, found = set(), ["dlflow"]
        while found:
            page = found.pop()
            wanted.add(page)
            found += [f"{page}-{verb}" for verb in self.verbs_in(self.help_of(page))]
        self.assertGreater(len(wanted), 20)
        self.assertEqual(wanted, self.pages.keys() - self.of_steps.keys())

    def test_a_page_has_every_option_of_the_help(self):
        for name in self.pages.keys() - self.of_steps.keys():
            page = self.pages[name]
            text = page.read_text().replace("\\-", "-")
            for option in re.findall(r"--[a-z][a-z-]*", self.help_of(name).partition("Examples:")[0]):
                self.assertIn(option, text, name)
            for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"):
                self.assertIn(f"\n.SH {section}\n", text, name)

    def test_the_page_of_a_step_program_has_all_of_its_help(self):
        for name, page in self.of_steps.items():
            text, told = page.read_text().replace("\\-", "-"), self.help_of(name)
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "SETTINGS", "ENVIRONMENT", "EXIT STATUS", "SEE ALSO"):
                self.assertIn(f"\n.SH {section}\n", text, name)
            self.assertIn("docs/user/format/", text)
            self.assertEqual(variables_in(text), variables_in(told), name)
            codes = re.findall(r"^  ([0-9]+) +(.*)$", told.partition("Exit status:\n")[2], re.MULTILINE)
            self.assertGreater(len(codes), 1, name)
            for code, meaning in codes:
                self.assertIn(f".TP\n\\fB{code}\\fR\n{meaning}\n", text, name)

    def test_the_page_of_a_step_program_has_every_variable_that_it_reads(self):
        for name, page in self.of_steps.items():
            read = set()
            own = name.replace("dlflow-", "steps/")
            linked = (support.ROOT / own / "CMakeLists.txt").read_text()
            for folder in [own, *(reader for reader in READERS if reader.replace("/", "_") in linked or reader == "steps/environment")]:
                for source in (support.ROOT / folder).glob("*.cpp"):
                    read |= set(re.findall(r'(?<=")DLFLOW_[A-Z_]+(?=")', source.read_text()))
            self.assertGreater(len(read), 6, name)
            self.assertLessEqual(read, variables_in(page.read_text()), name)

    def test_the_page_of_variables_has_each_one_in_the_sources(self):
        named = {name for file in SOURCES for name in re.findall(r'"(DLFLOW_[A-Z_]*[A-Z])[="]', file.read_text(errors="replace"))}
        read = {name for file in SOURCES for name in re.findall(r'\b(?:getenv|environment_variable|variable_or)\("([A-Z_]+)"', file.read_text(errors="replace"))}
        self.assertGreater(len(named), 30)
        theirs = re.compile("SLURMD?_|(SGE|PMI|OMPI|DLFLOW_PARAM|DLFLOW_MATRIX)_|(HOME|PATH|USER|JOB_ID|PE_HOSTFILE|XDG_RUNTIME_DIR|NCCL_MULTI_RANK_GPU_ENABLE)$")
        told = set(re.findall(r"[A-Z_]{2,}", ENVIRONMENT.read_text()))
        self.assertEqual(set(), {name for name in named | read if not theirs.match(name)} - INTERNAL - told)

    def test_the_page_of_variables_has_none_missing_from_the_sources(self):
        made = {"DLFLOW_PARAM_NAME", "DLFLOW_MATRIX_AXIS", "DLFLOW_EVENT", "DLFLOW_STATE", "DLFLOW_REASON"}  # of prefix and name
        text = "".join(file.read_text(errors="replace") for file in SOURCES)
        names = set(re.findall(r"`([A-Z_]{4,})`", ENVIRONMENT.read_text()))
        self.assertGreater(len(names), 60)
        self.assertEqual(set(), {name for name in names - made if f'"{name}' not in text} - {"CACHE"})

    def test_man_dlflow_has_every_row_of_the_page_of_variables_and_files(self):
        page = self.pages["dlflow"].read_text().replace("\\-", "-")
        variables, files = page.partition(".SH FILES\n")[::2]
        rows = re.findall(r"^\| (`.*`) \| (.*) \|$", ENVIRONMENT.read_text(), re.MULTILINE)
        self.assertGreater(len(rows), 50)
        for term, meaning in rows:
            place = variables if term[1:2].isupper() and "/" not in term else files
            self.assertIn(f".TP\n\\fB{term}\\fR\n{meaning}\n".replace("`", ""), place)

    def test_the_page_of_verbs_equals_the_help_of_the_programs(self):
        if not (support.BIN / "dlflow-predict").exists():
            self.skipTest("needs dlflow-train, dlflow-evaluate and dlflow-predict")
        made = output_of(sys.executable, "-B", support.ROOT / "tests/docs/verbs.py", support.BIN)
        self.assertEqual(VERBS.read_text(), made, "tests/docs/verbs.py BIN >docs/user/verbs.md writes it")

    def test_man_dlflow_names_the_other_programs(self):
        see_also = self.pages["dlflow"].read_text().partition(".SH SEE ALSO\n")[2].replace("\\-", "-")
        for name in STEP_PROGRAMS:
            self.assertIn(f"\\fB{name}\\fR(1)", see_also)

    def test_no_line_of_a_page_is_taken_for_a_roff_request(self):
        known = (".TH ", ".SH ", ".SS ", ".TP", ".nf", ".fi")
        for name, page in self.pages.items():
            for line in page.read_text().splitlines():
                if line.startswith((".", "'")):
                    self.assertTrue(line.startswith(known), f"{name}: {line}")

    def test_mandoc_finds_no_error(self):
        if not shutil.which("mandoc"):
            self.skipTest("needs mandoc")
        linted = subprocess.run(["mandoc", "-T", "lint", "-W", "error", *self.pages.values()],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual((linted.returncode, linted.stdout), (0, ""))


if __name__ == "__main__":
    support.main()
