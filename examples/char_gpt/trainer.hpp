// SPDX-License-Identifier: Apache-2.0
// The training of one model with one recipe, and what is measured on the way.
#pragma once

#include <string>
#include <vector>

#include "linear.hpp"
#include "options.hpp"
#include "text.hpp"

namespace char_gpt {

struct curve_point {
  int step;
  double train_loss;       // mean over the steps since the last point; NaN at step 0
  double validation_loss;  // both in nats a byte
};

struct result {
  std::string recipe;
  std::vector<curve_point> curve;
  bool diverged = false;                 // a loss was not finite, and training ended there
  quantization_report quantization;      // of the trained model on the first validation batch
  double seconds = 0, step_seconds = 0;  // in all; of a training step, see trainer.cpp
};

result train(options const& o, split_text const& text, std::string const& recipe, linear<float> quantized,
             thread_pool& pool);

}  // namespace char_gpt
