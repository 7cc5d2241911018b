#include "engine/plan/fingerprint.h"

#include <algorithm>

#include "base/sha256.h"
#include "engine/plan/fingerprint_base.h"
#include "tests/support/catch.h"
#include "tests/support/known_by_fingerprint.h"
#include "tests/support/parsed.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using test::fingerprint_named;
using test::parsed;

namespace {

Plan plan_of(const std::string& text) { return test::fresh_plan(parsed(text)); }

/// Returns the base of one element of the first step of `text`.
Json base_of(const std::string& text, uint32_t element = 0) {
  const Plan plan = plan_of(text);
  const auto job = std::ranges::find_if(
      plan.jobs, [&](const PlannedJob& j) { return j.step == 0 && j.element == element; });
  return Json::parse(fingerprint_base(plan, uint32_t(job - plan.jobs.begin())));
}

constexpr const char* kReference = R"(
name: w
params: {epochs: 3, unused: 1}
steps:
  a:
    run: ["./train", "--epochs", "${{ params.epochs }}"]
    env: {SEED: 7}
)";

/// Returns kReference with one piece of text replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kReference;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Json visible(const std::string& script, const std::vector<std::string>& texts = {}) {
  Step step;
  step.run = Template(Json(script));
  return visible_params(step, {{"lr", 0.1}, {"lr_decay", 2}, {"warm-up", 5}}, texts);
}

/// A parent whose outputs lie in `folder`.
ParentResult parent(const std::string& step, Json outputs, const std::string& folder = "/r/steps") {
  ParentResult parent;
  parent.step = step;
  parent.directory = folder + "/" + step;
  parent.outputs = std::move(outputs);
  return parent;
}

/// Returns an output of a parent in `folder`: a file called `name`.
Json output(const std::string& folder, const std::string& name, const std::string& hash) {
  return {{"o", {{"value", folder + "/outputs/" + name}, {"sha256", hash}}}};
}

Fingerprint with_parents(const std::vector<ParentResult>& parents,
                         const Json& element = Json::object(), const std::string& base = "{}") {
  return fingerprint(base, element, parents);
}

}  // namespace

TEST_CASE("irrelevant changes keep the fingerprint", "[fingerprint]") {
  const auto& [from, to] = GENERATE(table<std::string, std::string>(
      {{"name: w", "name: other  # a comment"},
       {"unused: 1", "unused: 2"},
       {"{SEED: 7}", "{\"SEED\":    7}"},
       {"{SEED: 7}", "{SEED: 7}\n    resources: {memory: 2GiB, walltime: 20m}"},
       {"{SEED: 7}", "{SEED: 7}\n    retry: {attempts: 5}"},
       {"\"${{ params.epochs }}\"", "3"}}));
  INFO(from << " -> " << to);
  CHECK(base_of(changed(from, to)) == base_of(kReference));
}

TEST_CASE("the place where a step reads its data does not change the fingerprint",
          "[fingerprint]") {
  const std::string evaluate =
      "name: w\nsteps:\n  a:\n    uses: evaluate\n    with: {checkpoint: c, data: d";
  CHECK(base_of(evaluate + ", scratch: true}\n") == base_of(evaluate + "}\n"));
  CHECK(base_of(evaluate + "}\n").at("with") ==
        Json{{"batch", 256}, {"checkpoint", "c"}, {"data", "d"}});
}

TEST_CASE("other names in an expression that waits for a parent are in the fingerprint",
          "[fingerprint]") {
  const std::string text = R"(
name: w
params: {p: 1}
steps:
  b:
    uses: stage-out
    matrix: {fold: [0, 1]}
    with: {from: "${{ format('{0}/{1}-{2}', steps.a.outputs.d, matrix.fold, params.p) }}", to: "file:///x/"}
  a: {run: [make], outputs: {d: d}}
)";
  std::string other = text;
  other.replace(other.find("p: 1"), 4, "p: 2");
  CHECK(base_of(text, 0) != base_of(text, 1));
  CHECK(base_of(text, 0) != base_of(other, 0));
  CHECK(base_of(text, 0).at("values") == Json{{"matrix.fold", 0}, {"params.p", 1}});

  const Workflow workflow = parsed(text);
  Context known;
  known.params = &workflow.params;
  const Json element = {{"fold", 0}};
  known.matrix = &element;
  CHECK(late_params(workflow.steps.front(), known) == Json{{"p", 1}});
  CHECK_FALSE(sees_run(workflow.steps.front(), {}));
}

TEST_CASE("a step that sees the run's identity has its own result in each run", "[fingerprint]") {
  const auto sees = [](const std::string& step, const std::vector<std::string>& texts = {}) {
    return sees_run(parsed("name: w\nsteps:\n  a: {" + step + "}\n").steps[0], texts);
  };
  CHECK(sees("run: [echo, \"${{ run.id }}\"]"));
  CHECK(sees("run: 'echo $DLFLOW_RUN'"));
  CHECK(sees("run: 'echo ${DLFLOW_ATTEMPT}'"));
  CHECK(sees("run: [sh, -c, 'echo $DLFLOW_PASS']"));
  CHECK(sees("run: 'sh -c \"$C\"', env: {C: 'echo $DLFLOW_RUN'}"));
  CHECK(sees("run: ./a.py", {"os.environ['DLFLOW_RUN']"}));
  CHECK(sees("run: 'env | grep ^DLFLOW_'"));
  CHECK_FALSE(sees("run: 'echo $DLFLOW_STEP $DLFLOW_RANKS > $DLFLOW_OUTPUTS/x'"));
  CHECK_FALSE(sees("run: 'echo $DLFLOW_RUNS'"));
  CHECK_FALSE(sees("run: 'echo $RANK $DLFLOW_RANK $MASTER_ADDR:$MASTER_PORT'"));
}

TEST_CASE("relevant changes change the fingerprint", "[fingerprint]") {
  const auto& [from, to] = GENERATE(table<std::string, std::string>(
      {{"epochs: 3", "epochs: 4"},
       {"./train", "./train2"},
       {"SEED: 7", "SEED: 8"},
       {"SEED: 7", "SEED: 7, MORE: 1"},
       {"{SEED: 7}", "{SEED: 7}\n    require: {accuracy: \">= 0.9\"}"},
       {"{SEED: 7}", "{SEED: 7}\n    outputs: {model: model.bin}"},
       {"{SEED: 7}", "{SEED: 7}\n    secrets: [TOKEN]"},
       {"{SEED: 7}", "{SEED: 7}\n    launch: node"},
       {"{SEED: 7}", "{SEED: 7}\n    matrix: {lr: [1]}"},
       {"{SEED: 7}", "{SEED: 7}\n    checkpoint: {every: 2 epochs}"},
       {"{SEED: 7}", "{SEED: 7}\n    if: ${{ params.epochs > 2 }}"}}));
  INFO(from << " -> " << to);
  CHECK(base_of(changed(from, to)) != base_of(kReference));
}

TEST_CASE("the same text gives the same fingerprint on every day", "[fingerprint]") {
  // Pins the canonical form: a change here makes all earlier results unknown.
  CHECK(
      base_of(kReference).dump() ==
      R"({"command":["./train","--epochs",3],"environment":{"SEED":7},"job":"a","kind":"run","resources":{"alone":true,"cpus_per_rank":1,"gpus_per_rank":0,"ranks":1},"version":9})");
  CHECK(fingerprint(R"({"kind":"run"})", Json::object(), {}).text() ==
        "78eec4426114b612c414c0602dfefe269663c92230da2bbdb6cb7e1473edb0e0");
}

TEST_CASE("each job has the same base in a plan as by itself", "[fingerprint]") {
  Plan plan = plan_of(R"(
name: w
params: {p: 1}
steps:
  a:
    run: [./train, "${{ matrix.lr }}", "${{ params.p }}"]
    matrix: {lr: [0.1, 0.2], name: [x, "y\"z"], ranks: [1, 2]}
    resources: {ranks: "${{ matrix.ranks }}"}
    env: {NAME: "${{ matrix.name }}"}
    if: ${{ matrix.lr > 0.1 }}
  b: {uses: stage-out, matrix: {lr: [0.1, 0.2]}, with: {from: "${{ steps.c.outputs.d }}", to: "file:///x/${{ matrix.lr }}"}}
  c: {run: [make], outputs: {d: d}}
)");
  FingerprintBases bases(plan);
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    INFO(plan.jobs[job].name);
    const std::string base = bases.of(job);
    CHECK(base == fingerprint_base(plan, job));
    CHECK(base == Json::parse(base).dump());  // keys in order
  }
  plan.jobs[1].resources =  // as by `resubmit --set`
      std::make_shared<const Resources>(Resources{.gpus_per_rank = 1});
  CHECK(FingerprintBases(plan).of(1) != bases.of(0));
}

TEST_CASE("content of files is in the fingerprint under the name that the workflow gives them",
          "[fingerprint]") {
  Plan plan = plan_of(kReference);
  plan.steps[0].inputs = {"models/lenet.yaml"};
  const auto with_file = [&](const std::string& hash) {
    plan.files = {{"models/lenet.yaml", hash}};
    return Json::parse(fingerprint_base(plan, 0));
  };
  CHECK(with_file("aa").at("files") == Json{{"models/lenet.yaml", "aa"}});
  CHECK(with_file("aa") != with_file("bb"));
}

TEST_CASE("the image of a step and its digest are in the fingerprint", "[fingerprint]") {
  const auto base = [](const std::string& image) {
    return base_of("name: w\nimages: {i: {" + image + "}}\nsteps: {a: {image: i, run: [x]}}\n");
  };
  const std::string one = "sha256:" + std::string(64, '1');
  const std::string two = "sha256:" + std::string(64, '2');
  CHECK(base("from: 'docker://a:1'") != base("from: 'docker://a:2'"));
  CHECK(base("from: 'docker://a:1', digest: '" + one + "'") !=
        base("from: 'docker://a:1', digest: '" + two + "'"));
}

TEST_CASE("the build of an image is in the fingerprint of its steps", "[fingerprint]") {
  const auto base = [](const std::string& build) {
    return base_of("name: w\nparams: {v: 1}\nimages: {i: {from: \"dir:x\"" +
                   (build.empty() ? "" : ", " + build) + "}}\nsteps: {a: {image: i, run: [x]}}\n");
  };
  const auto plain = base("");
  CHECK(base("build: {run: make}") != plain);
  CHECK(base("build: {run: make}") == base("build: {run:   make}"));
  CHECK(base("build: {run: make}") != base("build: {run: make install}"));
  CHECK(base("build: {run: make}") != base("build: {run: [make]}"));
  CHECK(base("build: {run: make, env: {V: '${{ params.v }}'}}") ==
        base("build: {run: make, env: {V: 1}}"));
  CHECK(base("build: {run: make, env: {V: 1}}") != base("build: {run: make, env: {V: 2}}"));
}

TEST_CASE("parents are identified by the outputs that a child sees, not by their run",
          "[fingerprint]") {
  const ParentResult a = parent("a", output("/r/steps/a", "x", "11"));
  const ParentResult b = parent("b", output("/r/steps/b", "y", "22"));
  const Fingerprint here = with_parents({a, b});
  CHECK(with_parents({parent("a", output("/other/steps/a", "x", "11"), "/other/steps"), b}) ==
        here);
  CHECK(with_parents({}) != here);
  SECTION("content") {
    CHECK(with_parents({parent("a", output("/r/steps/a", "x", "33")), b}) != here);
  }
  SECTION("the permission to run it") {
    Json runs = output("/r/steps/a", "x", "11");
    runs.begin()->emplace("executable", true);
    CHECK(with_parents({parent("a", runs), b}) != here);
  }
  SECTION("name of a file with the same content") {
    CHECK(with_parents({parent("a", output("/r/steps/a", "z", "11")), b}) != here);
  }
  SECTION("order") { CHECK(with_parents({b, a}) != here); }
  SECTION("swapped contents") {
    CHECK(with_parents({parent("a", output("/r/steps/a", "x", "22")),
                        parent("b", output("/r/steps/b", "y", "11"))}) != here);
  }
  SECTION("a value that is not a path") {
    const auto value = [](const char* text) {
      return parent("a", {{"o", {{"value", text}, {"sha256", "given"}}}});
    };
    CHECK(with_parents({value("1")}) != with_parents({value("2")}));
  }
  SECTION("a parent that was skipped") {
    ParentResult skipped = parent("a", Json::object());
    skipped.skipped = true;
    ParentResult ran = parent("a", Json::object());
    ran.fingerprint = fingerprint_named("f");
    CHECK(with_parents({skipped}) != with_parents({ran}));
  }
}

TEST_CASE("outputs of parents give the same fingerprint on every day", "[fingerprint]") {
  // Pins the canonical form, as above.
  ParentResult list = parent("a", output("/r/steps/a", "x", "11"));
  list.element = {{"fold", 1}};
  list.metrics = {{"loss", 0.5}};
  ParentResult value = parent("b", {{"o", {{"value", 7}, {"sha256", "22"}, {"executable", true}}}});
  ParentResult skipped = parent("c", Json::object());
  skipped.skipped = true;
  ParentResult plain = parent("d", Json::object());
  plain.fingerprint = fingerprint_named("f1");
  CHECK(with_parents({list, value, skipped, plain}, Json::object(), R"({"metrics":{"a":["loss"]}})")
            .text() ==
        sha256_hex(R"({"metrics":{"a":["loss"]}})"
                   "\n"
                   R"({"element":{"fold":1},"in_list":true,"metrics":{"loss":0.5},)"
                   R"("outputs":{"o":{"path":"outputs/x","sha256":"11"}},"step":"a"})"
                   "\n"
                   R"({"outputs":{"o":{"executable":true,"sha256":"22","value":7}},"step":"b"})"
                   "\n"
                   R"({"skipped":true,"step":"c"})"
                   "\n"
                   R"({"fingerprint":")" +
                   plain.fingerprint.text() + R"(","step":"d"})"));
}

TEST_CASE("an element of one list differs from that of another list", "[fingerprint]") {
  const auto shard = [](const std::string& step, int number) {
    ParentResult of = parent(step, output("/r/steps/" + step, "shard", std::to_string(number)));
    of.element = {{"shard", number}};
    return of;
  };
  const Fingerprint before = with_parents({shard("train", 1), shard("train", 2), shard("test", 3)});
  CHECK(with_parents({shard("train", 1), shard("test", 2), shard("test", 3)}) != before);
  ParentResult other_element = shard("train", 1);
  other_element.element = {{"shard", 7}};
  CHECK(with_parents({other_element}) != with_parents({shard("train", 1)}));
}

TEST_CASE("a list of one value differs from the value", "[fingerprint]") {
  ParentResult only = parent("a", output("/r/steps/a", "x", "11"));
  only.element = {{"fold", 1}};
  CHECK_FALSE(is_list(1, only.element, {{"fold", 1}}));
  CHECK(is_list(1, only.element, Json::object()));
  CHECK_FALSE(is_list(1, Json::object(), {{"fold", 1}}));
  CHECK(is_list(2, only.element, {{"fold", 1}}));
  CHECK(with_parents({only}, {{"fold", 1}}) != with_parents({only}));
}

TEST_CASE(
    "a parent on a subset of the job's axes is a single value, and is identified by its content",
    "[fingerprint]") {
  ParentResult prep = parent("prep", output("/r/steps/prep", "x", "11"));
  prep.element = {{"data", "a"}};
  const Json element = {{"data", "a"}, {"lr", 0.1}};
  CHECK_FALSE(is_list(1, prep.element, element));
  CHECK(is_list(1, element, prep.element));  // a list of one, since the parent has an axis more
  const Fingerprint before = with_parents({prep}, element);
  ParentResult other = prep;
  other.element = {{"data", "b"}};
  CHECK(with_parents({other}, {{"data", "b"}, {"lr", 0.1}}) != before);
  other = parent("prep", output("/r/steps/prep", "x", "12"));
  other.element = prep.element;
  CHECK(with_parents({other}, element) != before);
}

TEST_CASE("a result of fewer parents differs from a result of all, and of those alone",
          "[fingerprint]") {
  const auto train = [](int n) {
    ParentResult of = parent("train", output("/r/steps/train", "x", std::to_string(n)));
    of.element = {{"n", n}};
    return of;
  };
  ParentResult failed = train(2);
  failed.failed = true;
  failed.outputs = Json::object();
  const Fingerprint fewer = with_parents({train(1), failed, train(3)});
  CHECK(fewer != with_parents({train(1), train(2), train(3)}));
  CHECK(fewer != with_parents({train(1), train(3)}));
  ParentResult skipped = failed;
  skipped.failed = false;
  skipped.skipped = true;
  CHECK(fewer != with_parents({train(1), skipped, train(3)}));
}

TEST_CASE("the fingerprint of a parent without outputs stands for its work", "[fingerprint]") {
  const auto prepared = [](const Fingerprint& fingerprint) {
    ParentResult prep = parent("prep", Json::object());
    prep.fingerprint = fingerprint;
    return std::vector{prep};
  };
  CHECK(with_parents(prepared(fingerprint_named("one"))) !=
        with_parents(prepared(fingerprint_named("two"))));
  CHECK(with_parents(prepared({})).empty());  // its work is unknown
  ParentResult declares = parent("prep", output("/r/steps/prep", "x", "11"));
  const Fingerprint with_outputs = with_parents({declares});
  declares.fingerprint = fingerprint_named("another");
  CHECK(with_parents({declares}) == with_outputs);
}

TEST_CASE("the parent's fingerprint counts if its outputs name places that are not hashed",
          "[fingerprint]") {
  const auto counts = [](const Json& value, const std::string& sha256) {
    ParentResult up = parent("up", {{"o", {{"value", value}, {"sha256", sha256}}}});
    up.fingerprint = fingerprint_named("one");
    const Fingerprint before = with_parents({up});
    up.fingerprint = fingerprint_named("two");
    const bool differs = with_parents({up}) != before;
    up.fingerprint = {};
    CHECK(with_parents({up}).empty() == differs);
    return differs;
  };
  const auto of_name = [](const Json& value) { return sha256_hex(value.dump()); };
  for (const Json& place : {Json("s3://bucket/x"), Json("/not/here"), Json("https://x/y"),
                            Json("host:/data/x"), Json{"a", "s3://bucket/y"}}) {
    CHECK(counts(place, of_name(place)));
  }
  CHECK_FALSE(counts("s3://bucket/x", "11"));  // the program has reported the hash
  CHECK_FALSE(counts("/data/x", "22"));        // dlflow hashes local files itself
  for (const Json& value : {Json("adam"), Json(0.1), Json("a/b"), Json(""), Json("://")}) {
    CHECK_FALSE(counts(value, of_name(value)));
  }
}

TEST_CASE("a parent's metric is only in the fingerprint of a step that refers to it",
          "[fingerprint]") {
  const auto with_loss = [](const std::string& base, double loss) {
    ParentResult a = parent("a", output("/r/steps/a", "x", "11"));
    a.metrics = {{"loss", loss}, {"seconds", 10 * loss}};
    return with_parents({a}, Json::object(), base);
  };
  CHECK(with_loss("{}", 1) == with_loss("{}", 2));
  const std::string refers = R"({"metrics":{"a":["loss"]}})";
  CHECK(with_loss(refers, 1) != with_loss(refers, 2));
  const std::string other = R"({"metrics":{"a":["accuracy"]}})";
  CHECK(with_loss(other, 1) == with_loss(other, 2));
}

TEST_CASE("a result that depends on a parent's metric is not reused for another value of it",
          "[fingerprint]") {
  const auto with_loss = [](const std::string& key, double loss) {
    const std::string metric = "${{ steps.a.metrics.loss }}";
    const std::string run = key == "run" ? "[./b, \"" + metric + "\"]" : "./b";
    const std::string more = key == "env"  ? ", env: {LOSS: \"" + metric + "\"}"
                             : key == "if" ? ", if: \"${{ steps.a.metrics.loss > 2 }}\""
                                           : "";
    const std::string base = base_of("name: w\nsteps:\n  b: {run: " + run + ", needs: a" + more +
                                     "}\n  a: {run: ./a, outputs: {x: x}}\n")
                                 .dump();
    ParentResult a = parent("a", output("/r/steps/a", "x", "11"));
    a.metrics = {{"loss", loss}};
    return with_parents({a}, Json::object(), base);
  };
  for (const std::string key : {"run", "env", "if"}) {
    INFO(key);
    CHECK(with_loss(key, 1) != with_loss(key, 3));
    CHECK(with_loss(key, 1) == with_loss(key, 1));
  }
  CHECK(with_loss("nothing", 1) == with_loss("nothing", 3));
}

TEST_CASE(
    "the element that a parent selected is in the fingerprint of a step that refers to its axes",
    "[fingerprint]") {
  const auto with_selected = [](const std::string& key, const Json& selected) {
    const std::string axis = "${{ steps.a.matrix.lr }}";
    const std::string run = key == "run" ? "[./b, \"" + axis + "\"]" : "./b";
    const std::string more = key == "env"  ? ", env: {LR: \"" + axis + "\"}"
                             : key == "if" ? ", if: \"${{ steps.a.matrix.lr > 2 }}\""
                                           : "";
    const std::string base = base_of("name: w\nsteps:\n  b: {run: " + run + ", needs: a" + more +
                                     "}\n  a: {uses: checkpoint, with: {from: \"${{ "
                                     "steps.t.outputs.m }}\"}}\n  t: {run: x, outputs: {m: m}, "
                                     "matrix: {lr: [1, 2]}}\n")
                                 .dump();
    ParentResult a = parent("a", output("/r/steps/a", "x", "11"));
    for (Json& left : a.outputs) left["matrix"] = selected;
    return with_parents({a}, Json::object(), base);
  };
  for (const std::string key : {"run", "env", "if"}) {
    INFO(key);
    CHECK(with_selected(key, {{"lr", 1}}) != with_selected(key, {{"lr", 2}}));
    CHECK(with_selected(key, {{"lr", 1}}) == with_selected(key, {{"lr", 1}}));
    CHECK(with_selected(key, {{"lr", 1}}) == with_selected(key, {{"lr", 1}, {"width", 3}}));
  }
  CHECK(with_selected("nothing", {{"lr", 1}}) == with_selected("nothing", {{"lr", 2}}));
}

TEST_CASE("a skipped parent changes the fingerprint", "[fingerprint]") {
  ParentResult skipped = parent("a", output("/r/steps/a", "x", "11"));
  skipped.skipped = true;
  ParentResult without = parent("a", Json::object());
  without.skipped = true;
  CHECK(with_parents({skipped}) == with_parents({without}));
  CHECK_FALSE(with_parents({without}).empty());
}

TEST_CASE("a command sees the parameters whose variable it mentions", "[fingerprint]") {
  CHECK(visible("echo hello") == Json::object());
  CHECK(visible("echo $DLFLOW_PARAM_LR") == Json{{"lr", 0.1}});
  CHECK(visible("echo ${DLFLOW_PARAM_WARM_UP}") == Json{{"warm-up", 5}});
  CHECK(visible("echo $DLFLOW_PARAM_LR_DECAY") == Json{{"lr_decay", 2}});
  CHECK(visible("./a.py", {"x = os.environ['DLFLOW_PARAM_LR']"}) == Json{{"lr", 0.1}});
}

TEST_CASE("a command that composes the names of variables sees all parameters", "[fingerprint]") {
  CHECK(visible("env | grep ^DLFLOW_").size() == 3);
  CHECK(visible("env | grep DLFLOW_PARAM_").size() == 3);
  CHECK(visible("eval echo \\$DLFLOW_PARAM_L$x").size() == 3);
}

TEST_CASE("a step kind gets its values only from `with`", "[fingerprint]") {
  Step step;
  step.uses = "train";
  step.with = Template(Json{{"note", "DLFLOW_PARAM_LR"}});
  CHECK(visible_params(step, {{"lr", 1}}, {}) == Json::object());
}

TEST_CASE("a script that calls dlflow.params sees all parameters, and can still be reused",
          "[fingerprint]") {
  const std::vector<std::string> texts = {"import dlflow\np = dlflow.params(lr=0.5)\n"};
  CHECK(visible("./a.py", texts).size() == 3);
  CHECK(visible("./a.py", {"from dlflow import params\n"}).size() == 3);
  CHECK(visible("./a.py", {"import os, dlflow as d\np = d.params()\n"}).size() == 3);
  CHECK(visible("./a.py", {"import dlflow\nprint(1)\n"}).empty());
  CHECK(visible("./a.py", {"params = {}\n"}).empty());
  CHECK(visible("./a.py", {"from lib import d\np = d.params()\n", "import dlflow as d\n"}).size() ==
        3);
  CHECK(visible("./a.py", {"import dlflow\n", "params = {}\n"}).empty());
  CHECK(visible("python3 -c 'import dlflow; print(dlflow.params())'").size() == 3);
  CHECK_FALSE(sees_run(Step(), texts));
}

TEST_CASE("settings for ending a pass early do not change the fingerprint", "[fingerprint]") {
  const auto base_with = [](const std::string& checkpoint) {
    return base_of(changed("env: {SEED: 7}", "checkpoint: {" + checkpoint + "}"));
  };
  const Json plain = base_with("every: 2 epochs");
  CHECK(base_with("every: 2 epochs, signal: SIGTERM, lead: 5m, newer: 'ckpt/*.pt'") == plain);
  CHECK(base_with("every: 3 epochs") != plain);
}

TEST_CASE("a step that waits for a failed one without using it has no reusable result",
          "[fingerprint]") {
  ParentResult failed = parent("b", Json::object());
  failed.failed = true;
  const auto result = [&](const std::string& child, const ParentResult& of) {
    const std::string base =
        base_of("name: w\nsteps:\n  a: " + child +
                "\n  b: {run: ./b, allow_failure: true, matrix: {n: [1, 2]}, outputs: {o: o}}\n")
            .dump();
    return with_parents({of}, Json::object(), base);
  };
  CHECK(result("{run: ./a, needs: [b]}", failed).empty());
  // A step that uses their outputs takes nothing of this one.
  CHECK_FALSE(
      result("{run: [./a, \"${{ join(steps.b.outputs.o) }}\"], needs: [b]}", failed).empty());
  CHECK_FALSE(result("{run: ./a, needs: [b]}", parent("b", output("/r", "o", "11"))).empty());
}
