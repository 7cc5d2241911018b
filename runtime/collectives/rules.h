#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// The rules that choose an algorithm by the number of bytes, as text that people write and --tune
/// prints, such as `allreduce=recursive_doubling:0-8K;shm:8K-max`.
namespace dlflow::runtime {

enum class Algorithm {
  SharedMemory,
  Hierarchical,
  RecursiveDoubling,
  Rabenseifner,
  Ring,
  Tree,
  Direct,
  Mpi,  ///< must stay last
};
inline constexpr std::array kAlgorithms = {
    Algorithm::SharedMemory, Algorithm::Hierarchical, Algorithm::RecursiveDoubling,
    Algorithm::Rabenseifner, Algorithm::Ring,         Algorithm::Tree,
    Algorithm::Direct,       Algorithm::Mpi};
static_assert(kAlgorithms.size() == size_t(Algorithm::Mpi) + 1, "kAlgorithms lacks an algorithm");

/// The algorithm's name in rules: "shm", "recursive_doubling", ...
std::string_view name(Algorithm algorithm);

/// The algorithm for sums of first_bytes to last_bytes, both included.
struct Rule {
  Algorithm algorithm;
  size_t first_bytes, last_bytes;

  bool operator==(const Rule&) const = default;
};

/// The first matching rule counts; every size has one.
using Rules = std::vector<Rule>;

/// `rules` must hold a rule for every size.
Algorithm choose(const Rules& rules, size_t bytes);

/// Rules for ranks of one shape.
struct RuleSet {
  Rules allreduce;
  Rules between_nodes;  ///< `hierarchical`: for the slices between nodes

  bool operator==(const RuleSet&) const = default;
};

/// Parses "allreduce=shm:0-max", optionally followed by " between_nodes=...". Rules that the text
/// does not name stay empty. Throws Error{InvalidInput} beginning with `where`.
RuleSet parse_rules(std::string_view text, const std::string& where);

/// The text that parse_rules reads.
std::string to_text(const RuleSet& rules);

/// Parses the line for `shape` (Topology::text) in `text`, the rules of a cluster: one line per
/// shape of ranks, such as "2x4 allreduce=..." for two nodes of four ranks. Text after a # is a
/// comment. Returns empty rules if there is no such line. Throws Error{InvalidInput} naming `path`
/// and the faulty line.
RuleSet rules_for_shape(std::string_view text, const std::string& shape,
                        const std::filesystem::path& path);

/// Adds or replaces the line for `shape`, ending in `comment`; creates the file if needed.
void store_rules(const std::filesystem::path& path, const std::string& shape, const RuleSet& rules,
                 const std::string& comment);

}  // namespace dlflow::runtime
