// SPDX-License-Identifier: Apache-2.0
// quantize_block, quantize, dequantize and fake_quantize against a scalar reference: shapes, views, specials, refusals.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "block_check.hpp"
#include "golden.hpp"
#include "loft/loft.hpp"

namespace {

using loft::nonfinite, loft::status;
using test::buffers, test::reference, test::settings, test::tally;
using test::check_all_tensors, test::check_tensor, test::compare, test::compare_values, test::view_of;
using test::content, test::contents, test::plain, test::shape, test::shapes, test::tensor;
using test::infinity, test::not_a_number;

using formats_under_test = std::tuple<loft::mxfp4, loft::mxfp8_e4m3, loft::mxfp8_e5m2, loft::nvfp4,
                                      loft::square<loft::mxfp4, 32>, loft::square<loft::nvfp4, 16>>;

template <class B> constexpr bool is_mx = reference<B>::power_of_two;

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("quantize, dequantize, fake_quantize equal the reference", B, against_reference) {
  check_all_tensors(plain<B>{}, {});
  using oracle::rounding;
  check_all_tensors(plain<B, loft::nearest_even, nonfinite::saturate>{}, {.saturate_infinities = true});
  settings how{.mode = rounding::stochastic, .bits = 8, .seed = 0xabcdef0123456789, .stream = 3};
  check_all_tensors(plain<B, loft::stochastic<8>>{.rounding = {how.seed, how.stream}}, how);
  check_all_tensors(plain<B, loft::toward_zero>{}, {.mode = rounding::toward_zero});
}
TEST_CASE_TEMPLATE_APPLY(against_reference, formats_under_test);

TEST_CASE_TEMPLATE_DEFINE("the comparison sees another rounding, another seed, another rule", B, control) {
  shape const s{17, 100};
  std::vector<float> const x = tensor(content::ordinary, s);
  buffers<B> out(s.rows, s.cols);
  REQUIRE(loft::quantize(view_of(x, s), out.view(), plain<B>{}) == status::ok);
  auto const differing = [&](settings const& how) {
    test::quantized const other = reference<B>(x, s.rows, s.cols, how).run();
    int count = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto const at = static_cast<std::int64_t>(i);
      count += out.code(at / s.cols, at % s.cols) != other.codes[i];
    }
    return count;
  };
  CHECK(differing({}) == 0);
  CHECK(differing({.mode = oracle::rounding::toward_zero}) > 0);
  CHECK(differing({.mode = oracle::rounding::stochastic}) > 0);
  if constexpr (is_mx<B>) CHECK(differing({.rule = test::mx_rule::ceil}) > 0);
  if constexpr (!is_mx<B>) CHECK(differing({.known_amax = 5.5f}) > 0);
}
TEST_CASE_TEMPLATE_APPLY(control, formats_under_test);

TEST_CASE_TEMPLATE("the other power-of-two rules", B, loft::mxfp4, loft::mxfp8_e4m3, loft::mxfp8_e5m2,
                   loft::square<loft::mxfp4, 32>) {
  check_all_tensors(loft::operand<B, loft::ceil_scale>{}, {.rule = test::mx_rule::ceil});
  check_all_tensors(loft::operand<B, loft::even_scale>{}, {.rule = test::mx_rule::even});
  check_all_tensors(loft::operand<B, loft::nearest_scale>{}, {.rule = test::mx_rule::nearest});
}

TEST_CASE_TEMPLATE("the power-of-two rules at every edge of amax", B, loft::mxfp4, loft::mxfp8_e4m3, loft::mxfp8_e5m2) {
  // One element a block, so that each value is an amax: neighbours of powers of two, of the largest element, of the
  // thresholds of the even rule and of sqrt(2), in every binade.
  std::vector<float> x;
  double const top = test::table_of<typename B::element>().max();
  for (int e = -149; e <= 127; ++e) {
    for (double const m :
         {1.0, 1.25, 1.75, 1.875, 1.9375, top / std::exp2(std::ilogb(top)),
          std::sqrt(2.0) * top / std::exp2(std::ilogb(top)), std::sqrt(0.5) * top / std::exp2(std::ilogb(top))}) {
      auto const middle = static_cast<float>(std::ldexp(m, e));
      for (float v : {std::nextafterf(middle, 0.0f), middle, std::nextafterf(middle, infinity)}) {
        if (std::isinf(v)) v = test::float_max;
        x.push_back(v);
        x.insert(x.end(), static_cast<std::size_t>(B::shape.cols - 1), 0.0f);
      }
    }
  }
  shape const s{static_cast<std::int64_t>(x.size()) / B::shape.cols, B::shape.cols};
  check_tensor(x, s, loft::operand<B>{}, {.rule = test::mx_rule::floor});
  check_tensor(x, s, loft::operand<B, loft::ceil_scale>{}, {.rule = test::mx_rule::ceil});
  check_tensor(x, s, loft::operand<B, loft::even_scale>{}, {.rule = test::mx_rule::even});
  check_tensor(x, s, loft::operand<B, loft::nearest_scale>{}, {.rule = test::mx_rule::nearest});
}

TEST_CASE_TEMPLATE("a known amax replaces the tensor's", B, loft::nvfp4, loft::square<loft::nvfp4, 16>) {
  for (float const amax : {0.0f, 1e-45f, 1e-20f, 0.5f, 6.0f, 100.0f, 2688.0f, 1e30f, test::float_max}) {
    CAPTURE(amax);
    loft::operand<B> how{};
    how.rule.amax = amax;
    for (content const kind : {content::ordinary, content::wide, content::mixed_sizes}) {
      check_tensor(tensor(kind, {17, 100}), {17, 100}, how, {.known_amax = amax});
    }
    loft::tensor_scale const t = loft::tensor_scale_for<B>(amax);
    float const encode = amax == 0 ? 1.0f : std::min(2688.0f / amax, test::float_max);
    CHECK(test::same(t.encode, encode));
    CHECK(test::same(t.decode, 1.0f / encode));
  }
}

namespace {

// NVFP4 blocks at the ties: the maximum beside a midpoint of the scale's format, the elements beside those of e2m1,
// where every rounding inside the formulas decides. The counters say how many of them other orders would change.
struct ties {
  std::vector<float> x;
  int other_scales = 0, other_elements = 0;

  void add(float tensor_amax, std::uint32_t scale_code, int ulps) {
    oracle::table const& scales = test::table_of<loft::ue4m3>();
    float const encode = 2688.0f / tensor_amax, decode = 1.0f / encode, per_unit = encode * (1.0f / 6.0f);
    auto a = static_cast<float>((scales.value(scale_code) + scales.value(scale_code + 1)) / 2 / per_unit);
    for (int i = 0; i < std::abs(ulps); ++i) a = std::nextafterf(a, ulps < 0 ? 0.0f : infinity);
    std::uint32_t const code = scales.encode(a * per_unit);
    float const scaled = a * encode, sixth = a / 6.0f;
    other_scales += scales.encode(scaled * (1.0f / 6.0f)) != code || scales.encode(sixth * encode) != code;
    x.push_back(a);
    add_elements(static_cast<float>(scales.value(code)), encode, decode);
  }

 private:
  void add_elements(float scale, float encode, float decode) {
    oracle::table const& elements = test::table_of<loft::e2m1>();
    float const step = scale * decode, multiplier = 1.0f / step, direct = encode / scale;
    for (std::uint32_t c = 0; c < 15; ++c) {
      double const middle = (elements.value(c / 2) + elements.value(c / 2 + 1)) / 2;
      auto v = static_cast<float>(middle / multiplier);
      if (c % 2 != 0) v = std::nextafterf(v, 0.0f);
      if (std::fabs(v) > x.back() && c > 0) v = 0;  // not above the block's maximum
      std::uint32_t const code = elements.encode(v * multiplier);
      other_elements += elements.encode(v / step) != code || elements.encode(v * direct) != code;
      x.push_back(c == 14 ? 0.0f : v);
    }
  }
};

}  // namespace

TEST_CASE("the two levels are computed in the documented order, each step rounded") {
  int other_scales = 0, other_elements = 0;
  for (int i = 0; i < 150; ++i) {
    float const amax = 0.5f + static_cast<float>(i) * 0x1.234567p-3f;
    ties t;
    for (std::uint32_t code = 0x10; code < 0x7e; code += 9) {
      for (int ulps = -2; ulps <= 2; ++ulps) t.add(amax, code, ulps);
    }
    loft::operand<loft::nvfp4> how{};
    how.rule.amax = amax;
    shape const s{static_cast<std::int64_t>(t.x.size()) / 16, 16};
    check_tensor(t.x, s, how, {.known_amax = amax});
    other_scales += t.other_scales, other_elements += t.other_elements;
  }
  CHECK(other_scales > 100);  // the control: other orders are seen
  CHECK(other_elements > 100);
}

namespace {

template <class B, class R> void check_quantize_block(std::vector<float> const& x, R rounding, settings how) {
  plain<B, R> operand{};
  operand.rounding = rounding;
  how.first_index = 1000003;
  auto const count = static_cast<std::int64_t>(x.size());
  float amax = 0;
  for (float const v : x) amax = std::isfinite(v) ? std::max(amax, std::fabs(v)) : amax;
  // Rows of a square block lie one after another: one row of the reference is one row of the block.
  std::int64_t const rows = (count + B::shape.cols - 1) / B::shape.cols, cols = rows > 1 ? B::shape.cols : count;
  test::quantized const expected = reference<B>(x, rows, cols, how).run();
  loft::tensor_scale t{};
  if constexpr (loft::has_tensor_scale<B>) t = loft::tensor_scale_for<B>(amax);
  auto const got = loft::quantize_block(x.data(), static_cast<int>(count), operand, t, how.first_index);
  CHECK(got.scale == expected.scales[0]);
  tally codes;
  for (std::size_t i = 0; i < std::size(got.codes); ++i) {
    bool const finite = got.scale != test::table_of<typename B::scale>().nan_code;
    if (finite || i >= x.size()) codes.add(static_cast<double>(i), got.codes[i], i < x.size() ? expected.codes[i] : 0);
  }
  CHECK_MESSAGE(codes.wrong == 0, codes.first());
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("quantize_block is the quantizer of one block", B, one_block) {
  int const size = B::shape.rows * B::shape.cols;
  for (content const kind : contents) {
    CAPTURE(static_cast<int>(kind));
    for (int const count : {size, B::shape.cols, 1, 7, 2 * B::shape.cols}) {
      if (count > size) continue;
      CAPTURE(count);
      std::vector<float> const x = tensor(kind, {1, count});
      check_quantize_block<B>(x, loft::nearest_even{}, {});
      settings const drawn{.mode = oracle::rounding::stochastic, .bits = 16, .seed = 5, .stream = 1ull << 40};
      check_quantize_block<B>(x, loft::stochastic<16>{drawn.seed, drawn.stream}, drawn);
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(one_block, formats_under_test);

// Views: what matters is the elements, not where they lie.
TEST_CASE_TEMPLATE_DEFINE("every view of the input gives the bytes of its contiguous copy", B, views) {
  settings const drawn{.mode = oracle::rounding::stochastic, .bits = 16, .seed = 99, .stream = 0};
  plain<B, loft::stochastic<16>> const how{.rounding = {drawn.seed, drawn.stream}};
  shape const s{35, 41};
  std::vector<float> memory(20000, not_a_number);
  for (std::size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<float>(static_cast<int>(i * 7919 % 1009) - 504) * 0.01f;
  float const* const middle = memory.data() + 10000;
  loft::matrix_view<float const> const several[] = {
      {memory.data(), s.rows, s.cols, 2 * s.cols + 3, 2},  // strided
      {memory.data(), s.rows, s.cols, 1, s.rows},          // transposed
      {memory.data(), s.rows, s.cols, 1, s.rows + 5},      // transposed, padded
      {memory.data(), s.rows, s.cols, 0, 1},               // one row for all
      {memory.data(), s.rows, s.cols, 1, 0},               // one column for all
      {memory.data() + 3, s.rows, s.cols, 0, 0},           // one value
      {middle, s.rows, s.cols, -s.cols, 1},                // rows upside down
      {middle, s.rows, s.cols, s.cols, -1},                // columns from right to left
      {middle, s.rows, s.cols, -1, -s.rows},               // transposed and reversed
  };
  for (auto const& view : several) {
    CAPTURE(view.row_stride);
    CAPTURE(view.col_stride);
    std::vector<float> copy;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t c = 0; c < s.cols; ++c) copy.push_back(view.data[r * view.row_stride + c * view.col_stride]);
    }
    check_tensor(copy, s, how, drawn);
    buffers<B> from_view(s.rows, s.cols), from_copy(s.rows, s.cols);
    REQUIRE(loft::quantize(view, from_view.view(), how) == status::ok);
    REQUIRE(loft::quantize(view_of(copy, s), from_copy.view(), how) == status::ok);
    CHECK(from_view == from_copy);
    std::vector<float> a(copy.size()), b(copy.size());
    REQUIRE(loft::fake_quantize(view, loft::matrix_view<float>{a.data(), s.rows, s.cols, s.cols}, how) == status::ok);
    REQUIRE(loft::dequantize(from_copy.view(), loft::matrix_view<float>{b.data(), s.rows, s.cols, s.cols}, how) ==
            status::ok);
    compare_values(a, b, "fake_quantize of a view");
  }
}
TEST_CASE_TEMPLATE_APPLY(views, formats_under_test);

TEST_CASE_TEMPLATE_DEFINE("outputs may be strided; what lies between stays", B, strided_output) {
  shape const s{19, 50};
  std::vector<float> const x = tensor(content::ordinary, s);
  buffers<B> q(s.rows, s.cols);
  REQUIRE(loft::quantize(view_of(x, s), q.view(), plain<B>{}) == status::ok);
  std::vector<float> plain_copy(x.size());
  REQUIRE(loft::dequantize(q.view(), loft::matrix_view<float>{plain_copy.data(), s.rows, s.cols, s.cols}, plain<B>{}) ==
          status::ok);
  struct strides {
    std::int64_t row, col, start;
  };
  for (strides const t :
       {strides{160, 3, 0}, strides{1, 19, 0}, strides{-60, 1, 60 * 18 + 7}, strides{2, -40, 40 * 49}}) {
    CAPTURE(t.row);
    std::vector<float> memory(4000, -5.0f), again(4000, -5.0f), expected(4000, -5.0f);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t c = 0; c < s.cols; ++c) {
        expected[static_cast<std::size_t>(t.start + r * t.row + c * t.col)] =
            plain_copy[static_cast<std::size_t>(r * s.cols + c)];
      }
    }
    loft::matrix_view<float> const out{memory.data() + t.start, s.rows, s.cols, t.row, t.col};
    REQUIRE(loft::dequantize(q.view(), out, plain<B>{}) == status::ok);
    CHECK(memory == expected);
    loft::matrix_view<float> const out_again{again.data() + t.start, s.rows, s.cols, t.row, t.col};
    REQUIRE(loft::fake_quantize(view_of(x, s), out_again, plain<B>{}) == status::ok);
    CHECK(again == expected);
  }
  std::vector<float> in_place = x;
  loft::matrix_view<float> const same{in_place.data(), s.rows, s.cols, s.cols};
  REQUIRE(loft::fake_quantize(same, same, plain<B>{}) == status::ok);
  CHECK(in_place == plain_copy);
}
TEST_CASE_TEMPLATE_APPLY(strided_output, formats_under_test);

TEST_CASE_TEMPLATE_DEFINE("bf16, fp16 and fp8 inputs equal their floats", B, narrow_inputs) {
  shape const s{18, 75};
  auto const check = [&]<class T>(T) {
    std::vector<T> narrow;
    std::vector<float> wide;
    for (float const v : tensor(content::specials, s)) {
      narrow.push_back(T{v});
      wide.push_back(static_cast<float>(narrow.back()));
    }
    buffers<B> a(s.rows, s.cols), b(s.rows, s.cols);
    REQUIRE(loft::quantize(view_of(narrow, s), a.view(), plain<B>{}) == status::ok);
    REQUIRE(loft::quantize(view_of(wide, s), b.view(), plain<B>{}) == status::ok);
    CHECK(a == b);
    compare(a, reference<B>(wide, s.rows, s.cols).run(), s);
  };
  check(loft::bf16_t{});
  check(loft::fp16_t{});
  check(loft::e5m2_t{});
}
TEST_CASE_TEMPLATE_APPLY(narrow_inputs, formats_under_test);

TEST_CASE_TEMPLATE_DEFINE("an empty tensor is no error and writes nothing", B, empty) {
  for (shape const s : {shape{0, 0}, shape{0, 64}, shape{64, 0}}) {
    CHECK(loft::codes_bytes<B>(s.rows, s.cols) == 0);
    CHECK(loft::scale_count<B>(s.rows, s.cols) == 0);
    buffers<B> out(s.rows, s.cols);
    loft::matrix_view<float const> const in{nullptr, s.rows, s.cols, s.cols};
    loft::matrix_view<float> const to{nullptr, s.rows, s.cols, s.cols};
    CHECK(loft::quantize(in, out.view(), plain<B>{}) == status::ok);
    CHECK(loft::dequantize(out.view(), to, plain<B>{}) == status::ok);
    CHECK(loft::fake_quantize(in, to, plain<B>{}) == status::ok);
    CHECK(loft::quantize(in, {nullptr, nullptr, &out.tensor_scale, s.rows, s.cols}, plain<B>{}) == status::ok);
    CHECK(out.margins_are_clean());
  }
}
TEST_CASE_TEMPLATE_APPLY(empty, formats_under_test);

TEST_CASE_TEMPLATE_DEFINE("sizes of the buffers", B, sizes) {
  for (shape const s : shapes) {
    CHECK(loft::codes_bytes<B>(s.rows, s.cols) == s.rows * ((s.cols * B::element::spec.bits() + 7) / 8));
    std::int64_t const down = (s.rows + B::shape.rows - 1) / B::shape.rows,
                       across = (s.cols + B::shape.cols - 1) / B::shape.cols;
    CHECK(loft::scale_count<B>(s.rows, s.cols) == down * across);
  }
}
TEST_CASE_TEMPLATE_APPLY(sizes, formats_under_test);

TEST_CASE_TEMPLATE_DEFINE("a refused call has a status with a sentence and changes nothing", B, refusals) {
  std::vector<float> x(64 * 48, 1.5f), values(64 * 48, -5.0f);
  using rotated = loft::operand<B, loft::default_rule<B>, loft::nearest_even, loft::hadamard<16>>;
  plain<B> const how{};
  rotated const turned{};
  loft::matrix_view<float const> const in{x.data(), 3, 40, 40};
  loft::matrix_view<float> const to{values.data(), 3, 40, 40};
  buffers<B> out(3, 40);
  auto const with = [](auto v, auto change) { return change(v), v; };
  std::vector<status> refused;

  refused.push_back(loft::quantize(with(in, [](auto& v) { v.data = nullptr; }), out.view(), how));
  refused.push_back(loft::quantize(in, with(out.view(), [](auto& v) { v.codes = nullptr; }), how));
  refused.push_back(loft::quantize(in, with(out.view(), [](auto& v) { v.scales = nullptr; }), how));
  refused.push_back(loft::quantize(in, with(out.view(), [](auto& v) { v.cols = 41; }), how));
  refused.push_back(loft::quantize(in, with(out.view(), [](auto& v) { v.rows = 2; }), how));
  refused.push_back(
      loft::quantize(with(in, [](auto& v) { v.rows = -3; }), with(out.view(), [](auto& v) { v.rows = -3; }), how));
  refused.push_back(
      loft::quantize(with(in, [](auto& v) { v.cols = -1; }), with(out.view(), [](auto& v) { v.cols = -1; }), how));
  refused.push_back(loft::quantize(in, out.view(), turned));  // 40 is no multiple of 16
  refused.push_back(loft::dequantize(out.view(), with(to, [](auto& v) { v.data = nullptr; }), how));
  refused.push_back(loft::dequantize(with(out.view(), [](auto& v) { v.codes = nullptr; }), to, how));
  refused.push_back(loft::dequantize(with(out.view(), [](auto& v) { v.scales = nullptr; }), to, how));
  refused.push_back(loft::dequantize(out.view(), with(to, [](auto& v) { v.cols = 39; }), how));
  refused.push_back(
      loft::dequantize(with(out.view(), [](auto& v) { v.rows = -3; }), with(to, [](auto& v) { v.rows = -3; }), how));
  refused.push_back(loft::dequantize(out.view(), to, turned));
  refused.push_back(loft::fake_quantize(with(in, [](auto& v) { v.data = nullptr; }), to, how));
  refused.push_back(loft::fake_quantize(in, with(to, [](auto& v) { v.data = nullptr; }), how));
  refused.push_back(loft::fake_quantize(in, with(to, [](auto& v) { v.rows = 4; }), how));
  refused.push_back(
      loft::fake_quantize(with(in, [](auto& v) { v.cols = -1; }), with(to, [](auto& v) { v.cols = -1; }), how));
  refused.push_back(loft::fake_quantize(in, to, turned));
  if constexpr (loft::has_tensor_scale<B>) {
    refused.push_back(loft::quantize(in, with(out.view(), [](auto& v) { v.tensor_scale = nullptr; }), how));
    refused.push_back(loft::dequantize(with(out.view(), [](auto& v) { v.tensor_scale = nullptr; }), to, how));
  }
  for (std::size_t i = 0; i < refused.size(); ++i) {
    CAPTURE(i);
    CHECK(refused[i] != status::ok);
    CHECK(std::string{loft::message(refused[i])}.size() > 10);
  }
  CHECK(out.untouched());
  CHECK(values == std::vector<float>(64 * 48, -5.0f));
  CHECK(loft::quantize(in, out.view(), how) == status::ok);  // the twin that is accepted
  CHECK(!out.untouched());
  if constexpr (!loft::has_tensor_scale<B>) {
    CHECK(loft::quantize(in, with(out.view(), [](auto& v) { v.tensor_scale = nullptr; }), how) == status::ok);
    CHECK(loft::dequantize(with(out.view(), [](auto& v) { v.tensor_scale = nullptr; }), to, how) == status::ok);
  }
}
TEST_CASE_TEMPLATE_APPLY(refusals, formats_under_test);

TEST_CASE_TEMPLATE("square tiles of the transpose are the transposed tiles", B, loft::square<loft::mxfp4, 32>,
                   loft::square<loft::nvfp4, 16>, loft::square<loft::mxfp8_e4m3, 8>) {
  for (content const kind : {content::ordinary, content::wide, content::specials}) {
    shape const s{45, 70};
    std::vector<float> const x = tensor(kind, s);
    buffers<B> a(s.rows, s.cols), b(s.cols, s.rows);
    REQUIRE(loft::quantize(view_of(x, s), a.view(), plain<B>{}) == status::ok);
    loft::matrix_view<float const> const transposed{x.data(), s.cols, s.rows, 1, s.cols};
    REQUIRE(loft::quantize(transposed, b.view(), plain<B>{}) == status::ok);
    tally codes, scales;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t c = 0; c < s.cols; ++c)
        codes.add(static_cast<double>(r * s.cols + c), b.code(c, r), a.code(r, c));
    }
    auto const tile = static_cast<std::size_t>(B::shape.rows);
    std::size_t const down = (45 + tile - 1) / tile, across = (70 + tile - 1) / tile;
    for (std::size_t r = 0; r < down; ++r) {
      for (std::size_t c = 0; c < across; ++c)
        scales.add(static_cast<double>(r), b.scale(c * down + r), a.scale(r * across + c));
    }
    CHECK_MESSAGE(codes.wrong == 0, codes.first());
    CHECK_MESSAGE(scales.wrong == 0, scales.first());
    if constexpr (loft::has_tensor_scale<B>) CHECK(test::same(a.tensor_scale, b.tensor_scale));
  }
}

TEST_CASE("non-finite values stay in their block, and saturate keeps infinities finite") {
  std::vector<float> x(64, 1.0f);
  x[3] = not_a_number, x[40] = -infinity, x[50] = 2.0f;
  shape const s{1, 64};
  std::vector<float> values(64);
  loft::matrix_view<float> const to{values.data(), 1, 64, 64};
  REQUIRE(loft::fake_quantize(view_of(x, s), to, plain<loft::nvfp4>{}) == status::ok);
  for (std::size_t i = 0; i < 64; ++i) CHECK(std::isnan(values[i]) == (i / 16 == 0 || i / 16 == 2));
  buffers<loft::nvfp4> q(1, 64);
  REQUIRE(loft::quantize(view_of(x, s), q.view(), plain<loft::nvfp4>{}) == status::ok);
  CHECK(q.scale(0) == 0x7f);
  CHECK(q.scale(2) == 0x7f);
  CHECK(q.tensor_scale == 1.0f / (2688.0f / 2.0f));  // the amax is that of the finite values
  buffers<loft::mxfp4> m(1, 64);
  REQUIRE(loft::quantize(view_of(x, s), m.view(), plain<loft::mxfp4>{}) == status::ok);
  CHECK(m.scale(0) == 0xff);
  CHECK(m.scale(1) == 0xff);
  REQUIRE(loft::quantize(view_of(x, s), m.view(), plain<loft::mxfp4, loft::nearest_even, nonfinite::saturate>{}) ==
          status::ok);
  CHECK(m.scale(0) == 0xff);  // a NaN is a NaN all the same
  CHECK(m.scale(1) == 127 + 125);
  CHECK(m.code(0, 40) == 0xf);
}

namespace {

// Rotation inside the verbs: as if the runs had been rotated before, and are turned back after.
template <class B, class Rotation> void check_rotated(shape s, Rotation rotation) {
  CAPTURE(Rotation::size);
  std::vector<float> const x = tensor(content::ordinary, s);
  std::vector<float> rotated = x;
  for (std::size_t i = 0; i < x.size(); i += Rotation::size) rotation.apply(rotated.data() + i);
  using operand = loft::operand<B, loft::default_rule<B>, loft::stochastic<8>, Rotation>;
  operand const how{.rounding = {11, 12}, .rotation = rotation};
  settings const drawn{.mode = oracle::rounding::stochastic, .bits = 8, .seed = 11, .stream = 12};
  test::quantized expected = reference<B>(rotated, s.rows, s.cols, drawn).run();
  buffers<B> out(s.rows, s.cols);
  REQUIRE(loft::quantize(view_of(x, s), out.view(), how) == status::ok);
  compare(out, expected, s);
  for (std::size_t i = 0; i < x.size(); i += Rotation::size) rotation.invert(expected.values.data() + i);
  std::vector<float> values(x.size());
  loft::matrix_view<float> const to{values.data(), s.rows, s.cols, s.cols};
  REQUIRE(loft::dequantize(out.view(), to, how) == status::ok);
  compare_values(values, expected.values, "dequantize, rotated");
  REQUIRE(loft::fake_quantize(view_of(x, s), to, how) == status::ok);
  compare_values(values, expected.values, "fake_quantize, rotated");
  CHECK(x != rotated);  // the control: the rotation does something
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("a rotation comes before the amax and is undone after decoding", B, rotated) {
  check_rotated<B>({5, 96}, loft::hadamard<32>{});
  check_rotated<B>({5, 48}, loft::hadamard<16>{});
  check_rotated<B>({35, 128}, loft::hadamard<64>{});
  check_rotated<B>({5, 12}, loft::hadamard<4>{});
  check_rotated<B>({3, 128}, loft::signed_hadamard<128>{0x123456789abcdef1});
  check_rotated<B>({3, 160}, loft::signed_hadamard<16>{0x9a5c});
}
TEST_CASE_TEMPLATE_APPLY(rotated, formats_under_test);

namespace {

struct e3m3 {
  static constexpr loft::format_spec spec{3, 3, 3};
};
struct mx_e3m3 {
  using element = e3m3;
  using scale = loft::e8m0;
  static constexpr loft::block_shape shape{1, 8};
};

}  // namespace

template <> inline constexpr oracle::format test::row_of<e3m3> = oracle::e3m3;

TEST_CASE("a block format of the user's own, with 7-bit elements") {
  static_assert(loft::BlockFormat<mx_e3m3>);
  check_all_tensors(loft::operand<mx_e3m3>{}, {});
  check_all_tensors(loft::operand<mx_e3m3, loft::ceil_scale>{}, {.rule = test::mx_rule::ceil});
  check_tensor(tensor(content::ordinary, {9, 19}), {9, 19}, loft::operand<loft::square<mx_e3m3, 8>>{}, {});
}

TEST_CASE("a block can be quantized at compile time") {
  static constexpr float values[] = {6.0f, -3.0f, 0.25f, 1.25f, -0.0f, 12.0f};
  constexpr auto block = loft::quantize_block(values, 6, loft::operand<loft::mxfp4>{});
  static_assert(block.scale == 128);  // 2^(3 - 2)
  static_assert(block.codes[0] == 5 && block.codes[1] == 0xb && block.codes[2] == 0 && block.codes[5] == 7);
  static_assert(block.codes[4] == 8 && block.codes[31] == 0);
  static float const at_run_time[] = {6.0f, -3.0f, 0.25f, 1.25f, -0.0f, 12.0f};
  auto const again = loft::quantize_block(at_run_time, 6, loft::operand<loft::mxfp4>{});
  CHECK(std::equal(std::begin(block.codes), std::end(block.codes), std::begin(again.codes)));
  constexpr auto two_level =
      loft::quantize_block(values, 6, loft::operand<loft::nvfp4>{}, loft::tensor_scale_for<loft::nvfp4>(12.0f));
  static_assert(two_level.scale == 0x7e && two_level.codes[5] == 7 && two_level.codes[0] == 5);
  CHECK(two_level.codes[4] == 8);
}

namespace {

// Codes and scales of a fixed 3 x 40 tensor, from the library or from the reference.
template <class B> std::string golden_tensor(bool library, bool drawn) {
  shape const s{3, 40};
  std::vector<float> x;
  for (int i = 0; i < 120; ++i) x.push_back(static_cast<float>((i * 37 % 101) - 50) * (i < 40 ? 0x1.3p-5f : 0x1.9p2f));
  settings const how{
      .mode = drawn ? oracle::rounding::stochastic : oracle::rounding::nearest_even, .seed = 1, .stream = 2};
  test::golden_line codes{"codes"}, scales{"scales"}, tensor_scale{"tensor scale"};
  if (library) {
    buffers<B> q(s.rows, s.cols);
    auto const in = view_of(x, s);
    status const outcome = drawn ? loft::quantize(in, q.view(), plain<B, loft::stochastic<16>>{.rounding = {1, 2}})
                                 : loft::quantize(in, q.view(), plain<B>{});
    CHECK(outcome == status::ok);
    for (std::int64_t i = 0; i < 120; ++i) codes.add(q.code(i / s.cols, i % s.cols));
    for (std::size_t i = 0; i < q.scale_count(); ++i) scales.add(q.scale(i));
    if (loft::has_tensor_scale<B>) tensor_scale.add(test::bits_of(q.tensor_scale), 8);
  } else {
    test::quantized const q = reference<B>(x, s.rows, s.cols, how).run();
    for (std::uint32_t const c : q.codes) codes.add(c);
    for (std::uint32_t const c : q.scales) scales.add(c);
    if (loft::has_tensor_scale<B>) tensor_scale.add(test::bits_of(q.tensor_scale), 8);
  }
  return codes.str() + scales.str() + tensor_scale.str();
}

std::string golden_tensors(bool library) {
  std::string text;
  auto const add = [&]<class B>(char const* name, B) {
    text += std::string{name} + " nearest_even\n" + golden_tensor<B>(library, false);
    text += std::string{name} + " stochastic<16>{1, 2}\n" + golden_tensor<B>(library, true);
  };
  add("mxfp4", loft::mxfp4{}), add("mxfp8_e4m3", loft::mxfp8_e4m3{}), add("mxfp8_e5m2", loft::mxfp8_e5m2{});
  add("nvfp4", loft::nvfp4{}), add("square<nvfp4, 16>", loft::square<loft::nvfp4, 16>{});
  add("square<mxfp4, 32>", loft::square<loft::mxfp4, 32>{});
  return text;
}

}  // namespace

TEST_CASE("codes and scales of fixed tensors are frozen") {
  std::string const frozen = test::read_golden("blocks.txt");
  CHECK(frozen.size() > 1000);
  CHECK(golden_tensors(true) == frozen);
  CHECK(golden_tensors(false) == frozen);
}

// Run with --no-skip to write the file anew from the reference.
TEST_CASE("write golden file" * doctest::skip()) {
  test::write_golden("blocks.txt", "Codes, scales and tensor scale of a fixed 3 x 40 tensor in each block format.",
                     golden_tensors(false));
}

TEST_CASE("a block without values has the scale of zeros, and what a short block lacks enters no statistic") {
  constexpr int scale = [] {
    float const values[32] = {1};
    return loft::quantize_block(values, 0, loft::operand<loft::mxfp4>{}).scale;
  }();
  CHECK(scale == 0);
  float values[256] = {};
  for (int i = 0; i < 256; ++i) values[i] = 1 + static_cast<float>(i % 7);
  using tile = loft::operand<loft::square<loft::mxfp4, 16>, loft::quest_scale>;
  CHECK(int{loft::quantize_block(values, 17, tile{}).scale} == 126);
  for (int i = 17; i < 32; ++i) values[i] = 0;
  CHECK(int{loft::quantize_block(values, 32, tile{}).scale} == 127);  // the control: zeros that are there do
}
