// SPDX-License-Identifier: Apache-2.0
// The operators of minifloat<F> against exact results: all pairs of codes up to 8 bits, many pairs of 16.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include "loft/number.hpp"
#include "oracle_of.hpp"

namespace {

using oracle::rounding;

/// Calls f(a, b) with pairs of codes: all of them, or, for 16 bits, a million neighbours and others.
template <class F, class Function> void for_pairs(Function&& f) {
  constexpr std::uint32_t codes = 1u << F::spec.bits();
  if constexpr (codes <= 256) {
    for (std::uint32_t a = 0; a < codes; ++a)
      for (std::uint32_t b = 0; b < codes; ++b) f(a, b);
  } else {
    test::noise next{31};
    for (int i = 0; i < 1'000'000; ++i) {
      std::uint32_t const a = next() % codes, far = next() % codes, near = (a + next() % 1024 + codes - 512) % codes;
      f(a, i % 2 == 0 ? near : far);
    }
  }
}

// Sums and products of two codes are exact in double where no rounding to F depends on more; a quotient of numbers of
// p bits that is rounded to 53 >= 2 p + 2 bits first rounds to p bits as the exact one does.
template <class F> void check_arithmetic(oracle::table const& table) {
  using number = loft::minifloat<F>;
  test::tally count, control;
  for_pairs<F>([&](std::uint32_t a, std::uint32_t b) {
    double const x = table.decode(a), y = table.decode(b);
    auto const p = number::from_bits(static_cast<loft::code<F>>(a)),
               q = number::from_bits(static_cast<loft::code<F>>(b));
    struct {
      number got;
      double exact;
    } const results[] = {{p + q, x + y}, {p - q, x - y}, {p * q, x * y}, {p / q, x / y}, {-p, -x}};
    for (auto const& r : results) {
      count.add(r.exact, r.got.bits(), table.encode(r.exact));
      control.add(r.exact, r.got.bits(), table.encode(r.exact, rounding::toward_zero));
    }
    number assigned = p;
    assigned += q, assigned -= p, assigned *= q, assigned /= p;
    count.add(x, assigned.bits(), (((p + q) - p) * q / p).bits());
  });
  CHECK_MESSAGE(count.wrong == 0, count.first());
  CHECK(control.wrong > 0);
}

template <class F> int wrong_comparisons(oracle::table const& table) {
  using number = loft::minifloat<F>;
  int wrong = 0;
  for_pairs<F>([&](std::uint32_t a, std::uint32_t b) {
    double const x = table.decode(a), y = table.decode(b);
    auto const p = number::from_bits(static_cast<loft::code<F>>(a)),
               q = number::from_bits(static_cast<loft::code<F>>(b));
    wrong += (p == q) != (x == y) || (p != q) != (x != y) || (p < q) != (x < y) || (p <= q) != (x <= y) ||
             (p > q) != (x > y) || (p >= q) != (x >= y);
  });
  return wrong;
}

}  // namespace

TEST_CASE("arithmetic rounds the exact result once") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    INFO(table.name());
    check_arithmetic<F>(table);
  });
}

TEST_CASE("comparisons are those of the values") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    INFO(table.name());
    CHECK(wrong_comparisons<F>(table) == 0);
  });
}

TEST_CASE("results beyond the largest number are that number") {
  using loft::fp16_t;
  CHECK(fp16_t{65504.0f} * fp16_t{2.0f} == fp16_t{65504.0f});
  CHECK(fp16_t{1.0f} / fp16_t{0.0f} == fp16_t{65504.0f});
  CHECK(fp16_t{-1.0f} / fp16_t{0.0f} == fp16_t{-65504.0f});
  CHECK((fp16_t{0.0f} / fp16_t{0.0f}).is_nan());
}
