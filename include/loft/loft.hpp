// SPDX-License-Identifier: Apache-2.0
// Everything generic: no vendor header, no allocation, no state. Beside it: describe.hpp, which makes text.
#ifndef LOFT_LOFT_HPP
#define LOFT_LOFT_HPP

#include "loft/accumulator.hpp"
#include "loft/block.hpp"
#include "loft/bulk.hpp"
#include "loft/convert.hpp"
#include "loft/diagnostics.hpp"
#include "loft/estimator.hpp"
#include "loft/formats.hpp"
#include "loft/freeze.hpp"
#include "loft/gnmr.hpp"
#include "loft/gradient_noise.hpp"
#include "loft/lane_block.hpp"
#include "loft/learnable_scale.hpp"
#include "loft/matmul.hpp"
#include "loft/minifloat.hpp"
#include "loft/norm.hpp"
#include "loft/operand_rows.hpp"
#include "loft/outliers.hpp"
#include "loft/packed.hpp"
#include "loft/random.hpp"
#include "loft/recipe.hpp"
#include "loft/recipes.hpp"
#include "loft/residual.hpp"
#include "loft/rotation.hpp"
#include "loft/rounding.hpp"
#include "loft/scaling.hpp"
#include "loft/second_moment.hpp"
#include "loft/tensor.hpp"
#include "loft/view.hpp"

#endif
