#pragma once

#include <chrono>
#include <cstddef>

/// Communicators' error messages for ranks that do not fit together.
namespace dlflow::runtime {

/// Throws Error{Unavailable}: "rank 0: rank 3 did not answer within 30 s; ...". A negative `peer`
/// means an unspecified rank.
[[noreturn]] void throw_no_answer(int rank, int peer, std::chrono::milliseconds waited);

/// Throws Error{InvalidInput}: "rank 0 expected 400 bytes from rank 1 and got 8; ...".
[[noreturn]] void throw_size_mismatch(int rank, int from, size_t expected, size_t received);

}  // namespace dlflow::runtime
