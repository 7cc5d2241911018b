#include "runtime/data/file_writer.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

FileWriter::FileWriter(std::filesystem::path path)
    : path_(std::move(path)),
      temporary_(path_.string() + ".tmp." + std::to_string(::getpid())),
      file_(open_or_throw(temporary_, O_WRONLY | O_CREAT | O_TRUNC, 0666)) {}

FileWriter::~FileWriter() {
  if (file_) ::unlink(temporary_.c_str());
}

void FileWriter::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kBufferBytes) flush();
}

void FileWriter::replace(uint64_t offset, std::string_view bytes) {
  flush();
  if (::pwrite(file_.get(), bytes.data(), bytes.size(), off_t(offset)) != ssize_t(bytes.size())) {
    throw_errno("cannot write " + path_.string(), errno);
  }
}

void FileWriter::publish() {
  flush();
  if (::fsync(file_.get()) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw_errno("cannot write " + path_.string(), errno);
  }
  file_.reset();
}

void FileWriter::flush() {
  write_all(file_.get(), buffer_, path_);
  buffer_.clear();
}

}  // namespace dlflow::runtime
