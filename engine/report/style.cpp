#include "engine/report/style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/text.h"

namespace dlflow {
namespace {

constexpr std::string_view kRed = "\033[31m";
constexpr std::string_view kGreen = "\033[32m";
constexpr std::string_view kYellow = "\033[33m";
constexpr std::string_view kCyan = "\033[36m";
constexpr std::string_view kBold = "\033[1m";
constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kReset = "\033[0m";

struct Look {
  std::string_view utf8;
  std::string_view ascii;
  std::string_view color;
};

Look look(JobState state) {
  switch (state) {
    case JobState::Succeeded:
      return {"✔", "+", kGreen};
    case JobState::Cached:
      return {"✔", "=", kGreen};
    case JobState::Running:
      return {"▶", ">", kCyan};
    case JobState::Failed:
    case JobState::TimedOut:
    case JobState::Lost:
      return {"✘", "x", kRed};
    case JobState::Cancelled:
    case JobState::Blocked:
      return {"■", "!", kYellow};
    case JobState::Planned:
    case JobState::Submitting:
    case JobState::Queued:
    case JobState::Skipped:
      break;
  }
  return {"·", ".", kDim};
}

std::string colored(std::string_view color, std::string_view text, const Style& style) {
  if (!style.color) return std::string(text);
  return std::string(color) + std::string(text) + std::string(kReset);
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return ::strcasestr(value, "utf-8") != nullptr || ::strcasestr(value, "utf8") != nullptr;
  }
  return true;
}

/// Columns of `text` without its colours.
size_t visible_width(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else {
      plain += text[i];
    }
  }
  return display_width(plain);
}

constexpr size_t kGap = 2;

std::vector<size_t> widths_of(std::span<const std::vector<std::string>> rows) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  return widths;
}

}  // namespace

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

bool can_redraw(int descriptor) {
  const char* term = std::getenv("TERM");
  return is_terminal(descriptor) && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

Style detect_style(int descriptor, ColorChoice choice) {
  Style style;
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  const bool able = can_redraw(descriptor) && term != nullptr;
  style.color = choice == ColorChoice::Always || (choice == ColorChoice::Auto && wanted && able);
  style.utf8 = locale_is_utf8();
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) style.width = size.ws_col;
  return style;
}

std::string_view symbol(JobState state, const Style& style) {
  const Look its = look(state);
  return style.utf8 ? its.utf8 : its.ascii;
}

std::string badge(JobState state, const Style& style) {
  return colored(look(state).color,
                 std::string(symbol(state, style)) + " " + std::string(name(state)), style);
}

std::string paint(JobState state, std::string_view text, const Style& style) {
  return colored(look(state).color, text, style);
}

std::string paint(RunState state, std::string_view text, const Style& style) {
  switch (state) {
    case RunState::Succeeded:
      return colored(kGreen, text, style);
    case RunState::Failed:
      return colored(kRed, text, style);
    case RunState::Cancelled:
    case RunState::Interrupted:
      return colored(kYellow, text, style);
    case RunState::Running:
      break;
  }
  return colored(kCyan, text, style);
}

std::string bold(std::string_view text, const Style& style) { return colored(kBold, text, style); }
std::string dim(std::string_view text, const Style& style) { return colored(kDim, text, style); }

std::string pad(std::string_view text, size_t width) {
  std::string padded(text);
  const size_t used = visible_width(text);
  if (used < width) padded.append(width - used, ' ');
  return padded;
}

std::vector<std::string> wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (display_width(text) > width) {
    size_t end = 0;  // bytes that fit
    size_t columns = 0;
    while (columns < width) {
      size_t next = end + 1;
      while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) ++next;
      columns += display_width(text.substr(end, next - end));
      if (columns <= width) end = next;
    }
    size_t space = text.substr(0, end + 1).rfind(' ');
    const size_t comma = text.substr(0, end + 1).rfind(", ");
    if (comma != std::string_view::npos && 3 * comma >= 2 * end) space = comma + 1;
    const bool at_space = space != std::string_view::npos && space > 0;
    lines.emplace_back(text.substr(0, at_space ? space : end));
    text.remove_prefix(at_space ? space + 1 : end);
  }
  lines.emplace_back(text);
  return lines;
}

std::vector<std::string> wrap_name(std::string_view name, size_t width) {
  std::vector<std::string> lines;
  while (name.size() > width && display_width(name) > width) {
    size_t end = std::max<size_t>(1, width);
    while (end > 1 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
    const size_t comma = name.substr(0, end).rfind(',');
    if (comma != std::string_view::npos && comma > 0) end = comma + 1;
    lines.emplace_back(name.substr(0, end));
    name.remove_prefix(end);
  }
  lines.emplace_back(name);
  return lines;
}

std::string clip(std::string_view text, size_t width) {
  if (visible_width(text) <= width) return std::string(text);
  std::string clipped;
  for (size_t i = 0; i < text.size();) {
    const bool escape = text[i] == '\033';
    size_t end = i + 1;
    if (escape) {
      end = std::min(text.find('m', i), text.size() - 1) + 1;
    } else {
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    }
    const std::string_view piece = text.substr(i, end - i);
    if (escape || visible_width(clipped) + display_width(piece) <= width) clipped += piece;
    i = end;
  }
  return clipped;
}

std::string progress_bar(double fraction, int width, const Style& style) {
  const double clamped = std::clamp(std::isfinite(fraction) ? fraction : 0.0, 0.0, 1.0);
  const int filled = int(std::lround(clamped * width));
  std::string done;
  std::string open;
  for (int i = 0; i < width; ++i) {
    if (i < filled) {
      done += style.utf8 ? "━" : "=";
    } else if (i == filled && i > 0) {
      open += style.utf8 ? "╺" : ">";
    } else {
      open += style.utf8 ? "━" : "-";
    }
  }
  return colored(kCyan, done, style) + colored(kDim, open, style);
}

std::string trimmed_line(std::string_view text) {
  return std::string(text.substr(0, text.find_last_not_of(' ') + 1)) + "\n";
}

size_t columns_width(std::span<const std::vector<std::string>> rows) {
  const std::vector<size_t> widths = widths_of(rows);
  if (widths.empty()) return 0;
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

std::string columns(std::span<const std::vector<std::string>> rows, std::span<const Align> align) {
  const std::vector<size_t> widths = widths_of(rows);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line.append(kGap, ' ');
      const std::string filling(widths[i] - display_width(row[i]), ' ');
      line += align[i] == Align::Left ? row[i] + filling : filling + row[i];
    }
    text += trimmed_line(line);
  }
  return text;
}

}  // namespace dlflow
