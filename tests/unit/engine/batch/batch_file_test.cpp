#include "engine/batch/batch_file.h"

#include <functional>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

JobSpec spec(const JobName& job) {
  JobSpec spec;
  spec.run = "demo-1";
  spec.job = job;
  spec.step = "train";
  spec.run_command = "echo \"[1,\"\nexit 3";
  spec.run_directory = "/runs/demo-1";
  spec.job_directory = "/runs/demo-1/steps/train";
  return spec;
}

/// The text of a file with these tasks.
std::string text_of(const std::vector<BatchTask>& tasks) {
  BatchLines lines;
  for (const BatchTask& task : tasks) lines.add(task);
  return lines.text();
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

TEST_CASE("a batch file gives back its tasks one by one", "[slurm]") {
  const test::TempDir run;
  const fs::path file = batch_file(run.path(), {9, 10});
  write_batch_file(file, text_of({{9, 12, 3, spec("train[n=12]")}, {10, 0, 1, spec("best")}}));

  const BatchTask task = attempts_of_task(file, 9, 12).front();
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

TEST_CASE("a shared task gives back the attempts of its elements in order", "[slurm]") {
  const test::TempDir run;
  const fs::path file = batch_file(run.path(), {1, 1});
  JobSpec second = spec("train[n=2]");
  second.parents = {{"data", Json::object(), "/a"}, {"more", Json::object(), "/b"}};
  write_batch_file(
      file,
      text_of({{1, 0, 1, spec("train[n=1]")}, {1, 0, 3, second}, {1, 1, 1, spec("train[n=3]")}}));
  const std::vector<BatchTask> first = attempts_of_task(file, 1, 0);
  REQUIRE(first.size() == 2);
  CHECK(first[0].spec.job == "train[n=1]");
  CHECK(first[1].attempt == 3);
  CHECK(first[1].spec.parents == second.parents);
  REQUIRE(attempts_of_task(file, 1, 1).size() == 1);
  CHECK(attempts_of_task(file, 1, 1).front().spec.job == "train[n=3]");
  CHECK(read_batch_entries(file).size() == 3);
}

TEST_CASE("each task of a large batch file is found, and no other", "[slurm]") {
  const test::TempDir run;
  const int size = GENERATE(1, 2, 3, 64, 1000);
  const fs::path file = batch_file(run.path(), {1, 3});
  BatchLines lines;
  for (uint32_t batch = 1; batch <= 3; ++batch) {
    for (uint32_t task = 0; task < uint32_t(size); ++task) {
      const JobName job(std::string(task % 7 * 100, 'x') + std::to_string(batch * 1000 + task));
      lines.add({batch, 2 * task, 1, spec(job)});
    }
  }
  write_batch_file(file, lines.text());
  for (uint32_t batch = 1; batch <= 3; ++batch) {
    for (uint32_t task = 0; task < uint32_t(size); ++task) {
      REQUIRE(attempts_of_task(file, batch, 2 * task)
                  .front()
                  .spec.job.text()
                  .ends_with(std::to_string(batch * 1000 + task)));
    }
    CHECK(code_of([&] { attempts_of_task(file, batch, 1); }) == Errc::NotFound);
  }
}

TEST_CASE("a missing task or batch is named", "[slurm]") {
  const test::TempDir run;
  const fs::path file = batch_file(run.path(), {1, 1});
  CHECK(code_of([&] { attempts_of_task(file, 1, 0); }) == Errc::NotFound);
  write_batch_file(file, text_of({{1, 10, 1, spec("train")}}));
  CHECK(code_of([&] { attempts_of_task(file, 1, 11); }) == Errc::NotFound);
  CHECK_THROWS_WITH(attempts_of_task(file, 1, 1), Catch::EndsWith("has no task 1 of batch 1"));
  CHECK_THROWS_WITH(attempts_of_task(file, 2, 10), Catch::EndsWith("has no task 10 of batch 2"));
}

TEST_CASE("common parents of tasks are in a batch file once", "[slurm]") {
  const test::TempDir run;
  const auto with_parents = [](const JobName& job, int first, int count) {
    JobSpec task = spec(job);
    for (int i = first; i < first + count; ++i) {
      const std::string folder = "/runs/demo-1/steps/p/" + std::to_string(i);
      task.parents.push_back({"p", Json{{"n", i}}, folder});
    }
    return task;
  };
  std::vector<BatchTask> tasks;
  for (uint32_t task = 0; task < 50; ++task) {
    tasks.push_back(
        {1, task, 1,
         with_parents(JobName("c" + std::to_string(task)), task % 2 == 0 ? 0 : 7, 100)});
  }
  tasks.push_back({2, 0, 1, with_parents("one", 3, 1)});
  tasks.push_back({3, 0, 1, spec("none")});
  const std::vector<std::vector<ParentRef>> alike = {{{"a", Json::object(), "/run/steps/a"}},
                                                     {{"a", {{"n", 1}}, "/run/steps/a"}},
                                                     {{"b", {{"n", 1}}, "/run/steps/a"}},
                                                     {{"b", {{"n", 1}}, "/other/steps/b"}}};
  for (uint32_t task = 0; task < 2 * alike.size(); ++task) {
    tasks.push_back({4, task, int(task) + 1, spec("alike")});
    tasks.back().spec.parents = alike[task % alike.size()];
    if (task >= alike.size()) tasks.back().spec.parents.push_back(alike[0][0]);
  }
  const std::string text = text_of(tasks);
  size_t mentions = 0;
  for (size_t at = 0; (at = text.find("steps/p/50\"", at)) != text.npos; ++at) ++mentions;
  CHECK(mentions == 2);
  const fs::path file = batch_file(run.path(), {1, 4});
  write_batch_file(file, text);
  for (const BatchTask& task : tasks) {
    const BatchTask read = attempts_of_task(file, task.batch, task.task).front();
    REQUIRE(read.attempt == task.attempt);
    REQUIRE(to_json(read.spec) == to_json(task.spec));
  }
  CHECK(read_batch_entries(file).size() == tasks.size());
}

TEST_CASE("a batch file of another owner is never replaced", "[slurm]") {
  const test::TempDir run;
  const fs::path file = batch_file(run.path(), {3, 5});
  write_batch_file(file, text_of({{3, 0, 1, spec("mine")}}));
  const BatchRange same_calls =
      GENERATE(BatchRange{3, 5}, BatchRange{3, 4}, BatchRange{5, 9}, BatchRange{4, 4});
  CHECK_THROWS_WITH(write_batch_file(batch_file(run.path(), same_calls), ""),
                    Catch::StartsWith("another dlflow process is submitting jobs of "));
  CHECK(attempts_of_task(file, 3, 0).front().spec.job == "mine");
  CHECK(batch_ranges(run.path()) == std::vector<BatchRange>{{3, 5}});
}

TEST_CASE("a damaged batch file is an error, whatever the damage", "[slurm]") {
  const test::TempDir run;
  const std::string damage = GENERATE(
      "[1,0,1", "[1,0,1,\"a\"]", "[1,0,\"x\",\"a\",{}]", "[1,0,1,7,{}]", "[1,0,1,\"a\",\"x\"]",
      "[1,0,1,\"a\",{}]", "{}", "[\"x\",0,1,\"a\",{}]", "[1,0,1,\"a\",{\"parents\":3}]");
  const fs::path file = run.write("batches/1-1.jsonl", damage + "\n");
  CHECK(code_of([&] { attempts_of_task(file, 1, 0); }) == Errc::Corrupt);
}

TEST_CASE("damaged entries of a batch file are an error", "[slurm]") {
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
