// SPDX-License-Identifier: Apache-2.0
// Arithmetic that gives the same bits under any build flags: fences against optimisers that fuse or regroup operations
// (-Ofast, -ffp-contract), operations in double, then those in float. Each operation is rounded once to the nearest.
// CUDA's assembler fuses products and sums that do not say how they are rounded, and --use_fast_math flushes
// subnormals, so that device code names its instructions.
// Source: IEEE 754-2019, section 5.4.1.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"

namespace loft::exact {

/// Gives back `x` as a value of which the optimiser knows nothing, so that it neither fuses nor regroups the operations
/// that make `x` with those that use it. T: float or double.
template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T opaque(T x) noexcept {
  if (!constant_evaluated()) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(T) == 4) asm("" : "+f"(x));
    else asm("" : "+d"(x));
#elif defined(__HIP_DEVICE_COMPILE__)
    asm("" : "+v"(x));
#elif defined(__SSE__)
    asm("" : "+x"(x));
#else
    auto word = bit_cast<typename detail::ieee<T>::word>(x);
    asm("" : "+r"(word));
    return bit_cast<T>(word);
#endif
  }
  return x;
}

/// `x`, opaque in builds that may regroup products (-ffast-math, -Ofast), and as it is in all others, where it hinders
/// no vectoriser.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float grouped(float x) noexcept {
#if defined(__FAST_MATH__)
  return opaque(x);
#else
  return x;
#endif
}

/// Ends all writes to `values` before any read of them that follows: nothing is regrouped across, and loops on both
/// sides still become vectors. In device code nothing happens.
template <class T, int N>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void settle([[maybe_unused]] T (&values)[N]) noexcept {
#if !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  if (!constant_evaluated()) asm("" : "+m"(values));
#endif
}
/// The same in device code too, where what was multiplied is not fused with a sum that follows.
template <class T, int N>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void settle_products(T (&values)[N]) noexcept {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  for (T& value : values) value = opaque(value);
#else
  settle(values);
#endif
}

/// settle_products in builds that may regroup sums, and nothing in all others.
template <class T, int N>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void settle_sums([[maybe_unused]] T (&values)[N]) noexcept {
#if defined(__FAST_MATH__)
  settle_products(values);
#endif
}

enum class operation { sum, difference, product, quotient };

/// a + b, a - b, a * b or a / b. CUDA's device code has an instruction that names its rounding and keeps subnormals.
/// T: float or double.
template <operation Operation, class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T evaluate(T a, T b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    T result = 0;
    if constexpr (sizeof(T) == 4) {
      if constexpr (Operation == operation::sum) asm("add.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
      else if constexpr (Operation == operation::difference)
        asm("sub.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
      else if constexpr (Operation == operation::product) asm("mul.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
      else asm("div.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    } else {
      if constexpr (Operation == operation::sum) asm("add.rn.f64 %0, %1, %2;" : "=d"(result) : "d"(a), "d"(b));
      else if constexpr (Operation == operation::difference)
        asm("sub.rn.f64 %0, %1, %2;" : "=d"(result) : "d"(a), "d"(b));
      else if constexpr (Operation == operation::product) asm("mul.rn.f64 %0, %1, %2;" : "=d"(result) : "d"(a), "d"(b));
      else asm("div.rn.f64 %0, %1, %2;" : "=d"(result) : "d"(a), "d"(b));
    }
    return result;
  }
#endif
  if constexpr (Operation == operation::sum) return a + b;
  else if constexpr (Operation == operation::difference) return a - b;
  else if constexpr (Operation == operation::product) return a * b;
  else return a / b;
}

/// One operation in double, fused and regrouped with nothing.
template <operation Operation>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr double once(double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  return evaluate<Operation>(a, b);
#else
  return opaque(evaluate<Operation>(opaque(a), opaque(b)));
#endif
}
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr double sum(double a, double b) noexcept {
  return once<operation::sum>(a, b);
}
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr double difference(double a, double b) noexcept {
  return once<operation::difference>(a, b);
}
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr double product(double a, double b) noexcept {
  return once<operation::product>(a, b);
}
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr double quotient(double a, double b) noexcept {
  return once<operation::quotient>(a, b);
}

/// The square root of a number that is not negative, rounded once to the nearest double.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline double square_root(double x) noexcept {
#if defined(__CUDA_ARCH__)
  double root;
  asm("sqrt.rn.f64 %0, %1;" : "=d"(root) : "d"(x));
  return root;
#else
  return opaque(__builtin_sqrt(opaque(x)));
#endif
}

/// a * b in float. Where a sum follows, make the product opaque first.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float multiply(float a, float b) noexcept {
  return grouped(evaluate<operation::product>(grouped(a), grouped(b)));
}
/// a / b in float.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float divide(float a, float b) noexcept {
  return grouped(evaluate<operation::quotient>(grouped(a), grouped(b)));
}
/// a + b, where on the host a flush-to-zero mode still applies. In double, device code may fuse it with a product.
template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T add(T a, T b) noexcept {
  if constexpr (sizeof(T) == 4) return evaluate<operation::sum>(a, b);
  else return a + b;
}
/// a - b, as add.
template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T subtract(T a, T b) noexcept {
  if constexpr (sizeof(T) == 4) return evaluate<operation::difference>(a, b);
  else return a - b;
}

/// 1 / x in float for x >= 0; the largest float where 1 / x is beyond it, as for 0.
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

}  // namespace loft::exact
