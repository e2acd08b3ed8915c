// SPDX-License-Identifier: Apache-2.0
// What follows from one option for another.
#include "char_gpt/training/options.hpp"

namespace char_gpt {

int budget_of(options const& o) noexcept {
  int const units = o.shape.layers * linears_per_layer;
  return o.budget > 0 ? o.budget : (units + 3) / 4;
}

void set_architecture(options& o, architecture arch) noexcept {
  if (o.shape.arch == arch) return;
  bool const unit = arch == architecture::ngpt;
  o.shape.arch = arch;
  o.arch = unit ? "ngpt" : "gpt";
  o.learning_rate = unit ? 5e-3 : options{}.learning_rate;
  o.weight_decay = unit ? 0 : options{}.weight_decay;
}

}  // namespace char_gpt
