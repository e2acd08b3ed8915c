// SPDX-License-Identifier: Apache-2.0
// Eigen matrices as views and products of quantized operands by Eigen.
#pragma once

#include "loft/interop/eigen.hpp"
#include "loft/product.hpp"
