"""Stand-ins for the external parts of workflows/gallery: repositories with the programs that the workflows start, and launchers."""

import pathlib
import shutil
import subprocess
import tarfile

GALLERY = pathlib.Path(__file__).resolve().parents[2] / "workflows/gallery"

OPTIONS = """\
import json, os, pathlib, sys
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
words = sys.argv[1:]
def after(name): return words[words.index(name) + 1]
def leave(path, text="1"):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
"""

OF_MLFLOW = OPTIONS + """
def artifact(name, file): leave(f"mlruns/0/0123/artifacts/{name}/{file}")
assert os.environ["MLFLOW_TRACKING_URI"] == f"file:{os.getcwd()}/mlruns"
"""

REPOSITORIES = {
    "nanoGPT": {
        "config/train_gpt2.py": "",
        "data/openwebtext/prepare.py": OPTIONS + "leave(pathlib.Path(__file__).with_name('train.bin'))",
        "train.py": OPTIONS + """
assert words[0] == "config/train_gpt2.py" and pathlib.Path("config/train_gpt2.py").exists()
assert (pathlib.Path(options["dataset"]) / "train.bin").exists()
if os.environ["PET_NODE_RANK"] == "0":  # saves alone; another node may begin after that here
    assert options["init_from"] == "scratch"
    leave(options["out_dir"] + "/ckpt.pt")
""",
        "sample.py": OPTIONS + "print('saw', pathlib.Path(options['out_dir'], 'ckpt.pt').read_text())",
    },
    "accelerate": {
        "examples/complete_nlp_example.py": OPTIONS + """
assert after("--mixed_precision") == "no"
leave(after("--output_dir") + "/epoch_0/model.bin")
""",
    },
    "example-get-started": {
        "src/prepare.py": OPTIONS + """
assert open("params.yaml").read() == "prepare: {split: 0.20, seed: 20170428}\\n", open("params.yaml").read()
leave("data/prepared/train.tsv", open(words[0]).read())
""",
        "src/featurization.py": OPTIONS + "leave(words[1] + '/train.pkl', open(words[0] + '/train.tsv').read())",
        "src/train.py": OPTIONS + "leave(words[1], open('params.yaml').read() + open(words[0] + '/train.pkl').read())",
        "src/evaluate.py": OPTIONS + """
assert pathlib.Path(words[0]).exists() and pathlib.Path(words[1]).exists()
leave("eval/metrics.json", json.dumps({"avg_prec": {"train": 0.97, "test": 0.93}}))
""",
    },
    "mlflow": {f"examples/multistep_workflow/{name}.py": OF_MLFLOW + text for name, text in {
        "load_raw_data": "artifact('ratings-csv-dir', 'ratings.csv')",
        "etl_data": "assert (pathlib.Path(after('--ratings-csv')) / 'ratings.csv').exists()\nartifact('ratings-parquet-dir', 'part-0')",
        "als": "assert (pathlib.Path(after('--ratings-data')) / 'part-0').exists()\nartifact('als-model', 'MLmodel')",
        "train_keras": "assert (pathlib.Path(after('--als-model-uri')) / 'MLmodel').exists()\nartifact('keras-model', 'MLmodel')",
    }.items()},
    "hpc": {
        "cosmoflow/configs/cosmo.yaml": "",
        "cosmoflow/train.py": OPTIONS + """
lr, folder = float(after("--lr")), after("--output-dir")
assert (pathlib.Path(after("--data-dir")) / "train/a.tfrecord").exists()
if lr == 0.002:
    sys.exit("diverged")
leave(folder + "/checkpoint-001.h5")
leave(folder + "/history.csv", f"epoch,val_loss\\n0,{10 * lr}\\n1,{lr}\\n")
""",
    },
}

# The programs use the stand-ins' Python and check the launcher's variables.
PROGRAMS = {
    "python": 'exec /usr/bin/python3 "$@"',
    "torchrun": 'test -n "$PET_NNODES" && test -n "$PET_NPROC_PER_NODE" && exec /usr/bin/python3 "$@"',
    "accelerate": '''
        for word; do case $word in *.py) break ;; esac; shift; done
        test -n "$MASTER_ADDR$MASTER_PORT" && exec /usr/bin/python3 "$@"''',
}

SETTINGS = {
    "nanogpt": ["repository={nanoGPT}", "commit={nanoGPT.commit}", "gpus=1", "gpus_per_rank=0", "cpus_per_rank=1", "walltime=10m"],
    "accelerate": ["repository={accelerate}", "commit={accelerate.commit}", "precision=no", "nodes=2", "gpus=1", "gpus_per_rank=0", "cpus_per_rank=1"],
    "dvc-get-started": ["repository={example-get-started}", "commit={example-get-started.commit}", "data={folder}/data.xml"],
    "mlflow-multistep": ["repository={mlflow}", "commit={mlflow.commit}"],
    "cosmoflow": ["repository={hpc}", "commit={hpc.commit}", "archive=file://{folder}/cosmo.tgz", "gpus=1", "gpus_per_rank=0", "cpus_per_rank=1"],
}

# The number of jobs by step and end state with the stand-ins, where it differs from one success.
ENDS = {"cosmoflow": {"train": {"succeeded": 4, "failed": 2}}}


def git(repository, *arguments):
    command = ["git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def prepare(folder):
    """Puts the workflows and stand-ins into `folder`, programs into `folder`/bin. Returns workflow -> settings for `dlflow run`."""
    shutil.copytree(GALLERY, folder, dirs_exist_ok=True)
    known = {"folder": folder}
    for name, files in REPOSITORIES.items():
        for file, text in files.items():
            path = folder / "repositories" / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(path := folder / "repositories" / name, "init", "--quiet")
        git(path, "add", ".")
        git(path, "commit", "--quiet", "-m", "stand-ins")
        known |= {name: f"git+file://{path}", f"{name}.commit": git(path, "rev-parse", "HEAD")}
    (folder / "bin").mkdir()
    for name, script in PROGRAMS.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    (folder / "data.xml").write_text("<row/>")
    (folder / "train").mkdir()
    (folder / "train/a.tfrecord").touch()
    with tarfile.open(folder / "cosmo.tgz", "w:gz") as archive:
        archive.add(folder / "train", "train")

    def filled(setting):
        for name, value in known.items():
            setting = setting.replace("{" + name + "}", str(value))
        return setting

    return {workflow: [word for setting in settings for word in ("--set", filled(setting))] for workflow, settings in SETTINGS.items()}


def states(status):
    """Step -> state -> number of jobs."""
    found = {}
    for step in status["steps"]:
        of_step = found.setdefault(step["name"], {})
        of_step[step["state"]] = of_step.get(step["state"], 0) + 1
    return found


def expected(workflow, status):
    return {step: {"succeeded": 1} for step in states(status)} | ENDS.get(workflow, {})
