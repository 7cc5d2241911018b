#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace dlflow::runtime {

/// How ranks that a launcher started find each other without MPI: through a file on a file system
/// that they share. Returns what each rank gave as `own`, in the order of ranks.
///
/// Rank 0 listens, and writes the place and a new secret into `file`, which its owner alone may
/// read. The others read it, connect, show that they know the secret and send their `own` and the
/// place where they listen themselves; rank 0 shows that it knows the secret, too, and closes the
/// connection. Once all have come, it removes the file, and the list goes along a binomial tree in
/// lg P rounds. A file that an earlier start left leads nowhere, so that the others look again
/// until rank 0 has replaced it.
///
/// Collective over the ranks. Throws Error{Unavailable} naming a rank that did not come within
/// `timeout`, Error{InvalidInput} if others may read the file.
std::vector<std::string> meet(const std::filesystem::path& file, int rank, int size,
                              const std::string& own, std::chrono::milliseconds timeout);

}  // namespace dlflow::runtime
