// SPDX-License-Identifier: Apache-2.0
// Each instruction of native/ in a kernel of its own, for the checks of CMakeLists.txt.
#include <cstdint>

#include "words.hpp"
//
#include "loft/core/exact.hpp"
#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/native/gpu/pairs.hpp"
#include "loft/number.hpp"

template <class F> __global__ void encode_pairs(float const* values, std::uint16_t* pair) {
  if constexpr (loft::native::has_pair_encode<F>) *pair = loft::native::encode_pair<F>(values[0], values[1]);
}

template <class F> __global__ void decode_pairs(std::uint16_t const* pair, float* values) {
  if constexpr (loft::native::has_pair_decode<F>) loft::native::decode_pair<F>(*pair, values[0], values[1]);
}

template <class F> __global__ void encode_six_bits(float const* values, float scale, std::uint32_t* words) {
  if constexpr (loft::native::has_encode_32<F>) loft::native::encode_32<F>(values, scale, words);
}

template <int Lanes> __global__ void largest_of_lanes(std::uint32_t* words) {
  auto* const word = words + loft::native::lane_index();
  std::uint32_t largest = *word;
  for (int mask = 1; mask < Lanes; mask *= 2)
    largest = loft::detail::max(largest, loft::native::exchange(largest, mask));
  *word = largest;
}

template <int> __global__ void multiply_add(float* x) { x[3] = loft::native::fma(x[0], x[1], x[2]); }

template <int> __global__ void multiply_add_saturated(float* x) {
  x[3] = loft::native::fma_saturated(x[0], x[1], x[2]);
}

template <int> __global__ void toward_zero(float* x) {
  if constexpr (loft::native::has_directed_rounding) {
    x[3] = loft::native::fma_toward_zero(x[0], x[1], x[2]);
    x[4] = loft::native::add_toward_zero(x[0], x[1]);
  }
}

template <int> __global__ void hardware_stochastic(float const* x, std::uint32_t random, std::uint16_t* codes) {
  if constexpr (loft::native::has_hardware_stochastic)
    *codes = loft::native::hardware_stochastic_e2m1x4(x[0], x[1], x[2], x[3], random);
}

// Names the kernels, which makes the compiler write them.
template <class... F> bool kernels(loft::type_list<F...>) {
  return (... & (&encode_pairs<F> != nullptr)) & (... & (&decode_pairs<F> != nullptr)) &
         (... & (&encode_six_bits<F> != nullptr)) & (&largest_of_lanes<32> != nullptr) &
         (&largest_of_lanes<64> != nullptr) & (&multiply_add<0> != nullptr) & (&multiply_add_saturated<0> != nullptr) &
         (&toward_zero<0> != nullptr) & (&hardware_stochastic<0> != nullptr);
}
bool const all_kernels = kernels(loft::type_list<loft::e2m1, loft::e2m3, loft::e3m2, loft::e4m3, loft::ue4m3,
                                                 loft::e5m2, loft::e4m3fnuz, loft::e5m2fnuz>{});
