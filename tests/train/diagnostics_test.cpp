// SPDX-License-Identifier: Apache-2.0
// The diagnostics: known numbers by hand, random tensors against plain loops over codes, laws, views, specials,
// refusals.
#include <doctest/doctest.h>

#include <cmath>

#include "block/block_check.hpp"
#include "loft/train.hpp"

namespace {

using loft::status;
using test::buffers, test::content, test::contents, test::plain, test::shape, test::shapes, test::tensor, test::view_of;
using test::infinity, test::not_a_number;

using formats_under_test = std::tuple<loft::mxfp4, loft::mxfp8_e4m3, loft::mxfp8_e5m2, loft::mxint8, loft::nvfp4,
                                      loft::square<loft::mxfp4, 32>, loft::square<loft::nvfp4, 16>>;

// A quantized tensor with its decoded floats.
template <class B, class Operand = loft::operand<B>> struct quantized {
  shape s;
  Operand how;
  buffers<B> codes;
  std::vector<float> values;

  quantized(std::vector<float> const& x, shape extent, Operand const& operand = {})
      : s{extent}, how{operand}, codes(s.rows, s.cols), values(x.size()) {
    REQUIRE(loft::quantize(view_of(x, s), codes.view(), how) == status::ok);
    REQUIRE(loft::dequantize(codes.view(), loft::matrix_view<float>{values.data(), s.rows, s.cols, s.cols}, how) ==
            status::ok);
  }
};

// The same sums by a loop over elements: the table of the oracle says which code is the largest.
template <class B> struct expectation {
  loft::element_counts counts;
  loft::error_parts parts;
  loft::signal_and_noise energies;

  expectation(std::vector<float> const& x, quantized<B> const& q) {
    std::uint32_t const max_code = test::table_of<typename B::element>().max_code;
    auto const sign = 1u << (B::element::spec.bits() - 1);
    for (std::int64_t r = 0; r < q.s.rows; ++r) {
      loft::error_parts row;
      double signal = 0, noise = 0;
      for (std::int64_t c = 0; c < q.s.cols; ++c) {
        auto const i = static_cast<std::size_t>(r * q.s.cols + c);
        ++counts.elements;
        counts.nonfinite += !std::isfinite(x[i]);
        if (!std::isfinite(x[i]) || !std::isfinite(q.values[i])) {
          ++parts.left_out, ++energies.left_out;
          continue;
        }
        double const error = std::pow(static_cast<double>(x[i] - q.values[i]), 2);
        std::uint32_t const code = q.codes.code(r, c);
        bool const largest = B::element::spec.twos_complement ? code == max_code || code == 2 * sign - max_code
                                                              : (code & ~sign) == max_code;
        signal += std::pow(static_cast<double>(x[i]), 2), noise += error;
        if (x[i] != 0 && q.values[i] == 0) {
          ++counts.flushed, row.dead_zone += error;
        } else if (largest && std::fabs(x[i]) > std::fabs(q.values[i])) {
          ++counts.saturated, row.scale_bias += error;
        } else {
          row.grid += error;
        }
      }
      parts.scale_bias += row.scale_bias, parts.dead_zone += row.dead_zone, parts.grid += row.grid;
      energies.signal += signal, energies.noise += noise;
    }
    counts.blocks = static_cast<std::int64_t>(q.codes.scale_count());
    for (std::size_t b = 0; b < q.codes.scale_count(); ++b)
      counts.nan_blocks += q.codes.scale(b) == test::table_of<typename B::scale>().nan_code;
  }
};

void check_equal(loft::element_counts const& a, loft::element_counts const& b) {
  CHECK(a.elements == b.elements);
  CHECK(a.blocks == b.blocks);
  CHECK(a.nonfinite == b.nonfinite);
  CHECK(a.nan_blocks == b.nan_blocks);
  CHECK(a.saturated == b.saturated);
  CHECK(a.flushed == b.flushed);
}

}  // namespace

TEST_CASE("decibels are the decimal logarithm") {
  CHECK(loft::decibels(1.0) == 0.0);
  CHECK(loft::decibels(0.0) == -HUGE_VAL);
  CHECK(loft::decibels(HUGE_VAL) == HUGE_VAL);
  double worst = 0, worst_relative = 0;
  test::noise next{99};
  for (int e = -1074; e <= 1023; ++e) {
    for (int i = 0; i < 20; ++i) {
      double const x = std::ldexp(1 + std::fabs(static_cast<double>(next.value(0, 0))), e);
      if (std::isinf(x)) continue;
      double const error = std::fabs(loft::detail::log10(x) - std::log10(x));
      worst = std::fmax(worst, error);
      if (e == 0) worst_relative = std::fmax(worst_relative, error / std::log10(x));
    }
  }
  CHECK(worst < 1e-12);
  CHECK(worst_relative < 1e-14);
  CHECK(std::fabs(loft::detail::log10(1 + 0x1p-40) / std::log10(1 + 0x1p-40) - 1) < 1e-14);
  CHECK(std::fabs(loft::decibels(2.0) - 10 * std::log10(2.0)) < 1e-14);
  static_assert(loft::decibels(1e3) > 29.999999999999 && loft::decibels(1e3) < 30.000000000001);
}

TEST_CASE("signal and noise of a few numbers") {
  std::vector<float> const x = {3, -4, 12, not_a_number, 1, 0}, y = {3, -3, 10, 5, infinity, 0};
  loft::signal_and_noise out;
  REQUIRE(loft::signal_to_quantization_noise(view_of(x, {2, 3}), view_of(y, {2, 3}), out) == status::ok);
  CHECK(out.signal == 9 + 16 + 144);
  CHECK(out.noise == 1 + 4);
  CHECK(out.left_out == 2);
  CHECK(out.ratio() == 169.0 / 5);
  CHECK(std::fabs(out.decibels() - 10 * std::log10(33.8)) < 1e-12);
  REQUIRE(loft::signal_to_quantization_noise(view_of(x, {1, 3}), view_of(x, {1, 3}), out) == status::ok);
  CHECK(out.noise == 0);
  CHECK(out.ratio() == HUGE_VAL);
  CHECK(out.decibels() == HUGE_VAL);
  std::vector<loft::bf16_t> const z = {loft::bf16_t{3.0f}, loft::bf16_t{-3.0f}, loft::bf16_t{10.0f}};
  REQUIRE(loft::signal_to_quantization_noise(view_of(x, {1, 3}), view_of(z, {1, 3}), out) == status::ok);
  CHECK(out.noise == 5);
}

TEST_CASE("the parts of the error of one block, by hand") {
  // amax 7.5: the OCP rule gives the scale 1, so that E2M1 holds 0 .5 1 1.5 2 3 4 6.
  std::vector<float> const x = {7.5f, -6.5f, 0.25f, -0.125f, 0.0f, -0.0f, 2.75f, 1.0f, 5.0f, 6.0f};
  quantized<loft::mxfp4> q{x, {1, 10}};
  loft::error_parts parts;
  REQUIRE(loft::split_error(view_of(x, q.s), q.codes.view(), parts, q.how) == status::ok);
  CHECK(parts.scale_bias == 1.5 * 1.5 + 0.5 * 0.5);
  CHECK(parts.dead_zone == 0.25 * 0.25 + 0.125 * 0.125);
  CHECK(parts.grid == 0.25 * 0.25 + 1.0);
  CHECK(parts.left_out == 0);
  loft::signal_and_noise energies;
  REQUIRE(loft::signal_to_quantization_noise(view_of(x, q.s), view_of(q.values, q.s), energies) == status::ok);
  CHECK(parts.total() == energies.noise);
  loft::element_counts counts;
  REQUIRE(loft::count_elements(view_of(x, q.s), q.codes.view(), counts, q.how) == status::ok);
  CHECK(counts.elements == 10);
  CHECK(counts.blocks == 1);
  CHECK(counts.saturated == 2);
  CHECK(counts.flushed == 2);
  // Under the truncation-free rule nothing saturates: the scale bias is gone.
  quantized<loft::mxfp4, loft::operand<loft::mxfp4, loft::ceil_scale>> ceiling{x, {1, 10}};
  REQUIRE(loft::split_error(view_of(x, q.s), ceiling.codes.view(), parts, ceiling.how) == status::ok);
  CHECK(parts.scale_bias == 0);
  CHECK(parts.dead_zone > 0);
}

TEST_CASE_TEMPLATE_DEFINE("counts and parts equal plain loops over the codes", B, against_loops) {
  std::int64_t saturated = 0, flushed = 0, nan_blocks = 0;
  for (content const kind : contents) {
    CAPTURE(static_cast<int>(kind));
    for (shape const s : shapes) {
      std::vector<float> const x = tensor(kind, s);
      quantized<B> q{x, s};
      expectation<B> const expected{x, q};
      loft::element_counts counts;
      REQUIRE(loft::count_elements(view_of(x, s), q.codes.view(), counts, q.how) == status::ok);
      check_equal(counts, expected.counts);
      loft::error_parts parts;
      REQUIRE(loft::split_error(view_of(x, s), q.codes.view(), parts, q.how) == status::ok);
      CHECK(parts.scale_bias == expected.parts.scale_bias);
      CHECK(parts.dead_zone == expected.parts.dead_zone);
      CHECK(parts.grid == expected.parts.grid);
      CHECK(parts.left_out == expected.parts.left_out);
      loft::signal_and_noise energies;
      REQUIRE(loft::signal_to_quantization_noise(view_of(x, s), view_of(q.values, s), energies) == status::ok);
      CHECK(energies.signal == expected.energies.signal);
      CHECK(energies.noise == expected.energies.noise);
      CHECK(energies.left_out == expected.energies.left_out);
      // The same terms in another order: each of at most 7000 additions rounds once.
      CHECK(std::fabs(parts.total() - energies.noise) <= 7000 * 0x1p-53 * energies.noise);
      saturated += counts.saturated, flushed += counts.flushed, nan_blocks += counts.nan_blocks;
    }
  }
  // The tensors hold some of everything, or the comparison would show nothing.
  CHECK(saturated > 0);
  CHECK(flushed > 0);
  CHECK(nan_blocks > 0);
}
TEST_CASE_TEMPLATE_APPLY(against_loops, formats_under_test);

TEST_CASE("a block's alternative element has a largest code of its own") {
  shape const s{4, 64};
  std::vector<float> const x = tensor(content::ordinary, s);
  quantized<loft::if4> q{x, s};
  std::int64_t saturated = 0, alternatives = 0;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t c = 0; c < s.cols; ++c) {
      bool const integer = (q.codes.scale(static_cast<std::size_t>(r * 4 + c / 16)) & 0x80) != 0;
      std::uint32_t const code = q.codes.code(r, c);
      bool const largest = integer ? code == 7 || code == 9 : code == 7 || code == 15;
      auto const i = static_cast<std::size_t>(r * s.cols + c);
      alternatives += integer;
      saturated += largest && std::fabs(x[i]) > std::fabs(q.values[i]);
    }
  }
  CHECK(alternatives > 0);
  CHECK(alternatives < s.rows * s.cols);
  loft::element_counts counts;
  REQUIRE(loft::count_elements(view_of(x, s), q.codes.view(), counts, q.how) == status::ok);
  CHECK(counts.saturated == saturated);
  CHECK(saturated > 0);
}

TEST_CASE("scales with levels, tiled scales, transposed views, bf16 inputs") {
  shape const s{37, 128};
  std::vector<float> const x = tensor(content::ordinary, s);
  loft::error_parts parts, other;
  quantized<loft::mxfp4> q{x, s};
  REQUIRE(loft::split_error(view_of(x, s), q.codes.view(), parts, q.how) == status::ok);

  std::vector<std::uint8_t> tiled(static_cast<std::size_t>(loft::scale_count<loft::mxfp4, loft::tiled_128x4>(37, 128)));
  loft::quantized_view<loft::mxfp4, loft::tiled_128x4> const view{q.codes.view().codes, tiled.data(), nullptr, 37, 128};
  REQUIRE(loft::quantize(view_of(x, s), view, q.how) == status::ok);
  REQUIRE(loft::split_error(view_of(x, s), view, other, q.how) == status::ok);
  CHECK(other.total() == parts.total());

  std::vector<float> columns(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) columns[i % 128 * 37 + i / 128] = x[i];
  REQUIRE(loft::split_error(loft::transposed(view_of(columns, {128, 37})), q.codes.view(), other, q.how) == status::ok);
  CHECK(other.total() == parts.total());
  loft::quantized_view<loft::mxfp4 const> const read_only = q.codes.view();
  REQUIRE(loft::split_error(view_of(x, s), read_only, other, q.how) == status::ok);
  CHECK(other.total() == parts.total());

  std::vector<std::uint8_t> codes(static_cast<std::size_t>(loft::codes_bytes<loft::hif4>(37, 128)));
  std::vector<loft::hif4_levels> levels(static_cast<std::size_t>(loft::scale_count<loft::hif4>(37, 128)));
  std::vector<float> values(x.size());
  loft::quantized_view<loft::hif4> const h{codes.data(), levels.data(), nullptr, 37, 128};
  loft::operand<loft::hif4> const how;
  std::vector<loft::bf16_t> short_x;
  for (float const v : x) short_x.emplace_back(v);
  REQUIRE(loft::quantize(view_of(short_x, s), h, how) == status::ok);
  REQUIRE(loft::dequantize(h, loft::matrix_view<float>{values.data(), 37, 128, 128}, how) == status::ok);
  REQUIRE(loft::split_error(view_of(short_x, s), h, parts, how) == status::ok);
  loft::signal_and_noise energies;
  REQUIRE(loft::signal_to_quantization_noise(view_of(short_x, s), view_of(values, s), energies) == status::ok);
  CHECK(energies.noise > 0);
  CHECK(parts.total() == doctest::Approx(energies.noise).epsilon(1e-12));
}

TEST_CASE("with a rotation the parts are those of the rotated values") {
  shape const s{6, 64};
  std::vector<float> const x = tensor(content::ordinary, s);
  std::vector<float> rotated = x;
  loft::signed_hadamard<16> const rotation{0x9a5c};
  for (std::size_t i = 0; i < x.size(); i += 16) rotation.apply(rotated.data() + i);
  using turned = loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::signed_hadamard<16>>;
  quantized<loft::mxfp4, turned> q{x, s, turned{.rotation = rotation}};
  quantized<loft::mxfp4> before{rotated, s};
  loft::error_parts got, expected;
  REQUIRE(loft::split_error(view_of(x, s), q.codes.view(), got, q.how) == status::ok);
  REQUIRE(loft::split_error(view_of(rotated, s), before.codes.view(), expected, before.how) == status::ok);
  CHECK(got.scale_bias == expected.scale_bias);
  CHECK(got.dead_zone == expected.dead_zone);
  CHECK(got.grid == expected.grid);
  loft::crest_factors a, b;
  REQUIRE(loft::crest_factor(view_of(x, s), a, q.how) == status::ok);
  REQUIRE(loft::crest_factor(view_of(rotated, s), b, before.how) == status::ok);
  CHECK(a.mean == b.mean);
  CHECK(a.largest == b.largest);
}

TEST_CASE("crest factors: equal magnitudes, one spike, blocks without one, ragged and square blocks") {
  loft::crest_factors out;
  std::vector<float> x(100, 0.0f);
  for (std::size_t i = 0; i < 16; ++i) x[i] = i % 2 == 0 ? 0.75f : -0.75f;  // crest 1
  x[20] = -3.0f;                                                            // crest sqrt(16)
  x[33] = not_a_number, x[50] = infinity;                                   // none, and 64..95 are zeros
  x[97] = 1e-44f;                                                           // 4 of them left: crest sqrt(4)
  REQUIRE(loft::crest_factor(view_of(x, {1, 100}), out, loft::operand<loft::nvfp4>{}) == status::ok);
  CHECK(out.blocks == 3);
  CHECK(out.left_out == 4);
  CHECK(out.largest == doctest::Approx(4).epsilon(1e-15));
  CHECK(out.mean == doctest::Approx(7.0 / 3).epsilon(1e-15));
  REQUIRE(loft::crest_factor<loft::operand<loft::square<loft::mxfp4, 8>>>(view_of(x, {10, 10}), out) == status::ok);
  // NaN and infinity stand in the first tile; x[8] and x[9] in the next, of 8 x 2; x[97] in the third, of 2 x 8; then
  // zeros.
  CHECK(out.left_out == 2);
  CHECK(out.blocks == 2);
  CHECK(out.largest == doctest::Approx(4).epsilon(1e-15));
  CHECK(out.mean == doctest::Approx((4 + std::sqrt(8.0)) / 2).epsilon(1e-15));
  std::vector<float> const big = tensor(content::huge, {33, 70});
  REQUIRE(loft::crest_factor<loft::operand<loft::mxfp8_e4m3>>(view_of(big, {33, 70}), out) == status::ok);
  double sum = 0, most = 0;
  for (std::size_t r = 0; r < 33; ++r) {
    for (std::size_t first = 0; first < 70; first += 32) {
      double squares = 0, amax = 0;
      std::size_t const count = std::min<std::size_t>(32, 70 - first);
      for (std::size_t i = 0; i < count; ++i) {
        double const v = big[r * 70 + first + i];
        squares += v * v, amax = std::fmax(amax, std::fabs(v));
      }
      double const crest = amax / std::sqrt(squares / static_cast<double>(count));
      sum += crest, most = std::fmax(most, crest);
    }
  }
  CHECK(out.blocks == 99);
  CHECK(out.mean == doctest::Approx(sum / 99).epsilon(1e-14));
  CHECK(out.largest == doctest::Approx(most).epsilon(1e-14));
}

TEST_CASE("rows against columns: known numbers, and nothing for square blocks") {
  std::vector<float> const a = {1, 2, 0.0f, not_a_number, not_a_number, 4},
                           b = {1, 1, -0.0f, not_a_number, 3, infinity};
  loft::transposition_mismatch out;
  REQUIRE(loft::compare_transposition(view_of(a, {2, 3}), view_of(b, {2, 3}), out) == status::ok);
  CHECK(out.elements == 6);
  CHECK(out.different == 3);
  CHECK(out.left_out == 3);
  CHECK(out.share() == 0.5);
  CHECK(out.difference == 1);
  CHECK(out.signal == 5);
  CHECK(out.relative() == 0.2);

  shape const s{64, 96};
  std::vector<float> const x = tensor(content::ordinary, s);
  std::vector<float> rows(x.size()), cols(x.size());
  auto const both = [&]<class B>(B) {
    loft::matrix_view<float> const to_rows{rows.data(), 64, 96, 96}, to_cols{cols.data(), 64, 96, 96};
    REQUIRE(loft::fake_quantize(view_of(x, s), to_rows, loft::operand<B>{}) == status::ok);
    REQUIRE(loft::fake_quantize(loft::transposed(view_of(x, s)), loft::transposed(to_cols), loft::operand<B>{}) ==
            status::ok);
    REQUIRE(loft::compare_transposition(view_of(rows, s), view_of(cols, s), out) == status::ok);
    return out;
  };
  loft::transposition_mismatch const one_row = both(loft::mxfp4{});
  std::int64_t different = 0;
  for (std::size_t i = 0; i < x.size(); ++i) different += rows[i] != cols[i];
  CHECK(one_row.different == different);
  CHECK(one_row.share() > 0.01);
  CHECK(one_row.share() < 1);
  CHECK(one_row.relative() > 0);
  CHECK(one_row.relative() < 0.1);
  loft::transposition_mismatch const tile = both(loft::square<loft::mxfp4, 32>{});
  CHECK(tile.different == 0);
  CHECK(tile.difference == 0);
  CHECK(tile.relative() == 0);
}

TEST_CASE("nonfinite::saturate: an infinity is a saturated value of a good block") {
  std::vector<float> const x = {1.0f, -infinity, 0.0f, 2.0f};
  using operand = plain<loft::mxfp4, loft::nearest_even, loft::nonfinite::saturate>;
  quantized<loft::mxfp4, operand> q{x, {1, 4}};
  loft::element_counts counts;
  REQUIRE(loft::count_elements(view_of(x, q.s), q.codes.view(), counts, q.how) == status::ok);
  CHECK(counts.nonfinite == 1);
  CHECK(counts.nan_blocks == 0);
  CHECK(counts.saturated == 1);
  CHECK(counts.flushed == 2);
}

TEST_CASE("empty tensors and tensors of zeros") {
  loft::signal_and_noise energies{1, 2, 3};
  loft::element_counts counts{1, 2, 3, 4, 5, 6};
  loft::error_parts parts{1, 2, 3, 4};
  loft::crest_factors crest{1, 2, 3, 4};
  loft::transposition_mismatch mismatch{1, 2, 3, 4, 5};
  loft::operand<loft::nvfp4> const how;
  loft::matrix_view<float const> const none{nullptr, 0, 5, 5};
  loft::quantized_view<loft::nvfp4> const no_codes{nullptr, nullptr, nullptr, 0, 5};
  REQUIRE(loft::signal_to_quantization_noise(none, none, energies) == status::ok);
  CHECK(energies.signal + energies.noise == 0);
  CHECK(energies.left_out == 0);
  REQUIRE(loft::count_elements(none, no_codes, counts, how) == status::ok);
  check_equal(counts, {});
  REQUIRE(loft::split_error(none, no_codes, parts, how) == status::ok);
  CHECK(parts.total() == 0);
  CHECK(parts.left_out == 0);
  REQUIRE(loft::crest_factor(none, crest, how) == status::ok);
  CHECK(crest.mean == 0);
  CHECK(crest.blocks + crest.left_out == 0);
  REQUIRE(loft::compare_transposition(none, none, mismatch) == status::ok);
  CHECK(mismatch.share() == 0);
  CHECK(mismatch.relative() == 0);

  std::vector<float> const zeros(40, -0.0f);
  quantized<loft::nvfp4> q{zeros, {2, 20}};
  REQUIRE(loft::count_elements(view_of(zeros, q.s), q.codes.view(), counts, how) == status::ok);
  check_equal(counts, {.elements = 40, .blocks = 4});
  REQUIRE(loft::crest_factor(view_of(zeros, q.s), crest, how) == status::ok);
  CHECK(crest.left_out == 4);
}

TEST_CASE("what does not fit is refused, and nothing is written") {
  std::vector<float> const x(64, 1.0f);
  quantized<loft::nvfp4> q{x, {4, 16}};
  loft::signal_and_noise energies{1, 2, 3};
  loft::element_counts counts{.elements = 7};
  loft::error_parts parts{.grid = 7};
  loft::crest_factors crest{.mean = 7};
  auto const in = view_of(x, {4, 16}), other = view_of(x, {2, 16});
  CHECK(loft::signal_to_quantization_noise(in, other, energies) == status::shape_mismatch);
  CHECK(loft::signal_to_quantization_noise(in, loft::matrix_view<float const>{nullptr, 4, 16, 16}, energies) ==
        status::null_pointer);
  CHECK(loft::count_elements(other, q.codes.view(), counts, q.how) == status::shape_mismatch);
  CHECK(loft::split_error(other, q.codes.view(), parts, q.how) == status::shape_mismatch);
  auto view = q.codes.view();
  view.tensor_scale = nullptr;
  CHECK(loft::count_elements(in, view, counts, q.how) == status::missing_tensor_scale);
  using turned = loft::operand<loft::nvfp4, loft::two_level, loft::nearest_even, loft::hadamard<32>>;
  CHECK(loft::split_error(in, q.codes.view(), parts, turned{}) == status::rotation_does_not_divide);
  CHECK(loft::crest_factor(in, crest, turned{}) == status::rotation_does_not_divide);
  CHECK(energies.noise == 2);
  CHECK(counts.elements == 7);
  CHECK(parts.grid == 7);
  CHECK(crest.mean == 7);
}

TEST_CASE("everything works in a constant expression") {
  static constexpr auto parts = [] {
    float const x[4] = {7.5f, 0.25f, 2.75f, 0.0f};
    std::uint8_t codes[2] = {}, scales[1] = {};
    loft::quantized_view<loft::mxfp4> const q{codes, scales, nullptr, 1, 4};
    loft::operand<loft::mxfp4> const how;
    loft::error_parts out;
    if (loft::quantize(loft::matrix_view<float const>{x, 1, 4, 4}, q, how) != status::ok) return out;
    if (loft::split_error(loft::matrix_view<float const>{x, 1, 4, 4}, q, out, how) != status::ok)
      return loft::error_parts{};
    return out;
  }();
  static_assert(parts.scale_bias == 2.25 && parts.dead_zone == 0.0625 && parts.grid == 0.0625);
  CHECK(parts.total() == 2.375);
}
