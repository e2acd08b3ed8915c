// SPDX-License-Identifier: Apache-2.0
// GNMR in a trainer: four layers learn their targets by gradient descent with coarse gradients, the cheap path. At step
// 60 the data of layer 2 change; the controller moves that layer to exact gradients, the safe path, until it is calm.
#include <cmath>
#include <cstdio>
#include <vector>

#include "loft/gnmr.hpp"

int main() {
  constexpr std::size_t layers = 4, width = 1000;
  std::vector<std::vector<float>> weights(layers, std::vector<float>(width)), gradients = weights;
  std::vector<loft::norm_input<float>> tensors;
  tensors.reserve(layers);
  for (auto const& g : gradients) tensors.push_back({g.data(), width});

  loft::gnmr<> const controller{{.alpha = 1.5, .max_active = 1}};
  std::vector<loft::gnmr_unit> units(layers);  // goes into the checkpoint: controller.save, controller.restore
  std::vector<loft::norm_partial> partials(layers);
  std::vector<double> norms(layers);
  std::vector<bool> safe(layers, false);

  for (int step = 0; step < 100; ++step) {
    for (std::size_t layer = 0; layer < layers; ++layer) {  // the backward pass
      for (std::size_t i = 0; i < width; ++i) {
        float const target = std::sin(static_cast<float>(i)) * (layer == 2 && step >= 60 ? -3.0f : 1.0f);
        float const exact = weights[layer][i] - target, coarse = std::round(exact * 8) / 8;
        gradients[layer][i] = safe[layer] ? exact : coarse;
      }
    }
    if (loft::partial_norms<float>(tensors, partials) != loft::status::ok) return 1;
    // With several ranks: MPI_Allreduce(MPI_IN_PLACE, partials.data(), 2 * layers, MPI_DOUBLE, MPI_SUM, ...)
    if (loft::norms_of(partials, norms) != loft::status::ok) return 1;
    auto const report = controller.step(units, norms, [&](int unit, double risk, loft::gnmr_path path) {
      auto const layer = static_cast<std::size_t>(unit);
      bool const now = path == loft::gnmr_path::safe;
      if (now != safe[layer])
        std::printf("step %d: layer %zu %s, risk %.2f\n", step, layer, now ? "safe" : "low cost", risk);
      safe[layer] = now;
    });
    if (report.outcome != loft::status::ok) return std::puts(loft::message(report.outcome)), 1;
    for (std::size_t layer = 0; layer < layers; ++layer)
      for (std::size_t i = 0; i < width; ++i) weights[layer][i] -= 0.1f * gradients[layer][i];
  }
}
