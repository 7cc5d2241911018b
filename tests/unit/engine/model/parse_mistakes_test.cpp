#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using test::answer_to;
using test::check_answers;
using test::check_mistakes;

// One kind of mistake each, as users make it, with the full answer.

TEST_CASE("all mistakes are found in one pass, in the order of the file", "[mistakes]") {
  CHECK(
      test::mistakes_of(R"(name: 1st
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
  check_mistakes(
      {{"stpes: {}", R"(1:1: unknown key 'stpes' in the workflow; did you mean 'steps'?
1:1: missing key 'steps' in the workflow)"},
       {"steps: {a: {run: x, resources: {gpus: 1}}}",
        "1:33: unknown key 'gpus' in resources of step 'a'; did you mean 'gpus_per_rank'?"},
       {"steps: {a: {run: x, walltime: 1h}}",
        "1:21: unknown key 'walltime' in step 'a'; write resources: {walltime: …}"},
       {"steps: {a: {uses: stage, with: {sources: [{url: 'file:///x', sha265: y}]}}}",
        "1:62: unknown key 'sha265' in with.sources[0] of step 'a'; did you mean 'sha256'?"}});
}

TEST_CASE("a wrong type is named with the expected one", "[mistakes]") {
  const auto train = [](const std::string& with) {
    return answer_to("steps: {t: {uses: train, with: {model: m, data: d, epochs: 1, lr: 1,\n" +
                     with + "}}}");
  };
  check_answers(
      train,
      {{"momentum: [1]",
        "2:11: with.momentum of step 't' must be a number from 0 to less than 1, not a list"},
       {"momentum: '0.5'",
        "2:11: with.momentum of step 't' must be a number from 0 to less than 1, not the string "
        "'0.5'; remove the quotes"},
       {"momentum: 0.5.1",
        "2:11: with.momentum of step 't' must be a number from 0 to less than 1, not the string "
        "'0.5.1'"},
       {"optimizer: {kind: adam, betas: [0.9, 0.99, 0.999]}",
        "2:32: with.optimizer.betas of step 't' must be a list of 2, not a list of 3"},
       {"augment: crop",
        "2:10: with.augment of step 't' must be a list, not the string 'crop'; write [crop]"},
       {"schedule: cosin",
        "2:11: with.schedule of step 't': 'cosin' is not one of cosine, constant, polynomial, "
        "steps, one_cycle, inverse_sqrt; did you mean 'cosine'?"},
       {"normalize: 1",
        "2:12: with.normalize of step 't' must be a mapping, not 1; write {mean: …}"},
       {"normalize: {mean: x, std: 0}",
        "2:19: with.normalize.mean of step 't' must be a number or a non-empty list, not the "
        "string 'x'\n"
        "2:27: with.normalize.std of step 't' must be a positive number or a non-empty list, not "
        "0"},
       {"cooperation: {kind: gosip, every: 0, staleness: some}",
        "2:21: with.cooperation.kind of step 't': 'gosip' is not one of synchronous, local_sgd, "
        "elastic, parameter_server, gossip, pairwise; did you mean 'gossip'?\n"
        "2:35: with.cooperation.every of step 't' must be a positive integer, not 0\n"
        "2:49: with.cooperation.staleness of step 't' must be an integer of at least 0 or "
        "unbounded, not the string 'some'"},
       {"seed: 1.5", "2:7: with.seed of step 't' must be an integer of at least 0, not 1.5"},
       {"batch: 64, batch_per_rank: 32",
        "2:12: with.batch_per_rank of step 't' cannot be combined with batch; remove one"},
       {"batch_per_rank:",
        "2:16: with.batch_per_rank of step 't' must be a positive integer, but it has no value"}});
  CHECK(answer_to("steps: {a: {uses: checkpoint, with: {from: x, verify: yes}}}") ==
        "1:55: with.verify of step 'a' must be true or false, not the string 'yes'; write true");
  CHECK(answer_to("steps: {a: {run: [], env: {X: {}}}}") ==
        "1:18: run of step 'a' must be a non-empty list, not an empty list\n"
        "1:31: env.X of step 'a' must be a string, a number or true or false, not a mapping");
}

TEST_CASE("a long wrong text is cut between two characters", "[mistakes]") {
  std::string text;
  for (int i = 0; i < 21; ++i) text += "é";
  CHECK(answer_to("steps: {a: {run: x, checkpoint: " + text + "}}") ==
        "1:33: checkpoint of step 'a' must be a mapping, not the string '" + text.substr(0, 40) +
            "…'; write {every: …}");
}

TEST_CASE("missing keys are named at their place", "[mistakes]") {
  check_mistakes({{"steps: {a: {uses: evaluate}}",
                   "1:9: missing key 'checkpoint' in with of step 'a'; it is a path\n"
                   "1:9: missing key 'data' in with of step 'a'; it is a path"},
                  {"steps: {a: {run: x, retry: {on: [timeout]}}}",
                   "1:28: missing key 'attempts' in retry of step 'a'; it is a positive integer"}});
}

TEST_CASE("a name may have 128 characters, and a longer one is refused at its place",
          "[mistakes]") {
  const std::string longest(128, 'n');
  CHECK(answer_to("name: " + longest + "\nsteps: {" + longest + ": {run: x}}") == "");
  const std::string end = "; it has 129 characters, but a name may have at most 128";
  CHECK(answer_to("name: x" + longest + "\nsteps: {a: {run: x}}") ==
        "1:7: name: 'x" + longest.substr(0, 39) + "…' is not a name" + end);
  CHECK(answer_to("steps: {x" + longest + ": {run: x}}") ==
        "1:9: 'x" + longest + "' in steps is not a name" + end);
  const auto result = parse_workflow_text("steps: {a: {run: x}}", "x" + longest + ".yaml");
  const auto* diagnostics = std::get_if<Diagnostics>(&result);
  REQUIRE(diagnostics != nullptr);
  CHECK(diagnostics->front().message ==
        "the file's name is too long for a workflow name: it has 129 characters, but a name may "
        "have at most 128; "
        "give it a `name:`");
}

TEST_CASE("a step uses a kind or runs a command", "[mistakes]") {
  check_mistakes(
      {{"steps: {a: {needs: []}}", "1:9: step 'a' has neither uses nor run; give one"},
       {"steps: {a: {comand: x}}", "1:13: unknown key 'comand' in step 'a'; did you mean 'run'?"},
       {"steps: {a: {run: x, partition: p, cores: 2, environment: .venv}}",
        "1:21: unknown key 'partition' in step 'a'; it belongs to the profile, as slurm: "
        "{partition: NAME}\n"
        "1:35: unknown key 'cores' in step 'a'; write resources: {cpus_per_rank: …}\n"
        "1:58: environment of step 'a' must be a mapping, not the string '.venv'; write {venv: "
        ".venv}"},
       {"steps: {a: {run: x, matrix: {lr: 0.1, 0.2}}}",
        "1:34: matrix.lr of step 'a' must be a non-empty list, not 0.1; write [0.1]\n"
        "1:39: '0.2' in matrix of step 'a' is not a name; a list needs brackets: [VALUE, 0.2]"},
       {"steps: [{name: a, run: x}]",
        "1:8: steps must be a mapping: a name and a description for each step; write `a:` instead "
        "of `- name: a`"},
       {"steps: []", "1:8: steps must be a mapping: a name and a description for each step"},
       {"steps: {a: {uses: evaluate, with: {checkpoint: c, data: d}, run: x}}",
        "1:61: step 'a' has both uses and run; remove one"},
       {"steps: {a: {uses: trian}}",
        "1:19: uses of step 'a': 'trian' is not one of stage, stage-out, train, checkpoint, "
        "evaluate, predict; did you mean 'train'?"},
       {"steps: {a: {uses: generate}}",
        "1:19: uses of step 'a': 'generate' is not one of stage, stage-out, train, checkpoint, "
        "evaluate, predict; export the network with a step 'uses: checkpoint' and generate text in "
        "Python, as docs/user/generate.md shows"},
       {"steps: {a: {uses: predict, with: {checkpoint: c, data: d, format: parquet}}}",
        "1:67: with.format of step 'a': 'parquet' is not one of csv, npy; write csv or npy, and "
        "convert the file with `python -m dlflow.convert`"},
       {"steps: {a: {uses: evaluate, with: {checkpoint: c, data: d, cache: {}}}}",
        "1:60: unknown key 'cache' in with of step 'a'; a cache of data is no longer kept: leave "
        "it out, or write 'scratch: true', which copies the data to each node's own disk"},
       {"steps: {a: {run: x, with: [1]}}",
        "1:27: with of step 'a' must be a mapping, not a list; write {NAME: …}"},
       {"steps: {a: {run: ' '}}", "1:18: run of step 'a' is empty; write a command"},
       {"steps: {a: run}", "1:12: step 'a' must be a mapping with uses: or run:"}});
}

TEST_CASE("keys that mean nothing for a kind are refused", "[mistakes]") {
  CHECK(answer_to("steps: {a: {uses: evaluate, with: {checkpoint: c, data: d}, outputs: {x: y}, "
                  "checkpoint: {}}}") ==
        "1:61: outputs of step 'a' is for run steps; the outputs of 'evaluate' are fixed\n"
        "1:78: checkpoint of step 'a' has no meaning here: 'evaluate' saves no state");
}

TEST_CASE("values with a fixed form are checked", "[mistakes]") {
  const auto run = [](const std::string& keys) {
    return answer_to("steps: {a: {run: x,\n" + keys + "}}");
  };
  check_answers(
      run,
      {{"resources: {memory: 12 furlongs}",
        "2:21: resources.memory of step 'a': '12 furlongs' is not a size of at least 1 MiB; write "
        "512MiB, 2GiB or 1.5GB"},
       {"resources: {memory: 4000}",
        "2:21: resources.memory of step 'a' must be a size of at least 1 MiB, not 4000; that is "
        "3.9 KiB; write a unit: 4000MiB"},
       {"resources: {memory: 16kB}",
        "2:21: resources.memory of step 'a': '16kB' is not a size of at least 1 MiB; that is 15.6 "
        "KiB; write 512MiB or 2GiB"},
       {"resources: {memory: 1048576}", ""},
       {"resources: {walltime: '1:30'}",
        "2:23: resources.walltime of step 'a': '1:30' is not a duration; it could be minutes or "
        "hours: write 1m30s or 1h30m"},
       {"resources: {walltime: '0:01:30'}", ""},
       {"resources: {walltime: '1-1:30'}", ""},
       {"resources: {walltime: 20}",
        "2:23: resources.walltime of step 'a' must be a duration, not 20; write a unit: 20s, "
        "20m or 20h"},
       {"checkpoint: {every: 1 epoc}",
        "2:21: checkpoint.every of step 'a': '1 epoc' is not an interval between checkpoints; "
        "write 1 epoch, 200 steps or 30m"},
       {"retry: {attempts: 2, on: [node-failur]}",
        "2:27: retry.on[0] of step 'a' must be one of failure, node-failure, preempted, timeout, "
        "out-of-memory or an integer from 1 to 255, not the string 'node-failur'; did you mean "
        "'node-failure'?"},
       {"retry: {attempts: 2, on: [75]}",
        "2:8: retry.on of step 'a': exit status 75 means that the program has saved and runs "
        "again, which needs no retry; leave it out"},
       {"require: {accuracy: 0.88, loss: '~ 3'}",
        "2:21: require.accuracy of step 'a' must be a comparison with a number, not 0.88; write "
        "'>= 0.88', or with <, <=, == or >\n"
        "2:33: require.loss of step 'a': '~ 3' is not a comparison with a number; write '>= 0.88', "
        "or with <, <=, == or >"},
       {"env: {1A: x}",
        "2:7: '1A' in env of step 'a' is not the name of an environment variable that a step may "
        "set; use letters, digits and _, with a letter or _ first"},
       {"env: {DLFLOW_OUTPUTS: /tmp}",
        "2:7: 'DLFLOW_OUTPUTS' in env of step 'a' is not the name of an environment variable that "
        "a step may set; dlflow itself sets the names with DLFLOW_; use another"},
       {"env: {DLFLOW_STALL_TIMEOUT: 5}", ""},
       {"inputs: [/etc/passwd, a/../../b]",
        "2:10: inputs[0] of step 'a': '/etc/passwd' is not a relative path without '..'; write "
        "{path: /etc/passwd}, which is read in place\n"
        "2:23: inputs[1] of step 'a': 'a/../../b' is not a relative path without '..'; write "
        "{path: /…} with the absolute path, or put it beside the workflow"}});
  CHECK(answer_to("steps: {a: {uses: stage, with: {sources: [{url: ftp://x, sha256: 12ab}]}}}") ==
        "1:49: with.sources[0].url of step 'a': 'ftp://x' is not a URL; write "
        "file:///…, https://…, ssh://HOST/…, rclone://REMOTE/…, s3://BUCKET/…, gs://BUCKET/…, "
        "hf://datasets/OWNER/NAME/… or git+https://…\n"
        "1:66: with.sources[0].sha256 of step 'a': '12ab' is not a SHA-256; write the 64 digits "
        "that sha256sum prints");
  CHECK(answer_to("steps: {a: {uses: checkpoint, with: {from: x, select: best}}}") ==
        "1:55: with.select of step 'a': 'best' is not a selection; write max accuracy, min loss or "
        "latest");
}

TEST_CASE("names begin with a letter", "[mistakes]") {
  CHECK(
      answer_to("steps: {1a: {run: x}, -b: {run: x}, 'c d': {run: x}}") ==
      "1:9: '1a' in steps is not a name; use letters, digits, - and _, with a letter or _ first\n"
      "1:23: '-b' in steps is not a name; use letters, digits, - and _, with a letter or _ first\n"
      "1:37: 'c d' in steps is not a name; use letters, digits, - and _, with a letter or _ first");
}

TEST_CASE("duplicates are found", "[mistakes]") {
  check_mistakes({{"steps:\n  a: {run: x}\n  a: {run: y}\n",
                   "3:3: a second step is called 'a'; the first one is in line 2"},
                  {"steps: {a: {run: x, run: y, env: {A: 1, A: 2}}}\nsteps: {}\n",
                   "1:21: key 'run' occurs twice in step 'a'; the first one is in line 1\n"
                   "1:41: key 'A' occurs twice in env of step 'a'; the first one is in line 1\n"
                   "2:1: key 'steps' occurs twice in the workflow; the first one is in line 1"},
                  {"params: {a: {b: 1, b: 2}}\nsteps: {s: {run: x}}",
                   "1:20: key 'b' occurs twice in params.a; the first one is in line 1"}});
}

TEST_CASE("parameters can refer only to earlier ones", "[mistakes]") {
  const std::string steps = "\nsteps: {s: {run: x}}";
  check_mistakes(
      {{"params: {a: '${{ params.b }}', b: 1}" + steps,
        "1:18: params.b is not defined yet; a parameter may use only those above it"},
       {"params: {a: 1, b: '${{ params.aa }}', c: '${{ params.b }}'}" + steps,
        "1:24: unknown parameter 'aa'; did you mean 'a'?"},
       {"params: {a: '${{ run.id }}'}" + steps,
        "1:18: run.id has no value yet in params.a; use only params."},
       {"params: {a: [1], b: \"${{ params.a < 2 }}\"}" + steps,
        "1:21: params.b: ${{ params.a < 2 }}: two numbers or two strings can be compared, not a "
        "list and 2"}});
}

TEST_CASE("two names for one environment variable are reported", "[mistakes]") {
  CHECK(answer_to("params: {a-b: 1, a_b: 2}\nsteps: {s: {run: x, matrix: {lr: [1], LR: [1]}}}") ==
        "1:18: params 'a-b' and 'a_b' would both be $DLFLOW_PARAM_A_B; rename one\n"
        "2:39: axes 'lr' and 'LR' would both be $DLFLOW_MATRIX_LR; rename one");
}

TEST_CASE("values of --set are checked against the parameters", "[mistakes]") {
  const std::string text =
      "params: {epochs: 3}\nsteps: {s: {run: x, resources: {ranks: '${{ params.epochs }}'}}}";
  CHECK(answer_to(text, {"epoch=3"}) ==
        "--set: error: unknown parameter 'epoch'; did you mean 'epochs'?");
  CHECK(answer_to("steps: {s: {run: x, matrix: {lr: [1]}}}", {"lr=2"}) ==
        "--set: error: unknown parameter 'lr'; 'lr' is an axis of the matrix of step 's'; change "
        "its values there");
  CHECK(answer_to(text, {"epochs"}) == "--set: error: 'epochs' is not of the form KEY=VALUE");
  CHECK(answer_to(text, {"epochs=[1"}) ==
        "--set: error: 'epochs=[1': a key must be a word, or a bracket is never closed");
  CHECK(answer_to(text, {"epochs=many"}) ==
        "2:40: resources.ranks of step 's' must be a positive integer or auto, not the string "
        "'many' (from "
        "'${{ params.epochs }}')");
}

TEST_CASE("needs must lead to other steps", "[mistakes]") {
  CHECK(
      answer_to("steps: {train: {run: x, needs: [train, trian]}, eval: {run: x, needs: trian}}") ==
      "1:33: step 'train' needs itself\n"
      "1:40: step 'train' needs 'trian', which does not exist; did you mean 'train'?\n"
      "1:71: step 'eval' needs 'trian', which does not exist; did you mean 'train'?");
}

TEST_CASE("a cycle prints its path, once", "[mistakes]") {
  CHECK(answer_to(R"(steps:
  a: {run: x, needs: b}
  b: {run: [x, "${{ steps.c.outputs.o }}"]}
  c: {run: x, needs: a, outputs: {o: o}}
  d: {run: x, needs: [a]}
)") == "4:22: steps form a cycle: a → c → b → a");
}

TEST_CASE("all of a matrix is checked", "[mistakes]") {
  const auto matrix = [](const std::string& text) {
    return answer_to("params: {n: [1, 1], m: 3}\nsteps: {a: {run: x,\nmatrix: " + text + "}}");
  };
  check_answers(
      matrix,
      {{"{lr: []}", "3:14: matrix.lr of step 'a' must be a non-empty list, not an empty list"},
       {"{lr: 0.1}", "3:14: matrix.lr of step 'a' must be a non-empty list, not 0.1; write [0.1]"},
       {"{lr: [[1]]}",
        "3:15: matrix.lr[0] of step 'a' must be a string, a number, true or false or a mapping, "
        "not a list"},
       {"{lr: [1, 2, 1.0]}",
        "3:21: matrix.lr of step 'a' holds 1.0 twice; remove one, or write repeat: N to run each "
        "several times"},
       {"{lr: \"${{ params.n }}\"}",
        "3:14: matrix.lr of step 'a' holds 1 twice; remove one, or write repeat: N to run each "
        "several times"},
       {"{lr: \"${{ params.m }}\"}",
        "3:14: matrix.lr of step 'a' must be a non-empty list, not 3; write [3] (from '${{ "
        "params.m }}')"},
       {"{}", "3:9: matrix of step 'a' has no axis"},
       {"{lr: [1, 2], w: [3], include: [{lr: 5}, {lr: 1, w: 1, x: 1}]}",
        "3:40: this element has no value for axis 'w'; write w: VALUE\n"
        "3:49: the matrix has no axis 'x'; known: lr, w"},
       {"{lr: [1, 2], include: [{lr: 3}, {lr: 2}, {lr: 3}]}",
        "3:41: this element already exists; remove one\n"
        "3:50: this element already exists; remove one"},
       {"{lr: [1, 2], exclude: [{lr: 2}], include: [{lr: 2}]}", ""},
       {"{include: [{lr: 3}, {lr: 3}]}", "3:29: this element already exists; remove one"},
       {"{lr: [1, 2], exclude: [{lr: 5}, {rl: 1}, {}]}",
        "3:32: axis 'lr' does not have the value 5, so nothing is left out; remove this entry\n"
        "3:41: the matrix has no axis 'rl'; did you mean 'lr'?\n"
        "3:50: this leaves out every element"},
       {"{lr: [1, 2], exclude: [{lr: 1}, {lr: 2}]}",
        "3:9: exclude leaves no element of matrix of step 'a'; remove one of its entries"}});
}

TEST_CASE("mappings in a matrix have the same keys, and names of their own", "[mistakes]") {
  const auto matrix = [](const std::string& text, const std::string& word = "1") {
    return answer_to("params: {n: [1, 2]}\nsteps: {a: {run: [x, \"${{ " + word +
                     " }}\"],\nmatrix: " + text + "}}");
  };
  const std::string good = "{case: [{net: a, batch: 1}, {net: b, batch: 2}]}";
  CHECK(matrix(good, "matrix.case.net") == "");
  CHECK(matrix(good, "toJSON(matrix.case)") == "");
  CHECK(matrix(good, "matrix.case.batch * 2") == "");
  CHECK(matrix(good, "matrix.case.nett") ==
        "2:27: axis 'case' has no key 'nett'; did you mean 'net'?");
  CHECK(matrix("{lr: [1]}", "matrix.lr.x") ==
        "2:27: the values of axis 'lr' are not mappings; write matrix.lr");
  check_answers(
      matrix,
      {{"{case: [{net: a}, {nets: b}]}",
        "3:27: this value of matrix.case of step 'a' has other keys than the first one; give all "
        "the same keys"},
       {"{case: [{net: a}, b]}",
        "3:27: this value of matrix.case of step 'a' has other keys than the first one; give all "
        "the same keys"},
       {"{case: [{net: a}, {net: a}]}",
        "3:27: matrix.case of step 'a' holds {\"net\":\"a\"} twice; remove one, or write repeat: N "
        "to run each several times"},
       {"{case: [{name: s, n: 1}, {name: s, n: 2}]}",
        "3:34: two values of matrix.case of step 'a' are called 's'; rename one"},
       {"{case: [{net: a}], case_net: [1]}",
        "3:28: axes 'case.net' and 'case_net' would both be $DLFLOW_MATRIX_CASE_NET; rename one"},
       {"{case: [{net: a, b: 1}, {net: c, b: 1}], exclude: [{case: {net: a}}]}", ""},
       {"{case: [{net: a}, {net: c}], exclude: [{case: {net: b}}]}",
        "3:48: axis 'case' does not have the value {\"net\":\"b\"}, so nothing is left out; remove "
        "this entry"}});
}

TEST_CASE("zipped axes have equal length", "[mistakes]") {
  const auto matrix = [](const std::string& text) {
    return answer_to("steps: {a: {run: x,\nmatrix: " + text + "}}");
  };
  check_answers(
      matrix,
      {{"{net: [a, b], batch: [1, 2], lr: [1], zip: [net, batch]}", ""},
       {"{net: [a, b], batch: [1, 2, 3], zip: [net, batch]}",
        "2:52: axes of zip must have the same number of values: 'net' has 2, 'batch' has 3"},
       {"{net: [a, b], batch: [1, 2], zip: [net, bacth]}",
        "2:49: the matrix has no axis 'bacth'; did you mean 'batch'?"},
       {"{net: [a, b], zip: [net, net]}", "2:34: 'net' occurs twice; remove one"},
       {"{net: [a, b], zip: [net]}",
        "2:28: matrix.zip of step 'a' must be a list of at least 2, not a list of 1"}});
  // A pair that zip does not make may be added; one that it makes may not.
  CHECK(matrix("{net: [a, b], batch: [1, 2], zip: [net, batch], include: [{net: a, batch: 2}]}") ==
        "");
  CHECK(matrix("{net: [a, b], batch: [1, 2], zip: [net, batch], include: [{net: a, batch: 1}]}") ==
        "2:67: this element already exists; remove one");
}

TEST_CASE("packing needs a matrix with elements", "[mistakes]") {
  const auto matrix = [](const std::string& text) {
    return answer_to("steps: {a: {run: x,\nmatrix: " + text + "}}");
  };
  check_answers(matrix,
                {{"{n: [1, 2], pack: 1000}", ""},
                 {"{pack: 2}", "2:9: matrix of step 'a' has no axis"},
                 {"{n: [1, 2], pack: 0}",
                  "2:27: matrix.pack of step 'a' must be an integer from 1 to 1000, not 0"},
                 {"{n: [1, 2], pack: 1001}",
                  "2:27: matrix.pack of step 'a' must be an integer from 1 to 1000, not 1001"}});
}

TEST_CASE("a parameter name that looks like a difference is answered with the advice to add spaces",
          "[mistakes]") {
  CHECK(answer_to("params: {n: 3}\nsteps: {a: {run: [x, \"${{ params.n-1 }}\"]}}") ==
        "2:27: unknown parameter 'n-1'; a name may hold '-', so write spaces to subtract: params.n "
        "- …");
}

TEST_CASE("matrices with too many elements are refused, also together", "[mistakes]") {
  const std::string axes = "{a: [1, 2, 3], b: [1, 2, 3], c: [1, 2, 3]}";
  ParseLimits limits;
  limits.max_elements = 30;
  CHECK(
      answer_to("steps:\n  a: {run: x, matrix: " + axes + "}\n  b: {run: x, matrix: " + axes + "}",
                {}, limits) ==
      "3:23: matrix of step 'b' has 27 elements, 54 with those of the steps above it; a workflow "
      "may have 30");
  std::string many = "{x: &x [0";
  for (int i = 1; i < 1000; ++i) many += "," + std::to_string(i);
  many += "]";
  for (char c = 'a'; c < 'i'; ++c) many += std::string(", ") + c + ": *x";
  CHECK(answer_to("steps: {a: {run: x, matrix: " + many + "}}}") ==
        "1:29: matrix of step 'a' has countless elements; a workflow may have 1,000,000");
}

TEST_CASE("the build of an image is a command without expressions", "[mistakes]") {
  CHECK(answer_to("images: {i: {from: 'dir:x', build: {run: 'make ${{ params.x }}', env: {A: [1]}, "
                  "cmd: x}}}\n"
                  "steps: {a: {run: x, image: i}}") ==
        "1:42: expressions cannot be used in images.i.build.run\n"
        "1:75: images.i.build.env.A must be a string, a number or true or false, not a list\n"
        "1:81: unknown key 'cmd' in images.i.build; known: run, env");
}

TEST_CASE("`environment` with variables is answered with the name `env`", "[mistakes]") {
  CHECK(answer_to("steps: {a: {run: x, environment: {PYTHONPATH: lib}}}") ==
        "1:35: unknown key 'PYTHONPATH' in environment of step 'a'; known: modules, venv, conda, "
        "uv, pixi, spack, lock; variables of the program are set by 'env'");
}

TEST_CASE("images are checked", "[mistakes]") {
  CHECK(answer_to("images: {torch: {from: 'ftp:x', digest: 'md5:1'}}\nsteps: {a: {run: x, image: "
                  "trch}, b: {run: x, image: [torch]}}") ==
        "1:24: images.torch.from: 'ftp:x' is not an image source; write "
        "docker://NAME, docker-archive:FILE, oci:FOLDER or dir:FOLDER\n"
        "1:41: images.torch.digest: 'md5:1' is not a digest; write sha256: and 64 digits\n"
        "2:28: step 'a': unknown image 'trch'; did you mean 'torch'?\n"
        "2:54: image of step 'b' must be a name, not a list; write letters, digits, - and _, with "
        "a letter or _ first");
}

TEST_CASE("if is true, false or an expression that gives one", "[mistakes]") {
  const auto condition = [](const std::string& text) {
    return answer_to("params: {n: 3}\nsteps: {a: {run: x, if: " + text + "}}");
  };
  check_answers(
      condition,
      {{"params.n > 3",
        "2:25: if of step 'a' must be true or false, not the string 'params.n > 3'; an expression "
        "is written ${{ … }}"},
       {"'${{ params.n }}'",
        "2:25: if of step 'a' must be true or false, not 3 (from '${{ params.n }}')"},
       {"'${{ params.n > 3 && true }}'", ""},
       {"false", ""}});
}

TEST_CASE("secrets are names of variables, each once, and not also in env", "[mistakes]") {
  CHECK(answer_to("steps: {a: {run: x, secrets: [WANDB_API_KEY, _T2]}}") == "");
  CHECK(answer_to("steps: {a: {run: x, secrets: WANDB_API_KEY}}") ==
        "1:30: secrets of step 'a' must be a list, not the string 'WANDB_API_KEY'; write "
        "[WANDB_API_KEY]");
  CHECK_THAT(answer_to("steps: {a: {run: x, secrets: ['${{ params.x }}']}}"),
             Catch::Contains("expressions cannot be used in secrets[0] of step 'a'"));
  for (const char* name : {"PATH", "DLFLOW_RUN", "LD_PRELOAD", "2ND", "A=b"}) {
    const std::string said =
        answer_to(std::string("steps: {a: {run: x, secrets: [") + name + "]}}");
    CHECK_THAT(said,
               Catch::Contains("is not the name of a secret; write the name of a variable "
                               "that has it, `export API_KEY=…`; not PATH, DLFLOW_… or LD_…"));
  }
  CHECK(answer_to("steps: {a: {run: x, secrets: [T, T]}}") ==
        "1:34: secrets of step 'a': T occurs twice; remove one");
  CHECK(answer_to("steps: {a: {run: x, env: {T: 1}, secrets: [T]}}") ==
        "1:44: secrets of step 'a': T is in env, too; remove it there");
}

TEST_CASE("only commands choose how their ranks start, by one of two words", "[mistakes]") {
  CHECK_THAT(answer_to("steps: {a: {run: x, launch: nodes}}"),
             Catch::Contains("launch of step 'a'") && Catch::Contains("did you mean 'node'?"));
  CHECK_THAT(answer_to("steps: {a: {uses: stage, launch: node, "
                       "with: {sources: [{url: 'https://x/y'}]}}}"),
             Catch::Contains("launch of step 'a' belongs to run; how 'stage' is started is fixed"));
}

TEST_CASE("invalid repetitions and conditions of reuse are reported", "[mistakes]") {
  CHECK_THAT(answer_to("steps: {a: {run: x, repeat: 2, matrix: {include: [{b: 1}]}}}"),
             Catch::Contains("repeat of step 'a' cannot be combined with matrix.include"));
  CHECK_THAT(answer_to("steps: {a: {run: x, repeat: 2, matrix: {repeat: [1]}}}"),
             Catch::Contains("repeat of step 'a' is an axis of the matrix already"));
  CHECK_THAT(answer_to("steps: {a: {run: x, repeat: 2000000}}"),
             Catch::Contains("repeat of step 'a' has 2,000,000 elements"));
  CHECK_THAT(answer_to("steps: {a: {run: x, inputs: [{path: data}]}}"),
             Catch::Contains("'data' is not an absolute path"));
  CHECK_THAT(answer_to("steps: {a: {run: x, reuse: {program: true}}}"),
             Catch::Contains("needs a `run:` list"));
  CHECK_THAT(answer_to("steps: {a: {uses: stage, reuse: {program: true}, "
                       "with: {sources: [{url: 'https://x/y'}]}}}"),
             Catch::Contains("reuse of step 'a' belongs to run"));
}

TEST_CASE("a setting of how a program saves is refused where it has no effect", "[mistakes]") {
  const auto mistake = [](const std::string& checkpoint, const std::string& more = "run: x") {
    return answer_to("steps: {a: {checkpoint: {" + checkpoint + "}, " + more + "}}");
  };
  CHECK(mistake("signal: SIGHUP") ==
        "1:34: checkpoint.signal of step 'a': 'SIGHUP' is not one of SIGUSR1, SIGTERM");
  for (const std::string wrong : {"/tmp/*.pt", "../ckpt/x", "ckpt//x", "./ckpt/x", "ckpt/"}) {
    CHECK(mistake("newer: '" + wrong + "'") ==
          "1:33: checkpoint.newer of step 'a': '" + wrong +
              "' is not a pattern of relative file names without '..'; write 'ckpt/*.pt' or "
              "'out/checkpoint-*'");
  }
  CHECK(mistake("newer: 'ckpt/*.pt'", "run: x, inputs: [a.py, ./ckpt/first.pt]") ==
        "1:33: checkpoint.newer of step 'a': the folder 'ckpt' has the input './ckpt/first.pt'; "
        "save into another folder");
  CHECK(mistake("newer: 'ckpt/*.pt'", "run: x, inputs: [ckpt.py]") == "");
  CHECK(mistake("lead: 11m", "run: x, resources: {walltime: 20m}") ==
        "1:32: checkpoint.lead of step 'a' is 11:00, more than half of the walltime of 20:00; ask "
        "for more walltime or for less time to save");
  CHECK(mistake("lead: 10m", "run: x, resources: {walltime: 20m}") == "");
  CHECK(mistake("lead: 10m", "run: x") == "");
  const std::string train = "uses: train, with: {model: m, data: d, epochs: 1, lr: 0.1}";
  CHECK(mistake("lead: 5m, newer: x", train) ==
        "1:32: checkpoint.lead of step 'a' is for run steps; the way to ask 'train' to save is "
        "fixed\n"
        "1:43: checkpoint.newer of step 'a' is for run steps; the way to ask 'train' to save is "
        "fixed");
}
