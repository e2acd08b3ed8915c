// SPDX-License-Identifier: Apache-2.0
// Laws of block formats, for every one of the catalogue without naming it: the verbs agree with each other, NaN and zeros
// stay in their block, ranges and layouts change places and nothing else, square tiles commute with the transpose.
#include <doctest/doctest.h>

#include "block_check.hpp"
#include "loft/loft.hpp"
#include "tensor/any_buffers.hpp"

namespace {

using loft::nonfinite, loft::status, loft::row_range;
using test::any_buffers, test::content, test::contents, test::shape, test::tensor, test::view_of;

template <class B, class Rule = loft::default_rule<B>, loft::Rounding R = loft::default_rounding<B>,
          class Rotation = loft::no_rotation>
using with = loft::operand<B, Rule, R, Rotation>;

loft::matrix_view<float> into(std::vector<float>& x, shape s) { return {x.data(), s.rows, s.cols, s.cols}; }

int differing(std::vector<float> const& a, std::vector<float> const& b) {
  int count = a.size() != b.size();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) count += !test::same(a[i], b[i]);
  return count;
}

template <class Operand> std::vector<float> fake(std::vector<float> const& x, shape s, Operand const& how) {
  std::vector<float> y(x.size());
  if (loft::fake_quantize(view_of(x, s), into(y, s), how) != status::ok) y.clear();
  return y;
}

template <class Layout, class Operand>
any_buffers<typename Operand::format, Layout> quantized(std::vector<float> const& x, shape s, Operand const& how) {
  any_buffers<typename Operand::format, Layout> q(s.rows, s.cols);
  if (loft::quantize(view_of(x, s), q.view(), how) != status::ok) q.tensor_scale = -1;
  return q;
}

template <class Layout, class Operand, class Buffers>
std::vector<float> decoded(Buffers& q, shape s, Operand const& how) {
  std::vector<float> y(static_cast<std::size_t>(s.rows * s.cols));
  if (loft::dequantize(q.view(), into(y, s), how) != status::ok) y.clear();
  return y;
}

// Every block format, and where there are any its squares.
template <class Function> void for_each_block_format(Function f) {
  loft::all_block_formats::for_each([&]<class B>(B) {
    CAPTURE(B::element::spec.bits());
    CAPTURE(B::shape.rows);
    CAPTURE(B::shape.cols);
    CAPTURE(sizeof(loft::code<typename B::scale>));
    f(B{});
  });
}

// The shortest tensors that have whole blocks, ragged ends, and more than one span.
template <class B> std::vector<shape> shapes_for() {
  if (B::shape.rows > 1) return {{1, 1}, {B::shape.rows + 3, B::shape.cols + 32}};
  return {{1, 16}, {3, 64}, {2, B::shape.cols + 16}, {5, 304}};
}

// ---- the verbs agree --------------------------------------------------------------------------------------------------

struct agreement {
  int wrong = 0, compared = 0, refused = 0, dirty = 0, differs_from_input = 0;
};

template <class Layout, class Operand> void add_agreement(agreement& total, Operand const& how) {
  using B = typename Operand::format;
  for (content const kind : contents) {
    for (shape const s : shapes_for<B>()) {
      std::vector<float> const x = tensor(kind, s);
      auto q = quantized<Layout>(x, s, how);
      std::vector<float> const y = decoded<Layout>(q, s, how), z = fake(x, s, how);
      total.refused += s.cols % decltype(how.rotation)::size == 0 && (y.empty() || z.empty());
      total.dirty += !q.margins_are_clean();
      total.wrong += differing(y, z);
      total.compared += static_cast<int>(y.size());
      total.differs_from_input += differing(x, y);
    }
  }
}

template <class B> agreement agreement_of() {
  agreement total;
  using loft::nearest_even, loft::stochastic, loft::row_major, loft::col_major, loft::tiled_128x4;
  using rule = loft::default_rule<B>;
  add_agreement<row_major>(total, with<B>{});
  add_agreement<tiled_128x4>(total, with<B>{});
  add_agreement<row_major>(total, with<B, rule, stochastic<16>>{.rounding = {7, 8}});
  add_agreement<col_major>(total, with<B, rule, loft::to_odd, loft::hadamard<16>>{});
  add_agreement<tiled_128x4>(
      total, with<B, rule, stochastic<8>, loft::signed_hadamard<16>>{.rounding = {7, 8}, .rotation = {0x9a5c}});
  add_agreement<row_major>(total, with<B, loft::fixed_scale>{});
  if constexpr (loft::detail::is_power_of_two_format<typename B::scale>) {
    add_agreement<row_major>(total, with<B, loft::ceil_scale>{});
    add_agreement<row_major>(total, with<B, loft::even_scale>{});
    add_agreement<row_major>(total, with<B, loft::nearest_scale>{});
    add_agreement<row_major>(total, with<B, loft::floor_four_thirds, stochastic<16>>{});
    add_agreement<row_major>(total, with<B, loft::quest_scale>{});
  } else if constexpr (loft::has_tensor_scale<B>) {
    add_agreement<row_major>(total, with<B, loft::two_level>{.rule = {2.5f}});
    add_agreement<row_major>(total, with<B, loft::unbiased_two_level_256, stochastic<16>>{});
    add_agreement<row_major>(total, with<B, loft::four_over_six<>, stochastic<16>>{});
    add_agreement<row_major>(total, with<B, loft::four_over_six<loft::maximal_error>>{});
  }
  return total;
}

void judge(agreement const& a) {
  CHECK(a.wrong == 0);
  CHECK(a.refused == 0);
  CHECK(a.dirty == 0);
  CHECK(a.compared > 10000);
  CHECK(a.differs_from_input > 1000);  // the control: quantizing changes values
}

// Rules that write any scale of a record are not to be had.
template <class B> constexpr bool takes_fixed_scale = loft::detail::plain_scale<B>;

}  // namespace

TEST_CASE("dequantize of quantize is fake_quantize, bit for bit") {
  for_each_block_format([]<class B>(B) {
    if constexpr (takes_fixed_scale<B>) {
      judge(agreement_of<B>());
    } else {
      agreement total;
      using loft::stochastic;
      add_agreement<loft::row_major>(total, with<B>{});
      add_agreement<loft::tiled_128x4>(total, with<B>{});
      add_agreement<loft::row_major>(total, with<B, loft::default_rule<B>, stochastic<16>, loft::hadamard<16>>{});
      judge(total);
    }
  });
}

namespace {

struct one_block_result {
  int scales = 0, codes = 0, compared = 0, other_index = 0;
};

template <class B> one_block_result compare_one_block() {
  one_block_result result;
  using operand = with<B, loft::default_rule<B>, loft::stochastic<16>>;
  operand const how{.rounding = {5, 6}};
  for (content const kind : contents) {
    for (shape const s : {shape{B::shape.rows, B::shape.cols}, shape{1, B::shape.cols - 5}}) {
      std::vector<float> const x = tensor(kind, s);
      auto const q = quantized<loft::row_major>(x, s, how);
      loft::tensor_scale t{};
      float amax = 0;
      for (float const v : x) amax = std::isfinite(v) ? std::max(amax, std::fabs(v)) : amax;
      if constexpr (loft::has_tensor_scale<B>) t = loft::tensor_scale_for<B>(amax);
      auto const block = loft::quantize_block(x.data(), static_cast<int>(x.size()), how, t);
      auto const later = loft::quantize_block(x.data(), static_cast<int>(x.size()), how, t, 1000);
      auto const scale = q.scale(0);
      result.scales += std::memcmp(&scale, &block.scale, sizeof scale) != 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        auto const at = static_cast<std::int64_t>(i);
        result.codes += q.code(at / s.cols, at % s.cols) != block.codes[i];
        result.other_index += later.codes[i] != block.codes[i];
      }
      for (std::size_t i = x.size(); i < std::size(block.codes); ++i) result.codes += block.codes[i] != 0;
      result.compared += static_cast<int>(x.size());
    }
  }
  return result;
}

}  // namespace

TEST_CASE("quantize_block is quantize on a tensor of one block") {
  for_each_block_format([]<class B>(B) {
    one_block_result const r = compare_one_block<B>();
    CHECK(r.scales == 0);
    CHECK(r.codes == 0);
    CHECK(r.other_index > 0);  // the control: another index draws other words
  });
}

// ---- what is not finite, and zeros ------------------------------------------------------------------------------------

namespace {

struct nan_result {
  int kept = 0, spread = 0, placed = 0, unmarked = 0, coded = 0, other_nan = 0;
};

// One value that is not finite, at many places of a tensor of 2 x 2 blocks: its block is NaN with codes 0, and decodes
// to the quiet NaN; all others are finite.
template <class Operand> nan_result place_nans(Operand const& how, float planted) {
  using B = typename Operand::format;
  nan_result result;
  shape const s{2 * B::shape.rows, 2 * B::shape.cols};
  std::vector<float> const ordinary = tensor(content::ordinary, s);
  std::size_t const step = ordinary.size() > 1000 ? ordinary.size() / 11 : 1;
  for (std::size_t at = 0; at < ordinary.size(); at += step) {
    std::vector<float> x = ordinary;
    x[at] = planted;
    auto q = quantized<loft::row_major>(x, s, how);
    std::vector<float> const y = decoded<loft::row_major>(q, s, how);
    auto const row = static_cast<std::int64_t>(at) / s.cols, col = static_cast<std::int64_t>(at) % s.cols;
    for (std::size_t i = 0; i < y.size(); ++i) {
      auto const r = static_cast<std::int64_t>(i) / s.cols, c = static_cast<std::int64_t>(i) % s.cols;
      bool const inside = r / B::shape.rows == row / B::shape.rows && c / B::shape.cols == col / B::shape.cols;
      result.kept += inside && !std::isnan(y[i]);
      result.other_nan += inside && test::bits_of(y[i]) != 0x7fc00000u;
      result.coded += inside && q.code(r, c) != 0;
      result.spread += !inside && !std::isfinite(y[i]);
    }
    result.unmarked += !loft::detail::is_nan_scale<B>(q.scale_at(row, col));
    ++result.placed;
  }
  return result;
}

template <class B, nonfinite N>
using policy = loft::operand<B, loft::default_rule<B>, loft::default_rounding<B>, loft::no_rotation, N>;

}  // namespace

TEST_CASE("a NaN or an infinity anywhere makes its block NaN and no other") {
  for_each_block_format([]<class B>(B) {
    for (float const planted : {test::not_a_number, -test::not_a_number, test::infinity, -test::infinity}) {
      CAPTURE(planted);
      nan_result const propagated = place_nans(policy<B, nonfinite::propagate>{}, planted);
      CHECK(propagated.kept == 0);
      CHECK(propagated.spread == 0);
      CHECK(propagated.unmarked == 0);
      CHECK(propagated.coded == 0);
      CHECK(propagated.other_nan == 0);
      CHECK(propagated.placed >= 11);
      nan_result const saturated = place_nans(policy<B, nonfinite::saturate>{}, planted);
      CHECK((saturated.kept == 0) == std::isnan(planted));  // the control: a finite block is seen as such
      CHECK((saturated.coded == 0) == std::isnan(planted));
      CHECK(saturated.spread == 0);
    }
  });
}

TEST_CASE("quantize_block gives codes 0 to a block with a NaN or an infinity") {
  for_each_block_format([]<class B>(B) {
    constexpr int size = B::shape.rows * B::shape.cols;
    std::vector<float> const ordinary = tensor(content::ordinary, {1, size});
    for (float const planted : {test::not_a_number, -test::infinity}) {
      CAPTURE(planted);
      std::vector<float> x = ordinary;
      x[size / 3] = planted;
      auto const lost = loft::quantize_block(x.data(), size, with<B>{}, loft::tensor_scale{});
      auto const kept = loft::quantize_block(ordinary.data(), size, with<B>{}, loft::tensor_scale{});
      auto const is_zero = [](auto c) { return c == 0; };
      CHECK(loft::detail::is_nan_scale<B>(lost.scale));
      CHECK(std::all_of(std::begin(lost.codes), std::end(lost.codes), is_zero));
      CHECK(!loft::detail::is_nan_scale<B>(kept.scale));
      CHECK(!std::all_of(std::begin(kept.codes), std::end(kept.codes), is_zero));  // the control
    }
  });
}

TEST_CASE("zeros have scale 0 and codes 0 with their signs") {
  for_each_block_format([]<class B>(B) {
    shape const s{B::shape.rows + 1, B::shape.cols + 16};
    std::vector<float> const x = tensor(content::zeros, s);
    auto q = quantized<loft::row_major>(x, s, with<B>{});
    int scales = 0, codes = 0, signs = 0, negative = 0;
    for (std::size_t i = 0; i < q.scale_places(); ++i) {
      loft::code<typename B::scale> const got = q.scale(i), zero{};
      scales += std::memcmp(&got, &zero, sizeof zero) != 0;
    }
    std::vector<float> const y = decoded<loft::row_major>(q, s, with<B>{});
    bool const has_negative = B::element::spec.has_negative_zero();
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto const at = static_cast<std::int64_t>(i);
      bool const minus = std::signbit(x[i]) && has_negative;
      codes += q.code(at / s.cols, at % s.cols) != (minus ? B::element::spec.sign_mask() : 0u);
      signs += y[i] != 0 || std::signbit(y[i]) != minus;
      negative += minus;
    }
    CHECK(scales == 0);
    CHECK(codes == 0);
    CHECK(signs == 0);
    CHECK((negative > 0) == has_negative);
  });
}

namespace {

// Factors of all blocks that are not finite although the block is.
template <class Operand> int infinite_factors(Operand const& how, int& seen) {
  using B = typename Operand::format;
  int count = 0;
  for (content const kind :
       {content::huge, content::wide, content::subnormals, content::ordinary, content::mixed_sizes}) {
    shape const s = shapes_for<B>().back();
    auto const q = quantized<loft::row_major>(tensor(kind, s), s, how);
    for (std::size_t i = 0; i < q.scale_places(); ++i) {
      for (int col = 0; col < B::shape.cols; col += loft::detail::factor_cols<B>) {
        count += !std::isfinite(loft::detail::factor_of<B>(q.scale(i), col));
        ++seen;
      }
    }
  }
  return count;
}

}  // namespace

TEST_CASE("a scale never decodes to infinity or, in a finite block, NaN") {
  for_each_block_format([]<class B>(B) {
    int seen = 0;
    CHECK(infinite_factors(with<B>{}, seen) == 0);
    if constexpr (loft::detail::is_power_of_two_format<typename B::scale>) {
      CHECK(infinite_factors(with<B, loft::ceil_scale>{}, seen) == 0);
      CHECK(infinite_factors(with<B, loft::even_scale>{}, seen) == 0);
      CHECK(infinite_factors(with<B, loft::quest_scale>{}, seen) == 0);
    } else if constexpr (loft::has_tensor_scale<B>) {
      for (float const amax : {0.0f, 1e-45f, 1.0f, test::float_max})
        CHECK(infinite_factors(with<B, loft::two_level>{.rule = {amax}}, seen) == 0);
      CHECK(infinite_factors(with<B, loft::four_over_six<>>{}, seen) == 0);
    }
    CHECK(seen > 9);
  });
}

// ---- quantizing twice -------------------------------------------------------------------------------------------------

namespace {

// Values that a second fake_quantize changes.
template <class Operand> int changed_again(Operand const& how, std::vector<content> const& kinds) {
  using B = typename Operand::format;
  int count = 0;
  for (content const kind : kinds) {
    for (shape const s : shapes_for<B>()) {
      std::vector<float> const once = fake(tensor(kind, s), s, how);
      count += differing(once, fake(once, s, how));
    }
  }
  return count;
}

// Without values that round up to 2^128, which has no float.
std::vector<content> const all_but_huge{content::ordinary, content::wide,       content::specials,
                                        content::zeros,    content::subnormals, content::mixed_sizes};
std::vector<content> const everything{std::begin(contents), std::end(contents)};

}  // namespace

// Where the second quantization finds a scale under which all values of the first are codes again:
//   ocp_floor     any rounding: the maximum stays in its binade.
//   ceil_scale    any rounding: the maximum stays, or falls to half the largest element, and half of every value is a code.
//   even_scale    nearest even, the rounding that the rule foresees: the maximum stays, or becomes the power of two above.
//   fixed_scale   any rounding, scales without a tensor's.
//   two_level     with a known amax, in blocks whose scale is a normal number, in nearest modes: the block maximum is the
//                 largest element times the scale, and the same scale follows.
// Not so:
//   nearest_scale      a maximum of 4.5 becomes 4, whose scale is half of 4.5's, and 4 is then too large for it.
//   floor_four_thirds  4/3 moves the maximum to the next binade, and the coarser grid lacks the small values.
//   quest_scale        the spread of the rounded values is another one.
//   two_level with a computed amax, division_scale, and rules of levels made of them: the tensor's (block's) maximum is
//                 rebuilt from rounded factors, so that it, and all values with it, may be an ulp off.
TEST_CASE("fake_quantize twice is fake_quantize, where the rule makes it so") {
  for_each_block_format([]<class B>(B) {
    using loft::stochastic;
    if constexpr (loft::detail::is_power_of_two_format<typename B::scale>) {
      CHECK(changed_again(with<B>{}, everything) == 0);
      CHECK(changed_again(with<B, loft::ocp_floor, stochastic<16>>{}, everything) == 0);
      CHECK(changed_again(with<B, loft::ocp_floor, loft::toward_zero>{}, everything) == 0);
      CHECK(changed_again(with<B, loft::ceil_scale>{}, all_but_huge) == 0);
      CHECK(changed_again(with<B, loft::ceil_scale, stochastic<16>>{}, all_but_huge) == 0);
      CHECK(changed_again(with<B, loft::even_scale>{}, all_but_huge) == 0);
      CHECK(changed_again(with<B, loft::fixed_scale, stochastic<16>>{.rule = {0.25f}}, everything) == 0);
      CHECK(changed_again(with<B, loft::floor_four_thirds>{}, all_but_huge) > 0);
    } else if constexpr (loft::has_tensor_scale<B> && !requires { typename B::alternative; }) {
      // Random values of one size: the block maxima are far above the least normal scale.
      CHECK(changed_again(with<B, loft::two_level>{.rule = {8.0f}}, {content::ordinary}) == 0);
      CHECK(changed_again(with<B, loft::two_level>{}, {content::ordinary, content::wide}) > 0);
    }
  });
  CHECK(changed_again(with<loft::mxfp4, loft::nearest_scale>{}, {content::ordinary}) > 0);
  CHECK(changed_again(with<loft::mxfp4, loft::quest_scale>{}, {content::ordinary}) > 0);
}

// ---- places: ranges and layouts ---------------------------------------------------------------------------------------

namespace {

template <class B, class Layout> struct glue_result {
  bool same_buffers = false, same_values = false, only_own_rows = false, clean = false;
};

template <class B, class Layout> glue_result<B, Layout> glue() {
  shape const s{B::shape.rows > 1 ? B::shape.rows + 40 : 300, B::shape.cols + 16};
  std::vector<float> const x = tensor(content::specials, s);
  using operand = with<B, loft::default_rule<B>, loft::stochastic<16>>;
  operand const how{.rounding = {3, 4}};
  any_buffers<B, Layout> whole = quantized<Layout>(x, s, how), parts(s.rows, s.cols), first(s.rows, s.cols);
  std::vector<float> const all = fake(x, s, how);
  std::vector<float> pieces(x.size(), -5.0f), unpacked(x.size(), -5.0f);
  std::int64_t const step = B::shape.rows > 1 ? B::shape.rows : 37;
  bool ok = true;
  for (std::int64_t row = 0; row < s.rows; row += step) {
    row_range const range{row, std::min(step, s.rows - row)};
    ok = ok && loft::quantize(view_of(x, s), parts.view(), how, range) == status::ok;
    ok = ok && loft::fake_quantize(view_of(x, s), into(pieces, s), how, range) == status::ok;
    ok = ok && loft::dequantize(whole.view(), into(unpacked, s), how, range) == status::ok;
  }
  ok = ok && loft::quantize(view_of(x, s), first.view(), how, row_range{0, step}) == status::ok;
  glue_result<B, Layout> result{ok && parts == whole, differing(pieces, all) == 0 && differing(unpacked, all) == 0,
                                true, parts.margins_are_clean() && whole.margins_are_clean()};
  for (std::int64_t c = 0; c < s.cols; ++c)
    result.only_own_rows = result.only_own_rows && first.code(step, c) == (1u << B::element::spec.bits()) - 1;
  return result;
}

}  // namespace

TEST_CASE("ranges of rows glue to the whole") {
  for_each_block_format([]<class B>(B) {
    auto const check = [](auto const& r) {
      CHECK(r.same_buffers);
      CHECK(r.same_values);
      CHECK(r.only_own_rows);
      CHECK(r.clean);
    };
    check(glue<B, loft::row_major>());
    check(glue<B, loft::tiled_128x4>());
  });
}

// Found by fuzzing: a null pointer is right for no elements, and is not counted on from either (seen by the sanitizers).
TEST_CASE("a range of rows without columns is ok and touches nothing") {
  for_each_block_format([]<class B>(B) {
    any_buffers<B> q(B::shape.rows + 3, 0);
    loft::matrix_view<float const> const in{nullptr, B::shape.rows + 3, 0, 7};
    loft::matrix_view<float> const out{nullptr, B::shape.rows + 3, 0, 7, 2};
    row_range const range{B::shape.rows, -1};
    CHECK(loft::quantize(in, q.view(), with<B>{}, range) == status::ok);
    CHECK(loft::fake_quantize(in, out, with<B>{}, range) == status::ok);
    CHECK(loft::dequantize(q.view(), out, with<B>{}, range) == status::ok);
    CHECK(q.untouched());
  });
}

namespace {

struct tiling_result {
  int moved = 0, padding = 0, compared = 0, padded = 0, in_row_major_order = 0;
  bool codes = true, clean = true;
};

// The layout of block-scaled matrix instructions, from its description: tiles of 128 rows and 4 scales a row, row-major
// over tiles; in a tile of 512 places, (row % 32) * 16 + (row / 32 % 4) * 4 + scale % 4.
template <class B> tiling_result tile(shape s) {
  tiling_result result;
  std::vector<float> const x = tensor(content::wide, s);
  auto const plain = quantized<loft::row_major>(x, s, with<B>{});
  auto const tiled = quantized<loft::tiled_128x4>(x, s, with<B>{});
  using scale_code = typename any_buffers<B>::scale_code;
  auto const equal = [](scale_code const& a, scale_code const& b) { return std::memcmp(&a, &b, sizeof a) == 0; };
  std::int64_t const across = test::blocks_in(s.cols, B::shape.cols), tiles_across = test::blocks_in(across, 4);
  std::vector<bool> used(tiled.scale_places(), false);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t c = 0; c < across; ++c) {
      std::int64_t const offset = (r % 32) * 16 + (r / 32 % 4) * 4 + c % 4;
      auto const place = static_cast<std::size_t>((r / 128 * tiles_across + c / 4) * 512 + offset);
      auto const in_rows = static_cast<std::size_t>(r / B::shape.rows * across + c);
      result.moved += !equal(tiled.scale(place), plain.scale(in_rows));
      result.in_row_major_order += equal(tiled.scale(in_rows), plain.scale(in_rows));
      used[place] = true;
      ++result.compared;
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    result.padding += !equal(tiled.scale(i), scale_code{});
    ++result.padded;
  }
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t c = 0; c < s.cols; ++c) result.codes = result.codes && plain.code(r, c) == tiled.code(r, c);
  result.clean = tiled.margins_are_clean() && plain.margins_are_clean();
  return result;
}

void judge(tiling_result const& r) {
  CHECK(r.moved == 0);
  CHECK(r.padding == 0);
  CHECK(r.codes);
  CHECK(r.clean);
  CHECK(r.padded > 0);
  CHECK(r.in_row_major_order < r.compared);  // the control: the place matters
}

}  // namespace

TEST_CASE("tiled_128x4 moves the scales by its formula, repeats those of tiles, and zeroes the padding") {
  for_each_block_format([]<class B>(B) {
    judge(tile<B>({B::shape.rows > 1 ? 150 : 261, 5 * B::shape.cols + 8}));
    judge(tile<B>({70, 6 * B::shape.cols}));
    if constexpr (requires { typename loft::square<B, 16>; }) judge(tile<loft::square<B, 16>>({261, 16 * 9 + 8}));
  });
}

namespace {

// A layout of one's own: tiles of 8 rows of blocks and 3 scales, column by column within a tile.
struct tiled_8x3 {
  static constexpr std::int64_t tile_rows = 8, tile_cols = 3;
  static constexpr bool repeats_rows = false;
  static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t, std::int64_t cols) {
    return (row / 8 * ((cols + 2) / 3) + col / 3) * 24 + col % 3 * 8 + row % 8;
  }
};
static_assert(loft::ScaleLayout<tiled_8x3> && loft::ScaleLayout<loft::row_major> && loft::ScaleLayout<loft::col_major>);
static_assert(!loft::ScaleLayout<int>);

// quantize in two ranges of rows, split at a row of blocks: the scales at the places that place(row, col) says, zeros at
// all others, and dequantize finds them.
template <class B, class L, class Place>
void check_layout(std::int64_t block_rows, std::int64_t block_cols, std::int64_t split, std::int64_t places,
                  Place place) {
  using scale_code = typename any_buffers<B>::scale_code;
  shape const s{block_rows * B::shape.rows - (B::shape.rows > 1 ? 1 : 0),
                block_cols * B::shape.cols - B::shape.cols / 2};
  std::vector<float> const x = tensor(content::ordinary, s);
  auto plain = quantized<loft::row_major>(x, s, with<B>{});
  CHECK(loft::scale_count<B, L>(s.rows, s.cols) == places);
  std::vector<scale_code> scales(static_cast<std::size_t>(places + 1), scale_code{0x55}), expected(scales.size());
  expected.back() = 0x55;
  for (std::int64_t r = 0; r < block_rows; ++r)
    for (std::int64_t c = 0; c < block_cols; ++c)
      expected[static_cast<std::size_t>(place(r, c))] = plain.scale(static_cast<std::size_t>(r * block_cols + c));
  any_buffers<B> q(s.rows, s.cols);
  loft::quantized_view<B, L> const out{q.view().codes, scales.data(), &q.tensor_scale, s.rows, s.cols};
  for (row_range const range : {row_range{split * B::shape.rows, -1}, row_range{0, split * B::shape.rows}})
    CHECK(loft::quantize(view_of(x, s), out, with<B>{}, range) == status::ok);
  CHECK(scales == expected);
  std::vector<float> y(x.size());
  CHECK(loft::dequantize(out, into(y, s), with<B>{}) == status::ok);
  CHECK(differing(y, decoded<loft::row_major>(plain, s, with<B>{})) == 0);
}

template <class B> void check_own_layout(std::int64_t block_rows, std::int64_t block_cols, std::int64_t split) {
  check_layout<B, tiled_8x3>(
      block_rows, block_cols, split, (block_rows + 7) / 8 * ((block_cols + 2) / 3) * 24,
      [&](std::int64_t r, std::int64_t c) { return tiled_8x3::index(r, c, block_rows, block_cols); });
}

template <class B> void check_col_major(std::int64_t block_rows, std::int64_t block_cols, std::int64_t split) {
  check_layout<B, loft::col_major>(block_rows, block_cols, split, block_rows * block_cols,
                                   [&](std::int64_t r, std::int64_t c) { return c * block_rows + r; });
}

}  // namespace

TEST_CASE("a scale layout of one's own: tiles of any size, padding zeroed, whatever the range of rows") {
  for (std::int64_t const split : {0, 1, 8, 11}) {
    check_own_layout<loft::mxfp4>(11, 7, split);
    check_own_layout<loft::nvfp4>(11, 6, split);
    if (split < 11) check_own_layout<loft::square<loft::mxfp4, 8>>(11, 4, split);
  }
  check_own_layout<loft::fp8_1x128>(16, 3, 9);
}

TEST_CASE("col_major: one column of the grid of scales after the other, whatever the range of rows") {
  for (std::int64_t const split : {0, 1, 8, 11}) {
    check_col_major<loft::mxfp4>(11, 7, split);
    check_col_major<loft::nvfp4>(11, 6, split);
    if (split < 11) check_col_major<loft::square<loft::nvfp4, 16>>(11, 4, split);
  }
  check_col_major<loft::fp8_1x128>(16, 3, 9);
}

// ---- the transpose ----------------------------------------------------------------------------------------------------

namespace {

template <class B> constexpr bool has_square = requires { typename loft::square<B, 16>; };

// Codes, scales and a tensor scale of the transpose that are not the transposed ones.
template <class B> int transposition_mismatches(content kind) {
  shape const s{45, 75};
  std::vector<float> const x = tensor(kind, s);
  any_buffers<B> a(s.rows, s.cols), b(s.cols, s.rows);
  with<B> const how{};
  if (loft::quantize(view_of(x, s), a.view(), how) != status::ok) return -1;
  if (loft::quantize(loft::transposed(view_of(x, s)), b.view(), how) != status::ok) return -1;
  int count = 0;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t c = 0; c < s.cols; ++c) {
      auto const there = a.scale_at(r, c), here = b.scale_at(c, r);
      count += a.code(r, c) != b.code(c, r) || std::memcmp(&there, &here, sizeof here) != 0;
    }
  }
  return count + (loft::has_tensor_scale<B> && !test::same(a.tensor_scale, b.tensor_scale));
}

template <class B> void check_square() {
  static_assert(loft::is_transposition_invariant<B>);
  CAPTURE(B::shape.rows);
  CHECK(transposition_mismatches<B>(content::ordinary) == 0);
  CHECK(transposition_mismatches<B>(content::mixed_sizes) == 0);
  CHECK(transposition_mismatches<B>(content::specials) == 0);
  CHECK(transposition_mismatches<B>(content::zeros) == 0);
}

}  // namespace

TEST_CASE("square tiles commute with the transpose, rows of blocks do not") {
  int squares = 0;
  for_each_block_format([&]<class B>(B) {
    if constexpr (has_square<B>) {
      check_square<loft::square<B, 8>>(), check_square<loft::square<B, 16>>(), check_square<loft::square<B, 32>>();
      ++squares;
    }
    bool const invariant = loft::is_transposition_invariant<B>;
    CHECK(invariant == (B::shape.rows == B::shape.cols));
    if (!invariant) CHECK(transposition_mismatches<B>(content::mixed_sizes) > 0);
  });
  CHECK(squares >= 9);
}
