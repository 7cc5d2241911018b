#include <cstdlib>

#include "engine/backend/local_launcher.h"

/// `launcher_driver local-launcher FD`: the LocalBackend's launcher without the rest of dlflow.
int main(int argc, char** argv) {
  return argc == 3 ? dlflow::local_launcher_main(std::atoi(argv[2])) : 2;
}
