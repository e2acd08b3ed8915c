// SPDX-License-Identifier: Apache-2.0
// Who chooses between the two paths of each linear layer: nobody, GNMR, or one of the two that GNMR is compared with.
#pragma once

#include <cstdint>
#include <loft/gnmr.hpp>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace char_gpt {

template <class T> class model;  // char_gpt/model/model.hpp

enum class chooser {
  none,     // every unit stays on the path of low cost
  gnmr,     // as options say
  random,   // as many units as `places` says of the step, at random
  largest,  // after `watched` steps, for good: the units whose gradients were the largest on average
};

struct control {
  chooser who = chooser::none;
  loft::gnmr_options options{};
  std::vector<int> places{};
  int watched = 0;
  std::uint64_t seed = 0;
};

/// The paths of one model's units.
class controller {
 public:
  controller(control how, std::size_t units)
      : how_{std::move(how)}, gnmr_{how_.options}, units_(units), safe_(units), sums_(units), generator_{how_.seed} {}

  /// One step: the norms of the units' gradients, then the paths of the next step. Throws where an option is wrong.
  loft::gnmr_report step(std::span<double const> norms);

  bool safe(std::size_t unit) const noexcept { return safe_[unit]; }

 private:
  loft::gnmr_report take_largest(std::span<double const> norms);
  loft::gnmr_report take_random();
  loft::gnmr_report take(std::vector<std::size_t> const& order, int count);

  control how_;
  loft::gnmr<> gnmr_;
  std::vector<loft::gnmr_unit> units_;
  std::vector<bool> safe_;
  std::vector<double> sums_;
  std::mt19937_64 generator_;
  int steps_ = 0;
};

/// The norm of the gradient of each linear layer.
std::vector<double> unit_norms(model<float>& gpt);

}  // namespace char_gpt
