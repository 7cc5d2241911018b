#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace dlflow::steps {

/// Calls work(i) for each i below `count`, on up to `num_threads` threads, and returns after the
/// last call. An Error in one call does not stop the others; the Error thrown at the end lists all
/// of them, up to ten. After a call throws Stopped, no other begins, and Stopped is thrown.
void for_each_parallel(size_t count, size_t num_threads, const std::function<void(size_t i)>& work);

}  // namespace dlflow::steps
