// SPDX-License-Identifier: Apache-2.0
// Norms and decisions that no compiler, flag or later version may change: one number over all of them.
#ifndef LOFT_TESTS_GNMR_FROZEN_HPP
#define LOFT_TESTS_GNMR_FROZEN_HPP

#include <cstdint>
#include <cstring>
#include <vector>

#include "loft/gnmr.hpp"

namespace test {

inline constexpr std::uint64_t frozen_norms = 0x8dba'b841'07d1'f906u, frozen_steps = 0x1e3d'0ed2'9bbe'20bcu;

/// Norms of tensors of every length up to 2100 and of some longer ones: floats of any bits, subnormals often.
inline std::uint64_t hash_of_norms() {
  std::vector<float> values(40000);
  std::uint32_t state = 1;
  for (float& x : values) {
    state = state * 1664525u + 1013904223u;
    std::uint32_t const bits = state >> 30 == 0 ? state & 0x807f'ffffu : state;
    std::memcpy(&x, &bits, sizeof x);
  }
  std::uint64_t hash = 0;
  auto const add = [&](std::int64_t count) {
    auto const p = loft::partial_norm(values.data(), count);
    for (double const x : {p.sum_of_squares, p.nonfinite, loft::norm_of({p.sum_of_squares, 0})})
      hash = loft::detail::mix(hash ^ loft::bit_cast<std::uint64_t>(x));
  };
  for (std::int64_t count = 0; count <= 2100; ++count) add(count);
  for (std::int64_t const count : {4095, 4096, 4097, 16383, 16384, 16385, 32768, 40000}) add(count);
  for (float& x : values) {  // and whole chunks of ordinary numbers
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof x);
    bits = (bits & 0x8fff'ffffu) | 0x3000'0000u;
    std::memcpy(&x, &bits, sizeof x);
  }
  for (std::int64_t const count : {4096, 16384, 32768, 40000}) add(count);
  return hash;
}

template <class Controller> std::uint64_t hash_of_steps(Controller const& controller) {
  std::vector<loft::gnmr_unit> units(20);
  std::vector<double> norms(20);
  std::uint64_t hash = controller.hash(), random = 1;
  for (int t = 0; t < 300; ++t) {
    for (double& n : norms) {
      random = loft::detail::mix(random + 1);
      n = static_cast<double>(random >> 40) * (random % 16 == 0 ? 8.0 : 1.0);  // exact
    }
    if (t % 7 == 0) norms[3] = loft::bit_cast<double>(loft::detail::double_infinity_bits | random % 2);
    auto const report = controller.step(units, norms, [&](std::int64_t unit, double risk) {
      hash = loft::detail::mix(hash ^ loft::bit_cast<std::uint64_t>(risk) ^ static_cast<std::uint64_t>(unit));
    });
    hash ^= loft::state_hash(units) + static_cast<std::uint64_t>(report.triggered * 64 + report.evicted);
  }
  return hash;
}

inline std::uint64_t hash_of_steps() {
  loft::gnmr_options const o{.warmup_steps = 20, .max_active = 4, .lock_steps = 2};
  return hash_of_steps(loft::gnmr<>{o}) ^ hash_of_steps(loft::gnmr<loft::exponential>{o}) ^
         hash_of_steps(loft::gnmr<loft::windowed>{o, {7}}) ^
         hash_of_steps(loft::gnmr<loft::arithmetic_mean, loft::ratio_alone>{o});
}

}  // namespace test

#endif
