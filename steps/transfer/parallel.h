#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace dlflow::steps {

/// Calls work(i) for each i below `count`, on up to `num_threads` threads, and returns once all
/// calls have. One that throws an Error ends no other: if any did, the Error thrown here tells of
/// all of them, up to ten. Once a call throws Stopped no other begins, and Stopped is thrown.
void for_each_parallel(size_t count, size_t num_threads, const std::function<void(size_t i)>& work);

}  // namespace dlflow::steps
