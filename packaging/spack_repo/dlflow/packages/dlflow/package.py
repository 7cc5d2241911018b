"""dlflow from its sources, for Spack 1: `spack repo add packaging/spack_repo/dlflow`, `spack install dlflow`."""

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Dlflow(CMakePackage):
    """Workflow engine for deep-learning pipelines on HPC clusters."""

    homepage = ""  # these two and the checksum of the version are to be set when dlflow is published
    url = ""

    license("Apache-2.0")

    version("0.9.0")

    variant("train", default=True, description="Programs that train and evaluate networks")
    variant("cuda", default=False, description="Training on GPUs", when="+train")

    generator("ninja")
    build_targets = ["programs"]

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("python@3.8:", type=("build", "run"))
    depends_on("cli11", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("fmt@9:")
    depends_on("spdlog")
    depends_on("yaml-cpp")
    depends_on("sqlite")
    depends_on("openssl")
    depends_on("minizip")
    depends_on("zlib")
    depends_on("libpng+pic")
    depends_on("libjpeg-turbo")
    with when("+train"):
        depends_on("mpi")
        depends_on("onednn@2.6:")
    with when("+cuda"):
        depends_on("cuda")
        depends_on("cudnn")

    def cmake_args(self):
        return [self.define("DLFLOW_STATIC", False)]  # Spack provides shared libraries
