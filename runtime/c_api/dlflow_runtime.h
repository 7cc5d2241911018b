#ifndef DLFLOW_RUNTIME_H
#define DLFLOW_RUNTIME_H

/* Collective operations between the processes of a job, for programs in any language.
 *
 * A rank is a process; a group is a list of ranks, counted from 0. To make one, each rank opens an
 * endpoint, tells the others its address (a line of text) by whatever means there is, and calls
 * dlflow_group_create with the addresses of all. Sub-groups are made in the same way. No MPI and no
 * launcher are needed.
 *
 * Collectives: all ranks of a group start the same ones in the same order; the group executes them
 * in this order, but for urgent sums, on a thread of its own. A call that starts something never
 * waits for others. What it reads and writes belongs to the group until the work is done. Counts
 * are numbers of elements, sizes are bytes, times are milliseconds. Memory is the host's; any
 * alignment that suits the type.
 *
 * Threads: any thread may call any function, but all ranks must agree on the order of collectives;
 * an object is not used any more once it is freed. After fork() the child must not call anything.
 *
 * Errors: every function returns a dlflow_status. dlflow_error() is the reason of the last one that
 * failed on this thread. Once a group's operation failed, all ranks of the group fail, each with
 * the same reason, and the group is of no more use but to be freed. A rank that dies, or that comes
 * to another collective than the others, is named on all ranks within seconds.
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

/* NOLINTBEGIN(readability-identifier-naming): names as C has them */

/* Of this header. A library of another number has other functions: see dlflow_abi(). */
#define DLFLOW_ABI 3

typedef enum {
  DLFLOW_OK = 0,
  DLFLOW_INVALID = 1,     /* the arguments are wrong, or ranks disagree */
  DLFLOW_UNAVAILABLE = 2, /* a rank died, left, or did not come in time */
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
  DLFLOW_BAND = 5, /* bitwise and, or, exclusive or: not of floats */
  DLFLOW_BOR = 6,
  DLFLOW_BXOR = 7
} dlflow_op;

typedef struct dlflow_endpoint dlflow_endpoint;
typedef struct dlflow_group dlflow_group;
typedef struct dlflow_work dlflow_work;
typedef struct dlflow_queue dlflow_queue;
typedef struct dlflow_compressor dlflow_compressor;

/* DLFLOW_ABI of the library. */
DLFLOW_API int dlflow_abi(void);

/* Why the last function that failed on this thread did so: a sentence. Valid until the thread's
 * next failure. */
DLFLOW_API const char* dlflow_error(void);

/* ---- groups ---- */

/* Opens a port. `memory`: ranks that give the same text share memory; NULL: the ranks of one
 * user on one machine and in one network namespace do. */
DLFLOW_API dlflow_status dlflow_endpoint_open(const char* memory, dlflow_endpoint** endpoint);

/* A line of text, valid as long as the endpoint. Who knows it may join: it is not for strangers. */
DLFLOW_API const char* dlflow_endpoint_address(const dlflow_endpoint* endpoint);

DLFLOW_API void dlflow_endpoint_free(dlflow_endpoint* endpoint);

typedef struct {
  int64_t timeout;       /* an operation in which nothing moves for so long fails */
  int64_t stall_timeout; /* a rank that others wait for may be stopped for so long */
  const char* name;      /* of the group, in messages; may be NULL */
} dlflow_group_options;

/* Collective over `size` ranks with these addresses, this one's at addresses[rank]. Waits for all
 * of them. The endpoint is used up, and has still to be freed. */
DLFLOW_API dlflow_status dlflow_group_create(dlflow_endpoint* endpoint, int rank, int size,
                                             const char* const* addresses,
                                             const dlflow_group_options* options,
                                             dlflow_group** group);

/* Ends what is under way and frees the group. A rank that leaves waits up to `linger` for the
 * others to have no more need of it, which they say by leaving, too. */
DLFLOW_API void dlflow_group_free(dlflow_group* group, int64_t linger);

/* ---- collectives: `work` is to be freed ---- */

/* data[i] = op over all ranks of data[i], on every rank. */
DLFLOW_API dlflow_status dlflow_all_reduce(dlflow_group* group, void* data, size_t count,
                                           dlflow_type type, dlflow_op op, dlflow_work** work);

/* The same with an urgency, 0 to 3; that of dlflow_all_reduce and of every other collective is 0. A
 * sum goes before less urgent ones that were started earlier, also if they are under way; those of
 * one urgency keep their order. So a framework that sums the gradients of the last layers first,
 * while it still computes those of the first layers, may have the latter, which the next step needs
 * first, overtake them. All ranks give the same urgency. For DLFLOW_SUM and DLFLOW_AVG of F32, F16,
 * BF16 and DLFLOW_SUM of I32, I64. The first sum of a type and urgency waits for what was started
 * before it, and what is started after it waits for it: memory is made then. */
DLFLOW_API dlflow_status dlflow_urgent_all_reduce(dlflow_group* group, void* data, size_t count,
                                                  dlflow_type type, dlflow_op op, int urgency,
                                                  dlflow_work** work);

/* The same, on rank `root` alone; the others' data stays as it is. */
DLFLOW_API dlflow_status dlflow_reduce(dlflow_group* group, void* data, size_t count,
                                       dlflow_type type, dlflow_op op, int root,
                                       dlflow_work** work);

/* `input` holds a block for each rank, one after the other, block r of counts[r] elements, which
 * are the same on all ranks; `output` gets this rank's block, reduced. */
DLFLOW_API dlflow_status dlflow_reduce_scatter(dlflow_group* group, const void* input, void* output,
                                               const size_t* counts, dlflow_type type, dlflow_op op,
                                               dlflow_work** work);

DLFLOW_API dlflow_status dlflow_broadcast(dlflow_group* group, void* data, size_t size, int root,
                                          dlflow_work** work);

/* `output` gets the blocks of all ranks, one after the other, block r of sizes[r] bytes, which are
 * the same on all ranks; `input` is this rank's. They may overlap where the block belongs. */
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

/* Is done once all ranks have started it. */
DLFLOW_API dlflow_status dlflow_barrier(dlflow_group* group, dlflow_work** work);

/* The same, but ranks that do not come within `timeout` are named, on all ranks. */
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

/* The same on all ranks. docs/user/compression.md says what the methods do. */
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

/* A parameter: rows * columns numbers from element `first` on, row after row. */
typedef struct {
  size_t first, rows, columns;
} dlflow_matrix;

/* What a rank keeps from sum to sum for a buffer of `count` floats. The elements in `matrices`,
 * which ascend and do not overlap, are compressed; the others are summed as they are. */
DLFLOW_API dlflow_status dlflow_compressor_create(const dlflow_compression* compression,
                                                  const dlflow_matrix* matrices,
                                                  size_t num_matrices, size_t count,
                                                  dlflow_compressor** compressor);

/* What was started with it goes on. */
DLFLOW_API void dlflow_compressor_free(dlflow_compressor* compressor);

/* Replaces `data`, of the compressor's count, by what passes for the sum over all ranks, the same
 * bits on all; what this rank has not sent is added to its next sum. Collective; `step` of the
 * training and `epoch`, from 0, are the same on all ranks. */
DLFLOW_API dlflow_status dlflow_compressed_all_reduce(dlflow_group* group,
                                                      dlflow_compressor* compressor, float* data,
                                                      uint64_t step, uint64_t epoch,
                                                      dlflow_work** work);

typedef enum {
  DLFLOW_RESIDUAL = 0,     /* what this rank has not sent, an element for each of the buffer */
  DLFLOW_VELOCITY = 1,     /* of dgc, likewise */
  DLFLOW_RIGHT_FACTORS = 2 /* of powersgd, the same on all ranks: of each matrix min(rank, rows,
                              columns) * columns numbers, one after the other */
} dlflow_compressor_part;

/* Numbers that are kept, to be read or written while no sum is under way; `count` becomes 0 for
 * other methods than those named. Valid as long as the compressor. */
DLFLOW_API float* dlflow_compressor_state(dlflow_compressor* compressor,
                                          dlflow_compressor_part part, size_t* count);

/* ---- sums over leaves: the same bits on any number of ranks ---- */

typedef struct dlflow_leaf_sum dlflow_leaf_sum;

/* The leaves of one rank: consecutive ones, counted over all ranks; none if there are more ranks.
 */
typedef struct {
  size_t first, count;
} dlflow_leaves;

/* Elements [first, first + count) of a leaf's vector; NULL: zeros. */
typedef struct {
  size_t first, count;
  const float* data;
} dlflow_piece;

/* A vector of `count` floats for each of `num_leaves` leaves, which the ranks share out. They are
 * added along one binary tree over the numbers of the leaves: neighbours first, then neighbouring
 * pairs, and so on. Collective. The group owns the sum; it may be used once the work is done. */
DLFLOW_API dlflow_status dlflow_leaf_sum_create(dlflow_group* group, size_t num_leaves,
                                                size_t count, dlflow_leaf_sum** sum,
                                                dlflow_work** work);

DLFLOW_API dlflow_leaves dlflow_leaf_sum_leaves(const dlflow_leaf_sum* sum);

/* Takes `scale` times the pieces, which are copied, as elements of `leaf`, one of this rank. For
 * each element, one leaf after the other, and once each. */
DLFLOW_API dlflow_status dlflow_leaf_sum_add(dlflow_leaf_sum* sum, size_t leaf, float scale,
                                             const dlflow_piece* pieces, size_t num_pieces);

/* Adds up these elements of all leaves, which every rank has given for all of its own. Collective.
 * Once the work is done, they are in the result, and may be given again. */
DLFLOW_API dlflow_status dlflow_leaf_sum_start(dlflow_leaf_sum* sum, size_t first, size_t count,
                                               dlflow_work** work);

/* `count` floats at a multiple of 64 bytes. They stay until the elements are given again. */
DLFLOW_API float* dlflow_leaf_sum_result(dlflow_leaf_sum* sum);

/* ---- messages between two ranks: not collective, and in no order with collectives ---- */

/* Messages of one tag between two ranks arrive in order, and each meets a receive of its size. Tags
 * are 0 to 2^30. A send is done once `data` may be written again. */
DLFLOW_API dlflow_status dlflow_send(dlflow_group* group, const void* data, size_t size, int to,
                                     int tag, dlflow_work** work);
DLFLOW_API dlflow_status dlflow_receive(dlflow_group* group, void* data, size_t size, int from,
                                        int tag, dlflow_work** work);

/* The same for the first message of this tag that arrives from any rank and that no receive from
 * that rank waits for; dlflow_work_source() tells which rank it was. */
DLFLOW_API dlflow_status dlflow_receive_from_any(dlflow_group* group, void* data, size_t size,
                                                 int tag, dlflow_work** work);

/* ---- works ---- */

/* DLFLOW_OK if it has succeeded, DLFLOW_PENDING if it is not done, else why it failed. */
DLFLOW_API dlflow_status dlflow_work_test(dlflow_work* work);

/* The same after at most `timeout`; negative: as long as it takes. */
DLFLOW_API dlflow_status dlflow_work_wait(dlflow_work* work, int64_t timeout);

/* The same for a caller that goes on: executes the work on its own thread while the work moves.
 * Does so only if all ranks are on one node and `threads`, which each of them computes with, leave
 * no core to the group's own thread; that would take as long and be late. */
DLFLOW_API dlflow_status dlflow_work_advance(dlflow_work* work, int threads);

/* The sender, of a receive from any rank that is done; of others -1. */
DLFLOW_API int dlflow_work_source(const dlflow_work* work);

/* Frees the handle; what it stands for goes on. */
DLFLOW_API void dlflow_work_free(dlflow_work* work);

/* ---- queues of works that are done, for whoever completes futures ---- */

DLFLOW_API dlflow_queue* dlflow_queue_create(void);
DLFLOW_API void dlflow_queue_free(dlflow_queue* queue);

/* `id` comes into the queue once `work` is done, at once if it is. Once per work. */
DLFLOW_API void dlflow_work_notify(dlflow_work* work, dlflow_queue* queue, uint64_t id);

/* Takes an id out of the queue, the oldest one; DLFLOW_PENDING if none comes within `timeout`. */
DLFLOW_API dlflow_status dlflow_queue_pop(dlflow_queue* queue, int64_t timeout, uint64_t* id);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
