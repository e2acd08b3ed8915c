// SPDX-License-Identifier: Apache-2.0
// The instructions of native/ on a GPU against the generic functions, over their whole domains, in CUDA and HIP. Exit
// code 1 where a bit differs, 2 without a GPU. With the argument `control` one bit of what is expected is wrong: every
// comparison has to say so.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -I include tests/device/native_on_chip.cu -o native_on_chip
// hipcc -std=c++20 -O2 --offload-arch=gfx942 -I include -x hip tests/device/native_on_chip.cu -o native_on_chip
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../../examples/device_memory.hpp"
#include "loft/block.hpp"
#include "loft/block/describe.hpp"
#include "loft/core/exact.hpp"
#include "loft/native/gpu/pairs.hpp"
#include "loft/number.hpp"

namespace {

using loft::bit_cast;
using loft::Format;
namespace native = loft::native;

long long failures = 0;

/// What a kernel found: how many results it compared, and how many differed.
struct tally {
  unsigned long long compared, wrong;
};
void report(char const* what, device::array<tally> const& counts) {
  tally sum{0, 0};
  for (tally const& t : counts.download()) sum = {sum.compared + t.compared, sum.wrong + t.wrong};
  if (sum.compared == 0) std::printf("%s: this chip has no such instruction\n", what);
  else std::printf("%s: %llu results, %llu differ\n", what, sum.compared, sum.wrong);
  failures += static_cast<long long>(sum.wrong);
}

constexpr int blocks = 1024, threads = 256, lanes = blocks * threads;

LOFT_HOST_DEVICE inline std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x45d9'f3b5u;
  return (x ^ (x >> 15)) * 0x2c1b'3c6du;
}
/// A pattern as a number that F's conversion is defined for.
template <Format F> LOFT_HOST_DEVICE inline float admitted(std::uint32_t bits) {
  constexpr auto spec = F::spec;
  if (!spec.is_signed) bits &= 0x7fff'ffffu;
  return (bits & 0x7fff'ffffu) > loft::detail::float_infinity ? 1.0f : bit_cast<float>(bits);
}

/// All 2^32 floats as the first of a pair, and as the second.
template <class F> __global__ void compare_encode(tally* out, std::uint32_t flip) {
  std::uint32_t const lane = blockIdx.x * blockDim.x + threadIdx.x;
  tally t{0, 0};
  if constexpr (native::has_pair_encode<F>) {
    constexpr int bits = F::spec.bits() == 4 ? 4 : 8;
    for (std::uint64_t i = lane; i < std::uint64_t{1} << 32; i += lanes) {
      auto const pattern = static_cast<std::uint32_t>(i);
      float const x = admitted<F>(pattern), y = admitted<F>(pattern * 0x9e37'79b1u);
      std::uint32_t const expected = loft::encode<F>(x) | static_cast<std::uint32_t>(loft::encode<F>(y)) << bits;
      t.wrong += native::encode_pair<F>(x, y) != (expected ^ flip) ? 1 : 0;
      ++t.compared;
    }
  }
  out[lane] = t;
}

template <class F> __global__ void compare_decode(tally* out, std::uint32_t flip) {
  std::uint32_t const lane = blockIdx.x * blockDim.x + threadIdx.x;
  tally t{0, 0};
  if constexpr (native::has_pair_decode<F>) {
    constexpr int width = F::spec.bits() == 4 ? 4 : 8;
    constexpr std::uint32_t mask = (1u << F::spec.bits()) - 1;
    if (lane < 1u << 2 * width) {
      std::uint32_t const a = lane & ((1u << width) - 1) & mask, b = lane >> width & mask;
      float low = 0, high = 0;
      native::decode_pair<F>(static_cast<std::uint16_t>(a | b << width), low, high);
      t.compared = 1;
      t.wrong = bit_cast<std::uint32_t>(low) != (bit_cast<std::uint32_t>(loft::decode<F>(loft::code<F>(a))) ^ flip) ||
                bit_cast<std::uint32_t>(high) != bit_cast<std::uint32_t>(loft::decode<F>(loft::code<F>(b)));
    }
  }
  out[lane] = t;
}

template <class F> __global__ void compare_six_bits(tally* out, std::uint32_t flip) {
  std::uint32_t const lane = blockIdx.x * blockDim.x + threadIdx.x;
  tally t{0, 0};
  if constexpr (native::has_encode_32<F>) {
    for (std::uint64_t first = std::uint64_t{lane} * 32; first < std::uint64_t{1} << 32;
         first += lanes * std::uint64_t{32}) {
      float values[32];
      loft::code<F> codes[32];
      std::uint8_t bytes[24];
      for (int i = 0; i < 32; ++i) {
        values[i] = admitted<F>(static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i));
        codes[i] = loft::encode<F>(values[i]);
      }
      loft::pack<F>(codes, 32, bytes);
      std::uint32_t words[6];
      native::encode_32<F>(values, 1.0f, words);
      for (int i = 0; i < 24; ++i) t.wrong += (words[i / 4] >> i % 4 * 8 & 0xffu) != (bytes[i] ^ flip) ? 1 : 0;
      t.compared += 32;
    }
  }
  out[lane] = t;
}

/// Every exchange of a warp of 32, which is half of a wave of 64 or all of it.
__global__ void compare_exchange(tally* out, std::uint32_t flip) {
  std::uint32_t const lane = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t const first = lane - static_cast<std::uint32_t>(native::lane_index());
  tally t{0, 0};
  for (int mask = 1; mask < 32; ++mask) {
    std::uint32_t const other = native::exchange(mixed(lane), mask);
    std::uint32_t const expected = mixed(first + static_cast<std::uint32_t>(native::lane_index() ^ mask));
    t.wrong += other != (expected ^ flip) ? 1 : 0;
    ++t.compared;
  }
  out[lane] = t;
}

struct sums {
  float fma, saturated, fma_toward_zero, add_toward_zero;
};
/// Three numbers of like magnitudes, so that sums cancel and round.
LOFT_HOST_DEVICE inline void operands(std::uint32_t i, float* x) {
  for (std::uint32_t k = 0; k < 3; ++k) {
    std::uint32_t const bits = mixed(i * 3 + k);
    x[k] = bit_cast<float>(i % 16 == 0 ? bits : (bits & 0x81ff'ffffu) + 0x3e00'0000u);
  }
}
__global__ void compute_sums(sums* out, int* has_directed) {
  std::uint32_t const lane = blockIdx.x * blockDim.x + threadIdx.x;
  float x[3];
  operands(lane, x);
  sums s{native::fma(x[0], x[1], x[2]), native::fma_saturated(x[0], x[1], x[2]), 0, 0};
  if constexpr (native::has_directed_rounding) {
    s.fma_toward_zero = native::fma_toward_zero(x[0], x[1], x[2]);
    s.add_toward_zero = native::add_toward_zero(x[0], x[1]);
  }
  *has_directed = native::has_directed_rounding ? 1 : 0;
  out[lane] = s;
}

/// The same numbers, or both NaN.
bool same(float a, float b) {
  return bit_cast<std::uint32_t>(a) == bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

void compare_sums() {
  device::array<sums> out(lanes);
  device::array<int> directed(1);
  compute_sums<<<blocks, threads>>>(out.data, directed.data);
  device::check(LOFT_RUNTIME(GetLastError)(), "compute_sums");
  auto const found = out.download();
  bool const has_directed = directed.download()[0] != 0;
  long long wrong = 0;
  for (std::uint32_t i = 0; i < lanes; ++i) {
    float x[3];
    operands(i, x);
    float volatile a = x[0], b = x[1], c = x[2];
    wrong += same(found[i].fma, native::fma(a, b, c)) ? 0 : 1;
    wrong += found[i].saturated == native::fma_saturated(a, b, c) ? 0 : 1;
    if (!has_directed) continue;
    std::fesetround(FE_TOWARDZERO);
    float const volatile cut = std::fma(a, b, c), sum = a + b;
    std::fesetround(FE_TONEAREST);
    wrong += same(found[i].fma_toward_zero, cut) ? 0 : 1;
    wrong += same(found[i].add_toward_zero, sum) ? 0 : 1;
  }
  std::printf("sums of products%s: %d operands, %lld results differ\n", has_directed ? ", towards zero too" : "", lanes,
              wrong);
  failures += wrong;
}

/// The reciprocals of all positive floats and infinity, which take no division, against the quotients.
__global__ void compare_reciprocals(tally* out, std::uint32_t flip) {
  std::uint32_t const lane = blockIdx.x * blockDim.x + threadIdx.x;
  tally t{0, 0};
  for (std::uint32_t bits = 1 + lane; bits <= loft::detail::float_infinity; bits += lanes) {
    float const x = loft::bit_cast<float>(bits);
    std::uint32_t const quotient = loft::bit_cast<std::uint32_t>(loft::exact::divide(1.0f, x));
    std::uint32_t const found = loft::bit_cast<std::uint32_t>(loft::exact::reciprocal(x));
    ++t.compared;
    t.wrong += found != (loft::detail::min(quotient, loft::detail::float_infinity - 1) ^ flip) ? 1 : 0;
  }
  out[lane] = t;
}

/// The chip's stochastic rounding is not ours: it has to give neighbours, in the right proportion.
__global__ void compare_stochastic(tally* out, double* mean) {
  std::uint32_t const lane = blockIdx.x * blockDim.x + threadIdx.x;
  tally t{0, 0};
  mean[lane] = 0;
  if constexpr (native::has_hardware_stochastic) {
    std::uint16_t const codes = native::hardware_stochastic_e2m1x4(0.1f, 2.25f, -3.75f, 7.0f, mixed(lane));
    float x[4];
    for (int i = 0; i < 4; ++i) x[i] = loft::decode<loft::e2m1>(static_cast<std::uint8_t>(codes >> 4 * i & 15));
    t.compared = 4;
    t.wrong = (x[0] != 0.0f && x[0] != 0.5f) + (x[1] != 2.0f && x[1] != 3.0f) + (x[2] != -3.0f && x[2] != -4.0f) +
              (x[3] != 6.0f);
    mean[lane] = x[1];
  }
  out[lane] = t;
}

template <class F> void compare_format(std::uint32_t flip) {
  device::array<tally> out(lanes);
  std::printf("%s\n", loft::describe<F>().text);
  compare_encode<F><<<blocks, threads>>>(out.data, flip);
  report("  encode_pair", out);
  compare_decode<F><<<blocks, threads>>>(out.data, flip);
  report("  decode_pair", out);
  if constexpr (F::spec.bits() == 6) {
    compare_six_bits<F><<<blocks, threads>>>(out.data, flip);
    report("  encode_32", out);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t const flip = argc > 1 && std::strcmp(argv[1], "control") == 0 ? 1 : 0;
  if (!device::has()) return 2;
  loft::type_list<loft::e2m1, loft::e2m3, loft::e3m2, loft::e4m3, loft::ue4m3, loft::e5m2, loft::e4m3fnuz,
                  loft::e5m2fnuz>::for_each([=]<class F>(F) { compare_format<F>(flip); });
  device::array<tally> out(lanes);
  compare_exchange<<<blocks, threads>>>(out.data, flip);
  report("exchange", out);
  compare_sums();
  compare_reciprocals<<<blocks, threads>>>(out.data, flip);
  report("reciprocal", out);
  device::array<double> means(lanes);
  compare_stochastic<<<blocks, threads>>>(out.data, means.data);
  report("hardware_stochastic_e2m1x4", out);
  double sum = 0;
  for (double const mean : means.download()) sum += mean;
  if (sum != 0 && std::fabs(sum / lanes - 2.25) > 0.01) {
    std::printf("hardware_stochastic_e2m1x4: the mean of 2.25 is %f\n", sum / lanes);
    ++failures;
  }
  device::wait("the end");
  std::printf("%lld failures\n", failures);
  return failures == 0 ? 0 : 1;
}
