#include "engine/plan/ends_log.h"

#include <filesystem>
#include <string>

#include "base/process.h"
#include "engine/plan/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace fs = std::filesystem;

namespace {

JobEvent end_of(const JobName& job, int attempt, JobState state) {
  JobEvent end;
  end.job = job;
  end.attempt = attempt;
  end.state = state;
  end.at = from_rfc3339("2026-11-27T08:00:00.123Z");
  end.node = "n1";
  end.exit = state == JobState::Succeeded ? 0 : 3;
  end.published_nothing = state == JobState::Succeeded;
  return end;
}

bool has_job(const JobName& job) { return job != "unknown"; }

/// A run's folder after a power cut: only synced files are on disk.
struct AfterPowerCut {
  test::TempDir folder;
  fs::path run = folder.path() / "run";
  fs::path log = run / "ends" / (boot_id() + "-7.jsonl");

  void keep(const JobEvent& end) const {
    EndsLog ends(run, 7);
    ends.append(end);
    ends.sync();
  }

  /// Leaves the part of the job's first attempt that survived the power cut.
  void leave(const JobName& job, JobState state) const {
    const fs::path attempt = attempt_directory(job_directory(run, job), 1);
    make_directories(attempt);
    AppendFile(attempt / "events.jsonl").append(to_line(end_of("", 0, state)));
  }

  /// Boots again under another boot id, so that the log is of an earlier boot.
  void boot() {
    const fs::path of_earlier = run / "ends" / "an-earlier-boot-7.jsonl";
    fs::rename(log, of_earlier);
    log = of_earlier;
    restore_ends(run, has_job);
  }

  std::vector<JobState> states(const JobName& job, int attempt = 1) const {
    std::vector<JobState> all;
    for (const JobEvent& event : attempt_events(job_directory(run, job), job, attempt)) {
      all.push_back(*event.state);
    }
    return all;
  }
};

using enum JobState;
using States = std::vector<JobState>;

}  // namespace

TEST_CASE("an end that a power cut removed is restored", "[ends]") {
  AfterPowerCut place;
  place.keep(end_of("good", 1, Succeeded));
  place.keep(end_of("bad[n=1]", 1, Failed));
  place.keep(end_of("none", 1, Skipped));
  place.boot();
  CHECK(place.states("good") == States{Running, Succeeded});
  CHECK(place.states("bad[n=1]") == States{Running, Failed});
  CHECK(place.states("none") == States{Skipped});
  const auto result = published_result(job_directory(place.run, "good"));
  REQUIRE(result);
  CHECK(result->published_nothing);
  CHECK(fs::is_directory(job_directory(place.run, "good") / "outputs"));
  CHECK(fs::is_empty(job_directory(place.run, "good") / "outputs"));
  CHECK_FALSE(published_result(job_directory(place.run, "bad[n=1]")));
}

TEST_CASE("the later attempt of a job counts, although an earlier one left a result", "[ends]") {
  AfterPowerCut place;
  place.keep(end_of("a", 1, Succeeded));
  place.keep(end_of("a", 2, Succeeded));
  place.boot();
  CHECK(published_result(job_directory(place.run, "a"))->attempt == 2);
}

TEST_CASE("an attempt that still has its end is left unchanged", "[ends]") {
  AfterPowerCut place;
  place.keep(end_of("a", 1, Succeeded));
  place.leave("a", Succeeded);
  place.boot();
  CHECK(place.states("a") == States{Succeeded});
}

TEST_CASE("a beginning that is still on disk is not written again", "[ends]") {
  AfterPowerCut place;
  place.keep(end_of("a", 1, Succeeded));
  place.leave("a", Running);
  place.boot();
  CHECK(place.states("a") == States{Running, Succeeded});
}

TEST_CASE("a log of this boot restores nothing, since nothing was lost", "[ends]") {
  const AfterPowerCut place;
  place.keep(end_of("a", 1, Succeeded));
  restore_ends(place.run, has_job);
  CHECK(place.states("a").empty());
}

TEST_CASE("restored entries are not examined again, and later entries are", "[ends]") {
  AfterPowerCut place;
  place.keep(end_of("a", 1, Succeeded));
  place.boot();
  fs::remove_all(job_directory(place.run, "a"));  // as by its user
  AppendFile(place.log).append(to_line(end_of("b", 1, Succeeded)));
  restore_ends(place.run, has_job);
  CHECK(place.states("a").empty());
  CHECK(place.states("b") == States{Running, Succeeded});
}

TEST_CASE("a torn line and a torn mark do no harm", "[ends]") {
  AfterPowerCut place;
  place.keep(end_of("a", 1, Succeeded));
  AppendFile(place.log).append(R"({"at":"2026-11-)");
  place.keep(end_of("b", 1, Succeeded));
  write_file(place.run / "ends" / "an-earlier-boot-7.jsonl.restored", "1e");
  place.boot();
  CHECK(place.states("a") == States{Running, Succeeded});
  CHECK(place.states("b") == States{Running, Succeeded});
}

TEST_CASE("the log of another user's run cannot lead outside of it", "[ends][attack]") {
  AfterPowerCut place;
  const fs::path elsewhere = place.folder.path() / "elsewhere";
  make_directories(elsewhere);
  make_directories(place.run / "steps");
  fs::create_directory_symlink(elsewhere, place.run / "steps" / "link");
  for (const char* job : {"unknown", "../../elsewhere", "link", "a[../../../elsewhere]"}) {
    place.keep(end_of(job, 1, Succeeded));
  }
  place.boot();
  CHECK(fs::is_empty(elsewhere));
  CHECK_FALSE(fs::exists(place.run / "steps" / "unknown"));
}

TEST_CASE("an entry that is not the end of an attempt is skipped", "[ends]") {
  AfterPowerCut place;
  JobEvent note = end_of("note", 1, Succeeded);
  note.state.reset();
  place.keep(note);
  place.keep(end_of("begun", 1, Running));
  place.keep(end_of("none", 0, Succeeded));
  place.boot();
  CHECK_FALSE(fs::exists(place.run / "steps"));
}

TEST_CASE("a run without such logs has nothing to restore", "[ends]") {
  const test::TempDir folder;
  restore_ends(folder.path(), has_job);
  CHECK(fs::is_empty(folder.path()));
}
