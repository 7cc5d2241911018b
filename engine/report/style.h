#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/job.h"
#include "engine/store/run_status.h"

/// How states look: a symbol, a word and, on a terminal, a colour. Each is sufficient alone.
namespace dlflow {

struct Style {
  bool color = false;
  bool utf8 = true;  ///< symbols and bars; else plain ASCII
  int width = 80;
};

enum class ColorChoice { Auto, Always, Never };

/// Detects the style for the stream `descriptor`: colour on a terminal unless NO_COLOR is set or
/// TERM is dumb; UTF-8 according to LC_ALL, LC_CTYPE or LANG (yes if none is set); its width, or
/// 80.
Style detect_style(int descriptor, ColorChoice choice = ColorChoice::Auto);

bool is_terminal(int descriptor);

/// Whether `descriptor` is a terminal whose cursor can move: TERM is not dumb.
bool can_redraw(int descriptor);

/// "✔", "✘", "▶", "·", …
std::string_view symbol(JobState state, const Style& style);

/// "✔ succeeded", coloured if the style says so.
std::string badge(JobState state, const Style& style);

/// `text` in the colour of a state.
std::string paint(JobState state, std::string_view text, const Style& style);
std::string paint(RunState state, std::string_view text, const Style& style);
std::string bold(std::string_view text, const Style& style);
std::string dim(std::string_view text, const Style& style);

/// Pads `text`, which may contain colours, with spaces to `width` columns.
std::string pad(std::string_view text, size_t width);

/// Breaks `text` into lines of at most `width` columns, at spaces and preferably after a comma, so
/// that a number keeps its unit.
std::vector<std::string> wrap(std::string_view text, size_t width);

/// Breaks the name of a job into lines of at most `width` columns, after a comma if possible. The
/// name stays complete, so that it can be typed back.
std::vector<std::string> wrap_name(std::string_view name, size_t width);

/// The first `width` columns of `text`, which may contain colours.
std::string clip(std::string_view text, size_t width);

/// A bar of `width` columns, filled to `fraction` (0..1).
std::string progress_bar(double fraction, int width, const Style& style);

/// `text`, or "-" if it is empty.
inline std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

/// `text` without trailing spaces, and a line end.
std::string trimmed_line(std::string_view text);

enum class Align { Left, Right };

/// Plain text in columns, two spaces apart, each as wide as its widest cell. All rows have as many
/// cells as `align`.
std::string columns(std::span<const std::vector<std::string>> rows, std::span<const Align> align);

/// The width of these rows.
size_t columns_width(std::span<const std::vector<std::string>> rows);

}  // namespace dlflow
