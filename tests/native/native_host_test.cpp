// SPDX-License-Identifier: Apache-2.0
// What the functions of native/device.hpp mean, as the host computes them: one lane alone, no conversions of its own.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/number.hpp"

namespace native = loft::native;
using loft::bit_cast;

TEST_CASE("fma rounds once and keeps subnormals") {
  // (1 + 2^-12)^2 - 1 = 2^-11 + 2^-24: the product alone would lose 2^-24.
  float const volatile x = 1.0f + 0x1p-12f;
  CHECK(native::fma(x, x, -1.0f) == 0x1p-11f + 0x1p-24f);
  CHECK(bit_cast<std::uint32_t>(native::fma(0x1p-100f, 0x1p-45f, 0.0f)) == 16);
}

TEST_CASE("fma_saturated clamps to 0 and 1, and gives 0 for NaN") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(native::fma_saturated(0.5f, 0.5f, 0.25f) == 0.5f);
  CHECK(native::fma_saturated(2.0f, 3.0f, 0.0f) == 1.0f);
  CHECK(native::fma_saturated(1.0f, 1.0f, 0x1p-23f) == 1.0f);
  CHECK(native::fma_saturated(0.5f, 1.0f, 0.5f - 0x1p-24f) == 1.0f - 0x1p-24f);
  CHECK(native::fma_saturated(-2.0f, 3.0f, 0.0f) == 0.0f);
  CHECK(native::fma_saturated(infinity, 1.0f, 0.0f) == 1.0f);
  CHECK(native::fma_saturated(-infinity, 1.0f, 0.0f) == 0.0f);
  CHECK(native::fma_saturated(infinity, 0.0f, 0.0f) == 0.0f);
  CHECK(native::fma_saturated(bit_cast<float>(0xffc0'0000u), 1.0f, 0.0f) == 0.0f);
}

TEST_CASE("a host has one lane, and no conversions of its own") {
  CHECK(native::exchange(42, 1) == 42);
  CHECK_FALSE(native::has_pair_encode<loft::e4m3>);
  CHECK_FALSE(native::has_pair_decode<loft::e2m1>);
  CHECK_FALSE(native::has_encode_32<loft::e2m3>);
  CHECK_FALSE(native::has_hardware_stochastic);
  CHECK_FALSE(native::has_directed_rounding);
}
