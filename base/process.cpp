#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/parse_json.h"
#include "base/process_tree.h"
#include "base/text.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

/// Data for the child, prepared before vfork(): afterwards only system calls are allowed.
struct Prepared {
  std::string program;
  std::vector<char*> argv;
  std::vector<char*> environment;
  FileDescriptor input;
  FileDescriptor output;
  FileDescriptor error;
};

FileDescriptor open_for_child(const fs::path& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!file) throw_errno("cannot open " + path.string(), errno);
  if (file.get() > 2) return file;
  // The caller has no standard streams: dup2() onto the same number would keep FD_CLOEXEC.
  FileDescriptor higher(::fcntl(file.get(), F_DUPFD_CLOEXEC, 3));
  if (!higher) throw_errno("cannot open " + path.string(), errno);
  return higher;
}

Prepared prepare(const Command& command) {
  DLFLOW_CHECK(!command.argv.empty());
  Prepared prepared;
  const std::string& name = command.argv.front();
  if (name.find('/') != std::string::npos) {
    prepared.program = name;
  } else if (const auto found = find_program(name, variable(command.environment, "PATH"))) {
    prepared.program = found->string();
  } else {
    throw Error(Errc::NotFound, "there is no program '" + name + "' in PATH");
  }
  prepared.argv = pointers(command.argv);
  prepared.environment = pointers(command.environment);
  const fs::path& input = command.standard_input;
  prepared.input = open_for_child(input.empty() ? "/dev/null" : input, O_RDONLY);
  const int append = O_WRONLY | O_CREAT | O_APPEND;
  if (!command.standard_output.empty()) {
    prepared.output = open_for_child(command.standard_output, append);
  }
  if (!command.standard_error.empty()) {
    prepared.error = open_for_child(command.standard_error, append);
  }
  return prepared;
}

void reset_signals(const Command& command) {
  for (int number = 1; number < 32; ++number) ::signal(number, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : command.blocked_signals) ::sigaddset(&set, number);
  for (const int number : command.ignored_signals) {
    ::sigaddset(&set, number);
    ::signal(number, SIG_IGN);
  }
  ::sigprocmask(SIG_SETMASK, &set, nullptr);
}

/// Marks descriptors for closing by exec, like `errors` of spawn().
void close_descriptors(int kept) {
  const auto mark = [](unsigned first, unsigned last) {
    if (first > last) return;
    if (::syscall(SYS_close_range, first, last, CLOSE_RANGE_CLOEXEC) == 0) return;
    rlimit open{};  // before Linux 5.11
    ::getrlimit(RLIMIT_NOFILE, &open);
    for (rlim_t i = first; i <= last && i < open.rlim_cur; ++i)
      ::fcntl(int(i), F_SETFD, FD_CLOEXEC);
  };
  constexpr unsigned kFirst = 3;
  if (kept < int(kFirst)) return mark(kFirst, ~0U);
  mark(kFirst, unsigned(kept) - 1);
  mark(unsigned(kept) + 1, ~0U);
}

/// Sets fixed limits: values that a shell or a batch system lowered must not change a program's
/// behaviour.
void fix_limits() {
  struct Limit {
    int resource;
    rlim_t most;
  };
  constexpr rlim_t kStack = rlim_t{8} << 20;
  constexpr rlim_t kOpenFiles = 65'536;
  constexpr Limit kLimits[] = {
      {RLIMIT_STACK, kStack},         {RLIMIT_NOFILE, kOpenFiles},  {RLIMIT_CORE, 0},
      {RLIMIT_AS, RLIM_INFINITY},     {RLIMIT_DATA, RLIM_INFINITY}, {RLIMIT_RSS, RLIM_INFINITY},
      {RLIMIT_FSIZE, RLIM_INFINITY},  {RLIMIT_CPU, RLIM_INFINITY},  {RLIMIT_NPROC, RLIM_INFINITY},
      {RLIMIT_MEMLOCK, RLIM_INFINITY}};
  for (const auto& [resource, most] : kLimits) {
    rlimit limit{};
    ::getrlimit(resource, &limit);
    const rlim_t wanted = std::min(most, limit.rlim_max);
    if (std::exchange(limit.rlim_cur, wanted) != wanted) ::setrlimit(resource, &limit);
  }
  ::umask(S_IWGRP | S_IWOTH);
  ::setpriority(PRIO_PROCESS, 0, 0);
}

/// Becomes the program, or returns the errno of the failed call. Runs between vfork() and exec().
int become(const Command& command, const Prepared& prepared, pid_t parent) {
  reset_signals(command);
  if (command.own_group) ::setpgid(0, 0);
  if (command.dies_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::raise(SIGKILL);  // the parent died before prctl()
  }
  if (command.has_fixed_limits) fix_limits();
  if (command.max_file_bytes > 0) {
    const rlimit limit{command.max_file_bytes, command.max_file_bytes};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return errno;
  }
  if (!command.directory.empty() && ::chdir(command.directory.c_str()) != 0) return errno;
  ::dup2(prepared.input.get(), 0);
  if (prepared.output) ::dup2(prepared.output.get(), 1);
  if (prepared.error) ::dup2(prepared.error.get(), 2);
  if (command.closes_descriptors) close_descriptors(command.kept_descriptor);
  ::execve(prepared.program.c_str(), prepared.argv.data(), prepared.environment.data());
  return errno;
}

/// Whether the first line of a script ends with CR LF, which would make the CR part of its
/// interpreter's name.
bool has_crlf(const fs::path& script) {
  std::string line;
  std::getline(std::ifstream(script), line);
  return line.starts_with("#!") && line.ends_with('\r');
}

[[noreturn]] void throw_start_error(const Command& command, const std::string& program,
                                    int error_number) {
  if (!command.directory.empty() && !fs::is_directory(command.directory)) {
    throw_errno("cannot start " + program + " in " + command.directory.string(), error_number);
  }
  const fs::path file = command.directory / program;
  if (error_number == ENOENT && fs::exists(file) && has_crlf(file)) {
    throw Error(Errc::InvalidInput, "cannot start " + program +
                                        ": its lines end in CR LF, as on Windows; `sed -i "
                                        "'s/\\r$//' " +
                                        program + "` fixes it");
  }
  if (error_number == ENOENT && fs::exists(file)) {
    throw Error(Errc::NotFound,
                "cannot start " + program +
                    ": the interpreter in its first line, or its loader, is missing");
  }
  if (error_number == ENOEXEC) {
    throw Error(Errc::InvalidInput, "cannot start " + program +
                                        ": it is neither a program for this machine nor a script "
                                        "that begins with #!");
  }
  if (error_number == EACCES && fs::is_directory(file)) {
    throw Error(Errc::InvalidInput, "cannot start " + program + ": it is a folder");
  }
  if (error_number == EACCES && ::access(file.c_str(), X_OK) != 0) {
    throw Error(Errc::InvalidInput, "cannot start " + program +
                                        ": it is not executable; `chmod +x " + program +
                                        "`, or start its interpreter: sh " + program);
  }
  throw_errno("cannot start " + program, error_number);
}

/// A file without a name on disk. Opening its path again gives a separate position.
class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("dlflow", MFD_CLOEXEC)) {
    if (!file_) throw_errno("cannot make a file in memory", errno);
  }
  int get() const { return file_.get(); }
  fs::path path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

 private:
  FileDescriptor file_;
};

ExitStatus decode(int status) {
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

/// The child of vfork() shares its parent's memory until exec(), so no handler of the parent may
/// run in it.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// vfork() and exec. The child writes the errno of a failure to `errors`.
pid_t spawn(const Command& command, const Prepared& prepared, int errors) {
  const SignalsBlocked blocked;
  const pid_t parent = ::getpid();
  const pid_t child =
      ::vfork();  // fork() would copy the page table: a tenth of a short step's time
  if (child == 0) {
    const int error_number = become(command, prepared, parent);
    [[maybe_unused]] const auto told = ::write(errors, &error_number, sizeof error_number);
    ::_exit(127);
  }
  if (child < 0) throw_errno("cannot start a process", errno);
  return child;
}

}  // namespace

pid_t start(const Command& command) {
  const Prepared prepared = prepare(command);
  // exec closes the pipe; if it fails, the pipe carries its errno.
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("cannot start a process", errno);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  const pid_t child = spawn(command, prepared, writer.get());
  writer.reset();
  int error_number = 0;
  ssize_t got = 0;
  do {
    got = ::read(reader.get(), &error_number, sizeof error_number);
  } while (got < 0 && errno == EINTR);
  if (got != ssize_t(sizeof error_number)) return child;
  wait_for(child);
  throw_start_error(command, prepared.program, error_number);
}

ExitStatus wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw_errno("cannot wait for process " + std::to_string(pid), errno);
  }
  return decode(status);
}

std::optional<ExitStatus> poll_exit(pid_t pid, struct rusage* used) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::wait4(pid, &status, WNOHANG, used);
  } while (ended < 0 && errno == EINTR);
  if (ended == 0) return std::nullopt;
  if (ended < 0) throw_errno("cannot wait for process " + std::to_string(pid), errno);
  return decode(status);
}

std::optional<ExitStatus> wait_for(pid_t pid, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + limit;
  const FileDescriptor process(int(::syscall(SYS_pidfd_open, pid, 0)));
  auto pause = std::chrono::milliseconds(1);  // without pidfd, before Linux 5.3
  while (true) {
    if (const auto status = poll_exit(pid)) return status;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return std::nullopt;
    pollfd waiting{process.get(), POLLIN, 0};
    const auto wait = process ? left : std::min(left, pause);
    ::poll(&waiting, process ? 1 : 0, int(std::min<int64_t>(wait.count(), 1 << 30)));
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
}

Output run(Command command, const OutputOptions& options) {
  // Files, not pipes, collect the output, so input and output cannot deadlock. They are in memory,
  // so a full disk does not matter.
  DLFLOW_CHECK(command.standard_output.empty() && command.standard_input.empty());
  const MemoryFile input;
  const MemoryFile output;
  const MemoryFile errors;
  if (!options.input.empty()) {
    write_all(input.get(), options.input, "a file in memory");
    command.standard_input = input.path();
  }
  command.standard_output = output.path();
  if (options.collect_errors) command.standard_error = errors.path();
  const bool limited = options.time_limit.count() > 0;
  if (limited) command.own_group = true;

  const pid_t pid = start(command);
  Output result;
  const auto status =
      limited ? wait_for(pid, options.time_limit) : std::optional<ExitStatus>(wait_for(pid));
  result.timed_out = !status;
  if (result.timed_out) ::kill(-pid, SIGKILL);
  result.status = status ? *status : wait_for(pid);
  result.text = read_file(output.path());
  if (options.collect_errors) result.errors = read_file(errors.path());
  return result;
}

Output run(Command command, const std::string& input) {
  return run(std::move(command), OutputOptions{.input = input});
}

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> current_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  return variables;
}

std::optional<fs::path> find_program(const std::string& name, const std::string& path) {
  for (const std::string& folder : split(path, ':')) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (::access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate)) return candidate;
  }
  return std::nullopt;
}

fs::path this_program() {
  std::error_code no_proc;
  fs::path file = fs::read_symlink("/proc/self/exe", no_proc);
  if (!no_proc) return file;
  const unsigned long name = ::getauxval(AT_EXECFN);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel passes the address of a text as a number
  return fs::weakly_canonical(reinterpret_cast<const char*>(name));
}

std::string boot_id() { return std::string(trim(read_file("/proc/sys/kernel/random/boot_id"))); }

std::optional<ProcessIdentity> identify(pid_t pid) {
  const auto stat = process_stat(pid);
  if (!stat || stat->has_ended()) return std::nullopt;
  ProcessIdentity identity;
  identity.pid = pid;
  identity.start_ticks = stat->start_ticks;
  identity.boot_id = boot_id();
  identity.host = host_name();
  return identity;
}

Liveness liveness(const ProcessIdentity& process) {
  if (process.host != host_name()) return Liveness::Unknown;
  const auto now = identify(process.pid);
  return now && *now == process ? Liveness::Alive : Liveness::Dead;
}

Json to_json(const ProcessIdentity& process) {
  return {{"pid", process.pid},
          {"start_ticks", process.start_ticks},
          {"boot_id", process.boot_id},
          {"host", process.host}};
}

ProcessIdentity process_identity_from_json(const Json& json) {
  try {
    return {json.at("pid").get<pid_t>(), json.at("start_ticks").get<uint64_t>(),
            json.at("boot_id").get<std::string>(), json.at("host").get<std::string>()};
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("not the identity of a process: ") + reason_of(error));
  }
}

std::string host_name() {
  utsname names{};
  ::uname(&names);
  return names.nodename;
}

bool group_exists(pid_t group) {
  if (::kill(-group, 0) != 0) return errno == EPERM;
  const auto all = all_processes();  // kill() finds zombies too
  return all.empty() || std::ranges::any_of(all, [&](const ProcessStat& process) {
           return process.group == group && !process.has_ended();
         });
}

}  // namespace dlflow
