// SPDX-License-Identifier: Apache-2.0
// The training of one model with one recipe, or two between which a controller chooses, and what is measured on the way.
#pragma once

#include <string>
#include <vector>

#include "controller.hpp"
#include "linear.hpp"
#include "options.hpp"
#include "text.hpp"

namespace char_gpt {

/// What is trained: every quantized linear layer starts on the path of low cost, and a controller may move it.
struct trainee {
  std::string name;
  linear<float> low_cost, safe;
  control who{};
};

struct curve_point {
  int step;
  double train_loss;       // mean over the steps since the last point; NaN at step 0
  double validation_loss;  // both in nats a byte
};

struct result {
  std::string recipe;
  std::vector<curve_point> curve;
  bool diverged = false;                 // a loss was not finite, and training ended there
  std::vector<loft::gnmr_report> steps;  // what the controller did at each; empty without one
  std::size_t units = 0;                 // that it chose for
  quantization_report quantization;      // of the trained model on the first validation batch
  double seconds = 0, step_seconds = 0;  // in all; of a training step, see trainer.cpp
};

result train(options const& o, split_text const& text, trainee const& what, thread_pool& pool);

}  // namespace char_gpt
