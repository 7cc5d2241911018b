#pragma once

/// The tree in which ranks watch each other: few connections a rank, few steps to rank 0.
namespace dlflow::runtime {

constexpr int kChildrenOfRank = 32;

/// Rank 0 has none.
constexpr int parent_of(int rank) { return (rank - 1) / kChildrenOfRank; }

}  // namespace dlflow::runtime
