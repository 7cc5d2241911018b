#include "engine/supervisor/telling_line.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <vector>

#include "base/text.h"
#include "engine/plan/loading.h"

namespace dlflow {
namespace {

using Lines = std::vector<std::string>;

/// A line as a terminal shows it: after the last carriage return, without colours. Spaces at its
/// beginning stay: they distinguish the frames of a traceback from its last line.
std::string shown_text(std::string_view line) {
  const size_t last = line.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return "";
  const std::string_view kept = line.substr(0, last + 1);
  std::string text;
  for (size_t i = kept.rfind('\r') + 1; i < kept.size(); ++i) {  // 0 without any
    if (kept[i] == '\033' && i + 1 < kept.size() && kept[i + 1] == '[') {
      i = std::min(kept.find_first_of("ABCDEFGHJKSTfhlmnsu", i), kept.size());
    } else if (kept[i] == '\t') {
      text += "    ";
    } else if (static_cast<unsigned char>(kept[i]) >= ' ' && kept[i] != 0x7F) {
      text += kept[i];
    }
  }
  return escaped(text);
}

constexpr std::string_view kDigits = "0123456789";

/// "[rank1]: Traceback …", by PyTorch once its group exists, and "[default1]:Traceback …", by
/// torchrun: returns the line without that. PyTorch's log has no space: "[rank1]:[W1127 …".
std::string without_rank(const std::string& line) {
  for (const std::string_view writer : {"[default", "[rank"}) {
    if (!line.starts_with(writer)) continue;
    const size_t end = line.find_first_not_of(kDigits, writer.size());
    if (end == line.npos || end == writer.size() || line.compare(end, 2, "]:") != 0) return line;
    const size_t begin = end + 2;
    const bool has_space = writer == "[rank" && line.compare(begin, 1, " ") == 0;
    return without_rank(line.substr(begin + (has_space ? 1 : 0)));
  }
  return line;
}

/// "W1127 07:40:39.828 …", "[I1127 07:…": a line of PyTorch's log that is no error.
bool is_log(std::string_view line) {
  if (line.starts_with("[")) line.remove_prefix(1);
  constexpr size_t kDate = 5;  // "W1127"
  const bool has_level = line.starts_with("I") || line.starts_with("V") || line.starts_with("W");
  return has_level && line.size() > kDate + 3 && line.find_first_not_of(kDigits, 1) == kDate &&
         line[kDate] == ' ' && line[kDate + 3] == ':';
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Whether `text` has one of `parts`.
template <size_t N>
bool contains_any(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::ranges::any_of(parts, [text](std::string_view part) { return contains(text, part); });
}

bool is_frame(const std::string& line) {
  return !line.empty() && line.find_first_not_of('-') == std::string::npos;
}

/// Pages of mpirun that only report that a process has ended, which is known.
constexpr std::array<std::string_view, 7> kPages = {
    "normally, but 1 process returned",
    "detected that one or more processes exited with non-zero status",
    "noticed that process rank",
    "MPI_ABORT was invoked",
    "has been aborted",
    "A process or daemon was unable to complete a TCP connection",
    "has lost communication with a remote daemon",
};

/// Single lines of srun, mpirun and torchrun about a rank's end.
constexpr std::array<std::string_view, 18> kNotes = {
    ": Exited with exit code",
    "srun: Terminating",
    "srun: Force Terminated",
    "srun: Job step aborted",
    "srun: forcing job termination",
    "srun: error: Timed out waiting for job step",
    "srun: job abort",
    "srun: launch/slurm",
    ": error: *** STEP ",  // of slurmstepd, or slurmstepd-NODE
    ": error: *** JOB ",
    " _errhandler: ",  // of slurmstepd's plug-in for PMIx
    " seconds before aborting",
    "Set MCA parameter \"orte_base_help_aggregate\"",
    "processes have sent help message",
    "process has sent help message",
    "torch.distributed.elastic",
    "torch/distributed/elastic",
    "closing signal SIGTERM",
};

/// "[node:1234] *** Process received signal ***" and the frames below it: the signal is known.
bool is_of_signal(const std::string& line) {
  const size_t end = line.find("] ");
  if (!line.starts_with("[") || end == std::string::npos || !contains(line.substr(0, end), ":")) {
    return false;
  }
  const std::string rest = line.substr(end + 2);
  return rest.starts_with("*** Process received") || rest.starts_with("*** End of error") ||
         rest.starts_with("Signal") || rest.starts_with("Failing at address") ||
         rest.starts_with("[ ") || rest.starts_with("[1") || rest.starts_with("[2");
}

bool is_note(const std::string& line) {
  const bool killed = line.starts_with("srun: error: ") && line.ends_with(": Killed");
  return killed || contains_any(line, kNotes) || is_of_signal(line) || is_log(line);
}

/// The lines without pages and notes of launchers. Between two frames of dashes mpirun has a page;
/// one with other content ("There are not enough slots available …") is kept from its first line.
Lines without_launchers(const Lines& lines) {
  Lines kept;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!is_frame(lines[i])) {
      if (!is_note(lines[i])) kept.push_back(lines[i]);
      continue;
    }
    const auto close = std::find_if(lines.begin() + std::ptrdiff_t(i) + 1, lines.end(), is_frame);
    if (close == lines.end()) continue;
    const Lines page(lines.begin() + std::ptrdiff_t(i) + 1, close);
    const bool is_ending = std::ranges::any_of(
        page, [](const std::string& line) { return contains_any(line, kPages); });
    if (is_ending) i = size_t(close - lines.begin());
  }
  return kept;
}

/// torchrun ends with its own traceback, and a table below it.
void cut_torchrun(Lines& lines) {
  const auto end = std::ranges::find_if(
      lines, [](const std::string& line) { return contains(line, "ChildFailedError"); });
  if (end == lines.end()) return;
  auto begin = end;
  while (begin != lines.begin() && !begin->starts_with("Traceback (most recent")) --begin;
  if (begin->starts_with("Traceback (most recent")) lines.erase(begin, lines.end());
}

/// An error of the program, and whether it is only a consequence of another rank's end.
struct Found {
  std::string text;
  bool follows = false;
  enum class Kind { Other, Line, Traceback } kind = Kind::Other;
};

constexpr std::array<std::string_view, 11> kConsequences = {
    "Connection reset by peer",
    "Connection closed by peer",
    "Broken pipe",
    "KeyboardInterrupt",
    "DistBackendError",
    "DistNetworkError",
    "Socket Timeout",
    "remote process exited",
    "unhandled system error",
    // The message of dlflow's collectives to the other ranks after an exception of one.
    " died: killed, crashed, or its node went down",
    " is not the same on all ranks: ",
};

/// "train.py:5" for '  File "/runs/x/pass-1/work/train.py", line 5, in load', a frame of the
/// user's own code; empty for one of a library.
std::string place_of(const std::string& line) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  const size_t begin = line.find(kFile);
  const size_t end = line.find(kLine);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  std::string path = line.substr(begin + kFile.size(), end - begin - kFile.size());
  constexpr std::array<std::string_view, 4> kLibraries = {"/site-packages/", "/dist-packages/",
                                                          "/lib/python", "<frozen"};
  if (contains_any(path, kLibraries)) return "";
  constexpr std::string_view kWork = "/work/";  // the program's working directory
  const size_t work = path.rfind("/pass-");
  const size_t below = work == std::string::npos ? work : path.find(kWork, work);
  if (below != std::string::npos) {
    path = path.substr(below + kWork.size());
  } else {
    path = path.substr(path.rfind('/') + 1);
  }
  const size_t number = end + kLine.size();
  return path + ":" + line.substr(number, line.find_first_not_of(kDigits, number) - number);
}

bool is_indented(const std::string& line) {
  return line.starts_with(" ") || line.starts_with("\t");
}

/// The last line of the traceback that begins at `lines[i]`; `i` is moved there. Returns nothing if
/// there is no such line.
std::optional<Found> end_of_traceback(const Lines& lines, size_t& i) {
  std::string place;
  for (++i; i < lines.size() && (lines[i].empty() || is_indented(lines[i])); ++i) {
    if (const std::string here = place_of(lines[i]); !here.empty()) place = here;
  }
  if (i == lines.size()) return std::nullopt;
  std::string text = lines[i];
  const bool goes_on = text.ends_with(":") && i + 1 < lines.size() && is_indented(lines[i + 1]);
  if (goes_on) text += " " + std::string(trim(lines[++i]));
  const bool follows = contains_any(text, kConsequences);
  return Found{text + (place.empty() ? "" : " (" + place + ")"), follows, Found::Kind::Traceback};
}

/// "error: no data" and "error reading x" are messages about an error; "error_rate 0.5" and "error
/// 0.5" are measurements.
bool is_error_line(std::string_view line) {
  if (line.starts_with("error:")) return true;
  return line.starts_with("error ") && line.find_first_of("0123456789=") != 6;
}

/// PyTorch prints the error of a loader's process, which is more precise, below that of the process
/// that waited for it.
bool is_traceback(std::string_view line) {
  if (line.starts_with("Original ")) line.remove_prefix(9);
  return line.starts_with("Traceback (most recent call last)");
}

/// The program's own errors, in their order.
std::vector<Found> errors_in(const Lines& lines) {
  constexpr std::array<std::string_view, 2> kOfLoader = {" while loading shared libraries: ",
                                                         "' not found (required by "};
  std::vector<Found> errors;
  std::string of_loader;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (is_traceback(line)) {
      if (auto found = end_of_traceback(lines, i)) errors.push_back(std::move(*found));
    } else if (is_error_line(trim(line))) {
      const bool follows = contains_any(line, kConsequences);
      errors.push_back({std::string(trim(line)), follows, Found::Kind::Line});
    } else if (contains_any(line, kOfLoader)) {
      of_loader += line + "\n";
    } else if (line.starts_with("Error")) {
      errors.push_back({line});
    } else if (trim(line).starts_with("what():")) {
      errors.push_back({std::string(trim(trim(line).substr(7)))});
    } else if (const size_t mpi = line.find("*** MPI_ERR_"); mpi != std::string::npos) {
      errors.push_back({line.substr(mpi + 4)});
    }
  }
  if (std::string problem = loading_problem(of_loader); !problem.empty()) {
    errors.push_back({std::move(problem)});
  }
  return errors;
}

std::string shortened(std::string text) {
  constexpr size_t kLongest = 300;
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole characters
  return text.substr(0, end) + "…";
}

/// The lines that the program itself has written.
Lines own_lines(std::string_view text) {
  Lines lines;
  for (const std::string& line : split(text, '\n')) {
    lines.push_back(without_rank(shown_text(line)));
  }
  cut_torchrun(lines);
  return without_launchers(lines);
}

}  // namespace

std::string end_of_output(const std::filesystem::path& file, uint64_t from, int64_t most) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return "";
  const std::streamoff size = stream.tellg();
  const std::streamoff begin = std::max<std::streamoff>(std::streamoff(from), size - most);
  if (begin >= size) return "";
  std::string text(size_t(size - begin), '\0');
  stream.seekg(begin);
  stream.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(stream.gcount()));
  return text;
}

std::string telling_line_of(std::string_view text) {
  const Lines lines = own_lines(text);
  std::string last;
  for (const std::string& line : lines) {
    if (!is_frame(line) && !trim(line).empty()) last = trim(line);
  }
  const std::vector<Found> errors = errors_in(lines);
  const Found* told = nullptr;
  for (const Found& error : errors) {
    // A line that begins with "error" is better than later ones, except an exception.
    const bool stays = told != nullptr && told->kind == Found::Kind::Line;
    if (!error.follows && (!stays || error.kind != Found::Kind::Other)) told = &error;
  }
  if (told != nullptr) return shortened(told->text);
  return shortened(errors.empty() ? last : errors.back().text);
}

std::string telling_line(const std::filesystem::path& standard_error, uint64_t from) {
  return telling_line_of(end_of_output(standard_error, from));
}

bool has_error(const std::filesystem::path& standard_error, uint64_t from) {
  return !errors_in(own_lines(end_of_output(standard_error, from))).empty();
}

}  // namespace dlflow
