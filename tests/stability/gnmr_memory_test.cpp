// SPDX-License-Identifier: Apache-2.0
// A step of the GNMR controller takes no memory, not even when the budget is hit: operator new counts its calls here.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "loft/gnmr.hpp"

namespace {
long allocations = 0;
}

// Not inline: g++ 12 would see malloc and delete as a pair that does not match.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void* operator new(std::size_t size, std::nothrow_t const&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::nothrow_t const&) noexcept { std::free(memory); }

TEST_CASE("a step takes no memory") {
  loft::gnmr<> const c{{.alpha = 0.5, .max_active = 100}};
  std::vector<loft::gnmr_unit> units(5000);
  std::vector<double> norms(5000);
  std::mt19937_64 random{1};
  for (int t = 0; t < 20; ++t) {
    for (double& n : norms) n = static_cast<double>(random() % 1000);
    long const before = allocations;
    bool const hit = c.step(units, norms, [](std::int64_t, double) {}).budget_hit;
    long const after = allocations;
    CHECK(after == before);
    CHECK(hit);
  }
  CHECK(allocations > 0);
}
