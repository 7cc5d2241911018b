#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using test::mistakes_of;

// One kind of mistake each: what a user would write, and every word of the answer.

TEST_CASE("all mistakes are found in one pass, in the order of the file", "[mistakes]") {
  CHECK(
      mistakes_of(R"(name: 1st
steps:
  evaluate:
    uses: evaluate
    neds: [train]
    with: {checkpoint: "${{ steps.trian.outputs.model }}", data: d, batch: many}
  train:
    uses: train
    resources: {walltime: 20 parsecs}
    with: {model: m, data: d, epochs: 0, lr: 0.1}
)") ==
      R"(w.yaml:1:7: error: name: '1st' is not a name; write letters, digits, - and _, with a letter or _ first
w.yaml:5:5: error: unknown key 'neds' in step 'evaluate'; did you mean 'needs'?
w.yaml:6:29: error: unknown step 'trian' in steps.trian.outputs.model; did you mean 'train'?
w.yaml:6:76: error: with.batch of step 'evaluate' must be a positive integer, not the string 'many'
w.yaml:9:27: error: resources.walltime of step 'train': '20 parsecs' is not a duration; write 90s, 20m, 4h or 1-12:00:00
w.yaml:10:39: error: with.epochs of step 'train' must be a positive integer, not 0)");
}

TEST_CASE("unknown keys are answered at every level", "[mistakes]") {
  CHECK(mistakes_of("stpes: {}") ==
        R"(w.yaml:1:1: error: unknown key 'stpes' in the workflow; did you mean 'steps'?
w.yaml:1:1: error: missing key 'steps' in the workflow)");
  CHECK(mistakes_of("steps: {a: {run: x, resources: {gpus: 1}}}") ==
        "w.yaml:1:33: error: unknown key 'gpus' in resources of step 'a'; did you mean "
        "'gpus_per_rank'?");
  CHECK(
      mistakes_of("steps: {a: {uses: stage, with: {sources: [{url: 'file:///x', sha265: y}]}}}") ==
      "w.yaml:1:62: error: unknown key 'sha265' in with.sources[0] of step 'a'; did you mean "
      "'sha256'?");
}

TEST_CASE("a wrong type is named, and the wanted one", "[mistakes]") {
  const auto train = [](const std::string& with) {
    return mistakes_of("steps: {t: {uses: train, with: {model: m, data: d, epochs: 1, lr: 1,\n" +
                       with + "}}}");
  };
  CHECK(train("momentum: [1]") ==
        "w.yaml:2:11: error: with.momentum of step 't' must be a number from 0 to less than 1, not "
        "a list");
  CHECK(train("momentum: '0.5'") ==
        "w.yaml:2:11: error: with.momentum of step 't' must be a number from 0 to less than 1, not "
        "the "
        "string '0.5'; remove the quotes");
  CHECK(train("momentum: 0.5.1") ==
        "w.yaml:2:11: error: with.momentum of step 't' must be a number from 0 to less than 1, not "
        "the string "
        "'0.5.1'");
  CHECK(
      train("optimizer: {kind: adam, betas: [0.9, 0.99, 0.999]}") ==
      "w.yaml:2:32: error: with.optimizer.betas of step 't' must be a list of 2, not a list of 3");
  CHECK(train("augment: crop") ==
        "w.yaml:2:10: error: with.augment of step 't' must be a list, not the string 'crop'");
  CHECK(train("schedule: cosin") ==
        "w.yaml:2:11: error: with.schedule of step 't': 'cosin' is not one of cosine, constant, "
        "polynomial, steps, one_cycle, inverse_sqrt; "
        "did you mean 'cosine'?");
  CHECK(train("normalize: 1") ==
        "w.yaml:2:12: error: with.normalize of step 't' must be a mapping, not 1; write "
        "{mean: …}");
  CHECK(train("normalize: {mean: x, std: 0}") ==
        "w.yaml:2:19: error: with.normalize.mean of step 't' must be a number or a non-empty list, "
        "not the string 'x'\n"
        "w.yaml:2:27: error: with.normalize.std of step 't' must be a positive number or a "
        "non-empty list, not 0");
  CHECK(train("cooperation: {kind: gosip, every: 0, staleness: some}") ==
        "w.yaml:2:21: error: with.cooperation.kind of step 't': 'gosip' is not one of synchronous, "
        "local_sgd, parameter_server, gossip; did you mean 'gossip'?\n"
        "w.yaml:2:35: error: with.cooperation.every of step 't' must be a positive integer, not 0\n"
        "w.yaml:2:49: error: with.cooperation.staleness of step 't' must be an integer of at least "
        "0 or unbounded, not the string 'some'");
  CHECK(train("seed: 1.5") ==
        "w.yaml:2:7: error: with.seed of step 't' must be an integer of at least 0, not 1.5");
  CHECK(
      train("batch: 64, batch_per_rank: 32") ==
      "w.yaml:2:12: error: with.batch_per_rank of step 't' cannot stand beside batch; remove one");
  CHECK(
      train("batch_per_rank:") ==
      "w.yaml:2:16: error: with.batch_per_rank of step 't' must be a positive integer, but it has "
      "no value");
  CHECK(mistakes_of("steps: {a: {uses: checkpoint, with: {from: x, verify: yes}}}") ==
        "w.yaml:1:55: error: with.verify of step 'a' must be true or false, not the string 'yes'; "
        "write true");
  CHECK(mistakes_of("steps: {a: {run: [], env: {X: {}}}}") ==
        "w.yaml:1:18: error: run of step 'a' must be a non-empty list, not an empty list\n"
        "w.yaml:1:31: error: env.X of step 'a' must be a string, a number or true or false, not a "
        "mapping");
}

TEST_CASE("a long wrong text is cut between two characters", "[mistakes]") {
  std::string text;
  for (int i = 0; i < 21; ++i) text += "é";
  CHECK(mistakes_of("steps: {a: {run: x, checkpoint: " + text + "}}") ==
        "w.yaml:1:33: error: checkpoint of step 'a' must be a mapping, not the string '" +
            text.substr(0, 40) + "…'; write {every: …}");
}

TEST_CASE("missing keys are named where they belong", "[mistakes]") {
  CHECK(mistakes_of("steps: {a: {uses: evaluate}}") ==
        "w.yaml:1:9: error: missing key 'checkpoint' in with of step 'a'; it is a path\n"
        "w.yaml:1:9: error: missing key 'data' in with of step 'a'; it is a path");
  CHECK(mistakes_of("steps: {a: {run: x, retry: {on: [timeout]}}}") ==
        "w.yaml:1:28: error: missing key 'attempts' in retry of step 'a'; it is a positive "
        "integer");
}

TEST_CASE("a name may have 64 characters, and is refused where it comes from", "[mistakes]") {
  const std::string longest(64, 'n');
  CHECK(mistakes_of("name: " + longest + "\nsteps: {" + longest + ": {run: x}}") == "");
  const std::string end = "; it has 65 characters, a name may have 64";
  CHECK(mistakes_of("name: x" + longest + "\nsteps: {a: {run: x}}") ==
        "w.yaml:1:7: error: name: 'x" + longest.substr(0, 39) + "…' is not a name" + end);
  CHECK(mistakes_of("steps: {x" + longest + ": {run: x}}") ==
        "w.yaml:1:9: error: 'x" + longest + "' in steps is not a name" + end);
  const auto result = parse_workflow_text("steps: {a: {run: x}}", "x" + longest + ".yaml");
  const auto* diagnostics = std::get_if<Diagnostics>(&result);
  REQUIRE(diagnostics != nullptr);
  CHECK(diagnostics->front().message ==
        "the file's name is too long for the workflow's: it has 65 characters, a name may have 64; "
        "give it a `name:`");
}

TEST_CASE("a step uses a kind or runs a command", "[mistakes]") {
  CHECK(mistakes_of("steps: {a: {needs: []}}") ==
        "w.yaml:1:9: error: step 'a' has neither uses nor run; give one");
  CHECK(mistakes_of("steps: {a: {uses: evaluate, with: {checkpoint: c, data: d}, run: x}}") ==
        "w.yaml:1:61: error: step 'a' has both uses and run; remove one");
  CHECK(mistakes_of("steps: {a: {uses: trian}}") ==
        "w.yaml:1:19: error: uses of step 'a': 'trian' is not one of stage, stage-out, train, "
        "checkpoint, "
        "evaluate, predict; did you mean 'train'?");
  CHECK(mistakes_of("steps: {a: {uses: generate}}") ==
        "w.yaml:1:19: error: uses of step 'a': 'generate' is not one of stage, stage-out, train, "
        "checkpoint, evaluate, predict; export the network with a step 'uses: checkpoint' and "
        "generate text in Python, as docs/user/generate.md shows");
  CHECK(
      mistakes_of("steps: {a: {uses: predict, with: {checkpoint: c, data: d, format: parquet}}}") ==
      "w.yaml:1:67: error: with.format of step 'a': 'parquet' is not one of csv, npy; write csv or "
      "npy, and convert the file with `python -m dlflow.convert`");
  CHECK(mistakes_of("steps: {a: {run: x, with: [1]}}") ==
        "w.yaml:1:27: error: with of step 'a' must be a mapping, not a list; write {NAME: …}");
  CHECK(mistakes_of("steps: {a: {run: ' '}}") == "w.yaml:1:18: error: run of step 'a' is empty");
  CHECK(mistakes_of("steps: {a: run}") ==
        "w.yaml:1:12: error: step 'a' must be a mapping with uses: or run:");
}

TEST_CASE("keys that mean nothing for a kind are refused", "[mistakes]") {
  CHECK(
      mistakes_of("steps: {a: {uses: evaluate, with: {checkpoint: c, data: d}, outputs: {x: y}, "
                  "checkpoint: {}}}") ==
      "w.yaml:1:61: error: outputs of step 'a' belongs to run; what 'evaluate' leaves is fixed\n"
      "w.yaml:1:78: error: checkpoint of step 'a' has no meaning here: 'evaluate' saves no state");
}

TEST_CASE("values of a certain form are checked", "[mistakes]") {
  const auto run = [](const std::string& keys) {
    return mistakes_of("steps: {a: {run: x,\n" + keys + "}}");
  };
  CHECK(run("resources: {memory: 12 furlongs}") ==
        "w.yaml:2:21: error: resources.memory of step 'a': '12 furlongs' is not a size of at least "
        "1 MiB; write 512MiB, 2GiB or 1.5GB");
  CHECK(run("resources: {memory: 4000}") ==
        "w.yaml:2:21: error: resources.memory of step 'a' must be a size of at least 1 MiB, not "
        "4000; that is 3.9 KiB; write a unit: 4000MiB");
  CHECK(run("resources: {memory: 16kB}") ==
        "w.yaml:2:21: error: resources.memory of step 'a': '16kB' is not a size of at least 1 MiB; "
        "that is 15.6 KiB; write 512MiB or 2GiB");
  CHECK(run("resources: {memory: 1048576}") == "");
  CHECK(run("resources: {walltime: '1:30'}") ==
        "w.yaml:2:23: error: resources.walltime of step 'a': '1:30' is not a duration; it could be "
        "minutes or hours: write 1m30s or 1h30m");
  CHECK(run("resources: {walltime: '0:01:30'}") == "");
  CHECK(run("resources: {walltime: '1-1:30'}") == "");
  CHECK(run("resources: {walltime: 20}") ==
        "w.yaml:2:23: error: resources.walltime of step 'a' must be a duration, not 20; write 90s, "
        "20m, 4h or 1-12:00:00");
  CHECK(run("checkpoint: {every: 1 epoc}") ==
        "w.yaml:2:21: error: checkpoint.every of step 'a': '1 epoc' is not an interval between "
        "checkpoints; write 1 epoch, 200 steps or 30m");
  CHECK(run("retry: {attempts: 2, on: [node-failur]}") ==
        "w.yaml:2:27: error: retry.on[0] of step 'a' must be one of failure, node-failure, "
        "preempted, timeout, out-of-memory or an integer from 1 to 255, not the string "
        "'node-failur'; did you mean 'node-failure'?");
  CHECK(
      run("retry: {attempts: 2, on: [75]}") ==
      "w.yaml:2:8: error: retry.on of step 'a': 75 is how a program says that it has saved and is "
      "to run again, which needs no retry; leave it out");
  CHECK(run("require: {accuracy: 0.88, loss: '~ 3'}") ==
        "w.yaml:2:21: error: require.accuracy of step 'a' must be a comparison with a number, not "
        "0.88; write '>= 0.88', or with <, <=, == or >\n"
        "w.yaml:2:33: error: require.loss of step 'a': '~ 3' is not a comparison with a number; "
        "write '>= 0.88', or with <, <=, == or >");
  CHECK(run("env: {1A: x}") ==
        "w.yaml:2:7: error: '1A' in env of step 'a' is not the name of an environment variable "
        "that a step may set; use letters, digits and _, with a letter or _ first");
  CHECK(run("env: {DLFLOW_OUTPUTS: /tmp}") ==
        "w.yaml:2:7: error: 'DLFLOW_OUTPUTS' in env of step 'a' is not the name of an environment "
        "variable that a step may set; names with DLFLOW_ are what dlflow itself tells a step");
  CHECK(run("env: {DLFLOW_STALL_TIMEOUT: 5}") == "");
  CHECK(run("inputs: [/etc/passwd, a/../../b]") ==
        "w.yaml:2:10: error: inputs[0] of step 'a': '/etc/passwd' is not a relative path without "
        "'..'; write scripts/prepare.py\n"
        "w.yaml:2:23: error: inputs[1] of step 'a': 'a/../../b' is not a relative path without "
        "'..'; write scripts/prepare.py");
  CHECK(mistakes_of("steps: {a: {uses: stage, with: {sources: [{url: ftp://x, sha256: 12ab}]}}}") ==
        "w.yaml:1:49: error: with.sources[0].url of step 'a': 'ftp://x' is not a URL; write "
        "file:///…, https://…, ssh://HOST/…, rclone://REMOTE/…, s3://BUCKET/…, gs://BUCKET/…, "
        "hf://datasets/OWNER/NAME/… or git+https://…\n"
        "w.yaml:1:66: error: with.sources[0].sha256 of step 'a': '12ab' is not a SHA-256; write "
        "the 64 digits that sha256sum prints");
  CHECK(mistakes_of("steps: {a: {uses: checkpoint, with: {from: x, select: best}}}") ==
        "w.yaml:1:55: error: with.select of step 'a': 'best' is not a selection; write max "
        "accuracy, min loss or latest");
}

TEST_CASE("names begin with a letter", "[mistakes]") {
  CHECK(mistakes_of("steps: {1a: {run: x}, -b: {run: x}, 'c d': {run: x}}") ==
        "w.yaml:1:9: error: '1a' in steps is not a name; use letters, digits, - and _, with a "
        "letter or _ first\n"
        "w.yaml:1:23: error: '-b' in steps is not a name; use letters, digits, - and _, with a "
        "letter or _ first\n"
        "w.yaml:1:37: error: 'c d' in steps is not a name; use letters, digits, - and _, with a "
        "letter or _ first");
}

TEST_CASE("what is there twice is found", "[mistakes]") {
  CHECK(mistakes_of("steps:\n  a: {run: x}\n  a: {run: y}\n") ==
        "w.yaml:3:3: error: a second step is called 'a'; the first one is in line 2");
  CHECK(
      mistakes_of("steps: {a: {run: x, run: y, env: {A: 1, A: 2}}}\nsteps: {}\n") ==
      "w.yaml:1:21: error: key 'run' is there twice in step 'a'; the first one is in line 1\n"
      "w.yaml:1:41: error: key 'A' is there twice in env of step 'a'; the first one is in line 1\n"
      "w.yaml:2:1: error: key 'steps' is there twice in the workflow; the first one is in line 1");
  CHECK(mistakes_of("params: {a: {b: 1, b: 2}}\nsteps: {s: {run: x}}") ==
        "w.yaml:1:20: error: key 'b' is there twice in params.a; the first one is in line 1");
}

TEST_CASE("parameters know only those above them", "[mistakes]") {
  const std::string steps = "\nsteps: {s: {run: x}}";
  CHECK(mistakes_of("params: {a: '${{ params.b }}', b: 1}" + steps) ==
        "w.yaml:1:18: error: params.b is not known yet; a parameter may use those above it");
  CHECK(mistakes_of("params: {a: 1, b: '${{ params.aa }}', c: '${{ params.b }}'}" + steps) ==
        "w.yaml:1:24: error: unknown parameter 'aa'; did you mean 'a'?");
  CHECK(mistakes_of("params: {a: '${{ run.id }}'}" + steps) ==
        "w.yaml:1:18: error: run.id has no value yet in params.a; use params. alone");
  CHECK(mistakes_of("params: {a: [1], b: \"${{ params.a < 2 }}\"}" + steps) ==
        "w.yaml:1:21: error: params.b: ${{ params.a < 2 }}: two numbers or two strings can be "
        "compared, not a list and 2");
}

TEST_CASE("two names that are one environment variable are told apart", "[mistakes]") {
  CHECK(mistakes_of("params: {a-b: 1, a_b: 2}\nsteps: {s: {run: x, matrix: {lr: [1], LR: [1]}}}") ==
        "w.yaml:1:18: error: params 'a-b' and 'a_b' would both be $DLFLOW_PARAM_A_B; rename one\n"
        "w.yaml:2:39: error: axes 'lr' and 'LR' would both be $DLFLOW_MATRIX_LR; rename one");
}

TEST_CASE("what --set gives is checked against the parameters", "[mistakes]") {
  const std::string text =
      "params: {epochs: 3}\nsteps: {s: {run: x, resources: {ranks: '${{ params.epochs }}'}}}";
  CHECK(mistakes_of(text, {"epoch=3"}) ==
        "--set: error: unknown parameter 'epoch'; did you mean 'epochs'?");
  CHECK(mistakes_of(text, {"epochs"}) == "--set: error: 'epochs' is not of the form KEY=VALUE");
  CHECK(mistakes_of(text, {"epochs=[1"}) ==
        "--set: error: 'epochs=[1': a key must be a word, or a bracket is never closed");
  CHECK(mistakes_of(text, {"epochs=many"}) ==
        "w.yaml:2:40: error: resources.ranks of step 's' must be a positive integer, not the "
        "string 'many' (from '${{ params.epochs }}')");
}

TEST_CASE("needs must lead to other steps", "[mistakes]") {
  CHECK(
      mistakes_of(
          "steps: {train: {run: x, needs: [train, trian]}, eval: {run: x, needs: trian}}") ==
      "w.yaml:1:33: error: step 'train' needs itself\n"
      "w.yaml:1:40: error: step 'train' needs 'trian', which does not exist; did you mean "
      "'train'?\n"
      "w.yaml:1:71: error: step 'eval' needs 'trian', which does not exist; did you mean 'train'?");
}

TEST_CASE("a cycle prints its path, once", "[mistakes]") {
  CHECK(mistakes_of(R"(steps:
  a: {run: x, needs: b}
  b: {run: [x, "${{ steps.c.outputs.o }}"]}
  c: {run: x, needs: a, outputs: {o: o}}
  d: {run: x, needs: [a]}
)") == "w.yaml:4:22: error: steps form a cycle: a → c → b → a");
}

TEST_CASE("a matrix is checked as a whole", "[mistakes]") {
  const auto matrix = [](const std::string& text) {
    return mistakes_of("params: {n: [1, 1], m: 3}\nsteps: {a: {run: x,\nmatrix: " + text + "}}");
  };
  CHECK(matrix("{lr: []}") ==
        "w.yaml:3:14: error: matrix.lr of step 'a' must be a non-empty list, not an empty list");
  CHECK(matrix("{lr: 0.1}") ==
        "w.yaml:3:14: error: matrix.lr of step 'a' must be a non-empty list, not 0.1");
  CHECK(matrix("{lr: [[1]]}") ==
        "w.yaml:3:15: error: matrix.lr[0] of step 'a' must be a string, a number, true or false or "
        "a mapping, "
        "not a list");
  CHECK(matrix("{lr: [1, 2, 1.0]}") == "w.yaml:3:21: error: matrix.lr of step 'a' holds 1.0 twice");
  CHECK(matrix("{lr: \"${{ params.n }}\"}") ==
        "w.yaml:3:14: error: matrix.lr of step 'a' holds 1 twice");
  CHECK(matrix("{lr: \"${{ params.m }}\"}") ==
        "w.yaml:3:14: error: matrix.lr of step 'a' must be a non-empty list, not 3 (from '${{ "
        "params.m }}')");
  CHECK(matrix("{}") == "w.yaml:3:9: error: matrix of step 'a' has no axis");
  CHECK(matrix("{lr: [1, 2], w: [3], include: [{lr: 5}, {lr: 1, w: 1, x: 1}]}") ==
        "w.yaml:3:40: error: this element has no value for axis 'w'\n"
        "w.yaml:3:49: error: the matrix has no axis 'x'; known: lr, w");
  CHECK(matrix("{lr: [1, 2], include: [{lr: 3}, {lr: 2}, {lr: 3}]}") ==
        "w.yaml:3:41: error: this element is there already; remove one\n"
        "w.yaml:3:50: error: this element is there already; remove one");
  CHECK(matrix("{lr: [1, 2], exclude: [{lr: 2}], include: [{lr: 2}]}") == "");
  CHECK(matrix("{include: [{lr: 3}, {lr: 3}]}") ==
        "w.yaml:3:29: error: this element is there already; remove one");
  CHECK(matrix("{lr: [1, 2], exclude: [{lr: 5}, {rl: 1}, {}]}") ==
        "w.yaml:3:32: error: axis 'lr' does not have the value 5, so that nothing is left out\n"
        "w.yaml:3:41: error: the matrix has no axis 'rl'; did you mean 'lr'?\n"
        "w.yaml:3:50: error: this leaves out every element");
  CHECK(matrix("{lr: [1, 2], exclude: [{lr: 1}, {lr: 2}]}") ==
        "w.yaml:3:9: error: exclude leaves no element of matrix of step 'a'");
}

TEST_CASE("mappings in a matrix have the same keys, and names of their own", "[mistakes]") {
  const auto matrix = [](const std::string& text, const std::string& word = "1") {
    return mistakes_of("params: {n: [1, 2]}\nsteps: {a: {run: [x, \"${{ " + word +
                       " }}\"],\nmatrix: " + text + "}}");
  };
  const std::string good = "{case: [{net: a, batch: 1}, {net: b, batch: 2}]}";
  CHECK(matrix(good, "matrix.case.net") == "");
  CHECK(matrix(good, "toJSON(matrix.case)") == "");
  CHECK(matrix(good, "matrix.case.batch * 2") == "");
  CHECK(matrix(good, "matrix.case.nett") ==
        "w.yaml:2:27: error: axis 'case' has no key 'nett'; did you mean 'net'?");
  CHECK(matrix("{lr: [1]}", "matrix.lr.x") ==
        "w.yaml:2:27: error: the values of axis 'lr' are no mappings; write matrix.lr");
  CHECK(matrix("{case: [{net: a}, {nets: b}]}") ==
        "w.yaml:3:27: error: this value of matrix.case of step 'a' has other keys than the first "
        "one; give all the same");
  CHECK(matrix("{case: [{net: a}, b]}") ==
        "w.yaml:3:27: error: this value of matrix.case of step 'a' has other keys than the first "
        "one; give all the same");
  CHECK(matrix("{case: [{net: a}, {net: a}]}") ==
        "w.yaml:3:27: error: matrix.case of step 'a' holds {\"net\":\"a\"} twice");
  CHECK(matrix("{case: [{name: s, n: 1}, {name: s, n: 2}]}") ==
        "w.yaml:3:34: error: two values of matrix.case of step 'a' are called 's'; rename one");
  CHECK(matrix("{case: [{net: a}], case_net: [1]}") ==
        "w.yaml:3:28: error: axes 'case.net' and 'case_net' would both be $DLFLOW_MATRIX_CASE_NET; "
        "rename one");
  CHECK(matrix("{case: [{net: a, b: 1}, {net: c, b: 1}], exclude: [{case: {net: a}}]}") == "");
  CHECK(
      matrix("{case: [{net: a}, {net: c}], exclude: [{case: {net: b}}]}") ==
      "w.yaml:3:48: error: axis 'case' does not have the value {\"net\":\"b\"}, so that nothing is "
      "left out");
}

TEST_CASE("axes that go together are axes of equal length", "[mistakes]") {
  const auto matrix = [](const std::string& text) {
    return mistakes_of("steps: {a: {run: x,\nmatrix: " + text + "}}");
  };
  CHECK(matrix("{net: [a, b], batch: [1, 2], lr: [1], zip: [net, batch]}") == "");
  CHECK(matrix("{net: [a, b], batch: [1, 2, 3], zip: [net, batch]}") ==
        "w.yaml:2:52: error: axes that go together have as many values each: 'net' has 2, 'batch' "
        "has 3");
  CHECK(matrix("{net: [a, b], batch: [1, 2], zip: [net, bacth]}") ==
        "w.yaml:2:49: error: the matrix has no axis 'bacth'; did you mean 'batch'?");
  CHECK(matrix("{net: [a, b], zip: [net, net]}") ==
        "w.yaml:2:34: error: 'net' is there twice; remove one");
  CHECK(matrix("{net: [a, b], zip: [net]}") ==
        "w.yaml:2:28: error: matrix.zip of step 'a' must be a list of at least 2, not a list of 1");
  // Not of the pairs, so it may be added; the same pair may not.
  CHECK(matrix("{net: [a, b], batch: [1, 2], zip: [net, batch], include: [{net: a, batch: 2}]}") ==
        "");
  CHECK(matrix("{net: [a, b], batch: [1, 2], zip: [net, batch], include: [{net: a, batch: 1}]}") ==
        "w.yaml:2:67: error: this element is there already; remove one");
}

TEST_CASE("elements are packed in a matrix that has some", "[mistakes]") {
  const auto matrix = [](const std::string& text) {
    return mistakes_of("steps: {a: {run: x,\nmatrix: " + text + "}}");
  };
  CHECK(matrix("{n: [1, 2], pack: 1000}") == "");
  CHECK(matrix("{pack: 2}") == "w.yaml:2:9: error: matrix of step 'a' has no axis");
  CHECK(matrix("{n: [1, 2], pack: 0}") ==
        "w.yaml:2:27: error: matrix.pack of step 'a' must be an integer from 1 to 1000, not 0");
  CHECK(matrix("{n: [1, 2], pack: 1001}") ==
        "w.yaml:2:27: error: matrix.pack of step 'a' must be an integer from 1 to 1000, not 1001");
}

TEST_CASE("a parameter whose name was to be a difference is told to have spaces", "[mistakes]") {
  CHECK(mistakes_of("params: {n: 3}\nsteps: {a: {run: [x, \"${{ params.n-1 }}\"]}}") ==
        "w.yaml:2:27: error: unknown parameter 'n-1'; a name may hold '-', so write spaces to "
        "subtract: params.n - …");
}

TEST_CASE("matrices that explode are refused, also together", "[mistakes]") {
  const std::string axes = "{a: [1, 2, 3], b: [1, 2, 3], c: [1, 2, 3]}";
  ParseLimits limits;
  limits.max_elements = 30;
  CHECK(mistakes_of(
            "steps:\n  a: {run: x, matrix: " + axes + "}\n  b: {run: x, matrix: " + axes + "}", {},
            limits) ==
        "w.yaml:3:23: error: matrix of step 'b' has 27 elements, 54 with those of the steps above "
        "it; a workflow may have 30");
  std::string many = "{x: &x [0";
  for (int i = 1; i < 1000; ++i) many += "," + std::to_string(i);
  many += "]";
  for (char c = 'a'; c < 'i'; ++c) many += std::string(", ") + c + ": *x";
  CHECK(mistakes_of("steps: {a: {run: x, matrix: " + many + "}}}") ==
        "w.yaml:1:29: error: matrix of step 'a' has countless elements; a workflow may have "
        "1,000,000");
}

TEST_CASE("the build of an image is a command without expressions", "[mistakes]") {
  CHECK(
      mistakes_of("images: {i: {from: 'dir:x', build: {run: 'make ${{ params.x }}', env: {A: "
                  "[1]}, cmd: x}}}\n"
                  "steps: {a: {run: x, image: i}}") ==
      "w.yaml:1:42: error: expressions cannot be used in images.i.build.run\n"
      "w.yaml:1:75: error: images.i.build.env.A must be a string, a number or true or false, not a "
      "list\n"
      "w.yaml:1:81: error: unknown key 'cmd' in images.i.build; known: run, env");
}

TEST_CASE("who sets variables in `environment` is told of `env`", "[mistakes]") {
  CHECK(mistakes_of("steps: {a: {run: x, environment: {PYTHONPATH: lib}}}") ==
        "w.yaml:1:35: error: unknown key 'PYTHONPATH' in environment of step 'a'; known: modules, "
        "venv, conda, uv, pixi, spack, lock; variables of the program are set by 'env'");
}

TEST_CASE("images are checked", "[mistakes]") {
  CHECK(mistakes_of("images: {torch: {from: 'ftp:x', digest: 'md5:1'}}\nsteps: {a: {run: x, image: "
                    "trch}, b: {run: x, image: [torch]}}") ==
        "w.yaml:1:24: error: images.torch.from: 'ftp:x' is not an image source; write "
        "docker://NAME, docker-archive:FILE, oci:FOLDER or dir:FOLDER\n"
        "w.yaml:1:41: error: images.torch.digest: 'md5:1' is not a digest; write sha256: and 64 "
        "digits\n"
        "w.yaml:2:28: error: step 'a': unknown image 'trch'; did you mean 'torch'?\n"
        "w.yaml:2:54: error: image of step 'b' must be a name, not a list; write letters, digits, "
        "- and _, with a letter or _ first");
}

TEST_CASE("if is true, false or an expression that gives one", "[mistakes]") {
  const auto condition = [](const std::string& text) {
    return mistakes_of("params: {n: 3}\nsteps: {a: {run: x, if: " + text + "}}");
  };
  CHECK(condition("params.n > 3") ==
        "w.yaml:2:25: error: if of step 'a' must be true or false, not the string 'params.n > 3'; "
        "an expression is written ${{ … }}");
  CHECK(condition("'${{ params.n }}'") ==
        "w.yaml:2:25: error: if of step 'a' must be true or false, not 3 (from '${{ params.n }}')");
  CHECK(condition("'${{ params.n > 3 && true }}'") == "");
  CHECK(condition("false") == "");
}

TEST_CASE("secrets are names of variables, each once, and not also in env", "[mistakes]") {
  CHECK(mistakes_of("steps: {a: {run: x, secrets: [WANDB_API_KEY, _T2]}}") == "");
  CHECK(mistakes_of("steps: {a: {run: x, secrets: WANDB_API_KEY}}") ==
        "w.yaml:1:30: error: secrets of step 'a' must be a list, not the string 'WANDB_API_KEY'");
  CHECK_THAT(mistakes_of("steps: {a: {run: x, secrets: ['${{ params.x }}']}}"),
             Catch::Contains("expressions cannot be used in secrets[0] of step 'a'"));
  for (const char* name : {"PATH", "DLFLOW_RUN", "LD_PRELOAD", "2ND", "A=b"}) {
    const std::string said =
        mistakes_of(std::string("steps: {a: {run: x, secrets: [") + name + "]}}");
    CHECK_THAT(said,
               Catch::Contains("is not the name of a secret; write an environment variable as "
                               "in WANDB_API_KEY; not PATH, DLFLOW_… or LD_…"));
  }
  CHECK(mistakes_of("steps: {a: {run: x, secrets: [T, T]}}") ==
        "w.yaml:1:34: error: secrets of step 'a': T is there twice; remove one");
  CHECK(mistakes_of("steps: {a: {run: x, env: {T: 1}, secrets: [T]}}") ==
        "w.yaml:1:44: error: secrets of step 'a': T is in env, too; remove it there");
}

TEST_CASE("how ranks are started is said of commands alone, in one of two words", "[mistakes]") {
  CHECK_THAT(mistakes_of("steps: {a: {run: x, launch: nodes}}"),
             Catch::Contains("launch of step 'a'") && Catch::Contains("did you mean 'node'?"));
  CHECK_THAT(mistakes_of("steps: {a: {uses: stage, launch: node, "
                         "with: {sources: [{url: 'https://x/y'}]}}}"),
             Catch::Contains("launch of step 'a' belongs to run; how 'stage' is started is fixed"));
}

TEST_CASE("repetitions and conditions of reuse that cannot be are told", "[mistakes]") {
  CHECK_THAT(mistakes_of("steps: {a: {run: x, repeat: 2, matrix: {include: [{b: 1}]}}}"),
             Catch::Contains("repeat of step 'a' cannot stand beside matrix.include"));
  CHECK_THAT(mistakes_of("steps: {a: {run: x, repeat: 2, matrix: {repeat: [1]}}}"),
             Catch::Contains("repeat of step 'a' is an axis of the matrix already"));
  CHECK_THAT(mistakes_of("steps: {a: {run: x, repeat: 2000000}}"),
             Catch::Contains("repeat of step 'a' has 2,000,000 elements"));
  CHECK_THAT(mistakes_of("steps: {a: {run: x, inputs: [{path: data}]}}"),
             Catch::Contains("'data' is not an absolute path"));
  CHECK_THAT(mistakes_of("steps: {a: {run: x, reuse: {program: true}}}"),
             Catch::Contains("where run is a list"));
  CHECK_THAT(mistakes_of("steps: {a: {uses: stage, reuse: {program: true}, "
                         "with: {sources: [{url: 'https://x/y'}]}}}"),
             Catch::Contains("reuse of step 'a' belongs to run"));
}

TEST_CASE("what asks a program to save is refused where it cannot hold", "[mistakes]") {
  const auto mistake = [](const std::string& checkpoint, const std::string& more = "run: x") {
    return mistakes_of("steps: {a: {checkpoint: {" + checkpoint + "}, " + more + "}}");
  };
  CHECK(mistake("signal: SIGHUP") ==
        "w.yaml:1:34: error: checkpoint.signal of step 'a': 'SIGHUP' is not one of SIGUSR1, "
        "SIGTERM");
  for (const std::string wrong : {"/tmp/*.pt", "../ckpt/x", "ckpt//x", "./ckpt/x", "ckpt/"}) {
    CHECK(mistake("newer: '" + wrong + "'") ==
          "w.yaml:1:33: error: checkpoint.newer of step 'a': '" + wrong +
              "' is not a pattern of relative file names without '..'; write 'ckpt/*.pt' or "
              "'out/checkpoint-*'");
  }
  CHECK(mistake("newer: 'ckpt/*.pt'", "run: x, inputs: [a.py, ./ckpt/first.pt]") ==
        "w.yaml:1:33: error: checkpoint.newer of step 'a': the folder 'ckpt' has the input "
        "'./ckpt/first.pt'; save into another folder");
  CHECK(mistake("newer: 'ckpt/*.pt'", "run: x, inputs: [ckpt.py]") == "");
  CHECK(mistake("lead: 11m", "run: x, resources: {walltime: 20m}") ==
        "w.yaml:1:32: error: checkpoint.lead of step 'a' is 11:00, more than half of the walltime "
        "of 20:00; ask for more walltime or for less time to save");
  CHECK(mistake("lead: 10m", "run: x, resources: {walltime: 20m}") == "");
  CHECK(mistake("lead: 10m", "run: x") == "");
  const std::string train = "uses: train, with: {model: m, data: d, epochs: 1, lr: 0.1}";
  CHECK(mistake("lead: 5m, newer: x", train) ==
        "w.yaml:1:32: error: checkpoint.lead of step 'a' belongs to run; how 'train' is asked to "
        "save is fixed\n"
        "w.yaml:1:43: error: checkpoint.newer of step 'a' belongs to run; how 'train' is asked to "
        "save is fixed");
}
