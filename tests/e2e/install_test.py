"""`cmake --install` and `./dev package`: a tree that works anywhere, and packages that hold the same tree."""

import filecmp
import hashlib
import io
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest
from unittest import mock

from support import BIN, ROOT, Case, main

sys.path.insert(0, str(ROOT / "tests/support"))
import pictures  # noqa: E402

BUILD = BIN.parent
HAS_TRAINING = (BIN / "dlflow-train").exists()
MPI_PLUGINS = [f"lib/dlflow/{file.name}" for file in (BUILD / "lib/dlflow").glob("libdlflow_mpi_*.so")]
EB = BUILD / "tests/uv/bin/eb"
PYSPDX = BUILD / "tests/uv/bin/pyspdxtools"
RUNTIMES = {"apptainer": "apptainer", "singularity": "singularity", "podman": "podman", "ch-run": "charliecloud", "udocker": "udocker",
            "bwrap": "bubblewrap"}
HAS_BUBBLEWRAP = bool(shutil.which("bwrap")) and subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], capture_output=True).returncode == 0
RECIPES = ROOT / "packaging"
PLUGIN = "bin/libdlflow_cuda.so"
PROGRAMS = ["bin/dlflow", *(["bin/dlflow-train", "bin/dlflow-evaluate", "bin/dlflow-predict"] if HAS_TRAINING else [])]
WANTED = [*PROGRAMS, *MPI_PLUGINS, *[f"share/man/man1/{name.removeprefix('bin/')}.1" for name in PROGRAMS],
          "share/man/man1/dlflow-run.1",
          "share/bash-completion/completions/dlflow", "share/zsh/site-functions/_dlflow",
          "share/fish/vendor_completions.d/dlflow.fish",
          "share/dlflow/schemas/workflow.schema.json", "share/dlflow/schemas/profile.schema.json",
          "share/dlflow/schemas/model.schema.json",
          "share/dlflow/workflows/fashion-mnist.yaml", "share/dlflow/workflows/models/lenet.yaml",
          "share/dlflow/cluster-profiles/local.yaml",
          "lib/dlflow/libdlflow_runtime.so", "include/dlflow_runtime.h",
          "lib/python3/dist-packages/dlflow/torch/backend.py", "lib/python3/dist-packages/dlflow/py.typed",
          "share/doc/dlflow/README.md", "share/doc/dlflow/LICENSE", "share/doc/dlflow/dlflow.spdx.json",
          "share/doc/dlflow/libraries/libc6-dev", "share/doc/dlflow/libraries/libstdc++6", "share/doc/dlflow/docs/index.md"]
DATED = {**os.environ, "SOURCE_DATE_EPOCH": "1000000000"}  # set by `./dev package`
KINDS = {"TGZ": "*.tar.gz", "DEB": "*.deb"}
LIBRARIES = [r"lib/dlflow/libdnnl\.so\.[0-9.]+", r"lib/dlflow/libgomp\.so\.1"] if HAS_TRAINING else []


def call(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=240, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout


def files_of(tree):
    return sorted(str(file.relative_to(tree)) for file in tree.rglob("*") if file.is_file())


class Installed(Case):
    @classmethod
    def setUpClass(cls):
        shared = tempfile.TemporaryDirectory(prefix="dlflow-e2e.")
        cls.addClassCleanup(shared.cleanup)
        cls.packages = pathlib.Path(shared.name)
        call("cmake", "--install", BUILD, "--prefix", cls.packages / "first", "--strip", env=DATED)
        cls.moved = (cls.packages / "first").rename(cls.packages / "moved")

    def setUp(self):
        super().setUp()
        self.tree = shutil.copytree(self.moved, self.folder / "moved", symlinks=True)

    def made(self, kind, folder, *options):
        """The one package that cpack makes of this kind."""
        call("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", kind, "-B", folder, *options, env=DATED)
        return self.only(folder, KINDS[kind])

    def packed(self, kind):
        """The package of this kind that the tests share."""
        there = list(self.packages.glob(KINDS[kind]))
        return there[0] if there else self.made(kind, self.packages)

    def installed(self, *args):
        """The installed dlflow, found through PATH alone."""
        env = {**self.env, "PATH": f"{self.tree}/bin:/usr/bin:/bin"}
        return call("dlflow", *args, cwd=self.folder, env=env)

    def output_of(self, *args):
        """What it prints that fails."""
        done = subprocess.run(["dlflow", *args], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**self.env, "PATH": f"{self.tree}/bin:/usr/bin:/bin"})
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_the_installation_has_all_files_for_users_and_no_others(self):
        found = files_of(self.tree)
        for name in WANTED:
            self.assertIn(name, found)
        for library in LIBRARIES:
            self.assertEqual(len([name for name in found if re.fullmatch(library, name)]), 1, library)
        self.assertEqual(PLUGIN in found, (BIN / "libdlflow_cuda.so").exists())
        self.assertEqual({name.split("/")[0] for name in found}, {"bin", "include", "lib", "share"})
        self.assertEqual([name for name in found if name.startswith("bin/") and name not in [*PROGRAMS, PLUGIN]], [])

    def test_no_installed_file_names_the_build_folder(self):
        for name in files_of(self.tree):
            self.assertNotIn(str(BUILD).encode() + b"/", (self.tree / name).read_bytes(), name)

    def test_a_workflow_runs_from_the_moved_tree(self):
        self.write_steps("""
            hello: {run: "echo hello > $DLFLOW_OUTPUTS/text", outputs: {text: text}}
            read: {run: [cat, "${{ steps.hello.outputs.text }}"]}
        """)
        self.installed("run", "w.yaml")
        run = self.installed("status", "--quick", "--quiet").split()[0]
        self.assertIn("hello", self.installed("logs", run, "read"))
        frozen = self.folder / "dlflow-runs" / run / "bin/dlflow"
        self.assertTrue(filecmp.cmp(frozen, self.tree / "bin/dlflow", shallow=False))

    def test_a_network_is_trained_and_tested_by_the_installed_programs(self):
        if not HAS_TRAINING:
            self.skipTest("dlflow-train was not built: CMake found no MPI or oneDNN")
        pictures.for_training(self.folder, self.tree / "share/dlflow/workflows", 200, 50)
        self.write_steps("""
            train:
              uses: train
              with: {model: models/mlp.yaml, data: data, epochs: 1, lr: 0.05, batch: 32, validation: 20}
            evaluate:
              uses: evaluate
              with: {checkpoint: "${{ steps.train.outputs.model }}", data: data}
        """)
        self.installed("run", "w.yaml")
        run = self.installed("status", "--quick", "--quiet").split()[0]
        for program in ("dlflow-train", "dlflow-evaluate"):
            frozen = self.folder / "dlflow-runs" / run / "bin" / program
            self.assertTrue(filecmp.cmp(frozen, self.tree / "bin" / program, shallow=False))
            loaded = call(frozen, env={"LD_TRACE_LOADED_OBJECTS": "1"})
            for library in (self.tree / "lib/dlflow").glob("*.so.*"):  # including those that only libraries need
                self.assertRegex(loaded, rf"{re.escape(library.name)} => \S*/{run}/(bin/\.\./)?lib/dlflow/")
                copy = frozen.parents[1] / "lib/dlflow" / library.name
                self.assertTrue(copy.samefile(self.only(self.folder / "dlflow-runs/.programs", f"*/{library.name}")))

    def only(self, folder, pattern):
        found = list(folder.glob(pattern))
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_a_program_that_cannot_be_loaded_is_reported_before_the_run_and_by_its_step(self):
        if not HAS_TRAINING:
            self.skipTest("dlflow-train was not built: CMake found no MPI or oneDNN")
        self.break_program()
        pictures.for_training(self.folder, self.tree / "share/dlflow/workflows", 200, 50)
        self.write_steps("""
            first: {run: "true"}
            train: {uses: train, with: {model: models/mlp.yaml, data: data, epochs: 1, lr: 0.05}}
        """)
        problem = "libgone.so.1 is not found; load its module in `setup:` of the profile, or install it"
        told = (f"dlflow-train of step 'train' cannot be loaded on this machine: {problem}; or, to run it in the release's image, "
                f"put the release's {self.image_name()} into {self.tree}/share/dlflow")
        if not any(map(shutil.which, RUNTIMES)):
            told += f" and install one of {', '.join(RUNTIMES.values())}"
        self.assertEqual(self.output_of("run", "w.yaml"), f"error: {told}\n")
        self.assertFalse((self.folder / "dlflow-runs").exists())
        self.assertIn(f"w.yaml:4:17: warning: {told}", self.installed("validate", "w.yaml"))
        self.assertIn("dlflow-train cannot be loaded here: libgone.so.1 is not found", self.output_of("profile", "check", "local"))

        self.write("cluster-profiles/mine.yaml", "scheduler: local\nsetup: ['true']\n")  # it may provide the library
        self.assertIn("exit 127: libgone.so.1, which dlflow-train needs, is not found; load its module",
                      self.output_of("run", "w.yaml", "--profile", "mine"))

    def image_name(self):
        return f"dlflow-{self.installed('--version').split()[1]}-linux-{os.uname().machine}.oci.tar"

    def make_image(self):
        """The release's image, where dlflow looks for it."""
        tarball, image = self.packed("TGZ"), self.packages / self.image_name()
        if not image.exists():
            call(sys.executable, "-B", ROOT / "cmake/make_image.py", tarball, image)
        self.assertLess(image.stat().st_size, 80 << 20)
        self.assertEqual(tarball.name.removesuffix(".tar.gz"), image.name.removesuffix(".oci.tar"))
        return shutil.copy(image, self.tree / "share/dlflow")

    def break_program(self):
        program = self.tree / "bin/dlflow-train"
        program.write_bytes(program.read_bytes().replace(b"libgomp.so.1\0", b"libgone.so.1\0"))

    def trained(self):
        """The SHA-256 of what the newest run trained, and what `dlflow run` said."""
        said = self.installed("run", "w.yaml")
        run = self.installed("status", "--quick", "--quiet").split()[0]
        weights = self.only(self.folder / "dlflow-runs" / run, "steps/train/checkpoints/latest/model.safetensors")
        return hashlib.sha256(weights.read_bytes()).hexdigest(), said

    @unittest.skipUnless(HAS_TRAINING, "dlflow-train was not built: CMake found no MPI or oneDNN")
    @unittest.skipUnless(HAS_BUBBLEWRAP, "bubblewrap starts no container here")
    def test_a_program_that_cannot_be_loaded_runs_in_the_releases_image(self):
        pictures.for_training(self.folder, self.tree / "share/dlflow/workflows", 200, 50)
        self.write("cluster-profiles/mine.yaml", "scheduler: local\ncontainer: {runtime: bubblewrap}\n")
        self.env["DLFLOW_PROFILE"] = "mine"
        self.write_steps("""
            train:
              uses: train
              with: {model: models/mlp.yaml, data: data, epochs: 1, lr: 0.05, batch: 32, validation: 20}
              resources: {ranks: 2}
        """)
        outside, said = self.trained()
        self.assertNotIn("image", said)
        self.make_image()
        self.assertIn("1 is reused", self.installed("run", "w.yaml", "--dry-run"))  # an unneeded image changes nothing
        intact = (self.tree / "bin/dlflow-train").read_bytes()
        self.break_program()
        self.assertNotIn("cannot be loaded", self.installed("validate", "w.yaml"))
        self.assertIn("0 are reused", self.installed("run", "w.yaml", "--dry-run"))
        inside, said = self.trained()
        self.assertIn("note: train runs in the release's image with bubblewrap: dlflow-train of step 'train' cannot be loaded on this machine: "
                      "libgone.so.1 is not found", said)
        self.assertEqual(inside, outside)
        run = self.installed("status", "--quick", "--quiet").split()[0]
        self.assertFalse((self.folder / "dlflow-runs" / run / "bin/dlflow-train").exists())
        self.assertIn("1 is reused", self.installed("run", "w.yaml", "--dry-run"))
        checked = self.installed("profile", "check", "mine")
        self.assertIn("dlflow-train runs in the release's image with bubblewrap, since libgone.so.1 is not found", checked)
        self.assertIn("containers run with bubblewrap", checked)
        (self.tree / "bin/dlflow-train").write_bytes(intact)
        self.assertIn("1 is reused", self.installed("run", "w.yaml", "--dry-run"))  # from the first run

    @unittest.skipUnless(HAS_TRAINING, "dlflow-train was not built: CMake found no MPI or oneDNN")
    def test_the_image_is_a_layout_that_holds_all_that_the_programs_need(self):
        image = self.make_image()
        call(sys.executable, "-B", ROOT / "cmake/make_image.py", self.packed("TGZ"), self.folder / "again")
        self.assertTrue(filecmp.cmp(image, self.folder / "again", shallow=False))
        with tarfile.open(image) as archive:
            read = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
        for name, data in read.items():
            if name.startswith("blobs/"):
                self.assertEqual(name, f"blobs/sha256/{hashlib.sha256(data).hexdigest()}")
        blob = lambda part: read["blobs/sha256/" + part["digest"].removeprefix("sha256:")]  # noqa: E731
        manifest = json.loads(blob(json.loads(read["index.json"])["manifests"][0]))
        layer, = manifest["layers"]
        self.assertEqual(len(blob(layer)), layer["size"])
        with tarfile.open(fileobj=io.BytesIO(blob(layer))) as root:
            names = root.getnames()
        self.assertEqual([name for name in names if name.startswith("usr/bin/dlflow")], sorted("usr/" + name for name in PROGRAMS))
        for name in ("lib64/ld-linux-x86-64.so.2", "usr/share/doc/dlflow/libraries/libc6-dev"):
            self.assertIn(name, names)

    def test_every_installed_example_is_valid(self):
        examples = sorted((self.tree / "share/dlflow/workflows").glob("*.yaml"))
        self.assertGreater(len(examples), 3)
        for example in examples:
            self.installed("validate", example)
        first = re.search(r"Examples:\n  dlflow run (\S+)\n", self.installed("--help"))[1]
        self.installed("validate", first)  # from any folder
        self.write("workflows/fashion-mnist.yaml", "name: own\nsteps: {a: {run: 'true'}}\n")
        self.assertIn('"own"', self.installed("validate", "--json", first))  # local files take precedence

    def test_profiles_of_the_installation_are_found(self):
        share = self.tree / "share/dlflow/cluster-profiles"
        (share / "ours.yaml").write_text("extends: local\ncores: 1\n")
        listed = self.installed("profile", "list")
        self.assertRegex(listed, rf"\nours +local +{share}/ours.yaml, extends built in\n")
        self.assertRegex(listed, r"\nlocal +local +built in\n")  # although a copy is installed
        self.assertNotIn("alpha", listed)  # a cluster of the tests

    def test_shells_complete_verbs_with_the_installed_files(self):
        share = self.tree / "share"
        script = (f"source {share}/bash-completion/completions/dlflow\n"
                  "COMP_LINE='dlflow resu'; COMP_POINT=${#COMP_LINE}; _dlflow; echo \"${COMPREPLY[@]}\"")
        environment = {**self.env, "PATH": f"{self.tree}/bin:{self.env['PATH']}"}  # the shell calls dlflow
        self.assertEqual(sorted(call("bash", "-c", script, env=environment).split()), ["resubmit", "results"])
        zsh = share / "zsh/site-functions/_dlflow"
        self.assertTrue(zsh.read_text().startswith("#compdef dlflow\n"))
        if shutil.which("zsh"):
            script = (f"fpath=({zsh.parent} $fpath); autoload -U _dlflow; compadd() {{ echo ${{(P)@[-1]}}; }}\n"
                      "CURRENT=2; words=(dlflow resu); _dlflow")
            self.assertEqual(call("zsh", "-f", "-c", script, env=environment).split(), ["resubmit", "results"])

    def load_module(self, init):
        """A module file works in its tree and through a link, and leaves nothing when it is unloaded."""
        if not os.path.exists(init):
            self.skipTest(f"there is no {init}")
        files = self.tree / "share/dlflow/modulefiles"
        (self.folder / "linked").symlink_to(files)
        (self.folder / "links/dlflow").mkdir(parents=True)
        for file in (files / "dlflow").iterdir():
            (self.folder / "links/dlflow" / file.name).symlink_to(file)
        for folder in (files, self.folder / "linked", self.folder / "links"):
            script = (f". {init}; module use {folder}; module load dlflow; command -v dlflow; dlflow --version; "
                      "echo $MANPATH; echo $XDG_DATA_DIRS; module unload dlflow; command -v dlflow; echo .$MANPATH$XDG_DATA_DIRS")
            program, version, manuals, data, left = call("sh", "-c", script, env={**self.env, "PATH": "/usr/bin:/bin"}).splitlines()
            self.assertEqual(program, f"{self.tree}/bin/dlflow")
            number = version.split()[-1]
            self.assertEqual(sorted(file.name for file in (files / "dlflow").iterdir()), [number, f"{number}.lua"])
            self.assertRegex(manuals, rf"^{self.tree}/share/man::?$")  # and the pages of the system
            self.assertEqual(data, f"{self.tree}/share:/usr/local/share:/usr/share")
            self.assertEqual(left, ".")

    def test_the_module_file_for_environment_modules_loads_and_unloads(self):
        self.load_module("/usr/share/modules/init/sh")

    def test_the_module_file_for_lmod_loads_and_unloads(self):
        self.load_module("/usr/share/lmod/lmod/init/sh")

    def test_the_tarball_unpacks_to_the_same_tree(self):
        package = self.packed("TGZ")
        self.assertRegex(package.name, r"^dlflow-[0-9.]+-linux-[a-z0-9_]+\.tar\.gz$")
        with tarfile.open(package) as archive:
            archive.extractall(self.folder / "unpacked")
        unpacked = self.folder / "unpacked" / package.name.removesuffix(".tar.gz")
        self.assertEqual(files_of(unpacked), files_of(self.tree))
        for name in files_of(unpacked):
            self.assertTrue(filecmp.cmp(unpacked / name, self.tree / name, shallow=False), name)
        self.assertTrue(os.access(unpacked / "bin/dlflow", os.X_OK))

    def test_the_bill_of_materials_names_all_linked_software_with_its_licence(self):
        documents = self.tree / "share/doc/dlflow"
        bill = json.loads((documents / "dlflow.spdx.json").read_text())
        parts = {part["name"]: part for part in bill["packages"]}
        shared = {file.name: file for file in (self.tree / "lib/dlflow").glob("*.so.*")}
        for name, file in shared.items():
            self.assertEqual(parts[name]["checksums"][0]["checksumValue"], hashlib.sha256(file.read_bytes()).hexdigest())
        for name in set(parts) - {"dlflow"}:
            self.assertTrue((documents / "libraries" / name).exists(), name)
            self.assertEqual("versionInfo" in parts[name], name not in shared, name)
        for text in (documents / "libraries").iterdir():
            for common in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text.read_text(errors="replace")):
                self.assertTrue((documents / "libraries" / common).exists(), f"{text.name} names {common}")
        if PYSPDX.exists():
            self.assertNotIn("error", call(PYSPDX, "--infile", documents / "dlflow.spdx.json").lower())
        linked = {word for line in call("ninja", "-C", BUILD, "-t", "commands", *PROGRAMS).splitlines() for word in line.split()
                  if re.fullmatch(r"/usr/lib/.*\.a", word)}
        self.assertIn("libsqlite3.a", {os.path.basename(word) for word in linked})
        for archive in linked:
            owner = call("dpkg-query", "--search", f"*/{os.path.basename(archive)}").split(":")[0]
            self.assertIn(owner, parts, archive)

    def test_nothing_is_packed_without_a_licence(self):
        with self.assertRaisesRegex(AssertionError, "would lack\\s+share/doc/dlflow/libraries/libgone-dev"):
            self.made("TGZ", self.folder, "-D", "CPACK_DLFLOW_LIBRARIES=libc6-dev;libgone-dev")

    def test_packages_have_the_same_bytes_when_they_are_made_again(self):
        for kind in ("TGZ", *(["DEB"] if shutil.which("dpkg-shlibdeps") else [])):
            first = self.packed(kind)
            time.sleep(1.1)
            self.assertTrue(filecmp.cmp(first, self.made(kind, self.folder), shallow=False), kind)

    @unittest.skipUnless(EB.exists(), "PyPI's easybuild is not in build/tests/uv")
    def test_easybuild_installs_the_tarball(self):
        recipe, = (RECIPES / "easybuild").glob("*.eb")
        prefix = self.folder / "easybuild"
        env = {**self.env, "PATH": f"{EB.parent}:/usr/lib/x86_64-linux-gnu:/usr/bin:/bin"}  # has Debian's modulecmd.tcl
        as_root = ["--allow-use-as-root-and-accept-consequences"] if os.geteuid() == 0 else []
        call("sh", "-c", '. /usr/share/modules/init/sh; exec "$@"', "sh", EB, *as_root, "--modules-tool", "EnvironmentModules",
             "--module-syntax", "Tcl", "--prefix", prefix, "--sourcepath", self.packed("TGZ").parent, recipe, env=env)
        script = f". /usr/share/modules/init/sh; module use {prefix}/modules/all; module load dlflow; command -v dlflow; dlflow --version"
        program, version = call("sh", "-c", script, env=env).splitlines()
        self.assertEqual(program, f"{prefix}/software/dlflow/{version.split()[-1]}/bin/dlflow")

    def test_a_document_lists_the_libraries_that_the_tarball_expects(self):
        expected = (self.tree / "share/doc/dlflow/LIBRARIES").read_text()
        self.assertIn("bin/dlflow: none", expected)
        if HAS_TRAINING:
            self.assertRegex(expected, r"bin/dlflow-train: .*libdnnl\.so")
            self.assertNotRegex(expected, r"libmpi\.so|libmpich\.so")  # opened at run time if there is one
            for program in PROGRAMS[1:]:
                header = call("objdump", "-p", self.tree / program)
                self.assertRegex(header, r" RPATH +\$ORIGIN/\.\./lib/dlflow\n")  # libraries also find their libraries there
                self.assertNotRegex(header, r"libstdc\+\+|libgcc_s")

    def test_a_release_needs_no_glibc_newer_than_2_28(self):
        if not re.search(r"^DLFLOW_OLD_SYSTEM:PATH=.", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE):
            self.skipTest("built for this machine's glibc; `./dev package` builds for older ones")
        files = [*(self.tree / name for name in PROGRAMS[1:]), *(self.tree / "lib/dlflow").iterdir()]
        for file in files:
            symbols = call("objdump", "-T", file)
            newer = re.findall(r"GLIBC_2\.(?:29|[3-9]\d)|GLIBCXX_3\.4\.(?:19|[2-9]\d)", symbols)  # the latter belongs to GCC 4.8
            seen = re.findall(r"^\S+ g .* (?:exp|log|pow|arc4random|gettid)$", symbols, re.MULTILINE)  # those of base/old_glibc.cpp
            self.assertEqual((newer, seen), ([], []), file)

    def test_the_debian_package_holds_the_same_files_and_names_its_dependencies(self):
        if not shutil.which("dpkg-shlibdeps") or not shutil.which("file"):
            self.skipTest("needs Debian's dpkg-dev and file")
        package = self.packed("DEB")
        self.assertRegex(package.name, r"^dlflow_[0-9.]+_[a-z0-9]+\.deb$")
        fields = dict(re.findall(r"^ ([A-Z][A-Za-z-]*): (.*)$", call("dpkg-deb", "--info", package), re.MULTILINE))
        self.assertEqual((fields["Package"], fields["Section"], fields["Priority"]), ("dlflow", "science", "optional"))
        self.assertRegex(fields["Version"], r"^[0-9.]+$")
        if HAS_TRAINING:
            self.assertRegex(fields["Depends"], r"(^|, )libc6($|,| )")
            self.assertNotRegex(fields["Depends"], "libdnnl")  # the package includes it, since Debian 12 and 13 have different versions
            self.assertNotRegex(fields["Depends"], "mpi")  # any MPI is fine
            self.assertIn("openmpi-bin | mpich", fields["Recommends"])
        call("dpkg-deb", "--control", package, self.folder / "control")
        for script, action in (("postinst", "py3compile"), ("prerm", "py3clean")):
            self.assertIn(f"  {action} -p dlflow\n", (self.folder / "control" / script).read_text())
            self.write(f"fake/{action}", f"#!/bin/sh\necho {action} $*\n").chmod(0o755)
            told = call(self.folder / "control" / script, "configure", env={"PATH": f"{self.folder}/fake:/usr/bin:/bin"})
            self.assertEqual(told, f"{action} -p dlflow\n")
            call(self.folder / "control" / script, "configure", env={"PATH": "/nowhere"})  # as after the removal of Python
        contents = call("dpkg-deb", "--contents", package)
        self.assertNotIn("libdlflow_cuda", contents)  # no Debian package has what it needs
        names = [line.split()[5].removeprefix("./") for line in contents.splitlines() if not line.startswith("d")]
        renamed = {"share/doc/dlflow/LICENSE": "share/doc/dlflow/copyright",
                   "share/zsh/site-functions/_dlflow": "share/zsh/vendor-completions/_dlflow"}
        for pattern in LIBRARIES:
            self.assertTrue([name for name in names if re.fullmatch("usr/" + pattern, name)], pattern)
        for name in WANTED:
            name = renamed.get(name, name)
            self.assertIn("usr/" + name + (".gz" if name.startswith("share/man") else ""), names)
        for line in contents.splitlines():
            self.assertRegex(line, r"^([d-]rwxr-xr-x|-rw-r--r--) root/root ")

    def test_lintian_finds_no_error_in_the_debian_package(self):
        if not shutil.which("dpkg-shlibdeps") or not shutil.which("file") or not shutil.which("lintian"):
            self.skipTest("needs Debian's dpkg-dev, file and lintian")
        found = call("lintian", "--allow-root", "--fail-on", "none", self.packed("DEB")).splitlines()
        unused = "mismatched-override embedded-library libpng"  # reported by Debian 12's lintian but not by 13's
        self.assertEqual([line for line in found if line.startswith(("E:", "W:")) and unused not in line], [])


class OldSystem(Case):
    """The old system whose libraries `./dev package` links with."""

    def made(self):
        """Whether cmake/make_old_system begins to make the folder; mmdebstrap is a stand-in that fails."""
        self.write("bin/mmdebstrap", "#!/bin/sh\necho begins\nexit 3\n")
        (self.folder / "bin/mmdebstrap").chmod(0o755)
        run = subprocess.run([ROOT / "cmake/make_old_system", self.folder / "old"], stdout=subprocess.PIPE, text=True,
                             env={"PATH": f"{self.folder}/bin:/usr/bin:/bin"})
        self.assertEqual(run.returncode, 3 if run.stdout else 0)
        return run.stdout == "begins\n"

    def test_the_old_system_is_made_again_after_a_change_of_its_recipe(self):
        self.assertTrue(self.made())
        sources = [(ROOT / "cmake" / name).read_bytes() for name in ("make_old_system", "onednn.txt")]
        self.write("old/made-by", hashlib.sha256(b"".join(sources)).hexdigest() + "  -\n")
        self.assertFalse(self.made())
        self.write("old/made-by", hashlib.sha256(b"of an older version").hexdigest() + "  -\n")
        self.assertTrue(self.made())
        self.assertTrue((self.folder / "old/made-by").exists(), "gone before there is another")


class SpackRecipe(Case):
    """Spack is neither in Debian nor on PyPI: these tests replace its names by stand-ins, and build no package with it."""

    # CMake's package -> Spack's name; None: part of Spack's compiler or CMake, or in no package of Spack.
    PACKAGES = {"nlohmann_json": "nlohmann-json", "crypto": "openssl", "z": "zlib", "yaml-cpp": "yaml-cpp",
                "minizip": "minizip", "sqlite3": "sqlite", "png": "libpng", "png.h": "libpng",
                "jpeg": "libjpeg-turbo", "jpeglib.h": "libjpeg-turbo", "CLI/CLI.hpp": "cli11", "MPI": "mpi", "mpi.h": "mpi",
                "dnnl": "onednn", "dnnl.hpp": "onednn", "CUDAToolkit": "cuda", "cudnn": "cudnn", "cudnn.h": "cudnn",
                "OpenMP": None, "Threads": None, "chart.min.js": None, "copyright": None}
    INCLUDED = {"c", "cxx", "cmake", "python", "fmt", "spdlog"}  # needed without a search by CMake

    def read(self):
        """The versions and dependencies that the recipe names."""
        found = {"version": [], "depends_on": []}
        words = {name: mock.MagicMock() for name in ("license", "variant", "generator", "when")}
        words.update({name: (lambda value, name=name, **_: found[name].append(value)) for name in found})
        modules = ["spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"]
        stand_in = {name: types.ModuleType(name) for name in [*modules, f"{modules[-1]}.cmake", "spack.package"]}
        stand_in[f"{modules[-1]}.cmake"].CMakePackage = type("CMakePackage", (), {})
        vars(stand_in["spack.package"]).update(words)
        with mock.patch.dict(sys.modules, stand_in):
            runpy.run_path(str(RECIPES / "spack_repo/dlflow/packages/dlflow/package.py"))
        return found["version"], {re.split("[@+~]", word)[0] for word in found["depends_on"]}

    def test_the_spack_recipe_names_all_that_cmake_looks_for(self):
        looked_for = set()
        for folder in ("base", "engine", "runtime", "steps", "cmake"):
            for file in (ROOT / folder).rglob("*"):
                if file.name == "CMakeLists.txt" or file.suffix == ".cmake":
                    text = re.sub("#.*", "", file.read_text())
                    looked_for.update(re.findall(r"find_package\((\w+)", text))
                    looked_for.update(re.findall(r"find_(?:library|path|file)\(\w+ (?:NAMES )?([\w./+-]+)", text))
        self.assertEqual(sorted(looked_for - set(self.PACKAGES)), [])
        wanted = {self.PACKAGES[name] for name in looked_for} - {None} | self.INCLUDED
        self.assertEqual(self.read()[1], wanted)

    def test_the_recipes_are_of_this_version(self):
        version = call(BIN / "dlflow", "--version").split()[-1]
        self.assertEqual(self.read()[0], [version])
        self.assertEqual([file.name for file in (RECIPES / "easybuild").iterdir()], [f"dlflow-{version}.eb"])
        self.assertIn(f"version = '{version}'\n", (RECIPES / f"easybuild/dlflow-{version}.eb").read_text())


if __name__ == "__main__":
    main()
