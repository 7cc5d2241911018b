#pragma once

#include <filesystem>
#include <string>

/// The user's terminal and a shell that runs where no runtime forwards standard input, joined by
/// two FIFOs in a folder that both see. Input travels as frames, beside the size of the window;
/// output travels unchanged.
namespace dlflow {

/// Runs an interactive shell as the program of the job in `attempt_directory` would run, on this
/// machine and as one rank: in its image, behind its setup lines, with its environment, inputs and
/// secrets; in a working directory of its own, which is removed at the end. Prints the job's
/// command first, unless `quiet`. Returns the shell's exit status. Throws Error if the job's
/// parents have not left what it needs, or its image's runtime passes no programs on (pyxis).
int run_shell(const std::filesystem::path& attempt_directory, bool quiet);

/// `dlflow terminal FOLDER KIND`: runs a shell (bash, or sh if there is no bash) on its own
/// terminal, or on pipes if KIND is "pipe". Ends when the shell ends, or when the other side is
/// gone; returns the shell's exit status.
int serve_terminal(const std::filesystem::path& folder, const std::string& kind);

}  // namespace dlflow
