// SPDX-License-Identifier: Apache-2.0
// Fences against optimisers that regroup arithmetic, and double arithmetic that is rounded once under any build flags.
// Source: IEEE 754-2019, section 5.4.1.
#ifndef LOFT_NATIVE_OPAQUE_HPP
#define LOFT_NATIVE_OPAQUE_HPP

#include <cstdint>

#include "loft/bits.hpp"
#include "loft/config.hpp"

namespace loft::native {

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

}  // namespace loft::native

#endif
