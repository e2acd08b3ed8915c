// SPDX-License-Identifier: Apache-2.0
// A tensor: views, layouts of scales, quantize, dequantize, fake_quantize.
#pragma once

#include "loft/block.hpp"
#include "loft/core/status.hpp"
#include "loft/tensor/layout.hpp"
#include "loft/tensor/quantize.hpp"
#include "loft/tensor/quantized.hpp"
#include "loft/tensor/view.hpp"
