#pragma once

/// The tree in which ranks watch each other: few connections per rank, few steps to rank 0.
namespace dlflow::runtime {

constexpr int kChildrenOfRank = 32;

/// `rank` must not be 0, which has no parent.
constexpr int parent_of(int rank) { return (rank - 1) / kChildrenOfRank; }

}  // namespace dlflow::runtime
