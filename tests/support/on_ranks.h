#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <exception>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/comm/thread_communicator.h"

namespace dlflow::test {

/// Runs `work(communicator)` on every rank of `group`, each in its own thread with one OpenMP
/// thread, and returns each rank's result. Rethrows the exception of the lowest failed rank once
/// all have ended. Catch2 assertions belong on the test's own thread: return values and check them
/// there.
template <typename Work>
auto on_ranks(runtime::ThreadGroup& group, int num_ranks, Work work) {
  using Result = std::invoke_result_t<Work, runtime::Communicator&>;
  std::vector<std::optional<Result>> results(num_ranks);  // optional, as vector<bool> shares bytes
  std::vector<std::exception_ptr> errors(num_ranks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < num_ranks; ++rank) {
      threads.emplace_back([&, rank] {
#ifdef _OPENMP
        omp_set_num_threads(1);  // otherwise the teams of all ranks spin on the same cores
#endif
        try {
          results[rank].emplace(work(group.communicator(rank)));
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  std::vector<Result> all;
  for (auto& result : results) all.push_back(std::move(*result));
  return all;
}

template <typename Work>
auto on_ranks(int num_ranks, Work work) {
  runtime::ThreadGroup group(num_ranks);
  return on_ranks(group, num_ranks, work);
}

}  // namespace dlflow::test
