// SPDX-License-Identifier: Apache-2.0
// A sum whose order is fixed.
#pragma once

#include <cstdint>

namespace char_gpt {

/// f(0) + ... + f(count - 1) in 16 running sums: an order that vector units can follow, and always the same.
template <class T, class F> T sum(std::int64_t count, F const& f) {
  constexpr int lanes = 16;
  T lane[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int j = 0; j < lanes; ++j) lane[j] += f(i + j);
  for (int j = 0; i < count; ++i, ++j) lane[j] += f(i);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
  return lane[0];
}

}  // namespace char_gpt
