// SPDX-License-Identifier: Apache-2.0
// One block: block formats and their descriptions, scale rules, rotations, operands, quantize_block; and quantize_lanes
// for kernels.
#pragma once

#include "loft/block/catalogue.hpp"
#include "loft/block/describe.hpp"
#include "loft/block/operand.hpp"
#include "loft/block/quantize_block.hpp"
#include "loft/block/quantize_lanes.hpp"
#include "loft/block/reseed.hpp"
#include "loft/block/rules.hpp"
#include "loft/number.hpp"
#include "loft/rotation/rotation.hpp"
