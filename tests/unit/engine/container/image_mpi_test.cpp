#include "engine/container/image_mpi.h"

#include <filesystem>

#include "base/file.h"
#include "tests/support/answers.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using test::check_answers;

TEST_CASE("a launcher's version text names its MPI", "[container]") {
  check_answers(mpi_of_launcher, {{"mpirun (Open MPI) 4.1.4\n\nReport bugs to ...", "Open MPI 4"},
                                  {"mpirun (Open MPI) 5.0.3\n", "Open MPI 5"},
                                  {"HYDRA build details:\n    Version:   4.0.2\n", "MPICH"},
                                  {"Intel(R) MPI Library for Linux* OS, Version 2021.9", "MPICH"},
                                  {"slurm 22.05.8", ""},
                                  {"", ""}});
}

TEST_CASE("an image's MPIs are found by their libraries, in all usual places", "[container]") {
  const test::TempDir image;
  const auto [file, mpi] = GENERATE(
      table<std::string, std::string>({{"usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4", "Open MPI 4"},
                                       {"usr/lib64/openmpi/lib/libmpi.so.40.20.3", "Open MPI 4"},
                                       {"opt/conda/lib/libmpi.so.40.40.1", "Open MPI 5"},
                                       {"usr/local/lib/libmpi.so.40.10.0", "Open MPI 3"},
                                       {"home/me/mpi/lib/libmpi.so.12.1.8", "MPICH"},
                                       {"usr/lib/x86_64-linux-gnu/libmpich.so.12.2.1", "MPICH"}}));
  CAPTURE(file);
  image.write(file, "");
  image.write("usr/lib/libmpi.so.40", "");  // the name of a link is not specific enough
  image.write("usr/lib/libmpi_cxx.so.40.30.1", "");
  CHECK(mpis_of_image(image.path(), {{"PATH", "/bin:/home/me/mpi/bin"}}) == std::set{mpi});
}

TEST_CASE("a link in an image leads to the image's own files, not to the machine's",
          "[container]") {
  const test::TempDir host, image;
  host.write("libmpi.so.40.30.4", "");
  make_directories(image.path() / "usr/lib");
  std::filesystem::create_symlink(host.path(), image.path() / "usr/lib/mpi");
  CHECK(mpis_of_image(image.path(), {}).empty());
  image.write("real/libmpi.so.12.1", "");
  std::filesystem::create_symlink("/real", image.path() / "opt");
  CHECK(mpis_of_image(image.path(), {}) == std::set<MpiName>{"MPICH"});
}

TEST_CASE("an image's MPI is a problem only beside a launcher of another MPI", "[container]") {
  CHECK(mpi_mismatch("Open MPI 4", {"Open MPI 4", "MPICH"}, "box") == "");
  CHECK(mpi_mismatch("", {"MPICH"}, "box") == "");
  CHECK(mpi_mismatch("MPICH", {}, "box") == "");
  CHECK(mpi_mismatch("Open MPI 4", {"MPICH", "Open MPI 5"}, "box") ==
        "image 'box' has MPICH and Open MPI 5, but the launcher here is of Open MPI 4: a program "
        "that "
        "uses MPI would be rank 0 of 1 in each rank, or would not start; use an image with Open "
        "MPI 4, or install that with the image's `build:`");
}
