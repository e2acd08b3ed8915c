// SPDX-License-Identifier: Apache-2.0
// A small program for every compiler and flag set: the frozen norms and decisions. It fails with a status other than 0.
#include <cstdio>

#include "stability/gnmr_frozen.hpp"

int main() {
  auto const norms = static_cast<unsigned long long>(test::hash_of_norms());
  auto const steps = static_cast<unsigned long long>(test::hash_of_steps());
  std::printf("norms 0x%016llx, steps 0x%016llx\n", norms, steps);
  bool const same = norms == test::frozen_norms && steps == test::frozen_steps;
  if (!same) std::printf("they differ from the frozen ones\n");
  return same ? 0 : 1;
}
