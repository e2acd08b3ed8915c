// SPDX-License-Identifier: Apache-2.0
// Finds the numbers of given ranks, exactly and without memory for a copy.
// Source: textbook (radix selection by the most significant digit).
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"

namespace loft::detail {

/// An unsigned word that grows with the number; -0 has the word of 0. in: no NaN.
LOFT_HOST_DEVICE constexpr std::uint32_t order_key(float x) noexcept {
  std::uint32_t const bits = magnitude_bits(x) == 0 ? 0u : bit_cast<std::uint32_t>(x);
  return (bits & float_sign) != 0 ? ~bits : bits | float_sign;
}
/// The number whose order_key is `key`.
LOFT_HOST_DEVICE constexpr float number_of_key(std::uint32_t key) noexcept {
  return bit_cast<float>((key & float_sign) != 0 ? key & ~float_sign : ~key);
}

/// Sets keys[r] to the key of rank ranks[r], where the least key has rank 0, and overwrites the ranks.
/// `visit(add)` calls add(key) for every key; it is called once for each byte of a key, and gives the same keys each
/// time. in: 0 <= rank < the number of keys.
template <class W, int N, class Visit>
LOFT_HOST_DEVICE constexpr void radix_select(std::int64_t (&ranks)[N], W (&keys)[N], Visit&& visit) noexcept {
  for (W& key : keys) key = 0;
  W known = 0;
  for (int shift = word_bits<W> - 8; shift >= 0; shift -= 8) {
    std::int64_t counts[N][256] = {};
    visit([&](W key) {
      for (int r = 0; r < N; ++r)
        if ((key & known) == keys[r]) ++counts[r][key >> shift & 255u];
    });
    for (int r = 0; r < N; ++r) {
      int digit = 0;
      for (; digit < 255 && ranks[r] >= counts[r][digit]; ++digit) ranks[r] -= counts[r][digit];
      keys[r] |= static_cast<W>(static_cast<W>(digit) << shift);
    }
    known |= static_cast<W>(W{255} << shift);
  }
}

}  // namespace loft::detail
