#include "engine/supervisor/shell.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/parse_json.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "engine/container/runtime.h"
#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/supervisor/container.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/parents.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlock = 4096;  // no frame is larger: a FIFO accepts that at once
constexpr int kTick = 200;       // milliseconds between checks of the window and of the program

/// The content of a frame.
enum class Frame : char { Typed = 't', Window = 'w', End = 'e' };

struct FrameHead {
  Frame kind;
  uint16_t size;
};

std::string input_of(const fs::path& folder) { return folder / "input"; }
std::string output_of(const fs::path& folder) { return folder / "output"; }

/// The available bytes; empty at the end and if they cannot be read.
std::string_view read_some(int descriptor, std::span<char> buffer) {
  ssize_t got = 0;
  do got = ::read(descriptor, buffer.data(), buffer.size());
  while (got < 0 && errno == EINTR);
  return {buffer.data(), size_t(std::max<ssize_t>(got, 0))};
}

// ---- the user's side

/// Standard input without line editing, for the lifetime of the object.
class RawInput {
 public:
  RawInput() {
    ::tcgetattr(0, &before_);
    termios raw = before_;
    ::cfmakeraw(&raw);
    ::tcsetattr(0, TCSADRAIN, &raw);
  }
  RawInput(const RawInput&) = delete;
  RawInput& operator=(const RawInput&) = delete;
  ~RawInput() { ::tcsetattr(0, TCSADRAIN, &before_); }

 private:
  termios before_{};
};

volatile std::sig_atomic_t interrupted = 0;

class UserSide {
 public:
  UserSide(const fs::path& folder, bool is_terminal)
      : is_terminal_(is_terminal),
        input_(open_or_throw(input_of(folder), O_RDWR)),  // waits for the reader of a FIFO
        output_(open_or_throw(output_of(folder), O_RDONLY | O_NONBLOCK)) {}

  ExitStatus run(pid_t program) {
    // Waits until the shell runs and gets the input: an image may take long to arrive.
    ::signal(SIGINT, [](int) { interrupted = 1; });
    std::optional<ExitStatus> ended;
    while (!ended) {
      ended = poll_exit(program);
      pollfd sources[] = {{output_.get(), POLLIN, 0}, {input_ends_ ? -1 : 0, POLLIN, 0}};
      ::poll(sources, 2, ended ? 0 : kTick);
      while (print()) {
      }
      if (sources[1].revents != 0) pass_on();
      if (interrupted) ::kill(-program, SIGTERM);
      tell_window();
    }
    return *ended;
  }

 private:
  /// Whether there is output.
  bool print() {
    std::array<char, kBlock> buffer;
    const std::string_view came = read_some(output_.get(), buffer);
    if (came.empty()) return false;
    if (is_terminal_ && !raw_) raw_.emplace();  // the program runs
    write_all(1, came, "standard output");
    return true;
  }

  void pass_on() {
    std::array<char, kBlock - sizeof(FrameHead)> buffer;
    const std::string_view typed = read_some(0, buffer);
    input_ends_ = typed.empty();
    send(typed.empty() ? Frame::End : Frame::Typed, typed);
  }

  void tell_window() {
    winsize now{};
    if (!is_terminal_ || ::ioctl(0, TIOCGWINSZ, &now) != 0) return;
    if (std::memcmp(&now, &window_, sizeof now) == 0) return;
    window_ = now;
    send(Frame::Window, {reinterpret_cast<const char*>(&now), sizeof now});
  }

  void send(Frame kind, std::string_view content) {
    const FrameHead head = {kind, uint16_t(content.size())};
    std::string frame(reinterpret_cast<const char*>(&head), sizeof head);
    frame += content;
    write_all(input_.get(), frame, "the shell");
  }

  bool is_terminal_;
  FileDescriptor input_, output_;
  std::optional<RawInput> raw_;
  bool input_ends_ = false;
  winsize window_{};
};

// ---- the program's side

/// The ends of the shell's input and output: of one pseudoterminal, or of two pipes.
struct Ends {
  FileDescriptor ours_in, ours_out;  // we write to it; we read from it
  FileDescriptor theirs_in, theirs_out;
};

Ends open_pseudoterminal() {
  Ends ends;
  ends.ours_in.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  std::array<char, 64> name{};
  const int master = ends.ours_in.get();
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0 ||
      ::ptsname_r(master, name.data(), name.size()) != 0) {
    throw_errno("cannot open a terminal", errno);
  }
  ends.ours_out.reset(::dup(master));
  ends.theirs_in = open_or_throw(name.data(), O_RDWR | O_NOCTTY);
  ends.theirs_out.reset(::dup(ends.theirs_in.get()));
  return ends;
}

Ends open_pipes() {
  Ends ends;
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
    throw_errno("cannot open a pipe", errno);
  }
  ends.theirs_in.reset(in[0]);
  ends.ours_in.reset(in[1]);
  ends.ours_out.reset(out[0]);
  ends.theirs_out.reset(out[1]);
  return ends;
}

/// In the child: becomes the shell, as the leader of a session with that terminal.
[[noreturn]] void become_shell(const Ends& ends, bool on_terminal) {
  ::setsid();
  if (on_terminal) ::ioctl(ends.theirs_in.get(), TIOCSCTTY, 0);
  ::dup2(ends.theirs_in.get(), 0);
  ::dup2(ends.theirs_out.get(), 1);
  ::dup2(ends.theirs_out.get(), 2);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
  ::execlp("bash", "bash", static_cast<char*>(nullptr));
  ::execl("/bin/sh", "sh", static_cast<char*>(nullptr));
  std::fputs("error: there is no bash and no /bin/sh\n", stderr);
  ::_exit(127);
}

/// Forwards frames to the shell.
class FrameReader {
 public:
  FrameReader(FileDescriptor& shell, bool on_terminal) : shell_(shell), on_terminal_(on_terminal) {}

  void take(std::string_view bytes) {
    waiting_ += bytes;
    FrameHead head{};
    while (waiting_.size() >= sizeof head) {
      std::memcpy(&head, waiting_.data(), sizeof head);
      if (waiting_.size() < sizeof head + head.size) return;
      pass_on(head.kind, std::string_view(waiting_).substr(sizeof head, head.size));
      waiting_.erase(0, sizeof head + head.size);
    }
  }

 private:
  void pass_on(Frame kind, std::string_view content) {
    if (!shell_) return;
    switch (kind) {
      case Frame::Typed:
        write_all(shell_.get(), content, "the shell");
        return;
      case Frame::Window:
        if (on_terminal_) ::ioctl(shell_.get(), TIOCSWINSZ, content.data());
        return;
      case Frame::End:
        shell_.reset();
        return;
    }
  }

  FileDescriptor& shell_;
  bool on_terminal_;
  std::string waiting_;
};

/// Passes data on until the shell closes its output, or the user's side is gone.
void relay(Ends& ends, int input, int output, bool on_terminal) {
  FrameReader frames(ends.ours_in, on_terminal);
  std::array<char, kBlock> buffer;
  for (;;) {
    pollfd sources[] = {{input, POLLIN, 0}, {ends.ours_out.get(), POLLIN, 0}};
    ::poll(sources, 2, -1);
    if (sources[1].revents != 0) {
      const std::string_view printed = read_some(ends.ours_out.get(), buffer);
      if (printed.empty()) return;
      write_all(output, printed, "the terminal");
    }
    if (sources[0].revents != 0) {
      const std::string_view came = read_some(input, buffer);
      if (came.empty()) return;
      frames.take(came);
    }
  }
}

ResolvedJob resolve_or_throw(const JobSpec& spec) {
  try {
    return resolve(spec, read_parents(spec));
  } catch (const Skip& skip) {
    throw Error(Errc::InvalidInput, spec.job + " is skipped: " + skip.reason);
  } catch (const Block& block) {
    throw Error(Errc::InvalidInput, spec.job + " cannot run: " + block.reason);
  }
}

/// The FIFOs must be passed on to the image as all files of the run are.
void require_way_in(const ContainerSpec& container) {
  if (container_starts_ranks(container)) {
    throw Error(Errc::InvalidInput,
                "images of pyxis can be entered only by srun: srun --pty --container-image=… bash");
  }
  if (container.settings.runtime == "udocker" && udocker_runs_alone(container.settings.mode)) {
    throw Error(Errc::InvalidInput, "udocker's mode " + container.settings.mode +
                                        " gives programs a terminal of its own; for a shell set "
                                        "container.mode of the profile to P1");
  }
}

/// The job with the shell instead of its program and its launcher.
JobSpec with_shell(JobSpec spec, const fs::path& folder, bool is_terminal) {
  spec.uses.clear();
  spec.run_command = {frozen_program(spec.run_directory).string(), "terminal", folder.string(),
                      is_terminal ? "terminal" : "pipe"};
  spec.checkpoint.reset();
  spec.resources.ranks = 1;
  spec.launch = Launch::Ranks;
  spec.launcher.clear();
  return spec;
}

void make_fifos(const fs::path& folder) {
  for (const std::string& path : {input_of(folder), output_of(folder)}) {
    if (::mkfifo(path.c_str(), 0600) != 0) throw_errno("cannot make " + path, errno);
  }
}

/// "its command: python3 train.py --lr 0.1", to be typed in the shell.
void print_command(const JobSpec& spec) {
  const Json command = resolve_or_throw(spec).run_command;
  std::string text = command.is_string() ? command.get<std::string>() : "";
  if (command.is_array()) text = shell_line(arguments_of(command));
  if (!text.empty()) std::fprintf(stderr, "its command: %s\n", escaped_lines(text).c_str());
}

}  // namespace

int run_shell(const fs::path& attempt_directory, bool quiet) {
  const JobSpec own = job_spec_from_json(parse_json(read_file(attempt_directory / "job.json")));
  if (own.container) require_way_in(*own.container);
  if (!quiet) print_command(own);
  const TemporaryFolder room(own.job_directory / "shell");  // as an attempt to the program
  make_fifos(room.path());
  const bool is_terminal = ::isatty(0) == 1 && ::isatty(1) == 1;
  const JobSpec spec = with_shell(own, room.path(), is_terminal);
  ResolvedJob job = resolve_or_throw(spec);
  const AttemptFiles files{room.path()};
  prepare_files(spec, job, files);
  const Secrets secrets = read_secrets(secrets_file(spec.run_directory), spec.secrets);
  Command command = make_command(spec, job, files, {}, secrets);
  command.standard_output.clear();  // messages of a runtime, until the shell runs
  command.standard_error.clear();
  const pid_t program = start(command);
  return UserSide(room.path(), is_terminal).run(program).code;
}

int serve_terminal(const fs::path& folder, const std::string& kind) {
  const bool on_terminal = kind == "terminal";
  try {
    ::signal(SIGPIPE, SIG_IGN);
    const FileDescriptor input = open_or_throw(input_of(folder), O_RDONLY);
    const FileDescriptor output = open_or_throw(output_of(folder), O_WRONLY);
    Ends ends = on_terminal ? open_pseudoterminal() : open_pipes();
    const pid_t shell = ::fork();
    if (shell < 0) throw_errno("cannot start a shell", errno);
    if (shell == 0) become_shell(ends, on_terminal);
    ends.theirs_in.reset();
    ends.theirs_out.reset();
    try {
      relay(ends, input.get(), output.get(), on_terminal);
    } catch (const Error&) {  // the user's side is gone
    }
    ends = {};
    ::kill(-shell, SIGHUP);
    return wait_for(shell).code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace dlflow
