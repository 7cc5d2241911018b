#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <type_traits>

namespace dlflow::cuda {

/// Work for a stream, recorded once: launch() enqueues all of it in one call, which takes the host
/// a few microseconds however many kernels it has. Addresses and sizes are those of the recording.
class Graph {
 public:
  /// Records what `enqueue` enqueues on `stream`; nothing of it runs. Nothing may be built or
  /// allocated in it: enqueue the same once before, for what libraries make at their first use.
  Graph(cudaStream_t stream, const std::function<void()>& enqueue);

  void launch(cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const noexcept { cudaGraphExecDestroy(graph); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> graph_;
};

}  // namespace dlflow::cuda
