// SPDX-License-Identifier: Apache-2.0
// What training asks for beside recipes: gradient estimators, outliers, residuals, learnable scales, second moments
// and diagnostics.
#pragma once

#include "loft/tensor.hpp"
#include "loft/train/diagnostics.hpp"
#include "loft/train/estimator.hpp"
#include "loft/train/learnable_scale.hpp"
#include "loft/train/noise.hpp"
#include "loft/train/outliers.hpp"
#include "loft/train/residual.hpp"
#include "loft/train/second_moment.hpp"
