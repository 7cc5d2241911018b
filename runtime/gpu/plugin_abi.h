#pragma once

#include <stdint.h>

/// The interface between dlflow-train and libdlflow_cuda, which it opens at run time: plain C, so
/// that neither links the other and machines without CUDA need none of it.
///
/// Every call returns null or an error text, which is valid until this thread's next call. A
/// session is used by one thread at a time, whose current device must be the session's.

#ifdef __cplusplus
extern "C" {
#endif

/** Changes with anything below. Both sides compare it before anything else. */
#define DLFLOW_GPU_ABI 4u

/** The one symbol that a plug-in exports, and its type. */
#define DLFLOW_GPU_PLUGIN_SYMBOL "dlflow_gpu_plugin"

// NOLINTBEGIN(readability-identifier-naming): names as C has them

typedef const char* DlflowGpuError;

typedef enum {
  DLFLOW_GPU_CONVOLUTION,
  DLFLOW_GPU_LINEAR,
  DLFLOW_GPU_BATCH_NORM, /* plus `second`, if there is one */
  DLFLOW_GPU_MAX_POOL,
  DLFLOW_GPU_AVERAGE_POOL, /* padding counts as zeros */
  DLFLOW_GPU_ADD,
  DLFLOW_GPU_RELU
} DlflowGpuKind;

/** How the backward pass of an operation passes on the gradient of an input. */
typedef enum {
  DLFLOW_GPU_NO_GRADIENT, /* not needed */
  DLFLOW_GPU_WRITE,       /* for the first reader */
  DLFLOW_GPU_ADD_TO       /* for the others */
} DlflowGpuGradient;

/** One sample of a value between operations, in plain order (channels, height, width). */
typedef struct {
  int64_t channels, height, width;
  int32_t has_gradient;
} DlflowGpuValue;

/** Values are given by index. Parameters are given by the offset of their first number in the flat
 * buffers, where they have plain order; -1: none. */
typedef struct {
  int32_t kind;                            /* DlflowGpuKind */
  int32_t relu;                            /* applied to the result */
  int32_t input, second, output;           /* second: for sums, else -1 */
  int32_t input_gradient, second_gradient; /* DlflowGpuGradient */
  int32_t kernel_height, kernel_width, stride, padding;
  int64_t weight, bias, mean, variance;
} DlflowGpuOperation;

/** A network: value 0 is its input, the last operation's output the score of each class.
 * Operations are in the order of the forward pass. */
typedef struct {
  const DlflowGpuValue* values;
  int32_t num_values;
  const DlflowGpuOperation* operations;
  int32_t num_operations;
  int64_t trainable_size; /* floats of the flat buffers that have a gradient, */
  int64_t size;           /* and with the running statistics behind them */
  int64_t report_size;    /* floats behind the gradients, summed with them; at least 1 */
  int64_t max_batch;
  /* Operations that train() announces once the gradients of their parameters, and of all later
   * ones, are enqueued: in descending order. The work between two of them is enqueued at once. */
  const int32_t* announced;
  int32_t num_announced;
  int32_t tensor_float32; /* products may round their factors to TF32 */
  float statistics_momentum, batch_norm_epsilon;
} DlflowGpuNetwork;

/** Memory of a session. */
typedef enum {
  DLFLOW_GPU_WEIGHTS,   /* size, with the running statistics */
  DLFLOW_GPU_VELOCITY,  /* trainable_size */
  DLFLOW_GPU_GRADIENTS, /* size + report_size; batch statistics in place of running ones */
  DLFLOW_GPU_SCORES     /* max_batch * classes, of the last pass */
} DlflowGpuBuffer;

typedef struct {
  char name[256];
  char id[64]; /* unique to the device, the same for every process */
} DlflowGpuDevice;

typedef struct {
  float learning_rate, momentum, weight_decay;
} DlflowGpuSgd;

typedef struct DlflowGpuSession DlflowGpuSession;
typedef void* DlflowGpuStream;
typedef void* DlflowGpuEvent;

/** Called once the gradients of the parameters of `operation` and of all later operations are
 * enqueued on the computing stream; for DlflowGpuNetwork::announced, in that order. */
typedef void (*DlflowGpuReady)(void* context, int32_t operation);

typedef struct {
  uint32_t abi; /* DLFLOW_GPU_ABI of the plug-in; must stay first */

  /** "CUDA 13.0, cuDNN 9.19.0": decides the bits, with the device. */
  const char* (*arithmetic)(void);

  /** Counts the devices that this process may use. An error if there is no driver. */
  DlflowGpuError (*count_devices)(int32_t* count);
  DlflowGpuError (*describe_device)(int32_t device, DlflowGpuDevice* description);

  /** Allocates and zeroes all memory of `network` on `device`. */
  DlflowGpuError (*open)(int32_t device, const DlflowGpuNetwork* network,
                         DlflowGpuSession** session);
  void (*close)(DlflowGpuSession* session);

  /** Prepares passes of `count` batch sizes: chooses algorithms and allocates their memory. A pass
   * of another size does so itself, which may wait for all work of the device, even for a sum that
   * waits for another rank. */
  DlflowGpuError (*prepare)(DlflowGpuSession* session, const int64_t* batches, int32_t count);

  /** Copy `count` floats of a buffer from `first` on, from and to the host, after all work enqueued
   * on the computing stream. They wait. */
  DlflowGpuError (*write)(DlflowGpuSession* session, int32_t buffer, int64_t first, int64_t count,
                          const float* values);
  DlflowGpuError (*read)(DlflowGpuSession* session, int32_t buffer, int64_t first, int64_t count,
                         float* values);

  /** Copies `batch` samples to the device, in parallel with its work; the caller may overwrite them
   * afterwards. A pass uses the samples staged last before it. */
  DlflowGpuError (*stage)(DlflowGpuSession* session, const float* images, const uint32_t* labels,
                          int64_t batch);

  /** Enqueues forward and backward pass of the staged samples. Gradients are `scale` times those of
   * the sum of losses, statistics `scale * batch` times those of the batch. Copies `report`, except
   * for its first number, which becomes `scale` times the sum of losses. Calls `ready` with
   * `context` on this thread. */
  DlflowGpuError (*train)(DlflowGpuSession* session, float scale, const float* report,
                          DlflowGpuReady ready, void* context);

  /** Enqueues the update of numbers [first, first + count): weights go a step down the gradient,
   * running statistics move towards those of the batch. */
  DlflowGpuError (*update)(DlflowGpuSession* session, int64_t first, int64_t count,
                           DlflowGpuSgd sgd);

  /** Enqueues the copy of the report to the host: report_size floats, and one that is 0 as long as
   * every updated weight was finite. Valid once an event recorded on the computing stream after
   * this call is done, until the next call. */
  DlflowGpuError (*end_step)(DlflowGpuSession* session, const float** report);

  /** Evaluates the staged samples with the running statistics. Waits, and returns the sum of losses
   * and how often the highest score was the label's. */
  DlflowGpuError (*infer)(DlflowGpuSession* session, double* loss_sum, int64_t* num_correct);

  /** Return the gradients' device memory, and the computing stream. */
  float* (*gradients)(DlflowGpuSession* session);
  DlflowGpuStream (*computing_stream)(DlflowGpuSession* session);

  /** For the current device. The work of a stream is done in order; only events order it with that
   * of other streams. */
  DlflowGpuError (*create_stream)(DlflowGpuStream* stream);
  void (*destroy_stream)(DlflowGpuStream stream);
  DlflowGpuError (*create_event)(DlflowGpuEvent* event);
  void (*destroy_event)(DlflowGpuEvent event);
  DlflowGpuError (*record_event)(DlflowGpuEvent event, DlflowGpuStream stream);
  DlflowGpuError (*wait_for_event)(DlflowGpuStream stream,
                                   DlflowGpuEvent event); /* only the stream waits */
  DlflowGpuError (*event_done)(DlflowGpuEvent event, int32_t* done);
} DlflowGpuPlugin;

/** The type of DLFLOW_GPU_PLUGIN_SYMBOL. */
typedef const DlflowGpuPlugin* (*DlflowGpuPluginFunction)(void);

// NOLINTEND(readability-identifier-naming)

#ifdef __cplusplus
}
#endif
