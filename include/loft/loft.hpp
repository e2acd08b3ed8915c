// SPDX-License-Identifier: Apache-2.0
// Everything generic: all facades that need neither a vendor's header nor another library.
#pragma once

#include "loft/block.hpp"
#include "loft/gnmr.hpp"
#include "loft/number.hpp"
#include "loft/product.hpp"
#include "loft/recipes.hpp"
#include "loft/tensor.hpp"
#include "loft/train.hpp"
