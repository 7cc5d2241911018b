#pragma once

#include <string>

namespace dlflow::runtime {

/// What decides the bits that a network computes, besides its weights and its input: the build of
/// dlflow and of oneDNN, the instruction set that oneDNN found, and the threads that share a
/// network. "dlflow 0.1.0 (12.2.0), oneDNN 2.6.3, avx512_core_amx, 1 thread"
std::string arithmetic();

}  // namespace dlflow::runtime
