"""`python -m dlflow.track`: passes the curves of a run to trackers, by their own clients. `dlflow sync` calls it.

Standard input has the run in one line of JSON, and a line for each ended job (engine/track/track.cpp). Standard output tells users how
to view them. RUN/track.json records which jobs each tracker has. Exit status: 0 done, 1 a tracker failed, 2 its package is missing.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import re
import shutil
import sys
from typing import Any, Callable, Dict, Tuple

Json = Dict[str, Any]
#: Sends a job; its second argument is what it returned for an earlier try of the job, or None.
Send = Callable[[Json, Any], Any]


def _write(path: pathlib.Path, content: Json) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def _numbers(values: Json) -> Json:
    return {name: value for name, value in values.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}


def _wandb(wandb: Any, run: Json, _: str) -> Send:
    folder = pathlib.Path(run["directory"])

    def send(job: Json, _: Any) -> None:
        name = job["id"][:8]
        for earlier in folder.glob(f"wandb/offline-run-*-{name}"):
            shutil.rmtree(earlier)
        settings = wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True)
        tracked = wandb.init(mode="offline", dir=folder, project=run["workflow"], group=run["run"], name=job["job"], id=name,
                             config=job["params"], settings=settings)
        for line in job["lines"]:
            tracked.log({**line["values"], "step": line["step"], "epoch": line["epoch"], "_timestamp": line["at"]})
        tracked.summary.update(job["summary"])
        tracked.finish(exit_code=0 if job["status"] == "FINISHED" else 1)

    return send


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _mlflow_name(name: str) -> str:
    """Same as mlflow_name() in engine/track/mlflow.h."""
    parts = ({"": "_", ".": "_", "..": "__"}.get(part, part) for part in name.split("/"))
    return "/".join(re.sub(r"[^A-Za-z0-9_\-. :]", "_", part) for part in parts)[:250]


def _mlflow(mlflow: Any, run: Json, address: str) -> Send:
    """One MLflow run for the workflow, with a nested run for each job; later syncs find them by their tags."""
    client, entities = mlflow.MlflowClient(address), importlib.import_module("mlflow.entities")
    experiment = client.get_experiment_by_name(run["workflow"])
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(run["workflow"])
    found = client.search_runs([experiment_id], f"tags.`dlflow.run` = '{run['run']}'", max_results=50000)
    known = {each.data.tags.get("dlflow.job", ""): each.info.run_id for each in found}

    def put(name: str, job: Json, tags: Json) -> None:
        began = _milliseconds(job["began"])
        if name not in known:
            tags = {"dlflow.run": run["run"], **tags}
            known[name] = client.create_run(experiment_id, began, tags, name or run["run"]).info.run_id
        texts = {_mlflow_name(key): _text(value)[:6000] for key, value in job["params"].items()}
        params = [entities.Param(key, text) for key, text in texts.items()]
        metrics = [entities.Metric(_mlflow_name(key), value, _milliseconds(line["at"]), int(line["step"]))
                   for line in job.get("lines", []) for key, value in line["values"].items()]
        metrics += [entities.Metric(_mlflow_name("summary." + key), value, _milliseconds(job["ended"]), 0)
                    for key, value in _numbers(job.get("summary", {})).items()]
        for begin in range(0, len(params), 100):
            client.log_batch(known[name], params=params[begin:begin + 100])
        for begin in range(0, len(metrics), 1000):
            client.log_batch(known[name], metrics=metrics[begin:begin + 1000])
        if job["ended"]:
            client.set_terminated(known[name], job["status"], _milliseconds(job["ended"]))

    put("", run, {"dlflow.profile": run["profile"]})

    def send(job: Json, _: Any) -> None:
        put(job["job"], job, {"dlflow.job": job["job"], "dlflow.step": job["step"], "mlflow.parentRunId": known[""]})

    return send


def _aim(aim: Any, run: Json, place: str) -> Send:
    repository = aim.Repo.from_path(place, init=True)

    def send(job: Json, earlier: Any) -> Any:
        if earlier:
            repository.delete_run(earlier)
        tracked = aim.Run(repo=repository, experiment=run["workflow"], system_tracking_interval=None, capture_terminal_logs=False)
        tracked.name = f"{run['run']} {job['job']}"
        tracked["hparams"], tracked["summary"] = job["params"], job["summary"]
        for line in job["lines"]:
            for key, value in line["values"].items():
                tracked.track(value, name=key, step=int(line["step"]), epoch=int(line["epoch"]))
        name = tracked.hash  # chosen by Aim
        tracked.close()
        return name

    return send


def _comet(comet: Any, run: Json, _: str) -> Send:
    folder = pathlib.Path(run["directory"]) / "comet"

    def send(job: Json, _: Any) -> None:
        (folder / f"{job['id']}.zip").unlink(missing_ok=True)
        config = comet.ExperimentConfig(offline_directory=str(folder), name=f"{run['run']} {job['job']}", display_summary_level=0, log_code=False,
                                        log_git_metadata=False, log_git_patch=False, log_env_details=False, auto_output_logging="", parse_args=False)
        tracked = comet.start(project=run["workflow"], experiment_key=job["id"], mode="create", online=False, experiment_config=config)
        tracked.log_parameters(job["params"])
        for line in job["lines"]:
            tracked.log_metrics(line["values"], step=int(line["step"]), epoch=int(line["epoch"]))
        tracked.log_others(job["summary"])
        tracked.end()

    return send


Opener = Callable[[Any, Json, str], Send]
#: Package and key of `track:` -> opener, hint on how to view the result
TRACKERS: Dict[str, Tuple[Opener, str]] = {
    "wandb": (_wandb, "wandb sync {directory}/wandb/offline-run-*"),
    "mlflow": (_mlflow, "mlflow ui --backend-store-uri {place}"),
    "aim": (_aim, "aim up --repo {place}"),
    "comet_ml": (_comet, "comet upload {directory}/comet/*.zip"),
}


def main() -> int:
    run, *jobs = map(json.loads, sys.stdin)
    memory = pathlib.Path(run["directory"]) / "track.json"
    sent: Json = json.loads(memory.read_text()) if memory.exists() else {}
    status = 0
    for name, place in run["clients"].items():
        opener, hint = TRACKERS[name]
        known = sent.setdefault(f"{name} {place}", {})
        try:
            new = [job for job in jobs if known.get(job["job"], [0])[0] != job["ended"]]
            if new or known.get("", 0) != run["ended"]:
                send = opener(importlib.import_module(name), run, place)
                for job in new:
                    known[job["job"]] = [job["ended"], send(job, known.get(job["job"], [0, None])[1])]
                    _write(memory, sent)
                known[""] = run["ended"]
                _write(memory, sent)
            print(hint.format(place=place, directory=run["directory"]))
        except ModuleNotFoundError as error:
            print(f"{name}: {error}: {sys.executable} -m pip install {name}", file=sys.stderr)
            status = 2
        except Exception as error:  # raised by a library; the next tracker is still served
            print(f"{name}: {error}", file=sys.stderr)
            status = status or 1
    return status


if __name__ == "__main__":
    sys.exit(main())
