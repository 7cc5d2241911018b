"""The mistakes of mistakes_test.py: what somebody wrote, and the three parts of the answer."""

import dataclasses
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


def typed(name, argv, place, cause, cure, files=None):
    """A mistake in the command line."""
    return Mistake(name, tuple(argv), place, cause, cure, files or {})


ONE = steps("a: {run: [echo]}", "params: {lr: 1}\n")
MODEL = "input: [1, 28, 28]\nlayers:\n"
TRAIN = "a: {uses: train, with: {model: m.yaml, data: d, epochs: 1, lr: 0.1}}"
TRAIN_SOME = "a: {uses: train, with: {model: m.yaml, data: /d, epochs: 1, lr: 0.1, %s}}"
TRAINED = "a: {uses: train, with: {model: '${{ params.m }}', data: /d, epochs: 1, lr: 0.1}}\n%s"
MODEL_OF_A = "'${{ steps.a.outputs.model }}'"
CONV = "name: m\n" + MODEL + "  - conv2d: {channels: 8, kernel: 3}\n  - flatten\n  - linear: {features: 10}\n"

MISTAKES = [
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
]
