// SPDX-License-Identifier: Apache-2.0
// A trainer's own kernel: RMSNorm of bfloat16 rows, and the quantizer behind it in the same registers. The norm's output
// is never written to memory; what leaves the kernel are codes and scales, to the bit those of norming first and calling
// loft::quantize then, which the program checks.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude examples/fused_rmsnorm_quantize.cu -o fused && ./fused
// Exit code 0 where all bits agree, 1 where one differs, 2 without a GPU.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "device_memory.hpp"
#include "loft/block.hpp"
#include "loft/loft.hpp"

namespace {

constexpr int lanes = 32;  // of a warp, which has one row
constexpr int part = 16;   // neighbours that a lane holds: two lanes a block of MXFP4, one lane a block of NVFP4
constexpr float epsilon = 1e-5f;

/// Sixteen numbers that are loaded at once.
struct alignas(16) numbers {
  loft::bf16_t values[part];
};

// The arithmetic of the norm, the same on both sides: every rounding is written down, so the bits are a matter of order.

LOFT_HOST_DEVICE inline float add_squares(float sum, numbers const& x) {
  for (int i = 0; i < part; ++i) sum = fmaf(static_cast<float>(x.values[i]), static_cast<float>(x.values[i]), sum);
  return sum;
}
LOFT_HOST_DEVICE inline float norm_factor(float sum, std::int64_t cols) {
  return 1.0f / sqrtf(sum / static_cast<float>(cols) + epsilon);
}
LOFT_HOST_DEVICE inline void normalize(numbers const& x, numbers const& weight, float factor, float (&out)[part]) {
  for (int i = 0; i < part; ++i)
    out[i] = static_cast<float>(x.values[i]) * factor * static_cast<float>(weight.values[i]);
}

/// One warp a row; a row is a multiple of `part` long. t: the tensor's scale, for formats that have one.
template <class Operand>
__global__ void rmsnorm_quantize(loft::bf16_t const* x, loft::bf16_t const* weight, std::int64_t rows,
                                 std::int64_t cols, Operand how, loft::tensor_scale t,
                                 loft::quantized_view<typename Operand::format> out) {
  using format = typename Operand::format;
  static_assert(format::element::spec.bits() == 4 && part == 16, "a lane stores its codes as two words");
  loft::lane_group<lanes> const group;
  std::int64_t const row = (blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x) / lanes;
  if (row >= rows) return;  // a whole warp leaves
  auto const* const in = reinterpret_cast<numbers const*>(x + row * cols);
  auto const* const weights = reinterpret_cast<numbers const*>(weight);
  std::int64_t const parts = cols / part;

  float sum = 0;
  for (std::int64_t i = group.rank(); i < parts; i += lanes) sum = add_squares(sum, in[i]);
  for (int mask = 1; mask < lanes; mask *= 2)
    sum += __uint_as_float(group.exchange(__float_as_uint(sum), mask));  // a tree: all lanes get the same bits
  float const factor = norm_factor(sum, cols);

  for (std::int64_t first = 0; first < parts; first += lanes) {  // all lanes stay: they exchange what they hold
    std::int64_t const i = first + group.rank();
    float values[part] = {};
    if (i < parts) normalize(in[i], weights[i], factor, values);
    auto const index = static_cast<std::uint64_t>(row * cols + i * part);
    auto const result = loft::quantize_lanes<Operand, part>(values, how, t, index, group);
    if (i >= parts) continue;
    auto* const codes = reinterpret_cast<uint2*>(out.codes + row * (cols / 2)) + i;
    *codes = make_uint2(result.words[0], result.words[1]);
    std::int64_t const col = i * part;
    if (col % format::shape.cols == 0) out.scales[(row * cols + col) / format::shape.cols] = result.scales[0];
  }
  if constexpr (loft::has_tensor_scale<format>)
    if (row == 0 && group.rank() == 0) *out.tensor_scale = t.decode;
}

/// The same norm on the host, in the kernel's order, to floats.
std::vector<float> rmsnorm(std::vector<loft::bf16_t> const& x, std::vector<loft::bf16_t> const& weight,
                           std::int64_t cols) {
  std::vector<float> out(x.size());
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(cols)) {
    auto const load = [](loft::bf16_t const* from) {
      numbers result;
      std::copy(from, from + part, result.values);
      return result;
    };
    float sums[lanes] = {};
    for (std::int64_t i = 0; i < cols / part; ++i)
      sums[i % lanes] = add_squares(sums[i % lanes], load(&x[row] + i * part));
    for (int count = lanes; count > 1; count /= 2)
      for (int i = 0; i < count / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    float const factor = norm_factor(sums[0], cols);
    for (std::int64_t i = 0; i < cols / part; ++i) {
      float values[part];
      normalize(load(&x[row] + i * part), load(&weight[0] + i * part), factor, values);
      std::copy(values, values + part, &out[row] + i * part);
    }
  }
  return out;
}

template <class T> bool equals(device::array<T> const& mine, std::vector<T> const& other) {
  return std::memcmp(mine.download().data(), other.data(), other.size() * sizeof(T)) == 0;
}

struct problem {
  std::int64_t rows, cols;
  std::vector<loft::bf16_t> x, weight;
};

/// Runs the kernel, norms and quantizes on the host, compares. `amax`: the tensor's, known from steps before.
template <class Operand> bool agrees(char const* name, problem const& p, Operand how, [[maybe_unused]] float amax) {
  using format = typename Operand::format;
  using scale = loft::code<typename format::scale>;
  std::int64_t const rows = p.rows, cols = p.cols;
  auto const bytes = static_cast<std::size_t>(loft::codes_bytes<format>(rows, cols));
  auto const count = static_cast<std::size_t>(loft::scale_count<format>(rows, cols));

  loft::tensor_scale t{};
  if constexpr (loft::has_tensor_scale<format>) {
    how.rule.amax = amax;  // the rule and the kernel hear of the same amax
    t = loft::tensor_scale_for<format>(amax);
  }
  device::array<loft::bf16_t> const x(p.x), weight(p.weight);
  device::array<std::uint8_t> const codes(bytes);
  device::array<scale> const scales(count);
  device::array<float> const tensor_scale(1);
  auto const blocks = static_cast<unsigned>((rows * lanes + 127) / 128);
  rmsnorm_quantize<<<blocks, 128>>>(x.data, weight.data, rows, cols, how, t,
                                    {codes.data, scales.data, tensor_scale.data, rows, cols});
  device::check(cudaGetLastError(), "launch");

  auto const normed = rmsnorm(p.x, p.weight, cols);
  std::vector<std::uint8_t> right_codes(bytes);
  std::vector<scale> right_scales(count);
  std::vector<float> right_scale(1);
  loft::quantized_view<format> const right{right_codes.data(), right_scales.data(), right_scale.data(), rows, cols};
  loft::status const s = loft::quantize(loft::matrix_view<float const>{normed.data(), rows, cols, cols}, right, how);
  bool const same = s == loft::status::ok && equals(codes, right_codes) && equals(scales, right_scales) &&
                    (!loft::has_tensor_scale<format> || equals(tensor_scale, right_scale));
  std::printf("%-28s %lld x %lld: codes, scales %s\n", name, static_cast<long long>(rows), static_cast<long long>(cols),
              same ? "equal to norm-then-quantize, to the bit" : "DIFFER");
  return same;
}

problem make_problem(std::int64_t rows, std::int64_t cols) {
  std::mt19937 random{1};
  std::normal_distribution<float> normal;
  problem p{rows, cols, std::vector<loft::bf16_t>(static_cast<std::size_t>(rows * cols)),
            std::vector<loft::bf16_t>(static_cast<std::size_t>(cols))};
  for (auto& x : p.x) x = static_cast<loft::bf16_t>(normal(random) * (random() % 256 == 0 ? 30.0f : 1.0f));
  for (auto& w : p.weight) w = static_cast<loft::bf16_t>(1.0f + 0.1f * normal(random));
  return p;
}

}  // namespace

int main() {
  if (!device::has()) return 2;
  bool right = true;
  for (auto const& p : {make_problem(512, 4096), make_problem(77, 1568)}) {
    right &= agrees("MXFP4", p, loft::operand<loft::mxfp4>{}, 0);
    right &=
        agrees("MXFP4, stochastic", p, loft::operand<loft::mxfp4, loft::ocp_floor, loft::stochastic<8>>{{}, {1, 2}}, 0);
    right &= agrees("NVFP4, amax of earlier steps", p, loft::operand<loft::nvfp4>{}, 24.0f);
  }
  return right ? 0 : 1;
}
