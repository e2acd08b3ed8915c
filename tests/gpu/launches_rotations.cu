// SPDX-License-Identifier: Apache-2.0
// Rotations that lanes do not hold, and random signs, on a GPU against the host, to the byte: quantize, quantize_both,
// dequantize, tensor_amax and rotate, over all shapes of memory.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -Itests/gpu tests/gpu/launches_rotations.cu
// Exit code 1 where a byte differs, 2 without a GPU.
#include "launches_quantize.hpp"

using namespace gpu_tests;

namespace {

/// Extents for runs of N: rows that are few, ragged, many; a row of one run, of several, and of more than one team has.
template <int N> std::vector<extent> extents_of() {
  std::int64_t const some = std::max(1, 1000 / N), many = std::max(1, 5000 / N) + 1;
  return {{1, N}, {33, N * some}, {5, N * many}, {130, N * 2}, {0, N}};
}

/// quantize, tensor_amax and dequantize of one operand; the device has `given`, and what it finds in its memory.
template <class T, class Layout = row_major, class Operand>
void fused(char const* what, Operand const& how, Operand const& given, on_device const& d) {
  group const g(what);
  using format = typename Operand::format;
  for (extent const e : extents_of<detail::rotation_size<Operand>>()) {
    for (content const kind : {content::tame, content::wild, content::poisoned}) {
      auto const values = numbers<T>(e.rows, e.cols, 41, kind);
      one_matrix<Layout>(what, values, e, how, given, d);
      if (e.rows == 0) continue;
      matrix_view<T const> const matrix{values.data(), e.rows, e.cols, e.cols};
      float right = 0;
      if (tensor_amax(matrix, how, right) != status::ok) std::exit(1);
      auto answer = answer_of<Layout>(matrix, how);
      std::vector<float> floats(values.size());
      quantized_view<format, Layout> const q{answer.codes.data(), answer.scales.data(), &answer.tensor_scale, e.rows,
                                             e.cols};
      if (dequantize(q, matrix_view<float>{floats.data(), e.rows, e.cols, e.cols}, how) != status::ok) std::exit(1);
      device::array<std::uint8_t> const codes(answer.codes);
      device::array<code<typename format::scale>> const scales(answer.scales);
      device::array<float> const scale(&answer.tensor_scale, 1);
      auto const in = place(values, e.rows, e.cols, memory_shapes[5]);
      current = std::string(what) + ", amax and dequantize";
      image parts;
      std::int64_t const amax_at = parts.add(4, 16, 4), out_at = parts.add(e.rows * e.cols * 4, 16, 4);
      compare_image(
          parts,
          [&](unsigned char* base) {
            status const s =
                chip::tensor_amax(in, given, reinterpret_cast<float*>(base + amax_at), context_of(nullptr, 0, d));
            if (s != status::ok) return s;
            quantized_view<format const, Layout> const from{codes.data, scales.data, scale.data, e.rows, e.cols};
            matrix_view<float> const out{reinterpret_cast<float*>(base + out_at), e.rows, e.cols, e.cols};
            return chip::dequantize(from, out, given, context_of(nullptr, 0, d));
          },
          [&](unsigned char* base) {
            std::memcpy(base + amax_at, &right, 4);
            std::memcpy(base + out_at, floats.data(), floats.size() * 4);
          });
    }
  }
}

template <class T, class Layout = row_major, class Operand> void fused(char const* what, Operand const& how) {
  fused<T, Layout>(what, how, how, {});
}
/// With a seed that the device finds in its memory.
template <class T, class Operand> void seeded(char const* what, Operand const& how) {
  seed_in_memory const seed;
  fused<T>(what, seed(how), how, seed.given());
}

template <class T, class First, class Second>
void both(char const* what, First const& how, Second const& cols_how, First const& given, Second const& cols_given,
          on_device const& d = {}) {
  group const g(what);
  std::int64_t const rows = std::int64_t{detail::rotation_size<Second>} * 3;
  std::int64_t const cols = std::int64_t{detail::rotation_size<First>} * 2;
  auto const values = numbers<T>(rows, cols, 43, content::poisoned);
  matrix_view<T const> const matrix{values.data(), rows, cols, cols};
  auto const right = answer_of<row_major>(matrix, how);
  auto const cols_right = answer_of<row_major>(transposed(matrix), cols_how);
  for (auto const& m : memory_shapes) {
    name_case(what, {rows, cols}, m);
    compare_both<row_major, row_major>(place(values, rows, cols, m), given, cols_given, right, cols_right,
                                       m.code_offset, d);
  }
}
template <class T, class First, class Second> void both(char const* what, First const& how, Second const& cols_how) {
  both<T>(what, how, cols_how, how, cols_how);
}

/// rotate and its inverse; `out` in other memory, and then in the input's own. The numbers are finite, as are the sums.
/// The device has `given`, and what it finds in its memory.
template <class T, class Rotation>
void rotate(char const* what, Rotation const& rotation, Rotation const& given, on_device const& d = {}) {
  group const g(what);
  for (extent const e : extents_of<Rotation::size>()) {
    auto const values = numbers<T>(e.rows, e.cols, 44, content::plain);
    for (bool const inverse : {false, true}) {
      std::vector<T> right(values.size());
      std::vector<float> run(Rotation::size);
      for (std::size_t first = 0; first < values.size(); first += Rotation::size) {
        for (std::size_t i = 0; i < Rotation::size; ++i) run[i] = static_cast<float>(values[first + i]);
        if (inverse) rotation.invert(run.data());
        else rotation.apply(run.data());
        for (std::size_t i = 0; i < Rotation::size; ++i) right[first + i] = static_cast<T>(run[i]);
      }
      auto const bytes = values.size() * sizeof(T);
      for (auto const& m : memory_shapes) {
        name_case(what, e, m);
        auto const in = place(values, e.rows, e.cols, m);
        image parts;
        std::int64_t const at = parts.add(static_cast<std::int64_t>(bytes), 16, m.code_offset == 0 ? 0 : sizeof(T));
        auto const out_at = [&](unsigned char* base) {
          return matrix_view<T>{reinterpret_cast<T*>(base + at), e.rows, e.cols, e.cols};
        };
        auto const write = [&](unsigned char* base) { std::memcpy(base + at, right.data(), bytes); };
        compare_image(
            parts,
            [&](unsigned char* base) {
              auto const where = context_of(nullptr, 0, d);
              return inverse ? chip::rotate_back(in, out_at(base), given, where)
                             : chip::rotate(in, out_at(base), given, where);
            },
            write);
        compare_image(
            parts,
            [&](unsigned char* base) {
              check(cudaMemcpyAsync(base + at, values.data(), bytes, cudaMemcpyHostToDevice, stream()));
              matrix_view<T const> const same = out_at(base);
              auto const where = context_of(nullptr, 0, d);
              return inverse ? chip::rotate_back(same, out_at(base), given, where)
                             : chip::rotate(same, out_at(base), given, where);
            },
            write);
      }
    }
  }
}

template <class T, class Rotation> void rotate(char const* what, Rotation const& rotation) {
  rotate<T>(what, rotation, rotation);
}
template <class T, class Rotation> void rotate_seeded(char const* what, Rotation const& rotation) {
  seed_in_memory const seed;
  rotate<T>(what, seed(rotation), rotation, seed.given());
}

template <class B, class Rotation, class Rule = default_rule<B>, class R = nearest_even>
using with = operand<B, Rule, R, Rotation>;

void random_signs() {
  fused<bf16_t>("mxfp4, random_hadamard<16>", with<mxfp4, random_hadamard<16>, even_scale>{.rotation = {7, 3}});
  fused<float>("mxfp4, random_hadamard<32>", with<mxfp4, random_hadamard<32>>{.rotation = {7, 3}});
  fused<bf16_t>("nvfp4, random_hadamard<128>", with<nvfp4, random_hadamard<128>>{.rotation = {1ull << 50, 1ull << 40}});
  fused<bf16_t>("square<mxfp4, 32>, random_hadamard<64>",
                with<square<mxfp4, 32>, random_hadamard<64>>{.rotation = {7, 3}});
  seeded<bf16_t>("nvfp4, random_hadamard<16>, stochastic<>",
                 with<nvfp4, random_hadamard<16>, two_level, stochastic<>>{{}, {3, 4}, {7, 3}});
  seeded<float>("mxfp4, random_hadamard<32>, seed in device memory", with<mxfp4, random_hadamard<32>>{});
  seeded<bf16_t>("square<mxfp4, 32>, random_hadamard<16>, seed in device memory",
                 with<square<mxfp4, 32>, random_hadamard<16>>{});
  seeded<bf16_t>("nvfp4, ms_eden<128>, random_hadamard<128>", with<nvfp4, random_hadamard<128>, ms_eden<>>{});
}

void long_runs() {
  fused<bf16_t>("mxfp4, hadamard<256>", with<mxfp4, hadamard<256>>{});
  fused<float>("mxfp4, random_hadamard<1024>", with<mxfp4, random_hadamard<1024>>{.rotation = {7, 3}});
  fused<bf16_t>("mxfp4, random_hadamard<4096>", with<mxfp4, random_hadamard<4096>>{.rotation = {7, 3}});
  fused<float>("nvfp4, signed_hadamard<2048>", with<nvfp4, signed_hadamard<2048>>{.rotation = {0x9f1e'57c3'a0b6'd7e8}});
  fused<bf16_t>("square<mxfp4, 32>, hadamard<4096>", with<square<mxfp4, 32>, hadamard<4096>>{});
}

void paley_runs() {
  fused<bf16_t>("mxfp4, hadamard<12>", with<mxfp4, hadamard<12>>{});
  fused<float>("nvfp4, random_hadamard<20>, four_over_six<>",
               with<nvfp4, random_hadamard<20>, four_over_six<>>{.rotation = {7, 3}});
  fused<bf16_t>("fp8_1x128, random_hadamard<28>", with<fp8_1x128, random_hadamard<28>>{.rotation = {7, 3}});
  fused<fp16_t>("hif4, hadamard<48>", with<hif4, hadamard<48>>{});
  fused<bf16_t>("double_nvfp4, hadamard<160>", with<double_nvfp4, hadamard<160>>{});
  fused<bf16_t>("mxfp6_e2m3, hadamard<224>", with<mxfp6_e2m3, hadamard<224>>{});
  fused<bf16_t, tiled_128x4>("mxfp8_e4m3, hadamard<3072>, tiled_128x4", with<mxfp8_e4m3, hadamard<3072>>{});
  fused<float>("mxfp4, random_hadamard<3584>", with<mxfp4, random_hadamard<3584>>{.rotation = {7, 3}});
  fused<bf16_t>("square<nvfp4, 16>, hadamard<40>, four_over_six<>",
                with<square<nvfp4, 16>, hadamard<40>, four_over_six<>>{});
  fused<bf16_t>("square<mxfp4, 32>, random_hadamard<896>", with<square<mxfp4, 32>, random_hadamard<896>>{});
  using saturating = operand<mxfp4, ocp_floor, nearest_even, hadamard<12>, nonfinite::saturate>;
  fused<bf16_t>("mxfp4, hadamard<12>, saturate", saturating{});
  seeded<bf16_t>("mxfp4, random_hadamard<96>, stochastic<8>",
                 with<mxfp4, random_hadamard<96>, ocp_floor, stochastic<8>>{{}, {3, 4}, {7, 3}});
  seeded<bf16_t>("square<mxfp4, 32>, hadamard<20>, stochastic<8>",
                 with<square<mxfp4, 32>, hadamard<20>, ocp_floor, stochastic<8>>{{}, {3, 4}});
}

void two_outputs() {
  both<bf16_t>("both, hadamard<12> and random_hadamard<20>", with<mxfp4, hadamard<12>>{},
               with<nvfp4, random_hadamard<20>>{.rotation = {7, 3}});
  both<float>("both, hadamard<32> and hadamard<256>", with<mxfp4, hadamard<32>>{}, with<mxfp4, hadamard<256>>{});
  seed_in_memory const seed, other{{5, 6}};
  on_device given = seed.given();
  with<mxfp4, random_hadamard<16>> const rows{};
  with<nvfp4, random_hadamard<128>, two_level, stochastic<8>> const cols{};
  both<bf16_t>("both, seed in device memory", seed(rows), seed(cols), rows, cols, given);
  given.cols_seed = other.memory.data;
  both<bf16_t>("both, two seeds in device memory", seed(rows), other(cols), rows, cols, given);
  with<mxfp4, random_hadamard<256>, ocp_floor, stochastic<8>> const longer{};
  both<bf16_t>("both, two seeds in device memory, two reads", seed(longer), other(cols), longer, cols, given);
  using tile = operand<square<mxfp4, 32>, ceil_scale, stochastic<8>>;
  both<bf16_t>("both, two seeds in device memory, squares", seed(tile{}), other(tile{}), tile{}, tile{}, given);
}

void rotations() {
  rotate<float>("rotate, float, hadamard<12>", hadamard<12>{});
  rotate<bf16_t>("rotate, bf16, random_hadamard<20>", random_hadamard<20>{7, 3});
  rotate<fp16_t>("rotate, fp16, signed_hadamard<56>", signed_hadamard<56>{0x9f1e'57c3'a0b6'd7e8});
  rotate<bf16_t>("rotate, bf16, random_hadamard<128>", random_hadamard<128>{7, 3});
  rotate<bf16_t>("rotate, bf16, random_hadamard<256>", random_hadamard<256>{7, 3});
  rotate<float>("rotate, float, hadamard<512>", hadamard<512>{});
  rotate<bf16_t>("rotate, bf16, hadamard<3584>", hadamard<3584>{});
  rotate<float>("rotate, float, random_hadamard<4096>", random_hadamard<4096>{7, 3});
  rotate_seeded<bf16_t>("rotate, bf16, random_hadamard<64>, seed in device memory", random_hadamard<64>{});
  rotate_seeded<float>("rotate, float, random_hadamard<12>, seed in device memory", random_hadamard<12>{});
}

}  // namespace

int main() {
  if (!device::has()) return 2;
  random_signs();
  long_runs();
  paley_runs();
  two_outputs();
  rotations();
  check(cudaDeviceSynchronize());
  return report();
}
