#include "runtime/gpu/replica.h"

#include <set>

#include "base/error.h"
#include "runtime/comm/lifeline.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/gpu_agreement.h"
#include "tests/support/on_ranks.h"
#include "tests/support/tiny_data.h"
#include "tests/unit/runtime/nn/every_layer.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::fake_gpu;

namespace {

constexpr size_t kReport = 16;
const GpuLibraries kFake = {DLFLOW_FAKE_GPU, DLFLOW_FAKE_GPU};
constexpr DlflowGpuSgd kGentle = {0.1f, 0, 0}, kBroken = {INFINITY, 0, 0};

/// Every kind of layer, a sum with a term that has another reader, and batch normalisation after a
/// linear layer. (A bias before batch normalisation has no gradient to compare.)
constexpr const char* kOddModel = R"(name: odd
input: [2, 9, 9]
layers:
  - conv2d: {name: a, channels: 3, kernel: 3, padding: 1, bias: false}
  - batch_norm: {name: b}
  - relu: {name: r}
  - conv2d: {name: c, channels: 3, kernel: 1}
  - add: {from: r}
  - relu
  - max_pool: {kernel: 3, stride: 2}
  - avg_pool: {kernel: 2, stride: 1, padding: 1}
  - flatten
  - linear: {name: d, features: 5, bias: false}
  - batch_norm: {name: e}
  - relu
  - linear: {name: f, features: 4}
)";

/// The results of a few steps: weights, velocity, and the report of each step.
struct Trained {
  std::vector<float> weights, velocity, reports;
};

/// Takes `steps` steps over all samples of `p`; this rank has its share of them.
Trained train_share(Communicator& comm, const test::GpuProblem& p, int steps) {
  const size_t count = p.labels.size();
  const test::GpuShare share = test::share_of(p, comm);
  GpuReplica replica(comm, kFake, p.model, count, kReport);
  Trained result{p.weights, std::vector<float>(p.layout->trainable_size()), {}};
  replica.set_state(result.weights, result.velocity);
  for (int step = 0; step < steps; ++step) {
    std::vector<float> report(kReport);
    report[1] = float(comm.rank() + 1);
    const auto sums =
        replica.step(share.images, share.labels, 1 / float(count), report,
                     {.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 1e-3f});
    result.reports.insert(result.reports.end(), sums.report.begin(), sums.report.end());
  }
  replica.get_state(result.weights, result.velocity);
  return result;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = a.size() == b.size() ? 0 : NAN;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double(a[i]) - b[i]));
  return largest;
}

bool is_on_gpus(const Model& model) {
  try {
    make_program(model, *plain_layout(model));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("a layer that GPUs do not have is named before anything runs") {
  const Model model = parse_model(
      "name: m\ninput: [4]\nlayers:\n- linear: {features: 3}\n- gelu\n- linear: {features: 2}\n",
      "m.yaml");
  CHECK_THROWS_WITH(make_program(model, *plain_layout(model)),
                    "layer 'gelu1' (line 5): there is no gelu on GPUs; train with 'device: cpu'");
}

TEST_CASE("unsupported options of a layer or a loss are named before anything runs") {
  const auto refusal = [](const std::string& model) {
    const Model parsed = parse_model("name: m\n" + model, "m.yaml");
    return test::error_of([&] { make_program(parsed, *plain_layout(parsed)); });
  };
  const auto of_convolution = [&](const std::string& attributes) {
    return refusal("input: [4, 6, 6]\nlayers:\n- conv2d: {name: c, channels: 4, kernel: " +
                   attributes + "}\n- flatten\n- linear: {features: 2}\n");
  };
  CHECK(of_convolution("3") == "");
  CHECK_THAT(of_convolution("3, groups: 2"),
             Contains("'c' (line 4): there is no conv2d with groups"));
  CHECK_THAT(of_convolution("3, dilation: 2"), Contains("there is no conv2d with dilation"));
  CHECK_THAT(of_convolution("[3, 1]"), Contains("there is no conv2d with two sizes"));
  CHECK_THAT(refusal("input: [1]\nlayers:\n- embedding: {name: e, vocabulary: 5, "
                     "features: 4}\n- flatten\n- linear: {features: 5, tied: e, bias: false}\n"),
             Contains("'e' (line 4): there is no embedding on GPUs"));
  CHECK_THAT(refusal("input: [4, 6, 6]\nlayers:\n- conv2d: {channels: 4, kernel: 3, bias: false}\n"
                     "- batch_norm: {name: b}\n- relu6\n- flatten\n- linear: {features: 2}\n"),
             Contains("'b' (line 5): there is no relu6 behind batch_norm on GPUs"));
  CHECK_THAT(refusal("input: [4]\nloss: reconstruction\nlayers:\n- linear: {features: 4}\n"),
             Contains("GPUs support only the loss softmax_cross_entropy"));
}

TEST_CASE("a program computes the scores and gradients of the reference") {
  fake_gpu() = {};
  std::vector<test::GpuProblem> problems;
  problems.push_back(test::make_gpu_problem(parse_model(kOddModel, "odd.yaml"), 5));
  problems.push_back(
      test::make_gpu_problem(parse_model(test::kNormalisedAndAdded, "added.yaml"), 3));
  problems.push_back(test::make_gpu_problem(parse_model(test::kStem, "stem.yaml"), 3));
  problems.push_back(test::make_gpu_problem(parse_model(test::kWide, "wide.yaml"), 3));
  for (const test::LayerCase& layer : test::every_layer()) {
    const std::string text = "name: " + layer.word + "\ninput: " + layer.input + "\nlayers:\n";
    const Model model = parse_model(text + layer.layers, "m.yaml");
    if (is_on_gpus(model)) problems.push_back(test::make_gpu_problem(model, 5));
  }
  for (const auto& [name, batch] :
       {std::pair("mlp", 5), std::pair("lenet", 2), std::pair("resnet20", 2)}) {
    problems.push_back(test::make_gpu_problem(DLFLOW_MODELS, name, size_t(batch)));
  }
  for (const test::GpuProblem& problem : problems) {
    for (const auto& [what, distance] : test::distances_of_step(kFake, problem)) {
      INFO(problem.model.name << ": " << what << " differs by " << distance);
      CHECK(distance < 1e-6);
    }
  }
}

TEST_CASE("three ranks train like one rank, and end with the same bits") {
  // A model without batch normalisation, since statistics depend on a rank's own samples.
  const auto problem = test::make_gpu_problem(DLFLOW_MODELS, "mlp", 7);
  const auto alone = test::on_ranks(1, [&](Communicator& c) { return train_share(c, problem, 3); });
  const auto three = test::on_ranks(3, [&](Communicator& c) { return train_share(c, problem, 3); });
  CHECK(three[0].weights == three[1].weights);
  CHECK(three[0].weights == three[2].weights);
  CHECK(three[0].velocity == three[2].velocity);
  CHECK(largest_difference(alone[0].weights, three[0].weights) < 1e-6);
  CHECK(largest_difference(alone[0].weights, problem.weights) > 1e-3);  // it did train
  CHECK(std::abs(alone[0].reports[0] - three[1].reports[0]) < 1e-5);    // the loss
  CHECK(alone[0].reports[1] == 1);
  CHECK(three[1].reports[1] == 6);  // 1 + 2 + 3
}

TEST_CASE("a rank without samples adds nothing") {
  const auto problem = test::make_gpu_problem(parse_model(test::kTinyModel, "tiny.yaml"), 2);
  const auto alone = test::on_ranks(1, [&](Communicator& c) { return train_share(c, problem, 1); });
  REQUIRE(alone[0].weights != problem.weights);
  const auto three = test::on_ranks(3, [&](Communicator& c) { return train_share(c, problem, 1); });
  CHECK(three[0].weights == three[1].weights);  // one of three ranks has no samples
  CHECK(three[0].reports[1] == 6);
  for (const float w : three[0].weights) REQUIRE(std::isfinite(w));
}

TEST_CASE("buckets are summed during the backward pass, and updated after their sums") {
  const auto problem = test::make_gpu_problem(DLFLOW_MODELS, "lenet", 2);
  const auto logs = test::on_ranks(2, [&](Communicator& comm) {
    fake_gpu() = {};
    GpuReplica replica(comm, kFake, problem.model, 1, kReport);
    replica.prepare({1});
    fake_gpu().log.clear();
    const size_t pixels = problem.images.size() / 2;
    replica.step(std::span(problem.images).first(pixels), std::span(problem.labels).first(1), 0.5f,
                 std::vector<float>(kReport), kGentle);
    return fake_gpu().log;
  });
  std::vector<std::string> calls;
  size_t summed = 0, updated = 0;
  for (const std::string& line : logs[0]) {
    const std::string call = line.substr(0, line.find(' '));
    if (call == "all-reduce") summed += std::stoul(line.substr(call.size()));
    if (call == "update") updated += std::stoul(line.substr(line.find(' ', call.size() + 1)));
    calls.push_back(call);
  }
  CHECK(summed == problem.layout->size() + kReport);
  CHECK(updated == summed);
  // The first bucket ends before fc1.weight, which is larger than a bucket may be.
  const std::vector<std::string> bucket = {"record", "wait", "all-reduce", "record"};
  const size_t num_buckets = size_t(std::ranges::count(calls, "all-reduce"));
  CHECK(num_buckets == 3);
  // Both buckets that a linear layer completes start after it, and the last one after the first
  // convolution.
  std::vector<std::string> expected = {"stage", "backward", "backward", "ready"};
  const auto expect = [&](std::initializer_list<std::string> lines) {
    expected.insert(expected.end(), lines);
  };
  const auto expect_bucket = [&] { expected.insert(expected.end(), bucket.begin(), bucket.end()); };
  expect_bucket();
  expect_bucket();
  expect({"backward", "backward", "backward", "ready"});
  expect_bucket();
  for (size_t i = 0; i < num_buckets; ++i) expect({"wait", "update"});
  expected.emplace_back("record");  // the end of the step
  CHECK(calls == expected);
  CHECK(logs[0] == logs[1]);
}

TEST_CASE("a single rank sums nothing, and gets no calls from the backward pass") {
  const auto problem = test::make_gpu_problem(DLFLOW_MODELS, "lenet", 1);
  const auto logs = test::on_ranks(1, [&](Communicator& comm) {
    fake_gpu() = {};
    GpuReplica replica(comm, kFake, problem.model, 1, kReport);
    replica.prepare({1});
    fake_gpu().log.clear();
    replica.step(problem.images, problem.labels, 1, std::vector<float>(kReport), kGentle);
    return fake_gpu().log;
  });
  CHECK_FALSE(logs[0].empty());
  for (const std::string& line : logs[0]) {
    CHECK_FALSE(line.starts_with("all-reduce"));
    CHECK_FALSE(line.starts_with("ready"));
  }
}

TEST_CASE("a rank reports each sum to its watch before it begins") {
  const auto problem = test::make_gpu_problem(DLFLOW_MODELS, "lenet", 2);
  const auto heard = test::on_ranks(2, [&](Communicator& comm) {
    fake_gpu() = {};
    GpuReplica replica(comm, kFake, problem.model, 2, kReport);
    Lifeline lifeline;
    comm.set_lifeline(&lifeline);
    replica.step(problem.images, problem.labels, 0.5f, std::vector<float>(kReport), kGentle);
    comm.set_lifeline(nullptr);
    size_t num_elements = 0;
    std::set<std::string> calls;
    for (const CallRecord& call : lifeline.calls().recent().newest) {
      num_elements += call.num_elements;
      calls.insert(std::string(call.operation.data()) + " of " + call.name.data());
    }
    return std::pair(num_elements, calls);
  });
  CHECK(heard[0] == heard[1]);
  CHECK(heard[0].first == problem.layout->size() + kReport);
  CHECK(heard[0].second == std::set<std::string>{"all-reduce of gradients on the GPUs"});
}

TEST_CASE("a step that NCCL cannot end becomes an error that names it") {
  const auto problem = test::make_gpu_problem(parse_model(test::kTinyModel, "tiny.yaml"), 2);
  const auto work = [&](Communicator& comm) -> std::string {
    fake_gpu() = {};
    GpuReplica replica(comm, kFake, problem.model, 2, kReport);
    comm.barrier();  // both have NCCL
    fake_gpu().fault = test::NcclFault::LostPeer;
    std::string message = test::error_of(
        [&] { replica.step(problem.images, problem.labels, 1, std::vector<float>(kReport), {}); });
    message += " | " + fake_gpu().log.back();
    fake_gpu() = {};
    return message;
  };
  for (const std::string& message : test::on_ranks(2, work)) {
    CHECK_THAT(message, Contains("NCCL: all-reduce: remote process exited") && Contains("| abort"));
  }
}

TEST_CASE("a weight that is not a number is reported with the step") {
  const auto problem = test::make_gpu_problem(parse_model(test::kTinyModel, "tiny.yaml"), 2);
  ThreadGroup group(1);
  GpuReplica replica(group.communicator(0), kFake, problem.model, 2, kReport);
  replica.set_state(problem.weights, std::vector<float>(problem.layout->trainable_size()));
  const std::vector<float> report(kReport);
  CHECK(replica.step(problem.images, problem.labels, 1, report, kGentle).finite);
  CHECK(!replica.step(problem.images, problem.labels, 1, report, kBroken).finite);
}

TEST_CASE(
    "slow calls at the start of GPUs are activities, so that the rank does not count as stalled") {
  const Model model = parse_model(test::kTinyModel, "tiny.yaml");
  const auto heard = test::on_ranks(2, [&](Communicator& comm) {
    Lifeline lifeline;
    comm.set_lifeline(&lifeline);
    std::vector<std::string> calls;
    fake_gpu() = {};
    fake_gpu().slow = [&](const std::string& call) {
      const char* activity = lifeline.activity();
      calls.push_back(call + ": " + (activity ? activity : "nothing"));
    };
    GpuReplica replica(comm, kFake, model, 2, kReport);
    replica.prepare({1, 2});
    fake_gpu() = {};
    calls.emplace_back(lifeline.activity() ? "goes on" : "over");
    comm.set_lifeline(nullptr);
    return calls;
  });
  const std::vector<std::string> expected = {
      "count_devices: starts its GPU", "open: starts its GPU",      "init: starts NCCL",
      "prepare 1: starts its GPU",     "prepare 2: starts its GPU", "over"};
  CHECK(heard[0] == expected);
  CHECK(heard[1] == expected);
}

TEST_CASE("a replica names all that influences its bits") {
  const auto words = test::on_ranks(2, [&](Communicator& comm) {
    fake_gpu() = {};
    const Model model = parse_model(test::kTinyModel, "tiny.yaml");
    return GpuReplica(comm, kFake, model, 2, kReport).arithmetic();
  });
  CHECK(words[0] == "Fake GPU, fake 1.0, NCCL 2.28.9");
}

TEST_CASE("the setting of TF32 reaches the plug-in, and is named") {
  fake_gpu() = {};
  const Model model = parse_model(test::kTinyModel, "tiny.yaml");
  ThreadGroup group(1);
  const GpuReplica usual(group.communicator(0), kFake, model, 2, kReport);
  CHECK(!fake_gpu().tensor_float32);
  const GpuReplica rough(group.communicator(0), kFake, model, 2, kReport, Compute::TensorFloat32);
  CHECK(fake_gpu().tensor_float32);
  CHECK(rough.arithmetic() == "Fake GPU, TF32, fake 1.0");
}
