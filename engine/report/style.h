#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/job.h"
#include "engine/store/run_status.h"

/// How states look: a symbol, a word and, where there is a terminal, a colour. Each is enough
/// alone.
namespace dlflow {

struct Style {
  bool color = false;
  bool utf8 = true;  ///< symbols and bars; else plain ASCII
  int width = 80;
};

enum class ColorChoice { Auto, Always, Never };

/// For the stream `descriptor`: colour on a terminal unless NO_COLOR is set or TERM is dumb; UTF-8
/// as LC_ALL, LC_CTYPE or LANG say (none of them: UTF-8); its width, or 80.
Style detect_style(int descriptor, ColorChoice choice = ColorChoice::Auto);

bool is_terminal(int descriptor);

/// "✔", "✘", "▶", "·", …
std::string_view symbol(JobState state, const Style& style);

/// "✔ succeeded", coloured if the style says so.
std::string badge(JobState state, const Style& style);

/// `text` in the colour of a state.
std::string paint(JobState state, std::string_view text, const Style& style);
std::string paint(RunState state, std::string_view text, const Style& style);
std::string bold(std::string_view text, const Style& style);
std::string dim(std::string_view text, const Style& style);

/// `text`, which may hold colours, filled with spaces to `width` columns.
std::string pad(std::string_view text, size_t width);

/// `text` in lines of at most `width` columns, broken at spaces where there are any, behind a comma
/// if one is near: so that a number keeps its unit.
std::vector<std::string> wrap(std::string_view text, size_t width);

/// The name of a job in lines of at most `width` columns, broken behind a comma where there is one:
/// whole, so that it can be typed back.
std::vector<std::string> wrap_name(std::string_view name, size_t width);

/// The first `width` columns of `text`, which may hold colours.
std::string clip(std::string_view text, size_t width);

/// A bar of `width` columns, `fraction` (0..1) of it filled.
std::string progress_bar(double fraction, int width, const Style& style);

/// `text` without spaces at its end, and a line end.
std::string trimmed_line(std::string_view text);

enum class Align { Left, Right };

/// Rows of plain text in columns, two spaces apart and each as wide as its widest cell. All rows
/// have as many cells as `align`.
std::string columns(std::span<const std::vector<std::string>> rows, std::span<const Align> align);

/// How wide these rows would be.
size_t columns_width(std::span<const std::vector<std::string>> rows);

}  // namespace dlflow
