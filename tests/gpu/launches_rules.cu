// SPDX-License-Identifier: Apache-2.0
// quantize and quantize_both of a GPU against those of the host, to the byte: scale rules, roundings, rotations, layouts
// of scales, amax and seed from device memory.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -Itests/gpu -DLOFT_TEST_PART=1 tests/gpu/launches_rules.cu
// and with 2 for the second half, which keeps compile time in bounds; -DLOFT_TEST_SHARED_LIMIT=65536:
// AMD's tiles. Exit code 1 where a byte differs, 2 without a GPU.
#include "launches_quantize.hpp"

#if !defined(LOFT_TEST_PART)
#define LOFT_TEST_PART 1
#endif

using namespace gpu_tests;

namespace {

template <class T, class Layout = row_major, class Operand> void one(char const* what, Operand const& how) {
  group const g(what);
  all_matrices<T, Layout>(what, how);
}

/// With the seed that the operand has, and with one that the device finds in its memory.
template <class T, class Operand> void seeded(char const* what, Operand const& how) {
  group const g(what);
  all_matrices<T>(what, how);
  seed_in_memory const seed;
  all_matrices<T>(what, seed(how), how, seed.given());
}

/// A tensor's amax that is computed, known to the host, and in device memory, with and without another one in the rule.
template <class T, class Operand> void with_amax(char const* what, Operand how) {
  group const g(what);
  all_matrices<T>(what, how);
  Operand known = how;
  known.rule.amax = 3.75f;
  all_matrices<T>(what, known);
  float const value = 3.75f;
  device::array<float> const amax(&value, 1);
  on_device d;
  d.amax = amax.data;
  all_matrices<T>(what, known, how, d);
  Operand other = how;
  other.rule.amax = 77.0f;
  all_matrices<T>(what, known, other, d);
}

template <class T, class Layout = row_major, class First, class Second>
void both(char const* what, First const& how, Second const& cols_how) {
  group const g(what);
  both_ways<T, Layout>(what, how, cols_how);
}

[[maybe_unused]] constexpr std::uint64_t signs = 0x9f1e'57c3'a0b6'd7e8;

#if LOFT_TEST_PART == 1

void rules() {
  one<bf16_t>("mxfp4, ceil_scale", operand<mxfp4, ceil_scale>{});
  one<bf16_t>("mxfp4, even_scale", operand<mxfp4, even_scale>{});
  one<float>("mxfp4, nearest_scale", operand<mxfp4, nearest_scale>{});
  one<bf16_t>("mxfp4, floor_four_thirds", operand<mxfp4, floor_four_thirds>{});
  one<bf16_t>("mxfp4, quest_scale", operand<mxfp4, quest_scale>{});
  one<bf16_t>("mxfp4, fixed_scale", operand<mxfp4, fixed_scale>{{0.25f}});
  one<float>("mxfp8_e4m3, ceil_scale, toward_zero", operand<mxfp8_e4m3, ceil_scale, toward_zero>{});
  one<bf16_t>("mxfp6_e2m3, even_scale, nearest_away", operand<mxfp6_e2m3, even_scale, nearest_away>{});
  one<fp16_t>("mxfp4, toward_zero", operand<mxfp4, ocp_floor, toward_zero>{});
  one<bf16_t>("nvfp4, nearest_upward", operand<nvfp4, two_level, nearest_upward>{});
  using saturating = operand<mxfp4, ocp_floor, nearest_even, no_rotation, nonfinite::saturate>;
  one<bf16_t>("mxfp4, nonfinite::saturate", saturating{});
  one<float>("nvfp4, nonfinite::saturate", operand<nvfp4, two_level, nearest_even, no_rotation, nonfinite::saturate>{});
}

void two_levels() {
  with_amax<bf16_t>("nvfp4, two_level", operand<nvfp4>{});
  with_amax<bf16_t>("nvfp4, four_over_six<squared_error>", operand<nvfp4, four_over_six<>>{});
  one<float>("nvfp4, four_over_six<absolute_error>", operand<nvfp4, four_over_six<absolute_error>>{});
  one<bf16_t>("nvfp4, four_over_six<maximal_error>", operand<nvfp4, four_over_six<maximal_error>>{});
  one<bf16_t>("square<nvfp4, 16>, four_over_six<>", operand<square<nvfp4, 16>, four_over_six<>>{});
  one<float>("square<nvfp4, 64>, four_over_six<>", operand<square<nvfp4, 64>, four_over_six<>>{});
  one<bf16_t>("square<nvfp4, 128>, four_over_six<>", operand<square<nvfp4, 128>, four_over_six<>>{});
  seeded<bf16_t>("nvfp4, unbiased_two_level_256, stochastic<>",
                 operand<nvfp4, unbiased_two_level_256, stochastic<>>{{}, {4, 9}});
  with_amax<float>("if4", operand<if4>{});
  with_amax<bf16_t>("square<nvfp4, 16>", operand<square<nvfp4, 16>>{});
}

template <int Group, class Rotation = no_rotation, nonfinite N = nonfinite::propagate>
using eden = operand<nvfp4, ms_eden<Group>, nearest_even, Rotation, N>;

/// Scales that are corrected in groups of blocks, along rows and columns, with and without a rotation.
void corrected_scales() {
  with_amax<bf16_t>("nvfp4, ms_eden<128>", eden<128>{{-1, 6, 7}});
  seeded<bf16_t>("nvfp4, ms_eden<32>", eden<32>{{-1, 1ull << 60 | 6, 7}});
  one<float>("nvfp4, ms_eden<16>, float", eden<16>{{-1, 6, 7}});
  one<fp16_t>("nvfp4, ms_eden<64>, half", eden<64>{{-1, 6, 7}});
  one<bf16_t>("nvint4, ms_eden<128>", operand<nvint4, ms_eden<>>{{-1, 6, 7}});
  one<bf16_t>("nvfp4, ms_eden<128>, saturate", eden<128, no_rotation, nonfinite::saturate>{{-1, 6, 7}});
  seeded<bf16_t>("nvfp4, ms_eden<128>, signed_hadamard<128>", eden<128, signed_hadamard<128>>{{-1, 6, 7}, {}, {signs}});
  one<float>("nvfp4, ms_eden<32>, signed_hadamard<32>, float", eden<32, signed_hadamard<32>>{{-1, 6, 7}, {}, {signs}});
  one<bf16_t>("nvfp4, ms_eden<128>, hadamard<16>", eden<128, hadamard<16>>{{-1, 6, 7}});
  one<bf16_t, tiled_128x4>("nvfp4, ms_eden<128>, tiled_128x4", eden<128>{{-1, 6, 7}});
  both<bf16_t>("both, ms_eden<32> and two_level", eden<32>{{-1, 6, 7}}, operand<nvfp4>{});
  both<bf16_t>("both, ms_eden<64>, signed_hadamard<64>", eden<64, signed_hadamard<64>>{{-1, 6, 7}, {}, {signs}},
               eden<64, signed_hadamard<64>>{{-1, 8, 9}, {}, {signs}});
}

void layouts() {
  one<bf16_t, tiled_128x4>("mxfp4, tiled_128x4", operand<mxfp4>{});
  one<float, tiled_128x4>("nvfp4, tiled_128x4", operand<nvfp4>{});
  one<bf16_t, tiled_128x4>("mxfp8_e4m3, tiled_128x4", operand<mxfp8_e4m3>{});
  one<bf16_t, tiled_128x4>("square<nvfp4, 16>, tiled_128x4", operand<square<nvfp4, 16>>{});
  one<bf16_t, tiled_128x4>("square<mxfp4, 32>, tiled_128x4", operand<square<mxfp4, 32>>{});
  both<bf16_t, tiled_128x4>("both, mxfp4, tiled_128x4", operand<mxfp4>{}, operand<mxfp4>{});
  both<bf16_t, tiled_128x4>("both, square<nvfp4, 16>, tiled_128x4", operand<square<nvfp4, 16>>{},
                            operand<square<nvfp4, 16>>{});
  both<float, tiled_128x4>("both, square<mxfp4, 64>, tiled_128x4", operand<square<mxfp4, 64>>{},
                           operand<square<mxfp4, 64>>{});
}

void run_all() {
  rules();
  two_levels();
  corrected_scales();
  layouts();
}

#else

template <int Bits> using mx_stochastic = operand<mxfp4, ocp_floor, stochastic<Bits>>;

void roundings() {
  seeded<bf16_t>("mxfp4, stochastic<8>", mx_stochastic<8>{{}, {1, 2}});
  seeded<float>("mxfp4, stochastic<8>, float", mx_stochastic<8>{{}, {1, 2}});
  seeded<bf16_t>("mxfp4, stochastic<16>", mx_stochastic<16>{{}, {1ull << 60 | 7, 1ull << 33 | 3}});
  seeded<bf16_t>("mxfp4, stochastic<4>", mx_stochastic<4>{{}, {5, 2}});
  seeded<bf16_t>("mxfp4, truncated_stochastic<8>", operand<mxfp4, ocp_floor, truncated_stochastic<8>>{{}, {1, 2}});
  seeded<float>("mxfp4, truncated_stochastic<16>", operand<mxfp4, ocp_floor, truncated_stochastic<16>>{{}, {1, 2}});
  seeded<bf16_t>("mxfp4, four thirds, stochastic<16>", operand<mxfp4, floor_four_thirds, stochastic<16>>{{}, {1, 2}});
  seeded<bf16_t>("mxfp8_e4m3, stochastic<16>", operand<mxfp8_e4m3, ocp_floor, stochastic<16>>{{}, {1, 2}});
  seeded<bf16_t>("mxfp6_e3m2, stochastic<8>", operand<mxfp6_e3m2, ocp_floor, stochastic<8>>{{}, {1, 2}});
  seeded<bf16_t>("nvfp4, stochastic<8>", operand<nvfp4, two_level, stochastic<8>>{{}, {1, 2}});
  seeded<bf16_t>("square<mxfp4, 32>, stochastic<8>", operand<square<mxfp4, 32>, ocp_floor, stochastic<8>>{{}, {1, 2}});
}

template <class Rotation> using mx_rotated = operand<mxfp4, ocp_floor, nearest_even, Rotation>;

void rotations() {
  one<bf16_t>("mxfp4, hadamard<16>", mx_rotated<hadamard<16>>{});
  one<bf16_t>("mxfp4, hadamard<32>", mx_rotated<hadamard<32>>{});
  one<float>("mxfp4, hadamard<64>", mx_rotated<hadamard<64>>{});
  one<bf16_t>("mxfp4, hadamard<128>", mx_rotated<hadamard<128>>{});
  one<bf16_t>("mxfp4, signed_hadamard<32>", mx_rotated<signed_hadamard<32>>{{}, {}, {signs}});
  one<bf16_t>("nvfp4, hadamard<128>", operand<nvfp4, two_level, nearest_even, hadamard<128>>{});
  one<bf16_t>("mxfp4, hadamard<32>, saturate",
              operand<mxfp4, ocp_floor, nearest_even, hadamard<32>, nonfinite::saturate>{});
  one<bf16_t>("square<mxfp4, 32>, hadamard<32>", operand<square<mxfp4, 32>, ocp_floor, nearest_even, hadamard<32>>{});
  seeded<bf16_t>("nvfp4, signed_hadamard<16>, stochastic<>",
                 operand<nvfp4, two_level, stochastic<>, signed_hadamard<16>>{{}, {3, 4}, {recipes::nvfp4_signs}});
  seeded<float>("mxfp8_e4m3, signed_hadamard<64>, stochastic<8>",
                operand<mxfp8_e4m3, ceil_scale, stochastic<8>, signed_hadamard<64>>{{}, {3, 4}, {signs}});
  one<float>("mxfp4, signed_hadamard<128>", mx_rotated<signed_hadamard<128>>{{}, {}, {signs}});
}

/// Two outputs with a seed and an amax that the device finds in its memory; and a tile of several rows with them.
void two_outputs_from_memory() {
  group const g("both, seed and amax in device memory");
  std::uint64_t const words[2] = {77, 78};
  float const value = 5.5f;
  device::array<std::uint64_t> const seed(words, 2);
  device::array<float> const amax(&value, 1);
  on_device d;
  d.seed = seed.data;
  d.amax = amax.data;
  using gradient = operand<nvfp4, two_level, stochastic<8>, signed_hadamard<16>>;
  both_ways<bf16_t>("both, seed and amax in device memory", operand<nvfp4>{{value}},
                    gradient{{value}, {77, 78}, {recipes::nvfp4_signs}}, operand<nvfp4>{},
                    gradient{{}, {1, 2}, {recipes::nvfp4_signs}}, d);
  using tile = operand<square<nvfp4, 16>, two_level, stochastic<16>>;
  tile const known{{value}, {77, 78}};
  both_ways<bf16_t>("both, square<nvfp4, 16>, seed and amax in device memory", known, known, tile{}, tile{}, d);
}

void two_outputs() {
  both<bf16_t>("both, mxfp4 and mxfp4 stochastic", operand<mxfp4>{}, mx_stochastic<8>{{}, {1, 2}});
  both<bf16_t>("both, nvfp4 and mxfp8_e4m3", operand<nvfp4>{}, operand<mxfp8_e4m3>{});
  both<float>("both, mxfp4 and nvfp4", operand<mxfp4>{}, operand<nvfp4, four_over_six<>>{});
  both<bf16_t>("both, fp8_1x128 and hif4", operand<fp8_1x128>{}, operand<hif4>{});
  both<bf16_t>("both, the two of NVFP4's Wgrad", recipes::nvfp4{}.wgrad.right, recipes::nvfp4{}.wgrad.left);
  both<bf16_t>("both, hadamard<128> and hadamard<16>", mx_rotated<hadamard<128>>{}, mx_rotated<hadamard<16>>{});
  using tile = operand<square<mxfp4, 32>, ceil_scale, stochastic<8>>;
  both<bf16_t>("both, square<mxfp4, 32>, stochastic", tile{{}, {6, 5}}, tile{{}, {6, 5}});
  using large = operand<fp8_128x128, default_rule<fp8_128x128>, stochastic<8>>;
  both<float>("both, fp8_128x128, stochastic", large{{}, {6, 5}}, large{{}, {7, 5}});
}

void run_all() {
  roundings();
  rotations();
  two_outputs();
  two_outputs_from_memory();
}

#endif

}  // namespace

int main() {
  if (!device::has()) return 2;
  run_all();
  check(cudaDeviceSynchronize());
  return report();
}
