#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "runtime/cuda/requirements.h"
#include "runtime/cuda/session.h"
#include "runtime/gpu/plugin_abi.h"

/// The C interface of libdlflow_cuda: no exception leaves it.

struct DlflowGpuSession {
  dlflow::cuda::DeviceSession session;
};

namespace dlflow::cuda {
namespace {

/// Runs `work`; returns the text of its exception, or null.
template <typename Work>
DlflowGpuError guarded(Work work) noexcept {
  static thread_local std::string error;
  try {
    work();
    return nullptr;
  } catch (const std::exception& e) {
    error = e.what();
  } catch (...) {
    error = "an unknown exception";
  }
  return error.c_str();
}

cudaStream_t stream_of(DlflowGpuStream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(DlflowGpuEvent event) { return static_cast<cudaEvent_t>(event); }

/// "CUDA 13.0, cuDNN 9.19.0, cuBLASLt 13.1.0"
const char* arithmetic() {
  static const std::string text = [] {
    int cuda = 0;
    cudaRuntimeGetVersion(&cuda);
    const size_t cudnn = cudnnGetVersion(), blas = cublasLtGetVersion();
    const auto dots = [](size_t version, size_t unit) {
      return std::to_string(version / unit / 100) + "." + std::to_string(version / unit % 100) +
             "." + std::to_string(version % unit);
    };
    return "CUDA " + std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10) +
           ", cuDNN " + dots(cudnn, 100) + ", cuBLASLt " + dots(blas, 100);
  }();
  return text.c_str();
}

/// Without this, cuDNN would end the process without our message if it cannot open a part.
void require_cudnn() {
  Dl_info cudnn = {};
  ::dladdr(reinterpret_cast<void*>(&cudnnGetVersion), &cudnn);
  const std::filesystem::path file = cudnn.dli_fname ? cudnn.dli_fname : "";
  require_libraries(file.parent_path(), cudnn_parts(CUDNN_MAJOR));
}

/// Checked here because CUDA reports a missing driver as too old, and names no version.
DlflowGpuError count_devices(int32_t* count) {
  return guarded([&] {
    int driver = 0, runtime = 0;
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    require_driver(driver, runtime);
    *count = 0;
    const cudaError_t status = cudaGetDeviceCount(count);
    if (status != cudaErrorNoDevice) check(status, "cudaGetDeviceCount");
  });
}

DlflowGpuError describe_device(int32_t device, DlflowGpuDevice* description) {
  return guarded([&] {
    cudaDeviceProp properties = {};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    *description = {};
    std::snprintf(description->name, sizeof(description->name), "%s", properties.name);
    std::string id = "GPU-";
    for (const char byte : properties.uuid.bytes) {
      char hex[3];
      std::snprintf(hex, sizeof(hex), "%02x", static_cast<unsigned char>(byte));
      id += hex;
    }
    std::snprintf(description->id, sizeof(description->id), "%s", id.c_str());
  });
}

DlflowGpuError open(int32_t device, const DlflowGpuNetwork* network, DlflowGpuSession** session) {
  return guarded([&] {
    require_cudnn();
    check(cudaSetDevice(device), "cudaSetDevice");
    *session = new DlflowGpuSession{DeviceSession(*network)};
  });
}

void close(DlflowGpuSession* session) { delete session; }

DlflowGpuError prepare(DlflowGpuSession* session, const int64_t* batches, int32_t count) {
  return guarded([&] { session->session.prepare(batches, count); });
}

DlflowGpuError write(DlflowGpuSession* session, int32_t buffer, int64_t first, int64_t count,
                     const float* values) {
  return guarded([&] { session->session.write(buffer, first, count, values); });
}

DlflowGpuError read(DlflowGpuSession* session, int32_t buffer, int64_t first, int64_t count,
                    float* values) {
  return guarded([&] { session->session.read(buffer, first, count, values); });
}

DlflowGpuError stage(DlflowGpuSession* session, const float* images, const uint32_t* labels,
                     int64_t batch) {
  return guarded([&] { session->session.stage(images, labels, batch); });
}

DlflowGpuError train(DlflowGpuSession* session, float scale, const float* report,
                     DlflowGpuReady ready, void* context) {
  return guarded([&] { session->session.train(scale, report, ready, context); });
}

DlflowGpuError update(DlflowGpuSession* session, int64_t first, int64_t count, DlflowGpuSgd sgd) {
  return guarded([&] { session->session.update(first, count, sgd); });
}

DlflowGpuError end_step(DlflowGpuSession* session, const float** report) {
  return guarded([&] { *report = session->session.end_step(); });
}

DlflowGpuError infer(DlflowGpuSession* session, double* loss_sum, int64_t* num_correct) {
  return guarded([&] {
    Totals totals;
    session->session.infer(totals);
    *loss_sum = totals.loss;
    *num_correct = totals.num_correct;
  });
}

float* gradients(DlflowGpuSession* session) { return session->session.gradients(); }
DlflowGpuStream computing_stream(DlflowGpuSession* session) { return session->session.stream(); }

DlflowGpuError create_stream(DlflowGpuStream* stream) {
  return guarded([&] {
    cudaStream_t created = nullptr;
    check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    *stream = created;
  });
}

void destroy_stream(DlflowGpuStream stream) { cudaStreamDestroy(stream_of(stream)); }

DlflowGpuError create_event(DlflowGpuEvent* event) {
  return guarded([&] {
    cudaEvent_t created = nullptr;
    check(cudaEventCreateWithFlags(&created, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    *event = created;
  });
}

void destroy_event(DlflowGpuEvent event) { cudaEventDestroy(event_of(event)); }

DlflowGpuError record_event(DlflowGpuEvent event, DlflowGpuStream stream) {
  return guarded(
      [&] { check(cudaEventRecord(event_of(event), stream_of(stream)), "cudaEventRecord"); });
}

DlflowGpuError wait_for_event(DlflowGpuStream stream, DlflowGpuEvent event) {
  return guarded([&] {
    check(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "cudaStreamWaitEvent");
  });
}

DlflowGpuError event_done(DlflowGpuEvent event, int32_t* done) {
  return guarded([&] {
    const cudaError_t status = cudaEventQuery(event_of(event));
    *done = status == cudaSuccess;
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // clears the error, which the next launch would report
    } else {
      check(status, "the device's work");
    }
  });
}

constexpr DlflowGpuPlugin kPlugin = {.abi = DLFLOW_GPU_ABI,
                                     .arithmetic = arithmetic,
                                     .count_devices = count_devices,
                                     .describe_device = describe_device,
                                     .open = open,
                                     .close = close,
                                     .prepare = prepare,
                                     .write = write,
                                     .read = read,
                                     .stage = stage,
                                     .train = train,
                                     .update = update,
                                     .end_step = end_step,
                                     .infer = infer,
                                     .gradients = gradients,
                                     .computing_stream = computing_stream,
                                     .create_stream = create_stream,
                                     .destroy_stream = destroy_stream,
                                     .create_event = create_event,
                                     .destroy_event = destroy_event,
                                     .record_event = record_event,
                                     .wait_for_event = wait_for_event,
                                     .event_done = event_done};

}  // namespace
}  // namespace dlflow::cuda

extern "C" __attribute__((visibility("default"))) const DlflowGpuPlugin* dlflow_gpu_plugin() {
  return &dlflow::cuda::kPlugin;
}
