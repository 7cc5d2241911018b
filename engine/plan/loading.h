#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// Programs whose shared libraries are missing or too old.
namespace dlflow {

/// The libraries that the dynamic loader reports as missing or too old in `text`, with advice:
/// "libmpi.so.40, which dlflow-train needs, is not found; load …". Empty if it reports none. The
/// versions that a library has are looked up on this machine.
std::string loading_problem(std::string_view text);

/// The same for `program`, from a trace of its loader; the program itself does not run. Also empty
/// for a file that is neither program nor script. \param environment  for the start of the program.
std::string loading_problem_of(const std::filesystem::path& program,
                               const std::vector<std::string>& environment);

/// The program of a step as it would be started on this machine.
struct ProgramHere {
  std::filesystem::path file;
  std::vector<std::string> environment;
};

/// Absent if only the step's job can find it: after `setup:` lines, with the step's own
/// environment, in an image.
std::optional<ProgramHere> program_here(const Step& step, const Profile& profile);

/// The first of `libraries` that the loader would find for `program`, such as "libmpi.so.12";
/// empty if there is none.
std::string first_found(std::span<const char* const> libraries,
                        const std::filesystem::path& program,
                        const std::vector<std::string>& environment);

}  // namespace dlflow
