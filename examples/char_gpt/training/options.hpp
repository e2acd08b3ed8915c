// SPDX-License-Identifier: Apache-2.0
// What a run is told: the text, the model, the training, and what to write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "char_gpt/model/shape.hpp"

namespace char_gpt {

/// Where the Debian package dict-jargon puts the Jargon File.
inline constexpr char default_text[] = "/usr/share/dictd/jargon.dict.dz";

enum class task { compare, study_gnmr, study_freeze, study_wgrad, study_blocks, study_ngpt, study_league };

struct options {
  task what = task::compare;
  std::vector<std::string> recipes{"fp32", "mxfp8", "mxfp4", "nvfp4"};
  std::string text = default_text, csv, plot;
  model_shape shape;
  int steps = 1000, eval_every = 100, eval_batches = 16, threads = 0;
  double learning_rate = 3e-3, weight_decay = 0.1, clip = 1, max_memory = 2;  // the last in GiB
  double finish_from = 1;  // the share of the steps from which on every layer takes its plan's safe recipe
  std::int64_t seed = 1;
  bool quiet = false;
  std::string arch = "gpt", adam_state = "fp32";

  // of --controller gnmr; a budget of 0 is a quarter of the linear layers
  std::string controller = "none", safe = "mxfp8";
  double alpha = 1.1, beta = 1.5;
  int budget = 0;

  // of the studies
  int seeds = 3;
  std::vector<int> bits{4, 2};
};

/// The linear layers that a controller may have on the safe path: as many as the option says, or a quarter of them.
int budget_of(options const& o) noexcept;

/// Turns options for one architecture into those for another, with its learning rate and its weight decay.
void set_architecture(options& o, architecture arch) noexcept;

}  // namespace char_gpt
