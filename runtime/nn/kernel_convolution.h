#pragma once

#include "runtime/nn/assembly.h"

namespace dlflow::runtime {

/// A convolution in fp32 on maps of any size that kernels of our own compute, on the calling
/// thread. Who derives from it says which, and for what shape.
class KernelConvolution : public WeightedOperation {
 public:
  /// `weight`: the format that the kernels read weights in, and write gradients.
  KernelConvolution(const Builder& builder, const Layer& layer, bool relu,
                    const dnnl::memory::desc& weight, Value& input, Value& result);

  void forward(dnnl::stream& stream) final;
  void prepare_backward(const Builder& builder) final;
  void backward(dnnl::stream& stream) final;

 protected:
  MapGeometry x_map() const { return map_geometry(x_); }
  MapGeometry y_map() const { return map_geometry(y_); }

 private:
  /// `bias` and `dbias` are null without one.
  virtual void run_forward(const float* x, const float* weight, const float* bias, bool relu,
                           float* y) const = 0;
  virtual void run_backward_data(const float* dy, const float* weight, float* dx) const = 0;
  virtual void run_backward_weights(const float* x, const float* dy, float* dweight,
                                    float* dbias) const = 0;

  dnnl::memory::desc format_;
  dnnl::memory weight_, dweight_, dx_;
};

}  // namespace dlflow::runtime
