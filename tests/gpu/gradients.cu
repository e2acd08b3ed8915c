// SPDX-License-Identifier: Apache-2.0
// Gradient estimators, outliers, residuals, learnable scales and second moments in a thread of a GPU against the host,
// to the bit.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude tests/gpu/gradients.cu -o gradients && ./gradients
// Exit code 1 where a bit differs, 2 without a GPU.
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "../../examples/device_memory.hpp"
#include "loft/loft.hpp"

using namespace loft;

namespace {

constexpr int rows = 32, cols = 192, size = rows * cols;

// Everything that a job reads and writes, in one piece.
struct arena {
  float x[size], y[size], scales[size];
  std::uint8_t bytes[size], scale_bytes[size];
  double work[size];
  sparse_element list[size];
  std::int64_t count;
  double numbers[8];
  status outcome;

  LOFT_HOST_DEVICE matrix_view<float const> in() const { return {x, rows, cols, cols}; }
  LOFT_HOST_DEVICE matrix_view<float> out() { return {y, rows, cols, cols}; }
};

template <class Job> __global__ void run(arena* a, Job job) { a->outcome = job(*a); }

long failures = 0;

template <class Job> void compare(char const* what, arena const& start, Job job) {
  device::array<arena> const memory(&start, 1);
  run<<<1, 1>>>(memory.data, job);
  device::check(cudaGetLastError(), what);
  std::vector<arena> got = memory.download(), expected{start};
  expected[0].outcome = job(expected[0]);
  bool const equal = std::memcmp(&got[0], &expected[0], sizeof(arena)) == 0;
  bool const changed = std::memcmp(&got[0], &start, sizeof(arena)) != 0;
  bool const ok = got[0].outcome == status::ok;
  if (!equal || !changed || !ok) ++failures;
  std::printf("%s: %s%s%s\n", what, equal ? "the same bits" : "DIFFERENT BITS", changed ? "" : ", NOTHING WRITTEN",
              ok ? "" : ", REFUSED");
}

template <class Operand, class E> struct estimate {
  LOFT_HOST_DEVICE status operator()(arena& a) const { return estimate_gradient(a.out(), a.in(), Operand{}, E{}); }
};

template <class Operand> struct mask {
  LOFT_HOST_DEVICE status operator()(arena& a) const {
    clip_mask const bits{a.bytes, rows, cols};
    status const s = save_clip_mask(a.in(), bits, Operand{});
    return s == status::ok ? apply_clip_mask(a.out(), bits, Operand{}) : s;
  }
};

template <class Decorated> struct fake {
  LOFT_HOST_DEVICE status operator()(arena& a) const { return fake_quantize(a.in(), a.out(), Decorated{}); }
};

struct list {
  LOFT_HOST_DEVICE status operator()(arena& a) const {
    clamp_range range{};
    status const s = find_clamp_range(a.in(), range, 0.95);
    return s == status::ok ? list_outliers(a.in(), range, a.list, size, a.count) : s;
  }
};

struct half_of_residual {
  LOFT_HOST_DEVICE status operator()(arena& a) const {
    with_residual<operand<mxfp4>, half_of_columns> how{};
    how.select = {a.work, size};
    return fake_quantize(a.in(), a.out(), how);
  }
};

struct learn {
  LOFT_HOST_DEVICE status operator()(arena& a) const {
    scale_tiles const tiles{1, 32};
    if (status const s = initial_scales<loft::int4>(a.in(), tiles, a.scales); s != status::ok) return s;
    return learned_gradients<loft::int4>(a.in(), tiles, a.scales, a.out(), a.scales + size / 2);
  }
};

template <class B, moment_storage S, class R = nearest_even> struct moments {
  LOFT_HOST_DEVICE status operator()(arena& a) const {
    second_moment<operand<B, default_rule<B>, R>, S> const how{};
    quantized_view<B> const stored{a.bytes, a.scale_bytes, a.scales, rows, cols};
    status const s = store_second_moment(a.in(), stored, how);
    return s == status::ok ? load_second_moment(stored, a.out(), how) : s;
  }
};

struct ratio {
  LOFT_HOST_DEVICE status operator()(arena& a) const {
    gradient_noise_samples samples{a.work, size};
    samples.add(a.x, a.y);
    samples.add(a.x, a.y);
    a.numbers[0] = samples.result().ratio();
    a.numbers[1] = one_gradient_to_noise(a.x, a.y, size).risk();
    return status::ok;
  }
};

}  // namespace

int main() {
  if (!device::has()) return 2;
  static arena start{};
  std::mt19937_64 random{29};
  std::normal_distribution<float> normal;
  for (int i = 0; i < size; ++i) {
    start.x[i] = normal(random) * (i % 37 == 0 ? 40.0f : 1.0f);
    start.y[i] = normal(random);
  }
  using rotated = operand<nvfp4, two_level, nearest_even, hadamard<16>>;
  compare("differentiable, mxfp4", start, estimate<operand<mxfp4>, differentiable_estimator>{});
  compare("differentiable, nvfp4", start, estimate<operand<nvfp4>, differentiable_estimator>{});
  compare("differentiable, rotated", start, estimate<rotated, differentiable_estimator>{});
  compare("differentiable, hif4", start, estimate<operand<hif4>, differentiable_estimator>{});
  compare("clip mask", start, mask<operand<mxfp4, quest_scale>>{});
  compare("clip mask, rotated", start, mask<rotated>{});
  compare("clamped", start, fake<clamped<operand<nvfp4>>>{});
  compare("sparse residual", start, list{});
  compare("residual, 2:4", start, fake<with_residual<operand<nvfp4>, two_of_four>>{});
  compare("residual, half of the columns", start, half_of_residual{});
  compare("learnable scales", start, learn{});
  compare("moments, roots", start, moments<mx_moment4, moment_storage::root>{});
  compare("moments, direct", start, moments<nv_moment4, moment_storage::direct, stochastic<>>{});
  compare("gradient to noise", start, ratio{});
  return failures == 0 ? 0 : 1;
}
