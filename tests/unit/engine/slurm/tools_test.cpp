#include "engine/slurm/tools.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/tool_scripts.h"

using namespace dlflow;
using test::text;
using namespace std::chrono_literals;

namespace {

const Time kSince = from_rfc3339("2026-11-21T08:00:00.000Z");

class Scripts : public test::ToolScripts {
 public:
  SlurmTools tools(std::chrono::milliseconds time_limit = 10s) {
    return SlurmTools(options(
        3,
        {"SLURM_CONF=/etc/alpha.conf", "USER=ann", "SLURM_JOB_ID=7", "SBATCH_PARTITION=wrong",
         "SQUEUE_FORMAT=%i", "SECRET=swordfish", "TZ=Europe/Prague"},
        time_limit));
  }
};

constexpr const char* kRunning = "echo '812|RUNNING|0:05|20:00|N/A|N/A|n1|(null)|None|N/A|a.1'\n";

}  // namespace

TEST_CASE("sbatch reads the script from its standard input", "[slurm]") {
  Scripts scripts;
  scripts.tool("sbatch", "echo welcome; cat > " + scripts.path("script") + "; echo '812;alpha'");
  CHECK(text(scripts.tools().submit("#!/bin/sh\necho hello\n")) == "accepted 812");
  CHECK(read_file(scripts.path("script")) == "#!/bin/sh\necho hello\n");
  CHECK(scripts.calls() == std::vector<std::string>{"sbatch --parsable"});
}

TEST_CASE("a job's environment is minimal", "[slurm]") {
  Scripts scripts;
  scripts.tool("sbatch", "env > " + scripts.path("environment") + "; echo 812");
  scripts.tools().submit("#!/bin/sh\n");
  const std::string environment = read_file(scripts.path("environment"));
  CHECK_THAT(environment, Catch::Contains("SLURM_CONF=/etc/alpha.conf"));
  for (const char* name : {"SLURM_JOB_ID", "SBATCH_PARTITION", "SECRET", "TZ="}) {
    CHECK_THAT(environment, !Catch::Contains(name));
  }
}

TEST_CASE("a refusal is reported in sbatch's words", "[slurm]") {
  Scripts scripts;
  const auto answer = [&scripts](const std::string& errors) {
    scripts.tool("sbatch", "cat >&2 <<'END'\n" + errors + "\nEND\nexit 1\n");
    return text(scripts.tools().submit("#!/bin/sh\n"));
  };
  CHECK(answer("Welcome!\nsbatch: error: invalid partition specified: wrong\n"
               "sbatch: error: Batch job submission failed: Invalid partition name specified") ==
        "refused: invalid partition specified: wrong; Invalid partition name specified");
  CHECK(answer("sbatch: error: QOSMaxSubmitJobPerUserLimit\n"
               "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy") ==
        "too many: QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy");
  CHECK(answer("no.") == "refused: no.");
  CHECK(answer("") == "refused: sbatch ended with exit status 1");
}

TEST_CASE("a lost answer is unclear, and nothing is submitted twice", "[slurm]") {
  Scripts scripts;
  const auto answer = [&scripts](const std::string& lines) {
    scripts.tool("sbatch", lines);
    return text(scripts.tools(300ms).submit("#!/bin/sh\n"));
  };
  CHECK(answer("sleep 60") == "unclear: sbatch did not answer within 300 ms");
  CHECK(answer("kill -9 $$") == "unclear: sbatch was killed by signal 9");
  CHECK(answer("echo done") == "unclear: sbatch printed no job id: done");
  CHECK(answer("echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv "
               "operation' >&2; exit 1") == "unclear: Socket timed out on send/recv operation");
  CHECK(answer("echo 812; exit 1") ==
        "unclear: sbatch ended with exit status 1, but printed job id 812");
  CHECK(scripts.calls().size() == 5);
  CHECK(scripts.pauses.empty());
}

TEST_CASE("one squeue lists all jobs", "[slurm]") {
  Scripts scripts;
  scripts.tool("squeue", kRunning);
  const auto jobs = scripts.tools().queue();
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].id == "812");
  CHECK(scripts.calls() == std::vector<std::string>{"squeue --me --noheader --array --states=all "
                                                    "--format=%i|%T|%M|%l|%S|%e|%N|%E|%r|%V|%j"});
}

TEST_CASE("times are read in UTC under any settings of the user", "[slurm]") {
  Scripts scripts;
  scripts.tool("squeue", "env > " + scripts.path("environment"));
  scripts.tools().queue();
  const std::string environment = "\n" + read_file(scripts.path("environment"));
  CHECK_THAT(environment, Catch::Contains("\nTZ=UTC\n"));
  CHECK_THAT(environment, !Catch::Contains("SQUEUE_FORMAT"));
}

TEST_CASE("a controller that is busy for a moment is asked again", "[slurm]") {
  Scripts scripts;
  scripts.tool("squeue", "if [ $(wc -l < " + scripts.path("calls") + ") -lt 3 ]; then\n" +
                             "echo 'slurm_load_jobs error: Unable to contact slurm controller "
                             "(connect failure)' >&2; exit 1; fi\n" +
                             kRunning);
  CHECK(scripts.tools().queue().size() == 1);
  CHECK(scripts.pauses == std::vector<std::chrono::milliseconds>{1s, 2s});
}

TEST_CASE("a controller that does not come back is a temporary error", "[slurm]") {
  Scripts scripts;
  scripts.tool("squeue", "sleep 60");
  CHECK(test::error_of([&] { scripts.tools(100ms).queue(); }, Errc::Unavailable) ==
        "squeue did not answer within 100 ms (tried 3 times)");
}

TEST_CASE("a failing squeue is not an empty queue", "[slurm]") {
  Scripts scripts;
  scripts.tool("squeue", "echo 'squeue: error: Invalid user' >&2; exit 1");
  CHECK_THROWS_WITH(scripts.tools().queue(),
                    Catch::Contains("squeue failed: Invalid user; run dlflow"));
}

TEST_CASE("a cluster that cannot be asked does not count as one without limits", "[slurm]") {
  Scripts scripts;
  scripts.tool("scontrol", "echo 'ClusterName = alpha'");
  scripts.tool("sinfo",
               "echo 'sinfo: fatal: Could not establish a configuration source' >&2; exit 1");
  CHECK_THROWS_WITH(
      scripts.tools().cluster(),
      Catch::Contains("sinfo failed: Could not establish a configuration source; run dlflow"));
}

TEST_CASE("a cluster is asked for its partitions and their nodes", "[slurm]") {
  Scripts scripts;
  scripts.tool("scontrol",
               "case \"$*\" in *partition*) echo 'PartitionName=batch Default=YES State=UP "
               "MaxTime=UNLIMITED TotalNodes=2' ;; *) echo 'ClusterName = alpha' ;; esac");
  scripts.tool("sinfo", "true");
  const ClusterLimits limits = scripts.tools().cluster();
  CHECK(limits.cluster == "alpha");
  REQUIRE(limits.partitions.size() == 1);
  CHECK(limits.partitions[0].name == "batch");
  CHECK(limits.partitions[0].nodes == 2);
}

TEST_CASE("srun's list of MPI types is read in every form", "[slurm]") {
  using Types = std::vector<std::string>;
  Scripts scripts;
  scripts.tool("srun", "printf 'MPI plugin types are...\\n\\tpmix\\n\\tnone\\n'");
  CHECK(scripts.tools().mpi_types() == Types{"pmix", "none"});
  scripts.tool("srun", "printf 'srun: MPI types are...\\nsrun: cray_shasta\\nsrun: pmi2\\n' >&2");
  CHECK(scripts.tools().mpi_types() == Types{"cray_shasta", "pmi2"});
}

TEST_CASE("the user who cancelled a job is named if known here, and asked for once", "[slurm]") {
  Scripts scripts;
  scripts.tool("sacct",
               "for job in '1|CANCELLED by 7' '2|CANCELLED by 7' '3|CANCELLED by 8' '4|FAILED'; do "
               "echo \"$job|0:0|00:01:10|00:20:00|None|None|n1|4|00:00:00||||Unknown|a.1\"; done");
  scripts.tool("id", "[ $3 = 7 ] && echo ann");
  const std::vector<std::string> ids = {"1", "2", "3", "4"};
  const Accounting answer = scripts.tools().accounting(ids, kSince);
  REQUIRE(answer.jobs.size() == 4);
  CHECK(answer.jobs[0].cancelled_by == "ann");
  CHECK(answer.jobs[1].cancelled_by == "ann");
  CHECK(answer.jobs[2].cancelled_by == "8");
  CHECK(answer.jobs[3].cancelled_by.empty());
  CHECK(scripts.calls().size() == 3);
}

TEST_CASE("a missing program is named", "[slurm]") {
  SlurmTools tools({.sleep = {}, .environment = {"PATH=/nowhere"}});
  CHECK_THROWS_WITH(tools.submit("#!/bin/sh\n"), "there is no program 'sbatch' in PATH");
}

TEST_CASE("one sacct lists all ended jobs, from before the first submission", "[slurm]") {
  Scripts scripts;
  scripts.tool("sacct",
               "echo '812|FAILED|3:0|00:01:10|00:20:00|None|None|n1|4|00:00:00||||Unknown|a.1'");
  const std::vector<std::string> ids = {"812", "813_4"};
  const Accounting answer = scripts.tools().accounting(ids, kSince);
  REQUIRE(answer.jobs.size() == 1);
  CHECK(answer.jobs[0].exit == 3);
  CHECK(answer.missing.empty());
  REQUIRE(scripts.calls().size() == 1);
  CHECK_THAT(scripts.calls()[0], Catch::StartsWith("sacct --jobs=812,813_4 --noheader --parsable2 "
                                                   "--starttime=2026-11-21T07:00:00 --format="));
}

TEST_CASE("a cluster without accounting still gives an answer", "[slurm]") {
  Scripts scripts;
  scripts.tool("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  const std::vector<std::string> ids = {"812"};
  CHECK(scripts.tools().accounting(ids, kSince).missing == "Slurm accounting storage is disabled");
  scripts.tool("sacct", "sleep 60");
  CHECK(scripts.tools(100ms).accounting(ids, kSince).missing ==
        "sacct did not answer within 100 ms");
  CHECK(scripts.calls().size() == 2);
}

TEST_CASE("a job is found by its name, in the queue or in accounting", "[slurm]") {
  Scripts scripts;
  scripts.tool("squeue", kRunning);
  scripts.tool(
      "sacct",
      "echo '700|FAILED|3:0|00:01:10|00:20:00|None|None|n1|4|00:00:00||||Unknown|b,x=1.1'\n"
      "echo '812|RUNNING|0:0|00:01:10|00:20:00|None|None|n1|4|00:00:00||||Unknown|a.1'\n");
  std::vector<std::string> names = {"a.1"};
  CHECK(scripts.tools().find_by_name(names, kSince).at(0).id == "812");
  CHECK(scripts.calls().size() == 1);
  names.emplace_back("b,x=1.1");
  const auto both = scripts.tools().find_by_name(names, kSince);
  REQUIRE(both.size() == 2);
  CHECK(both[0].id == "812");
  CHECK(both[1].id == "700");
}

namespace {

JobIdentity ours(const std::string& id) { return {id, "demo-1.", ".a.5c1e"}; }

JobAnswer wait_for(SlurmTools& tools, const std::string& id, const std::string& parent) {
  const Dependency dependency{Dependency::Kind::Success, parent};
  const JobIdentity job = ours(id);
  return tools.wait_for({&job, 1}, {&dependency, 1});
}

/// Returns a scontrol that shows `job`, as "JobId=813", and does `otherwise` for other requests.
std::string shows(const std::string& job, const std::string& otherwise = "") {
  return "if [ \"$2\" = show ]; then echo '" + job +
         " JobName=demo-1.2.a.5c1e JobState=PENDING Reason=None'; exit; fi\n" + otherwise;
}

}  // namespace

TEST_CASE("tasks of an array get new dependencies by one request", "[slurm]") {
  Scripts scripts;
  SlurmTools tools = scripts.tools();
  scripts.tool("scontrol", shows("JobId=813 ArrayJobId=813 ArrayTaskId=1-2,5"));
  const std::vector<JobIdentity> jobs = {ours("813_1"), ours("813_2"), ours("813_5")};
  const std::vector<Dependency> dependencies = {{Dependency::Kind::Success, "812"},
                                                {Dependency::Kind::SameTask, "811"}};
  CHECK(tools.wait_for(jobs, dependencies).kind == JobAnswer::Kind::Done);
  CHECK(scripts.calls() ==
        std::vector<std::string>{
            "scontrol --oneliner show job 813",
            "scontrol update jobid=813_[1,2,5] dependency=afterok:812,aftercorr:811"});
}

TEST_CASE("requests about jobs return their outcome", "[slurm]") {
  using Kind = JobAnswer::Kind;
  Scripts scripts;
  SlurmTools tools = scripts.tools();
  scripts.tool("scontrol", shows("JobId=815 ArrayJobId=813 ArrayTaskId=2"));
  CHECK(wait_for(tools, "813_2", "812").kind == Kind::Done);
  CHECK(tools.update("813", "MinMemoryNode", "4097").kind == Kind::Done);
  CHECK(scripts.calls() ==
        std::vector<std::string>{"scontrol --oneliner show job 813",
                                 "scontrol update jobid=813_2 dependency=afterok:812",
                                 "scontrol update jobid=813 MinMemoryNode=4097"});
  scripts.tool("scontrol", shows("JobId=813",
                                 "echo 'slurm_update error: Job has already finished' "
                                 ">&2; exit 1"));
  CHECK(wait_for(tools, "813", "812").kind == Kind::Gone);
  scripts.tool("scontrol", shows("JobId=813",
                                 "echo 'slurm_update error: Job dependency problem' "
                                 ">&2; exit 1"));
  const JobAnswer refused = wait_for(tools, "813", "813");
  CHECK(refused.kind == Kind::Refused);
  CHECK(refused.message == "Job dependency problem");
}

TEST_CASE("a controller without such a job is distinguished from one that does not answer",
          "[slurm]") {
  Scripts scripts;
  SlurmTools tools = scripts.tools();
  scripts.tool("scontrol", "echo 'JobId=812 JobName=a.1 JobState=RUNNING Reason=None'");
  const auto shown = tools.show_job("812");
  REQUIRE(shown);
  REQUIRE(shown->size() == 1);
  CHECK(shown->front().state == BatchState::Running);
  scripts.tool("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  const auto unknown = tools.show_job("812");
  REQUIRE(unknown);
  CHECK(unknown->empty());
  scripts.tool("scontrol", "exit 0");  // an answer with neither
  CHECK_FALSE(tools.show_job("812"));
}

TEST_CASE("cancelling an ended job does no harm", "[slurm]") {
  Scripts scripts;
  SlurmTools tools = scripts.tools();
  const std::vector<JobIdentity> jobs = {ours("812"), ours("813_4")};
  scripts.tool("squeue",
               "echo '812|RUNNING|0:05|20:00|N/A|N/A|n1|(null)|None|N/A|demo-1.1.a.5c1e'\n"
               "echo '813_4|PENDING|0:00|20:00|N/A|N/A||(null)|None|N/A|demo-1.2.a.5c1e'\n");
  scripts.tool("scontrol", shows("JobId=812"));
  scripts.tool("scancel", "");
  CHECK(tools.cancel(jobs).kind == JobAnswer::Kind::Done);
  CHECK(tools.ask_to_end(jobs.front()).kind == JobAnswer::Kind::Done);
  const std::vector<std::string> calls = scripts.calls();
  REQUIRE(calls.size() == 4);
  CHECK(calls[1] == "scancel 812 813_4");
  CHECK(calls[3] == "scancel --batch --signal=INT --state=RUNNING --jobname=demo-1.2.a.5c1e 812");
  scripts.tool("scancel",
               "echo 'scancel: error: Kill job error on job id 812: Invalid job id "
               "specified' >&2; exit 1");
  CHECK(tools.cancel(jobs).kind == JobAnswer::Kind::Gone);
  CHECK(tools.cancel({}).kind == JobAnswer::Kind::Done);
}

TEST_CASE("another user's job with the same number is not cancelled, asked to end or updated",
          "[slurm]") {
  Scripts scripts;
  SlurmTools tools = scripts.tools();
  const JobIdentity job = ours("812");
  scripts.tool("squeue", kRunning);
  scripts.tool("scontrol", "echo 'JobId=812 JobName=a.1 JobState=RUNNING Reason=None'");
  scripts.tool("scancel", "");
  CHECK(tools.cancel({&job, 1}).kind == JobAnswer::Kind::Done);
  CHECK(tools.ask_to_end(job).kind == JobAnswer::Kind::Gone);
  CHECK(wait_for(tools, "812", "811").kind == JobAnswer::Kind::Gone);
  for (const std::string& call : scripts.calls()) {
    INFO(call);
    CHECK((call.starts_with("squeue ") || call.starts_with("scontrol --oneliner show ")));
  }
  scripts.tool("scontrol", "exit 0");  // prints nothing about the job
  CHECK_THROWS_AS(tools.ask_to_end(job), Error);
}

TEST_CASE("a user's accounts are read from all associations, each once", "[slurm]") {
  Scripts scripts;
  scripts.tool("sacctmgr", "printf 'project_2\\n\\nproject_1 \\nproject_2\\n'");
  CHECK(scripts.tools().accounts() == std::vector<std::string>{"project_1", "project_2"});
  scripts.tool("sacctmgr", "exit 1");
  CHECK(scripts.tools().accounts().empty());
}

TEST_CASE("the limit on submitted jobs is the smallest of the associations' and their QOS",
          "[slurm]") {
  Scripts scripts;
  const auto limit = [&scripts](const std::string& associations, const std::string& qos) {
    scripts.tool("sacctmgr", "case \"$*\" in *assoc*) printf '" + associations +
                                 "';; *qos*) printf '" + qos + "';; esac\n");
    return scripts.tools().submit_limit();
  };
  CHECK(limit("|||normal\\n", "normal|500|\\nlong|3|\\n") == 500);
  CHECK(limit("100||normal|normal,long\\n", "normal|500|\\nlong|3|\\n") == 100);
  CHECK(limit("||normal|normal,long\\n", "normal||70\\nlong|3|\\n") == 70);
  CHECK(limit("|||normal,long\\n", "normal|500|\\nlong|3|\\n") == 0);  // the QOS in use is unknown
  CHECK(limit("|||\\n", "") == 0);
}
