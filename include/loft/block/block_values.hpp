// SPDX-License-Identifier: Apache-2.0
// The values of blocks before they are encoded: as floats, without what is not finite, rotated; and their maxima.
// Source: design section 2 (data through one block) and decision 7.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/array/branchless.hpp"
#include "loft/block/operand_traits.hpp"
#include "loft/core/bits.hpp"
#include "loft/native/host/blocks.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/minifloat.hpp"
#include "loft/rotation/rotation.hpp"

namespace loft::detail {

/// A value as a block sees it: nonfinite::saturate takes an infinity for the largest finite float.
template <nonfinite N> LOFT_HOST_DEVICE constexpr float apply_nonfinite(float value) noexcept {
  if (N == nonfinite::saturate && magnitude_bits(value) == float_infinity)
    return bit_cast<float>(bit_cast<std::uint32_t>(value) - 1);
  return value;
}

/// Rotates `count` floats, whole runs one after the other. `to` may be `from`. A sum that overflows is an infinity like
/// one of the input.
template <class O>
LOFT_HOST_DEVICE constexpr void rotate_runs(O const& how, float const* from, int count, float* to) noexcept {
  apply_runs(how.rotation, from, count, to);
  if constexpr (O::policy == nonfinite::saturate)
    for (int i = 0; i < count; ++i) to[i] = apply_nonfinite<O::policy>(to[i]);
}

/// The largest magnitude of `count` values as float bits, which order like the values; a NaN is larger than infinity.
template <int N, class T> LOFT_HOST_DEVICE constexpr std::uint32_t amax_bits(T const* values, int count) noexcept {
  std::uint32_t result = 0;
  if (count == N && native::amax_groups<N>(values, 1, &result) == 1) return result;
  for_each_index<N>(count, [&](int i) { result = max(result, magnitude_bits(to_float(values[i]))); });
  return result;
}

/// amax[b] = the amax_bits of the values from b * N, for every N of `count` values; the last group may be short.
template <int N, class T>
LOFT_HOST_DEVICE constexpr void amax_of_groups(T const* values, int count, std::uint32_t* amax) noexcept {
  for (int b = native::amax_groups<N>(values, count / N, amax); b * N < count; ++b)
    amax[b] = amax_bits<N>(values + b * N, min(N, count - b * N));
}

/// The one of two numbers that has the larger magnitude, without its sign. NaN is above infinity.
LOFT_HOST_DEVICE constexpr float larger_magnitude(float a, float b) noexcept {
  return bit_cast<float>(max(magnitude_bits(a), magnitude_bits(b)));
}
template <class F> LOFT_HOST_DEVICE constexpr minifloat<F> larger_magnitude(minifloat<F> a, minifloat<F> b) noexcept {
  if constexpr (requires { requires F::spec.special == specials::ieee&& F::spec.is_signed; }) {
    constexpr std::uint32_t mask = F::spec.magnitude_mask();
    return minifloat<F>::from_bits(static_cast<code<F>>(max(a.bits() & mask, b.bits() & mask)));
  } else {
    return magnitude_bits(static_cast<float>(a)) < magnitude_bits(static_cast<float>(b)) ? b : a;
  }
}

}  // namespace loft::detail
