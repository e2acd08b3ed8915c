// SPDX-License-Identifier: Apache-2.0
// Stands in for the facade of this name under compilers of HIP: the kernels without CUDA's storage types, of which these
// know nothing.
#pragma once

#include "loft/gnmr.hpp"
#include "loft/gpu/cuda.hpp"
#include "loft/tensor.hpp"
