// SPDX-License-Identifier: Apache-2.0
// Speed of the host path on one core and on two, as a ratio to a copy of the same input. docs/performance.md has the table.
//
// Counters: `ratio` is (bytes read and written a second) / (bytes a second of a memcpy of the input, read and written),
// `target` what it should reach. Copy and work take turns, are timed in CPU time of the thread, and the best of each
// counts. Every result is compared with scalar code on poisoned outputs before the clock runs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "loft/loft.hpp"

namespace {

using loft::matrix_view, loft::quantized_view, loft::status;

constexpr std::int64_t rows = 4096, cols = 4096, elements = rows * cols;
constexpr std::uint8_t poison = 0xa5;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Clock, class Work> double seconds_of(Clock clock, Work&& work) {
  double const start = clock();
  work();
  benchmark::ClobberMemory();
  return clock() - start;
}

/// Normal numbers whose blocks spread over nine binades.
template <class T> std::vector<T> const& input() {
  static std::vector<T> const values = [] {
    std::mt19937_64 random{7};
    std::normal_distribution<float> normal;
    std::vector<T> result(elements);
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = T{normal(random) * static_cast<float>(1 << (i / 32 % 9))};
    return result;
  }();
  return values;
}

struct cost {
  double target, read, written;  // bytes an element
};

/// Times `work` and a copy of `input_bytes` in turns.
template <class Work>
void compare_with_copy(benchmark::State& state, cost c, std::size_t input_bytes, void const* from, Work&& work) {
  std::vector<std::uint8_t> copy(input_bytes, poison);
  double best_copy = 1e9, best = 1e9;
  for (auto _ : state) {
    best_copy = std::min(best_copy, seconds_of(thread_seconds, [&] { std::memcpy(copy.data(), from, input_bytes); }));
    double const seconds = seconds_of(thread_seconds, work);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  double const n = static_cast<double>(elements), moved = (c.read + c.written) * n / best;
  double const copied = 2 * static_cast<double>(input_bytes) / best_copy;
  state.counters["ratio"] = moved / copied;
  state.counters["target"] = c.target;
  state.counters["Melem/s"] = n / best / 1e6;
  state.counters["copy_GB/s"] = copied / 1e9;
}

/// What quantize must give, from the scalar functions alone: the scale of every block, then each of its numbers.
template <class Operand, class T>
bool equals_scalar(std::vector<T> const& values, Operand const& how, float tensor_decode, std::uint8_t const* codes,
                   loft::code<typename Operand::format::scale> const* scales) {
  using format = typename Operand::format;
  using element = typename format::element;
  constexpr std::int64_t high = format::shape.rows, wide = format::shape.cols, width = element::spec.bits();
  loft::tensor_scale t{};
  if constexpr (loft::has_tensor_scale<format>) t = loft::tensor_scale_for<format>(how.rule.amax);
  if (t.decode != tensor_decode) return false;
  for (std::int64_t top = 0; top < rows; top += high) {
    for (std::int64_t left = 0; left < cols; left += wide) {
      std::vector<float> block;
      for (std::int64_t i = top * cols + left; i < (top + high) * cols; i += cols) {
        std::size_t const first = block.size();
        for (std::int64_t k = 0; k < wide; ++k)
          block.push_back(static_cast<float>(values[static_cast<std::size_t>(i + k)]));
        how.rotation.apply(block.data() + first);
      }
      float amax = 0;
      for (float value : block) amax = std::max(amax, value < 0 ? -value : value);
      auto const scale = how.rule.template scale<format>(amax, t);
      if (scales[top / high * (cols / wide) + left / wide] != scale) return false;
      float const inverse = 1.0f / (loft::decode<typename format::scale>(scale) * t.decode);
      for (std::int64_t k = 0; k < high * wide; ++k) {
        std::int64_t const at = (top + k / wide) * cols + left + k % wide;
        auto const code = loft::encode<element>(block[static_cast<std::size_t>(k)] * inverse, how.rounding,
                                                static_cast<std::uint64_t>(at));
        if ((codes[at * width / 8] >> (at * width % 8) & ((1 << width) - 1)) != code) return false;
      }
    }
  }
  return true;
}

template <class Operand, class T> void quantize(benchmark::State& state, double target, Operand how) {
  using format = typename Operand::format;
  using scale = loft::code<typename format::scale>;
  auto const& values = input<T>();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(loft::codes_bytes<format>(rows, cols)), poison);
  std::vector<scale> scales(static_cast<std::size_t>(loft::scale_count<format>(rows, cols)), scale{poison});
  float tensor_decode = 1;
  matrix_view<T const> const in{values.data(), rows, cols, cols};
  quantized_view<format> const out{codes.data(), scales.data(), &tensor_decode, rows, cols};
  if (loft::quantize<Operand>(in, out, how) != status::ok ||
      !equals_scalar(values, how, tensor_decode, codes.data(), scales.data()))
    return state.SkipWithError("differs from the scalar code");
  double const n = static_cast<double>(elements);
  cost const c{target, sizeof(T), static_cast<double>(codes.size() + scales.size() * sizeof(scale)) / n};
  compare_with_copy(state, c, values.size() * sizeof(T), values.data(),
                    [&] { benchmark::DoNotOptimize(loft::quantize<Operand>(in, out, how)); });
}

template <class Operand> void dequantize(benchmark::State& state, double target, Operand how) {
  using format = typename Operand::format;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(loft::codes_bytes<format>(rows, cols)));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(loft::scale_count<format>(rows, cols)));
  std::vector<float> values(elements, -1e30f);
  auto const& source = input<float>();
  quantized_view<format> const view{codes.data(), scales.data(), nullptr, rows, cols};
  matrix_view<float> const out{values.data(), rows, cols, cols};
  quantized_view<format const> const coded = view;
  bool good =
      loft::quantize<Operand>(matrix_view<float const>{source.data(), rows, cols, cols}, view, how) == status::ok;
  good = good && loft::dequantize<Operand>(coded, out, how) == status::ok;
  for (std::size_t i = 0; good && i < values.size(); ++i)
    good = values[i] ==
           loft::decode<loft::e2m1>(codes[i / 2] >> (i % 2 * 4) & 15) * loft::decode<loft::e8m0>(scales[i / 32]);
  if (!good) return state.SkipWithError("differs from the scalar code");
  double const n = static_cast<double>(elements);
  cost const c{target, static_cast<double>(codes.size() + scales.size()) / n, sizeof(float)};
  compare_with_copy(state, c, values.size() * sizeof(float), source.data(),
                    [&] { benchmark::DoNotOptimize(loft::dequantize<Operand>(coded, out, how)); });
}

void rotate(benchmark::State& state, double target) {
  auto const& source = input<float>();
  std::vector<float> values(elements, -1e30f);
  auto const work = [&] {
    for (std::size_t i = 0; i < source.size(); i += 32) {
      float run[32];
      std::memcpy(run, &source[i], sizeof run);
      loft::hadamard<32>{}.apply(run);
      std::memcpy(&values[i], run, sizeof run);
    }
  };
  work();
  for (std::size_t i = 0; i < source.size(); i += 32) {
    double sum[2] = {};  // the first and the last number of the run, from the matrix
    for (std::size_t k = 0; k < 32; ++k) {
      sum[0] += static_cast<double>(source[i + k]);
      sum[1] += static_cast<double>(source[i + k]) * (__builtin_popcountll(k) % 2 == 0 ? 1 : -1);
    }
    double const first = sum[0] / 5.656854249492381 - static_cast<double>(values[i]);
    double const last = sum[1] / 5.656854249492381 - static_cast<double>(values[i + 31]);
    if (std::max(first * first, last * last) > 1e-3 * 1e-3 * 512) return state.SkipWithError("is not the transform");
  }
  compare_with_copy(state, {target, 4, 4}, values.size() * sizeof(float), source.data(), work);
}

void convert(benchmark::State& state, double target) {
  auto const& source = input<float>();
  std::vector<std::uint16_t> codes(elements, 0xa5a5);
  auto const work = [&] { loft::encode<loft::bf16>(source.data(), elements, codes.data()); };
  work();
  for (std::size_t i = 0; i < source.size(); ++i)
    if (codes[i] != loft::encode<loft::bf16>(source[i])) return state.SkipWithError("differs from the scalar code");
  compare_with_copy(state, {target, 4, 2}, source.size() * sizeof(float), source.data(), work);
}

/// Rows shared out to two threads, against all of them in one: in wall-clock time, because that is what threads are
/// for. Many turns, so that some find both cores free.
template <class Operand> void scale_to_threads(benchmark::State& state, double target, Operand how) {
  auto const& values = input<float>();
  std::vector<std::uint8_t> codes(elements / 2, poison), one(elements / 2), scales(elements / 32, poison);
  matrix_view<float const> const in{values.data(), rows, cols, cols};
  quantized_view<loft::mxfp4> const out{codes.data(), scales.data(), nullptr, rows, cols};
  auto const part = [&](std::int64_t first, std::int64_t count) {
    benchmark::DoNotOptimize(loft::quantize(in, out, how, {first, count}));
  };
  std::atomic<int> turn{0};
  std::thread other{[&] {
    for (int seen = 0;;) {
      while (turn.load() == seen) {}
      if ((seen = turn.load()) < 0) return;
      if (seen % 2 == 1) {
        part(rows / 2, rows / 2);
        turn.store(++seen);
      }
    }
  }};
  auto const both = [&] {
    turn.fetch_add(1);
    part(0, rows / 2);
    while (turn.load() % 2 == 1) {}
  };
  part(0, rows);
  one = codes;
  std::fill(codes.begin(), codes.end(), poison);
  both();
  double best_one = 1e9, best_two = 1e9;
  for (auto _ : state) {
    best_one = std::min(best_one, seconds_of(wall_seconds, [&] { part(0, rows); }));
    double const seconds = seconds_of(wall_seconds, both);
    best_two = std::min(best_two, seconds);
    state.SetIterationTime(seconds);
  }
  turn.store(-1);
  other.join();
  if (codes != one) return state.SkipWithError("two threads give other codes than one");
  state.counters["ratio"] = best_one / best_two;
  state.counters["target"] = target;
  state.counters["Melem/s"] = static_cast<double>(elements) / best_two / 1e6;
}

template <class Function, class... Arguments>
void add(char const* name, int iterations, Function function, Arguments... arguments) {
  benchmark::RegisterBenchmark(name, [=](benchmark::State& state) { function(state, arguments...); })
      ->Iterations(iterations)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void add_all() {
  using namespace loft;
  using rotated = operand<mxfp4, ocp_floor, nearest_even, hadamard<32>>;
  using random = operand<mxfp4, ocp_floor, stochastic<8>>;
  add("float to MXFP4, nearest", 40, quantize<operand<mxfp4>, float>, 0.65, operand<mxfp4>{});
  add("bf16 to MXFP4, nearest", 40, quantize<operand<mxfp4>, bf16_t>, 0.50, operand<mxfp4>{});
  add("float to NVFP4, amax known", 40, quantize<operand<nvfp4>, float>, 0.50,
      operand<nvfp4>{two_level{1000.0f}, {}, {}});
  add("float to MXFP8, nearest", 40, quantize<operand<mxfp8_e4m3>, float>, 0.60, operand<mxfp8_e4m3>{});
  add("float to MXFP4, stochastic<8>", 40, quantize<random, float>, 0.22, random{{}, {11, 22}, {}});
  add("MXFP4 to float", 40, dequantize<operand<mxfp4>>, 0.65, operand<mxfp4>{});
  add("float to MXFP4, 32 x 32 tiles", 40, quantize<operand<square<mxfp4, 32>>, float>, 0.45,
      operand<square<mxfp4, 32>>{});
  add("hadamard<32>, float", 40, rotate, 0.90);
  add("hadamard<32>, then MXFP4", 40, quantize<rotated, float>, 0.40, rotated{});
  add("float to bf16, nearest", 40, convert, 0.80);
  add("float to MXFP4, two threads", 400, scale_to_threads<operand<mxfp4>>, 1.8, operand<mxfp4>{});
  add("float to MXFP4, stochastic<8>, two threads", 200, scale_to_threads<random>, 1.8, random{{}, {11, 22}, {}});
}

}  // namespace

int main(int argc, char** argv) {
  add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
