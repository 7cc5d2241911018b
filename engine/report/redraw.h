#pragma once

#include <string>
#include <vector>

namespace dlflow {

/// Text that replaces itself: on a terminal it is drawn over what was shown before, elsewhere it is
/// printed again when it changed. What was shown last stays on the screen.
class Redraw {
 public:
  explicit Redraw(int descriptor);

  void show(const std::string& text);

  /// Rows and columns to draw in.
  size_t rows() const;

 private:
  void write(const std::string& bytes) const;
  std::string erase() const;

  int descriptor_;
  bool terminal_;
  std::string shown_;
  size_t lines_ = 0;
};

}  // namespace dlflow
