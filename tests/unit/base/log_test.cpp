#include "base/log.h"

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

TEST_CASE("a kept log has messages from Info on, each with its time and level") {
  const test::TempDir folder;
  const fs::path file = folder.path() / "kept.log";
  keep_log(file);
  log(LogLevel::Debug, "a detail");
  CHECK(!logs(LogLevel::Debug));
  CHECK(!fs::exists(file));  // the file is made with the first message

  log(LogLevel::Info, "sbatch --parsable");
  log(LogLevel::Warning, "not shared");
  CHECK_THAT(
      read_file(file),
      Catch::Matches(
          R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] \[info\] sbatch --parsable\n\[.*\] \[warning\] not shared\n)"));
}

TEST_CASE("a kept log goes on in the file that was named last") {
  const test::TempDir folder;
  keep_log(folder.path() / "first.log");
  log(LogLevel::Info, "one");
  keep_log(folder.path() / "second.log");
  log(LogLevel::Info, "two");
  CHECK_THAT(read_file(folder.path() / "first.log"), !Catch::Contains("two"));
  CHECK_THAT(read_file(folder.path() / "second.log"), Catch::EndsWith("two\n"));
}

TEST_CASE("a kept log takes at most two MiB, and keeps the newest") {
  const test::TempDir folder;
  keep_log(folder.path() / "kept.log");
  for (int i = 0; i < 5000; ++i) log(LogLevel::Info, std::string(1000, 'x'));
  log(LogLevel::Info, "the last");
  CHECK_THAT(read_file(folder.path() / "kept.log"), Catch::EndsWith("the last\n"));
  uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) bytes += entry.file_size();
  CHECK(bytes > (1 << 20));
  CHECK(bytes <= (2 << 20));
}

TEST_CASE("a log that cannot be kept is not an error") {
  keep_log("/proc/no/such/folder/kept.log");
  CHECK_NOTHROW(log(LogLevel::Warning, "lost"));
}
