#include "engine/supervisor/telling_line.h"

#include "tests/support/answers.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using test::check_answers;

namespace {

const std::string kDashes(74, '-');

/// Output of Open MPI 4 after a rank has ended with a status.
const std::string kPageOfMpirun =
    kDashes +
    "\nPrimary job  terminated normally, but 1 process returned\n"
    "a non-zero exit code. Per user-direction, the job has been aborted.\n" +
    kDashes + "\n" + kDashes +
    "\nmpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n"
    "  Process name: [[25556,1],0]\n  Exit code:    1\n" +
    kDashes + "\n";

/// Output of srun.
const std::string kNotesOfSrun =
    "srun: error: alpha-n1: task 0: Exited with exit code 1\n"
    "srun: Terminating StepId=12.0\n"
    "slurmstepd: error: *** STEP 12.0 ON alpha-n1 CANCELLED AT 2026-11-25T02:46:18 ***\n"
    "srun: error: alpha-n2: task 1: Terminated\n"
    "srun: Force Terminated StepId=12.0\n";

/// Further output of SLURM 24.11 and Open MPI 5.
const std::string kNotesOfPmix =
    "[alpha-n1:00297] Delaying for 2 seconds before aborting\n"
    "slurmstepd-alpha-n2: error:  mpi/pmix_v5: _errhandler: alpha-n2 [1]: pmixp_client_v2.c:211: "
    "Error handler invoked: status = -61, source = [slurm.pmix.7.0:1]\n"
    "slurmstepd-alpha-n1: error: *** STEP 7.0 ON alpha-n1 CANCELLED AT 2026-11-29T23:00:46 ***\n";

std::string traceback(const std::string& last, const std::string& file = "train.py") {
  return "Traceback (most recent call last):\n"
         "  File \"/runs/w-1/steps/a/attempt-1/pass-1/work/" +
         file +
         "\", line 5, in <module>\n"
         "    load()\n"
         "    ~~~~^^\n"
         "  File \"/usr/lib/python3.11/json/__init__.py\", line 346, in loads\n"
         "    return _default_decoder.decode(s)\n" +
         last + "\n";
}

}  // namespace

TEST_CASE("the most telling line of standard error is reported", "[telling]") {
  check_answers(telling_line_of, {{"error: one\nerror: two\nmore\n", "error: two"},
                                  {"Error: of Java\nmore\n", "Error: of Java"},
                                  {"an error\nlast\n", "last"},
                                  {"said\n-----\n\n", "said"},
                                  {"10 %\r90 %\r\n", "90 %"},
                                  {"\033[31mred\033[0m\x07 end\x7F\n", "red end"},
                                  {"", ""},
                                  {std::string(400, 'x'), std::string(300, 'x') + "…"},
                                  {std::string(300, 'x'), std::string(300, 'x')},
                                  {std::string(299, 'x') + "ä…", std::string(299, 'x') + "…"}});
}

TEST_CASE("only the part of a file from this pass is read", "[telling]") {
  test::TempDir folder;
  const auto telling = [&](const std::string& text, uint64_t from = 0) {
    folder.write("stderr", text);
    return telling_line(folder.path() / "stderr", from);
  };
  CHECK(telling("error: before\nnow\n", 14) == "now");
  CHECK(telling("error: before\n", 14) == "");
  CHECK(telling("error: far\n" + std::string(300'000, '-') + "\n") == "");
  CHECK(telling_line(folder.path() / "none") == "");
}

TEST_CASE("a traceback is reported by its last line and the place in the user's file",
          "[telling]") {
  check_answers(
      telling_line_of,
      {{traceback("KeyError: 'lr'"), "KeyError: 'lr' (train.py:5)"},
       {traceback("KeyError: 'lr'", "src/train.py"), "KeyError: 'lr' (src/train.py:5)"},
       {"Traceback (most recent call last):\n"
        "  File \"/home/ada/tools/read.py\", line 12, in read\n"
        "KeyError: 'lr'\n",
        "KeyError: 'lr' (read.py:12)"},
       {traceback("RuntimeError: Error(s) in loading state_dict for Net:") +
            "\tMissing key(s) in state_dict: \"fc.weight\".\n",
        "RuntimeError: Error(s) in loading state_dict for Net: Missing key(s) in state_dict: "
        "\"fc.weight\". (train.py:5)"},
       {traceback("KeyError: 'lr'") +
            "\nDuring handling of the above exception, another exception occurred:\n\n" +
            traceback("ValueError: no lr"),
        "ValueError: no lr (train.py:5)"},
       {traceback("KeyError: 'lr'") + "bye\n", "KeyError: 'lr' (train.py:5)"},
       {traceback("KeyError: Caught KeyError in DataLoader worker process 0.") + "Original " +
            traceback("KeyError: 'lr'", "data.py") + "\n",
        "KeyError: 'lr' (data.py:5)"},
       {"Traceback (most recent call last):\n", "Traceback (most recent call last):"}});
}

TEST_CASE("a line that begins with error hides no exception that follows it", "[telling]") {
  const std::string exception = traceback("ValueError: shapes differ");
  const std::string told = "ValueError: shapes differ (train.py:5)";
  check_answers(telling_line_of, {{"error_rate 0.5 after epoch 1\n" + exception, told},
                                  {"error: of a try\n" + exception, told},
                                  {"error rate 0.5\n" + exception, told},
                                  {"error_rate 0.5\nno data\n", "no data"},
                                  {"error 0.5\nno data\n", "no data"},
                                  {exception + "  error: no data\nbye\n", "error: no data"},
                                  {"error reading x\nbye\n", "error reading x"}});
  const std::string lost = traceback("RuntimeError: Connection closed by peer");
  CHECK(telling_line_of("error: no data\n" + lost) == "error: no data");
  CHECK(telling_line_of("error: no data\nError: exit\n") == "error: no data");
}

TEST_CASE("a message of other ranks about a failed one is ignored if that one reports a reason",
          "[telling]") {
  const std::string exception = traceback("ValueError: shapes differ");
  for (const std::string text :
       {"rank 0 (node n1) died: killed, crashed, or its node went down (group arrays)",
        "call 6 is not the same on all ranks: rank 0 (node n1) barrier; rank 1 (node n2) end"}) {
    const std::string heard = "error: " + text + "\n" + traceback("dlflow.runtime.Error: " + text);
    CHECK(telling_line_of(exception + heard) == "ValueError: shapes differ (train.py:5)");
    CHECK(telling_line_of(heard + exception) == "ValueError: shapes differ (train.py:5)");
    CHECK(telling_line_of("error: " + text + "\n") == "error: " + text);
  }
}

TEST_CASE("the page of mpirun is not the reason of a failed program", "[telling]") {
  CHECK(telling_line_of(traceback("KeyError: 'lr'") + kPageOfMpirun) ==
        "KeyError: 'lr' (train.py:5)");
  CHECK(telling_line_of("no data in /x\n" + kPageOfMpirun) == "no data in /x");
  CHECK(telling_line_of(kPageOfMpirun) == "");
  CHECK(
      telling_line_of("[n1:4711] *** Process received signal ***\n"
                      "[n1:4711] Signal: Segmentation fault (11)\n"
                      "[n1:4711] [ 0] /lib/libc.so.6(+0x3c050) [0x7f]\n"
                      "[n1:4711] *** End of error message ***\n" +
                      kDashes +
                      "\nmpirun noticed that process rank 0 with PID 0 on node n1 exited on signal "
                      "11 (Segmentation fault).\n" +
                      kDashes + "\n") == "");
}

TEST_CASE("the notes of srun are not the reason of a failed program", "[telling]") {
  CHECK(telling_line_of(traceback("KeyError: 'lr'") + kNotesOfSrun) ==
        "KeyError: 'lr' (train.py:5)");
  CHECK(telling_line_of(kNotesOfSrun + "no data in /x\n") == "no data in /x");
  CHECK(telling_line_of("no data in /x\n" + kNotesOfPmix) == "no data in /x");
}

TEST_CASE("a launcher's own error is reported", "[telling]") {
  CHECK(telling_line_of("srun: error: Unable to create step for job 5: More processors requested "
                        "than permitted\n") ==
        "srun: error: Unable to create step for job 5: More processors requested than permitted");
  CHECK(telling_line_of(kDashes + "\nThere are not enough slots available in the system\n" +
                        kDashes + "\n") == "There are not enough slots available in the system");
  CHECK(telling_line_of("[n1:7] *** An error occurred in MPI_Send\n"
                        "[n1:7] *** MPI_ERR_RANK: invalid rank\n"
                        "[n1:7] *** MPI_ERRORS_ARE_FATAL (processes will now abort)\n") ==
        "MPI_ERR_RANK: invalid rank");
}

TEST_CASE("a program that could not be loaded is reported with the missing library", "[telling]") {
  const std::string line =
      "/runs/w-1/bin/dlflow-train: error while loading shared libraries: libmpi.so.40: cannot open "
      "shared object file: No such file or directory\n";
  const std::string told = "libmpi.so.40, which dlflow-train needs, is not found; load its module";
  CHECK(telling_line_of(line + line + kPageOfMpirun).starts_with(told));
  CHECK(telling_line_of(line + traceback("CalledProcessError: exit 127")).starts_with(told));
  CHECK(telling_line_of(line + "error: no tool works\n") == "error: no tool works");
}

TEST_CASE("torchrun's own traceback does not hide a rank's", "[telling]") {
  CHECK(
      telling_line_of(
          traceback("KeyError: 'lr'") +
          "E1125 02:46 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1)\n"
          "Traceback (most recent call last):\n"
          "  File \"/usr/bin/torchrun\", line 33, in <module>\n"
          "    sys.exit(main())\n"
          "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
          "============\ntrain.py FAILED\n------------\nFailures:\n============\n") ==
      "KeyError: 'lr' (train.py:5)");
}

TEST_CASE("the rank that failed first is reported, not those that lost it", "[telling]") {
  const std::string cause = traceback("ValueError: shapes differ");
  const std::string lost = traceback("RuntimeError: [1] Connection closed by peer [10.0.0.1]:1");
  CHECK(telling_line_of(cause + lost) == "ValueError: shapes differ (train.py:5)");
  CHECK(telling_line_of(lost + cause) == "ValueError: shapes differ (train.py:5)");
  CHECK(telling_line_of(lost) ==
        "RuntimeError: [1] Connection closed by peer [10.0.0.1]:1 (train.py:5)");
}

TEST_CASE("an exception of C++ is reported by its message", "[telling]") {
  CHECK(telling_line_of("terminate called after throwing an instance of 'std::out_of_range'\n"
                        "  what():  map::at\nAborted (core dumped)\n") == "map::at");
}

namespace {

/// Returns `text` as written by PyTorch's hook and torchrun's tee, with `prefix` before each line.
std::string with_prefix(const std::string& prefix, const std::string& text) {
  std::string prefixed;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    prefixed += prefix + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return prefixed;
}

}  // namespace

TEST_CASE("the number of the rank before each line hides no traceback", "[telling]") {
  const std::string told = "KeyError: 'lr' (train.py:5)";
  const std::string exception = with_prefix("[rank1]: ", traceback("KeyError: 'lr'"));
  CHECK(telling_line_of(exception + kPageOfMpirun) == told);
  CHECK(telling_line_of(with_prefix("[default1]:", exception)) == told);
  CHECK(telling_line_of(with_prefix("[default1]:", traceback("KeyError: 'lr'"))) == told);
  CHECK(telling_line_of(exception +
                        with_prefix("[rank0]: ", traceback("RuntimeError: [gloo] "
                                                           "Connection closed by peer"))) == told);
  CHECK(telling_line_of("[rank0]: no data\n") == "no data");
  CHECK(telling_line_of("[rank 0] no data\n[ranks]: 2\n") == "[ranks]: 2");
}

TEST_CASE("log lines of PyTorch are not the reason of a failed program", "[telling]") {
  const std::string logged =
      "[rank1]:I1127 07:50:45.691000 8053 torch/_subclasses/fake_tensor.py:3810]   cache_misses: "
      "0\n"
      "[rank0]:[W1127 07:40:39.828390266 reducer.cpp:1545] Warning: find_unused_parameters=True\n"
      "W1127 07:40:39.828000 1 torch/distributed/run.py:766] Setting OMP_NUM_THREADS\n"
      "V1127 07:40:39.828000 1 torch/x.py:766] seen\n";
  CHECK(telling_line_of("no data\n" + logged) == "no data");
  CHECK(telling_line_of(logged + "[rank0]:[E1127 07:40:39.8 x.cpp:1] broken\n") ==
        "[E1127 07:40:39.8 x.cpp:1] broken");
  CHECK(telling_line_of("Iris\n") == "Iris");
}

TEST_CASE("a line that ends within the prefix of a rank or of a log is reported unchanged",
          "[telling]") {
  for (const std::string line : {"[rank", "[rank1", "[rank1]:", "[default", "[default12", "W1127",
                                 "W1127 ", "W1127 07", "[I1127 0"}) {
    INFO(line);
    CHECK_NOTHROW(telling_line_of(line + "\n"));
  }
  CHECK(telling_line_of("[rank12\n") == "[rank12");
  CHECK(telling_line_of("W1127 07\n") == "W1127 07");
}
