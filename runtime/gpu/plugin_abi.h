#pragma once

#include <stdint.h>

/// What dlflow-train and libdlflow_cuda, which it opens at run time, know of each other: plain C,
/// so that neither links the other and a machine without CUDA needs nothing of it.
///
/// Every call returns null, or what went wrong as text that stays until this thread's next call.
/// One thread at a time uses a session; the current device of that thread is the session's.

#ifdef __cplusplus
extern "C" {
#endif

/** Changes with anything below. Both sides compare it before they use anything else. */
#define DLFLOW_GPU_ABI 4u

/** The one symbol that a plug-in exports, and its type. */
#define DLFLOW_GPU_PLUGIN_SYMBOL "dlflow_gpu_plugin"

// NOLINTBEGIN(readability-identifier-naming): names as C has them

typedef const char* DlflowGpuError;

typedef enum {
  DLFLOW_GPU_CONVOLUTION,
  DLFLOW_GPU_LINEAR,
  DLFLOW_GPU_BATCH_NORM, /* then + second, if there is one */
  DLFLOW_GPU_MAX_POOL,
  DLFLOW_GPU_AVERAGE_POOL, /* padding counts as zeros */
  DLFLOW_GPU_ADD,
  DLFLOW_GPU_RELU
} DlflowGpuKind;

/** What the backward pass of an operation does with the gradient of what it read. */
typedef enum {
  DLFLOW_GPU_NO_GRADIENT, /* nobody needs it */
  DLFLOW_GPU_WRITE,       /* the first to come */
  DLFLOW_GPU_ADD_TO       /* the others */
} DlflowGpuGradient;

/** One sample of what flows between operations, in plain order (channels, height, width). */
typedef struct {
  int64_t channels, height, width;
  int32_t has_gradient;
} DlflowGpuValue;

/** Values are named by their index. Parameters are named by the place of their first number in the
 * flat buffers, where they lie in plain order, or -1 if there are none. */
typedef struct {
  int32_t kind;                            /* DlflowGpuKind */
  int32_t relu;                            /* applied to the result */
  int32_t input, second, output;           /* second: of a sum, else -1 */
  int32_t input_gradient, second_gradient; /* DlflowGpuGradient */
  int32_t kernel_height, kernel_width, stride, padding;
  int64_t weight, bias, mean, variance;
} DlflowGpuOperation;

/** A network: value 0 is what it is given, the last operation's output the score of each class.
 * Operations stand in the order of the forward pass. */
typedef struct {
  const DlflowGpuValue* values;
  int32_t num_values;
  const DlflowGpuOperation* operations;
  int32_t num_operations;
  int64_t trainable_size; /* of the flat buffers, in floats: what has a gradient, */
  int64_t size;           /* and with the running statistics behind it */
  int64_t report_size;    /* floats behind the gradients that travel with them; at least 1 */
  int64_t max_batch;
  /* Operations of which train() says that the gradients of their parameters, and of all behind
   * them, have been enqueued: each smaller than the one before. What is between two of them the
   * device is given at once. */
  const int32_t* announced;
  int32_t num_announced;
  int32_t tensor_float32; /* products may round their factors to TF32 */
  float statistics_momentum, batch_norm_epsilon;
} DlflowGpuNetwork;

/** Memory of a session. */
typedef enum {
  DLFLOW_GPU_WEIGHTS,   /* size: with the running statistics */
  DLFLOW_GPU_VELOCITY,  /* trainable_size */
  DLFLOW_GPU_GRADIENTS, /* size + report_size: statistics of the batch where the running ones lie */
  DLFLOW_GPU_SCORES     /* max_batch * classes: of the last pass */
} DlflowGpuBuffer;

typedef struct {
  char name[256];
  char id[64]; /* the same for every process that sees this device, and for no other device */
} DlflowGpuDevice;

typedef struct {
  float learning_rate, momentum, weight_decay;
} DlflowGpuSgd;

typedef struct DlflowGpuSession DlflowGpuSession;
typedef void* DlflowGpuStream;
typedef void* DlflowGpuEvent;

/** The gradients of the parameters of `operation` and of all operations behind it have been
 * enqueued on the computing stream; called for those of DlflowGpuNetwork::announced, in their
 * order. */
typedef void (*DlflowGpuReady)(void* context, int32_t operation);

typedef struct {
  uint32_t abi; /* DLFLOW_GPU_ABI of the plug-in; stays first */

  /** "CUDA 13.0, cuDNN 9.19.0": what decides the bits, besides the device. */
  const char* (*arithmetic)(void);

  /** Devices that this process may use. An error if there is no driver. */
  DlflowGpuError (*count_devices)(int32_t* count);
  DlflowGpuError (*describe_device)(int32_t device, DlflowGpuDevice* description);

  /** All memory of `network` on `device`; zeros. */
  DlflowGpuError (*open)(int32_t device, const DlflowGpuNetwork* network,
                         DlflowGpuSession** session);
  void (*close)(DlflowGpuSession* session);

  /** Builds what passes of `count` sizes of a batch need: algorithms are chosen and their memory is
   * allocated. A pass of another size does so itself, which may wait for all that the device does:
   * also for a sum that waits for another rank. */
  DlflowGpuError (*prepare)(DlflowGpuSession* session, const int64_t* batches, int32_t count);

  /** `count` floats of a buffer from `first` on, from and to the host; they wait for what has been
   * enqueued on the computing stream. */
  DlflowGpuError (*write)(DlflowGpuSession* session, int32_t buffer, int64_t first, int64_t count,
                          const float* values);
  DlflowGpuError (*read)(DlflowGpuSession* session, int32_t buffer, int64_t first, int64_t count,
                         float* values);

  /** Copies `batch` samples to the device, beside what it does; they may be overwritten once this
   * has returned. Passes are of what was staged last before them. */
  DlflowGpuError (*stage)(DlflowGpuSession* session, const float* images, const uint32_t* labels,
                          int64_t batch);

  /** Enqueues forward and backward pass of what is staged. Gradients are `scale` times those of the
   * sum of losses; statistics `scale * batch` times those of the batch. The report is `report`, but
   * its first number `scale` times the sum of losses. `ready` is called with `context` on this
   * thread. */
  DlflowGpuError (*train)(DlflowGpuSession* session, float scale, const float* report,
                          DlflowGpuReady ready, void* context);

  /** Enqueues the update of numbers [first, first + count) by their gradients: weights go a step
   * down, running statistics move towards those of the batch. */
  DlflowGpuError (*update)(DlflowGpuSession* session, int64_t first, int64_t count,
                           DlflowGpuSgd sgd);

  /** Enqueues the copy of the report to the host: report_size floats, and one that is 0 as long as
   * every updated weight was a finite number. They are there once an event recorded on the
   * computing stream after this call is done, until the next call. */
  DlflowGpuError (*end_step)(DlflowGpuSession* session, const float** report);

  /** Scores of what is staged by the running statistics: waits, and returns the sum of losses and
   * how often the highest score was the label's. */
  DlflowGpuError (*infer)(DlflowGpuSession* session, double* loss_sum, int64_t* num_correct);

  /** Where the gradients lie on the device, and the stream that computes. */
  float* (*gradients)(DlflowGpuSession* session);
  DlflowGpuStream (*computing_stream)(DlflowGpuSession* session);

  /** On the current device. Work of one stream is done in order; other streams know of it only what
   * events tell them. */
  DlflowGpuError (*create_stream)(DlflowGpuStream* stream);
  void (*destroy_stream)(DlflowGpuStream stream);
  DlflowGpuError (*create_event)(DlflowGpuEvent* event);
  void (*destroy_event)(DlflowGpuEvent event);
  DlflowGpuError (*record_event)(DlflowGpuEvent event, DlflowGpuStream stream);
  DlflowGpuError (*wait_for_event)(DlflowGpuStream stream,
                                   DlflowGpuEvent event); /* the stream does */
  DlflowGpuError (*event_done)(DlflowGpuEvent event, int32_t* done);
} DlflowGpuPlugin;

/** DLFLOW_GPU_PLUGIN_SYMBOL */
typedef const DlflowGpuPlugin* (*DlflowGpuPluginFunction)(void);

// NOLINTEND(readability-identifier-naming)

#ifdef __cplusplus
}
#endif
