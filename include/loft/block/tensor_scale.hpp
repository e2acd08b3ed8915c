// SPDX-License-Identifier: Apache-2.0
// The scale of a whole tensor, for formats with two levels of scales, and the amax of earlier steps.
// Source: arXiv 2509.25149 appendix B; design decision 10.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"

namespace loft {

/// The factor that takes a tensor into the range of its block scales, and its inverse, each rounded to float.
struct tensor_scale {
  float encode = 1, decode = 1;
};

/// The largest finite value of F.
template <Format F> inline constexpr float largest = loft::decode<F>(static_cast<code<F>>(F::spec.max_code()));

/// True for the block formats with a float scale for the whole tensor (member `has_tensor_scale`).
template <class B> inline constexpr bool has_tensor_scale = requires { requires B::has_tensor_scale; };

namespace detail {

/// The largest element times the largest scale.
template <class B> LOFT_HOST_DEVICE constexpr float range_of() noexcept {
  static_assert(has_tensor_scale<B>, "tensor_scale_for: this block format has no scale for the whole tensor");
  if constexpr (has_tensor_scale<B>) return largest<typename B::element> * largest<typename B::scale>;
  else return 1;
}

}  // namespace detail

/// s_enc and 1/s_enc for a tensor whose largest finite magnitude is `tensor_amax`: s_enc takes it to `range`, the
/// largest element times the largest scale. It is 1 for an amax of 0, and at most the largest float.
///
/// in: a finite amax >= 0, and a format with a tensor scale; others do not compile. source: design decision 10.
template <class B>
LOFT_HOST_DEVICE constexpr tensor_scale tensor_scale_for(float tensor_amax,
                                                         float range = detail::range_of<B>()) noexcept {
  if (detail::magnitude_bits(tensor_amax) == 0) return {};
  constexpr float most = bit_cast<float>(detail::float_max);
  bool const beyond = static_cast<double>(range) >= static_cast<double>(most) * static_cast<double>(tensor_amax);
  float const encode = beyond ? most : exact::divide(range, tensor_amax);
  return {encode, exact::divide(1.0f, encode)};
}

/// The amax of the last N steps of a tensor, for scaling without a pass over it: two_level{history.amax()}.
template <int N> struct delayed_amax {
  static_assert(N >= 1, "delayed_amax: at least one step");
  float history[N] = {};
  std::int64_t steps = 0;

  /// The largest amax of the history; negative, which means "compute it", before the first push.
  LOFT_HOST_DEVICE constexpr float amax() const noexcept {
    float result = steps == 0 ? -1.0f : 0.0f;
    for (int i = 0; i < detail::min<std::int64_t>(N, steps); ++i) result = detail::max(result, history[i]);
    return result;
  }
  /// Adds this step's amax; a NaN, an infinity or a negative number is not taken in.
  LOFT_HOST_DEVICE constexpr void push(float amax) noexcept {
    if (bit_cast<std::uint32_t>(amax) < detail::float_infinity) history[steps++ % N] = amax;
  }
};

}  // namespace loft
