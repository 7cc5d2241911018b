#pragma once

namespace dlflow::runtime {

/// What an all-reduce leaves on every rank: the sum over ranks, or the sum times (1/P).
enum class Reduction { Sum, Mean };

}  // namespace dlflow::runtime
