#include "bench/gloo_peer.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/process.h"

namespace dlflow::bench {
namespace {

constexpr const char* kPort = "29513";

std::filesystem::path new_folder() {
  std::string path = std::filesystem::temp_directory_path() / "dlflow-bench.XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) throw_errno(path, errno);
  return path;
}

/// Opens the pipe for reading and writing; opening a single end would wait for the other.
std::fstream new_pipe(const std::filesystem::path& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) throw_errno(path, errno);
  return std::fstream(path, std::ios::in | std::ios::out);
}

}  // namespace

GlooPeer::GlooPeer(runtime::Communicator& comm, const std::filesystem::path& python,
                   const std::filesystem::path& program, runtime::DataType type)
    : folder_(new_folder()),
      requests_(new_pipe(folder_ / "requests")),
      answers_(new_pipe(folder_ / "answers")) {
  const char* const address = ::getenv("MASTER_ADDR");
  Command command;
  command.argv = {python,
                  program,
                  std::to_string(comm.rank()),
                  std::to_string(comm.size()),
                  address ? address : "127.0.0.1",
                  kPort,
                  std::string(name(type))};
  command.environment = current_environment();
  command.standard_input = folder_ / "requests";
  command.standard_output = folder_ / "answers";
  command.dies_with_parent = true;
  pid_ = start(command);
  std::string first = answer();
  if (first == "ready") first.clear();
  first.resize(200, ' ');
  comm.broadcast(std::as_writable_bytes(std::span(first)), 0);
  missing_ = first.substr(0, first.find_last_not_of(' ') + 1);
}

GlooPeer::~GlooPeer() {
  requests_ << std::endl;
  wait_for(pid_);
  std::filesystem::remove_all(folder_);
}

std::string GlooPeer::answer() {
  std::string line;
  std::getline(answers_, line);
  return line;
}

double GlooPeer::seconds(size_t num_elements, int calls) {
  requests_ << num_elements << ' ' << calls << std::endl;
  const std::string text = answer();
  if (text.starts_with("gloo")) throw Error(Errc::Corrupt, text);
  return std::stod(text);
}

}  // namespace dlflow::bench
