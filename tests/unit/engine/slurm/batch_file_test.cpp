#include "engine/slurm/batch_file.h"

#include <functional>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

JobSpec spec(const std::string& job) {
  JobSpec spec;
  spec.run = "demo-1";
  spec.job = job;
  spec.step = "train";
  spec.run_command = "echo \"[1,\"\nexit 3";
  spec.run_directory = "/runs/demo-1";
  spec.job_directory = "/runs/demo-1/steps/train";
  return spec;
}

Errc code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("no Error was thrown");
  return {};
}

}  // namespace

TEST_CASE("a batch file gives back what was written, task by task", "[slurm]") {
  const test::TempDir run;
  const fs::path file = batch_file(run.path(), {9, 10});
  write_batch_file(
      file, batch_line({9, 12, 3, spec("train[n=12]")}) + batch_line({10, 0, 1, spec("best")}));

  const BatchTask task = read_batch_task(file, 9, 12);
  CHECK(task.batch == 9);
  CHECK(task.task == 12);
  CHECK(task.attempt == 3);
  CHECK(to_json(task.spec) == to_json(spec("train[n=12]")));
  const std::vector<BatchEntry> entries = read_batch_entries(file);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].attempt == 3);
  CHECK(entries[1].batch == 10);
  CHECK(entries[1].job == "best");
}

TEST_CASE("each task of a large batch file is found, and no other", "[slurm]") {
  const test::TempDir run;
  const int size = GENERATE(1, 2, 3, 64, 1000);
  const fs::path file = batch_file(run.path(), {1, 3});
  std::string lines;
  for (uint32_t batch = 1; batch <= 3; ++batch) {
    for (uint32_t task = 0; task < uint32_t(size); ++task) {
      const std::string job =
          std::string(task % 7 * 100, 'x') + std::to_string(batch * 1000 + task);
      lines += batch_line({batch, 2 * task, 1, spec(job)});
    }
  }
  write_batch_file(file, lines);
  for (uint32_t batch = 1; batch <= 3; ++batch) {
    for (uint32_t task = 0; task < uint32_t(size); ++task) {
      REQUIRE(read_batch_task(file, batch, 2 * task)
                  .spec.job.ends_with(std::to_string(batch * 1000 + task)));
    }
    CHECK(code_of([&] { read_batch_task(file, batch, 1); }) == Errc::NotFound);
  }
}

TEST_CASE("a task or a batch that is not there is named", "[slurm]") {
  const test::TempDir run;
  const fs::path file = batch_file(run.path(), {1, 1});
  CHECK(code_of([&] { read_batch_task(file, 1, 0); }) == Errc::NotFound);
  write_batch_file(file, batch_line({1, 10, 1, spec("train")}));
  CHECK(code_of([&] { read_batch_task(file, 1, 11); }) == Errc::NotFound);
  CHECK_THROWS_WITH(read_batch_task(file, 1, 1), Catch::Contains("has no task 1 of batch 1"));
}

TEST_CASE("a damaged batch file is an error, whatever the damage", "[slurm]") {
  const test::TempDir run;
  const std::string damage =
      GENERATE("[1,0,1", "[1,0,1,\"a\"]", "[1,0,\"x\",\"a\",{}]", "[1,0,1,7,{}]",
               "[1,0,1,\"a\",\"x\"]", "[1,0,1,\"a\",{}]", "{}", "[\"x\",0,1,\"a\",{}]");
  const fs::path file = run.write("batches/1-1.jsonl", damage + "\n");
  CHECK(code_of([&] { read_batch_task(file, 1, 0); }) == Errc::Corrupt);
}

TEST_CASE("entries of a damaged batch file are an error", "[slurm]") {
  const test::TempDir run;
  const std::string damage =
      GENERATE("[1,0,1", "{}", "[1,\"x\",1,\"a\",{}]", "[1,-1,1,\"a\",{}]", "[1,0,1,7,{}]");
  const fs::path file = run.write("batches/1-1.jsonl", damage + "\n");
  CHECK(code_of([&] { read_batch_entries(file); }) == Errc::Corrupt);
}

TEST_CASE("batch files are listed in the order they were made", "[slurm]") {
  const test::TempDir folder;
  const fs::path run = folder.path() / "demo-1";
  CHECK(batch_ranges(run).empty());
  for (const BatchRange range : {BatchRange{13, 13}, BatchRange{9, 12}, BatchRange{1, 8}}) {
    write_batch_file(batch_file(run, range), "");
  }
  folder.write("demo-1/batches/demo-1.1.a.5c1e.log", "");
  folder.write("demo-1/batches/1-8.jsonl.tmp.7.0", "");
  CHECK(batch_ranges(run) == std::vector<BatchRange>{{1, 8}, {9, 12}, {13, 13}});
}
