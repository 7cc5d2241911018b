#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/network.h"
#include "runtime/optim/optimizer.h"
#include "tests/support/catch.h"
#include "tests/support/gpu_agreement.h"
#include "tests/support/on_ranks.h"
#include "tests/support/skip.h"

/// libdlflow_cuda on a real GPU, beside the reference layers and the CPU. Skipped with the reason
/// where there is none.
using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr size_t kReport = 16;
const char* const kModels[] = {"mlp", "lenet", "resnet20"};

/// |difference| / |expected| of each tensor, in fp32 with another order of additions. A ReLU whose
/// input is nearly 0 may be cut on one side alone: that moves gradients more than rounding does.
constexpr double kForwardTolerance = 1e-4, kGradientTolerance = 1e-3;

/// Of all weights after 20 steps, beside the CPU.
constexpr double kStepsTolerance = 1e-3;

/// What to open, or nothing, and the reason was printed.
std::optional<GpuLibraries> libraries() {
#ifdef DLFLOW_CUDA_PLUGIN
  try {
    GpuPlugin(DLFLOW_CUDA_PLUGIN).devices();
    return GpuLibraries{DLFLOW_CUDA_PLUGIN};
  } catch (const Error& e) {
    test::skip(e.what());
  }
#else
  test::skip("libdlflow_cuda was not built: CMake found no nvcc, cuDNN or cuBLASLt");
#endif
  return {};
}

struct Trained {
  std::vector<float> weights, velocity, reports;
  bool operator==(const Trained&) const = default;
};

constexpr DlflowGpuSgd kSgd = {0.02f, 0.9f, 1e-4f};

Trained train_on_gpu(const GpuLibraries& gpu, const test::GpuProblem& p, int steps) {
  ThreadGroup group(1);
  GpuReplica replica(group.communicator(0), gpu, p.model, p.labels.size(), kReport);
  Trained t{p.weights, std::vector<float>(p.layout->trainable_size()), {}};
  replica.set_state(t.weights, t.velocity);
  const std::vector<float> report(kReport);
  for (int i = 0; i < steps; ++i) {
    const auto end = replica.step(p.images, p.labels, 1 / float(p.labels.size()), report, kSgd);
    t.reports.insert(t.reports.end(), end.report.begin(), end.report.end());
  }
  replica.get_state(t.weights, t.velocity);
  return t;
}

/// The weights after the same steps on oneDNN.
std::vector<float> train_on_cpu(const test::GpuProblem& p, int steps) {
  const size_t trained = p.layout->trainable_size();
  Network network(p.model, int64_t(p.labels.size()), Network::Mode::Training, p.layout);
  HugeBuffer weights(p.layout->size()), gradients(p.layout->size()), velocity(trained);
  std::ranges::copy(p.weights, weights.floats().begin());
  OptimizerOptions options;
  options.momentum = kSgd.momentum;
  options.weight_decay = kSgd.weight_decay;
  const auto sgd = make_optimizer(options);
  for (int i = 0; i < steps; ++i) {
    network.use_weights(weights.floats());
    network.forward(p.images, p.labels);
    network.backward(gradients.floats(), 1 / float(p.labels.size()));
    sgd->begin_step(kSgd.learning_rate, uint64_t(i + 1));
    const Elements elements{{velocity.floats()}, weights.floats().first(trained)};
    REQUIRE(sgd->update(gradients.floats().first(trained), elements));
    update_statistics(gradients.floats().subspan(trained), weights.floats().subspan(trained));
  }
  return {weights.floats().begin(), weights.floats().end()};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  return test::distance(a, std::vector<double>(b.begin(), b.end()), 1);
}

}  // namespace

TEST_CASE("on a GPU, scores and every gradient agree with the reference") {
  const auto gpu = libraries();
  if (!gpu) return;
  for (const char* name : kModels) {
    const auto problem = test::make_gpu_problem(DLFLOW_MODELS, name, 8);
    for (const auto& [what, distance] : test::distances_of_step(*gpu, problem)) {
      INFO(name << ": " << what << " differs by " << distance);
      const bool forward = what == "scores" || what == "loss";
      CHECK(distance < (forward ? kForwardTolerance : kGradientTolerance));
    }
  }
}

TEST_CASE("on a GPU, 20 steps end where they end on the CPU") {
  const auto gpu = libraries();
  if (!gpu) return;
  for (const char* name : kModels) {
    const auto problem = test::make_gpu_problem(DLFLOW_MODELS, name, 32);
    const std::vector<float> expected = train_on_cpu(problem, 20);
    INFO(name);
    CHECK(distance(train_on_gpu(*gpu, problem, 20).weights, expected) < kStepsTolerance);
    CHECK(distance(problem.weights, expected) > 10 * kStepsTolerance);  // it did train
  }
}

TEST_CASE("on a GPU, the same steps give the same bits") {
  const auto gpu = libraries();
  if (!gpu) return;
  for (const char* name : kModels) {
    const auto problem = test::make_gpu_problem(DLFLOW_MODELS, name, 128);
    const Trained first = train_on_gpu(*gpu, problem, 50);
    INFO(name);
    CHECK(std::ranges::all_of(first.weights, [](float w) { return std::isfinite(w); }));
    CHECK(train_on_gpu(*gpu, problem, 50) == first);
  }
}

TEST_CASE("on a GPU, an evaluation agrees with the CPU") {
  const auto gpu = libraries();
  if (!gpu) return;
  for (const char* name : kModels) {
    const auto p = test::make_gpu_problem(DLFLOW_MODELS, name, 40);
    ThreadGroup group(1);
    GpuReplica replica(group.communicator(0), *gpu, p.model, p.labels.size(), kReport);
    replica.set_state(p.weights, std::vector<float>(p.layout->trainable_size()));
    const BatchResult result = replica.infer(p.images, p.labels);
    Network network(p.model, 40, Network::Mode::Inference, p.layout);
    HugeBuffer weights(p.layout->size());
    std::ranges::copy(p.weights, weights.floats().begin());
    network.use_weights(weights.floats());
    const BatchResult expected = network.forward(p.images, p.labels);
    INFO(name);
    CHECK(std::abs(result.loss_sum - expected.loss_sum) < kForwardTolerance * expected.loss_sum);
    CHECK(std::abs(result.num_correct - expected.num_correct) <= 1);  // where two scores are equal
  }
}

TEST_CASE("on one GPU, two ranks are refused before NCCL is asked") {
  const auto gpu = libraries();
  if (!gpu) return;
  if (GpuPlugin(gpu->plugin).devices().size() > 1) {
    test::skip("this machine has several GPUs: two ranks would find one each");
    return;
  }
  const auto problem = test::make_gpu_problem(DLFLOW_MODELS, "mlp", 2);
  const auto open = [&](Communicator& comm) {
    GpuReplica replica(comm, *gpu, problem.model, 2, kReport);
    return 0;
  };
  CHECK_THROWS_WITH(test::on_ranks(2, open),
                    Catch::Matchers::Contains("ranks 0 and 1 share the GPU"));
}
