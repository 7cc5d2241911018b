#include "engine/report/redraw.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "engine/report/style.h"

namespace dlflow {

Redraw::Redraw(int descriptor) : descriptor_(descriptor), terminal_(is_terminal(descriptor)) {}

void Redraw::show(const std::string& text) {
  if (text == shown_) return;
  shown_ = text;
  if (!terminal_) return write(text);
  const auto width = size_t(detect_style(descriptor_).width);
  std::string frame = erase();
  lines_ = 0;
  for (const std::string& line : split(trim(text) == "" ? "" : text, '\n')) {
    frame += clip(line, width) + "\n";
    ++lines_;
  }
  if (text.ends_with('\n')) {  // split() saw an empty line behind it
    frame.pop_back();
    --lines_;
  }
  write(frame);
}

size_t Redraw::rows() const {
  winsize size{};
  const bool known = ::ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return known ? size.ws_row : 24;
}

std::string Redraw::erase() const {
  if (!terminal_ || lines_ == 0) return "";
  return "\033[" + std::to_string(lines_) + "A\r\033[J";
}

void Redraw::write(const std::string& bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (written <= 0) return;  // nobody reads any more
    done += size_t(written);
  }
}

}  // namespace dlflow
