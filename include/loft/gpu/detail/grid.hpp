// SPDX-License-Identifier: Apache-2.0
// What kernels ask of the machine beside arithmetic: who they are, barriers, wide loads and stores. CUDA and HIP.
// Source: PTX ISA 9.0 (ld, st, red); clang's AMDGPU builtins.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/number/random.hpp"

namespace loft::gpu {

/// What to tell a compiler of how many blocks of threads a multiprocessor should hold. HIP's second launch bound counts
/// waves instead, and is left open.
LOFT_HOST_DEVICE constexpr int blocks_held([[maybe_unused]] int blocks) noexcept {
#if defined(__HIP__)
  return 1;
#else
  return blocks;
#endif
}

/// Bytes of shared memory that every chip of the target has for a block of threads: AMD's have 64 KiB; NVIDIA's have
/// 227 KiB on sm_90 and sm_100, and 99 on sm_86, sm_89 and sm_120.
LOFT_HOST_DEVICE constexpr int shared_bytes() noexcept {
#if defined(__HIP__)
  return 64 * 1024;
#else
  return 99 * 1024;
#endif
}

/// The number of this thread in its block, and of this block in the grid; grids have one dimension.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline int thread_index() noexcept {
#if defined(__CUDA_ARCH__)
  return static_cast<int>(threadIdx.x);
#elif defined(__HIP_DEVICE_COMPILE__)
  return static_cast<int>(__builtin_amdgcn_workitem_id_x());
#else
  return 0;
#endif
}
[[gnu::always_inline]] LOFT_HOST_DEVICE inline std::uint32_t block_index() noexcept {
#if defined(__CUDA_ARCH__)
  return blockIdx.x;
#elif defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_workgroup_id_x();
#else
  return 0;
#endif
}

/// All threads of the block have come here, and see what the others wrote to shared memory before.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline void sync_threads() noexcept {
#if defined(__CUDA_ARCH__)
  __syncthreads();
#elif defined(__HIP_DEVICE_COMPILE__)
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#endif
}

/// What this thread wrote to global memory is seen by threads that see what it writes after.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline void publish() noexcept {
#if defined(__CUDA_ARCH__)
  __threadfence();
#elif defined(__HIP_DEVICE_COMPILE__)
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
#endif
}

/// *word = max(*word, value), and the number that was there before *word + value: both in one step for all threads.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline void atomic_largest(std::uint32_t* word, std::uint32_t value) noexcept {
#if defined(__CUDA_ARCH__)
  atomicMax(word, value);
#elif defined(__HIP_DEVICE_COMPILE__)
  __hip_atomic_fetch_max(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
  *word = detail::max(*word, value);
#endif
}
template <class Word> [[gnu::always_inline]] LOFT_HOST_DEVICE inline Word atomic_add(Word* word, Word value) noexcept {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Word) == 8)
    return atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
  else return atomicAdd(word, value);
#elif defined(__HIP_DEVICE_COMPILE__)
  return __hip_atomic_fetch_add(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
  Word const before = *word;
  *word += value;
  return before;
#endif
}

/// Sixteen bytes at once, from memory that no kernel writes meanwhile. in: a multiple of 16 for an address.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline u32x4 load_16(void const* from) noexcept {
#if defined(__CUDA_ARCH__)
  u32x4 result;
  asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(result.x), "=r"(result.y), "=r"(result.z), "=r"(result.w)
      : "l"(from));
  return result;
#elif defined(__HIP_DEVICE_COMPILE__)
  using vector = std::uint32_t __attribute__((ext_vector_type(4)));
  vector const v = *static_cast<vector const*>(from);
  return {v.x, v.y, v.z, v.w};
#else
  return *static_cast<u32x4 const*>(from);
#endif
}

/// Words at once, as many as divide N: 4, 2 or 1. in: an address that is a multiple of their size.
template <int N>
[[gnu::always_inline]] LOFT_HOST_DEVICE inline void store_words(void* to, std::uint32_t const (&words)[N]) noexcept {
  auto* const out = static_cast<std::uint32_t*>(to);
#if defined(__CUDA_ARCH__)
  if constexpr (N % 4 == 0) {
    for (int i = 0; i < N; i += 4)
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(out + i), "r"(words[i]), "r"(words[i + 1]),
                   "r"(words[i + 2]), "r"(words[i + 3])
                   : "memory");
  } else if constexpr (N % 2 == 0) {
    for (int i = 0; i < N; i += 2)
      asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(out + i), "r"(words[i]), "r"(words[i + 1]) : "memory");
  } else {
    for (int i = 0; i < N; ++i) out[i] = words[i];
  }
#else
  constexpr int width = N % 4 == 0 ? 4 : (N % 2 == 0 ? 2 : 1);
  struct alignas(4 * width) group {
    std::uint32_t words[width];
  };
  for (int i = 0; i < N; i += width) {
    group g;
    for (int k = 0; k < width; ++k) g.words[k] = words[i + k];
    *reinterpret_cast<group*>(out + i) = g;
  }
#endif
}
}  // namespace loft::gpu
