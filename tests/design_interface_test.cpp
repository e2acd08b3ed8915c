// SPDX-License-Identifier: Apache-2.0
// Every declaration of the public interface as section 3 of the design has it, used once. What is checked is that names,
// parameters and their order are those; what the functions compute is checked elsewhere.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "loft/gnmr.hpp"
#include "loft/loft.hpp"

namespace {

using namespace loft;

template <class... F> constexpr bool are_formats = (... && Format<F>);
template <class... R> constexpr bool are_roundings = (... && Rounding<R>);
template <class... B> constexpr bool are_block_formats = (... && BlockFormat<B>);
template <class B, class... Rule> constexpr bool are_rules = (... && ScaleRule<Rule, B>);
template <class... R> constexpr bool are_rotations = (... && Rotation<R>);
template <class... L> constexpr bool are_layouts = (... && ScaleLayout<L>);

static_assert(are_formats<e1m2, e2m1, e2m3, e3m2, e4m3, ue4m3, ue5m3, e8m0, e6m2, e5m2, e3m4, bf16, fp16, e4m3fnuz,
                          e5m2fnuz, int4, int6, int8>);
static_assert(are_roundings<nearest_even, nearest_away, toward_zero, away_from_zero, upward, downward, to_odd,
                            stochastic<>, stochastic<8, philox4x32<7>>, stochastic_word<3>, truncated_stochastic<16>,
                            truncated_stochastic_word<5>>);
static_assert(are_block_formats<mxfp4, mxfp6_e2m3, mxfp6_e3m2, mxfp8_e4m3, mxfp8_e5m2, mxint8, nvfp4, nvint4, if4, hif4,
                                square<mxfp4, 32>>);
static_assert(are_rules<mxfp4, ocp_floor, ceil_scale, even_scale, nearest_scale, fixed_scale>);
static_assert(are_rules<nvfp4, two_level, four_over_six<squared_error>, four_over_six<absolute_error>,
                        four_over_six<maximal_error>>);
static_assert(are_rotations<no_rotation, hadamard<32>, signed_hadamard<16>>);
static_assert(are_layouts<row_major, col_major, tiled_128x4>);

// A format of one's own has the members that the design names, in that order.
struct e3m1 {
  static constexpr format_spec spec{3, 1, 3, specials::none, true};
};
static_assert(Format<e3m1> && specials::nan != specials::ieee && specials::ieee != specials::fnuz);
static_assert(std::is_same_v<code<e3m1>, std::uint8_t> && std::is_same_v<code<bf16>, std::uint16_t>);

// A block format of one's own.
struct mx_e3m1 {
  using element = e3m1;
  using scale = e8m0;
  static constexpr block_shape shape{1, 32};
};
static_assert(BlockFormat<mx_e3m1> && block_shape{2, 3}.rows == 2 && block_shape{2, 3}.cols == 3);

// An operand is a format, a rule, a rounding, a rotation and a policy.
using full = operand<nvfp4, two_level, stochastic<>, signed_hadamard<16>, nonfinite::saturate>;
static_assert(Operand<full> && Operand<operand<mxfp4>> && !Operand<mxfp4>);
static_assert(std::is_same_v<full::format, nvfp4>);
static_assert(no_rotation::size == 1 && hadamard<32>::size == 32);

}  // namespace

TEST_CASE("design section 3: one number") {
  static_assert(encode<e4m3>(448.0f) == 0x7e && encode<e4m3>(448.0) == 0x7e && encode<e4m3>(bf16_t{448.0f}) == 0x7e);
  static_assert(encode<e4m3, overflow::special>(1e9f) == 0x7f);
  static_assert(encode<e2m1, overflow::saturate, toward_zero>(5.9f, toward_zero{}, 7) == 0b0110);
  static_assert(decode<e2m1>(code<e2m1>{0b0111}) == 6.0f);

  e2m1_t const x = e2m1_t::from_bits(0b0011);
  CHECK(x.bits() == 3);
  CHECK(static_cast<float>(x) == 1.5f);
  CHECK(x == minifloat<e2m1>{1.5f});
  CHECK(x < e2m1_t{2.0f});
  static_assert(std::numeric_limits<e4m3_t>::is_specialized && sizeof(fp16_t) == 2);

  stochastic<> const rounding{.seed = 1, .stream = 2};
  CHECK(encode<e2m1>(1.0f, rounding, 5) == 0b0010);  // what is exact never moves
  CHECK(encode<e2m1>(1.25f, stochastic_word<4>{15}) == 0b0011);
  constexpr u32x4 block = philox4x32<10>{}(u32x4{0, 0, 0, 0}, u32x2{0, 0});
  static_assert(block.x == 0x6627e8d5u && block.w == 0x9b00dbd8u);
  CHECK(random_bits<16, philox4x32<10>>(0, 0, 0) == (block.x & 0xffffu));
}

TEST_CASE("design section 3: one block") {
  constexpr tensor_scale t = tensor_scale_for<nvfp4>(2688.0f);
  static_assert(t.encode == 1.0f && t.decode == 1.0f && tensor_scale{}.encode == 1.0f);
  float const values[32] = {6.0f, -3.0f};
  block<nvfp4> const two = quantize_block(values, 16, operand<nvfp4>{}, t, 100);
  block<mxfp4> const one = quantize_block(values, 32, operand<mxfp4>{});
  CHECK(two.codes[0] == 0b0111);
  CHECK(one.codes[1] == 0b1101);
  CHECK(one.scale == 127);
  float run[16] = {1.0f};
  signed_hadamard<16> const rotation{.signs = 0x9a5c};
  rotation.apply(run);
  rotation.invert(run);
  CHECK(run[0] == 1.0f);
}

TEST_CASE("design section 3: a tensor") {
  constexpr std::int64_t rows = 3, cols = 64;
  std::vector<float> x(rows * cols, 1.5f), y(rows * cols);
  matrix_view<float const> const in{x.data(), rows, cols}, turned{x.data(), cols, rows, 1, cols};
  matrix_view<float> const out{y.data(), rows, cols};
  matrix_view<float const> const reads = out;
  CHECK(reads(2, 63) == 0.0f);
  CHECK(turned(63, 2) == 1.5f);

  std::vector<std::uint8_t> codes(static_cast<std::size_t>(codes_bytes<mxfp4>(rows, cols)));
  std::vector<code<e8m0>> scales(static_cast<std::size_t>(scale_count<mxfp4, tiled_128x4>(rows, cols)));
  quantized_view<mxfp4, tiled_128x4> const tiled{codes.data(), scales.data(), nullptr, rows, cols};
  quantized_view<mxfp4 const, tiled_128x4> const read_only = tiled;
  CHECK(scales.size() == 512);
  CHECK(scale_count<mxfp4>(rows, cols) == 6);

  CHECK(quantize<operand<mxfp4>>(in, tiled) == status::ok);
  CHECK(dequantize<operand<mxfp4>>(read_only, out) == status::ok);
  CHECK(y == x);
  std::vector<bf16_t> half(x.size());
  matrix_view<bf16_t> const to_half{half.data(), rows, cols};
  CHECK(dequantize<operand<mxfp4>>(read_only, to_half) == status::ok);
  CHECK(fake_quantize<operand<mxfp4>>(in, to_half) == status::ok);
  CHECK(half[5] == bf16_t{1.5f});
  CHECK(fake_quantize<operand<mxfp4>>(in, out) == status::ok);

  quantized_tensor<nvfp4, col_major> q(rows, cols);
  operand<nvfp4> const how{.rule = {1.5f}};
  row_range const last{2, 1};
  CHECK(quantize(in, q.view(), how) == status::ok);
  CHECK(quantize(in, q.view(), how, last) == status::ok);
  CHECK(dequantize(q.view(), out, how, last) == status::ok);
  CHECK(fake_quantize(in, out, how, last) == status::ok);
  float amax = 0;
  CHECK(tensor_amax(in, how, amax) == status::ok);
  CHECK(amax == 1.5f);
  CHECK(tensor_amax<operand<mxfp4>>(in, amax) == status::ok);
  CHECK(message(quantize(turned, q.view(), how)) == message(status::shape_mismatch));
}

TEST_CASE("design section 3: the stability controller") {
  gnmr_options const options{
      .alpha = 1.1, .alpha_warmup = 1.5, .warmup_steps = 0, .beta = 1.5, .window = 5, .max_active = 1, .lock_steps = 1};
  gnmr<arithmetic_mean> const controller{options};
  static_assert(std::is_same_v<gnmr<>, gnmr<arithmetic_mean>>);
  std::vector<gnmr_unit> units(2);
  std::vector<double> const calm{1.0, 1.0}, jump{1.0, 9.0};
  std::span<double const> const norms{calm};
  int acted = -1;
  auto const act = [&](int unit, double risk) { acted = risk > 1 ? unit : -2; };
  CHECK(controller.step(units, norms, act).outcome == status::ok);
  CHECK(acted == -1);
  gnmr_report const report = controller.step(units, jump, act);
  CHECK(acted == 1);
  CHECK(report.triggered == 1);
  CHECK(report.active == 1);
  CHECK(report.evicted == 0);
  CHECK(report.nonfinite == 0);
  CHECK(!report.budget_hit);
}
