#include "engine/model/parse.h"

#include <sys/stat.h>

#include "tests/support/temp_dir.h"
#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using namespace std::chrono_literals;
using test::workflow_of;

namespace {

constexpr const char* kPipeline = R"(
name: fashion
params: {epochs: 3, rates: [0.05, 0.1], longer: "${{ params.epochs }}0"}
images: {pytorch: {from: "docker-archive:images/pytorch.tar"}}
steps:
  data:
    uses: stage
    with: {sources: [{url: "file:///data/x.gz", unpack: gzip}]}
  train:
    uses: train
    matrix: {lr: "${{ params.rates }}"}
    resources: {ranks: 2, memory: 2GiB, walltime: 20m}
    with:
      model: models/lenet.yaml
      data: ${{ steps.data.outputs.path }}
      epochs: ${{ params.epochs }}
      lr: ${{ matrix.lr }}
    checkpoint: {every: 200 steps, keep: 3}
    retry: {attempts: 3, on: [failure, out-of-memory]}
  best:
    uses: checkpoint
    with: {select: max accuracy, from: "${{ steps.train.outputs.checkpoints }}"}
  plot:
    image: pytorch
    run: [python, plot.py, "${{ steps.train.metrics.loss }}"]
    needs: best
    env: {TITLE: "lr ${{ join(params.rates) }}"}
    outputs: {picture: loss.png}
    require: {accuracy: ">= 0.88", loss: < 1}
    if: ${{ params.epochs > 1 }}
)";

const Step& step_of(const Workflow& workflow, const std::string& name) {
  for (const Step& step : workflow.steps) {
    if (step.name == name) return step;
  }
  throw Error(Errc::NotFound, name);
}

}  // namespace

TEST_CASE("a workflow holds the content of its text", "[parse]") {
  const Workflow workflow = workflow_of(kPipeline);
  CHECK(workflow.name == "fashion");
  CHECK(workflow.text == kPipeline);
  CHECK(workflow.params == Json({{"epochs", 3}, {"rates", {0.05, 0.1}}, {"longer", "30"}}));
  REQUIRE(workflow.images.size() == 1);
  CHECK(workflow.images[0].from == "docker-archive:images/pytorch.tar");
  REQUIRE(workflow.steps.size() == 4);

  const Step& train = step_of(workflow, "train");
  CHECK(train.uses == "train");
  CHECK(train.location == Location{9, 3});
  CHECK(train.matrix.axes.at(0).values == std::vector<Json>{0.05, 0.1});
  CHECK(resources_from_json(train.resources.source()) == Resources{2, 1, 0, 2u << 30, 20min});
  CHECK(train.checkpoint->unit == CheckpointPolicy::Unit::Steps);
  CHECK(train.checkpoint->every == 200);
  CHECK(train.checkpoint->keep == 3);
  CHECK(train.retry.attempts == 3);
  CHECK(train.retry.on == std::vector{RetryCause::Failure, RetryCause::OutOfMemory});
  CHECK(train.locations.at("resources.walltime") == Location{12, 51});
  CHECK(train.with.references().at(0).location == Location{15, 17});

  const Step& plot = step_of(workflow, "plot");
  CHECK(plot.image == "pytorch");
  CHECK(plot.outputs == std::map<std::string, std::string>{{"picture", "loss.png"}});
  REQUIRE(plot.require.size() == 2);
  CHECK(plot.require[0].metric == "accuracy");
  CHECK(plot.require[0].comparison == ">=");
  CHECK(plot.require[0].bound == 0.88);
  Context context;
  context.params = &workflow.params;
  CHECK(plot.condition.evaluate(context) == true);
  CHECK(plot.environment.evaluate(context) == Json({{"TITLE", "lr 0.05,0.1"}}));
}

TEST_CASE("a step depends on the steps that it names or refers to, each once", "[parse]") {
  const Workflow workflow = workflow_of(kPipeline);
  CHECK(step_of(workflow, "data").needs.empty());
  CHECK(step_of(workflow, "best").needs == std::vector<std::string>{"train"});
  CHECK(step_of(workflow, "plot").needs == std::vector<std::string>{"best", "train"});
}

TEST_CASE("values left out of `with` have their defaults", "[parse]") {
  const Workflow workflow = workflow_of(kPipeline);
  const Json train = step_of(workflow, "train").with.source();
  CHECK(train.at("momentum") == 0.9);
  CHECK(train.at("schedule") == "cosine");
  CHECK_FALSE(train.contains("normalize"));
  CHECK(step_of(workflow, "best").with.source().at("verify") == true);
}

TEST_CASE("a parameter is replaced by --set, typed as YAML", "[parse]") {
  const Workflow workflow = workflow_of(kPipeline, {"epochs=30", "rates=[1, 2.5]", "epochs=31"});
  CHECK(workflow.params == Json({{"epochs", 31}, {"rates", {1, 2.5}}, {"longer", "310"}}));
  CHECK(workflow_of("params: {a: 1}\nsteps: {s: {run: x}}", {"a="}).params.at("a") == "");
  CHECK(workflow_of("params: {a: 1}\nsteps: {s: {run: x}}", {"a=${{ 1 }}"}).params.at("a") ==
        "${{ 1 }}");  // a value from outside is data
}

TEST_CASE("text values of the workflow stay text with --set", "[parse]") {
  const auto tag = [](const std::string& value) {
    return workflow_of("params: {tag: \"1.9\"}\nsteps: {s: {run: x}}", {"tag=" + value})
        .params.at("tag");
  };
  CHECK(tag("1.10") == "1.10");
  CHECK(tag("007") == "007");
  CHECK(tag("true") == "true");
  CHECK(tag("null") == "null");
  CHECK(tag("\"1.10\"") == "1.10");  // in the form of a frozen plan
  CHECK(tag("[1.10]") == Json({1.10}));
}

TEST_CASE("a parameter decides whether a step runs in an image", "[parse]") {
  const auto image = [](const std::string& name) {
    return workflow_of("params: {image: " + name + "}\nimages: {torch: {from: 'dir:x'}}\n" +
                       "steps: {a: {run: x, image: \"${{ params.image }}\"}}")
        .steps[0]
        .image;
  };
  CHECK(image("torch") == "torch");
  CHECK(image("none").empty());
  CHECK(workflow_of("images: {none: {from: 'dir:x'}}\nsteps: {a: {run: x, image: none}}")
            .steps[0]
            .image == "none");
}

TEST_CASE("a run step may have values", "[parse]") {
  const Workflow workflow = workflow_of(
      "params: {n: 3}\nsteps: {a: {run: x, outputs: {o: o}}, s: {run: y, with: {n: "
      "\"${{ params.n }}\", list: \"${{ steps.a.outputs.o }}\", deep: {x: [1]}}}}");
  CHECK(step_of(workflow, "s").needs == std::vector<std::string>{"a"});
  CHECK(step_of(workflow, "s").with.source().at("deep") == Json({{"x", {1}}}));
}

TEST_CASE("plain scalars are typed by YAML 1.2", "[parse]") {
  const Json params = workflow_of(R"(
params: {a: 007, b: 0x1F, c: 0o17, d: +5, e: 1e-3, f: .5, g: yes, h: "1", i: ~, j: .inf, k: TRUE, l: 1_000,
         m: 99999999999999999999, n: !!str 5, o: 1.2.3, p: -0x1}
steps: {s: {run: x}}
)")
                          .params;
  CHECK(
      params ==
      Json::parse(R"({"a": 7, "b": 31, "c": 15, "d": 5, "e": 0.001, "f": 0.5, "g": "yes", "h": "1",
    "i": null, "j": ".inf", "k": true, "l": "1_000", "m": "99999999999999999999", "n": "5", "o": "1.2.3", "p": "-0x1"})"));
}

TEST_CASE("CRLF, a byte order mark and anchors are fine", "[parse]") {
  const Workflow workflow =
      workflow_of("\xEF\xBB\xBFparams: {a: &x {b: 1}, c: *x}\r\nsteps:\r\n  s: {run: x}\r\n");
  CHECK(workflow.params.at("c") == Json({{"b", 1}}));
  CHECK(workflow.steps.at(0).location == Location{3, 3});
}

TEST_CASE("a workflow without a name is named after its file", "[parse]") {
  const auto name = [](const std::string& file) {
    return std::get<Workflow>(parse_workflow_text("steps: {s: {run: x}}", file)).name;
  };
  CHECK(name("dir/my net.yaml") == "my-net");
  CHECK(name("2024.yaml") == "workflow-2024");
}

TEST_CASE("a matrix of 100,000 elements is counted, not made", "[parse]") {
  std::string numbers = "[0";
  for (int i = 1; i < 320; ++i) numbers += "," + std::to_string(i);
  const Workflow workflow = workflow_of("params: {n: " + numbers +
                                        "]}\nsteps: {s: {run: x, matrix: "
                                        "{a: \"${{ params.n }}\", b: \"${{ params.n }}\"}}}");
  CHECK(max_elements(workflow.steps.at(0).matrix) == 102'400);
}

TEST_CASE("files that a step names must be beside the workflow", "[parse]") {
  const test::TempDir folder;
  folder.write("models/lenet.yaml", "");
  folder.write("data/x", "");
  const auto file = folder.write("w.yaml", R"(
params: {net: lenet}
steps:
  good:
    uses: train
    matrix: {net: [lenet, lenett]}
    with: {model: "models/${{ params.net }}.yaml", data: x, epochs: 1, lr: 1}
    inputs: [data, models/lenet.yaml]
  bad:
    uses: train
    matrix: {net: [lenet, lenett]}
    with: {model: "models/${{ matrix.net }}.yaml", data: x, epochs: 1, lr: 1}
    inputs: [dta]
  folder:
    uses: train
    with: {model: models, data: x, epochs: 1, lr: 1}
)");
  const auto result = parse_workflow(file);
  REQUIRE(std::holds_alternative<Diagnostics>(result));
  const auto& found = std::get<Diagnostics>(result);
  const std::string base = folder.path().string();
  REQUIRE(found.size() == 3);
  CHECK(to_string(found[0]) ==
        file.string() + ":12:19: error: with.model of step 'bad': there is no file " + base +
            "/models/lenett.yaml; did you mean 'models/lenet.yaml'? (from "
            "'models/${{ matrix.net }}.yaml' with net = lenett)");
  CHECK(to_string(found[1]) == file.string() +
                                   ":13:14: error: inputs[0] of step 'bad': there is no file " +
                                   base + "/dta; did you mean 'data'?");
  CHECK(found[2].message ==
        "with.model of step 'folder': " + base + "/models is a folder; give a file");
}

TEST_CASE("a pipe cannot be an input", "[parse]") {
  const test::TempDir folder;
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  const auto file = folder.write("w.yaml", "steps: {a: {run: x, inputs: [pipe]}}");
  const auto result = parse_workflow(file);
  REQUIRE(std::holds_alternative<Diagnostics>(result));
  CHECK(std::get<Diagnostics>(result)[0].message ==
        "inputs[0] of step 'a': " + (folder.path() / "pipe").string() +
            " is a pipe, a socket or a device, which cannot be copied into a run; let the step "
            "open it by its absolute path");
}

TEST_CASE("a file that cannot be read is a diagnostic too", "[parse]") {
  const test::TempDir folder;
  const auto message = [&](const std::filesystem::path& file, const ParseLimits& limits = {}) {
    return to_string(std::get<Diagnostics>(parse_workflow(file, {}, limits)).at(0));
  };
  const auto base = folder.path().string();
  CHECK(message(folder.path() / "none") ==
        base + "/none: error: cannot open " + base + "/none: No such file or directory");
  CHECK(message(folder.path()) == base + ": error: cannot read " + base + ": it is a folder");
  const auto large = folder.write("large", "");
  std::filesystem::resize_file(large, 100'000'000);  // a sparse file
  CHECK(message(large) ==
        base +
            "/large: error: the file has 95.4 MiB, but a workflow may have at most 4.0 MiB; "
            "is it the right file?");
}

TEST_CASE("repetitions are an axis, and set the seed of training", "[parse]") {
  const Workflow workflow = workflow_of(R"(
steps:
  a: {run: ./a, repeat: 3}
  b: {run: ./b, matrix: {lr: [1, 2]}, repeat: 2}
  c: {uses: train, repeat: 2, with: {model: m, data: d, epochs: 1, lr: 1}}
  d: {uses: train, repeat: 2, with: {model: m, data: d, epochs: 1, lr: 1, seed: 7}}
)");
  const Matrix& a = step_of(workflow, "a").matrix;
  CHECK(matrix_elements(a) == std::vector<Json>{{{"repeat", 1}}, {{"repeat", 2}}, {{"repeat", 3}}});
  CHECK(matrix_elements(step_of(workflow, "b").matrix).size() == 4);
  CHECK(step_of(workflow, "c").with.source().at("seed") == "${{ matrix.repeat }}");
  CHECK(step_of(workflow, "d").with.source().at("seed") == 7);
}

TEST_CASE("an external input declares whether its content counts", "[parse]") {
  const Workflow workflow =
      workflow_of("steps: {a: {run: x, inputs: [{path: /a}, {path: /b, hash: none}]}}");
  const Step& step = workflow.steps[0];
  CHECK(step.inputs.empty());
  REQUIRE(step.data.size() == 2);
  CHECK(step.data[0].path == "/a");
  CHECK(step.data[0].content_counts);
  CHECK_FALSE(step.data[1].content_counts);
}

TEST_CASE("a command declares its signal to save, the time and the files that show success",
          "[parse]") {
  const auto policy = [](const std::string& text) {
    return *workflow_of("steps: {a: {run: x, checkpoint: {" + text + "}}}").steps[0].checkpoint;
  };
  const CheckpointPolicy plain = policy("");
  CHECK(plain.signal == CheckpointPolicy::Signal::Usr1);
  CHECK(plain.lead == 0s);
  CHECK(plain.newer.empty());
  const CheckpointPolicy given = policy("signal: SIGTERM, lead: 5m, newer: 'ckpt/*.pt'");
  CHECK(given.signal == CheckpointPolicy::Signal::Term);
  CHECK(given.lead == 5min);
  CHECK(given.newer == "ckpt/*.pt");
  CHECK(given.every == plain.every);
}

TEST_CASE("a program has its lead time to save, but at most half of its walltime", "[parse]") {
  const auto lead = [](std::chrono::seconds given, std::chrono::seconds walltime) {
    CheckpointPolicy policy;
    policy.lead = given;
    return lead_of(policy, walltime);
  };
  CHECK(lead(5min, 20min) == 5min);
  CHECK(lead(5min, 8min) == 4min);
  CHECK(lead(5min, 0s) == 5min);
  CHECK(lead(0s, 20min) == 60s);
  CHECK(lead(0s, 80s) == 20s);
  CHECK(lead_of(std::nullopt, 0s) == 60s);
}

TEST_CASE("the first folder of a pattern is the one in the program's working directory",
          "[parse]") {
  CHECK(folder_of_pattern("ckpt/*.pt") == "ckpt");
  CHECK(folder_of_pattern("out/run/checkpoint-*") == "out");
  for (const char* none : {"", "last.pt", "*.pt", "run-*/last.pt", "run?/x", "[ab]/x"}) {
    CHECK(folder_of_pattern(none).empty());
  }
}
