// SPDX-License-Identifier: Apache-2.0
// Test data: normal numbers from a seed.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

/// `count` numbers of N(0, 1), the same for the same seed.
inline std::vector<float> normal_values(std::size_t count, unsigned seed) {
  std::mt19937 generator{seed};
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (auto& value : values) value = normal(generator);
  return values;
}
