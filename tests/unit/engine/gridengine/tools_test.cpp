#include "engine/gridengine/tools.h"

#include "tests/support/catch.h"
#include "tests/support/tool_scripts.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

const Time kSince = from_rfc3339("2026-11-21T08:00:00.000Z");

using Lines = std::vector<std::string>;

class Scripts : public test::ToolScripts {
 public:
  Scripts() { folder_.write_program("id", "#!/bin/sh\necho ann\n"); }

  GridEngineTools tools() {
    return GridEngineTools(options(2, {"SGE_ROOT=" + folder_.path().string(), "SGE_CELL=cell",
                                       "JOB_ID=7", "SECRET=swordfish", "TZ=Europe/Prague"}));
  }
};

std::string entry(const std::string& number, const std::string& name) {
  return "=====\njobname " + name + "\njobnumber " + number + "\ntaskid undefined\nfailed 0\n" +
         "exit_status 0\n";
}

/// \param tasks  "1-4:1" of an array
std::string queued(const std::string& number, const std::string& name,
                   const std::string& tasks = "") {
  return "<job_list><JB_job_number>" + number + "</JB_job_number><JB_name>" + name +
         "</JB_name><state>qw</state>" + (tasks.empty() ? "" : "<tasks>" + tasks + "</tasks>") +
         "</job_list>";
}

std::vector<JobIdentity> ours(const Lines& ids) {
  std::vector<JobIdentity> jobs;
  for (const std::string& id : ids) jobs.push_back({id, "demo-1.", ""});
  return jobs;
}

std::string print(const std::string& text) { return "cat <<'END'\n" + text + "\nEND"; }

}  // namespace

TEST_CASE("qsub reads a script and passes a minimal environment", "[gridengine]") {
  Scripts scripts;
  scripts.tool("qsub", "env > " + scripts.path("environment") + "; cat > " +
                           scripts.path("script") + "; echo 812");
  Batch batch;
  batch.name = "a.1.b";
  batch.command = {"true"};
  batch.log = "log";
  const auto answer = scripts.tools().render(batch, Profile()).submit();
  CHECK(std::get<Accepted>(answer).id == "812");
  CHECK_THAT(read_file(scripts.path("script")), Catch::EndsWith("\nexec true\n"));
  const std::string environment = read_file(scripts.path("environment"));
  CHECK_THAT(environment, Catch::Contains("SGE_CELL=cell"));
  for (const char* name : {"JOB_ID", "SECRET", "TZ="}) {
    CHECK_THAT(environment, !Catch::Contains(name));
  }
}

TEST_CASE("one qstat lists all jobs of this user", "[gridengine]") {
  Scripts scripts;
  scripts.tool("qstat", print(queued("812", "a")));
  CHECK(scripts.tools().queue().at(0).id == "812");
  CHECK(scripts.calls() == Lines{"qstat -u ann -xml"});
}

TEST_CASE("qmaster is asked again before it counts as unreachable", "[gridengine]") {
  Scripts scripts;
  scripts.tool("qstat", "echo 'error: unable to send message to qmaster' >&2; exit 1");
  CHECK_THROWS_WITH(scripts.tools().queue(), "unable to send message to qmaster (tried 2 times)");
  CHECK(scripts.pauses.size() == 1);
}

TEST_CASE("jobs are found by name in the queue and in accounting", "[gridengine]") {
  Scripts scripts;
  scripts.tool("qstat", print(queued("812", "a")));
  scripts.tool("qacct", print(entry("811", "b") + entry("810", "c")));
  auto tools = scripts.tools();
  CHECK(tools.find_by_name(Lines{"a"}, kSince).size() == 1);
  CHECK(scripts.calls().size() == 1);
  const auto found = tools.find_by_name(Lines{"a", "b"}, kSince);
  REQUIRE(found.size() == 2);
  CHECK(found[1].id == "811");
  CHECK(scripts.calls().back() == "qacct -o ann -b 202611210700 -j");
}

TEST_CASE("missing accounting is not an error", "[gridengine]") {
  Scripts scripts;
  scripts.tool("qacct", "echo '/sge/accounting: No such file or directory' >&2; exit 1");
  const auto accounting = scripts.tools().accounting(Lines{"812"}, kSince);
  CHECK(accounting.jobs.empty());
  CHECK(accounting.complete);
  CHECK(accounting.missing == "/sge/accounting: No such file or directory");
}

TEST_CASE("a job that has just left the queue is looked for in accounting", "[gridengine]") {
  Scripts scripts;
  scripts.tool("qstat", "echo 'Following jobs do not exist: '; echo 812; exit 1");
  auto tools = scripts.tools();
  SECTION("it is found") {
    scripts.tool("qacct", "[ $(grep -c qacct " + scripts.path("calls") + ") -ge 3 ] || exit 0\n" +
                              print(entry("812", "a")));
    const auto jobs = tools.show_job("812");
    REQUIRE(jobs);
    CHECK(jobs->at(0).state == BatchState::Completed);
    CHECK(scripts.pauses.size() == 2);
  }
  SECTION("it is found although no job had ended before") {
    scripts.tool("qacct",
                 "[ $(grep -c qacct " + scripts.path("calls") +
                     ") -ge 2 ] || { echo 'a: No such file or directory' >&2; exit 1; }\n" +
                     print(entry("812", "a")));
    CHECK(tools.show_job("812")->size() == 1);
  }
  SECTION("it is gone, and the next one is not waited for again") {
    scripts.tool("qacct", "echo 'error: job id 812 not found' >&2; exit 1");
    CHECK(tools.show_job("812")->empty());
    const size_t waited = scripts.pauses.size();
    CHECK(waited == 4);
    CHECK(tools.show_job("813")->empty());
    CHECK(scripts.pauses.size() == waited);
  }
}

TEST_CASE("a job that qmaster does not deny stays unknown", "[gridengine]") {
  Scripts scripts;
  scripts.tool("qstat", "exit 1");
  CHECK_FALSE(scripts.tools().show_job("812"));
}

TEST_CASE("tasks are deleted by their numbers from 1 on, and other users' jobs never",
          "[gridengine]") {
  Scripts scripts;
  scripts.tool("qstat",
               print(queued("811", "demo-1.1.a.5c1e") + queued("812", "demo-1.2.b.5c1e", "1-4:1") +
                     queued("813", "precious")));
  scripts.tool("qdel", "exit 0");
  const auto jobs = ours({"811", "812_0", "812_3", "813"});
  CHECK(scripts.tools().cancel(jobs).kind == JobAnswer::Kind::Done);
  CHECK(scripts.calls().back() == "qdel 811 812.1 812.4");
}

TEST_CASE("a plain job's dependencies can be replaced, those of an array's task cannot",
          "[gridengine]") {
  Scripts scripts;
  scripts.tool("qstat",
               print(queued("811", "demo-1.1.a.5c1e") + queued("812", "demo-1.2.b.5c1e", "1-4:1") +
                     queued("813", "demo-1.3.c.5c1e") + queued("814", "precious")));
  scripts.tool("qalter", "exit 0");
  auto tools = scripts.tools();
  using Kind = Dependency::Kind;
  const std::vector<Dependency> parents = {{Kind::Success, "821"}, {Kind::SameTask, "822"}};
  CHECK(tools.wait_for(ours({"811", "813"}), parents).kind == JobAnswer::Kind::Done);
  CHECK(tools.wait_for(ours({"813"}), {}).kind == JobAnswer::Kind::Done);
  Lines changes = scripts.calls();
  std::erase_if(changes, [](const std::string& call) { return call.starts_with("qstat"); });
  CHECK(changes == Lines{"qalter -hold_jid 821,822 811", "qalter -hold_jid 821,822 813",
                         "qalter -hold_jid 0 813"});
  CHECK(tools.wait_for(ours({"812_3"}), parents).kind == JobAnswer::Kind::Refused);
  CHECK(tools.wait_for(ours({"814"}), parents).kind == JobAnswer::Kind::Gone);
}

TEST_CASE("the reason why a job waits is shown", "[gridengine]") {
  Scripts scripts;
  const auto words = [&scripts](const std::string& letters) {
    BatchJob job;
    job.id = "812_3";
    job.state = BatchState::Pending;
    job.reason = letters;
    return scripts.tools().pending_in_words(job, kSince);
  };
  CHECK(words("hqw").empty());
  CHECK(words("Rq") == "waits in the queue");
  CHECK(words("Eqw") ==
        "in an error state: `qstat -j 812` shows why, `qmod -cj 812` lets it try again");
}

TEST_CASE("a cluster has the name of its cell or its path", "[gridengine]") {
  Scripts scripts;
  CHECK(scripts.tools().cluster_name() == scripts.path("cell"));
  std::filesystem::create_directories(scripts.path("cell/common"));
  write_file_atomic(scripts.path("cell/common/cluster_name"), "alpha\n");
  CHECK(scripts.tools().cluster_name() == "alpha");
}

TEST_CASE("packing is refused because qdel ends a task as a whole", "[gridengine]") {
  CHECK_FALSE(Scripts().tools().can_pack());
}
