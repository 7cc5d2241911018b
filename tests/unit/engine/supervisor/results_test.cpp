#include "engine/supervisor/results.h"

#include <unistd.h>

#include <fstream>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/content_hash.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// A succeeded attempt, about to be published.
struct Attempt {
  Attempt() {
    spec.run_directory = run.path();
    spec.job_directory = run.path() / "steps" / "step";
    files.attempt = attempt_directory(spec.job_directory, 1);
    make_directories(files.outputs());
  }

  void write(const std::string& output) const {
    run.write(std::filesystem::relative(files.outputs() / output, run.path()), "x");
  }

  /// Publishes it, and returns the order of its syncs and renames.
  std::optional<std::string> publish() const {
    return test::order_of_syncs(
        [this] { dlflow::publish(spec, files, collect_outputs(spec, files).publication); });
  }

  test::TempDir run;
  JobSpec spec;
  AttemptFiles files;
};

}  // namespace

TEST_CASE("outputs are on disk before they are published, and published before they are recorded",
          "[results]") {
  const Attempt attempt;
  attempt.write("model");
  attempt.write("logs/1");
  std::string expected;
  SECTION("a few, with two folders") { expected = "sync sync sync sync symlink sync"; }
  SECTION("many in one call") {
    for (int i = 0; i < 20; ++i) attempt.write(std::to_string(i));
    expected = "sync-all symlink sync";
  }
  const auto order = attempt.publish();
  if (!order) return test::skip("processes cannot be traced");
  CHECK(*order == expected);
}

TEST_CASE("a step without outputs does not wait for the disk", "[results]") {
  const auto order = Attempt().publish();
  if (!order) return test::skip("processes cannot be traced");
  CHECK(order->find("sync") == std::string::npos);
}

namespace {

/// Returns the outputs of the attempt's program, with `output` among the declared ones.
Outputs collect(Attempt& attempt, const std::string& output) {
  attempt.spec.outputs = {{"o", output}};
  return collect_outputs(attempt.spec, attempt.files);
}

}  // namespace

TEST_CASE("a published file is protected from accidental writes", "[results]") {
  Attempt attempt;
  attempt.write("table.csv");
  publish(attempt.spec, attempt.files, collect(attempt, "table.csv").publication);
  const auto file = attempt.spec.job_directory / "outputs/table.csv";
  const auto writable = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  CHECK((fs::status(file).permissions() & writable) == fs::perms::none);
  FreshFileHashes hashes;
  CHECK(find_change(attempt.spec.job_directory, hashes) == std::nullopt);
}

TEST_CASE("a published output is identified by its content, whatever its times", "[results]") {
  Attempt attempt;
  attempt.write("model");
  Outputs outputs = collect(attempt, "model");
  REQUIRE(outputs.publication.entries.size() == 2);
  CHECK(outputs.publication.entries[1].sha256 == sha256_hex("x"));
  publish(attempt.spec, attempt.files, std::move(outputs.publication));
  const fs::path file = attempt.files.outputs() / "model";
  const auto time = fs::last_write_time(file);
  FreshFileHashes hashes;
  SECTION("a change under the old time is noticed") {
    fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    std::ofstream(file) << "y";
    fs::last_write_time(file, time);
    CHECK(find_change(attempt.spec.job_directory, hashes) == "outputs/model was changed");
  }
  SECTION("a copy is the same") {
    fs::rename(file, attempt.run.path() / "aside");
    fs::copy_file(attempt.run.path() / "aside", file);
    CHECK(find_change(attempt.spec.job_directory, hashes) == std::nullopt);
  }
}

TEST_CASE("an untouched publication is not read again", "[results]") {
  class NoHashes : public FileHashes {
   public:
    std::string sha256(const fs::path& file) override {
      throw Error(Errc::Unavailable, file.string() + " was read");
    }
  };
  Attempt attempt;
  attempt.write("model");
  publish(attempt.spec, attempt.files, collect(attempt, "model").publication);
  NoHashes none;
  CHECK(find_change(attempt.spec.job_directory, none) == std::nullopt);
}

TEST_CASE("an external output is no longer a result once it has changed", "[results]") {
  Attempt attempt;
  const test::TempDir elsewhere;
  const auto data = elsewhere.write("data", "one");
  write_file_atomic(attempt.files.outputs_file(), Json({{"data", data.string()}}).dump());
  Outputs outputs = collect_outputs(attempt.spec, attempt.files);
  CHECK(outputs.values.at("data").at("value") == data.string());
  publish(attempt.spec, attempt.files, std::move(outputs.publication));
  FreshFileHashes hashes;
  CHECK(find_change(attempt.spec.job_directory, hashes) == std::nullopt);
  elsewhere.write("data", "other");
  CHECK(find_change(attempt.spec.job_directory, hashes) == data.string() + " was changed");
}

TEST_CASE("a change at a place that an output names changes the children's fingerprints",
          "[results]") {
  Attempt attempt;
  const test::TempDir elsewhere;
  const std::string data = elsewhere.write("data", "one").string();
  const size_t form = GENERATE(0, 1, 2, 3);
  const Json value = std::vector<Json>{data, "file://" + data, Json::array({"a", data}),
                                       Json{{"value", data}, {"sha256", "0"}}}
                         .at(form);
  const auto hash = [&] {
    write_file_atomic(attempt.files.outputs_file(), Json({{"data", value}}).dump());
    Outputs outputs = collect_outputs(attempt.spec, attempt.files);
    CHECK(outputs.publication.outside.size() == 1);
    return outputs.values.at("data").at("sha256");
  };
  const Json before = hash();
  CHECK(hash() == before);
  elsewhere.write("data", "other");
  CHECK(hash() != before);
}

TEST_CASE("a command's own hash does not count for a file that it left", "[results]") {
  Attempt attempt;
  attempt.write("o");
  const auto hash = [&](const Json& value) {
    const Json told = {{"o", {{"value", value}, {"sha256", "told"}}}};
    write_file_atomic(attempt.files.outputs_file(), told.dump());
    return collect_outputs(attempt.spec, attempt.files).values.at("o").at("sha256");
  };
  CHECK(hash("o") == sha256_hex("x"));
  CHECK(hash("s3://bucket/o") == "told");
  attempt.spec.uses = "checkpoint";
  CHECK(hash("o") == "told");
}

TEST_CASE("an output with an absolute path is published as its relative one", "[results]") {
  Attempt attempt;
  attempt.write("o");
  const Json told = {{"o", (attempt.files.outputs() / "o").string()}};
  write_file_atomic(attempt.files.outputs_file(), told.dump());
  const Outputs outputs = collect_outputs(attempt.spec, attempt.files);
  CHECK(outputs.values.at("o").at("value") == (attempt.spec.job_directory / "outputs/o").string());
  CHECK(outputs.publication.outside.empty());
}

TEST_CASE("a later attempt replaces what an earlier one published", "[results]") {
  Attempt attempt;
  attempt.write("first");
  publish(attempt.spec, attempt.files, collect(attempt, "first").publication);
  attempt.files.attempt = attempt_directory(attempt.spec.job_directory, 2);
  make_directories(attempt.files.outputs());
  attempt.write("second");
  publish(attempt.spec, attempt.files, collect(attempt, "second").publication);
  const fs::path published = attempt.spec.job_directory / "outputs";
  CHECK(fs::read_symlink(published) == "attempt-2/pass-1/outputs");
  CHECK(fs::exists(published / "second"));
  CHECK_FALSE(fs::exists(published / "first"));
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(attempt.spec.job_directory)) {
    entries += !entry.path().filename().string().empty();
  }
  CHECK(entries == 3);  // two attempts and the link
}

TEST_CASE("a half-done pass of the same number does not prevent publishing", "[results]") {
  Attempt attempt;
  attempt.write("first");
  publish(attempt.spec, attempt.files, collect(attempt, "first").publication);
  const fs::path& job = attempt.spec.job_directory;
  fs::create_symlink("nowhere", job / ("outputs.tmp." + std::to_string(::getpid())));
  attempt.files.attempt = attempt_directory(job, 2);
  make_directories(attempt.files.outputs());
  attempt.write("second");
  publish(attempt.spec, attempt.files, collect(attempt, "second").publication);
  CHECK(fs::read_symlink(job / "outputs") == "attempt-2/pass-1/outputs");
}

TEST_CASE("links in outputs are followed within the run and to parents, and refused elsewhere",
          "[results]") {
  Attempt attempt;
  const test::TempDir elsewhere;
  const auto data = elsewhere.write("parent/outputs/data/part", "one");
  const fs::path folder = attempt.files.outputs() / "folder";
  make_directories(folder);
  SECTION("a folder of a parent counts with its content") {
    attempt.spec.parents = {{"parent", Json::object(), elsewhere.path() / "parent"}};
    fs::create_directory_symlink(data.parent_path(), folder / "data");
    const Json before = collect(attempt, "folder").values;
    elsewhere.write("parent/outputs/data/part", "two");
    CHECK(collect(attempt, "folder").values != before);
  }
  SECTION("a link out of the run") {
    fs::create_directory_symlink(data.parent_path(), folder / "data");
    CHECK_THROWS_WITH(collect(attempt, "folder"), Catch::Contains("copy it instead"));
  }
  SECTION("a dangling link") {
    fs::create_symlink("nothing", folder / "link");
    CHECK_THROWS_WITH(collect(attempt, "folder"), Catch::Contains("not there"));
  }
  SECTION("two links to the same folder are not a ring") {
    attempt.write("other/file");
    fs::create_directory_symlink("../other", folder / "one");
    fs::create_directory_symlink("../other", folder / "two");
    CHECK_NOTHROW(collect(attempt, "folder"));
  }
  SECTION("a ring of links") {
    attempt.write("other/file");
    fs::create_directory_symlink("../other", folder / "there");
    fs::create_directory_symlink("../other", attempt.files.outputs() / "other/back");
    CHECK_THROWS_WITH(collect(attempt, "folder"), Catch::Contains("a folder that contains it"));
  }
  SECTION("a link within an output stays unchanged") {
    attempt.write("folder/step-1/model");
    fs::create_directory_symlink("step-1", folder / "latest");
    const Json before = collect(attempt, "folder").values;
    attempt.write("folder/step-2/model");
    const Json with_another = collect(attempt, "folder").values;
    fs::remove(folder / "latest");
    fs::create_directory_symlink("step-2", folder / "latest");
    CHECK(with_another != before);
    CHECK(collect(attempt, "folder").values != with_another);
  }
}

TEST_CASE("the target of a link is published with it, and its changes are noticed", "[results]") {
  Attempt attempt;
  const test::TempDir elsewhere;
  const fs::path part = elsewhere.write("parent/outputs/data/part", "one");
  attempt.spec.parents = {{"parent", Json::object(), elsewhere.path() / "parent"}};
  const bool is_folder = GENERATE(true, false);
  fs::create_symlink(is_folder ? part.parent_path() : part, attempt.files.outputs() / "link");
  const bool is_declared = GENERATE(true, false);  // undeclared links count as well
  if (!is_declared) attempt.write("other");
  publish(attempt.spec, attempt.files,
          collect(attempt, is_declared ? "link" : "other").publication);
  FreshFileHashes hashes;
  const auto change = [&] { return find_change(attempt.spec.job_directory, hashes); };
  CHECK(change() == std::nullopt);
  SECTION("it is written to") {
    std::ofstream(part) << "two";
    CHECK(change() == part.string() + " was changed");
  }
  SECTION("it is gone") {
    fs::remove_all(elsewhere.path() / "parent");
    CHECK(change() == (is_folder ? part.parent_path() : part).string() + " is gone");
  }
  SECTION("it has got another name, as a file shared by runs") {
    fs::create_hard_link(part, elsewhere.path() / "name");
    CHECK(change() == std::nullopt);
  }
}

TEST_CASE("chains of links are followed to their end, except rings", "[results]") {
  Attempt attempt;
  const test::TempDir elsewhere;
  const fs::path last = elsewhere.write("first/outputs/f", "one");
  make_directories(elsewhere.path() / "second/outputs");
  fs::create_symlink(last, elsewhere.path() / "second/outputs/f");
  fs::create_directory_symlink(elsewhere.path() / "second", elsewhere.path() / "second/outputs/up");
  attempt.spec.parents = {{"second", Json::object(), elsewhere.path() / "second"}};
  fs::create_directory_symlink(elsewhere.path() / "second/outputs",
                               attempt.files.outputs() / "link");
  attempt.write("other");
  publish(attempt.spec, attempt.files, collect(attempt, "other").publication);
  FreshFileHashes hashes;
  CHECK(find_change(attempt.spec.job_directory, hashes) == std::nullopt);
  std::ofstream(last) << "two";
  CHECK(find_change(attempt.spec.job_directory, hashes) == last.string() + " was changed");
}

TEST_CASE("an output that lists values of an axis holds values for one", "[results]") {
  Attempt attempt;
  attempt.spec.lists = {"o"};
  const auto collect_list = [&](const std::string& outputs) {
    attempt.run.write(fs::relative(attempt.files.outputs() / "outputs.json", attempt.run.path()),
                      outputs);
    return collect_outputs(attempt.spec, attempt.files).values.at("o").at("value");
  };
  CHECK(collect_list(R"({"o": [1, 2]})") == Json{1, 2});
  CHECK_THROWS_WITH(collect_list(R"({"o": []})"),
                    Catch::StartsWith("output 'o' is an empty list, which makes no element"));
  CHECK_THROWS_WITH(collect_list(R"({"o": [1, 1]})"), Catch::Contains("holds 1 twice"));
  CHECK_THROWS_WITH(collect_list(R"({"o": 7})"), Catch::Contains("write a list"));
}

TEST_CASE("an executable output differs from one that is not", "[results]") {
  Attempt attempt;
  attempt.write("tool");
  const Json before = collect(attempt, "tool").values;
  CHECK_FALSE(before.at("o").contains("executable"));
  fs::permissions(attempt.files.outputs() / "tool", fs::perms::owner_exec, fs::perm_options::add);
  Json expected = before;
  expected["o"]["executable"] = true;
  CHECK(collect(attempt, "tool").values == expected);
  attempt.write("folder/file");
  CHECK_FALSE(collect(attempt, "folder").values.at("o").contains("executable"));
}

TEST_CASE("a folder's hash covers names, content, empty folders and permissions to run",
          "[results]") {
  Attempt attempt;
  attempt.write("folder/a");
  const fs::path folder = attempt.files.outputs() / "folder";
  const std::string before = content_hash(folder);
  SECTION("a name") { fs::rename(folder / "a", folder / "b"); }
  SECTION("content") { std::ofstream(folder / "a") << "y"; }
  SECTION("an empty folder") { make_directories(folder / "empty"); }
  SECTION("the permission to run it") { fs::permissions(folder / "a", fs::perms::owner_all); }
  CHECK(content_hash(folder) != before);
}

TEST_CASE("a folder's hash is the same as in earlier versions of dlflow", "[results]") {
  Attempt attempt;
  attempt.write("folder/inner/a");
  attempt.write("folder/tool");
  const fs::path folder = attempt.files.outputs() / "folder";
  fs::permissions(folder / "tool", fs::perms::owner_all);
  const std::string zero(1, '\0');
  const std::string content = sha256_hex("x");
  CHECK(content_hash(folder) == sha256_hex("dinner" + zero + zero + "finner/a" + zero + content +
                                           zero + "xtool" + zero + content + zero));
}

TEST_CASE("an output that was left in the working directory is moved and published", "[results]") {
  Attempt attempt;
  attempt.run.write(fs::relative(attempt.files.work() / "plots/loss.png", attempt.run.path()),
                    "png");
  const Outputs outputs = collect(attempt, "plots/loss.png");
  CHECK(outputs.values.at("o").at("sha256") == sha256_hex("png"));
  CHECK(outputs.values.at("o").at("value") ==
        (attempt.spec.job_directory / "outputs/plots/loss.png").string());
  CHECK(fs::exists(attempt.files.outputs() / "plots/loss.png"));
  CHECK_FALSE(fs::exists(attempt.files.work() / "plots/loss.png"));
}

TEST_CASE("an output may be a pattern that one file or folder matches", "[results]") {
  Attempt attempt;
  attempt.write("logs/version_3/best.ckpt");
  attempt.write("logs/version_3/last.ckpt");
  const auto value = [&](const std::string& pattern) {
    const fs::path published =
        collect(attempt, pattern).values.at("o").at("value").get<std::string>();
    return published.lexically_relative(attempt.spec.job_directory / "outputs").string();
  };
  CHECK(value("logs/version_*/best.ckpt") == "logs/version_3/best.ckpt");
  CHECK(value("logs/*") == "logs/version_3");
  CHECK_THROWS_WITH(value("logs/*/*.ckpt"),
                    "output 'o' must be one file or folder, but logs/*/*.ckpt matches 2: "
                    "logs/version_3/best.ckpt, logs/version_3/last.ckpt; name one of them, or the "
                    "folder that they are in");
  CHECK_THROWS_WITH(value("*.ckpt"), Catch::Contains("it wrote logs/version_3/"));
}

TEST_CASE("a missing output is reported with the place of a file of its name", "[results]") {
  Attempt attempt;
  make_directories(attempt.files.work());
  attempt.run.write("steps/step/checkpoints/epoch-3/model.pt", "x");
  CHECK_THROWS_WITH(collect(attempt, "model.pt"),
                    "output 'o' is missing: model.pt was written neither below $DLFLOW_OUTPUTS nor "
                    "in the working directory; it wrote checkpoints/epoch-3/model.pt: write "
                    "`outputs: {o: checkpoints/epoch-3/model.pt}`");
  attempt.run.write(fs::relative(attempt.files.work() / "a/model.pt", attempt.run.path()), "x");
  CHECK_THROWS_WITH(collect(attempt, "model.pt"),
                    Catch::EndsWith("it wrote a/model.pt: write `outputs: {o: a/model.pt}`"));
}

TEST_CASE("a missing output is reported with the files that the program left", "[results]") {
  Attempt attempt;
  make_directories(attempt.files.work());
  CHECK_THROWS_WITH(collect(attempt, "model.pt"), Catch::EndsWith("nor in the working directory"));
  const fs::path work = fs::relative(attempt.files.work(), attempt.run.path());
  attempt.run.write(work / "model.pth", "x");
  fs::create_symlink("model.pth", attempt.files.work() / "a_link");
  make_directories(attempt.files.work() / "a_folder");
  CHECK_THROWS_WITH(collect(attempt, "model.pt"),
                    Catch::EndsWith("; it wrote model.pth: write `outputs: {o: model.pth}`"));
  for (const char* name : {"a", "b", "c\n"}) attempt.write(name);
  CHECK_THROWS_WITH(collect(attempt, "model.pt"),
                    Catch::EndsWith("; it wrote a, b, c\\n and 1 more: write `outputs: {o: a}`"));
}

TEST_CASE("an input in the working directory is not an output", "[results]") {
  Attempt attempt;
  make_directories(attempt.files.work());
  fs::create_symlink(attempt.run.write("sources/data.csv", "x"), attempt.files.work() / "data.csv");
  CHECK_THROWS_WITH(collect(attempt, "data.csv"), Catch::Contains("is missing"));
  CHECK(fs::is_symlink(attempt.files.work() / "data.csv"));
}

TEST_CASE("files behind a link in the working directory stay in place", "[results]") {
  Attempt attempt;
  const test::TempDir elsewhere;
  const fs::path best = elsewhere.write("best.pt", "theirs");
  make_directories(attempt.files.work() / "real");
  const fs::path shared = attempt.files.work() / "shared";
  fs::create_directory_symlink(elsewhere.path(), shared);
  fs::create_directory_symlink(elsewhere.path(), attempt.files.work() / "real/inner");
  const auto refuses = [&](const std::string& output, const std::string& link) {
    CAPTURE(output);
    CHECK_THROWS_WITH(collect(attempt, output),
                      "output 'o' is missing: " + output +
                          " was written neither below $DLFLOW_OUTPUTS nor in the working "
                          "directory: " +
                          link + " is a link to " + elsewhere.path().string() +
                          ", but outputs are not taken through links; copy it to "
                          "$DLFLOW_OUTPUTS");
    CHECK(read_file(best) == "theirs");
    CHECK(fs::is_symlink(shared));
  };
  refuses("shared/best.pt", "shared");
  refuses("shared/*.pt", "shared");
  refuses("shared", "shared");
  refuses("share?", "shared");
  refuses("real/inner/best.pt", "real/inner");
  SECTION("nothing is moved there") {
    fs::create_directory_symlink(elsewhere.path(), attempt.files.outputs() / "real");
    write_file(attempt.files.work() / "real/new.pt", "new");
    CHECK_THROWS_WITH(collect(attempt, "real/new.pt"), Catch::Contains("real is a link to"));
    CHECK_FALSE(fs::exists(elsewhere.path() / "new.pt"));
    CHECK(fs::exists(attempt.files.work() / "real/new.pt"));
  }
}

TEST_CASE("nothing is moved while another output is missing", "[results]") {
  Attempt attempt;
  make_directories(attempt.files.work());
  write_file(attempt.files.work() / "a.pt", "a");
  attempt.spec.outputs = {{"a", "a.pt"}, {"b", "report.html"}};
  CHECK_THROWS_WITH(collect_outputs(attempt.spec, attempt.files),
                    Catch::StartsWith("output 'b' is missing"));
  CHECK(fs::exists(attempt.files.work() / "a.pt"));
  CHECK_FALSE(fs::exists(attempt.files.outputs() / "a.pt"));
}

TEST_CASE("an output inside another one is published with it", "[results]") {
  Attempt attempt;
  const fs::path results = attempt.files.work() / "results";
  make_directories(results);
  write_file(results / "best.pt", "best");
  write_file(results / "log.txt", "log");
  const std::string folder = GENERATE(as<std::string>{}, "results", "results/", "res*");
  CAPTURE(folder);
  attempt.spec.outputs = {{"best", "results/best.pt"}, {"results", folder}};
  const Outputs outputs = collect_outputs(attempt.spec, attempt.files);
  publish(attempt.spec, attempt.files, outputs.publication);
  const fs::path published = attempt.spec.job_directory / "outputs/results";
  CHECK(outputs.values.at("best").at("value") == (published / "best.pt").string());
  CHECK(outputs.values.at("results").at("value") == published.string());
  CHECK(read_file(published / "best.pt") == "best");
  CHECK(read_file(published / "log.txt") == "log");
  CHECK_FALSE(fs::exists(results));
}

TEST_CASE("an output in the folder that `newer` names is a copy", "[results]") {
  Attempt attempt;
  attempt.spec.checkpoint.emplace().newer = "ckpt/*.pt";
  const fs::path saved = checkpoints_directory(attempt.spec) / "ckpt";
  make_directories(saved);
  make_directories(attempt.files.work());
  fs::create_directory_symlink(saved, attempt.files.work() / "ckpt");
  write_file(saved / "last.pt", "weights");
  const std::string output = GENERATE(as<std::string>{}, "ckpt/last.pt", "ckpt/*.pt", "ckpt");
  CAPTURE(output);
  SECTION("a copy of the files that were found") {
    const Outputs outputs = collect(attempt, output);
    publish(attempt.spec, attempt.files, outputs.publication);
    const fs::path copy = attempt.spec.job_directory / "outputs/ckpt/last.pt";
    CHECK(read_file(copy) == "weights");
    CHECK_FALSE(fs::equivalent(copy, saved / "last.pt"));
    write_file(saved / "last.pt", "more");  // a later attempt goes on from there
    CHECK(read_file(copy) == "weights");
  }
  SECTION("the original stays a checkpoint if the job fails") {
    attempt.spec.outputs = {{"a", output}, {"b", "report.html"}};
    CHECK_THROWS_WITH(collect_outputs(attempt.spec, attempt.files),
                      Catch::StartsWith("output 'b' is missing"));
    CHECK(read_file(saved / "last.pt") == "weights");
  }
  SECTION("no copy if a link there leads elsewhere") {
    const test::TempDir elsewhere;
    fs::remove(saved / "last.pt");
    fs::create_symlink(elsewhere.write("last.pt", "theirs"), saved / "last.pt");
    if (output != "ckpt") {
      CHECK_THROWS_WITH(collect(attempt, output), Catch::Contains("ckpt/last.pt is a link to"));
    } else {
      CHECK_THROWS_WITH(collect(attempt, output), Catch::Contains("copy it instead"));
    }
    CHECK(read_file(elsewhere.path() / "last.pt") == "theirs");
  }
}

TEST_CASE("a pattern finds a checkpoint in its folder", "[results]") {
  Attempt attempt;
  attempt.run.write("steps/step/checkpoints/epoch-3/model.pt", "x");
  CHECK(collect(attempt, "checkpoints/epoch-*/model.pt").values.at("o").at("value") ==
        (attempt.spec.job_directory / "checkpoints/epoch-3/model.pt").string());
}
