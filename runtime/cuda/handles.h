#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <memory>
#include <type_traits>

#include "runtime/cuda/cuda_check.h"

/// RAII handles of cuDNN and cuBLASLt, and their overloads of check().
namespace dlflow::cuda {

inline void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char more[512] = "";
  cudnnGetLastErrorString(more, sizeof(more));
  std::string text = std::string(call) + ": " + cudnnGetErrorString(status);
  if (*more) text += std::string(" (") + more + ")";
  throw std::runtime_error(text);
}

inline void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": " + cublasLtGetStatusString(status));
}

template <typename Pointer, auto Create, auto Destroy>
class Descriptor {
 public:
  Descriptor() {
    Pointer created = nullptr;
    check(Create(&created), "creating a descriptor");
    pointer_.reset(created);
  }
  Pointer get() const { return pointer_.get(); }

 private:
  struct Free {
    void operator()(std::remove_pointer_t<Pointer>* pointer) const noexcept { Destroy(pointer); }
  };
  std::unique_ptr<std::remove_pointer_t<Pointer>, Free> pointer_;
};

using CudnnHandle = Descriptor<cudnnHandle_t, cudnnCreate, cudnnDestroy>;
using BlasHandle = Descriptor<cublasLtHandle_t, cublasLtCreate, cublasLtDestroy>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;
using PoolingDescriptor = Descriptor<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor,
                                     cudnnDestroyPoolingDescriptor>;

/// (batch, channels, height, width) floats in plain order.
class TensorDescriptor : public Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor,
                                           cudnnDestroyTensorDescriptor> {
 public:
  TensorDescriptor(int64_t batch, int64_t channels, int64_t height, int64_t width) {
    check(cudnnSetTensor4dDescriptor(get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, int(batch),
                                     int(channels), int(height), int(width)),
          "cudnnSetTensor4dDescriptor");
  }
};

}  // namespace dlflow::cuda
