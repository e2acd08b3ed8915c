// SPDX-License-Identifier: Apache-2.0
// MS-EDEN against its formulas: codes, corrected scales and values exactly; and what it is for, a mean without bias.
#include <doctest/doctest.h>

#include <array>
#include <numbers>

#include "block_check.hpp"
#include "loft/loft.hpp"

namespace {

using test::content, test::shape, test::float_max;

struct how_rounded {
  int group = 128;
  std::uint64_t seed = 0, stream = 0;
  float known_amax = -1;
};

/// The formulas, one after the other, over values that are rotated already. Elements and scales by the oracle.
template <class B> class formulas {
 public:
  formulas(std::vector<float> values, shape s, how_rounded how)
      : x_{std::move(values)}, s_{s}, how_{how}, q_(x_.size()), step_(x_.size()) {}

  test::quantized run() {
    result_.codes.assign(x_.size(), 0);
    result_.values.assign(x_.size(), 0);
    largest_ = static_cast<float>(element_.max()) * static_cast<float>(1 / ((17.0 / 16.0) * 0.93));
    float amax = 0;
    for (float const v : x_) amax = std::isfinite(v) ? std::max(amax, std::fabs(v)) : amax;
    if (how_.known_amax >= 0) amax = how_.known_amax;
    encode_scale_ = amax == 0 ? 1.0f : std::min(largest_ * 256 / amax, float_max);
    result_.tensor_scale = 1.0f / encode_scale_;
    for (std::int64_t row = 0; row < s_.rows; ++row)
      for (std::int64_t first = 0; first < s_.cols; first += how_.group)
        one_group(row * s_.cols, first, std::min<std::int64_t>(first + how_.group, s_.cols));
    return result_;
  }

 private:
  static constexpr std::int64_t wide = B::shape.cols;

  void one_group(std::int64_t row, std::int64_t first, std::int64_t end) {
    std::vector<std::uint32_t> scales;
    for (std::int64_t b = first; b < end; b += wide)
      scales.push_back(one_block(row + b, row + std::min(b + wide, end)));
    double const c = factor_of(row, first, end);
    for (std::int64_t b = first; b < end; b += wide) {
      auto const index = static_cast<std::uint64_t>(row + b);
      std::uint32_t stored = scales[static_cast<std::size_t>((b - first) / wide)];
      if (stored != scale_.nan_code) {
        oracle::draw const draw{32, oracle::random_word(32, how_.seed, how_.stream, index)};
        stored =
            scale_.encode(c * scale_.decode(stored), oracle::rounding::stochastic, oracle::overflow::saturate, draw);
      }
      result_.scales.push_back(stored);
      for (auto i = static_cast<std::size_t>(index); i < static_cast<std::size_t>(row + std::min(b + wide, end)); ++i)
        result_.values[i] =
            static_cast<float>(element_.decode(result_.codes[i]) * scale_.decode(stored)) * result_.tensor_scale;
    }
  }

  /// Codes, and in q_ what they stand for, the tensor's scale left out. Returns the scale that they were made with.
  std::uint32_t one_block(std::int64_t first, std::int64_t end) {
    float amax = 0;
    bool finite = true;
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
      finite = finite && std::isfinite(x_[i]);
      amax = std::max(amax, std::fabs(x_[i]));
    }
    float const unit = encode_scale_ * (1.0f / largest_);
    std::uint32_t const code = finite ? scale_.encode(amax * unit) : scale_.nan_code;
    double const scale = scale_.decode(code);
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
      float const multiplier = std::min(1.0f / (static_cast<float>(scale) * result_.tensor_scale), float_max);
      float const scaled = x_[i] * multiplier;
      if (finite) result_.codes[i] = element_.encode(scale == 0 ? std::copysign(0.0, x_[i]) : scaled);
      q_[i] = element_.decode(result_.codes[i]) * scale;
    }
    return code;
  }

  /// Sums of eights in order, then of neighbours, of neighbours of those, and so on.
  double factor_of(std::int64_t row, std::int64_t first, std::int64_t end) {
    std::vector<double> squares, products;
    for (std::int64_t at = first; at < first + how_.group; at += 8) {
      squares.push_back(0), products.push_back(0);
      for (auto i = static_cast<std::size_t>(row + at); i < static_cast<std::size_t>(row + std::min(at + 8, end));
           ++i) {
        squares.back() += static_cast<double>(x_[i]) * static_cast<double>(x_[i]);
        products.back() += static_cast<double>(x_[i]) * q_[i];
      }
    }
    auto const halve = [](std::vector<double>& v) {
      for (std::size_t i = 0; i < v.size() / 2; ++i) v[i] = v[2 * i] + v[2 * i + 1];
      v.resize(v.size() / 2);
    };
    while (squares.size() > 1) halve(squares), halve(products);
    double const below = products[0] * static_cast<double>(result_.tensor_scale);
    bool const usable = std::isfinite(squares[0]) && squares[0] > 0 && std::isfinite(below) && below > 0;
    return usable ? squares[0] / below : 1;
  }

  oracle::table const& element_ = test::table_of<typename B::element>();
  oracle::table const& scale_ = test::table_of<typename B::scale>();
  std::vector<float> x_;
  shape s_;
  how_rounded how_;
  std::vector<double> q_, step_;
  float largest_ = 0, encode_scale_ = 1;
  test::quantized result_;
};

constexpr shape some_shapes[] = {{1, 1}, {1, 16}, {3, 128}, {5, 37}, {2, 300}, {1, 1100}, {17, 100}, {2, 15}, {9, 129}};

template <class B, int Group> void check_formulas(float known_amax = -1) {
  loft::operand<B, loft::ms_eden<Group>> const how{.rule = {known_amax, 77, 1ull << 40 | 5}};
  how_rounded const same{Group, 77, 1ull << 40 | 5, known_amax};
  for (content const kind : test::contents) {
    CAPTURE(static_cast<int>(kind));
    for (shape const s : some_shapes) {
      CAPTURE(s.rows);
      CAPTURE(s.cols);
      auto const x = test::tensor(kind, s);
      auto const expected = formulas<B>(x, s, same).run();
      test::buffers<B> out(s.rows, s.cols);
      REQUIRE(quantize(test::view_of(x, s), out.view(), how) == loft::status::ok);
      test::compare(out, expected, s);
      std::vector<float> values(x.size());
      loft::matrix_view<float> const to{values.data(), s.rows, s.cols, s.cols};
      REQUIRE(dequantize(out.view(), to, how) == loft::status::ok);
      test::compare_values(values, expected.values, "dequantize");
      REQUIRE(fake_quantize(test::view_of(x, s), to, how) == loft::status::ok);
      test::compare_values(values, expected.values, "fake_quantize");
    }
  }
}

constexpr std::uint64_t signs = 0x9f1e'57c3'a0b6'd7e8;

}  // namespace

TEST_CASE("MS-EDEN: codes, corrected scales and values are those of the formulas") {
  check_formulas<loft::nvfp4, 128>();
  check_formulas<loft::nvfp4, 32>();
  check_formulas<loft::nvfp4, 16>();
  check_formulas<loft::nvfp4, 512>();
  check_formulas<loft::nvint4, 128>();
  check_formulas<loft::nvfp4, 128>(0.25f);  // most values are clipped: factors are large, and scales saturate
}

TEST_CASE("MS-EDEN: behind a rotation, of the group or shorter") {
  auto const check = []<int Group, int Size>(std::integral_constant<int, Group>, std::integral_constant<int, Size>) {
    shape const s{3, 256};
    auto const x = test::tensor(content::mixed_sizes, s);
    loft::signed_hadamard<Size> const rotation{signs};
    auto rotated = x;
    for (std::size_t i = 0; i < rotated.size(); i += Size) rotation.apply(rotated.data() + i);
    loft::operand<loft::nvfp4, loft::ms_eden<Group>, loft::nearest_even, loft::signed_hadamard<Size>> const how{
        {-1, 9, 4}, {}, rotation};
    test::buffers<loft::nvfp4> out(s.rows, s.cols), other(s.rows, s.cols);
    REQUIRE(quantize(test::view_of(x, s), out.view(), how) == loft::status::ok);
    test::compare(out, formulas<loft::nvfp4>(rotated, s, {Group, 9, 4}).run(), s);
    auto changed = how;
    changed.rule.seed = 10;
    REQUIRE(quantize(test::view_of(x, s), other.view(), changed) == loft::status::ok);
    CHECK(!(out == other));  // the control: scales of another seed
  };
  check(std::integral_constant<int, 128>{}, std::integral_constant<int, 128>{});
  check(std::integral_constant<int, 32>{}, std::integral_constant<int, 32>{});
  check(std::integral_constant<int, 128>{}, std::integral_constant<int, 16>{});
}

TEST_CASE("MS-EDEN: any view, any range of rows, and bfloat16 give the same bytes") {
  shape const s{37, 1500};
  auto const x = test::tensor(content::ordinary, s);
  std::vector<loft::bf16_t> const halves(x.begin(), x.end());
  std::vector<float> widened, columns(x.size());
  for (loft::bf16_t const h : halves) widened.push_back(static_cast<float>(h));
  for (std::size_t i = 0; i < widened.size(); ++i) columns[i % 1500 * 37 + i / 1500] = widened[i];
  float amax = 0;
  for (float const v : widened) amax = std::max(amax, std::fabs(v));
  using operand = loft::operand<loft::nvfp4, loft::ms_eden<>>;
  operand const how{.rule = {-1, 3, 8}};
  auto const done = [&](auto view, operand const& with, loft::row_range range, test::buffers<loft::nvfp4>& out) {
    REQUIRE(quantize(view, out.view(), with, range) == loft::status::ok);
  };
  test::buffers<loft::nvfp4> plain(s.rows, s.cols), half(s.rows, s.cols), strided(s.rows, s.cols),
      parts(s.rows, s.cols);
  done(test::view_of(widened, s), how, {}, plain);
  done(loft::matrix_view<loft::bf16_t const>{halves.data(), s.rows, s.cols, s.cols}, how, {}, half);
  done(loft::matrix_view<float const>{columns.data(), s.rows, s.cols, 1, s.rows}, how, {}, strided);
  for (std::int64_t row = 0; row < s.rows; row += 5)
    done(test::view_of(widened, s), how, {row, std::min<std::int64_t>(5, s.rows - row)}, parts);
  CHECK(half == plain);
  CHECK(strided == plain);
  CHECK(parts == plain);
  operand known = how;
  known.rule.amax = amax;
  done(test::view_of(widened, s), known, {}, parts);
  CHECK(parts == plain);
}

TEST_CASE("MS-EDEN: a block that is a whole group is a tensor of one block, also at compile time") {
  using operand = loft::operand<loft::nvfp4, loft::ms_eden<16>>;
  static constexpr std::array<float, 16> x{1, -2, 3, 0.5f, 5, -6, 7, 0.25f, -0.0f, 9, 1, 1, 2, 3, 4, 11};
  static constexpr operand how{.rule = {-1, 6, 7}};
  constexpr auto t = loft::tensor_scale_for<loft::nvfp4>(11, 6 * how.rule.shrink * 256);
  constexpr auto block = loft::quantize_block(x.data(), 16, how, t);
  test::buffers<loft::nvfp4> out(1, 16);
  REQUIRE(quantize(loft::matrix_view<float const>{x.data(), 1, 16, 16}, out.view(), how) == loft::status::ok);
  CHECK(out.scale(0) == block.scale);
  for (int i = 0; i < 16; ++i) CHECK(out.code(0, i) == block.codes[i]);
  // It is the largest block of the tensor: 256 before it is corrected by a few percent.
  float const scale = loft::decode<loft::ue4m3>(block.scale);
  CHECK(scale >= 240);
  CHECK(scale <= 288);
}

TEST_CASE("MS-EDEN: where one block of a group is not finite, the others keep the scales of their codes") {
  shape const s{1, 128};
  auto x = test::tensor(content::ordinary, s);
  test::buffers<loft::nvfp4> good(1, 128), bad(1, 128), plain(1, 128);
  loft::operand<loft::nvfp4, loft::ms_eden<>> const how{.rule = {8, 1, 2}};
  REQUIRE(quantize(test::view_of(x, s), good.view(), how) == loft::status::ok);
  x[40] = test::not_a_number;
  REQUIRE(quantize(test::view_of(x, s), bad.view(), how) == loft::status::ok);
  int changed = 0;
  for (std::size_t b = 0; b < 8; ++b) {
    float amax = 0;
    for (std::size_t i = 16 * b; i < 16 * b + 16; ++i) amax = std::max(amax, std::fabs(x[i]));
    auto const t = loft::tensor_scale_for<loft::nvfp4>(8, 6 * how.rule.shrink * 256);
    CHECK(bad.scale(b) == (b == 2 ? 0x7f : how.rule.scale<loft::nvfp4>(amax, t)));
    changed += b != 2 && good.scale(b) != bad.scale(b) ? 1 : 0;
  }
  CHECK(changed > 0);
}

// ---- the mean over seeds

namespace {

/// How far the mean over many seeds is from the values, in its own standard errors.
struct drift {
  double worst = 0, rms = 0;       // of the elements
  double along = 0, along_in = 0;  // along the values: the relative error, and that in standard errors
};

/// A sign for each element, fresh with each seed: before the transform and after its inverse, as a random rotation has it.
void flip(std::vector<float>& x, std::uint64_t seed) {
  for (std::size_t i = 0; i < x.size(); ++i)
    if (loft::random_bits<1>(seed, 2, i) != 0) x[i] = -x[i];
}

template <class Make> drift mean_drift(std::vector<float> const& x, shape s, Make make) {
  constexpr int seeds = 10000;
  std::vector<float> y(x.size());
  std::vector<double> sum(x.size()), squares(x.size());
  double power = 0, along = 0, along_squares = 0;
  for (float const v : x) power += static_cast<double>(v) * static_cast<double>(v);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    auto turned = x;
    flip(turned, seed);
    loft::matrix_view<float> const to{y.data(), s.rows, s.cols, s.cols};
    REQUIRE(fake_quantize(test::view_of(turned, s), to, make(seed)) == loft::status::ok);
    flip(y, seed);
    double error_along = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      double const d = static_cast<double>(y[i]) - static_cast<double>(x[i]);
      sum[i] += d, squares[i] += d * d;
      error_along += d * static_cast<double>(x[i]) / power;
    }
    along += error_along, along_squares += error_along * error_along;
  }
  auto const in_errors = [](double total, double total_squares) {
    double const mean = total / seeds;
    return mean / std::sqrt((total_squares / seeds - mean * mean) / seeds);
  };
  drift result{.along = along / seeds, .along_in = in_errors(along, along_squares)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const z = in_errors(sum[i], squares[i]);
    result.worst = std::max(result.worst, std::fabs(z));
    result.rms += z * z / static_cast<double>(x.size());
  }
  result.rms = std::sqrt(result.rms);
  return result;
}

std::vector<float> normal_numbers(shape s) {
  test::noise next{0x5eed5};
  std::vector<float> x(static_cast<std::size_t>(s.rows * s.cols));
  for (float& v : x) {
    double const u = (next() + 0.5) / 4294967296.0, w = (next() + 0.5) / 4294967296.0;
    v = static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * w));
  }
  return x;
}

}  // namespace

TEST_CASE("MS-EDEN: over 10000 seeds the mean is the tensor, within four standard errors; others are off") {
  using namespace loft;
  using rotation = hadamard<128>;
  shape const s{2, 128};
  auto const x = normal_numbers(s);
  using eden = operand<nvfp4, ms_eden<128>, nearest_even, rotation>;
  auto const of_128 = mean_drift(x, s, [](std::uint64_t seed) { return eden{{-1, seed, 1}}; });
  using short_eden = operand<nvfp4, ms_eden<32>, nearest_even, hadamard<32>>;
  auto const of_32 = mean_drift(x, s, [](std::uint64_t seed) { return short_eden{{-1, seed, 1}}; });
  for (drift const& d : {of_128, of_32}) {
    CHECK(d.worst < 4);
    CHECK(d.rms < 1.15);
    CHECK(std::fabs(d.along_in) < 4);
  }
  // The controls: rounding to nearest shrinks, and stochastic codes under scales without room for them are clipped.
  using nearest = operand<nvfp4, two_level_256, nearest_even, rotation>;
  auto const shrunk = mean_drift(x, s, [](std::uint64_t) { return nearest{}; });
  using drawn = operand<nvfp4, two_level_256, stochastic<>, rotation>;
  auto const clipped = mean_drift(x, s, [](std::uint64_t seed) { return drawn{{}, {seed, 3}}; });
  CHECK(shrunk.along < -0.003);
  CHECK(shrunk.along_in < -30);
  CHECK(shrunk.worst > 8);
  CHECK(clipped.along < -0.002);
  CHECK(clipped.along_in < -15);
  using with_room = operand<nvfp4, unbiased_two_level_256, stochastic<>, rotation>;
  auto const whole = mean_drift(x, s, [](std::uint64_t seed) { return with_room{{}, {seed, 3}}; });
  CHECK(std::fabs(whole.along_in) < 4);
}

TEST_CASE("MS-EDEN: a group with one value far above the others is unbiased along the values, not in each element") {
  using namespace loft;
  shape const s{1, 128};
  auto x = normal_numbers(s);
  for (float& v : x) v *= 0.1f;
  x[3] = 5;
  using eden = operand<nvfp4, ms_eden<128>, nearest_even, hadamard<128>>;
  auto const d = mean_drift(x, s, [](std::uint64_t seed) { return eden{{-1, seed, 1}}; });
  CHECK(std::fabs(d.along_in) < 4);
  CHECK(d.worst > 10);
}
