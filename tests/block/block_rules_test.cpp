// SPDX-License-Identifier: Apache-2.0
// Block formats with rules of their own, and every scale rule, against references written from their descriptions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "block_check.hpp"
#include "loft/loft.hpp"
#include "tensor/any_buffers.hpp"

namespace {

using loft::nonfinite, loft::status;
using oracle::rounding;
using test::any_buffers, test::content, test::float_max, test::shape, test::table_of, test::tally, test::tensor,
    test::view_of;

constexpr content contents_here[] = {content::ordinary,   content::wide, content::specials,   content::zeros,
                                     content::subnormals, content::huge, content::mixed_sizes};
constexpr shape shapes_here[] = {{1, 1}, {3, 64}, {5, 37}, {4, 300}, {2, 129}};

// ---- the comparison ---------------------------------------------------------------------------------------------------

// What a reference says of one block of floats: codes, the factor of each element, and whether the block is NaN.
struct block_answer {
  std::vector<std::uint32_t> codes, scale;  // the scale in words, of whatever kind
  std::vector<float> values;
  bool nan = false;
};
using block_reference = std::function<block_answer(std::vector<float> const&)>;

std::vector<std::uint32_t> words_of(std::uint8_t scale) { return {scale}; }
std::vector<std::uint32_t> words_of(std::uint32_t scale) { return {scale}; }
std::vector<std::uint32_t> words_of(loft::hif4_levels s) { return {s.top, s.eights, s.fours}; }
std::vector<std::uint32_t> words_of(loft::double_levels const& s) {
  std::vector<std::uint32_t> words{test::bits_of(s.outer)};
  words.insert(words.end(), std::begin(s.inner), std::end(s.inner));
  return words;
}

struct counts {
  int codes = 0, scales = 0, values = 0, blocks = 0, dirty = 0;
  void add(counts const& c) {
    codes += c.codes, scales += c.scales, values += c.values, blocks += c.blocks, dirty += c.dirty;
  }
};

template <class Operand, class T>
counts differences(std::vector<T> const& x, std::vector<float> const& as_float, shape s, Operand const& how,
                   block_reference const& expect) {
  using B = typename Operand::format;
  counts n;
  any_buffers<B> q(s.rows, s.cols);
  std::vector<float> y(x.size());
  n.dirty += loft::quantize(view_of(x, s), q.view(), how) != status::ok;
  n.dirty += loft::dequantize(q.view(), loft::matrix_view<float>{y.data(), s.rows, s.cols, s.cols}, how) != status::ok;
  n.dirty += !q.margins_are_clean();
  for (std::int64_t top = 0; top < s.rows; top += B::shape.rows) {
    for (std::int64_t left = 0; left < s.cols; left += B::shape.cols) {
      std::vector<float> block;
      std::vector<std::size_t> places;
      for (std::int64_t r = top; r < std::min(s.rows, top + B::shape.rows); ++r)
        for (std::int64_t c = left; c < std::min(s.cols, left + B::shape.cols); ++c)
          places.push_back(static_cast<std::size_t>(r * s.cols + c));
      for (std::size_t const at : places) block.push_back(as_float[at]);
      block_answer const a = expect(block);
      ++n.blocks;
      n.scales +=
          a.nan ? !loft::detail::is_nan_scale<B>(q.scale_at(top, left)) : words_of(q.scale_at(top, left)) != a.scale;
      for (std::size_t i = 0; i < places.size(); ++i) {
        auto const at = static_cast<std::int64_t>(places[i]);
        n.codes += !a.nan && q.code(at / s.cols, at % s.cols) != a.codes[i];
        n.values += a.nan ? !std::isnan(y[places[i]]) : !test::same(y[places[i]], a.values[i]);
      }
    }
  }
  return n;
}

void judge(counts const& n, counts const& control) {
  CHECK(n.codes == 0);
  CHECK(n.scales == 0);
  CHECK(n.values == 0);
  CHECK(n.dirty == 0);
  CHECK(n.blocks > 20);
  CHECK(control.codes + control.scales + control.values > 0);
}

using reference_maker = std::function<block_reference(std::vector<float> const&)>;

// Every content in every shape; the reference is made anew for each tensor, which it may ask for its amax.
template <class Operand> counts on_all_tensors(Operand const& how, reference_maker const& make) {
  counts total;
  for (content const kind : contents_here) {
    for (shape const s : shapes_here) {
      std::vector<float> const x = tensor(kind, s);
      total.add(differences(x, x, s, how, make(x)));
    }
  }
  return total;
}

float finite_amax(std::vector<float> const& x) {
  float amax = 0;
  for (float const v : x) amax = std::isfinite(v) ? std::max(amax, std::fabs(v)) : amax;
  return amax;
}
bool all_finite(std::vector<float> const& x) {
  return std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
}
block_answer nan_block() { return {{}, {}, {}, true}; }

// ---- power-of-two scales ----------------------------------------------------------------------------------------------

// Codes and values of a block whose values are divided by 2^k, or by 2^k times a constant of the rule.
block_answer with_power_of_two(std::vector<float> const& x, oracle::table const& element, int k, float before = 1,
                               float after = 1) {
  block_answer a;
  bool const zero = finite_amax(x) == 0;
  a.scale = {zero ? 0u : static_cast<std::uint32_t>(k + 127)};
  if (zero) k = -127;
  for (float const v : x) {
    float const given = v * before;
    std::uint32_t const code = element.encode(std::ldexp(static_cast<double>(given), -k));
    a.codes.push_back(code);
    auto const exact = static_cast<float>(std::ldexp(element.decode(code), k));
    a.values.push_back(after == 1 ? exact : exact * after);
  }
  return a;
}

template <class B>
reference_maker mx_reference(std::function<int(float)> exponent_of, float before = 1, float after = 1) {
  return [=](std::vector<float> const&) {
    return [=](std::vector<float> const& x) {
      if (!all_finite(x)) return nan_block();
      float const amax = finite_amax(x);
      int const k = amax == 0 ? 0 : std::clamp(exponent_of(amax), -127, 127);
      return with_power_of_two(x, table_of<typename B::element>(), k, before, after);
    };
  };
}

int floor_exponent(float amax, oracle::table const& element) { return std::ilogb(amax) - std::ilogb(element.max()); }

}  // namespace

TEST_CASE_TEMPLATE("MXINT8 and MXFP6 have the OCP rule", B, loft::mxint8, loft::mxfp6_e2m3, loft::mxfp6_e3m2) {
  oracle::table const& element = table_of<typename B::element>();
  auto const expected = mx_reference<B>([&](float amax) { return floor_exponent(amax, element); });
  auto const shifted = mx_reference<B>([&](float amax) { return floor_exponent(amax, element) + 1; });
  judge(on_all_tensors(loft::operand<B>{}, expected), on_all_tensors(loft::operand<B>{}, shifted));
}

namespace {

// Sum and sum of squares in double, in order; squares of floats and of 8-bit significands are exact.
int quest_exponent(std::vector<float> const& x) {
  double sum = 0, squares = 0;
  for (float const v : x) sum += static_cast<double>(v), squares += static_cast<double>(v) * static_cast<double>(v);
  double const n = static_cast<double>(x.size()), mean = sum / n;
  return std::clamp(std::ilogb(2.92247856 / 6 * std::sqrt(squares / n - mean * mean) + 1e-8), -127, 127);
}

}  // namespace

TEST_CASE("floor times 4/3, the fixed scale and the scale from the spread") {
  oracle::table const& element = table_of<loft::e2m1>();
  auto const floor_of = [&](float amax) { return floor_exponent(amax, element); };
  judge(on_all_tensors(loft::operand<loft::mxfp4, loft::floor_four_thirds>{},
                       mx_reference<loft::mxfp4>(floor_of, 0.75f, 4.0f / 3.0f)),
        on_all_tensors(loft::operand<loft::mxfp4, loft::floor_four_thirds>{}, mx_reference<loft::mxfp4>(floor_of)));
  for (float const value : {0.25f, 1.0f, 3.0f, 1e-30f, 1e-45f}) {
    int const k = static_cast<int>(table_of<loft::e8m0>().encode(value)) - 127;
    loft::operand<loft::mxfp4, loft::fixed_scale> const how{.rule = {value}};
    judge(on_all_tensors(how, mx_reference<loft::mxfp4>([k](float) { return k; })),
          on_all_tensors(how, mx_reference<loft::mxfp4>([k](float) { return k + 1; })));
  }
  auto const spread = [](int shift) -> reference_maker {
    return [=](std::vector<float> const&) {
      return [=](std::vector<float> const& x) {
        return all_finite(x) ? with_power_of_two(x, table_of<loft::e2m1>(), quest_exponent(x) + shift) : nan_block();
      };
    };
  };
  loft::operand<loft::mxfp4, loft::quest_scale> const how{};
  counts quest, control;
  for (content const kind : {content::ordinary, content::specials, content::zeros, content::mixed_sizes}) {
    for (shape const s : shapes_here) {
      std::vector<float> const x = tensor(kind, s);
      quest.add(differences(x, x, s, how, spread(0)(x)));
      control.add(differences(x, x, s, how, spread(1)(x)));
    }
  }
  judge(quest, control);
}

namespace {

// Every significand of a binade, and of the least normal and the subnormal ones, as a block maximum.
template <class B, class Rule, class Expect> void sweep_significands(Expect expect) {
  constexpr Rule rule{};
  tally same, control;
  for (std::uint32_t const base : {0x3f800000u, 0x40400000u - 0x400000u, 0x00000000u, 0x00800000u, 0x7f000000u}) {
    for (std::uint32_t significand = base == 0 ? 1 : 0; significand < 1u << 23; ++significand) {
      float const amax = test::float_of(base + significand);
      std::uint32_t const got = rule.template scale<B>(amax, {});
      same.add(static_cast<double>(amax), got,
               static_cast<std::uint32_t>(std::clamp(expect(base + significand), -127, 127) + 127));
      control.add(static_cast<double>(amax), got,
                  static_cast<std::uint32_t>(std::clamp(expect(base + significand + 0x800000u), -127, 127) + 127));
    }
  }
  CHECK_MESSAGE(same.wrong == 0, same.first());
  CHECK(same.compared > 5 * 8388600);
  CHECK(control.wrong > 1000);
}

// A positive float as an integer times a power of two, the integer's leading bit in place 23.
struct whole {
  std::uint64_t significand;
  int exponent;  // of the leading bit
};
whole take_apart(std::uint32_t bits) {
  std::uint64_t significand = bits & 0x7fffffu;
  int exponent = static_cast<int>(bits >> 23) - 127;
  if (bits >> 23 != 0) return {significand | 0x800000u, exponent};
  exponent = -126;
  while (significand < 0x800000u) significand *= 2, --exponent;
  return {significand, exponent};
}

}  // namespace

// The largest element is a small integer times a power of two, so that each rule compares integers.
TEST_CASE_TEMPLATE("the power-of-two rules on all significands", B, loft::mxfp4, loft::mxfp8_e4m3) {
  double const top = table_of<typename B::element>().max();
  int const emax = std::ilogb(top);
  auto const units = static_cast<std::uint64_t>(std::ldexp(top, 23 - emax));  // top as a significand
  int const mantissa_bits = test::row_of<typename B::element>.mantissa_bits;
  sweep_significands<B, loft::ocp_floor>([&](std::uint32_t bits) { return take_apart(bits).exponent - emax; });
  sweep_significands<B, loft::ceil_scale>([&](std::uint32_t bits) {
    whole const a = take_apart(bits);  // the least k with a <= top * 2^k
    return a.exponent - emax + (a.significand > units);
  });
  sweep_significands<B, loft::even_scale>([&](std::uint32_t bits) {
    if (mantissa_bits == 1 && bits >= 0x800000u)  // the published form, for E2M1
      return static_cast<int>(((bits + 0x200000u) & 0xff800000u) >> 23) - 127 - 2;
    whole const a = take_apart(bits);
    return a.exponent - emax + (a.significand + (std::uint64_t{1} << (22 - mantissa_bits)) >= std::uint64_t{1} << 24);
  });
  sweep_significands<B, loft::nearest_scale>([&](std::uint32_t bits) {
    whole const a = take_apart(bits);  // the k with top^2 <= 2 * (a / 2^k)^2 < 4 * top^2
    int k = -1;
    auto const scaled_square = [&](int shift) { return a.significand * a.significand << (2 * shift); };
    if (2 * scaled_square(0) >= units * units) k = 0;
    if (scaled_square(0) >= 2 * units * units) k = 1;
    return a.exponent - emax + k;
  });
}

// ---- scales of FP8, without and with a tensor's -----------------------------------------------------------------------

namespace {

float positive_least(float a, float b) { return b < a ? b : a; }

// Everything a two-level rule is told, as the descriptions have it.
struct two_level_rule {
  float top = 6, ceiling = 448, shrink = 1, known_amax = -1;
};

struct tensor_factors {
  float encode, decode;
};
tensor_factors factors_of(std::vector<float> const& tensor_values, two_level_rule const& rule) {
  float const amax = rule.known_amax >= 0 ? rule.known_amax : finite_amax(tensor_values);
  float const range = rule.top * rule.shrink * rule.ceiling;
  float const encode = amax == 0 ? 1.0f : positive_least(range / amax, float_max);
  return {encode, 1.0f / encode};
}

// Elements times `unit` under one decoded scale: the multiplier is the inverse of what decoding multiplies with.
block_answer with_scale(std::vector<float> const& x, oracle::table const& element, float unit, std::uint32_t stored,
                        float scale, tensor_factors t) {
  block_answer a;
  a.scale = {stored};
  float const step = scale * t.decode;
  float const multiplier = scale == 0 ? 0.0f : positive_least(1.0f / step, float_max);
  for (float const v : x) {
    float const product = v * multiplier, in_units = unit == 1 ? product : product * (1.0f / unit);
    std::uint32_t const code = element.encode(static_cast<double>(in_units));
    a.codes.push_back(code);
    float const value =
        unit == 1 ? static_cast<float>(element.decode(code)) : static_cast<float>(element.decode(code)) * unit;
    float const scaled = value * scale;
    a.values.push_back(t.decode == 1 ? scaled : scaled * t.decode);
  }
  return a;
}

std::uint32_t two_level_scale(float block_amax, two_level_rule const& rule, tensor_factors t, float factor = 1) {
  float const per_unit = t.encode * (1.0f / (rule.top * rule.shrink));
  float const six = block_amax * per_unit;
  return table_of<loft::ue4m3>().encode(static_cast<double>(factor == 1 ? six : six * factor));
}

template <class Element> reference_maker two_level_reference(two_level_rule rule) {
  rule.top = static_cast<float>(table_of<Element>().max());
  return [=](std::vector<float> const& all) {
    tensor_factors const t = factors_of(all, rule);
    return [=](std::vector<float> const& x) {
      if (!all_finite(x)) return nan_block();
      std::uint32_t const code = finite_amax(x) == 0 ? 0 : two_level_scale(finite_amax(x), rule, t);
      return with_scale(x, table_of<Element>(), 1, code, static_cast<float>(table_of<loft::ue4m3>().decode(code)), t);
    };
  };
}

}  // namespace

TEST_CASE("two-level scales: NVFP4 and NVINT4, both ceilings, with room for stochastic rounding, with a known amax") {
  auto const check = [](auto const& how, reference_maker const& expected) {
    judge(on_all_tensors(how, expected), on_all_tensors(how, two_level_reference<loft::e2m1>({.ceiling = 200})));
  };
  using loft::nvfp4, loft::nvint4, loft::operand, loft::e2m1, loft::int4;
  check(operand<nvfp4>{}, two_level_reference<e2m1>({}));
  check(operand<nvint4>{}, two_level_reference<int4>({}));
  check(operand<nvfp4, loft::two_level_256>{}, two_level_reference<e2m1>({.ceiling = 256}));
  check(operand<nvint4, loft::two_level_256>{}, two_level_reference<int4>({.ceiling = 256}));
  check(operand<nvfp4, loft::unbiased_two_level>{}, two_level_reference<e2m1>({.shrink = 16.0f / 17.0f}));
  check(operand<nvfp4, loft::unbiased_two_level_256>{},
        two_level_reference<e2m1>({.ceiling = 256, .shrink = 16.0f / 17.0f}));
  for (float const amax : {0.0f, 1e-45f, 1.0f, 37.5f, float_max}) {
    CAPTURE(amax);
    check(operand<nvint4>{.rule = {amax}}, two_level_reference<int4>({.known_amax = amax}));
    check(operand<nvfp4, loft::unbiased_two_level_256>{.rule = {amax}},
          two_level_reference<e2m1>({.ceiling = 256, .shrink = 16.0f / 17.0f, .known_amax = amax}));
  }
}

TEST_CASE("a history of maxima: its largest, and -1 while it is empty") {
  loft::delayed_amax<3> history{};
  CHECK(history.amax() == -1.0f);
  std::vector<float> taken;
  test::noise next{5};
  for (int i = 0; i < 300; ++i) {
    float const planted[] = {test::not_a_number, test::infinity, -1.0f};
    float const amax = next() % 4 == 0 ? planted[next() % 3] : std::fabs(next.value(-8, 8));
    history.push(amax);
    if (amax >= 0 && std::isfinite(amax)) taken.push_back(amax);
    float expected = taken.empty() ? -1.0f : 0.0f;
    for (std::size_t k = taken.size() < 3 ? 0 : taken.size() - 3; k < taken.size(); ++k)
      expected = std::max(expected, taken[k]);
    REQUIRE(history.amax() == expected);
  }
  // It is what a two-level rule takes.
  loft::operand<loft::nvfp4> const how{.rule = {history.amax()}};
  judge(on_all_tensors(how, two_level_reference<loft::e2m1>({.known_amax = history.amax()})),
        on_all_tensors(how, two_level_reference<loft::e2m1>({})));
}

namespace {

enum class measure { squares, absolutes, maximum };

// The error over a block, added up in float in the order of the elements.
float error_of(block_answer const& a, std::vector<float> const& x, measure how) {
  float total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    float const difference = a.values[i] - x[i];
    if (how == measure::squares) {
      float const square = difference * difference;
      total = total + square;
    } else if (how == measure::absolutes) {
      total = total + std::fabs(difference);
    } else {
      total = std::isnan(total) || std::fabs(difference) > total ? std::fabs(difference) : total;
    }
  }
  return total;
}

int fours_taken = 0, sixes_taken = 0;

// As on paper; `not_strictly` takes the second also when it is as good.
reference_maker four_over_six_reference(measure how, float known_amax = -1, bool not_strictly = false) {
  two_level_rule const rule{.ceiling = 256, .known_amax = known_amax};
  return [=](std::vector<float> const& all) {
    tensor_factors const t = factors_of(all, rule);
    return [=](std::vector<float> const& x) {
      if (!all_finite(x)) return nan_block();
      auto const candidate = [&](float factor) {
        std::uint32_t const code = finite_amax(x) == 0 ? 0 : two_level_scale(finite_amax(x), rule, t, factor);
        return with_scale(x, table_of<loft::e2m1>(), 1, code, static_cast<float>(table_of<loft::ue4m3>().decode(code)),
                          t);
      };
      block_answer const six = candidate(1), four = candidate(1.5f);
      float const of_six = error_of(six, x, how), of_four = error_of(four, x, how);
      bool const take_four = not_strictly ? of_four <= of_six : of_four < of_six;
      ++(take_four ? fours_taken : sixes_taken);
      return take_four ? four : six;
    };
  };
}

template <class Error> void check_four_over_six(measure how) {
  using operand = loft::operand<loft::nvfp4, loft::four_over_six<Error>>;
  fours_taken = sixes_taken = 0;
  counts const same = on_all_tensors(operand{}, four_over_six_reference(how));
  CHECK(fours_taken > 50);
  CHECK(sixes_taken > 50);
  judge(same, on_all_tensors(operand{}, four_over_six_reference(how, -1, true)));
  judge(on_all_tensors(operand{.rule = {3.5f}}, four_over_six_reference(how, 3.5f)),
        on_all_tensors(operand{.rule = {3.5f}}, four_over_six_reference(how)));
}

}  // namespace

TEST_CASE("four over six takes 4 only when its error is strictly smaller") {
  check_four_over_six<loft::squared_error>(measure::squares);
  check_four_over_six<loft::absolute_error>(measure::absolutes);
  check_four_over_six<loft::maximal_error>(measure::maximum);
}

namespace {

// IF4: the scale of NVFP4; the sign of the scale marks blocks of integers in units of 6/7, taken when strictly better.
reference_maker if4_reference(bool integers_first = false) {
  return [=](std::vector<float> const& all) {
    two_level_rule const rule{};
    tensor_factors const t = factors_of(all, rule);
    return [=](std::vector<float> const& x) {
      if (!all_finite(x)) return nan_block();
      std::uint32_t const code = finite_amax(x) == 0 ? 0 : two_level_scale(finite_amax(x), rule, t);
      float const scale = static_cast<float>(table_of<loft::ue4m3>().decode(code));
      block_answer const floats = with_scale(x, table_of<loft::e2m1>(), 1, code, scale, t);
      block_answer const integers = with_scale(x, table_of<loft::int4>(), 6.0f / 7.0f, code | 0x80, scale, t);
      float const f = error_of(floats, x, measure::squares), i = error_of(integers, x, measure::squares);
      bool const take_integers = integers_first ? i <= f : i < f;
      ++(take_integers ? fours_taken : sixes_taken);
      return take_integers ? integers : floats;
    };
  };
}

}  // namespace

TEST_CASE("IF4: floats or integers, whichever errs less") {
  fours_taken = sixes_taken = 0;
  counts const same = on_all_tensors(loft::operand<loft::if4>{}, if4_reference());
  CHECK(fours_taken > 50);
  CHECK(sixes_taken > 50);
  judge(same, on_all_tensors(loft::operand<loft::if4>{}, if4_reference(true)));
}

TEST_CASE_TEMPLATE("FP8 with a float for 128 elements, or for a tile", B, loft::fp8_1x128, loft::fp8_128x128) {
  auto const make = [](float top) -> reference_maker {
    return [=](std::vector<float> const&) {
      return [=](std::vector<float> const& x) {
        if (!all_finite(x)) return nan_block();
        float const scale = finite_amax(x) / top;
        return with_scale(x, table_of<loft::e4m3>(), 1, test::bits_of(scale), scale, {1, 1});
      };
    };
  };
  judge(on_all_tensors(loft::operand<B>{}, make(448)), on_all_tensors(loft::operand<B>{}, make(240)));
}

TEST_CASE("NVFP4 with a float for 128 elements in the place of the tensor's") {
  auto const make = [](std::uint32_t least) -> reference_maker {
    return [=](std::vector<float> const&) {
      return [=](std::vector<float> const& x) {
        if (!all_finite(x)) return nan_block();
        two_level_rule const rule{};
        tensor_factors const t = factors_of(x, rule);
        block_answer a;
        bool const zero = finite_amax(x) == 0;
        a.scale = {test::bits_of(zero ? 0.0f : t.decode)};
        for (std::size_t first = 0; first < 128; first += 16) {
          std::vector<float> run;
          for (std::size_t i = first; i < std::min(first + 16, x.size()); ++i) run.push_back(x[i]);
          std::uint32_t const code = zero ? 0 : std::max(least, two_level_scale(finite_amax(run), rule, t));
          a.scale.push_back(code);
          // Decoding multiplies with scale times outer, rounded once; there is no tensor scale.
          float const factor = static_cast<float>(table_of<loft::ue4m3>().decode(code)) * (zero ? 0.0f : t.decode);
          block_answer const part = with_scale(run, table_of<loft::e2m1>(), 1, code, factor, {1, 1});
          a.codes.insert(a.codes.end(), part.codes.begin(), part.codes.end());
          a.values.insert(a.values.end(), part.values.begin(), part.values.end());
        }
        return a;
      };
    };
  };
  judge(on_all_tensors(loft::operand<loft::double_nvfp4>{}, make(1)),
        on_all_tensors(loft::operand<loft::double_nvfp4>{}, make(0)));
}

// ---- HiF4 -------------------------------------------------------------------------------------------------------------

namespace {

// To bfloat16, nearest even, on the bits of a finite float.
float to_bf16(float x) {
  std::uint32_t const bits = test::bits_of(x);
  return test::float_of((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}

// The steps of the paper: sf in bfloat16, clamped, rounded to two mantissa bits; its inverse in bfloat16; two levels of
// one-bit exponents by comparison; magnitudes floor(4 m + 1/2) / 4, at most 1.75.
block_answer hif4_answer(std::vector<float> const& x, float half) {
  if (!all_finite(x)) return nan_block();
  block_answer a;
  float const amax = finite_amax(x);
  if (amax == 0) {
    a.scale = {0, 0, 0};
    for (float const v : x) a.codes.push_back(std::signbit(v) ? 8u : 0u), a.values.push_back(std::copysign(0.0f, v));
    return a;
  }
  float const wanted = std::clamp(to_bf16(amax * to_bf16(1.0f / 7.0f)), 0x1p-48f, 49152.0f);
  int const e = std::ilogb(wanted);
  auto const quarters = static_cast<int>(std::nearbyint(std::ldexp(wanted, 2 - e)));  // 4..8, ties to even
  std::uint32_t const top = std::min(static_cast<std::uint32_t>((e + 48) * 4 + quarters - 4), 254u);
  float const sf = std::ldexp(4.0f + static_cast<float>(top % 4), static_cast<int>(top / 4) - 50);
  float const inverse = to_bf16(1.0f / sf);
  auto const amax_of = [&](std::size_t first, std::size_t count) {
    float result = 0;
    for (std::size_t i = first; i < std::min(first + count, x.size()); ++i) result = std::max(result, std::fabs(x[i]));
    return result;
  };
  std::uint32_t eights = 0, fours = 0;
  for (std::size_t i = 0; i < 8; ++i) eights |= (amax_of(8 * i, 8) * inverse >= 4 ? 1u : 0u) << i;
  for (std::size_t i = 0; i < 16; ++i) {
    float const scaled = amax_of(4 * i, 4) * inverse / (eights >> (i / 2) & 1 ? 2.0f : 1.0f);
    fours |= (scaled >= 2 ? 1u : 0u) << i;
  }
  a.scale = {top, eights, fours};
  for (std::size_t i = 0; i < x.size(); ++i) {
    float const factor = (eights >> (i / 8) & 1 ? 2.0f : 1.0f) * (fours >> (i / 4) & 1 ? 2.0f : 1.0f);
    double const m = static_cast<double>(std::fabs(x[i]) * (inverse / factor));
    auto const magnitude = static_cast<std::uint32_t>(std::min(std::floor(m * 4 + static_cast<double>(half)), 7.0));
    a.codes.push_back(magnitude | (std::signbit(x[i]) ? 8u : 0u));
    a.values.push_back(std::copysign(static_cast<float>(magnitude) / 4 * factor * sf, x[i]));
  }
  return a;
}

}  // namespace

TEST_CASE("HiF4: the three levels in their order, from float and from bfloat16") {
  auto const make = [](float half) -> reference_maker {
    return [=](std::vector<float> const&) { return [=](std::vector<float> const& x) { return hif4_answer(x, half); }; };
  };
  loft::operand<loft::hif4> const how{};
  judge(on_all_tensors(how, make(0.5f)), on_all_tensors(how, make(0.25f)));
  counts narrow, control;
  for (content const kind : contents_here) {
    for (shape const s : shapes_here) {
      std::vector<loft::bf16_t> x;
      std::vector<float> as_float;
      for (float const v : tensor(kind, s)) {
        x.emplace_back(v);
        as_float.push_back(static_cast<float>(x.back()));
      }
      narrow.add(differences(x, as_float, s, how, make(0.5f)({})));
      control.add(differences(x, as_float, s, how, make(0.25f)({})));
    }
  }
  judge(narrow, control);
}

// ---- infinities as the largest float ----------------------------------------------------------------------------------

namespace {

// Under nonfinite::saturate a tensor with infinities is the tensor with the largest float in their place.
template <class B> counts saturated_differences(bool replace) {
  using saturating =
      loft::operand<B, loft::default_rule<B>, loft::default_rounding<B>, loft::no_rotation, nonfinite::saturate>;
  counts n;
  for (shape const s : shapes_here) {
    std::vector<float> x = tensor(content::ordinary, s), clamped = x;
    for (std::size_t i = 3; i < x.size(); i += 41) {
      x[i] = i % 2 == 0 ? test::infinity : -test::infinity;
      clamped[i] = replace ? std::copysign(float_max, x[i]) : 1.0f;
    }
    std::vector<float> a(x.size()), b(x.size());
    auto const into = [&](std::vector<float>& v) { return loft::matrix_view<float>{v.data(), s.rows, s.cols, s.cols}; };
    n.dirty += loft::fake_quantize(view_of(x, s), into(a), saturating{}) != status::ok;
    // The plain operand sees the largest float where the saturating one was given an infinity.
    n.dirty += loft::fake_quantize(view_of(clamped, s), into(b), loft::operand<B>{}) != status::ok;
    for (std::size_t i = 0; i < a.size(); ++i) n.values += !test::same(a[i], b[i]), ++n.blocks;
  }
  return n;
}

}  // namespace

TEST_CASE("nonfinite::saturate takes infinities for the largest float in every block format") {
  loft::all_block_formats::for_each([]<class B>(B) {
    CAPTURE(B::element::spec.bits());
    CAPTURE(B::shape.cols);
    if constexpr (!loft::has_tensor_scale<B>) {
      judge(saturated_differences<B>(true), saturated_differences<B>(false));
    } else {
      // The tensor's amax is taken over finite values or over saturated ones: what the policy says of it is checked here.
      counts const n = saturated_differences<B>(true);
      CHECK(n.values == 0);
      CHECK(n.dirty == 0);
    }
  });
}
