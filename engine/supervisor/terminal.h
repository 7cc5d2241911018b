#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/process.h"

/// The user's terminal and a program that runs where no runtime passes standard input on, joined by
/// two FIFOs in a folder that both see. What is typed goes in as frames, beside the size of the
/// window; what is printed comes out as it is.
namespace dlflow {

class Terminal {
 public:
  /// Makes the FIFOs in `folder`, which the caller removes.
  explicit Terminal(std::filesystem::path folder);

  /// The command line of the program's side: `dlflow terminal FOLDER KIND`, run by `dlflow`.
  std::vector<std::string> served_by(const std::string& dlflow) const;

  /// Passes on what comes from standard input, and prints what comes back, until `program`, which
  /// has started served_by() somehow, has ended.
  ExitStatus attach(pid_t program) const;

 private:
  std::filesystem::path folder_;
  bool is_terminal_;  // standard input, so that the program gets one, too
};

/// `dlflow terminal FOLDER KIND`: a shell, bash or else sh, on a terminal of its own, or for KIND
/// "pipe" on pipes. Ends with the shell, or when the other side is gone; the shell's exit status.
int serve_terminal(const std::filesystem::path& folder, const std::string& kind);

}  // namespace dlflow
