"""The mistakes of mistakes_test.py: what somebody wrote, and the three parts of the answer."""

import dataclasses
import re
import textwrap


@dataclasses.dataclass(frozen=True)
class Mistake:
    name: str
    argv: tuple
    place: str  # where: file, line and column; or the option, verb, job
    cause: str  # what is wrong
    cure: str   # what to type, or to do
    files: dict = dataclasses.field(default_factory=dict)
    status: int = 2
    before: tuple = ()  # commands that come first, and are right


def steps(text, head=""):
    return {"w.yaml": f"name: w\n{head}steps:\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), "  ") + "\n"}


def invalid(name, text, place, cause, cure, head="", more=None):
    """A mistake that `validate` finds."""
    return Mistake(name, ("validate", "w.yaml"), place, cause, cure, {**steps(text, head), **(more or {})})


def fails(name, text, cause, cure, more=None, place="a failed"):
    """A mistake that only a run finds."""
    return Mistake(name, ("run", "w.yaml"), place, cause, cure, {**steps(text), **(more or {})}, 1)


def doubted(name, text, place, cause, cure, head="", more=None):
    """Probably a mistake: `validate` warns of it."""
    return Mistake(name, ("validate", "w.yaml"), place, cause, cure, {**steps(text, head), **(more or {})}, 0)


def typed(name, argv, place, cause, cure, files=None, before=()):
    """A mistake in the command line."""
    return Mistake(name, tuple(argv), place, cause, cure, files or {}, 2, before)


def raw(name, text, place, cause, cure):
    """A mistake in the YAML of a workflow."""
    return Mistake(name, ("validate", "w.yaml"), place, cause, cure, {"w.yaml": text})


def profile(name, text, place, cause, cure):
    """A mistake in a profile."""
    return typed(name, ["profile", "show", "p.yaml"], place, cause, cure, {"p.yaml": text})


def data(name, argv, place, cause, cure, files=None):
    """A mistake in what becomes a data set."""
    return typed(name, ["data", "pack", *argv, "-o", "d"], place, cause, cure, files or {"t.csv": TABLE})


def trained(name, options, place, cause, cure, model, status=2):
    """A mistake in the training of a table."""
    step = {"model": "m.yaml", "data": "d", "epochs": 1, "lr": 0.01} | dict(re.findall(r"(\w+): ({.*?}|[^,]+)(?:, |$)", options))
    with_ = ", ".join(f"{key}: {value}" for key, value in step.items())
    return Mistake(name, ("run", "w.yaml"), place, cause, cure,
                   {**steps("a: {uses: train, with: {%s}}" % with_), "m.yaml": model, "t.csv": TABLE}, status,
                   (("data", "pack", "t.csv", "-o", "d", "--target", "y"),))


ONE = steps("a: {run: [echo]}", "params: {lr: 1}\n")
MODEL = "input: [1, 28, 28]\nlayers:\n"
TRAIN = "a: {uses: train, with: {model: m.yaml, data: d, epochs: 1, lr: 0.1}}"
TRAIN_SOME = "a: {uses: train, with: {model: m.yaml, data: /d, epochs: 1, lr: 0.1, %s}}"
TRAINED = "a: {uses: train, with: {model: '${{ params.m }}', data: /d, epochs: 1, lr: 0.1}}\n%s"
MODEL_OF_A = "'${{ steps.a.outputs.model }}'"
CONV = "name: m\n" + MODEL + "  - conv2d: {channels: 8, kernel: 3}\n  - flatten\n  - linear: {features: 10}\n"

RUN = (("run", "w.yaml"),)
X = "params: {x: 1}\n"
TABLE = "a,b,y\n" + "".join(f"{i},{2 * i},{3 * i}\n" for i in range(40))
REGRESSION = "name: m\ninput: [2]\nlayers:\n  - linear: {features: 1}\nloss: mse\n"

MISTAKES = [
    # The command line.
    typed("a verb with a typo", ["statsu"], "'dlflow statsu'", "there is no command", "did you mean 'status'?"),
    typed("a verb of another tool", ["submit", "w.yaml"], "'dlflow submit'", "there is no command", "did you mean 'run'?"),
    typed("a verb that nobody knows", ["frobnicate"], "'dlflow frobnicate'", "there is no command", "Try `dlflow --help`."),
    typed("a verb of a verb with a typo", ["cache", "lst"], "'cache lst'", "there is no command", "did you mean 'list'?"),
    typed("help of a verb with a typo", ["statsu", "--help"], "'dlflow statsu'", "there is no command", "did you mean 'status'?"),
    typed("help of a verb of a verb with a typo", ["cache", "lst", "--help"], "'cache lst'", "there is no command", "did you mean 'list'?"),
    typed("an import of a workflow", ["model", "import", "w.yaml"], "w.yaml", "is no ONNX file", "", ONE),
    typed("no workflow", ["validate"], "`dlflow validate`", "needs WORKFLOW", "dlflow validate WORKFLOW"),
    typed("a word too many", ["status", "a", "b"], "`dlflow status`", "'b' is one word too many", "takes RUN"),
    typed("an option without its value", ["run", "w.yaml", "--set"], "--set", "needs KEY=VALUE", "Try `dlflow run --help`."),
    typed("an option with a typo", ["status", "--jsno"], "`dlflow status`", "has no option --jsno", "did you mean '--json'?"),
    typed("an option of another verb", ["logs", "--watch"], "`dlflow logs`", "has no option --watch", "`dlflow status` has one"),
    typed("a colour that is none", ["status", "--color", "purple"], "--color", "'purple' is not one of", "auto, always, never"),
    typed("a shell that is none", ["completion", "tcsh"], "SHELL", "'tcsh' is not one of", "bash, zsh, fish", None),
    typed("a format that is none", ["graph", "w.yaml", "--format", "png"], "--format", "'png' is not one of", "text, dot, mermaid, svg"),
    typed("two options that exclude each other", ["results", "--csv", "--json"], "--csv", "does not go with --json", "leave one of them out"),
    typed("an option that needs another", ["results", "--reverse"], "--reverse", "needs", "--sort METRIC"),
    typed("a number that is none", ["status", "--last", "all"], "--last", "'all' is not a number", "Try `dlflow status --help`."),
    typed("a workflow and a run", ["run", "w.yaml", "--resume", "x"], "`--resume RUN`", "either", "Try `dlflow run --help`.", ONE),
    typed("a run without any", ["resubmit", "abc"], "error:", "no runs yet", "`dlflow run WORKFLOW`"),
    typed("a duration that is none", ["rm", "--older-than", "3 moons"], "'3 moons'", "not a duration", "write 90s, 20m"),
    typed("rm without a run", ["rm"], "runs", "say which stay", "--keep 5, --older-than 30d"),
    typed("a workflow with a typo", ["run", "trian.yaml"], "trian.yaml", "there is no file", "did you mean 'train.yaml'?",
          {"train.yaml": "x"}),
    typed("a program for a workflow", ["validate", "train.py"], "train.py", "is a program, no workflow", "`dlflow init train.py`",
          {"train.py": "import x\n"}),
    typed("a profile with a typo", ["run", "w.yaml", "--profile", "alpa"], "'alpa'", "there is no profile", "did you mean 'alpha'?",
          {**ONE, "cluster-profiles/alpha.yaml": "scheduler: slurm\n"}),
    typed("a parameter with a typo", ["run", "w.yaml", "--set", "lrr=3"], "--set", "unknown parameter 'lrr'", "did you mean 'lr'?", ONE),
    typed("a parameter without its value", ["run", "w.yaml", "--set", "lr"], "--set", "'lr' is not of the form", "KEY=VALUE", ONE),
    typed("a step with a typo", ["run", "w.yaml", "--until", "trian"], "w.yaml", "has no step 'trian'", "did you mean 'train'?",
          steps("train: {run: [echo]}")),
    typed("a bundle that is none", ["unpack", "x.dlflow"], "x.dlflow", "the bundle is damaged", "`dlflow pack`", {"x.dlflow": "hello"}),
    typed("an archive of arrays", ["data", "pack", "x.npz", "-o", "d"], "x.npz", "is an archive of arrays", "np.save('images.npy'",
          {"x.npz": "PK"}),
    typed("images without labels", ["data", "pack", "x.npy", "-o", "d"], "x.npy", "where are the labels", "dlflow data pack x.npy LABELS",
          {"x.npy": "x"}),
    typed("a folder of runs that is not there", ["doctor", "--rebuild"], "dlflow-runs", "No such file", "dlflow doctor --rebuild FOLDER"),
    typed("a profile with a key too many", ["profile", "show", "p.yaml"], "p.yaml:2:1", "unknown key 'partion'", "known: name,",
          {"p.yaml": "scheduler: slurm\npartion: batch\n"}),
    typed("commas in an option", ["profile", "show", "p.yaml"], "p.yaml:2:", "a comma inside [ ] begins the next entry",
          "'--OPTION=…,craynetwork:1'", {"p.yaml": "scheduler: slurm\nslurm: {options: [--gres=gpu:2,craynetwork:1]}\n"}),
    typed("a batch system that is none", ["profile", "show", "p.yaml"], "p.yaml:1:12", "'pbs' is not one of", "local, slurm, gridengine",
          {"p.yaml": "scheduler: pbs\n"}),

    # Workflow files.
    Mistake("a tab", ("validate", "w.yaml"), "w.yaml:3:1", "a tab in the indentation", "indented with spaces",
            {"w.yaml": "name: w\nsteps:\n\ta: {run: [echo]}\n"}),
    Mistake("steps as a list", ("validate", "w.yaml"), "w.yaml:3:3", "steps must be a mapping", "a name and a description for each step",
            {"w.yaml": "name: w\nsteps:\n  - name: a\n"}),
    Mistake("another column", ("validate", "w.yaml"), "w.yaml:5:4", "not valid YAML", "begin in the same column",
            {"w.yaml": "name: w\nsteps:\n  a:\n    run: [echo]\n   b:\n    run: [echo]\n"}),
    invalid("neither uses nor run", "a: {needs: []}", "w.yaml:3:3", "neither uses nor run", "give one"),
    invalid("a kind with a typo", "a: {uses: trian}", "w.yaml:3:13", "'trian' is not one of", "did you mean 'train'?"),
    invalid("a key with a typo", "a: {run: [echo], neds: [b]}", "w.yaml:3:20", "unknown key 'neds'", "did you mean 'needs'?"),
    invalid("a need with a typo", "a: {run: [echo], needs: [b1]}\nb: {run: [echo]}", "w.yaml:3:28", "'b1', which does not exist",
            "did you mean 'b'?"),
    invalid("a cycle", "a: {run: [echo], needs: [b]}\nb: {run: [echo], needs: [a]}", "w.yaml:4:28", "steps form a cycle", "a → b → a"),
    invalid("a walltime", "a: {run: [echo], resources: {walltime: 20 parsecs}}", "w.yaml:3:42", "'20 parsecs' is not a duration",
            "write 90s, 20m, 4h"),
    invalid("a walltime of ages", "a: {run: [echo], resources: {walltime: 99999999h}}", "w.yaml:3:42", "'99999999h' is too long", "1000 years are the most"),
    invalid("a size", "a: {run: [echo], resources: {memory: 2 gigs}}", "w.yaml:3:40", "'2 gigs' is not a size", "write 512MiB, 2GiB"),
    invalid("ranks in words", "a: {run: [echo], resources: {ranks: two}}", "w.yaml:3:39", "not the string 'two'", "a positive integer"),
    invalid("a key cut short", "a: {run: [echo], resources: {gpus: 2}}", "w.yaml:3:32", "unknown key 'gpus'", "gpus_per_rank"),
    invalid("an expression without quotes", "a: {run: [echo, ${{ params.x }}]}", "w.yaml:4:19", "must be quoted",
            'write "${{ params.x }}"', "params: {x: 1}\n"),
    invalid("an expression in a script", "a:\n  run: echo ${{ params.x }}", "w.yaml:5:", "expressions are not replaced",
            'write "$DLFLOW_PARAM_X"', "params: {x: 1}\n"),
    invalid("an expression without its end", 'a: {run: [echo, "${{ params.x "]}', "w.yaml:4:20", "without its '}}'", "write ${{ NAME }}",
            "params: {x: 1}\n"),
    invalid("an output that nobody declares", 'a: {run: [echo, "${{ steps.b.outputs.y }}"]}\nb: {run: [echo], outputs: {x: x}}',
            "w.yaml:3:24", "step 'b' has no output 'y'", "outputs: {y: FILE}"),
    invalid("an axis that is no list", "a: {run: [echo], matrix: {lr: 0.1}}", "w.yaml:3:33", "not 0.1", "a non-empty list"),
    invalid("an input that is not there", "a: {run: [echo], inputs: [dta.csv]}", "w.yaml:3:29", "there is no file ./dta.csv",
            "did you mean 'data.csv'?", more={"data.csv": "x"}),
    invalid("a layer with other capitals", TRAIN, "m.yaml:3:5", "unknown layer 'ReLU'", "did you mean 'relu'?",
            more={"m.yaml": MODEL + "  - ReLU\n"}),
    invalid("a layer of another library", TRAIN, "m.yaml:3:5", "unknown layer 'dense'", "did you mean 'linear'?", more={"m.yaml": MODEL + "  - dense: 3\n"}),
    invalid("a layer cut short", TRAIN, "m.yaml:3:5", "unknown layer 'conv'", "did you mean 'conv2d'?",
            more={"m.yaml": MODEL + "  - conv: {channels: 8, kernel: 3}\n"}),
    invalid("an optimizer as a word", "a: {uses: train, with: {model: m.yaml, data: d, epochs: 1, lr: 0.1, optimizer: Adam}}", "w.yaml:3:82",
            "must be a mapping, not the string 'Adam'", "write {kind: adam}"),
    invalid("retry as a number", "a: {run: [echo], retry: 3}", "w.yaml:3:27", "must be a mapping, not 3", "write {attempts: 3}"),
    invalid("env as a list", "a: {run: [echo], env: [A=1]}", "w.yaml:3:25", "must be a mapping, not a list", "write {NAME: …}"),
    invalid("a gate without a comparison", "a: {run: [echo], require: {accuracy: 0.9}}", "w.yaml:3:40", "must be a comparison", "write '>= 0.88'"),
    invalid("an image that is not declared", "a: {run: [echo], image: pytorch}", "w.yaml:3:27", "unknown image 'pytorch'",
            "images: {pytorch: {from: …}}"),
    invalid("a source that is no URL", "a: {uses: stage, with: {sources: [{url: /etc/passwd}]}}", "w.yaml:3:43", "'/etc/passwd' is not a URL",
            "write file:///…"),
    invalid("a hash that is none", "a: {uses: stage, with: {sources: [{url: 'file:///x', sha256: abc}]}}", "w.yaml:3:", "'abc' is not a SHA-256",
            "write the 64 digits that sha256sum prints"),
    Mistake("a secret without a value", ("run", "w.yaml"), "w.yaml:3:29", "which has no value", "`export TOKEN=…`",
            steps("a: {run: [echo], secrets: [TOKEN]}")),
    Mistake("more memory than there is", ("run", "w.yaml"), "w.yaml:3:31", "asks for 4.0 TiB", "ask for less `memory`",
            steps("a: {run: [echo], resources: {memory: 4TiB}}")),

    # What validate only doubts.
    doubted("braces without a dollar", "a: {run: [echo, '{{ params.x }}']}", "w.yaml:4:", "has {{ params.x }}, which stays as it is", "write ${{ params.x }}",
            "params: {x: 1}\n"),
    doubted("braces in a script", "a: {run: 'echo {{ x }}'}", "w.yaml:4:", "has {{ x }}, which stays as it is", 'write "$DLFLOW_PARAM_X"', "params: {x: 1}\n"),
    doubted("a variable in a list", "a: {run: [echo, $lr]}", "w.yaml:4:", "has $lr in a list, which no shell reads", 'write "${{ params.lr }}"', "params: {lr: 1}\n"),
    doubted("a parameter's variable with a typo", "a: {run: 'echo $DLFLOW_PARAM_LRR $DLFLOW_PARAM_LR'}", "w.yaml:4:",
            "reads $DLFLOW_PARAM_LRR, but there is no such parameter", "did you mean 'DLFLOW_PARAM_LR'?", "params: {lr: 1}\n"),
    doubted("a program that is not there", "a: {run: [python3, fti.py]}", "w.yaml:3:", "runs fti.py, and there is no such file", "did you mean 'fit.py'?",
            more={"fit.py": ""}),
    doubted("a step that is needed twice", "a: {run: [echo]}\nb: {run: [echo], needs: [a, a]}", "w.yaml:4:", "names a twice in `needs`", "leave one out"),
    doubted("a parameter that nothing reads", "a: {run: [echo]}", "w.yaml:2:10", "no step reads parameter 'x'", "${{ params.x }}", "params: {x: 1}\n"),

    # Commands that fail.
    fails("a package that the step's Python has not", "a: {run: [python3, -c, 'import dlflow']}", "No module named 'dlflow'", "`pip install dlflow-*.whl`"),
    fails("a script that is no input", "a: {run: 'python3 k.py'}", "names k.py, which is not in its inputs", "write inputs: [k.py]",
          {"k.py": "print(1)\n"}, "w.yaml:3:"),
    fails("a module that is no input", "a: {run: [python3, k.py], inputs: [k.py]}", "runs k.py, which reads model.py, which is not in its inputs",
          "write inputs: [model.py]", {"k.py": "import model\n", "model.py": ""}, "w.yaml:3:"),
    fails("a metric that is a string", """a: {run: 'echo "{\\"accuracy\\": \\"0.9\\"}" > $DLFLOW_SUMMARY', require: {accuracy: ">= 0.8"}}""",
          "is no number but the string '0.9'", '{"accuracy":0.9}'),
    fails("a metric of another name", """a: {run: 'echo "{\\"acc\\": 0.9}" > $DLFLOW_SUMMARY', require: {accuracy: ">= 0.8"}}""",
          "no metric 'accuracy'", "the step reported acc"),
    fails("a metric that another step reads", """a: {run: echo}\nb: {run: [echo, '${{ steps.a.metrics.loss }}']}""",
          "no metric 'loss', which step 'b' reads", 'write it into the file $DLFLOW_SUMMARY: {"loss":0.9}'),
    fails("a summary that is no JSON", """a: {run: 'echo "accuracy 0.9" > $DLFLOW_SUMMARY', require: {accuracy: ">= 0.8"}}""",
          "is no JSON object, it begins 'accuracy 0.9'", 'write one like {"accuracy": 0.9}'),
    fails("a script that is not executable", "a: {run: [./go.sh], inputs: [go.sh]}", "it is not executable", "`chmod +x ./go.sh`",
          {"go.sh": "#!/bin/sh\necho\n"}),
    fails("a command with a typo", "a: {run: [pyhton3, -c, 'print(1)']}", "pyhton3", "dlflow run w.yaml"),
    fails("a mistake in a command", "a: {run: 'exit 3'}", "exit 3", "dlflow run w.yaml"),

    # Options of training.
    invalid("a key of earlier versions", TRAIN_SOME % "cache: {memory: 4GiB}", "w.yaml:3:72", "unknown key 'cache'",
            "leave it out, or write 'scratch: true'", more={"m.yaml": CONV}),
    invalid("a frozen layer with a typo", TRAIN_SOME % "freeze: ['cnv*']", "w.yaml:3:80", "'cnv*', which fits no layer with weights",
            "did you mean 'conv*'?", more={"m.yaml": CONV}),
    invalid("a group of parameters with a typo", TRAIN_SOME % "groups: [{match: 'linaer1.*', lr_multiplier: 2}]", "w.yaml:3:80",
            "'linaer1.*', which fits no parameter", "did you mean 'linear1.*'?", more={"m.yaml": CONV}),
    invalid("a best epoch by a metric that the network has not", TRAIN_SOME % "keep_best: iou", "w.yaml:3:83", "'keep_best' is 'iou', which model 'm' is not measured by",
            "there are loss, accuracy, f1, top5, auc", more={"m.yaml": CONV}),
    invalid("an early stop by one", TRAIN_SOME % "stop_early: {metric: rmse, patience: 2}", "w.yaml:3:84", "'stop_early.metric' is 'rmse', which model 'm' is not measured by",
            "there are loss, accuracy, f1, top5, auc", more={"m.yaml": CONV}),
    invalid("class weights of other classes", TRAIN_SOME % "class_weights: [1, 2]", "w.yaml:3:87", "'class_weights' has 2 numbers for the 10 classes of model 'm'",
            "", more={"m.yaml": CONV}),
    invalid("smooth labels where there are none", TRAIN_SOME % "label_smoothing: 0.1", "w.yaml:3:89", "the loss of model 'm' has none to spread",
            "leave it out", more={"m.yaml": CONV + "loss: mse\n"}),
    invalid("tf32 without a GPU", TRAIN_SOME % "precision: {compute: tf32}", "w.yaml:3:83", "'precision.compute' is 'tf32', which GPUs alone have",
            "write 'device: cuda' with it", more={"m.yaml": CONV}),
    invalid("exact sums on GPUs", "a: {uses: train, resources: {gpus_per_rank: 1}, with: {model: m.yaml, data: /d, epochs: 1, lr: 0.1, device: cuda}}", "w.yaml:3:111",
            "'device: cuda' adds gradients in NCCL's order", "write 'precision: {reduction: fast}' with it", more={"m.yaml": CONV}),
    invalid("exact sums of compressed gradients", TRAIN_SOME % "gradients: {compression: topk}", "w.yaml:3:83", "'gradients.compression' needs",
            "'precision: {reduction: fast}'", more={"m.yaml": CONV}),
    invalid("an option of another optimizer", TRAIN_SOME % "optimizer: {kind: adam}, momentum: 0.5", "w.yaml:3:107", "'momentum' is not an option of 'adam'",
            "which has 'betas'", more={"m.yaml": CONV}),
    invalid("a gate on a metric that the network has not", TRAINED % "b: {uses: evaluate, with: {checkpoint: %s, data: /d}, require: {loss: '< 1', iou: '> 0.5'}}" % MODEL_OF_A,
            "w.yaml:5:113", "'require' names 'iou', which model 'm' is not measured by", "there are loss, accuracy, f1, top5, auc", "params: {m: m.yaml}\n", {"m.yaml": CONV}),
    invalid("a gate of training on one", TRAIN_SOME % "batch: 8" + "\n" + "b: {uses: train, with: {model: m.yaml, data: /d, epochs: 1, lr: 0.1}, require: {perplexity: '< 9'}}",
            "w.yaml:4:95", "'require' names 'perplexity', which model 'm'", "there are loss, accuracy, f1, top5, auc", more={"m.yaml": CONV}),
    invalid("a gate with a typo", TRAINED % "b: {uses: evaluate, with: {checkpoint: %s, data: /d}, require: {acuracy: '> 0.5'}}" % MODEL_OF_A,
            "w.yaml:5:104", "'require' names 'acuracy'", "did you mean 'accuracy'?", "params: {m: m.yaml}\n", {"m.yaml": CONV}),
    invalid("a checkpoint selected by a metric that the network has not", TRAINED % "b: {uses: checkpoint, with: {from: %s, select: min rmse}}" % MODEL_OF_A,
            "w.yaml:5:78", "'select' names 'rmse', which model 'm' is not measured by", "there are loss, accuracy, f1, top5, auc", "params: {m: m.yaml}\n", {"m.yaml": CONV}),
    fails("a script with an exception", "a: {run: [python3, k.py], inputs: [k.py]}", "KeyError: 'lr'", "dlflow resubmit w-RUN --with-new-sources",
          {"k.py": "def load(d):\n    return d['lr']\nload({})\n"}, "(k.py:2)"),

    # Workflow files: YAML itself.
    raw("a file of comments", "# later\n", "w.yaml:1:1", "the file is empty", "or has nothing but comments"),
    raw("a workflow that is a list", "- a\n- b\n", "w.yaml:1:1", "a workflow is a mapping", "with the keys name, params, images, steps"),
    raw("steps under the name of another tool", "name: w\njobs:\n  a: {run: [echo]}\n", "w.yaml:2:1", "unknown key 'jobs'", "did you mean 'steps'?"),
    raw("a step that is there twice", "name: w\nsteps:\n  a: {run: [echo]}\n  a: {run: [ls]}\n", "w.yaml:4:3", "a second step is called 'a'",
        "the first one is in line 3"),
    raw("no space after a colon", "name: w\nsteps:\n  a: {run:[echo]}\n", "w.yaml:3:11", "expected ',' or '}'", "write a space after each ':'"),
    raw("a bracket that another closes", "name: w\nsteps:\n  a: {run: [echo}\n", "w.yaml:3:17", "does not close the last one", "close each [ by ]"),
    raw("a key without its colon", "name: w\nsteps:\n  a\n    run: [echo]\n", "w.yaml:4:8", "unexpected ':'", "check the indentation"),
    raw("a colon in plain text", "name: w\nsteps:\n  a:\n    run: echo loss: 3\n", "w.yaml:4:19", "unexpected ':'", "quote text that contains ': '"),
    raw("a comparison without quotes", "name: w\nsteps:\n  a:\n    run: [echo]\n    require:\n      loss: > 0.9\n", "w.yaml:6:15", "begins with > or |",
        "write '>= 0.9'"),
    raw("text that begins with %", "name: w\nsteps:\n  a: {run: [date, %s]}\n", "w.yaml:3:19", "text cannot begin with this character", "quote it"),
    raw("an alias of nothing", "name: w\nsteps:\n  a: *base\n", "w.yaml:3:6", "no value above has this name", "write &NAME before the value"),
    raw("two documents", "name: w\nsteps:\n  a: {run: [echo]}\n---\nname: v\n", "w.yaml:4:1", "a second YAML document", "a file holds one"),
    raw("an editor's old encoding", b"name: w\nsteps:\n  a: {run: [echo, 'M\xfcller']}\n", "w.yaml:3:21", "byte 0xfc is not UTF-8", "save the file as UTF-8"),
    raw("a name with spaces", "name: my workflow\nsteps:\n  a: {run: [echo]}\n", "w.yaml:1:7", "'my workflow' is not a name", "write letters, digits, - and _"),

    # Steps: keys and types.
    invalid("a script under the name of another tool", "a: {shell: echo hi}", "w.yaml:3:7", "unknown key 'shell'", "did you mean 'run'?"),
    invalid("a resource outside of resources", "a: {run: [echo], walltime: 3h}", "w.yaml:3:20", "unknown key 'walltime'", "write resources: {walltime: …}"),
    invalid("a time limit of another tool", "a: {run: [echo], timeout: 3h}", "w.yaml:3:20", "unknown key 'timeout'", "write resources: {walltime: …}"),
    invalid("uses and run", "a: {run: [echo], uses: stage}", "w.yaml:3:7", "both uses and run", "remove one"),
    invalid("a step that is text", "a: echo hi", "w.yaml:3:6", "step 'a' must be a mapping", "with uses: or run:"),
    invalid("an empty command", "a: {run: ''}", "w.yaml:3:12", "run of step 'a' is empty", "write a command"),
    invalid("a list of lists", "a: {run: [[echo, a], [echo, b]]}", "w.yaml:3:13", "run[0] of step 'a'", "must be a string, a number"),
    invalid("a key without a value", "a: {run: [echo], env: {A: }}", "w.yaml:3:29", "but it has no value", "must be a string, a number"),
    invalid("yes for true", "a: {run: [echo], allow_failure: yes}", "w.yaml:3:35", "not the string 'yes'", "write true"),
    invalid("1 for true", "a: {run: [echo], resources: {exclusive: 1}}", "w.yaml:3:43", "not 1", "write true"),
    invalid("one word for a list", "a: {run: [echo], inputs: data/x.csv}", "w.yaml:3:28", "must be a list, not the string", "write [data/x.csv]"),
    invalid("a step that needs itself", "a: {run: [echo], needs: [a]}", "w.yaml:3:28", "step 'a'", "needs itself"),
    invalid("a variable that dlflow sets", "a: {run: [echo], env: {DLFLOW_RANK: 1}}", "w.yaml:3:26", "'DLFLOW_RANK' in env", "use another"),
    invalid("a variable that no shell has", "a: {run: [echo], env: {A-B: 1}}", "w.yaml:3:26", "'A-B' in env", "use letters, digits and _"),
    invalid("a secret that is in env", "a: {run: [echo], env: {T: 1}, secrets: [T]}", "w.yaml:3:43", "T is in env, too", "remove it there"),
    invalid("an input by its absolute path", "a: {run: [echo], inputs: [/etc/passwd]}", "w.yaml:3:29", "'/etc/passwd' is not a relative path",
            "write {path: /etc/passwd}"),
    invalid("an input beside the workflow's folder", "a: {run: [echo], inputs: [../k.py]}", "w.yaml:3:29", "'../k.py' is not a relative path",
            "put it beside the workflow"),
    invalid("data by a relative path", "a: {run: [echo], inputs: [{path: data}]}", "w.yaml:3:36", "'data' is not an absolute path", "inputs: [train.py]"),
    invalid("an output by its absolute path", "a: {run: [echo], outputs: {x: /tmp/x}}", "w.yaml:3:33", "'/tmp/x' is not a relative path", "results/model.pt"),
    invalid("outputs as a list", "a: {run: [echo], outputs: [x.csv]}", "w.yaml:3:29", "must be a mapping, not a list", "write {NAME: …}"),
    invalid("outputs of a kind", "a: {uses: evaluate, outputs: {x: x}, with: {checkpoint: c, data: d}}", "w.yaml:3:23", "outputs of step 'a'", "belongs to run"),
    invalid("a variable of dlflow's environment key", "a: {run: [echo], environment: {OMP_NUM_THREADS: 1}}", "w.yaml:3:34", "unknown key 'OMP_NUM_THREADS'",
            "variables of the program are set by 'env'"),
    invalid("two environments of packages", "a: {run: [echo], environment: {venv: v, conda: c}}", "w.yaml:3:33", "has both venv and conda", "choose one"),

    # Expressions and parameters.
    invalid("Python's and", 'a: {run: [echo], if: "${{ params.x == 1 and true }}"}', "w.yaml:4:", "unexpected 'and'", "write &&", X),
    invalid("an index", 'a: {run: [echo, "${{ params.x[0] }}"]}', "w.yaml:4:", "unexpected '['", "at(LIST, 0)", X),
    invalid("a bracket that stays open", 'a: {run: [echo, "${{ max(params.x }}"]}', "w.yaml:4:", "unexpected '}}'", "a ')' is missing", X),
    invalid("one = sign", 'a: {run: [echo], if: "${{ params.x = 1 }}"}', "w.yaml:4:", "unexpected '='", "equality is written ==", X),
    invalid("an unknown function", 'a: {run: [echo, "${{ sum(params.x) }}"]}', "w.yaml:4:24", "unknown function 'sum'", "min, max, min_by", X),
    invalid("text and a number", 'a: {run: [echo, "${{ params.x + \'a\' }}"]}', "w.yaml:4:19", "'+' takes two numbers", "not 1 and the string 'a'", X),
    invalid("a parameter without its scope", 'a: {run: [echo, "${{ x }}"]}', "w.yaml:4:24", "unknown name 'x'", "names begin with params.", X),
    invalid("a secret in an expression", 'a: {run: [echo, "${{ secrets.T }}"], secrets: [T]}', "w.yaml:3:24", "unknown name 'secrets'", "as $T"),
    invalid("an output without outputs", 'b: {run: [echo], outputs: {m: m}}\na: {run: [echo, "${{ steps.b.m }}"]}', "w.yaml:4:32", "unknown name 'm' in steps.b.m",
            "known: outputs, metrics, matrix"),
    invalid("an output in resources", 'b: {run: [echo], outputs: {n: n}}\na: {run: [echo], resources: {ranks: "${{ steps.b.outputs.n }}"}}', "w.yaml:4:44",
            "has no value yet in resources.ranks", "use params. and matrix. alone"),
    invalid("an output of its own", 'a: {run: [echo, "${{ steps.a.outputs.x }}"], outputs: {x: x}}', "w.yaml:3:24", "step 'a' refers to itself", "steps.a.outputs.x"),
    invalid("a condition without its braces", "a: {run: [echo], if: always()}", "w.yaml:3:24", "not the string 'always()'", 'write "${{ always() }}"'),
    invalid("a parameter by itself", "a: {run: [echo]}", "w.yaml:2:18", "params.x is not known yet", "may use those above it", 'params: {x: "${{ params.x }}"}\n'),
    invalid("parameters as a list", "a: {run: [echo]}", "w.yaml:2:9", "params must be a mapping", "write {NAME: …}", "params: [x]\n"),
    typed("a value of --set with an open bracket", ["validate", "w.yaml", "--set", "lr=[1,2"], "--set", "'lr=[1,2'", "a bracket is never closed", ONE),
    typed("--set without parameters", ["run", "w.yaml", "--set", "epochs=3"], "--set", "the workflow has no params", "params: {epochs: …}",
          steps("a: {run: [echo]}")),

    # The matrix.
    invalid("an axis of another step", 'a: {run: [echo, "${{ matrix.lr }}"]}', "w.yaml:3:24", "the step has no matrix", "write matrix: {lr: [VALUE, …]}"),
    invalid("an axis with a typo", 'a: {run: [echo, "${{ matrix.rl }}"], matrix: {lr: [1]}}', "w.yaml:3:24", "no axis 'rl'", "did you mean 'lr'?"),
    invalid("an option of the matrix with a typo", "a: {run: [echo], matrix: {c: [1], max-parallel: 2}}", "w.yaml:3:37", "unknown key 'max-parallel'",
            "did you mean 'max_parallel'?"),
    invalid("a range without its braces", "a: {run: [echo], matrix: {x: 'range(1, 5)'}}", "w.yaml:3:32", "not the string 'range(1, 5)'",
            'write "${{ range(1, 5) }}"'),
    invalid("a value that is there twice", "a: {run: [echo], matrix: {x: [1, 1.0]}}", "w.yaml:3:36", "holds 1.0 twice", "remove one, or write repeat: N"),
    invalid("a range without an end", "a: {run: [echo], matrix: {x: '${{ range(1, 5, 0) }}'}}", "w.yaml:3:32", "never gets from 1 to 5", "in steps of 0"),
    invalid("axes of other lengths", "a: {run: [echo], matrix: {x: [1, 2], y: [1], zip: [x, y]}}", "w.yaml:3:", "'x' has 2, 'y' has 1", "must have the same number of values"),
    invalid("an exclusion of nothing", "a: {run: [echo], matrix: {x: [1], exclude: [{x: 2}]}}", "w.yaml:3:47", "axis 'x' does not have the value 2", "remove this entry"),
    invalid("an exclusion of all", "a: {run: [echo], matrix: {x: [1], exclude: [{x: 1}]}}", "w.yaml:3:28", "exclude leaves no element", "remove one of its entries"),
    invalid("an element without an axis", "a: {run: [echo], matrix: {x: [1], y: [2], include: [{x: 3}]}}", "w.yaml:3:55", "no value for axis 'y'", "write y: VALUE"),
    invalid("a matrix of millions", "a: {run: [echo], matrix: {x: '${{ range(1, 2000, 1) }}', y: '${{ range(1, 2000, 1) }}'}}", "w.yaml:3:28", "has 4,000,000 elements",
            "a workflow may have 1,000,000"),
    doubted("an axis that nothing reads", "a: {uses: train, matrix: {lr: [0.1, 0.2]}, with: {model: m.yaml, data: /d, epochs: 1, lr: 0.1}}", "w.yaml:3:28",
            "does the same for each value of axis 'lr'", "write ${{ matrix.lr }} in `with`", more={"m.yaml": CONV}),
    doubted("repetitions with one seed", "a: {uses: train, repeat: 3, with: {model: m.yaml, data: /d, epochs: 1, lr: 0.1, seed: 1}}", "w.yaml:3:28",
            "has one seed for all repetitions", "leave with.seed out", more={"m.yaml": CONV}),

    # Resources, retries, checkpoints.
    invalid("a walltime without a unit", "a: {run: [echo], resources: {walltime: 3600}}", "w.yaml:3:42", "must be a duration, not 3600", "write a unit: 3600s"),
    invalid("a walltime of two meanings", "a: {run: [echo], resources: {walltime: '1:30'}}", "w.yaml:3:42", "it could be minutes or hours", "write 1m30s or 1h30m"),
    invalid("memory without a unit", "a: {run: [echo], resources: {memory: 16}}", "w.yaml:3:40", "that is 16 B", "write a unit: 16MiB"),
    invalid("memory in two ways", "a: {run: [echo], resources: {memory: 1GiB, memory_per_rank: 1GiB}}", "w.yaml:3:31", "cannot stand together", "remove one"),
    invalid("memory of GPUs without any", "a: {run: [echo], resources: {memory_per_gpu: 1GiB}}", "w.yaml:3:31", "needs gpus_per_rank", "write memory or memory_per_rank"),
    invalid("more nodes than ranks", "a: {run: [echo], resources: {ranks: 2, nodes: 4}}", "w.yaml:3:31", "leave nodes without a rank", "ask for fewer nodes"),
    invalid("a cause of retries that is none", "a: {run: [echo], retry: {attempts: 3, on: [oom]}}", "w.yaml:3:46", "not the string 'oom'", "out-of-memory"),
    invalid("a retry of exit status 75", "a: {run: [echo], retry: {attempts: 2, on: [75]}}", "w.yaml:3:27", "exit status 75", "leave it out"),
    invalid("a checkpoint every number", "a: {run: [echo], checkpoint: {every: 1}}", "w.yaml:3:40", "not 1", "write 1 epoch, 200 steps or 30m"),
    invalid("a signal that no program can handle", "a: {run: [echo], checkpoint: {signal: SIGKILL}}", "w.yaml:3:41", "'SIGKILL' is not one of", "SIGUSR1, SIGTERM"),
    invalid("more time to save than to run", "a: {run: [echo], resources: {walltime: 10m}, checkpoint: {lead: 20m}}", "w.yaml:3:67", "more than half of the walltime",
            "ask for more walltime"),
    Mistake("more cores than there are", ("run", "w.yaml"), "w.yaml:3:31", "asks for 4096 cores", "ask for fewer `cpus_per_rank`",
            steps("a: {run: [echo], resources: {cpus_per_rank: 4096}}")),

    # Images, staging, tracking, messages.
    invalid("an image as a word", "a: {run: [echo], image: p}", "w.yaml:2:13", "not the string 'docker://x'", "write {from: docker://x}", "images: {p: 'docker://x'}\n"),
    invalid("an image without its transport", "a: {run: [echo], image: p}", "w.yaml:2:20", "'pytorch/pytorch' is not an image source", "write docker://NAME",
            "images: {p: {from: pytorch/pytorch}}\n"),
    invalid("an environment in an image", "a: {run: [echo], image: p, environment: {venv: v}}", "w.yaml:4:30", "has no meaning beside image",
            "which brings what is installed", "images: {p: {from: 'docker://x'}}\n"),
    invalid("sources without their list", "a: {uses: stage, with: {url: 'https://x/y'}}", "w.yaml:3:27", "unknown key 'url'", "known: sources"),
    invalid("a branch for a commit", "a: {uses: stage, with: {sources: [{url: 'git+https://x/y', commit: main}]}}", "w.yaml:3:70", "'main' is not a commit",
            "that git ls-remote prints"),
    invalid("two files of one name", "a: {uses: stage, with: {sources: [{url: 'https://x/y'}, {url: 'https://z/y'}]}}", "w.yaml:3:36", "another source is called 'y'",
            "give one of them a name:"),
    invalid("a hash of a folder", "a: {uses: stage, with: {sources: [{url: 'file:///etc/', sha256: '%s'}]}}" % ("0" * 64), "w.yaml:3:36", "is for one file",
            "in a manifest:"),
    invalid("a repository without a file", "a: {uses: stage, with: {sources: [{url: 'hf://glue'}]}}", "w.yaml:3:36", "names a repository and a file in it",
            "hf://datasets/OWNER/NAME/FILE"),
    invalid("results sent to a web server", "a: {uses: stage-out, with: {from: x, to: 'https://x'}}", "w.yaml:3:44", "is not a URL to send files to", "write file:///FOLDER/"),
    doubted("a file to stage that is not there", "a: {uses: stage, with: {sources: [{url: 'file:///nowhere/x'}]}}", "w.yaml:3:36", "there is no /nowhere/x",
            "correct the URL"),
    doubted("an environment that is not there", "a: {run: [echo], environment: {venv: .venv}}", "w.yaml:3:33", "/.venv for 'venv'", "it must be there before the step runs"),
    invalid("a tracker with three slashes", "a: {run: [echo]}", "w.yaml:2:17", "is not the address of an MLflow store", "write sqlite:////home/me/mlflow.db",
            "track: {mlflow: 'sqlite:///mlflow.db'}\n"),
    invalid("a hook by its address", "a: {run: [echo]}", "w.yaml:2:19", "is not the name of a secret", "`export API_KEY=…`",
            "notify: {webhook: 'https://hooks.example.org/x'}\n"),
    invalid("a message to nobody", "a: {run: [echo]}", "w.yaml:2:9", "notify tells nobody", "add command:, mail: or webhook:", "notify: {on: [end]}\n"),

    # Training: options.
    invalid("an option of another library", TRAIN_SOME % "batch_size: 8", "w.yaml:3:72", "unknown key 'batch_size'", "did you mean 'batch'?", more={"m.yaml": CONV}),
    invalid("an option that is missing", "a: {uses: train, with: {model: m.yaml, data: /d, epochs: 1}}", "w.yaml:3:26", "missing key 'lr'", "it is a positive number",
            more={"m.yaml": CONV}),
    invalid("a device of another library", TRAIN_SOME % "device: gpu", "w.yaml:3:80", "'gpu' is not one of cpu, cuda", "write cuda", more={"m.yaml": CONV}),
    invalid("a GPU without resources", TRAIN_SOME % "device: cuda, precision: {reduction: fast}", "w.yaml:3:80", "device of step 'a' is cuda",
            "resources: {gpus_per_rank: 1}", more={"m.yaml": CONV}),
    invalid("a number in quotes", TRAIN_SOME % "ema: '0.5'", "w.yaml:3:77", "not the string '0.5'", "remove the quotes", more={"m.yaml": CONV}),
    invalid("a share for a number of samples", TRAIN_SOME % "validation: 0.1", "w.yaml:3:84", "not 0.1", "must be an integer", more={"m.yaml": CONV}),
    invalid("no held-out samples to stop by", TRAIN_SOME % "validation: 0, stop_early: {metric: loss, patience: 2}", "w.yaml:3:84", "needs samples that are held out",
            "give 'validation' a number above 0", more={"m.yaml": CONV}),
    invalid("two sizes of a batch", TRAIN_SOME % "batch: 8, batch_per_rank: 8", "w.yaml:3:82", "cannot stand beside batch", "remove one", more={"m.yaml": CONV}),
    invalid("a longer warm-up than training", TRAIN_SOME % "warmup_epochs: 10", "w.yaml:3:87", "'warmup_epochs' must be at most", "'epochs', 1", more={"m.yaml": CONV}),
    invalid("a selection without a direction", "a: {uses: checkpoint, with: {from: c, select: accuracy}}", "w.yaml:3:49", "'accuracy' is not a selection",
            "write max accuracy, min loss or latest"),

    # Model files.
    invalid("a model that is a program", TRAIN_SOME.replace("m.yaml", "net.py") % "batch: 8", "net.py:1:1", "a model is a YAML mapping", "`dlflow model import`",
            more={"net.py": "import torch\n"}),
    invalid("a model that is a workflow", TRAIN_SOME.replace("m.yaml", "w.yaml") % "batch: 8", "w.yaml:2:1", "unknown key 'steps' in a model", "a model needs 'layers'"),
    invalid("an argument of another library", TRAIN, "m.yaml:3:14", "unknown key 'kernel_size'", "known: channels, kernel",
            more={"m.yaml": MODEL + "  - conv2d: {kernel_size: 3}\n"}),
    invalid("a layer that takes no arguments", TRAIN, "m.yaml:3:12", "unknown key 'inplace' in 'relu'", "known: name, from", more={"m.yaml": MODEL + "  - relu: {inplace: true}\n"}),
    invalid("a number for a layer's arguments", TRAIN, "m.yaml:4:13", "the attributes of 'linear' must be a mapping", "write linear: {KEY: VALUE}",
            more={"m.yaml": MODEL + "  - flatten\n  - linear: 10\n"}),
    invalid("a map for a linear layer", TRAIN, "m.yaml:6:5", "linear needs (B,F), but gets (B,8,26,26)", "put 'flatten'",
            more={"m.yaml": CONV.replace("  - flatten\n", "  - relu\n")}),
    invalid("a kernel that does not fit", TRAIN, "m.yaml:4:5", "kernel 31", "does not fit into (B,1,28,28)", more={"m.yaml": CONV.replace("kernel: 3", "kernel: 31")}),
    invalid("a network without scores", TRAIN, "m.yaml:4:5", "must give one score per class", "gives (B,8,26,26)",
            more={"m.yaml": "name: m\n" + MODEL + "  - conv2d: {channels: 8, kernel: 3}\n"}),
    doubted("softmax before a loss that has it", TRAIN.replace("data: d", "data: /d"), "w.yaml:3:34", "both apply softmax", "leave the layer out",
            more={"m.yaml": CONV + "  - softmax\n"}),

    # Commands that fail, or would.
    doubted("a command line as one word", "a: {run: ['python3 k.py']}", "w.yaml:3:12", "a program that is called 'python3 k.py'", "write run: [python3, k.py]"),
    doubted("a pipe in a list", "a: {run: [ls, '|', wc]}", "w.yaml:3:12", "has '|' in a list, which no shell reads", "run: '…'"),
    doubted("the head of a batch script", "a:\n  run: |\n    #SBATCH -n 4\n    echo", "w.yaml:4:10", "has #SBATCH lines, which nothing reads", "write resources: {…}"),
    doubted("a program in the background", "a: {run: 'python3 -V &'}", "w.yaml:3:12", "does not wait for its program", "leave & out"),
    doubted("a launcher on each rank", "a: {run: 'mpirun -n 4 date', resources: {ranks: 4}}", "w.yaml:3:12", "starts mpirun on each of its ranks", "leave mpirun out"),
    doubted("GPUs for training on CPUs", "a: {uses: train, resources: {gpus_per_rank: 1}, with: {model: m.yaml, data: /d, epochs: 1, lr: 0.1}}", "w.yaml:3:31",
            "asks for GPUs and computes on CPUs", "write device: cuda", more={"m.yaml": CONV}),
    fails("an output that is not written", "a: {run: [echo], outputs: {m: model.pt}}", "output 'm' is missing", "$DLFLOW_OUTPUTS nor in the working directory"),
    fails("an output in another folder", "a: {run: 'mkdir o && touch o/model.pt', outputs: {m: model.pt}}", "output 'm' is missing", "o/model.pt"),
    fails("an output that is two files", "a: {run: 'touch a.pt b.pt', outputs: {m: '*.pt'}}", "*.pt matches 2: a.pt, b.pt", "name one of them"),
    fails("Windows' line ends", "a: {run: 'chmod +x go.sh && ./go.sh', inputs: [go.sh]}", "required file not found", r"sed -i 's/\r$//' FILE",
          {"go.sh": "#!/bin/sh\r\necho\r\n"}),
    fails("a package that is not installed", "a: {run: [python3, k.py], inputs: [k.py]}", "No module named 'torchvisionx'", "install it in the step's Python",
          {"k.py": "import torchvisionx\n"}, "(k.py:1)"),
    fails("a program that is not loaded", "a: {run: 'module load cuda'}", "module: command not found", "environment: {modules: [NAME]}"),
    fails("a full quota", "a: {run: [python3, k.py], inputs: [k.py]}", "Disk quota exceeded", "write to another file system",
          {"k.py": "raise OSError(122, 'Disk quota exceeded', '/scratch/x')\n"}, "(k.py:1)"),
    fails("a GPU that is too small", "a: {run: [python3, k.py], inputs: [k.py]}", "CUDA out of memory", "take a smaller batch",
          {"k.py": "raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')\n"}, "(k.py:1)"),
    fails("a walltime that is too short", "a: {run: 'sleep 20', resources: {walltime: 1s}}", "walltime of 0:01 reached", "--set walltime=1m", place="a timed-out"),
    fails("an option that the program has not", "a: {run: [python3, k.py, --epoch, '3'], inputs: [k.py]}", "unrecognized arguments: --epoch 3", "--with-new-sources",
          {"k.py": "import argparse\nargparse.ArgumentParser().parse_args()\n"}),
    fails("run me again without a checkpoint", "a: {run: 'exit 75'}", "no progress since the last checkpoint", "dlflow run w.yaml"),
    fails("a crash", "a: {run: 'kill -SEGV $$'}", "Segmentation fault", "dlflow logs w-RUN a"),
    fails("a file with another hash", "a: {uses: stage, with: {sources: [{url: 'file:///etc/passwd', sha256: '%s'}]}}" % ("0" * 64), "is not what the workflow declares",
          "declare its hash"),

    # The command line again.
    typed("a folder for a workflow", ["run", "x"], "x", "is a folder", "known: x/w.yaml", {"x/w.yaml": "name: w\n"}),
    typed("a batch script for a workflow", ["run", "x.sbatch"], "x.sbatch", "is a program, no workflow", "`dlflow init x.sbatch`", {"x.sbatch": "#!/bin/bash\n#SBATCH -n 4\n"}),
    typed("a parameter as an option", ["run", "w.yaml", "--epochs=3"], "`dlflow run`", "has no option --epochs", "did you mean '--set epochs=3'?", ONE),
    typed("an option of another tool", ["run", "w.yaml", "--cluster", "alpha"], "`dlflow run`", "has no option --cluster", "did you mean '--profile'?", ONE),
    typed("a step that is not there", ["run", "w.yaml", "--force", "train"], "w.yaml", "has no step 'train'", "known: a", ONE),
    typed("--resume with another plan", ["run", "--resume", "w", "--set", "lr=3"], "--set", "does not go with --resume RUN", "leave one of them out"),
    typed("a dry run of a run", ["run", "--resume", "w", "--dry-run"], "--resume", "does not go with --dry-run", "leave one of them out"),
    typed("a number that is too small", ["status", "--last", "0"], "--last", "'0' is too small or too large", "Try `dlflow status --help`."),
    typed("a number below zero", ["rm", "--keep", "-1"], "--keep", "'-1' is too small or too large", "Try `dlflow rm --help`."),
    typed("a page in a folder that is not there", ["report", "w", "-o", "out/x.html"], "cannot write into out", "there is no such folder", "`mkdir -p out`", ONE, before=RUN),
    typed("a job that is not there", ["logs", "w", "train"], "w-RUN", "has no job 'train'", "known: a", ONE, before=RUN),
    typed("a workflow for a run", ["resubmit", "w.yaml"], "'w.yaml'", "there is no run", "did you mean 'w', a run of it?", ONE, before=RUN),
    typed("a part of a run here", ["cancel", "w", "--step", "a"], "error:", "cancelled as a whole", "leave out --step", ONE, before=RUN),
    typed("a resource that is none", ["resubmit", "w", "--set", "lr=3"], "'lr' is a parameter", "the plan of a run is frozen", "`dlflow run w.yaml --set lr=…` is a new run", ONE, before=RUN),
    typed("metrics for no tracker", ["sync", "w"], "w-RUN", "has no `track:`", "`track: {tensorboard: true}`", ONE, before=RUN),
    typed("a folder that is there", ["unpack", "w.dlflow"], "/w", "is there already", "choose another folder with -C", ONE, before=(("pack", "w.yaml"), ("unpack", "w.dlflow"))),
    typed("a step without its run", ["pack", "w.yaml", "--step", "a"], "--step", "is for the results of a run", "`--from-run RUN`", ONE),

    # Profiles.
    profile("a batch system without scheduler", "slurm: {partition: gpu}\n", "p.yaml:1:1", "no scheduler", "write scheduler: slurm"),
    profile("a partition outside of slurm", "scheduler: slurm\npartition: gpu\n", "p.yaml:2:1", "unknown key 'partition'", "write slurm: {partition: …}"),
    profile("an account that is a number", "scheduler: slurm\nslurm: {account: 1234}\n", "p.yaml:2:18", "not 1234", "put it in quotes"),
    profile("an option of two words", "scheduler: slurm\nslurm: {options: ['--gres gpu:2']}\n", "p.yaml:2:19", "'--gres gpu:2' is not a free option", "write --gres=gpu:2"),
    profile("options as a word", "scheduler: slurm\nslurm: {options: --exclusive}\n", "p.yaml:2:18", "must be a list", "write [--exclusive]"),
    profile("a launcher as a word", "scheduler: slurm\nlauncher: srun\n", "p.yaml:2:11", "not the string 'srun'", "write {program: srun}"),
    profile("a relative folder to bind", "scheduler: slurm\ncontainer: {runtime: apptainer, binds: [data:/data]}\n", "p.yaml:2:41", "is not a folder to bind",
            "write /data"),
    profile("a variable that is not set", "scheduler: slurm\npaths: {runs: /scratch/$USR/runs}\n", "paths.runs", "names $USR, which is not set", "set it, or write the path"),
    profile("a profile of nothing", "extends: alpha\n", "p.yaml", "there is no such profile", "correct `extends:`"),

    # Data, ONNX files, and training on them.
    data("a table without what to learn", ["t.csv"], "t.csv", "say what is to be learnt", "--target COLUMN"),
    data("a column that is not there", ["t.csv", "--target", "z"], "t.csv", "has no column 'z'", "it has a, b, y"),
    data("an empty cell", ["t.csv", "--target", "y"], "t.csv:3:3", "is empty", "or leave the row out", {"t.csv": "a,b,y\n1,2,3\n4,,6\n"}),
    data("a row that is too long", ["t.csv", "--target", "y"], "t.csv:2:1", "the row has 4 values", "the header 3 columns", {"t.csv": "a,b,y\n1,2,3,4\n"}),
    data("pictures without classes", ["img"], "img", "one for each class", "folders of JPEG, PNG", {"img/1.png": "x"}),
    data("a picture that is none", ["img"], "img/cat/1.png", "is neither a JPEG", "repair them, or take them out", {"img/cat/1.png": "x"}),
    data("another framework's file", ["x.pt"], "x.pt", "is read by Python alone", "np.save('images.npy'", {"x.pt": "PK"}),
    data("a table of another format", ["x.parquet", "--target", "y"], "x.parquet", "is read by Python", "python -m dlflow.convert", {"x.parquet": "PAR1"}),
    data("a share in percent", ["t.csv", "--target", "y", "--test-share", "20"], "--test-share", "'20' is not a share", "write 0.1 for a tenth"),
    data("text that is too short", ["a.txt", "--tokens", "bytes", "--length", "5000"], "error:", "a sample 5,000", "choose a smaller --length", {"a.txt": "hello " * 50}),
    typed("a data set that is not there", ["data", "show", "d"], "d", "no training data", "`dlflow data pack SOURCE -o FOLDER --split train`"),
    typed("a file that is no network", ["model", "import", "x.onnx"], "x.onnx", "is no ONNX file, or is damaged", "torch.onnx.export()", {"x.onnx": "hello"}),
    trained("a network of another width", "batch: 8", "w.yaml:3:48", "model 'm' takes (B,3)", "d has (B,2,1,1)", REGRESSION.replace("[2]", "[3]")),
    trained("classes for targets", "batch: 8", "w.yaml:3:48", "which needs labels, and d has 1 targets", "write 'loss: mse'", REGRESSION.replace("loss: mse\n", "").replace("1}", "2}")),
    trained("more held-out samples than there are", "validation: 40", "w.yaml:3:84", "holds out 40 of 40 samples", "nothing is left to train on", REGRESSION),
    trained("changes of pictures that are none", "augment: [flip]", "a failed", "'augment' changes pictures", "leave it out", REGRESSION, 1),
    trained("weights of another format", "start_from: m.yaml", "m.yaml", "is not a safetensors file", "safetensors.torch.save_file()", REGRESSION, 1),
    trained("a rate that is too large", "batch: 8, epochs: 9, lr: 100000", "a failed", "loss is infinite at step", "a lower lr", REGRESSION, 1),
    trained("a server without workers", "precision: {reduction: fast}, cooperation: {kind: parameter_server}", "a failed", "none is left to train",
            "(resources: ranks)", REGRESSION, 1),
]
