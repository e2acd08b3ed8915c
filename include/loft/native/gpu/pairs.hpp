// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two 16-bit numbers in one 32-bit register, and choosing bytes of two registers.
// Source: PTX ISA 9.0, sections add.bf16x2, min/max with .u16x2, prmt; elsewhere plain integers say what they mean.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"

namespace loft::native {

/// Whether the target multiplies and adds pairs of bfloat16, and compares pairs of integers, in one instruction.
#if defined(__CUDA_ARCH__)
inline constexpr bool has_bf16_pairs = __CUDA_ARCH__ >= 900;
#else
inline constexpr bool has_bf16_pairs = false;
#endif

/// The magnitudes of two 16-bit numbers that have a sign bit on top. It is written as an instruction so that one result
/// serves all uses, where a compiler would mask each half anew.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t magnitude_pair(std::uint32_t pair) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    std::uint32_t result = 0;
    asm("and.b32 %0, %1, 0x7fff7fff;" : "=r"(result) : "r"(pair));
    return result;
  }
#endif
  return pair & 0x7fff'7fffu;
}

/// The larger of each half, as unsigned numbers.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t max_halves(std::uint32_t a, std::uint32_t b) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (!constant_evaluated()) {
    std::uint32_t result = 0;
    asm("max.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
#endif
  return detail::max(a & 0xffff'0000u, b & 0xffff'0000u) | detail::max(a & 0xffffu, b & 0xffffu);
}

/// The smaller of each half, as unsigned numbers.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t min_halves(std::uint32_t a, std::uint32_t b) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (!constant_evaluated()) {
    std::uint32_t result = 0;
    asm("min.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
#endif
  return detail::min(a & 0xffff'0000u, b & 0xffff'0000u) | detail::min(a & 0xffffu, b & 0xffffu);
}

/// Two numbers, each at least 2^-14, cut towards zero to half precision, the first in the low half. A number from 2^16
/// on or a NaN gives any half whose bits are at least those of 65504.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t half_pair_toward_zero(float low, float high) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if (!constant_evaluated()) {
    std::uint32_t pair = 0;
    asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
#endif
  auto const half = [](float x) { return detail::min(bit_cast<std::uint32_t>(x) - (112u << 23), 0x0fff'ffffu) >> 13; };
  return half(high) << 16 | half(low);
}

/// a * b + c for each half as bfloat16, rounded once. For targets with has_bf16_pairs.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t fma_bf16_pairs(
    std::uint32_t a, [[maybe_unused]] std::uint32_t b, [[maybe_unused]] std::uint32_t c) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (!constant_evaluated()) asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(a) : "r"(a), "r"(b), "r"(c));
#endif
  return a;
}

/// a * b for each half as bfloat16, rounded once, the sign of a zero kept. For targets with has_bf16_pairs.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t multiply_bf16_pairs(
    std::uint32_t a, [[maybe_unused]] std::uint32_t b) noexcept {
  return fma_bf16_pairs(a, b, 0x8000'8000u);  // -0 leaves every product as it is
}

/// Four bytes out of eight: nibble i of `selector` says which of (a, b) becomes byte i, 0 to 3 those of a from the
/// lowest, 4 to 7 those of b.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t choose_bytes(std::uint32_t a, std::uint32_t b,
                                                                             std::uint32_t selector) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    std::uint32_t result = 0;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
    return result;
  }
#elif defined(__HIP_DEVICE_COMPILE__)
  if (!constant_evaluated()) {
    std::uint32_t const bytes =
        (selector & 7u) | (selector & 0x70u) << 4 | (selector & 0x700u) << 8 | (selector & 0x7000u) << 12;
    return __builtin_amdgcn_perm(b, a, bytes);
  }
#endif
  std::uint64_t const both = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<std::uint32_t>(both >> ((selector >> 4 * i & 7u) * 8) & 0xffu) << 8 * i;
  return result;
}

/// The bits of `a` where `mask` has ones, else those of `b`. It is written as an instruction, because compilers make
/// two where they know some of the bits.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t choose_bits(std::uint32_t mask, std::uint32_t a,
                                                                            std::uint32_t b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    std::uint32_t result = 0;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(result) : "r"(mask), "r"(a), "r"(b));
    return result;
  }
#endif
  return (a & mask) | (b & ~mask);
}

/// |a| * b, rounded once, subnormals kept.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float multiply_magnitude(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    float product = 0;
    asm("{.reg .f32 m;\n\tabs.f32 m, %1;\n\tmul.rn.f32 %0, m, %2;}" : "=f"(product) : "f"(a), "f"(b));
    return product;
  }
#endif
  return exact::multiply(bit_cast<float>(detail::magnitude_bits(a)), b);
}

/// The smaller of two numbers that are not NaN.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float smaller(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  if (!constant_evaluated()) {
    float result = 0;
    asm("min.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  }
#endif
  return b < a ? b : a;
}
/// The larger of a magnitude and |x|; a NaN is larger than infinity.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float larger_magnitude(float magnitude, float x) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if (!constant_evaluated()) {
    float result = 0;
    asm("{.reg .f32 m;\n\tabs.f32 m, %2;\n\tmax.NaN.f32 %0, %1, m;}" : "=f"(result) : "f"(magnitude), "f"(x));
    return result;
  }
#endif
  return bit_cast<float>(detail::max(bit_cast<std::uint32_t>(magnitude), detail::magnitude_bits(x)));
}

/// A float as a double, subnormals kept.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline double exact_double(float x) noexcept {
#if defined(__CUDA_ARCH__)
  double result;  // without .ftz, which --use_fast_math would add
  asm("cvt.f64.f32 %0, %1;" : "=d"(result) : "f"(x));
  return result;
#else
  return detail::widen(x);
#endif
}

/// Whether the target rounds two floats to bfloat16 at once. bf16_pair then does so, to nearest even, with the first
/// number in the low half; a NaN becomes the canonical one.
#if defined(__CUDA_ARCH__)
inline constexpr bool has_bf16_rounding = __CUDA_ARCH__ >= 800;
#else
inline constexpr bool has_bf16_rounding = false;
#endif
[[gnu::always_inline]] LOFT_HOST_DEVICE inline std::uint32_t bf16_pair([[maybe_unused]] float low,
                                                                       [[maybe_unused]] float high) noexcept {
  std::uint32_t pair = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
  return pair;
}
/// Infinities of a pair become the largest finite number, as encode has them. Infinity is even, the canonical NaN odd.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t saturate_bf16_pair(std::uint32_t pair) noexcept {
  std::uint32_t const magnitude = pair & 0x7fff'7fffu;
  return pair - ((magnitude + 0x0080'0080u) >> 15 & ~magnitude & 0x0001'0001u);
}

/// The number of this lane in its warp or wave; 0 on the host.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline int lane_index() noexcept {
  int lane = 0;
#if defined(__CUDA_ARCH__)
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
#elif defined(__HIP_DEVICE_COMPILE__)
  lane = static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)));
#endif
  return lane;
}

}  // namespace loft::native
