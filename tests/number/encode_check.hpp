// SPDX-License-Identifier: Apache-2.0
// The comparison of encode with the oracle in every rounding and both overflow modes, with its control.
#pragma once

#include <doctest/doctest.h>

#include "oracle_of.hpp"

namespace test {

using loft::overflow;

// Compares in both overflow modes; the control asks the oracle for another rounding and must see it.
template <class F, class R, class T>
void check_mode(inputs<T> const& in, R rounding, oracle::rounding mode, oracle::draw draw = {}) {
  CAPTURE(static_cast<int>(mode));
  tally const saturated = compare<F, overflow::saturate>(in, rounding, mode, oracle::overflow::saturate, draw);
  CHECK_MESSAGE(saturated.wrong == 0, "saturate: ", saturated.first());
  tally const special = compare<F, overflow::special>(in, rounding, mode, oracle::overflow::special, draw);
  CHECK_MESSAGE(special.wrong == 0, "special: ", special.first());
  using oracle::rounding;
  auto const other = mode == rounding::nearest_even ? rounding::toward_zero : rounding::nearest_even;
  CHECK(compare<F, overflow::saturate>(in, R{}, other, oracle::overflow::saturate).wrong > 0);
}

template <class F, class T> void check_nearest_and_directed(inputs<T> const& in) {
  check_mode<F>(in, loft::nearest_even{}, oracle::rounding::nearest_even);
  check_mode<F>(in, loft::upward{}, oracle::rounding::upward);
}

template <class F, class T> void check_every_mode(inputs<T> const& in) {
  check_nearest_and_directed<F>(in);
  check_mode<F>(in, loft::nearest_away{}, oracle::rounding::nearest_away);
  check_mode<F>(in, loft::nearest_upward{}, oracle::rounding::nearest_upward);
  check_mode<F>(in, loft::toward_zero{}, oracle::rounding::toward_zero);
  check_mode<F>(in, loft::away_from_zero{}, oracle::rounding::away_from_zero);
  check_mode<F>(in, loft::downward{}, oracle::rounding::downward);
  check_mode<F>(in, loft::to_odd{}, oracle::rounding::to_odd);
  check_mode<F>(in, loft::stochastic_word<8>{0xa7}, oracle::rounding::stochastic, {8, 0xa7});
  check_mode<F>(in, loft::truncated_stochastic_word<8>{0x5b}, oracle::rounding::truncated_stochastic, {8, 0x5b});
}

}  // namespace test
