#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <type_traits>

namespace dlflow::cuda {

/// Recorded work for a stream: launch() enqueues all of it in one call, which takes the host a few
/// microseconds for any number of kernels. Addresses and sizes are those of the recording.
class Graph {
 public:
  /// Records what `enqueue` enqueues on `stream`; none of it runs. It must not build or allocate
  /// anything: enqueue the same work once before, since libraries allocate on first use.
  Graph(cudaStream_t stream, const std::function<void()>& enqueue);

  void launch(cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const noexcept { cudaGraphExecDestroy(graph); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> graph_;
};

}  // namespace dlflow::cuda
