// SPDX-License-Identifier: Apache-2.0
// Recipes: how the six operands of a linear layer are quantized, by name or by type, in which layers and when.
#pragma once

#include "loft/tensor.hpp"
#include "loft/train/recipe.hpp"
#include "loft/train/recipes.hpp"
