// SPDX-License-Identifier: Apache-2.0
// The choice between two paths.
#include "char_gpt/training/controller.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "char_gpt/model/model.hpp"
#include "char_gpt/support/errors.hpp"

namespace char_gpt {
namespace {

std::vector<std::size_t> all_of(std::size_t units) {
  std::vector<std::size_t> order(units);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

}  // namespace

loft::gnmr_report controller::step(std::span<double const> norms) {
  loft::gnmr_report report;
  switch (how_.who) {
    case chooser::none:
      break;
    case chooser::gnmr:
      report = gnmr_.step(units_, norms, [&](int unit, double, loft::gnmr_path path) {
        safe_[static_cast<std::size_t>(unit)] = path == loft::gnmr_path::safe;
      });
      break;
    case chooser::random:
      report = take_random();
      break;
    case chooser::largest:
      report = take_largest(norms);
      break;
  }
  ++steps_;
  require_ok(report.outcome);
  return report;
}

loft::gnmr_report controller::take_largest(std::span<double const> norms) {
  for (std::size_t i = 0; i < norms.size(); ++i) sums_[i] += norms[i];
  if (steps_ + 1 < how_.watched) return {};
  if (steps_ + 1 > how_.watched) return {.active = static_cast<int>(std::count(safe_.begin(), safe_.end(), true))};
  auto order = all_of(norms.size());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sums_[a] > sums_[b]; });
  return take(order, how_.options.max_active);
}

loft::gnmr_report controller::take_random() {
  auto order = all_of(safe_.size());
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[generator_() % left]);
  auto const at = static_cast<std::size_t>(steps_);
  return take(order, at < how_.places.size() ? how_.places[at] : 0);
}

/// The first `count` of the order, and no others, take the safe path.
loft::gnmr_report controller::take(std::vector<std::size_t> const& order, int count) {
  loft::gnmr_report report{.active = std::min(count, static_cast<int>(order.size()))};
  for (std::size_t i = 0; i < order.size(); ++i) {
    bool const now = i < static_cast<std::size_t>(report.active);
    report.evicted += safe_[order[i]] && !now ? 1 : 0;
    safe_[order[i]] = now;
  }
  return report;
}

std::vector<double> unit_norms(model<float>& gpt) {
  std::vector<double> norms;
  for (auto const& unit : gpt.linears())
    norms.push_back(loft::norm_of(loft::partial_norm(gpt.gradients().data() + unit.begin, unit.size)));
  return norms;
}

}  // namespace char_gpt
