#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace dlflow::runtime {

/// Lets ranks find each other without MPI, through a file on a shared file system. Returns the
/// `own` of each rank, in the order of ranks.
///
/// Rank 0 listens, and writes its address and a new secret into `file`, which only its owner may
/// read. The others read it, connect, prove the secret and send their `own` and their listening
/// address; rank 0 proves the secret, too, and closes the connection. Once all have registered, it
/// removes the file, and the list is passed along a binomial tree in lg P rounds. If an earlier
/// start left a stale file, the others retry until rank 0 has replaced it.
///
/// Collective over the ranks. Throws Error{Unavailable} naming a rank that did not come within
/// `timeout`, Error{InvalidInput} if others may read the file.
std::vector<std::string> meet(const std::filesystem::path& file, int rank, int size,
                              const std::string& own, std::chrono::milliseconds timeout);

}  // namespace dlflow::runtime
