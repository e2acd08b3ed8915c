// SPDX-License-Identifier: Apache-2.0
// The generic functions on a GPU against the same functions on the host, to the bit: every format, rounding and block format.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude tests/gpu/same_bits.cu -o same_bits && ./same_bits [full]
// `full` adds all 2^32 floats for e4m3, e5m2, e2m1 and e8m0. Exit code 1 where a bit differs, 2 without a GPU.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "../../examples/device_memory.hpp"
#include "loft/block.hpp"
#include "loft/block/describe.hpp"
#include "loft/loft.hpp"

using namespace loft;

namespace {

long failures = 0, compared = 0;

template <class Function> void on_all_cores(std::int64_t count, Function f) {
  unsigned const cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (unsigned core = 0; core < cores; ++core)
    threads.emplace_back([=] {
      for (std::int64_t i = count * core / cores; i < count * (core + 1) / cores; ++i) f(i);
    });
  for (auto& thread : threads) thread.join();
}

// Pattern number i of a sweep over all float patterns: an odd stride visits each once.
LOFT_HOST_DEVICE inline float pattern(std::int64_t i, std::uint32_t stride) {
  return bit_cast<float>(static_cast<std::uint32_t>(i) * stride);
}

template <Format F, overflow O, class R>
__global__ void encode_sweep(std::int64_t first, std::int64_t count, std::uint32_t stride, R rounding, code<F>* codes) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x)
    codes[i] = encode<F, O>(pattern(first + i, stride), rounding, static_cast<std::uint64_t>(i));
}

template <Format F, overflow O, class R>
void sweep(char const* what, std::int64_t total, std::uint32_t stride, R rounding) {
  std::int64_t const chunk = std::min<std::int64_t>(total, std::int64_t{1} << 28);
  device::array<code<F>> codes(chunk);
  for (std::int64_t first = 0; first < total; first += chunk) {
    std::int64_t const count = std::min(chunk, total - first);
    codes.fill(device::poison);
    encode_sweep<F, O><<<4096, 256>>>(first, count, stride, rounding, codes.data);
    device::check(cudaGetLastError(), what);
    auto const got = codes.download();
    std::vector<unsigned char> wrong(static_cast<std::size_t>(count));
    on_all_cores(count, [&, first](std::int64_t i) {
      auto const expected = encode<F, O>(pattern(first + i, stride), rounding, static_cast<std::uint64_t>(i));
      wrong[static_cast<std::size_t>(i)] = got[static_cast<std::size_t>(i)] != expected;
    });
    long differences = 0;
    for (auto each : wrong) differences += each;
    failures += differences;
    compared += count;
    if (differences != 0)
      std::printf("FAIL %s: %s: %ld of %lld codes differ\n", describe<F>().text, what, differences,
                  static_cast<long long>(count));
  }
}

template <Format F> __global__ void decode_all(std::uint32_t count, float* values) {
  for (std::uint32_t c = threadIdx.x; c < count; c += blockDim.x) values[c] = decode<F>(static_cast<code<F>>(c));
}

template <Format F> void one_format() {
  constexpr std::int64_t count = 1 << 21;
  constexpr std::uint32_t stride = 2048 * 1021 + 1;
  sweep<F, overflow::saturate>("nearest_even", count, stride, nearest_even{});
  sweep<F, overflow::special>("nearest_even, special", count, stride, nearest_even{});
  sweep<F, overflow::special>("nearest_away", count, stride, nearest_away{});
  sweep<F, overflow::special>("nearest_upward", count, stride, nearest_upward{});
  sweep<F, overflow::special>("toward_zero", count, stride, toward_zero{});
  sweep<F, overflow::special>("away_from_zero", count, stride, away_from_zero{});
  sweep<F, overflow::special>("upward", count, stride, upward{});
  sweep<F, overflow::special>("downward", count, stride, downward{});
  sweep<F, overflow::special>("to_odd", count, stride, to_odd{});
  sweep<F, overflow::saturate>("stochastic<8>", count, stride, stochastic<8>{3, 5});
  sweep<F, overflow::saturate>("stochastic<32>", count, stride, stochastic<32>{3, 5});
  if constexpr (F::spec.bits() <= 16) {
    constexpr std::uint32_t codes = 1u << F::spec.bits();
    device::array<float> values(codes);
    decode_all<F><<<1, 256>>>(codes, values.data);
    device::check(cudaGetLastError(), "decode");
    auto const got = values.download();
    for (std::uint32_t c = 0; c < codes; ++c)
      failures += bit_cast<std::uint32_t>(got[c]) != bit_cast<std::uint32_t>(decode<F>(static_cast<code<F>>(c)));
    compared += codes;
  }
}

template <class Operand>
__global__ void quantize_blocks(float const* values, std::int64_t blocks, int count, Operand how, tensor_scale t,
                                block<typename Operand::format>* out) {
  constexpr int size = Operand::format::shape.rows * Operand::format::shape.cols;
  std::int64_t const i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (i >= blocks) return;
  out[i] = quantize_block(values + i * size, count, how, t, static_cast<std::uint64_t>(i * size));
}

std::vector<float> hard_tensor(std::size_t count) {
  std::mt19937 random{7};
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::ldexp(normal(random), static_cast<int>(i / 64 % 21) - 10);
    if (i / 64 % 37 == 5) values[i] = std::ldexp(values[i], 110 - static_cast<int>(i / 64 % 11) * 24);
    if (i / 64 % 41 == 7) values[i] = 0;
    if (random() % 5003 == 0) values[i] = bit_cast<float>(0x7fc0'0000u);
    if (random() % 7001 == 0) values[i] = bit_cast<float>(0xff80'0000u);
  }
  return values;
}

template <class Operand> void one_operand(char const* what, Operand how = {}) {
  using format = typename Operand::format;
  constexpr int size = format::shape.rows * format::shape.cols;
  static auto const values = hard_tensor(std::size_t{1} << 20);
  auto const blocks = static_cast<std::int64_t>(values.size()) / size;
  tensor_scale t = detail::constant_of<Operand>();
  if constexpr (has_tensor_scale<format>) t = tensor_scale_for<format>(1000.0f);
  device::array<float> const input(values);
  for (int count : {size, format::shape.cols / 2 + 1}) {
    if (count % detail::rotation_size<Operand> != 0) continue;
    device::array<block<format>> const output(blocks);
    quantize_blocks<<<static_cast<unsigned>((blocks + 63) / 64), 64>>>(input.data, blocks, count, how, t, output.data);
    device::check(cudaGetLastError(), what);
    auto const got = output.download();
    long differences = 0;
    for (std::int64_t i = 0; i < blocks; ++i) {
      auto const expected =
          quantize_block(values.data() + i * size, count, how, t, static_cast<std::uint64_t>(i * size));
      auto const& mine = got[static_cast<std::size_t>(i)];
      differences += std::memcmp(&mine.scale, &expected.scale, sizeof mine.scale) != 0 ||
                     std::memcmp(mine.codes, expected.codes, sizeof mine.codes) != 0;
    }
    failures += differences;
    compared += blocks * count;
    if (differences != 0)
      std::printf("FAIL %s: %ld of %lld blocks differ\n", what, differences, static_cast<long long>(blocks));
  }
}

template <class Left, class Right, class A> __global__ void products(Left left, Right right, A how, float* out) {
  std::int64_t const i = blockIdx.x, j = threadIdx.x;
  out[i * right.rows() + j] = dot(left, i, right, j, how);
}

// A quantized tensor on the host and on the GPU.
template <class B> struct tensor_pair {
  static constexpr std::int64_t rows = 64, cols = 1000;
  std::vector<std::uint8_t> codes;
  std::vector<code<typename B::scale>> scales;
  std::vector<float> factor{1.0f};
  device::array<std::uint8_t> device_codes;
  device::array<code<typename B::scale>> device_scales;
  device::array<float> device_factor;

  tensor_pair()
      : codes(static_cast<std::size_t>(codes_bytes<B>(rows, cols))),
        scales(static_cast<std::size_t>(scale_count<B>(rows, cols))),
        device_codes(codes_bytes<B>(rows, cols)),
        device_scales(scale_count<B>(rows, cols)),
        device_factor(1) {
    auto const values = hard_tensor(static_cast<std::size_t>(rows * cols));
    failures += quantize(matrix_view<float const>{values.data(), rows, cols}, host(), operand<B>{}) != status::ok;
    device_codes.upload(codes);
    device_scales.upload(scales);
    device_factor.upload(factor);
  }
  quantized_view<B> host() { return {codes.data(), scales.data(), factor.data(), rows, cols}; }
  quantized_view<B> on_gpu() { return {device_codes.data, device_scales.data, device_factor.data, rows, cols}; }
};

// dot on the GPU against matmul on the host, NaN blocks and huge values among the operands.
template <class B, class A> void one_product(char const* what, A const& how) {
  constexpr std::int64_t n = tensor_pair<B>::rows;
  tensor_pair<B> left;
  tensor_pair<square<nvfp4, 16>> right;
  std::vector<float> expected(static_cast<std::size_t>(n * n));
  device::array<float> const out(n * n);
  products<<<n, n>>>(rows_of(left.on_gpu()), rows_of(right.on_gpu()), how, out.data);
  device::check(cudaGetLastError(), what);
  auto const got = out.download();
  failures += matmul(left.host(), right.host(), matrix_view<float>{expected.data(), n, n, n}, how) != status::ok;
  long differences = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    differences += bit_cast<std::uint32_t>(got[i]) != bit_cast<std::uint32_t>(expected[i]);
  failures += differences;
  compared += n * n;
  if (differences != 0)
    std::printf("FAIL %s: %ld of %ld products differ\n", what, differences, static_cast<long>(n * n));
}

}  // namespace

int main(int argc, char** argv) {
  if (!device::has()) return 2;
  all_formats::for_each([]<class F>(F) { one_format<F>(); });
  all_block_formats::for_each([]<class B>(B) {
    one_operand<operand<B>>(describe<B>().text);
    if constexpr (!requires { typename B::rule; })
      one_operand<operand<B, default_rule<B>, stochastic<8>>>(describe<B>().text, {{}, {1, 2}});
  });
  all_block_formats::for_each([]<class B>(B) {
    one_product<B>(describe<B>().text, float_accumulator{});
    one_product<B>(describe<B>().text, double_accumulator{});
    one_product<B>(describe<B>().text, chunked_accumulator<bf16, 8, fp32>{});
  });
  one_operand<operand<mxfp4, ceil_scale>>("mxfp4, ceil_scale");
  one_operand<operand<mxfp4, even_scale>>("mxfp4, even_scale");
  one_operand<operand<mxfp4, nearest_scale>>("mxfp4, nearest_scale");
  one_operand<operand<mxfp4, floor_four_thirds>>("mxfp4, floor_four_thirds");
  one_operand<operand<mxfp4, quest_scale>>("mxfp4, quest_scale");
  one_operand<operand<mxfp8_e4m3, ceil_scale, toward_zero>>("mxfp8_e4m3, ceil_scale, toward_zero");
  one_operand<operand<mxfp4, ocp_floor, nearest_even, hadamard<32>>>("mxfp4, hadamard<32>");
  one_operand<operand<nvfp4, two_level, stochastic<>, signed_hadamard<16>>>("nvfp4, stochastic, signed_hadamard<16>",
                                                                            {{}, {1, 2}, {recipes::nvfp4_signs}});
  one_operand<operand<nvfp4, four_over_six<>>>("nvfp4, four_over_six<squared_error>");
  one_operand<operand<nvfp4, four_over_six<absolute_error>>>("nvfp4, four_over_six<absolute_error>");
  one_operand<operand<nvfp4, four_over_six<maximal_error>>>("nvfp4, four_over_six<maximal_error>");
  one_operand<operand<nvfp4, unbiased_two_level_256, stochastic<>>>("nvfp4, unbiased_two_level_256");
  one_operand<operand<mxfp4, ocp_floor, nearest_even, no_rotation, nonfinite::saturate>>("mxfp4, saturate");
  one_operand<operand<square<nvfp4, 16>>>("square<nvfp4, 16>");
  if (argc > 1 && std::strcmp(argv[1], "full") == 0) {
    constexpr std::int64_t all = std::int64_t{1} << 32;
    sweep<e4m3, overflow::saturate>("all floats", all, 1, nearest_even{});
    sweep<e5m2, overflow::saturate>("all floats", all, 1, nearest_even{});
    sweep<e2m1, overflow::saturate>("all floats", all, 1, nearest_even{});
    sweep<e8m0, overflow::saturate>("all floats", all, 1, nearest_even{});
  }
  device::wait("the end");
  std::printf("%ld results compared, %ld failures\n", compared, failures);
  return failures == 0 ? 0 : 1;
}
