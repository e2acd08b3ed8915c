// SPDX-License-Identifier: Apache-2.0
// Order statistics without memory: the number of a given rank, exactly. Detail of outliers.hpp and residual.hpp.
// Source: textbook (most significant digit radix selection).
#ifndef LOFT_CORE_RADIX_SELECT_HPP
#define LOFT_CORE_RADIX_SELECT_HPP

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/core/config.hpp"

namespace loft::detail {

/// A word that orders like the number: -inf < ... < 0 < ... < inf. -0 counts as 0. in: no NaN.
LOFT_HOST_DEVICE constexpr std::uint32_t order_key(float x) noexcept {
  std::uint32_t const bits = magnitude_bits(x) == 0 ? 0u : bit_cast<std::uint32_t>(x);
  return (bits & float_sign) != 0 ? ~bits : bits | float_sign;
}
/// The number of an order_key.
LOFT_HOST_DEVICE constexpr float number_of_key(std::uint32_t key) noexcept {
  return bit_cast<float>((key & float_sign) != 0 ? key & ~float_sign : ~key);
}

/// keys[r] = the key of rank ranks[r], 0 the least; the ranks are used up. `visit(add)` calls add(key) for every key,
/// and for the same keys each time: once for each byte of a key, from the top. in: 0 <= rank < the number of keys.
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

#endif
