// SPDX-License-Identifier: Apache-2.0
// The mean of each recipe's products over 10,000 seeds: recipe_bias_test.cpp takes a fifth of them with every change.
#define LOFT_BIAS_SEEDS 10000
#include "train/recipe_bias_test.cpp"
