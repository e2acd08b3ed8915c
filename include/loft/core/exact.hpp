// SPDX-License-Identifier: Apache-2.0
// Fences against optimisers that regroup arithmetic, and double arithmetic that is rounded once under any build flags.
// Source: IEEE 754-2019, section 5.4.1.
#ifndef LOFT_CORE_EXACT_HPP
#define LOFT_CORE_EXACT_HPP

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/core/config.hpp"

namespace loft::exact {

/// `x` as a value the optimiser knows nothing about: no -Ofast regroups what stands on its two sides, and no
/// -ffp-contract fuses them. T: float or double.
template <class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T opaque(T x) noexcept {
#if defined(__GNUC__) || defined(__clang__) || defined(__CUDA_ARCH__)
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
#endif
  return x;
}

/// All writes to `values` stand above, all reads below: no -Ofast regroups arithmetic across, and loops on both sides
/// still become vectors.
template <class T, int N>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void settle([[maybe_unused]] T (&values)[N]) noexcept {
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  if (!constant_evaluated()) asm("" : "+m"(values));
#endif
}

enum class operation { sum, difference, product, quotient };

/// One operation, rounded once to the nearest double, fused and regrouped with nothing. The assembler of CUDA fuses
/// products and sums that do not say how they are rounded, so there each says it.
template <operation O>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr double once(double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    double result = 0;
    if constexpr (O == operation::sum) asm("add.rn.f64 %0, %1, %2;" : "=d"(result) : "d"(a), "d"(b));
    else if constexpr (O == operation::difference) asm("sub.rn.f64 %0, %1, %2;" : "=d"(result) : "d"(a), "d"(b));
    else if constexpr (O == operation::product) asm("mul.rn.f64 %0, %1, %2;" : "=d"(result) : "d"(a), "d"(b));
    else asm("div.rn.f64 %0, %1, %2;" : "=d"(result) : "d"(a), "d"(b));
    return result;
  }
#endif
  a = opaque(a);
  b = opaque(b);
  if constexpr (O == operation::sum) return opaque(a + b);
  else if constexpr (O == operation::difference) return opaque(a - b);
  else if constexpr (O == operation::product) return opaque(a * b);
  else return opaque(a / b);
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

}  // namespace loft::exact

#endif
