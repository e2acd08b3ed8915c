// SPDX-License-Identifier: Apache-2.0
// Lanes of a warp or a wave on the CPU: a thread for each lane, and a barrier at every exchange. The number of lanes is
// the test's choice, so that code for waves of 64 runs where no such chip is.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace emulator {

/// A wave whose lanes run the same function. What one lane passes at its n-th exchange, another one receives at its own
/// n-th; lanes that make different calls are found out.
class wave {
 public:
  explicit wave(int lanes) : lanes_{lanes}, sync_{lanes}, calls_(static_cast<std::size_t>(lanes)) {
    for (auto& half : slots_) half.resize(static_cast<std::size_t>(lanes));
  }

  /// Runs body(lane) in all lanes. True if all of them made the same exchanges.
  template <class Body> bool run(Body const& body) {
    std::vector<std::thread> threads;
    for (int lane = 0; lane < lanes_; ++lane)
      threads.emplace_back([this, lane, &body] {
        body(lane);
        sync_.arrive_and_drop();
      });
    for (auto& thread : threads) thread.join();
    return same_ && std::adjacent_find(calls_.begin(), calls_.end(), std::not_equal_to<>{}) == calls_.end();
  }

  /// The value that lane (`lane` ^ mask) passes at the same call. Two sets of slots take turns: when a lane writes into
  /// one again, all have passed the barrier after reading it.
  std::uint32_t exchange(int lane, std::uint32_t value, int mask) {
    auto const own = static_cast<std::size_t>(lane), other = static_cast<std::size_t>(lane ^ mask);
    int const call = ++calls_[own];
    auto& slots = slots_[call % 2];
    slots[own] = {value, mask, call};
    sync_.arrive_and_wait();
    if (other >= slots.size() || slots[other].mask != mask || slots[other].call != call) {
      same_ = false;
      return 0xdead'beefu;
    }
    return slots[other].value;
  }

 private:
  struct slot {
    std::uint32_t value = 0;
    int mask = 0, call = 0;
  };
  int lanes_;
  std::barrier<> sync_;
  std::vector<int> calls_;
  std::vector<slot> slots_[2];
  std::atomic<bool> same_{true};
};

/// `Lanes` neighbours of an emulated wave: what device code takes for its group of lanes.
template <int Lanes> struct group {
  static constexpr int size = Lanes;
  wave* lanes;
  int lane;
  int rank() const noexcept { return lane % Lanes; }
  std::uint32_t exchange(std::uint32_t value, int mask) const noexcept { return lanes->exchange(lane, value, mask); }
};

}  // namespace emulator
