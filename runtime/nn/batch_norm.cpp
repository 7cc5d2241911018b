#include <algorithm>

#include "runtime/nn/assembly.h"

namespace dlflow::runtime {
namespace {

/// Our own kernel: batch normalisation, residual addition and ReLU in one pass. If several networks
/// share statistics, it takes two passes, and their sums are combined in between.
class BatchNorm : public Operation {
 public:
  BatchNorm(const Builder& builder, const LayerNode& node, Value& input, Value* residual,
            Value& result)
      : relu_(node.relu),
        capped_(node.capped),
        training_(builder.training),
        frozen_(builder.training && node.layer.frozen),
        joint_(builder.joint && !node.layer.frozen),
        parameters_(builder.parameters),
        x_(input),
        residual_(residual),
        y_(result),
        geometry_(map_geometry(input)),
        mean_(size_t(geometry_.groups) * 16),
        variance_(mean_.size()),
        count_(values_per_channel()) {
    if (joint_) {
      sums_.resize(2 * mean_.size() + 1);
      weight_gradient_ = HugeBuffer(mean_.size());
      bias_gradient_ = HugeBuffer(mean_.size());
    }
    if (frozen_) sums_of_frozen_.resize(2 * mean_.size());
    const auto index = [&](const char* what) {
      return parameters_.plain(node.layer.name + what, {dimensions(input.desc())[1]});
    };
    weight_index_ = index(".weight");
    bias_index_ = index(".bias");
    mean_index_ = index(".running_mean");
    variance_index_ = index(".running_var");
    DLFLOW_CHECK(residual == nullptr || residual->desc() == input.desc());
    y_.shape = node.layer.shape;
    y_.data = builder.make(x_.desc());
    y_.needs_gradient = x_.needs_gradient || parameters_.trains(weight_index_) ||
                        (residual_ != nullptr && residual_->needs_gradient);
    builder.read(x_.data);
    if (residual_ != nullptr) builder.read(residual_->data);
  }

  size_t num_sums() const override { return sums_.size(); }

  std::span<double> forward_sums() override {
    batch_norm_sums(geometry_, x_.numbers(), first_sums(), second_sums());
    sums_.back() = double(values_per_channel());
    return sums_;
  }

  void forward(dnnl::stream&) override {
    const BatchNormParameters p = {parameters_.weight_slot(weight_index_),
                                   parameters_.weight_slot(bias_index_)};
    const BatchNormForward pass = {
        .x = x_.numbers(),
        .residual = residual_ == nullptr ? Numbers() : residual_->numbers(),
        .y = y_.numbers(),
        .relu = relu_,
        .capped = capped_};
    if (frozen_) {
      std::copy_n(parameters_.weight_slot(mean_index_), mean_.size(), mean_.data());
      std::copy_n(parameters_.weight_slot(variance_index_), variance_.size(), variance_.data());
    }
    if (joint_) take_joint_statistics();
    if (joint_ || frozen_) {
      batch_norm_infer(geometry_, pass, p, mean_.data(), variance_.data());
    } else if (training_) {
      batch_norm_forward(geometry_, pass, p, mean_.data(), variance_.data());
    } else {
      batch_norm_infer(geometry_, pass, p, parameters_.weight_slot(mean_index_),
                       parameters_.weight_slot(variance_index_));
    }
  }

  void prepare_backward(const Builder& builder) override {
    // The kernel takes two gradients; additional ones are summed first.
    if (y_.gradients.size() > 1) more_dy_ = y_.gradients.back();
    if (y_.gradients.size() > 2) {
      Value rest = y_;
      rest.gradients.pop_back();
      rest_ = GradientSum(builder, rest, false);
    }
    dy_ = y_.gradients[0];
    for (const dnnl::memory& gradient : y_.gradients) builder.read(gradient);
    if (relu_) builder.read(y_.data);
    builder.read(x_.data);
    const bool dy_is_read = residual_ != nullptr && residual_->needs_gradient;
    if (dy_is_read) residual_->gradients.push_back(dy_);
    dx_ = dy_is_read ? builder.make(x_.desc()) : dy_;
    if (x_.needs_gradient) x_.gradients.push_back(dx_);
  }

  std::span<double> backward_sums() override {
    rest_.run();
    batch_norm_backward_sums(geometry_, backward_pass(),
                             {weight_gradient_.data(), bias_gradient_.data()}, first_sums(),
                             second_sums());
    return sums_;
  }

  void backward(dnnl::stream&) override {
    if (joint_) {
      std::ranges::copy(weight_gradient_.floats(), parameters_.gradient_slot(weight_index_));
      std::ranges::copy(bias_gradient_.floats(), parameters_.gradient_slot(bias_index_));
      return batch_norm_backward_apply(geometry_, backward_pass(), first_sums(), second_sums(),
                                       count_);
    }
    rest_.run();
    if (frozen_) return frozen_backward();
    batch_norm_backward(
        geometry_, backward_pass(),
        {parameters_.gradient_slot(weight_index_), parameters_.gradient_slot(bias_index_)});
  }

  std::vector<size_t> parameters() const override { return {weight_index_, bias_index_}; }

  void write_statistics(float share) override {
    if (frozen_) return;
    const float n = float(count_);
    const float unbiased = n / std::max(n - 1, 1.0f);
    float* mean = parameters_.gradient_slot(mean_index_);
    float* variance = parameters_.gradient_slot(variance_index_);
    for (size_t i = 0; i < mean_.size(); ++i) {
      mean[i] = share * mean_.floats()[i];
      variance[i] = share * unbiased * variance_.floats()[i];
    }
  }

 private:
  int64_t values_per_channel() const { return geometry_.images * geometry_.pixels(); }
  double* first_sums() { return sums_.data(); }
  double* second_sums() { return sums_.data() + mean_.size(); }

  /// The statistics are constants: dx = weight / deviation * dy, the usual formula with sums of 0.
  void frozen_backward() {
    double* const sums = sums_of_frozen_.data();
    batch_norm_backward_sums(
        geometry_, backward_pass(),
        {parameters_.gradient_slot(weight_index_), parameters_.gradient_slot(bias_index_)}, sums,
        sums + mean_.size());
    std::ranges::fill(sums_of_frozen_, 0.0);
    batch_norm_backward_apply(geometry_, backward_pass(), sums, sums + mean_.size(), count_);
  }

  BatchNormBackward backward_pass() {
    return {.x = x_.numbers(),
            .weight = parameters_.weight_slot(weight_index_),
            .mean = mean_.data(),
            .variance = variance_.data(),
            .y = relu_ ? y_.numbers() : Numbers(),
            .dy = numbers(dy_),
            .more_dy = numbers(more_dy_),
            .dx = numbers(dx_),
            .capped = capped_};
  }

  void take_joint_statistics() {
    count_ = int64_t(sums_.back());
    for (size_t i = 0; i < mean_.size(); ++i) {
      const double mean = first_sums()[i] / double(count_);
      const double variance = second_sums()[i] / double(count_) - mean * mean;
      mean_.floats()[i] = float(mean);
      variance_.floats()[i] = float(std::max(variance, 0.0));
    }
  }

  bool relu_, capped_, training_;
  bool frozen_;  // in training, uses the running statistics
  bool joint_;
  ParameterMemory& parameters_;
  Value& x_;
  Value* residual_;
  Value& y_;
  MapGeometry geometry_;
  HugeBuffer mean_, variance_;  // of the batch, or the running ones
  int64_t count_;               // values per channel that the statistics cover
  // With joint statistics: gradients until backward(), since networks take turns with the slots.
  HugeBuffer weight_gradient_, bias_gradient_;
  std::vector<double> sums_;  // first of this network's batch, then of all; the last is the count
  std::vector<double> sums_of_frozen_;
  size_t weight_index_ = 0, bias_index_ = 0, mean_index_ = 0, variance_index_ = 0;
  dnnl::memory dy_, more_dy_, dx_;
  GradientSum rest_;
};

}  // namespace

Value& add_batch_norm(Assembly& assembly, const LayerNode& node) {
  Value& x = assembly.input(node);
  Value* residual = assembly.second_input(node);
  return assembly.add<BatchNorm>(node, x, residual);
}

}  // namespace dlflow::runtime
