#include "runtime/gpu/replica.h"

#include "base/error.h"
#include "runtime/comm/patience.h"
#include "runtime/gpu/device_choice.h"

namespace dlflow::runtime {
namespace {

/// Sums of this size should keep NVLink busy; smaller ones would begin earlier. Not measured: no
/// machine with two GPUs was available.
constexpr size_t kBucketBytes = 4 << 20;

/// The report lies behind the last parameter.
std::vector<Bucket> buckets_of(const WeightLayout& layout, size_t report_size) {
  std::vector<size_t> sizes;
  for (const Parameter& parameter : layout.parameters()) sizes.push_back(parameter.size);
  sizes.push_back(report_size);
  return make_buckets(FlatLayout(sizes), kBucketBytes);
}

/// Returns the operations that complete a bucket, from the last to the first.
std::vector<int32_t> last_of_buckets(const Program& program, const std::vector<Bucket>& buckets) {
  std::vector<int32_t> operations;
  size_t complete = 0;
  for (size_t i = program.operations.size(); i-- > 0;) {
    const size_t before = complete;
    while (complete < buckets.size() &&
           buckets[complete].first_parameter >= program.first_parameter[i]) {
      ++complete;
    }
    if (complete > before) operations.push_back(int32_t(i));
  }
  return operations;
}

}  // namespace

GpuReplica::GpuReplica(Communicator& comm, const GpuLibraries& libraries, const Model& model,
                       size_t max_batch, size_t report_size, Compute compute)
    : comm_(comm),
      plugin_(libraries.plugin),
      layout_(plain_layout(model)),
      program_(make_program(model, *layout_)),
      compute_(compute),
      report_size_(report_size),
      buckets_(buckets_of(*layout_, report_size)),
      session_(make_session(max_batch)),
      end_(plugin_) {
  if (comm.size() == 1) return;
  const Activity activity(comm, "starts NCCL");
  nccl_library_.emplace(libraries.nccl);
  nccl_.emplace(comm, *nccl_library_, plugin_);
  arithmetic_ += ", " + nccl_library_->version();
}

/// This is the first call of the driver.
std::vector<DlflowGpuDevice> GpuReplica::visible_devices() const {
  const Activity activity(comm_, "starts its GPU");
  return plugin_.devices();
}

GpuSession GpuReplica::make_session(size_t max_batch) {
  const std::vector<DlflowGpuDevice> devices = visible_devices();
  const int device = choose_device(comm_, devices);
  program_.tensor_float32 = compute_ == Compute::TensorFloat32;
  if (comm_.size() > 1) program_.announced = last_of_buckets(program_, buckets_);
  const Activity activity(comm_, "starts its GPU");
  GpuSession session(plugin_, device, program_, int64_t(max_batch), report_size_);
  // After the session, which reports missing parts of a library.
  arithmetic_ = std::string(devices[size_t(device)].name) +
                (program_.tensor_float32 ? ", TF32, " : ", ") + plugin_.arithmetic();
  return session;
}

void GpuReplica::prepare(const std::set<size_t>& batches) {
  const Activity activity(comm_, "starts its GPU");
  session_.prepare(std::vector<int64_t>(batches.begin(), batches.end()));
}

void GpuReplica::set_state(std::span<const float> weights, std::span<const float> velocity) {
  session_.write(DLFLOW_GPU_WEIGHTS, weights);
  session_.write(DLFLOW_GPU_VELOCITY, velocity);
}

void GpuReplica::get_state(std::span<float> weights, std::span<float> velocity) const {
  session_.read(DLFLOW_GPU_WEIGHTS, weights);
  session_.read(DLFLOW_GPU_VELOCITY, velocity);
}

void GpuReplica::begin_step(float scale, std::span<const float> report, const DlflowGpuSgd& sgd) {
  sums_.clear();
  session_.train(scale, report,
                 [this](size_t operation) { start_sums(program_.first_parameter[operation]); });
  start_sums(0);
  update(sgd);
  step_end_ = session_.end_step();
  end_.record(session_.computing_stream());
}

GpuReplica::StepEnd GpuReplica::end_step() {
  wait_for_step();
  return {step_end_.first(report_size_), step_end_[report_size_] == 0};
}

/// Parameters from `first_ready` on have their gradients. Buckets start in order, so that all ranks
/// start them in the same order.
void GpuReplica::start_sums(size_t first_ready) {
  if (!nccl_) return;
  while (sums_.size() < buckets_.size() && buckets_[sums_.size()].first_parameter >= first_ready) {
    const Bucket& bucket = buckets_[sums_.size()];
    comm_.submit({"all-reduce", "gradients on the GPUs", bucket.num_elements, "fp32"});
    const DeviceFloats gradients = session_.gradients();
    sums_.push_back(nccl_->start_sum({gradients.data + bucket.first_element, bucket.num_elements},
                                     session_.computing_stream()));
  }
}

void GpuReplica::update(const DlflowGpuSgd& sgd) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (nccl_) nccl_->hold_back(session_.computing_stream(), sums_[i]);
    session_.update(buckets_[i].first_element, buckets_[i].num_elements, sgd);
  }
}

void GpuReplica::wait_for_step() {
  for (Patience patience(comm_); !end_.done();) {
    if (nccl_) nccl_->check("a step");
    if (patience.wait()) continue;
    throw Error(Errc::Unavailable, "rank " + std::to_string(comm_.rank()) +
                                       ": the GPU did not end a step within " +
                                       std::to_string(comm_.timeout().count() / 1000) +
                                       " s; see the other ranks' messages");
  }
  for (DeviceTransfer& sum : sums_) nccl_->wait(sum);
}

}  // namespace dlflow::runtime
