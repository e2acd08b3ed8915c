// SPDX-License-Identifier: Apache-2.0
// Questions that take many trainings; each prints a table and writes the files that the options name.
#pragma once

#include <iosfwd>

#include "char_gpt/support/thread_pool.hpp"
#include "char_gpt/training/options.hpp"
#include "char_gpt/training/text.hpp"

namespace char_gpt {

/// What GNMR is worth where activations are kept for the backward pass in few bits: against those bits alone, against 8
/// bits, and against two other ways to choose which layers keep 8 bits.
void study_gnmr(options const& o, split_text const& text, thread_pool& pool, std::ostream& out);

/// Weights that are stored in few bits without a copy in float: the step at which they were said to freeze, and at which
/// they did.
void study_freeze(options const& o, split_text const& text, thread_pool& pool, std::ostream& out);

/// MXFP4 product by product: what each one costs in loss and tokens, and what mends the weights' gradient.
void study_wgrad(options const& o, split_text const& text, std::ostream& out);

/// Blocks along rows against square tiles of four sizes, on all operands and on weights alone, at two learning rates.
void study_blocks(options const& o, split_text const& text, std::ostream& out);

/// GPT and nGPT in NVFP4, with and without rotation and tensor scale, and the noise of dot products by their length.
void study_ngpt(options const& o, split_text const& text, std::ostream& out);

/// All recipes.
void study_league(options const& o, split_text const& text, std::ostream& out);

}  // namespace char_gpt
