// SPDX-License-Identifier: Apache-2.0
// What a machine or a compiler does natively, one function each; the generic code above serves where nothing is here.
#ifndef LOFT_NATIVE_NATIVE_HPP
#define LOFT_NATIVE_NATIVE_HPP

#include <cstdint>

#include "loft/bits.hpp"
#include "loft/config.hpp"

namespace loft::native {

/// `x`; under -ffast-math and -Ofast as a value the optimiser knows nothing about, so that it cannot regroup or invert
/// what stands on the two sides.
LOFT_HOST_DEVICE constexpr float opaque(float x) noexcept {
#if defined(__FAST_MATH__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  if (!constant_evaluated()) {
    auto word = bit_cast<std::uint32_t>(x);
    asm("" : "+r"(word));
    return bit_cast<float>(word);
  }
#endif
  return x;
}

/// a * b and a / b, rounded once to the nearest float whatever the build flags.
LOFT_HOST_DEVICE constexpr float multiply(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) return __fmul_rn(a, b);
#endif
  return opaque(opaque(a) * opaque(b));
}
LOFT_HOST_DEVICE constexpr float divide(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) return __fdiv_rn(a, b);
#endif
  return opaque(opaque(a) / opaque(b));
}

}  // namespace loft::native

#endif
