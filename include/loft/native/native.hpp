// SPDX-License-Identifier: Apache-2.0
// What a machine or a compiler does natively, one function each; the generic code above serves where nothing is here.
#ifndef LOFT_NATIVE_NATIVE_HPP
#define LOFT_NATIVE_NATIVE_HPP

#include <cstdint>

#include "loft/bits.hpp"
#include "loft/config.hpp"

namespace loft::native {

/// `x` as a value the optimiser knows nothing about: no -Ofast regroups what stands on its two sides, and no
/// -ffp-contract fuses them. T: float or double.
template <class T>
LOFT_HOST_DEVICE constexpr T opaque(T x) noexcept {
#if !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__) && (defined(__GNUC__) || defined(__clang__))
  if (!constant_evaluated()) {
#if defined(__SSE__)
    asm("" : "+x"(x));
#else
    auto word = bit_cast<typename detail::ieee<T>::word>(x);
    asm("" : "+r"(word));
    return bit_cast<T>(word);
#endif
  }
#endif
  return x;
}

/// `x`, opaque in builds that may regroup products (-ffast-math, -Ofast) and transparent to vectorisers in all others.
LOFT_HOST_DEVICE constexpr float grouped(float x) noexcept {
#if defined(__FAST_MATH__)
  return opaque(x);
#else
  return x;
#endif
}

/// a * b, rounded once to the nearest float whatever the build flags; where a sum follows, make it opaque first.
LOFT_HOST_DEVICE constexpr float multiply(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) return __fmul_rn(a, b);
#endif
  return grouped(grouped(a) * grouped(b));
}

/// a / b, rounded once to the nearest float whatever the build flags.
LOFT_HOST_DEVICE constexpr float divide(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) return __fdiv_rn(a, b);
#endif
  return grouped(grouped(a) / grouped(b));
}

}  // namespace loft::native

#endif
