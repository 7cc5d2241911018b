#ifndef DLFLOW_RUNTIME_H
#define DLFLOW_RUNTIME_H

/* Collective operations between the processes of a job, for programs in any language.
 *
 * A rank is a process; a group is a list of ranks, counted from 0. To make a group, each rank opens
 * an endpoint, sends its address (a line of text) to the others by any means, and calls
 * dlflow_group_create with all addresses. Sub-groups are made in the same way. Neither MPI nor a
 * launcher is needed.
 *
 * Collectives: all ranks of a group must start the same ones in the same order. The group executes
 * them in this order, except for urgent sums, on its own thread. A call that starts something never
 * waits for other ranks. Its buffers belong to the group until the work is done. Counts are numbers
 * of elements, sizes are bytes, times are milliseconds. Buffers are in host memory, aligned for
 * their type.
 *
 * Threads: any thread may call any function, but all ranks must agree on the order of collectives.
 * An object must not be used after it was freed. After fork() the child must not call anything.
 *
 * Errors: most functions return a dlflow_status. dlflow_error() returns the reason of the last
 * failure on this thread. Once an operation of a group has failed, all ranks of the group fail with
 * the same reason, and the group can only be freed. If a rank dies, or enters a different
 * collective than the others, all ranks report its number within seconds.
 *
 * Bits: a sum has the same bits on every rank, and in every run with the same ranks on the same
 * nodes. 16-bit floats are added in fp32. Integers wrap around.
 */

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DLFLOW_API __attribute__((visibility("default")))
#else
#define DLFLOW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): names follow C conventions */

/* The version of this header. A library with another one has other functions: see dlflow_abi(). */
#define DLFLOW_ABI 3

typedef enum {
  DLFLOW_OK = 0,
  DLFLOW_INVALID = 1,     /* invalid arguments, or ranks disagree */
  DLFLOW_UNAVAILABLE = 2, /* a rank died, left, or was late */
  DLFLOW_PENDING = 3      /* not done yet */
} dlflow_status;

typedef enum {
  DLFLOW_F32 = 0,
  DLFLOW_F64 = 1,
  DLFLOW_F16 = 2,
  DLFLOW_BF16 = 3,
  DLFLOW_I8 = 4,
  DLFLOW_U8 = 5,
  DLFLOW_I32 = 6,
  DLFLOW_I64 = 7,
  DLFLOW_BOOL = 8, /* a byte, 0 or 1: sum, max and bor are "or"; product, min and band are "and" */
  DLFLOW_I16 = 9
} dlflow_type;

typedef enum {
  DLFLOW_SUM = 0,
  DLFLOW_AVG = 1, /* floats only */
  DLFLOW_PRODUCT = 2,
  DLFLOW_MIN = 3,
  DLFLOW_MAX = 4,
  DLFLOW_BAND = 5, /* bitwise and, or, exclusive or: not for floats */
  DLFLOW_BOR = 6,
  DLFLOW_BXOR = 7
} dlflow_op;

typedef struct dlflow_endpoint dlflow_endpoint;
typedef struct dlflow_group dlflow_group;
typedef struct dlflow_work dlflow_work;
typedef struct dlflow_queue dlflow_queue;
typedef struct dlflow_compressor dlflow_compressor;

/* Returns DLFLOW_ABI of the library. */
DLFLOW_API int dlflow_abi(void);

/* The reason of the last failure on this thread, as a sentence. Valid until the next one. */
DLFLOW_API const char* dlflow_error(void);

/* ---- groups ---- */

/* Opens a port. Ranks with equal texts in `memory` share memory; with NULL, these are the ranks of
 * one user on one machine and in one network namespace. */
DLFLOW_API dlflow_status dlflow_endpoint_open(const char* memory, dlflow_endpoint** endpoint);

/* A line of text, valid as long as the endpoint. Keep it secret: whoever has it may join. */
DLFLOW_API const char* dlflow_endpoint_address(const dlflow_endpoint* endpoint);

DLFLOW_API void dlflow_endpoint_free(dlflow_endpoint* endpoint);

typedef struct {
  int64_t timeout;       /* an operation without progress fails after this time */
  int64_t stall_timeout; /* how long a stopped rank may keep others waiting */
  const char* name;      /* of the group, used in messages; may be NULL */
} dlflow_group_options;

/* Collective over the `size` ranks with these addresses; addresses[rank] must be this rank's. Waits
 * for all of them. The endpoint is used up, but must still be freed. */
DLFLOW_API dlflow_status dlflow_group_create(dlflow_endpoint* endpoint, int rank, int size,
                                             const char* const* addresses,
                                             const dlflow_group_options* options,
                                             dlflow_group** group);

/* Ends running operations and frees the group. Waits up to `linger` for the other ranks to leave,
 * too, since they may still need this one. */
DLFLOW_API void dlflow_group_free(dlflow_group* group, int64_t linger);

/* ---- collectives: the caller must free `work` ---- */

/* data[i] = op over data[i] of all ranks, on every rank. */
DLFLOW_API dlflow_status dlflow_all_reduce(dlflow_group* group, void* data, size_t count,
                                           dlflow_type type, dlflow_op op, dlflow_work** work);

/* The same with an urgency from 0 to 3, equal on all ranks; every other collective has urgency 0. A
 * sum overtakes less urgent ones that were started earlier, even running ones; sums of equal
 * urgency keep their order. A framework sums the gradients of the last layers first, while it still
 * computes those of the first layers. With a higher urgency, the latter, which the next step needs
 * first, overtake the former. For DLFLOW_SUM and DLFLOW_AVG of F32, F16, BF16, and DLFLOW_SUM of
 * I32, I64. The first sum of a type and urgency allocates memory: it waits for everything started
 * before, and everything started later waits for it. */
DLFLOW_API dlflow_status dlflow_urgent_all_reduce(dlflow_group* group, void* data, size_t count,
                                                  dlflow_type type, dlflow_op op, int urgency,
                                                  dlflow_work** work);

/* The same, but only on rank `root`; the data of other ranks does not change. */
DLFLOW_API dlflow_status dlflow_reduce(dlflow_group* group, void* data, size_t count,
                                       dlflow_type type, dlflow_op op, int root,
                                       dlflow_work** work);

/* `input` holds consecutive blocks, one per rank; block r has counts[r] elements, the same on all
 * ranks. `output` gets this rank's block, reduced. */
DLFLOW_API dlflow_status dlflow_reduce_scatter(dlflow_group* group, const void* input, void* output,
                                               const size_t* counts, dlflow_type type, dlflow_op op,
                                               dlflow_work** work);

DLFLOW_API dlflow_status dlflow_broadcast(dlflow_group* group, void* data, size_t size, int root,
                                          dlflow_work** work);

/* `output` gets the blocks of all ranks in order; block r has sizes[r] bytes, the same on all
 * ranks. `input` is this rank's block, and may be its place in `output`. */
DLFLOW_API dlflow_status dlflow_all_gather(dlflow_group* group, const void* input, void* output,
                                           const size_t* sizes, dlflow_work** work);

/* Block r of `input` goes to rank r; block r of `output` comes from it. */
DLFLOW_API dlflow_status dlflow_all_to_all(dlflow_group* group, const void* input,
                                           const size_t* input_sizes, void* output,
                                           const size_t* output_sizes, dlflow_work** work);

/* Rank `root` gets the blocks of all ranks, `size` bytes each; `output` of others is not used. */
DLFLOW_API dlflow_status dlflow_gather(dlflow_group* group, const void* input, size_t size,
                                       void* output, int root, dlflow_work** work);

/* Each rank gets its block of `input` of rank `root`; `input` of others is not used. */
DLFLOW_API dlflow_status dlflow_scatter(dlflow_group* group, const void* input, size_t size,
                                        void* output, int root, dlflow_work** work);

/* Done once all ranks have started it. */
DLFLOW_API dlflow_status dlflow_barrier(dlflow_group* group, dlflow_work** work);

/* The same, but every rank reports the ranks that do not arrive within `timeout`. */
DLFLOW_API dlflow_status dlflow_monitored_barrier(dlflow_group* group, int64_t timeout,
                                                  dlflow_work** work);

/* ---- compressed sums ---- */

typedef enum {
  DLFLOW_FP16 = 0,
  DLFLOW_BFLOAT16 = 1,
  DLFLOW_INT8 = 2,
  DLFLOW_TOP_K = 3,
  DLFLOW_MS_TOP_K = 4,
  DLFLOW_RANDOM_K = 5,
  DLFLOW_DGC = 6,
  DLFLOW_POWER_SGD = 7
} dlflow_method;

/* Must be equal on all ranks. docs/user/compression.md describes the methods. */
typedef struct {
  dlflow_method method;
  int global_top_k; /* of methods that send the largest numbers: only the largest of the sum survive
                     */
  double density;   /* of topk, mstopk, randomk, dgc: the share that is sent, in (0, 1] */
  uint64_t warmup_epochs; /* of the same: epochs in which more is sent */
  size_t rank;            /* of powersgd: of the factors, at least 1 */
  double clip;            /* of dgc: maximum norm of a gradient; 0: none */
  double momentum;        /* of dgc, in [0, 1): it takes the place of the optimizer's */
  uint64_t seed;          /* of random choices */
} dlflow_compression;

/* A parameter: rows * columns numbers from element `first` on, in row-major order. */
typedef struct {
  size_t first, rows, columns;
} dlflow_matrix;

/* The state that a rank keeps between sums of a buffer of `count` floats. `matrices` must ascend
 * without overlap: their elements are compressed, others are summed as they are. */
DLFLOW_API dlflow_status dlflow_compressor_create(const dlflow_compression* compression,
                                                  const dlflow_matrix* matrices,
                                                  size_t num_matrices, size_t count,
                                                  dlflow_compressor** compressor);

/* Sums already started with it continue. */
DLFLOW_API void dlflow_compressor_free(dlflow_compressor* compressor);

/* Replaces the compressor's count of floats in `data` by the approximate sum over all ranks, with
 * the same bits on all. Values that this rank did not send are added to its next sum. Collective;
 * training `step` and `epoch`, from 0, must be equal on all ranks. */
DLFLOW_API dlflow_status dlflow_compressed_all_reduce(dlflow_group* group,
                                                      dlflow_compressor* compressor, float* data,
                                                      uint64_t step, uint64_t epoch,
                                                      dlflow_work** work);

typedef enum {
  DLFLOW_RESIDUAL = 0,     /* unsent values, one per element of the buffer */
  DLFLOW_VELOCITY = 1,     /* of dgc, likewise */
  DLFLOW_RIGHT_FACTORS = 2 /* of powersgd, the same on all ranks: min(rank, rows, columns) * columns
                              numbers per matrix, one matrix after the other */
} dlflow_compressor_part;

/* The state, to be read or written while no sum is running; `count` becomes 0 for other methods
 * than those named. Valid as long as the compressor. */
DLFLOW_API float* dlflow_compressor_state(dlflow_compressor* compressor,
                                          dlflow_compressor_part part, size_t* count);

/* ---- sums over leaves: the same bits on any number of ranks ---- */

typedef struct dlflow_leaf_sum dlflow_leaf_sum;

/* The consecutive leaves of one rank, counted over all ranks; none if there are more ranks. */
typedef struct {
  size_t first, count;
} dlflow_leaves;

/* Elements [first, first + count) of a leaf's vector; NULL: zeros. */
typedef struct {
  size_t first, count;
  const float* data;
} dlflow_piece;

/* Sums one vector of `count` floats per leaf. The ranks divide the `num_leaves` leaves among them.
 * Vectors are added along one binary tree over the leaf numbers: neighbours first, then
 * neighbouring pairs, and so on. Collective. The group owns the sum; it may be used once the work
 * is done. */
DLFLOW_API dlflow_status dlflow_leaf_sum_create(dlflow_group* group, size_t num_leaves,
                                                size_t count, dlflow_leaf_sum** sum,
                                                dlflow_work** work);

DLFLOW_API dlflow_leaves dlflow_leaf_sum_leaves(const dlflow_leaf_sum* sum);

/* Adds `scale` times the pieces, which are copied, as elements of `leaf`, one of this rank's. Each
 * element must get its leaves in order, and each leaf once. */
DLFLOW_API dlflow_status dlflow_leaf_sum_add(dlflow_leaf_sum* sum, size_t leaf, float scale,
                                             const dlflow_piece* pieces, size_t num_pieces);

/* Sums these elements over all leaves; every rank must have added them for all of its own. Once the
 * work is done, the result has the sums, and the elements may be added again. Collective. */
DLFLOW_API dlflow_status dlflow_leaf_sum_start(dlflow_leaf_sum* sum, size_t first, size_t count,
                                               dlflow_work** work);

/* `count` floats, 64-byte aligned. They stay until the elements are added again. */
DLFLOW_API float* dlflow_leaf_sum_result(dlflow_leaf_sum* sum);

/* ---- messages between two ranks: not collective, and in no order with collectives ---- */

/* Messages with one tag between two ranks arrive in order; each needs a receive of equal size. Tags
 * are 0 to 2^30. A send is done once `data` may be overwritten. */
DLFLOW_API dlflow_status dlflow_send(dlflow_group* group, const void* data, size_t size, int to,
                                     int tag, dlflow_work** work);
DLFLOW_API dlflow_status dlflow_receive(dlflow_group* group, void* data, size_t size, int from,
                                        int tag, dlflow_work** work);

/* The same for the first message with this tag from any rank, unless a receive from that rank waits
 * for it; dlflow_work_source() returns the sender. */
DLFLOW_API dlflow_status dlflow_receive_from_any(dlflow_group* group, void* data, size_t size,
                                                 int tag, dlflow_work** work);

/* ---- works ---- */

/* Returns DLFLOW_OK if the work has succeeded, DLFLOW_PENDING if it is not done, else the error. */
DLFLOW_API dlflow_status dlflow_work_test(dlflow_work* work);

/* The same after waiting up to `timeout`; negative: without limit. */
DLFLOW_API dlflow_status dlflow_work_wait(dlflow_work* work, int64_t timeout);

/* The same for callers with other work: executes the work on the caller's thread while it makes
 * progress. Does so only if all ranks are on one node and the `threads` that each of them computes
 * with leave no core for the group's own thread, which would then be late. */
DLFLOW_API dlflow_status dlflow_work_advance(dlflow_work* work, int threads);

/* The sender, for a finished receive from any rank; else -1. */
DLFLOW_API int dlflow_work_source(const dlflow_work* work);

/* Frees the handle; the operation continues. */
DLFLOW_API void dlflow_work_free(dlflow_work* work);

/* ---- queues of finished works, for code that completes futures ---- */

DLFLOW_API dlflow_queue* dlflow_queue_create(void);
DLFLOW_API void dlflow_queue_free(dlflow_queue* queue);

/* Puts `id` into the queue once `work` is done, at once if it already is. Call once per work. */
DLFLOW_API void dlflow_work_notify(dlflow_work* work, dlflow_queue* queue, uint64_t id);

/* Removes the oldest id; DLFLOW_PENDING if none arrives within `timeout`. */
DLFLOW_API dlflow_status dlflow_queue_pop(dlflow_queue* queue, int64_t timeout, uint64_t* id);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
