// SPDX-License-Identifier: Apache-2.0
// The emulated product of two operands, quantized or not, and its accumulators.
#pragma once

#include "loft/product/accumulator.hpp"
#include "loft/product/matmul.hpp"
#include "loft/product/operand_rows.hpp"
#include "loft/tensor.hpp"
