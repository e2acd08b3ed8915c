// SPDX-License-Identifier: Apache-2.0
// One seed and one stream for all that is random in an operand: its rounding, its scales, the signs of its rotation.
// Source: design section 3, where roundings and rotations hold their seeds; arXiv 2509.25149: both operands of a
// product are rotated alike.
#pragma once

#include <cstdint>

#include "loft/rotation/rotation.hpp"

namespace loft {
namespace detail {

inline constexpr std::uint64_t scale_streams = std::uint64_t{1} << 60, sign_streams = std::uint64_t{1} << 61,
                               residual_streams = std::uint64_t{1} << 63;

}  // namespace detail

/// The rotation with the random signs of this seed and half of this stream, so that streams 2n and 2n + 1 belong to the
/// two operands of one product, which have to be rotated alike. Rotations without a seed come back as they are. in:
/// stream < 2^56.
template <Rotation R>
LOFT_HOST_DEVICE constexpr R reseed(R rotation, [[maybe_unused]] std::uint64_t seed,
                                    [[maybe_unused]] std::uint64_t stream) noexcept {
  if constexpr (requires { rotation.seed; }) rotation.seed = seed, rotation.stream = stream / 2 | detail::sign_streams;
  return rotation;
}

/// The operand with the seed and stream of all that is random in it; others come back as they are. in: stream < 2^56.
/// Roundings, scales that are rounded stochastically and residuals take the stream, a rotation as above. Each of these
/// kinds has a high bit of its own, which is none of another's when it is halved, so that none shares its random words
/// with another.
template <class O>
LOFT_HOST_DEVICE constexpr O reseed(O how, [[maybe_unused]] std::uint64_t seed,
                                    [[maybe_unused]] std::uint64_t stream) noexcept {
  static_assert(
      !requires { how.main; }, "reseed: a plan holds several recipes; reseed the one that serves");
  if constexpr (requires { how.rounding.seed; }) how.rounding.seed = seed, how.rounding.stream = stream;
  if constexpr (requires { how.rule.seed; }) how.rule.seed = seed, how.rule.stream = stream | detail::scale_streams;
  if constexpr (requires { how.rotation; }) how.rotation = reseed(how.rotation, seed, stream);
  if constexpr (requires { how.first; }) how.first = reseed(how.first, seed, stream);
  if constexpr (requires { how.then; }) how.then = reseed(how.then, seed, stream);
  if constexpr (requires { how.how; }) how.how = reseed(how.how, seed, stream);
  if constexpr (requires { how.residual; })
    how.residual = reseed(how.residual, seed, stream | detail::residual_streams);
  return how;
}

}  // namespace loft
