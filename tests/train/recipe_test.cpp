// SPDX-License-Identifier: Apache-2.0
// Recipes: what each one is made of, written down again from its paper; kinds of operands; seeds; exceptions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <loft/recipes.hpp>
#include <loft/train.hpp>
#include <map>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "normal_values.hpp"

using namespace loft;

namespace {

// ---- what an operand is, in words ----

template <class B> std::string text_of_format() {
  std::string element = "?", scale = "?";
  auto const name = [&]<class F>(F) -> std::string {
    if constexpr (std::is_same_v<F, e2m1>) return "e2m1";
    else if constexpr (std::is_same_v<F, e4m3>) return "e4m3";
    else if constexpr (std::is_same_v<F, ue4m3>) return "ue4m3";
    else if constexpr (std::is_same_v<F, e1m2>) return "e1m2";
    else if constexpr (std::is_same_v<F, int4>) return "int4";
    else if constexpr (std::is_same_v<F, e8m0>) return "e8m0";
    else if constexpr (std::is_same_v<F, loft::fp32>) return "float";
    else if constexpr (std::is_same_v<F, hif4::scale>) return "hif4";
    else if constexpr (std::is_same_v<F, double_nvfp4::scale>) return "float+ue4m3";
    else return "?";
  };
  element = name(typename B::element{});
  if constexpr (requires { typename B::alternative; }) element += "|" + name(typename B::alternative{});
  scale = name(typename B::scale{});
  if (has_tensor_scale<B>) scale += "+float";
  return element + "/" + scale + " " + std::to_string(B::shape.rows) + "x" + std::to_string(B::shape.cols);
}

template <class R> std::string text_of_rule(R const& rule) {
  std::string text = "?";
  if constexpr (std::is_same_v<R, ocp_floor>) text = "floor";
  else if constexpr (std::is_same_v<R, even_scale>) text = "even";
  else if constexpr (std::is_same_v<R, ceil_scale>) text = "ceil";
  else if constexpr (std::is_same_v<R, floor_four_thirds>) text = "floor*4/3";
  else if constexpr (std::is_same_v<R, division_scale>) text = "quotient";
  else if constexpr (std::is_same_v<R, two_level>) text = "448";
  else if constexpr (std::is_same_v<R, unbiased_two_level>) text = "448*16/17";
  else if constexpr (std::is_same_v<R, unbiased_two_level_256>) text = "256*16/17";
  else if constexpr (std::is_same_v<R, four_over_six<squared_error>>) text = "4/6 mse";
  else if constexpr (std::is_same_v<R, ms_eden<128>>) text = "eden128";
  else if constexpr (std::is_same_v<R, ms_eden<32>>) text = "eden32";
  else if constexpr (std::is_same_v<R, hif4::rule> || std::is_same_v<R, double_nvfp4::rule>) text = "own";
  if constexpr (requires { rule.amax; })
    if (rule.amax >= 0) text += " amax=" + std::to_string(static_cast<int>(rule.amax));
  return text;
}

template <class R> std::string text_of_rounding(R const&) {
  if constexpr (std::is_same_v<R, nearest_even>) return "even";
  else if constexpr (std::is_same_v<R, nearest_away>) return "away";
  else if constexpr (std::is_same_v<R, nearest_upward>) return "upward";
  else if constexpr (std::is_same_v<R, stochastic<16>>) return "stochastic";
  else return "?";
}

template <int N> std::string text_of_rotation(hadamard<N> const&) { return ", H" + std::to_string(N); }
template <int N> std::string text_of_rotation(signed_hadamard<N> const& r) {
  std::string signs;
  for (int i = 0; i < N; ++i) signs += (r.signs >> i & 1) != 0 ? '-' : '+';
  return ", H" + std::to_string(N) + " " + signs;
}
template <int N> std::string text_of_rotation(random_hadamard<N> const&) { return ", random H" + std::to_string(N); }
std::string text_of_rotation(no_rotation const&) { return ""; }

template <class O> std::string text_of(O const& how) {
  if constexpr (std::is_same_v<O, none>) return "-";
  else if constexpr (std::is_same_v<O, cast<bf16>>) return "bf16";
  else if constexpr (requires { how.then; }) return "stored {" + text_of(how.first) + "} " + text_of(how.then);
  else if constexpr (requires { how.quantile; })
    return "clamped " + std::to_string(how.quantile).substr(0, 4) + " {" + text_of(how.how) + "}";
  else
    return text_of_format<typename O::format>() + " " + text_of_rule(how.rule) + " " + text_of_rounding(how.rounding) +
           text_of_rotation(how.rotation);
}

/// The six operands, one a line.
template <class R> std::vector<std::string> text_of_recipe(R const& r) {
  return {text_of(r.fprop.left),  text_of(r.fprop.right), text_of(r.dgrad.left),
          text_of(r.dgrad.right), text_of(r.wgrad.left),  text_of(r.wgrad.right)};
}

std::vector<std::string> alike(std::string const& text) { return std::vector<std::string>(6, text); }

/// Who stays out: shares at either end, roles, and what they take.
template <class Main, class Safe> std::string text_of_exceptions(plan<Main, Safe> const& p) {
  auto const& e = p.except;
  std::string text;
  if (e.first != 0 || e.last != 0)
    text += std::to_string(static_cast<int>(62 * e.first + 0.5)) + "+" +
            std::to_string(static_cast<int>(62 * e.last + 0.5)) + " of 62 ";
  if (e.query_key) text += "query, key ";
  if (e.mlp_down) text += "mlp down ";
  if (e.from != 1) text += "from ";
  return text.empty() ? text : text + "{" + text_of(p.safe.fprop.left) + "}";
}

/// X, W, dY, W^T, dY^T, X^T, as the papers have them; facts in words, constants as numbers.
std::map<std::string, std::vector<std::string>> published() {
  std::string const even = "e2m1/e8m0 1x32 even even", even_sr = "e2m1/e8m0 1x32 even stochastic";
  std::string const row = "e2m1/ue4m3+float 1x16 ", tile = "e2m1/ue4m3+float 16x16 ";
  std::string const signs = ", H16 +++-+------+-+--";  // arXiv 2509.25149: the fixed vector of all layers and steps
  std::string const forward46 = row + "4/6 mse even", eden = " even, random H";
  std::string const if4_row = "e2m1|int4/e4m3+float 1x16 448 even", gradient17 = row + "448*16/17 stochastic";
  std::string const square32 = "e2m1/e8m0 32x32 ceil ", token = "e4m3/float 1x128 quotient even";
  std::string const double_row = "e2m1/float+ue4m3 1x128 own ", per_token = "e2m1/float 1x4096 quotient upward";
  auto const quartet = [&](std::string const& n) {
    std::string const backward = row + "eden" + n + eden + n;
    return std::vector<std::string>{forward46, forward46,
                                    backward,  "stored {" + forward46 + "} " + backward,
                                    backward,  "stored {" + forward46 + "} " + backward};
  };
  return {
      {"fp32", alike("-")},
      {"bf16", alike("bf16")},
      {"mxfp8", alike("e4m3/e8m0 1x32 floor even")},
      {"deepseek_fp8",
       {token, "e4m3/float 128x128 quotient even", token, "e4m3/float 128x128 quotient even", token, token}},
      {"mxfp4_fprop", {even, even, "-", "-", "-", "-"}},
      {"mxfp4_fprop_dgrad", {even, even, even, even, "-", "-"}},
      {"mxfp4", alike(even)},
      {"mxfp4_sr", {even, even, even, even, even_sr, even_sr}},
      {"mxfp4_random_hadamard", alike(even + ", random H16")},
      {"mxfp4_hadamard", alike(even + ", H16")},
      {"mxfp4_hadamard32", alike(even + ", H32")},
      {"nvfp4",
       {row + "448 even", tile + "448 even", row + "448 stochastic", tile + "448 even", row + "448 stochastic" + signs,
        row + "448 even" + signs}},
      {"tibq",
       {square32 + "even", square32 + "even", square32 + "stochastic", square32 + "even", square32 + "stochastic",
        square32 + "even"}},
      {"nvfp4_ngpt",
       {row + "448 amax=1 even", tile + "448 amax=1 even", row + "448 stochastic", tile + "448 amax=1 even",
        row + "448 stochastic", row + "448 amax=1 even"}},
      {"four_over_six",
       {row + "4/6 mse even", tile + "4/6 mse even", row + "256*16/17 stochastic", tile + "4/6 mse even",
        row + "256*16/17 stochastic" + signs, row + "4/6 mse even" + signs}},
      {"if4", {if4_row, if4_row, gradient17, if4_row, gradient17 + signs, if4_row + signs}},
      {"hif4", alike("e1m2/hif4 1x64 own away, random H64")},
      {"nvint4_hadamard", alike("int4/ue4m3+float 1x16 448 even, random H32")},
      {"fp4_all_the_way",
       {row + "448 even", row + "448 even", row + "448 stochastic", row + "448 even", row + "448 stochastic",
        row + "448 stochastic"}},
      {"mr_gptq", alike("e2m1/e8m0 1x32 floor*4/3 even, H32")},
      {"dge_occ",
       {"clamped 0.99 {" + per_token + "}", per_token, "-", "stored {" + per_token + "} -", "-",
        "stored {clamped 0.99 {" + per_token + "}} -"}},
      {"quartet2", quartet("128")},
      {"quartet2_32", quartet("32")},
      {"tetrajet2",
       {double_row + "even", double_row + "even", double_row + "stochastic",
        "stored {" + double_row + "even} " + double_row + "stochastic", double_row + "stochastic",
        "stored {" + double_row + "even} " + double_row + "stochastic"}},
  };
}

/// All others have none.
std::map<std::string, std::string> const published_exceptions{
    {"nvfp4", "2+8 of 62 {bf16}"},  // arXiv 2509.25149 section 4
    {"four_over_six", "2+8 of 62 {bf16}"},
    {"if4", "2+8 of 62 {bf16}"},
    {"tibq", "query, key {e4m3/e8m0 1x32 floor even}"},           // arXiv 2607.24953
    {"nvfp4_ngpt", "mlp down {e2m1/ue4m3+float 1x16 448 even}"},  // whose input is not within [-1, 1]
};

/// What recipe a layer gets, in a word.
template <class Plan> std::string choice(Plan const& plan, layer_place at, double progress = 0) {
  return plan.visit(at, progress, [](auto const& r) {
    using given = std::remove_cvref_t<decltype(r)>;
    if constexpr (std::is_same_v<given, recipe<>>) return "none";
    else if constexpr (std::is_same_v<given, recipes::bf16>) return "bf16";
    else if constexpr (std::is_same_v<given, recipes::mxfp8>) return "mxfp8";
    else return "main";
  });
}

constexpr int rows = 32, cols = 128;

template <class O> std::vector<float> quantized(std::vector<float> values, O const& how) {
  matrix_view<float> const view{values.data(), rows, cols, cols};
  REQUIRE(fake_quantize(view, view, how) == status::ok);
  return values;
}

}  // namespace

TEST_CASE("every named recipe has the operands of its paper") {
  auto const table = published();
  std::size_t count = 0;
  for_each_recipe([&](std::string_view name, auto const& plan) {
    CAPTURE(std::string{name});
    auto const found = table.find(std::string{name});
    REQUIRE(found != table.end());
    CHECK(text_of_recipe(plan.main) == found->second);
    auto const tail = published_exceptions.find(std::string{name});
    CHECK(text_of_exceptions(plan) == (tail == published_exceptions.end() ? std::string{} : tail->second));
    ++count;
  });
  CHECK(count == table.size());
}

TEST_CASE("the constants behind the words are those of the papers") {
  // arXiv 2605.09825: exponent of (bits + 0x200000) & 0xff800000, minus 2; kept in [-127, 127].
  for (float const amax : normal_values(2000, 3)) {
    auto const bits = bit_cast<std::uint32_t>(std::abs(amax));
    int const exponent = static_cast<int>(((bits + 0x20'0000u) & 0xff80'0000u) >> 23) - 127 - 2;
    CHECK(even_scale{}.scale<mxfp4>(std::abs(amax), {}) == std::clamp(exponent, -127, 127) + 127);
  }
  // arXiv 2607.24953: 2^ceil(log2(2 M / 12)).
  for (float const amax : normal_values(2000, 4)) {
    int const exponent = static_cast<int>(std::ceil(std::log2(2 * std::abs(static_cast<double>(amax)) / 12)));
    CHECK(ceil_scale{}.scale<mxfp4>(std::abs(amax), {}) == exponent + 127);
  }
  // arXiv 2509.25149 appendix B, 2512.02010: s_enc = 6 * 448 / amax, 6 * 256 / amax, and 16/17 of the 6.
  CHECK(detail::tensor_range<operand<nvfp4>>() == 2688);
  CHECK(detail::tensor_range<operand<nvfp4, four_over_six<>>>() == 1536);
  CHECK(detail::tensor_range<operand<nvfp4, unbiased_two_level_256, stochastic<>>>() ==
        doctest::Approx(6.0 * 16 / 17 * 256));
  CHECK(tensor_scale_for<nvfp4>(1.0f).encode == 2688);    // arXiv 2605.06067: amax fixed at 1
  CHECK(floor_four_thirds::constant.decode == 4.0f / 3);  // arXiv 2509.23202
  // arXiv 2501.17116: k = 5, cap 3.
  CHECK(recipes::dge_occ{}.estimator.k == 5);
  CHECK(recipes::dge_occ{}.estimator.cap == 3);
}

TEST_CASE("the layers and steps that stay out are those of the papers") {
  REQUIRE(visit_recipe("nvfp4", [](auto const& plan) {
    // arXiv 2509.25149: of 62 blocks the first 2 and the last 8 in bfloat16, 16 % of the linear layers.
    for (int block = 0; block < 62; ++block)
      CHECK(choice(plan, {block, 62, layer_role::mlp_up}) == (block < 2 || block >= 54 ? "bf16" : "main"));
    for (int block = 0; block < 4; ++block)  // 4 blocks have no eighth: to nearest
      CHECK(choice(plan, {block, 4, layer_role::value}) == (block == 3 ? "bf16" : "main"));
    CHECK(choice(plan, {30, 62, layer_role::head}) == "none");
    auto until = plan;
    until.except.from = 0.75;
    CHECK(choice(until, {30, 62, layer_role::mlp_up}, 0.74) == "main");
    CHECK(choice(until, {30, 62, layer_role::mlp_up}, 0.75) == "bf16");
    CHECK(choice(until, {30, 62, layer_role::head}, 0.75) == "none");
  }));
  REQUIRE(visit_recipe("tibq", [](auto const& plan) {  // arXiv 2607.24953: queries and keys in MXFP8
    CHECK(choice(plan, {0, 4, layer_role::query_key}) == "mxfp8");
    CHECK(choice(plan, {0, 4, layer_role::value}) == "main");
    CHECK(choice(plan, {3, 4, layer_role::mlp_up}) == "main");
    CHECK(choice(plan, {3, 4, layer_role::head}) == "none");
  }));
  REQUIRE(visit_recipe("mxfp4_hadamard", [](auto const& plan) {  // arXiv 2605.09825: all linear layers
    for (int block = 0; block < 32; ++block) CHECK(choice(plan, {block, 32, layer_role::mlp_up}) == "main");
  }));
  CHECK_FALSE(visit_recipe("mxfp5", [](auto const&) {}));
}

TEST_CASE("operands of other kinds: as they are, rounded, stored") {
  auto const x = normal_values(rows * cols, 5);
  CHECK(quantized(x, none{}) == x);
  auto const rounded = quantized(x, cast<bf16>{});
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(rounded[i] == decode<bf16>(encode<bf16>(x[i])));
  float const large = bit_cast<float>(detail::float_max);
  float values[2] = {large, -1.00390625f};  // a tie: to even
  matrix_view<float> const view{values, 1, 2, 2};
  REQUIRE(fake_quantize(view, view, cast<bf16>{}) == status::ok);
  CHECK(std::isinf(values[0]));
  CHECK(values[1] == -1.0f);

  // Stored: quantized along the other dimension, then along this one.
  using first = operand<mxfp4, even_scale>;
  using then = operand<nvfp4>;
  std::vector<float> moved(x.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c)
      moved[static_cast<std::size_t>(c * rows + r)] = x[static_cast<std::size_t>(r * cols + c)];
  matrix_view<float> const transposed_view{moved.data(), cols, rows, rows};
  REQUIRE(fake_quantize(transposed_view, transposed_view, first{}) == status::ok);
  std::vector<float> expected(x.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c)
      expected[static_cast<std::size_t>(r * cols + c)] = moved[static_cast<std::size_t>(c * rows + r)];
  CHECK(quantized(x, stored<first>{}) == expected);
  CHECK(quantized(x, stored<first>{}) != quantized(x, first{}));
  CHECK(quantized(x, stored<first, then>{}) == quantized(expected, then{}));

  // What is refused is refused before the first write.
  std::vector<float> out(x.size(), 7);
  matrix_view<float const> const in{x.data(), rows, cols, cols};
  CHECK(fake_quantize(in, matrix_view<float>{out.data(), rows, cols - 1, cols}, none{}) == status::shape_mismatch);
  CHECK(fake_quantize(in, matrix_view<float>{nullptr, rows, cols, cols}, cast<bf16>{}) == status::null_pointer);
  CHECK(fake_quantize(in, matrix_view<float>{out.data(), rows, cols, 0}, none{}) == status::overlapping_output);
  using rotated = operand<mxfp4, even_scale, nearest_even, hadamard<32>>;
  matrix_view<float const> const narrow{x.data(), rows, 48, cols};
  CHECK(fake_quantize(narrow, matrix_view<float>{out.data(), rows, 48, cols}, stored<first, rotated>{}) ==
        status::rotation_does_not_divide);
  CHECK(std::count(out.begin(), out.end(), 7.0f) == static_cast<std::ptrdiff_t>(out.size()));
}

TEST_CASE("a recipe says what sizes of a layer it serves, and serves them") {
  for_each_recipe([]<class Plan>(char const* name, Plan const& plan) {
    CAPTURE(name);
    auto const& how = plan.main;
    auto const served = multiples_of(how);
    auto const takes = [](auto const& operand, int size) {
      std::vector<float> const x = normal_values(static_cast<std::size_t>(2 * size), 5);
      std::vector<float> out(x.size());
      return fake_quantize(matrix_view<float const>{x.data(), 2, size, size},
                           matrix_view<float>{out.data(), 2, size, size}, operand);
    };
    auto const both = [&](auto const& product, int size, status expected) {
      status const left = takes(product.left, size), right = takes(product.right, size);
      CHECK((left == status::ok ? right : left) == expected);
    };
    // What was stored sees the transpose, of two columns here: it is Fprop's, which is held by itself.
    auto const each = [&](auto const& product, int multiple) {
      if constexpr (!requires { product.right.first; }) {
        both(product, 3 * multiple, status::ok);
        if (multiple > 1) both(product, 3 * multiple / 2, status::rotation_does_not_divide);
      }
    };
    each(how.fprop, served.in);
    each(how.dgrad, served.out);
    each(how.wgrad, served.tokens);
  });
  auto const are = [](layer_multiples m, int in, int out, int tokens) {
    return m.in == in && m.out == out && m.tokens == tokens;
  };
  CHECK(are(multiples_of(recipes::fp32{}), 1, 1, 1));
  CHECK(are(multiples_of(recipes::nvfp4{}), 1, 1, 16));
  CHECK(are(multiples_of(recipes::mxfp4_hadamard{}), 16, 16, 16));
  CHECK(are(multiples_of(recipes::hif4{}), 64, 64, 64));
  CHECK(are(multiples_of(recipes::quartet2{}), 1, 128, 128));
  CHECK(are(multiples_of(recipe<product<operand<mxfp4, even_scale, nearest_even, hadamard<12>>,
                                        operand<mxfp4, even_scale, nearest_even, hadamard<16>>>>{}),
            48, 1, 1));
}

TEST_CASE("seeds reach all that is random, and both operands of a product are rotated alike") {
  using noisy = operand<nvfp4, two_level, stochastic<>>;
  using turned = operand<mxfp4, even_scale, nearest_even, random_hadamard<16>>;
  using eden = operand<nvfp4, ms_eden<32>, nearest_even, random_hadamard<32>>;
  recipe<product<noisy, turned>, product<turned, turned>, product<eden, stored<operand<nvfp4>, eden>>> const how;
  constexpr std::uint64_t one = 1;
  auto const r = reseed(how, 9, 4);
  CHECK(r.fprop.left.rounding.seed == 9);
  CHECK(r.fprop.left.rounding.stream == 24);  // six streams for each use of a layer
  CHECK(r.fprop.right.rotation.stream == (12 | one << 61));
  CHECK(r.dgrad.left.rotation.seed == 9);
  CHECK(r.dgrad.left.rotation.stream == (13 | one << 61));
  CHECK(r.dgrad.right.rotation.stream == (13 | one << 61));
  CHECK(r.wgrad.left.rule.seed == 9);
  CHECK(r.wgrad.left.rule.stream == (28 | one << 60));
  CHECK(r.wgrad.right.then.rule.stream == (29 | one << 60));
  CHECK(r.wgrad.left.rotation.stream == (14 | one << 61));
  CHECK(r.wgrad.right.then.rotation.stream == (14 | one << 61));
  auto const alone = reseed(random_hadamard<16>{}, 9, 27);  // a rotation, as those of streams 26 and 27 have it
  CHECK(alone.seed == r.dgrad.left.rotation.seed);
  CHECK(alone.stream == r.dgrad.left.rotation.stream);
  CHECK(reseed(signed_hadamard<16>{5}, 9, 27).signs == 5);
  CHECK(reseed(clamped<noisy>{}, 9, 4).how.rounding.stream == 4);
  auto const with = reseed(with_residual<noisy, two_of_four, noisy>{}, 9, 4);
  CHECK(with.how.rounding.stream == 4);
  CHECK(with.residual.rounding.stream == (4 | one << 63));
  auto const signs = reseed(with_residual<turned, two_of_four, turned>{}, 9, 4);
  CHECK(signs.how.rotation.stream == (2 | one << 61));
  CHECK(signs.residual.rotation.stream == (2 | one << 61 | one << 62));
  CHECK(reseed(stored<noisy, noisy>{}, 9, 4).first.rounding.stream == 4);
  recipe<product<noisy, noisy>, product<none, stored<noisy>>, product<none, stored<noisy, noisy>>> const twice;
  auto const again = reseed(twice, 9, 4);  // what was stored is what Fprop had
  CHECK(again.dgrad.right.first.rounding.stream == again.fprop.right.rounding.stream);
  CHECK(again.wgrad.right.first.rounding.stream == again.fprop.left.rounding.stream);
  CHECK(again.wgrad.right.then.rounding.stream == 29);
  auto const other = reseed(how, 9, 5);
  CHECK(quantized(normal_values(rows * cols, 8), r.dgrad.left) !=
        quantized(normal_values(rows * cols, 8), other.dgrad.left));
  CHECK(quantized(normal_values(rows * cols, 8), r.dgrad.left) ==
        quantized(normal_values(rows * cols, 8), r.dgrad.right));
}
