#include "engine/plan/published.h"

#include <sys/stat.h>

#include <fstream>

#include "base/file.h"
#include "engine/plan/job.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// A job that has published a file, a folder with a file, a link and an executable.
struct Published {
  Published() {
    make_directories(outputs() / "folder");
    folder.write("job/attempt-1/pass-1/outputs/folder/\xff, \n and %FF", "no UTF-8");
    fs::create_symlink("folder/\xff, \n and %FF", outputs() / "\xfe");
    folder.write("job/attempt-1/pass-1/outputs/table.csv", "1,2\n");
    folder.write("job/attempt-1/pass-1/outputs/folder/part", "half");
    folder.write_program("job/attempt-1/pass-1/outputs/tool", "#!/bin/sh\n");
    fs::create_symlink("table.csv", outputs() / "newest");
    fs::create_symlink("attempt-1/pass-1/outputs", job() / "outputs");
    Publication publication = {{"outputs"}, list_published(outputs(), "outputs"), {}};
    for (PublishedEntry& entry : publication.entries) {
      if (entry.name == "outputs/table.csv") entry.sha256 = hashes.sha256(job() / entry.name);
    }
    write_publication(outputs().parent_path(), publication);
  }

  fs::path job() const { return folder.path() / "job"; }
  fs::path outputs() const { return job() / "attempt-1/pass-1/outputs"; }
  std::optional<std::string> change() { return find_change(job(), hashes); }

  test::TempDir folder;
  FreshFileHashes hashes;
};

/// Writes into the file itself and restores its time of modification.
void write_with_old_time(const fs::path& file, const std::string& content) {
  const auto time = fs::last_write_time(file);
  std::ofstream(file) << content;
  fs::last_write_time(file, time);
}

}  // namespace

TEST_CASE("an untouched publication is unchanged", "[published]") {
  Published published;
  CHECK(published.change() == std::nullopt);
  SECTION("a hashed file was copied over itself") {
    const fs::path file = published.outputs() / "table.csv";
    fs::rename(file, published.folder.path() / "aside");
    fs::copy_file(published.folder.path() / "aside", file);
    CHECK(published.change() == std::nullopt);
  }
  SECTION("a file has got another name elsewhere") {
    fs::create_hard_link(published.outputs() / "folder/part", published.folder.path() / "other");
    CHECK(published.change() == std::nullopt);
  }
}

TEST_CASE("every change of a publication is found and named", "[published]") {
  Published published;
  const fs::path outputs = published.outputs();
  SECTION("half of a folder is gone") {
    fs::remove(outputs / "folder/part");
    CHECK(published.change() == "outputs/folder/part is gone");
  }
  SECTION("all of it is gone, except the folders") {
    fs::remove_all(outputs);
    make_directories(outputs);
    CHECK(published.change().has_value());
  }
  SECTION("the record is gone as well") {
    fs::remove_all(outputs.parent_path());
    make_directories(outputs);
    CHECK(published.change() == "the record of what was published is gone");
  }
  SECTION("nothing is left") {
    fs::remove_all(published.job());
    CHECK(published.change() == "outputs is gone");
  }
  SECTION("something was appended") {
    std::ofstream(outputs / "table.csv", std::ios::app) << "3,4\n";
    CHECK(published.change() == "outputs/table.csv was changed");
  }
  SECTION("a file has other content of the same size and time") {
    write_with_old_time(outputs / "table.csv", "1,3\n");
    CHECK(published.change() == "outputs/table.csv was changed");
  }
  SECTION("an unhashed file was written to") {
    std::ofstream(outputs / "folder/part") << "full";
    CHECK(published.change() == "outputs/folder/part was changed");
  }
  SECTION("an unhashed file was replaced by one of the same size and time") {
    const fs::path part = outputs / "folder/part";
    const auto other = published.folder.write("other", "full");
    fs::last_write_time(other, fs::last_write_time(part));
    fs::rename(other, part);
    CHECK(published.change() == "outputs/folder/part was changed");
  }
  SECTION("a file was added") {
    published.folder.write("job/attempt-1/pass-1/outputs/folder/more", "");
    CHECK(published.change() == "outputs/folder/more was added");
  }
  SECTION("an empty folder was added") {
    make_directories(outputs / "empty");
    CHECK(published.change() == "outputs/empty was added");
  }
  SECTION("a link leads elsewhere") {
    fs::remove(outputs / "newest");
    fs::create_symlink("tool", outputs / "newest");
    CHECK(published.change() == "outputs/newest was changed");
  }
  SECTION("a program lost its permission to run") {
    fs::permissions(outputs / "tool", fs::perms::owner_read);
    CHECK(published.change() == "outputs/tool was changed");
  }
  SECTION("a file became a folder") {
    fs::remove(outputs / "table.csv");
    make_directories(outputs / "table.csv");
    CHECK(published.change() == "outputs/table.csv was changed");
  }
  SECTION("the record was cut") {
    std::string record = read_file(outputs.parent_path() / "published.jsonl");
    record.erase(record.rfind("{"));
    write_file_atomic(outputs.parent_path() / "published.jsonl", record);
    CHECK(published.change() == "the record of what was published is gone");
  }
}

TEST_CASE("a link out of a publication may have a changed target", "[published]") {
  Published published;
  const fs::path elsewhere = published.folder.write("elsewhere", "x");
  fs::create_symlink(elsewhere, published.outputs() / "out");
  write_publication(published.outputs().parent_path(),
                    {{"outputs"}, list_published(published.outputs(), "outputs"), {}});
  CHECK(published.change() == "outputs/out is a link to something that is not on record");
}

TEST_CASE("only files, folders and links can be published", "[published]") {
  const test::TempDir folder;
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(list_published(folder.path(), "outputs"), Catch::Contains("pipe is neither"));
}

TEST_CASE("a job that published nothing has only its recorded end", "[published]") {
  const test::TempDir folder;
  const fs::path job = folder.path() / "job";
  const fs::path outputs = job / "attempt-1/pass-1/outputs";
  make_directories(outputs);
  fs::create_symlink("attempt-1/pass-1/outputs", job / "outputs");
  CHECK(is_empty({{"outputs"}, list_published(outputs, "outputs"), {}}));
  JobEvent end;
  end.state = JobState::Succeeded;
  FreshFileHashes hashes;
  SECTION("an end without that remark does not count") {
    AppendFile(job / "attempt-1/events.jsonl").append(to_line(end));
    CHECK(find_change(job, hashes) == "the record of what was published is gone");
  }
  SECTION("it counts while no file was added") {
    end.published_nothing = true;
    AppendFile(job / "attempt-1/events.jsonl").append(to_line(end));
    CHECK(find_change(job, hashes) == std::nullopt);
    folder.write("job/attempt-1/pass-1/outputs/late.csv", "1");
    CHECK(find_change(job, hashes) == "outputs/late.csv was added");
    fs::remove_all(outputs);
    CHECK(find_change(job, hashes) == "outputs is gone");
  }
}

TEST_CASE("a publication is empty only if it holds nothing", "[published]") {
  const test::TempDir folder;
  make_directories(folder.path() / "outputs");
  Publication publication = {{"outputs"}, list_published(folder.path() / "outputs", "outputs"), {}};
  REQUIRE(is_empty(publication));
  SECTION("an empty file counts") {
    folder.write("outputs/empty", "");
    publication.entries = list_published(folder.path() / "outputs", "outputs");
  }
  SECTION("an empty folder counts") {
    make_directories(folder.path() / "outputs/empty");
    publication.entries = list_published(folder.path() / "outputs", "outputs");
  }
  SECTION("an external output counts") { publication.outside["/data"] = "identity"; }
  SECTION("a checkpoint counts") { publication.trees.emplace_back("checkpoints/step-1"); }
  CHECK_FALSE(is_empty(publication));
}

TEST_CASE("a result exists while its outputs and its checkpoints do", "[published]") {
  Published published;
  const fs::path outputs = published.outputs();
  const fs::path checkpoints = published.job() / "checkpoints";
  for (const char* step : {"checkpoints/step-1", "checkpoints/step-2"}) {
    make_directories(published.job() / step);
  }
  Publication publication = {{"outputs", "checkpoints"}, list_published(outputs, "outputs"), {}};
  for (PublishedEntry& entry : list_published(checkpoints, "checkpoints")) {
    publication.entries.push_back(std::move(entry));
  }
  write_publication(outputs.parent_path(), publication);
  const auto end_with = [&](const char* checkpoint) {
    JobEvent end;
    end.state = JobState::Succeeded;
    end.outputs = {{"model", {{"value", (checkpoints / checkpoint).string()}}},
                   {"rate", {{"value", 0.1}}},
                   {"set", {{"value", "/data/that/is/elsewhere"}}}};
    published.folder.write("job/attempt-1/events.jsonl", to_line(end) + "\n");
  };
  end_with("step-2");
  CHECK(has_result(published.job()));
  SECTION("other checkpoints may be pruned") {
    fs::remove_all(checkpoints / "step-1");
    CHECK(has_result(published.job()));
  }
  SECTION("the named checkpoint may not be") {
    fs::remove_all(checkpoints / "step-2");
    CHECK_FALSE(has_result(published.job()));
  }
  SECTION("an edited file still exists") {
    std::ofstream(outputs / "table.csv") << "3";
    CHECK(has_result(published.job()));
  }
  SECTION("a file is gone") {
    fs::remove(outputs / "folder/part");
    CHECK_FALSE(has_result(published.job()));
  }
  SECTION("all of it is gone") {
    fs::remove_all(outputs);
    CHECK_FALSE(has_result(published.job()));
  }
  SECTION("the link to it is gone") {
    fs::remove(published.job() / "outputs");
    CHECK_FALSE(has_result(published.job()));
  }
}
