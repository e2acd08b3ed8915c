// SPDX-License-Identifier: Apache-2.0
// What a machine or a compiler does natively, one function each; the generic code above serves where nothing is here.
#ifndef LOFT_NATIVE_NATIVE_HPP
#define LOFT_NATIVE_NATIVE_HPP

#include <cstdint>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/native/cuda.hpp"
#include "loft/native/hip.hpp"
#include "loft/native/opaque.hpp"

namespace loft::native {

/// `x`, opaque in builds that may regroup products (-ffast-math, -Ofast) and transparent to vectorisers in all others.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float grouped(float x) noexcept {
#if defined(__FAST_MATH__)
  return opaque(x);
#else
  return x;
#endif
}

/// All writes to `values` stand above, all reads below, on every machine: what was multiplied is not fused with a sum.
template <class T, int N>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void settle_products(T (&values)[N]) noexcept {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  for (T& value : values) value = opaque(value);
#else
  settle(values);
#endif
}

/// The same where the build may regroup sums, and nothing in all others.
template <class T, int N>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void settle_sums([[maybe_unused]] T (&values)[N]) noexcept {
#if defined(__FAST_MATH__)
  settle_products(values);
#endif
}

/// a * b, rounded once to the nearest float whatever the build flags; where a sum follows, make it opaque first.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float multiply(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    float product;  // without .ftz, which --use_fast_math would add
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
    return product;
  }
#endif
  return grouped(grouped(a) * grouped(b));
}

/// a / b, rounded once to the nearest float whatever the build flags.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float divide(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    float quotient;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
    return quotient;
  }
#endif
  return grouped(grouped(a) / grouped(b));
}

/// a + b, rounded once whatever the build flags; on the host a flush-to-zero mode still applies.
template <class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T add(T a, T b) noexcept {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4) {
    if (!constant_evaluated()) {
      float sum;
      asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
      return sum;
    }
  }
#endif
  return a + b;
}

/// a - b, as add.
template <class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T subtract(T a, T b) noexcept {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4) {
    if (!constant_evaluated()) {
      float difference;  // as one instruction: a negation may flush
      asm("sub.rn.f32 %0, %1, %2;" : "=f"(difference) : "f"(a), "f"(b));
      return difference;
    }
  }
#endif
  return a - b;
}

/// 1 / x for x > 0, at most the largest float: nothing overflows, and nothing is divided by zero.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float reciprocal(float x) noexcept {
  bool const tiny = bit_cast<std::uint32_t>(x) <= 0x0020'0000u;  // 2^-128, whose reciprocal is no float
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    float inverse;
    if (bit_cast<std::uint32_t>(x) - 0x0080'0000u < 0x7e00'0000u) {
      // x and 1/x are normal: one step from the approximation is correctly rounded, as in the instruction rcp.rn, which
      // asks for the range once more. tests/device/native_on_chip.cu runs over all floats.
      asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
      float rest;
      asm("{.reg .f32 e;\n\tneg.f32 e, %1;\n\tfma.rn.f32 e, e, %2, 0f3F800000;\n\tfma.rn.f32 %0, %2, e, %2;}"
          : "=f"(rest)
          : "f"(x), "f"(inverse));
      return rest;
    }
    asm("rcp.rn.f32 %0, %1;" : "=f"(inverse) : "f"(tiny ? 1.0f : x));
    return tiny ? bit_cast<float>(detail::float_max) : inverse;
  }
#endif
  float const inverse = divide(1.0f, tiny ? 1.0f : x);
  return tiny ? bit_cast<float>(detail::float_max) : inverse;
}

}  // namespace loft::native

#endif
