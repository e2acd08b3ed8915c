// SPDX-License-Identifier: Apache-2.0
// Cost of the GNMR controller from 10 to 1 000 000 units on one core, and of the norms as a ratio to a copy.
//
// controller/<what>/<units>: `ns/unit` is the best step, in CPU time of the thread; `target` what it should stay below.
//   calm: no candidate; budget: every second unit is a candidate, a quarter of them gets a place; equal: every unit is
//   a candidate of the same risk; deep: the selection needs all eight digits, its worst case. Small numbers of units are
//   timed as many controllers after one another, 10 000 units in all.
// norm/<type>: `ratio` is the time of a copy of the same tensor over the time of its norm, in turns.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <random>
#include <span>
#include <vector>

#include "loft/gnmr.hpp"
#include "loft/number.hpp"

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work> double seconds_of(Work&& work) {
  double const start = thread_seconds();
  work();
  benchmark::ClobberMemory();
  return thread_seconds() - start;
}

enum class load { calm, budget, equal, deep };

/// Norms of one step; `round` makes them move around 1.
std::vector<double> norms_of(load what, std::size_t units, std::uint64_t round) {
  std::mt19937_64 random{round};
  std::uniform_real_distribution<double> noise{0.95, 1.05}, spike{2.0, 9.0};
  std::vector<double> norms(units, 1.0);
  for (std::size_t i = 0; i < units; ++i) {
    if (what == load::calm) norms[i] = noise(random);
    if (what == load::budget) norms[i] = i % 2 == 0 ? spike(random) : noise(random);
    if (what == load::deep) norms[i] = 1.0 + 0x1p-52 * static_cast<double>(random() % 256);
  }
  if (what == load::deep) norms[0] = 1e300;  // the first digit tells it from the others, the last one those apart
  return norms;
}

void controller(benchmark::State& state, load what) {
  auto const units = static_cast<std::size_t>(state.range(0));
  bool const everyone = what == load::equal || what == load::deep;  // thresholds below 1: all are candidates
  loft::gnmr<> const control{{.alpha = everyone ? 0.5 : 1.1,
                              .beta = everyone ? 0.5 : 1.5,
                              .max_active = static_cast<int>(std::max<std::size_t>(units / 8, 1))}};
  std::size_t const groups = std::max<std::size_t>(10'000 / units, 1);
  std::vector<double> const quiet(units, 1.0), norms = norms_of(what, units, 1);
  auto const nothing = [](std::int64_t, double) {};
  std::vector<loft::gnmr_unit> settled(units * groups);
  auto const group = [&](std::vector<loft::gnmr_unit>& all, std::size_t g) {
    return std::span{all}.subspan(g * units, units);
  };
  for (std::size_t g = 0; g < groups; ++g)
    for (int i = 0; i < 8; ++i) (void)control.step(group(settled, g), quiet, nothing);
  std::vector<loft::gnmr_unit> now;
  double best = 1e9;
  std::int64_t active = 0;
  for (auto _ : state) {
    now = settled;
    double const seconds = seconds_of([&] {
      for (std::size_t g = 0; g < groups; ++g) active = control.step(group(now, g), norms, nothing).active;
    });
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  if ((what == load::calm) != (active == 0)) state.SkipWithError("the load is not what its name says");
  state.counters["ns/unit"] = best * 1e9 / static_cast<double>(units * groups);
  state.counters["target"] = 25;
  state.counters["active"] = static_cast<double>(active);
}

template <class T> void norm(benchmark::State& state) {
  auto const count = static_cast<std::size_t>(state.range(0));
  std::mt19937_64 random{7};
  std::normal_distribution<float> normal;
  std::vector<T> values(count), copy(count);
  for (T& x : values) x = T{normal(random)};
  double best = 1e9, best_copy = 1e9;
  loft::norm_partial partial;
  for (auto _ : state) {
    best_copy = std::min(
        best_copy, seconds_of([&] { std::memcpy(static_cast<void*>(copy.data()), values.data(), count * sizeof(T)); }));
    double const seconds =
        seconds_of([&] { partial = loft::partial_norm(values.data(), static_cast<std::int64_t>(count)); });
    benchmark::DoNotOptimize(partial);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["GB/s"] = static_cast<double>(count * sizeof(T)) / best / 1e9;
  state.counters["ratio"] = best_copy / best;
}

void all_sizes(benchmark::internal::Benchmark* b) { b->RangeMultiplier(10)->Range(10, 1'000'000)->UseManualTime(); }

BENCHMARK_CAPTURE(controller, calm, load::calm)->Apply(all_sizes);
BENCHMARK_CAPTURE(controller, budget, load::budget)->Apply(all_sizes);
BENCHMARK_CAPTURE(controller, equal, load::equal)->Apply(all_sizes);
BENCHMARK_CAPTURE(controller, deep, load::deep)->Apply(all_sizes);
BENCHMARK_TEMPLATE(norm, float)->Arg(16384)->Arg(1 << 25)->UseManualTime();
BENCHMARK_TEMPLATE(norm, loft::bf16_t)->Arg(16384)->Arg(1 << 25)->UseManualTime();
BENCHMARK_TEMPLATE(norm, loft::fp16_t)->Arg(16384)->Arg(1 << 25)->UseManualTime();

}  // namespace

BENCHMARK_MAIN();
