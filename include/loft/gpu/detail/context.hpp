// SPDX-License-Identifier: Apache-2.0
// What a call on a GPU takes beside its tensors, and what it asks of their memory.
// Source: design section 6.
#ifndef LOFT_GPU_DETAIL_CONTEXT_HPP
#define LOFT_GPU_DETAIL_CONTEXT_HPP

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/values.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// What every call takes beside its tensors. Everything in it is the caller's; nothing is allocated or waited for.
template <class Stream>
struct context {
  Stream stream{};
  void* workspace = nullptr;         ///< device memory, a multiple of 16 for an address
  std::int64_t workspace_bytes = 0;  ///< its size: see workspace_bytes of the call
  float const* amax = nullptr;       ///< device memory: the tensor's amax, in the place of the rule's
  /// Device memory: (seed, stream), read when the kernels run. The call works with reseed(how, seed[0], seed[1]), so that
  /// a graph is captured once and replayed with other roundings, scales and signs. in: stream < 2^56; dequantize and
  /// tensor_amax have to find what quantize found.
  std::uint64_t const* seed = nullptr;
  std::uint64_t const* cols_seed = nullptr;  ///< the same for the second output of quantize_both, null for `seed`
};

/// What two-level formats keep in the workspace: the amax while it is computed, and the scale from it.
struct scale_memory {
  std::uint32_t amax, unused;
  tensor_scale scale;
};

namespace detail {

using namespace loft::detail;

inline bool is_multiple(void const* pointer, int bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<unsigned>(bytes) == 0;
}

/// True where rows of T start at multiples of 16 bytes.
template <class T>
bool rows_are_wide(matrix_view<T> m) noexcept {
  constexpr std::int64_t size = sizeof(T);
  return m.col_stride == 1 && is_multiple(m.data, 16) && (m.rows <= 1 || m.row_stride * size % 16 == 0);
}

template <class T>
inline constexpr bool is_wide_type = std::is_same_v<T, float> || std::is_same_v<T, bf16_t> || std::is_same_v<T, fp16_t>;

/// True where the caller has to bring an amax, or this call computes it.
template <class O>
bool needs_amax(O const& how) noexcept {
  if constexpr (!has_tensor_scale<typename O::format>) return false;
  else if constexpr (requires { how.rule.amax; }) return (bit_cast<std::uint32_t>(how.rule.amax) & float_sign) != 0;
  else return true;
}

}  // namespace detail

}  // namespace loft::gpu

#endif
