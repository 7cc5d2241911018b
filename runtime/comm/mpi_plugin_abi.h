#pragma once

#include <stdint.h>

/// The interface between a program and libdlflow_mpi_N.so, which it opens at run time: plain C
/// without types of any MPI library. Families of MPI libraries differ in their binary interface, so
/// there is one plug-in for each, from the same source (mpi_plugin.cpp).
///
/// Calls that may fail return null, or an error text that is valid until this thread's next call.
/// One thread at a time calls.

#ifdef __cplusplus
extern "C" {
#endif

/** Changes with anything below. Both sides compare it before they use anything else. */
#define DLFLOW_MPI_ABI 1u

/** The one symbol that a plug-in exports, and its type. */
#define DLFLOW_MPI_PLUGIN_SYMBOL "dlflow_mpi_plugin"

// NOLINTBEGIN(readability-identifier-naming): names as C has them

typedef const char* DlflowMpiError;

/** The library's own: a pointer in Open MPI, an int in MPICH. */
typedef uint64_t DlflowMpiHandle;

/** Types that MPI can add; others count as bytes. */
typedef enum { DLFLOW_MPI_FLOAT32, DLFLOW_MPI_INT32, DLFLOW_MPI_INT64 } DlflowMpiType;

/** What test() finds. */
typedef enum {
  DLFLOW_MPI_UNDER_WAY,
  DLFLOW_MPI_ENDED,
  DLFLOW_MPI_TRUNCATED /* the message is longer than its receive */
} DlflowMpiProgress;

/** A copy of the communicator of all ranks, so that no other library's messages meet ours, and
 * that of the ranks which share memory with this one. */
typedef struct {
  DlflowMpiHandle world, node;
  int32_t rank, size, node_rank, node_size;
} DlflowMpiRanks;

typedef struct {
  uint32_t abi; /* DLFLOW_MPI_ABI of the plug-in; stays first */

  /** From init() to finalize(), once in a process. A failure of init() ends it. */
  void (*init)(int* argc, char*** argv);
  void (*finalize)(void);
  void (*abort)(int32_t status); /* ends all ranks; may return */
  int32_t (*rank)(void);

  /** "Open MPI v4.1.4, package: ..." */
  const char* (*library)(void);

  /** Collective over all ranks, as is close(). An error if no second thread may call MPI. */
  DlflowMpiError (*open)(DlflowMpiRanks* ranks);
  void (*close)(DlflowMpiRanks* ranks);

  /** The first rank on the node of each rank, as `size` numbers. Collective over all ranks. */
  DlflowMpiError (*gather_nodes)(const DlflowMpiRanks* ranks, int32_t* first_ranks);

  /** Begin something that test() asks about: a message, a sum over all ranks in place, a barrier of
   * the ranks of a node. */
  DlflowMpiError (*send)(const DlflowMpiRanks* ranks, const void* bytes, int32_t size, int32_t to,
                         int32_t tag, DlflowMpiHandle* request);
  DlflowMpiError (*receive)(const DlflowMpiRanks* ranks, void* bytes, int32_t size, int32_t from,
                            int32_t tag, DlflowMpiHandle* request);
  DlflowMpiError (*sum)(const DlflowMpiRanks* ranks, void* values, int32_t count, int32_t type,
                        DlflowMpiHandle* request);
  DlflowMpiError (*node_barrier)(const DlflowMpiRanks* ranks, DlflowMpiHandle* request);

  /** \param received  becomes the number of bytes that a receive has got; null for others. */
  DlflowMpiError (*test)(DlflowMpiHandle* request, int32_t* progress, int32_t* received);

  /** Memory of which every rank of the node gives `bytes`, on pages of its own, so that it lies
   * next to its rank's core. Plain loads, stores and atomics reach all of it. `total` becomes the
   * sum of all bytes, also if there is no room for them. Collective over the node. */
  DlflowMpiError (*allocate_shared)(const DlflowMpiRanks* ranks, uint64_t bytes, uint64_t* total,
                                    DlflowMpiHandle* window);
  DlflowMpiError (*shared_part)(DlflowMpiHandle window, int32_t node_rank, void** part);
  void (*free_shared)(DlflowMpiHandle window);
} DlflowMpiPlugin;

/** DLFLOW_MPI_PLUGIN_SYMBOL */
typedef const DlflowMpiPlugin* (*DlflowMpiPluginFunction)(void);

// NOLINTEND(readability-identifier-naming)

#ifdef __cplusplus
}
#endif
