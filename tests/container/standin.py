#!/usr/bin/python3
"""Replaces apptainer, docker or srun with pyxis, depending on the name by which it is called. It implements the options that
dlflow uses, as documented, with bubblewrap, and refuses any other.

  apptainer  https://apptainer.org/docs/user/1.3/cli/apptainer_exec.html
  docker     https://docs.docker.com/reference/cli/docker/container/run/, image/import/, image/inspect/
  srun       https://github.com/NVIDIA/pyxis#usage
"""

import os
import pathlib
import subprocess
import sys
import tempfile

STORE = pathlib.Path(__file__).resolve().parent / "docker-images"


def bubblewrap(rootfs, binds, directory, program):
    argv = ["bwrap", "--ro-bind", str(rootfs), "/", "--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc"]
    for bind in binds:
        source, target, *options = bind.split(":")
        argv += ["--ro-bind" if options == ["ro"] else "--bind", source, target]
    return [*argv, "--chdir", directory, "--die-with-parent", "--", *program]


def options(words, flags, valued):
    """Splits `words` into {option: [values]} and what comes after the options."""
    found = {}
    while words and words[0].startswith("-"):
        key, equals, value = words.pop(0).partition("=")
        if key not in flags and key not in valued:
            sys.exit(f"{sys.argv[0]}: unknown option {key}")
        if key in valued and not equals:
            value = words.pop(0)
        found.setdefault(key, []).append(value)
    return found, words


def apptainer(words):
    silent, words = options(words, {"--silent"}, set())
    assert silent and words.pop(0) == "exec"
    found, (image, *program) = options(words, {"--cleanenv", "--no-home", "--nv"}, {"--bind", "--pwd"})
    os.environ.clear()
    os.environ["PATH"] = "/usr/bin:/bin"
    return bubblewrap(image, found["--bind"], found["--pwd"][0], program)


def docker(words):
    if words[:2] == ["image", "inspect"]:
        sys.exit(not (STORE / words[2]).exists())
    if words[0] == "import":
        (STORE / words[2]).mkdir(parents=True)
        return ["tar", "--extract", "--file", words[1], "--directory", str(STORE / words[2])]
    assert words.pop(0) == "run"
    found, (image, *program) = options(words, {"--rm", "--read-only", "--gpus"},
                                       {"--pull", "--network", "--pid", "--ipc", "--log-driver", "--user", "--volume",
                                        "--workdir"})
    assert found["--user"] == [f"{os.geteuid()}:{os.getegid()}"]
    return bubblewrap(STORE / image, found["--volume"], found["--workdir"][0], program)


def srun(words):
    found, program = options(words, {"--container-readonly", "--no-container-mount-home", "--no-container-remap-root",
                                     "--no-container-entrypoint"},
                             {"-N", "-n", "-c", "--ntasks-per-node", "--cpu-bind", "--container-image", "--container-mounts", "--container-workdir"})
    rootfs = tempfile.mkdtemp(prefix="pyxis.")
    subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-force", "-dest", rootfs, found["--container-image"][0]],
                   check=True, stdout=subprocess.DEVNULL)
    argv = bubblewrap(rootfs, found["--container-mounts"][0].split(","), found["--container-workdir"][0], program)
    size = found["-n"][0]
    step = {"SLURM_STEP_NUM_TASKS": size, "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_TASKS_PER_NODE": size, "SLURM_NODEID": "0"}
    ranks = [subprocess.Popen(argv, env={**os.environ, **step, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)})
             for rank in range(int(size))]
    sys.exit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    name = pathlib.Path(sys.argv[0]).name
    command = {"apptainer": apptainer, "docker": docker, "srun": srun}[name](sys.argv[1:])
    os.execvp(command[0], command)
