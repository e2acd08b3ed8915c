// SPDX-License-Identifier: Apache-2.0
// Mean squared errors of the quantizers on normal numbers, relative to their power, against a table of known values.
// The table was computed from the formulas of the papers, apart from this library; 2^19 numbers put the noise below 1 %.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "loft/loft.hpp"
#include "oracle_of.hpp"

namespace {

constexpr std::int64_t rows = 1024, cols = 512;

// N(0, 1) by Box and Muller.
std::vector<float> normal_numbers() {
  test::noise next{0x5eed};
  std::vector<float> x;
  while (x.size() < static_cast<std::size_t>(rows * cols)) {
    double const u = (next() + 0.5) / 4294967296.0, v = (next() + 0.5) / 4294967296.0;
    double const radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
    x.push_back(static_cast<float>(radius * std::cos(angle)));
    x.push_back(static_cast<float>(radius * std::sin(angle)));
  }
  return x;
}

template <class Operand> double relative_error(Operand const& how) {
  static std::vector<float> const x = normal_numbers();
  std::vector<float> y(x.size());
  auto const outcome = loft::fake_quantize(loft::matrix_view<float const>{x.data(), rows, cols, cols},
                                           loft::matrix_view<float>{y.data(), rows, cols, cols}, how);
  double error = 0, power = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const a = static_cast<double>(x[i]), d = static_cast<double>(y[i]) - a;
    error += d * d, power += a * a;
  }
  return outcome == loft::status::ok ? error / power : -1;
}

bool within_two_percent(double got, double expected) { return std::fabs(got - expected) <= 0.02 * expected; }

template <class Operand> double check(char const* name, double expected, Operand const& how) {
  double const got = relative_error(how);
  CHECK_MESSAGE(within_two_percent(got, expected), name, ": ", got, ", not ", expected);
  return got;
}

}  // namespace

TEST_CASE("errors on normal numbers are those of the formulas, within 2 %") {
  using namespace loft;
  using drawn = stochastic<16>;
  drawn const seed{11, 12};
  double const hif4_error = check("HiF4", 0.00688, operand<hif4>{});
  check("NVINT4", 0.00740, operand<nvint4>{});
  check("NVFP4 four over six", 0.00757, operand<nvfp4, four_over_six<>>{});
  double const nvfp4_error = check("NVFP4, ceiling 448", 0.00904, operand<nvfp4>{});
  check("NVFP4, ceiling 256", 0.00905, operand<nvfp4, two_level_256>{});
  check("MXFP4 even", 0.01248, operand<mxfp4, even_scale>{});
  double const floor_error = check("MXFP4 floor", 0.01315, operand<mxfp4>{});
  check("MXFP4 ceil", 0.01334, operand<mxfp4, ceil_scale>{});
  check("MXFP4 floor times 4/3", 0.01394, operand<mxfp4, floor_four_thirds>{});
  check("MXFP4 stochastic, even", 0.0252, operand<mxfp4, even_scale, drawn>{.rounding = seed});
  check("MXFP4 stochastic, ceil", 0.0273, operand<mxfp4, ceil_scale, drawn>{.rounding = seed});
  check("MXFP4 stochastic, floor times 4/3", 0.0282, operand<mxfp4, floor_four_thirds, drawn>{.rounding = seed});
  check("NVFP4 stochastic, ceiling 448", 0.01886, operand<nvfp4, two_level, drawn>{.rounding = seed});
  check("NVFP4 stochastic, 16/17", 0.02368, operand<nvfp4, unbiased_two_level, drawn>{.rounding = seed});
  check("MS-EDEN", 0.00971, operand<nvfp4, ms_eden<>>{.rule = {-1, 11, 12}});
  check("MS-EDEN, rotated", 0.00971,
        operand<nvfp4, ms_eden<>, nearest_even, signed_hadamard<128>>{{-1, 11, 12}, {}, {0x9f1e'57c3'a0b6'd7e8}});
  // The control: formats that lie 3 % apart or more are told apart.
  CHECK(!within_two_percent(floor_error, 0.01248));
  CHECK(!within_two_percent(hif4_error, 0.00740));
  CHECK(!within_two_percent(nvfp4_error, 0.00757));
}
