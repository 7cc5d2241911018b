"""Common behaviour of all runtimes: runtime_test.py RUNTIME [TEST...]."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
import unittest

import containers
import images

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from leaks import TOKEN, files_with, processes_with  # noqa: E402

NEEDS = {"bubblewrap": ["bwrap"], "charliecloud": ["ch-run"], "podman": ["podman", "newuidmap"], "udocker": ["proot"],
         "udocker-P2": ["proot"], "udocker-R1": ["runc"]}
RUNTIME = sys.argv.pop(1)
ALONE = RUNTIME == "udocker-R1"  # root inside, one container at a time, a copy that can be written to
HAS_RANKS = shutil.which("mpirun") and not ALONE


class Runtime(containers.Case):
    profile = f"container: {{runtime: {RUNTIME}}}"

    @classmethod
    def prepare(cls):
        if RUNTIME.startswith("udocker"):
            mode = RUNTIME.partition("-")[2] or "P1"
            cls.profile = f"container: {{runtime: udocker, mode: {mode}, command: [{containers.udocker_program(cls.site)}]}}"

    def setUp(self):
        super().setUp()
        if RUNTIME == "podman":  # crun does not work with hybrid cgroups, nor podman without systemd unless told
            runtime = "runc" if shutil.which("runc") else "crun"
            self.write("home/.config/containers/containers.conf",
                       f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "{runtime}"\n')

    def test_a_step_sees_its_image_the_run_and_nothing_else_of_the_host(self):
        self.workflow("""
            look:
              image: box
              inputs: [given.txt]
              env: {DECLARED: "a 'b' $c"}
              outputs: {made: made.txt}
              run: |
                cat /etc/image-name given.txt
                echo "uid $(id -u)"
                echo "there $(pwd)"
                echo "declared $DECLARED"
                echo "secret ${SECRET-is not here}"
                echo "step $DLFLOW_STEP of $DLFLOW_RUN"
                dlflow --version
                touch /etc/written 2>/dev/null || echo "the image is read-only"
                echo made > $DLFLOW_OUTPUTS/made.txt
        """)
        self.write("given.txt", "given\n")
        jobs = self.run_workflow()
        out = self.lines("look")
        self.assertEqual(out[:3], ["busybox", "given", f"uid {0 if ALONE else self.user}"])
        self.assertRegex(out[3], rf"^there {self.folder}/dlflow-runs/w-[0-9a-f]+/steps/look/attempt-1/pass-1/work$")
        self.assertEqual(out[4:6], ["declared a 'b' $c", "secret is not here"])
        self.assertRegex(out[6], "^step look of w-")
        self.assertRegex(out[7], r"^dlflow \d")
        self.assertEqual(out[8:], [] if ALONE else ["the image is read-only"])
        made = next(self.folder.glob("dlflow-runs/*/steps/look/outputs/made.txt"))
        self.assertEqual((made.read_text(), made.stat().st_uid), ("made\n", self.user))
        self.assertEqual(jobs["look"]["state"], "succeeded")

    def test_a_shell_runs_in_the_image_of_its_step(self):
        self.workflow("""
            look: {image: box, env: {WORD: said}, run: "true"}
        """)
        self.run_workflow()
        run = next(self.folder.glob("dlflow-runs/w-*")).name
        self.write("typed", 'cat /etc/image-name; echo "$WORD"; exit 9\n')
        with open(self.folder / "typed") as typed:
            out, err = self.finish(self.start("shell", run, "look", stdin=typed), 2 if ALONE else 9)
        if ALONE:
            return self.assertIn("udocker's mode R1 gives programs a terminal of its own", err)
        self.assertEqual(out.splitlines()[-2:], ["busybox", "said"])

    def test_a_programs_changes_to_its_image_are_hidden_from_the_next_program(self):
        write = "(echo more >> /etc/image-name) || true; (echo new > /etc/new) || true"
        self.workflow(f"""
            a: {{image: box, run: '{write}'}}
            b: {{image: box, needs: [a], run: 'cat /etc/image-name; test ! -e /etc/new; {write}'}}
            c: {{image: box, needs: [b], run: 'cat /etc/image-name; test ! -e /etc/new'}}
        """)
        self.run_workflow()
        self.assertEqual((self.lines("b"), self.lines("c")), (["busybox"], ["busybox"]))

    @unittest.skipIf(ALONE, "udocker's R modes have no image that a build could write to")
    def test_an_image_is_built_once_before_its_steps_run_in_it(self):
        build = """{env: {OpenMPI: 4.1.4, SIZE: 2}, run: 'echo "$OpenMPI for $(id -u)" >> /etc/built; mkdir -p /opt/x; cp /bin/busybox /opt/x/tool; echo build sees ${SLURM_JOB_ID-no job} and ${DLFLOW_STEP-no step}'}"""
        steps = """
            a: {image: box, run: "cat /etc/built; test -x /opt/x/tool; touch /etc/more || echo read-only"}
            b: {image: box, run: "cat /etc/built", needs: [a]}
        """
        self.workflow(steps, build=build)
        self.run_workflow()
        self.assertEqual((self.lines("a"), self.lines("b")), (["4.1.4 for 0", "read-only"], ["4.1.4 for 0"]))
        out = self.output("a")
        self.assertIn("building image 'box'", out)
        self.assertIn("build sees no job and no step", out)
        self.assertNotIn("building", self.output("b"))

        self.workflow("c: {image: box, run: cat /etc/built || echo as it came}")
        self.run_workflow()
        self.assertEqual(self.lines("c"), ["as it came"])  # the image without a build is as it was

    @unittest.skipIf(ALONE, "udocker's R modes have no image that a build could write to")
    def test_a_built_image_contains_no_path_of_the_run_that_built_it(self):
        self.workflow("a: {image: box, run: 'true'}", build="{run: 'true'}")
        self.run_workflow()
        built, = (image for image in self.folder.glob("**/images/*/image.json") if "build of" in image.read_text())
        self.assertEqual([str(path) for path in (built.parent / "rootfs").rglob("dlflow") if path.is_file()], [])

    @unittest.skipUnless(ALONE, "for udocker's R modes")
    def test_a_runtime_that_cannot_build_is_refused_and_those_that_can_are_named(self):
        self.workflow("a: {image: box, run: 'true'}", build="{run: 'true'}")
        self.dlflow("run", "w.yaml", "--profile", "here", status=1)
        self.assertRegex(self.jobs("w")["a"]["reason"], "udocker in mode R1 cannot write to an image; set container.runtime .* charliecloud")

    @unittest.skipUnless(ALONE, "for udocker's R modes")
    def test_programs_that_would_share_a_container_take_turns(self):
        self.workflow("""
            a:
              image: box
              matrix: {n: [1, 2]}
              env: {RUN: "${{ run.directory }}"}
              run: 'mkdir "$RUN/alone" && sleep 0.5 && rmdir "$RUN/alone"'
        """)
        self.run_workflow()

    @unittest.skipUnless(ALONE and shutil.which("mpirun"), "for udocker's R modes, with mpirun")
    def test_ranks_that_would_share_a_container_are_refused(self):
        self.workflow("a: {image: box, resources: {ranks: 2}, run: 'true'}")
        self.dlflow("run", "w.yaml", "--profile", "here", status=1)
        self.assertIn("udocker's mode R1 runs one rank at a time; set container.mode to P1", self.jobs("w")["a"]["reason"])

    @unittest.skipIf(ALONE, "udocker's R modes have no image that a build could write to")
    def test_a_failed_build_is_reported_as_the_reason_and_leaves_no_image(self):
        self.workflow("a: {image: box, run: 'true'}", build="""{run: "echo half > /etc/half; false; echo never"}""")
        self.dlflow("run", "w.yaml", "--profile", "here", status=1)
        self.assertIn("the `build:` of image 'box' ended with exit status 1; the job's output shows why", self.jobs("w")["a"]["reason"])
        self.assertNotIn("never", self.output("a"))
        images = list(self.folder.glob("**/images/*/image.json"))
        self.assertEqual(len(images), 1)  # the one that it began with

    def test_a_secret_is_in_the_programs_environment_and_nowhere_else(self):
        self.workflow("""
            push:
              image: box
              secrets: [TOKEN]
              run: |
                echo held > $DLFLOW_OUTPUTS/held
                until [ -e $DLFLOW_OUTPUTS/go ]; do sleep 0.1; done
                echo "it is $TOKEN"
            other: {image: box, run: 'echo "${TOKEN-unset}"', needs: [push]}
        """)
        process = self.start("run", "w.yaml", "--profile", "here", env={"TOKEN": TOKEN})
        held, = self.wait_for(lambda: self.made("push", "pass-1/outputs/held"), what="the program to run")
        kept, = self.folder.glob("dlflow-runs/*/secrets")
        self.assertEqual(files_with(TOKEN, self.folder), [str(kept)])
        self.assertNotEqual(processes_with(TOKEN, "environ"), [])  # so the search does find it
        self.assertEqual(processes_with(TOKEN, "cmdline"), [])
        (held.parent / "go").touch()
        self.finish(process)
        self.assertEqual((self.lines("push"), self.lines("other")), (["it is ***"], ["unset"]))
        self.assertEqual(files_with(TOKEN, self.folder), [])

    def test_exit_statuses_and_signals_pass_through(self):
        self.workflow("""
            seven: {image: box, run: exit 7}
            killed: {image: box, run: kill -9 $$}
            missing: {image: box, run: [no-such-program, x]}
        """)
        self.dlflow("run", "w.yaml", "--profile", "here", "--keep-going", status=1)
        jobs = self.jobs("w")
        self.assertEqual([jobs[name]["exit"] for name in ("seven", "killed", "missing")], [7, 128 + 9, 127])
        self.assertIn("killed by signal 9", jobs["killed"]["reason"])
        self.assertIn("image 'box' has no program no-such-program in its PATH, /bin", jobs["missing"]["reason"])

    def test_a_programs_output_is_kept_up_to_its_end(self):
        self.workflow("""
            prints: {image: box, run: 'seq 20000; seq 20000 >&2'}
        """)
        self.run_workflow()
        for stream in ("stdout", "stderr"):
            printed = [line for line in self.output("prints", stream).splitlines() if line.isdigit()]
            self.assertEqual(printed, [str(number) for number in range(1, 20001)], stream)

    SAVES = """
        state=$DLFLOW_CHECKPOINTS/saved.$OMPI_COMM_WORLD_RANK
        [ ! -e $state ] || exit 0
        trap 'echo > $state; exit 75' USR1
        touch ready.$OMPI_COMM_WORLD_RANK
        while :; do sleep 0.1; done
    """

    def ask_for_a_checkpoint(self, ranks):
        """A run of SAVES, asked once all ranks are ready; what they have saved."""
        script = textwrap.indent(textwrap.dedent(self.SAVES), "    ")
        self.workflow(f"save:\n  image: box\n  checkpoint: {{}}\n  resources: {{ranks: {ranks}}}\n  run: |\n{script}")
        process = self.start("run", "w.yaml", "--profile", "here")
        self.wait_for(lambda: len(self.made("save", "pass-1/work/ready.*")) == ranks, what="all ranks to be ready")
        os.kill(self.supervisor("save"), signal.SIGUSR1)
        self.finish(process)
        return len(list(self.folder.glob("dlflow-runs/*/steps/save/checkpoints/saved.*")))

    @unittest.skipUnless(HAS_RANKS, "no mpirun, or a runtime without ranks")
    def test_every_rank_gets_the_save_signal_that_the_step_names(self):
        self.workflow("""
            save:
              image: box
              checkpoint: {signal: SIGTERM, newer: "ckpt/saved.*"}
              resources: {ranks: 2}
              run: |
                state=ckpt/saved.$RANK
                [ ! -e $state ] || exit 0
                trap 'echo > $state; exit 3' TERM
                touch ready.$RANK
                while :; do sleep 0.1; done
        """)
        process = self.start("run", "w.yaml", "--profile", "here")
        self.wait_for(lambda: len(self.made("save", "pass-1/work/ready.*")) == 2, what="all ranks to be ready")
        os.kill(self.supervisor("save"), signal.SIGUSR1)
        self.finish(process)
        self.assertEqual(len(list(self.folder.glob("dlflow-runs/*/steps/save/checkpoints/ckpt/saved.*"))), 2)

    def made(self, step, pattern):
        return list(self.folder.glob(f"dlflow-runs/*/steps/{step}/attempt-1/{pattern}"))

    def supervisor(self, step):
        attempt, = self.folder.glob(f"dlflow-runs/*/steps/{step}/attempt-1")
        return int(os.readlink(attempt / "claim-1").split()[0])

    def test_a_request_for_a_checkpoint_reaches_the_program_which_then_continues(self):
        self.assertEqual(self.ask_for_a_checkpoint(1), 1)

    @unittest.skipUnless(HAS_RANKS, "no mpirun, or a runtime without ranks")
    def test_a_request_for_a_checkpoint_reaches_every_rank(self):
        self.assertEqual(self.ask_for_a_checkpoint(2), 2)

    def test_a_program_never_outlives_its_supervisor(self):
        seconds = 10**6 + os.getpid()
        self.workflow(f"sleep: {{image: box, run: 'sleep {seconds} & wait'}}")
        process = self.start("run", "w.yaml", "--profile", "here")
        self.wait_for(lambda: self.sleeps(seconds), what="the program to start")
        os.kill(self.supervisor("sleep"), signal.SIGKILL)
        self.wait_for(lambda: not self.sleeps(seconds), what="the program to be gone")
        self.finish(process, 1)

    @staticmethod
    def sleeps(seconds):
        """Whether a `sleep` of so long is running, in whatever name space."""
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if file.read_bytes() == f"sleep\0{seconds}\0".encode():
                    return True
            except OSError:
                continue  # it has ended meanwhile
        return False

    @unittest.skipUnless(HAS_RANKS, "no mpirun, or a runtime without ranks")
    def test_ranks_get_their_places(self):
        self.workflow("""
            ranks:
              image: box
              resources: {ranks: 2}
              run: [sh, -c, "echo rank $OMPI_COMM_WORLD_RANK $RANK $LOCAL_RANK of $DLFLOW_RANKS $WORLD_SIZE, $MASTER_ADDR"]
        """)
        self.run_workflow()
        self.assertEqual(sorted(self.lines("ranks")), ["rank 0 0 0 of 2 2, 127.0.0.1", "rank 1 1 1 of 2 2, 127.0.0.1"])

    @unittest.skipUnless(HAS_RANKS, "no mpirun, or a runtime without ranks")
    def test_an_image_with_another_mpi_than_the_launchers_is_named_once(self):
        self.workflow("ranks: {image: box, resources: {ranks: 2}, run: [true]}", build='{run: "mkdir -p /usr/lib; touch /usr/lib/libmpich.so.12.4"}')
        self.run_workflow()
        warnings = [line for line in self.output("ranks", "stderr").splitlines() if line.startswith("warning")]
        self.assertEqual(len(warnings), 1)
        self.assertRegex(warnings[0], "image 'box' has MPICH, but the launcher here is of Open MPI [0-9]:")


# In the place of udocker's own proot, which takes -k: Debian's, without it.
UDOCKERS_PROOT = """#!/bin/sh
for word do
  shift
  [ "$last" = -k ] || [ "$word" = -k ] || set -- "$@" "$word"
  last=$word
done
exec {}/debian-proot "$@"
"""


@unittest.skipUnless(RUNTIME == "udocker", "other runtimes bring the driver's libraries by themselves")
@unittest.skipUnless(os.geteuid() == 0, "only root can put a stand-in in the place of the NVIDIA driver")
class GpusOfUdocker(containers.Case):
    """Needs no driver: its version and its libraries are stand-ins."""

    mounts = "mount --bind ${0%/etc}/module /sys/module; [ ! -e ${0%/etc}/hide-proot ] || mount --bind /dev/null /usr/bin/proot\n"
    PRINT = "{name}: {{image: box, resources: {{gpus_per_rank: 1, ranks: {ranks}}}, run: 'cat /usr/lib64/libcuda.so.1'}}"

    @classmethod
    def prepare(cls):
        cls.udocker = containers.udocker_program(cls.site)
        cls.profile = f"gpus: 2\ncontainer: {{runtime: udocker, command: [{cls.udocker}]}}"
        layers = [images.busybox_layer(images.folder("usr"), images.folder("usr/lib64"))]
        cls.with_folder = f"docker-archive:{images.docker_archive(cls.site / 'with-folder.tar', layers)}"

    def setUp(self):
        super().setUp()
        shutil.rmtree(self.site / "module", ignore_errors=True)
        (self.site / "module").mkdir()
        self.env["LD_LIBRARY_PATH"] = str(self.site / "driver")  # udocker looks there, too

    def load_driver(self, version, libraries=True):
        shutil.rmtree(self.site / "driver", ignore_errors=True)
        (self.site / "module/nvidia").mkdir(exist_ok=True)
        (self.site / "module/nvidia/version").write_text(f"{version}\n")
        (self.site / "driver").mkdir()
        if libraries:
            (self.site / f"driver/libcuda.so.{version}").write_text(f"stand-in of {version}\n")
            (self.site / "driver/libcuda.so.1").symlink_to(f"libcuda.so.{version}")

    def printing(self, image, name="print", ranks=1):
        self.workflow(self.PRINT.format(name=name, ranks=ranks), image)

    def reason(self, image):
        self.printing(image)
        return self.run_workflow(status=1)["print"]["reason"]

    def test_each_version_of_the_driver_has_a_container_with_its_libraries(self):
        for version in ("535.104.05", "550.54.14"):
            self.load_driver(version)
            self.printing(self.with_folder, f"with-{version[:3]}")
            self.run_workflow()
            self.assertEqual(self.lines(f"with-{version[:3]}"), [f"stand-in of {version}"])
        made = {folder.name for folder in (self.folder / "cache").glob("**/images/*/udocker-*") if folder.is_dir()}
        self.assertEqual(made, {"udocker-P1-nvidia-535.104.05", "udocker-P1-nvidia-550.54.14"})

    @unittest.skipUnless(HAS_RANKS, "no mpirun")
    def test_ranks_share_the_container(self):
        self.load_driver("535.104.05")
        self.printing(self.with_folder, ranks=2)
        self.run_workflow()
        self.assertEqual(self.lines("print"), 2 * ["stand-in of 535.104.05"])

    def test_proot_of_udocker_install_is_used_if_path_has_none(self):
        self.load_driver("535.104.05")
        tarball = self.site / "tools.tar.gz"
        shutil.copy("/usr/bin/proot", self.site / "debian-proot")
        with tarfile.open(tarball, "w:gz") as tar:
            tar.addfile(*images.file(f"udocker_dir/bin/proot-{os.uname().machine}", UDOCKERS_PROOT.format(self.site).encode(), 0o755))
            tar.addfile(*images.file("udocker_dir/lib/VERSION", b"1.2.11"))
        (self.site / "hide-proot").touch()
        self.addCleanup((self.site / "hide-proot").unlink)
        self.assertIn("udocker did not run the program", self.reason(self.with_folder))
        self.write("install", f"UDOCKER_TARBALL={tarball} exec {self.udocker} install\n")
        install = [self.site / "etc", str(self.user), "env", "-i", f"HOME={self.env['HOME']}", f"PATH={self.env['PATH']}", "sh", self.folder / "install"]
        subprocess.run(["unshare", "--mount", "bash", "-ec", containers.AS_USER, *install], check=True, capture_output=True)
        self.run_workflow()
        self.assertEqual(self.lines("print"), ["stand-in of 535.104.05"])

    def test_a_missing_part_is_named_whatever_exit_status_udocker_has(self):
        self.assertIn("has no NVIDIA driver loaded, but the step asks for GPUs; choose nodes that have GPUs", self.reason(self.with_folder))
        self.load_driver("535.104.05", libraries=False)
        self.assertRegex(self.reason(self.with_folder), r"udocker found no libraries of the NVIDIA driver on .* \(libcuda.so\); ask the site")
        self.load_driver("535.104.05")
        self.assertRegex(self.reason(f"docker-archive:{self.image}"), "image 'box' has neither /usr/lib/x86_64-linux-gnu nor /usr/lib64")
        self.assertEqual(list(self.folder.glob("cache/**/udocker-*nvidia*.ready")), [])


if __name__ == "__main__":
    if RUNTIME not in ("udocker", "udocker-P2"):
        containers.require_namespaces()
    containers.require(*NEEDS[RUNTIME])
    containers.main()
