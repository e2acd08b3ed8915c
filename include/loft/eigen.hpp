// SPDX-License-Identifier: Apache-2.0
// Eigen matrices as views and products of quantized operands by Eigen.
#ifndef LOFT_EIGEN_HPP
#define LOFT_EIGEN_HPP

#include "loft/interop/eigen.hpp"
#include "loft/product.hpp"

#endif
