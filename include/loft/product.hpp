// SPDX-License-Identifier: Apache-2.0
// The emulated product of two operands, quantized or not, and its accumulators.
#ifndef LOFT_PRODUCT_HPP
#define LOFT_PRODUCT_HPP

#include "loft/product/accumulator.hpp"
#include "loft/product/matmul.hpp"
#include "loft/product/operand_rows.hpp"
#include "loft/tensor.hpp"

#endif
