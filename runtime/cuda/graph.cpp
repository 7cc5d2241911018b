#include "runtime/cuda/graph.h"

#include "runtime/cuda/cuda_check.h"

namespace dlflow::cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const noexcept { cudaGraphDestroy(graph); }
};
using RecordedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

/// Ends the recording even if `enqueue` throws; otherwise the stream would be unusable.
RecordedGraph record(cudaStream_t stream, const std::function<void()>& enqueue) {
  // Other threads, such as other ranks, can still allocate.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    const RecordedGraph unfinished(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return RecordedGraph(graph);
}

}  // namespace

Graph::Graph(cudaStream_t stream, const std::function<void()>& enqueue) {
  const RecordedGraph recorded = record(stream, enqueue);
  cudaGraphExec_t graph = nullptr;
  check(cudaGraphInstantiate(&graph, recorded.get(), 0), "cudaGraphInstantiate");
  graph_.reset(graph);
  check(cudaGraphUpload(graph, stream), "cudaGraphUpload");
}

void Graph::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(graph_.get(), stream), "cudaGraphLaunch");
}

}  // namespace dlflow::cuda
