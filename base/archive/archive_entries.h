#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

/// The receiver of an archive's entries, in the order of the archive.
namespace dlflow {

class ArchiveEntries {
 public:
  virtual ~ArchiveEntries() = default;

  /// Begins a file called `name`; write() adds to its content until another function is called.
  virtual void begin_file(const std::string& name, mode_t mode) = 0;
  virtual void write(std::string_view bytes) = 0;

  virtual void add_symbolic_link(const std::string& name, const std::string& target) = 0;

  /// `target` is the name of an earlier file.
  virtual void add_hard_link(const std::string& name, const std::string& target) = 0;

  virtual void add_folder(const std::string& name, mode_t mode) = 0;

  /// A device or a pipe.
  virtual void add_special_file(const std::string& name) = 0;
};

}  // namespace dlflow
