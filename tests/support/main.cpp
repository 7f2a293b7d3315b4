#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

// No test reads or writes the tuning file of whoever runs it.
int main(int argc, char** argv) {
  if (setenv("GRAPH_EXECUTOR_TUNING_CACHE", "off", 1) != 0) return 1;
  return doctest::Context(argc, argv).run();
}
