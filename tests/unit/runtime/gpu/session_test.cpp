#include "runtime/gpu/session.h"

#include <map>

#include "base/error.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/gpu/nccl_communicator.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/gpu_agreement.h"

using namespace dlflow;
using namespace dlflow::runtime;
using test::fake_gpu;

namespace {

/// Two linear layers on the plug-in without a GPU, with announcements for both.
struct TwoLayers {
  explicit TwoLayers(size_t report_size = 2) : report(report_size) {
    fake_gpu() = {};
    program.announced = {1, 0};
  }
  ~TwoLayers() { fake_gpu() = {}; }

  GpuSession open() const { return {plugin, 0, program, 2, report.size()}; }

  GpuPlugin plugin{DLFLOW_FAKE_GPU};
  test::GpuProblem problem = test::make_gpu_problem(
      parse_model("name: m\ninput: [3]\nlayers:\n- linear: {features: 4}\n- relu\n"
                  "- linear: {features: 2}\n",
                  "m.yaml"),
      2);
  Program program = make_program(problem.model, *problem.layout);
  std::vector<float> report;
};

/// Makes all calls of a session and of an event.
void call_everything(const TwoLayers& layers) {
  (void)layers.plugin.devices();
  GpuSession session = layers.open();
  session.prepare(std::vector<int64_t>{2});
  std::vector<float> weights = layers.problem.weights;
  session.write(DLFLOW_GPU_WEIGHTS, weights);
  session.read(DLFLOW_GPU_WEIGHTS, weights);
  session.stage(layers.problem.images, layers.problem.labels);
  session.train(1, layers.report);
  session.update(0, 1, {});
  session.end_step();
  session.infer(layers.problem.images, layers.problem.labels);
  GpuEvent event(layers.plugin);
  event.record(session.computing_stream());
  event.hold_back(session.computing_stream());
  (void)event.done();
  ThreadGroup group(1);
  const NcclLibrary library(DLFLOW_FAKE_GPU);
  const NcclCommunicator comm(group.communicator(0), library, layers.plugin);
}

}  // namespace

TEST_CASE("an error on a device is reported with the failed action, in CUDA's words") {
  const std::map<std::string, std::string> doing = {{"describe_device", "looking at the GPU"},
                                                    {"open", "preparing the GPU"},
                                                    {"prepare", "preparing batches on the GPU"},
                                                    {"write", "copying to the GPU"},
                                                    {"read", "copying from the GPU"},
                                                    {"stage", "copying samples to the GPU"},
                                                    {"train", "training on the GPU"},
                                                    {"update", "updating weights on the GPU"},
                                                    {"end_step", "ending a step on the GPU"},
                                                    {"infer", "evaluating on the GPU"},
                                                    {"create_event", "creating an event"},
                                                    {"record_event", "recording an event"},
                                                    {"wait_for_event", "ordering two streams"},
                                                    {"event_done", "computing on the GPU"},
                                                    {"create_stream", "creating a stream"}};
  const TwoLayers layers;
  CHECK_NOTHROW(call_everything(layers));
  for (const auto& [call, what] : doing) {
    fake_gpu().broken_call = call;
    INFO(call);
    CHECK(test::error_of([&] { call_everything(layers); }, Errc::Unavailable) ==
          what + ": the bus fell off");
  }
}

TEST_CASE("an exception in an announcement is thrown after the step, without further announcements",
          "[gpu]") {
  const TwoLayers layers;
  GpuSession session = layers.open();
  session.write(DLFLOW_GPU_WEIGHTS, layers.problem.weights);
  session.stage(layers.problem.images, layers.problem.labels);
  std::vector<size_t> heard;
  session.train(1, layers.report, [&](size_t operation) { heard.push_back(operation); });
  CHECK(heard == std::vector<size_t>{1, 0});
  heard.clear();
  CHECK_THROWS_WITH(session.train(1, layers.report,
                                  [&](size_t operation) {
                                    heard.push_back(operation);
                                    throw Error(Errc::Unavailable, "no sum");
                                  }),
                    "no sum");
  CHECK(heard == std::vector<size_t>{1});
}

TEST_CASE("a step's report has the given length plus one number") {
  TwoLayers layers(3);
  layers.report = {0, 5, 7};
  GpuSession session = layers.open();
  session.write(DLFLOW_GPU_WEIGHTS, layers.problem.weights);
  session.stage(layers.problem.images, layers.problem.labels);
  session.train(1, layers.report);
  const std::span<const float> end = session.end_step();
  REQUIRE(end.size() == 4);
  CHECK(end[0] > 0);  // the loss
  CHECK(end[1] == 5);
  CHECK(end[2] == 7);
  CHECK(end[3] == 0);
  CHECK(session.gradients().count == layers.problem.layout->size() + 3);
  const BatchResult result = session.infer(layers.problem.images, layers.problem.labels);
  CHECK(result.num_targets == 2);
  CHECK(result.loss_sum == Approx(end[0]));
}
